"""What the host's trainings share on the command line: how options are read, and how what rows held back say is printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from fedonce.cli.options import pairs
from fedonce.cli.terminal import one_line, say
from fedonce.errors import InputError

YES_OR_NO: dict[str, bool | str] = {"auto": "auto", "yes": True, "no": False}


def class_weight(given: Sequence[str] | None) -> str | dict[str, float] | None:
    """Return what classes count: "balanced", or a number by class; None: alike."""
    if not given:
        return None
    if list(given) == ["balanced"]:
        return "balanced"
    found = {}
    for name, text in pairs(given, "--class-weight", "balanced, or yes=5").items():
        try:
            found[name] = float(text)
        except ValueError:
            raise InputError(
                f"The option --class-weight must be like balanced, or yes=5. Got {text!r} for {name!r}."
            ) from None
    return found


def yes_or_no(text: str, option: str) -> bool | str:
    """Return what auto, yes or no means."""
    if text not in YES_OR_NO:
        raise InputError(f"The option {option} must be one of {', '.join(YES_OR_NO)}. Got {text!r}.")
    return YES_OR_NO[text]


def print_held_back(figures: Mapping[str, Any]) -> None:
    """Print what was trained, how good it is on rows held back, and whether the guests were worth it."""
    if figures["host model"] is not None:
        typer.echo(one_line(f"host model: {figures['host model']}"))
    found = figures["validation"]
    if found is None:
        typer.echo(f"held back: no rows, so no score: {figures['not validated']}")
        return
    text = f"held back: {found['metric']} {_score(found['joint'])} on {found['rows']:,} rows"
    if found["alone"] is not None:
        gain = found["gain"]["value"]
        by = f"{'better' if gain >= 0 else 'WORSE'} by {_score(found['gain'] | {'value': abs(gain)})}"
        by += ", no clear difference" if abs(gain) <= 2 * found["gain"]["error"] else ""
        text += f"; the host alone {_score(found['alone'])}; {by}"
    say(text)
    if found["more"]:
        typer.echo("  " + "; ".join(f"{name} {value:.4f}" for name, value in found["more"].items()))


def _score(score: Mapping[str, float]) -> str:
    return f"{score['value']:.4g} ± {score['error']:.2g}"
