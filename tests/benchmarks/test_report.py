"""The report on committed results is the committed report."""

from __future__ import annotations

import re

from benchmarks import plots, report
from benchmarks.experiment import FOLDER


def test_the_committed_report_is_what_the_results_give():
    assert (report.DOCS / "results.md").read_text() == report.report()


def test_every_experiment_has_its_section_and_every_picture_is_there():
    assert set(report.SECTIONS) == {path.stem for path in FOLDER.glob("*.toml")}
    text = report.report()
    pictures = re.findall(r"\]\((results/[^)]+\.png)\)", text)
    assert len(pictures) >= 10
    for picture in pictures:
        assert (report.DOCS / picture).exists()
        assert (report.DOCS / picture).stat().st_size < 200_000


def test_what_is_missing_is_shown_with_its_command():
    text = report.report().partition("## Missing")[2]
    for name in ("gisette", "nus-wide"):
        assert f"`python -m benchmarks.run performance --data {name}`" in text


def test_pictures_are_drawn(tmp_path):
    plots.varied(tmp_path, "laggy", "absent", "guests absent")
    assert (tmp_path / "laggy.png").stat().st_size > 5000
