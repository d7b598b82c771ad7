"""The run file: what it says, what it refuses, and what is made of it."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import asdict, fields
from pathlib import Path

import pytest

from fedonce import Rounds, federation
from fedonce.errors import BudgetError, InputError
from fedonce.federation.host_run import host_job
from fedonce.federation.request import Request
from fedonce.federation.runfile import RunFile
from fedonce.federation.runfile_checks import BUDGET_KEYS, GUEST_KEYS, KEYS, ROUNDS_KEYS
from fedonce.federation.runfile_hints import HINTS_KEYS
from fedonce.jobs.tables import read_labelled
from fedonce.privacy import accountants
from fedonce.privacy.budget import Plan

SHORT = """
run = "churn-2026"
table = "bank.csv"
id = "customer_id"
label = "churned"
guests = ["shop", "telco"]
secret = "parties.secret"
"""
UNNAMED = SHORT.replace('secret = "parties.secret"\n', "")
BUDGET = """
task = "classification"
[budget]
epsilon = 4.0
delta = 1e-5
public = "bank-public.toml"
accountant = "rdp"
"""
DOCUMENT = Path(__file__).parents[2] / "docs" / "federation-run-file.md"


@pytest.fixture
def read(tmp_path):
    def of(text):
        path = tmp_path / "run.toml"
        path.write_text(text, encoding="utf-8")
        return RunFile.read(path)

    return of


def test_a_short_run_file(read, tmp_path):
    run = read(SHORT)
    assert run.table == tmp_path / "bank.csv"
    assert (run.run, run.id, run.label, run.guests) == ("churn-2026", "customer_id", "churned", ("shop", "telco"))
    assert (run.deadline, run.min_guests, run.seed, run.recipe, run.align) == (3600.0, 1, 0, "default", False)
    assert run.rounds_settings() is None
    assert run.plan("bank", 100) is None
    assert (run.secret, run.unkeyed_ids, run.kit) == (tmp_path / "parties.secret", False, None)
    assert run.learn_settings("shop") == {
        "learner": "auto",
        "dim": 8,
        "bits": 8,
        "epochs": None,
        "noise": 0.0,
        "bytes_per_row": None,
        "local_epsilon": None,
        "protect": None,
        "columns": None,
    }


def test_a_long_run_file(read, tmp_path):
    run = read(
        UNNAMED
        + """
        kit = "kits/bank"
        deadline = "2h"
        min_guests = 2
        learner = "nat"
        dim = 6
        epochs = 20
        seed = 3
        task = "classification"
        columns = ["age", "income"]
        drop = ["branch"]
        types = {age = "number"}
        recipe = "paper"
        host_epochs = 4
        align = true
        reveal = "host"
        normalise_ids = "lower, trim"
        secret = "keys/secret.txt"
        rounds = 2000
        [guest.shop]
        learner = "pca"
        dim = 4
        bits = 4
        epochs = 10
        columns = ["visits", "spend"]
        """
    )
    assert (run.deadline, run.min_guests, run.forms, run.reveal) == (7200.0, 2, ("trim", "lower"), "host")
    assert (run.secret, run.kit) == (tmp_path / "keys" / "secret.txt", tmp_path / "kits" / "bank")
    assert run.rounds_settings() == Rounds(rounds=2000)
    shop, telco = run.learn_settings("shop"), run.learn_settings("telco")
    assert shop == {
        "learner": "pca",
        "dim": 4,
        "bits": 4,
        "epochs": 10,
        "noise": 0.0,
        "bytes_per_row": None,
        "local_epsilon": None,
        "protect": None,
        "columns": ("visits", "spend"),
    }
    assert telco == {
        "learner": "nat",
        "dim": 6,
        "bits": 8,
        "epochs": 20,
        "noise": 0.0,
        "bytes_per_row": None,
        "local_epsilon": None,
        "protect": None,
        "columns": None,
    }
    for settings in (shop, telco):
        asked = Request("bank", "shop", run.run, "learn", "1", **settings)
        assert Request.from_bytes(asked.to_bytes()).settings == asked.settings
    with pytest.raises(InputError, match="'guests' does not name 'shopp'; did you mean 'shop'"):
        run.learn_settings("shopp")


def test_local_epsilon_is_asked_of_guests(read):
    content = read(SHORT + "local_epsilon = 4\n[guest.shop]\nlocal_epsilon = 2")
    assert content.learn_settings("shop")["local_epsilon"] == 2.0
    assert isinstance(read(SHORT + "local_epsilon = 4").learn_settings("shop")["local_epsilon"], float)
    assert read(SHORT).learn_settings("shop")["local_epsilon"] is None


def test_noise_is_a_number_with_a_point(read):
    assert read(SHORT + "noise = 1").learn_settings("shop")["noise"] == 1.0
    settings = read(SHORT + "noise = 1\n[guest.shop]\nnoise = 0.25").learn_settings("shop")
    assert settings["noise"] == 0.25
    assert isinstance(read(SHORT + "noise = 1").learn_settings("shop")["noise"], float)


def test_the_host_reads_its_table_as_the_run_file_says(read, tmp_path):
    (tmp_path / "bank.csv").write_text("customer_id,age,branch,income,churned\na,30,1,5,no\nb,40,2,6,yes\n")
    run = read(SHORT + 'columns = ["age", "branch"]\ndrop = ["age"]\ntypes = {branch = "category"}')
    job = host_job(run, "bank", tmp_path / "model", False)
    found = read_labelled(job.table, job.label, "bank")
    assert (found.table.names, found.label.tolist()) == (("branch",), ["no", "yes"])
    assert found.reading.types["branch"] == "category"
    job = host_job(read(SHORT), "bank", tmp_path / "model", False)
    assert read_labelled(job.table, job.label, "bank").table.names == ("age", "branch", "income")


def test_rounds_as_a_table(read):
    run = read(SHORT + "[rounds]\nepochs = 2.5\nbits = 16\nrate = 0.01\nbatch = 64\nbytes = 5000000\nrounds = 7")
    assert run.rounds_settings() == Rounds(7, 2.5, 5_000_000, 64, 0.01, 16)
    assert set(ROUNDS_KEYS) == {each.name for each in fields(Rounds)} - {"start", "shift"}
    assert read(SHORT + "rounds = 0").rounds is None
    assert asdict(run.rounds_settings()) == {**run.rounds, "start": "one-shot", "shift": None}


WRONG = [
    ("lerner = 'pca'", ["a run file has no key 'lerner'; did you mean 'learner'? It has 'run', 'table'"]),
    ("dim = 'four'", ["'dim' must be a whole number from 1 to 1048576. Got 'four'."]),
    ("dim = true", ["'dim'", "Got True."]),
    ("dim = 4.0", ["'dim'", "Got 4.0."]),
    ("bits = 5", ["'bits' must be one of 4, 8, 16, 32. Got 5."]),
    ("epochs = 0", ["'epochs' must be a whole number from 1"]),
    ("noise = -1", ["'noise' must be a number from 0"]),
    ("noise = inf", ["'noise'", "Got inf."]),
    (
        "learner = 'pcaa'",
        ["'learner' names a learner that does not exist, 'pcaa'; did you mean 'pca'? There are 'auto'"],
    ),
    ("learner = 3", ["'learner' must be printable text"]),
    ("seed = -1", ["'seed' must be a whole number from 0"]),
    ("task = 'guess'", ["'task' must be one of \"classification\", \"regression\". Got 'guess'."]),
    ("recipe = 'mine'", ["'recipe' must be one of"]),
    ("columns = 'age'", ["'columns' must be a list of names of columns"]),
    ("columns = []", ["'columns'", "Got []."]),
    ("drop = ['a,b']", ["'drop'", "without commas", "Got ['a,b']."]),
    ("types = {age = 'numbr'}", ["'age' in [types] must be one of number, category, boolean, date", "Got 'numbr'."]),
    ("deadline = '2 weeks'", ["'deadline' must be a time like 90s, 30m, 2h or 1d. Got '2 weeks'."]),
    ("deadline = '0s'", ["'deadline'"]),
    ("silence = '0s'", ["'silence' must be a time like 90s"]),
    ("deadline = 60", ["'deadline' must be text. Got 60."]),
    ("min_guests = 3", ["'min_guests' must be at most the number of guests, 2. Got 3."]),
    ("reveal = 'host'", ["'reveal' must be left out, or beside align = true"]),
    ("align = true\nreveal = 'guest'", ['\'reveal\' must be one of "both", "host"']),
    ("normalise_ids = 'upper'", ["'normalise_ids' must be some of trim, lower, nfkc, with commas. Got 'upper'."]),
    ("rounds = -1", ["'rounds' must be a whole number from 1"]),
    ("rounds = 'many'", ["'rounds' must be a whole number, or a table [rounds]. Got 'many'."]),
    ("[rounds]\nround = 3", ["[rounds] has no key 'round'; did you mean 'rounds'? It has 'rounds', 'epochs'"]),
    ("[rounds]\nstart = 'random'", ["[rounds] has no key 'start'"]),
    ("[rounds]\nbits = 8", ["[rounds] must say when training ends; write for example: rounds = 2000"]),
    ("[rounds]\nrate = 0", ["'rate' in [rounds] must be a number above 0. Got 0."]),
    ("[rounds]\nrounds = 3\nseed = 1", ["'seed' stands in [rounds]; put it above the first line with [brackets]."]),
    ("[guest.shopp]\ndim = 4", ["[guest.shopp] is about a guest that 'guests' does not name; did you mean 'shop'?"]),
    ("[guest.shop]\ndin = 4", ["[guest.shop] has no key 'din'; did you mean 'dim'? It has 'learner', 'dim'"]),
    ("[guest.shop]\nbits = 7", ["'bits' in [guest.shop] must be one of 4, 8, 16, 32. Got 7."]),
    ("[guest.shop]\nlearner = 'nut'", ["'learner' in [guest.shop] names a learner that does not exist, 'nut'"]),
    ("[guest.shop]\nlabel = 'x'", ["'label' stands in [guest.shop]; put it above"]),
    ("[guest]\ndim = 4", ["'dim' stands in [guest]; name the guest, as in [guest.shop]."]),
    ("[guest]\nshop = 4", ["'shop' in [guest] must be a table of settings. Got 4."]),
    ("guest = 'shop'", ["'guest' must be a table. Got 'shop'."]),
    ("[guest.shop]\nrows = 10", ["'rows' in [guest.shop] serves a privacy budget; add [budget], or leave it out."]),
    ("local_epsilon = 0", ["'local_epsilon' must be a number from 0.01"]),
    ("rounds = 10\nlocal_epsilon = 4", ["there is a local epsilon (local_epsilon), and rounds"]),
    ("noise = 0.5\n[guest.shop]\nlocal_epsilon = 4", ["there is a local epsilon ([guest.shop]), and noise"]),
    ("bytes_per_row = 1\nlocal_epsilon = 4", ["there is a local epsilon (local_epsilon), and bytes per row"]),
    ("bits = 16\nlocal_epsilon = 4", ["there is a local epsilon (local_epsilon), and bits above 8"]),
    ('protect = "cells"', ["'protect' must be", "cells:20"]),
    ('protect = "cells:20"\nnoise = 0.5', ["there is a protection (protect), and noise"]),
    ('rounds = 10\n[guest.shop]\nprotect = "cells:20"', ["there is a protection ([guest.shop]), and rounds"]),
    ('protect = "cells:20"\nlocal_epsilon = 4', ["there is a protection (protect), and a local epsilon"]),
    ("local_epsilon = 4" + BUDGET, ["there is a local epsilon (local_epsilon), and [budget]"]),
    ("rounds = 10\nnoise = 0.5", ["there are rounds, and noise (noise)"]),
    ("rounds = 10\n[guest.shop]\nnoise = 0.5", ["there are rounds, and noise ([guest.shop])"]),
    ("rounds = 10" + BUDGET, ["there are rounds, and [budget]"]),
    ("noise = 0.5" + BUDGET, ["there is noise (noise), and [budget]"]),
    (BUDGET + "[guest.telco]\nnoise = 0.5", ["there is noise ([guest.telco]), and [budget]"]),
    (BUDGET.replace('task = "classification"', ""), ["has [budget] and no 'task'", 'task = "classification"']),
    (BUDGET + "epsilom = 3", ["[budget] has no key 'epsilom'; did you mean 'epsilon'?"]),
    (BUDGET + "dim = 3", ["'dim' stands in [budget]; put it above"]),
    (BUDGET.replace("epsilon = 4.0", ""), ["[budget] of ", "has no 'epsilon', which is needed; write for example: "]),
    (BUDGET.replace("delta = 1e-5", ""), ["has no 'delta', which is needed"]),
    (BUDGET.replace('public = "bank-public.toml"', ""), ["has no 'public', which is needed"]),
    (BUDGET.replace("4.0", "0"), ["'epsilon' in [budget] must be a number above 0 (inf: clip, without noise). Got 0."]),
    (BUDGET.replace("4.0", "nan"), ["'epsilon' in [budget]"]),
    (BUDGET.replace("1e-5", "1"), ["'delta' in [budget] must be a number above 0 and below 1. Got 1."]),
    (
        BUDGET.replace('"rdp"', '"rpd"'),
        ['\'accountant\' in [budget] must be one of "pld", "rdp", "reference". Got \'rpd\'.'],
    ),
    ("run = 'twice'\n#", ["is not TOML", "line 8"]),
    ("dim = \n#", ["is not TOML", "line 8"]),
]


@pytest.mark.parametrize(("text", "said"), WRONG, ids=[text.strip().splitlines()[-1] for text, _ in WRONG])
def test_a_wrong_run_file_is_refused(read, tmp_path, text, said):
    with pytest.raises(InputError) as error:
        read(SHORT + text)
    for each in (str(tmp_path / "run.toml"), *said):
        assert each in str(error.value)


@pytest.mark.parametrize("key", ["run", "table", "id", "label", "guests"])
def test_a_key_that_is_needed(read, key):
    text = "".join(line + "\n" for line in SHORT.splitlines() if not line.startswith(f"{key} "))
    with pytest.raises(InputError, match=rf"run.toml has no '{key}', which is needed; write for example: {key} = "):
        read(text)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('["shop", "telco"]', "[]", "'guests' must be a list of texts, one or more and each once"),
        ('["shop", "telco"]', '["shop", "shop"]', "'guests' must be a list of texts, one or more and each once"),
        ('["shop", "telco"]', '"shop"', "'guests' must be a list of texts"),
        ('guests = ["shop", "telco"]', "[guests.shop]\ndim = 3", "what one guest does differently is in [guest.shop]"),
        ('"churned"', '"customer_id"', "'label' must be another column than 'id'"),
        ('"churn-2026"', '""', "'run' must be printable text of 1 to 100 bytes"),
        ('"churn-2026"', '"a\\nb"', "'run' must be printable text of 1 to 100 bytes"),
    ],
)
def test_a_wrong_value_of_what_is_needed(read, old, new, said):
    with pytest.raises(InputError) as error:
        read(SHORT.replace(old, new))
    assert said in str(error.value)


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="The run file .*run.toml cannot be read: No such file or directory"):
        RunFile.read(tmp_path / "run.toml")
    (tmp_path / "run.toml").write_bytes(b"run = '\xff'")
    with pytest.raises(InputError, match="not UTF-8 text .byte 8.; save it as UTF-8"):
        RunFile.read(tmp_path / "run.toml")
    (tmp_path / "run.toml").write_bytes(b"\xef\xbb\xbf" + SHORT.encode())  # as some editors begin a file
    assert RunFile.read(tmp_path / "run.toml").run == "churn-2026"


def test_guests_must_be_in_the_federation(read):
    run = read(SHORT)
    run.check_guests(["telco", "shop", "utility"])
    with pytest.raises(
        InputError, match="run.toml: 'guests' names 'shop', and the federation has no such guest; did you mean 'shops'"
    ):
        run.check_guests(["telco", "shops"])


def test_a_plan_for_all_parties(read, tmp_path):
    run = read(SHORT + BUDGET + '[guest.shop]\nlearner = "autoencoder"\nrows = 3000\n[guest.telco]\nlearner = "random"')
    assert run.budget.public == tmp_path / "bank-public.toml"
    plan = run.plan("bank", 4000)
    assert list(dict.fromkeys(entry.party for entry in plan.entries)) == ["bank", "shop", "telco"]
    assert (plan.epsilon, plan.delta, plan.accountant) == (4.0, 1e-5, "rdp")
    assert Plan.from_text(plan.to_text()) == plan == run.plan("bank", 4000)
    (shop,) = plan.of("shop")
    assert shop.event.rate == pytest.approx(min(shop.event.rate, 1))
    more = read(
        SHORT + BUDGET + '[guest.shop]\nlearner = "autoencoder"\nrows = 30000\n[guest.telco]\nlearner = "random"'
    )
    assert more.plan("bank", 4000).of("shop")[0].event != shop.event
    with pytest.raises(InputError, match="'guests' names 'shop', which is the host"):
        run.plan("shop", 4000)


def test_public_rows_of_the_budget(read):
    by_file, by_table = read(SHORT + BUDGET + "rows = 4000").plan("bank", 10), read(SHORT + BUDGET).plan("bank", 4000)
    assert by_file == by_table
    with pytest.raises(InputError, match=r"'delta' in \[budget\] must be at most 1 / rows"):
        read(SHORT + BUDGET + "rows = 1000000").plan("bank", 10)


def test_a_learner_without_a_private_version(read):
    with pytest.raises(BudgetError, match="'nat'|NAT"):
        read(SHORT + 'learner = "nat"' + BUDGET).plan("bank", 4000)


def test_the_choices_are_those_of_the_accountants():
    for key, choices in (("accountant", accountants.ACCOUNTANTS), ("division", accountants.DIVISIONS)):
        assert all(BUDGET_KEYS[key].fits(each) for each in choices)
        assert BUDGET_KEYS[key].must_be.count('"') == 2 * len(choices)


NAMES_AND_FACTS = {"fedonce.learners.names", "fedonce.hostmodels.names"}


@pytest.mark.parametrize("module", ["request", "policy", "policy_file", "runfile", "runfile_checks", "tomlfile"])
def test_torch_is_imported_where_it_is_needed_and_no_earlier(module):
    source = Path(federation.__file__).with_name(f"{module}.py").read_text()
    found = [node for node in ast.parse(source).body if isinstance(node, ast.ImportFrom)]
    ours = {node.module for node in found if node.module.startswith("fedonce.")} - NAMES_AND_FACTS
    assert {name.split(".")[1] for name in ours} <= {"data", "errors", "federation", "messages", "rows", "system"}
    assert {alias.name for node in found if node.module == "fedonce" for alias in node.names} <= {"alignment"}


def test_names_and_facts_are_known_without_torch():
    code = f"import sys, {', '.join(sorted(NAMES_AND_FACTS))}; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def blocks():
    """Return the examples of the document, in their order."""
    parts = DOCUMENT.read_text(encoding="utf-8").split("```toml\n")[1:]
    return [part.split("```")[0] for part in parts]


def test_the_document_says_every_key():
    from fedonce.federation.policy import KEYS as POLICY_KEYS

    text = DOCUMENT.read_text(encoding="utf-8")
    for key in {*KEYS, *GUEST_KEYS, *ROUNDS_KEYS, *BUDGET_KEYS, *HINTS_KEYS, *POLICY_KEYS}:
        assert f"`{key}" in text or f"[{key}" in text, key


def test_the_examples_of_the_document_are_right(read, tmp_path):
    from fedonce.federation.policy import Policy

    runs = [block for block in blocks() if "run = " in block]
    policies = [block for block in blocks() if "max_dim" in block]
    assert len(runs) == 2
    assert len(policies) == 1
    for block in runs:
        assert read(block).guests == ("shop", "telco")
    (tmp_path / "policy.toml").write_text(policies[0])
    assert Policy.read(tmp_path / "policy.toml").hosts == ("bank",)


def test_how_much_rows_count_and_what_is_held_back(read):
    more = (
        'weight = "trust"\ncalibrate = false\nvalidate = false\nmodel = "trees"\nclass_weight = { yes = 5, no = 1 }\n'
    )
    how = host_job(read(SHORT + more), "bank", Path("out"), refit=False).fitting
    assert (how.weight, how.class_weight, how.calibrate, how.validate) == ("trust", {"yes": 5, "no": 1}, False, False)
    assert host_job(read(SHORT), "bank", Path("out"), refit=False).fitting.model == "auto"
    assert read(SHORT + 'class_weight = "balanced"\ncalibrate = "auto"\n').class_weight == "balanced"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('weight = "churned"', r"'weight' must be another column than 'id' and 'label'"),
        ('class_weight = "rare"', r"'class_weight' must be \"balanced\""),
        ("class_weight = { yes = -1 }", r"'class_weight' must be \"balanced\""),
        ('calibrate = "yes"', r"'calibrate' must be \"auto\", true or false"),
        ("validate = 1", "'validate' must be"),
        ('weight = "trust"\nrounds = 5', "there is 'weight', and rounds"),
        ('class_weight = "balanced"\n' + BUDGET, r"there is 'class_weight', and \[budget\]"),
        ('class_weight = "balanced"\ntask = "regression"', "'class_weight' must be left out for numbers"),
    ],
)
def test_weights_that_cannot_be_meant(read, more, said):
    with pytest.raises(InputError, match=said):
        read(SHORT + more)


def test_bytes_per_row_and_the_values_that_a_policy_is_asked_about(read):
    settings = read(SHORT + "bytes_per_row = 1").learn_settings("shop")
    assert (settings["bytes_per_row"], settings["dim"]) == (1.0, 16)
    assert read(SHORT + "bytes_per_row = 1\ndim = 32").learn_settings("shop")["dim"] == 32
    assert read(SHORT + "[guest.shop]\nbytes_per_row = 0.5").learn_settings("shop")["bytes_per_row"] == 0.5


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("bytes_per_row = 0.01", "'bytes_per_row' must be a number from 0.05"),
        ("bytes_per_row = 1\nnoise = 0.5", "bytes per row (bytes_per_row), and noise"),
        ("bytes_per_row = 1\nbits = 4", "bits other than 8"),
        ("bytes_per_row = 1\nrounds = 3", "rounds"),
        ("noise = 0.5\n[guest.shop]\nbytes_per_row = 1", "bytes per row ([guest.shop]), and noise"),
    ],
)
def test_bytes_per_row_that_every_guest_would_refuse(read, more, said):
    with pytest.raises(InputError) as caught:
        read(SHORT + more)
    assert said in str(caught.value)


def test_bytes_of_all_guests_together_are_divided_evenly(read):
    run = read(SHORT + "bytes_total = 6")
    assert [run.learn_settings(guest)["bytes_per_row"] for guest in run.guests] == [3.0, 3.0]
    assert run.learn_settings("shop")["dim"] == 16
    run = read(SHORT + "bytes_total = 6\n[guest.shop]\nbytes_per_row = 5")
    assert [run.learn_settings(guest)["bytes_per_row"] for guest in run.guests] == [5.0, 1.0]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("bytes_total = 0", "'bytes_total' must be a number from 0.05"),
        ("bytes_total = 2\nbytes_per_row = 1", "'bytes_per_row' for each guest, and 'bytes_total' for all"),
        ("bytes_total = 1\n[guest.shop]\nbytes_per_row = 2", "'bytes_total' must be enough for 0.05 bytes per guest"),
        ("bytes_total = 1\nrounds = 3", "bytes per row (bytes_total), and rounds"),
    ],
)
def test_totals_that_cannot_be_shared_out(read, more, said):
    with pytest.raises(InputError) as caught:
        read(SHORT + more)
    assert said in str(caught.value)


@pytest.mark.parametrize("more", ["", 'align = true\nreveal = "host"\n', "unkeyed_ids = false\n"])
def test_how_rows_are_named_must_be_said(read, more):
    with pytest.raises(
        InputError, match=r"nothing says how. .* \(secret\), or align .* asked for \(unkeyed_ids = true\)"
    ):
        read(UNNAMED + more)


@pytest.mark.parametrize(
    "more", ["align = true\n", "unkeyed_ids = true\n", 'secret = "s"\nalign = true\nreveal = "host"\n']
)
def test_each_way_to_name_rows_is_enough(read, more):
    run = read(UNNAMED + more)
    assert run.unkeyed_ids == ("unkeyed" in more)


def test_a_secret_leaves_no_room_for_hashes_without_one(read):
    with pytest.raises(InputError, match="'unkeyed_ids' must be left out beside 'secret'"):
        read(SHORT + "unkeyed_ids = true\n")
