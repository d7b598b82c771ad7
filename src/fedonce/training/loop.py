"""The only batch loop of the project, `Loop`; and `apply`, which runs a fitted network over rows.

What differs between trainings is how a batch's loss and gradients come about: that is a *step* (`fedonce.training.steps`), and
`fedonce.training.trainer` makes the right one.
"""

from __future__ import annotations

import copy
import logging
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedonce.errors import InputError, parameter_error
from fedonce.privacy.dpsgd import PrivateSteps
from fedonce.training.checkpoints import Watch
from fedonce.training.problem import Batch as Batch
from fedonce.training.settings import Epoch, Training, Update
from fedonce.training.steps import Step
from fedonce.training.threads import network_work, threads_for

logger = logging.getLogger(__name__)

APPLY_BLOCK = 256  # rows per block in `apply`; every block has this size, see there
IMAGE_BLOCK = 16  # of images, for each thread: what convolutions of float64 need then stays in a processor's cache
IMAGE_NDIM = 4  # dimensions of an array of images: rows, channels, height, width

Rows = NDArray[np.float32]


@dataclass(frozen=True)
class Loop:
    """A training that is ready to run: `step` leaves gradients, and `update` changes the parameters by them.

    With `private`, it draws the batches, and no loss is returned: exact figures of private rows have no place in a history.
    With `watch`, epochs are told and kept, and those of a training that was killed are not done again. `work` is how many
    operations a step takes, by which the number of threads is chosen.
    """

    step: Step
    update: Update
    n_rows: int
    training: Training
    rng: np.random.Generator
    private: PrivateSteps | None = None
    watch: Watch | None = None
    work: float = math.inf

    def run(self) -> list[Epoch]:
        """Fit the parameters, epoch by epoch, and return the mean losses."""
        with threads_for(self.work):
            history: list[Epoch] = [] if self.watch is None else self.watch.resume()
            if self.private is not None:
                # Of dropout, which must be as secret as the noise; callers restore it.
                torch.manual_seed(self.private.random.seed())
            for epoch in range(len(history), self.training.epochs):
                total: Tensor | float = 0.0
                seen = 0
                for batch, rate in self._batches(epoch):
                    loss = self.step(batch, epoch)
                    self.update(rate)
                    total = total + (loss.detach() if isinstance(loss, Tensor) else loss) * len(batch)
                    seen += len(batch)
                self._note(history, epoch, float(total) / max(seen, 1))  # a Poisson sample may be empty
            return history if self.private is None else []

    def _batches(self, epoch: int) -> Iterator[tuple[Batch, float]]:
        """Yield every row once, in batches of a random order (`private`: rows as it draws them), each with its rate."""
        training, private = self.training, self.private
        n_rows = self.n_rows if private is None else private.public_rows
        order = self.rng.permutation(n_rows if private is None else 0)
        for start in range(0, n_rows, training.batch):
            progress = training.progress(epoch, start, n_rows)
            if progress >= 1:
                return
            batch = order[start : start + training.batch] if private is None else private.sample()
            yield batch, training.rate_at(progress)

    def _note(self, history: list[Epoch], epoch: int, loss: float) -> None:
        """Write an epoch down, and tell of it."""
        if not math.isfinite(loss):
            raise InputError(
                f"Training diverged: the loss of epoch {epoch + 1} is {loss}. Lower the rate ({self.training.rate})."
            )
        history.append(Epoch(epoch=epoch + 1, loss=loss))
        logger.debug("epoch %d of %d: loss %.6g", epoch + 1, self.training.epochs, loss)
        if self.watch is not None:
            self.watch.done(history)


@torch.no_grad()
def apply(network: nn.Module, rows: Rows | Sequence[Rows], device: torch.device) -> NDArray[np.float32]:
    """Run a network over rows, so that a row's output never depends on the other rows of the call.

    Matrix products choose their order of additions by the matrix's size, so the same row can differ in its last bits
    between calls of different length. Here every block has the same size (the last one is filled up), and sums are
    carried in float64 and rounded once, so that such differences vanish in the rounding.
    """
    inputs = [rows] if isinstance(rows, np.ndarray) else list(rows)
    exact = copy.deepcopy(network).to(device, torch.float64).eval()
    images = device.type == "cpu" and any(part.ndim == IMAGE_NDIM for part in inputs)
    size = min(APPLY_BLOCK, IMAGE_BLOCK * torch.get_num_threads()) if images else APPLY_BLOCK
    starts = range(0, max(len(inputs[0]), 1), size)  # no rows: one block of nothing, for the shape of the output
    with threads_for(network_work(network, inputs[0].shape[1:], APPLY_BLOCK)):
        blocks = (_apply_block(exact, inputs, slice(at, at + size), device) for at in starts)
        first = next(blocks)
        # Filled in place: results that are kept one by one would lie between blocks, which then take new memory each time.
        outputs = np.empty((len(inputs[0]), *first.shape[1:]), np.float32)
        outputs[:size] = first
        for at, block in zip(starts[1:], blocks, strict=True):
            outputs[at : at + size] = block
        return outputs


def _apply_block(network: nn.Module, inputs: list[Rows], rows: slice, device: torch.device) -> NDArray[np.float32]:
    block = [part[rows] for part in inputs]
    n, size = len(block[0]), rows.stop - rows.start
    filled = [np.concatenate([part, np.zeros((size - n, *part.shape[1:]), part.dtype)]) for part in block]
    outputs: NDArray[np.float32] = (
        network(*[torch.from_numpy(p).to(device, torch.float64) for p in filled])[:n].float().cpu().numpy()
    )
    return outputs


def pick_device(device: str, owner: str = "Guest or Host") -> torch.device:
    """Return the device of a name; "auto" is a GPU where there is one."""
    if not isinstance(device, str) or not re.fullmatch(r"auto|cpu|cuda(:\d+)?", device):
        raise parameter_error(owner, "device", "'auto', 'cpu' or 'cuda'", device)
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise parameter_error(owner, "device", "'auto' or 'cpu' here, as torch sees no GPU", device)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device)
