"""The Markdown tables of README.md and of the pages in docs/, from benchmarks/results.

    python -m benchmarks.report.tables [--write]

With `--write` the text between the marks `<!-- NAME -->` and `<!-- /NAME -->` is replaced; without it the tables are
printed.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path

from benchmarks.experiment import load
from benchmarks.report import choices, few_bytes, hints, host_models, leakage, private, protections, speed, whoever
from benchmarks.report.communication import summary
from benchmarks.report.datasets import COMBINE, OURS, SOLO, datasets_table, splits_table
from benchmarks.report.figures import TITLES, Line, better, look, mean_cell, pick, results, table, title

ROOT = Path(__file__).parents[2]
FILES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


def digits_table() -> str:
    """Return accuracy and bytes by method, over seeds."""
    lines = results("digits")
    ours = {learner: [x for x in pick(lines, method=OURS) if look(x, "learner") == learner] for learner in DIGITS}
    found = {"Solo": pick(lines, method=SOLO)}
    found |= {f"FedOnce ({learner or 'default'})": runs for learner, runs in ours.items()}
    found["Combine"] = pick(lines, method=COMBINE)
    rows = [
        [name, mean_cell(runs, 1), str(runs[0]["messages"]), f"{runs[0]['bytes']:,}"] for name, runs in found.items()
    ]
    return table(["method", "accuracy (%)", "messages", "bytes sent"], rows)


DIGITS = ("nat", "pca", "autoencoder", None)


def learners_table() -> str:
    """Return one row a data set, dimension and bits, one column a learner."""
    learners = ("random", "nat", "pca", "autoencoder", "patches")
    sizes: dict[tuple[int, int, int], list[Line]] = {}
    for line in results("learners"):
        dim, bits = look(line, "dim"), look(line, "bits")
        sizes.setdefault((list(TITLES).index(line["data"]), dim * bits, dim), []).append(line)
    rows = []
    for (_, total, dim), lines in sorted(sizes.items()):
        found = [pick(lines, learner=learner) for learner in learners]
        name = title(lines[0]) + (", RMSE" if lines[0]["metric"] == "rmse" else "")
        rows.append([name, str(dim), str(total // dim), *(mean_cell(runs, 1) if runs else "" for runs in found)])
    return table(["data (parties)", "d", "bits", *learners], rows)


def cells_table() -> str:
    """Return one row a data set and number of bytes, one column a learner."""
    learners = ("cells", "quantiles", "pca")
    sizes: dict[tuple[str, float], list[Line]] = {}
    for line in results("cells"):
        sizes.setdefault((line["data"], look(line, "bytes_per_row")), []).append(line)
    rows = []
    for (_, size), lines in sorted(sizes.items()):
        name = title(lines[0]) + (", RMSE" if lines[0]["metric"] == "rmse" else "")
        rows.append([name, f"{size:g}", *(mean_cell(pick(lines, learner=learner), 1) for learner in learners)])
    return table(["data (parties)", "bytes per row", *learners], rows)


def parties_table() -> str:
    """Return what parties with tables in files need, and what a guest with half of the rows is worth."""
    return "\n".join([*speed.files_lines(), *(f"- {line}" for line in overlap_lines())])


def overlap_lines() -> list[str]:
    """Say what a guest with half of the rows is worth."""
    told = []
    for case in load("overlap").cases:
        for name in case.data:
            runs = pick(results("overlap"), data=name, parties=case.division["parties"][0])
            ways = {method: pick(runs, method=method) for method in case.methods}
            if not all(ways.values()):
                continue
            kept, left, common = (mean_cell(found) for found in ways.values())
            told.append(
                f"{TITLES[name]}, {case.title}, a guest with half of the rows: kept {kept}, left out {left}, training on "
                f"the common rows alone {common}; keeping beats leaving out in {_wins(ways)}."
            )
    return told


def _wins(ways: dict[str, list[Line]]) -> str:
    """Count the runs in which keeping is better than leaving out, on the same rows."""
    left = {(look(line, "half"), line["seed"]): line["value"] for line in ways["Guest left out"]}
    pairs = [(line, left.get((look(line, "half"), line["seed"]))) for line in ways["Guest kept"]]
    both = [(line["metric"], line["value"], value) for line, value in pairs if value is not None]
    wins = sum(better(metric, kept, value) and kept != value for metric, kept, value in both)
    return f"{wins} of {len(both)} runs"


TABLES: dict[str, Callable[[], str]] = {
    "digits": digits_table,
    "bench": speed.bench_table,
    "convolutions": speed.convolutions_table,
    "installing": speed.installing_table,
    "parties": parties_table,
    "validation": learners_table,
    "cells": cells_table,
    "front": host_models.front,
    "strongest": host_models.strongest,
    "few": few_bytes.summary,
    "hints": hints.section,
    "hint-shares": hints.shares_table,
    "hint-values": hints.values_table,
    "hint-messages": hints.messages_table,
    "whoever": whoever.section,
    "whoever-front": whoever.front,
    "leakage": leakage.sweet_spots,
    "protections": protections.section,
    "datasets": datasets_table,
    "splits": splits_table,
    "compared": summary,
    "private": private.summary,
    "why-pca": choices.pca_table,
    "why-random": choices.random_table,
}


def filled(text: str, tables: dict[str, str]) -> str:
    """Return a text with its tables between their marks."""
    for name, made in tables.items():
        whole = rf"\g<1>{made}\n\g<2>"
        text = re.sub(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", whole, text, flags=re.DOTALL)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    tables = {name: made() for name, made in TABLES.items()}
    if not write:
        print("\n\n".join(tables.values()))
        return
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        if (new := filled(text, tables)) != text:
            path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
