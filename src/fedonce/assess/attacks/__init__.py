"""Attacks on what is sent, by name: `make("known rows")`, and `register` to add one's own.

One attack per file, one contract (`base.py`). An attack that fails proves nothing: another may succeed.
"""

from __future__ import annotations

from collections.abc import Iterable

from fedonce.assess.attacks.base import Attack, Exposed, Finding
from fedonce.assess.attacks.names import ATTACKS, Facts, quick_set
from fedonce.errors import parameter_error

__all__ = ["ATTACKS", "Attack", "Exposed", "Facts", "Finding", "chosen", "make", "quick_set", "register"]


def register(attack: type[Attack]) -> type[Attack]:
    """Add an attack to the table of names; works as a decorator.

    Parameters
    ----------
    attack : type
        A subclass of `Attack` with a `name`.
    """
    return ATTACKS.register(attack)


def make(attack: object, owner: str = "make") -> Attack:
    """Return an attack from a name, or the object itself.

    Parameters
    ----------
    attack : str or Attack
        A name of `ATTACKS`, or an object.
    owner : str
        Who is named in errors.
    """
    if isinstance(attack, Attack):
        return attack
    if isinstance(attack, str) and attack in ATTACKS:
        made: Attack = ATTACKS[attack]()
        return made
    wanted = f"one of {', '.join(ATTACKS)} or an Attack object{ATTACKS.meant(attack)}"
    raise parameter_error(owner, "attacks", wanted, attack)


def chosen(attacks: str | Iterable[object], owner: str = "what_leaks") -> list[Attack]:
    """Return the attacks of a set, "quick" or "all", or those that are listed by name or as objects.

    Parameters
    ----------
    attacks : str or list
        "quick", "all", a name, or a list of names and objects.
    owner : str
        Who is named in errors.
    """
    if isinstance(attacks, str):
        names: Iterable[object] = {"quick": quick_set(), "all": ATTACKS.names}.get(attacks, (attacks,))
        return [make(name, owner) for name in names]
    return [make(attack, owner) for attack in attacks]
