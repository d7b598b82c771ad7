"""Figures of matplotlib inside a page."""

from __future__ import annotations

import base64
import io
from typing import Any

from fedonce.system.extras import require


def check_installed() -> None:
    """Raise where the library that draws is missing, before anybody has worked for a picture."""
    require("A picture needs", "report", "matplotlib.figure", "matplotlib")


def figure(width: float, height: float) -> Any:
    """Return an empty figure of so many inches."""
    figures = require("A picture needs", "report", "matplotlib.figure", "matplotlib")
    return figures.Figure(figsize=(width, height), layout="constrained")


def png(drawn: Any, dpi: int = 130) -> str:
    """Return a figure as the text of a picture inside a page."""
    buffer = io.BytesIO()
    drawn.savefig(buffer, format="png", dpi=dpi, facecolor="white")
    return base64.b64encode(buffer.getvalue()).decode()
