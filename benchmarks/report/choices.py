"""The tables behind two decisions: why principal components and not NAT, and why an untrained network does so well."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.report.datasets import SOLO
from benchmarks.report.figures import Line, by_data, curve, gain, look, mean_cell, number, pick, results, table, title
from fedonce.datasets import SOURCES

NAT, PCA, RANDOM = "FedOnce-NAT", "FedOnce-PCA", "FedOnce-random"


def pca_table() -> str:
    """Return NAT beside PCA: scores on the same splits, their difference, and what a whole training takes."""
    rows = []
    for group in by_data(results("unsupervised")).values():
        nat, pca = (pick(group, method=method) for method in (NAT, PCA))
        seconds = " / ".join(f"{np.mean([line['cpu'] for line in runs]):.0f}" for runs in (nat, pca))
        rows.append([_name(nat[0]), mean_cell(nat), mean_cell(pca), _better(nat, pca), seconds])
    head = ["data (parties)", "NAT", "PCA", "PCA better by, ± standard error", "CPU seconds, NAT / PCA"]
    return table(head, rows)


def random_table() -> str:
    """Return an untrained network beside PCA: scores, their difference, and linear probes."""
    rows = []
    for group in by_data(results("unsupervised")).values():
        random, pca = (pick(group, method=method) for method in (RANDOM, PCA))
        probes = " / ".join(mean_cell([line | {"value": line["probe"]} for line in runs]) for runs in (random, pca))
        values = f"{look(random[0], 'dim')} of {_columns(random[0])}"
        alone = _alone(random[0])
        rows.append([_name(random[0]), values, alone, mean_cell(random), mean_cell(pca), _better(random, pca), probes])
    head = ["data (parties)", "values, of columns per guest", "host alone", "random", "PCA"]
    return table([*head, "PCA better by, ± standard error", "linear probe, random / PCA"], rows)


def _name(line: Line) -> str:
    return title(line) + (", RMSE" if line["metric"] == "rmse" else "")


def _alone(line: Line) -> str:
    """Return the score of the host alone on the same data, where it was measured with the same recipe."""
    same = pick(results("datasets"), data=line["data"], method=SOLO)
    return mean_cell([each for each in same if each["loader"] == line["loader"]])


def _better(first: Sequence[Line], second: Sequence[Line]) -> str:
    """Say by how much the second is better, seed by seed."""
    (before,), (after,) = curve(first, "nothing"), curve(second, "nothing")
    found = gain(before, after, first[0]["metric"])
    if found is None:
        return "-"
    mean, error = (number(value, first[0]["metric"]) for value in found)
    return f"{mean} ± {error}"


def _columns(line: Line) -> str:
    """Return how many columns a guest has on average."""
    signals = 520  # of UJIIndoorLoc: where it is longitude that is predicted, the other columns are left out
    columns = signals if line["loader"] else SOURCES[line["data"]].columns
    return f"{columns / line['parties']:.0f}"
