"""`fedonce demo`: what one message per party is worth, on data that need no file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from fedonce.cli.terminal import AsJson, Printer, Quiet, progress, to_json

if TYPE_CHECKING:
    from fedonce.demo.digits import Demonstration


def demo(
    out: Annotated[Path, typer.Option(help="Folder for report.html.")] = Path("fedonce-demo"),
    seed: Annotated[int, typer.Option(help="Seed of the split and of all parties.")] = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train on digits cut into four quadrants, four parties; print a table and write a page.

    The page shows what each party sees and sends, what it was worth, and what leaks, with and without protection. The data are
    part of scikit-learn: nothing is downloaded. Takes about 15 seconds on two cores.
    """
    if out.exists() and not out.is_dir():
        raise typer.BadParameter(f"{out} is a file; name a folder.", param_hint="--out")
    with progress(quiet) as tell:
        tell("loading")
        from fedonce.demo import page
        from fedonce.demo.digits import run

        result = run(seed, tell)
        path = page.write(result, out)
    if as_json:
        outcomes = [each.as_json() for each in result.outcomes]
        typer.echo(to_json({"report": path, "outcomes": outcomes, "skipped": result.skipped or None}))
        return
    _print_table(result)
    if result.skipped:
        typer.echo(f"left out: {result.skipped}")
    typer.echo(f"report: {path}")


def _print_table(result: Demonstration) -> None:
    table = Table(
        title=f"digits, four quadrants, {result.n_train:,} training and {result.n_test:,} test images",
        title_justify="left",
        caption="readable: which of one guest's pixels quick attacks read in its message",
        caption_justify="left",
    )
    for column in ("method", "accuracy", "messages", "bytes", "readable", "seconds"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for each in result.outcomes:
        read = each.exposed
        figures = (f"{100 * each.accuracy:.1f} %", str(each.messages), f"{each.bytes:,}")
        exposed = "-" if read is None else f"{read.columns['readable']} of {sum(read.columns.values())}"
        table.add_row(each.method, *figures, exposed, f"{each.seconds:.1f}")
    Printer().print(table)
