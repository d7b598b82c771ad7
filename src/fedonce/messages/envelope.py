"""What every file between parties is wrapped in: named texts and arrays, a checksum, perhaps a signature; nothing else.

It is a safetensors file: a header of texts in front, then arrays. Reading checks the header before anything is allocated,
refuses entries that it does not know, and compares the checksum. Whoever reads trusts nothing of the content.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from fedonce.errors import MessageError
from fedonce.system.disk import open_file
from fedonce.system.sizes import MESSAGE_LIMIT, in_words

VERSION = "3"
HEADER_LIMIT = 3072  # bytes of header; with its scale this keeps a message without ids under payload + 4 KiB
TENSORS_LIMIT = 600  # bytes of it that describe the arrays
NOUNS = {"hints": "hints file"}  # what a kind is called where one file of it is meant
SEALED = b"fedonce sealed 1\n"  # what a sealed file begins with; `fedonce.messages.keys` opens it


@dataclass(frozen=True)
class Envelope:
    """A file as it was read: its texts, its arrays, its checksum, and its signature (empty: none; not yet verified)."""

    header: dict[str, str]
    tensors: dict[str, NDArray[Any]]
    checksum: str
    signature: str


class Refusal:
    """Makes the errors about one party's file; None: nobody knows yet whose it is."""

    def __init__(self, kind: str, party: str | None) -> None:
        self.kind, self.party = kind, party

    def __call__(self, what: str, *parameters: str) -> MessageError:
        """Return the error that says what is wrong, and by which parameters it can be mended."""
        noun = NOUNS.get(self.kind, self.kind)
        whose = "" if self.party is None else f" of party {self.party!r}"
        return MessageError(f"The {noun}{whose} is refused: {what}.", parameter=parameters)


def checksum(kind: str, header: Mapping[str, str], tensors: Mapping[str, NDArray[Any]]) -> str:
    """Return the sha256 of all that a file says."""
    texts = {"format": f"{kind} {VERSION}", **header}
    digest = hashlib.sha256(json.dumps(texts, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = np.ascontiguousarray(tensors[name])
        digest.update(f"{name} {tensor.dtype.str} {tensor.shape}\n".encode())
        digest.update(tensor.data if tensor.size else b"")
    return digest.hexdigest()


def pack(kind: str, header: Mapping[str, str], tensors: dict[str, NDArray[Any]], signature: str = "") -> bytes:
    """Return the bytes of a file."""
    texts = {"format": f"{kind} {VERSION}", **header, "checksum": checksum(kind, header, tensors)}
    if signature:
        texts["signature"] = signature
    if len(json.dumps(texts).encode()) > HEADER_LIMIT - TENSORS_LIMIT:
        party = header.get("party", "")
        raise MessageError(
            f"The texts of the {NOUNS.get(kind, kind)} of party {party!r} (run, learner, note) are too long; shorten them."
        )
    # safetensors writes memory as it lies
    laid = {name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}
    return _canonical(save_tensors(laid, metadata=texts))


def unpack(
    data: bytes, kind: str, keys: Collection[str], party: str | None = None, optional: Collection[str] = ()
) -> Envelope:
    """Read a file from another party, trusting nothing of it; `keys` are the header entries that it must have.

    Entries of `optional` may be missing, and are then not in the result.

    Raises
    ------
    MessageError
        With the party's name (`party`, or the one that the file claims) and what is wrong.
    """
    header = read_header(data, kind, keys, party, optional)
    fail = Refusal(kind, header["party"])
    try:
        tensors = load_tensors(data)
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError, MemoryError):
        raise fail(
            f"it is cut short or damaged: its {len(data):,} bytes are not what its header announces; ask for the file again"
        ) from None
    if data[: 8 + _length(data)] != _canonical(data[: 8 + _length(data)]):
        raise fail("its header is not written as fedonce writes it")
    told, signature = header.pop("checksum"), header.pop("signature", "")
    if told != checksum(kind, header, tensors):
        raise fail("the checksum does not match its content; ask for the file again")
    return Envelope(header, tensors, told, signature)


def read_header(
    data: bytes, kind: str, keys: Collection[str], party: str | None = None, optional: Collection[str] = ()
) -> dict[str, str]:
    """Read the header's texts, without the format, before anything is allocated: safetensors puts them in front."""
    fail = Refusal(kind, party)
    if data.startswith(SEALED):
        raise fail("it is sealed; open it with the private key that it was sealed to", "key")
    length = _length(data)
    if len(data) < 8 or not 2 <= length <= min(len(data) - 8, HEADER_LIMIT):
        raise fail(f"it is not a fedonce {NOUNS.get(kind, kind)}, or it is cut short")
    try:
        header = json.loads(data[8 : 8 + length].decode()).get("__metadata__")
    except (ValueError, AttributeError, RecursionError):
        raise fail("its header is damaged, or it is no file of fedonce's; ask for the file again") from None
    if not isinstance(header, dict) or not isinstance(header.get("format"), str):
        raise fail(f"it is not a fedonce {NOUNS.get(kind, kind)}")
    found, _, version = header.pop("format").rpartition(" ")
    if version != VERSION:
        raise fail(f"its format version is {version[:20]!r}, this program reads {VERSION!r}; update the older side")
    if found != kind:
        raise fail(f"it is a file of another kind: {found[:40]!r}")
    needed = {"checksum", *keys}
    if not needed <= set(header) <= {"signature", *needed, *optional}:
        raise fail(f"its header must have the entries {', '.join(sorted(needed))} and no others")
    if not all(isinstance(value, str) for value in header.values()):
        raise fail("its header must be texts")
    if not is_name(header["party"]):
        raise fail("its party is not a name: printable text of 1 to 100 bytes")
    if party is not None and header["party"] != party:
        raise fail(f"it says that it is from party {header['party']!r}")
    return header


def kind_of(data: bytes) -> str | None:
    """Return of which kind a file says that it is: "sealed", "message", ...; None where it is no file of ours."""
    if data.startswith(SEALED):
        return "sealed"
    length = _length(data)
    if not 2 <= length <= min(len(data) - 8, HEADER_LIMIT):
        return None
    try:
        return str(json.loads(data[8 : 8 + length].decode())["__metadata__"]["format"]).rpartition(" ")[0] or None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def is_name(name: object) -> bool:
    """Tell whether something can name a party or a run: printable text of 1 to 100 bytes."""
    return isinstance(name, str) and name.isprintable() and 1 <= len(name.encode(errors="replace")) <= 100


def read_bytes(
    path: str | Path, what: str = "file", most: int = MESSAGE_LIMIT, look: Callable[[bytes, int], None] | None = None
) -> bytes:
    """Return a file's bytes, or say clearly why not.

    A file is judged before it is read: by its size, which may be `most` bytes, by its header, and by `look`, which is given the
    file's first bytes (the header is among them) and its size.
    """
    try:
        with open_file(path, what, MessageError) as file:
            size, start = os.fstat(file.fileno()).st_size, file.read(8 + HEADER_LIMIT)
            if size > most:
                raise MessageError(
                    f"The {what} {path} is refused: it has {size:,} bytes, and the limit is {in_words(most)} (max_message)."
                )
            if size > len(start) and not start.startswith(SEALED) and size != _announced(start):
                raise MessageError(f"The {what} {path} is refused: it is not a file of fedonce's, or it is cut short.")
            if look is not None:
                look(start, size)
            file.seek(0)
            return file.read(size)  # no more, should it have grown meanwhile
    except OSError as error:
        raise MessageError(f"The {what} {path} cannot be read: {error.strerror}.") from None


def _announced(start: bytes) -> int | None:
    """Return how long a file says that it is, by its header; None where it has none of ours."""
    try:
        entries = json.loads(start[8 : 8 + _length(start)].decode())
        ends = [entry["data_offsets"][1] for name, entry in entries.items() if name != "__metadata__"]
        return 8 + _length(start) + int(max(ends, default=0))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, OverflowError):
        return None


def _length(data: bytes) -> int:
    """Return the length of the header, which the first eight bytes tell."""
    return int.from_bytes(data[:8], "little")


def _canonical(data: bytes) -> bytes:
    """Put the header's entries in order: safetensors writes them in any, and the same message must be the same bytes."""
    length = _length(data)
    header = json.dumps(json.loads(data[8 : 8 + length]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + data[8 + length :]
