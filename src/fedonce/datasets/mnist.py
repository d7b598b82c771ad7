"""MNIST: handwritten digits."""

from __future__ import annotations

from typing import Any

from fedonce.data.partition import tiles
from fedonce.datasets import idximages
from fedonce.datasets.base import Dataset
from fedonce.datasets.files import Source

SOURCE = Source(
    name="mnist",
    folder="mnist",
    rows=70_000,
    columns=784,
    task="classification",
    licence="CC BY-SA 3.0",
    citation="Y. LeCun, C. Cortes, C. J. C. Burges: The MNIST database of handwritten digits, 1998.",
    page="http://yann.lecun.com/exdb/mnist/",
    parties=tiles((28, 28), (2, 2)),
    image=(1, 28, 28),
    # The owner's own address asks for a password; this is the copy that torchvision reads, with the owner's checksums.
    editions=(
        idximages.edition(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            {
                "train images": (
                    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                    "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                ),
                "train labels": (
                    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                    "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                ),
                "test images": (
                    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                    "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                ),
                "test labels": (
                    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                    "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
                ),
            },
        ),
    ),
)


def fetch_mnist(data_dir: Any = None, download: bool = True, *, verify: bool = True) -> Dataset:
    """Load MNIST: 60,000 training and 10,000 test images of digits, 28 x 28 pixels, 10 classes.

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
