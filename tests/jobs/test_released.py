"""Under a budget nothing leaves or is kept that depends on a row and has no price: one row is changed, under the same coins."""

from __future__ import annotations

import hashlib
import json
import re

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open

from fedonce.hostmodels import NetworkModel
from fedonce.hostmodels.plan import plan as make_plan
from fedonce.hostmodels.recipe import PRIVATE_CLASSES
from fedonce.jobs import (
    Fitting,
    GuestBudget,
    GuestJob,
    HostBudget,
    HostJob,
    Incoming,
    Learning,
    RowNames,
    TableSource,
    settings,
)
from fedonce.learners import PCA
from fedonce.messages.keys import new_secret
from fedonce.messages.representation import Representation
from fedonce.party import Guest, Host
from fedonce.privacy.noise import SecretRandom

N = 150
PUBLIC = """labels = ["no", "yes"]
[bounds]
spent = [-4, 4]
visits = [0, 9]
rare = [0, 1]
joined = ["2000-01-01", "2024-12-31"]
income = [-4, 4]
[categories]
kind = ["food", "toys"]
"""
# What one row may change: what was released with noise, and digests and names of what it is in.
PRICED_OF_GUEST = {"weights: learner.mean", "weights: learner.directions"}
PRICED_OF_MESSAGE = {"values", "model", "checksum"}


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """Twice the models of a shop and a bank, the second time with another row; all coins are the same."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(settings, "SecretRandom", lambda: SecretRandom(insecure_test_seed=0))
        folder = tmp_path_factory.mktemp("released")
        names = {"bank": N, "shop": N}
        plan = make_plan(
            "bank",
            NetworkModel(PRIVATE_CLASSES),
            "classification",
            N,
            {"shop": PCA()},
            names,
            2.0,
            1e-4,
            "rdp",
            "moments",
            None,
        )
        plan.to_file(folder / "plan.json")
        (folder / "public.toml").write_text(PUBLIC)
        new_secret(folder / "secret")
        return [made(folder, changed) for changed in (False, True)]


def made(folder, changed):
    """Let both learn; return their folders, and what the guest's report says."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=N)
    shop = pd.DataFrame(
        {
            "who": [f"c{i:03}" for i in range(N)],
            "spent": hidden.clip(-4, 4),
            "visits": rng.integers(0, 9, N).astype(object),
            "joined": pd.Timestamp("2010-01-01") + pd.to_timedelta(rng.integers(0, 999, N), "D"),
            "kind": rng.choice(["food", "toys"], N),
            "rare": ["true"] + [None] * (N - 1),  # what it holds can be guessed from one row alone
        }
    )
    bank = pd.DataFrame({"who": shop["who"], "income": rng.normal(size=N).clip(-4, 4)})
    bank["repaid"] = np.where(hidden > 0, "yes", "no")
    if changed:  # a rare row, missing values, and a first number that is written as one with a fraction
        shop.loc[0, ["spent", "visits", "kind", "rare"]] = [-4.0, 3.5, None, "1"]
        shop.loc[0, "joined"] = pd.NaT
        bank.loc[0, "income"] = 4.0
        bank.loc[0, "repaid"] = "no" if bank.loc[0, "repaid"] == "yes" else "yes"
    where = folder / ("changed" if changed else "first")
    where.mkdir()
    shop.to_csv(where / "shop.csv", index=False)
    bank.to_csv(where / "bank.csv", index=False)
    plan, public = folder / "plan.json", folder / "public.toml"
    source = TableSource(where / "shop.csv", "who")
    learning, spending = Learning(learner="pca", dim=3), GuestBudget(plan, public=public)
    guest = GuestJob(source, "shop", where / "shop", learning, RowNames(folder / "secret"), spending).run()
    incoming = Incoming((guest.message.path,), secret=folder / "secret")
    budget = HostBudget(plan, public)
    HostJob(TableSource(where / "bank.csv", "who"), where / "bank", "repaid", "bank", Fitting(), budget, incoming).run()
    Guest.load(where / "shop").save(where / "released shop")
    Host.load(where / "bank").save(where / "released bank")
    return where


def parts(folder):
    """Return all that is in a model's folder by its name: leaves of JSON, arrays, sizes of files, lines of the page."""
    found = {}
    for path in folder.iterdir():
        name = path.name.split("-")[0]
        if path.suffix == ".json":
            found |= leaves(json.loads(path.read_text()), name)
        elif path.suffix == ".safetensors":
            with safe_open(path, "np") as file:
                found |= {f"{name}: {key}": file.get_tensor(key).tobytes() for key in file.keys()}  # noqa: SIM118
                found |= {f"{name}: header": str(file.metadata())}
        elif path.suffix == ".html":
            found |= {f"{name} {k}": line for k, line in enumerate(undigested(path.read_text()).splitlines())}
        found[f"bytes of {name}"] = path.stat().st_size
    return found


def leaves(value, name):
    if isinstance(value, dict):
        return {key: leaf for each in value for key, leaf in leaves(value[each], f"{name}/{each}").items()}
    return {name: undigested(value) if isinstance(value, str) else value}


def undigested(text):
    """Hide digests, by which a file is known, and times: digests change with what is in it, which is compared itself."""
    return re.sub(r"\b[0-9a-f]{16,64}\b|\d{4}-\d\d-\d\d \d\d:\d\d UTC", "a digest or a time", text)


def differences(first, second):
    assert first.keys() == second.keys()
    return {name for name in first if first[name] != second[name]}


def test_a_guest_s_folder_differs_in_what_was_paid_for(released):
    found = differences(*(parts(where / "shop") for where in released))
    assert found == PRICED_OF_GUEST


def test_a_host_s_folder_differs_in_what_was_paid_for(released):
    found = differences(*(parts(where / "bank") for where in released))
    assert found
    assert {name for name in found if not name.startswith("weights: ")} == set()


@pytest.mark.parametrize("party", ["shop", "bank"])
def test_a_release_has_the_model_and_digests_of_nothing_else(released, party):
    folders = [where / f"released {party}" for where in released]
    listed = [json.loads((folder / "manifest.json").read_text()) for folder in folders]
    assert {path.name for folder in folders for path in folder.iterdir()} == {
        "manifest.json",
        *(each["file"] for manifest in listed for each in manifest["files"].values()),
    }
    for manifest in listed:
        assert set(manifest["files"]) == {"settings", "encoding", "weights"}
        assert manifest["leaving"] == {}
    for where, folder in zip(released, folders, strict=True):
        sent = where / "shop" / "representation.fedonce"
        digests = hashlib.sha256(sent.read_bytes()).hexdigest(), Representation.from_file(sent).checksum
        kept = "".join(path.read_text() for path in folder.glob("*.json"))
        assert not any(digest[:16] in kept for digest in digests)
    found = differences(*map(parts, folders))
    assert found
    assert all(name.startswith("weights: ") for name in found)


def test_a_message_differs_in_its_values_and_in_nothing_about_them(released):
    first, second = (Representation.from_file(where / "shop" / "representation.fedonce") for where in released)
    assert not np.array_equal(first.values, second.values)
    stated = [{**vars(each), "checksum": each.checksum} for each in (first, second)]
    for each in stated:
        each["values"], each["ids"] = each["values"].tobytes(), each["ids"].tobytes()
        each["written"] = {name: part.shape for name, part in each["written"].items()}
        each["codec"] = {name: part.tobytes() for name, part in each["codec"].state().items()}
    assert differences(*stated) == PRICED_OF_MESSAGE
    assert len(first.to_bytes()) == len(second.to_bytes())


def test_figures_of_rows_are_not_beside_a_model_with_a_budget(released):
    page = (released[0] / "shop" / "report.html").read_text()
    assert "no budget covers them" in page
    assert "different rows of values" not in page
    assert "of 5 columns" not in page
