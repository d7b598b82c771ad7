"""KMNIST: cursive Japanese characters, in MNIST's format."""

from __future__ import annotations

from typing import Any

from fedonce.data.partition import tiles
from fedonce.datasets import idximages
from fedonce.datasets.base import Dataset
from fedonce.datasets.files import Source

ADDRESS = "https://codh.rois.ac.jp/kmnist/dataset/kmnist/"
TEST = {
    "test images": (
        "edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5",
        "76fbd229ce87db80dd281af5e6670de4ad0e42fb30a7bd643972994c47c1f42e",
    ),
    "test labels": (
        "20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98e42a1c",
        "a11dc742be8e781a40a92f53d6a4957e7b7d36df2faa097659131ebfd8fd60c6",
    ),
}

SOURCE = Source(
    name="kmnist",
    folder="kmnist",
    rows=70_000,
    columns=784,
    task="classification",
    licence="CC BY-SA 4.0",
    citation="T. Clanuwat et al.: Deep learning for classical Japanese literature, 2018.",
    page="https://codh.rois.ac.jp/kmnist/",
    parties=tiles((28, 28), (2, 2)),
    image=(1, 28, 28),
    editions=(
        idximages.edition(
            ADDRESS,
            {
                "train images": ("51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4",),
                "train labels": ("e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17",),
                **TEST,
            },
        ),
        idximages.edition(ADDRESS, TEST, note="the 10,000 test images alone, split 9:1"),
    ),
)


def fetch_kmnist(data_dir: Any = None, download: bool = True, *, verify: bool = True) -> Dataset:
    """Load KMNIST: 60,000 training and 10,000 test images of characters, 28 x 28 pixels, 10 classes.

    Where the test images alone are there, they are all the rows, and `split` divides them 9:1.

    Parameters
    ----------
    data_dir : path, optional
        Folder of data sets. None: the one in FEDONCE_DATA, else the user's cache.
    download : bool
        Whether to download from the owner what is not there.
    verify : bool
        Whether checksums are compared; False reads whatever has the right name and format.
    """
    return idximages.fetch(SOURCE, data_dir, download, verify)
