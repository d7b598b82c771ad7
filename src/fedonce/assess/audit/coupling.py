"""One training, looked into: how far its sums move when a row is missing, and what its noise, samples and price are.

All of it is found by a purse that writes down, for every release, the sum that goes in, the noisy one that comes out, and by how
much a row may change it; the plan says how much noise there must be. Nothing that the purse says of itself is relied on.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedonce.assess.audit import measures
from fedonce.assess.audit.bits import Bits, check_bits
from fedonce.assess.audit.measures import ENOUGH, Measured, Noise, Train
from fedonce.errors import BudgetError
from fedonce.learners import Learner
from fedonce.privacy.budget import Purse, calibrate
from fedonce.privacy.dpsgd import MARGIN, PrivateSteps
from fedonce.privacy.events import Gaussian, Noisy, SampledGaussian
from fedonce.privacy.noise import SecretRandom
from fedonce.training.loop import Rows

TOLERANCE = 1e-4  # of the bound: rounding of float32 sums
ANOTHER_NUMBER = "A training makes another number of sums when a row is missing: how many it makes discloses the row."
MOST_RUNS = 32  # trainings in which a mechanism that makes little noise is watched


@dataclass(frozen=True)
class Checked:
    """What was found of one training.

    Attributes
    ----------
    what : str
        What was trained.
    sums : int
        How many sums were compared with those of a training that lacks a row.
    moved : float
        How far sums moved where the row took part, as a multiple of what it may add.
    elsewhere : float
        The same where it did not take part.
    measured : tuple of Measured
        Noise, samples and price.
    bits : Bits, optional
        What the bits of released numbers disclose.
    price, claimed : float
        What the accountant asks for what was seen, and the claim.
    """

    what: str
    sums: int
    moved: float
    elsewhere: float
    measured: tuple[Measured, ...] = ()
    bits: Bits | None = None
    price: float = 0.0
    claimed: float = math.inf

    @property
    def exact_passed(self) -> bool:
        """Whether what needs no statistics is right: no sum moved more than it may, bits are silent, the price is the claim."""
        sums = self.moved <= 1 + TOLERANCE and self.elsewhere <= TOLERANCE
        return sums and (self.bits is None or self.bits.passed) and self.price <= self.claimed * (1 + TOLERANCE)

    @property
    def passed(self) -> bool:
        """Whether nothing contradicts the claim."""
        return self.exact_passed and all(each.passed for each in self.measured)


@dataclass(frozen=True)
class _Release:
    """One release: its line of the plan, the sum that went in, what came out, what that was divided by, what a row may add."""

    what: str
    total: NDArray[np.float64]
    released: NDArray[np.float64]
    divisor: float
    bound: float


@dataclass
class _Transcript:
    """One training, release by release, and which rows were drawn for each step."""

    releases: list[_Release] = field(default_factory=list)
    drawn: list[NDArray[np.intp]] = field(default_factory=list)


class _Recorder(Purse):
    """A purse that writes down what is done with it."""

    transcript: _Transcript

    def release(self, what: str, total: NDArray[Any], sensitivity: int) -> NDArray[np.float64]:
        """Record one release."""
        out = super().release(what, total, sensitivity)
        self.transcript.releases.append(_Release(what, _as_one([total]), _as_one([out]), 1.0, sensitivity))
        return out

    def steps(self, what: str, rows: NDArray[Any], clip: float) -> PrivateSteps:
        """Return steps that record themselves."""
        made = _RecordedSteps(**vars(super().steps(what, rows, clip)))
        made.transcript = self.transcript
        return made


class _RecordedSteps(PrivateSteps):
    transcript: _Transcript

    def sample(self) -> NDArray[np.intp]:
        self.transcript.drawn.append(super().sample())
        return self.transcript.drawn[-1]

    def release(self, totals: Sequence[NDArray[Any]]) -> None:
        before = _as_one(totals)
        super().release(totals)
        expected = self.event.rate * self.public_rows
        self.transcript.releases.append(_Release(self.entry.what, before, _as_one(totals), expected, self.clip))


def _as_one(totals: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Return a copy of arrays as one vector."""
    return np.concatenate([np.ravel(total) for total in totals], dtype=np.float64)


class _Replayer(Purse):
    """A purse for the training that lacks the last row: it compares each sum, and hands out the first training's results.

    So both trainings have the same weights at every step, and each sum can be compared by itself.
    """

    first: _Transcript
    missing: int
    moved: list[float]
    elsewhere: list[float]

    def compare(self, totals: Sequence[NDArray[Any]], took_part: bool) -> NDArray[np.float64]:
        """Compare a sum with that of the first training; return what that one released."""
        position = len(self.moved) + len(self.elsewhere)
        if position == len(self.first.releases):
            raise BudgetError(ANOTHER_NUMBER)
        before = self.first.releases[position]
        distance = float(np.linalg.norm(before.total - _as_one(totals))) / before.bound
        (self.moved if took_part else self.elsewhere).append(distance)
        return before.released

    def release(self, what: str, total: NDArray[Any], sensitivity: int) -> NDArray[np.float64]:
        """Compare one release."""
        super().release(what, total, sensitivity)
        return self.compare([total], took_part=True).reshape(total.shape)

    def steps(self, what: str, rows: NDArray[Any], clip: float) -> PrivateSteps:
        """Return steps that compare themselves."""
        made = _ReplayedSteps(**vars(super().steps(what, rows, clip)))
        made.replayer = self
        return made


class _ReplayedSteps(PrivateSteps):
    replayer: _Replayer

    def sample(self) -> NDArray[np.intp]:
        super().sample()
        drawn: NDArray[np.intp] = self.replayer.first.drawn[self.taken - 1]
        kept: NDArray[np.intp] = drawn[drawn != self.replayer.missing]
        return kept

    def release(self, totals: Sequence[NDArray[Any]]) -> None:
        took_part = bool((self.replayer.first.drawn[self.taken - 1] == self.replayer.missing).any())
        released = self.replayer.compare(totals, took_part)
        super().release(totals)
        ends = np.cumsum([total.size for total in totals])
        for total, part in zip(totals, np.split(released, ends[:-1]), strict=True):
            total[...] = part.reshape(total.shape)


def check_training(what: str, train: Train, rows: Rows, purse: Purse, claimed: float) -> Checked:
    """Train with all rows and without the last one, coupled; then look at noise, samples and price.

    A training that makes little noise, such as PCA's, is repeated, so that its noise can be judged.

    Parameters
    ----------
    what : str
        What is checked, in words.
    train : callable
        Trains on rows with a purse; it must draw nothing but from the purse and from seeds of its own.
    rows : array
        Prepared rows.
    purse : Purse
        What a training may spend; it is copied.
    claimed : float
        The epsilon that is claimed.
    """
    first = _watched(train, rows, purse)
    replayer = _Replayer(**_settings(purse, len(rows)))
    replayer.first, replayer.missing, replayer.moved, replayer.elsewhere = first, len(rows) - 1, [], []
    train(rows[:-1], replayer)
    if len(replayer.moved) + len(replayer.elsewhere) != len(first.releases):
        raise BudgetError(ANOTHER_NUMBER)
    seen = _events(first, purse)
    price = replace(
        purse.ledger, entries=[replace(entry, event=seen.get(entry.what)) for entry in purse.planned]
    ).epsilon()
    measured = _measured(train, rows, purse, first)
    noisy = bool(seen) and math.isfinite(price)
    if noisy:
        measured.append(measures.price("delta at half the epsilon", list(seen.values()), claimed))
    return Checked(
        what,
        len(first.releases),
        max(replayer.moved, default=0.0),
        max(replayer.elsewhere, default=0.0),
        tuple(measured),
        check_bits(what, train, rows, Purse(**_settings(purse, len(rows)))) if noisy else None,
        price,
        claimed,
    )


def _settings(purse: Purse, n_rows: int) -> dict[str, Any]:
    """Return the fields of a purse like this one, with a ledger of its own."""
    return {**vars(purse), "n_rows": n_rows, "used": set(), "ledger": replace(purse.ledger, entries=[])}


def _watched(train: Train, rows: Rows, purse: Purse) -> _Transcript:
    """Return what one training does."""
    recorder = _Recorder(**_settings(purse, len(rows)))
    recorder.transcript = _Transcript()
    train(rows, recorder)
    return recorder.transcript


def _events(seen: _Transcript, purse: Purse) -> dict[str, Noisy]:
    """Return what happened, by its line of the plan, with the number of releases that were counted."""
    planned = {entry.what: entry.event for entry in purse.planned}
    events: dict[str, Noisy] = {}
    for what, times in Counter(release.what for release in seen.releases).items():
        event = planned[what]
        assert isinstance(event, Gaussian | SampledGaussian)
        events[what] = replace(event, times=times) if isinstance(event, Gaussian) else replace(event, steps=times)
    return events


def _measured(train: Train, rows: Rows, purse: Purse, first: _Transcript) -> list[Measured]:
    """Return the tests of noise and samples, of as many trainings as they need."""
    noises: dict[str, Noise] = {}
    drawn, steps = np.zeros(len(rows), np.intp), 0
    events = _events(first, purse)
    seen, runs = first, 1
    while True:
        for release in seen.releases:
            event = events[release.what]
            scale = event.noise * release.bound * (1 + MARGIN if isinstance(event, SampledGaussian) else 1)
            if scale:
                noise = (release.released * release.divisor - release.total) / scale
                noises.setdefault(release.what, Noise()).add(noise)
        for positions in seen.drawn:
            drawn[positions] += 1
        steps += len(seen.drawn)
        if runs == MOST_RUNS or min((noise.count for noise in noises.values()), default=ENOUGH) >= ENOUGH:
            break
        seen, runs = _watched(train, rows, purse), runs + 1
    found = [noise.measured(f"noise of {what}") for what, noise in noises.items()]
    rates = [event.rate for event in events.values() if isinstance(event, SampledGaussian)]
    if len(rates) == 1:
        found.append(measures.sampling("samples", drawn, steps, rates[0]))
    return found


def check_learner(
    learner: Learner, rows: Rows, dim: int = 3, epsilon: float = 2.0, seed: int = 0, unsound: bool = False
) -> Checked:
    """Check one learner on prepared rows: sums, noise, samples and price.

    Parameters
    ----------
    learner : Learner
        One with a private version.
    rows : array
        Prepared rows.
    dim : int
        Values per row.
    epsilon : float
        The budget that it is given.
    seed : int
        Of what the learner draws for itself; noise and samples come from the operating system.
    unsound : bool
        Whether learners whose epsilon is nominal are let through.
    """
    delta = 1 / (10 * len(rows))
    tasks = learner.private_tasks(len(rows), 1.0, unsound=unsound)
    plan = calibrate([replace(task, party="audited") for task in tasks], epsilon, delta, "rdp")
    purse = Purse("audited", plan.of("audited"), plan.ledger(), SecretRandom())

    def train(own: Rows, spending: Purse) -> None:
        copy.deepcopy(learner).fit_private(own, dim, np.random.default_rng(seed), torch.device("cpu"), spending)

    return check_training(learner.name, train, rows, purse, epsilon)
