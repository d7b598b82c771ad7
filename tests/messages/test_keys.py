from __future__ import annotations

import re
import stat
import sys
from pathlib import Path

import pytest

from fedonce.errors import FedOnceWarning, InputError, MessageError
from fedonce.messages import keys as crypto
from fedonce.messages.envelope import SEALED

pytest.importorskip("cryptography")
pytest.importorskip("nacl")

CHECKSUM = "ab" * 32


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """The private and the public key of a bank and of a shop, and the folder they are in."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("bank", "shop"):
        crypto.new_keys(name, folder)
    return folder


def private(keys, name="bank"):
    return crypto.read_private(keys / f"{name}.key")


def public(keys, name="bank"):
    return crypto.read_public(keys / f"{name}.pub")


def test_both_files_hold_the_same_keys_and_the_private_one_is_for_its_owner(keys):
    assert private(keys).public == public(keys)
    assert private(keys).fingerprint == public(keys).fingerprint != public(keys, "shop").fingerprint
    assert re.fullmatch(r"([0-9a-f]{4}-){4}[0-9a-f]{4}", public(keys).fingerprint)
    assert stat.S_IMODE((keys / "bank.key").stat().st_mode) == 0o600
    assert private(keys).signing.hex() not in repr(private(keys))
    assert sorted(path.name for path in keys.iterdir()) == ["bank.key", "bank.pub", "shop.key", "shop.pub"]


def test_the_fingerprint_covers_both_keys(keys):
    swapped = crypto.PublicKey(public(keys).signing, public(keys, "shop").sealing)
    assert swapped.fingerprint != public(keys).fingerprint
    assert not swapped.verify(CHECKSUM, private(keys).sign(CHECKSUM))


def test_keys_are_in_standard_form(keys):
    assert (keys / "bank.key").read_text().count("-----BEGIN PRIVATE KEY-----") == 2
    assert (keys / "bank.pub").read_text().count("-----BEGIN PUBLIC KEY-----") == 2


@pytest.mark.parametrize("ending", ["key", "pub"])
def test_keys_are_never_overwritten(tmp_path, ending):
    (tmp_path / f"bank.{ending}").write_text("mine")
    with pytest.raises(InputError, match=rf"bank\.{ending} exists already"):
        crypto.new_keys("bank", tmp_path)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_a_name_that_looks_like_anothers_gets_no_keys(tmp_path):
    with pytest.raises(InputError, match=r"'\\u0455hop': .* is CYRILLIC SMALL LETTER DZE, which looks like 's'"):
        crypto.new_keys("\u0455hop", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["", "../bank", "a/b", ".hidden", "a\nb", "-x", "a:b", "the shop", "shop."])
def test_a_name_must_fit_a_file(tmp_path, name):
    with pytest.raises(InputError, match="'name' parameter"):
        crypto.new_keys(name, tmp_path)


@pytest.mark.parametrize("call", [1, 2])
def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch, call):
    calls, write = [], Path.write_bytes

    def full(path, data):
        calls.append(path)
        if len(calls) == call:
            raise OSError(28, "No space left on device")
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(InputError, match="No space left on device"):
        crypto.new_keys("bank", tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_private_key_without_its_public_one_gets_it(tmp_path):
    private, public = crypto.new_keys("bank", tmp_path)
    before = private.read_bytes(), public.read_bytes()
    public.unlink()  # as after an interruption
    with pytest.warns(FedOnceWarning, match=r"bank\.key was there without .*bank\.pub.*no new keys made"):
        assert crypto.new_keys("bank", tmp_path) == (private, public)
    assert (private.read_bytes(), public.read_bytes()) == before


def test_a_private_key_that_others_can_read_is_warned_of(tmp_path):
    path, _ = crypto.new_keys("bank", tmp_path)
    path.chmod(0o640)
    with pytest.warns(FedOnceWarning, match=r"bank\.key can be read by others.*chmod 600"):
        crypto.read_private(path)


def test_the_wrong_side_of_a_pair_is_named(keys):
    with pytest.raises(InputError, match="is a public key; a private one is needed"):
        crypto.read_private(keys / "bank.pub")
    with pytest.raises(InputError, match="is a private key; a public one is needed"):
        crypto.read_public(keys / "bank.key")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: b"", "no PEM file"),
        (lambda text: b"abc" * 30000, "too large"),
        (lambda text: text.replace(b"M", b"!"), "damaged"),
        (lambda text: text + text, "must hold two keys"),
        (lambda text: text[: len(text) // 2 + 1], "must hold two keys"),
    ],
)
def test_damaged_keys(tmp_path, keys, change, told):
    path = tmp_path / "bank.pub"
    path.write_bytes(change((keys / "bank.pub").read_bytes()))
    with pytest.raises(InputError, match=told):
        crypto.read_public(path)


@pytest.mark.parametrize("lines", [b"-----BEGIN A-----" * 3855, b"-----BEGIN " * 5900])
def test_beginnings_without_an_end_are_soon_given_up(tmp_path, monkeypatch, lines):
    """The finding: 64 kB of them took seconds, as the end of each was looked for."""
    looked, path = [], tmp_path / "bank.pub"
    path.write_bytes(lines)

    class Counted(bytes):
        def find(self, *given):
            looked.append(given)
            return super().find(*given)

    read = crypto.read_file
    monkeypatch.setattr(crypto, "read_file", lambda *given: Counted(read(*given)))
    with pytest.raises(InputError, match="no PEM file"):
        crypto.read_public(path)
    assert 0 < len(looked) <= 3 * crypto.MOST_BLOCKS


def test_text_around_keys_is_no_matter(tmp_path, keys):
    path = tmp_path / "bank.pub"
    path.write_bytes(b"-----BEGIN OTHER-----\nnotes\n" + (keys / "bank.pub").read_bytes() + b"-----BEGIN ")
    assert crypto.read_public(path) == public(keys)


def test_keys_with_a_password_are_refused(tmp_path):
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    secret = form.BestAvailableEncryption(b"word")
    path = tmp_path / "bank.key"
    path.write_bytes(Ed25519PrivateKey.generate().private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, secret))
    with pytest.raises(InputError, match="has a password"):
        crypto.read_private(path)


def test_a_missing_key_is_named(tmp_path):
    with pytest.raises(InputError, match=r"public key .*bank\.pub cannot be read: No such file"):
        crypto.read_public(tmp_path / "bank.pub")


def test_a_signature_holds_for_its_checksum_and_key_alone(keys):
    signature = private(keys).sign(CHECKSUM)
    assert public(keys).verify(CHECKSUM, signature)
    assert not public(keys).verify("cd" * 32, signature)
    assert not public(keys, "shop").verify(CHECKSUM, signature)
    assert crypto.signed_by(signature) == public(keys).fingerprint


@pytest.mark.parametrize("place", [0, 127, 128, 129, 256])
def test_a_changed_signature_is_false(keys, place):
    signature = private(keys).sign(CHECKSUM)
    for digit in "0f:":
        changed = signature[:place] + digit + signature[place + 1 :]
        assert changed == signature or not public(keys).verify(CHECKSUM, changed)


@pytest.mark.parametrize("text", ["", ":", "zz:00", "00" * 64, "é" * 257])
def test_what_is_no_signature_is_false(keys, text):
    assert not public(keys).verify(CHECKSUM, text)
    assert crypto.signed_by(text) is None


def test_anothers_signature_under_ones_name_is_false(keys):
    forged = public(keys).text + private(keys, "shop").sign(CHECKSUM)[128:]
    assert crypto.signed_by(forged) == public(keys).fingerprint
    assert not public(keys).verify(CHECKSUM, forged)


def test_only_the_key_that_a_file_was_sealed_to_opens_it(keys):
    sealed = crypto.seal(b"rows", public(keys))
    assert sealed.startswith(SEALED)
    assert b"rows" not in sealed
    assert crypto.unseal(sealed, private(keys)) == b"rows"
    with pytest.raises(MessageError, match="sealed to another key, or it is damaged"):
        crypto.unseal(sealed, private(keys, "shop"))


def test_damaged_sealed_files_are_refused(keys):
    sealed, key = crypto.seal(b"rows" * 5, public(keys)), private(keys)
    for length in range(len(SEALED), len(sealed)):
        with pytest.raises(MessageError, match="cannot be opened"):
            crypto.unseal(sealed[:length], key)
    for place in range(len(SEALED), len(sealed)):
        flipped = sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :]
        with pytest.raises(MessageError, match="cannot be opened"):
            crypto.unseal(flipped, key)
    with pytest.raises(MessageError, match="not sealed"):
        crypto.unseal(b"rows", key)


def test_nothing_is_sealed_to_a_point_that_is_none(keys):
    with pytest.raises(InputError, match="is damaged"):
        crypto.seal(b"rows", crypto.PublicKey(public(keys).signing, bytes(32)))


def test_a_secret_is_new_each_time_and_for_its_owner(tmp_path):
    made = crypto.new_secret(tmp_path / "one")
    assert crypto.read_secret(tmp_path / "one") == made
    assert len(made) == 32
    assert made != crypto.new_secret(tmp_path / "two")
    assert stat.S_IMODE((tmp_path / "one").stat().st_mode) == 0o600
    with pytest.raises(InputError, match="exists already"):
        crypto.new_secret(tmp_path / "one")


@pytest.mark.parametrize(
    ("text", "told"),
    [("", "has 0 bytes"), ("ab" * 15, "has 15 bytes"), ("word" * 20, "hex digits"), ("\xe9" * 40, "hex digits")],
)
def test_bad_secrets(tmp_path, text, told):
    path = tmp_path / "secret"
    path.write_text(text)
    with pytest.raises(InputError, match=told):
        crypto.read_secret(path)


def test_a_key_is_no_secret(keys):
    with pytest.raises(InputError, match="a key of one party"):
        crypto.read_secret(keys / "bank.key")


def test_a_secret_that_others_can_read_is_warned_of(tmp_path):
    crypto.new_secret(tmp_path / "secret")
    (tmp_path / "secret").chmod(0o604)
    with pytest.warns(FedOnceWarning, match="secret .* can be read by others"):
        crypto.read_secret(tmp_path / "secret")


def test_a_missing_package_names_the_extra(monkeypatch, keys):
    key = public(keys)
    for package in ("cryptography", "nacl"):
        monkeypatch.setitem(sys.modules, package, None)  # what is None there cannot be imported
    for act in (lambda: crypto.read_public(keys / "bank.pub"), lambda: crypto.seal(b"", key)):
        with pytest.raises(InputError, match=r"pip install 'fedonce\[crypto\]'"):
            act()
