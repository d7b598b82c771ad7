"""What guests are worth that answer for each row with a local epsilon: the report's section."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.report.figures import Line, by_data, mean_cell, pick, results, table, title

SOLO = "Solo (estimator)"
FEDONCE = "FedOnce (estimator)"


def section() -> str:
    """Return a row for each data set: the host alone, and with guests."""
    groups = by_data(results("local")).values()
    head = ["data (parties)", "Solo", "local epsilon 4"]
    return table(head, [_row(group) for group in groups])


def _row(group: Sequence[Line]) -> list[str]:
    both = (pick(group, method=SOLO), pick(group, method=FEDONCE))
    return [title(group[0]), *(f"{mean_cell(runs)} ({len(runs)})" if runs else "-" for runs in both)]
