"""Who answers for a guest, for tests that start no process: its table, its policy, and what a host asks of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import fedonce
from fedonce import read_table
from fedonce.federation.answer import Responder
from fedonce.federation.request import Request
from fedonce.federation.tables import GuestTables
from fedonce.learners import make
from fedonce.messages.representation import Representation
from fedonce.privacy.budget import calibrate
from fedonce.rows import alignment
from fedonce.rows.ids import fingerprint
from fedonce.system.disk import write_file
from tests.federation.parties import FREELY, write_csv

SECRET = bytes(range(32))
KEYED = f"keyed {fingerprint(SECRET)}"


def a_responder(folder, rows=120, columns=4, policy="", told=lambda *news: None) -> Responder:
    """Write a table of columns c0, c1, ... and a policy, and return the guest that has them."""
    write_csv(folder / "shop.csv", np.random.default_rng(0).standard_normal((rows, columns)), range(rows), 0)
    (folder / "public.toml").write_text("bounds = [-6, 6]\n")
    write_file(folder / "secret", SECRET.hex().encode(), private=True)
    tables = GuestTables(folder / "shop.csv", "customer", secret=folder / "secret", public=folder / "public.toml")
    tables.to_file(folder / "guest.toml")
    (folder / "policy.toml").write_text(policy if "max_rebuilt" in policy else FREELY + policy)
    return Responder(folder, "shop", told)


def asks(what="learn", run="churn", **settings) -> Request:
    given = {"learner": "pca", "dim": 2, "naming": KEYED} | settings
    return Request("bank", "shop", run, what, fedonce.__version__, **given)


def rows_of(responder, ids=None, run="churn") -> bytes:
    own = read_table(responder.kit / "shop.csv", id="customer").ids if ids is None else ids
    return alignment.agreed_rows(np.array(own, dtype=object), "bank", "shop", run)


def values_of(path) -> np.ndarray:
    return Representation.from_bytes(path.read_bytes()).values


def plan_of(epsilon=4.0, rows=120) -> str:
    """Return a plan of PCA at the shop alone."""
    tasks = make("pca", None, "test").private_tasks(rows, 1.0, False)
    return calibrate([replace(task, party="shop") for task in tasks], epsilon, 1e-3).to_text()
