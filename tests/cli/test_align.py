from __future__ import annotations

import json
import stat

import numpy as np
import pytest
from typer.testing import CliRunner

from fedonce.cli.align import align
from fedonce.errors import InputError, MessageError
from fedonce.messages import envelope, keys
from fedonce.rows import alignment
from fedonce.rows.alignment import AgreedRows
from fedonce.rows.ids import normalise

pytest.importorskip("private_set_intersection")
pytest.importorskip("cryptography")

BANK = ["anna", "bo", "carl", "dora"]
SHOP = ["dora", "zoe", "BO "]


def run(*arguments):
    return CliRunner().invoke(align, [str(argument) for argument in arguments])


def told(*arguments):
    result = run(*arguments, "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.output)


def refused(kind, text, *arguments):
    found = run(*arguments).exception
    assert isinstance(found, kind), found
    assert text in str(found)


def texts(values):
    return np.array(values, dtype=object)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two tables: a bank's and a shop's."""
    (tmp_path / "bank.csv").write_text("customer,age\n" + "".join(f"{name},30\n" for name in BANK))
    (tmp_path / "shop.csv").write_text("spent,who\n" + "".join(f"5,{name}\n" for name in SHOP))
    monkeypatch.chdir(tmp_path)
    return tmp_path


ASK = ("request", "bank.csv", "--id", "customer", "--name", "bank", "--run", "spring", "--out", "ask")
ANSWER = ("respond", "shop.csv", "--id", "who", "--name", "shop", "--request", "ask", "--out", "answer")
FINISH = ("finish", "bank.csv", "--id", "customer", "--state", "ask.state", "--response", "answer", "--out", "found")
ALIKE = ("--normalise-ids", "lower,trim")


def test_three_commands_give_both_the_common_rows(folder):
    asked = told(*ASK, *ALIKE)
    assert asked["bytes"] == (folder / "ask").stat().st_size
    assert stat.S_IMODE((folder / "ask.state").stat().st_mode) == 0o600
    assert told(*ANSWER, *ALIKE, "--at-most", 4)["asked"] == 4
    assert told(*FINISH)["guests"] == [{"guest": "shop", "common": 2, "share": 0.5, "guest_rows": 3}]
    rows = AgreedRows.from_bytes((folder / "found" / "shop.rows").read_bytes(), "bank")
    assert (rows.guest, rows.run, rows.forms) == ("shop", "spring", ("trim", "lower"))
    at_bank = rows.positions(texts(BANK))
    at_shop = rows.positions(normalise(texts(SHOP), rows.forms))
    assert [BANK[i] for i in at_bank] == [SHOP[i].strip().lower() for i in at_shop]


def test_plain_output_says_what_each_side_learns(folder):
    assert "give it to nobody" in run(*ASK).output
    answer = run(*ANSWER).output
    assert "'bank' asks about 4 ids for run 'spring'" in answer
    assert "you will learn which of your rows the host has" in answer
    found = run(*FINISH).output
    assert "shop: 1 common rows, 25.0 % of your 4; it has 3" in found
    assert "--seal-to" in found


def test_revealing_to_the_host_alone(folder):
    run(*ASK, "--reveal", "host")
    assert "you will not learn what matches" in run(*ANSWER).output
    assert "guest fit --secret" in run(*FINISH).output
    assert (folder / "found" / "shop.matched.csv").read_text() == "customer\ndora\n"
    assert [path.name for path in (folder / "found").iterdir()] == ["shop.matched.csv"]


def test_with_a_secret_and_sealed(folder):
    run(*ASK)
    run(*ANSWER)
    secret = keys.new_secret("secret")
    keys.new_keys("shop")
    told(*FINISH, "--secret", "secret", "--seal-to", "shop=shop.pub")
    rows = (folder / "found" / "shop.rows").read_bytes()
    sealed = (folder / "found" / "shop.rows.sealed").read_bytes()
    assert keys.unseal(sealed, keys.read_private("shop.key")) == rows
    assert AgreedRows.from_bytes(rows).positions(texts(BANK), secret).tolist() == [3]
    assert run(*FINISH, "--secret", "secret", "--seal-to", "shop=shop.pub").exit_code == 0
    refused(InputError, "names 'utility', and the responses are of shop", *FINISH, "--seal-to", "utility=shop.pub")
    refused(InputError, "NAME=KEY", *FINISH, "--seal-to", "shop.pub")


def test_finishing_again_changes_nothing_and_another_guest_can_follow(folder):
    run(*ASK)
    run(*ANSWER)
    run(*FINISH)
    before = (folder / "found" / "shop.rows").read_bytes()
    (folder / "power.csv").write_text("who\nanna\ncarl\n")
    run("respond", "power.csv", "--id", "who", "--name", "utility", "--request", "ask", "--out", "second")
    guests = told(*FINISH, "--response", "second")["guests"]
    assert [(guest["guest"], guest["common"]) for guest in guests] == [("shop", 1), ("utility", 2)]
    assert (folder / "found" / "shop.rows").read_bytes() == before


def test_files_that_are_there_are_kept(folder):
    run(*ASK)
    before = (folder / "ask.state").read_bytes()
    refused(InputError, "ask exists already", *ASK)
    assert (folder / "ask.state").read_bytes() == before
    assert run(*ASK, "--force").exit_code == 0
    run(*ANSWER)
    refused(InputError, "answer exists already", *ANSWER)
    (folder / "found").mkdir()
    (folder / "found" / "shop.rows").write_bytes(b"mine")
    refused(InputError, "with another content", *FINISH)
    assert run(*FINISH, "--force").exit_code == 0


def test_the_state_never_takes_the_place_of_the_request(folder):
    refused(InputError, "it must stay here", *ASK, "--state", "ask")


def test_a_request_that_cannot_be_written_leaves_no_state(folder):
    refused(InputError, "cannot be written", *ASK[:-1], "none/ask", "--state", "kept")
    assert not (folder / "kept").exists()


def test_a_guest_refuses_what_it_did_not_agree_to(folder):
    run(*ASK)
    refused(MessageError, "at most 3 are allowed", *ANSWER, "--at-most", 3)
    refused(MessageError, "agree on one (forms)", *ANSWER, *ALIKE)
    assert not (folder / "answer").exists()


@pytest.mark.parametrize("name", ["../shop", "a/b", ".shop", "\u0455hop"])
def test_a_guests_name_is_no_path(folder, name):
    run(*ASK)
    honest = alignment.respond((folder / "ask").read_bytes(), texts(SHOP), "shop")
    read = envelope.unpack(honest, alignment.RESPONSE, alignment.RESPONSE_KEYS)
    (folder / "answer").write_bytes(envelope.pack(alignment.RESPONSE, {**read.header, "party": name}, read.tensors))
    refused(MessageError, "response is refused: its party's name must be ASCII", *FINISH)
    assert not (folder / "found").exists()


def test_two_answers_of_one_guest_are_refused(folder):
    run(*ASK)
    run(*ANSWER)
    refused(MessageError, "Two responses are of party 'shop'", *FINISH, "--response", "answer")


def test_bad_input_is_named(folder):
    refused(MessageError, "alignment request ask cannot be read: No such file", *ANSWER)
    run(*ASK)
    refused(MessageError, "another kind: 'alignment request'", *FINISH[:-3], "ask", "--out", "found")
    run(*ANSWER)
    (folder / "bank.csv").write_text("customer\nanna\nbo\n")
    refused(InputError, "not those that it asked about (2 now, 4 then)", *FINISH)
    refused(InputError, "nothing", *(word.replace("customer", "nothing") for word in FINISH))


def test_sealing_is_for_rows_files(folder):
    run(*ASK, "--reveal", "host")
    run(*ANSWER)
    keys.new_keys("shop")
    refused(InputError, "reveals matches to the host only", *FINISH, "--seal-to", "shop=shop.pub")
