"""The report's pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from benchmarks import privacy_loss, store
from benchmarks.report import few_bytes, hints, leakage_picture, paper, private
from benchmarks.report.drawing import OTHERS, colour, grid, label, log_scale, save, style
from benchmarks.report.figures import Line, by_data, curve, look, message_bytes, order, pick, results
from benchmarks.report.frontier import frontiers
from benchmarks.report.hosts import METHODS

EVERYBODY = ("Combine", "Linear-Combine", "SecureBoost")  # the same whoever has the labels
BESIDE = 0.09  # by how much the marks of two methods stand apart, where hosts are 1 apart


def performance(folder: Path) -> None:
    """Draw each method by host, a part for each data set. Hosts have no order: no line joins them."""
    groups = list(by_data(results("performance")).values())
    figure, axes = grid(len(groups))
    by_hosts = [method for method in METHODS if method not in EVERYBODY]
    for axis, group in zip(axes, groups, strict=False):
        hosts = sorted(order(group, "host"), key=lambda name: (len(name), name))
        for method in METHODS:
            runs = pick(group, method=method)
            by_host = {host: [line["value"] for line in pick(runs, host=host)] for host in hosts}
            present = [host for host in hosts if by_host[host]]
            if not present:
                continue
            if method in EVERYBODY:
                axis.axhline(np.mean(by_host[present[0]]), color=colour(method), label=method, lw=1.4, ls="--")
                continue
            means, spreads = ([f(by_host[host]) for host in present] for f in (np.mean, np.std))
            aside = BESIDE * (by_hosts.index(method) - (len(by_hosts) - 1) / 2)
            where = [hosts.index(host) + aside for host in present]
            axis.errorbar(where, means, spreads, **style(method), label=method, ls="none", capsize=2)
        axis.set_xticks(range(len(hosts)), [name.removeprefix("party") for name in hosts])
        axis.set_xlim(-0.6, len(hosts) - 0.4)
        axis.set_xlabel("host")
        label(axis, group)
    save(figure, axes, folder / "performance.png")


def communication(folder: Path, experiment: str = "communication") -> None:
    """Draw accuracy against bytes."""
    groups = list(by_data(results(experiment)).values())
    figure, axes = grid(len(groups))
    for axis, group in zip(axes, groups, strict=False):
        for method, by in (
            ("SplitNN", "epochs"),
            ("SecureBoost", "trees"),
            ("FedOnce multi-round", "epochs"),
            ("FedOnce", "epochs"),
        ):
            points = curve(pick(group, method=method), by)
            if points:
                axis.errorbar(
                    [point.bytes for point in points],
                    [point.mean for point in points],
                    [point.spread for point in points],
                    **style(method),
                    label=method,
                    capsize=2,
                    ls="none" if method == "FedOnce" else "-",
                    zorder=3 if method == "FedOnce" else 2,
                )
        log_scale(axis)
        axis.set_xlabel("payload of training (bytes)")
        label(axis, group)
    save(figure, axes, folder / f"{experiment}.png")


def cifar10(folder: Path) -> None:
    """Draw CIFAR-10's bytes."""
    communication(folder, "cifar10")


def varied(folder: Path, experiment: str, by: str, what: str, log: bool = False) -> None:
    """Draw every method of an experiment by what was varied."""
    groups = list(by_data(results(experiment)).values())
    figure, axes = grid(len(groups))
    for axis, group in zip(axes, groups, strict=False):
        for method in order(group, "method"):
            runs = pick(group, method=method)
            if not runs:
                continue
            found = [(value, pick(runs, **{by: value})) for value in order(group, by)]
            found = [(value, lines) for value, lines in found if lines]
            if method == "Combine" or not found:
                axis.axhline(np.mean([line["value"] for line in runs]), color=colour(method), ls="--", label=method)
                continue
            values, means, spreads = zip(
                *((v, *(f([line["value"] for line in lines]) for f in (np.mean, np.std))) for v, lines in found),
                strict=True,
            )
            axis.errorbar(values, means, spreads, **style(method), label=method, capsize=2)
        if log:
            log_scale(axis)
        axis.set_xticks(order(group, by), [f"{value:g}" for value in order(group, by)])
        axis.set_xlabel(what)
        label(axis, group)
    save(figure, axes, folder / f"{experiment}.png")


def frontier(folder: Path) -> None:
    """Draw accuracy against bytes per row and guest, a picture a data set."""
    for found in frontiers():
        figure, (axis,) = grid(1)
        for method, bits in dict.fromkeys((size.method, size.bits) for size in found.sizes):
            here = [size for size in found.sizes if (size.method, size.bits) == (method, bits)]
            axis.plot(
                [size.bytes for size in here],
                [size.mean for size in here],
                color=colour(method),
                ms=7,
                ls={4: ":", 8: "-", 32: "--"}[bits],
                marker={4: "v", 8: "o", 32: "s"}[bits],
                label=f"{method.removeprefix('FedOnce-')}, {bits} bits",
            )
        if found.split:
            means = [point.mean for point in found.split]
            axis.plot([point.bytes for point in found.split], means, **style("SplitNN"), label="SplitNN")
        if found.combine:
            axis.axhline(
                np.mean([line["value"] for line in found.combine]), color=colour("Combine"), ls="--", label="Combine"
            )
        _larger(axis, pick(results("hints"), data=found.lines[0]["data"]), "payload")
        log_scale(axis)
        axis.set_xlabel("payload: bytes per row and guest")
        label(axis, found.lines)
        save(figure, [axis], folder / f"{found.name}.png")


def _larger(axis: Axes, lines: Sequence[Line], counted: str) -> None:
    """Draw what larger networks reach, without hints and by the labels' epsilon, in SplitNN and with all columns in one place."""
    for epsilon, points in hints.curves(hints.with_large_networks(lines), counted).items():
        hint = "no hints" if epsilon is None else f"hints, label epsilon {epsilon:g}"
        mark = "P" if epsilon is None else f"${epsilon:g}$"
        axis.plot(
            *zip(*points, strict=True),
            color=colour("FedOnce-hints"),
            marker=mark,
            ms=9,
            ls="--",
            label=f"FedOnce, larger networks, {hint}",
        )
    if split := pick(lines, method=hints.OTHERS["SplitNN"]):
        mean = np.mean([line["value"] for line in split])
        axis.plot(
            message_bytes(split, counted), mean, "P", color=colour("SplitNN"), ms=9, label="SplitNN, larger networks"
        )
    if combine := pick(lines, method=hints.OTHERS["Combine"]):
        mean = np.mean([line["value"] for line in combine])
        axis.axhline(mean, color=colour("Combine"), ls=":", label="Combine, larger networks")


def few_bytes_curves(folder: Path) -> None:
    """Draw accuracy against the bytes of the whole message per row and guest, a picture for each data set."""
    methods = {"auto": "FedOnce", "cells": "FedOnce-cells", "quantiles": "FedOnce-quantiles"}
    for found in few_bytes.found():
        figure, (axis,) = grid(1)
        for learner, model, by_bytes in found.groups():
            axis.plot(
                [message_bytes(runs) for _, runs in by_bytes],
                [np.mean([line["value"] for line in runs]) for _, runs in by_bytes],
                color=colour(methods[learner]),
                marker="*" if model == "auto" else "o",
                ms=12 if model == "auto" else 6,
                ls="-" if len(by_bytes) > 1 else "none",
                label=f"FedOnce, coded: {learner}, host model {model}",
            )
        if plain := found.plain():
            axis.plot(
                *zip(*plain, strict=True),
                color=colour("FedOnce"),
                marker="v",
                ls=":",
                label="FedOnce, 8 bits, not coded",
            )
        _larger(axis, found.larger, "bytes")
        if found.beside is not None and found.beside.split:
            split = [(point.bytes, point.mean) for point in found.beside.split]
            axis.plot(*zip(*split, strict=True), **style("SplitNN"), label="SplitNN")
        log_scale(axis)
        axis.set_xlabel("bytes per row and guest")
        label(axis, found.lines)
        save(figure, [axis], folder / f"{found.name}.png")


def private_budgets(folder: Path) -> None:
    """Draw what the worst host reaches against epsilon: ours, and the paper's as printed and as reproduced."""
    groups = list(by_data(line for line in results("private") if look(line, "learner") is None).values())
    figure, axes = grid(len(groups))
    for axis, group in zip(axes, groups, strict=False):
        metric, budgets = group[0]["metric"], [e for e in order(group, "epsilon") if np.isfinite(e)]
        for method, name, look_of in (
            (private.OURS, "FedOnce private (sound)", "*-"),
            (private.PAPERS, "FedOnce-L1, reproduced (nominal)", "s--"),
            (private.BASELINE, "Priv-Baseline, reproduced (nominal)", "^--"),
        ):
            lines = {epsilon: pick(group, method=method, epsilon=epsilon) for epsilon in budgets}
            known = [epsilon for epsilon in budgets if lines[epsilon]]
            values = [private.worst(lines[epsilon]) for epsilon in known]
            axis.plot(known, values, look_of, color=colour(method), label=name, ms=8)
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
            color=colour(private.PAPERS),
            label="FedOnce-L1, printed (nominal)",
        )
        axis.set_xlabel("epsilon")
        label(axis, group)
    save(figure, axes, folder / "private.png")


# Messages of hints: of so many bytes; of so many values.
HINTED: tuple[dict[str, Any], ...] = ({"marker": "*", "ls": "-", "ms": 12}, {"marker": "o", "ls": ":", "ms": 6})


def hints_curves(folder: Path) -> None:
    """Draw how good the model is by the epsilon with which labels are hinted at, beside the methods without hints."""
    groups = list(by_data(results("hints")).values())
    epsilons = order(results("hints"), "hints")
    figure, axes = grid(len(groups))
    for axis, group in zip(axes, groups, strict=False):
        drawn: list[float] = []
        lines = {
            name: pick(group, method=method)
            for name, method in hints.OTHERS.items()
            if name != "Solo"  # far below, where it would leave the others no room
        }
        for sent, runs in hints.compared(group).items():
            without = [line for line in runs if look(line, "hints") is None]
            # Splits differ by more than hints do: fewer of them than without hints would mislead.
            known = [each for each in order(runs, "hints") if len(pick(runs, hints=each)) >= len(without)]
            values = [[line["value"] for line in pick(runs, hints=each)] for each in known]
            means, spreads = ([float(f(each)) for each in values] for f in (np.mean, np.std))
            look_of = {"color": colour("FedOnce"), "capsize": 3} | HINTED[sent.endswith("bits")]
            axis.errorbar(known, means, spreads, label=f"hints, {sent}", **look_of)
            drawn += [*np.add(means, spreads), *np.subtract(means, spreads)]
            lines |= {f"no hints, {sent}": without}
        for name, each in lines.items():
            if each:
                mean = float(np.mean([line["value"] for line in each]))
                ours = name not in hints.OTHERS
                ls = ":" if name.endswith("bits") else "--"
                axis.axhline(mean, ls=ls, lw=1.2, color=colour("FedOnce" if ours else name), label=name)
                drawn.append(mean)
        # One run alone has no range of its own, and the same epsilons stand below one another in every part.
        room = max(0.1, 0.15 * float(np.ptp(drawn)))
        axis.set_ylim(min(drawn) - room, max(drawn) + room)
        axis.set_xticks(epsilons)
        axis.set_xlim(0, max(epsilons) + 0.5)
        axis.set_xlabel("label epsilon")
        label(axis, group)
    save(figure, axes, folder / "hints.png")


def privacy_loss_curves(folder: Path) -> None:
    """Draw the paper's figure of privacy loss."""
    lines = store.read(privacy_loss.PATH)
    figure, axes = grid(1)
    for (division, accountant), shade in zip(privacy_loss.WAYS, OTHERS, strict=False):
        found = [line for line in lines if (line["division"], line["accountant"]) == (division, accountant)]
        parties, epsilons = ([line[name] for line in found] for name in ("parties", "epsilon"))
        axes[0].plot(parties, epsilons, "o-", color=shade, label=f"{division}, {accountant}")
    axes[0].set(xscale="log", yscale="log", xlabel="k, number of parties", ylabel="epsilon")
    axes[0].grid(alpha=0.25)
    save(figure, axes, folder / "privacy_loss.png")


PICTURES: dict[str, Callable[[Path], None]] = {
    "performance": performance,
    "communication": communication,
    "cifar10": cifar10,
    "frontier": frontier,
    "few_bytes": few_bytes_curves,
    "hints": hints_curves,
    "dimension": partial(varied, experiment="dimension", by="dim", what="d, values per row", log=True),
    "parties": partial(varied, experiment="parties", by="parties", what="k, number of parties", log=True),
    "biased": partial(varied, experiment="biased", by="biased", what="alpha, the host's share of the dominant columns"),
    "noise": partial(varied, experiment="noise", by="noise", what="sigma_r"),
    "laggy": partial(varied, experiment="laggy", by="absent", what="guests absent"),
    "private": private_budgets,
    "leakage": leakage_picture.draw,
}


def draw(folder: Path) -> None:
    """Draw every picture of the report whose experiment has results."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in PICTURES.items():
        if results(name):
            picture(folder)
    if privacy_loss.PATH.exists():
        privacy_loss_curves(folder)
