"""The book of what was disclosed of each row: the same answer costs once, another one again, and a policy limits the sum."""

from __future__ import annotations

import secrets

import numpy as np
import pytest

from fedonce.errors import InputError
from fedonce.federation import disclosures
from fedonce.federation.disclosures import BOOK, Book, tokens
from fedonce.federation.workplace import Failed, Refused
from fedonce.messages.representation import Representation
from tests.federation.responders import a_responder, asks, rows_of

KEY = bytes(32)
ROWS = ["a", "b", "c"]


def entered(
    book: Book, cells: list[int], epsilon: float = 2.0, most: float | None = 4.0, purpose: str = "p"
) -> list[bool]:
    rows, answers = tokens(KEY, ROWS[: len(cells)], [b"%d" % cell for cell in cells], purpose)
    return book.enter(rows, answers, epsilon, most).tolist()


def test_the_same_answer_costs_once(tmp_path):
    for _ in range(10):
        assert entered(Book(tmp_path), [1, 2, 3]) == [True] * 3
    assert Book(tmp_path).worst() == 2.0


def test_a_row_that_changes_costs_again_until_the_policy_s_limit(tmp_path):
    book = Book(tmp_path)
    assert entered(book, [1, 2, 3]) == [True] * 3
    assert entered(book, [1, 5, 3]) == [True] * 3
    assert book.worst() == 4.0
    assert entered(book, [1, 6, 4]) == [True, False, True]
    assert entered(book, [1, 5, 4]) == [True] * 3  # what it has disclosed before it may repeat
    assert book.worst() == 4.0


def test_another_encoder_or_epsilon_is_another_disclosure(tmp_path):
    book = Book(tmp_path)
    assert entered(book, [1, 2, 3]) == [True] * 3
    assert entered(book, [1, 2, 3], epsilon=3.0, purpose="q") == [False] * 3
    assert entered(book, [1, 2, 3], purpose="r") == [True] * 3


def test_without_a_limit_it_is_counted_all_the_same(tmp_path):
    for cell in range(5):
        assert entered(Book(tmp_path), [cell], most=None) == [True]
    assert Book(tmp_path).worst() == 10.0


def test_a_year_later_the_sum_begins_again(tmp_path, monkeypatch):
    book = Book(tmp_path)
    entered(book, [1])
    entered(book, [2])
    assert entered(book, [3]) == [False]
    monkeypatch.setattr(disclosures, "YEAR", 0)
    assert entered(book, [3]) == [True]


def test_the_book_names_nobody(tmp_path):
    entered(Book(tmp_path), [1, 2, 3])
    content = (tmp_path / BOOK).read_bytes()
    assert content.count(b"a") < 60
    other = tokens(bytes([1] * 32), ROWS, [b"1"] * 3, "p")[0]
    assert not np.isin(other, np.load(tmp_path / BOOK)["row"]).any()
    assert (tmp_path / BOOK).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", [b"", b"garbage", "short"])
def test_a_damaged_book_is_an_error(tmp_path, damage):
    entered(Book(tmp_path), [1, 2, 3])
    path = tmp_path / BOOK
    path.write_bytes(path.read_bytes()[:-5] if damage == "short" else damage)
    with pytest.raises(InputError, match="put it back from a backup"):
        entered(Book(tmp_path), [1, 2, 3])


@pytest.fixture
def responder(tmp_path):
    """A guest whose policy lets a row cost epsilon 4 a year, and that has bounds for its columns."""
    return a_responder(tmp_path, policy="max_local_epsilon = 4.0\n")


def predicted(responder, model: str, rows: bytes) -> Representation:
    asked = asks("represent", model=model, rows=rows, nonce=secrets.token_hex(8))
    return Representation.from_bytes(responder.answer(asked).read_bytes(), "shop")


def test_a_guest_repeats_its_answers_and_leaves_rows_out_at_the_limit(responder):
    rows = rows_of(responder)
    request = asks(learner="auto", dim=8, local_epsilon=2.0, naming="agreed", rows=rows)
    first = Representation.from_bytes(responder.answer(request).read_bytes(), "shop")
    for _ in range(3):
        np.testing.assert_array_equal(predicted(responder, request.fingerprint, rows).values, first.values)
    present, moved = [], []
    table = responder.kit / "shop.csv"
    head, one, *rest = table.read_text().splitlines()
    number = one.split(",")[0]
    for night in range(6):
        values = np.random.default_rng(night).uniform(-6, 6, len(one.split(",")) - 1)
        table.write_text("\n".join([head, ",".join([number, *map(str, values)]), *rest]) + "\n")
        sent = predicted(responder, request.fingerprint, rows)
        present.append(len(sent.values))
        if sent.present is None:
            moved.append(int((sent.values != first.values).any(axis=1).sum()))
    assert set(present) == {len(rest), len(rest) + 1}  # in its first or its second cell again the row is there
    assert max(moved) <= 1  # its own answer alone, which may be the one of before by chance
    assert Book(responder.record.folder).worst() == 4.0


def test_another_learning_beyond_the_limit_is_refused(responder):
    """Another run with another seed has another encoder: each row would be disclosed again."""
    for seed, run in enumerate(("one", "two")):
        responder.answer(asks(run=run, learner="auto", dim=8, local_epsilon=2.0, seed=seed))
    with pytest.raises(Refused, match="as much of these rows as it allows"):
        responder.answer(asks(run="three", learner="auto", dim=8, local_epsilon=2.0, seed=2))
    responder.answer(
        asks(run="four", learner="auto", dim=8, local_epsilon=2.0, seed=0)
    )  # as in the first: the same answers


def test_one_row_decides_neither_a_refusal_nor_what_a_column_holds(responder):
    """Figures of raw rows do not refuse a message with a local epsilon; an undeclared column stops every training alike."""
    (responder.kit / "policy.toml").write_text("max_rebuilt = 0.0\n")
    responder.answer(asks(learner="auto", dim=8, local_epsilon=8.0))
    (responder.kit / "public.toml").write_text("[bounds]\nc0 = [-6, 6]\nc1 = [-6, 6]\nc2 = [-6, 6]\n")
    with pytest.raises(Failed, match="its log says why"):
        responder.answer(asks(run="another", learner="auto", dim=8, local_epsilon=8.0))
