"""Settings of the documentation site: `make docs` runs Sphinx with them on the Markdown files of docs/.

Pages are plain Markdown that reads well in any viewer. What only the site has is made here: the command line's page, and
links to files beside docs/.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.application import Sphinx

SITE = Path(__file__).parent
sys.path.insert(0, str(SITE))

import api  # noqa: E402 - these lie beside this file, which Sphinx does not import as part of a package
import command_line  # noqa: E402
import links  # noqa: E402

import fedonce  # noqa: E402

project = "FedOnce"
author = "The FedOnce developers"
copyright = author  # the name that Sphinx reads
version = release = fedonce.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["site"]
suppress_warnings = ["ref.python"]  # types in Parameters sections are words, which may also be names of attributes

html_theme = "furo"
html_title = "FedOnce"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
pygments_style, pygments_dark_style = "friendly", "github-dark"

# Headings have the anchors that code hosting sites give them, so that a link works there and here.
myst_heading_anchors = 4

# Docstrings have numpy's sections, and names between single backticks.
default_role = "literal"
napoleon_google_docstring = False
napoleon_use_rtype = False
autodoc_typehints = "none"  # the Parameters sections say it in words
autodoc_class_signature = "mixed"
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88


def _page(app: Sphinx, name: str, source: list[str]) -> None:
    """Complete a page before it is read."""
    if name == "command-line":
        source[0] += "\n" + command_line.reference()
    if name in api.PAGES:
        source[0] += "\n" + api.page(name)
    source[0] = links.inside(source[0], (Path(app.srcdir) / name).parent)


def _included(app: Sphinx, path: Path, parent: str, content: list[str]) -> None:
    """Change the links of a file that a page includes."""
    content[0] = links.inside(content[0], (Path(app.srcdir) / path).parent)


def _of_others(app: Sphinx, what: str, name: str, member: object, skip: bool, options: object) -> bool | None:
    """Leave out methods that classes have from scikit-learn, torch or Python: they are described elsewhere."""
    home = getattr(getattr(member, "fget", member), "__module__", None)
    return True if what == "class" and home and not home.startswith("fedonce") else None


def setup(app: Sphinx) -> None:
    """Connect these."""
    app.connect("autodoc-skip-member", _of_others)
    app.connect("source-read", _page)
    app.connect("include-read", _included)
