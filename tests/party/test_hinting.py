from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from fedonce import AgreedRows, FedOnceError, Guest, Hinting, Hints, InputError, MessageError, Naming, Representation
from fedonce.data.preparation import Public
from fedonce.data.table import Table
from fedonce.estimators.checks import as_hinting
from fedonce.learners import Hinted
from fedonce.messages.representation import row_digest
from fedonce.party import storage
from fedonce.party.hinting import NO_HINT, hints_of, publish, taken
from fedonce.rows import alignment
from tests.conftest import make_table

N = 300
KEY, SECRET = b"k" * 32, b"s" * 32
IDS = np.array([f"C{i:03}" for i in range(N)], dtype=object)
LABELS = np.array(["no", "maybe", "yes"], dtype=object)[np.arange(N) % 3]
TRUTH = {"maybe": 0, "no": 1, "yes": 2}  # classes in order
AS_IT_IS = Hinting(math.inf, label="last year's")  # what is told can then be compared
NAMINGS = {
    "keyed": Naming("keyed", SECRET),
    "hashed": Naming("hashed"),
    "plain": Naming("plain"),
    "trimmed": Naming("keyed", SECRET, ("trim", "lower")),
}


def shop(ids=None, n=N):
    return replace(Table.of(make_table(n)[0]), ids=ids)


def told(hints, own, mask=None, naming=None, agreed=None, guest="shop", run="local"):
    return hints_of(hints, own, mask, naming, agreed, guest, run)


def codes(labels=LABELS):
    return np.array([TRUTH[label] for label in labels])


class TestPublishing:
    def test_the_same_key_gives_the_same_file_and_another_another(self):
        first, again, other = (
            publish(LABELS, Hinting(1.0), ids=IDS, naming=NAMINGS["keyed"], key=key) for key in (KEY, KEY, b"x" * 32)
        )
        assert first.to_bytes() == again.to_bytes()
        assert (first.answers != other.answers).any()

    def test_without_a_key_the_noise_is_the_operating_system_s(self):
        first, second = (publish(LABELS, Hinting(1.0)) for _ in range(2))
        assert (first.answers != second.answers).any()

    def test_a_row_is_told_alike_in_any_order_and_any_company(self):
        first = publish(LABELS, Hinting(1.0), ids=IDS, naming=NAMINGS["plain"], key=KEY)
        rows = np.random.default_rng(0).permutation(N)[:50]
        hinting = Hinting(1.0, classes=np.unique(LABELS))
        second = publish(LABELS[rows], hinting, ids=IDS[rows], naming=NAMINGS["plain"], key=KEY)
        table = shop(IDS)
        both = told(first, table), told(second, table)
        assert (both[1][rows] == both[0][rows]).all()
        assert (both[1] >= 0).sum() == 50

    def test_another_label_is_told_by_noise_of_its_own(self):
        """Were the noise of a row the same for all its labels, two answers would tell more than their epsilons say."""
        n = 4000
        ids = np.array([f"r{i}" for i in range(n)], dtype=object)
        ones, zeros = np.ones(n, int), np.zeros(n, int)

        def lies(labels, epsilon=1.0, label="label", forms=()):
            hinting, naming = Hinting(epsilon, label=label, classes=(0, 1)), Naming("plain", forms=forms)
            hints = publish(labels, hinting, ids=ids, naming=naming, key=KEY)
            return told(hints, replace(shop(n=n), ids=ids)) != labels

        first = lies(ones)
        for second in (lies(zeros), lies(ones, label="b"), lies(ones, 1.5), lies(ones, forms=("trim",))):
            assert abs(np.corrcoef(first, second)[0, 1]) < 0.06

    def test_by_places_the_same_labels_are_told_alike_and_others_share_no_noise(self):
        """Were noise shared by two tables' rows in a place, who knows one's label would learn the other's."""
        first = np.arange(4000) % 2
        second = np.where(np.arange(4000) == 7, 1 - first, first)
        lies = [publish(labels, Hinting(1.0), key=KEY).answers != labels for labels in (first, first, second)]
        np.testing.assert_array_equal(lies[0], lies[1])
        assert abs(np.corrcoef(lies[0], lies[2])[0, 1]) < 0.06

    def test_the_answers_are_as_true_as_the_file_says(self):
        hints = publish(np.arange(20_000) % 10, Hinting(2.0))
        assert (hints.answers == np.arange(20_000) % 10).mean() == pytest.approx(hints.keep, abs=0.015)

    def test_numbers_are_told_by_bins(self):
        numbers = np.array([-5.0, 0.0, 0.5, 1.0, 2.0, 99.0])
        hints = publish(numbers, Hinting(math.inf, (0.0, 1.0), "coarse"), "regression")
        assert (hints.answers.tolist(), hints.classes, hints.edges.tolist()) == ([0, 1, 1, 2, 2, 2], 3, [0.0, 1.0])

    def test_public_classes_are_counted_though_no_row_has_them(self):
        hints = publish([0, 2, 2], replace(AS_IT_IS, classes=range(4)))
        assert (hints.classes, hints.answers.tolist()) == (4, [0, 2, 2])

    def test_ids_leave_in_an_order_that_tells_nothing(self):
        hints = publish(LABELS, AS_IT_IS, ids=IDS, naming=NAMINGS["keyed"])
        keys = [bytes(key) for key in hints.ids]
        assert keys == sorted(keys)
        assert hints.rows == row_digest(N, hints.ids)

    @pytest.mark.parametrize(
        ("labels", "hinting", "task", "said"),
        [
            (np.arange(300), Hinting(1.0), "classification", "300 classes, and 256 at most"),
            (np.arange(300.0), Hinting(1.0), "regression", "need bins with public edges: Hinting"),
            ([1.0, np.nan], Hinting(1.0, (0.0,)), "regression", "nan|missing|finite|NaN"),
            (["a", "b"], Hinting(1.0, (0.0,)), "regression", "number"),
            (np.array([["a"], ["a", "b"]], dtype=object), Hinting(1.0), "classification", "single values, one per row"),
        ],
    )
    def test_labels_that_cannot_be_told(self, labels, hinting, task, said):
        with pytest.raises(InputError, match=said):
            publish(labels, hinting, task)

    @pytest.mark.parametrize(
        ("wrong", "parameter", "said"),
        [
            ({"label": 5}, "label", "must be an array of one dimension; give one per row"),
            ({"label": np.zeros((3, 2))}, "label", "must be an array of one dimension"),
            ({"label": []}, "label", "must be an array of one dimension"),
            ({"label": [[1], [1, 2]]}, "label", "must be an array of one dimension"),
            ({"hinting": 2.0}, "hinting", r"must be a Hinting, such as Hinting\(2.0\). Got 2.0"),
            (
                {"task": "foo"},
                "task",
                "'task' parameter of publish must be 'classification' or 'regression'. Got 'foo'",
            ),
            ({"party": ""}, (), "'party' parameter of publish must be"),
            ({"run": 3}, "run", "'run' parameter of publish must be printable text"),
            ({"ids": IDS[:-1]}, "ids", "300 labels and 299 ids; give one id per label"),
            ({"ids": IDS[None]}, "ids", r"ids have shape \(1, 300\)"),
            ({"ids": np.arange(300.0)}, "ids", "must be text or an integer. Got a float in row 0"),
            ({"ids": ["a", ""] * 150}, "ids", "Got an empty text in row 1"),
            ({"ids": [True] * 300}, "ids", "Got a bool in row 0"),
            ({"key": "k" * 32}, "key", "must be bytes, 16 or more. Got a str instead; draw one"),
            ({"key": b""}, "key", "must be bytes, 16 or more. Got 0 instead"),
            ({"key": b"k" * 15}, "key", "must be bytes, 16 or more. Got 15 instead"),
            (
                {"label": np.array([["a"], ["b", "c"]], object), "hinting": Hinting(1.0, classes=["a", "b"])},
                (),
                "single values, one per row",
            ),
            (
                {"hinting": Hinting(1.0, classes=["no", "yes"])},
                "classes",
                r"100 of 300 labels are none of the classes given, \['no', 'yes'\]",
            ),
        ],
    )
    def test_what_is_given_wrong_is_named_with_the_remedy(self, wrong, parameter, said):
        given = {"label": LABELS, "hinting": Hinting(1.0), **wrong}
        with pytest.raises(InputError, match=said) as failed:
            publish(**given)
        assert failed.value.parameters == ((parameter,) if isinstance(parameter, str) else parameter)
        assert "k" * 15 not in str(failed.value)
        assert "maybe" not in str(failed.value)

    def test_integers_as_ids_are_those_of_a_file(self):
        """A column of integers is read as texts: both name the same rows, with the same noise."""
        texts = np.array([str(row) for row in range(N)], dtype=object)
        made = [
            publish(LABELS, Hinting(1.0), ids=ids, naming=NAMINGS["keyed"], key=KEY).to_bytes()
            for ids in (texts, np.arange(N), list(range(N)), texts.astype(str))
        ]
        assert len(set(made)) == 1

    def test_the_order_of_public_classes_is_nobody_s_choice(self):
        made = [
            publish(LABELS, replace(AS_IT_IS, classes=given))
            for given in (["yes", "no", "maybe"], np.unique(LABELS), None)
        ]
        assert len({each.to_bytes() for each in made}) == 1

    def test_naming_or_agreed_rows_without_ids(self):
        with pytest.raises(InputError, match="the table has none; say which column has them") as failed:
            publish(LABELS, Hinting(1.0), naming=NAMINGS["hashed"])
        assert failed.value.parameters == ("id",)


@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": 0.001}, "epsilon"),
        ({"epsilon": 21}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": "2"}, "epsilon"),
        ({"epsilon": True}, "epsilon"),
        ({"epsilon": 1, "label": ""}, "label"),
        ({"epsilon": 1, "label": "a\nb"}, "label"),
        ({"epsilon": 1, "edges": ()}, "edges"),
        ({"epsilon": 1, "edges": (2, 1)}, "edges"),
        ({"epsilon": 1, "edges": (1, 1)}, "edges"),
        ({"epsilon": 1, "edges": (1, math.inf)}, "edges"),
        ({"epsilon": 1, "edges": ("a",)}, "edges"),
        ({"epsilon": 1, "edges": range(256)}, "edges"),
        ({"epsilon": 1, "classes": ["no"]}, "classes"),
        ({"epsilon": 1, "classes": ["no", "no", "yes"]}, "classes"),
        ({"epsilon": 1, "classes": [1, "yes"]}, "classes"),
        ({"epsilon": 1, "classes": [1, math.nan]}, "classes"),
        ({"epsilon": 1, "classes": ["no", ""]}, "classes"),
        ({"epsilon": 1, "classes": "no,yes"}, "classes"),
        ({"epsilon": 1, "classes": range(257)}, "classes"),
    ],
)
def test_settings_that_cannot_be(given, parameter):
    with pytest.raises(InputError, match=f"The '{parameter}' parameter of Hinting must be"):
        Hinting(**given)


def test_bins_have_no_classes_and_a_column_has_one_of_epsilon_and_proxy():
    with pytest.raises(InputError, match="classes.*or are numbers in bins .edges.; leave out one of the two"):
        Hinting(1.0, (0.5,), classes=(0, 1))
    assert Hinting.of("repaid", 2.0, None) == Hinting(2.0, label="repaid")
    assert Hinting.of("before", None, "last year's") == AS_IT_IS
    for epsilon, proxy in ((None, None), (2.0, "x")):
        with pytest.raises(InputError, match="Give the label epsilon .* Give one of the two") as failed:
            Hinting.of("repaid", epsilon, proxy)
        assert failed.value.parameters == ("epsilon", "proxy")


def test_what_users_give():
    assert as_hinting(None, "X") is None
    assert as_hinting(2, "X") == Hinting(2.0)
    assert as_hinting(np.float32(2), "X") == Hinting(2.0)
    assert as_hinting(Hinting(1.0, (3.0,)), "X").edges == (3.0,)
    ready = publish([0, 1], Hinting(1.0))
    assert as_hinting(ready, "X") is ready
    for wrong in (True, "2", [2.0]):
        with pytest.raises(InputError, match="The 'hints' parameter of X must be an epsilon, a Hinting, Hints or None"):
            as_hinting(wrong, "X")


@pytest.mark.parametrize("given", [math.inf, AS_IT_IS])
def test_the_label_itself_does_not_travel_as_it_is_by_accident(given):
    with pytest.raises(InputError, match="must be finite: fit hints at its own labels"):
        as_hinting(given, "X")
    with pytest.raises(InputError, match="'label' parameter of Hinting must be the name of a label that may travel"):
        Hinting(math.inf)


@pytest.mark.parametrize(("first", "second"), [(["a", "b", "c"], ["a", "c", "d"]), ([1, 2, 10], ["1", "2", "10"])])
def test_other_classes_have_noise_of_their_own(first, second):
    """Were it shared, answers that agree always would tell the rows whose class has the same number in both."""
    key, numbers = bytes(32), np.arange(600) % 3
    ids = np.array([f"C-{row}" for row in range(600)], dtype=object)
    one, two = (
        publish(np.array(classes)[numbers], Hinting(1.0), ids=ids, naming=Naming("plain"), key=key).answers
        for classes in (first, second)
    )
    differ = one != two
    assert all(0.4 < differ[numbers == number].mean() < 0.9 for number in range(3))


def test_ids_that_are_made_alike_have_the_same_noise():
    key, naming = bytes(32), Naming("plain", forms=("trim",))
    spelt = np.array([f" {each} " for each in IDS], dtype=object)
    one, two = (publish(LABELS, Hinting(1.0), ids=ids, naming=naming, key=key) for ids in (IDS, spelt))
    np.testing.assert_array_equal(one.answers, two.answers)
    assert Hinting(1.0, (-0.0, 1.0)) == Hinting(1.0, (0.0, 1.0))
    assert str(Hinting(1.0, (-0.0, 1.0)).edges) == "(0.0, 1.0)"


class TestAskedAgain:
    """Somebody collects all that a host ever publishes with one key, and reads labels from it."""

    N, EPSILON = 6000, 1.0
    IDS = np.array([f"p{row}" for row in range(N)], dtype=object)
    TRUE = np.random.default_rng(5).integers(0, 3, N)
    HOW = Hinting(EPSILON, label="repaid", classes=(0, 1, 2))

    def published(self, labels, rows, run="local", guest=None):
        """Return what a file says of each row; -1 where it is not in it."""
        agreed = None
        if guest is not None:
            agreed = AgreedRows.from_bytes(alignment.agreed_rows(self.IDS[rows], "bank", guest, run))
        naming = None if guest is not None else Naming("hashed" if run == "local" else "plain")
        hints = publish(
            labels[rows], self.HOW, party="bank", run=run, ids=self.IDS[rows], naming=naming, key=KEY, agreed=agreed
        )
        own = Table(("none",), True, columns=(np.zeros(self.N),), ids=self.IDS)
        return told(hints, own, agreed=agreed, guest=guest, run=run)

    def test_forty_publications_of_the_same_labels_say_no_more_than_one(self):
        rng, votes = np.random.default_rng(6), np.zeros((self.N, 3))
        seen = np.full(self.N, NO_HINT)
        for time in range(40):
            rows = rng.permutation(self.N)[: self.N if time == 0 else rng.integers(self.N // 2, self.N)]
            answers = self.published(
                self.TRUE, rows, f"run {time}" if time % 2 else "local", (None, "a", "b")[time % 3]
            )
            there = answers >= 0
            assert there.sum() == len(rows)
            assert (answers[there] == np.where(seen < 0, answers, seen)[there]).all()
            seen = np.where(there, answers, seen)
            votes[np.flatnonzero(there), answers[there]] += 1
        allowed = math.exp(self.EPSILON) / (math.exp(self.EPSILON) + 2)
        read = (votes.argmax(axis=1) == self.TRUE).mean()
        assert abs(read - allowed) <= 3 * math.sqrt(allowed * (1 - allowed) / self.N)

    def test_a_label_that_changed_is_answered_independently_and_the_change_shows(self):
        """Of which label it was, and which it is now, two answers say what the sum of their epsilons allows, and no more."""
        rows, later = np.arange(self.N), (self.TRUE + 1) % 3
        later[::2] = self.TRUE[::2]
        first, second = self.published(self.TRUE, rows), self.published(later, rows[::-1])
        same, changed = later == self.TRUE, later != self.TRUE
        assert (first[same] == second[same]).all()  # so an answer that differs is a label that changed
        assert (first[changed] != second[changed]).mean() > 0.5
        counts = np.zeros((3, 3, 3))  # by the label before, and both answers, in rows whose label moved on by one
        np.add.at(counts, (self.TRUE[changed], first[changed], second[changed]), 1)
        shares = counts / counts.sum(axis=(1, 2), keepdims=True)
        error = np.sqrt(shares * (1 - shares) / counts.sum(axis=(1, 2), keepdims=True))
        keep = math.exp(self.EPSILON) / (math.exp(self.EPSILON) + 2)
        told_as = np.full((3, 3), (1 - keep) / 2) + (keep - (1 - keep) / 2) * np.eye(3)
        wanted = np.stack([np.outer(told_as[label], told_as[(label + 1) % 3]) for label in range(3)])
        assert (
            np.abs(shares - wanted) <= 4 * np.sqrt(wanted * (1 - wanted) / counts.sum(axis=(1, 2))[:, None, None])
        ).all()
        lowest, highest = np.maximum(shares - 3 * error, 0), shares + 3 * error
        ratio = lowest.max(axis=0) / highest.min(axis=0)
        assert ratio.max() <= math.exp(2 * self.EPSILON)
        assert ratio.max() > math.exp(self.EPSILON)  # the second answer is no copy of the first


class TestOfAGuest:
    @pytest.mark.parametrize("name", NAMINGS)
    def test_by_ids_in_any_order_and_none_for_rows_that_the_host_lacks(self, name):
        hints = Hints.from_bytes(publish(LABELS, AS_IT_IS, ids=IDS, naming=NAMINGS[name]).to_bytes())
        order = np.random.default_rng(1).permutation(N)[:200]
        spelt = [f" {each.lower()}" if name == "trimmed" else each for each in IDS[order]]
        mine = np.array([*spelt, "stranger"], dtype=object)
        found = told(hints, shop(mine, 201), naming=NAMINGS[name])
        np.testing.assert_array_equal(found[:-1], codes()[order])
        assert found[-1] == NO_HINT

    def test_by_position(self):
        found = told(publish(LABELS, AS_IT_IS), shop())
        np.testing.assert_array_equal(found, codes())
        mask = np.arange(N) % 4 != 0
        np.testing.assert_array_equal(told(publish(LABELS, AS_IT_IS), shop(n=int(mask.sum())), mask), codes()[mask])

    @pytest.mark.parametrize("secret", [None, SECRET])
    def test_by_agreement(self, secret):
        common, mine = IDS[50:], np.concatenate([IDS[::-1], ["stranger"]])
        rows = AgreedRows.from_bytes(alignment.agreed_rows(common, "bank", "shop", "local", (), secret))
        naming = None if secret is None else NAMINGS["keyed"]
        hints = publish(LABELS, AS_IT_IS, ids=IDS, naming=naming, agreed=rows)
        assert (hints.ids, hints.n_rows, hints.rows) == (None, N - 50, rows.digest)
        found = told(hints, shop(mine, N + 1), naming=naming, agreed=rows)
        np.testing.assert_array_equal(found[: N - 50], codes()[::-1][: N - 50])
        assert (found[N - 50 :] == NO_HINT).all()

    def test_rows_that_were_agreed_and_are_not_there(self):
        rows = AgreedRows.from_bytes(alignment.agreed_rows(IDS, "bank", "shop", "local"))
        with pytest.raises(InputError, match="lacks rows that were agreed with 'shop'; give the one that was aligned"):
            publish(LABELS[1:], AS_IT_IS, ids=IDS[1:], agreed=rows)

    @pytest.mark.parametrize(
        ("naming", "own", "said", "parameter"),
        [
            ("keyed", None, "hashed with a secret; give the same to the guest", "secret"),
            ("keyed", Naming("keyed", b"t" * 32), "hashed with a secret; give the same", "secret"),
            ("keyed", NAMINGS["hashed"], "hashed with a secret; give the same", "secret"),
            ("hashed", NAMINGS["keyed"], "are hashed, made without the secret; let the host use it", "secret"),
            ("plain", NAMINGS["keyed"], "are plain, made without the secret; let the host use it", "secret"),
        ],
    )
    def test_a_secret_that_one_side_lacks(self, naming, own, said, parameter):
        hints = publish(LABELS, AS_IT_IS, ids=IDS, naming=NAMINGS[naming])
        with pytest.raises(MessageError, match=f"The hints of party 'host' are refused: .*{said}") as failed:
            told(hints, shop(IDS), naming=own)
        assert failed.value.parameters == (parameter,)

    def test_other_refusals(self):
        by_ids = publish(LABELS, AS_IT_IS, ids=IDS, naming=NAMINGS["plain"])
        rows = AgreedRows.from_bytes(alignment.agreed_rows(IDS, "bank", "utility", "local"))
        twice = replace(by_ids, ids=np.repeat(by_ids.ids[:1], N, axis=0))
        for hints, own, how, said in (
            (publish(LABELS, AS_IT_IS, run="other"), shop(), {}, "they belong to run 'other', this is run 'local'"),
            (by_ids, shop(), {}, r"the guest's table has none; say which column has them \(id\)"),
            (publish(LABELS, AS_IT_IS), shop(n=299), {}, "about 300 rows, and the agreed ones are 299"),
            (publish(LABELS, AS_IT_IS), shop(), {"mask": np.ones(301, bool)}, "the agreed ones are 301"),
            (publish(LABELS, AS_IT_IS), shop(IDS), {}, "not about rows that were agreed with this guest"),
            (publish(LABELS, AS_IT_IS, ids=IDS, agreed=rows), shop(IDS), {"agreed": rows}, "not about rows that were"),
            (by_ids, shop(np.char.lower(IDS.astype(str)).astype(object)), {}, r"none of their ids .* \(forms\)"),
            (twice, shop(IDS), {}, "they have two answers for the same row"),
        ):
            with pytest.raises(MessageError, match=said):
                told(hints, own, **how)

    def test_the_learner_is_wrapped_and_told(self):
        guest = Guest("shop", "pca", 3)
        learner, more = taken(guest.settings, guest.settings.learner, None, shop(), None, None, None)
        assert (learner, more) == (guest.settings.learner, {})
        hints = publish(LABELS, Hinting(2.0))
        learner, more = taken(guest.settings, guest.settings.learner, hints, shop(), None, None, None)
        assert isinstance(learner, Hinted)
        assert (learner.base, more["told"].classes, more["told"].epsilon) == ("pca", 3, 2.0)
        np.testing.assert_array_equal(more["told"].answers, hints.answers)

    def test_not_with_an_epsilon_for_each_row(self):
        guest = Guest("shop", dim=3, local_epsilon=4.0, public=Public(bounds=(-1e6, 1e6)))
        with pytest.raises(InputError, match="with a local epsilon .local_epsilon., not with both: .* not priced"):
            guest.learn(shop(), hints=publish(LABELS, Hinting(2.0)))

    @pytest.mark.parametrize(
        ("settings", "said", "parameter"),
        [
            ({"learner": "cells"}, r"the learner 'cells' \(learner\)", "learner"),
            ({"learner": "quantiles"}, r"the learner 'quantiles' \(learner\)", "learner"),
            ({"protect": "cells:20"}, r"a protection \(protect\)", "protect"),
        ],
    )
    def test_not_beside_values_on_steps_of_their_own(self, settings, said, parameter):
        guest = Guest("shop", dim=3, **settings)
        with pytest.raises(InputError, match=rf"Learn with hints \(hints\), or with {said}, not with both") as failed:
            guest.learn(shop(), hints=publish(LABELS, Hinting(2.0)))
        assert failed.value.parameters == ("hints", parameter)


BEYOND = ["0.0 x", "0.009 x", "20.1 x", "99.0 x", "2.00 x", "٣.0 x"]  # no epsilons of hints, or not written as one


class TestLearning:
    """A guest that learns with hints says so: in its messages, and where it is kept."""

    def made(self, epsilon=0.1 / 7, label="repaid"):
        guest = Guest("shop", "pca", 3)
        return guest, guest.learn(shop(), hints=publish(LABELS, Hinting(epsilon, label=label)))

    def test_messages_say_so(self):
        guest, message = self.made()
        assert message.hints == f"{0.1 / 7!r} repaid"
        assert Representation.from_bytes(message.to_bytes()).hints == message.hints
        assert guest.represent(shop()).hints == message.hints
        assert message.learner == "pca"  # to which hints were of no use
        assert "values by hints" in message.note

    def test_without_hints_nothing_is_said(self):
        message = Guest("shop", "pca", 3).learn(shop())
        assert message.hints == ""
        assert b"hints" not in message.to_bytes()

    def test_a_guest_that_learns_again_without_hints_says_so(self):
        guest, _ = self.made()
        assert guest.learn(shop()).hints == ""
        assert guest.learner.name == "pca"

    @pytest.mark.parametrize("label", ["repaid", "prêt 2025, a coarse one"])
    def test_saved_and_loaded(self, tmp_path, label):
        guest, message = self.made(2.0, label)
        loaded = Guest.load(guest.save(tmp_path))
        again = loaded.represent(shop())
        assert (again.hints, again.maker) == (f"2.0 {label}", message.maker)
        np.testing.assert_array_equal(again.values, message.values)
        assert json.loads((tmp_path / "manifest.json").read_text())["fedonce model"] == 7

    @pytest.mark.parametrize(
        "said", ["2", "2.0", " x", "2.0 a\nb", "2.0 " + "x" * 101, "nan x", 2, None, "-1.0 x", *BEYOND]
    )
    def test_a_folder_or_message_that_says_something_else_is_refused(self, tmp_path, said):
        guest, message = self.made()
        stored = storage.load(guest.save(tmp_path / "good"), "guest")
        stored.settings["hints"] = said
        storage.save(tmp_path / "bad", stored)
        with pytest.raises(FedOnceError):
            Guest.load(tmp_path / "bad")
        if isinstance(said, str):
            with pytest.raises(MessageError, match="it says of hints"):
                Representation.from_bytes(replace(message, hints=said).to_bytes())

    def test_hints_of_other_rows_or_runs_are_refused_before_anything_is_learnt(self):
        guest = Guest("shop", "pca", 3, run="loans")
        with pytest.raises(MessageError, match="they belong to run 'local', this is run 'loans'"):
            guest.learn(shop(), hints=publish(LABELS, Hinting(1.0)))
        assert guest.state.hints == ""
        with pytest.raises(InputError, match="has not learnt"):
            guest.represent(shop())

    def test_by_ids_and_masks(self):
        naming = NAMINGS["keyed"]
        hints = publish(LABELS, Hinting(3.0), ids=IDS, naming=naming)
        assert Guest("shop", "pca", 3).learn(shop(IDS[::-1].copy()), naming=naming, hints=hints).hints == "3.0 label"
        mask = np.arange(N) % 4 != 0
        guest = Guest("shop", "pca", 3)
        message = guest.learn(shop(n=int(mask.sum())), mask, hints=publish(LABELS, Hinting(3.0)))
        assert (message.hints, message.n_rows) == ("3.0 label", N)
