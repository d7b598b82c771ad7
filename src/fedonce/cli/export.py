"""`fedonce export`: a party's network for other programs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from fedonce.cli.terminal import AsJson, Quiet, progress, to_json
from fedonce.errors import InputError


def export(
    folder: Annotated[Path, typer.Argument(help="A guest's or a host's folder.", show_default=False)],
    onnx: Annotated[bool, typer.Option("--onnx", help="Write ONNX, the one format so far.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Default: encoder.onnx (guest) or head.onnx (host) in the folder.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write a guest's encoder or a host's model as ONNX, and check it against the original with onnxruntime.

    Inputs are rows as the party prepares them (scaled, categories in columns of their own), not raw columns.
    """
    from fedonce.export import onnx as onnx_export
    from fedonce.party import Guest, Host, storage

    if not onnx:
        raise InputError("Say in which format to write: --onnx, the one format so far.")
    with progress(quiet) as tell:
        tell("exporting")
        if storage.kind(folder) == "guest":
            done = onnx_export.export_guest(Guest.load(folder), out or folder / "encoder.onnx")
        else:
            done = onnx_export.export_host(Host.load(folder), out or folder / "head.onnx")
    if as_json:
        typer.echo(to_json(asdict(done)))
        return
    typer.echo(f"{done.path}: {_shapes(done.inputs)} -> {_shapes(done.outputs)}")
    typer.echo(f"checked with onnxruntime: largest difference {done.difference:.2g}")


def _shapes(named: dict[str, tuple[int | str, ...]]) -> str:
    return ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in named.items())
