"""Names of parties: plain ASCII, so that two names that look alike are alike.

A name is checked where a party is made, and where a message of somebody is taken for the first time. What is on disk already (a
model, a message that it was trained with) is read whatever its names are: earlier versions allowed any printable text.
"""

from __future__ import annotations

import re
import unicodedata

from fedonce.errors import InputError

LENGTH = 100
MUST_BE = f"ASCII letters, digits, '-', '_' and '.', beginning with a letter or digit, {LENGTH} at most"
_PLAIN = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LENGTH - 1}}}")
# Letters of other scripts that are drawn like ASCII ones: Cyrillic, Greek and Armenian, below them what they look like.
_FOREIGN = "аеорсхуѕіјһԁԛԝкмтнвгАВЕКМНОРСТУХЅІЈԌԚԜοαινρκτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧօսհոզԼՕՍ"
_ALIKE = "aeopcxysijhdqwkmtnbrABEKMHOPCTYXSIJGQWoaivpktuxABEZHIKMNOPTYXouhnqLOU"
_LOOKS_LIKE = dict(zip(_FOREIGN, _ALIKE, strict=True))


class KeptName(str):
    """A name that a model on disk has: it was allowed when the model was made, and stays."""

    __slots__ = ()


def is_party_name(name: object) -> bool:
    """Tell whether something can name a party.

    >>> is_party_name("shop-2.north"), is_party_name("the shop"), is_party_name("ѕhop")
    (True, False, False)
    """
    return isinstance(name, KeptName) or (isinstance(name, str) and _PLAIN.fullmatch(name) is not None)


def kept(name: str) -> str:
    """Return a name from disk, which may be one that nobody could choose today."""
    return name if is_party_name(name) else KeptName(name)


def check_name(owner: str, parameter: str, name: object) -> None:
    """Raise InputError unless something can name a party."""
    if not is_party_name(name):
        raise InputError(f"The '{parameter}' parameter of {owner} must be {MUST_BE}. Got {why_not(name)}.")


def why_not(name: object) -> str:
    r"""Return in words what is wrong with a party's name, every character that is not ASCII escaped.

    >>> why_not("\u0455hop")
    "'\\u0455hop': '\\u0455' is CYRILLIC SMALL LETTER DZE, which looks like 's'"
    """
    if not isinstance(name, str):
        return f"{name!r}: it is no text"
    shown = ascii(name[: LENGTH + 1])
    odd = next((each for each in name if not (each.isascii() and (each.isalnum() or each in "._-"))), None)
    if odd is not None:
        return f"{shown}: {_about(odd)}"
    if not name or len(name) > LENGTH:
        return f"{shown}: it has {len(name)} characters"
    return f"{shown}: it begins with {name[0]!r}"


def _about(odd: str) -> str:
    """Return what a character is, and which plain one it could be taken for."""
    called = "a space" if odd == " " else unicodedata.name(odd, "a character without a name")
    alike = _LOOKS_LIKE.get(odd) or unicodedata.normalize("NFKC", odd)
    looks = f", which looks like {alike!r}" if _PLAIN.fullmatch(alike) else ""
    return f"{odd!a} is {called}{looks}"
