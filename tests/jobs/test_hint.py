from __future__ import annotations

import json
import math
from dataclasses import FrozenInstanceError, replace

import pytest

from fedonce import Hinting, Hints
from fedonce.errors import InputError
from fedonce.jobs import HintJob, RowNames, Sealing, TableSource
from fedonce.jobs import hint as hint_job
from fedonce.jobs.hint_record import HintRecord
from fedonce.messages.envelope import kind_of
from tests.jobs.office import N, done, make_tables, refused, told

LINE = "host hint bank.csv --id customer --label default --epsilon 2 --name bank --run spring --secret secret"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    make_tables(tmp_path)
    for line in ("keys secret secret", "keys new bank", "keys new shop"):
        done(tmp_path, line)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def job():
    source, rows = TableSource("bank.csv", id="customer"), RowNames("secret")
    sealing = Sealing("bank.key")
    return HintJob(source, "default", "hints.fedonce", Hinting(2.0), "bank", rows, sealing, for_run="spring")


def test_the_job_and_the_command_are_the_same(folder, job):
    lines = []
    figures = job.run(lines.append).as_json()
    printed = told(folder, f"{LINE} --sign bank.key --out other.fedonce")
    apart = {"file": 0, "cost": 0, "record begun": 0}
    assert figures | apart == printed | apart
    assert list(figures) == list(printed)
    assert (figures["cost"], printed["cost"], printed["spent on label"], printed["spent"]) == (2.0, 0.0, 2.0, 2.0)
    assert (folder / "hints.fedonce").read_bytes() == (folder / "other.fedonce").read_bytes()
    assert lines == ["reading bank.csv", f"drawing answers for {N} labels"]
    json.dumps(figures)


def test_what_is_told_of_hints(folder, job):
    figures = job.run().as_json()
    hints = Hints.from_file("hints.fedonce")
    assert (hints.label, hints.epsilon, hints.classes, hints.n_rows, hints.run) == ("default", 2.0, 2, N, "spring")
    assert (figures["label"], figures["classes"], figures["rows"]) == ("default", "2", N)
    assert figures["label epsilon"].startswith("2, pure")
    assert figures["keep probability"].startswith("with probability 0.8808")
    assert figures["base rates"].startswith("VISIBLE: about 0.")
    assert figures["ids"].startswith("keyed hashes")
    assert figures["signature"].startswith("verified: by ")
    assert inspected(folder, "hints.fedonce --verify bank.pub").items() <= figures.items()


def test_it_is_said_who_gets_the_file_as_far_as_it_is_known(folder, job):
    sealed = replace(job, sealing=Sealing(seal_to="shop.pub")).run()
    (line,) = sealed.publication.disclosed
    assert line.endswith(f"To: a guest with the key {sealed.leaving.receiver.fingerprint}.")
    assert job.run().publication.disclosed[0].endswith("To: anyone who is given the file.")
    (published,) = job.book.look().published
    assert len(published.sent) == 2


def inspected(folder, file):
    return json.loads(done(folder, f"inspect {file} --json"))


def test_sealed_hints_can_be_opened_by_their_guest_alone(folder, job):
    figures = replace(job, sealing=Sealing("bank.key", "shop.pub")).run().as_json()
    assert figures["sealed"].startswith("to ")
    assert kind_of((folder / "hints.fedonce").read_bytes()) == "sealed"
    assert inspected(folder, "hints.fedonce")["sealed"].startswith("yes: only the receiver")
    opened = inspected(folder, "hints.fedonce --key shop.key")
    assert (opened["kind"], opened["label"], opened["sealed"]) == ("hints", "default", "yes, opened here")


def test_numbers_are_told_in_bins(folder, job):
    numbers = replace(job, table=TableSource("balance.csv", id="customer"), label="balance")
    with pytest.raises(InputError, match=r"are numbers, and hints at numbers need bins") as error:
        numbers.run()
    assert error.value.parameters == ("edges", "classes", "task")
    figures = replace(numbers, hinting=Hinting(2.0, (990, 1010))).run().as_json()
    assert figures["classes"] == "3, bins between 990, 1010"
    assert HintRecord(folder / "hints.record").look().published[0].purpose.edges == (990.0, 1010.0)
    with pytest.raises(InputError, match="are no numbers, and bins are for numbers"):
        replace(job, hinting=Hinting(2.0, (1, 2))).run()


def test_public_classes_are_told_of_whether_or_not_a_row_has_them(folder, job):
    figures = replace(job, hinting=Hinting(2.0, classes=("yes", "unknown", "no"))).run().as_json()
    assert (figures["classes"], Hints.from_file("hints.fedonce").classes) == ("3", 3)
    assert HintRecord(folder / "hints.record").look().published[0].purpose.classes == ("no", "unknown", "yes")


def test_public_classes_that_are_those_of_the_labels_cost_nothing_again(folder, job):
    first = job.run().as_json()
    again = replace(job, hinting=Hinting(2.0, classes=("yes", "no"))).run().as_json()
    assert (again["cost"], again["checksum"]) == (0.0, first["checksum"])


@pytest.mark.parametrize(
    ("column", "classes", "known"),
    [("member", ("false", "true"), ("0", "1")), ("visits", tuple("0123456789"), tuple("0123456789"))],
)
def test_classes_are_given_as_text_whatever_labels_are(folder, job, column, classes, known):
    whose = {"member": TableSource("bank.csv", id="customer"), "visits": TableSource("shop.csv", id="who")}
    replace(job, table=whose[column], label=column, hinting=Hinting(2.0, classes=classes)).run()
    assert HintRecord(folder / "hints.record").look().published[0].purpose.classes == known
    with pytest.raises(
        InputError, match=r"and the classes given are not: \['no', 'yes'\]; .*\(classes\), or .*\(types\)"
    ):
        replace(job, table=whose[column], label=column, hinting=Hinting(2.0, classes=("no", "yes"))).run()


def test_labels_outside_the_public_classes_are_counted_and_not_shown(folder, job):
    with pytest.raises(InputError) as failed:
        replace(job, label="region", hinting=Hinting(2.0, classes=("north", "south"))).run()
    assert "labels are none of the classes given, ['north', 'south']; give all classes" in str(failed.value)
    assert "east" not in str(failed.value)
    assert not (folder / "hints.record").exists()
    line = LINE.replace("--label default", "--label region")
    refused(folder, 3, ["none of the classes given", "(--classes)"], f"{line} --classes north,south --out x.fedonce")
    assert told(folder, f"{line} --classes north,south,east,west --out x.fedonce")["classes"] == "4"


def test_a_stand_in_travels_as_it_is_under_its_own_name(folder, job):
    figures = replace(job, hinting=Hinting(math.inf, label="default last year")).run().as_json()
    hints = Hints.from_file("hints.fedonce")
    assert (hints.label, hints.epsilon) == ("default last year", math.inf)
    assert figures["label epsilon"] == "none: THE LABEL TRAVELS AS IT IS"
    assert (figures["cost"], figures["spent"]) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"task": "ranking"}, "'task' parameter of HintJob must be 'classification' or 'regression'"),
        ({"for_run": ""}, "'for_run' parameter of HintJob must be printable text"),
        ({"name": ""}, "'name' parameter of HintJob"),
        ({"limit": 0}, "'limit' parameter of HintRecord must be a number above 0"),
    ],
)
def test_what_cannot_be_is_refused_before_the_table_is_read(job, settings, said):
    with pytest.raises(InputError, match=said):
        replace(job, **settings)


def test_a_label_is_called_as_its_column_unless_it_travels_as_it_is(job):
    """Another name would be another publication, with answers of its own."""
    assert replace(job, hinting=Hinting(2.0, label="repaid")).hinting.label == "default"


def test_labels_with_gaps_and_a_label_that_is_the_id_are_refused(folder, job):
    with pytest.raises(InputError, match="has no label in"):
        replace(job, label="income", hinting=Hinting(2.0, (0,))).run()
    with pytest.raises(InputError, match="has the ids, and cannot be the label"):
        replace(job, label="customer").run()
    assert not (folder / "hints.record").exists()


def test_hashes_without_a_key_are_for_those_who_ask(folder, job):
    with pytest.raises(
        InputError, match=r"The hints of party '\w+' would name rows by their ids, and nothing says"
    ) as error:
        replace(job, rows=RowNames()).run()
    assert error.value.parameters == ("secret", "rows", "unkeyed_ids")
    assert not (folder / "hints.fedonce").exists()
    assert replace(job, rows=RowNames(unkeyed_ids=True)).run().leaving.message.naming == "hashed"


def test_the_record_has_its_line_where_the_file_could_not_be_written(folder, job, monkeypatch):
    """The other way round, labels would be out that nobody counted."""

    def full(*arguments):
        raise InputError("the disk is full")

    monkeypatch.setattr(hint_job, "write_file", full)
    with pytest.raises(InputError, match="the disk is full"):
        job.run()
    assert HintRecord(folder / "hints.record").look().spent() == 2.0
    assert not (folder / "hints.fedonce").exists()


def test_a_job_cannot_be_changed_nor_write_its_record_over_its_hints(job):
    with pytest.raises(FrozenInstanceError):
        job.label = "other"
    for out, what in (
        ("hints.record", "record"),
        ("hints.record.lock", "lock of the record"),
        ("./bank.csv", "table"),
        ("bank.key", "key to sign with"),
    ):
        with pytest.raises(InputError, match=rf"must be another file than the {what}\."):
            replace(job, out=out)


def test_a_record_elsewhere_and_a_limit_that_is_reached(folder):
    line = f"{LINE} --out hints.fedonce --record books"
    assert told(folder, f"{line} --limit 3")["limit"] == 3.0
    other = line.replace("--epsilon 2", "--epsilon 1.5").replace("hints.fedonce", "more.fedonce")
    refused(folder, 5, ["add up to 3.5", "(--epsilon)", "(--limit)"], other)
    assert not (folder / "more.fedonce").exists()
    assert not (folder / "hints.record").exists()
