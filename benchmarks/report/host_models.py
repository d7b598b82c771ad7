"""The report's section on host models."""

from __future__ import annotations

import numpy as np

from benchmarks.report.figures import by_data, look, mean_cell, order, pick, results, table, title


def section() -> str:
    """Return a row for each data set and host model, on messages of the same size."""
    rows = []
    for group in by_data(results("host_models")).values():
        for model in order(group, "model"):
            runs = pick(group, model=model)
            if not runs:
                continue
            sent = np.mean([line["payload"] / line["rows"] / (line["parties"] - 1) for line in runs])
            seconds = np.mean([line["seconds"] for line in runs])
            rows.append([title(runs[0]), look(runs[0], "model"), f"{sent:.3g}", mean_cell(runs), f"{seconds:.0f}"])
    return table(["data (parties)", "model", "bytes per row and guest", "accuracy (%) or RMSE", "seconds"], rows)
