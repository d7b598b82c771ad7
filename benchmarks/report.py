"""Turn the results of experiments into a report: tables, pictures, and the paper's numbers beside.

    python -m benchmarks.report [--out docs]

Writes results.md and the pictures in results/ to the folder. What is not measured is listed with the command that fills it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from benchmarks import paper
from benchmarks.experiment import FOLDER, Experiment, load
from benchmarks.figures import TITLES, results
from benchmarks.methods import METHODS
from benchmarks.sections import SECTIONS
from fedonce.datasets import SOURCES

DOCS = Path(__file__).parent.parent / "docs"
PICTURES = ("performance", "communication", "cifar10", "dimension", "parties", "biased", "noise", "laggy")


def report() -> str:
    """Return the report as Markdown."""
    experiments = {path.stem: load(path) for path in sorted(FOLDER.glob("*.toml"))}
    parts = [HEAD, _partial(experiments)]
    for name, section in SECTIONS.items():
        experiment = experiments[name]
        parts += [f"## {experiment.title}", _origin(experiment)]
        if not results(name):
            parts.append("Not measured yet.")
            continue
        if name in PICTURES:
            parts.append(f"![{experiment.title}](results/{name}.png)")
        parts.append(section())
    parts += [
        "## FedOnce-L1",
        PRIVATE.format(count=len(paper.find(table="tab:exp_dp_perf"))),
        "## Missing",
        _missing(experiments),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


HEAD = """# Results

Every table and figure of the paper, made anew, and a few that it does not have. All of this page is written by
`python -m benchmarks.report` from the JSON lines in [benchmarks/results](../benchmarks/results); a line is one run, with its
settings, bytes, seconds, commit and machine. To make a result again: `FEDONCE_DATA=... python -m benchmarks.run NAME`, where NAME
is a file in [benchmarks/experiments](../benchmarks/experiments).

How numbers were made:
- Scores are on test rows, after the last epoch; nothing was chosen by them. Errors are of the target scaled to 0..1 by its
  training range, as in the paper; MovieLens is in stars.
- "±" is the spread (standard deviation) over what a table says: seeds, folds or hosts.
- *FedOnce* is ours: default recipe, a learner chosen by `auto`, 8 bits a value (images 4). *FedOnce-L0* is the paper's: NAT, its
  networks and hyperparameters, float32, one seed.
- Bytes are payload: values, without headers. SplitNN's are float32 in both directions, as it is usually run; with 8 bits it would
  need a quarter. SecureBoost's are those of its protocol without encryption (formula: `benchmarks/methods/secureboost.py`).
- The paper prints few numbers; most of its results are figures. What it prints is in [paper.toml](../benchmarks/paper.toml) and
  stands beside ours."""

PRIVATE = """The paper prints {count} numbers of private training (its table of FedOnce-L1 and Priv-Baseline by epsilon). They
are in [paper.toml](../benchmarks/paper.toml). This version cannot keep a privacy budget, so there is nothing of ours beside
them yet."""


def _origin(experiment: Experiment) -> str:
    source = f"The paper: `{experiment.paper}`." if experiment.paper else "Not in the paper."
    lines = results(experiment.name)
    machines = ", ".join(dict.fromkeys(line["machine"] for line in lines)) or "not measured yet"
    command = f"`python -m benchmarks.run {experiment.name}`"
    count = f"{len(lines)} runs of {_planned(experiment, {line['data'] for line in lines})}"
    return f"{experiment.question.strip()}\n\n{source} {command}: {count} ({machines})."


def _planned(experiment: Experiment, have: set[str]) -> int:
    """Return how many runs an experiment asks for on the data that have any result."""
    total = 0
    for case in experiment.cases:
        for name in have & {*case.data, case.otherwise}:
            parties = SOURCES[name].parties if name in SOURCES else None
            hosts = len(parties) if isinstance(parties, Mapping) else int(parties or 1)
            hosts = hosts if case.hosts == "all" else 1 if case.hosts == "first" else len(case.hosts)
            each = len(list(case.configs())) * len(list(case.divisions())) * case.seeds * max(1, case.folds)
            total += each * sum(hosts if METHODS[method].by_host else 1 for method in case.methods)
    return total


def _partial(experiments: dict[str, Experiment]) -> str:
    """Say which data are not whole."""
    notes = {
        line["data"]: line["note"].split("; ")[0]
        for name in experiments
        for line in results(name)
        if not line["complete"]
    }
    return (
        "Data marked * are part of the owner's: "
        + "; ".join(f"{TITLES[name]}: {note}" for name, note in notes.items())
        + "."
    )


def _missing(experiments: dict[str, Experiment]) -> str:
    """List what experiments ask for and results do not have, with the command that fills it."""
    rows = []
    for name, experiment in experiments.items():
        have = {(line["data"], line["method"]) for line in results(name)}
        stood_in = {
            case.data for case in experiment.cases if case.otherwise and any(d == case.otherwise for d, _ in have)
        }
        for data in dict.fromkeys(data for case in experiment.cases for data in case.data):
            wanted = dict.fromkeys(m for case in experiment.cases if data in case.data for m in case.methods)
            lacking = [method for method in wanted if (data, method) not in have]
            if lacking:
                which = "all" if len(lacking) == len(wanted) else ", ".join(lacking)
                note = " (a stand-in is shown)" if (data,) in stood_in else ""
                rows.append(
                    f"- {experiment.title}, {TITLES[data]}: {which}{note}. `python -m benchmarks.run {name} --data {data}`"
                )
    if not rows:
        return "Nothing."
    text = (
        "What was not run, and the command that fills it. The files of gisette and NUS-WIDE were not to be had; "
        "`fedonce data fetch NAME` gets them.\n\n"
    )
    return text + "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DOCS)
    out = parser.parse_args().out
    from benchmarks import plots

    plots.draw(out / "results")
    (out / "results.md").write_text(report())
    print(f"{out / 'results.md'} and {len(list((out / 'results').glob('*.png')))} pictures")


if __name__ == "__main__":
    main()
