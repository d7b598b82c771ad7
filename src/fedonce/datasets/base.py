"""What a loader returns: rows and labels, where they come from, and how they are split."""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

from fedonce.data.partition import Parties
from fedonce.datasets.files import UNVERIFIED, Found, Source
from fedonce.errors import InputError, parameter_error

logger = logging.getLogger(__name__)

FOLDS = 5
TEST_SHARE = 0.1


class Split(NamedTuple):
    """Rows to learn from and rows to score on, in scikit-learn's order.

    Attributes
    ----------
    X_train, X_test
        Rows to learn from and to score on.
    y_train, y_test : array
        Their labels or numbers.
    """

    X_train: Any
    X_test: Any
    y_train: NDArray[Any]
    y_test: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set, as its loader returns it.

    Attributes
    ----------
    name : str
        Its name in `fedonce data list`.
    data : array or pyarrow.Table
        One row a sample; images are flat, see `image`.
    target : array
        Class labels or numbers, as published. `split` scales numbers where the paper does.
    feature_names : tuple of str
        Names of the columns of `data`.
    task : str
        "classification" or "regression".
    parties : dict or int
        Who holds which columns in the paper; for the estimators' parameter of that name.
    complete : bool
        Whether these are all of the owner's rows. `note` says what is missing.
    licence, citation : str
        Under what terms, and whom to name.
    image : tuple or None
        (channels, rows, columns) where the columns are pixels.
    n_official_test : int
        Rows at the end that are the owner's own test set; 0 where there is none.
    unit_range : bool
        Whether `split` scales numbers to 0..1 by the range of the training part; `target_range` gives it.
    variant : str
        Which of several tasks this is.
    """

    name: str
    data: Any
    target: NDArray[Any]
    feature_names: tuple[str, ...]
    task: str
    parties: Parties
    complete: bool
    licence: str
    citation: str
    note: str = ""
    variant: str = ""  # which of several tasks this is
    image: tuple[int, ...] | None = None
    n_official_test: int = 0
    unit_range: bool = False

    @property
    def title(self) -> str:
        """The name, and what is missing of partial data: for tables of results.

        >>> from fedonce.datasets.base import Dataset
        >>> Dataset("covtype", [], [], (), "", 10, False, "", "", "92,962 of 581,012 rows", variant="7 classes").title
        'covtype 7 classes (partial: 92,962 of 581,012 rows)'
        """
        name = f"{self.name} {self.variant}".strip()
        if self.complete:
            return name
        return f"{name} ({'' if self.note.startswith(UNVERIFIED) else 'partial: '}{self.note})"

    def target_range(self, seed: int = 0) -> tuple[float, float]:
        """Return what `split` scales numbers by: 0 is the first, 1 the second; (0, 1) where it does not scale."""
        if not self.unit_range:
            return 0.0, 1.0
        label = self.target[self.rows(seed)[0]]
        low, high = float(label.min()), float(label.max())
        return low, high if high > low else low + 1

    def split(self, seed: int = 0, fold: int | None = None) -> Split:
        """Return X_train, X_test, y_train, y_test: the owner's test set where there is one, else 9:1 by seed.

        With `fold`, 0 to 4, one fifth of the training part is left out: train on the rest, score on the same test part.
        Classes keep their shares. Numbers that the paper scales are scaled by the range of the whole training part, the
        same for every fold.
        """
        train, test = self.rows(seed, fold)
        y = self.target
        if self.unit_range:
            low, high = self.target_range(seed)
            y = (y - low) / (high - low)
        return Split(take(self.data, train), take(self.data, test), y[train], y[test])

    def rows(self, seed: int = 0, fold: int | None = None) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the positions of training and test rows; see `split`."""
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise parameter_error("split", "seed", "an integer of at least 0", seed)
        if fold is not None and (type(fold) is not int or fold not in range(FOLDS)):
            raise parameter_error("split", "fold", f"an integer from 0 to {FOLDS - 1}, or None", fold)
        classes = self.target if self.task == "classification" else None
        every = np.arange(len(self.target))
        if self.n_official_test:
            train, test = every[: -self.n_official_test], every[-self.n_official_test :]
        else:
            try:
                train, test = train_test_split(every, test_size=TEST_SHARE, random_state=int(seed), stratify=classes)
            except ValueError as error:
                raise InputError(
                    f"Data set {self.name!r} is too small to split {len(every)} rows 9:1 ({error})"
                ) from error
        if fold is not None:
            folds = (KFold if classes is None else StratifiedKFold)(FOLDS, shuffle=True, random_state=int(seed))
            kept = [kept for kept, _ in folds.split(train, None if classes is None else classes[train])]
            train = train[kept[fold]]
        return train, test


def take(data: Any, rows: NDArray[np.intp]) -> Any:
    """Return some rows of an array or an Arrow table."""
    return data[rows] if isinstance(data, np.ndarray) else data.take(rows)


def make(
    source: Source, found: Found, data: Any, target: NDArray[Any], feature_names: tuple[str, ...], **more: Any
) -> Dataset:
    """Put a data set together; check that it is as long as its owner says."""
    if found.complete and len(target) != source.rows:
        raise InputError(f"Data set {source.name!r} must have {source.rows:,} rows. Got {len(target):,}.")
    if data.shape != (len(target), len(feature_names)):
        raise InputError(
            f"Data set {source.name!r} must have {len(target)} rows and {len(feature_names)} columns. Got {data.shape}."
        )
    note = found.note
    if not found.checked and len(target) != source.rows:
        note = "; ".join(filter(None, [note, f"{len(target):,} of {source.rows:,} rows"]))
    told = {"task": source.task, "parties": copy.deepcopy(source.parties), "image": source.image} | more
    dataset = Dataset(
        source.name,
        data,
        target,
        feature_names,
        complete=found.complete,
        note=note,
        licence=source.licence,
        citation=source.citation,
        **told,
    )
    if not dataset.complete:
        logger.warning("%s", dataset.title)
    return dataset
