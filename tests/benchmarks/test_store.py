from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor

import pytest
import torch

from benchmarks import store
from fedonce import InputError


def test_lines_come_back_in_order(tmp_path):
    path = tmp_path / "results" / "x.jsonl"
    assert store.read(path) == []
    for number in range(3):
        store.append(path, {"n": number})
    assert store.read(path) == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_a_line_cut_in_the_middle_is_dropped_with_a_word(tmp_path, capsys):
    path = tmp_path / "x.jsonl"
    path.write_text('{"n": 0}\n{"n": 1}\n{"n": 2, "val')
    assert store.read(path) == [{"n": 0}, {"n": 1}]
    assert "the last line was cut off and is dropped" in capsys.readouterr().out
    assert path.read_text() == '{"n": 0}\n{"n": 1}\n'
    store.append(path, {"n": 3})
    assert store.read(path) == [{"n": 0}, {"n": 1}, {"n": 3}]
    assert not capsys.readouterr().out


def test_a_line_that_lost_its_end_of_line_alone_is_made_again_too(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"n": 0}\n{"n": 1}')
    assert store.read(path) == [{"n": 0}]
    store.append(path, {"n": 1})
    assert store.read(path) == [{"n": 0}, {"n": 1}]


def test_results_can_be_read_without_the_right_to_write(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"n": 0}\n')
    path.chmod(0o444)
    assert store.read(path) == [{"n": 0}]


def test_a_broken_line_elsewhere_is_an_error_that_names_it(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"n": 0}\n{"n": \n{"n": 2}\n')
    with pytest.raises(InputError, match=r"x\.jsonl: line 2 is not JSON"):
        store.read(path)
    assert path.read_text().count("\n") == 3


def _write(arguments):
    path, start = arguments
    for number in range(start, start + 50):
        store.append(path, {"n": number, "text": "x" * 500})


def test_processes_may_share_a_file(tmp_path):
    path = tmp_path / "x.jsonl"
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(_write, [(path, 0), (path, 50)]))
    assert sorted(line["n"] for line in store.read(path)) == list(range(100))


def test_origin_names_version_commit_and_machine():
    found = store.origin("cpu")
    assert set(found) == {"version", "commit", "machine"}
    assert found["machine"]
    json.dumps(found)


def test_a_machine_that_trained_in_numbers_of_half_the_length_says_so():
    """And no step goes on with weights of before it, which torch keeps unless told otherwise."""
    layer = torch.nn.Linear(4, 1)
    store.origin.cache_clear()
    with store.mixed_precision(True):
        assert store.origin("cpu")["machine"].endswith(", bfloat16")
        before = layer(torch.ones(1, 4))
        with torch.no_grad():
            layer.weight += 1
        assert (layer(torch.ones(1, 4)) - before).item() == pytest.approx(4, abs=0.1)
        assert layer.double()(torch.ones(1, 4, dtype=torch.float64)).dtype == torch.float64  # what is sent is exact
    store.origin.cache_clear()
    with store.mixed_precision(False):
        assert "bfloat16" not in store.origin("cpu")["machine"]
    store.origin.cache_clear()
