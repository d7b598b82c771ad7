from __future__ import annotations

import numpy as np

from fedonce.assess.attacks.base import Exposed
from fedonce.assess.attacks.known_network import KnownRowsByNetwork
from fedonce.assess.attacks.known_rows import KnownRows
from fedonce.data.table import Table


def test_a_network_finds_what_a_line_does_not_with_gaps_and_categories_beside():
    rng = np.random.default_rng(0)
    hidden = rng.uniform(-2, 2, (3000, 2))
    folded = np.where(rng.random(3000) < 0.2, np.nan, hidden[:, 0] * hidden[:, 1])
    side = np.where(hidden.sum(axis=1) > 0, "left", "right").astype(object)
    table = Table(("folded", "side"), named=True, columns=(folded, side))
    exposed = Exposed(hidden, table)
    by = {each.column: each for each in KnownRowsByNetwork(shares=(0.75,)).run(exposed, np.random.default_rng(0))}
    assert by["folded"].score > 0.8
    assert by["side"].score > 0.9
    assert by["folded"].way == "network"
    assert by[None].kind == "record"
    line = {each.column: each for each in KnownRows(shares=(0.75,)).run(exposed, np.random.default_rng(0))}
    assert line["folded"].way == "neighbours"


def test_whole_records_count_rows_with_every_column_right():
    rng = np.random.default_rng(0)
    flags = rng.random((2000, 3)) < 0.5
    table = Table.of(flags)
    all_sent = KnownRows(shares=(0.1,)).run(Exposed(flags.astype(float), table), np.random.default_rng(0))
    two_sent = KnownRows(shares=(0.1,)).run(Exposed(flags[:, :2].astype(float), table), np.random.default_rng(0))
    whole, part = all_sent[-1], two_sent[-1]
    assert (whole.kind, whole.score, whole.verdict) == ("record", 1.0, "readable")
    assert 0.4 < part.score < 0.6
    assert whole.guess < 0.2
    assert whole.control < 0.2


def test_fewer_known_rows_tell_less():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 6))
    values = X + 0.3 * rng.standard_normal(X.shape)
    found = [
        each for each in KnownRows().run(Exposed(values, Table.of(X)), np.random.default_rng(0)) if each.column == 0
    ]
    assert [each.knows for each in found] == [0.001, 0.01, 0.1, 0.75]
    assert found[0].score < found[1].score < found[3].score + 0.01
