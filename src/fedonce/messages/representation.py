"""The one message: a guest's representation of its rows, frozen, sized, checked, to bytes and back.

A `*.fedonce` file is a safetensors file. Its header carries a handful of named texts, its tensors carry the encoded
values, their scale and, where needed, what identifies the rows. Nothing else is accepted: a file with an unknown tensor
or header entry is refused, so that nothing else can travel along.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.errors import MessageError, parameter_error
from fedonce.messages import envelope
from fedonce.messages.envelope import Refusal
from fedonce.messages.scale import SCALES_LIMIT, Scale
from fedonce.system.disk import write_file
from fedonce.system.sizes import MESSAGE_LIMIT

KIND = "message"
BITS = (32, 16, 8, 4)
ROWS_LIMIT = 2**40
DIM_LIMIT = 2**20
MAX_DIM = 1024  # values per row that a receiver takes who has not asked for more
VALUE_LIMIT = 1e12  # representations are of moderate size; larger numbers would upset the host's arithmetic
ID_LIMIT = 256  # bytes of an id
_KEYS = ("run", "party", "rows", "n", "d", "bits", "learner", "noise", "note", "spent")
_OPTIONAL = ("ids", "normalised", "model")  # empty where they are missing


def row_digest(n_rows: int, ids: NDArray[np.uint8] | None = None) -> str:
    """Return the name of an order of rows: that of their ids, or of their positions where they have none."""
    digest = hashlib.sha256(f"fedonce rows {n_rows}\n".encode())
    if ids is not None:
        digest.update(np.ascontiguousarray(ids).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Representation:
    """A guest's representation of its rows, as it travels.

    Attributes
    ----------
    party, run : str
        Who speaks, and in which training.
    values : array of shape (m, d)
        What the receiver gets: the values after rounding to `bits`.
    rows : str
        Digest of the agreed order of rows (see `row_digest`).
    present : boolean array of shape (n,) or None
        Which of the n agreed rows the guest has; `values` holds those m rows. None: all of them.
    ids : array of shape (m, width) of bytes, or None
        A key per row, where the parties have not agreed on an order.
    naming : str
        What the keys are: "keyed" and the fingerprint of the secret, "hashed" or "plain"; empty without ids.
    forms : tuple of str
        How ids were made alike before: see `fedonce.rows.ids.normalise`.
    model : str
        Digest of the guest's model, the same at training and at prediction; empty: not told.
    signature : str
        Of `checksum`, by `fedonce.messages.keys`; empty: none.
    bits : int
        Bits per value: 32 and 16 are floats, 8 and 4 are integers with a scale.
    learner, note : str
        How the values were made, and what the receiver should know about it (a dimension lowered, say).
    noise : float
        Scale of the Gaussian noise on each value, which was added after clipping a row's values to norm 1; 0: neither.
    spent : str or None
        What privacy was spent; None: no guarantee is given.
    """

    party: str
    values: NDArray[np.float32]
    rows: str
    bits: int = 8
    scale: Scale | None = None
    run: str = "local"
    present: NDArray[np.bool_] | None = None
    ids: NDArray[np.uint8] | None = None
    naming: str = ""
    forms: tuple[str, ...] = ()
    model: str = ""
    signature: str = ""
    learner: str = ""
    noise: float = 0.0
    note: str = ""
    spent: str | None = None
    codes: NDArray[np.uint8] | None = field(default=None, repr=False)

    @classmethod
    def encode(cls, values: NDArray[np.float32], *, bits: int, scale: Scale, **header: Any) -> Representation:
        """Round values to what `bits` bits can carry, so that sender and receiver hold the same numbers."""
        if bits not in BITS:
            raise parameter_error("Representation", "bits", f"one of {BITS}", bits)
        if not (np.abs(values) <= VALUE_LIMIT).all():
            raise MessageError(
                f"Party {header.get('party')!r} learnt values that are not finite; lower its learning rate."
            )
        if bits == 32:
            return cls(values=values.astype(np.float32), bits=bits, scale=scale, **header)
        if bits == 16:
            kept = np.clip(values, *_FLOAT16_RANGE).astype(np.float16).astype(np.float32)
            return cls(values=kept, bits=bits, scale=scale, **header)
        codes = scale.encode(values, bits)
        return cls(values=scale.decode(codes, bits), bits=bits, scale=scale, codes=codes, **header)

    def __post_init__(self) -> None:
        values = self.values.view()
        values.flags.writeable = False  # a message does not change once it is made
        object.__setattr__(self, "values", values)

    @property
    def n_rows(self) -> int:
        """Number of agreed rows, present or not."""
        return len(self.values) if self.present is None else len(self.present)

    @property
    def dim(self) -> int:
        """Number of values per row."""
        return int(self.values.shape[1])

    @property
    def maker(self) -> str:
        """Digest of how the values were made: model, learner, dimension, bits, noise, scale. It stays while the model does."""
        digest = hashlib.sha256(f"{self.model} {self.learner} {self.dim} {self.bits} {self.noise!r}".encode())
        if self.scale is not None:
            digest.update(self.scale.low.tobytes() + self.scale.high.tobytes())
        return digest.hexdigest()

    @property
    def payload_bytes(self) -> int:
        """Bytes of the values alone."""
        return ceil(self.values.size * self.bits / 8)

    @property
    def id_bytes(self) -> int:
        """Bytes of what identifies rows: keys, or a bit a row that says who is present."""
        keys = 0 if self.ids is None else self.ids.size
        return keys + (0 if self.present is None else ceil(len(self.present) / 8))

    @property
    def nbytes(self) -> int:
        """Bytes of the whole message."""
        return len(self.to_bytes())

    @property
    def checksum(self) -> str:
        """The sha256 of all that the message says: what is signed."""
        return envelope.checksum(KIND, *self._content())

    def to_bytes(self) -> bytes:
        """Return the message as the bytes of a `*.fedonce` file."""
        return envelope.pack(KIND, *self._content(), self.signature)

    def _content(self) -> tuple[dict[str, str], dict[str, NDArray[Any]]]:
        """Return the message's texts and arrays."""
        tensors = {"values": self._encoded()}
        if self.bits <= 8 and self.scale is not None:
            tensors |= {"low": self.scale.low, "high": self.scale.high}
        if self.present is not None:
            tensors["present"] = np.packbits(self.present)
        if self.ids is not None:
            tensors["ids"] = np.ascontiguousarray(self.ids)
        header = {
            "run": self.run, "party": self.party, "rows": self.rows,
            "n": str(self.n_rows), "d": str(self.dim), "bits": str(self.bits),
            "learner": self.learner, "noise": repr(float(self.noise)), "note": self.note, "spent": self.spent or "none",
        }  # fmt: skip
        more = {"ids": self.naming, "normalised": ",".join(self.forms), "model": self.model}
        return header | {key: text for key, text in more.items() if text}, tensors

    def _encoded(self) -> NDArray[Any]:
        """Return the values as they lie in the file."""
        if self.bits == 32:
            return np.ascontiguousarray(self.values)
        if self.bits == 16:
            return self.values.astype(np.float16)
        assert self.codes is not None
        return self.codes if self.bits == 8 else _pack_nibbles(self.codes)

    @classmethod
    def from_bytes(cls, data: bytes, party: str | None = None, max_dim: int = MAX_DIM) -> Representation:
        """Read a message from another party, trusting nothing of it; one of more than `max_dim` values per row is refused.

        Raises
        ------
        MessageError
            With the party's name (`party`, or the one that the message claims) and what is wrong.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise parameter_error("from_bytes", "data", "the bytes of a message (for a path, use from_file)", data)
        data = bytes(data)
        n, d, bits = check_start(data, len(data), party, max_dim)
        read = envelope.unpack(data, KIND, _KEYS, party, _OPTIONAL)
        return _decode(cls, read, n, d, bits, _Failure(read.header["party"]))

    def to_file(self, path: str | Path) -> Path:
        """Write the message as a `*.fedonce` file, whole or not at all."""
        return write_file(path, self.to_bytes())

    @classmethod
    def from_file(
        cls, path: str | Path, party: str | None = None, max_dim: int = MAX_DIM, max_message: int = MESSAGE_LIMIT
    ) -> Representation:
        """Read a `*.fedonce` file of at most `max_message` bytes, as carefully as `from_bytes`."""

        def look(start: bytes, size: int) -> None:
            check_start(start, size, party, max_dim)

        return cls.from_bytes(envelope.read_bytes(path, "message", max_message, look), party, max_dim)


def check_start(start: bytes, size: int, party: str | None = None, max_dim: int = MAX_DIM) -> tuple[int, int, int]:
    """Return the rows, values per row and bits that a message's header announces, judged before the rest is read.

    `start` are its first bytes, the header among them, `size` is how many there are in all.

    Raises
    ------
    MessageError
        As `Representation.from_bytes`.
    """
    header = envelope.read_header(start, KIND, _KEYS, party, _OPTIONAL)
    fail = _Failure(header["party"])
    n, d, bits = (fail.integer(header, key) for key in ("n", "d", "bits"))
    if bits not in BITS or not 1 <= d <= DIM_LIMIT or not 0 <= n <= ROWS_LIMIT:
        raise fail(f"n={n}, d={d}, bits={bits} are not the sizes of a message")
    if d > max_dim:
        raise fail(f"it has {d} values per row, and the limit is {max_dim} (max_dim); let the guest send fewer (dim)")
    # Header, values, scale, and for each row a mark and an id: nothing else is in a message.
    most = 8 + envelope.HEADER_LIMIT + ceil(n * d * bits / 8) + 8 * SCALES_LIMIT + n * (ID_LIMIT + 1)
    if size > most:
        raise fail(f"it has {size:,} bytes, and {n} rows of {d} values take no more than {most:,}")
    return n, d, bits


_FLOAT16_RANGE = (-65504.0, 65504.0)


class _Failure(Refusal):
    """Makes the errors about one party's message, and reads its numbers."""

    def __init__(self, party: str) -> None:
        super().__init__(KIND, party)

    def integer(self, header: dict[str, str], key: str) -> int:
        """Read a count."""
        text = header[key]
        if not text.isascii() or not text.isdigit() or len(text) > 15:
            raise self(f"its {key!r} is {text!r}, not a number")
        return int(text)

    def noise(self, header: dict[str, str]) -> float:
        """Read the scale of noise."""
        text = header["noise"]
        if not re.fullmatch(r"\d{1,12}(\.\d{1,20})?(e-\d{1,3})?", text):
            raise self(f"its 'noise' is {text!r}, not a scale")
        return float(text)

    def naming(self, header: dict[str, str]) -> tuple[str, tuple[str, ...]]:
        """Read how rows are named, and how ids were made alike."""
        label, forms = header.get("ids", ""), header.get("normalised", "")
        if not re.fullmatch(r"|plain|hashed|keyed [0-9a-f]{16}", label) or not re.fullmatch(r"|[a-z,]{1,40}", forms):
            raise self(
                f"it says of its ids {label[:40]!r}, normalised {forms[:40]!r}, which this program does not know"
            )
        return label, tuple(forms.split(",")) if forms else ()


def _decode(
    cls: type[Representation], read: envelope.Envelope, n: int, d: int, bits: int, fail: _Failure
) -> Representation:
    """Check every tensor against the header, and decode."""
    header, tensors = read.header, read.tensors
    unknown = set(tensors) - {"values", "low", "high", "present", "ids"}
    if unknown or "values" not in tensors:
        raise fail(f"it carries tensors {sorted(tensors)}")
    m = n
    if "present" in tensors:
        _expect(tensors, "present", np.uint8, (ceil(n / 8),), fail)
        m = int(np.bitwise_count(tensors["present"]).sum())
    naming, forms = fail.naming(header)
    _check_ids(tensors.get("ids"), naming, m, n, fail)
    scale, codes = None, None
    if bits > 8:
        if "low" in tensors or "high" in tensors:
            raise fail("floats carry no scale")
        _expect(tensors, "values", np.float32 if bits == 32 else np.float16, (m, d), fail)
        # One copy: a message may be as large as the memory that is left.
        values = tensors["values"].astype(np.float32, copy=False)
    else:
        _expect(tensors, "values", np.uint8, (m, d) if bits == 8 else (ceil(m * d / 2),), fail)
        scale = _read_scale(tensors, d, fail)
        codes = tensors["values"] if bits == 8 else _unpack_nibbles(tensors["values"], m, d)
        values = scale.decode(codes, bits)
    if values.size and not -VALUE_LIMIT <= values.min() <= values.max() <= VALUE_LIMIT:  # NaN is not, either
        raise fail(f"it has values that are not finite, or beyond {VALUE_LIMIT:g}")
    present = np.unpackbits(tensors["present"], count=n).view(bool) if "present" in tensors else None
    if present is not None and int(present.sum()) != m:
        raise fail("it marks rows as present beyond its last one")
    return cls(
        party=header["party"], values=values, rows=header["rows"], bits=bits, scale=scale, run=header["run"],
        present=present, ids=tensors.get("ids"), naming=naming, forms=forms, model=header.get("model", ""),
        signature=read.signature, learner=header["learner"], noise=fail.noise(header), note=header["note"],
        spent=None if header["spent"] == "none" else header["spent"], codes=codes,
    )  # fmt: skip


def _check_ids(ids: NDArray[Any] | None, naming: str, m: int, n: int, fail: _Failure) -> None:
    """Check that ids are there where they are announced, in the announced form."""
    if ids is None:
        if naming:
            raise fail("it announces ids and has none")
        return
    if (
        not naming
        or ids.ndim != 2
        or ids.dtype != np.uint8
        or len(ids) != m
        or m != n
        or not 1 <= ids.shape[1] <= ID_LIMIT
    ):
        raise fail(
            f"its ids ({naming[:6] or 'not announced'}) have shape {ids.shape}, {m} rows of bytes were announced"
        )
    if naming != "plain" and ids.shape[1] != 8:
        raise fail(f"its hashes have {ids.shape[1]} bytes instead of 8")


def _read_scale(tensors: dict[str, NDArray[Any]], d: int, fail: _Failure) -> Scale:
    width = d if d <= SCALES_LIMIT else 1
    for name in ("low", "high"):
        if name not in tensors:
            raise fail(f"its scale has no {name!r}")
        _expect(tensors, name, np.float32, (width,), fail)
    low, high = tensors["low"], tensors["high"]
    if not ((np.abs(low) <= VALUE_LIMIT).all() and (np.abs(high) <= VALUE_LIMIT).all() and (low <= high).all()):
        raise fail("its scale is not a range")
    return Scale(low, high)


def _expect(tensors: dict[str, NDArray[Any]], name: str, dtype: Any, shape: tuple[int, ...], fail: _Failure) -> None:
    found = tensors[name]
    if found.dtype != dtype or found.shape != shape:
        raise fail(
            f"its {name!r} are {found.dtype} of shape {found.shape}, announced were {np.dtype(dtype)} of shape {shape}"
        )


def _pack_nibbles(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    flat = codes.ravel()
    if flat.size % 2:
        flat = np.append(flat, np.uint8(0))
    packed: NDArray[np.uint8] = (flat[::2] << np.uint8(4)) | flat[1::2]
    return packed


def _unpack_nibbles(packed: NDArray[np.uint8], m: int, d: int) -> NDArray[np.uint8]:
    return np.stack([packed >> 4, packed & 15], axis=-1).ravel()[: m * d].reshape(m, d)
