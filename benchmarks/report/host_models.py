"""Host models: the report's section, and the tables of the strongest models on each side, in full and for the README."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.report.figures import Line, by_data, look, mean_cell, on_gpu, pick, results, table, title

OURS, SOLO, COMBINE = "FedOnce (estimator)", "Solo (estimator)", "Combine (estimator)"
Runs = dict[str, list[Line]]


def section() -> str:
    """Return a row for each data set, method, host model and device, on messages of the same size."""
    head = ["data (parties)", "method", "model", "on", "bytes per row and guest", "accuracy (%) or RMSE", "seconds"]
    return table(head, [_row(runs) for group in _by_data_and_device() for runs in _by_method_and_model(group)])


def _by_data_and_device() -> Iterator[list[Line]]:
    for group in by_data(results("host_models")).values():
        for gpu in (False, True):
            runs = [line for line in pick(group) if on_gpu(line) == gpu]
            if runs:
                yield runs


def _by_method_and_model(group: Sequence[Line]) -> Iterator[list[Line]]:
    models = dict.fromkeys(look(line, "model") for line in group)
    for method in dict.fromkeys(line["method"] for line in group):
        for model in models:
            runs = pick(group, method=method, model=model)
            if runs:
                yield runs


def _row(runs: Sequence[Line]) -> list[str]:
    line = runs[0]
    name, device = line["method"].partition(" (")[0], "GPU" if on_gpu(line) else "CPU"
    cells = [f"{_sent(runs):.3g}", mean_cell(runs), f"{_seconds(runs):.0f}"]
    return [title(line), name, look(line, "model") or "", device, *cells]


def _sent(runs: Sequence[Mapping[str, Any]]) -> float:
    """Return the bytes per row and guest."""
    return float(np.mean([line["payload"] / line["rows"] / max(line["parties"] - 1, 1) for line in runs]))


def _seconds(runs: Sequence[Line]) -> float:
    """Return seconds of one core, where they were counted: runs beside other programs take longer by the clock."""
    return float(np.mean([line["seconds"] if on_gpu(line) else line.get("cpu", line["seconds"]) for line in runs]))


def _mean(runs: Sequence[Mapping[str, Any]], name: str) -> float:
    return float(np.mean([line[name] for line in runs]))


def strongest() -> str:
    """Return the default model of Solo, FedOnce and Combine beside the best SplitNN, on the same splits."""
    head = [
        "data (parties)",
        "on",
        "bytes per row and guest",
        "Solo",
        "FedOnce",
        "Combine",
        "SplitNN, the best",
        "times the bytes",
        "seconds",
    ]
    found = [_comparison(group) for group in _by_data_and_device()]
    return table(head, [_compared(runs) for runs in found if runs[OURS]])


def front() -> str:
    """Return the README's table: the same on CPUs, in six columns, where SplitNN was measured."""
    rows = []
    for runs in (_comparison(group) for group in _by_data_and_device()):
        if runs[OURS] and _best_split(runs) and not on_gpu(runs[OURS][0]):
            name, _, sent, *scores, split, times, _ = _compared(runs)
            rows.append([name, sent, *scores, f"{split.rpartition(' (')[0]} ({times} x)"])
    return table(["data (parties)", "bytes per row and guest", "Solo", "FedOnce", "Combine", "SplitNN"], rows)


def _comparison(group: Sequence[Line]) -> Runs:
    """Return the runs of each method on one data set and device, of the splits that all of them have.

    SplitNN-TabM is left out where plain networks were run on more of them.
    """
    runs = {method: pick(group, method=method, model="auto") for method in (SOLO, OURS, COMBINE)}
    if not runs[OURS]:
        return runs
    runs["MLP"] = _plain_split(runs[OURS][0])
    others, tabm = _common(runs), pick(group, method="SplitNN-TabM")
    runs["TabM"] = [] if runs["MLP"] and not others <= {line["seed"] for line in tabm} else tabm
    seeds = _common(runs)
    return {method: [line for line in found if line["seed"] in seeds] for method, found in runs.items()}


def _common(runs: Runs) -> set[int]:
    """Return the splits that all methods have which have any."""
    return set.intersection(*({line["seed"] for line in found} for found in runs.values() if found))


def _plain_split(ours: Line) -> list[Line]:
    """Return SplitNN's runs with plain networks, the same on every device: as many values, by the same host."""
    same = {name: look(ours, name) for name in ("data", "loader", "host", "dim")}
    return [x for x in pick(results("performance"), method="SplitNN", **same) if look(x, "split_bits") is None]


def _compared(runs: Runs) -> list[str]:
    ours = runs[OURS]
    name = title(ours[0]) + (", RMSE" if ours[0]["metric"] == "rmse" else "")
    rival = _best_split(runs)
    split, best = ["-", "-"], runs.get(rival, [])
    seconds = f"{_seconds(ours):.0f}"
    if best:
        split = [f"{mean_cell(best)} ({rival})", f"{_mean(best, 'payload') / _mean(ours, 'payload'):,.0f}"]
        seconds += f" / {_mean(best, 'seconds'):.0f}"
    device = "GPU" if on_gpu(ours[0]) else "CPU"
    cells = [mean_cell(runs[method]) for method in (SOLO, OURS, COMBINE)]
    return [name, device, f"{_sent(ours):.3g}", *cells, *split, seconds]


def _best_split(runs: Runs) -> str:
    """Return with which networks SplitNN is better on test rows, which favours it; nothing where there is no run."""
    sign = -1 if runs[OURS][0]["metric"] == "rmse" else 1
    values = {name: sign * _mean(runs[name], "value") for name in ("TabM", "MLP") if runs[name]}
    return max(values, key=lambda name: values[name], default="")
