"""Run the notebooks of examples/notebooks and write their pages, with what the cells print: `python docs/site/notebooks.py`.

A notebook is a Python file with `# %%` before each cell, and `# %% [markdown]` before one of text (jupytext's percent format).
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "examples" / "notebooks"
PAGES = ROOT / "docs" / "notebooks"
OUTPUT = re.compile(r"^```text\n(.*?)^```\n\n", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Cell:
    """A cell: Markdown, or code."""

    markdown: bool
    text: str


def cells(source: str) -> list[Cell]:
    """Divide a notebook's source into its cells."""
    parts = re.split(r"^# %%( \[markdown\])?\n", source, flags=re.MULTILINE)[1:]
    found = []
    for kind, body in zip(parts[::2], parts[1::2], strict=True):
        text = "\n".join(re.sub(r"^# ?", "", line) for line in body.splitlines()) if kind else body
        found.append(Cell(bool(kind), text.strip("\n")))
    return found


def run(code: str, names: dict[str, object]) -> str:
    """Run a cell and return what it prints, and the value of its last expression, as a notebook does."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)  # noqa: S307 - our own notebook
            if value is not None:
                print(value)
    return printed.getvalue()


def page(name: str, outputs: list[str]) -> str:
    """Return the page of a notebook with these outputs, one for each cell of code."""
    given, parts = iter(outputs), []
    for cell in cells((SOURCES / f"{name}.py").read_text(encoding="utf-8")):
        if cell.markdown:
            parts.append(f"{cell.text}\n\n")
        else:
            output = next(given)
            parts.append(f"```python\n{cell.text}\n```\n\n" + (f"```text\n{output}```\n\n" if output else ""))
    note = f"*A notebook: [examples/notebooks/{name}.py](../../examples/notebooks/{name}.py).*\n"
    return "".join(parts) + note


def executed(name: str) -> list[str]:
    """Run a notebook's cells in order; return what each cell of code prints."""
    names: dict[str, object] = {"__name__": "__main__"}
    source = (SOURCES / f"{name}.py").read_text(encoding="utf-8")
    return [run(cell.text, names) for cell in cells(source) if not cell.markdown]


def without_outputs(text: str) -> str:
    """Return a page without what cells print."""
    return OUTPUT.sub("", text)


def main(names: list[str]) -> None:
    """Write the pages of these notebooks; of all, where none is named."""
    PAGES.mkdir(exist_ok=True)
    for name in names or sorted(path.stem for path in SOURCES.glob("*.py")):
        (PAGES / f"{name}.md").write_text(page(name, executed(name)), encoding="utf-8")
        print(PAGES / f"{name}.md")


if __name__ == "__main__":
    main(sys.argv[1:])
