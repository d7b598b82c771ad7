"""covtype: what grows on a patch of forest, from maps."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedonce.datasets.base import Dataset, make
from fedonce.datasets.files import Edition, File, Source, find
from fedonce.datasets.formats import line_of, read_bytes, read_numbers
from fedonce.errors import InputError, parameter_error

SOURCE = Source(
    name="covtype",
    folder="covtype",
    rows=581_012,
    columns=54,
    task="classification",
    licence="CC BY 4.0",
    citation="J. A. Blackard, D. J. Dean: Comparative accuracies of artificial neural networks and discriminant analysis in "
    "predicting forest cover types from cartographic variables, 1999. UCI 31, (c) Jock A. Blackard, Colorado State University.",
    page="https://archive.ics.uci.edu/dataset/31/covertype",
    parties=10,
    editions=(
        Edition(
            {
                "table": (
                    File(
                        "covtype.data.gz",
                        "614360d0257557dd1792834a85a1cdebfadc3c4f30b011d56afee7ffb5b15771",
                        "https://archive.ics.uci.edu/ml/machine-learning-databases/covtype/covtype.data.gz",
                    ),
                    File("covtype.data", None),
                )
            }
        ),
        Edition(
            {
                "table": (
                    File(
                        "covtype-subset-92962.data.xz",
                        "cad9fb060b5e753a37ba021c922bd72441278890617c5e46e0d5a52e69930a6c",
                    ),
                    File(
                        "covtype-subset-92962.data",
                        "f21a68ba90b8ff3a7e3bf671bd9ff7fabb260211a8e6fba1d119c43c3988f68b",
                    ),
                )
            },
            complete=False,
            note="92,962 of 581,012 rows",
        ),
    ),
)

NAMES = (
    "elevation",
    "aspect",
    "slope",
    "horizontal_distance_to_hydrology",
    "vertical_distance_to_hydrology",
    "horizontal_distance_to_roadways",
    "hillshade_9am",
    "hillshade_noon",
    "hillshade_3pm",
    "horizontal_distance_to_fire_points",
    *(f"wilderness_area_{j}" for j in range(1, 5)),
    *(f"soil_type_{j}" for j in range(1, 41)),
)


def fetch_covtype(data_dir: Any = None, download: bool = True, *, classes: int = 2, verify: bool = True) -> Dataset:
    """Load covtype: 581,012 patches of forest, 54 columns.

    `classes=2` is LIBSVM's task, and the paper's: cover type 2 (label 1) against the rest (label 0). `classes=7` gives
    the seven types, 1 to 7.

    Parameters
    ----------
    data_dir : path, optional
        Folder of data sets. None: the one in FEDONCE_DATA, else the user's cache.
    download : bool
        Whether to download from the owner what is not there.
    classes : int
        2 or 7.
    verify : bool
        Whether checksums are compared; False reads whatever has the right name and format.
    """
    if classes not in (2, 7):
        raise parameter_error("fetch_covtype", "classes", "2 or 7", classes)
    found = find(SOURCE, data_dir, download, verify)
    path = found.paths["table"]
    content = read_bytes(path)
    table = read_numbers(content, str(path), 55, np.int16)
    types = table[:, -1].astype(np.int64)
    if types.min() < 1 or types.max() > 7:
        row = int(np.argmax((types < 1) | (types > 7)))
        raise InputError(f"{path}, line {line_of(content, row)}: cover type {types[row]}, and there are 1 to 7.")
    target = (types == 2).astype(np.int64) if classes == 2 else types
    variant = "" if classes == 2 else "7 classes"
    return make(SOURCE, found, table[:, :-1].astype(np.float32), target, NAMES, variant=variant)
