"""`fedonce guest` and `fedonce inspect`: learn, see what leaves your premises, represent new rows."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedonce.cli.help import command, group
from fedonce.cli.options import (
    LeavingOptions,
    Messages,
    Output,
    PlanFile,
    Privacy,
    PublicFile,
    RefuseAbove,
    Run,
    Seed,
    TableFile,
    TableOptions,
    Training,
    pairs,
)
from fedonce.cli.remedies import in_options
from fedonce.cli.terminal import AsJson, Quiet, progress, say, show, to_json, warn
from fedonce.cli.unfolding import unfolded
from fedonce.errors import InputError
from fedonce.learners.names import OURS

if TYPE_CHECKING:
    from fedonce.jobs import GuestBudget, GuestReport, HintsFile, Learning

MESSAGE = "representation.fedonce"

guest = group(
    "A party without labels: learn, and send one file.",
    "fedonce guest fit shop.csv --id client_no --name shop --secret loans.secret --out shop/",
)


@dataclass(frozen=True)
class LearningOptions:
    """Of a guest's learning."""

    run: Run = "local"
    learner: Annotated[str, Training(help=f"{', '.join(OURS)}; or one of another package.")] = "auto"
    learner_option: Annotated[
        list[str] | None,
        Training(help="KEY=VALUE: a setting of the learner, such as least=50 of cells and quantiles; once for each."),
    ] = None
    dim: Annotated[
        int | None, Training(help="Values per row, at most. Default: 8, or 16 with --bytes-per-row.", min=1)
    ] = None
    bits: Annotated[int, Training(help="Bits per value: 32 is exact, fewer weigh less and tell less.")] = 8
    bytes_per_row: Annotated[
        float | None,
        Training(
            help="Bytes that a row's values may take, on average, such as 0.5 or 3: how many values are sent, and how finely "
            "each is rounded, is then chosen by what they are worth, up to --dim values."
        ),
    ] = None
    epochs: Annotated[int | None, Training(help="Default: the learner's own.", min=1)] = None
    noise: Annotated[float, Privacy(help="Noise on every value that leaves, rows clipped to norm 1.")] = 0.0
    local_epsilon: Annotated[
        float | None,
        Privacy(help="Epsilon of the message for each row, such as 4: needs bounds of the columns (--public)."),
    ] = None
    protect: Annotated[
        str | None,
        Privacy(
            help="Make a message that is hard to read: cells:20 lets 20 training rows or more share a number, in random order."
        ),
    ] = None
    seed: Seed = 0

    def learning(self) -> Learning:
        """Return how the guest learns."""
        from fedonce.jobs import Learning
        from fedonce.learners import configured
        from fedonce.messages.codecs.budget import most_values

        dim = most_values(Learning.dim, self.bytes_per_row) if self.dim is None else self.dim
        own = pairs(self.learner_option, "--learner-option", "least=50")
        learner = configured(self.learner, own) if own else self.learner
        late = (self.noise, self.seed, self.bytes_per_row, self.local_epsilon, self.protect)
        return Learning(self.run, learner, dim, self.bits, self.epochs, *late)


@dataclass(frozen=True)
class BudgetOptions:
    """Of what a guest may spend."""

    plan: PlanFile = None
    epsilon: Annotated[float | None, Privacy(help="A privacy budget of this guest alone, without a plan.")] = None
    delta: Annotated[float | None, Privacy(help="With --epsilon. Default: 1 / (10 rows).")] = None
    public_file: PublicFile = None

    def budget(self) -> GuestBudget:
        """Return what the guest may spend."""
        from fedonce.jobs import GuestBudget

        return GuestBudget(self.plan, self.epsilon, self.delta, self.public_file)


@dataclass(frozen=True)
class HintsOptions:
    """Of hints of the host."""

    hints: Annotated[
        Path | None,
        Training(
            help="Hints of the host at its labels (`fedonce host hint`): learn what matters for them. Sealed ones are opened "
            "with --key."
        ),
    ] = None
    verify: Annotated[Path | None, Messages(help="Public key of the host: the hints must be signed with it.")] = None

    def file(self) -> HintsFile | None:
        """Return where they are."""
        from fedonce.jobs import HintsFile

        if self.verify is not None and self.hints is None:
            raise InputError("The option --verify is for hints of the host; give them, too (--hints), or leave it out.")
        return None if self.hints is None else HintsFile(self.hints, self.verify)


@command(
    guest,
    "fedonce guest fit shop.csv --id client_no --name shop --run loans --secret loans.secret --out shop/",
    "fedonce guest fit shop.csv --id client_no --name shop --rows shop.rows --bytes-per-row 0.5 --drop notes --out shop/",
)
@unfolded
def fit(
    table: TableFile,
    name: Annotated[str, typer.Option(help="The party's name.")],
    out: Annotated[Path, typer.Option(help=f"Folder for the model, which stays, and {MESSAGE}, which leaves.")],
    columns: TableOptions,
    leaving: LeavingOptions,
    learning: LearningOptions,
    budget: BudgetOptions,
    hints: HintsOptions,
    replace_model: Annotated[
        bool, Output("--replace", help="Learn again where the folder has a model; it is then lost.")
    ] = False,
    attack: Annotated[bool, Privacy("--attack/--no-attack", help="Try quick attacks on the message.")] = True,
    refuse_above: RefuseAbove = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Learn from a table without labels; write the model (it stays) and the one message (it leaves).

    Asks nothing of anybody. Prints what leaves your premises, and what quick attacks read in it, column by column.
    """
    from fedonce.jobs import GuestJob
    from fedonce.training.checkpoints import Progress

    with progress(quiet) as tell:
        source, rows, sealing = columns.source(table), leaving.row_names(), leaving.sealing()
        how, spends = learning.learning(), budget.budget()
        late = (attack, replace_model, refuse_above, hints.file())
        job = GuestJob(source, name, out, how, rows, spends, sealing, *late)
        report = job.run(tell, Progress(tell.epoch))
    if as_json:
        typer.echo(to_json(report.as_json()))
    else:
        _print_fit(report)


def _print_fit(report: GuestReport) -> None:
    typer.echo("What leaves your premises:")
    show(report.leaving())
    if report.chosen:
        typer.echo(report.chosen)
    if report.hints:
        typer.echo()
        say(report.hints)
    if report.leakage.findings:
        typer.echo("\nWhat quick attacks read in the message:")
        for line in report.leakage.lines():
            say(line)
    if report.page is not None:
        typer.echo(f"report: {report.page}")
    if report.warning:
        warn(in_options(report.warning, report.leakage.remedies))


@command(guest, "fedonce guest represent new_shop.csv --model shop/ --secret loans.secret --out new_shop.fedonce")
@unfolded
def represent(
    table: TableFile,
    model: Annotated[Path, typer.Option(help="The guest's folder, from `fedonce guest fit`.")],
    out: Annotated[Path, typer.Option(help="The message's file.")],
    leaving: LeavingOptions,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Make the message for rows that the host is to predict, with the model that stayed here."""
    from fedonce.jobs import RepresentJob

    with progress(quiet) as tell:
        figures = RepresentJob(table, model, out, leaving.row_names(), leaving.sealing()).run(tell).as_json()
    if as_json:
        typer.echo(to_json(figures))
        return
    typer.echo("What leaves your premises:")
    show(figures)


def inspect(
    file: Annotated[
        Path, typer.Argument(help="A message, *.fedonce, hints, or a file of an alignment.", show_default=False)
    ],
    key: Annotated[Path | None, typer.Option(help="Private key, to open a sealed file.")] = None,
    verify: Annotated[Path | None, typer.Option(help="Public key of the sender, to verify the signature.")] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Page of `fedonce guest fit` or `fedonce leakage` about this message. Default: report.html beside it."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what is in a message, in hints or in a file of an alignment, for the person who approves what leaves your premises.

    Of a message first: what protects it, what attacks read in it, and when it was made, by its report.
    """
    from fedonce.assess.inspection import inspect as inspect_file
    from fedonce.messages.keys import read_private, read_public

    with progress(quiet=True):  # warnings are lines here, too
        if not file.exists():
            from fedonce.party import storage  # here: it takes seconds, and messages can be read without it

            with suppress(InputError):  # a message that an interrupted fit did not move to its place
                storage.settle(file.parent)
        figures = inspect_file(
            file, None if key is None else read_private(key), None if verify is None else read_public(verify), report
        )
    figures |= {key: in_options(figures[key], ("key", "verify")) for key in ("signature", "sealed") if key in figures}
    if as_json:
        typer.echo(to_json(figures))
    else:
        show(figures)
