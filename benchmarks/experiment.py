"""Experiments as data: a TOML file says which methods run on which data, and what is varied.

title = "Performance with each party as host"
paper = "fig:exp_perf_comm"          # label of the paper's table or figure; "" where it has none
question = "..."                     # what the experiment shows, for the report
by_device = true                     # runs on a GPU are kept beside those on a CPU, as models differ there; default: false

[[cases]]
title = "Table rows"               # for reports that name their rows; default: none
data = ["phishing", "covtype"]       # names of `fedonce data list`
loader = { target = "longitude" }    # options of the loader
otherwise = "mnist-4-9"              # taken where the data are not here
division = { parties = [10, 20] }    # or { biased = [0, 0.5, 1], p = 30 }; default: the paper's division
hosts = "all"                        # "first" (default), "all", or names
folds = 5                            # default: no folds
seeds = 5                            # default: 1
part = "validation"                  # rows to score on, see `benchmarks.rows`; default: "test"
goal = 97.0                          # what was set out to be reached, for reports; default: none
methods = ["Solo", "FedOnce"]        # names of `benchmarks.methods`
config = { dim = 3, bits = 8 }       # see `benchmarks.config.Config`
vary = { epochs = [1, 4, 16] }       # one run for each value, or each combination
"""

from __future__ import annotations

import itertools
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from benchmarks.config import Config
from benchmarks.data import EMBEDDED, known, options
from benchmarks.keys import check, suggest
from benchmarks.methods import METHODS
from benchmarks.rows import PARTS
from fedonce import InputError

FOLDER = Path(__file__).parent / "experiments"
# The most that a small run takes of what is varied.
SMALL = {"epochs": 1, "absent": 1, "late": 1, "half": 2, "members": 2}
DIVISIONS = ("parties", "biased", "p")
KEY = ("data", "loader", "division", "method", "host", "fold", "seed", "config")


@dataclass(frozen=True)
class Cell:
    """One run: its settings are its name, by which it is found again in the results."""

    data: str
    loader: dict[str, Any]
    division: dict[str, Any]
    method: str
    host: str
    fold: int | None
    seed: int
    config: dict[str, Any]
    part: str = "test"
    device: str = ""  # "gpu" where the experiment keeps those runs apart

    @property
    def split(self) -> str:
        """What cells share that use the same rows and parties; guests' representations are reused among them."""
        return json.dumps([self.data, self.loader, self.division, self.fold, self.seed, self.part], sort_keys=True)


def key(line: Mapping[str, Any]) -> str:
    """Return the name of a run from its line in the results."""
    later = [line.get("part", "test"), line.get("device", "")]  # which older lines do not have
    return json.dumps([*(line[name] for name in KEY), *later], sort_keys=True)


@dataclass(frozen=True)
class Case:
    """A part of an experiment: every combination of what it lists is run."""

    data: tuple[str, ...]
    methods: tuple[str, ...]
    loader: dict[str, Any] = field(default_factory=dict)
    otherwise: str = ""
    division: dict[str, Any] = field(default_factory=dict)
    hosts: str | tuple[str, ...] = "first"
    folds: int = 0
    seeds: int = 1
    config: dict[str, Any] = field(default_factory=dict)
    vary: dict[str, list[Any]] = field(default_factory=dict)
    part: str = "test"
    title: str = ""
    goal: float | None = None

    def configs(self) -> Iterator[dict[str, Any]]:
        """Yield the settings of each combination."""
        for values in itertools.product(*self.vary.values()):
            yield {**self.config, **dict(zip(self.vary, values, strict=True))}

    def divisions(self) -> Iterator[dict[str, Any]]:
        """Yield each division."""
        listed = {name: value if isinstance(value, list) else [value] for name, value in self.division.items()}
        for values in itertools.product(*listed.values()):
            yield dict(zip(listed, values, strict=True))


@dataclass(frozen=True)
class Experiment:
    """A file of experiments."""

    name: str
    title: str
    cases: tuple[Case, ...]
    paper: str = ""
    question: str = ""
    by_device: bool = False


def load(path: Path | str) -> Experiment:
    """Read an experiment; what it does not know is an error that names the file, the key and the likely one."""
    path = Path(path)
    if not path.exists() and (FOLDER / f"{path}.toml").exists():
        path = FOLDER / f"{path}.toml"
    if not path.exists():
        names = sorted(found.stem for found in FOLDER.glob("*.toml"))
        raise InputError(f"There is no experiment {str(path)!r}; {suggest(path.stem, names)}")
    try:
        content = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path.name} is not TOML: {error}.") from error
    check(content, [each.name for each in fields(Experiment) if each.name != "name"], path.name)
    listed = content.pop("cases", [])
    if not listed or not isinstance(listed, list) or "title" not in content:
        raise InputError(f"{path.name} must have a title and [[cases]], with two brackets each side.")
    if type(content.get("by_device", False)) is not bool:
        raise InputError(f"{path.name}: 'by_device' must be true or false. Got {content['by_device']!r}.")
    cases = tuple(_case(given, f"{path.name}, case {n}") for n, given in enumerate(listed, 1))
    return Experiment(path.stem, cases=cases, **content)


def _case(given: dict[str, Any], where: str) -> Case:
    check(given, [each.name for each in fields(Case)], where)
    for name in ("data", "methods"):
        if name not in given:
            raise InputError(f"{where}: {name!r} is missing.")
        given[name] = tuple([given[name]] if isinstance(given[name], str) else given[name])
    if isinstance(given.get("hosts"), list):
        given["hosts"] = tuple(given["hosts"])
    elif given.get("hosts", "first") not in ("first", "all"):
        raise InputError(f"{where}: 'hosts' must be 'first', 'all' or a list of names. Got {given['hosts']!r}.")
    for name in ("seeds", "folds"):
        least = 1 if name == "seeds" else 0
        if type(given.get(name, 1)) is not int or given.get(name, 1) < least:
            raise InputError(f"{where}: {name!r} must be an integer of at least {least}. Got {given[name]!r}.")
    check(given["methods"], list(METHODS), where, "method")
    check((given.get("part", "test"),), PARTS, where, "part")
    check(given["data"], known(), where, "data set")
    if given.get("otherwise"):
        check((given["otherwise"],), known(), where, "data set")
    for name in ("config", "vary", "division", "loader"):
        if not isinstance(given.get(name, {}), dict):
            raise InputError(f"{where}: {name!r} must be a table, such as {{ dim = 3 }}. Got {given[name]!r}.")
    settings = [each.name for each in fields(Config) if each.name != "device"]  # the device is the command's business
    for name in ("config", "vary"):
        check(given.get(name, {}), settings, f"{where}, {name}")
    for name in given["data"]:
        check(given.get("loader", {}), options(name), f"{where}, loader")
    for name, values in given.get("vary", {}).items():
        if not isinstance(values, list) or not values:
            raise InputError(f"{where}: vary.{name} must be a list of values. Got {values!r}.")
    _check_division(given.get("division", {}), where)
    case = Case(**given)
    for config in case.configs():
        try:
            Config(**config)
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
    return case


def _check_division(division: dict[str, Any], where: str) -> None:
    check(division, list(DIVISIONS), f"{where}, division")
    if ("biased" in division) != ("p" in division) or ("biased" in division and "parties" in division):
        raise InputError(
            f"{where}: a division is {{ parties = [10, 20] }} or {{ biased = [0, 1], p = 30 }}. Got {division!r}."
        )
    for name, value in division.items():
        for each in value if isinstance(value, list) else [value]:
            if (
                isinstance(each, bool)
                or not isinstance(each, int | float)
                or (name != "biased" and type(each) is not int)
            ):
                raise InputError(f"{where}: division.{name} must be made of numbers. Got {each!r}.")


def small(experiment: Experiment) -> Experiment:
    """Return the experiment in seconds: embedded data, the ends of what is varied and every host model, few epochs and trees."""
    return replace(experiment, cases=tuple(_small(case) for case in experiment.cases))


def _small(case: Case) -> Case:
    data = tuple(dict.fromkeys(EMBEDDED[name] for name in case.data))
    config = {**case.config, "host_epochs": 2, "guest_epochs": 1, "trees": 2, "dim": min(4, case.config.get("dim", 4))}
    if "members" in config:
        config["members"] = min(config["members"], SMALL["members"])
    ends = {
        name: values if name == "model" else list(dict.fromkeys([values[0], values[-1]]))
        for name, values in case.vary.items()
    }
    ends = {name: [min(value, SMALL.get(name, value)) for value in values] for name, values in ends.items()}
    if "epochs" not in ends:
        config["epochs"] = 1
    division = dict(case.division)
    if "parties" in division:
        division["parties"] = [2, 5]
    if "biased" in division:
        division = {"biased": [0, 1], "p": 4}
    return replace(
        case,
        data=data,
        loader={},
        otherwise="",
        division=division,
        seeds=1,
        folds=min(case.folds, 1),
        hosts=case.hosts if isinstance(case.hosts, str) and "parties" not in division else "first",
        config=config,
        vary={name: list(dict.fromkeys(values)) for name, values in ends.items()},
    )
