"""Names of ours, of programs and of installed packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from textwrap import dedent

import numpy as np
import pytest

from fedonce import Guest, InputError, Representation
from fedonce.federation.policy import Policy
from fedonce.federation.request import Request
from fedonce.federation.runfile import RunFile
from fedonce.federation.workplace import Refused
from fedonce.hostmodels import HOST_MODELS
from fedonce.learners import LEARNERS
from fedonce.system import registry
from fedonce.system.registry import BuiltIn, Registry, one_of
from tests.federation.responders import a_responder, asks

CODE = """
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fedonce.hostmodels import Facts as ModelFacts
from fedonce.hostmodels import HostModel
from fedonce.learners import Facts, Learner


@dataclass(eq=False)
class Mine(Learner):
    name: ClassVar[str] = "mine"
    facts: ClassVar[Facts] = Facts(trains=False)
    times: float = 2.0
    dim_: int = field(default=0, init=False)

    def fit(self, rows, dim, rng, device):
        self.dim_ = min(dim, rows.shape[1])
        return []

    def transform(self, rows, device):
        return self.times * rows[:, : self.dim_]

    def state(self):
        return {"dim": np.array(self.dim_)}

    def restore(self, tensors):
        self.dim_ = int(tensors["dim"])


@dataclass(eq=False)
class Guess(HostModel):
    name: ClassVar[str] = "guess"
    facts: ClassVar[ModelFacts] = ModelFacts(numbers=False)
    share_: np.ndarray = field(default_factory=lambda: np.ones(2), init=False)

    def fit(self, examples, dims, n_outputs, rng, device):
        self.share_ = np.bincount(examples.target, minlength=n_outputs) / len(examples.target)
        return []

    def outputs(self, own, values, present, device):
        return np.tile(np.log(self.share_), (len(own), 1)).astype(np.float32)

    def state(self):
        return {"share": self.share_}

    def restore(self, tensors, inputs):
        self.share_ = tensors["share"]
"""
ENTRY_POINTS = """\
[fedonce.learners]
mine = their_package:Mine
broken = their_missing_package:Mine
odd = their_package:dataclass
other = their_package:Mine

[fedonce.host_models]
guess = their_package:Guess
"""


@pytest.fixture
def installed(tmp_path):
    """A folder with a package and its metadata, as an installer leaves them."""
    folder = tmp_path / "site"
    metadata = folder / "their_package-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    (folder / "their_package.py").write_text(CODE)
    return folder


@pytest.fixture
def here(installed, monkeypatch):
    """The package in this very process; afterwards nobody knows of it."""
    monkeypatch.syspath_prepend(installed)
    registry._installed.cache_clear()
    yield installed
    registry._installed.cache_clear()
    sys.modules.pop("their_package", None)
    for table in (LEARNERS, HOST_MODELS):
        for name in ("mine", "guess"):
            table._known.pop(name, None)


def test_a_package_is_imported_when_its_name_is_asked_for(here):
    assert "mine" in LEARNERS
    assert {"mine", "broken"} <= set(LEARNERS.names)
    assert LEARNERS["pca"].name == "pca"
    assert "their_package" not in sys.modules
    assert LEARNERS["mine"].name == "mine"
    assert not LEARNERS.facts("mine").trains
    rows = np.random.default_rng(0).random((20, 4))
    assert Guest("shop", "mine", dim=2).learn(rows).learner == "mine"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "broken",
            "of the package 'their-package' cannot be used: importing 'their_missing_package:Mine' failed with Mod",
        ),
        (
            "odd",
            "of the package 'their-package' cannot be used: 'their_package:dataclass' is no class that inherits Learner",
        ),
        ("other", "of the package 'their-package' cannot be used: the name of 'their_package:Mine' is 'mine'"),
    ],
)
def test_a_broken_package_is_named(here, name, said):
    with pytest.raises(InputError, match=f"The learner {name!r} {said}"):
        Guest("shop", name)


def test_a_guest_allows_a_learner_of_a_package_where_its_policy_names_it(here, tmp_path):
    request = Request("bank", "shop", "churn", "learn", "1", "mine", dim=2, naming="agreed")
    assert "'mine' is not allowed by shop, which allows" in Policy().refusal(request, ["visits", "spend"])
    assert "their_package" not in sys.modules  # what is not allowed is not imported
    (tmp_path / "policy.toml").write_text('learners = ["pca", "mine"]\nmax_epochs = 5\n')
    assert Policy.read(tmp_path / "policy.toml").refusal(request, ["visits", "spend"]) is None
    (tmp_path / "policy.toml").write_text('learners = ["pca", "broken"]\n')
    with pytest.raises(InputError, match="'their-package' cannot be used"):
        Policy.read(tmp_path / "policy.toml")


def test_a_guest_at_its_desk_learns_by_it_where_it_allows_it(here, tmp_path):
    desk = a_responder(tmp_path)
    with pytest.raises(Refused, match="'mine' is not allowed"):
        desk.answer(asks(learner="mine"))
    (tmp_path / "policy.toml").write_text('max_rebuilt = 1.0\nlearners = ["mine"]\n')
    assert Representation.from_file(desk.answer(asks(learner="mine"))).learner == "mine"


def test_a_policy_cannot_name_what_is_not_installed(tmp_path):
    (tmp_path / "policy.toml").write_text('learners = ["pca", "mine"]\n')
    with pytest.raises(InputError, match="names a learner that does not exist, 'mine'"):
        Policy.read(tmp_path / "policy.toml")


def test_a_run_file_names_learners_and_models_of_packages(here, tmp_path):
    text = 'run = "r"\ntable = "t.csv"\nid = "i"\nlabel = "l"\nguests = ["shop"]\nlearner = "mine"\nalign = true\n'
    (tmp_path / "run.toml").write_text(text + 'model = "guess"\n')
    file = RunFile.read(tmp_path / "run.toml")
    assert (file.learn_settings("shop")["learner"], file.model) == ("mine", "guess")
    (tmp_path / "run.toml").write_text(text + 'model = "gues"\n')
    with pytest.raises(
        InputError, match="'model' names a host model that does not exist, 'gues'; did you mean 'guess'"
    ):
        RunFile.read(tmp_path / "run.toml")


def test_commands_with_a_learner_and_a_model_of_a_package(installed, tmp_path):
    """A real process, which knows of the package by its metadata alone."""
    rng = np.random.default_rng(0)
    rows = [
        f"c{i},{a:.3f},{b:.3f},{'yes' if a > 0.3 else 'no'}" for i, (a, b) in enumerate(rng.standard_normal((40, 2)))
    ]
    (tmp_path / "t.csv").write_text("\n".join(["id,a,b,label", *rows]))
    code = dedent(
        """
        import sys
        from fedonce.cli import entry
        for line in sys.stdin.read().splitlines():
            sys.argv = ["fedonce", *line.split()]
            try:
                entry.main()
            except SystemExit as ended:
                if ended.code:
                    raise
        """
    )
    commands = [
        "guest fit t.csv --id id --columns a,b --name shop --out shop --plain-ids --learner mine --quiet",
        "guest represent t.csv --model shop --out again.fedonce --quiet",
        "host fit t.csv --id id --label label --columns a,b --guest shop/representation.fedonce --model guess --out bank --quiet",
        "host predict t.csv --model bank --guest again.fedonce --out predicted.csv --quiet",
    ]
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    ended = subprocess.run(
        [sys.executable, "-c", code],
        input="\n".join(commands),
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    assert Representation.from_file(tmp_path / "again.fedonce").learner == "mine"
    settings = json.loads(next((tmp_path / "bank").glob("settings-*.json")).read_text())
    assert settings["model"] == "guess"
    assert len({line.split(",")[1] for line in (tmp_path / "predicted.csv").read_text().splitlines()[1:]}) == 1


def test_names_facts_and_classes():
    made = Registry("number", "fedonce.nothing", "builtins:int", {"whole": BuiltIn("builtins:int", {"even": False})})
    assert (made.names, "whole" in made, made.facts("whole"), made["whole"]) == (("whole",), True, {"even": False}, int)
    with pytest.raises(KeyError):
        made["hole"]
    assert made.meant("hole") == " (did you mean 'whole'?)"
    assert made.meant("xyz") == ""


def test_choices_for_people():
    assert [one_of(names) for names in (["a"], ["a", "b"], "abc", [])] == [
        "'a'",
        "'a' or 'b'",
        "'a', 'b' or 'c'",
        "none",
    ]
