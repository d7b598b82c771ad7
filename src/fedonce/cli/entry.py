"""The command line: thin, each command calls the library and prints."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.markup import escape

import fedonce.cli.federation  # adds `fit`, `predict`, `evaluate` and `explain`
import fedonce.cli.federation_demo  # adds `demo`
import fedonce.cli.hint  # noqa: F401  # adds `hint`
from fedonce import __version__
from fedonce.cli import remedies
from fedonce.cli.align import align
from fedonce.cli.data import data
from fedonce.cli.demo import demo
from fedonce.cli.doctor import doctor
from fedonce.cli.export import export
from fedonce.cli.federation_kits import federation
from fedonce.cli.guest import guest, inspect
from fedonce.cli.help import Group, command
from fedonce.cli.host import host
from fedonce.cli.keys import keys
from fedonce.cli.leakage import leakage
from fedonce.cli.privacy import privacy
from fedonce.cli.start import show_start
from fedonce.cli.terminal import Printer, guarded, one_line
from fedonce.cli.unexpected import tell_unexpected
from fedonce.errors import AbsentPartyError, BudgetError, FederationError, FedOnceError, MessageError


class _Commands(Group):
    """The commands; what is said of a wrong option, which may be a file's name, is printable."""

    def make_context(self, info_name: str | None, args: list[str], *given: Any, **named: Any) -> Any:
        remedies.begin(self, args)
        with _printable_errors():
            return super().make_context(info_name, args, *given, **named)

    def invoke(self, ctx: Any) -> Any:
        with _printable_errors():
            return super().invoke(ctx)


@contextmanager
def _printable_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if not isinstance(error, FedOnceError) and isinstance(getattr(error, "message", None), str):
            error.message = one_line(error.message)  # type: ignore[attr-defined]
        raise


app = typer.Typer(
    cls=_Commands,
    help="FedOnce: one-shot vertical federated learning. One message per party, then predict.",
    epilog="fedonce demo\nfedonce guest fit --help",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
)


def exit_code(error: FedOnceError) -> int:
    """Return the exit code: 3 input data, 4 message, 5 privacy budget, 6 party absent or late, 7 the federation's machinery."""
    codes: dict[type[FedOnceError], int] = {MessageError: 4, BudgetError: 5, AbsentPartyError: 6, FederationError: 7}
    return next((code for kind, code in codes.items() if isinstance(error, kind)), 3)


def main() -> None:
    """Run the command line; our own errors are told in words and an exit code, never a traceback."""
    with guarded():
        try:
            app()
        except FedOnceError as error:
            # Escaped: an error may quote a file's text, which is not to be taken for markup.
            Printer(stderr=True).print(f"[bold red]error[/]: {escape(_printed(error))}")
            sys.exit(exit_code(error))
        except Exception as error:
            tell_unexpected(error)
            sys.exit(1)


def _printed(error: FedOnceError) -> str:
    """Return an error as one line, whatever it quotes; but files that are missing, which are ours to list, a line for each."""
    files = sys.modules.get("fedonce.datasets.files")  # which raises such an error, and takes seconds to import
    missing = files is not None and isinstance(error, files.MissingFilesError)
    text = remedies.with_options(str(error), error.parameters)
    lines = text.split("\n") if missing else [text]
    return "\n".join(map(one_line, lines))


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedonce {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    if ctx.invoked_subcommand is None:
        show_start()


command(app, "fedonce demo", "fedonce demo --out tried/ --seed 1 --json")(demo)
app.add_typer(guest, name="guest")
command(
    app,
    "fedonce inspect shop/representation.fedonce",
    "fedonce inspect sealed.fedonce --key bank.key --json",
    "fedonce inspect posted.fedonce --report shop/leakage.html",
)(inspect)
command(
    app,
    "fedonce leakage shop/representation.fedonce --table shop.csv --id client_no --secret loans.secret",
    "fedonce leakage shop/representation.fedonce --table shop.csv --id client_no --html leakage.html --refuse-above 0.9",
)(leakage)
app.add_typer(host, name="host")
app.add_typer(align, name="align")
app.add_typer(keys, name="keys")
command(app, "fedonce export shop/ --onnx", "fedonce export bank/ --onnx --out head.onnx")(export)
app.add_typer(privacy, name="privacy")
app.add_typer(federation, name="federation")
app.add_typer(data, name="data")
command(app, "fedonce doctor", "fedonce doctor --json")(doctor)
