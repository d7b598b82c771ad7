"""The message frontier: what a message of so many bytes can carry, beside SplitNN's curve and Combine's line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.report.figures import (
    Line,
    Point,
    by_data,
    curve,
    look,
    mean_cell,
    number,
    pick,
    results,
    table,
    times,
    title,
)


@dataclass(frozen=True)
class Size:
    """FedOnce with one learner and one size of message."""

    bytes: float  # payload a row and guest
    method: str
    dim: int
    bits: int
    runs: tuple[Line, ...]

    @property
    def mean(self) -> float:
        """Mean over runs."""
        return float(np.mean([line["value"] for line in self.runs]))


@dataclass(frozen=True)
class Frontier:
    """All that is known of one data set with its first party as host."""

    lines: Sequence[Line]
    sizes: Sequence[Size]
    split: Sequence[Point]  # SplitNN, its bytes per row and guest
    solo: Sequence[Line]
    combine: Sequence[Line]

    @property
    def metric(self) -> str:
        """What is measured."""
        return str(self.lines[0]["metric"])

    @property
    def name(self) -> str:
        """Name of its picture."""
        first = self.lines[0]
        return "frontier-" + "-".join([first["data"], *first["loader"].values()])

    def saving(self, size: Size) -> str:
        """Say how many times the bytes SplitNN needs for the same value."""
        return times(self.split, Point(size.bytes, size.mean, 0.0, {}), self.metric) if self.split else "-"


def frontiers() -> list[Frontier]:
    """Return the frontier of each data set that has one."""
    own = results("frontier")
    groups = by_data(line for line in own if line["method"].startswith("FedOnce-"))
    more = by_data(line for line in results("unsupervised") if line["method"] != "FedOnce-random")
    return [_frontier([*lines, *_lacking(lines, more.get(key, []))], own) for key, lines in groups.items()]


def _lacking(lines: Sequence[Line], others: Sequence[Line]) -> list[Line]:
    """Return others' runs of sizes that the lines do not have."""
    known = {(line["method"], look(line, "dim"), look(line, "bits")) for line in lines}
    return [line for line in others if (line["method"], look(line, "dim"), look(line, "bits")) not in known]


def _frontier(lines: Sequence[Line], own: Sequence[Line]) -> Frontier:
    first = lines[0]

    def beside(method: str, *experiments: str) -> list[Line]:
        """Return a method's runs on the same data and host, from the first experiment that has any."""
        for candidates in (own, *map(results, experiments)):
            same = [line for line in candidates if line["data"] == first["data"] and line["loader"] == first["loader"]]
            found = [line for line in pick(same, method=method) if line["host"] == first["host"] or method == "Combine"]
            if found:
                return found
        return []

    split = beside("SplitNN", "communication", "cifar10")
    per = split[0]["rows"] * (first["parties"] - 1) if split else 1
    points = [replace(point, bytes=point.bytes / per) for point in curve(split, "epochs")] if split else []
    solo, combine = (beside(method, "performance", "cifar10") for method in ("Solo", "Combine"))
    return Frontier(lines, _sizes(lines), points, solo, combine)


def _sizes(lines: Sequence[Line]) -> list[Size]:
    """Return each size with its runs, of the seeds that every size has: splits differ more than sizes do."""
    keys = {(line["method"], look(line, "dim"), look(line, "bits"), line["seed"]) for line in lines}
    seeds = set.intersection(*({k[3] for k in keys if k[:3] == size} for size in {k[:3] for k in keys}))
    lines = [line for line in lines if line["seed"] in seeds]
    found = []
    for method, dim, bits in dict.fromkeys((line["method"], look(line, "dim"), look(line, "bits")) for line in lines):
        runs = pick(lines, method=method, dim=dim, bits=bits)
        if runs:
            each = runs[0]["payload"] / runs[0]["rows"] / (runs[0]["parties"] - 1)
            found.append(Size(each, method, dim, bits, tuple(runs)))
    return sorted(found, key=lambda size: (size.bytes, size.method))


def section() -> str:
    """Return a picture and a table a data set."""
    return "\n\n".join(_section(found) for found in frontiers())


def _section(found: Frontier) -> str:
    rows = []
    for size in found.sizes:
        what = [size.method.removeprefix("FedOnce-"), f"{size.dim} x {size.bits}"]
        rows.append([f"{size.bytes:.3g}", *what, mean_cell(size.runs), found.saving(size)])
    beside = [
        f"{name} {mean_cell(lines)}" for name, lines in (("Solo", found.solo), ("Combine", found.combine)) if lines
    ]
    if found.split:
        points = (f"{number(point.mean, found.metric)} at {point.bytes:,.0f} B" for point in found.split)
        beside.append("SplitNN " + ", ".join(points))
    head = ["B a row and guest", "learner", "values x bits", "accuracy or error", "SplitNN needs, times the bytes"]
    name = title(found.lines[0])
    return (
        f"### {name}\n\n![{name}](results/{found.name}.png)\n\n{table(head, rows)}\n\nBeside them: {'; '.join(beside)}."
    )
