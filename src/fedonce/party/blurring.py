"""How a guest perturbs what leaves: not at all, by Gaussian noise, or by answers of a stated epsilon per row."""

from __future__ import annotations

import secrets
from typing import Any, TypeAlias

import numpy as np

from fedonce import learners
from fedonce.errors import parameter_error
from fedonce.learners import Auto, Learner, Signs
from fedonce.messages.codecs import Codec
from fedonce.messages.codecs.coded import coded_by
from fedonce.messages.codecs.steps import Steps
from fedonce.messages.message_checks import LEAST_EPSILON, MOST_EPSILON, is_epsilon
from fedonce.party import writing
from fedonce.privacy import LocalEpsilon, LocalNoise
from fedonce.privacy.local_epsilon import KEY_BYTES
from fedonce.rows.ids import Ids, one_form
from fedonce.training.loop import Rows

Blur: TypeAlias = LocalNoise | LocalEpsilon

_OWN_NOISE = "0 with local_epsilon, which has noise of its own"
_ANYWHERE = "None with local_epsilon, whose answers have a mark per cell; give dim"
_APART = "None with local_epsilon: the encoder of a budget is learnt from rows, that of a local epsilon from none"
_ALONE = {  # what each parameter must be beside a local epsilon
    "noise": _OWN_NOISE,
    "representation_noise": _OWN_NOISE,
    "bytes_per_row": _ANYWHERE,
    "bytes_total": _ANYWHERE,
    "rounds": "0 with local_epsilon: in rounds the values of a row leave the guest many times, and each costs epsilon",
    "epsilon": _APART,
    "purse": _APART,
}


def check_local(owner: str, given: float | None, encoding: type[Codec], **others: object) -> None:
    """Raise unless it is None, or an epsilon for rows and nothing is given that has no place beside it."""
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
    """Return the guest's learner: with a local epsilon, one that looks at no row."""
    made = learners.make(learner, epochs, owner, bytes_per_row)
    if local_epsilon is None:
        return made
    if not isinstance(made, Auto | Signs):
        wanted = '"auto" with local_epsilon: an encoder learnt from rows would disclose them beside the answers'
        raise parameter_error(owner, "learner", wanted, made.name)
    if isinstance(dim, int | np.integer) and dim < 2:  # what is no number is refused with the other settings
        raise parameter_error(owner, "dim", "2 or more with local_epsilon, for as many cells", dim)
    return Signs()


def fitted(noise: float, local_epsilon: float | None, learner: Learner, values: Rows, key: bytes | None) -> Blur | None:
    """Return how a guest perturbs values; Gaussian noise is fitted to those of its training rows."""
    if local_epsilon is not None:
        assert learner.steps is not None
        cells = int(learner.steps.levels[0]) + 1
        return LocalEpsilon(float(local_epsilon), cells, key or secrets.token_bytes(KEY_BYTES))
    if not noise:
        return None
    made = LocalNoise(float(noise), key=key)
    made.fit(values)
    return made


def codec(blur: LocalEpsilon) -> Codec:
    """Return the codec for answers: a mark per cell, at one of two levels."""
    outside, inside = blur.marks
    low, step = np.full(blur.cells, outside, np.float32), np.full(blur.cells, inside - outside, np.float32)
    return coded_by(Steps(low, step, np.ones(blur.cells, np.uint16)))


def stated(blur: Blur | None) -> dict[str, Any]:
    """Return what a message says of it: entries of `Representation`."""
    if isinstance(blur, LocalEpsilon):
        return {"local_epsilon": blur.epsilon}
    return {"noise": 0.0 if blur is None else blur.scale}


def perturbed(blur: Blur, values: Rows, ids: Ids | None, encoder: str) -> Rows:
    """Return the values to be sent."""
    rows = None if ids is None else one_form(ids)
    if isinstance(blur, LocalEpsilon):
        return blur.answers(values, rows, encoder)
    return blur.noisy(values, rows, encoder)
