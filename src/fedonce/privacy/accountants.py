"""What events cost: epsilon for a delta. Google's dp-accounting does the mathematics; here is how it is asked.

Accountants
-----------
pld
    Privacy loss distributions: the tightest; the default.
rdp
    Rényi divergences with today's conversion to epsilon.
reference
    Rényi divergences with the older conversion and orders that the paper's figures were made with.

Divisions of one budget among parties
-------------------------------------
moments
    One ledger: the parties' events are composed like those of one party (the paper's "moments division").
simple
    epsilon / k and delta / k for each of k parties (the paper's Priv-Baseline).

Neighbours are data sets of which one has one row more; noise of zero costs infinity.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.errors import MissingPackageError, parameter_error
from fedonce.privacy.events import Event, Gaussian, Local, Noisy, SampledGaussian

ACCOUNTANTS = ("pld", "rdp", "reference")
DIVISIONS = ("moments", "simple")
REFERENCE_ORDERS = (1.25, 1.5, 1.75, 2, 2.25, 2.5, 3, 3.5, 4, 4.5, *range(5, 64), 128, 256, 512)
FINEST, COARSEST, MOST_POINTS = 1e-4, 1e-3, 2e6  # of the grid of privacy losses
MOST_WORK = 1e7  # points of the grid, times kinds of steps: a few seconds
LEAST_DELTA = 1e-9  # down to which `deltas` is exact
MOST_SPREAD = 1e3  # of privacy losses: beyond it nobody is protected, and the exact price is not worth minutes


def check(accountant: object, division: object, owner: str) -> None:
    """Raise unless both are known."""
    if accountant not in ACCOUNTANTS:
        raise parameter_error(owner, "accountant", f"one of {', '.join(ACCOUNTANTS)}", accountant)
    if division not in DIVISIONS:
        raise parameter_error(owner, "division", f"one of {', '.join(DIVISIONS)}", division)


def total(by_party: Sequence[Sequence[Event]], delta: float, accountant: str, division: str) -> float:
    """Return the price of what all parties did together."""
    if division == "simple":
        return sum(epsilon(events, delta / len(by_party), accountant) for events in by_party)
    return epsilon([event for events in by_party for event in events], delta, accountant)


def epsilon(events: Sequence[Event], delta: float, accountant: str = "pld") -> float:
    """Return the least epsilon that the events keep with this delta."""
    pure = sum(event.epsilon for event in events if isinstance(event, Local))  # what is pure adds up, whatever delta is
    noisy = [event for event in events if not isinstance(event, Local)]
    if not noisy:
        return pure
    if any(event.noise == 0 for event in noisy):
        return math.inf
    return pure + _price(tuple(_composed(noisy)), delta, accountant)


@lru_cache(maxsize=1024)
def _price(composed: tuple[Noisy, ...], delta: float, accountant: str) -> float:
    if accountant == "pld":
        return _pld(composed, delta)
    library = _library()
    orders = {"orders": REFERENCE_ORDERS} if accountant == "reference" else {}
    book = library.rdp.RdpAccountant(**orders)
    book.compose(_as_library_event(composed))
    if accountant == "rdp":
        return float(book.get_epsilon(delta))
    return float(np.min(book.rdp + math.log(1 / delta) / (book.orders - 1)))


def deltas(events: Sequence[Noisy], epsilons: Iterable[float]) -> NDArray[np.float64]:
    """Return the least delta that the events keep with each epsilon, by privacy loss distributions."""
    book = _book(_composed(events), LEAST_DELTA)
    return np.array([float(book.get_delta(epsilon)) for epsilon in epsilons])


def _pld(events: Sequence[Noisy], delta: float) -> float:
    """Price by privacy loss distributions."""
    return float(_book(events, delta).get_epsilon(delta))


def _book(events: Sequence[Noisy], delta: float) -> Any:
    """Return privacy loss distributions, on a grid as fine as memory and time allow.

    Rounding on the grid is upwards, so a coarser one costs a little more epsilon and is still sound.
    """
    library = _library()
    rough = library.rdp.RdpAccountant(orders=range(2, 257))
    rough.compose(_as_library_event(events))
    spread = max(float(rough.get_epsilon(max(delta * 1e-3, 1e-30))), 1e-3)
    if not spread <= MOST_SPREAD:
        return rough  # as sound, and as good as infinite
    book = library.pld.PLDAccountant(value_discretization_interval=_grid(events, spread))
    book.compose(_as_library_event(events))
    return book


def _grid(events: Sequence[Noisy], spread: float) -> float:
    """Return the width of the grid's cells for losses of this spread: fine, as far as points and time are left."""
    steps = sum(event.steps for event in events if isinstance(event, SampledGaussian))
    wanted = float(np.clip(FINEST * math.sqrt(20_000 / max(steps, 1)), FINEST, COARSEST))  # rounding adds up over steps
    return max(wanted, 2 * spread / min(MOST_POINTS, MOST_WORK / len(events)))


def _composed(events: Sequence[Noisy]) -> list[Noisy]:
    """Put equal steps together, and all plain Gaussian releases into one.

    Releases with noise s1, s2, ... are together exactly one with noise (s1^-2 + s2^-2 + ...)^-1/2, also where later ones are
    chosen by what earlier ones gave (Dong, Roth and Su, 2022, on Gaussian differential privacy).
    """
    strength = sum(event.times / event.noise**2 for event in events if isinstance(event, Gaussian))
    steps: Counter[tuple[float, float]] = Counter()
    for event in events:
        if isinstance(event, SampledGaussian):
            steps[event.noise, event.rate] += event.steps
    sampled: list[Noisy] = [SampledGaussian(noise, rate, count) for (noise, rate), count in steps.items()]
    return [*([Gaussian(strength**-0.5)] if strength else []), *sampled]


def _as_library_event(events: Sequence[Noisy]) -> Any:
    library = _library()
    parts = []
    for event in events:
        gaussian = library.GaussianDpEvent(event.noise)
        if isinstance(event, Gaussian):
            parts.append(library.SelfComposedDpEvent(gaussian, event.times))
        else:
            parts.append(library.SelfComposedDpEvent(library.PoissonSampledDpEvent(event.rate, gaussian), event.steps))
    return library.ComposedDpEvent(parts)


def _library() -> Any:
    try:
        import dp_accounting
        import dp_accounting.pld
        import dp_accounting.rdp
        from absl import logging
    except ImportError as error:
        raise MissingPackageError(
            f"A privacy budget needs {error.name}, which is not installed. Try: pip install 'fedonce[privacy]'"
        ) from None
    logging.set_verbosity(logging.ERROR)  # it warns of every order that it leaves out, and leaving one out is sound
    return dp_accounting
