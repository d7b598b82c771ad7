"""The rule behind `learner="auto"`: look at the guest's own rows, and choose. `docs/learners.md` has the numbers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedonce.data.preparation import Coding
from fedonce.errors import FedOnceWarning, InputError
from fedonce.learners.autoencoder import Autoencoder
from fedonce.learners.base import Learner, Tensors, progress_for, sent_for
from fedonce.learners.cells import Cells
from fedonce.learners.cooccurrence import Cooccurrence
from fedonce.learners.names import Facts
from fedonce.learners.patches import Patches
from fedonce.learners.pca import PCA, principal
from fedonce.learners.quantiles import Quantiles
from fedonce.messages.codecs.steps import Steps
from fedonce.privacy.budget import Purse, Task
from fedonce.training.checkpoints import Progress
from fedonce.training.loop import Rows
from fedonce.training.settings import Epoch
from fedonce.training.stored import added_later

SMALLEST_PATCH_IMAGE = 10  # pixels per side
LEAST_PATCH_DIM = 16  # with fewer values PCA is as good or better
ENOUGH_VARIANCE = (
    0.5  # share of the variance that PCA must keep to be chosen: an autoencoder costs a hundred times as much
)
FEW_BYTES = 1.0  # per row: below, cells say more than principal components that are rounded so much
CENTRES = 500  # bytes of a message from which on there is room for where cells are
CHOICES: dict[str, type[Learner]] = {
    kind.name: kind for kind in (PCA, Autoencoder, Patches, Cells, Quantiles, Cooccurrence)
}
# Chosen on validation rows (`docs/learners.md`).
MANY_VALUES = Coding(rows_per_value=4, alone=False)


def choose(rows: Rows, dim: int, bytes_per_row: float | None = None, readable: bool = False) -> Learner:
    """Choose a learner from one guest's prepared rows, without labels.

    Images: patches where they have ten or more pixels per side and sixteen or more values are asked for, else PCA.
    Tables: PCA, unless it loses more than half of the variance; then an autoencoder, which makes more of few values. Where a
    row may take so many bytes: PCA, or cells where that is less than a byte. Where the message may be readable: quantiles.
    """
    if readable and rows.ndim == 2 and len(rows) >= Quantiles.least:
        return Quantiles(bytes_per_row=bytes_per_row)
    if bytes_per_row is not None and rows.ndim == 2:
        few = bytes_per_row < FEW_BYTES and len(rows) * bytes_per_row >= CENTRES
        return Cells(bytes_per_row=bytes_per_row, together=True) if few else PCA(bytes_per_row)
    if rows.ndim == 4:
        return Patches() if min(rows.shape[2:]) >= SMALLEST_PATCH_IMAGE and dim >= LEAST_PATCH_DIM else PCA()
    _, variances, _, total = principal(rows, dim)
    return PCA() if variances.sum() >= ENOUGH_VARIANCE * total else Autoencoder()


@dataclass(eq=False)
class Auto(Learner):
    """Choose a learner by `choose`, then do as it does.

    Parameters
    ----------
    epochs : int, optional
        Of an autoencoder.
    bytes_per_row : float, optional
        Bytes that a row's values may take in the message, on average.
    readable : bool, optional
        Whether the message may be the columns themselves, in bins, for whoever holds it to read. Without effect, but for a
        warning, where categories have many values: bins of such say nothing.
    """

    name: ClassVar[str] = "auto"
    facts: ClassVar[Facts] = Facts(private=True, exports=True)
    bound: ClassVar[float] = PCA.bound
    coding: ClassVar[Coding | None] = MANY_VALUES
    epochs: int | None = None
    bytes_per_row: float | None = added_later()
    readable: bool | None = added_later()
    chosen_: Learner | None = field(default=None, init=False, repr=False)

    def fit(
        self,
        rows: Rows,
        dim: int,
        rng: np.random.Generator,
        device: torch.device,
        progress: Progress | None = None,
        coded: Sequence[int] = (),
        sent: NDArray[np.intp] | None = None,
    ) -> list[Epoch]:
        """Choose, and fit what was chosen: by co-occurrence where the preparation found columns for it."""
        if coded:
            if self.readable:
                warnings.warn(
                    "The table has categories with many values, for which 'auto' learns by 'cooccurrence', whose message cannot "
                    "be read: readable=True has no effect. Learn by 'quantiles' to send the other columns in bins, or leave the "
                    "categories out.",
                    FedOnceWarning,
                    stacklevel=2,
                )
            self.chosen_ = Cooccurrence(self.bytes_per_row)
            return self.chosen_.fit(rows, dim, rng, device, coded)
        self.chosen_ = choose(rows, dim, self.bytes_per_row, bool(self.readable))
        if isinstance(self.chosen_, Autoencoder):
            self.chosen_.epochs = self.epochs
        more = progress_for(self.chosen_.fit, progress) | sent_for(self.chosen_.fit, sent)
        return self.chosen_.fit(rows, dim, rng, device, **more)

    def private_tasks(self, n_rows: int, share: float, exact: bool = False, unsound: bool = False) -> list[Task]:
        """Return PCA's: with a budget no row is looked at to choose."""
        return PCA().private_tasks(n_rows, share, exact, unsound)

    def fit_private(self, rows: Rows, dim: int, rng: np.random.Generator, device: torch.device, purse: Purse) -> None:
        """Learn by PCA."""
        self.chosen_ = PCA()
        self.chosen_.fit_private(rows, dim, rng, device, purse)

    def transform(self, rows: Rows, device: torch.device) -> Rows:
        """Transform with what was chosen."""
        return self.chosen().transform(rows, device)

    @property
    def steps(self) -> Steps | None:
        """Those of what was chosen."""
        return None if self.chosen_ is None else self.chosen_.steps

    @property
    def shared(self) -> int:
        """As what was chosen."""
        return 0 if self.chosen_ is None else self.chosen_.shared

    @property
    def one_scale(self) -> bool:
        """As what was chosen."""
        return self.chosen_ is not None and self.chosen_.one_scale

    def transform_in_layers(self, rows: Rows, device: torch.device) -> Rows:
        """Transform with what was chosen."""
        return self.chosen().transform_in_layers(rows, device)

    def module(self) -> nn.Module:
        """Return the chosen learner's network."""
        return self.chosen().module()

    def chosen(self) -> Learner:
        """Return the learner that was chosen."""
        if self.chosen_ is None:
            raise InputError("This Auto has not learnt yet; call fit first.")
        return self.chosen_

    def state(self) -> Tensors:
        """Return what the chosen learner has learnt, and its name."""
        return {"chosen": np.frombuffer(self.chosen().name.encode(), dtype=np.uint8), **self.chosen().state()}

    def restore(self, tensors: Tensors) -> None:
        """Take it back."""
        self.chosen_ = CHOICES[tensors["chosen"].tobytes().decode()]()
        self.chosen_.restore({name: value for name, value in tensors.items() if name != "chosen"})
