"""Write the report.

    python -m benchmarks.report [--out docs]

Writes results.md, reproduce.md and the pictures in results/ to the folder. (`python -m benchmarks.report.tables --write`: the
tables of README.md and of other pages.)
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.report import page, plots, reproduce


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=page.DOCS)
    out = parser.parse_args().out
    plots.draw(out / "results")
    (out / "results.md").write_text(page.report())
    (out / "reproduce.md").write_text(reproduce.page())
    print(f"{out / 'results.md'}, {out / 'reproduce.md'} and {len(list((out / 'results').glob('*.png')))} pictures")


if __name__ == "__main__":
    main()
