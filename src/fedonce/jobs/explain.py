"""The host's job of explaining a trained model: what each party is worth, and what moved each prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedonce.assess import evaluation, importance
from fedonce.assess.importance import Worth
from fedonce.assess.row_explanations import explain_rows
from fedonce.data.files import check_ending, write_table
from fedonce.errors import InputError
from fedonce.jobs.predict import ModelRows, Predicted
from fedonce.system.text import Tell, silent


@dataclass(frozen=True)
class ExplanationReport:
    """What each party is worth, in units of a score, with a plot; and a file of what moved each prediction, and how it is known.

    What was not asked for is empty or None.

    Attributes
    ----------
    predicted : Predicted
        Who was there, and what was sent.
    unit : str
        What the worth of a party is measured in.
    worths : sequence of Worth
        What each party is worth.
    plot, per_row : path or None
        Files that were written.
    how : str or None
        "exact" or "approximate": what moved each prediction.
    """

    predicted: Predicted
    unit: str
    worths: Sequence[Worth] = ()
    plot: Path | None = None
    per_row: Path | None = None
    how: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        parties = [asdict(worth) for worth in self.worths]
        files = {
            name: None if path is None else str(path) for name, path in (("plot", self.plot), ("per row", self.per_row))
        }
        return self.predicted.as_json() | {"unit": self.unit, "parties": parties, **files, "how": self.how}


@dataclass(frozen=True)
class ExplainJob:
    """Say what each party is worth, what moved each prediction, or both.

    Parameters
    ----------
    rows : ModelRows
        Rows for a trained model; for what parties are worth, with labels.
    out : path, optional
        The plot of what each party is worth, PNG or SVG by the ending: how much worse predictions get when its columns are
        shuffled.
    repeats : int
        How often each party is shuffled.
    per_row : path, optional
        File for what moved each prediction: each party, and each of the host's own columns.
    """

    rows: ModelRows
    out: str | Path | None = None
    repeats: int = 5
    per_row: str | Path | None = None

    def __post_init__(self) -> None:
        if self.out is None and self.per_row is None:
            raise InputError(
                "Say where the plot goes (out), or what moved each prediction (per_row).", parameter=("out", "per_row")
            )
        if self.out is not None:
            importance.check_plot(self.out)
        if self.per_row is not None:
            check_ending(Path(self.per_row))

    @property
    def labelled(self) -> bool:
        """Whether labels are needed: to say what parties are worth."""
        return self.out is not None

    def run(self, tell: Tell = silent) -> ExplanationReport:
        """Do it; `tell` is told each step in a line."""
        return self.finish(self.rows.predict(tell, labelled=self.labelled), tell)

    def finish(self, done: Predicted, tell: Tell = silent) -> ExplanationReport:
        """Explain what was predicted, unless too few guests are there."""
        self.rows.check(done)
        unit = "accuracy" if done.host.task == "classification" else "root mean squared error"
        how = None
        if self.per_row is not None:
            tell("explaining rows")
            how = _write_rows(done, Path(self.per_row))
        per_row = None if self.per_row is None else Path(self.per_row)
        if self.out is None:
            return ExplanationReport(done, unit, per_row=per_row, how=how)
        assert done.label is not None
        tell("shuffling")
        messages = list(done.prediction.representations.values())
        worths = evaluation.worth(done.host, done.table, done.label, messages, self.repeats, matching=done.matching)
        return ExplanationReport(done, unit, worths, importance.plot(worths, self.out, unit), per_row, how)


def _write_rows(done: Predicted, path: Path) -> str:
    """Write what moved each prediction; return how it is known."""
    messages = list(done.prediction.representations.values())
    found = explain_rows(done.host, done.table, messages, done.matching)
    write_table(path, done.with_ids(found.as_columns()))
    return found.how
