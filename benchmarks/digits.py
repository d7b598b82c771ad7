"""The README's table: digits in four quadrants, mean and spread over five seeds. Needs no download.

python -m benchmarks.digits [--seeds 5]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from fedonce import __version__
from fedonce.demo.digits import methods, run

RESULTS = Path(__file__).parent / "results" / "digits.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    default = {"FedOnce (default)": ("the default settings", {"parties": methods()["FedOnce (pca)"][1]["parties"]})}
    lines = []
    for seed in range(seeds):
        for outcome in run(seed, compared=methods() | default).outcomes:
            line = {"method": outcome.method, "seed": seed, "accuracy": outcome.accuracy, "messages": outcome.messages}
            lines.append(line | {"bytes": outcome.bytes, "seconds": round(outcome.seconds, 2), "version": __version__})
            print(
                f"seed {seed}  {outcome.method:24s} {100 * outcome.accuracy:6.2f} %  {outcome.bytes:7,} bytes",
                flush=True,
            )
    RESULTS.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
