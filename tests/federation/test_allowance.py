"""What a host gets out of a guest by asking again and again: attacks on what a policy counts. No process is started here."""

from __future__ import annotations

import json
import shutil
import threading
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from fedonce import Guest, read_table
from fedonce.federation import allowance, tasks
from fedonce.federation.policy import Policy
from fedonce.federation.record import ANSWERS, MESSAGE, Entry, Record, Tally
from fedonce.federation.workplace import Failed, Refused
from fedonce.jobs import guest as guest_job
from fedonce.messages.representation import Representation
from fedonce.rows.alignment import AgreedRows
from fedonce.training.settings import Training
from tests.federation.parties import FREELY
from tests.federation.responders import a_responder, asks, plan_of, rows_of, values_of

MANY = "max_learnings = 1000\nmax_learnings_per_year = 1000\n"


def answered(responder, requests):
    """Return the answers to some requests, and how many were refused."""
    answers, refused = [], 0
    for request in requests:
        try:
            answers.append(responder.answer(request))
        except Refused:
            refused += 1
    return answers, refused


def lines(responder, what=None):
    found = [json.loads(line) for line in (responder.kit / ANSWERS / "record.jsonl").read_text().splitlines()]
    return [line for line in found if what in (None, line["what"])]


# Columns, one at a time.


def test_nine_learnings_of_one_column_each(tmp_path):
    responder = a_responder(tmp_path, columns=9, policy="max_dim = 1\n")
    one_by_one = [asks(dim=1, columns=(f"c{j}",)) for j in range(9)]
    assert answered(responder, one_by_one) == ([], 9)
    with pytest.raises(
        Refused, match="names 1 column, and shop learns from all columns that it offers; leave columns out"
    ):
        responder.answer(one_by_one[0])


def test_a_guest_may_let_the_host_choose_and_still_counts(tmp_path):
    responder = a_responder(tmp_path, columns=9, policy="max_dim = 1\nmin_columns = 1\n")
    answers, refused = answered(responder, [asks(dim=1, columns=(f"c{j}",)) for j in range(9)])
    assert (len(answers), refused) == (1, 8)
    runs = [asks(run=f"run {j}", dim=1, columns=(f"c{j}",)) for j in range(9)]
    (responder.kit / "policy.toml").write_text(FREELY + "max_dim = 1\nmin_columns = 1\nmax_values_per_row = 3\n")
    assert len(answered(responder, runs)[0]) == 2  # three values of a row have left by now


# Noise, to be averaged.


def test_sixty_seeds_are_one_answer(tmp_path):
    responder = a_responder(tmp_path, policy="min_noise = 1\n")
    answers, refused = answered(responder, [asks(noise=1.0, seed=seed) for seed in range(60)])
    assert (len(answers), refused) == (1, 59)


def clean(responder, request):
    """Return what a guest would send without noise, of all rows of its table, in the order of the table."""
    party = Guest.load(responder.kept(request.fingerprint))
    return party.noise.clip(
        party.values(party.preparation.transform(read_table(responder.kit / "shop.csv", id="customer")))
    )


def test_seeds_that_give_the_same_model_give_the_same_noise(tmp_path):
    responder = a_responder(tmp_path, policy=MANY + "min_noise = 1\nmax_values_per_row = 1000\n")
    sent = [values_of(responder.answer(asks(noise=1.0, seed=seed))) for seed in range(6)]
    other_run = values_of(responder.answer(asks(run="other", noise=1.0)))
    for each in (*sent, other_run):  # ids of another run are hashed otherwise, and rows in another order
        np.testing.assert_array_equal(each[np.lexsort(each.T)], sent[0][np.lexsort(sent[0].T)])


def test_predictions_with_other_nonces_and_subsets_cannot_be_averaged(tmp_path):
    responder = a_responder(tmp_path, policy="min_noise = 1\n")
    request = asks(noise=1.0, bits=32)
    responder.answer(request)
    ids = read_table(responder.kit / "shop.csv", id="customer").ids
    sent = {name: [] for name in ids}
    for seed in range(40):
        some = np.sort(np.random.default_rng(seed).choice(len(ids), 60, replace=False))
        rows = rows_of(responder, ids[some])
        path = responder.answer(asks("represent", model=request.fingerprint, nonce=f"{seed:02x}", seed=seed, rows=rows))
        places = AgreedRows.from_bytes(rows).positions(ids)
        for place, values in zip(places, values_of(path), strict=True):
            sent[ids[place]].append(values)
    for each in sent.values():
        np.testing.assert_allclose(each, np.broadcast_to(each[0], np.shape(each)), atol=1e-5)
    averaged = np.array([np.mean(sent[name], axis=0) for name in ids])
    true = clean(responder, request)
    assert np.corrcoef(averaged[:, 0], true[:, 0])[0, 1] ** 2 < 0.5
    assert (averaged - true).std() == pytest.approx(1.0, rel=0.2)


def test_the_training_message_and_a_prediction_have_the_same_noise(tmp_path):
    responder = a_responder(tmp_path, policy="min_noise = 1\n")
    rows = rows_of(responder)
    learnt = responder.answer(asks(noise=1.0, naming="agreed", rows=rows))
    model = asks(noise=1.0, naming="agreed", rows=rows).fingerprint
    again = responder.answer(asks("represent", model=model, rows=rows, nonce="00"))
    np.testing.assert_array_equal(values_of(again), values_of(learnt))


def test_the_key_of_the_noise_is_the_owner_s_alone_and_stays(tmp_path):
    responder = a_responder(tmp_path)
    responder.answer(asks(noise=1.0))
    key = responder.kit / ANSWERS / "noise.key"
    first = key.read_bytes()
    assert (len(first), key.stat().st_mode & 0o777) == (32, 0o600)
    responder.answer(asks(run="second", noise=1.0))
    assert key.read_bytes() == first
    assert first not in (responder.kit / ANSWERS / "record.jsonl").read_bytes()
    key.write_bytes(b"short")
    with pytest.raises(Failed, match="its log says why"):
        responder.answer(asks(run="third", noise=1.0))


# Budgets, side by side.


def side_by_side(responder, requests):
    """Ask all at once; return how many were answered."""
    results = []

    def ask(request):
        try:
            results.append(responder.answer(request))
        except (Refused, Failed) as error:
            results.append(error)

    workers = [threading.Thread(target=ask, args=(request,)) for request in requests]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(timeout=60)
    return [result for result in results if not isinstance(result, Exception)]


@pytest.mark.parametrize("policy", ["", MANY], ids=["default", "many learnings"])
def test_a_budget_asked_for_three_times_side_by_side_is_spent_once(tmp_path, policy):
    responder = a_responder(tmp_path, policy=policy)
    plan = plan_of()
    assert len(side_by_side(responder, [asks(plan=plan, seed=seed) for seed in range(3)])) == 1
    assert len(lines(responder, "intended")) == 1


def test_three_learnings_side_by_side_are_one(tmp_path):
    responder = a_responder(tmp_path)
    assert len(side_by_side(responder, [asks(seed=seed) for seed in range(3)])) == 1


def test_runs_side_by_side_do_not_pass_the_year_s_count(tmp_path, monkeypatch):
    """They learn at the same time, and only as many answers leave as there is room for."""
    responder = a_responder(tmp_path, policy="max_learnings_per_year = 2\n")
    together = threading.Barrier(4)
    learn = tasks.learn
    monkeypatch.setattr(tasks, "learn", lambda *given: (together.wait(timeout=30), learn(*given)))
    monkeypatch.setattr(
        type(responder), "check_allowance", lambda self, request: None
    )  # all of them begin before one has ended
    # Which also begins the record, before anything is learnt: one that begins later takes what is kept for answered.
    responder.record.tally()
    assert len(side_by_side(responder, [asks(run=f"run {j}") for j in range(4)])) == 2
    assert len(lines(responder, "learn")) == 2


def test_what_was_learnt_and_refused_does_not_leave_by_a_prediction(tmp_path, monkeypatch):
    responder = a_responder(tmp_path)
    responder.answer(asks())
    monkeypatch.setattr(type(responder), "check_allowance", lambda self, request: None)
    second = asks(seed=1)
    with pytest.raises(Refused, match="max_learnings"):
        responder.answer(second)
    assert (responder.kept(second.fingerprint) / MESSAGE).exists()
    with pytest.raises(Refused, match="max_learnings"):
        responder.answer(second)
    with pytest.raises(Refused, match="no model of run"):
        responder.answer(asks("represent", model=second.fingerprint, rows=rows_of(responder)))


def test_a_private_learning_that_was_killed_counts_as_spent(tmp_path, monkeypatch):
    responder = a_responder(tmp_path)

    def killed(*given, **more):
        raise KeyboardInterrupt

    request = asks(plan=plan_of())
    with monkeypatch.context() as patch:
        patch.setattr(Guest, "learn", killed)
        with pytest.raises(KeyboardInterrupt):
            responder.answer(request)
    with pytest.raises(
        Refused, match="spent a privacy budget in run 'churn' already, by a learning that did not get to its end"
    ):
        responder.answer(request)
    with pytest.raises(Refused, match="with other settings"):
        responder.answer(replace(request, seed=1))
    responder.answer(replace(request, run="another"))


def test_a_private_learning_that_failed_is_not_spent(tmp_path):
    responder = a_responder(tmp_path)
    (responder.kit / "public.toml").write_text("bounds = [1]\n")
    with pytest.raises(Failed):
        responder.answer(asks(plan=plan_of()))
    (responder.kit / "public.toml").write_text("bounds = [-6, 6]\n")
    responder.answer(asks(plan=plan_of()))


def test_a_private_learning_that_was_stopped_is_not_spent(tmp_path, monkeypatch):
    responder = a_responder(tmp_path)

    def stopped(*given, **more):
        raise Failed("learning was stopped")

    with monkeypatch.context() as patch:
        patch.setattr(Guest, "learn", stopped)
        with pytest.raises(Failed):
            responder.answer(asks(plan=plan_of()))
    assert [line["what"] for line in lines(responder)] == ["begun", "intended", "withdrawn"]
    responder.answer(replace(asks(plan=plan_of()), seed=2))


def test_a_private_message_that_was_deleted_is_not_made_again(tmp_path):
    responder = a_responder(tmp_path)
    request = asks(plan=plan_of())
    responder.answer(request)
    shutil.rmtree(responder.kept(request.fingerprint))
    with pytest.raises(Refused, match="already, and no longer has the message; name another run"):
        responder.answer(request)


# Counts that something could set back.


def test_asked_again_does_not_count(tmp_path):
    responder = a_responder(tmp_path)
    first = responder.answer(asks()).read_bytes()
    for _ in range(3):
        assert responder.answer(asks()).read_bytes() == first
    assert len(lines(responder, "learn")) == 1


def test_a_kept_answer_that_was_deleted_is_made_again_and_counts_once(tmp_path):
    responder = a_responder(tmp_path)
    first = responder.answer(asks()).read_bytes()
    shutil.rmtree(responder.kept(asks().fingerprint))
    with pytest.raises(Refused, match="max_learnings"):
        responder.answer(asks(seed=1))
    assert responder.answer(asks()).read_bytes() == first
    assert len(lines(responder, "learn")) == 1


def test_a_deleted_answer_of_a_table_that_changed_is_another_one(tmp_path):
    responder = a_responder(tmp_path)
    responder.answer(asks())
    shutil.rmtree(responder.kept(asks().fingerprint))
    text = (responder.kit / "shop.csv").read_text()
    (responder.kit / "shop.csv").write_text("\n".join(text.splitlines()[:80]) + "\n")
    with pytest.raises(Refused, match="has learnt once in run 'churn', and allows once in a run"):
        responder.answer(asks())


@pytest.mark.parametrize("run", ["Churn", "churn.", "CHURN_", "\uff43hurn"])
def test_a_run_that_looks_like_another_is_the_same(tmp_path, run):
    responder = a_responder(tmp_path)
    responder.answer(asks(plan=plan_of()))
    with pytest.raises(Refused, match="privacy budget"):
        responder.answer(asks(run=run, plan=plan_of(), seed=1))
    with pytest.raises(Refused, match="max_learnings"):
        responder.answer(asks(run=run))


def test_many_runs_end_with_the_year_or_with_the_values(tmp_path):
    responder = a_responder(tmp_path)
    answers, _ = answered(responder, [asks(run=f"run {j}") for j in range(20)])
    assert len(answers) == 12
    with pytest.raises(
        Refused, match=r"learnt 12 times in 365 days, and allows 12 times over all runs \(max_learnings_per_year"
    ):
        responder.answer(asks(run="one more"))
    (responder.kit / "policy.toml").write_text(FREELY + "max_learnings_per_year = 1000\nmax_values_per_row = 26\n")
    responder.answer(asks(run="one more"))
    with pytest.raises(
        Refused, match=r"with these 2 shop would have sent 28 values per row.*allows 26 \(max_values_per_row\)"
    ):
        responder.answer(asks(run="yet another"))


def test_a_year_later_there_is_room_again(tmp_path):
    entries = [Entry("learn", f"run {j}", str(j), dim=1, time=f"2025-03-{j + 1:02d}T00:00:00+00:00") for j in range(12)]
    request, policy = asks(), Policy()
    assert allowance.within_a_year(entries, datetime(2026, 3, 6, 12, tzinfo=UTC)) == entries[6:]
    now = datetime.now(UTC)
    ahead = replace(entries[0], time=(now + timedelta(days=500)).isoformat())  # of a clock that was wrong
    assert allowance.within_a_year([ahead]) == [ahead]
    recent = [replace(each, time=now.isoformat()) for each in entries]
    assert allowance.refuse_learning(policy, Tally(entries[:6]), request) is None
    assert "max_learnings_per_year" in allowance.refuse_learning(policy, Tally(recent), request)


def test_a_learning_that_fails_does_not_count(tmp_path):
    responder = a_responder(tmp_path)
    (responder.kit / "shop.csv").rename(responder.kit / "away.csv")
    with pytest.raises(Failed):
        responder.answer(asks(seed=1))
    (responder.kit / "away.csv").rename(responder.kit / "shop.csv")
    responder.answer(asks())
    assert len(lines(responder, "learn")) == 1


def test_predictions_of_a_counted_model_add_nothing_and_are_written_down(tmp_path):
    responder = a_responder(tmp_path, policy="max_values_per_row = 2\n")
    responder.answer(asks())
    for nonce in ("00", "01"):
        responder.answer(asks("represent", model=asks().fingerprint, nonce=nonce, rows=rows_of(responder)))
    assert Record(responder.kit / ANSWERS).look().values_per_row == 2
    (first, _) = lines(responder, "represent")
    assert (first["rows"], first["dim"], first["model"], first["host"]) == (120, 2, asks().fingerprint, "bank")


def test_what_is_written_down_of_a_learning(tmp_path):
    responder = a_responder(tmp_path)
    path = responder.answer(asks(plan=plan_of(), bits=4))
    (line,) = lines(responder, "learn")
    assert (
        line.items()
        >= {
            "run": "churn",
            "host": "bank",
            "columns": 4,
            "dim": 2,
            "bits": 4,
            "noise": 0.0,
            "epsilon": 4.0,
            "rows": 120,
            "bytes": path.stat().st_size,
            "record": 1,
        }.items()
    )
    assert (responder.kit / ANSWERS / "record.jsonl").stat().st_mode & 0o777 == 0o600
    assert "c1" not in json.dumps(line["rebuilt"])


def test_an_answer_that_cannot_be_written_down_does_not_leave(tmp_path, monkeypatch):
    responder = a_responder(tmp_path)

    def full(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("fedonce.federation.record.os.fsync", full)
        with pytest.raises(Failed):
            responder.answer(asks())


# Rounds.


def rounds_of(responder, most, nonce="00"):
    order = np.arange(120, dtype=np.int64)
    asked = {"rounds": most, "batch": 40}
    return asks("rounds", model=asks().fingerprint, rows=rows_of(responder), order=order, rounds=asked, nonce=nonce)


def test_rounds_are_counted_over_the_run(tmp_path):
    responder = a_responder(tmp_path, policy="max_rounds = 60\n")
    responder.answer(asks())
    began = responder.open_rounds(rounds_of(responder, 55))
    began.answer({"word": "begin", "training": asdict(Training(epochs=1, batch=40, rate=0.01, steps=55)), "order": "5"})
    began.answer({"word": "forward"})  # fifty are written down, and the host goes away
    with pytest.raises(Refused, match=r"50 rounds in run 'churn', 55 more are wanted, and shop allows 60 in a run"):
        responder.open_rounds(rounds_of(responder, 55, "01"))
    again = responder.open_rounds(rounds_of(responder, 10, "02"))
    again.answer({"word": "begin", "training": asdict(Training(epochs=1, batch=40, rate=0.01, steps=10)), "order": "5"})
    assert Representation.from_bytes(again.answer({"word": "forward"})).n_rows == 40
    again.answer({"word": "close"})
    assert Record(responder.kit / ANSWERS).look().values_per_row == 4  # those of the model before and of the one after
    for _ in range(49):
        began.answer({"word": "forward"})
    with pytest.raises(Refused, match="shop allows 60 in a run"):
        began.answer({"word": "forward"})


def test_an_order_that_names_a_row_twice_is_refused(tmp_path):
    responder = a_responder(tmp_path, policy="max_rounds = 60\n")
    responder.answer(asks())
    with pytest.raises(Refused, match="names one twice"):
        responder.open_rounds(replace(rounds_of(responder, 5), order=np.zeros(120, np.int64)))


# What a plain attack rebuilds.


def test_what_an_attack_rebuilds_is_written_down_and_can_be_refused(tmp_path):
    responder = a_responder(tmp_path, rows=400)
    responder.answer(asks(dim=4))  # as many values as columns: they are the columns
    (line,) = lines(responder, "learn")
    assert line["rebuilt"]["columns"] == 4
    assert line["rebuilt"]["alarming"] == 4
    assert line["rebuilt"]["best"] > 0.95
    (responder.kit / "policy.toml").write_text("max_rebuilt = 0.9\n")
    for request in (asks(dim=4), asks(dim=4, run="other")):  # the one that is kept, too
        with pytest.raises(Refused, match=r"rebuilds a column better than it allows \(max_rebuilt\)") as caught:
            responder.answer(request)
        assert not any(f"c{j}" in str(caught.value) for j in range(4))
    with pytest.raises(Refused, match="max_rebuilt"):
        responder.answer(asks("represent", model=asks(dim=4).fingerprint, rows=rows_of(responder)))
    responder.answer(asks(run="other", dim=1, noise=1.0))  # what was refused did not count
    assert len(lines(responder, "learn")) == 2


def test_a_refusal_by_the_attack_leaves_a_budget_unspent(tmp_path):
    responder = a_responder(tmp_path, rows=400, policy="max_rebuilt = 0.0\n")
    with pytest.raises(Refused, match="max_rebuilt"):
        responder.answer(asks(plan=plan_of(50.0, 400), dim=4))
    (responder.kit / "policy.toml").write_text(FREELY)
    responder.answer(asks(plan=plan_of(4.0, 400)))


def test_a_wide_table_is_attacked_with_fewer_rows(tmp_path, monkeypatch):
    attacked = []
    attack = guest_job.what_leaks
    monkeypatch.setattr(
        guest_job, "what_leaks", lambda *given, **more: attacked.append(len(given[0])) or attack(*given, **more)
    )
    responder = a_responder(tmp_path, rows=400, columns=4)
    responder.answer(asks())
    for values, least, run in ((800, 100, "second"), (800, 300, "third")):
        monkeypatch.setattr(guest_job, "ATTACKED", values)
        monkeypatch.setattr(guest_job, "FEWEST_ATTACKED", least)
        responder.answer(asks(run=run))
    assert attacked == [400, 200, 300]


def test_what_the_owner_is_told(tmp_path):
    responder = a_responder(tmp_path, policy="max_rounds = 60\n")
    responder.answer(asks())
    responder.answer(asks(run="second"))
    found = allowance.as_json(responder.policy(), Record(responder.kit / ANSWERS).look())
    assert (found["learnings"], found["values_per_row"], found["max_values_per_row"]) == (2, 4, 64)
    assert found["runs"] == {"churn": {"learnings": 1, "rounds": 0}, "second": {"learnings": 1, "rounds": 0}}
    assert [each["run"] for each in found["last"]] == ["churn", "second"]


def test_columns_of_which_nothing_can_be_said_are_not_taken_for_safe(tmp_path):
    responder = a_responder(tmp_path, rows=19, columns=3, policy="max_rebuilt = 0.1\n")
    with pytest.raises(Refused, match="too few rows to tell .*max_rebuilt"):
        responder.answer(asks(dim=3, bits=32))
