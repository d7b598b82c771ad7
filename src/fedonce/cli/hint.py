"""`fedonce host hint`: publish hints at labels, before guests learn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from fedonce.cli.terminal import AsJson, Quiet, progress, say, show, to_json
from fedonce.cli.unfolding import unfolded
from fedonce.errors import InputError

if TYPE_CHECKING:
    from fedonce import Hinting


@dataclass(frozen=True)
class HintingOptions:
    """Of how labels are disclosed."""

    epsilon: Annotated[
        float | None,
        Privacy(help="Label epsilon of each answer, by randomised response, such as 2: a person can deny the label."),
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

    def hinting(self, column: str) -> Hinting:
        """Return how a column is hinted at."""
        from fedonce import Hinting

        classes = None if self.classes is None else tuple(part.strip() for part in self.classes.split(","))
        return Hinting.of(column, self.epsilon, self.proxy, _numbers(self.edges), classes)


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
    hinting: HintingOptions,
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
        Privacy(help="The most that label epsilons may add up to, kept in the record. Default: as before, 8 at first."),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Publish hints at labels, each by randomised response, so that guests learn what matters for the label.

    Published again, to the same or to other guests, a label that has not changed has the same answer, which costs nothing more.
    Another epsilon, other classes or another name add their epsilon; beyond the limit nothing is written (exit code 5).
    """
    from fedonce.jobs import HintJob, TableSource

    with progress(quiet) as tell:
        rows, sealing, how = leaving.row_names(), leaving.sealing(), hinting.hinting(label)
        source = TableSource(table, id, types=pairs(types, "--type", "age=number"))
        job = HintJob(source, label, out, how, name, rows, sealing, record, limit, hinting.run, hinting.task)
        report = job.run(tell)
    figures, done = report.as_json(), report.publication.as_json()
    if as_json:
        typer.echo(to_json(figures))
        return
    typer.echo("What leaves your premises:")
    show({key: value for key, value in figures.items() if key not in done})
    say("")
    for line in published(done):
        say(line)


def published(done: dict[str, Any]) -> Iterator[str]:
    """Return, line by line, what was disclosed to whom, what it cost, and what the sums do not cover."""
    for line in done["disclosed"]:
        yield f"Disclosed: {line}"
    cost = f"{done['cost']:g}" if done["cost"] else "nothing more, the answers are those of before"
    sums = f"sum of label epsilons of {done['column']!r}: {done['spent on label']:g}; of all labels: {done['spent']:g}"
    yield f"Cost: {cost}; {sums}, {done['limit']:g} at most."
    yield done["holds"]
    begun = "begun: keep it, it is private and holds" if done["record begun"] else "private, stays here, holds"
    yield f"record: {done['record']} ({begun} the key {done['key']}, from which answers follow)"


def _numbers(text: str | None) -> tuple[float, ...] | None:
    """Return numbers with commas between them."""
    try:
        return None if text is None else tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"The option --edges must be numbers with commas, like 10,20,30. Got {text!r}.") from None
