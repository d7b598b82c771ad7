"""What hints at labels are worth: the report's section."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks import store
from benchmarks.report.figures import (
    TITLES,
    Line,
    by_data,
    look,
    mean_cell,
    message_bytes,
    order,
    pick,
    results,
    table,
    title,
)

OURS = "FedOnce (estimator)"
USUAL = 16  # bytes per row of most messages, and values of those that were measured before
OTHERS = {"Solo": "Solo (estimator)", "SplitNN": "SplitNN", "Combine": "Combine (estimator)"}


def section() -> str:
    """Return a row for each data set and size of message: by the labels' epsilon, and other methods; seeds in brackets."""
    lines = results("hints")
    epsilons = order(lines, "hints")
    head = ["data (parties)", "message", "no hints", *(f"label epsilon {each:g}" for each in epsilons), *OTHERS]
    return table(head, [row for group in by_data(lines).values() for row in _rows(group, epsilons)])


def _rows(group: Sequence[Line], epsilons: Sequence[float]) -> list[list[str]]:
    """Return the rows of a data set: messages of the usual size first, beside them the other methods."""
    ours = pick(group, method=OURS)
    sizes = sorted({_size(line) for line in ours}, reverse=True)
    sizes.sort(key=lambda size: size not in COMPARED)
    others = [pick(group, method=method) for method in OTHERS.values()]
    rows = []
    for size in sizes:
        runs = [line for line in ours if _size(line) == size]
        rows.append(_row(group, runs, epsilons, [[] for _ in OTHERS] if rows else others))
    return rows


def _row(
    group: Sequence[Line], ours: Sequence[Line], epsilons: Sequence[float], others: Sequence[Sequence[Line]]
) -> list[str]:
    runs = [[line for line in ours if look(line, "hints") == each] for each in (None, *epsilons)]
    sent = _size(ours[0]).text(look(ours[0], "bits")) if ours else "-"
    return [title(group[0]), sent, *(_cell(each) for each in (*runs, *others))]


def _cell(runs: Sequence[Line]) -> str:
    return f"{mean_cell(runs)} ({len(runs)})" if runs else "-"


class _Size(NamedTuple):
    """How large a message may be, in bytes per row or by its values, and how many networks the host has."""

    bytes_per_row: float
    dim: int
    members: int

    def text(self, bits: int | None) -> str:
        """Say it."""
        sent = f"{self.bytes_per_row:g} bytes" if self.bytes_per_row else f"{self.dim} x {bits} bits"
        return sent + (f", {self.members} host networks" if self.members > 1 else "")


def _size(line: Line) -> _Size:
    return _Size(look(line, "bytes_per_row") or 0, look(line, "dim") or 0, look(line, "members") or 1)


COMPARED = (_Size(USUAL, 0, 1), _Size(0, USUAL, 1))  # with other methods: these take about as many bytes


def compared(lines: Iterable[Line]) -> dict[str, list[Line]]:
    """Return our runs that are compared with other methods, by what their messages are."""
    by_size = {size: [line for line in pick(list(lines), method=OURS) if _size(line) == size] for size in COMPARED}
    return {size.text(look(runs[0], "bits")): runs for size, runs in by_size.items() if runs}


def with_large_networks(lines: Iterable[Line]) -> list[Line]:
    """Return our runs on images that have the larger networks, one at the host, with hints and without."""
    ours = pick(list(lines), method=OURS)
    return [line for line in ours if look(line, "recipe") == "large" and _size(line).members == 1]


def curves(lines: Sequence[Line], counted: str = "bytes") -> dict[float | None, list[tuple[float, float]]]:
    """Return bytes per row and guest, and means, by the labels' epsilon; None: without hints.

    `counted`: "bytes", of whole messages, or "payload".
    """
    found = {}
    for epsilon in (None, *order(lines, "hints")):
        runs = [line for line in lines if look(line, "hints") == epsilon]
        by_size = [[line for line in runs if _size(line) == size] for size in {_size(line): 0 for line in runs}]
        points = [(message_bytes(each, counted), float(np.mean([line["value"] for line in each]))) for each in by_size]
        found[epsilon] = sorted(points)
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


def values_table() -> str:
    """Return what so many of 16 values by hints add to none on the same validation rows, by the labels' epsilon."""
    lines = pick(results("hint_values"), dim=USUAL)
    shares = order(lines, "hint_share")
    head = ["data (parties)", "label epsilon", "no hints", *(f"{round(share * USUAL)} of {USUAL}" for share in shares)]
    rows = []
    for group in by_data(lines).values():
        without = {line["seed"]: line["value"] for line in group if look(line, "hints") is None}
        for epsilon in order(group, "hints"):
            runs = [pick(group, hints=epsilon, hint_share=share) for share in shares]
            added = [
                [line["value"] - without[line["seed"]] for line in each if line["seed"] in without] for each in runs
            ]
            cells = (f"{np.mean(each):+.2f} ({len(each)})" if each else "-" for each in added)
            rows.append([title(group[0]), f"{epsilon:g}", f"{np.mean(list(without.values())):.2f}", *cells])
    return table(head, rows)


def messages_table() -> str:
    """Return what a message of the usual bytes is best made of, on validation rows of one split: `benchmarks.hint_messages`."""
    lines = [line for line in store.read(store.RESULTS / "hint_messages.jsonl") if line["bytes_per_row"] == USUAL]
    counts = sorted({line["values"] for line in lines})
    found: dict[tuple[str, float, int], dict[int, float]] = {}
    for line in lines:
        epsilon = line["epsilon"] if line["by_hints"] else 0.0  # without hints, no matter which
        found.setdefault((line["data"], epsilon, line["by_hints"]), {})[line["values"]] = line["accuracy"]
    rows = [
        [
            TITLES[name],
            f"{epsilon:g}" if width else "-",
            str(width),
            *(f"{row[n]:.2f}" if n in row else "-" for n in counts),
        ]
        for (name, epsilon, width), row in sorted(found.items())
    ]
    return table(["data", "label epsilon", "values by hints", *(f"{count} values in all" for count in counts)], rows)


def _of_share(group: Sequence[Line], share: float | None) -> list[Line]:
    return [line for line in group if look(line, "hint_share") == share]
