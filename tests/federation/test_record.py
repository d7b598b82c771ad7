"""The record of what a guest answered: whole lines, torn ones, and one that is lost."""

from __future__ import annotations

import json
import shutil
import threading

import pytest

from fedonce.errors import InputError
from fedonce.federation.policy import Policy
from fedonce.federation.record import ANSWERS, ASKED, MESSAGE, Entry, Record, Tally, entry_of, line_of, same_run
from fedonce.federation.workplace import Failed, Refused
from tests.federation.responders import a_responder, asks, plan_of


@pytest.fixture
def record(tmp_path):
    return Record(tmp_path / ANSWERS)


def learn(number=0, run="churn", **more):
    return Entry("learn", run, f"{number:032x}", **{"dim": 2, "sha256": str(number)} | more)


def test_lines_are_read_as_they_were_written(record):
    entry = learn(noise=0.5, epsilon=float("inf"), rebuilt={"best": 0.3}, host="bank", time="2026-01-02T03:04:05+00:00")
    assert record.enter(entry) is None
    (begun, found) = record.look().entries
    assert (begun.what, found) == ("begun", entry)
    assert entry_of(line_of(Entry("align"))).time  # dated now
    assert json.loads(record.path.read_text().splitlines()[1])["record"] == 1


def test_what_a_later_version_adds_is_passed_over(record):
    record.enter(learn())
    with record.path.open("a") as file:
        file.write(
            json.dumps({"record": 2, "what": "learn", "time": "2027-01-01T00:00:00+00:00", "dim": 3, "new": [1]}) + "\n"
        )
    assert record.tally().values_per_row == 5


def test_the_same_answer_is_written_once(record):
    for _ in range(3):
        record.enter(learn())
    record.enter(learn(sha256="other"))
    assert len(record.tally().learnings()) == 2


def test_a_reason_keeps_a_line_out(record):
    assert record.enter(learn(), lambda tally: "no room") == "no room"
    assert record.tally().learnings() == []
    assert record.enter(learn(), lambda tally: None) is None
    assert record.enter(learn(), lambda tally: "no room") is None  # it is there: nothing new


@pytest.mark.parametrize("rest", [b"", b'{"record": 1, "wh', b"\0" * 40, b"{}", b"[" * 9999])
def test_a_last_line_that_is_not_whole_is_cut_off(record, rest):
    record.enter(learn())
    whole = record.path.read_bytes()
    record.path.write_bytes(whole + rest)
    assert len(record.look().learnings()) == 1
    assert record.path.read_bytes() == whole + rest  # to look changes nothing
    record.enter(learn(1))
    assert record.path.read_bytes().startswith(whole)
    assert len(record.tally().learnings()) == 2
    assert len(record.path.read_bytes().splitlines()) == 3


@pytest.mark.parametrize("damage", [b"\0" * 40 + b"\n", b"{}\n", b'"x"\n'])
def test_a_whole_last_line_that_is_damaged_is_an_error(record, damage):
    """Its answer may have left: to pass it over would forget what it counted."""
    record.enter(learn())
    with record.path.open("ab") as file:
        file.write(damage)
    with pytest.raises(InputError, match="line 3 cannot be read.*backup"):
        record.enter(learn(1))


def test_a_line_that_lacks_its_end_alone_counts(record):
    """Somebody may have mended the file with an editor that writes no last line break."""
    record.enter(learn())
    record.path.write_bytes(record.path.read_bytes() + line_of(learn(1)).rstrip(b"\n"))
    assert len(record.tally().learnings()) == 2
    record.enter(learn(2))
    assert len(record.tally().learnings()) == 3


@pytest.mark.parametrize("wrong", [b'"run": 5', b'"run": "r", "fingerprint": [1]', b'"run": "r", "dim": -100'])
def test_a_line_with_a_wrong_type_is_an_error(record, wrong):
    record.enter(learn())
    with record.path.open("ab") as file:
        file.write(b'{"record": 1, "what": "learn", "time": "2026-01-01T00:00:00+00:00", ' + wrong + b"}\n")
    with pytest.raises(InputError, match="line 3 cannot be read"):
        record.look()


def test_a_line_in_the_middle_that_cannot_be_read_is_an_error(record):
    record.enter(learn())
    lines = record.path.read_bytes().splitlines(keepends=True)
    record.path.write_bytes(lines[0] + b"nonsense\n" + lines[1])
    with pytest.raises(InputError, match=r"record.jsonl: line 2 cannot be read .* put the file back from a backup"):
        record.tally()


def test_a_torn_line_neither_locks_the_guest_out_nor_sets_its_count_back(tmp_path):
    responder = a_responder(tmp_path)
    responder.answer(asks())
    with responder.record.path.open("ab") as file:
        file.write(b'{"record": 1, "what": "lea')
    with pytest.raises(Refused, match="max_learnings"):
        responder.answer(asks(seed=1))
    responder.answer(asks())
    responder.answer(asks(run="another"))
    assert len(responder.record.tally().learnings()) == 2


def test_a_guest_with_a_broken_record_answers_nothing_new_and_says_why_to_itself(tmp_path):
    responder = a_responder(tmp_path)
    responder.answer(asks())
    responder.record.path.write_bytes(b"nonsense\n" + responder.record.path.read_bytes())
    with pytest.raises(Failed, match="its log says why") as caught:
        responder.answer(asks(run="another"))
    assert "line 1 cannot be read" in str(caught.value.__cause__)


@pytest.mark.parametrize("loss", ["gone", "empty", "torn"])
def test_a_record_that_is_lost_is_made_again_from_what_is_kept(tmp_path, loss):
    responder = a_responder(tmp_path, policy="max_learnings = 2\n")
    responder.answer(asks(plan=plan_of()))
    responder.answer(asks(seed=1))
    before = responder.record.look()
    if loss == "gone":
        responder.record.path.unlink()
    else:
        responder.record.path.write_bytes(b"" if loss == "empty" else responder.record.path.read_bytes()[:9])
    again = responder.record.look()
    assert {(each.fingerprint, each.sha256, each.epsilon) for each in again.learnings()} == {
        (each.fingerprint, each.sha256, each.epsilon) for each in before.learnings()
    }
    assert again.values_per_row == before.values_per_row == 4
    with pytest.raises(Refused, match="max_learnings"):
        responder.answer(asks(seed=2))
    with pytest.raises(Refused, match="privacy budget"):
        responder.answer(asks(plan=plan_of(), seed=2))
    responder.answer(asks(seed=1))
    assert len(responder.record.tally().learnings()) == 2


def test_kept_models_of_another_version_count_as_much_as_they_may_be(tmp_path):
    responder = a_responder(tmp_path, policy="max_learnings = 2\n")
    responder.answer(asks())
    folder = responder.kept(asks().fingerprint)
    (folder / ASKED).write_bytes(b"of another time")
    shutil.copytree(folder, folder.parent / "unfinished")
    (folder.parent / "unfinished" / MESSAGE).unlink()
    responder.record.path.unlink()
    found = responder.record.look()
    assert [each.dim for each in found.learnings()] == [Policy.max_dim] * 2
    assert all(each.epsilon is not None for each in found.learnings())


def test_what_was_kept_and_never_answered_is_not_in_a_record_made_again(tmp_path):
    responder = a_responder(tmp_path)
    responder.answer(asks())
    (responder.kept(asks().fingerprint) / MESSAGE).unlink()  # as if killed before the message was there
    responder.record.path.unlink()
    assert responder.record.look().learnings() == []


def test_lines_from_many_at_once_are_whole(record):
    workers = [threading.Thread(target=record.enter, args=(learn(number),)) for number in range(20)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(record.tally().learnings()) == 20


def test_open_learnings_count_until_they_are_withdrawn():
    intended, withdrawn = (Entry(what, "churn", "a", dim=2, epsilon=1.0) for what in ("intended", "withdrawn"))
    assert len(Tally([intended]).learnings()) == 1
    assert Tally([intended]).learnings(but="a") == []
    assert Tally([intended, withdrawn]).learnings() == []
    assert list(Tally([intended, withdrawn, intended]).open) == ["a"]
    assert len(Tally([intended, Entry("learn", "churn", "a", sha256="s")]).learnings()) == 1
    assert Tally([intended]).values_per_row == 0  # nothing left


def test_runs_that_look_alike():
    assert len({same_run(name) for name in ("churn", "Churn", "churn.", " churn", "CHURN_", "\uff43hurn")}) == 1
    assert same_run("churn-2025") != same_run("churn-2026")
    assert Tally([learn(0, "Churn"), learn(1, "churn"), learn(2, "other")]).runs() == ["Churn", "other"]
