"""Numbers out of the lines of results: choose lines, take means, compare curves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import store
from benchmarks.experiment import key

Line = dict[str, Any]

TITLES = {
    "digits-8x8": "digits",
    "phishing": "phishing",
    "superconduct": "superconduct",
    "ujiindoorloc": "UJIIndoorLoc",
    "covtype": "covtype",
    "mnist": "MNIST",
    "fashion-mnist": "Fashion-MNIST",
    "kmnist": "KMNIST",
    "cifar10": "CIFAR-10",
    "movielens": "MovieLens",
    "gisette": "gisette",
    "nus-wide": "NUS-WIDE",
    "mnist-4-9": "MNIST 4 or 9",
    "shop": "shop of the example",
}


def results(experiment: str) -> list[Line]:
    """Return the runs of an experiment: those that gave a value, and those that say why they gave none; each once."""
    return list({key(line): line for line in store.read(store.RESULTS / f"{experiment}.jsonl")}.values())


def pick(lines: Iterable[Line], **wanted: Any) -> list[Line]:
    """Return the lines with these entries, looked up in the line, its settings and its division; the value must be there."""
    return [line for line in lines if line["value"] is not None and all(look(line, k) == v for k, v in wanted.items())]


def look(line: Line, name: str) -> Any:
    """Return an entry of a line, of its settings or of its division."""
    for part in (line, line["config"], line["division"], line["loader"]):
        if name in part:
            return part[name]
    return None


def message_bytes(runs: Sequence[Line], counted: str = "bytes") -> float:
    """Return the bytes of a message for each row, mean of runs and guests: all of them, or its "payload" alone."""
    return float(np.mean([line[counted] / line["rows"] / (line["parties"] - 1) for line in runs]))


def on_gpu(line: Line) -> bool:
    """Tell whether a run is kept as one on a GPU, beside those on a CPU."""
    return bool(line.get("device") == "gpu")


def order(lines: Iterable[Line], name: str) -> list[Any]:
    """Return the different values of an entry, in their order of size or, for names, of appearance."""
    found = list(dict.fromkeys(value for line in lines if (value := look(line, name)) is not None))
    return found if any(isinstance(value, str) for value in found) else sorted(found)


def title(line: Line) -> str:
    """Return a data set's name, with the number of parties and whether it is whole."""
    name = TITLES[line["data"]] + (f" {line['loader']['target']}" if line["loader"] else "")
    return f"{name} ({line['parties']})" + ("" if line["complete"] else "*")


def better(metric: str, first: float, second: float) -> bool:
    """Tell whether the first value is at least as good as the second."""
    return first >= second if metric == "accuracy" else first <= second


def number(value: float, metric: str, decimals: int = 2) -> str:
    """Write an accuracy with so many decimals, an error with four."""
    return f"{value:.{decimals}f}" if metric == "accuracy" else f"{value:.4f}"


def mean_cell(lines: Sequence[Line], decimals: int = 2) -> str:
    """Return mean and, over several runs, spread; a dash where there is no run."""
    if not lines:
        return "-"
    metric, values = lines[0]["metric"], [line["value"] for line in lines]
    mean = number(float(np.mean(values)), metric, decimals)
    return mean if len(values) == 1 else f"{mean} ± {number(float(np.std(values)), metric, decimals)}"


def size(count: float) -> str:
    """Write a number of bytes."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B"


@dataclass(frozen=True)
class Point:
    """One point of a curve: bytes, mean and spread of a value, and the values by fold and seed."""

    bytes: float
    mean: float
    spread: float
    values: Mapping[tuple[int | None, int], float]

    def cell(self, metric: str) -> str:
        """Return mean and, of several runs, spread."""
        mean = number(self.mean, metric)
        return mean if len(self.values) < 2 else f"{mean} ± {number(self.spread, metric)}"


def curve(lines: Sequence[Line], by: str) -> list[Point]:
    """Return a point for each value of what was varied, by bytes."""
    points = []
    for value in order(lines, by) or [None]:
        here = pick(lines, **({by: value} if value is not None else {}))
        values = {(line["fold"], line["seed"]): line["value"] for line in here}
        if values:
            found = list(values.values())
            sent = float(np.mean([line["payload"] for line in here]))
            points.append(Point(sent, float(np.mean(found)), float(np.std(found)), values))
    return sorted(points, key=lambda point: point.bytes)


def common(*curves: Sequence[Point]) -> list[list[Point]]:
    """Return curves of those folds and seeds alone that every point of every curve has."""
    points = [point for points in curves for point in points]
    shared = set.intersection(*(set(point.values) for point in points)) if points else set()
    return [[_of(point, shared) for point in points] if shared else [] for points in curves]


def _of(point: Point, keys: Iterable[tuple[int | None, int]]) -> Point:
    values = {key: point.values[key] for key in sorted(keys, key=str)}
    found = list(values.values())
    return Point(point.bytes, float(np.mean(found)), float(np.std(found)), values)


def times(points: Sequence[Point], first: Point, metric: str) -> str:
    """Say how many times the bytes of `first` a curve needs to be as good."""
    need = bytes_needed(points, first.mean, metric)
    if need is None:
        return f"more than {points[-1].bytes / first.bytes:,.0f}"
    bound = "at most " if better(metric, points[0].mean, first.mean) else ""
    return f"{bound}{need / first.bytes:,.0f}"


def bytes_needed(points: Sequence[Point], goal: float, metric: str) -> float | None:
    """Return the bytes at which a curve reaches a value: on a straight line over log bytes between the points around it."""
    before: Point | None = None
    for point in points:
        if better(metric, point.mean, goal):
            if before is None or before.mean == point.mean:
                return point.bytes
            share = (goal - before.mean) / (point.mean - before.mean)
            return float(np.exp(np.log(before.bytes) + share * (np.log(point.bytes) - np.log(before.bytes))))
        before = point
    return None


def gain(first: Point, second: Point, metric: str) -> tuple[float, float] | None:
    """Return by how much the second is better, fold by fold and seed by seed, and the standard error of that mean.

    None where fewer than two runs can be compared.
    """
    shared = [key for key in first.values if key in second.values]
    if len(shared) < 2:
        return None
    sign = 1 if metric == "accuracy" else -1
    differences = np.array([sign * (second.values[key] - first.values[key]) for key in shared])
    return float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(len(shared)))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def by_data(lines: Iterable[Line]) -> dict[tuple[str, str], list[Line]]:
    """Group lines by data set and target, in the order of `TITLES`."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        groups.setdefault((line["data"], line["loader"].get("target", "")), []).append(line)
    return dict(sorted(groups.items(), key=lambda item: list(TITLES).index(item[0][0])))
