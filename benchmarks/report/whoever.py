"""Whoever is the host: mean and worst over all parties, by how guests were told to send."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.report.figures import Line, by_data, look, number, results, table, title


def section() -> str:
    """Return a table: a row for each data set and way of sending that was run with every host."""
    rows = []
    for lines in by_data(results("whoever")).values():
        ways: dict[tuple[str, float | None], list[Line]] = {}
        for line in lines:
            ways.setdefault((look(line, "learner"), look(line, "bytes_per_row")), []).append(line)
        for (learner, most), runs in sorted(ways.items(), key=lambda way: (way[0][1] or 0, way[0][0])):
            if len({line["host"] for line in runs}) == runs[0]["parties"]:
                rows.append(_row(learner, most, runs))
    head = ["data (parties)", "guests send", "bytes per row, all guests", "mean over hosts", "worst host", "best host"]
    return table([*head, "best less worst"], rows)


def _row(learner: str, most: float | None, runs: Sequence[Line]) -> list[str]:
    metric, hosts = runs[0]["metric"], sorted({line["host"] for line in runs})
    means = [float(np.mean([line["value"] for line in runs if line["host"] == host])) for host in hosts]
    best, worst = (max(means), min(means)) if metric == "accuracy" else (min(means), max(means))
    sent = float(np.mean([line["bytes"] / line["rows"] for line in runs]))
    what = "3 values of 8 bits" if most is None else f"{learner}, at most {most:g} bytes per guest"
    cells = [number(each, metric) for each in (float(np.mean(means)), worst, best, abs(best - worst))]
    return [title(runs[0]), what, f"{sent:.2f}", *cells]
