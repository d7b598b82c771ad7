"""Run an experiment: every cell of a TOML file that is not in the results yet.

    python -m benchmarks.run FILE [--smoke] [--seeds N] [--device D] [--data phishing,mnist] [--methods SplitNN]
                                  [--jobs 2] [--shard 1/4] [--part validation] [--bfloat16] [--out PATH]

FILE is a path, or a name in benchmarks/experiments. Each run is appended to benchmarks/results/NAME.jsonl when it is done;
an interrupted experiment goes on where it stopped and loses at most the run in work. `--smoke` makes the experiment small,
on data that need no file, and keeps nothing unless `--out` says where. `--jobs 2` runs two processes side by side;
`--shard 1/4` makes the first of four parts, for as many machines. `--part validation` scores on a fifth of the training rows,
which is how settings are chosen, and writes to NAME-validation.jsonl. Where FILE says `by_device`, as
models differ on a GPU, runs on one are kept beside those on a CPU. `--bfloat16` trains convolutions on a CPU in numbers of half
the length, where it has instructions for them: about half the time. What a guest sends and a host predicts is computed as ever.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks import store
from benchmarks.config import Config
from benchmarks.data import fetch
from benchmarks.experiment import Case, Cell, Experiment, key, load, small
from benchmarks.keys import suggest
from benchmarks.methods import METHODS
from benchmarks.problem import Problem
from benchmarks.rows import PARTS, scored_on
from fedonce import FedOnceError, InputError, biased
from fedonce.data.partition import even
from fedonce.datasets import Dataset


def parties_of(data: Dataset, division: dict[str, Any]) -> dict[str, Any]:
    """Return who holds which columns: the data set's own division, or so many even blocks."""
    parties = division.get("parties", data.parties)
    if isinstance(parties, int):
        return {party: tuple(columns) for party, columns in even(len(data.feature_names), parties).items()}
    return dict(parties)


def cells(case: Case, name: str, data: Dataset, seeds: int | None = None, device: str = "") -> Iterator[Cell]:
    """Yield the runs of a case on one data set, those of the same split one after the other.

    `device` is part of their names; empty where runs are not kept apart by it.
    """
    for division in case.divisions():
        parties = ["party1", "party2"] if "biased" in division else list(parties_of(data, division))
        hosts = {"all": parties, "first": parties[:1]}.get(str(case.hosts), case.hosts)
        for seed in range(seeds or case.seeds):
            for fold in range(case.folds) if case.folds else [None]:
                for method in case.methods:
                    for config in case.configs():
                        for host in hosts if METHODS[method].by_host else hosts[:1]:
                            yield Cell(name, case.loader, division, method, host, fold, seed, config, case.part, device)


def problem_of(cell: Cell, data: Dataset, memory: dict[Any, Any]) -> Problem:
    """Cut the rows of a cell; `memory` keeps them, and what guests learn from them, for the next cell of the same split."""
    if memory.get("of") != cell.split:
        memory.clear()
        data = scored_on(cell.part, data, cell.seed)
        split = data.split(cell.seed, cell.fold)
        if "biased" in cell.division:
            share, p = cell.division["biased"], cell.division["p"]
            parties = biased(split.X_train, split.y_train, share, p, cell.seed, data.task)
        else:
            parties = parties_of(data, cell.division)
        memory.update(of=cell.split, data=data, rows=split, parties=parties)
    if cell.host not in memory["parties"]:
        raise InputError(f"Data set {data.name!r} has no party {cell.host!r}, but {', '.join(memory['parties'])}.")
    return Problem(memory["data"], memory["parties"], cell.host, *memory["rows"], memory=memory)


def measure(cell: Cell, problem: Problem, device: str) -> dict[str, Any]:
    """Run a cell; return its line of the results."""
    result = METHODS[cell.method].run(problem, Config(**cell.config, device=device), cell.seed)
    low, high = problem.data.target_range(cell.seed)
    return {
        **asdict(cell),
        "complete": problem.data.complete,
        "note": "; ".join(filter(None, [problem.data.note, result.note])),
        "metric": "accuracy" if problem.classes else "rmse",
        "value": result.value,
        "unit": None if problem.classes else high - low,
        "parties": len(problem.parties),
        "rows": len(problem.y),
        "messages": result.messages,
        "payload": result.payload,
        "bytes": result.bytes,
        "wire": result.wire,
        "seconds": round(result.seconds, 2),
        "cpu": round(result.cpu, 2),
        **result.detail,
        **store.origin(device),
    }


def run(experiment: Experiment, out: Path, seeds: int | None, device: str, wanted: Wanted) -> int:
    """Run what is missing; return the number of runs that failed."""
    done = {key(line) for line in store.read(out)}
    apart = _device(experiment, device)
    failed = 0
    memory: dict[Any, Any] = {}
    for case in experiment.cases:
        for name in case.data:
            if not wanted.data(name):
                continue
            data, name = _fetch(case, name)
            if data is None:
                continue
            for cell in cells(case, name, data, seeds, apart):
                if not wanted.cell(cell) or key(asdict(cell)) in done:
                    continue
                try:
                    line = measure(cell, problem_of(cell, data, memory), device)
                except FedOnceError as error:
                    print(f"{cell.data} {cell.method} {cell.config}: failed. {error}", file=sys.stderr, flush=True)
                    failed += 1
                    continue
                store.append(out, {"experiment": experiment.name, **line})
                done.add(key(asdict(cell)))
                _tell(line)
    return failed


def _device(experiment: Experiment, device: str) -> str:
    """Return what a run's name says of its device; nothing where the experiment does not keep runs apart by it."""
    gpu = store.gpu(device)
    if device.startswith("cuda") and gpu is None:
        raise InputError(f"--device {device}: torch sees no GPU here. Take --device cpu, or install torch for CUDA.")
    return "gpu" if experiment.by_device and gpu else ""


def _fetch(case: Case, name: str) -> tuple[Dataset | None, str]:
    """Load the data of a case, or what stands in for them; say what is missing."""
    try:
        return fetch(name, case.loader), name
    except InputError as error:
        print(f"{name}: {'replaced by ' + case.otherwise if case.otherwise else 'skipped'}. {error}", flush=True)
    return (fetch(case.otherwise, {}), case.otherwise) if case.otherwise else (None, name)


def _tell(line: dict[str, Any]) -> None:
    where = [line["data"], line["method"], line["host"], f"seed {line['seed']}"]
    where += [f"fold {line['fold']}"] if line["fold"] is not None else []
    where += [f"{name}={value}" for name, value in {**line["division"], **line["config"]}.items()]
    value = line["note"] if line["value"] is None else f"{line['value']:.4f}"
    print(*where, "->", value, f"{line['payload']:,} B", f"{line['seconds']:.1f} s", flush=True)


class Wanted:
    """Which runs of an experiment are asked for: by data, by method, by part."""

    def __init__(self, experiment: Experiment, data: str | None, methods: str | None, shard: str) -> None:
        self.names = _listed(data, "--data", [name for case in experiment.cases for name in case.data])
        self.methods = _listed(methods, "--methods", [name for case in experiment.cases for name in case.methods])
        part, _, parts = shard.partition("/")
        if not (part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
            raise InputError(f"--shard must be like 1/4, the first of four parts. Got {shard!r}.")
        self.part, self.parts = int(part), int(parts)
        self.splits: dict[str, int] = {}

    def data(self, name: str) -> bool:
        """Tell whether a data set is asked for."""
        return self.names is None or name in self.names

    def cell(self, cell: Cell) -> bool:
        """Tell whether a run is; those that share what guests have learnt, a split's by one method, are in one part."""
        shared = f"{cell.split} {cell.method.removesuffix(' multi-round')}"
        number = self.splits.setdefault(shared, len(self.splits))
        return number % self.parts == self.part - 1 and (self.methods is None or cell.method in self.methods)


def _listed(given: str | None, option: str, known: list[str]) -> list[str] | None:
    """Return the names of an option; None: all. A name that the experiment does not have is an error."""
    if given is None:
        return None
    for name in given.split(","):
        if name not in known:
            raise InputError(
                f"{option} {name!r} is not in this experiment; {suggest(name, list(dict.fromkeys(known)))}"
            )
    return given.split(",")


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive integer, got {text!r}")
    return int(text)


def _side_by_side(jobs: int, arguments: list[str]) -> int:
    """Run every part in a process of its own; return the worst exit status."""
    if "--shard" in arguments:
        raise InputError("--jobs divides the experiment by itself; leave out --shard.")
    command = [sys.executable, "-m", "benchmarks.run", *arguments, "--jobs", "1"]
    processes = [subprocess.Popen([*command, "--shard", f"{part}/{jobs}"]) for part in range(1, jobs + 1)]
    try:
        return max(abs(process.wait()) for process in processes)
    finally:
        for process in processes:
            process.kill()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="a TOML file, or its name in benchmarks/experiments")
    parser.add_argument("--smoke", action="store_true", help="in seconds, on data that need no file")
    parser.add_argument("--seeds", type=_positive, help="so many seeds in place of the file's")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--data", help="of these data sets only")
    parser.add_argument("--methods", help="of these methods only")
    parser.add_argument("--jobs", type=_positive, default=1, help="so many processes side by side")
    parser.add_argument("--shard", default="1/1", help="one part of several, as in 1/4")
    parser.add_argument("--part", choices=PARTS, help="score on these rows in place of the file's")
    parser.add_argument("--bfloat16", action="store_true", help="train on a CPU in numbers of half the length")
    parser.add_argument("--out", type=Path, help="the file of results")
    given = parser.parse_args(arguments)
    started = time.perf_counter()
    try:
        experiment = load(given.file)
        experiment = small(experiment) if given.smoke else experiment
        if given.part:
            experiment = replace(experiment, cases=tuple(replace(case, part=given.part) for case in experiment.cases))
        wanted = Wanted(experiment, given.data, given.methods, given.shard)
        if given.jobs > 1:
            status = _side_by_side(given.jobs, sys.argv[1:] if arguments is None else arguments)
            print(f"{experiment.title}: {time.perf_counter() - started:.0f} s in {given.jobs} processes", flush=True)
            return status
        with tempfile.TemporaryDirectory() as folder:
            kept = Path(folder) if given.smoke else store.RESULTS
            out = given.out or kept / f"{experiment.name}{f'-{given.part}' if given.part else ''}.jsonl"
            with store.mixed_precision(given.bfloat16):
                return int(run(experiment, out, given.seeds, given.device, wanted) > 0)
    except FedOnceError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
