"""What is said of an error that nobody foresaw: where it happened, with which versions, and whom to tell; no value of a table."""

from __future__ import annotations

import os
import platform
import sys
import traceback
from importlib import metadata

from rich.markup import escape

from fedonce import __version__
from fedonce.cli.terminal import Printer

SHOW = "FEDONCE_TRACEBACK"  # the environment variable that asks for all of it
PACKAGES = ("torch", "numpy", "scikit-learn", "lightgbm", "typer")


def tell_unexpected(error: BaseException) -> None:
    """Print the kind of an error and the places that it passed; its own text may quote rows, and is left out unless asked for."""
    if os.environ.get(SHOW):
        traceback.print_exception(error)
    else:
        frames = traceback.extract_tb(error.__traceback__)
        places = [f"  {_short(frame.filename)}:{frame.lineno} in {frame.name}" for frame in frames]
        _print("Where it happened:", *places[-12:])
    _print(
        f"[bold red]unexpected error[/]: {escape(type(error).__name__)}, a mistake of fedonce or of what it uses, not yours."
    )
    _print(f"Please report it, with the lines above and these: {escape(address())}", f"  {escape(versions())}")
    _print(f"They hold no value of your tables. {SHOW}=1 shows the whole error, which may: look before you send that.")


def address() -> str:
    """Return where to report, as the package's own metadata say it."""
    try:
        urls = metadata.metadata("fedonce").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        urls = []
    named = dict(each.split(", ", 1) for each in urls)
    return named.get("Issues") or "(this installation names no address; `pip show fedonce` says who made it)"


def versions() -> str:
    """Return the versions of all that matters, on one line."""
    found = [f"fedonce {__version__}", f"Python {platform.python_version()}", platform.platform()]
    for package in PACKAGES:
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            found.append(f"{package} absent")
    return ", ".join(found)


def _short(path: str) -> str:
    """Return a file's path from its package on: the folders above it may name a person or a customer."""
    roots = [root for root in sys.path if root and path.startswith(root)]
    return path[len(max(roots, key=len)) :].lstrip("/\\") if roots else os.path.basename(path)


def _print(*lines: str) -> None:
    for line in lines:
        Printer(stderr=True).print(line)
