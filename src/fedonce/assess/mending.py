"""Advice that works: what is read in a message is read again in coarser ones made of it, and what helped is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from fedonce.assess.attacks import chosen
from fedonce.assess.attacks.base import READABLE, Exposed, Finding, Floats
from fedonce.assess.attacks.known_rows import KnownRows

MOST_ROWS = 3_000
TRIED = ("yes/no columns", "order", KnownRows(shares=(0.01,)))  # by who knows nothing, or little
BITS = (4, 2)
NOISE = (0.1, 0.3, 1.0)


def advice(exposed: Exposed, seed: int = 0) -> tuple[str, ...]:
    """Say how many columns stay readable, for who knows 1 % of the rows or none, with fewer values, fewer bits, or noise.

    What is tried is made of the message itself: its first values, its values in fewer steps, or with noise on each, in standard
    deviations. A learner that is told to send fewer values may choose others. Nothing is said where nothing is readable.
    """
    sample = exposed.sample(MOST_ROWS, seed)
    as_it_is = _readable(sample, seed)
    if not as_it_is:
        return ()
    rng = np.random.default_rng(seed)
    told = [
        f"Readable by who knows 1 % of the rows or none: {as_it_is} of {len(sample.table.names)} columns. Tried on this message:"
    ]
    for what, values in _coarser(np.asarray(sample.values, np.float64), rng):
        left = _readable(replace(sample, values=values, shared={}), seed)
        told.append(f"  {what}: {left} stay readable" if left else f"  {what}: none stays readable by these attacks")
    return tuple(told)


def _coarser(values: Floats, rng: np.random.Generator) -> Iterator[tuple[str, Floats]]:
    """Yield coarser messages, each kind from the mildest on."""
    d = values.shape[1]
    for dim in dict.fromkeys(dim for dim in (d // 2, d // 4, 1) if 0 < dim < d):
        yield f"{dim} of {d} values (dim)", values[:, :dim]
    low, size = values.min(axis=0), np.maximum(np.ptp(values, axis=0), 1e-12)
    for bits in BITS:
        steps = 2**bits - 1
        yield f"{bits} bits (bits)", np.round((values - low) / size * steps) / steps * size + low
    for noise in NOISE:
        yield (
            f"noise of {noise:g} standard deviations (noise)",
            values + noise * values.std(axis=0) * rng.standard_normal(values.shape),
        )


def _readable(exposed: Exposed, seed: int) -> int:
    """Return how many columns are readable by who knows little or nothing."""
    found: Sequence[Finding] = [
        each for attack in chosen(TRIED) for each in attack.run(exposed, np.random.default_rng(seed))
    ]
    return len({each.column for each in found if each.column is not None and each.verdict == READABLE})
