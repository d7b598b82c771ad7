"""gisette: the digits 4 and 9, made hard by many useless columns (NIPS 2003 feature selection challenge)."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedonce.datasets.base import Dataset, make
from fedonce.datasets.files import Edition, File, Source, find
from fedonce.datasets.formats import read_bytes, read_libsvm, read_numbers
from fedonce.errors import InputError

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/gisette/GISETTE/"

SOURCE = Source(
    name="gisette",
    folder="gisette",
    rows=6_000,
    columns=5_000,
    task="classification",
    licence="CC BY 4.0",
    citation="I. Guyon, S. Gunn, A. Ben-Hur, G. Dror: Result analysis of the NIPS 2003 feature selection challenge. UCI 170.",
    page="https://archive.ics.uci.edu/dataset/170/gisette",
    parties=10,
    editions=(
        Edition(
            {
                "data": (
                    File(
                        "gisette_train.data",
                        "6d4c5e998afe67937b9e77a3334e03c85e545ebc65a6eb1333ffc14125cfc389",
                        UCI + "gisette_train.data",
                    ),
                ),
                "labels": (
                    File(
                        "gisette_train.labels",
                        "42bd681fe51b161f033df773df14a0116e492676555ab14616c1b72edc054075",
                        UCI + "gisette_train.labels",
                    ),
                ),
            }
        ),
        # LIBSVM's copy of the same rows, scaled to -1..1; no checksum is published.
        Edition({"libsvm": (File("gisette_scale.bz2", None), File("gisette_scale", None))}),
    ),
)


def fetch_gisette(data_dir: Any = None, download: bool = True, *, verify: bool = True) -> Dataset:
    """Load gisette: 6,000 digits, 5,000 columns, labels -1 and 1; UCI's files, or LIBSVM's `gisette_scale.bz2`.

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
    if "libsvm" in found.paths:
        path = found.paths["libsvm"]
        data, labels = read_libsvm(read_bytes(path), str(path), SOURCE.columns)
    else:
        path = found.paths["labels"]
        content = read_bytes(found.paths["data"])
        data = read_numbers(content, str(found.paths["data"]), SOURCE.columns, np.float32, delimiter=None)
        labels = read_numbers(read_bytes(path), str(path), 1, np.float64)[:, 0]
    if len(labels) != len(data) or not np.isin(labels, (-1, 1)).all():
        raise InputError(
            f"The file {path} must hold a label, -1 or 1, for each of {len(data)} rows. Got {len(labels)} labels."
        )
    return make(SOURCE, found, data, labels.astype(np.int64), tuple(f"feature_{j}" for j in range(1, 5001)))
