"""The paper's data sets: `fetch_NAME()` returns rows and labels from the owner's files.

Files are looked for in `data_dir`, else in the folder that FEDONCE_DATA names, else in the user's cache; what is not there is
downloaded from its owner, unless `download=False`. Every file's checksum is compared before it is read.
"""

from __future__ import annotations

from collections.abc import Callable

from fedonce.datasets import (
    cifar10,
    covtype,
    fashion_mnist,
    gisette,
    kmnist,
    mnist,
    movielens,
    nus_wide,
    phishing,
    superconduct,
    ujiindoorloc,
)
from fedonce.datasets.base import Dataset, Split
from fedonce.datasets.cifar10 import fetch_cifar10
from fedonce.datasets.covtype import fetch_covtype
from fedonce.datasets.fashion_mnist import fetch_fashion_mnist
from fedonce.datasets.files import Source, data_folder, status
from fedonce.datasets.gisette import fetch_gisette
from fedonce.datasets.kmnist import fetch_kmnist
from fedonce.datasets.mnist import fetch_mnist
from fedonce.datasets.movielens import fetch_movielens
from fedonce.datasets.nus_wide import fetch_nus_wide
from fedonce.datasets.phishing import fetch_phishing
from fedonce.datasets.superconduct import fetch_superconduct
from fedonce.datasets.ujiindoorloc import fetch_ujiindoorloc

__all__ = [
    "FETCHERS",
    "SOURCES",
    "Dataset",
    "Source",
    "Split",
    "data_folder",
    "fetch_cifar10",
    "fetch_covtype",
    "fetch_fashion_mnist",
    "fetch_gisette",
    "fetch_kmnist",
    "fetch_mnist",
    "fetch_movielens",
    "fetch_nus_wide",
    "fetch_phishing",
    "fetch_superconduct",
    "fetch_ujiindoorloc",
    "status",
]

_MODULES = (
    gisette,
    covtype,
    phishing,
    ujiindoorloc,
    superconduct,
    mnist,
    kmnist,
    fashion_mnist,
    nus_wide,
    movielens,
    cifar10,
)

SOURCES: dict[str, Source] = {module.SOURCE.name: module.SOURCE for module in _MODULES}
FETCHERS: dict[str, Callable[..., Dataset]] = {
    "gisette": fetch_gisette,
    "covtype": fetch_covtype,
    "phishing": fetch_phishing,
    "ujiindoorloc": fetch_ujiindoorloc,
    "superconduct": fetch_superconduct,
    "mnist": fetch_mnist,
    "kmnist": fetch_kmnist,
    "fashion-mnist": fetch_fashion_mnist,
    "nus-wide": fetch_nus_wide,
    "movielens": fetch_movielens,
    "cifar10": fetch_cifar10,
}
