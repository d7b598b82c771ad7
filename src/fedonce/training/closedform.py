"""Gradients of small fully connected networks without autograd.

For layers of a few dozen units most of a training step is autograd's bookkeeping. The gradients of linear layers with
ReLU or tanh between them are a few matrix products, done here with numpy on the memory of the torch parameters, so that
the network stays a torch module. Tests compare it with autograd and torch.optim; `benchmarks/speed/nat.py` measures it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn


class ClosedForm:
    """Forward and backward of a Sequential of Linear layers with ReLU, Tanh or nothing between them, on the CPU.

    The network's parameters become views of one flat parameter (`self.parameter`), which is what is to be optimised.
    """

    @staticmethod
    def supports(network: nn.Module, device: torch.device) -> TypeGuard[nn.Sequential]:
        """Tell whether a network has this form: linear layers, each followed by at most one activation."""
        if device.type != "cpu" or not isinstance(network, nn.Sequential) or not len(network):
            return False
        kinds = [type(layer) for layer in network]
        if kinds[0] is not nn.Linear or not set(kinds) <= {nn.Linear, nn.ReLU, nn.Tanh}:
            return False
        linears = [layer for layer in network if isinstance(layer, nn.Linear)]
        if len(set(map(id, linears))) < len(linears) or any(layer.bias is None for layer in linears):
            return False
        if not all(parameter.requires_grad for parameter in network.parameters()):
            return False
        return all(nn.Linear in pair for pair in pairwise(kinds))

    def __init__(self, network: nn.Sequential) -> None:
        flat = torch.cat([parameter.detach().reshape(-1) for parameter in network.parameters()])
        self.parameter = nn.Parameter(flat)
        self.parameter.grad = torch.zeros_like(flat)
        values, gradients = flat.numpy(), self.parameter.grad.numpy()
        self._gradient = gradients
        self._layers: list[tuple[Any, ...]] = []  # weight, its gradient, bias, its gradient, activation
        start = 0
        for layer, following in zip(network, [*list(network)[1:], None], strict=True):
            if not isinstance(layer, nn.Linear):
                continue
            views: list[Any] = []
            for parameter in (layer.weight, layer.bias):
                part = slice(start, start + parameter.numel())
                parameter.data = flat[part].view_as(parameter)
                views += [values[part].reshape(parameter.shape), gradients[part].reshape(parameter.shape)]
                start = part.stop
            self._layers.append((*views, type(following)))

    def forward(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the outputs, and remember what `backward` needs."""
        self._inputs = []
        for weight, _, bias, _, activation in self._layers:
            self._inputs.append(rows)
            rows = rows @ weight.T
            rows += bias
            if activation is nn.ReLU:
                np.maximum(rows, 0, out=rows)
            elif activation is nn.Tanh:
                np.tanh(rows, out=rows)
        self._outputs = rows
        return rows

    @property
    def gradient(self) -> NDArray[Any]:
        """The gradient of all parameters, on the memory of `parameter.grad`."""
        return self._gradient

    def backward(self, gradient: NDArray[Any], clip: float | None = None) -> None:
        """Leave the gradients of the parameters in `parameter.grad`, given that of the outputs.

        With `clip`, a row's gradient of all parameters together is clipped to that norm before rows are summed. The norm
        needs no gradient per row: that of a linear layer has norm |inputs| |gradient of its outputs| (Goodfellow, 2015).
        """
        if clip is not None:
            self._backward_clipped(gradient, clip)
            return
        for position, slope, inputs in self._slopes(gradient):
            _, weight_gradient, _, bias_gradient, _ = self._layers[position]
            np.matmul(slope.T, inputs, out=weight_gradient)
            slope.sum(axis=0, out=bias_gradient)

    def _slopes(self, gradient: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any], NDArray[Any]]]:
        """Yield, from the last layer to the first, its position, the gradient of its sums, and its inputs."""
        outputs = self._outputs
        for position in reversed(range(len(self._layers))):
            weight, _, _, _, activation = self._layers[position]
            if activation is nn.ReLU:
                gradient = gradient * (outputs > 0)
            elif activation is nn.Tanh:
                gradient = gradient * (1 - outputs * outputs)
            outputs = self._inputs[position]
            yield position, gradient, outputs
            if position:
                gradient = gradient @ weight

    def _backward_clipped(self, gradient: NDArray[Any], clip: float) -> None:
        layers = list(self._slopes(gradient))
        squares = np.zeros(len(gradient), gradient.dtype)
        for _, slope, inputs in layers:
            sizes = np.einsum("ij,ij->i", inputs, inputs)
            sizes += 1  # the bias, whose input is 1
            sizes *= np.einsum("ij,ij->i", slope, slope)
            squares += sizes
        factors = clip / np.sqrt(np.maximum(squares, clip * clip))
        whole = np.isfinite(squares)
        overflowed = not whole.all()  # such a row adds nothing, instead of everything
        for position, slope, inputs in layers:
            _, weight_gradient, _, bias_gradient, _ = self._layers[position]
            if overflowed:
                slope, inputs = (np.where(whole[:, None], part, 0).astype(part.dtype) for part in (slope, inputs))
                factors = np.where(whole, factors, 0).astype(slope.dtype)
            scaled = slope * factors[:, None]
            np.matmul(scaled.T, inputs, out=weight_gradient)
            scaled.sum(axis=0, out=bias_gradient)

    def update(self, optimizer: str, weight_decay: float = 0.0) -> FlatUpdate:
        """Return "adam", "adamw" or "sgd" for the flat parameter: torch's arithmetic without its bookkeeping."""
        value = self.parameter.detach().numpy()
        if optimizer == "sgd":
            return FlatSGD(value, self._gradient, weight_decay)
        return FlatAdam(value, self._gradient, weight_decay, decoupled=optimizer == "adamw")


class FlatSGD:
    """Gradient steps on a flat parameter; it remembers nothing between them."""

    def __init__(self, value: NDArray[Any], gradient: NDArray[Any], weight_decay: float) -> None:
        self.value, self.gradient, self.weight_decay = value, gradient, weight_decay

    def __call__(self, rate: float) -> None:
        """Take a step."""
        self.value -= rate * (self.gradient + self.weight_decay * self.value)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what it remembers."""
        return {}

    def restore(self, tensors: dict[str, NDArray[Any]]) -> None:
        """Take it back."""


class FlatAdam:
    """Kingma and Ba (2015), or Loshchilov and Hutter (2019) where the decay is decoupled from the gradient."""

    def __init__(self, value: NDArray[Any], gradient: NDArray[Any], weight_decay: float, decoupled: bool) -> None:
        self.value, self.gradient, self.weight_decay, self.decoupled = value, gradient, weight_decay, decoupled
        self.mean, self.square, self.steps = np.zeros_like(value), np.zeros_like(value), 0

    def __call__(self, rate: float) -> None:
        """Take a step."""
        self.steps += 1
        slope, mean, square = self.gradient, self.mean, self.square
        if self.decoupled:
            self.value *= 1 - rate * self.weight_decay
        elif self.weight_decay:
            slope = slope + self.weight_decay * self.value
        mean *= 0.9
        mean += 0.1 * slope
        square *= 0.999
        square += 0.001 * (slope * slope)
        spread = np.sqrt(square)
        spread *= 1 / math.sqrt(1 - 0.999**self.steps)
        spread += 1e-8
        np.divide(mean, spread, out=spread)
        spread *= rate / (1 - 0.9**self.steps)
        self.value -= spread

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what it remembers."""
        return {"mean": self.mean, "square": self.square, "steps": np.asarray(self.steps)}

    def restore(self, tensors: dict[str, NDArray[Any]]) -> None:
        """Take it back."""
        self.mean, self.square, self.steps = tensors["mean"], tensors["square"], int(tensors["steps"])


FlatUpdate = FlatSGD | FlatAdam
