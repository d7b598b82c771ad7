"""A stated epsilon for what leaves of a row: whatever the row is, what is sent of it could as well be another row's."""

from __future__ import annotations

import hmac
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedonce.privacy import keyed, subset
from fedonce.privacy.local import BLOCK, LocalNoise
from fedonce.privacy.noise import SecretRandom, normals_from

if TYPE_CHECKING:
    from fedonce.privacy.privunit import PrivUnit

KEY_BYTES = 32
VECTOR, FEW = "privunit", "subset"  # the mechanisms, by their names in messages

Values = NDArray[np.float32]
Uniforms = NDArray[np.float64]


@dataclass
class LocalEpsilon:
    """Answer for each row by a mechanism of pure epsilon, in one of two ways.

    A learner whose rows are one of few values (cells by number): the value is told by subset selection, and what is sent is a
    mark per value. Any other: values are brought to the unit ball and clipped to it, as for `LocalNoise`; a further coordinate
    lifts each row to the unit sphere, where PrivUnit answers; what is sent are its first coordinates. Both are right on average.

    Centre and radius, like the learner itself, are of the guest's training rows, and never sent; the guarantee is for a row given
    these. An answer depends on the key, the model, the row's name and its content, and on nothing else: the same row gets the
    same answer however often it is asked, and another content gets an answer of its own, which costs epsilon once more.

    Parameters
    ----------
    epsilon : float
        For any two rows that the guest might have, the probability of any answer differs by a factor of exp(epsilon) at most.
    few : int
        How many values there are; 0: rows are vectors.
    key : bytes, optional
        The guest's secret. It is kept with its model, which stays with it.
    """

    epsilon: float
    centre: Values | None = None
    radius: float = 1.0
    few: int = 0
    key: bytes | None = field(default=None, repr=False)

    def fit(self, values: Values, few: int = 0) -> None:
        """Take centre and radius from the training rows; or, where values are numbers of `few` things, how many there are."""
        self.few = few
        if few:
            self.centre, self.radius = np.zeros(1, np.float32), 1.0
            return
        ball = LocalNoise(0.0)
        ball.fit(values)
        self.centre, self.radius = ball.centre, ball.radius

    @property
    def mechanism(self) -> str:
        """Its name in messages."""
        return FEW if self.few else VECTOR

    @property
    def bound(self) -> float:
        """Within which the values of vectors lie that are sent: known without looking at any row."""
        assert not self.few
        return 1 / self._of_vectors().length

    @property
    def marks(self) -> tuple[float, float]:
        """What stands for a value outside and inside an answer."""
        return self._of_few().marks

    def _of_vectors(self) -> PrivUnit:
        from fedonce.privacy import privunit  # scipy takes its time, and who reads a message needs none of it

        assert self.centre is not None
        return privunit.best(len(self.centre) + 1, self.epsilon)

    def _of_few(self) -> subset.SubsetSelection:
        return subset.best(self.few, self.epsilon)

    @property
    def variance(self) -> float:
        """Mean variance of a value that is sent, for the same row: the noise that a host knows of."""
        if self.few:
            return self._of_few().error / self.few
        made = self._of_vectors()
        return made.error / made.dim

    def blur(self, values: Values, names: Sequence[bytes] | None = None, contents: Sequence[bytes] = ()) -> Values:
        """Return an answer per row; with a key and names, always the same for the same row."""
        width = 1 + (self.few or 2 * math.ceil((values.shape[1] + 1) / 2))
        random, parts = SecretRandom(), []
        for start in range(0, len(values), BLOCK):
            part = values[start : start + BLOCK]
            if self.key is None or names is None:
                uniforms = random.uniforms(len(part) * width).reshape(-1, width)
            else:
                rows = slice(start, start + BLOCK)
                known = [name.decode("utf-8", "surrogatepass") for name in names[rows]]
                uniforms = keyed.uniforms(self._own_key(self.key), "local epsilon", known, contents[rows], width)
            parts.append(self._answers(part, uniforms))
        return np.concatenate(parts) if parts else np.zeros((0, self.few or values.shape[1]), np.float32)

    def _answers(self, values: Values, uniforms: Uniforms) -> Values:
        if self.few:
            return self._of_few().answers(values[:, 0].astype(np.intp), uniforms).astype(np.float32)
        inside = LocalNoise(0.0, self.centre, self.radius).clip(values).astype(np.float64)
        lifted = np.sqrt(np.maximum(1 - np.square(inside).sum(axis=1, keepdims=True), 0))
        units = np.hstack([inside, lifted])
        units /= np.linalg.norm(units, axis=1, keepdims=True)  # float32 leaves a clipped row a little off the sphere
        made = self._of_vectors()
        answers = made.answers(units, uniforms[:, 0], normals_from(uniforms[:, 1:])[:, : made.dim])
        return (answers[:, :-1] / made.length).astype(np.float32)

    def named(self, model: str) -> str:
        """Return a name for a model in messages that tells nothing of it: a digest would let guesses of a row be checked."""
        assert self.key is not None
        return hmac.digest(self.key, f"fedonce model of a guest\n{model}".encode(), "sha256").hex()[: len(model)]

    def _own_key(self, key: bytes) -> bytes:
        """Return a key for this epsilon, centre and radius: another one for others."""
        assert self.centre is not None
        about = f"fedonce answers of a guest\n{self.epsilon!r} {self.few} {self.radius!r} ".encode()
        return hmac.digest(key, about + self.centre.tobytes(), "sha256")

    def with_key(self, key: bytes | None) -> LocalEpsilon:
        """Return the same with another key; None: with its own."""
        return self if key is None else replace(self, key=key)
