"""The paper's figure of privacy loss: what k parties that train alike cost together, by accountant and division.

    python -m benchmarks.privacy_loss

Nothing is trained: it is arithmetic (60,000 rows, batch 128, 50 epochs, noise 1, delta 1e-5). Writes results/privacy_loss.jsonl.
"""

from __future__ import annotations

import json
import math
from typing import Any

from benchmarks import store
from fedonce.privacy import accountants
from fedonce.privacy.events import SampledGaussian

PATH = store.RESULTS / "privacy_loss.jsonl"
PARTIES = (1, 2, 4, 10, 20, 50, 100)
WAYS = (("simple", "reference"), ("moments", "reference"), ("moments", "rdp"), ("moments", "pld"))
ROWS, BATCH, EPOCHS, NOISE, DELTA = 60_000, 128, 50, 1.0, 1e-5


def measure() -> list[dict[str, Any]]:
    """Price every number of parties in every way."""
    event = SampledGaussian(NOISE, BATCH / ROWS, math.ceil(EPOCHS * ROWS / BATCH))
    return [
        {
            "parties": k,
            "division": division,
            "accountant": accountant,
            "epsilon": accountants.total([[event]] * k, DELTA, accountant, division),
        }
        for k in PARTIES
        for division, accountant in WAYS
    ]


def main() -> None:
    PATH.write_text("".join(json.dumps(line) + "\n" for line in measure()))
    print(f"written to {PATH}; `python -m benchmarks.report` shows it")


if __name__ == "__main__":
    main()
