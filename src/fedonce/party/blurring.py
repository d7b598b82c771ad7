"""How a guest blurs what leaves of a row: not at all, by Gaussian noise, or by answers of a stated epsilon."""

from __future__ import annotations

import secrets
from typing import Any, TypeAlias

import numpy as np

from fedonce import learners
from fedonce.errors import parameter_error
from fedonce.learners import Auto, Cells, Learner
from fedonce.messages.codecs import Codec
from fedonce.messages.codecs.coded import coded_by
from fedonce.messages.codecs.steps import Steps
from fedonce.messages.message_checks import LEAST_EPSILON, MOST_EPSILON, is_epsilon
from fedonce.party import writing
from fedonce.privacy import LocalEpsilon, LocalNoise
from fedonce.privacy.local_epsilon import KEY_BYTES
from fedonce.rows.ids import Ids
from fedonce.training.loop import Rows

Blur: TypeAlias = LocalNoise | LocalEpsilon

_OWN_NOISE = "0 with local_epsilon, which has noise of its own"
_ANYWHERE = "None with local_epsilon, whose answers lie anywhere; give dim"
_UNPRICED = "None with local_epsilon, whose centre and radius are figures of private rows that no budget prices"
_ALONE = {  # what each parameter must be beside a local epsilon
    "noise": _OWN_NOISE,
    "representation_noise": _OWN_NOISE,
    "bytes_per_row": _ANYWHERE,
    "bytes_total": _ANYWHERE,
    "rounds": "0 with local_epsilon: in rounds a row's values leave the guest many times, and each costs epsilon",
    "epsilon": _UNPRICED,
    "purse": _UNPRICED,
}


def check_local(owner: str, given: float | None, encoding: type[Codec], **others: object) -> None:
    """Raise unless it is None, or an epsilon that rows can be told with and nothing is given that has no place beside it."""
    if given is None:
        return
    if not is_epsilon(given):
        wanted = f"a number from {LEAST_EPSILON:g} to {MOST_EPSILON:g}, or None"
        raise parameter_error(owner, "local_epsilon", wanted, given)
    for name, wanted in _ALONE.items():
        if value := others.get(name):
            raise parameter_error(owner, name, wanted, "a purse" if name == "purse" else value)
    if encoding not in writing.CODED:
        wanted = "8 or 4 with local_epsilon: the last digits of floats would tell more than epsilon allows"
        raise parameter_error(owner, "bits", wanted, encoding.choice())


def learner_for(
    learner: object, epochs: int | None, owner: str, bytes_per_row: float | None, local_epsilon: float | None, dim: int
) -> Learner:
    """Return the guest's learner: with a local epsilon, "auto" and "cells" are at most `dim` cells, told by number."""
    made = learners.make(learner, epochs, owner, bytes_per_row)
    if local_epsilon is None or not isinstance(made, Auto | Cells) or not isinstance(dim, int | np.integer):
        return made  # a number of values that is none is refused with the other settings
    if dim < 2:
        raise parameter_error(owner, "dim", "2 or more with local_epsilon, for as many cells", dim)
    cells = made if isinstance(made, Cells) else Cells()
    return Cells(cells=min(cells.cells, int(dim)), least=cells.least, centres=False)


def before_learning(noise: float, local_epsilon: float | None) -> Blur | None:
    """Return how a guest will blur, not yet fitted to its rows."""
    if local_epsilon is not None:
        return LocalEpsilon(float(local_epsilon))
    return LocalNoise(float(noise)) if noise else None


def fitted(blur: Blur | None, learner: Learner, values: Rows, key: bytes | None) -> Blur | None:
    """Return how a guest blurs, fitted to the values of its training rows."""
    if blur is None:
        return None
    if isinstance(blur, LocalNoise):
        noise = LocalNoise(blur.scale, key=key)
        noise.fit(values)
        return noise
    answers = LocalEpsilon(blur.epsilon, key=key or secrets.token_bytes(KEY_BYTES))
    answers.fit(values, _few(learner.steps))
    return answers


def _few(steps: Steps | None) -> int:
    """Return of how many things a learner's values are the numbers; 0: they are no such numbers."""
    if steps is None or steps.low.tolist() != [0] or steps.step.tolist() != [1]:
        return 0
    return max(int(steps.levels[0]) + 1, 2)  # of one thing nothing can be told, and an answer needs two


def codec(blur: LocalEpsilon, encoding: type[Codec], dim: int) -> Codec:
    """Return the codec for answers, whose range follows from epsilon alone."""
    if not blur.few:
        return writing.public(encoding, blur.bound, dim)
    outside, inside = blur.marks
    low, step = np.full(dim, outside, np.float32), np.full(dim, inside - outside, np.float32)
    return coded_by(Steps(low, step, np.ones(dim, np.uint16)))


def stated(blur: Blur | None) -> dict[str, Any]:
    """Return what a message says of it: entries of `Representation`."""
    if isinstance(blur, LocalEpsilon):
        return {"local_epsilon": blur.epsilon, "mechanism": blur.mechanism}
    return {"noise": 0.0 if blur is None else blur.scale}


def blurred(blur: Blur, values: Rows, rows: Rows, ids: Ids | None, model: str) -> Rows:
    """Return the values to be sent; a guest that has a key gives the same row the same noise each time."""
    if blur.key is None or (ids is None and isinstance(blur, LocalNoise)):
        return blur.blur(values)
    # Without ids a row is known by its place: by its content alone, rows that are alike would be seen to be.
    names = [f"row {place}" for place in range(len(values))] if ids is None else list(ids)
    known = [f"{model} {name}".encode("utf-8", "surrogatepass") for name in names]
    # Of the prepared rows, which depend on nothing but the row itself: the last bit of values depends on the rows beside it.
    return blur.blur(values, known, [row.tobytes() for row in np.ascontiguousarray(rows)])
