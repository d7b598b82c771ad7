"""Turn benchmarks/results into the Markdown tables of README.md and docs/learners.md.

    python -m benchmarks.report.tables [--write]

With `--write` the text between the marks `<!-- NAME -->` and `<!-- /NAME -->` is replaced; without it the tables are
printed.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from pathlib import Path

import numpy as np

from benchmarks.datasets import CASES
from benchmarks.report import private
from benchmarks.report.communication import summary
from fedonce import Recipe

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
TITLES = {
    "digits": "digits (4)",
    "phishing": "phishing (10)",
    "superconduct": "superconduct (10), RMSE",
    "ujiindoorloc": "UJIIndoorLoc longitude (10), RMSE",
    "covtype": "covtype subset (10)",
    "mnist": "MNIST (4)",
    "fashion-mnist": "Fashion-MNIST (4)",
}


def lines(name: str) -> list[dict]:
    path = RESULTS / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def cell(values: list[float], metric: str, decimals: int = 1) -> str:
    """Return mean and, where there are several runs, spread; accuracies with so many decimals."""
    digits = 4 if metric == "rmse" else decimals
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {np.std(values):.{digits}f}"


def digits_table() -> str:
    """Return accuracy and bytes by method, over seeds."""
    by_method = defaultdict(list)
    for line in lines("digits"):
        by_method[line["method"]].append(line)
    rows = ["| method | accuracy (%) | messages | bytes sent |", "|---|---|---|---|"]
    order = ("Solo", "FedOnce (nat)", "FedOnce (pca)", "FedOnce (autoencoder)", "FedOnce (default)", "Combine")
    for method in order:
        runs = by_method[method]
        accuracy = cell([100 * run["accuracy"] for run in runs], "accuracy")
        rows.append(f"| {method} | {accuracy} | {runs[0]['messages']} | {runs[0]['bytes']:,} |")
    return "\n".join(rows)


def learners_table() -> str:
    """Return one row a data set, dimension and bits, one column a learner."""
    methods = ("random", "nat", "pca", "autoencoder", "patches")
    cells, metrics = defaultdict(list), {}
    for line in lines("learners"):
        name, method, dim, bits, _ = line["key"]
        cells[name, dim, bits, method].append(line["value"])
        metrics[name] = line["metric"]
    keys = sorted({key[:3] for key in cells}, key=lambda key: (list(TITLES).index(key[0]), key[1] * key[2], key[1]))
    rows = [f"| data (parties) | d | bits | {' | '.join(methods)} |", "|" + "---|" * (3 + len(methods))]
    for name, dim, bits in keys:
        scores = [cells.get((name, dim, bits, method)) for method in methods]
        shown = [cell(values, metrics[name]) if values else "" for values in scores]
        rows.append(f"| {' | '.join([TITLES[name], str(dim), str(bits), *shown])} |")
    return "\n".join(rows)


def datasets_table() -> str:
    """Return one row a case of `benchmarks.datasets`, FedOnce beside Solo and Combine."""
    runs = defaultdict(list)
    for line in lines("datasets"):
        case, method, _ = line["key"]
        runs[case, method].append(line)
    head = (
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
    rows = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for name, case in CASES.items():
        auto = runs[name, "auto"]
        if not auto:
            continue
        shown = []
        for method in ("solo", "auto", "named", "combine"):
            found = runs[case.alone if case.alone and method in ("solo", "combine") else name, method]
            metric = auto[0]["metric"]
            shown.append(cell([run["value"] for run in found], metric, 2) if found else "")
        if case.learner:
            shown[2] += f" ({', '.join([case.learner, *_beside(case.named)])})"
        title = case.title + ("" if auto[0]["complete"] else " (partial)")
        goal = "below Solo" if case.goal is None else f"{case.goal:g}"
        size = f"{np.mean([run['bytes'] for run in auto]) / 1e6:.2f} MB"
        seconds = " / ".join(
            f"{np.mean([run['seconds'] for run in runs[name, method]]):.0f}"
            for method in ("auto", "named")
            if runs[name, method]
        )
        rows.append(f"| {' | '.join([title, f'{case.dim} x {case.bits}', size, *shown, goal, seconds])} |")
    return "\n".join(rows)


def splits_table() -> str:
    """Return errors split by split where labels are scaled, and their mean in the label's own unit."""
    units = {"superconduct": ("K", 1), "ujiindoorloc-timestamp": ("hours", 3600)}
    runs = {tuple(line["key"]): line for line in lines("datasets")}
    rows = ["| data | method | split 0 | 1 | 2 | 3 | 4 | mean, unscaled |", "|" + "---|" * 8]
    for name, (unit, per) in units.items():
        for method in ("solo", "auto", "named", "combine"):
            found = [runs[name, method, seed] for seed in range(CASES[name].seeds)]
            errors = [f"{run['value']:.4f}" for run in found]
            mean = np.mean([run["value"] * run["unit"] / per for run in found])
            rows.append(f"| {name} | {method} | {' | '.join(errors)} | {mean:.2f} {unit} |")
    return "\n".join(rows)


def _beside(recipe: Recipe | None) -> list[str]:
    """Say what a named recipe has beyond the default one."""
    if recipe is None:
        return []
    return [f"{recipe.members} models", *([f"{recipe.epochs} epochs"] if recipe.epochs else [])]


def bench_table() -> str:
    """Return speed and memory, as `make bench` last measured them."""
    speed, memory = (json.loads((RESULTS / f"{name}.json").read_text()) for name in ("nat_speed", "memory"))
    rows = ["| NAT | plain torch loop | fedonce | times faster | losses differ by |", "|---|---|---|---|---|"]
    for row in speed:
        guests = "one guest" if row["guests"] == 1 else f"{row['guests']} guests, two processes"
        seconds = f"{row['plain_s']:.4f} s | {row['ours_s']:.4f} s"
        rows.append(f"| {guests} | {seconds} | {row['ratio']:.1f} | {100 * row['losses_apart']:.2f} % |")
    peaks = " and ".join(f"{row['peak_beyond'] / 2**20:.0f} MiB ({row['learner']})" for row in memory)
    loading = json.loads((RESULTS / "loading.json").read_text())
    loaded = ", ".join(f"{row['name']} ({row['rows']:,} rows) in {row['seconds']:.1f} s" for row in loading)
    most = max(row["peak"] for row in loading) / 2**20
    return "\n".join(rows) + (
        f"\n\n{_dpsgd()}\n\nOne guest with 1,000,000 rows x 20 columns, d=16: {peaks} beyond the data at the peak. "
        f"Loading {loaded}; at most {most:.0f} MiB in all."
    )


def parties_table() -> str:
    """Return what parties with tables in files need: large tables, alignment, reading, a guest with half of the rows."""
    large, aligned, readers = (
        json.loads((RESULTS / f"{name}.json").read_text())
        for name in ("large_tables", "alignment_speed", "table_readers")
    )
    guest = f"{max(large['guest_seconds']):.0f} s and {large['guest_peak'] / 2**30:.2f} GiB"
    host = f"{large['host_seconds']:.0f} s and {large['host_peak'] / 2**30:.2f} GiB"
    total = sum(aligned["seconds"].values())
    sizes = ", ".join(f"{name} {aligned['bytes'][name] / 1e6:.1f} MB" for name in ("request", "response", "rows"))
    rows = [
        f"- `guest fit` by PCA, {large['rows']:,} rows x {large['columns']} columns of Parquet: at most {guest} in all, a "
        f"message of {large['message_bytes'] / 1e6:.1f} MB. `host fit` with {large['guests']} such guests, d=8: {host}.",
        f"- Alignment of {aligned['rows']:,} x {aligned['rows']:,} ids: {total:.0f} s, {aligned['ratio']:.2f} times the "
        f"library's own calls; {sizes}.",
        f"- Reading 1,000,000 rows x 50 columns: {_readers(readers)}.",
        *(f"- {line}" for line in _overlap()),
    ]
    return "\n".join(rows)


def _readers(found: list[dict]) -> str:
    told = [
        f"{row['library']} {row['seconds']:.1f} s, {row['peak'] / 2**20:.0f} MiB ({row['file'].replace('csv', 'CSV')})"
        for row in found
    ]
    return "; ".join(told)


def _overlap() -> list[str]:
    """Say what a guest with half of the rows is worth."""
    scores: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in lines("overlap"):
        name, setting, _, way, _ = line["key"]
        scores[name, setting][way].append(line["value"])
    told = []
    for (name, setting), ways in scores.items():
        metric = "rmse" if np.mean(ways["keep"]) < 1 else "accuracy"
        better = np.array(ways["keep"]) < ways["drop"] if metric == "rmse" else np.array(ways["keep"]) > ways["drop"]
        each = {way: cell(values, metric, 2) for way, values in ways.items()}
        told.append(
            f"{TITLES[name].split(' (')[0]}, {setting}, a guest with half of the rows: kept {each['keep']}, left out "
            f"{each['drop']}, training on the common rows alone {each['common']}; keeping beats leaving out in "
            f"{better.sum()} of {len(better)} runs."
        )
    return told


def _dpsgd() -> str:
    """Say how fast a DP-SGD step is, as `make bench` last measured it."""
    rows = json.loads((RESULTS / "dpsgd_speed.json").read_text())
    told = "; ".join(
        f"{row['network']}: {row['torch']:.2f} times torch's step without privacy, {row['closed_form']:.2f} times our own "
        f"without, {row['opacus']:.1f} times faster than Opacus"
        for row in rows
    )
    return f"A DP-SGD step of an MLP (10,000 rows x 17 columns, batch 128): {told}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    tables = {
        "digits": digits_table(),
        "bench": bench_table(),
        "parties": parties_table(),
        "validation": learners_table(),
        "datasets": datasets_table(),
        "splits": splits_table(),
        "compared": summary(),
        "private": private.summary(),
    }
    for path in (ROOT / "README.md", ROOT / "docs" / "learners.md", ROOT / "docs" / "datasets.md"):
        text = path.read_text()
        for name, table in tables.items():
            text = re.sub(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", rf"\g<1>{table}\n\g<2>", text, flags=re.DOTALL)
        if write:
            path.write_text(text)
    if not write:
        print("\n\n".join(tables.values()))


if __name__ == "__main__":
    main()
