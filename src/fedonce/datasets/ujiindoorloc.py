"""UJIIndoorLoc: where in three buildings a telephone is, from the wireless networks that it hears."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedonce.datasets.base import Dataset, make
from fedonce.datasets.files import Edition, File, Source, find
from fedonce.datasets.formats import read_bytes, read_numbers
from fedonce.errors import parameter_error

SOURCE = Source(
    name="ujiindoorloc",
    folder="ujiindoorloc",
    rows=19_937,
    columns=528,
    task="regression",
    licence="CC BY 4.0",
    citation="J. Torres-Sospedra et al.: UJIIndoorLoc: a new multi-building and multi-floor database for WLAN "
    "fingerprint-based indoor localization problems, 2014. UCI 310.",
    page="https://archive.ics.uci.edu/dataset/310/ujiindoorloc",
    parties=10,
    editions=(
        Edition(
            {
                "table": (
                    File(
                        "ujiindoorloc.zip",
                        "893512b82dfd7a7c345d84195b1c8019fbca0fa0d7820ce491ce5aa45ec3782f",
                        "https://archive.ics.uci.edu/static/public/310/ujiindoorloc.zip",
                    ),
                    File("UJIndoorLoc.zip", "33e9113a53b009dd363732fe2f1e006d94ee854b20ce4d606f0da4e1bfe800f4"),
                    File("trainingData.csv", "45ca0128bd12019c976bb4793e407c979c82995d7a5940ab7288620247905168"),
                )
            }
        ),
    ),
)

SIGNALS = tuple(f"WAP{j:03d}" for j in range(1, 521))
OTHERS = (
    "LONGITUDE",
    "LATITUDE",
    "FLOOR",
    "BUILDINGID",
    "SPACEID",
    "RELATIVEPOSITION",
    "USERID",
    "PHONEID",
    "TIMESTAMP",
)
NOT_HEARD = 100  # what the file has where a network was not heard; real signals lie between -104 and 0
SILENCE = -110  # what we make of it: weaker than the weakest signal


def fetch_ujiindoorloc(
    data_dir: Any = None, download: bool = True, *, target: str = "timestamp", verify: bool = True
) -> Dataset:
    """Load UJIIndoorLoc: 19,937 measurements of 520 wireless networks (`trainingData.csv`).

    `target="timestamp"` is the paper's task: the last column from all 528 others. `target="longitude"` and `"latitude"`
    are what the data were collected for, from the 520 signals alone. A network that was not heard is -110. `split`
    scales the target to 0..1 by the range of the training part, as in the paper.

    Parameters
    ----------
    data_dir : path, optional
        Folder of data sets. None: the one in FEDONCE_DATA, else the user's cache.
    download : bool
        Whether to download from the owner what is not there.
    target : str
        "timestamp", "longitude" or "latitude".
    verify : bool
        Whether checksums are compared; False reads whatever has the right name and format.
    """
    if target not in ("timestamp", "longitude", "latitude"):
        raise parameter_error("fetch_ujiindoorloc", "target", "'timestamp', 'longitude' or 'latitude'", target)
    found = find(SOURCE, data_dir, download, verify)
    path = found.paths["table"]
    names = (*SIGNALS, *OTHERS)
    table = read_numbers(read_bytes(path, "trainingData.csv"), str(path), len(names), np.float64, header=names)
    signals = table[:, : len(SIGNALS)]
    signals[signals == NOT_HEARD] = SILENCE
    used = len(names) - 1 if target == "timestamp" else len(SIGNALS)
    # float64: longitudes and latitudes have more digits than float32 keeps
    data, label = table[:, :used].copy(), table[:, names.index(target.upper())].copy()
    return make(SOURCE, found, data, label, names[:used], unit_range=True, variant=target)
