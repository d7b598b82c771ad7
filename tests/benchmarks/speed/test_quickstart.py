"""The quickstart's time: which code is timed, and how parts are told apart."""

from benchmarks.speed.quickstart import ROOT, Parts, imports, quickstart


def test_what_is_timed_is_the_readme_s_block():
    code = quickstart(ROOT)
    assert code == (ROOT / "examples" / "quickstart.py").read_text().split("\n", 2)[2]
    assert "from fedonce import FedOnceClassifier" in imports(code)
    assert "fit(" not in imports(code)


def test_of_calls_within_calls_the_outermost_counts():
    parts = Parts()
    inner = parts.timed(lambda: 1, "model", "inner")
    outer = parts.timed(lambda: inner() + inner(), "model", "outer")
    assert parts.timed(outer, "host", "host")() == 2
    assert set(parts.seconds) == {"outer", "host"}
    assert parts.seconds["host"] >= parts.seconds["outer"] > 0
