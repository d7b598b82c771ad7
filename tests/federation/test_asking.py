"""What the host compares in a guest's message with what it asked for; no process is started for that."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from fedonce import Guest, Host, MessageError
from fedonce.data.preparation import Public
from fedonce.data.table import Table
from fedonce.federation.asking import Asking
from fedonce.federation.runfile import RunFile
from fedonce.messages import envelope
from fedonce.privacy.budget import Plan, Purse, Task, calibrate
from fedonce.privacy.noise import SecretRandom
from fedonce.rows.ids import Naming

N = 40
IDS = np.array([f"c{i}" for i in range(N)], dtype=object)
RUN = 'run = "june"\ntable = "bank.csv"\nid = "id"\nlabel = "y"\nguests = ["shop"]\ndim = 2\nunkeyed_ids = true\n'


def table(columns=4):
    rows = np.random.default_rng(0).uniform(-1, 1, (N, columns))
    return replace(Table.of(rows), ids=IDS)


@pytest.fixture
def asking(tmp_path):
    (tmp_path / "run.toml").write_text(RUN)
    return Asking(RunFile.read(tmp_path / "run.toml"), Host("bank", run="june"))


def message(dim, **given):
    return Guest("shop", "pca", dim, run="june", naming=Naming("hashed"), **given).learn(table())


@pytest.mark.parametrize("dim", [1, 2])
def test_a_guest_may_send_as_many_values_per_row_as_asked_for_or_fewer(asking, dim):
    assert asking.read("shop", message(dim).to_bytes(), table()).dim == dim


@pytest.mark.parametrize("d", [3, 16_384, 2**17, 2**20])
def test_a_guest_sends_no_more_values_per_row_than_asked_for(asking, d):
    header, tensors = message(2)._content()
    scale = {name: np.zeros(d if d <= 64 else 1, np.float32) for name in ("low", "high")}
    some = {"values": np.zeros((1, d), np.uint8), "ids": tensors["ids"][:1], **scale}
    data = envelope.pack("message", header | {"n": "1", "d": str(d)}, some)
    tracemalloc.start()
    with pytest.raises(MessageError, match=rf"'shop' is refused: it has {d} values per row, and the limit is 2"):
        asking.read("shop", data, table())
    assert tracemalloc.get_traced_memory()[1] < 2**18
    tracemalloc.stop()


def test_a_message_takes_no_more_memory_than_the_host_allows(asking):
    data = message(2).to_bytes()
    most = type(message(2).codec).most_memory(N, 2) + N
    asking = replace(asking, file=replace(asking.file, max_memory=most))
    asking.read("shop", data, table())
    asking = replace(asking, file=replace(asking.file, max_memory=most - 1))
    with pytest.raises(MessageError, match=r"'shop' is refused: its 40 rows of 2 values .*limit is .* \(max_memory\)"):
        asking.read("shop", data, table())


def test_with_a_plan_a_guest_that_spent_otherwise_is_refused_before_training(asking):
    tasks = [
        Task("bank", "train", 0.5),
        *(Task("shop", f"PCA: {what}", 0.1) for what in ("mean", "radius", "second moments")),
    ]
    plan = calibrate(tasks, 2.0, 1e-5, "rdp")

    def purse(name):
        return Purse(name, plan.of(name), plan.ledger(), SecretRandom(0))

    asking = replace(asking, party=Host("bank", run="june", purse=purse("bank"), plan=plan, labels=[0, 1]))
    sent = message(2, purse=purse("shop"), public=Public((-1, 1)))
    asking.read("shop", sent.to_bytes(), table())
    other = Plan.from_text(calibrate(tasks, 4.0, 1e-5, "rdp").to_text())
    asking = replace(asking, party=Host.from_settings(replace(asking.party.settings, plan=other)))
    with pytest.raises(MessageError, match="'shop' is refused: it spent on 'PCA: mean'"):
        asking.read("shop", sent.to_bytes(), table())
    with pytest.raises(MessageError, match="without a privacy budget"):
        asking.read("shop", message(2).to_bytes(), table())
