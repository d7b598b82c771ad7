# %% [markdown]
# # Choose epsilon
#
# A privacy budget bounds how much the *released models* depend on any one person. Smaller epsilon, stronger
# guarantee, worse model. This notebook shows what each costs on one table. Needs the extra `privacy`.
#
# **Trying several budgets on private rows costs as much as all trials together.** So choose on public rows of the
# same kind, or on made-up ones, as here.

# %%
import numpy as np

from fedonce import FedOnceClassifier, Privacy

rng = np.random.default_rng(0)
n = 6000
X = rng.uniform(0, 1, (n, 8))
y = (X[:, 0] + X[:, 5] + 0.15 * rng.standard_normal(n) > 1).astype(int)
parties = {"bank": range(4), "shop": range(4, 8)}
train, test = slice(0, 5000), slice(5000, n)

# %% [markdown]
# Bounds and classes are public knowledge, not read off the rows. `accountant="rdp"` is quicker than the default, and
# claims a little less.


# %%
def accuracy(epsilon):
    """Return the accuracy on test rows with a budget, and what was spent of it."""
    privacy = Privacy(epsilon=epsilon, bounds=(0, 1), target_bounds=[0, 1], accountant="rdp")
    model = FedOnceClassifier(parties, dim=4, privacy=privacy, host_epochs=5, random_state=0).fit(X[train], y[train])
    return model.score(X[test], y[test]), model.ledger_


for epsilon in (0.5, 2, 8, float("inf")):
    score, ledger = accuracy(epsilon)
    print(f"epsilon {epsilon}: {score:.3f}")

# %% [markdown]
# Noise is secret and drawn afresh, so figures differ a little from run to run. The ledger says what each party spent:

# %%
_, ledger = accuracy(2)
print(ledger)

# %% [markdown]
# What epsilon means for one person: somebody who was even odds to be in the training rows before is at most this sure
# afterwards (up to a probability of delta).

# %%
for epsilon in (0.5, 1, 2, 4, 8):
    print(f"epsilon {epsilon}: at most {np.exp(epsilon) / (1 + np.exp(epsilon)):.2%} sure")

# %% [markdown]
# ## When the host is not to be trusted with messages
#
# A budget does not cover the messages. `local_epsilon` does: what a guest sends of each row has a pure epsilon, against
# the host, too. It costs more accuracy, and every prediction costs it again, as these rows have no ids.

# %%
for epsilon in (1, 4, 8):
    model = FedOnceClassifier(
        parties, local_epsilon=epsilon, bounds=(0, 1), model="linear", validate=False, random_state=0
    )
    model.fit(X[train], y[train])
    print(f"local epsilon {epsilon}: {model.score(X[test], y[test]):.3f}")

alone = FedOnceClassifier(parties, model="linear", validate=False, random_state=0)
alone.fit(X[train], y[train], present={"shop": False})
print(f"the bank alone: {alone.score(X[test], y[test], present={'shop': False}):.3f}")
