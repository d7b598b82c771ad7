"""`fedonce host`: train with the messages that arrived, predict, evaluate, explain."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedonce.cli.assessing import PerRowFile, PlotFile, Repeats, explain_job, print_explanation, print_scores
from fedonce.cli.fitting import class_weight, print_held_back, yes_or_no
from fedonce.cli.help import command, group
from fedonce.cli.options import (
    CareOptions,
    IncomingOptions,
    LeastGuests,
    LimitOptions,
    Model,
    Normalise,
    Output,
    PlanFile,
    PublicFile,
    TableFile,
    TableOptions,
    Training,
    model_rows,
)
from fedonce.cli.terminal import AsJson, Quiet, one_line, progress, say, to_json
from fedonce.cli.unfolding import unfolded
from fedonce.hostmodels.names import BY_NAME

if TYPE_CHECKING:
    from fedonce.jobs import Fitting

host = group(
    "The party with the labels: train with what arrived, predict.",
    "fedonce host fit bank.csv --id customer --label repaid --guest shop.fedonce --out bank/",
)


@dataclass(frozen=True)
class FittingOptions:
    """Of the host's training."""

    run: Annotated[str | None, typer.Option(help="Name of the training; messages of another one are refused.")] = None
    task: Annotated[str | None, Training(help="classification or regression. Default: by the labels.")] = None
    model: Annotated[
        str | None,
        Training(help=f"{', '.join(BY_NAME)}; or one of another package. Default: auto. With --refit: as before."),
    ] = None
    recipe: Annotated[
        str | None, Training(help="How to train a network: default, large (images) or paper. With --refit: as before.")
    ] = None
    epochs: Annotated[int | None, Training(help="Default: the recipe's own. With --refit: as before.", min=1)] = None
    seed: Annotated[
        int | None,
        Training(help="Seed; as random_state of an estimator. Default: 0. With --refit: as before.", min=0),
    ] = None
    weight: Annotated[
        str | None,
        Training(help="Column that says how much each row counts, taken out of the features. With --refit: as before."),
    ] = None
    class_weight: Annotated[
        list[str] | None,
        Training(
            help="balanced: all classes count alike, however rare; or CLASS=WEIGHT, once for each. With --refit: as before."
        ),
    ] = None
    calibrate: Annotated[
        str | None,
        Training(
            help="Whether probabilities are calibrated: auto (where it helps), yes or no. Default: auto. With --refit: as before."
        ),
    ] = None
    validate: Annotated[
        bool | None,
        Training(
            "--validate/--no-validate",
            help="End with the score on rows held back, beside the host alone. Default: yes. With --refit: as before.",
        ),
    ] = None

    def fitting(self) -> Fitting:
        """Return how the host trains."""
        from fedonce.jobs import Fitting

        return Fitting(
            self.run,
            self.task,
            self.model,
            self.recipe,
            self.epochs,
            self.seed,
            self.weight,
            class_weight(self.class_weight),
            None if self.calibrate is None else yes_or_no(self.calibrate, "--calibrate"),
            self.validate,
        )


@command(
    host,
    "fedonce host fit bank.csv --id customer --label repaid --secret loans.secret --guest representation.fedonce --out bank/",
    "fedonce host fit bank.csv --id customer --label repaid --inbox inbox/ --expect shop,utility --deadline 2h --out bank/",
    "fedonce host fit bank.csv --refit --guest utility.fedonce --out bank/",
)
@unfolded
def fit(
    table: TableFile,
    out: Annotated[Path, typer.Option(help="Folder for the model and the messages that it was trained with.")],
    columns: TableOptions,
    incoming: IncomingOptions,
    limits: LimitOptions,
    fitting: FittingOptions,
    label: Annotated[str | None, typer.Option(help="Column to predict.")] = None,
    name: Annotated[str | None, typer.Option(help="The host's name. Default: host.")] = None,
    least: LeastGuests = 1,
    refit: Annotated[
        bool,
        Training("--refit", help="Train the model in --out again, with its messages and those that came since."),
    ] = False,
    normalise_ids: Normalise = "",
    plan: PlanFile = None,
    public_file: PublicFile = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train on the host's table, its labels and the messages that have arrived.

    The host's rows lead: a row that a guest does not have, and a guest that does not answer in time, are zeros and a mark. Late
    guests are named, and join later with --refit.
    """
    from fedonce.jobs import HostBudget, HostJob
    from fedonce.rows.ids import parse_forms
    from fedonce.training.checkpoints import told

    with progress(quiet) as tell:
        arriving, budget = incoming.incoming(limits, least), HostBudget(plan, public_file)
        forms, how = parse_forms(normalise_ids), fitting.fitting()
        job = HostJob(columns.source(table), out, label, name, how, budget, arriving, forms, refit)
        with told(tell.epoch):
            figures = job.run(tell).as_json()
    _print_fit(figures, as_json)


def _print_fit(figures: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(to_json(figures))
        return
    typer.echo(f"trained {figures['task']} on {figures['rows']:,} rows of {figures['host']}, run {figures['run']}")
    for party, its in figures["guests"].items():
        typer.echo(f"  {party}: has {100 * its['overlap']:.1f} % of the rows, {its['bytes']:,} bytes")
    if not figures["guests"]:
        typer.echo("  no guest: the host alone")
    for party in figures["late"]:
        say(f"  {party}: LATE, left out (zeros); add it later with --refit --guest FILE")
    for party, hinted in figures["hints"].items():
        say(f"  {party}: {hinted}")
    if figures["epsilon"] is not None:
        typer.echo(f"privacy: epsilon {figures['epsilon']:.4g} for all parties that answered")
    _print_refused(figures)
    print_held_back(figures)
    typer.echo(
        f"received: {figures['messages']} message{'' if figures['messages'] == 1 else 's'}, {figures['bytes']:,} bytes"
    )
    typer.echo(f"model: {figures['model']}")
    if figures["report"] is not None:
        typer.echo(f"report: {figures['report']}")


def _print_refused(figures: dict[str, Any]) -> None:
    for file, why in figures["refused"].items():
        typer.echo(one_line(f"  refused {file}: {why}"))


def _print_guests(figures: dict[str, Any]) -> None:
    for party, share in figures["guests"].items():
        typer.echo(f"  {party}: has {100 * share:.1f} % of the rows")
    for party in figures["absent"]:
        say(f"  {party}: ABSENT, zeros in its place")
    _print_refused(figures)


@command(
    host,
    "fedonce host predict new_bank.csv --model bank/ --secret loans.secret --guest new_shop.fedonce --out predictions.csv",
    "fedonce host predict new_bank.csv --model bank/ --allow-absent --out predictions.parquet",
)
@unfolded
def predict(
    table: TableFile,
    model: Model,
    out: Annotated[
        Path,
        typer.Option(
            help="File for ids, predictions, probabilities, who has the row: CSV, TSV or Parquet by its ending."
        ),
    ],
    incoming: IncomingOptions,
    care: CareOptions,
    limits: LimitOptions,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict the rows of a table with what guests sent for them.

    Every guest of the training must be there, with half of its share of the rows at least, unless you say otherwise: else nothing
    is written (exit code 6). A guest that may be missing is zeros.
    """
    from fedonce.jobs import PredictJob

    with progress(quiet) as tell:
        figures = PredictJob(model_rows(table, model, incoming, care, limits), out).run(tell).as_json()
    if as_json:
        typer.echo(to_json(figures))
        return
    typer.echo(f"predicted {figures['rows']:,} rows: {out}")
    _print_guests(figures)


@command(
    host,
    "fedonce host evaluate old_bank.csv --model bank/ --guest old_shop.fedonce",
    "fedonce host evaluate old_bank.csv --model bank/ --guest old_shop.fedonce --html evaluation.html",
)
@unfolded
def evaluate(
    table: TableFile,
    model: Model,
    incoming: IncomingOptions,
    care: CareOptions,
    limits: LimitOptions,
    html: Annotated[Path | None, Output(help="File for a page of the result.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict rows whose labels are known, and compare."""
    from fedonce.jobs import EvaluateJob

    with progress(quiet) as tell:
        report = EvaluateJob(model_rows(table, model, incoming, care, limits), html).run(tell)
    figures = report.as_json()
    if as_json:
        typer.echo(to_json(figures))
        return
    typer.echo(f"evaluated on {figures['rows']:,} rows")
    _print_guests(figures)
    print_scores(report)
    if report.page is not None:
        typer.echo(f"page: {report.page}")


@command(
    host,
    "fedonce host explain old_bank.csv --model bank/ --guest old_shop.fedonce --out worth.png",
    "fedonce host explain new_bank.csv --model bank/ --guest new_shop.fedonce --per-row reasons.csv",
)
@unfolded
def explain(
    table: TableFile,
    model: Model,
    incoming: IncomingOptions,
    care: CareOptions,
    limits: LimitOptions,
    out: PlotFile = None,
    per_row: PerRowFile = None,
    repeats: Repeats = 5,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say what each party is worth: how much worse predictions get when its columns are shuffled among rows; with a plot.

    Use rows that the model was not trained on. With --per-row also, or without --out only, what moved each prediction: which
    party, and which of the host's own columns. That needs no labels.
    """
    with progress(quiet) as tell:
        report = explain_job(model_rows(table, model, incoming, care, limits), out, repeats, per_row).run(tell)
    figures = report.as_json()
    if as_json:
        typer.echo(to_json(figures))
        return
    print_explanation(report)
    _print_refused(figures)
