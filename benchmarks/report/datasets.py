"""The table of the paper's data sets, and its errors split by split."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.experiment import Case, load
from benchmarks.report.figures import Line, mean_cell, pick, results, table

OURS, SOLO, COMBINE = "FedOnce (estimator)", "Solo (estimator)", "Combine (estimator)"
HEAD = (
    "data (parties)",
    "values x bits",
    "bytes sent",
    "Solo",
    "FedOnce (auto)",
    "FedOnce, learner named",
    "Combine",
    "goal",
    "seconds",
)
UNITS = {"superconduct": ("superconduct", "K", 1), "ujiindoorloc": ("ujiindoorloc-timestamp", "hours", 3600)}


def datasets_table() -> str:
    """Return one row a case of the experiment, FedOnce beside Solo and Combine."""
    cases = load("datasets").cases
    found = [_row(case, _named(case, cases)) for case in cases if "learner" not in case.config]
    return table(HEAD, [row for row in found if row])


def splits_table() -> str:
    """Return errors split by split where labels are scaled, and their mean in the label's own unit."""
    cases = load("datasets").cases
    rows = []
    for case in cases:
        if "learner" in case.config or case.data[0] not in UNITS or case.loader:
            continue
        name, unit, per = UNITS[case.data[0]]
        for method, runs in _runs(case, _named(case, cases)).items():
            errors = [f"{run['value']:.4f}" for run in sorted(runs, key=lambda run: run["seed"])]
            mean = np.mean([run["value"] * run["unit"] / per for run in runs])
            rows.append([name, method, *errors, f"{mean:.2f} {unit}"])
    return table(["data", "method", "split 0", "1", "2", "3", "4", "mean, unscaled"], rows)


def _named(case: Case, cases: Sequence[Case]) -> Case | None:
    """Return the case beside that names a learner, where there is one."""
    beside = (each for each in cases if each.title == case.title and each.config.items() > case.config.items())
    return next(beside, None)


def _runs(case: Case, named: Case | None) -> dict[str, list[Line]]:
    """Return the runs of a case by what they are called in tables. Solo and Combine send nothing: any size's are right."""
    own = [line for line in results("datasets") if line["data"] == case.data[0] and line["loader"] == case.loader]
    own = own if isinstance(case.hosts, str) else pick(own, host=case.hosts[0])
    ours = pick(own, method=OURS)
    return {
        "solo": pick(own, method=SOLO),
        "auto": [line for line in ours if line["config"] == case.config],
        "named": [line for line in ours if named and line["config"] == named.config],
        "combine": pick(own, method=COMBINE),
    }


def _row(case: Case, named: Case | None) -> list[str]:
    runs = _runs(case, named)
    auto = runs["auto"]
    if not auto:
        return []
    cells = {method: mean_cell(found) if found else "" for method, found in runs.items()}
    if named:
        cells["named"] += f" ({', '.join(_beyond_default(named))})"
    seconds = [f"{np.mean([run['seconds'] for run in runs[name]]):.0f}" for name in ("auto", "named") if runs[name]]
    return [
        case.title + ("" if auto[0]["complete"] else " (partial)"),
        f"{case.config['dim']} x {case.config['bits']}",
        f"{np.mean([run['bytes'] for run in auto]) / 1e6:.2f} MB",
        *cells.values(),
        "below Solo" if case.goal is None else f"{case.goal:g}",
        " / ".join(seconds),
    ]


def _beyond_default(case: Case) -> list[str]:
    """Say which learner a case names, and what its recipe has beyond the default one."""
    words = [case.config["learner"]]
    words += [f"{case.config['members']} models"] if "members" in case.config else []
    return words + ([f"{case.config['host_epochs']} epochs"] if "host_epochs" in case.config else [])
