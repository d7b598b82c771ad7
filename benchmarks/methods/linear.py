"""Linear-Combine: a linear model on all columns in one place; logistic regression for classes, ridge for numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks.columns import arrays
from benchmarks.config import Config
from benchmarks.problem import Problem, Result, clocked


def run(problem: Problem, config: Config, seed: int) -> Result:
    """Fit on standardised numbers and one-hot categories."""
    with clocked() as clock:
        rows, test = features(problem.X, problem.X_test)
        model = linear(problem.classes, sparse.issparse(rows)).fit(rows, problem.y)
    return Result(problem.score(model.predict(test)), seconds=clock.seconds, cpu=clock.cpu)


def linear(classes: bool, many_columns: bool = False) -> Any:
    """Return the linear model for a task. Where categories make thousands of columns, the penalty is not chosen."""
    if classes:
        return LogisticRegression(max_iter=1000)
    return Ridge(1.0, solver="lsqr") if many_columns else RidgeCV(np.logspace(-3, 4, 8))


def features(train: Any, test: Any) -> tuple[Any, Any]:
    """Return training and test rows as numbers, scaled and encoded by the training rows."""
    if not isinstance(train, pa.Table):
        scaler = StandardScaler().fit(train)
        return scaler.transform(train), scaler.transform(test)
    parts = []
    for own, later in zip(arrays(train), arrays(test), strict=True):
        text = own.dtype == object
        step = OneHotEncoder(handle_unknown="ignore") if text else StandardScaler()
        both = [column[:, None].astype(str) if text else column[:, None] for column in (own, later)]
        parts.append((sparse.csr_array(step.fit_transform(both[0])), sparse.csr_array(step.transform(both[1]))))
    rows, later = ([part[side] for part in parts] for side in (0, 1))
    return sparse.hstack(rows).tocsr(), sparse.hstack(later).tocsr()
