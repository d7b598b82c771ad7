"""Accuracy against what is read in messages, for learners and protections: the report's section and its picture's points."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.report.figures import Line, by_data, look, mean_cell, results, table, title

WAYS = {
    "by nothing": "no row known",
    "by wider": "no row known, products and cells",
    "by known": "1 % of the rows known",
}


def section() -> str:
    """Return a row for each data set and message."""
    head = ["data (parties)", "message", "accuracy or error", "B per row and guest"]
    head += [f"{what}: readable" for what in WAYS.values()]
    head += ["worst column, no row known", "products and cells", "1 % known"]
    rows = [_row(runs) for group in by_data(results("leakage")).values() for runs in messages(group).values()]
    return table(head, rows)


def messages(group: Sequence[Line]) -> dict[str, list[Line]]:
    """Return the runs of one data set by what was sent, in words."""
    found: dict[str, list[Line]] = {}
    for line in group:
        found.setdefault(_words(line), []).append(line)
    return found


def _words(line: Line) -> str:
    """Say what was sent."""
    dim, bits, epsilon = look(line, "dim"), look(line, "bits") or 8, look(line, "local_epsilon")
    if protect := look(line, "protect"):
        return f"protect {protect}"
    if epsilon is not None:
        return f"{dim} cells, local epsilon {epsilon:g}"
    noise = look(line, "noise")
    return f"{look(line, 'learner')} {dim}x{bits}" + (f", noise {noise:g}" if noise else "")


def _row(runs: Sequence[Line]) -> list[str]:
    first = runs[0]
    size = float(np.mean([line["payload"] for line in runs])) / first["rows"] / (first["parties"] - 1)
    readable = [f"{_mean(runs, way, 'readable'):g} of {first[way]['columns']}" for way in WAYS]
    return [
        title(first),
        _words(first),
        f"{mean_cell(runs)} ({len(runs)})",
        f"{size:.2f}",
        *readable,
        *(_worst(runs, way) for way in WAYS),
    ]


def _worst(runs: Sequence[Line], way: str) -> str:
    """Say which part of what guessing gets wrong is got right of the worst column, and how many points that are."""
    if not runs[0][way]["columns"]:
        return "-"
    points = [line[way]["points"] for line in runs if line[way].get("points") is not None]
    told = f"; yes/no: {float(np.mean(points)):.1f} points above guessing" if points else ""
    return f"{100 * gain(runs, way):.0f} %{told}"


def gain(runs: Sequence[Line], way: str) -> float:
    """Return the mean over runs of what is got right, of the worst column, of what guessing gets wrong."""
    return _mean(runs, way, "gain")


def _mean(runs: Sequence[Line], way: str, entry: str) -> float:
    return round(float(np.mean([line[way].get(entry) or 0.0 for line in runs])), 3)
