"""`fedonce data`: the paper's data sets."""

from __future__ import annotations

import json
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from fedonce.cli.help import command, group
from fedonce.cli.terminal import AsJson, Printer, Quiet

data = group(
    "The paper's data sets: what is here, and how to get them.", "fedonce data list", "fedonce data fetch phishing"
)

DataDir = Annotated[
    Path | None,
    typer.Option(help="Folder with data sets. Default: FEDONCE_DATA, else the user's cache.", show_default=False),
]


@command(data, "fedonce data list", "fedonce data list --data-dir /data/public --json", name="list")
def list_data(
    data_dir: DataDir = None,
    as_json: AsJson = False,
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


@command(data, "fedonce data fetch phishing", "fedonce data fetch mnist --data-dir /data/public")
def fetch(
    name: Annotated[str, typer.Argument(help="A name from `fedonce data list`.")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
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
