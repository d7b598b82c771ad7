"""phishing: whether a web page is what it pretends to be."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.datasets.base import Dataset, make
from fedonce.datasets.files import Edition, File, Source, find
from fedonce.datasets.formats import read_bytes, read_libsvm
from fedonce.errors import InputError

SOURCE = Source(
    name="phishing",
    folder="phishing",
    rows=11_055,
    columns=68,
    task="classification",
    licence="CC BY 4.0",
    citation="R. M. Mohammad, F. Thabtah, L. McCluskey: Phishing websites features, 2015. UCI 327; one-hot by LIBSVM.",
    page="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html#phishing",
    parties=10,
    editions=(
        Edition(
            {
                "table": (
                    File("phishing", None, "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/phishing"),
                    File("phishing", "0cf66ef36604c393da9359b2e5d894a2df8aee31fd184633cefa138add2ef08a"),
                    File("Training Dataset.arff", "0dfcd84ccdedca6e1be2ce26452c1f1089ac3f839b9a1b0ab1cdcf6d895f9a70"),
                )
            }
        ),
    ),
)

ONE = np.float32(0.18257)  # LIBSVM's file has rows of length 1: thirty values of 1/sqrt(30)


def fetch_phishing(data_dir: Any = None, download: bool = True, *, verify: bool = True) -> Dataset:
    """Load phishing: 11,055 web pages, 68 columns (30 properties, one-hot), 1 is legitimate.

    The UCI file `Training Dataset.arff` is read too, and gives the same rows and columns as LIBSVM's.

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
    if path.suffix == ".arff":
        data, target = _one_hot(path)
    else:
        data, target = read_libsvm(read_bytes(path), str(path), SOURCE.columns)
    if not np.isin(target, (-1, 0, 1)).all():
        raise InputError(
            f"The file {path} must have labels 0 and 1, or -1 and 1. Got {np.unique(target)[:5].tolist()}."
        )
    return make(SOURCE, found, data, (target > 0).astype(np.int64), tuple(f"value_{j}" for j in range(1, 69)))


def _one_hot(path: Any) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Read the 30 properties, one column a value; values are numbered as they first occur, row by row, as LIBSVM did."""
    from scipy.io import arff

    try:
        records, _ = arff.loadarff(io.StringIO(read_bytes(path).decode()))
        table = np.array([[int(value) for value in record] for record in records.tolist()])
    except (ValueError, IndexError, NotImplementedError, StopIteration, arff.ArffError) as error:
        raise InputError(f"The file {path} is not the arff file of UCI 327 ({error}).") from error
    if table.ndim != 2 or table.shape[1] != 31:
        raise InputError(f"The file {path} must have 31 columns. Got {table.shape[1:] or 'none'}.")
    codes: dict[tuple[int, int], int] = {}
    for row in table[:, :-1].tolist():
        for pair in enumerate(row):
            codes.setdefault(pair, len(codes))
    if len(codes) != SOURCE.columns:
        raise InputError(f"The file {path} must have {SOURCE.columns} values in 30 columns. Got {len(codes)}.")
    data = np.zeros((len(table), SOURCE.columns), np.float32)
    for (column, value), code in codes.items():
        data[table[:, column] == value, code] = ONE
    return data, table[:, -1]
