"""Training times as ratios, the paper's beside."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.report import paper
from benchmarks.report.figures import Line, by_data, pick, results, table, title


def time() -> str:
    """Return training times as ratios, the paper's beside."""
    rows = []
    for group in by_data(results("time")).values():
        minutes = {entry.method: entry.value for entry in paper.find(table="tab:train_time", data=group[0]["data"])}
        printed = f"{minutes['SplitNN']} / {minutes['FedOnce-L0']} = {minutes['SplitNN'] / minutes['FedOnce-L0']:.1f}"
        cells = []
        for settings, method in (("paper", "FedOnce-L0"), (None, "FedOnce")):
            split, ours = (pick(group, method=name, settings=settings) for name in ("SplitNN", method))
            cells.append(_times(split, ours))
        rows.append([title(group[0]), printed, *cells, group[0]["machine"]])
    head = [
        "data (parties)",
        "paper: SplitNN / FedOnce-L0, min",
        "ours, the paper's settings: seconds",
        "ours, our recipe: seconds",
        "machine",
    ]
    return table(head, rows)


def _times(split: Sequence[Line], ours: Sequence[Line]) -> str:
    if not split or not ours:
        return f"not run / {ours[0]['seconds']:.0f} (CPU {ours[0]['cpu']:.0f})" if ours else "-"
    (slow, slow_cpu), (fast, fast_cpu) = ((each[0]["seconds"], each[0]["cpu"]) for each in (split, ours))
    return f"{slow:.0f} / {fast:.0f} = {slow / fast:.1f} (CPU {slow_cpu:.0f} / {fast_cpu:.0f})"
