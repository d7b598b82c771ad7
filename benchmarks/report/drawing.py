"""How pictures are drawn: their size, their legend, and one colour and mark for each method, in all of them.

A picture of another module is three calls: `figure, axes = grid(1)`, `axes[0].plot(..., **style("SplitNN"))`, `save(figure, axes,
path)`. At least 1,200 pixels wide, so that it is sharp at 100 %, and below 200 kB.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import NullFormatter
from PIL import Image

from benchmarks.report.figures import Line, title
from fedonce.report.colours import OTHERS, colour

__all__ = ["OTHERS", "colour", "grid", "label", "log_scale", "save", "style"]

WIDTH, DPI = 12.0, 120  # inches, and pixels for each
HEIGHTS = {1: 6.0, 2: 4.6, 3: 3.6}  # of a part, by how many stand side by side
SHADES = 96  # colours in a file: lines and letters need no more
MARKS = {
    "FedOnce": "*",
    "FedOnce multi-round": "o",
    "FedOnce-L0": "D",
    "SplitNN": "s",
    "SplitNN-Comm": "s",
    "SecureBoost": "^",
    "SecureBoost-Comm": "v",
    "Solo": "o",
}
FONTS = {
    "font.size": 11,
    "axes.titlesize": 12,
    "legend.fontsize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def style(method: str) -> dict[str, Any]:
    """Return a method's colour and mark, as matplotlib takes them."""
    return {"color": colour(method), "marker": MARKS.get(method, "o"), "markersize": 12 if method == "FedOnce" else 6}


def grid(count: int) -> tuple[Any, list[Any]]:
    """Return a figure of so many parts, three side by side at most, and the parts."""
    columns = min(count, 2 if count == 4 else 3)
    rows = ceil(count / columns)
    with mpl.rc_context(FONTS):
        figure, axes = plt.subplots(rows, columns, figsize=(WIDTH, HEIGHTS[columns] * rows + 0.6), squeeze=False)
    flat = list(axes.flat)
    for unused in flat[count:]:
        unused.axis("off")
    return figure, flat


def label(axis: Any, lines: Sequence[Line]) -> None:
    """Name what is drawn: the data set above, the score beside."""
    axis.set_ylabel("accuracy (%)" if lines[0]["metric"] == "accuracy" else "RMSE")
    axis.set_title(title(lines[0]))
    axis.grid(alpha=0.25)


def log_scale(axis: Any) -> None:
    """Scale by logarithms, with words at the powers of ten alone."""
    axis.set_xscale("log")
    axis.xaxis.set_minor_formatter(NullFormatter())


def save(figure: Any, axes: Sequence[Any], path: Path, shades: int = SHADES) -> None:
    """Write a picture with one legend for all of its parts, below them; one with most of the palette needs more shades."""
    handles = {name: handle for axis in axes for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.set_dpi(DPI)
    legend = _legend(figure, handles)
    height = legend.get_window_extent().height / figure.bbox.height
    figure.tight_layout(rect=(0, height + 0.08 / figure.get_figheight(), 1, 1))
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=DPI, facecolor="white")
    plt.close(figure)
    few = Image.open(drawn).convert("RGB").quantize(shades, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def _legend(figure: Any, handles: Mapping[str, Any]) -> Any:
    """Put a legend at the foot of a picture, in as many columns as its width has room for, at most five."""

    def put(columns: int) -> Any:
        return figure.legend(
            handles.values(), handles.keys(), loc="lower center", ncols=columns, frameon=False, fontsize=11
        )

    columns = min(5, max(1, len(handles)))
    legend = put(columns)
    while columns > 1 and legend.get_window_extent().width > figure.bbox.width:
        legend.remove()
        columns -= 1
        legend = put(columns)
    return legend
