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
from fedonce.jobs.hint_record import HOLDS, HintRecord
from fedonce.rows.alignment import AgreedRows, agreed_rows
from fedonce.rows.ids import Naming
from fedonce.system.locks import hold

N = 300
LABELS = np.random.default_rng(0).choice(np.array(["no", "yes", "maybe"], dtype=object), N)
NUMBERS = np.random.default_rng(1).normal(size=N)
IDS = np.array([f"k{i}" for i in range(N)], dtype=object)
KEYED = Naming("keyed", b"s" * 32)
PARTS = {"shop": slice(0, 100), "telco": slice(50, 200)}


def publish(
    path, epsilon=2.0, label=LABELS, ids=IDS, run="churn", limit=None, edges=None, name="default", column=None, **more
):
    task = "classification" if edges is None else "regression"
    hinting, naming = Hinting(epsilon, edges, name), more.pop("naming", KEYED)
    return HintRecord(path, limit).publish(
        label, column or name, hinting, task, "bank", run, ids, None if ids is None else naming, **more
    )


def answers(hints, run="churn", naming=KEYED):
    """What a file says of each of IDS, in their order."""
    by_key = {key.tobytes(): answer for key, answer in zip(hints.ids, hints.answers, strict=True)}
    return [by_key.get(key.tobytes()) for key in naming.keys(IDS, run)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "hints.record"


def test_a_record_is_begun_private_with_a_key_a_limit_and_what_was_published(path):
    done = publish(path, to=[(None, ("shop", "telco"))])
    assert (done.begun, done.cost, done.spent_on_label, done.spent, done.limit) == (True, 2.0, 2.0, 2.0, 8.0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = json.loads(path.read_text())
    (line,) = content["published"]
    assert (len(content["key"]), [each["limit"] for each in content["limits"]]) == (64, [8.0])
    assert (line["column"], line["purpose"]["epsilon"]) == ("default", 2.0)
    assert line["purpose"]["classes"] == ["maybe", "no", "yes"]
    (sent,) = line["sent"]
    assert (sent["to"], sent["rows"], sent["run"]) == (["shop", "telco"], N, "churn")
    assert sent["checksum"] == done.hints[0].checksum


def test_it_has_nothing_of_single_rows(path):
    """However many rows there are: what it holds grows with publications alone."""
    publish(path)
    size = path.stat().st_size
    many = np.array([f"k{i}" for i in range(20 * N)], dtype=object)
    publish(path.with_name("other"), label=np.tile(LABELS, 20), ids=many)
    assert abs(path.with_name("other").stat().st_size - size) < 10
    assert b"k17" not in path.read_bytes()


def test_it_says_in_words_what_was_disclosed_to_whom_and_what_it_adds_up_to(path):
    publish(path, to=[(None, ("shop", "telco"))])
    publish(path, 0.5, label=NUMBERS, edges=(0.0, 1.5), name="balance")
    publish(path, np.inf, name="last year's", column="before")
    words = json.loads(path.read_text())["in words"]
    for part in (
        "Column 'default', 3 classes (maybe, no, yes)",
        "label epsilon 2 (the true class in 78.7 % of answers)",
    ):
        assert part in words[0]
    assert words[0].endswith("To: shop, telco.")
    assert words[1].startswith("Column 'balance', 3 bins (edges 0, 1.5): each row's class by randomised response")
    assert words[2].startswith(
        "Column 'before' under the name \"last year's\", 3 classes (maybe, no, yes): each row's class AS"
    )
    assert words[3:5] == [f"Sum of label epsilons, column {each}." for each in ("'default': 2", "'balance': 0.5")]
    assert words[6].startswith("Sum over all columns: 2.5 of 8 at most.")
    assert words[-1] == HOLDS
    assert "whose label has not changed" in HOLDS


def test_the_same_again_is_the_same_and_costs_nothing(path):
    first = publish(path)
    before = path.read_bytes()
    again = publish(path)
    assert again.hints[0].to_bytes() == first.hints[0].to_bytes()
    assert (again.begun, again.cost, again.spent) == (False, 0.0, 2.0)
    assert path.read_bytes() == before


def test_other_runs_guests_and_rows_get_the_same_answers_which_cost_nothing_and_are_written_down(path):
    first = answers(publish(path, naming=KEYED).hints[0])
    other = publish(path, naming=KEYED, run="other", to=[(None, ("telco",))])
    assert answers(other.hints[0], "other") == first
    part = publish(path, naming=KEYED, label=LABELS[100:200][::-1], ids=IDS[100:200][::-1])
    assert answers(part.hints[0])[100:200] == first[100:200]
    grown = publish(path, naming=KEYED, label=np.append(LABELS, "no"), ids=np.append(IDS, "late"))
    assert answers(grown.hints[0]) == first
    assert (other.cost, part.cost, grown.cost, grown.spent) == (0.0, 0.0, 0.0, 2.0)
    (line,) = HintRecord(path).look().published
    assert [(each.to, each.rows) for each in line.sent] == [
        ((hint_record.ANYONE,), N),
        (("telco",), N),
        ((hint_record.ANYONE,), 100),
        ((hint_record.ANYONE,), N + 1),
    ]


def test_a_label_that_changed_has_another_answer_and_the_record_says_that_it_does_not_see_it(path):
    """The sum is that of labels that do not change: what a change costs is said, and not counted."""
    many = np.array([f"k{i}" for i in range(6000)], dtype=object)
    labels, later = (np.full(6000, each, dtype=object) for each in ("no", "yes"))
    labels[0], later[0] = "yes", "no"
    made = [publish(path, label=each, ids=many).hints[0] for each in (labels, labels, later)]
    assert (made[0].answers == made[1].answers).all()
    differ = (made[0].answers != made[2].answers).mean()
    keep = made[0].keep
    assert abs(differ - (keep**2 + (1 - keep) ** 2)) < 0.03  # as two independent answers to two labels do
    done = publish(path, label=later, ids=many)
    assert (done.spent, done.as_json()["holds"]) == (2.0, HOLDS)
    assert "the new label costs its epsilon again" in HOLDS
    assert "a label that changed" in HOLDS[HOLDS.index("Rows are not counted here") :]


@pytest.mark.parametrize(
    ("other", "cost"),
    [
        ({"epsilon": 1.0}, 1.0),
        ({"name": "repaid"}, 2.0),
        ({"name": "Default"}, 2.0),
        ({"label": np.where(LABELS == "no", "never", LABELS)}, 2.0),
        ({"naming": Naming("hashed", forms=("trim",))}, 2.0),
        ({"ids": None}, 2.0),
    ],
)
def test_anything_else_adds_its_epsilon(path, other, cost):
    """Each has answers of its own, so a new spelling of a column, a class or an id is no second answer for nothing."""
    publish(path)
    done = publish(path, **other)
    assert (done.cost, done.spent) == (cost, 2.0 + cost)
    assert publish(path, **other).cost == 0.0
    assert len(HintRecord(path).look().published) == 2


def test_the_sum_of_a_label_is_that_of_its_column_however_it_is_spelt(path):
    for name in ("default", "Default ", "arrears"):
        done = publish(path, 1.0, name=name)
    assert (done.spent_on_label, done.spent) == (1.0, 3.0)
    assert HintRecord(path).look().spent("DEFAULT") == 2.0


def test_rows_of_an_alignment_have_the_answers_of_before(path):
    first = answers(publish(path, naming=KEYED).hints[0])
    to = [
        (AgreedRows.from_bytes(agreed_rows(IDS[part], "bank", name, "churn", (), KEYED.secret)), (name,))
        for name, part in PARTS.items()
    ]
    done = publish(path, naming=KEYED, to=to)
    assert ([each.n_rows for each in done.hints], done.cost) == ([100, 150], 0.0)
    for (agreed, _), hints in zip(to, done.hints, strict=True):
        places = agreed.positions(IDS, KEYED.secret)
        assert [first[place] for place in places] == hints.answers.tolist()
    assert [line[-9:] for line in done.disclosed] == ["To: shop.", "o: telco."]


def test_ids_of_an_alignment_that_are_normalised_otherwise_count(path):
    agreed = AgreedRows.from_bytes(agreed_rows(IDS, "bank", "shop", "churn", ("trim",)))
    assert publish(path, to=[(agreed, ("shop",)), (None, ("telco",))]).cost == 4.0


def test_rows_known_by_their_places_cost_again_where_anything_changes(path):
    publish(path, ids=None)
    changed = LABELS.copy()
    changed[0], changed[1] = "yes", "no"
    assert publish(path, ids=None, label=changed).spent == 4.0
    assert publish(path, ids=None, label=LABELS[:7]).spent == 6.0
    assert publish(path, ids=None).cost == 0.0


def test_a_column_that_was_hinted_at_does_not_travel_as_it_is(path):
    publish(path)
    before = path.read_bytes()
    for column in ("default", "Default "):
        with pytest.raises(BudgetError, match=f"'{column}' was published with an epsilon before") as error:
            publish(path, np.inf, name="last year's", column=column)
        assert error.value.parameters == ("label", "proxy")
    assert path.read_bytes() == before
    done = publish(path, np.inf, name="last year's", column="before")
    assert (done.cost, done.spent_on_label, done.spent) == (0.0, 0.0, 2.0)


def test_a_column_that_travelled_as_it_is_gets_no_epsilon_later(path):
    publish(path, np.inf, name="old", column="default")
    before = path.read_bytes()
    with pytest.raises(BudgetError, match="'default' travelled as it is before; an epsilon would protect nothing"):
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


def test_a_record_without_its_lock_lets_nobody_pass_twice(path):
    """Taking the lock's file away does not make two count at once: a process that waits for it looks again."""
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
    assert HintRecord(path).look().spent() <= 8.0


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


def test_a_limit_is_kept_and_every_change_of_it(path):
    publish(path, 2.0, limit=3.0)
    with pytest.raises(BudgetError, match="is 3"):
        publish(path, 1.5)
    assert publish(path, 1.5, limit=5.0).limit == 5.0
    assert publish(path, 4.0, limit=8.0).spent == 7.5
    assert publish(path, 4.0, limit=1.0).cost == 0.0  # below what was published: the same again, and nothing else
    with pytest.raises(BudgetError, match="is 1"):
        publish(path, 0.5)
    assert [each["limit"] for each in HintRecord(path).look().limits] == [3.0, 5.0, 8.0, 1.0]


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
        lambda text: "{}",
        lambda text: text.replace('"fedonce hints record": 3', '"fedonce hints record": 2'),
        lambda text: text.replace('"key": "', '"key": "ab'),
        lambda text: text.replace('"limit": 8.0', '"limit": -8.0'),
        lambda text: text.replace('"epsilon": 2.0', '"epsilon": "two"'),
        lambda text: text.replace('"epsilon": 2.0', '"epsilon": -2.0'),
        lambda text: text.replace('"forms"', '"unknown"'),
        lambda text: text.replace('"sent"', '"unknown"'),
        lambda text: text.replace('"published"', '"more": 1, "published"'),
    ],
)
def test_a_damaged_record_is_refused_and_never_started_over(path, spoil):
    publish(path)
    assert spoil(path.read_text()) != path.read_text()
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


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        publish(tmp_path / "nowhere" / "hints.record")
