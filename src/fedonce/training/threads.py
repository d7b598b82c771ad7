"""How many threads arithmetic gets: decided here, and nowhere else.

The threads of a matrix product wait for each other by spinning. Where a product takes microseconds, or another program has one of
the cores, that waiting costs many times what a second core gains: on a shared machine a small training took thirty times as long.
So small arithmetic gets one thread, whatever the environment says, and large arithmetic gets what the environment gives.
`python -m benchmarks.speed.threads` measures it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from math import prod
from typing import Any

import torch
from threadpoolctl import ThreadpoolController
from torch import nn

LEAST_WORK = 1.5e9  # multiplications and additions: below, more threads do not pay (`benchmarks.speed.threads`)


def pays(work: float) -> bool:
    """Tell whether more threads than one pay for a piece of arithmetic that takes so many operations."""
    return work >= LEAST_WORK


@contextmanager
def threads_for(work: float) -> Iterator[None]:
    """Give a piece of arithmetic as many threads as pay.

    `work` is how many operations it takes, and of a training or of rows in blocks, how many one step or one block takes: between
    two of them threads wait for each other. See `product_work` and `network_work`.
    """
    if pays(work):
        yield
        return
    before = torch.get_num_threads()  # a setting of the calling thread
    torch.set_num_threads(1)
    try:
        with _small_arithmetic, _pools().select(user_api="openmp").limit(limits=1):
            yield
    finally:
        torch.set_num_threads(before)


class _SmallArithmetic:
    """Holds BLAS at one thread while anybody in this process wants that: its setting is one for all of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted_by = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._wanted_by += 1
            if self._wanted_by == 1:
                self._limit = _pools().select(user_api="blas").limit(limits=1)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._wanted_by -= 1
            if not self._wanted_by:
                self._limit.restore_original_limits()


_small_arithmetic = _SmallArithmetic()


@cache
def _pools() -> ThreadpoolController:
    """Return the libraries of this process that have threads of their own; looking for them takes milliseconds."""
    import scipy.linalg  # noqa: F401  # has a BLAS of its own, which must be there to be found
    import sklearn.neighbors  # noqa: F401

    return ThreadpoolController()


def product_work(rows: int, inner: int, columns: int) -> float:
    """Return the operations of a product of matrices, (rows, inner) times (inner, columns)."""
    return 2.0 * rows * inner * columns


def network_work(network: nn.Module, shape: tuple[int, ...], batch: int) -> float:
    """Return about how many operations a batch takes through a network; a training step takes three times as many.

    A linear layer uses a weight once per row, any other layer of an image at each pixel; a look-up does no arithmetic.
    """
    pixels, used = prod(shape[1:]), 0
    for layer in network.modules():
        if not isinstance(layer, nn.Embedding):
            numbers = [*layer.parameters(recurse=False), *layer.buffers(recurse=False)]
            used += sum(each.numel() for each in numbers) * (1 if isinstance(layer, nn.Linear) else pixels)
    return 2.0 * batch * used
