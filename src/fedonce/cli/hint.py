"""`fedonce host hint`: publish hints at labels, before guests learn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedonce.cli.help import command
from fedonce.cli.host import host
from fedonce.cli.options import (
    Id,
    IdsAndRows,
    LeavingOptions,
    Messages,
    Output,
    Privacy,
    Rows,
    Run,
    TableFile,
    Training,
    Types,
    pairs,
)
from fedonce.cli.terminal import AsJson, Quiet, progress, show, to_json
from fedonce.cli.unfolding import unfolded
from fedonce.errors import InputError

if TYPE_CHECKING:
    from fedonce.jobs import Telling


@dataclass(frozen=True)
class TellingOptions:
    """Of how labels are told."""

    epsilon: Annotated[
        float | None,
        Privacy(help="With which each label is told, by randomised response, such as 2: its owner can deny it."),
    ] = None
    proxy: Annotated[
        str | None,
        Privacy(help="Instead of --epsilon: the column is no secret and travels AS IT IS, under this name."),
    ] = None
    run: Run = "local"
    edges: Annotated[
        str | None,
        Training(
            help="Of numbers: between which of them the bins lie, with commas, as in 10,20,30. They are published."
        ),
    ] = None
    task: Annotated[str | None, Training(help="classification or regression. Default: by the labels.")] = None
    classes: Annotated[
        str | None,
        Training(
            help="The classes that a label can have, by public knowledge, with commas, as in no,yes. Default: those of the "
            "labels, which guests then learn of."
        ),
    ] = None

    def telling(self) -> Telling:
        """Return how labels are told."""
        from fedonce.jobs import Telling

        classes = None if self.classes is None else tuple(part.strip() for part in self.classes.split(","))
        return Telling(self.epsilon, self.proxy, self.run, _numbers(self.edges), self.task, classes)


@dataclass(frozen=True)
class HintLeavingOptions(LeavingOptions):
    """Of the file: how it names rows, who signs it, who can open it."""

    rows: Annotated[
        Path | None,
        IdsAndRows("--rows", help=f"{Rows} The hints are then for that guest alone, and have no ids at all."),
    ] = None
    sign: Annotated[Path | None, Messages(help="Private key to sign the hints with (`fedonce keys new`).")] = None
    seal_to: Annotated[Path | None, Messages(help="Public key of a guest: only that guest can open the file.")] = None


@command(
    host,
    "fedonce host hint bank.csv --id customer --label repaid --epsilon 2 --run loans --secret loans.secret --out hints.fedonce",
    "fedonce host hint bank.csv --label repaid --classes no,yes --epsilon 2 --id customer --secret secret --out hints.fedonce",
    "fedonce host hint bank.csv --label repaid_before --proxy 'last year' --id customer --secret secret --out hints.fedonce",
)
@unfolded
def hint(
    table: TableFile,
    label: Annotated[str, typer.Option(help="Column that is hinted at.")],
    out: Annotated[Path, typer.Option(help="File of hints, for guests: hints.fedonce.")],
    telling: TellingOptions,
    leaving: HintLeavingOptions,
    id: Id = None,
    types: Types = None,
    name: Annotated[str, typer.Option(help="The host's name.")] = "host",
    record: Annotated[
        Path | None,
        Output(help="What was published so far, private: keep it. Default: hints.record beside the table."),
    ] = None,
    limit: Annotated[
        float | None,
        Privacy(
            help="The most that a row's epsilons may add up to, kept in the record. Default: as before, 8 at first."
        ),
    ] = None,
    new_rows: Annotated[
        bool,
        Privacy("--new-rows", help="Ids that the record does not know are new people, and not others of the same."),
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Publish hints at labels: each told through randomised response, so that guests learn what matters for it.

    The same label of a row, told the same way, has the same answer and costs nothing again; anything else adds its epsilon to
    that row's sum. Where a row's sum would be beyond the limit nothing is written (exit code 5).
    """
    from fedonce.jobs import HintJob, TableSource

    with progress(quiet) as tell:
        rows, sealing, how = leaving.row_names(), leaving.sealing(), telling.telling()
        source = TableSource(table, id, types=pairs(types, "--type", "age=number"))
        job = HintJob(source, label, out, how, name, rows, sealing, record, limit, new_rows)
        figures = job.run(tell).as_json()
    if as_json:
        typer.echo(to_json(figures))
        return
    typer.echo("What leaves your premises:")
    kept = ("record", "record begun", "cost", "spent", "limit", "rows told anew", "new ids", "labels changed")
    published = {key: figures.pop(key) for key in kept}
    show(figures)
    anew = published["rows told anew"]
    new = (
        f", {published['new ids']:,} of them new to the record"
        if published["new ids"] and not published["record begun"]
        else ""
    )
    again = (
        f"told anew for {anew:,} of {figures['rows']:,} rows{new}" if anew else "the same as before, it costs nothing"
    )
    means = f" {telling.epsilon:g}: {again}" if telling.proxy is None else f": none, {telling.proxy!r} travels AS IT IS"
    typer.echo(
        f"\nLabel epsilon{means}; largest sum over rows: {published['spent']:g} of {published['limit']:g} at most."
    )
    begun = "begun: keep it, it is private and holds the key" if published["record begun"] else "private, stays here"
    typer.echo(f"record: {published['record']} ({begun})")


def _numbers(text: str | None) -> tuple[float, ...] | None:
    """Return numbers with commas between them."""
    try:
        return None if text is None else tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"The option --edges must be numbers with commas, like 10,20,30. Got {text!r}.") from None
