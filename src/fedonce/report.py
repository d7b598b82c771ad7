"""What happened, as one page that opens anywhere: a table, a plot of accuracy against bytes, what each party sees."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np

from fedonce import __version__
from fedonce.demo import SHAPE, Demonstration
from fedonce.errors import InputError

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>FedOnce: digits in four quadrants</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; color: #1b1f24; max-width: 54rem; margin: 2rem auto; padding: 0 1rem; }
  h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
  table { border-collapse: collapse; width: 100%; } td, th { padding: .4rem .6rem; border-bottom: 1px solid #d8dee4; text-align: left; }
  td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; } .muted { color: #59636e; }
  img { max-width: 100%; height: auto; } tr.yard td { color: #59636e; }
</style>
</head>
<body>
<h1>One message per party</h1>
<p class="muted">FedOnce {{ version }}, digits of scikit-learn, {{ demo.n_train }} training and {{ demo.n_test }} test images.</p>
<p>Each image of a handwritten digit is cut into four quadrants, and each quadrant belongs to another party. Only
<b>{{ demo.host }}</b>, the host, knows which digit it is. The other three learn a representation of their quadrant without labels,
send it once, and the host learns from it.</p>
<h2>What each party sees</h2>
<p><img alt="Five digits, whole and as each of the four parties sees them" src="data:image/png;base64,{{ quadrants }}"></p>
<h2>What one message each is worth</h2>
<table>
<tr><th>method</th><th>what it is</th><th class="n">accuracy</th><th class="n">messages</th><th class="n">bytes sent</th><th class="n">seconds</th></tr>
{% for o in demo.outcomes %}<tr{% if o.method == "Combine" %} class="yard"{% endif %}><td>{{ o.method }}</td><td>{{ o.what }}</td><td class="n">{{ "%.1f"|format(100 * o.accuracy) }} %</td>
<td class="n">{{ o.messages }}</td><td class="n">{{ "{:,}".format(o.bytes) }}</td><td class="n">{{ "%.1f"|format(o.seconds) }}</td></tr>
{% endfor %}</table>
<p class="muted">One split, one seed: {{ "fedonce demo" }}. Means over five seeds are in the README. Bytes are those of the message files.</p>
<h2>Accuracy against bytes</h2>
<p><img alt="Accuracy of each method against the bytes that it sent" src="data:image/png;base64,{{ plot }}"></p>
<p class="muted">A representation is not protected by itself: what a guest sends says something about its rows. It goes to the host alone, once.</p>
</body>
</html>
"""


def write(demo: Demonstration, folder: Path) -> Path:
    """Write `report.html` into a folder, pictures inside, and return its path."""
    try:
        import jinja2
        import matplotlib
    except ImportError as error:
        raise InputError(f"The report needs {error.name}, which is not installed. Try: pip install 'fedonce[report]'") from None
    matplotlib.use("Agg")
    environment = jinja2.Environment(autoescape=True)
    page = environment.from_string(PAGE).render(
        demo=demo, version=__version__, plot=_png(_plot(demo)), quadrants=_png(_quadrants(demo))
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


def _plot(demo: Demonstration) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4), layout="constrained")
    axes = figure.add_subplot()
    yardsticks = [outcome for outcome in demo.outcomes if not outcome.messages]
    for outcome, colour, side in zip(yardsticks, ("#8c959f", "#1b1f24"), ("bottom", "bottom"), strict=False):
        axes.axhline(100 * outcome.accuracy, color=colour, linestyle="--", linewidth=1)
        axes.annotate(
            f"{outcome.method} {100 * outcome.accuracy:.1f} %", (0.01, 100 * outcome.accuracy), xycoords=("axes fraction", "data"),
            xytext=(0, 3), textcoords="offset points", color=colour, va=side,
        )  # fmt: skip
    sent = sorted((o for o in demo.outcomes if o.messages), key=lambda o: o.accuracy)
    markers = dict(zip([o.method for o in sent], "os^Dv", strict=False))
    for outcome in sent:
        label = f"{outcome.method} {100 * outcome.accuracy:.1f} %"
        axes.plot(outcome.bytes, 100 * outcome.accuracy, markers[outcome.method], markersize=9, label=label, alpha=0.8)
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
            own = list(demo.parties[name].columns) if name in demo.parties else list(range(image.size))
            shown[own] = image[own]
            axes.imshow(shown.reshape(SHAPE), cmap="gray_r", vmin=0, vmax=16)
            axes.set(xticks=[], yticks=[], facecolor="#eef1f4")
            if row == 0:
                axes.set_title(f"{name}\n(host, labels)" if name == demo.host else name, fontsize=9)
        grid[row][0].set_ylabel(str(demo.labels[row]), rotation=0, labelpad=10, va="center")
    return figure


def _png(figure: Any) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130)
    return base64.b64encode(buffer.getvalue()).decode()
