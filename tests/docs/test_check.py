from __future__ import annotations

import pytest

from docs.site.check import faults, main


@pytest.fixture
def site(tmp_path):
    (tmp_path / "other.html").write_text('<h2 id="here">x</h2>')
    (tmp_path / "style.css").write_text("")
    return tmp_path


def write(site, body: str) -> list[str]:
    (site / "index.html").write_text(f'<link rel="stylesheet" href="style.css?v=1">{body}')
    return faults(site)


def test_links_that_lead_somewhere(site, capsys):
    body = '<p id="top"></p><a href="#top"></a><a href="other.html#here"></a><a href="https://example.org/x"></a>'
    assert write(site, body) == []
    assert main(str(site)) == 0
    assert capsys.readouterr().out == "2 pages, 0 faults\n"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('<a href="gone.html"></a>', "index.html: gone.html: there is no such file"),
        ('<a href="other.html#gone"></a>', "index.html: other.html#gone: the page has no such anchor"),
        ('<a href="#gone"></a>', "index.html: #gone: the page has no such anchor"),
        ('<img src="gone.png">', "index.html: gone.png: there is no such file"),
        (
            '<script src="https://cdn.example/x.js"></script>',
            "index.html: https://cdn.example/x.js: is fetched from elsewhere",
        ),
        (
            '<link rel="stylesheet" href="//fonts.example/x">',
            "index.html: //fonts.example/x: is fetched from elsewhere",
        ),
    ],
)
def test_what_leads_nowhere_or_elsewhere(site, body, why):
    assert write(site, body) == [why]
    assert main(str(site)) == 1


def test_an_empty_folder_is_no_site(tmp_path):
    assert main(str(tmp_path)) == 1
