"""What each row was told: counted once for the same label told the same way, and kept as digests."""

from __future__ import annotations

import json

import numpy as np

from fedonce.jobs.hint_rows import RowSums, Tellings

KEY, OTHER = b"k" * 32, b"o" * 32
IDS = np.array([f"c{i}" for i in range(50)], dtype=object)
CODES = np.arange(50) % 3


def tellings(ids=IDS, codes=CODES, way="a way", key=KEY):
    return Tellings.of(key, way, ids, codes)


def bytes_of(digests):
    return [each.tobytes() for each in digests]


def test_digests_are_by_key_way_label_and_id():
    first = tellings()
    assert first.rows.shape == first.told.shape == (50, 16)
    assert bytes_of(first.told) == bytes_of(tellings().told)
    for other in (tellings(key=OTHER), tellings(way="another"), tellings(codes=CODES + 1)):
        assert not set(bytes_of(first.told)) & set(bytes_of(other.told))
    assert bytes_of(tellings(way="another").rows) == bytes_of(first.rows)
    assert not set(bytes_of(tellings(key=OTHER).rows)) & set(bytes_of(first.rows))


def test_a_code_and_an_id_cannot_be_taken_for_another_pair():
    """1 of "2\\nx" is not 12 of "x"."""
    pairs = [(1, "2\nx"), (12, "x"), (1, "\n2\nx"), (2, "x")]
    digests = {bytes_of(tellings(np.array([name], object), np.array([code])).told)[0] for code, name in pairs}
    assert len(digests) == len(pairs)


def test_rows_of_several_files_count_once():
    parts = [tellings(IDS[:30], CODES[:30]), tellings(IDS[20:], CODES[20:])]
    both = Tellings.together(parts)
    assert set(bytes_of(both.rows)) == set(bytes_of(tellings().rows))
    assert len(both.rows) == len(both.told) == 50


def test_sums_follow_each_row():
    books, anew = RowSums().adding(tellings(), 2.0, 0.0)
    assert (books.largest, len(anew.sums), anew.new, anew.strange) == (2.0, 50, 50, False)
    same, anew = books.adding(tellings(), 2.0, 0.0)
    assert same is books
    assert len(anew.sums) == 0
    codes = CODES.copy()
    codes[7] = (codes[7] + 1) % 3
    books, anew = books.adding(tellings(codes=codes), 2.0, 0.0)
    assert anew.sums.tolist() == [4.0]
    assert sorted(books.sums.tolist()) == [2.0] * 49 + [4.0]
    late = tellings(np.append(IDS, "late"), np.append(CODES, 0))
    books, anew = books.adding(late, 2.0, 1.0)
    assert anew.sums.tolist() == [3.0]  # a row that is not known starts from 1


def test_rows_that_had_another_label_are_counted():
    books, _ = RowSums().adding(tellings(), 2.0, 0.0)
    codes = CODES.copy()
    codes[:5] = (codes[:5] + 2) % 3
    now = tellings(codes=codes)
    _, anew = books.adding(now, 2.0, 0.0)
    assert anew.known.tolist() == [0, 1, 2, 3, 4]
    assert books.changed(KEY, "a way", 3, now, anew.known) == 5
    assert books.changed(KEY, "another", 3, now, anew.known) == 0
    assert books.changed(KEY, "a way", 3, now, anew.known[:0]) == 0


def test_what_is_written_is_read():
    books, _ = RowSums().adding(tellings(), 2.0, 0.0)
    for each in (RowSums(), books, books.raised(0.25)):
        again = RowSums.from_json(json.loads(json.dumps(each.to_json())))
        assert (bytes_of(again.rows), bytes_of(again.told)) == (bytes_of(each.rows), bytes_of(each.told))
        np.testing.assert_array_equal(again.sums, each.sums)
        assert again.to_json() == each.to_json()
