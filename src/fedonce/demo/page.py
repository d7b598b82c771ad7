"""What happened, as one page that opens anywhere: what each party sees and sends, what it was worth, and what leaks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from fedonce.assess.leakage import NEVER_SAFE
from fedonce.demo.digits import (
    ATTACKED,
    COMBINE,
    DARKEST,
    FEDONCE,
    HOST,
    KNOWN,
    PARTIES,
    SHAPE,
    SOLO,
    WATCHED,
    Demonstration,
    Outcome,
)
from fedonce.report import page

NAME = "report.html"
EDGE = 10  # of a pixel, in units of the picture
COLOURS = {SOLO.name: "solo", COMBINE.name: "combine"}
SIGNS = {"readable": "●", "partly": "◐", "not by these attacks": "○"}


def write(demo: Demonstration, folder: Path) -> Path:
    """Write `report.html` into a folder, pictures inside, and return its path."""
    return page.write(folder / NAME, render(demo))


def render(demo: Demonstration) -> str:
    """Return the page."""
    return page.render(
        "demo/page.html.jinja",
        demo=demo,
        solo=demo.named(SOLO.name),
        fedonce=demo.named(FEDONCE.name),
        combine=demo.named(COMBINE.name),
        host=HOST,
        watched=WATCHED,
        parties=list(PARTIES),
        columns=len(PARTIES[WATCHED]),
        known=KNOWN,
        worth=[_bar(demo.named(each.name)) for each in (SOLO, FEDONCE, COMBINE)],
        ways=[each for each in demo.outcomes if each.method in {method.name for method in ATTACKED}],
        quadrant=_quadrant,
        whole=_whole,
        strip=_strip,
        never_safe=NEVER_SAFE,
    )


def _bar(outcome: Outcome) -> tuple[str, float, str, str]:
    text = f"{page.percent(outcome.accuracy)} ± {100 * outcome.error:.1f}"
    return outcome.method, outcome.accuracy, text, COLOURS.get(outcome.method, "fedonce")


def _whole(image: NDArray[Any], label: str) -> Markup:
    """Return an image as a drawing, its darkness by how opaque a square is: it suits light pages and dark ones."""
    return _drawn(image, range(image.size), label)


def _quadrant(image: NDArray[Any], party: str, digit: int) -> Markup:
    """Return what a party sees of an image."""
    return _drawn(image, PARTIES[party], f"what {party} sees of this {digit}")


def _drawn(image: NDArray[Any], places: Any, label: str) -> Markup:
    rows, columns = SHAPE
    squares = Markup("").join(
        _square(place % columns, place // columns, float(np.clip(image[place] / DARKEST, 0, 1)))
        for place in places
        if image[place] > 0.02 * DARKEST
    )
    start = Markup('<svg class="tile" role="img" aria-label="{}" viewBox="0 0 {} {}">')
    return start.format(label, EDGE * columns, EDGE * rows) + squares + Markup("</svg>")


def _strip(values: NDArray[Any], scale: NDArray[Any], label: str) -> Markup:
    """Return the values of a message as squares, the largest of their column opaque."""
    shares = np.clip(np.abs(values) / np.maximum(scale, 1e-12), 0, 1)
    squares = Markup("").join(_square(place, 0, float(share)) for place, share in enumerate(shares))
    start = Markup('<svg class="strip" role="img" aria-label="{}" viewBox="0 0 {} {}">')
    return start.format(label, EDGE * len(values), EDGE) + squares + Markup("</svg>")


def _square(column: int, row: int, opaque: float) -> Markup:
    # Numbers alone: nothing here needs to be escaped.
    return Markup(
        f'<rect x="{EDGE * column}" y="{EDGE * row}" width="{EDGE}" height="{EDGE}" fill="currentColor" opacity="{opaque:.2f}"/>'
    )
