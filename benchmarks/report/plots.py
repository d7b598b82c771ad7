"""The report's pictures."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import NullFormatter

from benchmarks import privacy_loss, store
from benchmarks.report import few_bytes, leakage, paper, private
from benchmarks.report.figures import Line, by_data, curve, look, order, pick, results, title
from benchmarks.report.frontier import frontiers
from benchmarks.report.hosts import METHODS

# One colour a method, in every picture; the palette of Okabe and Ito, which colour-blind readers can tell apart.
COLOURS = {
    "Solo": "#999999",
    "FedOnce": "#D55E00",
    "FedOnce multi-round": "#D55E00",
    "FedOnce-L0": "#E69F00",
    "SplitNN": "#0072B2",
    "SplitNN-Comm": "#56B4E9",
    "SecureBoost": "#009E73",
    "SecureBoost-Comm": "#66C2A5",
    "Combine": "#000000",
    "Linear-Combine": "#CC79A7",
    "FedOnce-PCA": "#D55E00",
    "FedOnce-NAT": "#E69F00",
    "FedOnce-autoencoder": "#009E73",
    "FedOnce-patches": "#CC79A7",
}
MARKS = {"FedOnce": "*", "FedOnce multi-round": "o", "SplitNN": "s", "SecureBoost": "^", "FedOnce-L0": "D"}


def _grid(count: int, columns: int = 3) -> tuple[Any, list[Any]]:
    rows = ceil(count / columns)
    figure, axes = plt.subplots(
        rows, min(columns, count), figsize=(4.2 * min(columns, count), 3.3 * rows), squeeze=False
    )
    flat = list(axes.flat)
    for unused in flat[count:]:
        unused.axis("off")
    return figure, flat


def _label(axis: Any, lines: Sequence[Line]) -> None:
    axis.set_ylabel("accuracy (%)" if lines[0]["metric"] == "accuracy" else "RMSE")
    axis.set_title(title(lines[0]), fontsize=10)
    axis.grid(alpha=0.25)


def _log_scale(axis: Any) -> None:
    """Scale by logarithms, with words at the powers of ten alone."""
    axis.set_xscale("log")
    axis.xaxis.set_minor_formatter(NullFormatter())


def _save(figure: Any, axes: Sequence[Any], path: Path, dpi: int = 80) -> None:
    """Write a picture with one legend for all of its parts, below them."""
    handles = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    legend = _legend(figure, handles)
    height = legend.get_window_extent().height / figure.bbox.height
    figure.tight_layout(rect=(0, max(0.04 + 0.12 / figure.get_figheight(), height), 1, 1))
    figure.savefig(path, dpi=dpi, metadata={"Software": None})
    plt.close(figure)


def _legend(figure: Any, handles: Mapping[str, Any]) -> Any:
    """Put a legend at the foot of a picture, in as many columns as its width has room for, at most five."""

    def put(columns: int) -> Any:
        return figure.legend(
            handles.values(), handles.keys(), loc="lower center", ncols=columns, frameon=False, fontsize=9
        )

    columns = min(5, max(1, len(handles)))
    legend = put(columns)
    while columns > 1 and legend.get_window_extent().width > figure.bbox.width:
        legend.remove()
        columns -= 1
        legend = put(columns)
    return legend


def performance(folder: Path) -> None:
    """Draw each method by host, a part a data set, as in the paper's figure."""
    groups = list(by_data(results("performance")).values())
    figure, axes = _grid(len(groups))
    for axis, group in zip(axes, groups, strict=False):
        hosts = sorted(order(group, "host"), key=lambda name: (len(name), name))
        for method in METHODS:
            runs = pick(group, method=method)
            by_host = {host: [line["value"] for line in pick(runs, host=host)] for host in hosts}
            present = [host for host in hosts if by_host[host]]
            if not present:
                continue
            if method in ("Combine", "Linear-Combine", "SecureBoost"):  # the same whoever has the labels
                axis.axhline(np.mean(by_host[present[0]]), color=COLOURS[method], label=method, lw=1.2, ls="--")
                continue
            means, spreads = ([f(by_host[host]) for host in present] for f in (np.mean, np.std))
            where = [hosts.index(host) for host in present]
            axis.errorbar(
                where, means, spreads, color=COLOURS[method], label=method, marker=MARKS.get(method, "."), capsize=2
            )
        axis.set_xticks(range(len(hosts)), [name.removeprefix("party") for name in hosts])
        axis.set_xlabel("host")
        _label(axis, group)
    _save(figure, axes, folder / "performance.png")


def communication(folder: Path, experiment: str = "communication") -> None:
    """Draw accuracy against bytes."""
    groups = list(by_data(results(experiment)).values())
    figure, axes = _grid(len(groups))
    for axis, group in zip(axes, groups, strict=False):
        for method, by in (
            ("SplitNN", "epochs"),
            ("SecureBoost", "trees"),
            ("FedOnce multi-round", "epochs"),
            ("FedOnce", "epochs"),
        ):
            points = curve(pick(group, method=method), by)
            if points:
                line = "none" if method == "FedOnce" else "-"
                axis.errorbar(
                    [point.bytes for point in points],
                    [point.mean for point in points],
                    [point.spread for point in points],
                    color=COLOURS[method],
                    label=method,
                    marker=MARKS[method],
                    capsize=2,
                    ls=line,
                    ms=13 if method == "FedOnce" else 5,
                    zorder=3 if method == "FedOnce" else 2,
                )
        _log_scale(axis)
        axis.set_xlabel("payload of training (bytes)")
        _label(axis, group)
    _save(figure, axes, folder / f"{experiment}.png")


def cifar10(folder: Path) -> None:
    """Draw CIFAR-10's bytes."""
    communication(folder, "cifar10")


def varied(folder: Path, experiment: str, by: str, label: str, log: bool = False) -> None:
    """Draw every method of an experiment by what was varied."""
    groups = list(by_data(results(experiment)).values())
    figure, axes = _grid(len(groups))
    for axis, group in zip(axes, groups, strict=False):
        for method in order(group, "method"):
            runs = pick(group, method=method)
            if not runs:
                continue
            found = [(value, pick(runs, **{by: value})) for value in order(group, by)]
            found = [(value, lines) for value, lines in found if lines]
            colour = COLOURS.get(method, "#777777")
            if method == "Combine" or not found:
                axis.axhline(np.mean([line["value"] for line in runs]), color=colour, ls="--", label=method)
                continue
            values, means, spreads = zip(
                *((v, *(f([line["value"] for line in lines]) for f in (np.mean, np.std))) for v, lines in found),
                strict=True,
            )
            axis.errorbar(values, means, spreads, color=colour, label=method, marker=MARKS.get(method, "."), capsize=2)
        if log:
            _log_scale(axis)
        axis.set_xticks(order(group, by), [f"{value:g}" for value in order(group, by)])
        axis.set_xlabel(label)
        _label(axis, group)
    _save(figure, axes, folder / f"{experiment}.png")


def frontier(folder: Path) -> None:
    """Draw accuracy against bytes per row and guest, a picture a data set."""
    for found in frontiers():
        figure, axis = plt.subplots(figsize=(7, 4.3))
        for method, bits in dict.fromkeys((size.method, size.bits) for size in found.sizes):
            here = [size for size in found.sizes if (size.method, size.bits) == (method, bits)]
            axis.plot(
                [size.bytes for size in here],
                [size.mean for size in here],
                color=COLOURS[method],
                ms=5,
                ls={4: ":", 8: "-", 32: "--"}[bits],
                marker={4: "v", 8: "o", 32: "s"}[bits],
                label=f"{method.removeprefix('FedOnce-')}, {bits} bits",
            )
        if found.split:
            means = [point.mean for point in found.split]
            axis.plot(
                [point.bytes for point in found.split], means, color=COLOURS["SplitNN"], marker="s", label="SplitNN"
            )
        if found.combine:
            axis.axhline(
                np.mean([line["value"] for line in found.combine]), color=COLOURS["Combine"], ls="--", label="Combine"
            )
        _log_scale(axis)
        axis.set_xlabel("payload: bytes per row and guest")
        _label(axis, found.lines)
        axis.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        figure.savefig(folder / f"{found.name}.png", dpi=80, bbox_inches="tight", metadata={"Software": None})
        plt.close(figure)


def few_bytes_curves(folder: Path) -> None:
    """Draw accuracy against the bytes of the whole message per row and guest, a picture for each data set."""
    colours = {"auto": "#D55E00", "cells": "#009E73", "quantiles": "#CC79A7"}
    for found in few_bytes.found():
        figure, axis = plt.subplots(figsize=(10, 5.4))
        for learner, model, by_bytes in found.groups():
            axis.plot(
                [few_bytes.message_bytes(runs) for _, runs in by_bytes],
                [np.mean([line["value"] for line in runs]) for _, runs in by_bytes],
                color=colours[learner],
                marker="*" if model == "auto" else "o",
                ms=12 if model == "auto" else 6,
                ls="-" if len(by_bytes) > 1 else "none",
                label=f"FedOnce, coded: {learner}, host model {model}",
            )
        if plain := found.plain():
            axis.plot(
                *zip(*plain, strict=True),
                color="#E69F00",
                marker="v",
                ls=":",
                label="FedOnce before: 8 bits, not coded",
            )
        if found.beside is not None and found.beside.split:
            split = [(point.bytes, point.mean) for point in found.beside.split]
            axis.plot(*zip(*split, strict=True), color=COLOURS["SplitNN"], marker="s", label="SplitNN")
        _log_scale(axis)
        axis.set_xlabel("bytes per row and guest")
        _label(axis, found.lines)
        _save(figure, [axis], folder / f"{found.name}.png", dpi=120)


def private_budgets(folder: Path) -> None:
    """Draw what the worst host reaches against epsilon: ours, and the paper's as printed and made anew."""
    groups = list(by_data(line for line in results("private") if look(line, "learner") is None).values())
    figure, axes = _grid(len(groups))
    for axis, group in zip(axes, groups, strict=False):
        metric, budgets = group[0]["metric"], [e for e in order(group, "epsilon") if np.isfinite(e)]
        for method, name, style in (
            (private.OURS, "FedOnce private (sound)", "*-"),
            (private.PAPERS, "FedOnce-L1 made anew (nominal)", "s--"),
            (private.BASELINE, "Priv-Baseline made anew (nominal)", "^--"),
        ):
            lines = {epsilon: pick(group, method=method, epsilon=epsilon) for epsilon in budgets}
            known = [epsilon for epsilon in budgets if lines[epsilon]]
            values = [private.worst(lines[epsilon]) for epsilon in known]
            colour = {private.OURS: "#D55E00", private.PAPERS: "#0072B2", private.BASELINE: "#56B4E9"}[method]
            axis.plot(known, values, style, color=colour, label=name)
        printed = paper.find(table="tab:exp_dp_perf", data=group[0]["data"], method=private.PAPERS)
        worst = {}
        for entry in printed:
            if entry.host is not None and entry.epsilon is not None and np.isfinite(entry.epsilon):
                worst.setdefault(entry.epsilon, []).append(entry.value)
        pick_worst = min if metric == "accuracy" else max
        axis.plot(
            list(worst),
            [pick_worst(v) for v in worst.values()],
            "o:",
            color="#000000",
            label="FedOnce-L1, printed (nominal)",
        )
        axis.set_xlabel("epsilon")
        _label(axis, group)
    _save(figure, axes, folder / "private.png")


def leakage_points(folder: Path) -> None:
    """Draw each message of a data set: how good the model is, against what of the worst column is read by who knows no row."""
    groups = list(by_data(results("leakage")).values())
    kinds: dict[str, int] = {}
    figure, axes = _grid(len(groups))
    for axis, group in zip(axes, groups, strict=False):
        for words, runs in leakage.messages(group).items():
            read = 100 * leakage.gain(runs, "by nothing")
            kind = re.sub(r" \d+x\d", "", words)  # one colour and mark a kind, in every part
            place = kinds.setdefault(kind, len(kinds))
            mean = np.mean([line["value"] for line in runs])
            axis.plot(read, mean, "os^D"[place // 10], color=f"C{place % 10}", label=kind)
        axis.set_xlabel("read of the worst column (%), no row known")
        _label(axis, group)
    _save(figure, axes, folder / "leakage.png")


def privacy_loss_curves(folder: Path) -> None:
    """Draw the paper's figure of privacy loss."""
    lines = store.read(privacy_loss.PATH)
    figure, axes = _grid(1)
    colours = ("#56B4E9", "#0072B2", "#E69F00", "#D55E00")
    for (division, accountant), colour in zip(privacy_loss.WAYS, colours, strict=True):
        found = [line for line in lines if (line["division"], line["accountant"]) == (division, accountant)]
        axes[0].plot(
            [x["parties"] for x in found],
            [x["epsilon"] for x in found],
            "o-",
            color=colour,
            label=f"{division}, {accountant}",
        )
    axes[0].set(xscale="log", yscale="log", xlabel="k, number of parties", ylabel="epsilon")
    axes[0].grid(alpha=0.25)
    axes[0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(folder / "privacy_loss.png", dpi=110)
    plt.close(figure)


PICTURES: dict[str, Callable[[Path], None]] = {
    "performance": performance,
    "communication": communication,
    "cifar10": cifar10,
    "frontier": frontier,
    "few_bytes": few_bytes_curves,
    "dimension": partial(varied, experiment="dimension", by="dim", label="d, values per row", log=True),
    "parties": partial(varied, experiment="parties", by="parties", label="k, number of parties", log=True),
    "biased": partial(
        varied, experiment="biased", by="biased", label="alpha, the host's share of the dominant columns"
    ),
    "noise": partial(varied, experiment="noise", by="noise", label="sigma_r"),
    "laggy": partial(varied, experiment="laggy", by="absent", label="guests absent"),
    "private": private_budgets,
    "leakage": leakage_points,
}


def draw(folder: Path) -> None:
    """Draw every picture of the report whose experiment has results."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in PICTURES.items():
        if results(name):
            picture(folder)
    if privacy_loss.PATH.exists():
        privacy_loss_curves(folder)
