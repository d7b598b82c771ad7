"""`fedonce leakage`: what attacks read in a message, before it is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedonce.cli.options import (
    IdsAndRows,
    Messages,
    Output,
    Privacy,
    PrivateKeyFile,
    RefuseAbove,
    Seed,
    TableOptions,
)
from fedonce.cli.remedies import in_options
from fedonce.cli.terminal import AsJson, Quiet, one_line, progress, say, to_json, warn
from fedonce.cli.unfolding import unfolded
from fedonce.system.text import names


@unfolded
def leakage(
    message: Annotated[Path, typer.Argument(help="A guest's message, *.fedonce.", show_default=False)],
    table: Annotated[Path, typer.Option(help="The guest's table that it was made from.", show_default=False)],
    columns: TableOptions,
    secret: Annotated[Path | None, IdsAndRows(help="The secret that the ids were hashed with.")] = None,
    rows: Annotated[Path | None, IdsAndRows(help="The agreed rows that the message is about.")] = None,
    key: PrivateKeyFile = None,
    second: Annotated[Path | None, Messages(help="Another message of the guest, to link the two.")] = None,
    attacks: Annotated[str, Privacy(help="all, quick (those of `fedonce guest fit`), or names with commas.")] = "all",
    refuse_above: RefuseAbove = None,
    html: Annotated[Path | None, Output(help="File for a page of the result.")] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Attack a guest's message with its own table, and say column by column what these attacks read: before it is sent.

    A verdict is "readable", "partly" or "not by these attacks". The last does not mean safe.
    """
    from fedonce.jobs import LeakageJob, RowNames

    with progress(quiet) as tell:
        which: str | tuple[str, ...] = attacks if attacks in ("all", "quick") else names(attacks)
        named = RowNames(secret, rows=rows, key=key)
        report = LeakageJob(message, columns.source(table), named, second, which, refuse_above, html, seed).run(tell)
    if as_json:
        typer.echo(to_json(report.as_json()))
        return
    for line in report.leakage.lines(limit=50):
        say(line)
    for name, lacking in report.leakage.untried.items():
        needed = " and ".join(f"({each})" for each in lacking)
        typer.echo(one_line(in_options(f"not tried: {name}, which needs more {needed}", lacking)))
    if report.page is not None:
        typer.echo(f"page: {report.page}")
    if report.leakage.warning:
        warn(in_options(report.leakage.warning, report.leakage.remedies))
