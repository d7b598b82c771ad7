"""Which rows a host and a guest share, in an order that says nothing: a file that the host writes for both."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedonce.errors import InputError, parameter_error
from fedonce.messages.envelope import Refusal, is_name, pack, unpack
from fedonce.rows import ids as row_ids
from fedonce.rows.file_checks import check_text, is_bytes, is_hex, read_forms
from fedonce.rows.ids import Ids, Keys

ROWS = "rows file"
ROWS_KEYS = ("party", "guest", "run", "forms", "salt")


def agreed_rows(
    ids: Ids,
    host: str,
    guest: str,
    run: str,
    forms: Sequence[str] = (),
    secret: bytes | None = None,
    salt: bytes | None = None,
) -> bytes:
    """Return the file that tells host and guest which rows they share, in an order that says nothing.

    Each row is eight bytes of a keyed hash. The key is the parties' secret or, without one, a salt inside the file: then
    whoever has the file can try ids, so that it is for this guest's eyes only.

    Parameters
    ----------
    ids : array of str
        The ids that both have, as they are in the host's table.
    host, guest, run : str
        Names.
    forms : sequence of str
        How ids are made alike first.
    secret : bytes, optional
        What the parties share.
    salt : bytes, optional
        32 bytes that nobody can guess (`Matched.salt`); default: new ones.
    """
    for parameter, name in (("host", host), ("guest", guest), ("run", run)):  # parties of an old model may have any
        check_text("alignment.agreed_rows", parameter, name)
    forms = row_ids.parse_forms(",".join(forms))
    if not len(ids):
        raise InputError(f"Parties {host!r} and {guest!r} share no row; there is nothing to agree on.")
    if salt is not None and len(salt) != 32:
        raise parameter_error("alignment.agreed_rows", "salt", "32 bytes", f"{len(salt)} bytes")
    salt = secrets.token_bytes(32) if salt is None else salt
    label = salt.hex() if secret is None else f"secret:{row_ids.fingerprint(secret)}"
    keys = row_ids.keyed(row_ids.normalise(ids, forms), salt if secret is None else secret, run)
    keys = keys[np.lexsort(keys.T[::-1])]
    header = {"party": host, "guest": guest, "run": run, "forms": ",".join(forms), "salt": label}
    return pack(ROWS, header, {"keys": keys})


@dataclass(frozen=True)
class AgreedRows:
    """The rows that a host and a guest share, in their agreed order; `digest` names the order.

    Parameters
    ----------
    host, guest : str
        The two parties.
    run : str
        The training.
    forms : tuple of str
        How ids were made alike before.
    keys : array of shape (n, 8)
        A key per row: the hash of its id.
    digest : str
        Names the order of the rows.
    salt : str
        What ids were hashed with, where there is no secret.
    """

    host: str
    guest: str
    run: str
    forms: tuple[str, ...]
    keys: Keys = field(repr=False)
    digest: str
    salt: str

    @classmethod
    def from_bytes(cls, data: bytes, party: str | None = None) -> AgreedRows:
        """Read the file that a host wrote, trusting nothing of it; `party` is the host's name where it is known."""
        envelope = unpack(data, ROWS, ROWS_KEYS, party)
        header, fail = envelope.header, Refusal(ROWS, envelope.header["party"])
        if not is_name(header["guest"]) or not is_name(header["run"]):
            raise fail("its guest or its run is not a name: printable text of 1 to 100 bytes")
        salt = header["salt"]
        if not is_hex(salt, 64) and not (salt.startswith("secret:") and is_hex(salt[7:], 16)):
            raise fail("its salt cannot be read")
        keys = envelope.tensors.get("keys")
        if set(envelope.tensors) != {"keys"} or not is_bytes(keys, row_ids.WIDTH):
            raise fail(f"it must hold {row_ids.WIDTH} bytes per row, at least one row, and nothing else")
        assert keys is not None
        if not _ascending(keys):
            raise fail("its rows must be in ascending order, each once")
        forms = read_forms(header["forms"], fail)
        return cls(header["party"], header["guest"], header["run"], forms, keys, envelope.checksum, salt)

    def positions(self, ids: Ids, secret: bytes | None = None) -> NDArray[np.int64]:
        """Return where each agreed row is among a party's ids, normalised by `forms` already; -1 where it is not there."""
        key = bytes.fromhex(self.salt) if is_hex(self.salt, 64) else self._secret(secret)
        return row_ids.locate(self.keys, row_ids.keyed(ids, key, self.run))

    def _secret(self, secret: bytes | None) -> bytes:
        which = f"The rows that {self.host!r} and {self.guest!r} agreed on"
        if secret is None:
            raise InputError(f"{which} are hashed with their secret; give it (secret).", parameter="secret")
        if not hmac.compare_digest(self.salt, f"secret:{row_ids.fingerprint(secret)}"):
            mine = row_ids.fingerprint(secret)
            raise InputError(
                f"{which} are hashed with secret {self.salt[7:]}, this one is {mine}; use the same at both."
            )
        return secret


def _ascending(keys: Keys) -> bool:
    numbers = np.ascontiguousarray(keys).view(">u8").ravel()
    return bool((numbers[1:] > numbers[:-1]).all())
