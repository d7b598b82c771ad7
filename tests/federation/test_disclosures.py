"""The book of what was disclosed of each row: the same answer costs once, another one again, and a policy limits the sum."""

from __future__ import annotations

import numpy as np
import pytest

from fedonce.errors import InputError
from fedonce.federation import disclosures
from fedonce.federation.disclosures import BOOK, Book, tokens

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
