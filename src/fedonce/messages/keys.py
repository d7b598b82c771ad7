"""Keys, signatures and sealing: who wrote a file, and who can read it. Constructions of others, none of ours.

A party has two pairs of keys in two files: NAME.key stays with it, NAME.pub is for everybody. One pair signs (Ed25519), the
other opens what was sealed to it (X25519, libsodium's sealed box). A *secret* is another thing: bytes that parties share.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from fedonce.errors import FedOnceWarning, InputError, MessageError, parameter_error
from fedonce.messages.envelope import SEALED
from fedonce.messages.names import check_name, is_party_name
from fedonce.system.disk import read_file, write_file, write_pair
from fedonce.system.extras import require

LEAST_SECRET = 16  # bytes

SECRET_BYTES = 32
_WHO = "Keys, signatures and sealing need"
FILE_LIMIT = 2**16  # bytes; key files have a few hundred
MOST_BLOCKS = 8  # of a key file; two are needed
_BEGIN, _DASHES = b"-----BEGIN ", b"-----"
_SIGNATURE = re.compile(r"([0-9a-f]{128}):([0-9a-f]{128})")


@dataclass(frozen=True)
class PublicKey:
    """What a party gives to others: they verify its signatures with it, and seal files to it."""

    signing: bytes
    sealing: bytes

    @property
    def text(self) -> str:
        """Both keys in hex, as signatures name them."""
        return (self.signing + self.sealing).hex()

    @property
    def fingerprint(self) -> str:
        """Twenty hex digits of both keys, to compare by telephone."""
        return _fingerprint(self.signing + self.sealing)

    def verify(self, checksum: str, signature: str) -> bool:
        """Tell whether this key's owner signed a file with this checksum; False too for what is no signature."""
        found = _SIGNATURE.fullmatch(signature)
        if found is None or found[1] != self.text:
            return False
        _needs_cryptography()
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.signing).verify(bytes.fromhex(found[2]), _signed_text(checksum))
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True)
class PrivateKey:
    """What never leaves a party: it signs, and opens what was sealed to the party."""

    signing: bytes = field(repr=False)
    sealing: bytes = field(repr=False)

    @cached_property
    def public(self) -> PublicKey:
        """The part that others may have."""
        signing, sealing = _key_objects(self.signing, self.sealing)
        return PublicKey(signing.public_key().public_bytes_raw(), sealing.public_key().public_bytes_raw())

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the public part."""
        return self.public.fingerprint

    def sign(self, checksum: str) -> str:
        """Return a signature of a file's checksum: the public keys and Ed25519's signature, in hex."""
        signing, _ = _key_objects(self.signing, self.sealing)
        return f"{self.public.text}:{signing.sign(_signed_text(checksum)).hex()}"


def signed_by(signature: str) -> str | None:
    """Return the fingerprint of the key that a signature names; whether that key made it is for `PublicKey.verify`."""
    found = _SIGNATURE.fullmatch(signature)
    return None if found is None else _fingerprint(bytes.fromhex(found[1]))


def seal(data: bytes, to: PublicKey) -> bytes:
    """Return a file that only the owner of a key can open (libsodium's sealed box). It does not tell who sealed it."""
    _needs_nacl()
    from nacl.exceptions import CryptoError
    from nacl.public import PublicKey as Point
    from nacl.public import SealedBox

    try:
        return SEALED + SealedBox(Point(to.sealing)).encrypt(data)
    except (CryptoError, ValueError, RuntimeError):
        raise InputError(
            f"Nothing can be sealed to the key {to.fingerprint}: it is damaged; ask its owner for it."
        ) from None


def unseal(data: bytes, key: PrivateKey) -> bytes:
    """Open a sealed file.

    Raises
    ------
    MessageError
        Where it is not sealed, is sealed to another key, or is damaged.
    """
    if not data.startswith(SEALED):
        raise MessageError("The file is not sealed; read it as it is, without a key.")
    _needs_nacl()
    from nacl.exceptions import CryptoError
    from nacl.public import PrivateKey as Scalar
    from nacl.public import SealedBox

    try:
        return bytes(SealedBox(Scalar(key.sealing)).decrypt(data[len(SEALED) :]))
    except (CryptoError, ValueError, TypeError):
        raise MessageError(
            f"The sealed file cannot be opened with the key {key.fingerprint}: it was sealed to another key, or it is damaged. "
            "Give its sender your .pub file, compare the fingerprint, and ask for the file again."
        ) from None


def new_keys(name: str, folder: str | Path = ".") -> tuple[Path, Path]:
    """Make a party's keys and write NAME.key, which stays, and NAME.pub, which others get; files that exist are kept.

    A private key whose public one is missing, as an interruption leaves it, gets that.
    """
    check_name("fedonce keys new", "name", name)
    if not is_file_name(name):
        raise parameter_error("fedonce keys new", "name", "a name that can be a file's, as in bank", name)
    private, public = Path(folder) / f"{name}.key", Path(folder) / f"{name}.pub"
    if private.exists() and not public.exists() and (text := _public_pem(private)) is not None:
        write_file(public, text)
        warnings.warn(
            f"{private} was there without {public}, as after an interruption: its public key was written, and no new keys made.",
            FedOnceWarning,
            stacklevel=2,
        )
        return private, public
    _refuse_existing(
        (private, public), "keys are never overwritten: name another folder or party, or move the file away"
    )
    texts = _new_pem()
    write_pair(private, texts[0], public, texts[1])
    return private, public


def new_secret(path: str | Path) -> bytes:
    """Write a new secret, for parties to share, and return it; a file that exists is kept."""
    _refuse_existing([Path(path)], "secrets are never overwritten: name another file, or move this one away")
    made = secrets.token_bytes(SECRET_BYTES)
    write_file(path, made.hex().encode() + b"\n", private=True)
    return made


def read_secret(path: str | Path) -> bytes:
    """Read a secret that parties share: hex digits in a file."""
    data = read_file(path, "secret", FILE_LIMIT)
    if b"-----BEGIN" in data:
        raise InputError(
            f"{path} is a key of one party, not a secret that parties share; make one with `fedonce keys secret`."
        )
    try:
        secret = bytes.fromhex(data.decode("ascii").strip())
    except ValueError:
        raise InputError(f"The secret {path} must be hex digits; make one with `fedonce keys secret`.") from None
    if len(secret) < LEAST_SECRET:
        raise InputError(
            f"The secret {path} has {len(secret)} bytes, {LEAST_SECRET} or more are needed; make one with `fedonce keys secret`."
        )
    warn_if_open(path, "secret")
    return secret


def read_private(path: str | Path) -> PrivateKey:
    """Read a party's own keys: NAME.key of `fedonce keys new`, or any two PEM blocks of Ed25519 and X25519."""
    _needs_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    blocks = _blocks(path, private=True)
    loaded = _load(path, "private", blocks, lambda block: load_pem_private_key(block, password=None))
    signing, sealing = _pair(path, "private", loaded, Ed25519PrivateKey, X25519PrivateKey)
    warn_if_open(path, "private key")
    return PrivateKey(signing.private_bytes_raw(), sealing.private_bytes_raw())


def read_public(path: str | Path) -> PublicKey:
    """Read another party's keys: NAME.pub of `fedonce keys new`, or any two PEM blocks of Ed25519 and X25519."""
    _needs_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    loaded = _load(path, "public", _blocks(path, private=False), load_pem_public_key)
    signing, sealing = _pair(path, "public", loaded, Ed25519PublicKey, X25519PublicKey)
    return PublicKey(signing.public_bytes_raw(), sealing.public_bytes_raw())


def is_file_name(name: object) -> bool:
    """Tell whether a party's name can be part of a file's name on any system; a name from outside may hold a path."""
    return isinstance(name, str) and is_party_name(str(name)) and not name.endswith(".")


def _new_pem() -> tuple[bytes, bytes]:
    """Return new keys: the private ones and the public ones, each as two PEM blocks in standard form."""
    _needs_cryptography()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    made = Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
    private = b"".join(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain) for key in made)
    return private, _pem_of(made)


def _pem_of(keys: Iterable[Any]) -> bytes:
    """Return the public parts of private keys, in standard form."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return b"".join(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo) for key in keys)


def _public_pem(path: Path) -> bytes | None:
    """Return what belongs into NAME.pub beside a private key; None where the file is none."""
    try:
        key = read_private(path)
    except InputError:
        return None
    return _pem_of(_key_objects(key.signing, key.sealing))


def _key_objects(signing: bytes, sealing: bytes) -> tuple[Any, Any]:
    _needs_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(signing), X25519PrivateKey.from_private_bytes(sealing)


def _blocks(path: str | Path, private: bool) -> list[bytes]:
    """Return the PEM blocks of a file, all of the wanted side."""
    what = "private key" if private else "public key"
    data = read_file(path, what, FILE_LIMIT)
    blocks = [(label.endswith(b"PRIVATE KEY"), block) for label, block in _pem_blocks(data)]
    if not blocks:
        raise InputError(f"The {what} {path} is no PEM file; make keys with `fedonce keys new`.")
    if private and not any(is_private for is_private, _ in blocks):
        raise InputError(f"{path} is a public key; a private one is needed here: the .key file of `fedonce keys new`.")
    if not private and any(is_private for is_private, _ in blocks):
        raise InputError(
            f"{path} is a private key; a public one is needed here: the .pub file. "
            "If it came from somebody else, tell them: it is no longer private."
        )
    return [block for _, block in blocks]


def _pem_blocks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the label and the whole of each PEM block; no more than some beginnings are looked at, as data may be all of them."""
    at = 0
    for _ in range(MOST_BLOCKS):
        begin = data.find(_BEGIN, at)
        labelled = data.find(_DASHES, begin + len(_BEGIN))
        if begin < 0 or labelled < 0:
            return
        label = data[begin + len(_BEGIN) : labelled]
        ending, at = b"-----END " + label + _DASHES, labelled
        end = data.find(ending, labelled)
        if end >= 0:
            at = end + len(ending)
            yield label, data[begin:at]


def _load(path: str | Path, side: str, blocks: Iterable[bytes], load: Callable[[bytes], Any]) -> list[Any]:
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return [load(block) for block in blocks]
    except TypeError:  # what the library says of a key with a password
        raise InputError(f"The {side} key {path} has a password; keys are read without one: remove it.") from None
    except (ValueError, UnsupportedAlgorithm):
        raise InputError(f"The {side} key {path} is damaged; take it from its source again.") from None


def _pair(path: str | Path, side: str, loaded: list[Any], signing: type, sealing: type) -> tuple[Any, Any]:
    """Return the key that signs and the one that seals; a file must have one of each and nothing else."""
    first = [key for key in loaded if isinstance(key, signing)]
    second = [key for key in loaded if isinstance(key, sealing)]
    if len(first) != 1 or len(second) != 1 or len(loaded) != 2:
        raise InputError(
            f"The {side} key {path} must hold two keys, one of Ed25519 and one of X25519; make them with `fedonce keys new`."
        )
    return first[0], second[0]


def warn_if_open(path: str | Path, what: str) -> None:
    """Warn where others on this machine can read what is private; systems other than POSIX keep that elsewhere."""
    if os.name == "posix" and stat.S_IMODE(Path(path).stat().st_mode) & 0o077:
        warnings.warn(
            f"The {what} {path} can be read by others on this machine; run `chmod 600 {path}`.",
            FedOnceWarning,
            stacklevel=3,
        )


def _refuse_existing(paths: Iterable[Path], why: str) -> None:
    for path in paths:
        if path.exists():
            raise InputError(f"{path} exists already; {why}.")


def _signed_text(checksum: str) -> bytes:
    return b"fedonce\n" + checksum.encode()


def _fingerprint(keys: bytes) -> str:
    digits = sha256(b"fedonce key\n" + keys).hexdigest()[:20]
    return "-".join(digits[i : i + 4] for i in range(0, 20, 4))


def _needs_cryptography() -> None:
    require(_WHO, "crypto", "cryptography")


def _needs_nacl() -> None:
    require(_WHO, "crypto", "nacl", "PyNaCl")
