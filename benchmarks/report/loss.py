"""The report's section on privacy loss: what k parties cost together, by accountant and division."""

from __future__ import annotations

from benchmarks import store
from benchmarks.privacy_loss import BATCH, DELTA, EPOCHS, NOISE, PARTIES, PATH, ROWS, WAYS
from benchmarks.report.figures import table


def section() -> str:
    """Return the figure as a table, and the paper's claim beside."""
    found = {(line["parties"], line["division"], line["accountant"]): line["epsilon"] for line in store.read(PATH)}
    if not found:
        return "Not measured yet. `python -m benchmarks.privacy_loss`"
    rows = [[str(k), *(f"{found[k, *way]:.3f}" for way in WAYS)] for k in PARTIES]
    simple, moments, best = (found[100, *way] for way in (WAYS[0], WAYS[1], WAYS[3]))
    return "\n\n".join(
        [
            f"What k parties cost together that each train {EPOCHS} epochs on {ROWS:,} rows in batches of {BATCH} with noise "
            f"{NOISE:g}, at delta {DELTA:g}. *reference* is the accountant of the paper's figure, `fig:exp_priv_loss`. "
            "`python -m benchmarks.privacy_loss`",
            "![Privacy loss by number of parties](results/privacy_loss.png)",
            table(["k", *(f"{division} division, {accountant}" for division, accountant in WAYS)], rows),
            f"With 100 parties moments division saves {100 * (1 - moments / simple):.1f} % of epsilon (the paper: 88.9 %). "
            f"Today's accounting of the same training, pld, brings {moments:.2f} down to {best:.2f} for nothing.",
        ]
    )
