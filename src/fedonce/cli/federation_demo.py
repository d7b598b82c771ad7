"""`fedonce federation demo`: a federation of five parties on this machine, with one that comes late."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from fedonce.cli.federation_kits import federation
from fedonce.cli.help import command
from fedonce.cli.terminal import AsJson, Printer, Quiet, progress, to_json

if TYPE_CHECKING:
    from fedonce.federation.flare.demonstration import Demonstration, Step


@command(federation, "fedonce federation demo")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for kits, tables, model and predictions.")] = Path(
        "fedonce-federation-demo"
    ),
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run a server, a host and guests on this machine: train with three guests, predict, let a fourth join late.

    The data are part of scikit-learn, a free port is taken, and every process that is started is ended, also on Ctrl-C. Takes
    about a minute and a half on two cores.
    """
    with progress(quiet) as tell:
        tell("loading")
        from fedonce.federation.flare import demonstration

        done = demonstration.run(out, tell, show=lambda step: tell(_as_command(step)))
    if as_json:
        typer.echo(to_json(done.to_json() | {"out": str(out)}))
        return
    _show(done)
    typer.echo(f"all processes have ended; kits, tables, logs, model and predictions: {out}")


def _as_command(step: Step) -> str:
    """Return a step as the command that does the same."""
    options = [
        f"--{name.replace('_', '-')}" if value is True else f"--{name.replace('_', '-')} {value}"
        for name, value in step.options.items()
        if value is not False
    ]
    note = f"   ({step.note})" if step.note else ""
    return f"{' '.join(['fedonce federation', step.what, *step.given, *options])}{note}"


def _show(done: Demonstration) -> None:
    console = Printer()
    console = console if console.is_terminal else Printer(width=120)
    models = Table(
        title=f"digits in five strips, {done.n_train:,} images to learn from, {done.n_test:,} held back",
        title_justify="left",
    )
    for column in ("model", "who took part", "accuracy", "seconds"):
        models.add_column(column, justify="right" if column in ("accuracy", "seconds") else "left")
    for model in done.models:
        took_part = (", ".join(model.guests) or "-") + "".join(f" ({name} was late)" for name in model.late)
        models.add_row(model.name, took_part, f"{100 * model.accuracy:.1f} %", f"{model.seconds:.1f}")
    console.print(models)
    sent = Table(title="bytes: values, whole message, all on the wire", title_justify="left")
    for column in ("guest", "training", "payload", "message", "wire", "seconds"):
        sent.add_column(column, justify="left" if column in ("guest", "training") else "right")
    for each in done.sent:
        figures = (f"{each.payload:,}", f"{each.message:,}", f"{each.wire:,}", f"{each.seconds:.1f}")
        sent.add_row(each.guest, each.training, *figures)
    console.print(sent)
