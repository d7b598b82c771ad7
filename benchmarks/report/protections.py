"""Protections that were tried, on validation rows: the table of docs/leakage.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import store
from benchmarks.report.figures import TITLES, table

RESULTS = store.RESULTS / "protections.json"
PLAIN = "PCA, 8 bits"  # what the others are compared with
VERDICTS = ("readable", "partly", "not by these attacks")
WAYS = {"nothing": "no row known", "wider": "no row known, products and cells", "known": "1 % of the rows known"}


def section() -> str:
    """Return a row for each data set and message: what it costs beside PCA, and what is read of the worst column."""
    lines = json.loads(RESULTS.read_text(encoding="utf-8"))["lines"] if RESULTS.exists() else []
    head = ["data", "message", "accuracy (%)", "better than PCA by, ± standard error"]
    head += [f"worst yes/no column, {way}" for way in WAYS.values()]
    rows = []
    for data in dict.fromkeys(line["data"] for line in lines):
        here = [line for line in lines if line["data"] == data]
        plain = _of(here, PLAIN)
        rows += [_row(data, _of(here, message), plain) for message in dict.fromkeys(line["message"] for line in here)]
    return table(head, rows)


def _of(lines: Sequence[dict[str, Any]], message: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["message"] == message]


def _row(data: str, runs: Sequence[dict[str, Any]], plain: Sequence[dict[str, Any]]) -> list[str]:
    mean = float(np.mean([run["accuracy"] for run in runs]))
    shown = f"{mean:.2f} ({len(runs)})"
    return [TITLES[data], runs[0]["message"], shown, _better(runs, plain), *(_read(runs, way) for way in WAYS)]


def _better(runs: Sequence[dict[str, Any]], plain: Sequence[dict[str, Any]]) -> str:
    """Say by how much it is better than PCA on the same rows, and the standard error of that."""
    before = {run["seed"]: run["accuracy"] for run in plain}
    found = [run["accuracy"] - before[run["seed"]] for run in runs if run["seed"] in before]
    if runs[0]["message"] == PLAIN or len(found) < 2:
        return "-"
    return f"{np.mean(found):+.2f} ± {np.std(found, ddof=1) / np.sqrt(len(found)):.2f}"


def _read(runs: Sequence[dict[str, Any]], way: str) -> str:
    """Say how far above guessing the worst column is on average, and the worst verdict of any run."""
    points = float(np.mean([run[way]["points"] or 0.0 for run in runs]))
    verdicts = [run[way]["verdict"] for run in runs if run[way]["verdict"]]
    return f"+{points:.1f}, {min(verdicts, key=VERDICTS.index)}" if verdicts else "-"
