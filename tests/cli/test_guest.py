from __future__ import annotations

import json
import re
import shutil

import pandas as pd
import pytest

from fedonce import Guest, Representation
from fedonce.messages import keys
from tests.jobs.office import FIT_SHOP, N, command, done, make_tables, refused, told

MESSAGE = "representation.fedonce"
PUBLIC = '[bounds]\nspent = [-200, 200]\nvisits = [0, 9]\n[categories]\nkind = ["food", "toys"]\n'


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    folder = tmp_path_factory.mktemp("office")
    make_tables(folder)
    for line in ("keys secret secret", "keys secret other", "keys new bank", "keys new shop", FIT_SHOP):
        done(folder, line)
    (folder / "public.toml").write_text(PUBLIC)
    pd.read_csv(folder / "shop.csv").to_parquet(folder / "shop.parquet")
    return folder


@pytest.fixture
def fresh(office, tmp_path):
    """A copy that a test may change."""
    return shutil.copytree(office, tmp_path / "office")


def size(folder, name):
    return (folder / name).stat().st_size


def test_fit_prints_what_leaves_and_what_an_attack_rebuilds(fresh):
    result = command(fresh, f"{FIT_SHOP} --replace")
    assert result.code == 0
    for line in (
        "What leaves your premises:",
        f"bytes {size(fresh, f'shop/{MESSAGE}'):,}",
        "party shop",
        f"rows {N - 10}",
        "rows share theirs with no other",
        "learner pca",
        "ids keyed hashes",
        "model folder shop (stays here)",
        "What quick attacks read in the message:",
    ):
        assert line in re.sub(" +", " ", result.out)
    assert "R²" in result.out
    assert "kind" in result.out.split("What quick attacks")[1]
    assert "can read columns" in result.err
    assert "learning from 110 rows and 3 columns" in result.err


def test_fit_in_json(fresh):
    said = told(fresh, f"{FIT_SHOP} --replace")
    assert said["bytes"] == size(fresh, f"shop/{MESSAGE}") == told_of(fresh, f"shop/{MESSAGE}")["bytes"]
    assert {each["column"] for each in said["rebuilt"]} == {"spent", "visits", "kind"}
    assert max(each["score"] for each in said["rebuilt"]) > 0.9
    assert "can read columns" in said["warning"]
    assert told(fresh, f"{FIT_SHOP} --replace --no-attack")["rebuilt"] == []


def test_little_that_leaves_cannot_be_rebuilt(fresh):
    assert told(fresh, f"{FIT_SHOP} --replace --dim 1 --bits 4")["warning"] in ("", None)


@pytest.mark.parametrize(("options", "most"), [("", 16), ("--dim 1", 1)])
def test_with_bytes_the_dim_that_is_given_is_the_most(fresh, options, most):
    line = f"{FIT_SHOP} --replace --no-attack --bytes-per-row 8 {options}"
    done(fresh, line)
    assert Guest.load(fresh / "shop").dim == most


def test_the_kind_of_file_does_not_matter(fresh):
    done(fresh, FIT_SHOP.replace("shop.csv", "shop.parquet").replace("--out shop", "--out second"))
    assert (fresh / "second" / MESSAGE).read_bytes() == (fresh / "shop" / MESSAGE).read_bytes()


def test_inspect_finds_what_attacks_read_by_the_message_s_checksum(fresh):
    said = told(fresh, f"{FIT_SHOP} --replace")
    shown = told_of(fresh, f"shop/{MESSAGE}")
    assert list(shown)[:4] == ["file", "protection", "attacks read", "made"]
    assert re.match(r"\d of 3 columns readable", shown["attacks read"])
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", shown["made"])
    assert {name: said[name] for name in ("attacks read", "made")} == {
        name: shown[name] for name in ("attacks read", "made")
    }
    shutil.copy(fresh / "shop" / MESSAGE, fresh / "posted.fedonce")
    assert told_of(fresh, "posted.fedonce")["attacks read"].startswith("not attacked yet")
    assert told_of(fresh, "posted.fedonce --report shop/report.html")["attacks read"] == shown["attacks read"]
    done(fresh, f"{FIT_SHOP} --replace --seed 1 --no-attack --dim 1")
    assert told_of(fresh, f"shop/{MESSAGE}")["attacks read"].startswith("not attacked yet")
    assert told_of(fresh, f"shop/{MESSAGE}")["made"].endswith("by its report")
    failed(fresh, 3, ("about another message", "(--report)"), "inspect posted.fedonce --report shop/report.html")
    failed(fresh, 3, "shop.csv is no report", "inspect posted.fedonce --report shop.csv")
    done(fresh, "leakage posted.fedonce --table shop.csv --id who --secret secret --attacks quick --html page.html")
    later = told_of(fresh, "posted.fedonce --report page.html")
    assert re.match(r"\d of 3 columns readable.*; by quick attacks, on 20", later["attacks read"])
    assert later["made"].startswith("not known")


def test_represent_gives_the_rows_of_the_fit(fresh):
    said = told(fresh, "guest represent shop.parquet --model shop --secret secret --out again.fedonce")
    assert (fresh / "again.fedonce").read_bytes() == (fresh / "shop" / MESSAGE).read_bytes()
    assert said["bytes"] == size(fresh, "again.fedonce")
    assert "What leaves your premises" in done(
        fresh, "guest represent shop.csv --model shop --secret secret --out b.fedonce"
    )
    few = pd.read_csv(fresh / "shop.csv").head(5)
    few.to_csv(fresh / "few.csv", index=False)
    assert told(fresh, "guest represent few.csv --model shop --secret secret --out few.fedonce")["rows"] == 5


def test_a_model_that_is_there_is_kept(fresh):
    before = (fresh / "shop" / MESSAGE).read_bytes()
    refused(fresh, 3, ("shop has a model and its message already", "--replace"), f"{FIT_SHOP} --seed 1")
    assert (fresh / "shop" / MESSAGE).read_bytes() == before
    (fresh / "shop" / MESSAGE).unlink()  # as after an interruption
    done(fresh, FIT_SHOP)
    assert (fresh / "shop" / MESSAGE).read_bytes() == before
    (fresh / "file").write_text("mine")
    refused(fresh, 3, "file is a file; name a folder", FIT_SHOP.replace("--out shop", "--out file"))


def test_signed_and_sealed(fresh):
    said = told(fresh, f"{FIT_SHOP} --replace --sign shop.key --seal-to bank.pub")
    file = f"shop/{MESSAGE}"
    assert said["bytes"] == size(fresh, file)
    assert said["signature"] == f"verified: by {keys.read_public(fresh / 'shop.pub').fingerprint}"
    assert said["sealed"] == f"to {keys.read_public(fresh / 'bank.pub').fingerprint}"
    assert told_of(fresh, file)["sealed"] == "yes: only the receiver can read it (--key)"
    opened = told_of(fresh, f"{file} --key bank.key --verify shop.pub")
    assert (opened["bytes"], opened["sealed"]) == (size(fresh, file), "yes, opened here")
    assert opened["signature"].startswith("verified")
    failed(fresh, 4, ("sealed to another key", MESSAGE), f"inspect {file} --key shop.key")
    failed(fresh, 4, "is not by the key", f"inspect {file} --key bank.key --verify bank.pub")
    failed(fresh, 3, "bank.pub is a public key", f"inspect {file} --key bank.pub")


def told_of(folder, line):
    return json.loads(done(folder, f"inspect {line} --json"))


def failed(folder, code, said, line):
    result = command(folder, line)
    assert result.code == code, result
    assert len(result.err.splitlines()) == 1
    for text in [said] if isinstance(said, str) else said:
        assert text in result.err


def test_inspect_prints_lines(office):
    shown = done(office, f"inspect shop/{MESSAGE}")
    names = [line[:15].strip() for line in shown.splitlines()]
    assert {
        "run",
        "party",
        "rows",
        "values per row",
        "bits per value",
        "bytes",
        "learner",
        "protection",
        "attacks read",
        "made",
        "checksum",
        "signature",
        "ids",
    } <= set(names)
    failed(office, 4, ("none cannot be read", "No such file"), "inspect none")
    failed(office, 4, ("not a fedonce message", "shop.csv"), "inspect shop.csv")
    assert command(office, "inspect").code == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--unkeyed-ids", "hashes without a key: WHOEVER"),
        ("--plain-ids", "PLAIN IDS"),
        ("--secret secret", "keyed hashes"),
    ],
)
def test_how_rows_are_named(fresh, options, said):
    result = command(fresh, f"guest fit shop.csv --id who --name shop --out new {options} --normalise-ids trim,lower")
    assert said in result.out
    assert "normalised: trim, lower" in result.out


@pytest.mark.parametrize("line", ["guest fit", "host fit"])
def test_help_is_in_groups(office, monkeypatch, line):
    monkeypatch.setenv("COLUMNS", "150")
    shown = done(office, f"{line} --help")
    for group in ("Messages", "Ids and rows", "Table", "Training", "Privacy", "Output"):
        assert f"\n{group}\n" in shown
    assert "what is public:" in shown


def test_how_rows_are_named_must_be_said(fresh):
    said = (
        "Share a secret (--secret), or agree on rows by an alignment (--rows). Hashes without a key must be asked for ("
    )
    fit = "guest fit shop.csv --id who --name shop --out new --quiet"
    for options in ("", " --normalise-ids trim"):
        failed(
            fresh,
            3,
            ("The message of party 'shop' would name rows by their ids", said + "--unkeyed-ids"),
            fit + options,
        )
    assert not (fresh / "new").exists()
    failed(fresh, 3, ("--secret", "--plain-ids", "--unkeyed-ids"), f"{fit} --secret secret --unkeyed-ids")


def test_new_rows_are_named_as_in_the_training(fresh):
    done(fresh, "guest fit shop.csv --id who --name shop --out new --unkeyed-ids --normalise-ids trim")
    shown = done(fresh, "guest represent shop.csv --model new --out new.fedonce")
    assert "hashes without a key" in shown
    assert "normalised: trim" in shown
    other = "guest represent shop.csv --model new --out new.fedonce --normalise-ids lower"
    assert "normalised: lower" in done(fresh, other)
    failed(
        fresh,
        3,
        "give the same secret again (--secret)",
        "guest represent shop.csv --model shop --out new.fedonce --quiet",
    )


def test_a_secret_that_others_can_read_is_warned_of(fresh):
    (fresh / "secret").chmod(0o644)
    (fresh / "shop.key").chmod(0o644)
    result = command(fresh, f"{FIT_SHOP} --replace --quiet --sign shop.key")
    assert result.err.count("can be read by others on this machine; run `chmod 600") == 2
    assert "stacklevel" not in result.err
    shown = command(fresh, f"inspect shop/{MESSAGE} --key shop.key")
    assert shown.err.startswith("warning: The private key shop.key can be read by others")


def test_rows_of_an_alignment(fresh):
    for line in (
        "align request bank.csv --id customer --name bank --run spring --out ask",
        "align respond shop.csv --id who --name shop --request ask --out answer",
        "align finish bank.csv --id customer --state ask.state --response answer --out found --seal-to shop=shop.pub",
    ):
        done(fresh, line)
    assert told_of(fresh, "found/shop.rows")["rows"] == N - 30
    assert "kind             alignment state" in done(fresh, "inspect ask.state")
    fit = "guest fit shop.csv --id who --name shop --run spring --out aligned"
    said = told(fresh, f"{fit} --rows found/shop.rows")
    assert (said["ids"], said["id bytes"], said["rows"]) == ("none: rows are in an agreed order", 0, N - 30)
    again = told(fresh, f"{fit} --rows found/shop.rows.sealed --key shop.key --replace")
    assert again["checksum"] == said["checksum"]
    refused(fresh, 4, ("sealed", "--key", "shop.rows.sealed"), f"{fit} --rows found/shop.rows.sealed --replace")
    wrong = f"{fit} --rows found/shop.rows.sealed --key bank.key --replace"
    refused(fresh, 4, ("sealed to another key", "shop.rows.sealed"), wrong)
    refused(fresh, 3, ("for party 'shop', run 'spring'", "run 'local'"), f"{FIT_SHOP} --replace --rows found/shop.rows")
    refused(fresh, 4, ("shop.csv", "cut short"), f"{fit} --rows shop.csv --replace")
    fit_host = "host fit bank.csv --id customer --label default --name bank --run spring --epochs 1 --out model"
    message = f"--guest aligned/{MESSAGE}"
    refused(fresh, 4, ("'shop' is refused", "--rows"), f"{fit_host} {message}")
    guests = told(fresh, f"{fit_host} {message} --rows found/shop.rows")["guests"]
    assert guests == {"shop": {"overlap": (N - 30) / N, "bytes": size(fresh, f"aligned/{MESSAGE}")}}


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ("--bits 5", 3, "'bits' parameter of Guest"),
        ("--learner magic", 3, "'learner' parameter"),
        ("--noise -1", 3, "'noise' parameter"),
        ("--local-epsilon 0", 3, "'local_epsilon' parameter"),
        ("--protect cells", 3, "'protect' parameter"),
        ("--local-epsilon 4 --noise 1", 3, "'noise' parameter of Guest must be 0 with local_epsilon"),
        ("--columns spent,vists", 3, ("shop.csv", "no column 'vists'", "did you mean 'visits'")),
        ("--drop nothing", 3, ("shop.csv has no column 'nothing'", "'spent', 'visits', 'kind'")),
        ("--drop vists", 3, "did you mean 'visits'"),
        ("--drop spent,visits,kind", 3, "no column to learn from"),
        ("--type spent", 3, "--type must be like age=number"),
        ("--type kind=text", 3, ("'kind' of shop.csv", "--type", "number, category, boolean, date")),
        ("--type nosuch=number", 3, ("no column 'nosuch'", "--type")),
        ("--type kind=number", 3, ("'kind' of shop.csv", "must hold numbers")),
        ("--id nobody", 3, ("shop.csv", "no id column 'nobody'")),
        (
            "--plain-ids",
            3,
            "Give a secret (--secret), plain ids (--plain-ids) or hashes without a key (--unkeyed-ids), one",
        ),
        ("--normalise-ids upper", 3, "trim, lower, nfkc"),
        ("--secret bank.key", 3, "bank.key is a key of one party, not a secret"),
        ("--sign none.key", 3, "none.key cannot be read"),
        ("--seal-to bank.key", 3, "bank.key is a private key"),
        ("--rows none.rows", 4, "none.rows cannot be read"),
        ("--epsilon 1", 3, "Column 'spent' of party 'shop' has no bounds"),
        ("--epsilon 1 --learner nat --public public.toml", 5, "'nat' cannot keep a privacy budget"),
        ("--epsilon 1 --noise 1 --public public.toml", 3, "'noise' parameter of Guest must be 0 with a privacy budget"),
        ("--epsilon 1 --plan plan.json", 3, "Give a plan (--plan) or a budget (--epsilon), not both"),
        ("--delta 0.1", 3, "Give delta (--delta) with a budget (--epsilon)"),
        ("--plan none.json", 3, "plan none.json cannot be read"),
        ("--public none.toml --epsilon 1", 3, "none.toml cannot be read"),
        ("--public public.toml", 3, "that public knowledge (--public) could serve"),
    ],
)
def test_options_that_cannot_be(office, tmp_path, options, code, said):
    line = FIT_SHOP.replace("--out shop", f"--out {tmp_path / 'new'}")
    refused(office, code, said, f"{line} {options}")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("line", ["guest fit shop.csv --out x", "guest fit", f"{FIT_SHOP} --dim 0", "guest learn"])
def test_usage(office, line):
    assert command(office, line).code == 2


def test_options_about_ids_need_ids(fresh):
    refused(fresh, 3, "Name the column of ids (--id)", "guest fit shop.csv --name shop --out new --plain-ids")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("a,1\na,2\n", ("'who' of bad.csv", "'a' in row 2")),
        ("a,1\n,2\n", ("'who' of bad.csv", "no id in 1 of 2 rows")),
        ("", "bad.csv (party 'shop') has no rows"),
    ],
)
def test_bad_tables(fresh, rows, said):
    (fresh / "bad.csv").write_text(f"who,spent\n{rows}")
    refused(fresh, 3, said, "guest fit bad.csv --id who --name shop --out new --secret secret")
    assert not (fresh / "new").exists()


def test_one_row_is_a_table(fresh):
    (fresh / "one.csv").write_text("who,spent\na,1\n")
    assert told(fresh, "guest fit one.csv --id who --name shop --out new --secret secret")["rows"] == 1


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("who,spent,visits\na,1,2\n", ("now.csv", "no column 'kind'")),
        ("who,spent,visits,kind\na,much,2,food\n", ("'spent' of now.csv", "'much' in row 1", "as at training")),
        ("person,spent,visits,kind\na,1,2,food\n", "no id column 'who'"),
        ("who,spent,visits,kind\na,1,2,food\na,1,2,food\n", "keep one row an id"),
        ("who,spent,visits,kind\n", "has no rows"),
    ],
)
def test_tables_that_changed_since_training(fresh, table, said):
    (fresh / "now.csv").write_text(table)
    refused(fresh, 3, said, "guest represent now.csv --model shop --secret secret --out now.fedonce")
    assert not (fresh / "now.fedonce").exists()


def test_represent_needs_a_guests_model(fresh):
    represent = "guest represent shop.csv --secret secret --out new.fedonce --model"
    refused(fresh, 3, "no model in nowhere", f"{represent} nowhere")
    guest = Guest("shop")
    guest.learn(pd.read_csv(fresh / "shop.csv")[["spent", "visits"]])
    guest.save(fresh / "python")
    refused(fresh, 3, "does not say how tables are read", f"{represent} python")
    refused(fresh, 3, "nowhere/x.fedonce cannot be written", f"{represent} shop --out nowhere/x.fedonce")


def test_a_budget_of_its_own(fresh):
    said = told(fresh, f"{FIT_SHOP} --replace --epsilon 3 --public public.toml --learner pca")
    assert "not this message, was learnt with epsilon 3, delta" in said["protection"]
    assert Representation.from_file(fresh / "shop" / MESSAGE).spent is not None
    said = told(fresh, "guest represent shop.csv --model shop --secret secret --out again.fedonce")
    assert "noise" in said["privacy spent"]


def test_settings_of_the_learner(fresh):
    line = f"{FIT_SHOP} --replace --no-attack".replace("--learner pca", "")
    shared = told(fresh, f"{line} --learner cells --learner-option least=25 --learner-option cells=4")
    assert int(shared["different rows of values"].split(";")[0]) <= 4
    assert Guest.load(fresh / "shop").learner.least == 25
    read = told(fresh, f"{line} --learner auto --learner-option readable=true")
    assert "quantiles sends the columns themselves, in bins, BY DESIGN" in read["protection"]
    failed(fresh, 3, ("no setting 'leest'",), f"{line} --learner cells --learner-option leest=2")
    failed(fresh, 3, ("--learner-option must be like least=50",), f"{line} --learner cells --learner-option least")


def test_bytes_per_row_and_noise_do_not_go_together(fresh):
    failed(
        fresh,
        3,
        ("must be left out with noise", "--bytes-per-row"),
        f"{FIT_SHOP} --replace --quiet --bytes-per-row 1 --noise 1",
    )
