"""The report's section on host models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.report.figures import by_data, look, mean_cell, order, pick, results, table, title


def section() -> str:
    """Return a row for each data set, method and host model, on messages of the same size."""
    groups = [
        (method, [line for line in pick(group, model=model) if line["method"] == method])
        for group in by_data(results("host_models")).values()
        for method in dict.fromkeys(line["method"] for line in group)
        for model in order(group, "model")
    ]
    head = ["data (parties)", "method", "model", "bytes per row and guest", "accuracy (%) or RMSE", "seconds"]
    return table(head, [_row(method, runs) for method, runs in groups if runs])


def _row(method: str, runs: Sequence[Mapping[str, Any]]) -> list[str]:
    sent = np.mean([line["payload"] / line["rows"] / max(line["parties"] - 1, 1) for line in runs])
    seconds = np.mean([line["seconds"] for line in runs])
    name = method.partition(" (")[0]
    return [title(runs[0]), name, look(runs[0], "model"), f"{sent:.3g}", mean_cell(runs), f"{seconds:.0f}"]
