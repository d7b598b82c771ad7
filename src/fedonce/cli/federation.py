"""`fedonce federation fit`, `predict`, `evaluate`, `explain`: train and predict with guests that are machines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedonce.cli.assessing import PerRowFile, PlotFile, Repeats, explain_job, print_explanation, print_scores
from fedonce.cli.federation_kits import federation
from fedonce.cli.fitting import print_held_back
from fedonce.cli.help import command
from fedonce.cli.hint import published
from fedonce.cli.options import CareOptions, TableFile
from fedonce.cli.terminal import AsJson, Quiet, one_line, progress, say, to_json
from fedonce.cli.unfolding import unfolded
from fedonce.errors import InputError
from fedonce.system.text import Tell, duration

if TYPE_CHECKING:
    from fedonce.federation.host_run import RowsJob
    from fedonce.federation.report import FederationPrediction
    from fedonce.federation.status import GuestStatus

KitOption = Annotated[
    Path | None, typer.Option("--kit", help="The host's kit. Default: the run file's, or that of the training.")
]
FederationModel = Annotated[Path, typer.Option(help="Folder of a model from `fedonce federation fit`.")]
Deadline = Annotated[str, typer.Option(help="How long to wait for guests: 90s, 30m, 2h.")]
EVERY = 5.0  # seconds between two lines that tell a guest's epoch, where lines stay


@command(
    federation,
    "fedonce federation fit loans.toml --kit kits/bank --out bank/",
    "fedonce federation fit loans.toml --out bank/ --refit",
)
def fit(
    file: Annotated[Path, typer.Argument(help="The run file: what is asked of whom (TOML).", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder for the model, and for what arrives.")],
    kit: KitOption = None,
    refit: Annotated[
        bool, typer.Option("--refit", help="Train the model in --out again; only guests that are missing are asked.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Ask guests to learn, wait for their messages until the deadline, and train with those that came.

    Killed or interrupted, the same command goes on: what arrived is kept, and no guest learns twice.
    """
    from fedonce.federation.flare import host_steps
    from fedonce.federation.runfile import RunFile
    from fedonce.training.checkpoints import told

    run = RunFile.read(file)
    kit = kit or run.kit
    if kit is None:
        raise InputError(f'Say where the host\'s kit is: --kit kits/bank, or kit = "kits/bank" in {file}.')
    with progress(quiet) as tell, told(tell.epoch):
        figures = host_steps.fit(run, kit, out, _watch(tell), tell, refit).as_json()
    if as_json:
        typer.echo(to_json(figures))
        return
    typer.echo(f"trained {figures['task']} on {figures['rows']:,} rows of {figures['host']}, run {figures['run']}")
    for party, its in figures["guests"].items():
        say(f"  {party}: {_standing(party, its, figures)}")
    if figures["rounds"]:
        typer.echo(f"rounds: {figures['rounds']:,}, {figures['bytes to guests']:,} bytes to guests")
    for party, why in figures["lost in rounds"].items():
        say(f"  {party}: LOST in rounds: {why}")
    if figures["hinted"] is not None:
        for line in published(figures["hinted"]):
            say(f"hints: {line}")
    if figures["epsilon"] is not None:
        typer.echo(f"privacy: epsilon {figures['epsilon']:.4g} for all parties that answered")
    print_held_back(figures)
    typer.echo(f"received: {_traffic(figures)}")
    typer.echo(f"model: {out}")
    if figures["report"] is not None:
        typer.echo(f"report: {figures['report']}")


def _standing(party: str, its: dict[str, Any], figures: dict[str, Any]) -> str:
    if its["state"] == "received":
        seconds = "" if its["seconds"] is None else f", {its['seconds']:.1f} s"
        return f"has {100 * its['overlap']:.1f} % of the rows, {its['bytes']:,} bytes{seconds}"
    if its["state"] == "refused":
        return f"REFUSED, left out: {figures['refused'][party]}"
    why = f": {figures['failed'][party]}" if party in figures["failed"] else ""
    return f"LATE, left out (zeros); add it later with --refit{why}"


def _traffic(figures: dict[str, Any]) -> str:
    return (
        f"{figures['messages']} message{'' if figures['messages'] == 1 else 's'}, {figures['bytes']:,} bytes "
        f"(payload {figures['payload bytes']:,}; on the wire {figures['wire bytes']:,})"
    )


@command(federation, "fedonce federation predict new_bank.csv --model bank/ --out predictions.csv")
@unfolded
def predict(
    table: TableFile,
    model: FederationModel,
    care: CareOptions,
    out: Annotated[
        Path, typer.Option(help="File for ids, predictions, probabilities, who has the row: CSV, TSV or Parquet.")
    ] = Path("predictions.csv"),
    kit: KitOption = None,
    deadline: Deadline = "10m",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict the rows of a table: guests look the ids up in their own tables.

    Every guest of the training must answer, with half of its share of the rows at least, unless you say otherwise: else nothing
    is written (exit code 6). A guest that may be missing is zeros.
    """
    from fedonce.jobs import ModelRows, PredictJob

    done = _ask(PredictJob(ModelRows(table, model, care=care.care()), out), deadline, kit, as_json, quiet)
    if done is not None:
        typer.echo(f"predicted {done.as_json()['rows']:,} rows: {out}")
        _print_answers(done)


@command(federation, "fedonce federation evaluate old_bank.csv --model bank/")
@unfolded
def evaluate(
    table: TableFile,
    model: FederationModel,
    care: CareOptions,
    kit: KitOption = None,
    deadline: Deadline = "10m",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict rows whose labels are known, and compare: guests look the ids up in their own tables."""
    from fedonce.jobs import EvaluateJob, EvaluationReport, ModelRows

    done = _ask(EvaluateJob(ModelRows(table, model, care=care.care())), deadline, kit, as_json, quiet)
    if done is not None:
        assert isinstance(done.written, EvaluationReport)
        typer.echo(f"evaluated on {done.as_json()['rows']:,} rows")
        print_scores(done.written)
        _print_answers(done)


@command(federation, "fedonce federation explain old_bank.csv --model bank/ --out worth.png")
@unfolded
def explain(
    table: TableFile,
    model: FederationModel,
    care: CareOptions,
    out: PlotFile = None,
    per_row: PerRowFile = None,
    repeats: Repeats = 5,
    kit: KitOption = None,
    deadline: Deadline = "10m",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say what each party is worth, by labelled rows that the model was not trained on, or what moved each prediction.

    As `fedonce host explain`, but guests look the ids up in their own tables.
    """
    from fedonce.jobs import ExplanationReport, ModelRows

    job = explain_job(ModelRows(table, model, care=care.care()), out, repeats, per_row)
    done = _ask(job, deadline, kit, as_json, quiet)
    if done is not None:
        assert isinstance(done.written, ExplanationReport)
        print_explanation(done.written)
        _print_answers(done)


def _ask(job: RowsJob, deadline: str, kit: Path | None, as_json: bool, quiet: bool) -> FederationPrediction | None:
    """Do a job over the federation; print its figures as JSON where that is wanted, else return what it came to."""
    from fedonce.federation.flare import host_steps

    with progress(quiet) as tell:
        done = host_steps.predict(job, duration(deadline), _watch(tell), tell, kit)
    if not as_json:
        return done
    typer.echo(to_json(done.as_json()))
    return None


def _print_answers(done: FederationPrediction) -> None:
    figures = done.as_json()
    for party, share in figures["guests"].items():
        typer.echo(f"  {party}: has {100 * share:.1f} % of the rows")
    for party in figures["absent"]:
        reason = (figures["refused"] | figures["failed"]).get(party)
        why = "" if reason is None else f": {reason}"
        say(f"  {party}: ABSENT, zeros in its place{why}")
    typer.echo(f"received: {_traffic(figures)}")


def _watch(tell: Tell) -> Callable[[GuestStatus], None]:
    """Show where guests stand: all of them on a moving line, or a line a change where lines stay."""
    standing: dict[str, str] = {}
    shown: dict[str, tuple[str, float]] = {}

    def watch(status: GuestStatus) -> None:
        standing[status.guest] = one_line(status)
        before, when = shown.get(status.guest, ("", 0.0))
        if sys.stderr.isatty():
            tell("  ·  ".join(standing.values()))
        elif before != status.state or time.monotonic() - when > EVERY:
            shown[status.guest] = (status.state, time.monotonic())
            tell(standing[status.guest])

    return watch
