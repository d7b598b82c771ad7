"""Whoever is the host: mean and worst over all parties, by how guests were told to send."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.report.figures import Line, by_data, look, number, results, table, title


def section() -> str:
    """Return a table: a row for each data set and way of sending that was run with every host."""
    rows = [_row(*way) for way in _ways()]
    head = ["data (parties)", "guests send", "bytes per row, all guests", "mean over hosts", "worst host", "best host"]
    return table([*head, "best less worst", "seeds"], rows)


def front() -> str:
    """Return a sentence for the README: mean and worst host where guests may send up to eight bytes."""
    found = [
        f"{title(runs[0]).split(' (')[0]} {mean}, {worst}"
        for learner, most, runs in _ways()
        if (learner, most) == ("auto", 8)
        for mean, worst, *_ in [_over_hosts(runs)]
    ]
    return f"Any of the ten as host (trees, at most 8 bytes), mean and worst: {'; '.join(found)}."


def _ways() -> Iterator[tuple[str, float | None, list[Line]]]:
    """Yield learner, bytes and runs of each way of sending that was run with every host, of every seed that all hosts have."""
    for lines in by_data(results("whoever")).values():
        ways: dict[tuple[str, float | None], list[Line]] = {}
        for line in lines:
            ways.setdefault((look(line, "learner"), look(line, "bytes_per_row")), []).append(line)
        for (learner, most), runs in sorted(ways.items(), key=lambda way: (way[0][1] or 0, way[0][0])):
            seeds = Counter(line["seed"] for line in runs)
            whole = [line for line in runs if seeds[line["seed"]] == line["parties"]]
            if whole:
                yield learner, most, whole


def _row(learner: str, most: float | None, runs: Sequence[Line]) -> list[str]:
    sent = float(np.mean([line["bytes"] / line["rows"] for line in runs]))
    what = (
        f"{look(runs[0], 'dim')} values of 8 bits" if most is None else f"{learner}, at most {most:g} bytes per guest"
    )
    return [title(runs[0]), what, f"{sent:.2f}", *_over_hosts(runs), str(len({line["seed"] for line in runs}))]


def _over_hosts(runs: Sequence[Line]) -> list[str]:
    """Return mean, worst and best over hosts, and best less worst."""
    metric, hosts = runs[0]["metric"], sorted({line["host"] for line in runs})
    means = [float(np.mean([line["value"] for line in runs if line["host"] == host])) for host in hosts]
    best, worst = (max(means), min(means)) if metric == "accuracy" else (min(means), max(means))
    return [number(each, metric) for each in (float(np.mean(means)), worst, best, abs(best - worst))]
