# %% [markdown]
# # Reproduce a table of the paper
#
# The paper's table `tab:apdx_pca` compares two learners: NAT, which is the paper's own, and principal components.
# This notebook does so on a small data set, the digits of scikit-learn cut into four quadrants, one for each party.
# The whole table needs the paper's data and some hours: `python -m benchmarks.run unsupervised`.

# %%
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from fedonce import FedOnceClassifier, tiles

X, y = load_digits(return_X_y=True)
parties = tiles((8, 8), (2, 2))


def scores(learner, seeds=(0, 1), dim=3):
    """Return the accuracy of a learner on test rows, in per cent, by seed."""
    found = []
    for seed in seeds:
        train, test, y_train, y_test = train_test_split(X, y, random_state=seed, stratify=y)
        model = FedOnceClassifier(parties, learner=learner, dim=dim, host_epochs=20, validate=False, random_state=seed)
        found.append(100 * model.fit(train, y_train).score(test, y_test))
    return found


# %% [markdown]
# The network of the host trains 20 epochs, to keep this short. Guests send three values of 8 bits per image. `random`
# is a network that was never trained: a floor that a learner should beat.

# %%
import numpy as np

for learner in ("nat", "pca", "random"):
    found = scores(learner)
    print(f"{learner:<7} {np.mean(found):.1f} ± {np.std(found):.1f}")

# %% [markdown]
# Two more rows of that table: the host alone, and all pixels in one place.

# %%
import warnings

train, test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
quarter = {"party1": parties["party1"]}
whole = {"party1": tiles((8, 8), (1, 1))["party1"]}
for name, who in (("solo", quarter), ("combine", whole)):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # which say that it is one party alone
        model = FedOnceClassifier(who, host_epochs=20, validate=False, random_state=0).fit(train, y_train)
    print(f"{name:<7} {100 * model.score(test, y_test):.1f}")

# %% [markdown]
# With more values per row the learners come closer to each other: most of a quadrant's 16 pixels then fit into the
# message.

# %%
for dim in (1, 8):
    told = ", ".join(f"{learner} {np.mean(scores(learner, (0,), dim)):.1f}" for learner in ("pca", "random"))
    print(f"{dim} values per row: {told}")
