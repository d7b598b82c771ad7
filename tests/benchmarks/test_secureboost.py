"""XGBoost's federated trees are those of all columns in one place; bytes by the formula; failures end every process."""

from __future__ import annotations

import os
import socket
import threading
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

from benchmarks.config import Config
from benchmarks.data import digits_8x8
from benchmarks.methods import secureboost, wire
from benchmarks.methods.secureboost import Rows
from benchmarks.problem import Problem
from fedonce import InputError
from fedonce.datasets import Dataset
from fedonce.errors import FedOnceError

xgboost = pytest.importorskip("xgboost")
federated = pytest.mark.skipif(
    not xgboost.build_info().get("USE_FEDERATED"), reason="this XGBoost has no federated learning"
)
N_COLUMNS = 7
PARTIES = {
    "first": [4, 0],
    "second": [1, 6, 2],
    "third": [5, 3],
}  # the labels are the second's: ranks are not positions
HOST = "second"


def make_problem(task="binary", n=400, parties=PARTIES, host=HOST):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, N_COLUMNS)).astype(np.float32)
    X[:, 3] = X[:, 3] > 0
    X[rng.random(X.shape) < 0.05] = np.nan
    total = np.nan_to_num(X) @ np.arange(1, N_COLUMNS + 1) + 3 * np.nan_to_num(X[:, 0] * X[:, 1])
    classes = np.digitize(total, np.quantile(total, [0.5] if task == "binary" else [0.3, 0.7]))
    y = total if task == "numbers" else np.array(["low", "middle", "high"])[classes]
    kind = "regression" if task == "numbers" else "classification"
    data = Dataset("made-up", X, y, tuple(f"c{j}" for j in range(N_COLUMNS)), kind, parties, True, "", "")
    return Problem(data, parties, host, *data.split(0))


def by_hand(problem, trees, depth):
    """Return the test predictions of plain XGBoost on the table with the host's columns first."""
    order = [*PARTIES[HOST], *PARTIES["first"], *PARTIES["third"]]
    classes, codes = np.unique(problem.y, return_inverse=True)
    if not problem.classes:
        more = {"objective": "reg:squarederror", "base_score": float(np.mean(problem.y))}
    elif len(classes) == 2:
        more = {"objective": "binary:logistic", "base_score": 0.5}
    else:
        more = {"objective": "multi:softprob", "base_score": 0.5, "num_class": len(classes)}
    options = {
        "learning_rate": 0.1,
        "max_depth": depth,
        "reg_alpha": 10,
        "tree_method": "hist",
        "max_bin": 256,
        "nthread": 1,
    }
    rows = xgboost.DMatrix(problem.X[:, order], codes if problem.classes else problem.y)
    return xgboost.train(options | more, rows, trees).predict(xgboost.DMatrix(problem.X_test[:, order]))


@federated
@pytest.mark.parametrize("task", ["binary", "classes", "numbers"])
def test_federated_trees_are_those_of_all_columns_in_one_place(task, monkeypatch):
    problem, config = make_problem(task, n=1000), Config(trees=4, depth=3)
    seen = []
    monkeypatch.setattr(wire, "federate", lambda *given, call=wire.federate: seen.append(call(*given)) or seen[-1])
    result = secureboost.run(problem, config, 0)
    np.testing.assert_allclose(seen[0].predicted, by_hand(problem, 4, 3), rtol=0, atol=1e-6)
    monkeypatch.setattr(secureboost, "MOST_PARTIES", 2)
    central = secureboost.run(problem, config, 0)
    assert central.value == result.value
    assert (central.messages, central.payload, central.bytes) == (result.messages, result.payload, result.bytes)
    assert central.wire is None
    assert "3 parties" in central.note
    assert result.value > 50 if problem.classes else result.value < np.std(problem.y_test)
    # The host's gradients go to the server and on to two guests at least.
    assert result.wire > 4 * len(problem.y) * 2 * 4
    assert result.seconds > 0
    assert result.cpu > 0


def test_bytes_and_messages_are_the_formula_s():
    problem, depth = make_problem("numbers"), 3
    rows = Rows.of(problem)
    booster = secureboost.train(rows, rows.parameters(Config(depth=depth), 0), 3)
    found = secureboost.traffic(booster, rows, depth)
    n, guests = len(problem.y), 2
    bins = sum(min(256, len(np.unique(problem.X[~np.isnan(problem.X[:, j]), j]))) for j in (4, 0, 5, 3))
    for (messages, payload), tree in zip(found, booster.get_dump(with_stats=True), strict=True):
        lines = tree.strip().split("\n")
        depths = [len(line) - len(line.lstrip("\t")) for line in lines]
        nodes = sum(at < depth for at in depths)
        # For squared errors, an XGBoost node's cover is its number of rows. The host has columns 0 to 2.
        splits = [line for line in lines if "[f" in line]
        won = [line for line in splits if int(line.split("[f")[1].split("<")[0]) > 2]
        masks = sum(-(-int(line.split("cover=")[1]) // 8) for line in won)
        assert 0 < len(won) < len(splits)
        assert messages == guests + nodes * guests + len(won)
        assert payload == guests * n * 8 + nodes * bins * 8 + masks


def test_with_several_classes_each_has_its_tree_and_its_gradients():
    problem = make_problem("classes")
    rows = Rows.of(problem)
    found = secureboost.traffic(secureboost.train(rows, rows.parameters(Config(depth=1), 0), 2), rows, depth=1)
    assert len(found) == 2
    for messages, payload in found:
        assert 3 * (2 + 2) <= messages <= 3 * (2 + 2 + 1)
        assert payload >= 3 * (2 * len(problem.y) * 8 + rows.guest_bins * 8)


def test_comm_takes_the_first_trees_that_the_budget_pays_for():
    problem = make_problem("numbers", n=2000)
    rows = Rows.of(problem)
    budget = len(problem.y) * 32 * 4 * 2
    result = secureboost.run_comm(problem, Config(trees=50, depth=2, dim=32), 0)
    trees = result.detail["trees"]
    longer = secureboost.train(rows, rows.parameters(Config(depth=2), 0), trees + 1)
    spent = np.cumsum([payload for _, payload in secureboost.traffic(longer, rows, 2)])
    assert 1 < trees < 50
    assert spent[-2] == result.payload == result.bytes <= budget < spent[-1]
    assert result.wire is None
    assert result.value == pytest.approx(problem.score(secureboost.predict(longer[:trees], rows)))
    everything = secureboost.run_comm(problem, Config(trees=2, depth=2, dim=32), 0)
    assert everything.detail["trees"] == 2


def test_comm_says_when_not_even_one_tree_fits():
    problem = make_problem("classes")
    result = secureboost.run_comm(problem, Config(depth=2, dim=1), 0)
    needed = secureboost.traffic(
        secureboost.train(rows := Rows.of(problem), rows.parameters(Config(depth=2), 0), 1), rows, 2
    )[0][1]
    budget = len(problem.y) * 4 * 2
    assert result.value is None
    assert result.note == f"not even one tree for each class fits into {budget:,} bytes: the first needs {needed:,}"
    assert result.payload == result.messages == 0


def test_a_host_without_guests_sends_nothing():
    problem = make_problem(parties={HOST: list(range(N_COLUMNS))})
    for run in (secureboost.run, secureboost.run_comm):
        result = run(problem, Config(trees=2, depth=2), 0)
        assert result.value > 50
        assert result.payload == result.messages == 0


def test_images_are_left_out():
    data = digits_8x8()
    problem = Problem(data, data.parties, "party1", *data.split(0))
    for run in (secureboost.run, secureboost.run_comm):
        result = run(problem, Config(), 0)
        assert result.value is None
        assert result.note == "not applied to images, as in the paper"


def test_categories_are_numbered_by_the_training_rows():
    train = pa.table({"film": ["b", "a", None, "b"], "year": [1.0, None, 3.0, 4.0]})
    test = pa.table({"film": ["c", "b", None], "year": [7.0, 8.0, None]})
    rows, later = secureboost.encode(train, test)
    assert rows.dtype == later.dtype == np.float32
    np.testing.assert_array_equal(rows, [[1, 1], [0, np.nan], [np.nan, 3], [1, 4]])
    np.testing.assert_array_equal(later, [[np.nan, 7], [1, 8], [np.nan, np.nan]])


def test_zeros_of_sparse_tables_are_numbers():
    rows, _ = secureboost.encode(sparse.eye_array(3), sparse.eye_array(3))
    np.testing.assert_array_equal(rows, np.eye(3))


@pytest.mark.parametrize("run", [secureboost.run, secureboost.run_comm])
def test_bad_input_is_an_error(run):
    problem = make_problem()
    numbers = make_problem("numbers")
    with pytest.raises(InputError, match="without NaN"):
        run(replace(numbers, y=np.full(len(numbers.y), np.nan)), Config(), 0)
    with pytest.raises(InputError, match="two classes at least"):
        run(replace(problem, y=np.zeros(len(problem.y))), Config(), 0)


@pytest.fixture
def started(monkeypatch):
    """Processes that a federation starts."""
    found = []
    start = wire.subprocess.Popen
    monkeypatch.setattr(
        wire.subprocess, "Popen", lambda *given, **more: found.append(start(*given, **more)) or found[-1]
    )
    return found


@federated
def test_a_party_that_fails_is_named_and_everyone_ends(started):
    problem = make_problem()
    problem.X[0, PARTIES["third"]] = np.inf
    with pytest.raises(FedOnceError, match=r"(?s)party 2 ended with code 1 before every .*It said: .*contains `inf`"):
        secureboost.run(problem, Config(trees=2), 0)
    assert len(started) == 4
    assert all(process.returncode is not None for process in started)


@federated
def test_a_federation_that_takes_too_long_is_ended(started):
    rows = Rows.of(make_problem("numbers"))
    with pytest.raises(wire.FederationError, match=r"2 seconds have passed before .*; ended .*the server"):
        wire.federate(rows.train, rows.test, rows.label, rows.parameters(Config(depth=6), 0), 100_000, deadline=2)
    assert all(process.returncode is not None for process in started)


def test_the_forwarder_counts_both_directions():
    def answer(listener):
        with listener, listener.accept()[0] as connection:
            while data := connection.recv(1 << 16):
                connection.sendall(data * 2)

    listener = socket.create_server(("127.0.0.1", 0))
    echo = threading.Thread(target=answer, args=(listener,))
    echo.start()
    sent = os.urandom(300_000)
    with wire.Forwarder(listener.getsockname()[1]) as forwarder:
        with socket.create_connection(("127.0.0.1", forwarder.port)) as caller:
            threading.Thread(target=caller.sendall, args=(sent,), daemon=True).start()
            received = b""
            while len(received) < 600_000:
                received += caller.recv(1 << 16)
        assert forwarder.bytes == 900_000
    echo.join(timeout=5)
    assert not echo.is_alive()
