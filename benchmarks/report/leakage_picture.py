"""The picture of how good a model is against what is read in its messages: one part for each data set, up and left is better."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report.drawing import colour, grid, label, save
from benchmarks.report.figures import Line, by_data, look, results
from benchmarks.report.leakage import IMAGES, messages, read

# What each kind of message is called in the legend: its method, whose colour it has in all pictures, and its mark.
KINDS = {
    "pca": ("PCA", "FedOnce-PCA", "o"),
    "patches": ("patches of images", "FedOnce-patches", "P"),
    "autoencoder": ("autoencoder", "FedOnce-autoencoder", "^"),
    "nat": ("NAT", "FedOnce-NAT", "D"),
    "cells": ("cells, with centres", "FedOnce-cells", "s"),
    "random": ("untrained network", "FedOnce-random", "X"),
    "protect": ("protect cells:20, 100, 300", "FedOnce, protect", "*"),
    "noise": ("PCA with noise 0.1, 0.3", "FedOnce, noise", "v"),
    "local_epsilon": ("local epsilon 4", "FedOnce, local epsilon", "d"),
}
SHADES = 200  # with fewer, orange becomes vermilion
ROOM = 0.12  # of the height, above and below the points
NEAR = (2.5, 0.05)  # points of per cent, and parts of the height, within which two marks would hide each other


def draw(folder: Path) -> None:
    """Draw each message of a data set, with its spread over seeds; several strengths of one protection are joined.

    Where marks would hide each other, they are moved aside by a few per cent.
    """
    groups = list(by_data(results("leakage")).values())
    figure, axes = grid(len(groups))
    for axis, group in zip(axes, groups, strict=False):
        series: dict[str, list[Point]] = {}
        for point in _apart([Point(runs) for runs in messages(group).values()]):
            series.setdefault(kind(point.runs[0]), []).append(point)
        for name in sorted(series, key=list(KINDS).index):
            _draw(axis, name, series[name])
        _axes(axis, group)
    _in_order(axes)
    save(figure, axes, folder / "leakage.png", SHADES)


class Point:
    """One kind of message on one data set: where it is drawn, by its runs."""

    def __init__(self, runs: Sequence[Line]) -> None:
        self.runs = runs
        self.across = 100 * read(runs)
        values = [line["value"] for line in runs]
        self.mean, self.spread = float(np.mean(values)), float(np.std(values))


def _apart(points: Sequence[Point]) -> Sequence[Point]:
    """Move points aside, to the left, that would hide others."""
    height = max(np.ptp([point.mean for point in points]), 1e-9)
    for place, point in enumerate(points):
        while any(
            abs(other.across - point.across) < NEAR[0] and abs(other.mean - point.mean) < NEAR[1] * height
            for other in points[:place]
        ):
            point.across -= NEAR[0]
    return points


def _in_order(axes: Sequence[Any]) -> None:
    """Let every kind stand in the first part's legend, in one order, whichever parts have it."""
    for name, (said, method, mark) in KINDS.items():
        if any(said in axis.get_legend_handles_labels()[1] for axis in axes):
            axes[0].plot([], [], **_look(method, mark), ls="", label=said, gid=name)


def kind(line: Line) -> str:
    """Return what protects a message, or else its learner."""
    return next((name for name in ("protect", "local_epsilon", "noise") if look(line, name)), look(line, "learner"))


def strength(line: Line) -> str:
    """Return how much of its protection a message has, as it is written beside its point."""
    if protect := look(line, "protect"):
        return str(protect).removeprefix("cells:")
    if noise := look(line, "noise"):
        return f"{noise:g}"
    bits = look(line, "bits")
    return f"{bits} bits" if bits else ""


def _look(method: str, mark: str) -> dict[str, Any]:
    return {"color": colour(method), "marker": mark, "mec": "white", "mew": 0.8, "ms": 13 if mark == "*" else 9}


def _draw(axis: Any, name: str, points: Sequence[Point]) -> None:
    """Draw the messages of one kind, joined where they are several, and write their strengths beside them."""
    said, method, mark = KINDS[name]
    across, means, spreads = ([getattr(point, what) for point in points] for what in ("across", "mean", "spread"))
    axis.errorbar(across, means, spreads, ls=":", lw=1.2, label=said, elinewidth=1, **_look(method, mark))
    for point in points:
        lowest = len(points) > 1 and point.mean == min(means)
        aside = (6, -13 if lowest else 5)
        text = strength(point.runs[0])
        place = (point.across, point.mean)
        axis.annotate(text, place, aside, textcoords="offset points", fontsize=9, color=colour(method))


def _axes(axis: Any, group: Sequence[Line]) -> None:
    """Name the axes and say which way is better: errors are drawn downwards, so that it is up and left everywhere."""
    label(axis, group)
    image = group[0]["data"] in IMAGES
    axis.set_xlabel(
        "read of a pixel (%), mean, 1 % of rows known" if image else "read of the worst column (%), no row known"
    )
    axis.set_xlim(-5, 109)
    axis.margins(y=ROOM)
    if group[0]["metric"] != "accuracy":
        axis.invert_yaxis()
        axis.set_ylabel("RMSE, less is up")
    arrow = {"arrowstyle": "-|>", "color": "0.35", "lw": 1.5}
    axis.annotate("", (0.02, 0.98), (0.10, 0.86), xycoords="axes fraction", arrowprops=arrow)
    axis.text(0.11, 0.85, "better", transform=axis.transAxes, color="0.35", fontsize=10, va="top")
