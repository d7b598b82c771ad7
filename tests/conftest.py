from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parent.parent


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(autouse=True)
def one_thread():
    """Small networks are faster on one thread, and results do not depend on how many cores a machine has."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def data_folder():
    """The folder with real data; tests that need it skip where it is absent."""
    folder = os.environ.get("FEDONCE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("FEDONCE_DATA names no folder with real data")
    return Path(folder)


def load_module(name: str, path: Path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def by_hand():
    return load_module("by_hand", ROOT / "examples" / "by_hand.py")


def make_table(n=300, seed=0):
    """Eight related columns and a class that needs both halves of them."""
    rng = np.random.default_rng(seed)
    hidden = rng.standard_normal((n, 4))
    X = hidden @ rng.standard_normal((4, 8)) + 0.1 * rng.standard_normal((n, 8))
    return X, (hidden[:, 0] + hidden[:, 1] > 0).astype(int)


def as_sent(received):
    """Return what an engine received as the bytes that guests sent, by name."""
    return {name: message.representation.to_bytes() for name, message in received.items()}
