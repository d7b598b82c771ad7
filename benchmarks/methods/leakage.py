"""FedOnce by the estimators, and what is read in the guests' messages: by who knows no row, and by who knows 1 % of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.config import Config
from benchmarks.methods import estimator
from benchmarks.problem import Problem, Result
from fedonce.assess import what_leaks
from fedonce.assess.attacks import Finding
from fedonce.assess.attacks.known_rows import KnownRows
from fedonce.data.table import Table

ROWS = 3_000  # of each guest that are attacked
RARE = 0.01  # of a yes/no column: below, guessing is all but right
MOST_SQUARED = 8  # values per row whose products are looked at
MOST_CELLS, COMMON = 300, 30  # different messages of the rows where these are taken one by one, and how many of them
NOTHING = ("yes/no columns", "numbers and dates")  # attacks of who knows no row


def run(problem: Problem, config: Config, seed: int) -> Result:
    """Train host and guests, and attack every message."""
    model = estimator.make(problem, config, seed, problem.parties, problem.host)
    result = estimator.measured(problem, model)
    found: dict[str, list[Finding]] = {"nothing": [], "wider": [], "known": []}
    for guest, message in model.representations_.items():
        rows = np.sort(np.random.default_rng(seed).permutation(len(message.values))[:ROWS])
        table = Table.of(problem.table(guest)).take(rows)
        values = np.asarray(message.values, np.float64)[rows]
        found["nothing"] += best(what_leaks(values, table, NOTHING).findings)
        found["wider"] += best(
            [each for more in wider(values) for each in what_leaks(more, table, NOTHING[:1]).findings]
        )
        found["known"] += best(what_leaks(values, table, [KnownRows(shares=(RARE,))]).findings)
    result.detail |= {f"by {name}": figures(findings) for name, findings in found.items()}
    result.detail["attacks"] = [*NOTHING, KnownRows.name]
    return result


def best(findings: Sequence[Finding]) -> list[Finding]:
    """Return for each column, and for its gaps, what did best."""
    found: dict[Any, Finding] = {}
    for each in findings:
        key = each.column, each.kind == "missing"
        if each.column is not None and each.score is not None and each.guess < 1 - RARE:
            found[key] = max(found.get(key, each), each, key=lambda one: one.gain)
    return list(found.values())


def wider(values: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    """Yield what an attacker may make of a message to look for columns in: products, and messages as names."""
    if values.shape[1] <= MOST_SQUARED:
        scaled = (values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 1e-9)
        first, second = np.triu_indices(values.shape[1])
        yield np.hstack([scaled, scaled[:, first] * scaled[:, second]])
    different, which = np.unique(values, axis=0, return_inverse=True)
    if len(different) <= MOST_CELLS:
        common = np.argsort(-np.bincount(which.ravel()), kind="stable")[:COMMON]
        yield (which.ravel()[:, None] == common).astype(np.float64)


def figures(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the worst column by the part of what guessing gets wrong, how many there are, and how many are readable.

    `points` is how far the worst yes/no column or category lies above guessing, in per cent of the rows; `mean_gain` the mean
    part over all columns, which says more of pixels than the worst of hundreds.
    """
    if not findings:
        return {"columns": 0, "readable": 0}
    worst = max(findings, key=lambda one: one.gain)
    told = [100 * ((one.score or 0) - one.guess) for one in findings if one.kind in ("boolean", "category")]
    return {
        "columns": len(findings),
        "readable": sum(one.verdict == "readable" for one in findings),
        "kind": worst.kind,
        "score": worst.score,
        "guess": worst.guess,
        "control": worst.control,
        "gain": worst.gain,
        "mean_gain": float(np.mean([one.gain for one in findings])),
        "points": max(told) if told else None,
        "mean_points": float(np.mean(told)) if told else None,
    }
