"""Ids of rows: made comparable, hashed, found again.

A row is known by its id, a text. Parties write the same id alike, or say how to make it alike (`normalise`). Between parties
an id travels as eight bytes of a keyed hash (HMAC-SHA-256), whose key the parties share and an outsider does not have; without
a key as eight bytes of a plain hash, which whoever can list the ids can guess; or as it is.
"""

from __future__ import annotations

import hashlib
import hmac
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedonce.errors import InputError, parameter_error
from fedonce.messages.keys import LEAST_SECRET

Ids = NDArray[np.object_]
Keys = NDArray[np.uint8]
WIDTH = 8  # bytes of a hash
PLAIN_WIDTH = 256  # bytes of the longest id that may travel as it is

RULES: dict[str, Callable[[str], str]] = {
    "trim": str.strip,
    "lower": str.casefold,
    "nfkc": lambda text: unicodedata.normalize("NFKC", text),
}


def parse_forms(text: str) -> tuple[str, ...]:
    """Return the rules that a text such as "trim,lower" names, in their own order.

    >>> parse_forms("lower, trim")
    ('trim', 'lower')
    """
    wanted = {part.strip() for part in text.split(",") if part.strip()}
    if not wanted <= set(RULES):
        raise parameter_error("a table", "normalise-ids", f"some of {', '.join(RULES)}, with commas", text)
    return tuple(rule for rule in RULES if rule in wanted)


def as_ids(given: object) -> Ids:
    """Return ids as texts; integers are written as in a file, and anything else is refused.

    >>> list(as_ids([7, "C8"]))
    ['7', 'C8']
    """
    made = np.asarray(given, dtype=object)
    if made.ndim != 1:
        raise InputError(
            f"The ids have shape {made.shape}; give one id per row, in one dimension (ids).", parameter="ids"
        )
    texts: Ids = np.empty(len(made), dtype=object)
    for row, each in enumerate(made):
        whole = isinstance(each, int | np.integer) and not isinstance(each, bool)
        if not (isinstance(each, str) and each) and not whole:
            kind = "an empty text" if isinstance(each, str) else f"a {type(each).__name__}"
            raise InputError(f"An id must be text or an integer. Got {kind} in row {row} (ids).", parameter="ids")
        texts[row] = str(each)
    return texts


def normalise(ids: Ids, forms: Sequence[str]) -> Ids:
    """Write ids in one form: without spaces around them ("trim"), in lower case, in Unicode's form NFKC."""
    if not forms:
        return ids
    # The Unicode form first: it can give letters that have a lower case, and spaces.
    rules = [rule for name, rule in reversed(RULES.items()) if name in forms]
    made: Ids = np.empty(len(ids), dtype=object)
    for row, text in enumerate(ids):
        for rule in rules:
            text = rule(text)
        made[row] = text
    seen: dict[str, int] = {}
    for row, text in enumerate(made):
        if not text:
            raise InputError(f"The id {ids[row]!r} is empty once it is normalised ({', '.join(forms)}); drop the row.")
        if seen.setdefault(text, row) != row:
            raise InputError(
                f"The ids {ids[seen[text]]!r} and {ids[row]!r} are the same once they are normalised ({', '.join(forms)}); "
                "keep one of the rows, or leave that rule out."
            )
    return made


def one_form(ids: Ids) -> list[str]:
    """Return ids as answers that are drawn once know them: by all rules, whatever parties agreed on.

    So another spelling of an id is the same row. Ids of one table that fall together are told apart by their own spelling.
    """
    made = [str(text) for text in ids]
    for rule in reversed(RULES.values()):
        made = [rule(text) for text in made]
    counts = Counter(made)
    return [text if counts[text] == 1 else f"{text}\n{own}" for text, own in zip(made, ids, strict=True)]


def fingerprint(secret: bytes) -> str:
    """Return 16 hex digits by which parties see that they use the same secret; they tell nothing of it."""
    return hmac.digest(secret, b"fedonce secret", "sha256").hex()[:16]


def keyed(ids: Ids, secret: bytes, run: str) -> Keys:
    """Return HMAC-SHA-256 of each id, cut to eight bytes; another run gives other hashes, so that they cannot be linked."""
    if len(secret) < LEAST_SECRET:
        raise InputError(
            f"A secret must have {LEAST_SECRET} bytes or more, this one has {len(secret)}; make one with `fedonce keys secret`."
        )
    key = hmac.digest(secret, b"fedonce ids of run " + run.encode(), "sha256")
    return _cut(ids, lambda data: hmac.digest(key, data, "sha256"))


def hashed(ids: Ids) -> Keys:
    """Return SHA-256 of each id, cut to eight bytes: whoever can list the ids can find them again."""
    return _cut(ids, lambda data: hashlib.sha256(b"fedonce id\n" + data).digest())


def _cut(ids: Ids, digest: Callable[[bytes], bytes]) -> Keys:
    data = b"".join(digest(text.encode("utf-8", "surrogatepass"))[:WIDTH] for text in ids)
    return _each_once(np.frombuffer(data, np.uint8).reshape(len(ids), WIDTH), ids)


def _each_once(keys: Keys, ids: Ids) -> Keys:
    twice = repeated(keys)
    if twice is None:
        return keys
    first, second = ids[twice[0]], ids[twice[1]]
    if first == second:
        raise InputError(f"The id {first!r} is there twice; keep one of the rows.")
    raise InputError(
        f"The ids {first!r} and {second!r} have the same hash; use another secret (`fedonce keys secret`)."
    )


def plain(ids: Ids) -> Keys:
    """Return the ids themselves, as bytes of UTF-8, filled up with zeros."""
    texts = [text.encode("utf-8", "surrogatepass") for text in ids]
    for text in texts:
        if len(text) > PLAIN_WIDTH or b"\0" in text:
            raise InputError(
                f"The id {text[:40]!r} cannot travel as it is: longer than {PLAIN_WIDTH} bytes, or with a NUL; send hashes."
            )
    width = max([1, *map(len, texts)])
    data = b"".join(text.ljust(width, b"\0") for text in texts)
    return _each_once(np.frombuffer(data, np.uint8).reshape(len(texts), width), ids)


def _as_texts(keys: Keys) -> NDArray[np.bytes_]:
    """Return a comparable value per row."""
    if not keys.size:
        return np.zeros(len(keys), "S1")
    return np.ascontiguousarray(keys).view(f"S{keys.shape[1]}").ravel()


def repeated(keys: Keys) -> tuple[int, int] | None:
    """Return two rows with the same key; None where there are none."""
    texts = _as_texts(keys)
    order = np.argsort(texts, kind="stable")
    same = np.flatnonzero(texts[order][1:] == texts[order][:-1])
    return (int(order[same[0]]), int(order[same[0] + 1])) if len(same) else None


def locate(wanted: Keys, held: Keys) -> NDArray[np.int64]:
    """Return where each wanted key is among those held, -1 where it is not."""
    found = np.full(len(wanted), -1, np.int64)
    if len(held) and len(wanted):
        sought, there = _as_texts(wanted), _as_texts(held)
        order = np.argsort(there, kind="stable")
        place = np.minimum(np.searchsorted(there[order], sought), len(held) - 1)
        hit = there[order][place] == sought
        found[hit] = order[place[hit]]
    return found


@dataclass(frozen=True)
class Naming:
    """How a party's messages name their rows.

    Parameters
    ----------
    form : str
        "keyed" (needs a secret), "hashed" or "plain".
    secret : bytes, optional
        What the parties share.
    forms : tuple of str
        How ids are made alike first: "trim", "lower", "nfkc".
    """

    form: str = "hashed"
    secret: bytes | None = field(default=None, repr=False)
    forms: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.form not in ("keyed", "hashed", "plain"):
            raise parameter_error("Naming", "form", "'keyed', 'hashed' or 'plain'", self.form)
        if (self.form == "keyed") != (self.secret is not None):
            raise parameter_error("Naming", "secret", "given with the form 'keyed', and with no other", self.form)
        parse_forms(",".join(self.forms))

    @property
    def label(self) -> str:
        """What the message says of its ids: the form and, of a secret, its fingerprint."""
        return self.form if self.secret is None else f"keyed {fingerprint(self.secret)}"

    def keys(self, ids: Ids, run: str) -> Keys:
        """Return a key for each id."""
        return keys_of(self.label, ids, self.secret, run, self.forms)


def unnamed(what: str) -> InputError:
    """Return the error of a file that is to name rows by ids, while nothing says how."""
    return InputError(
        f"{what} would name rows by their ids, and nothing says how. Share a secret (naming), or agree on rows by an alignment "
        '(agreed). Hashes without a key are for those who ask for them, Naming("hashed"): anyone who gets the file and can list '
        "the ids (customer numbers, addresses) finds out which are inside.",
        parameter=("naming", "agreed"),
    )


def keys_of(label: str, ids: Ids, secret: bytes | None, run: str, forms: Sequence[str]) -> Keys:
    """Return the keys of ids as a message with this label names its rows."""
    own = normalise(ids, forms)
    if label == "plain":
        return plain(own)
    if label == "hashed":
        return hashed(own)
    assert secret is not None
    return keyed(own, secret, run)
