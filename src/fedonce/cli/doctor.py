"""`fedonce doctor`: whether all is there that fedonce needs, and what of the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from fedonce.cli.terminal import AsJson, progress, say, to_json

if TYPE_CHECKING:
    from fedonce.system.checkup import Checkup


def doctor(as_json: AsJson = False) -> None:
    """Say what is installed and what this machine has: versions, threads, GPU, memory, disk, and which optional parts are there.

    Ends with exit code 1 where something is broken that fedonce cannot do without.
    """
    with progress(quiet=as_json) as tell:
        tell("looking at packages and this machine")
        from fedonce.datasets import data_folder
        from fedonce.system.checkup import checkup

        found = checkup(data_folder())
    if as_json:
        typer.echo(to_json(found.as_json()))
    else:
        _print(found)
    if not found.ok:
        raise typer.Exit(1)


def _print(found: Checkup) -> None:
    width = max(len(each.name) for each in (*found.required, *found.optional, *found.machine))
    say("Needed")
    for each in found.required:
        say(f"  {each.name:{width}}  {each.state:8}{each.note}")
    say("Optional")
    for each in found.optional:
        say(f"  {each.name:{width}}  {each.state:8}{each.note}")
    say("This machine")
    for each in found.machine:
        say(f"  {each.name:{width}}  {each.note}")
    say("All that fedonce needs is ok." if found.ok else "Something that fedonce needs is broken: see above.")
