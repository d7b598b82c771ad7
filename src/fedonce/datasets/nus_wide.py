"""NUS-WIDE: pictures from the web, known by five sets of numbers computed from each."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedonce.data.partition import views
from fedonce.datasets.base import Dataset, make
from fedonce.datasets.files import Edition, File, Source, find
from fedonce.datasets.formats import line_of, read_bytes, read_numbers
from fedonce.errors import InputError

# Colour histogram, colour correlogram, edge directions, wavelet texture, block-wise colour moments. The paper prints 66 and
# 75 for CH and EDH, which have 64 and 73 columns by their owner's description; its five sum to 638, the owner's to 634.
VIEWS = {"CH": 64, "CORR": 144, "EDH": 73, "WT": 128, "CM55": 225}
LABEL = "sky"

SOURCE = Source(
    name="nus-wide",
    folder="nus-wide",
    rows=269_648,
    columns=sum(VIEWS.values()),
    task="classification",
    licence="research use, by agreement",
    citation="T.-S. Chua et al.: NUS-WIDE: a real-world web image database from National University of Singapore, 2009.",
    page="https://lms.comp.nus.edu.sg/wp-content/uploads/2019/research/nuswide/NUS-WIDE.html",
    parties=views(VIEWS),
    hint="These are in NUS_WID_Low_Level_Features.rar and Groundtruth.zip, to be unpacked there by hand.",
    # Published as a rar archive and a zip archive, without checksums: to be unpacked by hand into the data folder.
    editions=(
        Edition(
            {
                **{
                    f"{part} {view}": (
                        File(f"Low_Level_Features/{part}_Normalized_{view}.dat", None),
                        File(f"{part}_Normalized_{view}.dat", None),
                    )
                    for part in ("Train", "Test")
                    for view in VIEWS
                },
                **{
                    f"{part} labels": (
                        File(f"TrainTestLabels/Labels_{LABEL}_{part}.txt", None),
                        File(f"Labels_{LABEL}_{part}.txt", None),
                        File("Groundtruth.zip", None),
                    )
                    for part in ("Train", "Test")
                },
            }
        ),
    ),
)


def fetch_nus_wide(data_dir: Any = None, download: bool = True, *, verify: bool = True) -> Dataset:
    """Load NUS-WIDE: 161,789 training and 107,859 test pictures in five views; whether there is sky (1) or not (0).

    Unpack the owner's `NUS_WID_Low_Level_Features.rar` into the data folder; of `Groundtruth.zip` the folder
    `TrainTestLabels`, or the archive as it is.

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
    data, labels = [], []
    for part in ("Train", "Test"):
        path = found.paths[f"{part} labels"]
        content = read_bytes(path, f"Labels_{LABEL}_{part}.txt")
        own = read_numbers(content, str(path), 1, np.int64)[:, 0]
        if not np.isin(own, (0, 1)).all():
            row = int(np.argmax((own < 0) | (own > 1)))
            raise InputError(f"{path}, line {line_of(content, row)}: label {own[row]}, and labels must be 0 or 1.")
        features = np.empty((len(own), SOURCE.columns), np.float32)
        start = 0
        for view, width in VIEWS.items():
            path = found.paths[f"{part} {view}"]
            values = read_numbers(read_bytes(path), str(path), width, np.float32, delimiter=None)
            if len(values) != len(own):
                raise InputError(
                    f"The file {path} must have a row for each of {len(own)} labels. Got {len(values)} rows."
                )
            features[:, start : start + width] = values
            start += width
        data.append(features)
        labels.append(own)
    names = tuple(f"{view}_{j}" for view, width in VIEWS.items() for j in range(1, width + 1))
    return make(SOURCE, found, np.concatenate(data), np.concatenate(labels), names, n_official_test=len(labels[1]))
