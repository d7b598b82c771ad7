"""Superconductivity: at which temperature a material loses its resistance."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedonce.datasets.base import Dataset, make
from fedonce.datasets.files import Edition, File, Source, find
from fedonce.datasets.formats import read_bytes, read_numbers

SOURCE = Source(
    name="superconduct",
    folder="superconduct",
    rows=21_263,
    columns=81,
    task="regression",
    licence="CC BY 4.0",
    citation="K. Hamidieh: A data-driven statistical model for predicting the critical temperature of a superconductor, 2018. "
    "UCI 464.",
    page="https://archive.ics.uci.edu/dataset/464/superconductivty+data",
    parties=10,
    editions=(
        Edition(
            {
                "table": (
                    File(
                        "superconductivty+data.zip",
                        "87f4490d73390ff94ee01dbf0d7d32abc80b22f2c803d471765cfc46a9f6371e",
                        "https://archive.ics.uci.edu/static/public/464/superconductivty+data.zip",
                    ),
                    File("train.csv", "4dfb6e3a1f6ffd969e5a5e42f093c4800d1e2a6c8b1e309f8fcd9f23d86952f3"),
                    # Five of the 81 columns computed afresh by the published formulas, and numbers printed differently:
                    File("train.csv.xz", "a4274bdcf740f7c9b11bfb01ac71a32a231565dda25d003eeda9f5703454aa65"),
                    File("train.csv", "a5f84a2d45756d64ca412c2f3c433e21218e921f25418ce8d4602427d3a6d02b"),
                )
            }
        ),
    ),
)

PROPERTIES = (
    "atomic_mass",
    "fie",
    "atomic_radius",
    "Density",
    "ElectronAffinity",
    "FusionHeat",
    "ThermalConductivity",
    "Valence",
)
STATISTICS = (
    "mean",
    "wtd_mean",
    "gmean",
    "wtd_gmean",
    "entropy",
    "wtd_entropy",
    "range",
    "wtd_range",
    "std",
    "wtd_std",
)
NAMES = ("number_of_elements", *(f"{s}_{p}" for p in PROPERTIES for s in STATISTICS))


def fetch_superconduct(data_dir: Any = None, download: bool = True, *, verify: bool = True) -> Dataset:
    """Load Superconductivity: 21,263 materials, 81 columns; `target` is the critical temperature in kelvin.

    `split` scales the target to 0..1 by the range of the training part, as in the paper.

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
    path = found.paths["table"]
    content = read_bytes(path, "train.csv")
    table = read_numbers(content, str(path), 82, np.float64, header=(*NAMES, "critical_temp"))
    return make(SOURCE, found, table[:, :-1].astype(np.float32), table[:, -1], NAMES, unit_range=True)
