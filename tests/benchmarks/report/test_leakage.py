"""What is read in messages, and what it costs: a row for each data set and message."""

from __future__ import annotations

from benchmarks.report import leakage, leakage_picture


def line(value=90.0, seed=0, points=12.0, **config):
    found = {"columns": 7, "readable": 2, "gain": 0.5, "points": points}
    return {
        "data": "shop",
        "loader": {},
        "division": {},
        "config": {"model": "trees", "dim": 8} | config,
        "seed": seed,
        "value": value,
        "metric": "accuracy",
        "parties": 3,
        "rows": 100,
        "payload": 500,
        "complete": True,
        "attacks": ["yes/no columns"],
        "by nothing": found,
        "by wider": {"columns": 0, "readable": 0},
        "by known": found | {"readable": 3, "gain": 0.9, "points": None},
    }


def test_a_message_that_was_attacked_before_all_attacks_were_known_has_a_mark(monkeypatch):
    earlier = line(protect="cells:20")
    del earlier["attacks"]
    monkeypatch.setattr(leakage, "results", lambda name: [line(learner="pca"), earlier])
    rows = [row.strip("| ").split(" | ") for row in leakage.section().splitlines()[2:]]
    assert [row[1] for row in rows] == ["pca 8x8", "protect cells:20 †"]


def test_runs_are_told_by_what_was_sent(monkeypatch):
    lines = [
        line(learner="pca"),
        line(92.0, 1, learner="pca"),
        line(learner="pca", noise=0.3),
        line(protect="cells:20"),
        line(dim=16, local_epsilon=4),
    ]
    monkeypatch.setattr(leakage, "results", lambda name: lines)
    rows = [row.strip("| ").split(" | ") for row in leakage.section().splitlines()[2:]]
    assert [row[1] for row in rows] == [
        "pca 8x8",
        "pca 8x8, noise 0.3",
        "protect cells:20",
        "16 cells, local epsilon 4",
    ]
    assert rows[0] == [
        "shop of the example (3)",
        "pca 8x8",
        "91.00 ± 1.00 (2)",
        "2.50",
        "2 of 7",
        "0 of 0",
        "3 of 7",
        "50 %; yes/no: 12.0 points above guessing",
        "-",
        "90 %",
    ]


def test_the_picture_is_drawn(monkeypatch, tmp_path):
    monkeypatch.setattr(leakage_picture, "results", lambda name: [line(learner="pca"), line(protect="cells:20")])
    leakage_picture.draw(tmp_path)
    assert (tmp_path / "leakage.png").stat().st_size > 1000


def read_less(found, gain):
    return found | {"by nothing": found["by nothing"] | {"gain": gain}}


def test_sweet_spots_are_beaten_by_none_and_pca_stands_beside_them(monkeypatch):
    lines = [
        line(90.0, learner="pca"),
        line(91.0, learner="autoencoder"),
        read_less(line(85.0, learner="random"), 0.4),
        read_less(line(86.0, protect="cells:20"), 0.3),
    ]
    monkeypatch.setattr(leakage, "results", lambda name: lines)
    rows = [row.strip("| ").split(" | ") for row in leakage.sweet_spots().splitlines()[2:]]
    assert [row[1] for row in rows] == ["pca 8x8", "autoencoder 8x8", "protect cells:20"]


def test_of_errors_the_least_is_the_best(monkeypatch):
    lines = [
        line(value, learner=name) | {"metric": "rmse"} for value, name in ((0.2, "pca"), (0.1, "nat"), (0.3, "random"))
    ]
    monkeypatch.setattr(leakage, "results", lambda name: lines)
    assert [row.split(" | ")[1] for row in leakage.sweet_spots().splitlines()[2:]] == ["pca 8x8", "nat 8x8"]


def test_of_images_the_mean_over_pixels_counts(monkeypatch):
    found = line(learner="pca") | {"data": "mnist"}
    found["by known"] = found["by known"] | {"mean_gain": 0.25}
    assert leakage.read([found]) == 0.25
    assert leakage.read([line(learner="pca")]) == 0.5
    monkeypatch.setattr(leakage, "results", lambda name: [found])
    assert leakage.section().splitlines()[2].endswith("| 25 % of a pixel, mean |")


def test_marks_that_would_hide_each_other_stand_apart():
    points = leakage_picture._apart(
        [leakage_picture.Point([line(value, learner="pca")]) for value in (90.0, 90.1, 95.0)]
    )
    assert [point.across for point in points] == [50.0, 47.5, 50.0]
    assert [point.mean for point in points] == [90.0, 90.1, 95.0]


def test_every_message_has_a_look_of_its_own():
    lines = [
        line(learner="pca", noise=0.3),
        line(protect="cells:20"),
        line(local_epsilon=4),
        line(learner="nat", bits=4),
    ]
    assert [leakage_picture.kind(each) for each in lines] == ["noise", "protect", "local_epsilon", "nat"]
    assert [leakage_picture.strength(each) for each in lines] == ["0.3", "20", "", "4 bits"]
    looks = [(leakage_picture._look(method, mark)["color"], mark) for _, method, mark in leakage_picture.KINDS.values()]
    assert len(set(looks)) == len(looks)
