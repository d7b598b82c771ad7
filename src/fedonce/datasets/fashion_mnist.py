"""Fashion-MNIST: pictures of clothes, in MNIST's format."""

from __future__ import annotations

from typing import Any

from fedonce.data.partition import tiles
from fedonce.datasets import idximages
from fedonce.datasets.base import Dataset
from fedonce.datasets.files import Source

SOURCE = Source(
    name="fashion-mnist",
    folder="fashion-mnist",
    rows=70_000,
    columns=784,
    task="classification",
    licence="MIT",
    citation="H. Xiao, K. Rasul, R. Vollgraf: Fashion-MNIST: a novel image dataset for benchmarking, 2017.",
    page="https://github.com/zalandoresearch/fashion-mnist",
    parties=tiles((28, 28), (2, 2)),
    image=(1, 28, 28),
    editions=(
        idximages.edition(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            {
                "train images": (
                    "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                    "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                ),
                "train labels": (
                    "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                    "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                ),
                "test images": (
                    "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                    "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                ),
                "test labels": (
                    "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                    "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
                ),
            },
        ),
    ),
)


def fetch_fashion_mnist(data_dir: Any = None, download: bool = True, *, verify: bool = True) -> Dataset:
    """Load Fashion-MNIST: 60,000 training and 10,000 test images of clothes, 28 x 28 pixels, 10 classes.

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
