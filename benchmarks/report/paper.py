"""The numbers that the paper prints as results: `load` gives all of `paper.toml`, `find` those that are asked for."""

from __future__ import annotations

import tomllib
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from benchmarks.keys import check
from fedonce import InputError

PATH = Path(__file__).parent / "paper.toml"
KINDS = ("number", "prose")  # the file's two lists: numbers of tables, numbers of the text


@dataclass(frozen=True)
class Number:
    """One printed number. What does not concern it is None.

    Attributes
    ----------
    value : float
        As printed.
    metric : str
        What was measured; the head of `paper.toml` says in which unit.
    method : str
        As the paper's tables call it.
    table, row : str or None
        A table's number: the table's LaTeX label, and the printed head of the row.
    section, text : str or None
        A number in prose: the section's title, and the words around the number, in LaTeX.
    data : str or None
        Data set, as `fedonce data list` calls it.
    host : str or None
        The party with the labels.
    over_hosts : str or None
        "min", "max" or "mean": of the results of all hosts.
    epsilon : float or None
        Overall privacy budget; infinite where there is no noise.
    noise : float or None
        Scale of the Gaussian noise on representations.
    parties : int or None
        Number of parties, where the words around the number give it.
    versus : str or None
        What the method is compared with, where the number is a comparison.
    note : str or None
        What does not agree with the rest of the paper.
    """

    value: float
    metric: str
    method: str
    table: str | None = None
    row: str | None = None
    section: str | None = None
    text: str | None = None
    data: str | None = None
    host: str | None = None
    over_hosts: str | None = None
    epsilon: float | None = None
    noise: float | None = None
    parties: int | None = None
    versus: str | None = None
    note: str | None = None


KEYS = tuple(field.name for field in fields(Number))
REQUIRED = tuple(field.name for field in fields(Number) if field.default is MISSING)


def load(path: Path = PATH) -> list[Number]:
    """Return all numbers, those of tables first."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    check(content, KINDS, str(path))
    numbers = []
    for kind in KINDS:
        for position, entry in enumerate(content.get(kind, []), start=1):
            where = f"{path}, {kind} {position}"
            check(entry, KEYS, where)
            missing = [key for key in REQUIRED if key not in entry]
            if missing:
                raise InputError(f"{where}: {', '.join(missing)} missing.")
            numbers.append(Number(**entry))
    return numbers


def find(**criteria: Any) -> list[Number]:
    """Return the numbers whose fields have these values; None: those that have no such field.

    >>> [number.value for number in find(table="tab:apdx_pca", data="mnist")]
    [98.05, 25.98]
    """
    check(criteria, KEYS, "find")
    return [number for number in load() if all(getattr(number, key) == wanted for key, wanted in criteria.items())]
