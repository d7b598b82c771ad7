"""The coupled check: two trainings with the same weights and coins, of which one lacks a row, compared sum by sum."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedonce.errors import BudgetError
from fedonce.learners import Learner
from fedonce.privacy.budget import Purse, calibrate
from fedonce.privacy.dpsgd import PrivateSteps
from fedonce.privacy.noise import SecretRandom
from fedonce.training.loop import Rows

TOLERANCE = 1e-4  # of the bound: rounding of float32 sums
Train = Callable[[Rows, Purse], object]  # train on rows with a purse


@dataclass(frozen=True)
class Coupled:
    """What the coupled check found: how far sums moved when one row was left out, over how far they may.

    Attributes
    ----------
    what : str
        What was checked.
    sums : int
        How many sums were compared.
    moved : float
        How far sums moved where the row took part, as a multiple of what it may add.
    elsewhere : float
        The same where it did not take part.
    """

    what: str
    sums: int
    moved: float  # where the row took part, as a multiple of what it may add
    elsewhere: float  # where it did not, likewise

    @property
    def passed(self) -> bool:
        """Whether no sum moved more than it may."""
        return self.moved <= 1 + TOLERANCE and self.elsewhere <= TOLERANCE


@dataclass
class _Transcript:
    """One training, sum by sum: what went in, what came out, which rows were drawn."""

    totals: list[list[NDArray[Any]]] = field(default_factory=list)
    released: list[list[NDArray[Any]]] = field(default_factory=list)
    drawn: list[NDArray[np.intp]] = field(default_factory=list)


class _Recorder(Purse):
    """A purse that writes down every sum before and after its noise."""

    transcript: _Transcript

    def release(self, what: str, total: NDArray[Any], sensitivity: int) -> NDArray[np.float64]:
        """Record one release."""
        out = super().release(what, total, sensitivity)
        self.transcript.totals.append([np.array(total)])
        self.transcript.released.append([np.array(out)])
        return out

    def steps(self, what: str, rows: NDArray[Any], clip: float) -> PrivateSteps:
        """Return steps that record themselves."""
        made = _RecordedSteps(**vars(super().steps(what, rows, clip)))
        made.transcript = self.transcript
        return made


class _RecordedSteps(PrivateSteps):
    transcript: _Transcript

    def sample(self) -> NDArray[np.intp]:
        drawn = super().sample()
        self.transcript.drawn.append(drawn)
        return drawn

    def release(self, totals: Sequence[NDArray[Any]]) -> None:
        self.transcript.totals.append([np.array(total) for total in totals])
        super().release(totals)
        self.transcript.released.append([np.array(total) for total in totals])


class _Replayer(Purse):
    """A purse for the training that lacks the last row: it compares each sum, and hands out the first training's results.

    So both trainings have the same weights at every step, and each sum can be compared by itself.
    """

    first: _Transcript
    missing: int
    moved: list[float]
    elsewhere: list[float]

    def compare(self, position: int, totals: Sequence[NDArray[Any]], bound: float, took_part: bool) -> None:
        """Compare one sum with that of the first training."""
        pairs = zip(self.first.totals[position], totals, strict=True)
        distance = math.sqrt(sum(float(np.square(a.astype(np.float64) - b).sum()) for a, b in pairs))
        (self.moved if took_part else self.elsewhere).append(distance / bound)

    def release(self, what: str, total: NDArray[Any], sensitivity: int) -> NDArray[np.float64]:
        """Compare one release."""
        position = len(self.moved) + len(self.elsewhere)
        super().release(what, total, sensitivity)
        self.compare(position, [total], sensitivity, took_part=True)
        return np.array(self.first.released[position][0])

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
        replayer = self.replayer
        position = len(replayer.moved) + len(replayer.elsewhere)
        took_part = bool((replayer.first.drawn[self.taken - 1] == replayer.missing).any())
        replayer.compare(position, totals, self.clip, took_part)
        super().release(totals)
        for total, released in zip(totals, replayer.first.released[position], strict=True):
            total[...] = released


def coupled_check(what: str, train: Train, rows: Rows, purse: Purse) -> Coupled:
    """Train with all rows and without the last one, coupled; return how far the sums moved.

    Parameters
    ----------
    train : callable
        Trains on rows with a purse; it must draw nothing but from the purse and from seeds of its own.
    purse : Purse
        What a training may spend; it is copied.
    what : str
        What is checked, in words.
    rows : array
        Prepared rows.
    """
    transcript = _Transcript()
    settings = {**vars(purse), "n_rows": len(rows), "used": set()}
    recorder = _Recorder(**settings)
    recorder.transcript = transcript
    train(rows, recorder)
    replayer = _Replayer(**{**settings, "used": set()})
    replayer.first, replayer.missing, replayer.moved, replayer.elsewhere = transcript, len(rows) - 1, [], []
    train(rows[:-1], replayer)
    if len(replayer.moved) + len(replayer.elsewhere) != len(transcript.totals):
        raise BudgetError(
            f"{what} makes another number of sums when a row is missing: how many it makes tells of the row."
        )
    return Coupled(what, len(transcript.totals), max(replayer.moved, default=0.0), max(replayer.elsewhere, default=0.0))


def check_learner(
    learner: Learner, rows: Rows, dim: int = 3, epsilon: float = 2.0, seed: int = 0, unsound: bool = False
) -> Coupled:
    """Check one learner on prepared rows.

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
        Of what is drawn.
    unsound : bool
        Whether learners whose epsilon is nominal are let through.
    """
    delta = 1 / (10 * len(rows))
    tasks = learner.private_tasks(len(rows), 1.0, unsound=unsound)
    plan = calibrate([replace(task, party="audited") for task in tasks], epsilon, delta, "rdp")
    purse = Purse("audited", plan.of("audited"), plan.ledger(), SecretRandom(insecure_test_seed=seed))

    def train(own: Rows, spending: Purse) -> None:
        copy.deepcopy(learner).fit_private(own, dim, np.random.default_rng(seed), torch.device("cpu"), spending)

    return coupled_check(learner.name, train, rows, purse)
