from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace

import pytest

from fedonce import InputError, Representation
from fedonce.data.preparation import Public
from fedonce.jobs import GuestBudget, GuestJob, Learning, RepresentJob, RowNames, Sealing, TableSource
from fedonce.jobs.settings import public_knowledge
from tests.jobs.office import done, make_tables, told

# Cyrillic letters that look like plain ones.
LOOKS_LIKE_SHOP = "\u0455hop"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    make_tables(tmp_path)
    done(tmp_path, "keys secret secret")
    done(tmp_path, "keys new shop")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def job():
    return GuestJob(
        TableSource("shop.csv", id="who"), "shop", "model", rows=RowNames("secret"), sealing=Sealing("shop.key")
    )


PLACES = {"file": 0, "model folder": 0, "report": 0}  # which differ


def test_the_job_and_the_command_are_the_same(folder, job):
    lines = []
    figures = job.run(lines.append).as_json()
    printed = told(folder, "guest fit shop.csv --id who --name shop --out other --secret secret --sign shop.key")
    assert figures | PLACES == printed | PLACES
    assert list(figures) == list(printed)
    assert (folder / "model" / "representation.fedonce").read_bytes() == (
        folder / "other" / "representation.fedonce"
    ).read_bytes()
    assert lines == ["reading shop.csv", "learning from 110 rows and 3 columns", "attacking the message"]
    json.dumps(figures)


def test_a_report_has_the_guest_and_its_message(folder, job):
    report = job.run()
    sent = report.message.leaving.message
    assert (report.party.name, sent.party, report.out) == ("shop", "shop", folder.joinpath("model").relative_to(folder))
    assert Representation.from_file(report.message.path).checksum == sent.checksum
    assert [each.column for each in report.rebuilt] == ["spent", "visits", "kind"]
    assert replace(job, out="quick", attack=False).run().rebuilt == ()


def test_jobs_and_reports_cannot_be_changed(folder, job):
    with pytest.raises(FrozenInstanceError):
        job.name = "other"
    with pytest.raises(FrozenInstanceError):
        job.run().rebuilt = ()


def test_a_model_that_is_there_is_not_overwritten(folder, job):
    job.run()
    with pytest.raises(InputError, match=r"has a model and its message already.*learn again .replace.") as error:
        job.run()
    assert error.value.parameters == ("out", "replace")
    replace(job, replace=True).run()


def test_rows_to_predict_are_represented_as_the_command_does(folder, job):
    job.run()
    report = RepresentJob("shop.csv", "model", "new.fedonce", RowNames("secret")).run()
    line = "guest represent shop.csv --model model --secret secret --out other.fedonce"
    assert report.as_json() | {"file": 0} == told(folder, line) | {"file": 0}
    assert (folder / "new.fedonce").read_bytes() == (folder / "other.fedonce").read_bytes()


@pytest.mark.parametrize(
    ("made", "parameters"),
    [
        (lambda: RowNames("secret", plain_ids=True), ("secret", "plain_ids", "unkeyed_ids")),
        (lambda: RowNames("secret", unkeyed_ids=True), ("secret", "plain_ids", "unkeyed_ids")),
        (lambda: GuestBudget("plan.json", 1.0), ("plan", "epsilon")),
        (lambda: GuestBudget(delta=0.1), ("delta", "epsilon")),
        (lambda: GuestBudget(public="public.toml").known(Learning()), ("public",)),
        (
            lambda: RowNames("secret").check_ids(False, "It"),
            ("id", "rows", "secret", "plain_ids", "unkeyed_ids", "forms"),
        ),
        (lambda: RowNames(forms=("trim",)).check_ids(True, "It"), ("secret", "rows", "unkeyed_ids")),
    ],
)
def test_what_does_not_go_together_is_refused_by_its_parameters(made, parameters):
    with pytest.raises(InputError) as error:
        made()
    assert error.value.parameters == parameters


def test_a_name_that_looks_like_another_is_refused_before_the_table_is_read():
    """An error about the table quotes the party's name; this one escapes it."""
    source = TableSource("nowhere.csv", id="nobody")
    with pytest.raises(InputError, match=r"'\\u0455hop': .* which looks like 's'") as error:
        GuestJob(source, LOOKS_LIKE_SHOP, "model")
    assert LOOKS_LIKE_SHOP not in str(error.value)


def test_hashes_without_a_key_are_for_those_who_ask(folder, job):
    silent = replace(job, rows=RowNames(), learning=Learning(dim=2))
    with pytest.raises(InputError, match=r"The message of party 'shop' would name rows .* \(unkeyed_ids\): anyone who"):
        silent.run()
    assert not (folder / "model").exists()
    assert replace(silent, rows=RowNames(unkeyed_ids=True)).run().message.leaving.message.naming == "hashed"
    RepresentJob("shop.csv", "model", "new.fedonce").run()  # as in the training
    assert Representation.from_file("new.fedonce").naming == "hashed"


def test_a_message_that_is_to_be_read_says_so(folder, job):
    told = "The learner 'quantiles' sends columns as they are, in bins: whoever holds the message can read them."
    plain = replace(job, learning=Learning(learner="quantiles"))
    assert plain.run().warning.startswith(told)
    assert replace(plain, out="quick", attack=False).run().as_json()["warning"] == told
    assert replace(job, out="other", attack=False).run().warning is None
    blurred = replace(plain, out="blurred", learning=Learning(learner="quantiles", noise=1.0), attack=False)
    assert blurred.run().warning is None


def test_a_slip_in_public_knowledge_is_found_and_another_party_s_column_is_not_one(tmp_path):
    """Misspelt bounds or categories would serve no column; a file of public knowledge may serve several parties."""
    (tmp_path / "shop.csv").write_text("who,visits,city\n" + "".join(f"c{k},{k % 7},Bern\n" for k in range(40)))
    source = TableSource(tmp_path / "shop.csv", "who")
    known = {"visits": (0, 9), "income": (0, 1)}
    assert source.read("shop", public=Public(known, {"city": ["Bern"]}))[1].types["visits"] == "number"
    with pytest.raises(
        InputError, match=r"names column 'vists', and the table has no such column; did you mean 'visits'"
    ):
        source.read("shop", public=Public({"vists": (0, 9)}, {"city": ["Bern"]}))
    with pytest.raises(InputError, match="What column 'visits' of party 'shop' holds is not declared"):
        source.read("shop", public=Public(None, {"city": ["Bern"]}))


@pytest.mark.parametrize("pair", ['[0, "x"]', "[30, 0]", "[1]", "3"])
def test_bounds_that_are_none_are_named_with_their_file(tmp_path, pair):
    (tmp_path / "public.toml").write_text(f"[bounds]\nvisits = {pair}\n")
    with pytest.raises(InputError, match="The bounds of 'visits' in .*public.toml must be two numbers or two dates"):
        public_knowledge(tmp_path / "public.toml")
