"""The page "Reproduce the paper": from each table and figure to the command, its hours, and what to expect.

Hours and scores are those of the stored runs: the page is written by `python -m benchmarks.report`, like the results.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks import store
from benchmarks.experiment import FOLDER, Experiment, load
from benchmarks.privacy_loss import PATH
from benchmarks.report.figures import Line, by_data, number, order, pick, results, table, title


@dataclass(frozen=True)
class Item:
    """A table or figure of the paper: its LaTeX label, what it shows, and the experiment or the words that answer it."""

    label: str
    shows: str
    experiment: str | None = None
    otherwise: str = ""


# In the paper's order.
ITEMS = (
    Item("fig:vfl", "an example of vertical federated learning", otherwise="a drawing"),
    Item(
        "fig:splitnn", "the structure of SplitNN", otherwise="a drawing; the method is `benchmarks/methods/splitnn.py`"
    ),
    Item("fig:framework", "the framework of FedOnce", otherwise="a drawing; the method is [one page](method.md)"),
    Item("tab:dataset", "the data sets", otherwise="`fedonce data list`, [the data sets](datasets.md)"),
    Item("tab:apdx_model_0", "models of FedOnce-L0", otherwise='`fedonce.presets.settings("phishing")`'),
    Item(
        "tab:apdx_model_1", "models of FedOnce-L1", otherwise='`fedonce.presets.settings("mnist", level=1, epsilon=2)`'
    ),
    Item(
        "fig:apdx_conv1",
        "the networks for images",
        otherwise='`"cnn0"` and `"cnn1"`, [your own network](learners.md#your-own-network)',
    ),
    Item("fig:exp_perf_comm", "performance with each party as host", "performance"),
    Item("fig:apdx_post_comm", "accuracy against bytes, with more rounds", "communication"),
    Item("tab:train_time", "training time", "time"),
    Item("fig:exp_perf_hyper", "values per row, d", "dimension"),
    Item("tab:hyper_l0", "hyperparameters of FedOnce-L0", otherwise='`fedonce.presets.load("phishing")`'),
    Item("tab:exp_dp_perf", "FedOnce-L1 by epsilon", "private"),
    Item("fig:exp_scale", "10 to 200 parties", "parties"),
    Item("fig:exp_perf_bias", "biased division of columns", "biased"),
    Item("tab:apdx_pca", "NAT and PCA compared", "unsupervised"),
    Item("fig:exp_priv_loss", "privacy loss by number of parties", otherwise="`python -m benchmarks.privacy_loss`"),
    Item("tab:noise_repr", "noise on representations", "noise"),
    Item("tab:related_work", "related work", otherwise="a comparison in words"),
    Item(
        "tab:hyper_l1", "hyperparameters of FedOnce-L1", otherwise='`fedonce.presets.load("mnist", level=1, epsilon=2)`'
    ),
    Item("fig:comm_cifar10", "accuracy against bytes on CIFAR-10", "cifar10"),
)


HEAD = """# Reproduce the paper

Every table and figure of the paper, and the command that reproduces it. This page is written by `python -m benchmarks.report`
from the stored runs in [benchmarks/results](../benchmarks/results).

```bash
pip install --extra-index-url https://download.pytorch.org/whl/cpu -c constraints.txt -e '.[bench]'
fedonce data list                               # which data sets are here; `fedonce data fetch NAME` gets one
python -m benchmarks.run methods                # a small one first: every method on one table
python -m benchmarks.report                     # docs/results.md, this page and all pictures
```

A run that is stored already is not repeated; `--out mine.jsonl` measures all of them again, into a file of your own.
`--data NAME` takes one data set, `--device cuda` a GPU."""

BELOW = """## What to expect

*Hours* are the sum of the stored `seconds` of all runs, on the machines named; loading data and scoring come on top.
Some methods time each party as if it had a machine of its own. *Scores* are those of FedOnce, the lowest and the
highest over everything that the experiment varies: hosts, seeds, folds, and the setting on the axis of a figure.
*FedOnce-L0*, *FedOnce-L1* are the paper's, with its settings; *FedOnce* is ours. Accuracy in %, or root mean squared
error. Data marked * are part of the owner's, so expect other figures on all of them. The means, the paper's numbers
next to them and what to make of both are in the section of [the results](results.md) that is named."""


def page() -> str:
    """Return the page as Markdown."""
    rows = [[f"`{item.label}`", item.shows, _answer(item)] for item in ITEMS]
    parts = [HEAD, "## From the paper to a command", table(["in the paper", "what it shows", "here"], rows), BELOW]
    for item in ITEMS:
        if item.experiment:
            parts += _section(item, load(FOLDER / f"{item.experiment}.toml"))
    parts += ["### fig:exp_priv_loss: privacy loss by number of parties", _loss()]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _answer(item: Item) -> str:
    return f"`python -m benchmarks.run {item.experiment}`" if item.experiment else item.otherwise


def _section(item: Item, experiment: Experiment) -> Iterator[str]:
    anchor = "".join(letter for letter in experiment.title.lower() if letter.isalnum() or letter in " -").replace(
        " ", "-"
    )
    yield f"### {item.label}: {item.shows}"
    yield f"`python -m benchmarks.run {experiment.name}`; [{experiment.title}](results.md#{anchor})."
    rows = []
    for lines in by_data(results(experiment.name)).values():
        machines = ", ".join(dict.fromkeys(line["machine"] for line in lines))
        hours = sum(line["seconds"] or 0 for line in lines) / 3600
        rows.append([title(lines[0]), str(len(lines)), f"{hours:.2f}", machines, _ranges(lines)])
    yield table(["data (parties)", "runs", "hours", "on", "scores, lowest to highest"], rows)


def _ranges(lines: list[Line]) -> str:
    """Return the lowest and the highest score of each version of FedOnce."""
    found = []
    for method in [name for name in order(lines, "method") if name.startswith("FedOnce")]:
        values = [line["value"] for line in pick(lines, method=method)]
        low, high = (number(float(value), lines[0]["metric"]) for value in (np.min(values), np.max(values)))
        found.append(f"{method}: {low}" if low == high else f"{method}: {low} to {high}")
    return "; ".join(found) or "-"


def _loss() -> str:
    lines = store.read(PATH)
    by_way = {(line["division"], line["accountant"]): line["epsilon"] for line in lines if line["parties"] == 100}
    told = ", ".join(f"{epsilon:.2f} ({division} division, {way})" for (division, way), epsilon in by_way.items())
    return (
        "`python -m benchmarks.privacy_loss`; [Privacy loss](results.md#privacy-loss). Nothing is trained: it takes "
        f"seconds. Epsilon of 100 parties together: {told}."
    )
