"""Learners that were tried against who reads messages, and are not part of fedonce: `benchmarks.protections` measures them."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedonce.learners import PCA, Learner

Rows = NDArray[np.float32]
Tensors = dict[str, NDArray[Any]]


@dataclass(eq=False)
class Rounded(Learner):
    """Principal values in few steps, with noise that a secret fixes for each row: asked again, a row has the same message.

    Parameters
    ----------
    bits : int
        Steps of a value are 2**bits, between its least and its greatest of the training.
    how : str
        "nearest": to the nearest step, without noise. "randomised": up or down by chance, right on average, which is the same as
        uniform noise of one step before rounding. "triangular": noise of two steps, so that the size of the error tells nothing
        of the value, either. "subtractive": uniform noise of one step that the host knows, too, and takes away again.
    """

    name: ClassVar[str] = "rounded"
    bits: int = 4
    how: str = "nearest"
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    base_: PCA = field(default_factory=PCA, init=False, repr=False)
    low_: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0), init=False, repr=False)
    step_: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0), init=False, repr=False)

    def fit(self, rows: Rows, dim: int, rng: np.random.Generator, device: torch.device) -> list[Any]:
        """Find principal directions, and where their values lie."""
        self.base_ = PCA()
        self.base_.fit(rows, dim, rng, device)
        values = self.base_.transform(rows, device).astype(np.float64)
        self.low_ = values.min(axis=0)
        self.step_ = np.maximum(np.ptp(values, axis=0), 1e-9) / (2**self.bits - 1)
        return []

    def transform(self, rows: Rows, device: torch.device) -> Rows:
        """Return the values as the host decodes them."""
        scaled = (self.base_.transform(rows, device).astype(np.float64) - self.low_) / self.step_
        noise = self._noise(rows, scaled.shape[1])
        steps = np.clip(np.rint(scaled + noise), 0, 2**self.bits - 1)
        told = steps - noise if self.how == "subtractive" else steps
        return (told * self.step_ + self.low_).astype(np.float32)

    def _noise(self, rows: Rows, dim: int) -> NDArray[np.float64]:
        """Return noise in steps: of each row by the secret and what the row is."""
        if self.how == "nearest":
            return np.zeros((len(rows), dim))
        halves = []
        for draw in (b"first", b"second")[: 2 if self.how == "triangular" else 1]:
            made = [
                hashlib.shake_256(self.key + draw + row.tobytes()).digest(4 * dim) for row in np.ascontiguousarray(rows)
            ]
            numbers = np.frombuffer(b"".join(made), "<u4").reshape(len(rows), dim)
            halves.append((numbers + 0.5) / 2**32 - 0.5)
        return np.sum(halves, axis=0)

    def state(self) -> Tensors:
        """Return all that was learnt."""
        return self.base_.state() | {"low": self.low_, "step": self.step_}

    def restore(self, tensors: Tensors) -> None:
        """Take it back."""
        self.low_, self.step_ = tensors["low"], tensors["step"]
        self.base_.restore({name: value for name, value in tensors.items() if name not in ("low", "step")})


class _Reversed(torch.autograd.Function):
    """Lets values through, and turns gradients round: what helps the adversary is unlearnt."""

    @staticmethod
    def forward(ctx: object, values: torch.Tensor, weight: float) -> torch.Tensor:
        ctx.weight = weight  # type: ignore[attr-defined]
        return values.view_as(values)

    @staticmethod
    def backward(ctx: object, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return -ctx.weight * gradients[0], None  # type: ignore[attr-defined]


@dataclass(eq=False)
class Adversarial(Learner):
    """An autoencoder that is trained against an adversary, which guesses the columns of two values from what is sent.

    Parameters
    ----------
    weight : float
        How much the adversary's success counts beside the error of rebuilding rows.
    epochs, batch, rate, width
        Of the training, and of all hidden layers.
    """

    name: ClassVar[str] = "adversarial"
    weight: float = 1.0
    epochs: int = 30
    batch: int = 256
    rate: float = 3e-3
    width: int = 64
    network_: nn.Module = field(default_factory=nn.Identity, init=False, repr=False)

    def fit(self, rows: Rows, dim: int, rng: np.random.Generator, device: torch.device) -> list[Any]:
        """Train encoder, decoder and adversary together."""
        given = torch.from_numpy(np.ascontiguousarray(rows, np.float32))
        secret = [j for j, column in enumerate(rows.T) if len(np.unique(column)) == 2]
        hidden = (given[:, secret] > given[:, secret].mean(dim=0)).float()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**63)))
            encoder = nn.Sequential(*self._layers(given.shape[1], dim), nn.BatchNorm1d(dim, affine=False))
            decoder, adversary = self._layers(dim, given.shape[1]), self._layers(dim, max(len(secret), 1))
            parts = [encoder, decoder, adversary]
            optimiser = torch.optim.AdamW([weight for part in parts for weight in part.parameters()], lr=self.rate)
            total = self.epochs * (len(given) // self.batch)
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, self.rate, total_steps=max(total, 1))
            for _ in range(self.epochs):
                for chosen in torch.randperm(len(given)).split(self.batch)[: len(given) // self.batch]:
                    values = encoder(given[chosen])
                    loss = nn.functional.mse_loss(decoder(values), given[chosen])
                    if secret:
                        guessed = adversary(_Reversed.apply(values, self.weight))
                        loss = loss + nn.functional.binary_cross_entropy_with_logits(guessed, hidden[chosen])
                    optimiser.zero_grad()
                    loss.backward()  # type: ignore[no-untyped-call]
                    optimiser.step()
                    schedule.step()
        self.network_ = encoder.eval()
        return []

    def _layers(self, inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(nn.Linear(inputs, self.width), nn.ReLU(), nn.Linear(self.width, outputs))

    def transform(self, rows: Rows, device: torch.device) -> Rows:
        """Return the encoder's values."""
        with torch.no_grad():
            values: Rows = self.network_(torch.from_numpy(np.ascontiguousarray(rows, np.float32))).numpy()
        return values

    def state(self) -> Tensors:
        """Return the encoder's weights."""
        return {name: value.numpy() for name, value in self.network_.state_dict().items()}

    def restore(self, tensors: Tensors) -> None:
        """Take them back into a network that was trained here."""
        self.network_.load_state_dict({name: torch.from_numpy(value) for name, value in tensors.items()})
