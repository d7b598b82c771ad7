from __future__ import annotations

import sys

import numpy as np
import pytest

from fedonce import InputError, tiles
from fedonce.demo import page as report
from fedonce.demo.digits import Demonstration, Outcome


@pytest.fixture
def demonstration():
    outcomes = [
        Outcome("Solo", "<script>", 0.7, 0, 0, 1.0),
        Outcome("FedOnce (pca)", "x", 0.97, 3, 33_960, 1.0),
        Outcome("Combine", "y", 0.99, 0, 0, 1.0),
    ]
    images = np.random.default_rng(0).integers(0, 17, (5, 64))
    return Demonstration(
        outcomes,
        images,
        np.arange(5),
        tiles((8, 8), (2, 2)),
        "party1",
        1347,
        450,
        [Outcome("d=2", "", 0.9, 3, 9_000, 1.0)],
    )


def test_page_holds_table_and_pictures_and_loads_nothing_from_outside(demonstration, tmp_path):
    page = report.write(demonstration, tmp_path / "a" / "b").read_text()
    assert page.count("data:image/png;base64,") == 2
    assert "97.0 %" in page
    assert "33,960" in page
    assert "<script>" not in page
    assert "http" not in page


def test_without_matplotlib_the_error_says_what_to_install(demonstration, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'fedonce\[report\]'"):
        report.write(demonstration, tmp_path)
    assert list(tmp_path.iterdir()) == []
