"""Turn the results of experiments into a report: tables, pictures, and the paper's numbers beside.

What is not measured is listed with the command that fills it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.experiment import FOLDER, Experiment, load
from benchmarks.methods import METHODS
from benchmarks.report import loss, plots
from benchmarks.report.figures import TITLES, on_gpu, results
from benchmarks.report.sections import SECTIONS
from fedonce.datasets import SOURCES

DOCS = Path(__file__).parents[2] / "docs"


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
        if name in plots.PICTURES and name not in ("frontier", "few_bytes"):  # which have a picture for each data set
            parts.append(f"![{experiment.title}](results/{name}.png)")
        parts.append(section())
    parts += ["## Privacy loss", loss.section(), "## Missing", _missing(experiments)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


HEAD = """# Results

Every table and figure of the paper, reproduced, and a few that it does not have. This page is written by
`python -m benchmarks.report` from the JSON lines in [benchmarks/results](../benchmarks/results). A line is one run, with its
settings, bytes, seconds, commit and machine. To reproduce a result: `FEDONCE_DATA=... python -m benchmarks.run NAME`, where NAME
is a file in [benchmarks/experiments](../benchmarks/experiments). [Reproduce the paper](reproduce.md) says what to expect.

How the numbers were obtained:
- Scores are on test rows, after the last epoch (SplitNN-TabM: after the best one by rows held back); nothing was chosen by them.
  Errors are of the target scaled to 0..1 by its training range, as in the paper; MovieLens is in stars.
- "±" is the spread (standard deviation) over what a table says: seeds, folds or hosts.
- *FedOnce* is ours: default recipe, a learner chosen by `auto`, 8 bits per value (images 4). *FedOnce-L0* is the paper's: NAT,
  its networks and hyperparameters, float32, one seed.
- Bytes are payload: values, without headers. SplitNN's are float32 in both directions, as it is usually run; with 8 bits it would
  need a quarter. SecureBoost's are those of its protocol without encryption (formula: `benchmarks/methods/secureboost.py`).
- The paper prints few numbers; most of its results are figures. What it prints is in
  [paper.toml](../benchmarks/report/paper.toml), and is shown next to ours."""


def _origin(experiment: Experiment) -> str:
    source = f"The paper: `{experiment.paper}`." if experiment.paper else "Not in the paper."
    lines = results(experiment.name)
    machines = ", ".join(dict.fromkeys(line["machine"] for line in lines)) or "not measured yet"
    command = f"`python -m benchmarks.run {experiment.name}`"
    have = {line["data"] for line in lines}
    planned = sum(runs for (data, _), runs in _planned(experiment).items() if data in have or not have) or len(lines)
    gpu = sum(map(on_gpu, lines))
    count = f"{len(lines) - gpu} runs of {planned}" + (f", and {gpu} of as many on a GPU" if gpu else "")
    return f"{experiment.question.strip()}\n\n{source} {command}: {count} ({machines})."


def _planned(experiment: Experiment) -> Counter[tuple[str, str]]:
    """Return how many runs an experiment asks for, by data set (or what stands in for it) and method."""
    count: Counter[tuple[str, str]] = Counter()
    for case in experiment.cases:
        for name in case.data:
            for method in case.methods:
                hosts = 1
                if METHODS[method].by_host and case.hosts != "first":
                    hosts = _parties(name) if case.hosts == "all" else len(case.hosts)
                each = len(list(case.configs())) * case.seeds * max(1, case.folds)
                for division in case.divisions():
                    divided = case.hosts == "all" and METHODS[method].by_host and "parties" in division
                    count[name, method] += each * (division["parties"] if divided else hosts)
    return count


def _parties(name: str) -> int:
    parties = SOURCES[name].parties
    return len(parties) if isinstance(parties, Mapping) else int(parties or 1)


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
    rows = [row for experiment in experiments.values() for row in _lacking(experiment)]
    rows += [
        row for experiment in experiments.values() if experiment.by_device for row in _lacking(experiment, gpu=True)
    ]
    if not rows:
        return "Nothing."
    text = (
        "What was not run, or not with all seeds, folds and hosts that the experiment asks for, and the command that runs it. "
        "The files of gisette and NUS-WIDE were not available; `fedonce data fetch NAME` gets them.\n\n"
    )
    return text + "\n".join(rows)


def _lacking(experiment: Experiment, gpu: bool = False) -> Iterator[str]:
    have = Counter((line["data"], line["method"]) for line in results(experiment.name) if on_gpu(line) == gpu)
    stand_ins = {data: case.otherwise for case in experiment.cases for data in case.data if case.otherwise}
    planned = _planned(experiment)
    for data in dict.fromkeys(data for data, _ in planned):
        wanted = {method: runs for (name, method), runs in planned.items() if name == data}
        shown = stand_ins.get(data) if not any(have[data, method] for method in wanted) else None
        which = [f"{m} {have[data, m]} of {runs}" for m, runs in wanted.items() if have[data, m] < runs]
        if which:
            told = ", ".join(which) if any(have[data, method] for method in wanted) else "all"
            told += f" ({TITLES[shown]} stand in)" if shown else ""
            title = f"{experiment.title}{' on a GPU' if gpu else ''}, {TITLES[data]}"
            command = f"python -m benchmarks.run {experiment.name} --data {data}{' --device cuda' if gpu else ''}"
            yield f"- {title}: {told}. `{command}`"
