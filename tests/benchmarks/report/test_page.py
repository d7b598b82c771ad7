"""The report on committed results is the committed report."""

from __future__ import annotations

import re

import pytest

from benchmarks.experiment import FOLDER, load
from benchmarks.report import drawing, page, plots


def test_the_committed_report_is_what_the_results_give():
    assert (page.DOCS / "results.md").read_text() == page.report()


def test_every_experiment_has_its_section_and_every_picture_is_there():
    tables = {
        "bytes_total",
        "cells",
        "datasets",
        "defaults",
        "digits",
        "hint_shares",
        "hint_values",
        "learners",
        "noisy_hosts",
        "overlap",
    }  # of other pages in docs/
    assert set(page.SECTIONS) | tables == {path.stem for path in FOLDER.glob("*.toml")}
    text = page.report()
    pictures = re.findall(r"\]\((results/[^)]+\.png)\)", text)
    assert len(pictures) >= 10
    for picture in pictures:
        assert (page.DOCS / picture).exists()
        assert (page.DOCS / picture).stat().st_size < 200_000


def test_what_is_missing_is_shown_with_its_command():
    text = page.report().partition("## Missing")[2]
    for name in ("gisette", "nus-wide"):
        assert f"`python -m benchmarks.run performance --data {name}`" in text


def test_runs_that_a_gpu_lacks_are_shown_apart_from_a_cpu_s(monkeypatch):
    runs = [{"data": "phishing", "method": "SplitNN-TabM", "device": device} for device in ("",) * 5 + ("gpu",)]
    monkeypatch.setattr(page, "results", lambda name: runs)
    cpu, gpu = (next(page._lacking(load("host_models"), on)) for on in (False, True))
    assert "Host models compared, phishing: FedOnce (estimator) 0 of 25" in cpu
    assert "SplitNN-TabM" not in cpu
    assert "Host models compared on a GPU, phishing:" in gpu
    assert gpu.endswith("SplitNN-TabM 1 of 5. `python -m benchmarks.run host_models --data phishing --device cuda`")


def test_pictures_are_drawn(tmp_path):
    plots.varied(tmp_path, "laggy", "absent", "guests absent")
    assert (tmp_path / "laggy.png").stat().st_size > 5000


@pytest.mark.parametrize("count", [1, 6])
def test_a_legend_is_inside_its_picture_and_below_the_parts(tmp_path, monkeypatch, count):
    saved = []
    monkeypatch.setattr(drawing.plt, "close", saved.append)
    figure, axes = drawing.grid(1)
    for number in range(count):
        axes[0].plot([1, 2], [number, 1], label=f"Method number {number}")
    axes[0].set_xlabel("what was varied")
    drawing.save(figure, axes, tmp_path / "one.png")
    figure.canvas.draw()
    (legend,) = figure.legends
    box, label = legend.get_window_extent(), axes[0].xaxis.label.get_window_extent()
    assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
    assert box.y1 <= label.y0 + 1
