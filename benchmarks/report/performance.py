"""Methods side by side, host by host, and what the paper says of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.report import paper
from benchmarks.report.figures import (
    TITLES,
    Line,
    by_data,
    common,
    curve,
    look,
    mean_cell,
    number,
    order,
    pick,
    results,
    size,
    table,
    title,
)
from benchmarks.report.hosts import BY_HOST, METHODS, ONE_HOST, over_hosts


def performance() -> str:
    """Return the methods side by side: mean over hosts and seeds, and the worst and best host."""
    rows, sizes, notes = [], [], []
    for group in by_data(results("performance")).values():
        runs = {method: [x for x in pick(group, method=method) if look(x, "reg_alpha") is None] for method in METHODS}
        first = pick(runs["FedOnce"], host=(runs["SplitNN"] or runs["FedOnce"])[0]["host"])
        rows.append(
            [
                title(group[0]),
                *(over_hosts(runs[m]) for m in BY_HOST),
                mean_cell(first),
                *(mean_cell(runs[m]) for m in ONE_HOST),
            ]
        )
        sent = [runs[method] for method in METHODS]
        sizes.append(
            [title(group[0]), *(size(np.mean([line["payload"] for line in each])) if each else "-" for each in sent)]
        )
        notes += [
            f"{TITLES[line['data']]}, {line['method']}: {line['note'].rpartition('; ')[2]}."
            for line in {line["method"]: line for line in group if line["value"] is None}.values()
        ]
    wire = [line for line in results("performance") if line["wire"]]
    parts = [
        "Accuracy in per cent, or root mean squared error. Mean over hosts and seeds; in brackets the means of the worst and the "
        "best host.",
        table(["data (parties)", *BY_HOST, "FedOnce, one host", *ONE_HOST], rows),
        "From *FedOnce, one host* on, the host is the first party (MovieLens: auxiliary): the methods to its right were run with "
        "that host alone. SplitNN's host may pass 64 values of its own columns to the head, each guest as many as FedOnce sends.",
        "Payload of training: float32 for all but FedOnce, whose values have 8 bits (images 4).",
        table(["data (parties)", *METHODS], sizes),
        "\n".join(f"- {note}" for note in dict.fromkeys(notes)),
        _wire(wire),
        _no_penalty(results("performance")),
        _level0(),
        _claims(),
    ]
    return "\n\n".join(part for part in parts if part)


def _wire(lines: Sequence[Line]) -> str:
    """Say what SecureBoost's federation really moved, beside the formula."""
    found = []
    for group in by_data(lines).values():
        moved, counted = (np.mean([line[name] for line in group]) for name in ("wire", "payload"))
        found.append(f"{title(group[0])} {size(moved)} on the wire, {size(counted)} by the formula")
    return (
        "SecureBoost, bytes of XGBoost's own federation over loopback and of the formula: " + "; ".join(found) + "."
        if found
        else ""
    )


def _no_penalty(lines: Sequence[Line]) -> str:
    """Say what SecureBoost reaches without the published L1 penalty."""
    found = []
    for group in by_data(line for line in pick(lines, method="SecureBoost") if look(line, "reg_alpha") == 0).values():
        metric = group[0]["metric"]
        with_it = [
            line for line in pick(lines, method="SecureBoost", data=group[0]["data"]) if look(line, "reg_alpha") is None
        ]
        one, other = common(curve(group, "none"), curve(with_it, "none"))
        if one:
            found.append(f"{title(group[0])} {one[0].cell(metric)} instead of {other[0].cell(metric)}")
    return f"SecureBoost without the L1 penalty: {'; '.join(found)}." if found else ""


def _claims() -> str:
    """Set the paper's sentences on how near FedOnce-L0 comes to Combine beside what was measured, seed by seed."""
    found = []
    for claim in paper.find(metric="accuracy loss"):
        group = pick(results("performance"), data=claim.data)
        text = f"- {TITLES[claim.data or '']}: the paper says that FedOnce-L0 loses {claim.value} % to Combine. Here Combine less"
        told = []
        for method in ("FedOnce", "FedOnce-L0"):
            runs, combine = (
                pick(group, method=method),
                {line["seed"]: line["value"] for line in pick(group, method="Combine")},
            )
            losses = [combine[line["seed"]] - line["value"] for line in runs if line["seed"] in combine]
            if losses:
                told.append(f"{method} is {np.mean(losses):.2f} points (mean over {len(order(runs, 'host'))} hosts)")
        if told:
            found.append(f"{text} {', less '.join(told)}.")
    return "\n".join(found)


def _level0() -> str:
    """Compare FedOnce-L0 with the paper's settings, party 1 as host, with what the paper prints for it."""
    found = []
    for entry in paper.find(table="tab:apdx_pca", method="FedOnce-L0"):
        group = pick(results("performance"), data=entry.data, host="party1")
        own, ours = pick(group, method="FedOnce-L0"), pick(group, method="FedOnce")
        if not own or not ours:
            continue
        value, best = (float(np.mean([line["value"] for line in lines])) for lines in (own, ours))
        reached = "reached" if value >= entry.value else f"missed by {entry.value - value:.2f}"
        part = "" if own[0]["complete"] else f" ({own[0]['note'].split('; ')[0]})"
        text = f"- {title(own[0])}, party 1 as host: the paper prints {entry.value} % for FedOnce-L0; with its settings here "
        found.append(f"{text}{value:.2f} %{part}, {reached}. FedOnce, our recipe: {best:.2f} %.")
    return "\n".join(found)


def methods() -> str:
    """Return one run of every method, with bytes and times."""
    lines = results("methods")
    rows = [
        [
            line["method"],
            "-" if line["value"] is None else number(line["value"], line["metric"]),
            f"{line['messages']:,}",
            size(line["payload"]),
            size(line["bytes"]),
            size(line["wire"]) if line["wire"] else "-",
            f"{line['seconds']:.0f}",
            f"{line['cpu']:.0f}",
            line["note"] if line["value"] is None else "",
        ]
        for line in lines
    ]
    head = [
        "method",
        "accuracy (%)",
        "messages",
        "payload",
        "messages' bytes",
        "on a wire",
        "seconds",
        "CPU seconds",
        "",
    ]
    return table(head, rows)
