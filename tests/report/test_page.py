from __future__ import annotations

import jinja2
import pytest

from fedonce.report import page
from tests.report.looking import colours, contrast

BASE = (page.PACKAGE / "report" / "base.html.jinja").read_text(encoding="utf-8")
TEXT = ("text", "muted", "bad", "warn", "good", "link")
DRAWN = ("solo", "fedonce", "combine", "budget")


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("name", TEXT)
def test_text_can_be_read_on_the_page_and_on_panels(scheme, name):
    named = colours(BASE)[scheme]
    assert contrast(named[name], named["page"]) >= 4.5
    assert contrast(named[name], named["panel"]) >= 4.5


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("name", DRAWN)
def test_bars_can_be_seen(scheme, name):
    named = colours(BASE)[scheme]
    assert contrast(named[name], named["panel"]) >= 3


def test_contrast_is_that_of_the_standard():
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_dark_has_every_colour_of_light():
    light, dark = colours(BASE)
    assert all(light[name] != dark[name] for name in (*TEXT, *DRAWN, "page", "panel", "line"))


def test_names_are_escaped_and_nothing_may_lack(tmp_path):
    with pytest.raises(jinja2.UndefinedError):
        page.render("jobs/evaluation.html.jinja")
    (tmp_path / "x").mkdir()
    written = page.write(tmp_path / "x" / "y" / "page.html", "é", private=True)
    assert written.read_bytes() == "é".encode()
    assert written.stat().st_mode & 0o077 == 0


def test_parameters_in_brackets_become_options():
    text = "Send fewer values (dim), or let more rows share one (protect=cells:100), bytes (bytes_per_row), not (this)."
    assert page.as_options(text, ("dim", "protect", "bytes_per_row")) == (
        "Send fewer values (--dim), or let more rows share one (--protect cells:100), bytes (--bytes-per-row), not (this)."
    )
