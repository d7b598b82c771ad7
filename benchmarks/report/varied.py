"""What one setting does: values per row, number of parties, bias, noise, absent guests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.report import paper
from benchmarks.report.figures import (
    TITLES,
    Line,
    better,
    by_data,
    look,
    mean_cell,
    order,
    pick,
    results,
    table,
    title,
)
from benchmarks.report.hosts import METHODS, over_hosts

MODELS = ("auto", "trees", "network")


def dimension() -> str:
    """Return accuracy by d, mean and spread over hosts."""
    lines = results("dimension")
    methods = order(lines, "method")
    rows = [
        [str(d), *(mean_cell(pick(lines, dim=d, method=method)) for method in methods)] for d in order(lines, "dim")
    ]
    best = {
        method: max(
            order(lines, "dim"), key=lambda d: np.mean([x["value"] for x in pick(lines, dim=d, method=method)] or [0])
        )
        for method in methods
    }
    said = ", ".join(f"{method} {d}" for method, d in best.items())
    return table(["d", *methods], rows) + f"\n\nThe paper finds NAT best with d of about 16. Best here: {said}."


def parties() -> str:
    """Return accuracy by the number of parties."""
    lines = results("parties")
    methods = [m for m in METHODS if pick(lines, method=m)]
    wide = [k for k in order(lines, "parties") if k]
    rows = [[str(k), *(mean_cell(pick(lines, parties=k, method=method)) for method in methods)] for k in wide]
    standin = (
        ""
        if any(line["data"] == "gisette" for line in lines)
        else "**Stand-in**: gisette is missing, these are MNIST's fours and nines.\n\n"
    )
    notes = {
        f"- {line['method']}, k = {look(line, 'parties')}: {line['note']}." for line in lines if line["value"] is None
    }
    return standin + table(["k", *methods], rows) + ("\n\n" + "\n".join(sorted(notes)) if notes else "")


def biased() -> str:
    """Return what the host's share of good columns does."""
    parts = []
    for group in by_data(results("biased")).values():
        combine = mean_cell(pick(group, method="Combine"))
        rows = [
            [
                f"{alpha:g}",
                *(mean_cell(pick(group, method=method, biased=alpha)) for method in ("Solo", "FedOnce")),
                combine,
            ]
            for alpha in order(group, "biased")
        ]
        parts.append(
            f"{title(group[0])}, p = {look(group[0], 'p')}:\n\n" + table(["alpha", "Solo", "FedOnce", "Combine"], rows)
        )
    return "\n\n".join(parts)


def noise() -> str:
    """Return what noise on representations costs."""
    lines = results("noise")
    scales = order(lines, "noise")
    rows = []
    for group in by_data(lines).values():
        cells = [over_hosts(pick(group, noise=scale)) for scale in scales]
        rows.append([title(group[0]), *cells, over_hosts(pick(group, method="Solo"))])
        printed = {entry.noise: entry.value for entry in paper.find(table="tab:noise_repr", data=group[0]["data"])}
        if printed:
            solo = paper.find(table="tab:noise_repr", data=group[0]["data"], method="Solo")[0].value
            rows.append(
                [
                    f"{TITLES[group[0]['data']]}, the paper",
                    *(str(printed.get(scale, "-")) for scale in scales),
                    str(solo),
                ]
            )
    return (
        table(["data (parties)", *(f"sigma_r {scale:g}" for scale in scales), "Solo"], rows)
        + "\n\n"
        + _noise_words(lines)
    )


def _noise_words(lines: Sequence[Line]) -> str:
    words = []
    for group in by_data(lines).values():
        solo = pick(group, method="Solo")
        metric = group[0]["metric"]
        if not solo:
            continue
        alone = float(np.mean([line["value"] for line in solo]))
        useful = [
            scale
            for scale in order(group, "noise")
            if better(metric, float(np.mean([line["value"] for line in pick(group, noise=scale)])), alone)
        ]
        most = (
            f"up to sigma_r {max(useful):g}"
            if useful and max(useful)
            else "without noise alone"
            if useful
            else "not at all"
        )
        words.append(f"- {title(group[0])}: the message helps {most}.")
    return "\n".join(words)


def laggy() -> str:
    """Return what absent guests cost."""
    parts = []
    for group in by_data(results("laggy")).values():
        absent = order(group, "absent")
        rows = [[title(group[0]), *(mean_cell(pick(group, absent=count)) for count in absent)]]
        parts.append(table(["data (parties)", *(f"{count} absent" for count in absent)], rows))
    return "\n\n".join(parts)


def absent() -> str:
    """Return what guests cost that were there in training, and are absent at prediction, beside the host alone."""
    lines = results("absent")
    counts = order(lines, "late")
    rows = []
    for group in by_data(lines).values():
        for model in sorted(order(group, "model"), key=MODELS.index):
            cells = [mean_cell(pick(group, method="FedOnce", model=model, late=count)) for count in counts]
            solo = mean_cell(pick(group, method="Solo", model=model))
            rows.append([title(group[0]), model, *cells, solo])
    return table(["data (parties)", "model", *(f"{count} absent" for count in counts), "Solo"], rows)
