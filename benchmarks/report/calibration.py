"""How far probabilities can be believed: the report's section."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.report.figures import Line, by_data, look, mean_cell, order, pick, results, table, title

TOLD = {"calibration error": 4, "log loss": 4}


def section() -> str:
    """Return a row for each data set and host model, with what calibration does to test rows."""
    heads = [f"{name}, {when}" for name in TOLD for when in ("before", "after")]
    head = ["data (parties)", "model", "seeds", "accuracy (%)", "temperature", *heads]
    return table(head, [_row(runs) for runs in _groups()])


def _groups() -> Iterator[list[Line]]:
    for group in by_data(results("calibration")).values():
        for rare in dict.fromkeys(look(line, "rare") for line in group):
            for model in order(group, "model"):
                runs = pick(group, rare=rare, model=model)
                if runs:
                    yield runs


def _row(runs: Sequence[Line]) -> list[str]:
    name, rare = title(runs[0]), look(runs[0], "rare")
    cells = [
        _mean([line[told][when] for line in runs], decimals)
        for told, decimals in TOLD.items()
        for when in ("before", "after")
    ]
    share = "" if rare is None else f", rare ({100 * rare:g} %)"
    heat = _mean([line["temperature"] for line in runs], 2)
    return [name + share, look(runs[0], "model"), str(len(runs)), mean_cell(runs), heat, *cells]


def _mean(values: Sequence[float], decimals: int) -> str:
    mean = f"{np.mean(values):.{decimals}f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values):.{decimals}f}"
