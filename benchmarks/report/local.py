"""What guests are worth that tell each row with an epsilon of its own: the report's section."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.report.figures import Line, by_data, mean_cell, pick, results, table, title

SOLO = "Solo (estimator)"
FEDONCE = "FedOnce (estimator)"


def section() -> str:
    """Return a row for each data set: the host alone, and with guests by cells and by vectors."""
    groups = by_data(results("local")).values()
    head = ["data (parties)", "Solo", "by cells (subset selection)", "by PCA (PrivUnit)"]
    return table(head, [_row(group) for group in groups])


def _row(group: Sequence[Line]) -> list[str]:
    cells = [line for line in pick(group, method=FEDONCE) if "learner" not in line["config"]]
    return [
        title(group[0]),
        *(
            f"{mean_cell(runs)} ({len(runs)})" if runs else "-"
            for runs in (pick(group, method=SOLO), cells, pick(group, method=FEDONCE, learner="pca"))
        ),
    ]
