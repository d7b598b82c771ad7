"""DP-SGD (Abadi et al., 2016): steps on Poisson samples, with each row's gradient clipped and noise on their sum.

The sum of clipped gradients comes in closed form from `training.closedform` where the network is made of linear layers, else
from `clipped_gradients`, which has one gradient per row in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from fedonce.errors import BudgetError, InputError
from fedonce.privacy.events import SampledGaussian
from fedonce.privacy.ledger import Entry, Ledger
from fedonce.privacy.noise import SecretRandom

ROWS_AT_ONCE = 512  # whose gradients are in memory together
MARGIN = 2.0**-10  # of the clip: what rounding may add to the change that one row makes

RowLoss = Callable[[Tensor, Tensor], Tensor]  # outputs and targets of one row to its loss
# For audits: what was released, the exact sum, what was made of it, the noise's deviation, in steps of a public grid.
Witness = Callable[[str, NDArray[Any], NDArray[Any], float], None]

# Layers in which a row's output depends on the other rows of its batch, and what to take instead.
MIXING = (nn.modules.batchnorm._BatchNorm,)


@dataclass
class PrivateSteps:
    """The sampling, the noise and the ledger's line of a training, in one object, so that none can differ or be forgotten.

    Each step is `sample`, which writes the step down and chooses rows, then `release`, which makes the sum of the rows'
    clipped gradients noisy. Neither can be had without the other.

    Parameters
    ----------
    entry : Entry
        The planned line: noise, probability of a row to be sampled, number of steps.
    n_rows, public_rows : int
        Rows of the party; and their number as the public knows it, by which sums are divided.
    clip : float
        Omega in the paper: the norm that each row's gradient is clipped to.
    ledger, random
        Where steps are written down, and where samples and noise come from.
    witness : callable, optional
        For audits alone: see `Purse`. It gets the sums of one step as one vector.
    """

    entry: Entry
    n_rows: int
    public_rows: int
    clip: float
    ledger: Ledger
    random: SecretRandom
    witness: Witness | None = None
    taken: int = 0
    open: bool = False

    @property
    def event(self) -> SampledGaussian:
        """The planned event."""
        assert isinstance(self.entry.event, SampledGaussian)
        return self.entry.event

    @property
    def batch(self) -> int:
        """The expected number of rows in a sample."""
        return max(1, round(self.event.rate * self.public_rows))

    @property
    def epochs(self) -> int:
        """Passes over the rows that the steps make, rounded up."""
        return math.ceil(self.event.steps / math.ceil(self.public_rows / self.batch))

    def sample(self) -> NDArray[np.intp]:
        """Begin a step: write it down, and choose its rows, each with the plan's probability."""
        if self.open:
            raise BudgetError("The last step's gradients were not released; a step is a sample and a release.")
        if self.taken == self.event.steps:
            raise BudgetError(f"Party {self.entry.party!r} has taken all {self.taken} steps that its plan allows.")
        self.taken += 1
        self.open = True
        one = SampledGaussian(self.event.noise, self.event.rate, 1)
        # Noise from a known seed protects nobody: such an epsilon is nominal, too.
        self.ledger.spend(self.entry.party, self.entry.what, one, self.entry.nominal or self.random.insecure)
        return self.random.poisson_sample(self.n_rows, self.event.rate)

    def release(self, totals: Sequence[NDArray[Any]]) -> None:
        """End a step: add noise to the sums of clipped gradients, divide by the *expected* number of rows, in place.

        The sums of all parameters are rounded to whole steps of a public size, and so is the noise: what comes out is a whole
        number, and any whole number whatever the rows were. Rounding moves a sum of m numbers by at most sqrt(m) / 2 steps; the
        size of a step is chosen so that one row then changes the rounded sum by at most clip x (1 + MARGIN / 2), and the noise
        is widened by MARGIN. The other half of it is for what comes before: gradients and their sum in float32 (a test measures
        it: less than a tenth of that half).

        The noise is normal numbers rounded, not OpenDP's exact sampler, which takes over a hundred times as long for the hundred
        million numbers of a training. The probability of each whole number is right to about one part in a million (most to one
        in 2^28), by the spacing of the uniform numbers behind them. No step is released, only the weights after the last one
        are, to which every step adds its part with a factor of its own.
        """
        if not self.open:
            raise BudgetError("A release needs a sample of its own; call sample first.")
        self.open = False
        expected = self.event.rate * self.public_rows
        if not self.event.noise:
            for total in totals:
                total /= expected
            return
        step = self.clip * MARGIN / (2 * math.sqrt(max(1, sum(total.size for total in totals))))
        scale = self.event.noise * self.clip * (1 + MARGIN) / step
        seen = []
        for total in totals:
            exact = np.rint(np.divide(total, step, dtype=np.float64))
            noisy = self.random.normals(total.size).reshape(total.shape)
            noisy *= scale
            np.rint(noisy, out=noisy)
            noisy += exact  # whole numbers below 2^53: exact
            if self.witness is not None:
                seen.append((exact.ravel(), noisy.ravel().copy()))
            noisy *= step / expected
            total[...] = noisy
        if self.witness is not None and seen:
            before, after = (np.concatenate(each).astype(np.int64) for each in zip(*seen, strict=True))
            self.witness(self.entry.what, before, after, scale)


def clipped_gradients(
    network: nn.Module, inputs: Sequence[Tensor], targets: Tensor, row_loss: RowLoss, clip: float
) -> None:
    """Leave the sum over rows of their gradients, each clipped to norm `clip`, in `parameter.grad`.

    Parameters
    ----------
    inputs, targets : tensors of the same length
        What the network takes and what the loss compares it with, one entry per row.
    row_loss : callable
        The loss of one row, given its outputs and its target, both with a leading dimension of 1.
    """
    trained = {name: value for name, value in network.named_parameters() if value.requires_grad}
    if not trained:
        return
    fixed: dict[str, Tensor] = {name: value for name, value in network.named_parameters() if not value.requires_grad}
    fixed |= dict(network.named_buffers())

    def loss(values: dict[str, Tensor], target: Tensor, *row: Tensor) -> Tensor:
        outputs = functional_call(network, {**values, **fixed}, tuple(part[None] for part in row))
        return row_loss(outputs, target[None])

    of_rows = vmap(grad(loss), in_dims=(None, *[0] * (1 + len(inputs))), randomness="different")
    weights = {name: value.detach() for name, value in trained.items()}
    for value in trained.values():
        value.grad = torch.zeros_like(value)
    for start in range(0, len(targets), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        gradients = of_rows(weights, targets[rows], *(part[rows] for part in inputs))
        norms = torch.stack([each.flatten(1).norm(dim=1) for each in gradients.values()]).norm(dim=0)
        whole = norms.isfinite()  # a row whose gradient overflows adds nothing, instead of everything
        factors = torch.where(whole, (clip / norms.clamp(min=1e-12)).clamp(max=1.0), 0.0)
        for name, each in gradients.items():
            total = trained[name].grad
            assert total is not None
            kept = each if bool(whole.all()) else torch.where(whole.reshape(-1, *[1] * (each.ndim - 1)), each, 0.0)
            total += torch.einsum("n,n...->...", factors, kept)


def check_network(network: nn.Module, owner: str) -> None:
    """Raise where a network mixes the rows of a batch, so that there is no gradient of one row to clip."""
    for name, layer in network.named_modules():
        if isinstance(layer, MIXING):
            raise InputError(
                f"The network of {owner} has {type(layer).__name__} (layer {name!r}), in which a row's output depends on the "
                "other rows of its batch: one row's gradient cannot be clipped alone, and there is no privacy. "
                "Use nn.GroupNorm or nn.LayerNorm instead."
            )


def check_clippable(network: nn.Module, inputs: Sequence[Tensor], owner: str) -> None:
    """Raise where a network does not treat each row by itself, before any row is looked at: it is tried on made-up rows."""
    check_network(network, owner)
    generator = torch.Generator().manual_seed(0)
    rows = [torch.rand(3, *part.shape[1:], generator=generator).to(part.device, part.dtype) for part in inputs]
    training = network.training
    try:
        with torch.no_grad():
            network.eval()
            together, alone = network(*rows)[:1], network(*(part[:1] for part in rows))
        network.train()
        clipped_gradients(network, rows, torch.zeros(3), lambda outputs, _: outputs.square().sum(), 1.0)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise InputError(
            f"The network of {owner} ({type(network).__name__}) has no gradient for one row alone, which privacy needs: "
            f"{next(iter(str(error).splitlines()), type(error).__name__)}. Take a network whose layers treat each row by itself."
        ) from error
    finally:
        network.train(training)
        for parameter in network.parameters():
            parameter.grad = None
    if not torch.allclose(together, alone, rtol=1e-3, atol=1e-5):
        raise InputError(
            f"The network of {owner} ({type(network).__name__}) gives a row other values when other rows are with it: one row "
            "changes what is said of the others, and there is no privacy. Take a network whose layers treat each row by itself."
        )
