from __future__ import annotations

import pytest

from benchmarks.experiment import FOLDER, load, small
from fedonce import InputError

NAMES = sorted(path.stem for path in FOLDER.glob("*.toml"))
WHOLE = """
title = "A title"
[[cases]]
data = "phishing"
methods = ["Solo"]
"""


def written(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


def test_there_is_an_experiment_for_every_table_and_figure_of_the_paper():
    labels = {load(name).paper for name in NAMES}
    assert {
        "fig:exp_perf_comm",
        "fig:apdx_post_comm",
        "tab:train_time",
        "fig:exp_perf_hyper",
        "fig:exp_scale",
        "fig:exp_perf_bias",
        "tab:apdx_pca",
        "tab:noise_repr",
        "fig:comm_cifar10",
    } <= labels


def test_a_file_is_read_by_its_path_or_its_name(tmp_path):
    assert load(written(tmp_path, WHOLE)).cases[0].data == ("phishing",)
    assert load("laggy").name == "laggy"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("[[cases]]", "by_device = 1\n[[cases]]"), "'by_device' must be true or false. Got 1"),
        (("title", "titel"), "unknown key 'titel'; did you mean 'title'"),
        (("methods", "metods"), "case 1: unknown key 'metods'; did you mean 'methods'"),
        (('"Solo"', '"SplitN"'), "unknown method 'SplitN'; did you mean 'SplitNN'"),
        (('"phishing"', '"fishing"'), "unknown data set 'fishing'; did you mean 'phishing'"),
        (("methods", "config = { dims = 3 }\nmethods"), "config: unknown key 'dims'; did you mean 'dim'"),
        (("methods", "vary = { dim = 3 }\nmethods"), "vary.dim must be a list"),
        (("methods", "vary = { noize = [3] }\nmethods"), "unknown key 'noize'; did you mean 'noise'"),
        (("methods", "division = { parts = 3 }\nmethods"), "unknown key 'parts'"),
        (("methods", "division = { biased = [0.5] }\nmethods"), "a division is"),
        (("methods", "division = { p = 3 }\nmethods"), "a division is"),
        (("methods", 'division = { parties = "ten" }\nmethods'), "division.parties must be made of numbers. Got 'ten'"),
        (("methods", 'loader = { targt = "x" }\nmethods'), "loader: unknown key 'targt'"),
        (("methods", 'otherwise = "mnist49"\nmethods'), "unknown data set 'mnist49'; did you mean 'mnist-4-9'"),
        (("methods", 'config = { device = "cpu" }\nmethods'), "unknown key 'device'"),
        (("methods", 'config = { settings = "papr" }\nmethods'), "'settings' must be 'ours' or 'paper'. Got 'papr'"),
        (("methods", "config = { absent = -1 }\nmethods"), "'absent' must be an integer of at least 0. Got -1"),
        (("methods", "config = { bits = 7 }\nmethods"), "'bits' must be one of 32, 16, 8, 4. Got 7"),
        (("methods", "vary = { dim = [1, 0] }\nmethods"), "'dim' must be a positive integer. Got 0"),
        (("methods", "vary = { noise = [true] }\nmethods"), "'noise' must be a number"),
        (("methods", "config = 3\nmethods"), "'config' must be a table"),
        (("[[cases]]", "[cases]"), "with two brackets"),
        (("methods", 'part = "tests"\nmethods'), "unknown part 'tests'; did you mean 'test'"),
        (("methods", 'vary = { model = ["forest"] }\nmethods'), "'model' must be one of auto, blend, network"),
        (("methods", "seeds = 0\nmethods"), "'seeds' must be an integer of at least 1. Got 0"),
        (("methods", "folds = 2.5\nmethods"), "'folds' must be an integer"),
        (("methods", 'hosts = "some"\nmethods'), "'hosts' must be 'first', 'all' or a list"),
        (('data = "phishing"', ""), "'data' is missing"),
        (("[[cases]]", "[cases"), "is not TOML"),
    ],
)
def test_what_an_experiment_does_not_know_is_an_error_that_suggests(tmp_path, change, reason):
    with pytest.raises(InputError, match=reason):
        load(written(tmp_path, WHOLE.replace(*change)))


def test_an_unknown_file_suggests_a_known_one():
    with pytest.raises(InputError, match="did you mean 'performance'"):
        load("performanse")


def test_what_is_varied_is_combined(tmp_path):
    more = "config = { bits = 8 }\nvary = { dim = [1, 2], noise = [0.0, 1.0] }\ndivision = { biased = [0, 1], p = 3 }\nmethods"
    case = load(written(tmp_path, WHOLE.replace("methods", more))).cases[0]
    assert list(case.configs()) == [{"bits": 8, "dim": d, "noise": s} for d in (1, 2) for s in (0.0, 1.0)]
    assert list(case.divisions()) == [{"biased": 0, "p": 3}, {"biased": 1, "p": 3}]


def test_a_small_run_has_the_ends_of_what_is_varied_and_every_host_model(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.config.HOST_MODELS", ("network", "trees", "tabm"))
    more = 'vary = { dim = [1, 2, 3], model = ["network", "trees", "tabm"] }\nmethods'
    case = small(load(written(tmp_path, WHOLE.replace("methods", more)))).cases[0]
    assert case.vary == {"dim": [1, 3], "model": ["network", "trees", "tabm"]}


@pytest.mark.parametrize("name", NAMES)
def test_a_small_run_needs_no_file(name):
    for case in small(load(name)).cases:
        assert set(case.data) <= {"digits", "breast-cancer", "diabetes"}
        assert case.seeds == 1
        assert case.folds <= 1
