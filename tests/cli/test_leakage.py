from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.jobs.office import command, told


@pytest.fixture
def shop(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"spent": rng.lognormal(size=400), "visits": rng.poisson(5, 400)})
    table["card"] = np.where(rng.random(400) < 0.4, "yes", "no")
    table.to_csv(tmp_path / "shop.csv", index=False)
    done = command(tmp_path, "guest fit shop.csv --name shop --learner pca --dim 3 --out model --no-attack")
    assert done.code == 0
    return tmp_path


ASK = "leakage model/representation.fedonce --table shop.csv"


def test_verdicts_advice_and_what_was_not_tried_are_printed(shop):
    done = command(shop, f"{ASK} --html page.html")
    assert done.code == 0
    for text in (
        "readable",
        "card",
        "yes/no columns, none of the rows known",
        "Tried on this message",
        "not tried: linking",
    ):
        assert text in done.out
    assert "does not mean safe" in done.out
    assert "Anyone who holds the message can read" in done.err
    assert (shop / "page.html").exists()


def test_the_same_as_json(shop):
    said = told(shop, f"{ASK} --attacks quick")
    assert {each["column"]: each["verdict"] for each in said["columns"]}["card"] == "readable"
    assert said["values per row"] == 3
    assert {each["attack"] for each in said["findings"]} == {"yes/no columns", "numbers and dates", "known rows"}


def test_a_limit_ends_with_the_exit_code_of_messages(shop):
    assert command(shop, f"{ASK} --attacks quick --refuse-above 0.9").code == 4
    done = command(shop, "guest fit shop.csv --name shop --dim 3 --learner pca --out second --refuse-above 0.9")
    assert done.code == 4
    assert "--refuse-above" in done.err
    assert not (shop / "second" / "representation.fedonce").exists()
