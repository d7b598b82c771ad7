# %% [markdown]
# # Two departments
#
# The shop and the bank each have a file. They run their own steps, on their own machines, days apart. Here both are
# in one notebook, in folders of their own; `post/` is the mail between them. The same steps as commands are in
# `examples/two_departments`.

# %%
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from fedonce.jobs import (
    EvaluateJob,
    Fitting,
    GuestJob,
    HostJob,
    Incoming,
    Learning,
    ModelRows,
    RepresentJob,
    RowNames,
    TableSource,
)
from fedonce.messages.keys import new_secret

place = Path(tempfile.mkdtemp())
for folder in ("shop", "bank", "post"):
    (place / folder).mkdir()

rng = np.random.default_rng(1)
people = pd.DataFrame({"customer": [f"C-{number:05}" for number in range(3000)]})
people["income"], people["age"] = rng.normal(50, 15, 3000), rng.integers(18, 90, 3000)
people["reminders"], people["basket"] = rng.poisson(1, 3000), rng.gamma(2, 20, 3000)
people["repaid"] = np.where(people.income / 20 - 1.5 * people.reminders + rng.logistic(0, 0.5, 3000) > 0.8, "yes", "no")

# The bank knows the first 2,400 people, the shop the last 2,400, each in an order of its own.
bank = people.iloc[:2400][["customer", "income", "age", "repaid"]].sample(frac=1, random_state=0)
shop = people.iloc[600:][["customer", "reminders", "basket"]].sample(frac=1, random_state=1)
bank[:1900].to_csv(place / "bank" / "bank.csv", index=False)
bank[1900:].to_csv(place / "bank" / "held_back.csv", index=False)
shop[:2000].to_csv(place / "shop" / "shop.csv", index=False)
shop.to_csv(place / "shop" / "all.csv", index=False)  # with those who joined since

# %% [markdown]
# Both share a secret, by another way than the mail. Ids are hashed with it.

# %%
secret = place / "parties.secret"
new_secret(secret)
named = RowNames(secret=secret)

# %% [markdown]
# **The shop** learns without labels and writes one message. Quick attacks on its own message say what can be read in
# it.

# %%
table = TableSource(place / "shop" / "shop.csv", id="customer")
learned = GuestJob(table, "shop", place / "shop" / "model", Learning(run="loans", dim=2), named).run()
message = learned.message.path.rename(place / "post" / "shop.fedonce")
print(f"the message: {message.stat().st_size:,} bytes")
for column in learned.leakage.columns:
    print(f"  {column.column}: {column.verdict}")

# %% [markdown]
# **The bank** trains on its own columns and what arrived.

# %%
arrived = Incoming(files=[message], secret=secret)
job = HostJob(
    TableSource(place / "bank" / "bank.csv", id="customer"),
    place / "bank" / "model",
    "repaid",
    "bank",
    Fitting(run="loans"),
    incoming=arrived,
)
trained = job.run()
print(trained.fitted.overlap)
print(trained.host.validation)

# %% [markdown]
# **Another day**, the shop represents the rows that the bank asks about, and the bank scores its model on rows that
# it held back.

# %%
sent = RepresentJob(place / "shop" / "all.csv", place / "shop" / "model", place / "post" / "new.fedonce", named).run()
rows = ModelRows(place / "bank" / "held_back.csv", place / "bank" / "model", Incoming(files=[sent.path], secret=secret))
scores = EvaluateJob(rows).run().scores
print({name: round(float(scores[name]), 3) for name in ("accuracy", "log loss")})
