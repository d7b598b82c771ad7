"""What a message gives away: attacks on the values that a guest sends, and a verdict in words on each of its columns.

What these attacks find, anybody finds. What they do not find, a better one may: no verdict here means that a column is safe.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.assess import mending
from fedonce.assess.attacks import chosen
from fedonce.assess.attacks.base import ALARMING, NOT_FOUND, READABLE, VERDICTS, Exposed, Finding
from fedonce.assess.attacks.columns import TOO_FEW
from fedonce.assess.attacks.known_rows import MOST_ROWS, ColumnLeakage, reconstruct
from fedonce.data.table import Table
from fedonce.errors import MessageError
from fedonce.learners.names import LEARNERS

__all__ = [
    "ALARMING",
    "MOST_ROWS",
    "REMEDIES",
    "ColumnLeakage",
    "ColumnVerdict",
    "Leakage",
    "by_design",
    "reconstruct",
    "what_leaks",
]

REMEDIES = (
    "dim",
    "bits",
    "bytes_per_row",
    "noise",
    "drop",
    "learner",
    "protect",
    "local_epsilon",
)  # the parameters that a remedy may be about
REBUILDS = ("record",)  # of what is not about a column, this counts as rebuilt, too
NEVER_SAFE = "Not by these attacks does not mean safe: a better attack, or one who knows more, may read it."


def what_leaks(
    values: NDArray[Any],
    table: Table,
    attacks: str | Iterable[object] = "quick",
    seed: int = 0,
    advise: bool = False,
    **more: Any,
) -> Leakage:
    """Attack what a guest sends, and say what was found.

    Parameters
    ----------
    values : array of shape (m, d)
        The message's values: `Representation.values`.
    table : Table
        The columns of the same rows, in the same order.
    attacks : "quick", "all", a name, or a list of names and Attack objects
        Which attacks. Those that need what is not there are listed in the result.
    seed : int
        Of what the attacks draw.
    advise : bool
        Whether to try what would help, too.
    **more
        What else an attacker has, by the names of `fedonce.assess.attacks.Exposed`: `learner`, `second`, `ids`, ...

    >>> import pandas as pd
    >>> from fedonce import Guest
    >>> shop = pd.DataFrame({"visits": range(200), "newsletter": [True, False] * 100})
    >>> message = Guest("shop", "pca", dim=2).learn(shop)
    >>> [column.verdict for column in what_leaks(message.values, Table.of(shop)).columns]
    ['readable', 'readable']
    """
    exposed = Exposed(values, table, **more)
    findings: list[Finding] = []
    untried: dict[str, tuple[str, ...]] = {}
    for attack in chosen(attacks):
        lacking = exposed.lacks(attack.facts)
        if lacking:
            untried[attack.name] = tuple(lacking)
        else:
            findings += attack.run(exposed, np.random.default_rng([seed, *attack.name.encode()]))
    told = mending.advice(exposed, seed) if advise else ()
    return Leakage(tuple(findings), untried, exposed.learner, table.names, told, mending.remedy(exposed))


@dataclass(frozen=True)
class ColumnVerdict:
    """What the attacks say of one column.

    Parameters
    ----------
    column : str or int
        Its name.
    kind : str
        "number", "date", "category" or "boolean".
    verdict : str
        "readable", "partly" or "not by these attacks".
    finding : Finding, optional
        The attack that did it: the one who knew least where the column is readable, else the one who did best; None: no
        score.
    why : str
        Why nothing can be said, where that is so.
    """

    column: Hashable
    kind: str
    verdict: str
    finding: Finding | None
    why: str = ""

    @property
    def unknown(self) -> bool:
        """Whether nothing could be said of the column, as too few of its values are known."""
        return self.finding is None and self.why == TOO_FEW

    @property
    def gain(self) -> float:
        """The part of what guessing gets wrong that was got right; -1 where there is no score."""
        return -1.0 if self.finding is None else self.finding.gain

    def as_json(self) -> dict[str, Any]:
        """Return the verdict as JSON values."""
        found = None if self.finding is None else self.finding.as_json()
        return {"column": self.column, "kind": self.kind, "verdict": self.verdict, "by": found, "why": self.why}


@dataclass(frozen=True)
class Leakage:
    """What some attacks found.

    Parameters
    ----------
    findings : tuple of Finding
        All results.
    untried : dict of tuple by attack
        Which attacks were not tried, and what they need that was not there.
    learner : str
        How the message was made.
    names : tuple
        The columns, in the table's order.
    advice : tuple of str
        What was tried to mend it, and helped.
    remedy : str
        What can be done about such a message, parameters in brackets.
    """

    findings: tuple[Finding, ...]
    untried: dict[str, tuple[str, ...]] = field(default_factory=dict)
    learner: str = ""
    names: tuple[Hashable, ...] = ()
    advice: tuple[str, ...] = ()
    remedy: str = mending.DROP

    @property
    def remedies(self) -> tuple[str, ...]:
        """The parameters that the remedy names."""
        return tuple(name for name in REMEDIES if f"({name})" in self.remedy)

    @property
    def columns(self) -> tuple[ColumnVerdict, ...]:
        """A verdict on each column, in the table's order."""
        by_column: dict[Hashable, list[Finding]] = defaultdict(list)
        for each in self.findings:
            if each.column is not None:
                by_column[each.column].append(each)
        return tuple(_verdict(name, by_column[name]) for name in self.names)

    @property
    def of_rows(self) -> tuple[Finding, ...]:
        """The results that are about rows, not about a column."""
        return tuple(each for each in self.findings if each.column is None)

    @property
    def worst(self) -> float:
        """The greatest part of what guessing gets wrong that any attack rebuilt, of a column or of whole records."""
        counted = [each.gain for each in self.findings if _rebuilds(each)]
        return max((gain for gain in counted if gain >= 0), default=0.0)

    @property
    def rebuilt(self) -> tuple[ColumnLeakage, ...]:
        """The same in short: for each column the best score of any attack, and how it was reached."""
        return tuple(_in_short(each) for each in self.columns)

    def with_verdict(self, verdict: str) -> list[ColumnVerdict]:
        """Return the columns with a verdict, the worst first."""
        found = [each for each in self.columns if each.verdict == verdict]
        return sorted(found, key=lambda each: each.gain, reverse=True)

    def check(self, most: float) -> None:
        """Refuse a message of which an attack rebuilds more than this part of what guessing gets wrong, or nobody can tell."""
        unknown = [each.column for each in self.columns if each.unknown]
        if unknown:
            raise MessageError(
                f"The message is refused: of column {unknown[0]!r} too few values are known to tell how well it is rebuilt "
                "(refuse_above); leave it out (drop).",
                parameter=("refuse_above", "drop"),
            )
        if self.worst > most:
            worst = max((each for each in self.findings if _rebuilds(each)), key=lambda each: each.gain)
            what = "whole records" if worst.column is None else f"column {worst.column!r}"
            raise MessageError(
                f"The message is refused: an attack ({worst.told_by}) rebuilds {what} to {worst.gain:.2f} of what guessing "
                f"gets wrong, and at most {most:g} is allowed (refuse_above). {self.remedy}",
                parameter=("refuse_above", *self.remedies),
            )

    @property
    def warning(self) -> str | None:
        """Some sentences on what these attacks read, and what to do; None where they read nothing."""
        plain = by_design(self.learner) if _sends_columns(self.learner) else None
        bad = self.with_verdict(READABLE)
        return " ".join(filter(None, [plain, f"{_warning(bad)} {self.remedy}" if bad else None])) or None

    def as_json(self) -> dict[str, Any]:
        """Return verdicts and findings as JSON values."""
        return {
            "columns": [each.as_json() for each in self.columns],
            "counts": {verdict: len(self.with_verdict(verdict)) for verdict in VERDICTS},
            "worst": self.worst,
            "findings": [each.as_json() for each in self.findings],
            "untried": {name: list(lacking) for name, lacking in self.untried.items()},
            "advice": list(self.advice),
            "meaning": NEVER_SAFE,
        }

    def lines(self, limit: int = 12) -> list[str]:
        """Return a table for a terminal, the columns that are read best first, and then what is about rows."""
        order = sorted(self.columns, key=lambda each: (VERDICTS.index(each.verdict), -each.gain))
        table = [("column", "kind", "verdict", "right", "guessed", "by"), *(_cells(each) for each in order[:limit])]
        text = _aligned(table)
        more = len(order) - limit
        text += [f"and {more} more, read no better"] if more > 0 else []
        text += _row_lines([each for each in self.of_rows if each.score is not None])
        return [*text, *self.advice, NEVER_SAFE]


def _verdict(name: Hashable, findings: Sequence[Finding]) -> ColumnVerdict:
    """Judge a column by the worst that any attack found."""
    scored = [each for each in findings if each.score is not None]
    if not scored:
        kind, why = (findings[0].kind, findings[0].note) if findings else ("", "no attack is about it")
        return ColumnVerdict(name, kind, NOT_FOUND, None, why)
    kinds = [each.kind for each in findings if each.kind != "missing"]
    worst = min(scored, key=lambda each: (VERDICTS.index(each.verdict), _known_to(each), -each.gain))
    return ColumnVerdict(name, kinds[0] if kinds else worst.kind, worst.verdict, worst)


def _in_short(each: ColumnVerdict) -> ColumnLeakage:
    if each.finding is None:
        return ColumnLeakage(each.column, each.kind, None, 0.0, each.why)
    return ColumnLeakage(each.column, each.kind, each.finding.score, each.finding.guess, each.finding.told_by)


def _known_to(found: Finding) -> float:
    """Return what an attacker knew, to prefer who knew less; of what is read in part, the best attack counts."""
    return found.knows if found.verdict == READABLE else 0.0


def _rebuilds(found: Finding) -> bool:
    return found.column is not None or found.kind in REBUILDS


def _sends_columns(learner: str) -> bool:
    return learner in LEARNERS and LEARNERS.facts(learner).readable


def _aligned(table: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows of cells as lines, figures to the right, the last column as it is."""
    widths = [max(len(row[j]) for row in table) for j in range(len(table[0]))]
    text = []
    for row in table:
        cells = [
            f"{cell:>{width}}" if j in (3, 4) else f"{cell:<{width}}"
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        text.append("  ".join(cells).rstrip())
    return text


def _cells(each: ColumnVerdict) -> tuple[str, ...]:
    name = _printable(each.column)
    if each.finding is None:
        return name, each.kind, "-", "-", "-", each.why
    gaps = " (which values are missing)" if each.finding.kind == "missing" else ""
    return name, each.kind, each.verdict, each.finding.figure, each.finding.guessed, each.finding.told_by + gaps


def _row_lines(found: Sequence[Finding]) -> list[str]:
    """Return a line for each attack and way: its figures side by side where it was tried with more and more known rows."""
    groups: dict[tuple[str, str, str], list[Finding]] = defaultdict(list)
    for each in found:
        groups[each.attack, each.kind, each.way].append(each)
    text = []
    for (attack, kind, way), group in groups.items():
        figures = " / ".join(each.figure for each in group)
        known = " / ".join(f"{100 * each.knows:g} %" if each.knows else "none" for each in group)
        note = f"; {group[-1].note}" if group[-1].note else ""
        by = f"{attack} ({way})" if way else attack
        text.append(f"{kind}s, {by}: {figures} with {known} of the rows known (guessing: {group[-1].guessed}){note}")
    return text


def _printable(column: Hashable) -> str:
    name = "".join(letter if letter.isprintable() else "?" for letter in str(column))
    return name if len(name) <= 32 else f"{name[:29]}..."


def _warning(bad: Sequence[ColumnVerdict]) -> str:
    anyone = [each for each in bad if each.finding is not None and not each.finding.knows]
    others = [each for each in bad if each.finding is not None and each.finding.knows]
    least = min((each.finding.knows for each in others if each.finding is not None), default=0.0)
    told = [f"Anyone who holds the message can read {_listed(anyone)}."] if anyone else []
    told += (
        [f"Anyone who also knows {100 * least:g} % of the rows or more can read {_listed(others)}."] if others else []
    )
    return " ".join(told)


def _listed(columns: Sequence[ColumnVerdict]) -> str:
    """Return five columns by name, and how many more there are."""
    names = ", ".join(repr(each.column) for each in columns[:5])
    more = f" and {len(columns) - 5} more" if len(columns) > 5 else ""
    return f"column{'' if len(columns) == 1 else 's'} {names}{more}"


def by_design(learner: str) -> str:
    """Return one sentence on a message that needs no attack, as its learner sends columns themselves."""
    return f"The learner {learner!r} sends columns as they are, in bins: whoever holds the message can read them."
