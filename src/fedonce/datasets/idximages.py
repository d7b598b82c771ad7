"""MNIST and its descendants: four idx files each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedonce.datasets.base import Dataset, make
from fedonce.datasets.files import Edition, File, Found, Source, find
from fedonce.datasets.formats import read_bytes, read_idx
from fedonce.errors import InputError

NAMES = {
    "train images": "train-images-idx3-ubyte",
    "train labels": "train-labels-idx1-ubyte",
    "test images": "t10k-images-idx3-ubyte",
    "test labels": "t10k-labels-idx1-ubyte",
}


def edition(address: str, sums: Mapping[str, tuple[str, ...]], note: str = "") -> Edition:
    """List files as the owner packs them and, where a second checksum is given, unpacked; a note makes them partial."""
    parts = {}
    for part, (packed, *plain) in sums.items():
        name = NAMES[part]
        parts[part] = (File(f"{name}.gz", packed, f"{address}{name}.gz"), *(File(name, sha256) for sha256 in plain))
    return Edition(parts, complete=not note, note=note)


def fetch(source: Source, data_dir: Any, download: bool, verify: bool) -> Dataset:
    """Load images and labels, test images last; where there are test images alone, they are all there is."""
    found = find(source, data_dir, download, verify)
    parts = [part for part in ("train", "test") if f"{part} images" in found.paths]
    images = [_images(found, part) for part in parts]
    labels = [
        read_idx(read_bytes(found.paths[f"{part} labels"]), f"{found.paths[f'{part} labels']}", 1) for part in parts
    ]
    for part, pictures, classes in zip(parts, images, labels, strict=True):
        if len(pictures) != len(classes) or classes.max(initial=0) > 9:
            raise InputError(
                f"Data set {source.name!r} must have a label 0 to 9 for each {part} image. Got {len(pictures)} images "
                f"and {len(classes)} labels up to {classes.max(initial=0)}."
            )
    names = tuple(f"pixel_{row}_{column}" for row in range(28) for column in range(28))
    target = np.concatenate(labels).astype(np.int64)
    return make(
        source, found, np.concatenate(images), target, names, n_official_test=len(images[1]) if len(parts) == 2 else 0
    )


def _images(found: Found, part: str) -> Any:
    path = found.paths[f"{part} images"]
    images = read_idx(read_bytes(path), str(path), 3)
    if images.shape[1:] != (28, 28):
        raise InputError(
            f"The file {path} must hold images of 28 x 28 pixels. Got {images.shape[1]} x {images.shape[2]}."
        )
    return images.reshape(len(images), -1)
