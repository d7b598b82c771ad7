from __future__ import annotations

from importlib import metadata

import pytest

from fedonce import __version__
from fedonce.cli import entry, unexpected

SECRET = "customer 4711, income 93000"


@pytest.fixture
def failing(monkeypatch):
    def fail():
        raise KeyError(SECRET)

    monkeypatch.setattr(entry, "app", fail)


def ended(capsys):
    with pytest.raises(SystemExit) as caught:
        entry.main()
    return caught.value.code, capsys.readouterr().err


def test_an_error_that_nobody_foresaw_says_where_to_report_it_and_no_row(failing, capsys):
    code, said = ended(capsys)
    assert code == 1
    assert "unexpected error: KeyError" in said
    assert "Please report it" in said
    assert unexpected.address() in said
    assert f"fedonce {__version__}" in said
    assert f"numpy {metadata.version('numpy')}" in said
    assert "in fail" in said  # the place
    assert "4711" not in said
    assert "Traceback" not in said


def test_who_asks_for_it_gets_all_of_it(failing, capsys, monkeypatch):
    monkeypatch.setenv("FEDONCE_TRACEBACK", "1")
    code, said = ended(capsys)
    assert (code, "Traceback" in said, SECRET in said) == (1, True, True)


def test_the_address_is_the_package_s_own(monkeypatch):
    class Told:
        def get_all(self, name):
            return {"Project-URL": ["Homepage, https://a.example", "Issues, https://b.example/issues"]}[name]

    monkeypatch.setattr(metadata, "metadata", lambda name: Told())
    assert unexpected.address() == "https://b.example/issues"
    monkeypatch.setattr(Told, "get_all", lambda self, name: None)
    assert "pip show fedonce" in unexpected.address()
