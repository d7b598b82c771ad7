"""What one party may spend: every use takes a planned line and writes it in the ledger, or is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.errors import BudgetError, parameter_error
from fedonce.privacy import grid
from fedonce.privacy.dpsgd import PrivateSteps, Witness
from fedonce.privacy.events import Gaussian, SampledGaussian
from fedonce.privacy.ledger import Entry, Ledger
from fedonce.privacy.noise import SecretRandom


@dataclass
class Purse:
    """What one party may spend: every use takes a planned line and writes it in the ledger, or is refused.

    Parameters
    ----------
    party : str
        Whose it is.
    planned : tuple of Entry
        What the plan allows; each line can be used once.
    ledger : Ledger
        Where it is written down.
    random : SecretRandom
        Where noise and samples come from.
    clip : float, optional
        The norm that a row's gradient is clipped to; None: what whoever trains takes.
    n_rows : int, optional
        The public number of rows, which sums are divided by; None: as many as there are.
    witness : callable, optional
        For audits alone: called at each release with what is released, the exact sum, the noisy one and the noise's standard
        deviation, all in steps of the public grid. It sees what nobody may see, and is never set by a training.
    """

    party: str
    planned: tuple[Entry, ...]
    ledger: Ledger
    random: SecretRandom
    clip: float | None = None
    n_rows: int | None = None
    witness: Witness | None = None
    used: set[str] = field(default_factory=set)

    def take(self, what: str, kind: type) -> Any:
        """Return a planned event, once."""
        found = [entry for entry in self.planned if entry.what == what]
        if not found or what in self.used or (kind is not type(None) and not isinstance(found[0].event, kind)):
            allowed = (
                ", ".join(repr(entry.what) for entry in self.planned if entry.what not in self.used) or "nothing more"
            )
            raise BudgetError(
                f"Party {self.party!r} wants to spend on {what!r}; its plan allows {allowed}. A new training needs a new plan, "
                "and the budgets of both add up."
            )
        self.used.add(what)
        return found[0]

    def count(self, rows: NDArray[Any]) -> int:
        """Return the public number of rows."""
        return len(rows) if self.n_rows is None else self.n_rows

    def exactly(self, what: str) -> None:
        """Write down a thing that is done without noise; only an infinite budget allows it."""
        entry = self.take(what, Gaussian)
        if entry.event.noise:
            raise BudgetError(f"Party {self.party!r} wants to do {what!r}, and its budget is not infinite.")
        self.ledger.spend(self.party, what, entry.event)

    def free(self, what: str) -> None:
        """Write down a thing that costs nothing, as it looks at no row."""
        if self.take(what, type(None)).event is not None:
            raise BudgetError(f"Party {self.party!r} wants {what!r} for nothing, and its plan has a price for it.")
        self.ledger.spend(self.party, what, None)

    def release(self, what: str, total: NDArray[Any], sensitivity: int) -> NDArray[np.float64]:
        """Return a sum over rows with noise from the discrete Gaussian, in steps of the sum; see `privacy.grid`.

        Parameters
        ----------
        what : str
            The planned line.
        total : array of int
            The exact sum, in whole steps of a size that depends on no row: of rows from `grid.whole_rows`, say.
        sensitivity : int
            One row changes the sum by at most so many steps in norm.
        """
        if not np.issubdtype(total.dtype, np.integer):
            wanted = "an array of whole numbers, as sums over privacy.grid.whole_rows are"
            raise parameter_error("Purse.release", "total", wanted, total.dtype)
        entry = self.take(what, Gaussian)
        self.ledger.spend(self.party, what, entry.event, entry.nominal or self.random.insecure)
        parts = grid.parts(sensitivity)
        exact, scale = total.astype(np.int64) * parts, entry.event.noise * sensitivity * parts
        noisy = exact + self.random.whole_normals(total.size, scale).reshape(total.shape) if scale else exact
        if self.witness is not None:
            self.witness(what, exact, noisy, scale)
        released: NDArray[np.float64] = noisy / parts
        return released

    def steps(self, what: str, rows: NDArray[Any], clip: float) -> PrivateSteps:
        """Return the planned steps of DP-SGD over rows."""
        entry = self.take(what, SampledGaussian)
        norm = self.clip if self.clip is not None else clip
        return PrivateSteps(entry, len(rows), self.count(rows), norm, self.ledger, self.random, self.witness)

    @property
    def spent(self) -> list[Entry]:
        """What the party has spent so far."""
        return [entry for entry in self.ledger.entries if entry.party == self.party]
