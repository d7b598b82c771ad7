"""Which protection of a message pays: what it costs in accuracy, and what is still read, on validation rows.

    python -m benchmarks.protections [--data phishing] [--seeds 1] [--message "PCA, 4 bits"] [--out FILE]

Phishing (nine guests of 3 values) and the example's shop (8 values); the host has trees. Tried are fewer bits, rounding with
noise that a secret fixes, cells, and an encoder trained against an adversary. Read are 3,000 rows of each guest, by who
knows no row (as `fedonce leakage` does, and in the wider search of `benchmarks.methods.leakage`) and by who knows 1 % of them.
Rows of the test play no part: models learn from four fifths of the other rows, and are scored on the last fifth.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import store
from benchmarks.data import fetch
from benchmarks.methods.leakage import ROWS, best, wider
from benchmarks.problem import Problem
from benchmarks.report.protections import PLAIN, RESULTS, VERDICTS
from benchmarks.resisting import Adversarial, Rounded
from benchmarks.rows import scored_on
from benchmarks.run import parties_of
from fedonce import FedOnceClassifier, InputError
from fedonce.assess import what_leaks
from fedonce.assess.attacks import Finding
from fedonce.assess.attacks.known_rows import KnownRows
from fedonce.data.table import Table
from fedonce.learners import Cells

DATA = {"phishing": (3, 3), "shop": (8, 5)}  # values per row, and seeds
EXACT = {"bits": 32}  # what the learner has rounded is not rounded again

# By name: what a guest is told. A learner is made anew for each guest.
MESSAGES: dict[str, Callable[[], dict[str, Any]]] = {
    PLAIN: lambda: {"learner": "pca"},
    "PCA, 4 bits": lambda: {"learner": "pca", "bits": 4},
    "PCA, 2 bits": lambda: {"learner": Rounded(2), **EXACT},
    "PCA, 4 bits, randomised rounding": lambda: {"learner": Rounded(4, "randomised"), **EXACT},
    "PCA, 4 bits, dither, not taken away": lambda: {"learner": Rounded(4, "triangular"), **EXACT},
    "PCA, 4 bits, dither, taken away": lambda: {"learner": Rounded(4, "subtractive"), **EXACT},
    "PCA, 2 bits, randomised rounding": lambda: {"learner": Rounded(2, "randomised"), **EXACT},
    "cells, with centres": lambda: {"learner": "cells"},
    "cells, numbers alone": lambda: {"learner": Cells(centres=False)},
    "protect cells:20": lambda: {"protect": "cells:20"},
    "protect cells:100": lambda: {"protect": "cells:100"},
    "adversarial encoder, weight 0.3": lambda: {"learner": Adversarial(0.3)},
    "adversarial encoder, weight 1": lambda: {"learner": Adversarial(1.0)},
    "adversarial encoder, weight 3": lambda: {"learner": Adversarial(3.0)},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=DATA)
    parser.add_argument("--message", choices=MESSAGES)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--out", type=Path, default=RESULTS, help="the file of results")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = []
    for name in [asked.data] if asked.data else DATA:
        for seed in range(asked.seeds or DATA[name][1]):
            problem = problem_of(name, seed)
            for message in [asked.message] if asked.message else MESSAGES:
                lines.append({"data": name, "message": message, "seed": seed, **measure(problem, message, seed)})
                print(json.dumps(lines[-1]), flush=True)
    found = {"rows": ROWS, "lines": lines, **store.origin("cpu")}
    asked.out.write_text(json.dumps(found, indent=1) + "\n")


def problem_of(name: str, seed: int) -> Problem:
    """Return a split whose last part are validation rows."""
    data = scored_on("validation", fetch(name, {}), seed)
    parties = parties_of(data, {})
    return Problem(data, parties, next(iter(parties)), *data.split(seed))


def measure(problem: Problem, message: str, seed: int) -> dict[str, Any]:
    """Train with one protection, and attack every guest's message."""
    guests = {guest: MESSAGES[message]() for guest in problem.guests}
    first = next(iter(guests.values()))
    told: dict[str, Any] = {key: value for key, value in first.items() if key != "learner"}
    if "learner" in first:
        told["learner"] = {guest: each["learner"] for guest, each in guests.items()}
    model = FedOnceClassifier(
        dict(problem.parties),
        host=problem.host,
        dim=DATA[problem.data.name][0],
        model="trees",
        validate=False,
        random_state=seed,
        **told,
    ).fit(problem.X, problem.y)
    ways: dict[str, list[Finding]] = {"nothing": [], "wider": [], "known": []}
    for guest, sent in model.representations_.items():
        rows = np.sort(np.random.default_rng(seed).permutation(len(sent.values))[:ROWS])
        table, values = yes_no(Table.of(problem.table(guest)).take(rows)), np.asarray(sent.values, np.float64)[rows]
        for way, findings in attacked(values, table):
            ways[way] += best(findings)
    found = {way: worst(findings) for way, findings in ways.items()}
    return {"accuracy": problem.score(np.asarray(model.predict(problem.X_test))), **found}


def attacked(values: Any, table: Table) -> Iterator[tuple[str, Sequence[Finding]]]:
    """Yield what each attacker finds."""
    yield "nothing", what_leaks(values, table, ["yes/no columns", "numbers and dates"]).findings
    yield "wider", [each for more in wider(values) for each in what_leaks(more, table, "yes/no columns").findings]
    yield "known", what_leaks(values, table, [KnownRows(shares=(0.01,))]).findings


def yes_no(table: Table) -> Table:
    """Return a table of flags as yes/no columns: phishing has them as numbers."""
    if table.matrix is None:
        return table
    flags = np.asarray(table.matrix, np.float64)
    if any(len(np.unique(column)) > 2 for column in flags.T):
        raise InputError("Columns of numbers must have two values each.")
    return Table.of(flags > flags.mean(axis=0))


def worst(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return how far the worst yes/no column or category lies above guessing in per cent of the rows, and its verdict.

    Beside it how many columns are readable, and R² of the worst number or date.
    """
    names = [each for each in findings if each.kind in ("boolean", "category")]
    numbers = [each.score or 0.0 for each in findings if each.kind in ("number", "date")]
    return {
        "points": max((100 * ((each.score or 0.0) - each.guess) for each in names), default=None),
        "verdict": min((each.verdict for each in names), key=VERDICTS.index, default=None),
        "readable": sum(each.verdict == VERDICTS[0] for each in findings),
        "r2": max(numbers, default=None),
    }


if __name__ == "__main__":
    main()
