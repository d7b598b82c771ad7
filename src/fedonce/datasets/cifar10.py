"""CIFAR-10: small colour pictures."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedonce.data.partition import tiles
from fedonce.datasets.base import Dataset, make
from fedonce.datasets.files import Edition, File, Source, find
from fedonce.datasets.formats import read_bytes, read_cifar_batch

BATCHES = (*(f"data_batch_{j}" for j in range(1, 6)), "test_batch")

SOURCE = Source(
    name="cifar10",
    folder="cifar10",
    rows=60_000,
    columns=3072,
    task="classification",
    licence="none stated, cite it",
    citation="A. Krizhevsky: Learning multiple layers of features from tiny images, 2009.",
    page="https://www.cs.toronto.edu/~kriz/cifar.html",
    parties=tiles((3, 32, 32), (2, 2)),
    image=(3, 32, 32),
    editions=(
        Edition(
            {
                "archive": (
                    File(
                        "cifar-10-python.tar.gz",
                        "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
                        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
                    ),
                )
            }
        ),
        Edition({batch: (File(batch, None),) for batch in BATCHES}),  # the owner's archive, unpacked by hand
        Edition(
            {
                "data_batch_1": (
                    File("data_batch_1.xz", "c76b75b988efb1eee53e3a81466b5375bae69e48147d540bec8c430838e9c0d8"),
                    File("data_batch_1", "a1380d736bd9b285b3d19ce3231dbfea7d165a2cd06980bbc1ea1e70f19a376d"),
                ),
                "test_batch": (
                    File("test_batch.xz", "f4a122d2749aad9aff858256e81117069b8e8fac72f82a3d9c6cb7761ea8afe7"),
                    File("test_batch", "a2dadfec80682e95439af6d0a115857b31981fc0b8fe50870b876a47fe44a68d"),
                ),
            },
            complete=False,
            note="9,990 of 50,000 training and 9,975 of 10,000 test images",
        ),
    ),
)


def fetch_cifar10(data_dir: Any = None, download: bool = True, *, verify: bool = True) -> Dataset:
    """Load CIFAR-10: 50,000 training and 10,000 test images of things, 32 x 32 pixels in three colours, 10 classes.

    Parameters
    ----------
    data_dir : path, optional
        Folder of data sets. None: the one in FEDONCE_DATA, else the user's cache.
    download : bool
        Whether to download from the owner what is not there.
    verify : bool
        Whether checksums are compared; False reads whatever has the right name and format.
    """
    found = find(SOURCE, data_dir, download, verify)
    archive = found.paths.get("archive")
    images, labels = [], []
    for batch in BATCHES:
        path = archive or found.paths.get(batch)
        if path is None:
            continue  # a partial edition
        pictures, classes = read_cifar_batch(read_bytes(path, batch), f"{path} ({batch})")
        images.append(pictures)
        labels.append(classes)
    names = tuple(f"{c}_{row}_{column}" for c in ("red", "green", "blue") for row in range(32) for column in range(32))
    return make(SOURCE, found, np.concatenate(images), np.concatenate(labels), names, n_official_test=len(images[-1]))
