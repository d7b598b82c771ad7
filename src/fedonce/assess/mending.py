"""Advice that works: what can be done about a message of this kind, and what is still read in coarser ones made of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.assess.attacks import chosen
from fedonce.assess.attacks.base import READABLE, Exposed, Finding, Floats
from fedonce.assess.attacks.known_rows import KnownRows

MOST_ROWS = 3_000
TRIED = ("yes/no columns", "numbers and dates", KnownRows(shares=(0.01,)))  # with no row known, or few
BITS = (4, 2)
FEWEST_BITS = 4  # that `bits` may be: fewer are reached by bytes per row
NOISE = (0.1, 0.3, 1.0)
DROP = "Leave the column out (drop)."


def remedy(exposed: Exposed) -> str:
    """Say what can be done about such a message: only what its learner, protection and noise leave open."""
    if exposed.protect:
        return "Leave the column out (drop), or, in place of the protection, answer for each row with an epsilon (local_epsilon)."
    if exposed.blurred == "local_epsilon":
        return "Answer for each row with a smaller epsilon (local_epsilon), or leave the column out (drop)."
    fewer = ["values (dim)"] if exposed.values.shape[1] > 1 else []
    fewer += ["bits (bits)"] if exposed.learner != "cells" and _finer_than(exposed.values, FEWEST_BITS) else []
    fewer += [] if exposed.blurred else ["bytes (bytes_per_row)"]  # not beside noise
    hinted = " in place of hints" if exposed.learner == "hinted" else ""  # beside hints both are refused
    more, instead = ("more ", " in place of noise") if exposed.blurred else ("", hinted)
    ways = [f"send fewer {_either(fewer)}"] if fewer else []
    ways += ["learn otherwise (learner)", f"let rows share a number{instead} (protect)", "leave the column out (drop)"]
    ways += [f"add {more}noise (noise)", f"answer for each row with an epsilon{instead} (local_epsilon)"]
    text = _either(ways, ", or ")
    return f"{text[0].upper()}{text[1:]}."


def advice(exposed: Exposed, seed: int = 0) -> tuple[str, ...]:
    """Say how many columns stay readable, with 1 % of the rows known or none, in fewer values, fewer bits, or noise.

    What is tried is made of the message itself: its first values, its values in fewer steps, or with noise on each, in standard
    deviations. A learner that is told to send fewer values may choose others. Nothing is said where nothing is readable. Numbers
    of cells are names, of which nothing coarser can be made: there it is said what to learn anew.
    """
    sample = exposed.sample(MOST_ROWS, seed)
    as_it_is = _readable(sample, seed)
    if not as_it_is:
        return ()
    rng = np.random.default_rng(seed)
    counted = f"Readable with 1 % of the rows known, or none: {as_it_is} of {len(sample.table.names)} columns."
    if exposed.protect:
        return (
            counted,
            "  Rows are sent as numbers of cells; larger cells are no harder to read: leave columns out (drop)",
        )
    if exposed.blurred == "local_epsilon":
        return (counted, "  Rows have an epsilon; a smaller one discloses less (local_epsilon)")
    told = [f"{counted} Tried on this message:"]
    for what, values in _coarser(sample, rng):
        left = _readable(replace(sample, values=values, shared={}), seed)
        told.append(f"  {what}: {left} stay readable" if left else f"  {what}: none stays readable by these attacks")
    return tuple(told)


def _coarser(exposed: Exposed, rng: np.random.Generator) -> Iterator[tuple[str, Floats]]:
    """Yield coarser messages that a guest could send in its place, each kind from the mildest on."""
    values = np.asarray(exposed.values, np.float64)
    d = values.shape[1]
    for dim in dict.fromkeys(dim for dim in (d // 2, d // 4, 1) if 0 < dim < d):
        yield f"{dim} of {d} values (dim)", values[:, :dim]
    low, size = values.min(axis=0), np.maximum(np.ptp(values, axis=0), 1e-12)
    for bits in BITS:
        if exposed.learner == "cells" or not _finer_than(values, bits):
            continue  # cells have steps of their own
        steps = 2**bits - 1
        how = "(bits)" if bits >= FEWEST_BITS else f"each (bytes_per_row={bits * d / 8:g})"
        yield f"{bits} bits {how}", np.round((values - low) / size * steps) / steps * size + low
    for noise in NOISE:
        yield (
            f"noise of {noise:g} standard deviations (noise)",
            values + noise * values.std(axis=0) * rng.standard_normal(values.shape),
        )


def _either(choices: Sequence[str], last: str = " or ") -> str:
    """Return choices in a line."""
    return last.join(filter(None, [", ".join(choices[:-1]), choices[-1]]))


def _finer_than(values: NDArray[Any], bits: int) -> bool:
    """Tell whether values lie on more steps than so many bits can tell apart."""
    return any(len(np.unique(column)) > 2**bits for column in np.asarray(values).T)


def _readable(exposed: Exposed, seed: int) -> int:
    """Return how many columns are readable with few rows known, or none."""
    found: Sequence[Finding] = [
        each for attack in chosen(TRIED) for each in attack.run(exposed, np.random.default_rng(seed))
    ]
    return len({each.column for each in found if each.column is not None and each.verdict == READABLE})
