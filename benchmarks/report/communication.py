"""Accuracy against bytes: how many each method needs, beside what the paper prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks.report import paper
from benchmarks.report.figures import (
    TITLES,
    Line,
    Point,
    by_data,
    bytes_needed,
    common,
    curve,
    gain,
    look,
    mean_cell,
    number,
    order,
    pick,
    results,
    size,
    table,
    times,
    title,
)

GOAL = 100  # times fewer bytes than SplitNN for the same accuracy


def communication(experiment: str = "communication") -> str:
    """Return bytes that each method needs, and how multi-round FedOnce compares with SplitNN."""
    rows, words = [], []
    for group in by_data(results(experiment)).values():
        found = common(*(_curve(group, method) for method in ("FedOnce", "FedOnce multi-round", "SplitNN")))
        one_shot, rounds, split = found
        if not one_shot or not split:
            continue
        metric, first, last = group[0]["metric"], one_shot[0], split[-1]
        share = look(pick(group, method="FedOnce")[0], "bits") / 32
        cells = [
            first.cell(metric),
            size(first.bytes),
            times(split, first, metric),
            times(_scaled(split, share), first, metric),
        ]
        rows.append([title(group[0]), str(len(first.values)), *cells, *_rounds_cells(rounds, first, last, metric)])
        words.append(_verdict(title(group[0]), first, rounds, split, metric))
    head = [
        "data (parties)",
        "folds",
        "FedOnce, one message",
        "its payload",
        "SplitNN needs, times the bytes",
        "at equal bits",
        "after 1 epoch of rounds",
        "SplitNN's last point",
        "its payload",
        "multi-round FedOnce needs, for the same",
    ]
    text = (
        table(head, rows)
        + "\n\n*At equal bits*: if SplitNN lost nothing by rounding its values to as many bits as FedOnce."
    )
    words += _printed_ratios(results(experiment))
    return "\n\n".join([text, *_rounded_split(results(experiment)), "\n".join(f"- {word}" for word in words)])


def _printed_ratios(lines: Sequence[Line]) -> list[str]:
    """Set the paper's sentence on how many bytes SplitNN needs beside what was measured."""
    found = []
    for claim in paper.find(metric="communication ratio"):
        group = [line for line in lines if line["data"] == claim.data]
        one_shot, split = common(_curve(group, "FedOnce"), _curve(group, "SplitNN"))
        if one_shot and split:
            needs = times(split, one_shot[0], group[0]["metric"])
            text = (
                f"The paper: on {TITLES[claim.data or '']} SplitNN needs {claim.value:g} times the bytes of FedOnce-L0"
            )
            found.append(f"{text} in float32. Here {needs} times those of FedOnce, with its fewer bits.")
    return found


def _curve(lines: Sequence[Line], method: str) -> list[Point]:
    """Return a method's curve; SplitNN's in float32."""
    runs = [line for line in pick(lines, method=method) if look(line, "split_bits") is None]
    return curve(runs, "trees" if method == "SecureBoost" else "epochs")


def _scaled(points: Sequence[Point], share: float) -> list[Point]:
    return [replace(point, bytes=point.bytes * share) for point in points]


def _rounded_split(lines: Sequence[Line]) -> list[str]:
    """Say what SplitNN gave where it was run with fewer bits."""
    found = []
    for group in by_data(line for line in lines if look(line, "split_bits") == 8).values():
        metric, whole = group[0]["metric"], [line for line in lines if line["data"] == group[0]["data"]]
        for epochs in order(group, "epochs"):
            rounded = curve(pick(group, epochs=epochs), "epochs")
            plain = curve(
                [x for x in pick(whole, method="SplitNN", epochs=epochs) if look(x, "split_bits") is None], "epochs"
            )
            one, other = common(rounded, plain)
            if one:
                text = f"{title(group[0])}, {epochs} epochs: {one[0].cell(metric)} with 8 bits"
                found.append(f"{text}, {other[0].cell(metric)} in float32")
    return [f"SplitNN with 8 bits in both directions, measured: {'; '.join(found)}."] if found else []


def _rounds_cells(rounds: Sequence[Point], first: Point, last: Point, metric: str) -> list[str]:
    final = [last.cell(metric), size(last.bytes)]
    if not rounds:
        return ["-", *final, "-"]
    need = bytes_needed([first, *rounds], last.mean, metric)
    reached = size(need) if need else f"not with {size(rounds[-1].bytes)}: {number(rounds[-1].mean, metric)}"
    return [rounds[0].cell(metric), *final, reached]


def _verdict(name: str, first: Point, rounds: Sequence[Point], split: Sequence[Point], metric: str) -> str:
    """Say in words what the row shows, against what the project wants to reach."""
    last, need = split[-1], bytes_needed(split, first.mean, metric)
    told = times(split, first, metric)
    if need is None:
        text = f"{name}: SplitNN does not get as good as the one message with {last.bytes / first.bytes:,.0f} times its bytes"
    else:
        text = f"{name}: SplitNN needs {told} times the bytes of the one message to be as good"
    short = (need or last.bytes) < GOAL * first.bytes
    text += f", {'which is short of' if short else 'more than'} the {GOAL} times that were the goal."
    if not rounds:
        return text
    change = gain(first, rounds[0], metric)
    if change is not None:
        mean, error = change
        kept = "keeps the accuracy" if mean >= -error else "loses accuracy, by more than a standard error"
        digits = 3 if metric == "accuracy" else 5
        text += f" One epoch of rounds {kept}: {mean:+.{digits}f} (standard error {error:.{digits}f})."
    reached = bytes_needed([first, *rounds], last.mean, metric)
    if reached is not None and reached < last.bytes:
        return (
            text
            + f" Multi-round FedOnce is as good as SplitNN's last point with {last.bytes / reached:,.0f} times fewer bytes."
        )
    return text + " Multi-round FedOnce does not get as good as SplitNN's last point with fewer bytes."


def cifar10() -> str:
    """Return CIFAR-10's bytes, with Solo and Combine beside."""
    lines = results("cifar10")
    beside = ", ".join(f"{method} {mean_cell(pick(lines, method=method))}" for method in ("Solo", "Combine"))
    return communication("cifar10") + f"\n\nFor comparison: {beside}."


def summary() -> str:
    """Return the short table: one host, the rivals beside, and what SplitNN would have to send."""
    methods = ("Solo", "FedOnce", "SplitNN-Comm", "SplitNN", "SecureBoost", "Combine")
    curves = by_data([*results("communication"), *results("cifar10")])
    rows = []
    for key, group in by_data(results("performance")).items():
        if not pick(group, method="SplitNN"):
            continue
        host = pick(group, method="SplitNN")[0]["host"]
        runs = {m: [x for x in pick(group, method=m, host=host) if look(x, "reg_alpha") is None] for m in methods}
        seeds = set.intersection(*({line["seed"] for line in found} for found in runs.values() if found))
        cells = [mean_cell([line for line in runs[method] if line["seed"] in seeds]) for method in methods]
        one_shot, split = common(*(_curve(curves.get(key, []), method) for method in ("FedOnce", "SplitNN")))
        needs = times(split, one_shot[0], group[0]["metric"]) if one_shot and split else "-"
        sent = size(np.mean([line["payload"] for line in runs["FedOnce"]]))
        rows.append([title(group[0]), sent, *cells, needs])
    head = [
        "data (parties)",
        "FedOnce sends",
        "Solo",
        "FedOnce",
        "SplitNN, as many bytes",
        *methods[3:],
        "SplitNN needs, times the bytes",
    ]
    return table(head, rows)
