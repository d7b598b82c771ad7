"""The attacks by name, and what is known of each without importing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedonce.system.registry import BuiltIn, Registry

NOTHING = "the message, and no row"


@dataclass(frozen=True)
class Facts:
    """What an attack is.

    Parameters
    ----------
    knows : str
        What the attacker knows.
    tries : str
        What it tries to find out, and how.
    needs : tuple of str
        What must be there beside the values and the table: names of fields of `Exposed` ("second", "ids", "gradients", ...).
    quick : bool
        Whether it is in the quick set, which is tried on every message before it leaves. That set as a whole takes seconds.
    """

    knows: str = NOTHING
    tries: str = ""
    needs: tuple[str, ...] = ()
    quick: bool = False


def _ours(home: str, facts: Facts) -> BuiltIn[Facts]:
    return BuiltIn(f"fedonce.assess.attacks.{home}", facts)


# A test compares the facts with those that the classes state themselves.
ATTACKS: Registry[Any, Facts] = Registry(
    "attack",
    "fedonce.attacks",
    "fedonce.assess.attacks.base:Attack",
    {
        "yes/no columns": _ours(
            "yes_no:YesNo",
            Facts(
                tries="to find columns of zeros and ones in the span of the values, rare ones too, and groups of rows: yes/no "
                "columns, categories, missing values",
                quick=True,
            ),
        ),
        "numbers and dates": _ours(
            "components:Components",
            Facts(
                tries="to find numbers and dates up to scale and sign, or the order of the rows by them: as one of the values, "
                "or as an independent component of all",
                quick=True,
            ),
        ),
        "known rows": _ours(
            "known_rows:KnownRows",
            Facts(
                knows="the message, and the columns of 0.1 %, 1 %, 10 % or 75 % of its rows",
                tries="to guess the columns of the other rows, by ridge regression, by the nearest known rows, and by a "
                "look-up of known rows with the same message",
                quick=True,
            ),
        ),
        "known rows by network": _ours(
            "known_network:KnownRowsByNetwork",
            Facts(
                knows="the message, and the columns of 0.1 %, 1 %, 10 % or 75 % of its rows",
                tries="to guess the columns of the other rows, by a small network",
            ),
        ),
        "singling out": _ours(
            "singling_out:SinglingOut",
            Facts(
                knows="the message, and the columns of 1 % of its rows",
                tries="to describe a row by up to five columns so that no other row fits",
            ),
        ),
        "linking": _ours(
            "linking:Linking",
            Facts(
                knows="two messages of a guest about the same rows, not which row is which; and perhaps 1 % of the pairs",
                tries="to find each row of one message in the other",
                needs=("second",),
            ),
        ),
        "guessing ids": _ours(
            "hashes:GuessedIds",
            Facts(
                knows="the message with its ids, and how ids look",
                tries="to find ids by hashing all that look like them",
                needs=("ids", "own_ids"),
            ),
        ),
        "labels from gradients": _ours(
            "gradients:LabelsFromGradients",
            Facts(
                knows="what a guest receives in rounds; and perhaps 1 % of the labels",
                tries="to tell labels by a gradient's norm, by its direction, and by completing the model",
                needs=("gradients", "labels"),
            ),
        ),
        "labels from hints": _ours(
            "hints:LabelsFromHints",
            Facts(
                knows="what a guest has where the host hints at labels: its rows' hints and values",
                tries="to tell labels by a row's hint, by its values, and by both",
                needs=("hints", "labels"),
            ),
        ),
        "membership": _ours(
            "membership:MembershipOfModel",
            Facts(
                knows="a released model, rows with their labels, and how such models are trained",
                tries="to tell which rows it was trained on: by likelihood ratio, and by RMIA",
                needs=("train",),
            ),
        ),
    },
)
OURS = tuple(ATTACKS.built_in)


def quick_set() -> tuple[str, ...]:
    """Return the attacks that are tried on every message before it leaves."""
    return tuple(name for name in ATTACKS if ATTACKS.facts(name).quick)
