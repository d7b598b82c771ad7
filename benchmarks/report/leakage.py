"""Accuracy against what is read in messages, for learners and protections: the report's section and its picture's points."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.report.figures import Line, by_data, look, mean_cell, results, table, title

IMAGES = ("mnist",)  # of whose hundreds of pixels the mean says more than the worst

WAYS = {
    "by nothing": "no row known",
    "by wider": "no row known, products and cells",
    "by known": "1 % of the rows known",
}
EARLIER = " †"  # behind a message that was attacked before all of these attacks were known: at least so much is read


def section() -> str:
    """Return a row for each data set and message."""
    head = ["data (parties)", "message", "accuracy or error", "B per row and guest"]
    head += [f"{what}: readable" for what in WAYS.values()]
    head += ["worst column, no row known", "products and cells", "1 % known"]
    rows = [_row(runs) for group in by_data(results("leakage")).values() for runs in messages(group).values()]
    return table(head, rows)


def sweet_spots() -> str:
    """Return the messages of each data set that no other beats, both in how good the model is and in what is read; PCA beside."""
    rows = []
    for group in by_data(results("leakage")).values():
        found = messages(group)
        best = {
            words: runs for words, runs in found.items() if not any(_beats(other, runs) for other in found.values())
        }
        plain = {words: runs for words, runs in found.items() if _plain(runs[0])}
        rows += [_short(runs) for runs in (plain | best).values()]
    return table(["data (parties)", "message", "accuracy or error", "B per row and guest", *WAYS.values()], rows)


def _plain(line: Line) -> bool:
    return look(line, "learner") == "pca" and not any(look(line, name) for name in ("noise", "protect", "bits"))


def _beats(first: Sequence[Line], second: Sequence[Line]) -> bool:
    """Tell whether the first is as good in both, and better in one."""
    sign = 1 if first[0]["metric"] == "accuracy" else -1
    (one, less), (other, more) = (
        (sign * float(np.mean([line["value"] for line in runs])), read(runs)) for runs in (first, second)
    )
    return one >= other and less <= more and (one, less) != (other, more)


def _short(runs: Sequence[Line]) -> list[str]:
    name, words, score, size, *_ = _row(runs)
    return [name, words, score, size, *(_worst(runs, way) for way in WAYS)]


def messages(group: Sequence[Line]) -> dict[str, list[Line]]:
    """Return the runs of one data set by what was sent, in words."""
    found: dict[str, list[Line]] = {}
    for line in group:
        found.setdefault(_words(line), []).append(line)
    return found


def _words(line: Line) -> str:
    """Say what was sent."""
    dim, bits, epsilon = look(line, "dim"), look(line, "bits") or 8, look(line, "local_epsilon")
    earlier = "" if "attacks" in line else EARLIER
    if protect := look(line, "protect"):
        return f"protect {protect}{earlier}"
    if epsilon is not None:
        return f"{dim} cells, local epsilon {epsilon:g}{earlier}"
    noise = look(line, "noise")
    return f"{look(line, 'learner')} {dim}x{bits}" + (f", noise {noise:g}" if noise else "") + earlier


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
    if runs[0]["data"] in IMAGES:
        return f"{100 * _mean(runs, way, 'mean_gain'):.0f} % of a pixel, mean"
    points = [line[way]["points"] for line in runs if line[way].get("points") is not None]
    told = f"; yes/no: {float(np.mean(points)):.1f} points above guessing" if points else ""
    return f"{100 * gain(runs, way):.0f} %{told}"


def gain(runs: Sequence[Line], way: str) -> float:
    """Return the mean over runs of what is got right, of the worst column, of what guessing gets wrong."""
    return _mean(runs, way, "gain")


def read(runs: Sequence[Line]) -> float:
    """Return how much is read, for a picture: of the worst column by who knows no row; of images by who knows 1 %, on average."""
    return _mean(runs, "by known", "mean_gain") if runs[0]["data"] in IMAGES else gain(runs, "by nothing")


def _mean(runs: Sequence[Line], way: str, entry: str) -> float:
    return round(float(np.mean([line[way].get(entry) or 0.0 for line in runs])), 3)
