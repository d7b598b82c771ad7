"""Who answers for a guest: what it answers, what it refuses, what the host gets to know. No process is started here."""

from __future__ import annotations

import fcntl
import shutil
import threading
import time
from dataclasses import asdict, replace

import numpy as np
import pytest

import fedonce
from fedonce import read_table
from fedonce.errors import FedOnceWarning
from fedonce.federation.answer import Responder
from fedonce.federation.policy import DEFAULT_POLICY
from fedonce.federation.record import ASKED, MESSAGE
from fedonce.federation.request import Request
from fedonce.federation.tables import GuestTables
from fedonce.federation.workplace import Failed, Refused
from fedonce.learners import make
from fedonce.messages.envelope import pack
from fedonce.messages.representation import Representation
from fedonce.privacy.budget import calibrate
from fedonce.rows import alignment
from fedonce.rows.alignment import AgreedRows
from fedonce.system.disk import write_file
from fedonce.training.checkpoints import Progress
from fedonce.training.settings import Training
from tests.federation.parties import FREELY, write_csv
from tests.federation.responders import KEYED, SECRET

N = 60
HEADER = {"party": "bank", "guest": "shop", "run": "churn", "what": "learn"}


@pytest.fixture
def told():
    return []


@pytest.fixture
def responder(tmp_path, rng, told):
    write_csv(tmp_path / "shop.csv", rng.standard_normal((N, 4)), range(N), 4)
    write_file(tmp_path / "secret", SECRET.hex().encode(), private=True)
    GuestTables(tmp_path / "shop.csv", "customer", secret=tmp_path / "secret").to_file(tmp_path / "guest.toml")
    (tmp_path / "policy.toml").write_text(DEFAULT_POLICY.replace("max_rebuilt = 0.9\n", FREELY))
    return Responder(tmp_path, "shop", lambda *news: told.append(news))


def asks(what="learn", **settings):
    given = {"learner": "pca", "dim": 2, "naming": KEYED} | settings
    return Request("bank", "shop", "churn", what, fedonce.__version__, **given)


def rows_of(responder, ids=None, run="churn"):
    own = read_table(responder.kit / "shop.csv", id="customer").ids if ids is None else ids
    return alignment.agreed_rows(np.array(own, dtype=object), "bank", "shop", run)


def learnt(responder, **settings):
    request = asks(**settings)
    responder.answer(request)
    return request.fingerprint


def test_learns_and_keeps_the_message(responder, told):
    path = responder.answer(asks())
    message = Representation.from_bytes(path.read_bytes(), "shop")
    assert (message.n_rows, message.dim, message.run) == (N, 2, "churn")
    assert path == responder.kept(asks().fingerprint) / MESSAGE
    assert ("reading",) in told


def test_asked_again_it_answers_without_its_table(responder):
    first = responder.answer(asks()).read_bytes()
    (responder.kit / "shop.csv").unlink()
    assert responder.answer(asks()).read_bytes() == first


def test_a_typo_in_its_table_is_told_to_the_guest_alone(responder, told):
    """The warning quotes a cell: it is for the guest's own log, and nothing that goes to the host has it."""
    lines = (responder.kit / "shop.csv").read_text().splitlines()
    lines[5] = lines[5].rpartition(",")[0] + ",1.2SECRET"
    (responder.kit / "shop.csv").write_text("\n".join(lines) + "\n")
    with pytest.warns(FedOnceWarning, match="59 of 60 values are numbers; row 5 is '1.2SECRET'"):
        path = responder.answer(asks())
    assert b"SECRET" not in path.read_bytes()
    assert "SECRET" not in str(told)


def test_tells_epochs(responder, told):
    responder.answer(asks(learner="nat", epochs=3))
    assert [news for news in told if news[0] == "learning"] == [
        ("learning",),
        ("learning", 1, 3),
        ("learning", 2, 3),
        ("learning", 3, 3),
    ]


def test_stopped_learning_goes_on_from_its_last_epoch(responder, told, monkeypatch):
    monkeypatch.setattr("fedonce.federation.tasks.Progress", lambda *given, **more: Progress(*given, every=0, **more))
    whole = asks(learner="nat", epochs=6)
    stopped = replace(responder, stopped=lambda: len(told) > 4)
    with pytest.raises(Failed, match="goes on from its last epoch"):
        stopped.answer(whole)
    before = len(told)
    resumed = responder.answer(whole).read_bytes()
    again = [news[1] for news in told[before:] if len(news) == 3]
    assert again
    assert again[0] > 1  # not from the start
    shutil.rmtree(responder.kept(whole.fingerprint))
    assert responder.answer(whole).read_bytes() == resumed  # as if it had never been stopped


def test_another_version_is_refused(responder):
    with pytest.raises(Refused, match=r"shop has fedonce .*, bank has 9.9; install the same"):
        responder.read(replace(asks(), version="9.9").to_bytes())


def test_a_request_for_somebody_else_is_refused(responder):
    with pytest.raises(Refused, match="of 'bank' for 'telco'; this is 'shop'"):
        responder.read(replace(asks(), guest="telco").to_bytes())


def test_another_host_than_the_kit_names_is_refused(responder):
    (responder.kit / "kit.toml").write_text('host = "bank"\n')
    assert responder.read(asks().to_bytes()) == asks()
    with pytest.raises(Refused, match="whose host is 'bank'"):
        responder.read(replace(asks(), host="insurer").to_bytes())


def test_a_request_of_another_version_need_not_be_readable(responder):
    odd = pack("request", {**HEADER, "version": "9.9"}, {"settings": np.frombuffer(b"{}", np.uint8)})
    with pytest.raises(Refused, match=r"bank has 9\.9"):
        responder.read(odd)


def test_damaged_requests_are_refused(responder):
    data = asks().to_bytes()
    with pytest.raises(Refused):
        responder.read(data[:-1] + bytes([data[-1] ^ 1]))


def refusals(responder):
    """Ways to fail, each with what the guest's own log may say and the host may not."""
    table, policy = responder.kit / "shop.csv", responder.kit / "policy.toml"
    return {
        "policy": (lambda: policy.write_text("max_dim = 1\n"), asks(), Refused, "max_dim"),
        "gone": (table.unlink, asks(), Failed, "is not there"),
        "no ids": (lambda: table.write_text("other,c4\n1,2\n"), asks(), Failed, "cannot read its table"),
        "broken": (lambda: table.write_bytes(b"\xff\xfe,"), asks(), Failed, "cannot read its table"),
        "broken policy": (lambda: policy.write_text("nonsense = 1\n"), asks(), Failed, "its log says why"),
        "no tables": ((responder.kit / "guest.toml").unlink, asks(), Failed, "its log says why"),
        "column": (lambda: None, asks(columns=("c4", "salary")), Refused, "salary"),
        "no model": (lambda: None, asks("represent", model="0" * 32, rows=rows_of(responder)), Refused, "train again"),
        "no rows": (lambda: None, asks("align"), Refused, "holds no ids"),
        "not rows": (lambda: None, asks("align", points=b"x"), Failed, "its log says why"),
    }


@pytest.mark.parametrize(
    "case",
    ["policy", "gone", "no ids", "broken", "broken policy", "no tables", "column", "no model", "no rows", "not rows"],
)
def test_what_the_host_is_told_has_no_path_and_no_value(responder, case):
    spoil, request, kind, words = refusals(responder)[case]
    spoil()
    with pytest.raises(kind, match=words) as caught:
        responder.answer(request)
    said = str(caught.value)
    assert str(responder.kit) not in said
    assert "shop.csv" not in said
    assert "customer" not in said
    assert "Traceback" not in said
    assert "c5" not in said  # a column that the host did not name


def test_represents_the_rows_that_it_has(responder):
    model = learnt(responder)
    rows = rows_of(responder, ["k000003", "k000007", "k999999"])
    message = Representation.from_bytes(responder.answer(asks("represent", model=model, rows=rows)).read_bytes())
    assert message.n_rows == 3
    assert int(message.present.sum()) == 2
    agreed = AgreedRows.from_bytes(rows)
    places = agreed.positions(np.array(["k000003", "k000007"], dtype=object))
    assert (places[message.present] >= 0).all()


def test_none_of_the_rows_is_a_refusal(responder):
    model = learnt(responder)
    with pytest.raises(Refused, match="none of the 1 rows"):
        responder.answer(asks("represent", model=model, rows=rows_of(responder, ["k999999"])))


def test_a_table_that_changed_is_told_without_names(responder):
    model, rows = learnt(responder), rows_of(responder)
    (responder.kit / "shop.csv").write_text("customer,c4,c5,c6\nk000001,1,2,3\n")
    with pytest.raises(Failed, match="the table of shop has changed") as caught:
        responder.answer(asks("represent", model=model, rows=rows))
    assert "c7" not in str(caught.value)
    assert "c7" in str(caught.value.__cause__)  # the guest's own log has it


def test_a_model_of_another_run_is_refused(responder):
    model = learnt(responder)
    request = replace(asks("represent", model=model, rows=rows_of(responder, run="other")), run="other")
    with pytest.raises(Refused, match="belongs to another run"):
        responder.answer(request)


def test_a_policy_made_stricter_holds_for_models_learnt_before(responder):
    model, rows = learnt(responder), rows_of(responder)
    (responder.kit / "policy.toml").write_text(FREELY + 'forbid_columns = ["c5"]\n')
    with pytest.raises(Refused, match="no longer allows") as caught:
        responder.answer(asks("represent", model=model, rows=rows))
    assert "c5" not in str(caught.value)
    with pytest.raises(Refused, match="no longer allows") as caught:  # and for the message that is kept
        responder.answer(asks())
    assert "c5" not in str(caught.value)
    (responder.kit / "policy.toml").write_text(FREELY + "max_dim = 1\n")
    with pytest.raises(Refused, match="max_dim"):
        responder.answer(asks())


def test_a_least_number_of_columns_holds_for_models_learnt_before(responder):
    (responder.kit / "policy.toml").write_text(FREELY + "min_columns = 2\n")
    request = asks(columns=("c4", "c5"))
    responder.answer(request)
    (responder.kit / "policy.toml").write_text(FREELY + "min_columns = 3\n")
    for again in (request, asks("represent", model=request.fingerprint, rows=rows_of(responder))):
        with pytest.raises(Refused, match="no longer allows"):
            responder.answer(again)


def test_columns_of_the_policy_alone_are_used(responder):
    (responder.kit / "policy.toml").write_text(FREELY + 'forbid_columns = ["c5", "c7"]\n')
    model = learnt(responder)
    assert fedonce.Guest.load(responder.kept(model)).reading.columns == ("c4", "c6")


def test_alignment(responder):
    ids = np.array([f"k{i:06d}" for i in range(50, 70)], dtype=object)
    points, state = alignment.request(ids, "bank", "churn")
    request = asks("align", points=points)
    response = responder.answer(request).read_bytes()
    assert responder.answer(request).read_bytes() == response  # the same points again, not new ones
    assert len(alignment.finish(state, response, ids).positions) == 10


@pytest.mark.parametrize("other", [{}, {"seed": 1}])
def test_two_processes_do_not_learn_for_the_same_run(responder, told, other):
    (responder.kit / "policy.toml").write_text(FREELY + "max_learnings = 2\n")
    message = responder.answer(asks(**other))
    (lock,) = (responder.kit / "answers").glob("run-*.lock")
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Failed, match="still at work"):
            replace(responder, stopped=lambda: True).answer(asks())
        assert ("waiting",) in told
        worker = threading.Thread(target=responder.answer, args=(asks(),))
        message.unlink()
        worker.start()
        time.sleep(0.2)
        assert not (responder.kept(asks().fingerprint) / MESSAGE).exists()
        fcntl.flock(held, fcntl.LOCK_UN)
        worker.join(timeout=30)
    assert (responder.kept(asks().fingerprint) / MESSAGE).exists()


def open_rounds(responder, most=3):
    (responder.kit / "policy.toml").write_text(FREELY + "max_rounds = 10\n")
    model, rows = learnt(responder), rows_of(responder)
    order = np.argsort(AgreedRows.from_bytes(rows).positions(read_table(responder.kit / "shop.csv", id="customer").ids))
    return responder.open_rounds(
        asks("rounds", model=model, rows=rows, order=order.astype(np.int64), rounds={"rounds": most, "batch": 20})
    )


def training():
    return asdict(Training(epochs=1, batch=20, rate=0.01, steps=3))


def test_rounds_end_where_the_guest_agreed_to(responder):
    rounds = open_rounds(responder)
    with pytest.raises(Refused, match="comes too early"):
        rounds.answer({"word": "forward"})
    assert Representation.from_bytes(rounds.answer({"word": "open"})).n_rows == 0
    with pytest.raises(Refused, match="how to train cannot be read"):
        rounds.answer({"word": "begin", "training": {"epochs": 1, "nonsense": 2}, "order": "5"})
    rounds.answer({"word": "begin", "training": training(), "order": "5"})
    for _ in range(3):
        assert Representation.from_bytes(rounds.answer({"word": "forward"})).n_rows == 20
    with pytest.raises(Refused, match="agreed to 3 rounds"):
        rounds.answer({"word": "forward"})
    with pytest.raises(Refused, match="no word of the rounds"):
        rounds.answer({"word": "dance"})
    with pytest.raises(Refused):
        rounds.answer({"word": "forward", "gradient": b"not a message"})
    rounds.answer({"word": "close"})
    kept = responder.kept(rounds.request.fingerprint)
    assert (kept / ASKED).exists()
    assert fedonce.Guest.load(kept).fine_tuning is not None


def plan_of(epsilon=4.0):
    task = make("pca", None, "test").private_tasks(N, 1.0, False)
    return calibrate([replace(each, party="shop") for each in task], epsilon, 1e-3).to_text()


def test_a_budget_is_spent_once_in_a_run(responder):
    (responder.kit / "public.toml").write_text("bounds = [-6, 6]\n")
    replace(responder.tables(), public=responder.kit / "public.toml").to_file(responder.kit / "guest.toml")
    first = asks(plan=plan_of())
    message = responder.answer(first).read_bytes()
    assert responder.answer(first).read_bytes() == message  # the same noise, not new one
    for other in (replace(first, seed=1), replace(first, dim=1), replace(first, nonce="00")):
        with pytest.raises(Refused, match="already|no nonce"):
            responder.answer(other)
    responder.answer(replace(first, run="another"))  # which the policy can forbid (runs)
    (responder.kit / "policy.toml").write_text(FREELY + "max_rounds = 10\n")
    rounds = asks("rounds", model=first.fingerprint, rows=rows_of(responder), order=np.arange(N), rounds={"rounds": 3})
    with pytest.raises(Refused, match="privacy budget takes part in no rounds"):
        responder.open_rounds(rounds)


def test_rounds_set_nothing_else(responder):
    (responder.kit / "policy.toml").write_text(FREELY + "max_rounds = 10\n")
    model = learnt(responder)
    request = asks(
        "rounds", model=model, rows=rows_of(responder), order=np.arange(N), rounds={"rounds": 3, "nonsense": 1}
    )
    with pytest.raises(Refused, match="nothing else"):
        responder.open_rounds(request)
    started = responder.open_rounds(replace(request, rounds={"rounds": 3, "start": "random"}))
    assert not started.party.fine_tuning.alone  # from what was learnt, whatever the host says


def test_rounds_are_refused_by_default(responder):
    model = learnt(responder)
    with pytest.raises(Refused, match="max_rounds"):
        responder.open_rounds(
            asks("rounds", model=model, rows=rows_of(responder), order=np.arange(N), rounds={"rounds": 3})
        )


def test_an_order_beyond_the_rows_is_refused(responder):
    (responder.kit / "policy.toml").write_text(FREELY + "max_rounds = 10\n")
    model = learnt(responder)
    for order in (np.array([N]), np.array([-2]), None):
        with pytest.raises(Refused, match="no order of its rows"):
            responder.open_rounds(
                asks("rounds", model=model, rows=rows_of(responder), order=order, rounds={"rounds": 3})
            )
