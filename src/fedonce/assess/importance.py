"""What each party is worth: how much worse the host predicts when its columns are shuffled among the rows (Breiman, 2001)."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.errors import InputError, parameter_error
from fedonce.report.colours import BLACK, BLUE, GREY, VERMILION
from fedonce.system.disk import write_file
from fedonce.system.extras import require
from fedonce.training.loop import Rows

Score = Callable[[Rows, Rows, Rows], float]
LONGEST_NAME = 24
HOST_COLOUR, GUEST_COLOUR, GONE_COLOUR = GREY, BLUE, VERMILION


@dataclass(frozen=True)
class Worth:
    """What one party is worth, in units of the score.

    Parameters
    ----------
    party : str
        Its name.
    drop, spread : float
        How much the score falls when the party's columns are shuffled among the rows: mean and standard deviation over repeats.
    absent : float, optional
        How much it falls when the guest does not answer at all; None for the host.
    rows : int
        Rows that the party has.
    """

    party: str
    drop: float
    spread: float
    absent: float | None
    rows: int


def explain(
    score: Score,
    own: Rows,
    values: Rows,
    present: Rows,
    dims: Mapping[str, int],
    host: str,
    repeats: int = 5,
    seed: int = 0,
) -> list[Worth]:
    """Measure what each party is worth, the host first.

    Parameters
    ----------
    score : callable
        From own rows, the guests' values and who is present to how well the host predicts; higher is better.
    own, values, present : array
        The host's prepared rows, the guests' values side by side, and 1 or 0 per guest.
    dims : dict
        Guests, in the order of `values`, to how many values each has.
    host : str
        The host's name.
    repeats, seed : int
        How often a party is shuffled, and the seed of that.
    """
    _check(own, values, present, dims, repeats)
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(len(own)) for _ in range(repeats)]
    base = score(own, values, present)
    found = [_worth(host, base, [score(own[order], values, present) for order in orders], None, len(own))]
    ends = np.cumsum([0, *dims.values()])
    for j, guest in enumerate(dims):
        theirs = slice(ends[j], ends[j + 1])
        scores = [score(own, *_moved(values, present, theirs, j, order)) for order in orders]
        alone = score(own, *_moved(values, present, theirs, j, None))
        found.append(_worth(guest, base, scores, base - alone, int(present[:, j].sum())))
    return found


def _worth(party: str, base: float, scores: list[float], absent: float | None, rows: int) -> Worth:
    spread = float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0
    return Worth(party, float(base - np.mean(scores)), spread, None if absent is None else float(absent), rows)


def _moved(values: Rows, present: Rows, theirs: slice, guest: int, order: NDArray[np.intp] | None) -> tuple[Rows, Rows]:
    """Return values and marks with those of one guest in another order; None: as if it had not answered."""
    values, marks = values.copy(), present.copy()
    values[:, theirs] = 0 if order is None else values[order, theirs]
    marks[:, guest] = 0 if order is None else marks[order, guest]
    return values, marks


def _check(own: Rows, values: Rows, present: Rows, dims: Mapping[str, int], repeats: int) -> None:
    if not isinstance(repeats, int | np.integer) or repeats < 1:
        raise parameter_error("explain", "repeats", "a positive integer", repeats)
    wanted = (len(own), sum(dims.values())), (len(own), len(dims))
    if (values.shape, present.shape) != wanted:
        raise InputError(
            f"The guests' values and marks must have shapes {wanted[0]} and {wanted[1]}, for {len(own)} rows and guests of "
            f"{dict(dims)} values. Got {values.shape} and {present.shape}."
        )
    if len(own) < 2:
        raise InputError(f"What a party is worth needs two labelled rows or more to shuffle. Got {len(own)}.")


def check_plot(path: str | Path) -> None:
    """Raise where a plot cannot be drawn, before anybody has worked for it."""
    if Path(path).suffix.lower() not in (".png", ".svg"):
        raise InputError(f"The plot can be written as PNG or SVG. Got {str(path)!r}; let its name end in .png or .svg.")
    require("The plot needs", "report", "matplotlib.figure", "matplotlib")


def plot(worths: Sequence[Worth], path: str | Path, unit: str) -> Path:
    """Draw a bar a party, the longest on top, as PNG or SVG by the ending; `unit` names the score."""
    check_plot(path)
    path, figure = Path(path), _figure(sorted(worths, key=lambda worth: worth.drop), unit)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix[1:].lower(), dpi=120)
    return write_file(path, buffer.getvalue())


def _figure(worths: Sequence[Worth], unit: str) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 1.5 + 0.42 * max(len(worths), 2)), layout="constrained")
    axes = figure.add_subplot()
    positions = range(len(worths))
    colours = [HOST_COLOUR if worth.absent is None else GUEST_COLOUR for worth in worths]
    axes.barh(
        positions,
        [worth.drop for worth in worths],
        xerr=[worth.spread for worth in worths],
        color=colours,
        height=0.6,
        error_kw={"ecolor": BLACK, "capsize": 3, "linewidth": 1},
    )
    gone = [(worth.absent, position) for position, worth in enumerate(worths) if worth.absent is not None]
    if gone:
        axes.plot(
            *zip(*gone, strict=True),
            "D",
            color=GONE_COLOUR,
            markersize=6,
            mec="white",
            label="lost when the guest does not answer",
        )
        figure.legend(loc="outside upper right", frameon=False, fontsize=9)
    labels = [_short(worth.party) + (" (host)" if worth.absent is None else "") for worth in worths]
    axes.set_yticks(positions, labels, parse_math=False)
    axes.axvline(0, color=BLACK, linewidth=0.8)
    axes.set_xlabel(f"lost when a party's columns are shuffled among rows: {unit}", parse_math=False)
    axes.margins(x=0.08)
    axes.set_ylim(-0.6, max(len(worths), 2) - 0.4)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return figure


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 3]}..."
