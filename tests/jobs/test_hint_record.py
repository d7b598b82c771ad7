"""The host's record of hints: what costs, what does not, what is refused; and that no hints leave without their line."""

from __future__ import annotations

import base64
import hashlib
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
from fedonce.rows.alignment import AgreedRows, agreed_rows
from fedonce.rows.ids import Naming
from fedonce.system.locks import hold

N = 300
LABELS = np.random.default_rng(0).choice(np.array(["no", "yes", "maybe"], dtype=object), N)
NUMBERS = np.random.default_rng(1).normal(size=N)
IDS = np.array([f"k{i}" for i in range(N)], dtype=object)
NAMING = Naming("hashed")
PARTS = {"shop": slice(0, 100), "telco": slice(50, 200)}


def publish(path, epsilon=2.0, label=LABELS, ids=IDS, run="churn", limit=None, edges=None, name="default", **more):
    task = "classification" if edges is None else "regression"
    naming, hinting = None if ids is None else NAMING, Hinting(epsilon, edges, name)
    return HintRecord(path, limit).publish(label, hinting, task, "bank", run, ids, naming, **more)


def sums(path):
    """The largest and the least sum of a row, and how many rows there are."""
    rows = HintRecord(path).look().rows
    return rows.sums.max(), rows.sums.min(), len(rows.sums)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "hints.record"


def test_a_record_is_begun_private_with_a_key_a_limit_and_a_line(path):
    done = publish(path)
    assert (done.begun, done.cost, done.spent, done.limit, done.anew) == (True, 2.0, 2.0, 8.0, N)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = json.loads(path.read_text())
    (line,) = content["published"]
    assert (content["fedonce hints record"], len(content["key"]), content["limit"]) == (2, 64, 8.0)
    assert (line["label"], line["epsilon"], line["classes"]) == ("default", 2.0, ["maybe", "no", "yes"])
    assert (line["rows"], line["run"], line["column"]) == (N, "churn", "default")
    assert line["rows_digest"] == ""
    assert content["rows"]["n"] == N
    assert line["checksum"] == done.hints[0].checksum


def test_the_same_again_is_the_same_and_costs_nothing(path):
    first = publish(path)
    before = path.read_bytes()
    again = publish(path)
    assert again.hints[0].to_bytes() == first.hints[0].to_bytes()
    assert (again.begun, again.cost, again.spent, again.anew) == (False, 0.0, 2.0, 0)
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


def test_some_of_the_rows_are_told_as_before_and_cost_nothing(path):
    first, part = publish(path), publish(path, label=LABELS[:200], ids=IDS[:200])
    keys = {key.tobytes(): answer for key, answer in zip(first.hints[0].ids, first.hints[0].answers, strict=True)}
    assert [keys[key.tobytes()] for key in part.hints[0].ids] == part.hints[0].answers.tolist()
    assert (part.cost, part.spent, part.anew) == (0.0, 2.0, 0)
    assert len(HintRecord(path).look().published) == 2  # another file, and its line


def test_a_table_that_grows_every_night_stays_within_its_limit(path):
    rng = np.random.default_rng(2)
    ids, label = IDS, LABELS
    for night in range(30):
        done = publish(path, 2.0, label, ids)
        assert (done.spent, done.anew) == (2.0, 20 if night else N)
        ids = np.concatenate([ids, np.array([f"night {night} {i}" for i in range(20)], dtype=object)])
        label = np.concatenate([label, rng.choice(np.array(["no", "yes"], dtype=object), 20)])
    assert sums(path) == (2.0, 2.0, N + 29 * 20)


def test_only_labels_told_the_same_way_before_are_warned_of(path):
    """Told another way, answers have noise of their own, and differ whether or not the label changed."""
    publish(path)
    changed = LABELS.copy()
    changed[:3] = np.where(LABELS[:3] == "no", "yes", "no")
    assert publish(path, 1.0, label=changed).changed == 0  # with pytest any warning is an error
    other = np.append(IDS, "late"), np.append(changed, "no")
    with pytest.warns(FedOnceWarning, match="The label 'default' of 3 rows has changed"):
        done = publish(path, ids=other[0], label=other[1])
    assert (done.anew, done.changed) == (4, 3)


def test_a_label_that_changes_adds_its_epsilon_to_its_own_row(path):
    """Each label that the row never had is told anew; one that it had before has its answer of then."""
    labels = np.tile(np.array(["a", "b", "c", "d", "e"], dtype=object), N // 5)
    done = publish(path, label=labels)
    assert (done.spent, done.anew, done.changed) == (2.0, N, 0)
    for label, spent in (("b", 4.0), ("c", 6.0), ("d", 8.0)):
        labels[0] = label
        with pytest.warns(FedOnceWarning, match="The label 'default' of 1 row has changed since it was told"):
            done = publish(path, label=labels)
        assert (done.spent, done.anew, done.changed) == (spent, 1, 1)
    labels[0] = "e"
    before = path.read_bytes()
    with pytest.raises(
        BudgetError, match=r"the epsilons of 1 of 300 rows add up to 10, and the limit in .* is 8"
    ) as failed:
        publish(path, label=labels)
    assert failed.value.parameters == ("epsilon", "limit")
    assert path.read_bytes() == before
    labels[0] = "a"
    assert publish(path, label=labels).anew == 0
    assert sums(path) == (8.0, 2.0, N)


def test_another_column_of_ids_is_refused_unless_somebody_says_that_they_are_new_people(path):
    publish(path, 0.5)
    before = path.read_bytes()
    mails = np.array([f"{each}@example" for each in IDS], dtype=object)
    # However little they are told with: once two columns of ids were in, nothing would link the sums of a person.
    with pytest.raises(BudgetError, match=r"300 of 300 ids are not known .* new people, say so \(new_rows\)") as failed:
        publish(path, 0.01, ids=mails)
    assert failed.value.parameters == ("new_rows",)
    assert path.read_bytes() == before
    done = publish(path, 0.5, ids=mails, new_rows=True)
    assert (done.spent, done.cost, done.anew, done.new) == (0.5, 0.0, N, N)
    assert publish(path, 0.5, ids=mails).cost == 0.0
    assert sums(path) == (0.5, 0.5, 2 * N)


def test_unknown_ids_are_new_people_where_half_of_all_are_known(path):
    publish(path)
    first = path.read_bytes()
    for strangers in (N + 1, N):
        ids = np.concatenate([IDS, np.array([f"new {i}" for i in range(strangers)], dtype=object)])
        label = np.concatenate([LABELS, np.full(strangers, "no", dtype=object)])
        if strangers > N:
            with pytest.raises(BudgetError, match=r"301 of 601 ids are not known"):
                publish(path, ids=ids, label=label)
            assert path.read_bytes() == first
        else:
            done = publish(path, ids=ids, label=label)
            assert (done.spent, done.new, done.anew) == (2.0, N, N)


def test_ids_that_look_new_by_another_rule_are_refused_unless_they_are_said_to_be(path):
    ids = np.array([f"K{i}" if i % 5 > 2 else f"k{i}" for i in range(N)], dtype=object)

    def told(forms, **more):
        return HintRecord(path).publish(
            LABELS, Hinting(2.0), "classification", "bank", "churn", ids, Naming("plain", forms=forms), **more
        )

    assert (told(()).anew, told(()).anew) == (N, 0)
    before = path.read_bytes()
    with pytest.raises(
        BudgetError, match=r"normalised now \(lower\) otherwise than in the record .* \(not at all\)"
    ) as error:
        told(("lower",))
    assert error.value.parameters == ("forms", "new_rows")
    assert path.read_bytes() == before
    assert told(("trim",)).anew == 0  # a rule that changes no id
    with pytest.raises(BudgetError, match="normalised now"):  # also where most ids look new
        HintRecord(path).publish(
            LABELS, Hinting(2.0), "classification", "bank", "churn", IDS[::-1] + "X", Naming("plain", forms=("lower",))
        )
    assert told(("lower",), new_rows=True).new == 2 * N // 5
    assert told(("lower",)).anew == 0


def test_new_people_need_ids(path):
    with pytest.raises(InputError, match=r"said to be new people's \(new_rows\), and the table has none"):
        publish(path, ids=None, new_rows=True)


def test_a_row_within_the_limit_does_not_pass_it_because_others_are_far_beyond(path):
    """The limit is every row's own, though the largest sum does not grow."""
    publish(path, 6.0)
    more = np.concatenate([IDS, np.array(["late"], dtype=object)])
    label = np.concatenate([LABELS, np.array(["no"], dtype=object)])
    with pytest.raises(BudgetError, match="the epsilons of 1 of 301 rows add up to 6, and the limit in .* is 3"):
        publish(path, 6.0, ids=more, label=label, limit=3.0)
    with pytest.raises(BudgetError, match="the epsilons of 300 of 301 rows add up to 8.5"):
        publish(path, 2.5, ids=more, label=label, limit=3.0)
    assert publish(path, 2.5, ids=more[-200:], label=label[-200:], limit=9.0).spent == 8.5
    assert sums(path) == (8.5, 2.5, N + 1)


def test_rows_of_an_alignment_are_those_that_are_told(path):
    """Rows that are in no file cost nothing."""
    agreed = [AgreedRows.from_bytes(agreed_rows(IDS[part], "bank", name, "churn")) for name, part in PARTS.items()]
    done = publish(path, agreed=agreed)
    assert [each.n_rows for each in done.hints] == [100, 150]
    assert (done.anew, done.spent, sums(path)) == (200, 2.0, (2.0, 2.0, 200))
    assert publish(path, agreed=agreed).anew == 0
    assert publish(path).anew == 100


def test_two_records_of_the_same_table_have_no_digest_in_common(path):
    """Digests are keyed, and the key is the record's own."""
    publish(path)
    publish(path.with_name("other"))
    one, two = (HintRecord(each).look().rows for each in (path, path.with_name("other")))
    for digests in (one.rows, one.told):
        assert digests.shape == (N, 16)
    seen = {row.tobytes() for rows in (one, two) for row in (*rows.rows, *rows.told)}
    assert len(seen) == 4 * N
    assert b"k17" not in base64.b64decode(json.loads(path.read_text())["rows"]["rows"])


def test_a_column_that_was_hinted_at_does_not_travel_as_it_is(path):
    publish(path)
    before = path.read_bytes()
    record, label = HintRecord(path), Hinting(np.inf, label="last year's")
    for column in ("default", "Default "):
        with pytest.raises(BudgetError, match=f"'{column}' was hinted at with an epsilon before") as error:
            record.publish(LABELS, label, "classification", "bank", "churn", IDS, NAMING, column=column)
        assert error.value.parameters == ("label", "proxy")
    assert path.read_bytes() == before
    assert record.publish(LABELS, label, "classification", "bank", "churn", IDS, NAMING, column="before").cost == 0.0


def test_a_column_that_travelled_as_it_is_gets_no_epsilon_later(path):
    record = HintRecord(path)
    record.publish(
        LABELS, Hinting(np.inf, label="old"), "classification", "bank", "churn", IDS, NAMING, column="default"
    )
    before = path.read_bytes()
    with pytest.raises(BudgetError, match="'default' travelled as it is before .*an epsilon would protect nothing"):
        publish(path)
    assert path.read_bytes() == before


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


def test_rows_by_places_count_for_every_row(path):
    """Who they are is not known: they may be any of the rows with ids."""
    publish(path)
    assert publish(path, ids=None, label=LABELS[:7]).spent == 4.0
    assert sums(path) == (4.0, 4.0, N)
    late = publish(path, ids=np.append(IDS, "late"), label=np.append(LABELS, "no"))
    assert (late.anew, sums(path)) == (1, (4.0, 4.0, N + 1))  # as before: the new one starts from what counted for all


def test_new_people_start_from_what_counted_for_every_row(path):
    publish(path)
    publish(path, 1.0, ids=None)
    mails = np.array([f"{each}@example" for each in IDS], dtype=object)
    assert publish(path, ids=mails, new_rows=True).spent == 3.0
    assert sums(path) == (3.0, 3.0, 2 * N)


def test_a_record_without_its_lock_lets_nobody_pass_twice(path):
    """Whoever took the lock's file away does not make two count at once: who waits for it looks again."""
    publish(path)
    lock = path.with_name(f"{path.name}.lock")
    passed = []
    with hold(lock):
        thread = threading.Thread(target=lambda: passed.append(publish(path, 1.0)))
        thread.start()
        thread.join(0.2)
        lock.unlink()
        with hold(lock):  # a third, by a file of its own
            pass
    thread.join(20)
    assert passed[0].spent == 3.0
    assert lock.exists()


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
    with pytest.warns(FedOnceWarning, match="limit of 1 is below what rows were told already: .* add up to 4 at most"):
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
        lambda text: text.replace('"fedonce hints record": 2', '"fedonce hints record": 3'),
        lambda text: text.replace('"fedonce hints record": 2', '"fedonce hints record": 1'),
        lambda text: text.replace('"fedonce hints record": 2', '"fedonce hints record": true'),
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


def spoiled(path, **changes):
    """Write what rows were told otherwise, with a checksum that fits."""
    content = json.loads(path.read_text())
    rows = content["rows"] | changes
    raw = b"".join(base64.b64decode(rows[name]) for name in ("rows", "sums", "told"))
    content["rows"] = rows | {"sha256": hashlib.sha256(raw).hexdigest()}
    path.write_text(json.dumps(content))


def packed(data):
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    "changes",
    [
        {"n": N - 1},
        {"n": -1},
        {"n": True},
        {"rows": packed(b"x" * 16 * N)},  # the same row N times
        {"rows": packed(b"x" * 15 * N)},
        {"told": packed(b"x")},
        {"told": packed(b"b" * 16 + b"a" * 16)},  # not in order
        {"sums": packed(np.full(N, np.nan).tobytes())},
        {"sums": packed(np.full(N, -1.0).tobytes())},
        {"sums": packed(np.zeros(N + 1).tobytes())},
        {"sums": packed(b"x")},
        {"more": ""},
    ],
)
def test_rows_that_do_not_fit_together_are_refused(path, changes):
    publish(path)
    spoiled(path)
    assert publish(path).cost == 0.0  # as it was
    spoiled(path, **changes)
    with pytest.raises(InputError, match=r"cannot be read .* put it back from a backup"):
        publish(path)


def test_a_digest_that_was_damaged_is_found(path):
    publish(path)
    content = json.loads(path.read_text())
    content["rows"]["told"] = packed(b"\0" * 16 + base64.b64decode(content["rows"]["told"])[16:])
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="what rows were told is damaged"):
        publish(path)


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
