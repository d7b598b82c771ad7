"""Write the report.

    python -m benchmarks.report [--out docs]

Writes results.md and the pictures in results/ to the folder. (`python -m benchmarks.report.tables --write`: the tables of
README.md and docs/.)
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.report import page, plots


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=page.DOCS)
    out = parser.parse_args().out
    plots.draw(out / "results")
    (out / "results.md").write_text(page.report())
    print(f"{out / 'results.md'} and {len(list((out / 'results').glob('*.png')))} pictures")


if __name__ == "__main__":
    main()
