"""What `evaluate` and `explain` share, with files and in a federation: options, and how results are printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedonce.cli.terminal import show

if TYPE_CHECKING:
    from fedonce.jobs import EvaluationReport, ExplainJob, ExplanationReport, ModelRows

PLOT = Path("worth.png")
PlotFile = Annotated[
    Path | None,
    typer.Option(help=f"The plot, PNG or SVG by its ending. Default: {PLOT}, unless --per-row is given."),
]
PerRowFile = Annotated[
    Path | None,
    typer.Option(
        "--per-row",
        help="File for what moved each prediction, each party and each own column: CSV, TSV or Parquet. Needs no labels.",
    ),
]
Repeats = Annotated[int, typer.Option(help="How often each party is shuffled.", min=1)]


def explain_job(rows: ModelRows, out: Path | None, repeats: int, per_row: Path | None) -> ExplainJob:
    """Return the job: what parties are worth by default, what moved predictions where a file is named for it."""
    from fedonce.jobs import ExplainJob

    return ExplainJob(rows, PLOT if out is None and per_row is None else out, repeats, per_row)


def print_scores(report: EvaluationReport) -> None:
    """Print how good predictions are."""
    show({name: f"{value:.4f}" for name, value in report.scores.items()})


def print_explanation(report: ExplanationReport) -> None:
    """Print what each party is worth, and where what moved each prediction is."""
    rows = report.predicted.table.n_rows
    if report.plot is not None:
        typer.echo(f"what each party is worth, in {report.unit}, on {rows:,} rows:")
        for worth in report.worths:
            absent = "" if worth.absent is None else f"; {worth.absent:.4f} when it does not answer"
            typer.echo(f"  {worth.party}: {worth.drop:.4f} ± {worth.spread:.4f} when shuffled{absent}")
        typer.echo(f"plot: {report.plot}")
    if report.per_row is not None:
        typer.echo(f"what moved each of {rows:,} predictions ({report.how}): {report.per_row}")
