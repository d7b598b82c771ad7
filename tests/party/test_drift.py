from __future__ import annotations

import json
import logging
import warnings
from dataclasses import replace

import numpy as np
import pytest

from fedonce import FedOnceClassifier, Guest, Host, MessageError
from fedonce.errors import FedOnceWarning
from fedonce.party import drift
from fedonce.party.drift import Seen

KINDS = {
    "normal": lambda rng, shape: rng.standard_normal(shape) * np.linspace(0.1, 10, shape[1]),
    "heavy tails": lambda rng, shape: rng.standard_t(1.5, shape),
    "rare": lambda rng, shape: (rng.random(shape) < np.linspace(0.01, 0.5, shape[1])).astype(float),
    "mostly zero": lambda rng, shape: np.where(rng.random(shape) < 0.85, 0, rng.exponential(1, shape)),
    "constant": lambda rng, shape: np.ones(shape),
}


def learnt(rows, learner="pca", bits=8, dim=4):
    """A guest, and the figures of its training message."""
    guest = Guest("shop", learner, dim, bits, epochs=3 if learner in ("nat", "autoencoder") else None)
    return guest, Seen.of(guest.learn(rows))


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).standard_normal((1000, 6)) + 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("learner", ["pca", "autoencoder", "nat"])
def test_honest_rows_are_never_odd(kind, learner):
    """Random splits, few and many rows of training, and batches of a single row, which is constant by nature, to all."""
    rng = np.random.default_rng([len(kind), len(learner)])
    for trained, columns, bits in ((30, 1, 8), (60, 40, 32), (60, 3, 4), (300, 8, 8), (300, 8, 32)):
        rows = KINDS[kind](rng, (trained + 800, columns))
        guest, seen = learnt(rows[:trained], learner, bits)
        rest = guest.represent(rows[trained:])
        for size in (*range(1, 21), 50, 200, 800):
            chosen = rng.choice(800, size, replace=False)
            some = replace(rest, values=rest.values[chosen], written=rest.codec.encode(rest.values[chosen]))
            assert seen.oddities(some) == []


@pytest.mark.parametrize("bits", [8, 32])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda x: 1000 * x, "% of its values lie at or beyond the ends of the training's range"),
        (lambda x: x + 5, "% of its values lie at or beyond the ends of the training's range"),
        (lambda x: x * np.array([5, 1, 1, 1, 1, 1]), "values per row (another scale, or other columns?)"),
        (lambda x: x[:1] + 0 * x, "all of its {} rows have the same values"),
        (lambda x: 3 + (x - 3) / 50, "% of what they were in training"),
    ],
    ids=["larger", "shifted", "one column", "constant", "smaller"],
)
def test_what_does_not_look_like_the_training_is_told(rows, change, said, bits):
    guest, seen = learnt(rows[:500], bits=bits, dim=6)
    for size in (40, 500):
        odd = " ".join(seen.oddities(guest.represent(change(rows[500 : 500 + size]))))
        assert said.format(size) in odd


def test_one_row_far_beyond_is_told(rows):
    guest, seen = learnt(rows, bits=32)
    message = guest.represent(rows[:1])
    (said,) = seen.oddities(replace(message, values=message.values * np.float32(1e6)))
    assert said == "1 of its 1 rows have a value more than 10 times the training's range beyond it"


def test_the_training_message_itself_is_told(rows):
    guest, seen = learnt(rows)
    assert "message of the training" in seen.oddities(guest.represent(rows))[0]
    assert seen.oddities(guest.represent(rows[:-1])) == []
    guest, seen = learnt(np.ones((1000, 2)))  # of which every message for a thousand rows is the same
    assert seen.oddities(guest.represent(np.ones((1000, 2)))) == []


def test_wide_messages_and_empty_ones(rows):
    wide = np.tile(rows, (1, 10))
    guest, seen = learnt(wide, "random", dim=60)
    assert seen.quantiles.shape == (drift.MOST_VALUES, 21)
    assert len(json.dumps(seen.to_json())) < 20_000
    assert seen.oddities(guest.represent(wide[:0])) == []
    empty = Seen.of(guest.represent(wide[:0]))
    assert empty.oddities(guest.represent(wide[:20])) == []


def test_figures_come_back_from_json(rows):
    guest, seen = learnt(rows)
    again = Seen.from_json(json.loads(json.dumps(seen.to_json())))
    for odd in (rows * 100, rows):
        assert again.oddities(guest.represent(odd)) == seen.oddities(guest.represent(odd)) != []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300])
def test_figures_must_be_finite(rows, value):
    content = learnt(rows)[1].to_json()
    content["quantiles"][0][-1] = value
    with pytest.raises(ValueError, match="quantiles"):
        Seen.from_json(content)


@pytest.mark.parametrize("rows_then", [2 * 10**7, drift.ROW_LIMIT])
def test_very_many_rows_are_counted_as_fewer(rows, rows_then, monkeypatch):
    """What is odd stays odd and what is not does not, and no chance is computed for more rows than a moment allows."""
    guest, seen = learnt(rows)
    most, asked = drift.stats.hypergeom.sf, []
    monkeypatch.setattr(drift.stats.hypergeom, "sf", lambda *given: asked.append(given[1]) or most(*given))
    times = rows_then // seen.rows
    many = replace(seen, checksum="", rows=rows_then, edges=seen.edges * times, tails=seen.tails * times)
    assert many.oddities(guest.represent(rows)) == []
    for change in (rows * 100, rows[:1] + 0 * rows):
        assert (
            many.oddities(guest.represent(change)) == replace(seen, checksum="").oddities(guest.represent(change)) != []
        )
    assert max(asked) <= 2 * drift.COUNTED


def test_check_warns_or_refuses_by_name(rows, caplog):
    guest, seen = learnt(rows)
    odd = guest.represent(rows * 100)
    with pytest.warns(FedOnceWarning, match=r"party 'shop': \d+ % of its values lie at or beyond"):
        drift.check({"shop": seen}, [odd])
    with pytest.raises(MessageError, match=r"party 'shop' is refused \(strict\): \d+ % of its values"):
        drift.check({"shop": seen}, [odd], strict=True)
    drift.check({"shop": seen}, [guest.represent(rows[:7])], strict=True)
    with caplog.at_level(logging.DEBUG, "fedonce.party.drift"), warnings.catch_warnings():
        warnings.simplefilter("error")
        drift.check({}, [odd], strict=True)
    assert "no figures of its training message" in caplog.text


def test_with_a_budget_no_figures_of_rows_are_kept(rows):
    """Quantiles of private rows' values would be in the released model, and nobody has paid for them."""
    model = FedOnceClassifier(
        {"bank": [0, 1], "shop": [2, 3]},
        learner="random",
        host_epochs=1,
        epsilon=2.0,
        delta=1e-4,
        accountant="rdp",
        bounds=(-3, 9),
        target_bounds=[0, 1],
    )
    model.fit(rows[:, :4], np.arange(1000) % 2)
    assert model._host.seen == {}
    spent = replace(learnt(rows[:100])[0].learn(rows[:100]), spent="[]")
    host = Host("bank", epochs=1)
    host.aggregate(rows[:100, :2], np.arange(100) % 2, [spent])
    assert host.seen == {}


def test_a_host_has_figures_of_its_guests(rows):
    guest, seen = learnt(rows[:200])
    host = Host("bank", epochs=1)
    host.aggregate(rows[:200, :2], np.arange(200) % 2, [guest.learn(rows[:200])])
    assert host.seen["shop"].to_json() == seen.to_json()
