# %% [markdown]
# # Write a learner, a host model and an attack
#
# Each is one class. `@register` gives it a name that estimators and commands understand; an installed package does
# the same by an entry point.

# %%
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from fedonce import FedOnceClassifier, HostModel, Learner, hostmodels, learners
from fedonce.assess import attacks

X, y = load_breast_cancer(return_X_y=True)
train, test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
parties = {"clinic": range(10), "laboratory": range(10, 30)}

# %% [markdown]
# ## A learner
#
# It turns rows into `dim` values each, without labels. Four methods; all randomness comes from `rng`.


# %%
@learners.register
@dataclass(eq=False)
class Furthest(Learner):
    """Distances to rows that lie far apart."""

    name: ClassVar[str] = "furthest"
    rows_: np.ndarray | None = field(default=None, init=False)

    def fit(self, rows, dim, rng, device):
        """Start at a random row, then take the row that is furthest from those taken."""
        taken = [int(rng.integers(len(rows)))]
        while len(taken) < dim:
            taken.append(int(self._distances(rows, rows[taken]).min(axis=1).argmax()))
        self.rows_ = rows[taken]
        return []

    def transform(self, rows, device):
        """Return the distances."""
        return self._distances(rows, self.rows_).astype(np.float32)

    def state(self):
        """Return what is kept with the model."""
        return {"rows": self.rows_}

    def restore(self, tensors):
        """Take it back."""
        self.rows_ = tensors["rows"]

    @staticmethod
    def _distances(rows, others):
        return np.sqrt(((rows[:, None] - others[None]) ** 2).sum(axis=2))


for learner in ("furthest", "pca"):
    model = FedOnceClassifier(parties, learner=learner, dim=4, validate=False, random_state=0).fit(train, y_train)
    print(f"{learner}: {model.score(test, y_test):.3f}")

# %% [markdown]
# Note what that learner would send: four *rows of the guest* stay in its model, and distances to them leave. The
# attack below is for such cases.
#
# ## A host model
#
# It gets the host's prepared rows, the guests' values side by side, and who is present. Outputs are one logit per
# class.


# %%
@hostmodels.register
@dataclass(eq=False)
class Neighbours(HostModel):
    """The classes of the nearest training rows."""

    name: ClassVar[str] = "neighbours"
    facts: ClassVar[hostmodels.Facts] = hostmodels.Facts(numbers=False)
    k: int = 9
    rows_: np.ndarray | None = field(default=None, init=False)
    votes_: np.ndarray | None = field(default=None, init=False)

    def fit(self, examples, dims, n_outputs, rng, device):
        """Keep the rows, and a vote of each for its class."""
        self.rows_ = np.hstack([examples.own, examples.values])
        self.votes_ = np.eye(n_outputs, dtype=np.float32)[examples.target]
        return []

    def outputs(self, own, values, present, device):
        """Return the logarithm of the share of votes, one more vote for each class."""
        apart = np.square(np.hstack([own, values])[:, None] - self.rows_[None]).sum(axis=2)
        nearest = apart.argsort(axis=1)[:, : self.k]
        return np.log(1 + self.votes_[nearest].sum(axis=1))

    def state(self):
        """Return what is kept with the model: here, the rows themselves."""
        return {"rows": self.rows_, "votes": self.votes_}

    def restore(self, tensors, inputs):
        """Take it back. A file may be forged, so shapes are checked."""
        self.rows_ = tensors["rows"].reshape(-1, inputs.shape[0] + sum(inputs.dims))
        self.votes_ = tensors["votes"].reshape(len(self.rows_), inputs.n_outputs)


for name in ("neighbours", "linear"):
    model = FedOnceClassifier(parties, model=name, dim=4, validate=False, random_state=0).fit(train, y_train)
    print(f"{name}: {model.score(test, y_test):.3f}")

# %% [markdown]
# ## An attack
#
# It gets what an attacker would have, and the table to score itself by. It yields a finding per column: how much of
# it was told, beside what guessing gives. This one looks for a value that grows with a column.


# %%
@attacks.register
class Follows(attacks.Attack):
    """Looks for values that follow a column."""

    name = "follows"
    facts = attacks.Facts(knows="the message, and no row", tries="to find a value that grows or falls with a column")

    def run(self, exposed, rng):
        """Yield the best squared correlation of each column with any value."""
        for name, column in zip(exposed.table.names, exposed.table.columns, strict=True):
            scores = [np.corrcoef(column, value)[0, 1] ** 2 for value in exposed.values.T if value.std() > 0]
            yield attacks.Finding(self.name, name, "number", float(max(scores)), rows=exposed.n_rows)


import tempfile
from pathlib import Path

import pandas as pd

from fedonce import Guest, read_table
from fedonce.assess import what_leaks

path = Path(tempfile.mkdtemp()) / "laboratory.csv"
pd.DataFrame(train[:, 10:14]).add_prefix("c").to_csv(path, index=False)
table = read_table(path)
for learner in ("furthest", "pca"):
    message = Guest("laboratory", learner, dim=2).learn(table)
    findings = what_leaks(message.values, table, attacks=["follows"]).findings
    print(learner, {finding.column: round(finding.score, 2) for finding in findings})
