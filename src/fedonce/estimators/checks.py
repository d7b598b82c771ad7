"""Which parameters of an estimator cannot be, or cannot go together."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fedonce import hostmodels, learners
from fedonce.errors import parameter_error
from fedonce.messages import codecs
from fedonce.messages.hints import Hinting, Hints
from fedonce.party import blurring, check_labels, check_noise, sharing
from fedonce.party.parameters import check_counts, values
from fedonce.party.protecting import check_protect
from fedonce.privacy.settings import Privacy
from fedonce.rounds.settings import as_rounds
from fedonce.training.loop import pick_device


def as_hinting(given: object, owner: str) -> Hinting | Hints | None:
    """Return how to hint from what a user gives: an epsilon, a `Hinting`, ready `Hints`; None: not at all."""
    if given is None or isinstance(given, Hints):
        return given
    if isinstance(given, bool) or not isinstance(given, int | float | np.number | Hinting):
        raise parameter_error(owner, "hints", "an epsilon, a Hinting, Hints or None", given)
    if math.isinf(given.epsilon if isinstance(given, Hinting) else float(given)):
        wanted = (
            "finite: fit hints at its own labels, which would leave as they are. Of another label, which may, give the Hints "
            "(fedonce.party.hinting.publish)"
        )
        raise parameter_error(owner, "hints", wanted, given)
    return given if isinstance(given, Hinting) else Hinting(float(given))


def check_parameters(given: Any, owner: str, task: str, privacy: Privacy) -> None:
    """Raise where the parameters of an estimator cannot be, or cannot go together."""
    if privacy.epsilon is not None:
        local = next(filter(None, values(given.local_epsilon)), None)
        if local is not None:
            raise parameter_error(
                owner, "local_epsilon", "None with a privacy budget (epsilon): give one of the two", local
            )
        _check_private(given, owner, task, privacy)
    check_counts("dim", given.dim, owner, optional=False)
    check_counts("epochs", given.epochs, owner, optional=True)
    check_counts("host_epochs", given.host_epochs, owner, optional=True)
    check_noise(owner, "representation_noise", given.representation_noise)
    if as_rounds(given.rounds, owner) and given.representation_noise:
        wanted = "0 together with rounds, in which a row's values leave the guest many times and noise averages out"
        raise parameter_error(owner, "representation_noise", wanted, given.representation_noise)
    made = [learners.make(learner, owner=owner) for learner in values(given.learner)]
    hostmodels.make(given.model, given.recipe, None, owner)
    encoding = codecs.find(given.bits, owner)
    anywhere = privacy.epsilon is not None or bool(given.representation_noise) or bool(given.rounds)
    sharing.check_bytes(owner, encoding, given.bytes_per_row, given.bytes_total, anywhere)
    others = vars(given) | {"epsilon": privacy.epsilon}
    for each in values(given.local_epsilon):
        blurring.check_local(owner, each, encoding, **others)
    for protection in values(given.protect):
        check_protect(owner, protection, **others)
    if given.hints is not None and (
        privacy.epsilon is not None or given.rounds or any((*values(given.local_epsilon), *values(given.protect)))
    ):
        wanted = (
            "None with rounds, protect, local_epsilon or a privacy budget, beside which guests cannot learn from hints"
        )
        raise parameter_error(owner, "hints", wanted, given.hints)
    on_steps = next((learner.name for learner in made if learner.facts.on_steps), None)
    if given.hints is not None and on_steps is not None:
        wanted = f"None with the learner {on_steps!r}, whose values leave no room for hints; leave out one of the two"
        raise parameter_error(owner, "hints", wanted, given.hints)
    pick_device(given.device, owner)


def _check_private(given: Any, owner: str, task: str, privacy: Privacy) -> None:
    """Refuse what cannot go together with a budget."""
    if given.rounds:
        wanted = "0 with a privacy budget, as gradients of single rows would leave the host in every round"
        raise parameter_error(owner, "rounds", wanted, given.rounds)
    if given.representation_noise:
        wanted = "0 with a privacy budget: its centre and radius are figures of private rows that nobody has priced"
        raise parameter_error(owner, "representation_noise", wanted, given.representation_noise)
    check_labels(privacy.target_bounds, task)
