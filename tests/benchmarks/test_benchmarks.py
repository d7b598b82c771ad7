"""The measurements run, in small, and their tables come out; real data where FEDONCE_DATA has them."""

from __future__ import annotations

import json

import numpy as np
from joblib.externals.loky import get_reusable_executor

from benchmarks import data, learners, nat_speed, tables
from fedonce import FedOnceClassifier


def test_nat_speed_compares_like_with_like(monkeypatch):
    monkeypatch.setattr(nat_speed, "ROWS", 600)
    names = ["guest0", "guest1"]
    rows = {name: nat_speed.table(seed) for seed, name in enumerate(names)}
    _, expected = nat_speed.plain(names, rows, 3)
    try:
        _, found = nat_speed.ours(names, rows, 3, 2)
    finally:
        get_reusable_executor().shutdown(wait=True)
    for name in names:
        np.testing.assert_allclose(found[name], expected[name], rtol=0.01)


def test_learners_writes_a_line_per_run_and_skips_what_is_there(tmp_path, monkeypatch):
    out = tmp_path / "learners.jsonl"
    arguments = [
        "learners",
        "--data",
        "digits",
        "--learners",
        "solo,pca",
        "--dims",
        "2",
        "--seeds",
        "1",
        "--out",
        str(out),
    ]
    monkeypatch.setattr("sys.argv", arguments)
    learners.main()
    learners.main()
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["key"][1] for line in lines] == ["solo", "pca"]
    assert lines[1]["payload_bytes"] == 3 * lines[1]["rows"] * 2
    assert lines[1]["value"] > lines[0]["value"]


def test_tables_show_the_committed_results():
    readme = (tables.ROOT / "README.md").read_text()
    assert tables.digits_table() in readme
    assert tables.bench_table() in readme
    assert tables.learners_table("test", ("solo", "auto", "combine"), with_bytes=True) in readme


def test_phishing(data_folder):
    source = data.phishing(data_folder)
    X, X_test, y, y_test = source.split(seed=0)
    model = FedOnceClassifier(source.parties, host_epochs=5, random_state=0).fit(X, y)
    assert X.shape == (9949, 68)
    assert model.traffic_.messages == 9
    assert model.score(X_test, y_test) > 0.94
