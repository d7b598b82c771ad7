"""What hints at labels are worth: the report's section."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from benchmarks.report.figures import Line, by_data, look, mean_cell, message_bytes, order, pick, results, table, title

OURS = "FedOnce (estimator)"
OTHERS = {"Solo": "Solo (estimator)", "SplitNN": "SplitNN", "Combine": "Combine (estimator)"}


def section() -> str:
    """Return a row for each data set: without hints, with hints by their epsilon, and the methods beside; seeds in brackets."""
    lines = results("hints")
    epsilons = order(lines, "hints")
    head = ["data (parties)", "bytes", "no hints", *(f"label epsilon {each:g}" for each in epsilons), *OTHERS]
    return table(head, [_row(group, epsilons) for group in by_data(lines).values()])


def _row(group: Sequence[Line], epsilons: Sequence[float]) -> list[str]:
    ours = pick(group, method=OURS)
    runs = [[line for line in ours if look(line, "hints") == each] for each in (None, *epsilons)]
    runs += [pick(group, method=method) for method in OTHERS.values()]
    sent = f"{look(ours[0], 'dim')} x {look(ours[0], 'bits')} bits" if ours else "-"
    return [title(group[0]), sent, *(f"{mean_cell(each)} ({len(each)})" if each else "-" for each in runs)]


def with_large_networks(lines: Iterable[Line], data: str) -> list[Line]:
    """Return our runs on images that have the larger networks, with hints and without."""
    return [line for line in pick(list(lines), method=OURS, data=data) if look(line, "recipe") == "large"]


def curves(lines: Sequence[Line], counted: str = "bytes") -> dict[float | None, list[tuple[float, float]]]:
    """Return bytes per row and guest, and means, by the labels' epsilon; None: without hints.

    `counted`: "bytes", of whole messages, or "payload".
    """
    found = {}
    for epsilon in (None, *order(lines, "hints")):
        runs = [line for line in lines if look(line, "hints") == epsilon]
        sizes = [pick(runs, dim=dim) for dim in order(runs, "dim")]
        found[epsilon] = [
            (message_bytes(each, counted), float(np.mean([line["value"] for line in each]))) for each in sizes
        ]
    return {epsilon: curve for epsilon, curve in found.items() if curve}


def shares_table() -> str:
    """Return what comes of a share of values by hints on tables, on validation rows."""
    lines = results("hint_shares")
    shares = order(lines, "hint_share")
    head = ["data (parties)", "no hints", *(f"{each:g} of the values" for each in shares)]
    groups = by_data(lines).values()
    return table(
        head, [[title(group[0]), *(mean_cell(_of_share(group, each)) for each in (None, *shares))] for group in groups]
    )


def _of_share(group: Sequence[Line], share: float | None) -> list[Line]:
    return [line for line in group if look(line, "hint_share") == share]
