"""Which methods are run with every host, and their mean over hosts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.report.figures import Line, mean_cell, number, order, pick

BY_HOST = ("Solo", "FedOnce-L0", "FedOnce")
ONE_HOST = ("SplitNN-Comm", "SecureBoost-Comm", "SplitNN", "SecureBoost", "Linear-Combine", "Combine")
METHODS = BY_HOST + ONE_HOST


def over_hosts(lines: Sequence[Line]) -> str:
    """Return mean over hosts, and in brackets the means of the worst and the best host."""
    cell = mean_cell(lines)
    hosts = {host: np.mean([line["value"] for line in pick(lines, host=host)]) for host in order(lines, "host")}
    if len(hosts) < 2:
        return cell
    ends = sorted(hosts.values(), reverse=lines[0]["metric"] == "rmse")
    metric = lines[0]["metric"]
    mean = number(float(np.mean(list(hosts.values()))), metric)
    return f"{mean} ({number(float(ends[0]), metric)} to {number(float(ends[-1]), metric)})"
