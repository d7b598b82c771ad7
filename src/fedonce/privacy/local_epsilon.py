"""A stated epsilon for what is disclosed of a row: any other row could have given the same answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedonce.privacy import keyed, subset
from fedonce.privacy.noise import SecretRandom

KEY_BYTES = 32
BLOCK = 2**15  # rows at a time

Values = NDArray[np.float32]


@dataclass(frozen=True)
class LocalEpsilon:
    """Answer for each row's cell by subset selection, a mechanism of pure epsilon.

    Cells come from a learner that looks at no row (`fedonce.learners.Signs`), so the number of cells, the codec and the
    header depend on settings alone. What is sent is a mark for each cell, at one of two levels: on average 1 for the row's
    own cell and 0 for the others.

    **Neighbours**: two tables of the guest that differ in the columns of one row, whatever they are. **Claim**: the
    probability of any message is at most exp(epsilon) times as large for one table as for the other. An answer depends on the
    key, the purpose, the row's id and its cell, and on nothing else (`fedonce.privacy.keyed`): as long as the cell stays, all
    messages about the row carry the same answer and cost epsilon once. A row whose cell changes gets an independent answer,
    which costs epsilon again, and that it changed is visible. Without ids each message draws its answers afresh and costs
    epsilon.

    Parameters
    ----------
    epsilon : float
        Of the claim.
    cells : int
        The number of cells.
    key : bytes
        The guest's secret. It is kept with its model, which stays with the guest.
    """

    epsilon: float
    cells: int
    key: bytes = field(repr=False)

    @property
    def marks(self) -> tuple[float, float]:
        """What a message has for a cell outside and inside an answer."""
        return self._mechanism.marks

    @property
    def _mechanism(self) -> subset.SubsetSelection:
        return subset.best(self.cells, self.epsilon)

    def answers(self, cells: Values, rows: Sequence[str] | None, encoder: str) -> Values:
        """Return an answer for each cell, (rows, cells).

        Parameters
        ----------
        cells : array of shape (n, 1)
            Each row's cell.
        rows : sequence of str, optional
            The rows' ids; None: they have none.
        encoder : str
            Digest of how columns become cells: the same cell of another encoder is another disclosure.
        """
        numbers, width = cells[:, 0].astype(np.intp), 1 + self.cells
        random, purpose, found = SecretRandom(), self.purpose(encoder), []
        for start in range(0, len(numbers), BLOCK):
            some = numbers[start : start + BLOCK]
            if rows is None:
                uniforms = random.uniforms(len(some) * width).reshape(-1, width)
            else:
                named = rows[start : start + BLOCK]
                uniforms = keyed.uniforms(self.key, purpose, named, disclosed(some), width)
            found.append(self._mechanism.answers(some, uniforms).astype(np.float32))
        return np.concatenate(found) if found else np.zeros((0, self.cells), np.float32)

    def purpose(self, encoder: str) -> str:
        """Return what answers are for: those of another epsilon, number of cells or encoder share no randomness with these."""
        return f"local epsilon\n{self.epsilon!r} {self.cells} {encoder}"


def disclosed(cells: NDArray[np.intp]) -> list[bytes]:
    """Return what is disclosed of each row, before noise."""
    return [b"%d" % cell for cell in cells]
