# %% [markdown]
# # Quickstart with DataFrames
#
# A bank and a shop know different things about the same customers. Only the bank knows who repaid a loan. The shop
# sends one message.
#
# The tables are made up: whether a loan is repaid depends on what both know.

# %%
import numpy as np
import pandas as pd

from fedonce import FedOnceClassifier

rng = np.random.default_rng(0)
n = 2000
customers = pd.DataFrame(
    {
        "income": rng.normal(50_000, 15_000, n).round(-2),
        "employment": rng.choice(["employed", "self-employed", "student"], n),
        "visits": rng.poisson(5, n),
        "reminders": rng.poisson(1, n),
        "member_since": pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3000, n), "D"),
        "pays_by": rng.choice(["card", "cash", "invoice"], n),
    }
)
risk = (
    1.2 * customers.reminders + (customers.pays_by == "invoice") - customers.income / 25_000 + rng.logistic(0, 0.5, n)
)
repaid = pd.Series(np.where(risk < risk.median(), "yes", "no"), name="repaid")
customers.head(3)

# %% [markdown]
# `parties` says who holds which columns. Categories, dates and missing values need no preparation: each party
# prepares its own columns.

# %%
parties = {"bank": ["income", "employment"], "shop": ["visits", "reminders", "member_since", "pays_by"]}
train, test = customers[:1500], customers[1500:]

model = FedOnceClassifier(parties=parties, host="bank", random_state=0).fit(train, repaid[:1500])
print(f"accuracy: {model.score(test, repaid[1500:]):.3f}")
print(f"without the shop: {model.score(test, repaid[1500:], present={'shop': False}):.3f}")

# %% [markdown]
# What was the message worth, on rows that were held back from the training? And how large was it?

# %%
print(model.validation_)
print(f"{model.traffic_.messages} message, {model.traffic_.bytes:,} bytes, {model.dims_['shop']} values per row")

# %% [markdown]
# Predictions keep working when the shop does not know a customer. `present` says which rows it has.

# %%
known = np.arange(len(test)) % 2 == 0
print(model.predict(test, present={"shop": known})[:5])

# %% [markdown]
# Before a real message is sent, look at what can be read in it: here, in the shop's two columns of numbers. Both can
# be read, because the shop sends more values than it has such columns. `dim=2` would tell less.

# %%
import tempfile
from pathlib import Path

from fedonce import read_table
from fedonce.assess import what_leaks

path = Path(tempfile.mkdtemp()) / "shop.csv"
train[["visits", "reminders"]].to_csv(path, index=False)
found = what_leaks(model.representations_["shop"].values, read_table(path))
for column in found.columns:
    print(f"{column.column}: {column.verdict}")
