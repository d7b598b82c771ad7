"""Looking at a page: its parts by the standard library, its colours by their contrast, its width by a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTHS = {"phone": 390, "desktop": 1280}
# Told by the page itself, of which a copy gets this at its end.
PROBE = """<script>
const wide = [...document.querySelectorAll("main *")].filter(
  each => each.getBoundingClientRect().right > innerWidth + 1 && !each.closest(".scroll"));
const told = {
  inner: innerWidth, scroll: document.documentElement.scrollWidth, wide: wide.map(each => each.outerHTML.slice(0, 80)),
  broken: [...document.images].filter(each => !each.naturalWidth).length,
  reachable: [...document.querySelectorAll(".scroll")].every(each => each.tabIndex === 0),
};
document.body.innerHTML = "<pre id=told></pre>"; document.getElementById("told").textContent = JSON.stringify(told);
</script>"""


class Parts(HTMLParser):
    """The tags of a page, in order, with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def all(self, *names: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag in names]


def check_parts(page: str) -> None:
    """Assert what can be said of a page without a browser."""
    parts = Parts(page)
    (html,) = parts.all("html")
    assert html["lang"] == "en"
    assert all(each.get("alt") for each in parts.all("img"))
    drawings = parts.all("svg")
    assert all(each.get("aria-label") and each.get("role") == "img" for each in drawings)
    levels = [int(tag[1]) for tag, _ in parts.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later <= before + 1 for before, later in pairwise(levels)), levels
    assert parts.all("main")
    assert all(each.get("scope") for each in parts.all("th"))
    scrolling = [each for each in parts.all("div") if each.get("class") == "scroll"]
    assert all(each.get("tabindex") == "0" and each.get("aria-label") for each in scrolling)
    # One file: nothing is loaded, and nothing is run.
    assert not parts.all("script", "link", "iframe", "object")
    for _, attributes in parts.tags:
        for name in ("src", "href", "srcset", "data"):
            value = attributes.get(name) or "#"
            assert value.startswith(("data:image/png;base64,", "#")), value
    assert "http" not in page
    assert "url(" not in page


def colours(css: str) -> list[dict[str, str]]:
    """Return the named colours of the light page and of the dark one."""
    light, dark = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    of_light = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", light))
    return [of_light, of_light | dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", dark))]


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours, as WCAG 2 defines it."""
    high, low = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def seen(page: str, width: int, folder: Path) -> dict[str, object]:
    """Return what a browser of so many pixels says of a page."""
    path = folder / f"seen-{width}.html"
    # In a frame of that width: a browser's own window may not be made so narrow.
    inner = page.replace("</body>", PROBE + "</body>")
    path.write_text(inner, encoding="utf-8")
    frame = folder / f"frame-{width}.html"
    frame.write_text(
        f'<!doctype html><body><iframe id=f src="{path.name}" style="border:0;width:{width}px;height:900px"></iframe>'
        "<script>document.getElementById('f').onload = e => {"
        "document.body.textContent = e.target.contentDocument.getElementById('told').textContent}</script></body>",
        encoding="utf-8",
    )
    shown = subprocess.run(
        [
            str(BROWSER),
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--allow-file-access-from-files",
            "--virtual-time-budget=3000",
            f"--user-data-dir={folder / 'profile'}",
            "--window-size=1400,1000",
            "--dump-dom",
            frame.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    found = re.search(r"\{.*\}", shown)
    assert found is not None, shown[:500]
    return json.loads(found[0].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
