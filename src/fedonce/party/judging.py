"""What rows held back from a host's training say: whether the guests are worth it, and how far probabilities can be believed."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedonce.errors import InputError
from fedonce.hostmodels import Examples, HostModel
from fedonce.hostmodels.base import Held
from fedonce.hostmodels.calibration import helps, temperature
from fedonce.hostmodels.validation import hold_out, judge
from fedonce.party.host_state import HostSettings, HostState
from fedonce.training.randomness import party_generator

logger = logging.getLogger(__name__)

LEAST_ROWS = 20  # fewer say nothing


def judged(trained: HostState, examples: Examples, settings: HostSettings, device: torch.device) -> HostState:
    """Return the state with what rows held back say, where that is wanted and there are enough."""
    model = trained.model
    assert model is not None
    asked = settings.validate or (settings.calibrate is True and trained.classes is not None)
    if len(examples.target) < LEAST_ROWS or not (asked or model.held is not None):
        return trained
    try:
        return _judged(trained, model, examples, settings, device)
    except ValueError as error:  # of a model that needs more rows, or two classes: it has learnt from all rows as it is
        logger.warning("host %s: rows held back say nothing (%s)", settings.name, type(error).__name__)
        return trained


def _judged(
    trained: HostState, model: HostModel, examples: Examples, settings: HostSettings, device: torch.device
) -> HostState:
    # A party's name has no line break: this generator is nobody else's.
    rng = party_generator(settings.random_state, f"{settings.name}\nheld back")
    joint = model.held or hold_out(model, examples, list(trained.dims.values()), trained.n_outputs, rng, device)
    goal = examples.take(joint.rows)
    if trained.classes is not None and (settings.calibrate is True or _is_wanted(settings, joint, goal)):
        trained = replace(trained, temperature=temperature(joint.outputs, goal.target, goal.weight))
    if not settings.validate:
        return trained
    alone = _alone(model, joint, examples, trained, rng, device) if trained.dims else None
    return replace(trained, validation=judge(joint, alone, examples, trained.spread, model.chosen))


def _is_wanted(settings: HostSettings, joint: Held, goal: Examples) -> bool:
    return settings.calibrate == "auto" and helps(joint.outputs, goal.target, goal.weight)


def _alone(
    model: HostModel,
    joint: Held,
    examples: Examples,
    trained: HostState,
    rng: np.random.Generator,
    device: torch.device,
) -> Held:
    """Train models of the host's own columns without the same rows."""
    return hold_out(model, examples.alone, [], trained.n_outputs, rng, device, joint.splits)


def check_weights(weight: Any, n_rows: int, private: bool, rounds: bool) -> NDArray[np.float64] | None:
    """Return weights of mean 1; raise where they cannot be meant."""
    if weight is None:
        return None
    if private or rounds:
        what = "a privacy budget, whose noise is for rows that count alike" if private else "rounds"
        raise InputError(f"The 'weight' parameter of Host must be left out with {what}.", parameter="weight")
    wanted = f"The weights of rows must be {n_rows} finite numbers, none below 0 and not all 0."
    try:
        values = np.asarray(weight, dtype=np.float64)
    except (TypeError, ValueError):  # which would show one of them
        raise InputError(f"{wanted} Got something else than numbers.", parameter="weight") from None
    with np.errstate(over="ignore"):
        total = values.sum()
    if values.shape != (n_rows,) or not np.isfinite(total) or (values < 0).any() or not values.any():
        raise InputError(f"{wanted} Got an array of shape {values.shape}.", parameter="weight")
    return np.asarray(values / values.mean())
