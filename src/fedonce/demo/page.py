"""What happened, as one page that opens anywhere: a table, a plot of accuracy against bytes, what each party sees."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np

from fedonce import __version__
from fedonce.demo.digits import SHAPE, Demonstration
from fedonce.errors import InputError
from fedonce.system.disk import write_file

PAGE = Path(__file__).with_name("page.html.jinja")


def check_installed() -> None:
    """Raise where the libraries of the extra `report` are missing."""
    try:
        import jinja2  # noqa: F401
        import matplotlib

        matplotlib.use("Agg")
    except ImportError as error:
        raise InputError(
            f"The report needs {error.name}, which is not installed. Try: pip install 'fedonce[report]'"
        ) from None


def write(demo: Demonstration, folder: Path) -> Path:
    """Write `report.html` into a folder, pictures inside, and return its path."""
    check_installed()
    import jinja2

    environment = jinja2.Environment(autoescape=True)
    page = environment.from_string(PAGE.read_text(encoding="utf-8")).render(
        demo=demo, version=__version__, plot=png(_plot(demo)), quadrants=png(_quadrants(demo))
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "report.html"
    write_file(path, page.encode())
    return path


def _plot(demo: Demonstration) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4), layout="constrained")
    axes = figure.add_subplot()
    yardsticks = [outcome for outcome in demo.outcomes if not outcome.messages]
    for outcome, colour in zip(yardsticks, ("#8c959f", "#1b1f24"), strict=False):
        axes.axhline(100 * outcome.accuracy, color=colour, linestyle="--", linewidth=1)
        axes.annotate(
            f"{outcome.method} {100 * outcome.accuracy:.1f} %",
            (0.01, 100 * outcome.accuracy),
            color=colour,
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            va="bottom",
        )
    sent = [outcome for outcome in demo.outcomes if outcome.messages]
    for outcome, marker in zip(sent, "os^Dv", strict=False):
        label = f"{outcome.method} {100 * outcome.accuracy:.1f} %"
        axes.plot(outcome.bytes, 100 * outcome.accuracy, marker, markersize=9, label=label, alpha=0.8)
    pca = [*demo.curve, *(outcome for outcome in sent if outcome.method == "FedOnce (pca)")]
    axes.plot([o.bytes for o in pca], [100 * o.accuracy for o in pca], "-", color="#bc4c00", linewidth=1, zorder=0)
    for o in demo.curve:
        axes.plot(o.bytes, 100 * o.accuracy, "s", color="#bc4c00", markersize=5)
        axes.annotate(
            f"pca {o.method}", (o.bytes, 100 * o.accuracy), xytext=(6, -11), textcoords="offset points", fontsize=9
        )
    axes.set_xlim(0, 1.5 * max(outcome.bytes for outcome in sent))
    lowest = min(100 * outcome.accuracy for outcome in demo.outcomes)
    axes.set_ylim(np.floor(lowest / 5) * 5 - 2, 101.5)
    axes.set_xlabel("bytes sent in training, all guests together")
    axes.set_ylabel("accuracy on test images (%)")
    axes.legend(loc="center right", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _quadrants(demo: Demonstration) -> Any:
    from matplotlib.figure import Figure

    columns = ["whole", *demo.parties]
    figure = Figure(figsize=(1.25 * len(columns), 1.2 * len(demo.images) + 0.4), layout="constrained")
    grid = figure.subplots(len(demo.images), len(columns))
    for row, image in enumerate(demo.images):
        for axes, name in zip(grid[row], columns, strict=True):
            shown = np.full(image.size, np.nan)
            own = np.array(demo.parties[name].columns if name in demo.parties else range(image.size), dtype=int)
            shown[own] = image[own]
            axes.imshow(shown.reshape(SHAPE), cmap="gray_r", vmin=0, vmax=16)
            axes.set(xticks=[], yticks=[], facecolor="#eef1f4")
            if row == 0:
                axes.set_title(f"{name}\n(host, labels)" if name == demo.host else name, fontsize=9)
        grid[row][0].set_ylabel(str(demo.labels[row]), rotation=0, labelpad=10, va="center")
    return figure


def png(figure: Any) -> str:
    """Return a figure as the text of a picture inside a page."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130)
    return base64.b64encode(buffer.getvalue()).decode()
