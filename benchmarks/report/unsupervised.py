"""Learners side by side, their linear probes, and what the paper prints."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.report import paper
from benchmarks.report.figures import TITLES, Line, by_data, look, mean_cell, order, pick, results, table, title


def unsupervised() -> str:
    """Return learners side by side, their linear probes, and what the paper prints."""
    lines = results("unsupervised")
    methods = order(lines, "method")
    rows, words = [], []
    for group in by_data(lines).values():
        cells = []
        for method in methods:
            runs = pick(group, method=method)
            probes = [line | {"value": line["probe"]} for line in runs]
            cells.append(f"{mean_cell(runs)} ({mean_cell(probes)})" if runs else "-")
        size_ = f"{look(group[0], 'dim')} x {look(group[0], 'bits')} bit"
        rows.append([title(group[0]), size_, *cells])
        words += _against_paper(group)
    text = "Accuracy or error of FedOnce, in brackets the linear probe's.\n\n"
    text += table(["data (parties)", "message", *methods], rows)
    entries = {(entry.data or "", entry.method): entry.value for entry in paper.find(table="tab:apdx_pca")}
    printed = [
        [TITLES[name], *(f"{entries[name, method]}" for method in ("FedOnce-L0", "FedOnce-PCA"))]
        for name in dict.fromkeys(name for name, _ in entries)
    ]
    text += "\n\nThe paper prints:\n\n" + table(["data", "FedOnce-L0 (NAT)", "FedOnce-PCA"], printed)
    return text + "\n\n" + "\n".join(f"- {word}" for word in words)


def _against_paper(group: Sequence[Line]) -> list[str]:
    """Say where our number differs from the paper's for the same learner."""
    found = []
    for entry in paper.find(table="tab:apdx_pca", data=group[0]["data"]):
        method = {"FedOnce-L0": "FedOnce-NAT"}.get(entry.method, entry.method)
        ours = pick(group, method=method)
        if not ours:
            continue
        mean = float(np.mean([line["value"] for line in ours]))
        text = f"{title(ours[0])}: the paper prints {entry.value} % for {entry.method}, {method} here has {mean:.2f} %"
        if mean - entry.value > 20:
            text += ". The paper's number looks like a defect, not like what PCA can do"
        elif not ours[0]["complete"]:
            text += f" on part of the data ({ours[0]['note']})"
        found.append(text + ".")
    return found
