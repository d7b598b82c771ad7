"""The command line: thin, each command calls the library and prints."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table
from typer.core import TyperGroup

import fedonce.cli.federation  # adds `fit`, `predict`, `evaluate` and `explain`
import fedonce.cli.federation_demo  # adds `demo`
import fedonce.cli.hint  # noqa: F401  # adds `hint`
from fedonce import __version__
from fedonce.cli import remedies
from fedonce.cli.align import align
from fedonce.cli.export import export
from fedonce.cli.federation_kits import federation
from fedonce.cli.guest import guest, inspect
from fedonce.cli.host import host
from fedonce.cli.keys import keys
from fedonce.cli.leakage import leakage
from fedonce.cli.privacy import privacy
from fedonce.cli.terminal import Printer, guarded, one_line
from fedonce.errors import AbsentPartyError, BudgetError, FederationError, FedOnceError, MessageError

if TYPE_CHECKING:
    from fedonce.demo.digits import Demonstration


class _Commands(TyperGroup):
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
    no_args_is_help=True,
    add_completion=False,
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
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None: ...


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for report.html.")] = Path("fedonce-demo"),
    seed: Annotated[int, typer.Option(help="Seed of the split and of all parties.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Train on digits cut into four quadrants, four parties; print a table and write a report.

    The data are part of scikit-learn: nothing is downloaded. Takes about a minute on two cores.
    """
    if out.exists() and not out.is_dir():
        raise typer.BadParameter(f"{out} is a file; name a folder.", param_hint="--out")
    progress = Printer(stderr=True, quiet=quiet)
    with progress.status("loading") as status:
        from fedonce.demo import page
        from fedonce.demo.digits import run

        page.check_installed()  # before the training, not after it

        def tell(method: str) -> None:
            if progress.is_terminal:
                status.update(f"training {method}")
            else:
                progress.print(f"training {method}")

        result = run(seed, tell)
        path = page.write(result, out)
    if as_json:
        typer.echo(json.dumps({"report": str(path), "outcomes": [asdict(o) for o in result.outcomes]}, indent=2))
    else:
        _print_table(result)
        typer.echo(f"report: {path}")


def _print_table(result: Demonstration) -> None:
    table = Table(
        title=f"digits, four quadrants, {result.n_train} training and {result.n_test} test images",
        title_justify="left",
    )
    for column in ("method", "accuracy", "messages", "bytes sent", "seconds"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for o in result.outcomes:
        table.add_row(o.method, f"{100 * o.accuracy:.1f} %", str(o.messages), f"{o.bytes:,}", f"{o.seconds:.1f}")
    Printer().print(table)


data = typer.Typer(help="The paper's data sets: what is here, and how to get them.", no_args_is_help=True)
app.add_typer(data, name="data")

DataDir = Annotated[
    Path | None,
    typer.Option(help="Folder with data sets. Default: FEDONCE_DATA, else the user's cache.", show_default=False),
]


@data.command("list")
def list_data(
    data_dir: DataDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List the data sets: rows, columns, task, whether they are here, licence.

    Present: every file has the right checksum. Partial: some of the owner's rows. Unchecked: the owner publishes no
    checksums. Damaged: a file has a wrong one. Incomplete: files are missing.
    """
    from fedonce.datasets import SOURCES, data_folder, status

    root = data_folder(data_dir)
    rows = [
        {
            "name": source.name,
            "rows": source.rows,
            "columns": source.columns,
            "task": source.task,
            "status": status(source, data_dir),
            "licence": source.licence,
            "folder": str(root / source.folder),
        }
        for source in SOURCES.values()
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    there = "" if root.is_dir() else " (there is no such folder yet)"
    table = Table(title=f"data sets in {root}{there}", title_justify="left", box=box.SIMPLE)
    for row in rows:
        del row["folder"]
    for column in rows[0]:
        table.add_column(
            column, justify="right" if column in ("rows", "columns") else "left", no_wrap=column != "licence"
        )
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in row.values()))
    terminal = Printer()
    Printer(width=terminal.width if terminal.is_terminal else 120).print(table)


@data.command()
def fetch(
    name: Annotated[str, typer.Argument(help="A name from `fedonce data list`.")],
    data_dir: DataDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was loaded as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    verify: Annotated[bool, typer.Option("--verify/--no-verify", help="Compare checksums.")] = True,
) -> None:
    """Download a data set from its owner, check it and read it once; nothing is downloaded that is here already."""
    from fedonce.datasets import FETCHERS, SOURCES, data_folder, files

    if name not in FETCHERS:
        close = get_close_matches(name, FETCHERS, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(FETCHERS)}.{hint}", param_hint="NAME")
    files.quiet.set(quiet)
    dataset = FETCHERS[name](data_dir, verify=verify)
    found: dict[str, Any] = {
        "name": name,
        "folder": str(data_folder(data_dir) / SOURCES[name].folder),
        "rows": len(dataset.target),
        "columns": len(dataset.feature_names),
        "task": dataset.task,
        "complete": dataset.complete,
        "note": dataset.note,
        "licence": dataset.licence,
        "citation": dataset.citation,
    }
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    if not dataset.complete:
        found["note"] += "; to have all rows fetched, name another folder with --data-dir, or remove these files"
    for key, value in found.items():
        typer.echo(f"{key:9} {value:,}" if type(value) is int else f"{key:9} {value}")


app.add_typer(guest, name="guest")
app.command()(inspect)
app.command()(leakage)
app.add_typer(host, name="host")
app.add_typer(align, name="align")
app.add_typer(keys, name="keys")
app.command()(export)
app.add_typer(privacy, name="privacy")
app.add_typer(federation, name="federation")
