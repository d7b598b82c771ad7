"""FedOnceClassifier and FedOnceRegressor: FedOnce with scikit-learn's fit and predict.

All parties' columns come in one table, and `parties` says who holds which; each party then works on its own columns alone,
as it would on its own machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score

from fedonce.data.scikit import check_one_column
from fedonce.estimators.base import FedOnce
from fedonce.party.presence import Present

__all__ = ["FedOnceClassifier", "FedOnceRegressor"]


class FedOnceClassifier(ClassifierMixin, FedOnce):  # type: ignore[misc]
    """Classify rows whose columns lie with several parties, after one message from each.

    Parameters
    ----------
    parties : dict, int or None, default=None
        Names to columns (names, positions or `Pixels`); or a number of even, contiguous blocks; or None: two.
    host : str, default=None
        The party with the labels. None: the first.
    learner : str, Learner or dict by guest, default="auto"
        How guests learn: "auto", "nat", "pca", "autoencoder", "patches", "random" or an object.
    dim : int or dict by guest, default=8
        Values per row in a message; lowered where a learner cannot give so many.
    bits : {32, 16, 8, 4}, default=8
        Bits per value in a message; with 8, principal components get no more than they are worth.
    epochs : int or dict by guest, default=None
        Overrides the learner's own.
    host_epochs : int, default=None
        Overrides the host model's own.
    recipe : str or Recipe, default="default"
        How the model "network" is built and trained: "default", "large" (images: a larger network), "paper" or an object.
    model : str, HostModel or estimator, default="auto"
        The host's model: a name of `fedonce.hostmodels.HOST_MODELS` (docs/host-models.md), an object, or a classifier of
        scikit-learn. "auto": trees, and networks where they pay, weighed on rows held back; the network for images, rounds, a
        budget, and where `recipe` or `host_epochs` are given.
    class_weight : "balanced" or dict of classes to weights, default=None
        How much rows of a class count; "balanced": all classes alike, however rare.
    calibrate : bool or "auto", default="auto"
        Whether probabilities are calibrated by rows held back; "auto": where that helps.
    validate : bool, default=True
        Whether a fit ends with scores on rows held back (`validation_`).
    bytes_per_row : float or dict by guest, default=None
        Bytes that a guest's values may take for each training row, on average, instead of `dim` and `bits`: how many values,
        and how many bits for each, is then chosen by what they are worth. None: by `dim` and `bits`.
    bytes_total : float, default=None
        Bytes that all guests together may take for each row, shared out by how much each has to tell; one with bytes of its own
        in `bytes_per_row` keeps these. `bytes_per_row_` says how many each got.
    hints : float, Hinting or Hints, default=None
        Epsilon with which the host first tells guests each row's label, by randomised response, so that they learn what matters
        for it (docs/hints.md); a regressor needs bins, `Hinting(2.0, edges=...)`. `ledger_` has a line for it. None: no hints.
        `random_state` does not fix their noise. Not with `rounds`, `local_epsilon` or a budget.
    privacy : Privacy, default=None
        A privacy budget and all that belongs to it (docs/privacy.md): `Privacy(epsilon=2, bounds=(0, 1), clip=0.5)`. What it
        leaves at its default, the parameters below may say; where both say something, they must agree.
    rounds : int or Rounds, default=0
        0: one message. More: go on training together for so many batches; a `Rounds` also limits epochs or bytes.
        Gradients then go back to the guests, who learn something of the labels.
    representation_noise : float, default=0.0
        Scale of Gaussian noise that guests add to what they send, after clipping each row to norm 1; at training and at
        prediction. 0: neither. `random_state` does not fix the noise.
    local_epsilon : float or dict by guest, optional
        Pure epsilon of a message for each row (docs/local-epsilon.md): what a guest sends is as probable, up to a factor of
        exp(epsilon), if the row were any other. A row is in one of `dim` cells, which are made without looking at rows:
        columns of numbers need `bounds`. Rows have no ids here, so every `predict` costs epsilon again; `ledger_` has a line
        per guest and grows. `random_state` does not fix the answers. Not with `learner`, `representation_noise`,
        `bytes_per_row`, `rounds` or a budget.
    protect : str or dict by guest, optional
        "cells:20": similar rows share one message, 20 training rows or more, and it is a number in random order, which
        `random_state` does not fix; a row to be predicted may be alone with its number (docs/leakage.md). Best with a host of
        trees, which `model="auto"` finds by itself.
        Not with `representation_noise`, `local_epsilon`, `rounds` or a budget.
    epsilon, delta : float, default=None
        Short for `privacy=Privacy(epsilon=, delta=)`: the budget of the released models, all parties together, and the
        probability with which the guarantee may fail. None: no guarantee; a delta of 1 / (10 rows).
    accountant : {"pld", "rdp", "reference"}, default="pld"
    division : {"moments", "simple"}, default="moments"
        Likewise: how the budget is counted, and divided among parties.
    bounds : (low, high), list of pairs or dict of columns to pairs, default=None
        Likewise: between which values the columns lie, by public knowledge. Also for `local_epsilon`.
    target_bounds : list or (low, high), default=None
        Likewise: the classes; for a regressor the bounds of the labels.
    categories : dict of columns to lists, default=None
        Likewise: the values of columns of text. Also for `local_epsilon`, where columns that have none are hashed.
    device : {"auto", "cpu", "cuda"}, default="auto"
        "auto": a GPU where there is one.
    random_state : int, RandomState or None, default=None
        Seed. Each party draws from it by its own name.
    n_jobs : int, default=None
        Guests that learn side by side, in processes of their own. None: one after the other.
    verbose : int, default=0
        1: a line per party; 2: a line per epoch.

    Attributes
    ----------
    classes_ : array
        The classes.
    host_ : str
        The host's name.
    history_ : list of dict
        The host's loss by epoch.
    traffic_, prediction_traffic_ : Traffic
        Messages and bytes sent in training, and in all predictions since.
    representations_ : dict
        What each guest sent. Not pickled.
    learners_ : dict
        Name of the learner by which each guest learnt: what "auto" chose. Empty where rounds began at random.
    bytes_per_row_ : dict
        Bytes per row that each guest was allowed; None: no limit but `dim` and `bits`.
    dims_ : dict
        Values per row that each guest sent.
    absent_ : tuple of str
        Guests that did not answer in training.
    overlap_ : dict
        Share of the host's rows that each guest has.
    validation_ : Validation or None
        Score on rows held back, of the model and of the host alone, with standard errors, and what was chosen by what score. None
        with a budget, with rounds, with fewer than 20 rows, or where `validate` is False.
    hints_ : Hints or None
        What the host told guests of its labels. Not pickled.
    ledger_ : Ledger
        With a budget, hints or `local_epsilon`: what each party spent or disclosed, and the total; with a budget also after a
        training that failed.
    plan_ : Plan
        With a budget: what each party was allowed to do.

    Notes
    -----
    `clip`, `budget_shares`, `allow_large_delta`, `unsound_paper_reproduction` and `insecure_test_seed` are fields of `privacy`;
    as parameters they are still taken, with a warning.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fedonce import FedOnceClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = FedOnceClassifier(parties={"bank": [0, 1], "shop": [2, 3]}, host="bank", random_state=0).fit(X, y)
    >>> clf.traffic_.messages
    1
    """

    _task = "classification"

    def predict_proba(self, X: Any, present: Present = None) -> NDArray[np.float64]:
        """Return a probability per class for each row; columns in the order of `classes_`."""
        return self._outputs(X, present)

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, present: Present = None) -> float:
        """Return the accuracy."""
        check_one_column(y)
        return float(accuracy_score(y, self.predict(X, present), sample_weight=sample_weight))

    def predict(self, X: Any, present: Present = None) -> NDArray[Any]:
        """Return the most probable class of each row."""
        probabilities = self.predict_proba(X, present)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])


class FedOnceRegressor(RegressorMixin, FedOnce):  # type: ignore[misc]
    """Predict a number for rows whose columns lie with several parties, after one message from each.

    Parameters as in `FedOnceClassifier`, but for `class_weight` and `calibrate`, which are for classes.

    >>> from sklearn.datasets import load_diabetes
    >>> from fedonce import FedOnceRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = FedOnceRegressor(parties={"bank": range(5), "shop": range(5, 10)}, model="linear", random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.4
    True
    """

    _task = "regression"

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, present: Present = None) -> float:
        """Return the coefficient of determination, R squared."""
        check_one_column(y)
        return float(r2_score(y, self.predict(X, present), sample_weight=sample_weight))

    def predict(self, X: Any, present: Present = None) -> NDArray[np.float64]:
        """Return a number for each row."""
        return self._outputs(X, present)
