from __future__ import annotations

import re
import shutil
import threading
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedonce import Host, Representation, read_table
from fedonce.engine import files as files_engine
from fedonce.hostmodels.recipe import PAPER, TABLES
from fedonce.messages import envelope
from fedonce.party import storage
from tests.jobs.office import FIT_BANK, FIT_SHOP, SHOP, UTILITY, N, command, done, make_office, refused, told

MESSAGE = "representation.fedonce"
NEW = FIT_BANK.replace("--out bank", "--out new")
OPEN = "--model bank --secret secret"
PLAN = "privacy plan --epsilon 2 --rows 120,110 --parties bank,shop --accountant rdp --host-epochs 1 --out plan.json"
PUBLIC = """labels = ["no", "yes"]
[bounds]
income = [-4, 4]
spent = [-200, 200]
visits = [0, 9]
[categories]
region = ["north", "south", "east"]
kind = ["food", "toys"]
"""


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    """A host trained with the shop; its rows predicted; nobody changes it."""
    folder = make_office(tmp_path_factory.mktemp("office"))
    done(folder, "guest fit shop.csv --id who --name shop --out other-shop --secret secret --dim 2")
    done(folder, "guest fit shop.csv --id who --name shop --out autumn --secret secret --run autumn")
    (folder / "public.toml").write_text(PUBLIC)
    return folder


@pytest.fixture
def fresh(office, tmp_path):
    """A copy that a test may change."""
    return shutil.copytree(office, tmp_path / "office")


def size(folder, name):
    return (folder / name).stat().st_size


def test_fit_prints_who_came_and_who_is_late(fresh):
    shown = done(fresh, f"{NEW} --inbox shop --expect shop,utility --quiet")
    assert shown.splitlines() == [
        "trained classification on 120 rows of bank, run local",
        f"  shop: has 75.0 % of the rows, {size(fresh, f'shop/{MESSAGE}'):,} bytes",
        "  utility: LATE, left out (zeros); add it later with --refit --guest FILE",
        "host model: network",
        *shown.splitlines()[4:6],  # of rows held back: the test below
        f"received: 1 message, {size(fresh, f'shop/{MESSAGE}'):,} bytes",
        "model: new",
        "report: new/report.html",
    ]


def test_fit_ends_with_what_rows_held_back_say(fresh):
    shown = done(fresh, f"{NEW} {UTILITY} --quiet").splitlines()
    figures = told(fresh, f"{NEW.replace('--out new', '--out again')} {UTILITY}")
    found = figures["validation"]
    assert (figures["host model"], found["metric"], found["rows"]) == ("network", "accuracy", N // 3)
    assert found["gain"]["value"] == pytest.approx(found["joint"]["value"] - found["alone"]["value"])
    joint, alone, gain = (
        f"{abs(found[name]['value']):.4g} ± {found[name]['error']:.2g}" for name in ("joint", "alone", "gain")
    )
    assert found["gain"]["value"] > 0  # the utility knows what the bank does not
    assert f"held back: accuracy {joint} on {N // 3} rows; the host alone {alone}; better by {gain}" in "\n".join(shown)
    assert set(found["more"]) >= {"area under the curve", "average precision of the rarer class"}


@pytest.mark.parametrize(
    ("more", "said"),
    [("--no-validate", "it was not asked for"), ("--plan plan.json --public public.toml", "privacy budget")],
)
def test_fit_says_why_no_rows_were_held_back(fresh, more, said):
    if "plan" in more:
        done(fresh, PLAN.replace("120,110", "120").replace("bank,shop", "bank"))
        more += " --columns income,region --min-guests 0"
    else:
        more += f" {SHOP}"
    line = NEW.replace("--epochs 2", "--epochs 1")
    (shown,) = [each for each in done(fresh, f"{line} {more} --quiet").splitlines() if each.startswith("held back")]
    assert "no score" in shown
    assert said in shown
    assert Host.load(fresh / "new").validation is None


def test_rows_count_by_a_column_and_by_their_class(fresh):
    """Every third label is wrong on purpose, and has a weight of 0."""
    bank = pd.read_csv(fresh / "bank.csv")
    wrong = np.arange(N) % 3 == 0
    flipped = bank["default"].where(~wrong, np.where(bank["default"] == "no", "yes", "no"))
    bank.assign(default=flipped, trust=np.where(wrong, 0.0, 1.5)).to_csv(fresh / "noisy.csv", index=False)
    line = f"{FIT_BANK.replace('bank.csv', 'noisy.csv')} {UTILITY} --model linear --calibrate no"
    line = line.replace("--epochs 2 ", "").replace("--out bank ", "")
    done(fresh, f"{line} --weight trust --class-weight balanced --out weighed")
    done(fresh, f"{line} --drop trust --out alike")
    right = [
        told(fresh, f"host evaluate bank.csv --model {model} {UTILITY} --secret secret")["log loss"]
        for model in ("weighed", "alike")
    ]
    assert right[0] < 0.7 * right[1]
    host = Host.load(fresh / "weighed")
    assert "trust" not in host.reading.columns
    assert (host.reading.weight, host.reading.class_weight, host.temperature) == ("trust", "balanced", 1.0)


def test_a_model_that_is_trained_again_counts_rows_as_before(fresh):
    pd.read_csv(fresh / "bank.csv").assign(trust=np.arange(N)).to_csv(fresh / "bank.csv", index=False)
    line = f"{NEW} {UTILITY} --model linear --no-validate".replace("--epochs 2 ", "")
    done(fresh, f"{line} --weight trust --class-weight balanced")
    before = Host.load(fresh / "new").model.state()
    again = "host fit bank.csv --out new --refit --secret secret"
    done(fresh, again)
    for name, array in Host.load(fresh / "new").model.state().items():
        np.testing.assert_array_equal(array, before[name])
    done(fresh, f"{again} --class-weight yes=2 --class-weight no=1")
    assert Host.load(fresh / "new").reading.class_weight == {"yes": 2.0, "no": 1.0}
    assert Host.load(fresh / "new").validation is None  # as the first line says
    done(fresh, f"{again} --validate")
    assert Host.load(fresh / "new").validation is not None
    refused(fresh, 3, ["(--weight)", "read as before"], f"{again} --weight income")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("--weight wage", ["no column 'wage'", "'income'"]),
        ("--weight region", ["Column 'region' of bank.csv", "text", "--weight"]),
        ("--weight since", ["Column 'since'", "dates", "--weight"]),
        (
            "--weight income",
            ["Column 'income' of bank.csv has no weight in 14 of 120 rows, first in row 1", "--weight"],
        ),
        ("--weight default", ["Column 'default'", "'label'", "--weight"]),
        ("--weight customer", ["Column 'customer'", "'id'", "--weight"]),
        ("--class-weight maybe=2", ["'maybe'", "'no', 'yes'", "--class-weight"]),
        ("--class-weight yes=-2", ["--class-weight", "at least 0"]),
        ("--class-weight yes=x", ["--class-weight", "'x'"]),
        ("--class-weight some", ["--class-weight", "balanced, or yes=5"]),
        ("--calibrate maybe", ["--calibrate", "auto, yes, no"]),
        ("--task regression --label member --class-weight balanced", ["--class-weight", "no classes"]),
    ],
)
def test_weights_that_cannot_be_meant(office, more, said):
    refused(office, 3, said, f"{NEW} {SHOP} {more}")
    assert not (office / "new").exists()


def test_weights_below_zero_and_of_no_row(fresh):
    bank = pd.read_csv(fresh / "bank.csv").assign(debt=-1.0, none=0)
    bank.to_csv(fresh / "bank.csv", index=False)
    refused(fresh, 3, ["Column 'debt'", "120 of 120 are below 0", "row 1", "--weight"], f"{NEW} {SHOP} --weight debt")
    refused(fresh, 3, ["Column 'none'", "0 in every row", "--weight"], f"{NEW} {SHOP} --weight none")


def test_a_late_guest_joins_with_refit(fresh):
    said = told(fresh, f"host fit bank.csv --out bank --refit --secret secret {UTILITY}")
    sizes = {name: size(fresh, f"{name}/{MESSAGE}") for name in ("shop", "utility")}
    assert {name: each["bytes"] for name, each in said["guests"].items()} == sizes
    assert said["guests"]["utility"]["overlap"] == 1.0
    assert (said["bytes"], said["messages"], said["late"]) == (sum(sizes.values()), 2, [])
    both = Host.load(fresh / "bank")
    done(fresh, f"{NEW} {SHOP} {UTILITY}")
    anew = Host.load(fresh / "new")
    for name, weights in both.model.module().state_dict().items():  # as if both had come in time
        np.testing.assert_array_equal(weights.numpy(), anew.model.module().state_dict()[name].numpy())


def test_refit_with_a_recipe_takes_that_and_not_the_one_before(fresh):
    refit = "host fit bank.csv --out bank --refit --secret secret --epochs 1"
    found = []
    for more in ("--recipe paper", "", "--recipe default"):
        done(fresh, f"{refit} {more}")
        found.append(Host.load(fresh / "bank").model.recipe_)
    assert found == [replace(PAPER, epochs=1), replace(PAPER, epochs=1), replace(TABLES, epochs=1)]


def test_refit_alone_gives_the_same_model(fresh):
    before = (fresh / "bank" / "manifest.json").read_bytes()
    done(fresh, "host fit bank.csv --out bank --refit --secret secret")
    assert (fresh / "bank" / "manifest.json").read_bytes() == before
    done(fresh, "host fit bank.csv --out bank --refit --secret secret --seed 1")
    assert (fresh / "bank" / "manifest.json").read_bytes() != before


@pytest.mark.parametrize(
    "option", ["--id income", "--label member", "--columns income", "--drop income", "--type income=category"]
)
def test_refit_reads_the_table_as_before(office, option):
    line = f"host fit bank.csv --out bank --refit --secret secret {option}"
    refused(office, 3, ("trained again (--refit)", f"leave this out ({option.split()[0]})"), line)


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_predict_writes_ids_predictions_and_probabilities(office, tmp_path, ending):
    out = tmp_path / f"out.{ending}"
    said = told(office, f"host predict bank.csv {OPEN} {SHOP} --out {out}")
    read = {"csv": pd.read_csv, "tsv": lambda path: pd.read_csv(path, sep="\t"), "parquet": pd.read_parquet}[ending]
    frame = read(out)
    assert list(frame) == ["customer", "prediction", "probability_no", "probability_yes", "has_shop"]
    customers = pd.read_csv(office / "bank.csv")["customer"]
    assert frame["customer"].tolist() == customers.tolist()
    assert frame["has_shop"].dtype == bool
    assert frame["has_shop"].tolist() == customers.isin(pd.read_csv(office / "shop.csv")["who"]).tolist()
    chances = frame[["probability_no", "probability_yes"]]
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert frame["prediction"].tolist() == np.where(chances["probability_yes"] > 0.5, "yes", "no").tolist()
    assert said == {
        "rows": N,
        "guests": {"shop": 0.75},
        "absent": [],
        "refused": {},
        "bytes": size(office, f"shop/{MESSAGE}"),
        "out": str(out),
    }


def test_predict_without_a_guest_says_so(office, tmp_path):
    shown = done(office, f"host predict bank.csv {OPEN} --out {tmp_path}/out.csv --allow-absent")
    assert shown.splitlines() == [f"predicted 120 rows: {tmp_path}/out.csv", "  shop: ABSENT, zeros in its place"]
    assert not pd.read_csv(tmp_path / "out.csv")["has_shop"].any()


@pytest.mark.parametrize("step", ["predict", "evaluate", "explain"])
def test_a_guest_that_is_missing_is_an_error(office, tmp_path, step):
    """Nothing is written: a nightly job must not ship what the host knows alone."""
    line = f"host {step} bank.csv {OPEN}" + ("" if step == "evaluate" else f" --out {tmp_path}/out.png")
    line = line.replace("out.png", "out.csv") if step == "predict" else line
    said = (
        "At least 1 guest of the training (shop)",
        "'shop' has sent no message (75.0 % in training)",
        "(--min-guests 0)",
    )
    refused(office, 6, (*said, "(--min-overlap)", "--allow-absent"), line)
    assert not list(tmp_path.iterdir())
    for enough in ("--allow-absent", "--min-guests 0"):
        assert told(office, f"{line} {enough}")["absent"] == ["shop"]


def test_a_guest_that_has_too_few_of_the_rows_is_missing(office, tmp_path):
    bank = pd.read_csv(office / "bank.csv")
    bank[:50].to_csv(tmp_path / "few.csv", index=False)  # the shop has the last 20 of them: 40 %, and 75 % in training
    bank[:40].to_csv(tmp_path / "fewer.csv", index=False)  # 25 %
    out = f"{OPEN} {SHOP} --out {tmp_path}/out.csv"
    assert told(office, f"host predict {tmp_path}/few.csv {out}")["guests"] == {"shop": 0.4}
    (tmp_path / "out.csv").unlink()
    line = f"host predict {tmp_path}/fewer.csv {out}"
    refused(office, 6, ("'shop' has 25.0 % of the rows (75.0 % in training)", "half of its share"), line)
    refused(office, 6, "with 30.0 % of the rows or more, and 0 are", f"{line} --min-overlap 0.3")
    assert not (tmp_path / "out.csv").exists()
    for enough in ("--min-overlap 0.25", "--min-guests 0", "--allow-absent"):
        assert told(office, f"{line} {enough}")["guests"] == {"shop": 0.25}
    refused(office, 3, "not both", f"{line} --allow-absent --min-guests 1")
    refused(office, 3, "trained with 1 (shop)", f"{line} --min-guests 2")
    assert command(office, f"{line} --min-overlap 2").code == 2


def test_a_refused_file_in_the_inbox_is_why_a_guest_is_missing(fresh):
    (fresh / "inbox").mkdir()
    (fresh / "inbox" / "a.fedonce").write_bytes((fresh / "shop" / MESSAGE).read_bytes()[:-3])
    line = f"host predict bank.csv {OPEN} --inbox inbox --out out.csv"
    refused(fresh, 6, ("'shop' has sent no message", "a.fedonce was refused: The message of party 'shop'"), line)


def test_the_share_at_training_is_kept(fresh):
    """Predictions of other rows, and models stored before it had a name of its own, do not lose it."""
    host = Host.load(fresh / "bank")
    assert host.overlap == host.trained_overlap == {"shop": 0.75}
    own = read_table(fresh / "bank.csv", id="customer", types=host.reading.types)
    host.predict(own.pop("default")[1].take(slice(0, 30)), [])
    assert (host.overlap, host.trained_overlap) == ({"shop": 0.0}, {"shop": 0.75})
    host.save(fresh / "again")
    assert Host.load(fresh / "again").trained_overlap == {"shop": 0.75}


@pytest.mark.parametrize("name", ["prediction", "probability_no", "has_shop"])
def test_an_id_column_that_is_called_like_one_of_ours(fresh, name):
    bank = pd.read_csv(fresh / "bank.csv").rename(columns={"customer": name})
    bank.to_csv(fresh / "named.csv", index=False)
    done(fresh, f"host fit named.csv --id {name} --label default --epochs 1 --secret secret --out named {SHOP}")
    result = command(fresh, f"host predict named.csv --model named --secret secret {SHOP} --out out.csv")
    assert result.code == 0
    assert f"The column of ids is called {name!r}" in result.err
    frame = pd.read_csv(fresh / "out.csv")
    assert list(frame) == ["id", "prediction", "probability_no", "probability_yes", "has_shop"]
    assert frame["id"].tolist() == bank[name].tolist()


def test_a_training_message_for_prediction_is_told(office, tmp_path):
    line = f"host predict bank.csv {OPEN} {SHOP} --out {tmp_path}/out.csv"
    assert "warning: party 'shop': this is its message of the training" in command(office, line).err
    (tmp_path / "out.csv").unlink()
    refused(office, 4, ("party 'shop' is refused (--strict): this is its message of the training",), f"{line} --strict")
    assert not (tmp_path / "out.csv").exists()
    done(office, f"guest represent shop.csv --model shop --secret secret --out {tmp_path}/new.fedonce")
    shop = pd.read_csv(office / "shop.csv")
    shop[:70].to_csv(tmp_path / "some.csv", index=False)
    shop.assign(spent=shop["spent"] * 1000).to_csv(tmp_path / "cents.csv", index=False)
    for name in ("some", "cents"):
        represent = (
            f"guest represent {tmp_path}/{name}.csv --model shop --secret secret --out {tmp_path}/{name}.fedonce"
        )
        done(office, represent)
    strict = f"{line.replace(SHOP, '')} --strict --min-overlap 0"
    done(office, f"{strict} --guest {tmp_path}/some.fedonce")
    refused(
        office,
        4,
        ("party 'shop' is refused (--strict): ", " % of its values lie"),
        f"{strict} --guest {tmp_path}/cents.fedonce",
    )
    for step in ("evaluate", "explain"):
        out = "" if step == "evaluate" else f"--out {tmp_path}/worth.png"
        refused(office, 4, "(--strict)", f"host {step} bank.csv {OPEN} --guest {tmp_path}/cents.fedonce --strict {out}")


def test_a_model_stored_before_there_were_figures_predicts(fresh):
    """Older folders have no figures of the training messages; there is then nothing to compare with."""
    stored = storage.load(fresh / "bank", "host")
    del stored.settings["seen"]
    storage.save(fresh / "bank", stored)
    result = command(fresh, f"host predict bank.csv {OPEN} {SHOP} --out out.csv --strict --quiet")
    assert (result.code, result.err) == (0, "")
    refused(fresh, 6, "(75.0 % in training)", f"host predict bank.csv {OPEN} --out out.csv")


def test_predict_takes_messages_from_an_inbox(office, tmp_path):
    said = told(office, f"host predict bank.csv {OPEN} --inbox shop --out {tmp_path}/out.csv")
    assert said["guests"] == {"shop": 0.75}


def test_prediction_of_some_rows_is_that_of_all(office, tmp_path):
    table = pd.read_csv(office / "bank.csv").drop(columns="default").sample(7, random_state=0)
    table.to_csv(tmp_path / "some.csv", index=False)
    done(office, f"host predict {tmp_path}/some.csv {OPEN} {SHOP} --out {tmp_path}/some_out.csv")
    done(office, f"host predict bank.csv {OPEN} {SHOP} --out {tmp_path}/all.csv")
    everything = pd.read_csv(tmp_path / "all.csv").set_index("customer")
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "some_out.csv").set_index("customer"),
        everything.loc[table["customer"]],
        check_names=False,
    )


def test_evaluate_and_explain(office, tmp_path):
    said = told(office, f"host evaluate bank.csv {OPEN} {SHOP}")
    scores = {"accuracy", "log loss", "area under the curve", "calibration error", "average precision of no"}
    assert scores | {"guests", "absent", "refused", "rows"} == set(said)
    shown = done(office, f"host evaluate bank.csv {OPEN} {SHOP}")
    assert f"accuracy                 {said['accuracy']:.4f}" in shown
    said = told(office, f"host explain bank.csv {OPEN} {SHOP} --repeats 2 --out {tmp_path}/worth.png")
    assert [each["party"] for each in said["parties"]] == ["bank", "shop"]
    assert (said["unit"], said["parties"][1]["rows"]) == ("accuracy", 90)
    assert (tmp_path / "worth.png").read_bytes().startswith(b"\x89PNG\r\n")
    shown = done(office, f"host explain bank.csv {OPEN} {SHOP} --repeats 2 --out {tmp_path}/worth.svg")
    assert shown.startswith("what each party is worth, in accuracy, on 120 rows:\n  bank: ")
    assert "when it does not answer" in shown
    refused(office, 3, "PNG or SVG", f"host explain nowhere.csv {OPEN} {SHOP} --out {tmp_path}/worth.gif")


def test_numbers(fresh):
    fit = "host fit balance.csv --id customer --label balance --drop default --epochs 2 --secret secret --out numbers"
    assert told(fresh, f"{fit} {SHOP}")["task"] == "regression"
    model = f"--model numbers --secret secret {SHOP}"
    done(fresh, f"host predict balance.csv {model} --out out.csv")
    assert list(pd.read_csv(fresh / "out.csv")) == ["customer", "prediction", "has_shop"]
    assert {"rmse", "mae", "r2"} <= set(told(fresh, f"host evaluate balance.csv {model}"))
    said = told(fresh, f"host explain balance.csv {model} --out worth.svg --repeats 1")
    assert said["unit"] == "root mean squared error"


def test_classes_that_are_booleans_are_named_alike(fresh):
    done(fresh, "host fit bank.csv --id customer --label member --epochs 1 --min-guests 0 --out booleans")
    done(fresh, "host predict bank.csv --model booleans --out out.csv")
    frame = pd.read_csv(fresh / "out.csv", dtype=str)
    assert {f"probability_{each}" for each in frame["prediction"]} <= set(frame)
    assert list(frame)[2:] == ["probability_False", "probability_True"]


def test_messages_belong_to_a_run(fresh):
    other = f"--guest autumn/{MESSAGE}"
    refused(fresh, 4, ("party 'shop' in autumn/", "run 'autumn', this is run 'local'"), f"{NEW} {other}")
    assert told(fresh, f"{NEW} {other} --run autumn")["run"] == "autumn"
    refused(fresh, 4, "run 'local', this is run 'autumn'", f"host predict bank.csv --model new {SHOP} --out x.csv")


def test_a_second_different_message_is_refused_unless_it_replaces(fresh):
    other = f"--guest other-shop/{MESSAGE}"
    refused(fresh, 4, ("another, different one is in shop/", "--replace"), f"{NEW} {SHOP} {other}")
    assert told(fresh, f"{NEW} {SHOP} {other} --replace")["bytes"] == size(fresh, f"other-shop/{MESSAGE}")
    assert told(fresh, f"{NEW} --refit {other}")["messages"] == 1  # the same bytes again
    refit = f"host fit bank.csv --out bank --refit --secret secret {other}"
    refused(fresh, 4, "another, different one is in the model's folder (shop)", refit)
    assert list(Host.load(fresh / "bank").dims.values()) == [3]
    done(fresh, f"{refit} --replace")
    assert list(Host.load(fresh / "bank").dims.values()) == [2]


def test_a_model_that_is_there_is_kept(fresh):
    before = (fresh / "bank" / "manifest.json").read_bytes()
    refused(fresh, 3, ("folder bank has a model already", "--refit"), f"{FIT_BANK} {SHOP} --seed 1")
    refused(fresh, 3, "folder shop has a model already", f"{FIT_BANK} {SHOP}".replace("--out bank", "--out shop"))
    refused(fresh, 3, "no model in nowhere", f"{FIT_BANK} --refit".replace("--out bank", "--out nowhere"))
    refused(fresh, 3, "bank.csv is a file", f"{FIT_BANK} {SHOP}".replace("--out bank", "--out bank.csv"))
    assert (fresh / "bank" / "manifest.json").read_bytes() == before


def test_waiting_for_guests(fresh):
    (fresh / "inbox").mkdir()
    wait = f"{NEW} --inbox inbox --expect shop,utility --deadline 1s"
    refused(fresh, 6, ("nobody did", "Still missing: shop, utility", "--deadline"), wait)
    shutil.copy(fresh / "shop" / MESSAGE, fresh / "inbox" / "a.fedonce")
    (fresh / "inbox" / "b.fedonce").write_bytes((fresh / "utility" / MESSAGE).read_bytes()[:-3])
    refused(fresh, 6, ("shop did", "Still missing: utility", "b.fedonce was refused"), f"{wait} --min-guests 2")
    result = command(fresh, wait)
    assert result.code == 0
    assert "utility: LATE" in result.out
    assert "  refused b.fedonce: The message of party 'utility' is refused" in result.out
    said = told(fresh, "host fit bank.csv --out new --refit --secret secret --inbox utility")
    assert list(said["guests"]) == ["shop", "utility"]


def test_a_guest_that_comes_while_the_host_waits(fresh, monkeypatch):
    monkeypatch.setattr(files_engine, "PAUSE", 0.05)
    (fresh / "inbox").mkdir()
    whole = (fresh / "shop" / MESSAGE).read_bytes()

    def arrive():
        time.sleep(0.3)
        (fresh / "inbox" / "shop.fedonce").write_bytes(whole[:100])  # being copied
        time.sleep(0.3)
        (fresh / "inbox" / "shop.fedonce").write_bytes(whole)

    sender = threading.Thread(target=arrive)
    sender.start()
    said = told(fresh, f"{NEW} --inbox inbox --expect shop --deadline 60s")
    sender.join()
    assert said["guests"]["shop"]["bytes"] == len(whole)


def test_others_in_the_inbox_do_not_matter(fresh):
    (fresh / "inbox").mkdir()
    for name in ("shop", "utility", "autumn"):
        shutil.copy(fresh / name / MESSAGE, fresh / "inbox" / f"{name}.fedonce")
    shown = done(fresh, f"{NEW} --inbox inbox --expect utility --quiet")
    assert "utility: has 100.0 %" in shown
    assert "refused shop.fedonce: it is from party 'shop', who is not expected" in shown
    predict = f"bank.csv {OPEN} --inbox inbox --expect shop --quiet"
    for line in (f"predict {predict} --out out.csv", f"evaluate {predict}", f"explain {predict} --repeats 1"):
        assert "refused utility.fedonce: it is from party 'utility', who is not expected" in done(fresh, f"host {line}")
        assert set(told(fresh, f"host {line}")["refused"]) == {"autumn.fedonce", "utility.fedonce"}


def test_keys_of_guests_that_are_not_there(fresh):
    refused(fresh, 4, ("keys to verify 'shpo' and none for it", "(--verify)"), f"{NEW} {SHOP} --verify shpo=shop.pub")
    predict = f"host predict bank.csv {OPEN} --out out.csv --quiet --allow-absent"
    assert command(fresh, f"{predict} --verify shop=shop.pub").err == ""  # a guest of the model, absent today
    assert "warning: There is a key to verify 'utility'" in command(fresh, f"{predict} --verify utility=shop.pub").err
    refused(fresh, 4, "keys to verify 'utility' and none for it", f"{predict} {SHOP} --verify utility=shop.pub")


def forged(path, party="shop", signature="", **header):
    """Return a message of somebody else: another party's name, whatever else is changed."""
    texts, tensors = Representation.from_file(path)._content()
    return envelope.pack("message", texts | {"party": party} | header, tensors, signature)


def test_with_a_key_nobody_else_gets_in_by_a_name_that_looks_alike(fresh):
    """The finding: with --verify and an inbox, an unsigned message of a party that looked like the shop was taken."""
    (fresh / "inbox").mkdir()
    (fresh / "inbox" / "a.fedonce").write_bytes(forged(fresh / "shop" / MESSAGE, "\u0455hop"))
    (fresh / "inbox" / "b.fedonce").write_bytes((fresh / "utility" / MESSAGE).read_bytes())
    done(fresh, "guest fit shop.csv --id who --name shop --out signed --secret secret --sign shop.key")
    shutil.copy(fresh / "signed" / MESSAGE, fresh / "inbox" / "c.fedonce")
    said = told(fresh, f"{NEW} --inbox inbox --verify shop=shop.pub")
    assert list(said["guests"]) == ["shop"]
    assert "CYRILLIC SMALL LETTER DZE, which looks like 's'" in said["refused"]["a.fedonce"]
    assert "none for it" in said["refused"]["b.fedonce"]
    refused(
        fresh,
        4,
        ("'utility'", "none for it"),
        f"{NEW} --guest inbox/c.fedonce {UTILITY} --verify shop=shop.pub --out two",
    )
    refused(fresh, 4, "looks like 's'", f"{NEW} --guest inbox/a.fedonce --out two")


def test_with_the_secret_ids_without_it_are_refused(fresh):
    (fresh / "inbox").mkdir()
    for form in ("--unkeyed-ids", "--plain-ids"):
        done(fresh, f"guest fit shop.csv --id who --name shop --out hashed --replace {form}")
        shutil.copy(fresh / "hashed" / MESSAGE, fresh / "inbox" / f"shop{form}.fedonce")
        refused(fresh, 4, ("'shop' is refused: its ids are", "without the secret"), f"{NEW} --guest hashed/{MESSAGE}")
    shutil.copy(fresh / "utility" / MESSAGE, fresh / "inbox" / "utility.fedonce")
    said = told(fresh, f"{NEW} --inbox inbox")
    assert (list(said["guests"]), len(said["refused"])) == (["utility"], 2)


def test_a_message_under_the_hosts_name_does_not_stop_the_others(fresh):
    (fresh / "inbox").mkdir()
    done(fresh, "guest fit shop.csv --id who --name host --out same --secret secret")
    shutil.copy(fresh / "same" / MESSAGE, fresh / "inbox" / "same.fedonce")
    shutil.copy(fresh / "utility" / MESSAGE, fresh / "inbox" / "utility.fedonce")
    said = told(fresh, f"{NEW} --inbox inbox --name host")
    assert (list(said["guests"]), list(said["refused"])) == (["utility"], ["same.fedonce"])


def test_limits_of_messages(fresh):
    done(fresh, "guest fit shop.csv --id who --name shop --out wide --secret secret --dim 3")
    wide = f"--guest wide/{MESSAGE}"
    refused(fresh, 4, "3 values per row, and the limit is 2 (--max-dim)", f"{NEW} {wide} --max-dim 2")
    refused(fresh, 4, "the limit is 1 KB (max_message)", f"{NEW} {wide} --max-message 1KB")
    refused(fresh, 4, ("'shop'", "limit is 1 KB (--max-memory)", "raise the limit"), f"{NEW} {wide} --max-memory 1KB")
    refused(fresh, 3, "A size must be like", f"{NEW} {wide} --max-message much")
    done(fresh, f"{NEW} {wide} --max-dim 3 --max-message 1MB --max-memory 1MB")
    predict = f"host predict bank.csv --model new --secret secret {wide} --out out.csv"
    refused(fresh, 4, "limit is 2 (--max-dim)", f"{predict} --max-dim 2")
    refused(fresh, 4, "limit is 1 KB (--max-memory)", f"{predict} --max-memory 1KB")
    refused(fresh, 4, "limit is 1 KB", f"{predict} --max-message 1KB")
    done(fresh, predict)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ("--expect shop", 3, "Say in which folder messages arrive (--inbox)"),
        ("--deadline 2h", 3, "or wait for nobody (--deadline)"),
        ("--inbox nowhere", 3, "inbox nowhere is no folder"),
        ("--deadline soon", 3, "Got 'soon'"),
        ("", 6, "nobody did"),
        ("--guest nowhere", 4, "nowhere cannot be read"),
        ("--guest bank.csv", 4, ("not a file of fedonce's", "bank.csv")),
        (f"{SHOP} --name shop", 4, "host's own name"),
        (f"{SHOP} --verify shop", 3, "--verify must be like shop=shop.pub"),
        (f"{SHOP} --task guess", 3, "'task' parameter"),
        (f"{SHOP} --recipe stew", 3, "'recipe' parameter"),
        (f"{SHOP} --label nothing", 3, "bank.csv has no column 'nothing'"),
        (f"{SHOP} --label defualt", 3, "did you mean 'default'"),
        (f"{SHOP} --label since", 3, ("'since' of bank.csv", "dates")),
        (f"{SHOP} --task regression", 3, ("'default'", "text", "numbers")),
        (f"{SHOP} --normalise-ids trim", 4, ("'shop' is refused", "--normalise-ids")),
        (f"{SHOP} --secret other", 4, ("'shop' is refused", "another secret")),
        (f"{SHOP} --rows bank.csv", 4, "bank.csv"),
        (f"{SHOP} --plan nowhere", 3, "plan nowhere cannot be read"),
    ],
)
def test_options_that_cannot_be(office, tmp_path, options, code, said):
    line = (
        f"host fit bank.csv --id customer --label default --epochs 1 --out {tmp_path / 'new'} --secret secret {options}"
    )
    refused(office, code, said, line)
    assert not (tmp_path / "new").exists()


def test_usage_and_what_is_missing(office, tmp_path):
    assert command(office, "host fit bank.csv").code == 2
    assert command(office, "host predict bank.csv --model bank").code == 2
    fit = f"host fit bank.csv --epochs 1 --out {tmp_path / 'new'} {SHOP}"
    refused(office, 3, "Say which column is to be predicted (--label)", f"{fit} --id customer")
    refused(office, 4, "hashed with a secret; give it (--secret)", f"{fit} --id customer --label default")
    refused(office, 4, "(--id)", f"{fit} --label default --secret secret")
    refused(office, 4, "(--secret)", f"host predict bank.csv --model bank {SHOP} --out {tmp_path}/out.csv")
    refused(office, 3, "must end in one of .csv", f"host predict bank.csv {OPEN} --out {tmp_path}/out.doc")
    refused(office, 3, "could not be written", f"host predict bank.csv {OPEN} {SHOP} --out {tmp_path}/none/out.csv")
    refused(office, 3, "model of a guest", f"host predict bank.csv --model shop --out {tmp_path}/out.csv")


def rows(count, label=lambda i: "yes" if i % 2 else "no"):
    return "".join(f"c{40 + i:03},{i},{label(i)}\n" for i in range(count))


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (rows(4) + "c041,1,no\n", 3, ("'customer' of bad.csv", "'c041' in row 5")),
        (rows(4) + ",1,no\n", 3, ("'customer' of bad.csv", "no id in 1 of 5 rows")),
        ("", 3, "bad.csv (party 'bank') has no rows"),
        (rows(1), 3, "at least two classes"),
        (rows(6, lambda i: "no"), 3, "at least two classes"),
        (rows(6, lambda i: "" if i == 2 else "no"), 3, ("'default' of bad.csv", "1 of 6 rows, first in row 3")),
        (rows(6, lambda i: "" if i == 2 else str(i / 3)), 3, ("'default' of bad.csv", "1 of 6 rows")),
        (rows(4).replace("c0", "x0"), 4, ("'shop' is refused", "none of its rows", "--normalise-ids")),
    ],
)
def test_bad_tables(fresh, text, code, said):
    (fresh / "bad.csv").write_text(f"customer,income,default\n{text}")
    refused(fresh, code, said, f"{NEW} {SHOP}".replace("bank.csv", "bad.csv"))
    assert not (fresh / "new").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda table: table.drop(columns="income"), ("now.csv", "no column 'income'")),
        (lambda table: table.assign(income="much"), ("'income' of now.csv", "'much' in row 1")),
        (lambda table: table.assign(since="yesterday"), ("'since' of now.csv", "dates")),
        (lambda table: table.drop(columns="customer"), "no id column 'customer'"),
        (lambda table: table.head(0), "has no rows"),
    ],
)
def test_tables_that_changed_since_training(fresh, change, said):
    change(pd.read_csv(fresh / "bank.csv")).to_csv(fresh / "now.csv", index=False)
    refused(fresh, 3, said, f"host predict now.csv {OPEN} {SHOP} --out now_out.csv")
    assert not (fresh / "now_out.csv").exists()


def test_evaluation_needs_labels(fresh):
    table = pd.read_csv(fresh / "bank.csv")
    table.drop(columns="default").to_csv(fresh / "now.csv", index=False)
    for command_name in ("evaluate", "explain"):
        refused(fresh, 3, ("now.csv", "no column 'default'"), f"host {command_name} now.csv {OPEN} {SHOP}")
    table.loc[3, "default"] = None
    table.to_csv(fresh / "now.csv", index=False)
    refused(fresh, 3, "1 of 120 rows have no finite label, the first is row 4", f"host evaluate now.csv {OPEN} {SHOP}")


def test_a_guest_that_learnt_anew_or_was_not_there(fresh):
    predict = f"host predict bank.csv {OPEN} --out out.csv"
    refused(fresh, 4, ("'shop' is refused", "2 values per row"), f"{predict} --guest other-shop/{MESSAGE}")
    done(fresh, FIT_SHOP.replace("--out shop", "--out anew") + " --bits 16")
    refused(fresh, 4, ("'shop' is refused", "learnt again"), f"{predict} --guest anew/{MESSAGE}")
    refused(fresh, 4, ("'utility' is refused", "without this party"), f"{predict} {UTILITY}")


def test_signatures(fresh):
    verify = f"{NEW} {SHOP} --verify shop=shop.pub"
    refused(fresh, 4, ("party 'shop' in shop/", "not signed"), verify)
    done(fresh, f"{FIT_SHOP} --replace --sign shop.key")
    refused(fresh, 4, ("party 'shop' in shop/", "signature is not by the key"), f"{NEW} {SHOP} --verify shop=bank.pub")
    assert told(fresh, verify)["bytes"] == size(fresh, f"shop/{MESSAGE}")


def test_sealed_messages(fresh):
    done(fresh, f"{FIT_SHOP} --replace --seal-to bank.pub")
    refused(fresh, 4, (MESSAGE, "sealed", "--key"), f"{NEW} {SHOP}")
    refused(fresh, 4, "sealed to another key", f"{NEW} {SHOP} --key shop.key")
    said = told(fresh, f"{NEW} {SHOP} --key bank.key")
    assert said["bytes"] == said["guests"]["shop"]["bytes"] == size(fresh, f"shop/{MESSAGE}")
    for _ in range(2):  # kept opened: the key is not needed again, and bytes are those of the file as it came
        assert told(fresh, "host fit bank.csv --out new --refit --secret secret")["guests"] == said["guests"]
    predict = f"host predict bank.csv --model new --secret secret --out out.csv {SHOP}"
    assert told(fresh, f"{predict} --key bank.key")["bytes"] == size(fresh, f"shop/{MESSAGE}")


@pytest.fixture(scope="module")
def private(office, tmp_path_factory):
    """A plan, and a guest that learnt by it."""
    folder = shutil.copytree(office, tmp_path_factory.mktemp("private") / "office")
    done(folder, PLAN)
    done(folder, f"{FIT_SHOP} --replace --plan plan.json --public public.toml --learner pca")
    return folder


FIT_PRIVATE = (
    "host fit bank.csv --id customer --label default --name bank --columns income,region --secret secret --epochs 1 "
    "--plan plan.json --public public.toml --out private"
)


def test_a_training_with_a_plan_tells_epsilon(private):
    said = told(private, f"{FIT_PRIVATE} {SHOP}")
    assert 0 < said["epsilon"] <= 2
    model = f"--model private --secret secret {SHOP}"
    assert 0 <= told(private, f"host evaluate bank.csv {model}")["accuracy"] <= 1
    shown = done(private, f"{FIT_PRIVATE} {SHOP}".replace("--out private", "--out second"))
    assert f"privacy: epsilon {said['epsilon']:.4g} for all parties that answered" in shown
    refit = "host fit bank.csv --out private --refit --secret secret"
    refused(private, 5, ("private has spent its privacy budget", "new plan"), refit)


def test_what_a_plan_refuses(private):
    third = FIT_PRIVATE.replace("--out private", "--out third")
    refused(private, 4, ("'utility' is refused", "without a privacy budget"), f"{third} {UTILITY}")
    learn = f"{FIT_SHOP} --replace --plan plan.json --public public.toml"
    refused(private, 3, "'noise' parameter of Guest", f"{learn} --learner pca --noise 1")
    stranger = learn.replace("--name shop", "--name nobody")
    refused(private, 5, "nobody", stranger)
    refused(private, 3, "classes must be given", f"{third} {SHOP}".replace("--public public.toml", ""))
    assert not (private / "third").exists()


def test_without_a_plan_nothing_is_claimed(office):
    message = Representation.from_file(office / "shop" / MESSAGE)
    assert message.spent is None
    assert re.search(r"^protection +nothing$", done(office, f"inspect shop/{MESSAGE}"), re.MULTILINE)


@pytest.mark.parametrize("model", ["linear", "network"])
def test_explain_says_what_moved_each_prediction(fresh, model):
    epochs = "--epochs 2 " if model == "network" else ""
    line = NEW.replace("--epochs 2 ", epochs)
    done(fresh, f"{line} {SHOP} {UTILITY} --model {model} --no-validate")
    new = pd.read_csv(fresh / "bank.csv").drop(columns="default")  # needs no labels
    new.to_csv(fresh / "new.csv", index=False)
    how = "exact" if model == "linear" else "approximate"
    shown = done(fresh, f"host explain new.csv --model new --secret secret {SHOP} {UTILITY} --per-row why.csv --quiet")
    assert shown.splitlines() == [f"what moved each of {N} predictions ({how}): why.csv"]
    assert not (fresh / "worth.png").exists()
    why = pd.read_csv(fresh / "why.csv")
    parties = ["moved_by_bank", "moved_by_shop", "moved_by_utility"]
    own = [f"moved_by_bank.{name}" for name in ("income", "region", "member", "since")]
    assert list(why) == ["customer", "prediction", "explained", *parties, *own, "rest", "how"]
    assert set(why["how"]) == {how}
    np.testing.assert_allclose(why[parties].sum(axis=1) + why["rest"], why["explained"], atol=1e-6)
    done(fresh, f"host predict new.csv --model new --secret secret {SHOP} {UTILITY} --out out.csv --quiet")
    predicted = pd.read_csv(fresh / "out.csv")
    odds = np.log(predicted["probability_yes"] / predicted["probability_no"]).abs()
    np.testing.assert_allclose(why["explained"], odds, atol=1e-4)
    both = told(
        fresh,
        f"host explain bank.csv --model new --secret secret {SHOP} {UTILITY} --per-row why.csv --out worth.svg --repeats 1",
    )
    assert (both["plot"], both["per row"], both["how"]) == ("worth.svg", "why.csv", how)
    refused(fresh, 3, "why.txt2", f"host explain bank.csv --model new --secret secret {SHOP} --per-row why.txt2")


def test_what_is_an_object_is_not_offered(office):
    shown = command(office, "host fit --help").out
    assert "trees" in shown
    assert "scikit" not in shown
