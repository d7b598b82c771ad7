from __future__ import annotations

import sys

import numpy as np
import pytest

from fedonce.assess.importance import Worth, explain, plot
from fedonce.errors import InputError

DIMS = {"shop": 2, "utility": 1, "idle": 1}
WORTHS = [
    Worth("bank", 0.08, 0.004, None, 100),
    Worth("shop " + "x" * 60, 0.05, 0.006, 0.03, 80),
    Worth("$a_$", -0.001, 0.002, 0.0, 100),
]


def arranged(n=1000):
    """Own column, two guests that matter and one that does not; the first lacks half of the rows."""
    rng = np.random.default_rng(0)
    own, values = (rng.standard_normal((n, width)).astype(np.float32) for width in (1, 4))
    present = np.ones((n, 3), np.float32)
    present[: n // 2, 0] = 0
    values[: n // 2, :2] = 0
    return own, values, present


def scorer(own, values, present):
    """Score by the error of a known sum: the shop's first value counts double, and only where the shop is present."""
    target = own[:, 0] + 2 * values[:, 0] * present[:, 0] + values[:, 2]

    def score(own, values, present):
        assert set(np.unique(present)) <= {0, 1}
        assert not values[present[:, 0] == 0, :2].any()  # values and marks move together
        return -float(np.sqrt(np.mean((own[:, 0] + 2 * values[:, 0] * present[:, 0] + values[:, 2] - target) ** 2)))

    return score


def test_each_party_is_worth_what_the_score_loses_without_it():
    arrays = arranged()
    kept = [array.copy() for array in arrays]
    found = explain(scorer(*arrays), *arrays, DIMS, "bank", repeats=4, seed=1)
    assert [worth.party for worth in found] == ["bank", "shop", "utility", "idle"]
    assert [worth.rows for worth in found] == [1000, 500, 1000, 1000]
    # Shuffling a column of variance v costs sqrt(2 v); zeros in its place cost sqrt(v).
    np.testing.assert_allclose([worth.drop for worth in found], [2**0.5, 2.0, 2**0.5, 0], rtol=0.1)
    np.testing.assert_allclose([worth.absent for worth in found[1:]], [2**0.5, 1.0, 0], rtol=0.1)
    assert found[0].absent is None
    assert all(0 < worth.spread < 0.2 for worth in found[:3])
    assert found[3].spread == 0
    assert all(np.array_equal(before, after) for before, after in zip(kept, arrays, strict=True))
    assert explain(scorer(*arrays), *arrays, DIMS, "bank", repeats=4, seed=1) == found
    assert explain(scorer(*arrays), *arrays, DIMS, "bank", repeats=4, seed=2) != found


def test_a_host_without_guests_is_worth_something():
    own = np.arange(10, dtype=np.float32)[:, None]
    nothing = np.zeros((10, 0), np.float32)
    found = explain(lambda o, v, p: float((o == own).mean()), own, nothing, nothing, {}, "bank", repeats=1)
    assert [(worth.party, worth.spread) for worth in found] == [("bank", 0.0)]
    assert found[0].drop > 0.5


def test_what_does_not_fit_is_refused():
    own, values, present = arranged(10)
    with pytest.raises(InputError, match="'repeats' parameter of explain must be a positive integer. Got 0"):
        explain(scorer(own, values, present), own, values, present, DIMS, "bank", repeats=0)
    with pytest.raises(InputError, match="must have shapes"):
        explain(scorer(own, values, present), own, values[:, :3], present, DIMS, "bank")
    with pytest.raises(InputError, match="two labelled rows"):
        explain(scorer(own, values, present), own[:1], values[:1], present[:1], DIMS, "bank")


@pytest.mark.parametrize(("name", "start"), [("worth.png", b"\x89PNG"), ("worth.SVG", b"<?xml")])
def test_plot_writes_the_format_of_the_ending(tmp_path, name, start):
    path = plot(WORTHS, tmp_path / name, "accuracy")
    assert path.read_bytes().startswith(start)
    assert [each.name for each in tmp_path.iterdir()] == [name]
    if name.endswith("png"):
        assert int.from_bytes(path.read_bytes()[16:20], "big") == 1200


def test_plot_sorts_shortens_and_takes_names_as_they_are(tmp_path):
    plot(WORTHS, tmp_path / "worth.svg", "accuracy")
    text = (tmp_path / "worth.svg").read_text()
    places = [text.index(f"<!-- {label} -->") for label in ("$a_$", "shop xxxxxxxxxxxxxxxx...", "bank (host)")]
    assert places == sorted(places)  # from the bottom up
    assert "x" * 30 not in text


def test_plot_says_what_it_lacks(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="end in .png or .svg"):
        plot(WORTHS, tmp_path / "worth.pdf", "accuracy")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r"pip install 'fedonce\[report\]'"):
        plot(WORTHS, tmp_path / "worth.png", "accuracy")
    assert not list(tmp_path.iterdir())
