"""Whenever a command is killed: what it writes is as before or all new, and the next run clears what was left."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import warnings

import numpy as np
import pytest

from fedonce import Guest, Hints, Host, Representation
from fedonce.jobs.hint_record import HintRecord
from fedonce.messages import keys
from fedonce.party import storage
from fedonce.rows.alignment import AgreedRows, State, finish, respond
from tests.jobs.office import command, done
from tests.kills import Kill, Killed

pytest.importorskip("private_set_intersection")
pytest.importorskip("cryptography")

MOST = 60  # kill points of a command
MESSAGE = "representation.fedonce"
FIT_SHOP = (
    "guest fit shop.csv --id who --name shop --out shop --secret secret --no-attack --dim 2 --learner pca --quiet"
)
FIT_BANK = "host fit bank.csv --id who --label y --out bank --secret secret --epochs 1 --quiet"
REFIT = "host fit bank.csv --out bank --refit --secret secret --epochs 1 --quiet --seed 1"
ASK = "align request bank.csv --id who --name bank --run local --out ask --force"
ANSWER = "align respond shop.csv --id who --name shop --request ask --out answer --force"
FINISH = "align finish bank.csv --id who --state ask.state --response answer --out rows --seal-to shop=shop.pub --force"
HINT = "host hint bank.csv --id who --label y --secret secret --out hints.fedonce --quiet --epsilon"
GUEST = f"--guest shop/{MESSAGE}"


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    """A guest and a host with forty rows, and all that the commands below replace."""
    folder = tmp_path_factory.mktemp("office")
    numbers = np.random.default_rng(0).standard_normal((40, 4)).round(3)
    rows = [f"c{i},{a},{b}" for i, (a, b, *_) in enumerate(numbers)]
    (folder / "shop.csv").write_text("\n".join(["who,a,b", *rows]) + "\n")
    rows = [f"c{i},{c},{d},{'yes' if c + d > 0 else 'no'}" for i, (*_, c, d) in enumerate(numbers)]
    (folder / "bank.csv").write_text("\n".join(["who,c,d,y", *rows]) + "\n")
    for line in (
        "keys secret secret",
        "keys new shop",
        FIT_SHOP,
        f"{FIT_BANK} {GUEST}",
        "guest represent shop.csv --model shop --plain-ids --out new.fedonce --quiet",
        f"host predict bank.csv --model bank {GUEST} --secret secret --out out.csv --quiet",
        f"{HINT} 1",
        ASK,
        ANSWER,
        f"{FINISH} --secret secret",
    ):
        done(folder, line)
    return folder


def run(folder, line, monkeypatch, at=None):
    kill = Kill(at)
    with monkeypatch.context() as patch:
        kill.patch(patch)
        with contextlib.suppress(Killed):
            result = command(folder, line)
            assert at is not None or result.code == 0, result
    return kill.moments


def guest_state(folder):
    """The model and its message, which must be the model's if it is there."""
    model, file = folder / "shop" / storage.MANIFEST, folder / "shop" / MESSAGE
    if file.exists():
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        assert digest == json.loads(model.read_bytes())["leaving"][MESSAGE]["sha256"]
    Guest.load(folder / "shop")  # moves the message to its place
    return model.read_bytes(), file.read_bytes()


def host_state(folder):
    if not storage.exists(folder / "bank"):
        return None
    Host.load(folder / "bank")
    return (folder / "bank" / storage.MANIFEST).read_bytes()


def key_state(folder):
    if not (folder / "tax.key").exists():
        assert not (folder / "tax.pub").exists()
        return "none"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        private = keys.read_private(folder / "tax.key")
        if not (folder / "tax.pub").exists():
            keys.new_keys("tax", folder)
    assert keys.read_public(folder / "tax.pub") == private.public
    return "pair"


def asking_state(folder):
    """A request and the state that opens its answers; a state alone where the request is not yet there."""
    state = (folder / "ask.state").read_bytes()
    if not (folder / "ask").exists():
        return "state" if State.from_bytes(state) else None
    ids = np.array([f"c{i}" for i in range(40)], object)
    answer = respond((folder / "ask").read_bytes(), ids[:3], "shop")
    return len(finish(state, answer, ids).positions)


def rows_state(folder):
    key = keys.read_private(folder / "shop.key")
    rows = (folder / "rows" / "shop.rows").read_bytes()
    AgreedRows.from_bytes(rows)
    sealed = folder / "rows" / "shop.rows.sealed"
    if sealed.exists():
        assert keys.unseal(sealed.read_bytes(), key) == rows
    return "whole"


def content(name):
    return lambda folder: (folder / name).read_bytes() if (folder / name).exists() else None


def secret_state(folder):
    return "secret" if (folder / "other").exists() and keys.read_secret(folder / "other") else "none"


def message_state(folder):
    return Representation.from_bytes((folder / "new.fedonce").read_bytes()).to_bytes()


def answer_state(folder):
    ids = np.array([f"c{i}" for i in range(40)], object)
    return len(finish((folder / "ask.state").read_bytes(), (folder / "answer").read_bytes(), ids).positions)


def hints_state(folder):
    """The hints, which are in the record whenever they are there."""
    found = Hints.from_file(folder / "hints.fedonce").checksum
    assert found in [
        sent.checksum for each in HintRecord(folder / "hints.record").look().published for sent in each.sent
    ]
    return found


COMMANDS = {
    "guest fit --replace": (f"{FIT_SHOP} --replace --seed 1 --dim 1", guest_state, {}),
    "guest represent": (
        "guest represent shop.csv --model shop --secret secret --out new.fedonce --quiet",
        message_state,
        {},
    ),
    "host hint": (f"{HINT} 2", hints_state, {}),
    "host fit": (f"{FIT_BANK} {GUEST}", host_state, {"bank"}),
    "host fit --refit": (REFIT, host_state, {}),
    "host predict": ("host predict bank.csv --model bank --allow-absent --out out.csv --quiet", content("out.csv"), {}),
    "host predict to Parquet": (
        "host predict bank.csv --model bank --allow-absent --out out.parquet --quiet",
        content("out.parquet"),
        {},
    ),
    "keys new": ("keys new tax", key_state, {}),
    "keys secret": ("keys secret other", secret_state, {}),
    "align request": (ASK, asking_state, {}),
    "align respond": (ANSWER, answer_state, {}),
    "align finish": (FINISH, rows_state, {}),
}


HALVES = ("state",)  # what `align request` may leave besides: a state whose request is not there


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_killed_leaves_the_old_or_the_new(office, tmp_path, monkeypatch, name):
    line, state, without = COMMANDS[name]

    def fresh(where):
        shutil.copytree(office, tmp_path / where)
        for each in without:
            shutil.rmtree(tmp_path / where / each)
        return tmp_path / where

    old = state(fresh("before"))
    moments = run(fresh("after"), line, monkeypatch)
    new = state(tmp_path / "after")
    points = np.arange(1, moments + 1)
    if moments > MOST:
        points = np.sort(np.random.default_rng(0).choice(points, MOST, replace=False))
    for at in points:
        folder = fresh(f"killed-{at}")
        run(folder, line, monkeypatch, at)
        assert state(folder) in (old, new, *HALVES)
        shutil.rmtree(folder)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_next_run_clears_what_a_killed_one_left(office, tmp_path, monkeypatch, name):
    line, _, without = COMMANDS[name]
    shutil.copytree(office, tmp_path, dirs_exist_ok=True)
    for each in without:
        shutil.rmtree(tmp_path / each)
    for at in (3, 6, 7, 10):
        run(tmp_path, line, monkeypatch, at)
    left = {path.name for path in tmp_path.rglob(".*")}
    assert left  # else there is nothing to clear
    run(tmp_path, line, monkeypatch)
    assert not list(tmp_path.rglob(".*"))
