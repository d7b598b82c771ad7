"""`fedonce` without a command: where to start."""

from __future__ import annotations

from rich.text import Text

from fedonce import __version__
from fedonce.cli.terminal import Printer

PATHS = (
    ("See it work", "fedonce demo", "15 seconds, no data needed"),
    ("Columns, no labels", "fedonce guest fit --help", "learn, send one file"),
    ("Labels", "fedonce host fit --help", "train with it, predict"),
    ("What is in a file", "fedonce inspect FILE", "before you send it"),
    ("Connected parties", "fedonce federation demo", "server and guests, here"),
    ("It does not work", "fedonce doctor", "versions, parts, threads"),
)
MORE = ("All commands: fedonce --help", "Completion in your shell: fedonce --install-completion")


def show_start() -> None:
    """Print the paths, a line each."""
    printer = Printer()
    printer.print(
        Text(f"FedOnce {__version__}: one message per party, then predict.", style="bold"), Text(""), sep="\n"
    )
    for what, command, note in PATHS:
        printer.print(Text.assemble(f"  {what:20}", (f"{command:26}", "cyan"), (note, "dim")), soft_wrap=True)
    printer.print(Text(""), *map(Text, MORE), sep="\n")
