from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from fedonce.cli.keys import keys
from fedonce.errors import InputError
from fedonce.messages import keys as crypto
from fedonce.rows import ids

pytest.importorskip("cryptography")


def run(*arguments):
    return CliRunner().invoke(keys, [str(argument) for argument in arguments])


def test_new_keys_and_what_to_do_with_them(tmp_path):
    result = run("new", "bank", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert crypto.read_public(tmp_path / "bank.pub").fingerprint in result.output
    assert "give it to nobody" in next(line for line in result.output.splitlines() if "bank.key" in line)
    assert isinstance(run("new", "bank", "--out", tmp_path).exception, InputError)


def test_new_keys_as_json(tmp_path):
    told = json.loads(run("new", "bank", "--out", tmp_path, "--json").output)
    assert told["fingerprint"] == crypto.read_private(told["private"]).fingerprint
    assert told["public"] == str(tmp_path / "bank.pub")


def test_a_secret(tmp_path):
    path = tmp_path / "secret"
    result = run("secret", path)
    made = crypto.read_secret(path)
    assert made.hex() not in result.output
    assert ids.fingerprint(made) in result.output
    assert isinstance(run("secret", path).exception, InputError)
    told = json.loads(run("secret", tmp_path / "two", "--json").output)
    assert told["fingerprint"] == ids.fingerprint(crypto.read_secret(told["secret"]))


def test_a_folder_that_is_not_there(tmp_path):
    found = run("new", "bank", "--out", tmp_path / "none").exception
    assert isinstance(found, InputError)
    assert "cannot be written" in str(found)
