"""Pictures can be read at 100 %, by colour-blind readers too, and a method looks the same in all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

import benchmarks.report
import fedonce
from benchmarks.report import drawing, page, plots
from fedonce.report.colours import METHODS, OTHERS, PALETTE, colour

PICTURES = sorted((page.DOCS / "results").glob("*.png"))
SOURCES = [
    *Path(benchmarks.report.__file__).parent.glob("*.py"),
    *(Path(fedonce.__file__).parent / "assess").rglob("*.py"),
]


def test_there_are_pictures():
    assert len(PICTURES) > 20


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_a_picture_is_wide_and_small(path):
    assert Image.open(path).width >= 1200
    assert path.stat().st_size < 200_000


def test_all_colours_are_of_one_table():
    assert {*METHODS.values(), *OTHERS} <= set(PALETTE)
    for path in SOURCES:
        assert re.findall(r"#[0-9A-Fa-f]{6}\b", path.read_text(encoding="utf-8")) == [], path


def test_the_methods_of_a_picture_can_be_told_apart():
    looks = {method: (drawing.style(method)["color"], drawing.style(method)["marker"]) for method in plots.METHODS}
    marked = [looks[method] for method in plots.METHODS if method not in plots.EVERYBODY]
    lines = [looks[method][0] for method in plots.EVERYBODY]
    assert len(set(marked)) == len(marked)
    assert len(set(lines)) == len(lines)


def test_a_method_that_is_not_in_the_table_has_a_colour_of_the_palette_always_the_same():
    assert colour("FedOnce (pca)") == colour("FedOnce")
    assert colour("hints") == colour("hints")
    assert colour("hints") in PALETTE


def test_no_line_joins_hosts(tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(plots, "save", lambda figure, axes, path: kept.append(axes))
    plots.performance(tmp_path)
    (axes,) = kept
    joined = [line for axis in axes for line in axis.lines if line.get_linestyle() == "-" and len(line.get_xdata()) > 1]
    assert joined == []


def test_hints_stand_in_the_frontier_of_images(tmp_path, monkeypatch):
    kept = {}
    monkeypatch.setattr(plots, "save", lambda figure, axes, path: kept.update({path.stem: axes}))
    plots.frontier(tmp_path)
    drawn = {name: [line.get_label() for axis in axes for line in axis.lines] for name, axes in kept.items()}
    hinted = {name for name, labels in drawn.items() if "FedOnce, larger networks, hints, label epsilon 2" in labels}
    assert hinted >= {"frontier-fashion-mnist", "frontier-kmnist"}
    same = {"FedOnce, larger networks, no hints", "SplitNN, larger networks", "Combine, larger networks"}
    assert all(same <= set(drawn[name]) for name in hinted)
    assert "frontier-phishing" not in hinted
