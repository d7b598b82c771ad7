"""The host's record of hints: what costs, what does not, what is refused; and that no hints leave without their line."""

from __future__ import annotations

import json
import os
import stat
import threading

import numpy as np
import pytest

from fedonce import Hinting
from fedonce.errors import BudgetError, FedOnceWarning, InputError
from fedonce.jobs import hint_record
from fedonce.jobs.hint_record import HintRecord
from fedonce.rows.ids import Naming

N = 300
LABELS = np.random.default_rng(0).choice(np.array(["no", "yes", "maybe"], dtype=object), N)
NUMBERS = np.random.default_rng(1).normal(size=N)
IDS = np.array([f"k{i}" for i in range(N)], dtype=object)


def publish(path, epsilon=2.0, label=LABELS, ids=IDS, run="churn", limit=None, edges=None, name="default", task=None):
    task = task or ("classification" if edges is None else "regression")
    return HintRecord(path, limit).publish(label, Hinting(epsilon, edges, name), task, "bank", run, ids, None)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "hints.record"


def test_a_record_is_begun_private_with_a_key_a_limit_and_a_line(path):
    done = publish(path)
    assert (done.begun, done.cost, done.spent, done.limit) == (True, 2.0, 2.0, 8.0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = json.loads(path.read_text())
    (line,) = content["published"]
    assert (content["fedonce hints record"], len(content["key"]), content["limit"]) == (1, 64, 8.0)
    assert (line["label"], line["epsilon"], line["classes"]) == ("default", 2.0, ["maybe", "no", "yes"])
    assert (line["rows"], line["run"], line["column"]) == (N, "churn", "default")
    assert len(line["rows_digest"]) == 64
    assert line["checksum"] == done.hints[0].checksum


def test_the_same_again_is_the_same_and_costs_nothing(path):
    first = publish(path)
    before = path.read_bytes()
    again = publish(path)
    assert again.hints[0].to_bytes() == first.hints[0].to_bytes()
    assert (again.begun, again.cost, again.spent) == (False, 0.0, 2.0)
    assert path.read_bytes() == before


def test_another_run_is_told_the_same_answers_and_is_written_down(path):
    naming = Naming("keyed", b"s" * 32)
    made = [
        HintRecord(path).publish(LABELS, Hinting(2.0), "classification", "bank", run, IDS, naming).hints[0]
        for run in ("churn", "other")
    ]
    order = [np.argsort(np.lexsort(naming.keys(IDS, each.run).T[::-1])) for each in made]
    assert np.array_equal(made[0].answers[order[0]], made[1].answers[order[1]])
    assert made[0].to_bytes() != made[1].to_bytes()
    books = HintRecord(path).look()
    assert ([each.run for each in books.published], books.spent) == (["churn", "other"], 2.0)


def test_some_of_the_rows_are_told_as_before_and_counted_to_be_safe(path):
    first, part = publish(path), publish(path, label=LABELS[:200], ids=IDS[:200])
    keys = {key.tobytes(): answer for key, answer in zip(first.hints[0].ids, first.hints[0].answers, strict=True)}
    assert [keys[key.tobytes()] for key in part.hints[0].ids] == part.hints[0].answers.tolist()
    assert (part.cost, part.spent) == (2.0, 4.0)


def test_a_label_that_changes_and_another_column_of_ids_add_their_epsilon(path):
    publish(path)
    changed = LABELS.copy()
    changed[0] = "yes" if LABELS[0] == "no" else "no"
    assert publish(path, label=changed).spent == 4.0
    assert publish(path, ids=np.array([f"{each}@example" for each in IDS], dtype=object)).spent == 6.0


def test_a_column_that_was_hinted_at_does_not_travel_as_it_is(path):
    publish(path)
    before = path.read_bytes()
    record, label = HintRecord(path), Hinting(np.inf, label="last year's")
    with pytest.raises(BudgetError, match="'default' was hinted at with an epsilon before") as error:
        record.publish(LABELS, label, "classification", "bank", "churn", IDS, None, column="default")
    assert error.value.parameters == ("label", "proxy")
    assert path.read_bytes() == before
    assert record.publish(LABELS, label, "classification", "bank", "churn", IDS, None, column="before").cost == 0.0


def test_a_link_is_the_record_that_it_leads_to(path, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(InputError, match="is a link that leads nowhere"):
        publish(link)
    publish(path)
    assert publish(link, 1.0).spent == 3.0
    assert link.is_symlink()
    assert publish(path, 0.5).spent == 3.5


@pytest.mark.parametrize(
    ("other", "cost"),
    [
        ({"epsilon": 1.0}, 1.0),
        ({"name": "repaid"}, 2.0),
        ({"label": np.where(LABELS == "no", "never", LABELS)}, 2.0),
        ({"ids": None}, 2.0),
    ],
)
def test_anything_else_about_the_label_adds_its_epsilon(path, other, cost):
    publish(path)
    done = publish(path, **other)
    assert (done.cost, done.spent) == (cost, 2.0 + cost)
    assert publish(path, **other).cost == 0.0


def test_other_edges_add_up(path):
    spent = [publish(path, label=NUMBERS, edges=edges).spent for edges in ((0.0,), (-1.0, 1.0), (0.0,))]
    assert spent == [2.0, 4.0, 4.0]


def test_rows_known_by_their_places_cost_again_where_labels_change(path):
    publish(path, ids=None)
    changed = LABELS.copy()
    changed[0], changed[1] = "yes", "no"
    assert publish(path, ids=None, label=changed).spent == 4.0
    assert publish(path, ids=None).cost == 0.0
    assert all(len(each.rows_digest) == 64 for each in HintRecord(path).look().published)


def test_beyond_the_limit_nothing_is_written(path):
    publish(path, 5.0)
    before = path.read_bytes()
    with pytest.raises(BudgetError, match=r"add up to 9, and the limit in .* is 8\. Nothing was written.*") as error:
        publish(path, 4.0)
    assert error.value.parameters == ("epsilon", "limit")
    assert path.read_bytes() == before
    assert publish(path, 5.0).cost == 0.0
    assert publish(path, 3.0).spent == 8.0


def test_a_first_one_beyond_the_limit_begins_no_record(path):
    with pytest.raises(BudgetError, match="add up to 2, and the limit"):
        publish(path, 2.0, limit=1.0)
    assert not path.exists()


def test_a_limit_is_kept_and_another_is_noted(path):
    publish(path, 2.0, limit=3.0)
    with pytest.raises(BudgetError, match=r"the limit in .* is 3"):
        publish(path, 2.5)
    assert publish(path, 2.5, limit=5.0).limit == 5.0
    assert publish(path, 2.5).limit == 5.0
    assert [each["limit"] for each in HintRecord(path).look().limits] == [3.0, 5.0]


def test_a_limit_below_what_is_spent_lets_the_same_through_and_nothing_else(path):
    publish(path, 4.0)
    assert publish(path, 4.0, limit=1.0).cost == 0.0
    assert publish(path, np.inf, name="last year's").cost == 0.0
    with pytest.raises(BudgetError, match="add up to 4.5"):
        publish(path, 0.5)


def test_a_stand_in_is_written_down_and_costs_nothing(path):
    done = publish(path, np.inf, name="last year's")
    assert (done.cost, done.spent) == (0.0, 0.0)
    assert HintRecord(path).look().published[0].epsilon is None
    assert json.loads(path.read_text())["published"][0]["epsilon"] is None


def test_the_line_is_on_the_disk_before_hints_are_given(path, monkeypatch):
    def full(*arguments, **settings):
        raise InputError("the disk is full")

    monkeypatch.setattr(hint_record, "write_file", full)
    with pytest.raises(InputError, match="the disk is full"):
        publish(path)
    assert not path.exists()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[]",
        lambda text: text.replace('"fedonce hints record": 1', '"fedonce hints record": 2'),
        lambda text: text.replace('"key": "', '"key": "ab'),
        lambda text: text.replace('"limit": 8.0', '"limit": -8.0'),
        lambda text: text.replace('"epsilon": 2.0', '"epsilon": "two"'),
        lambda text: text.replace('"epsilon": 2.0', '"epsilon": -2.0'),
        lambda text: text.replace('"rows_digest"', '"unknown"'),
        lambda text: text.replace('"edges": null', '"edges": [1.0]'),
    ],
)
def test_a_damaged_record_is_refused_and_never_started_over(path, spoil):
    publish(path)
    path.write_text(spoil(path.read_text()))
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"cannot be read .* put it back from a backup") as error:
        publish(path)
    assert error.value.parameters == ("record",)
    assert path.read_bytes() == before


def test_a_record_that_others_can_read_is_warned_of(path):
    publish(path)
    os.chmod(path, 0o644)
    with pytest.warns(FedOnceWarning, match="record of hints .* can be read by others"):
        publish(path)


@pytest.mark.parametrize("limit", [0, -1.0, float("nan"), float("inf"), True, "8"])
def test_limits_that_are_none_are_refused(path, limit):
    with pytest.raises(InputError, match="'limit' parameter of HintRecord must be a number above 0"):
        HintRecord(path, limit)


def test_side_by_side_nobody_slips_past_the_limit(path):
    publish(path, 1.0)
    outcomes = []

    def try_one(epsilon):
        try:
            outcomes.append(publish(path, epsilon).cost)
        except BudgetError:
            outcomes.append(None)

    threads = [threading.Thread(target=try_one, args=(epsilon,)) for epsilon in (3.0, 3.1, 3.2, 3.3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(each is not None for each in outcomes) == 2
    assert HintRecord(path).look().spent <= 8.0


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        publish(tmp_path / "nowhere" / "hints.record")
