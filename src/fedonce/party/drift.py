"""Whether a message for prediction looks like that of the training: a guest that sends the wrong thing is told by name.

Of each guest's message at training the host keeps a few figures (`Seen`). A message for prediction is compared with them: is it
that very message, do its values lie beyond those of the training, are they on another scale, are they all the same? Every test
asks whether chance could do it, whatever the distribution, so that a few honest rows never look odd.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedonce.errors import FedOnceWarning, MessageError
from fedonce.messages.representation import Representation

logger = logging.getLogger(__name__)

CHANCE = 1e-9  # what is more probable than this among honest rows is not told
MOST_BEYOND = 0.2  # share of values at or beyond the training's range, over the share in training
FAR = 10  # times the training's range; one value so far beyond it is told
MOST_OUTSIDE = 0.4  # share outside the training's middle nine tenths, over the share in training
LEAST_SPREAD = 1 / 8  # of the training's
LEAST_ROWS = 50  # of a training message; fewer say too little of what is usual
MOST_VALUES = 32  # values per row that are compared; further ones are not
MOST_ROWS = 20_000  # rows that quantiles are taken from
STEPS = 20  # quantiles are 5 % apart
LOW, HIGH = 1, STEPS - 1  # the quantiles of 5 % and 95 %
ROW_LIMIT = 2**40  # rows that a message can have; figures of more are no figures
COUNTED = 10**7  # rows that chances are computed for; of more, shares of so many are taken

Values = NDArray[np.float32]


@dataclass(frozen=True)
class Seen:
    """What a guest's message looked like at training: figures by value of a row. The least and the greatest are of single rows.

    Attributes
    ----------
    checksum : str
        Of the message.
    rows : int
        Rows that it has.
    quantiles : array of shape (values per row, 21)
        Of each value, in steps of 5 %: the first is its least and the last its greatest in any row, as they are in the message.
    edges, tails : arrays
        In how many rows each value is the least or the greatest; in how many it is outside the quantiles of 5 % and 95 %.
    """

    checksum: str
    rows: int
    quantiles: Values
    edges: NDArray[np.int64]
    tails: NDArray[np.int64]

    @classmethod
    def of(cls, message: Representation) -> Seen:
        """Take the figures of a training message."""
        values = message.values[:, :MOST_VALUES]
        if not len(values):
            nothing = np.zeros(0, np.int64)
            return cls(message.checksum, 0, np.zeros((0, STEPS + 1), np.float32), nothing, nothing)
        sample = values[:: max(1, len(values) // MOST_ROWS)]
        quantiles = np.quantile(sample, np.linspace(0, 1, STEPS + 1), axis=0, method="inverted_cdf").T
        quantiles[:, 0], quantiles[:, -1] = values.min(axis=0), values.max(axis=0)
        return cls(message.checksum, len(values), quantiles, _beyond(values, quantiles), _outside(values, quantiles))

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        columns = {name: getattr(self, name).tolist() for name in ("quantiles", "edges", "tails")}
        return {"checksum": self.checksum, "rows": self.rows, **columns}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Seen:
        """Take them back; ValueError where they cannot be the figures of a message."""
        edges, tails = (np.array(content[name], np.int64) for name in ("edges", "tails"))
        with np.errstate(over="ignore"):  # what is too large is infinite then, and refused
            quantiles = np.array(content["quantiles"], np.float32).reshape(-1, STEPS + 1)
        seen = cls(str(content["checksum"]), int(content["rows"]), quantiles, edges, tails)
        seen._check()
        return seen

    def _check(self) -> None:
        """Refuse figures that no message has: comparing with them would fail, or take for ever."""
        if not 0 <= self.rows <= ROW_LIMIT:
            raise ValueError("its figures of a guest's message are of an impossible number of rows")
        if not np.isfinite(self.quantiles).all() or (np.diff(self.quantiles.astype(np.float64), axis=1) < 0).any():
            raise ValueError("its quantiles of a guest's message must be numbers that ascend")
        for counts in (self.edges, self.tails):
            if counts.shape != (len(self.quantiles),) or ((counts < 0) | (counts > self.rows)).any():
                raise ValueError("its counts of a guest's rows must be one per value, and at most all rows")

    def oddities(self, message: Representation) -> list[str]:
        """Say in what a message for prediction differs from that of the training; nothing where chance could be the reason."""
        if message.checksum == self.checksum and (message.ids is not None or self._repeats() < CHANCE):
            return ["this is its message of the training; for other rows than those, let the guest represent them"]
        values = message.values[:, : len(self.quantiles)]
        if not len(values) or self.rows < LEAST_ROWS:
            return []
        return [said for test in (self._far, self._further, self._same) if (said := test(values))]

    def _repeats(self) -> float:
        """Return at most how probable it is that other rows have the very values of the training, in the same order."""
        return min((_mass(each, each, each).max() ** self.rows for each in self.quantiles), default=1.0)

    def _far(self, values: Values) -> str:
        """Look for values so far beyond the range of the training that even one is too many: prepared columns are bounded."""
        low, high = self.quantiles[:, 0].astype(np.float64), self.quantiles[:, -1].astype(np.float64)
        width = float((high - low).max())
        far = np.abs(values - np.clip(values, low, high)) > FAR * width
        if not width or not far.any():
            return ""
        rows = int(far.any(axis=1).sum())
        return f"{rows:,} of its {len(values):,} rows have a value more than {FAR} times the training's range beyond it"

    def _further(self, values: Values) -> str:
        """Look for values beyond the range of the training, or else for more than chance outside its middle."""
        beyond = "lie at or beyond the ends of the training's range"
        outside = "lie outside the middle nine tenths of the training's"
        return self._more(_beyond(values, self.quantiles), self.edges, len(values), MOST_BEYOND, beyond) or self._more(
            _outside(values, self.quantiles), self.tails, len(values), MOST_OUTSIDE, outside
        )

    def _more(self, now: NDArray[np.int64], then: NDArray[np.int64], rows: int, most: float, what: str) -> str:
        """Say so where some of a row's values are counted in far more rows than at training.

        If the rows of both came from one place, which of them are here and which there would be a draw without replacement.
        """
        here, there = _scaled(now, rows), _scaled(then, self.rows)
        drawn, others = min(rows, COUNTED), min(self.rows, COUNTED)
        chance = stats.hypergeom.sf(here - 1, drawn + others, here + there, drawn) * len(now)
        odd = (chance < CHANCE) & (now / rows >= then / self.rows + most)
        if not odd.any():
            return ""
        share, before = 100 * now[odd].mean() / rows, 100 * then[odd].mean() / self.rows
        which = "" if odd.all() else f", in {odd.sum()} of its {len(odd)} values per row"
        return f"{share:.0f} % of its values {what}, {before:.1f} % did in training{which} (another scale, or other columns?)"

    def _same(self, values: Values) -> str:
        """Look for values that are nearly the same in all rows, and were not in training."""
        width = self.quantiles[:, HIGH] - self.quantiles[:, LOW]
        spread = width > 0
        if not spread.any():
            return ""
        low, high = np.quantile(values[:, spread], [0.05, 0.95], axis=0, method="inverted_cdf")
        ratio = float(((high - low) / width[spread]).max())
        if ratio > LEAST_SPREAD or self._chance_of_window(values[:, spread], low, high, spread) >= CHANCE:
            return ""
        if (values[:1] == values).all():
            return f"all of its {len(values):,} rows have the same values"
        return f"its values are spread over {100 * ratio:.1f} % of what they were in training, or less (another scale?)"

    def _chance_of_window(self, values: Values, low: Values, high: Values, spread: NDArray[np.bool_]) -> float:
        """Return at most how probable it is that so many of the rows lie so close together, by the value that says most."""
        rows, others, least = min(len(values), COUNTED), min(self.rows, COUNTED), 1.0
        for j, quantiles in enumerate(self.quantiles[spread]):
            inside = int(_scaled(((values[:, j] >= low[j]) & (values[:, j] <= high[j])).sum(), len(values)))
            then = int(np.ceil(_mass(quantiles, low[j], high[j]) * others))
            # The ends of the window are two of the rows, any two; the others must fall between them.
            between = stats.hypergeom.sf(inside - 3, rows + others - 2, inside + then - 2, rows - 2)
            least = min(least, float(rows**2 * between)) if rows > 2 else 1.0
        return least


def _mass(quantiles: Values, low: Any, high: Any) -> Any:
    """Return at most which share of the training's rows lies between two values, by the quantiles."""
    first = np.maximum(np.searchsorted(quantiles, low, "left") - 1, 0)
    return (np.minimum(np.searchsorted(quantiles, high, "right"), STEPS) - first) / STEPS


def _scaled(counts: Any, rows: int) -> Any:
    """Return counts among `rows` as if there were at most COUNTED of them: fewer rows never make chance less probable."""
    return counts if rows <= COUNTED else np.floor(counts * (COUNTED / rows)).astype(np.int64)


def _beyond(values: Values, quantiles: Values) -> NDArray[np.int64]:
    """Count by value the rows at or beyond the ends; values of a few bits cannot go beyond, and gather at the ends."""
    return np.asarray(((values <= quantiles[:, 0]) | (values >= quantiles[:, -1])).sum(axis=0), np.int64)


def _outside(values: Values, quantiles: Values) -> NDArray[np.int64]:
    return np.asarray(((values < quantiles[:, LOW]) | (values > quantiles[:, HIGH])).sum(axis=0), np.int64)


def check(seen: Mapping[str, Seen], messages: Iterable[Representation], strict: bool = False) -> None:
    """Warn of messages for prediction that do not look like those of the training (`Host.seen`); refuse them where `strict`.

    Raises
    ------
    MessageError
        With `strict`: by the first message that is odd.
    """
    for message in messages:
        if message.party not in seen:
            logger.debug("party %r: the model has no figures of its training message to compare with", message.party)
            continue
        odd = "; ".join(seen[message.party].oddities(message))
        if odd and strict:
            raise MessageError(
                f"The message of party {message.party!r} is refused (strict): {odd}. Ask the guest what it sent; or be warned "
                "of such messages only.",
                parameter="strict",
            )
        if odd:
            warnings.warn(f"party {message.party!r}: {odd}.", FedOnceWarning, stacklevel=2)
