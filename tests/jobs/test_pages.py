from __future__ import annotations

import pytest

from fedonce import InputError
from fedonce.errors import FedOnceWarning
from fedonce.hostmodels.validation import Score
from fedonce.jobs import pages


def test_a_page_gives_way_with_its_model_and_comes_back_where_that_fails(tmp_path):
    (tmp_path / pages.REPORT).write_text("old")

    def fail():
        with pages.report_aside(tmp_path):
            assert not (tmp_path / pages.REPORT).exists()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert (tmp_path / pages.REPORT).read_text() == "old"
    with pages.report_aside(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []
    with pages.report_aside(tmp_path):  # there need not be one
        pages.write_report(tmp_path, "new")
    assert (tmp_path / pages.REPORT).read_text() == "new"


def test_a_page_that_cannot_be_written_is_a_warning(tmp_path, monkeypatch):
    def full(path, text, private):
        raise InputError("no room")

    monkeypatch.setattr(pages.page, "write", full)
    with pytest.warns(FedOnceWarning, match="The model is saved, but its page is not: no room"):
        assert pages.write_report(tmp_path, "new") is None


@pytest.mark.parametrize(("value", "word"), [(0.1, "better"), (-0.1, "worse"), (0.03, "no clear difference")])
def test_a_gain_in_a_word(value, word):
    assert pages.judged(Score(value, 0.02)) == word
