"""The one message: a guest's representation of its rows, frozen, sized, checked, to bytes and back.

A `*.fedonce` file is a safetensors file. Its header carries a handful of named texts, its tensors carry the encoded
values, the state of their encoding (a scale) and, where needed, what identifies the rows. How values are written is the
business of `fedonce.messages.codecs`. Nothing else is accepted: a file with an unknown tensor
or header entry is refused, so that nothing else can travel along.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.errors import MessageError, parameter_error
from fedonce.messages import codecs, envelope
from fedonce.messages.codecs import VALUE_LIMIT, Codec, Tensors, expect
from fedonce.messages.message_checks import ID_LIMIT, KIND, Failure, check_ids, check_memory
from fedonce.system.disk import write_file
from fedonce.system.sizes import MESSAGE_LIMIT

ROWS_LIMIT = 2**40
DIM_LIMIT = 2**20
MAX_DIM = 1024  # values per row that a receiver takes who has not asked for more
_KEYS = ("run", "party", "rows", "n", "d", "bits", "learner", "noise", "note", "spent")
_OPTIONAL = ("ids", "normalised", "model", "codec", "local", "hints")  # empty where they are missing


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
        What the receiver gets: the values after rounding by `codec`.
    codec : Codec
        How they are written, as it was fitted: 32 and 16 bits are floats, 8 and 4 are integers with a scale.
    written : dict of arrays
        The values as they lie in the file.
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
    learner, note : str
        How the values were made, and what the receiver should know about it (a dimension lowered, say).
    noise : float
        Scale of the Gaussian noise on each value, which was added after clipping a row's values to norm 1; 0: neither.
    local_epsilon : float or None
        Epsilon of this message for each row, by subset selection (`fedonce.privacy.LocalEpsilon`); None: no such guarantee.
    spent : str or None
        What privacy was spent; None: no guarantee is given.
    hints : str
        With which epsilon labels were hinted at when the guest learnt, and which label (`Hints.stated`); empty: none were.

    >>> from fedonce import Guest
    >>> sent = Guest("shop", "pca", dim=2).learn(np.arange(60.0).reshape(20, 3)).to_bytes()
    >>> Representation.from_bytes(sent, party="shop").learner
    'pca'
    """

    party: str
    values: NDArray[np.float32]
    rows: str
    codec: Codec
    written: Tensors = field(repr=False)
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
    local_epsilon: float | None = None
    hints: str = ""

    @classmethod
    def encode(cls, values: NDArray[np.float32], codec: Codec, party: str, **header: Any) -> Representation:
        """Round values to what a codec can carry, so that sender and receiver hold the same numbers."""
        if not (np.abs(values) <= VALUE_LIMIT).all():
            raise MessageError(f"Party {party!r} learnt values that are not finite; lower its learning rate.")
        written = codec.encode(values)
        kept = codec.decode(written, len(values), codec.decoded_dim(values.shape[1]), Failure(party))
        return cls(party, kept, codec=codec, written=written, **header)

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
    def bits(self) -> int:
        """Bits per value, at most."""
        return self.codec.bits

    @property
    def blurred(self) -> bool:
        """Whether noise was put on the values, of either kind."""
        return self.noise > 0 or self.local_epsilon is not None

    @property
    def maker(self) -> str:
        """Digest of how the values were made: model, learner, dimension, codec, noise. It stays while the model does."""
        local = (
            f" {self._local}" if self._local else ""
        )  # makers of other messages are as they were before there was one
        digest = hashlib.sha256(
            f"{self.model} {self.learner} {self.dim} {self.codec.choice()} {self.noise!r}{local}".encode()
        )
        state = self.codec.state()
        for name in self.codec.keeps:
            digest.update(state[name].tobytes())
        return digest.hexdigest()

    @property
    def _local(self) -> str:
        """What the header says of a local epsilon; empty: there is none."""
        return "" if self.local_epsilon is None else f"subset {float(self.local_epsilon)!r}"

    @property
    def payload_bytes(self) -> int:
        """Bytes of the values alone."""
        return sum(tensor.nbytes for tensor in self.written.values())

    @property
    def id_bytes(self) -> int:
        """Bytes of what identifies rows: keys, or a bit per row that says who is present."""
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

    def check_memory(self, limit: int | None) -> None:
        """Raise MessageError where the values take more than `limit` bytes (None: a quarter of the machine's memory)."""
        check_memory(self.n_rows, self.dim, limit, Failure(self.party))

    def to_bytes(self) -> bytes:
        """Return the message as the bytes of a `*.fedonce` file."""
        return envelope.pack(KIND, *self._content(), self.signature)

    def _content(self) -> tuple[dict[str, str], dict[str, NDArray[Any]]]:
        """Return the message's texts and arrays."""
        tensors = {**self.written, **self.codec.state()}
        if self.present is not None:
            tensors["present"] = np.packbits(self.present)
        if self.ids is not None:
            tensors["ids"] = np.ascontiguousarray(self.ids)
        header = {
            "run": self.run,
            "party": self.party,
            "rows": self.rows,
            "n": str(self.n_rows),
            "d": str(self.dim),
            "bits": str(self.bits),
            "learner": self.learner,
            "noise": repr(float(self.noise)),
            "note": self.note,
            "spent": self.spent or "none",
        }
        more = {"ids": self.naming, "normalised": ",".join(self.forms), "model": self.model, "codec": self.codec.name}
        more |= {"local": self._local, "hints": self.hints}
        return header | {key: text for key, text in more.items() if text}, tensors

    @classmethod
    def from_bytes(
        cls, data: bytes, party: str | None = None, max_dim: int = MAX_DIM, max_memory: int | None = None
    ) -> Representation:
        """Read a message from another party, trusting nothing of it.

        One of more than `max_dim` values per row is refused, and one that would take more than `max_memory` bytes once it
        is decoded (None: a quarter of the machine's memory).

        Raises
        ------
        MessageError
            With the party's name (`party`, or the one that the message claims) and what is wrong.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise parameter_error("from_bytes", "data", "the bytes of a message (for a path, use from_file)", data)
        data = bytes(data)
        n, d, encoding = check_start(data, len(data), party, max_dim, max_memory)
        read = envelope.unpack(data, KIND, _KEYS, party, _OPTIONAL)
        return _decode(cls, read, n, d, encoding, Failure(read.header["party"]))

    def to_file(self, path: str | Path) -> Path:
        """Write the message as a `*.fedonce` file, whole or not at all."""
        return write_file(path, self.to_bytes())

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        party: str | None = None,
        max_dim: int = MAX_DIM,
        max_message: int = MESSAGE_LIMIT,
        max_memory: int | None = None,
    ) -> Representation:
        """Read a `*.fedonce` file of at most `max_message` bytes, as carefully as `from_bytes`."""

        def look(start: bytes, size: int) -> None:
            check_start(start, size, party, max_dim, max_memory)

        data = envelope.read_bytes(path, "message", max_message, look)
        return cls.from_bytes(data, party, max_dim, max_memory)


def check_start(
    start: bytes, size: int, party: str | None = None, max_dim: int = MAX_DIM, max_memory: int | None = None
) -> tuple[int, int, type[Codec]]:
    """Return the rows, values per row and encoding that a message's header announces, judged before the rest is read.

    `start` are its first bytes, the header among them, `size` is how many there are in all.

    Raises
    ------
    MessageError
        As `Representation.from_bytes`.
    """
    header = envelope.read_header(start, KIND, _KEYS, party, _OPTIONAL)
    fail = Failure(header["party"])
    n, d, encoding = fail.integer(header, "n"), fail.integer(header, "d"), fail.encoding(header)
    if not 1 <= d <= DIM_LIMIT or not 0 <= n <= ROWS_LIMIT:
        raise fail(f"n={n}, d={d} are not the sizes of a message")
    if d > max_dim:
        raise fail(
            f"it has {d} values per row, and the limit is {max_dim} (max_dim); let the guest send fewer (dim)",
            "max_dim",
        )
    # Header, values, the state of their encoding, and for each row a mark and an id: nothing else is in a message.
    most = 8 + envelope.HEADER_LIMIT + encoding.most_payload(n, d) + encoding.most_state(d) + n * (ID_LIMIT + 1)
    if size > most:
        raise fail(f"it has {size:,} bytes, and {n} rows of {d} values take no more than {most:,}")
    check_memory(n, d, max_memory, fail, encoding)
    return n, d, encoding


def _decode(
    cls: type[Representation], read: envelope.Envelope, n: int, d: int, encoding: type[Codec], fail: Failure
) -> Representation:
    """Check every tensor against the header, and decode."""
    header, tensors = read.header, read.tensors
    if {*tensors, *codecs.RESERVED} != {*encoding.writes, *encoding.keeps, *codecs.RESERVED}:
        needed = ", ".join((*encoding.writes, *encoding.keeps))
        raise fail(f"it carries tensors {sorted(tensors)}, and must carry {needed}, and of others ids or present alone")
    m = n
    if "present" in tensors:
        expect(tensors, "present", np.uint8, (ceil(n / 8),), fail)
        m = int(np.bitwise_count(tensors["present"]).sum())
    naming, forms = fail.naming(header)
    local_epsilon = fail.local(header)
    check_ids(tensors.get("ids"), naming, m, n, fail)
    written = {name: tensors[name] for name in encoding.writes}
    codec = encoding.restore({name: tensors[name] for name in encoding.keeps}, d, fail)
    values = _decode_values(codec, written, m, d, fail)
    present = np.unpackbits(tensors["present"], count=n).view(bool) if "present" in tensors else None
    if present is not None and int(present.sum()) != m:
        raise fail("it marks rows as present beyond its last one")
    return cls(
        party=header["party"],
        values=values,
        rows=header["rows"],
        codec=codec,
        written=written,
        run=header["run"],
        present=present,
        ids=tensors.get("ids"),
        naming=naming,
        forms=forms,
        model=header.get("model", ""),
        signature=read.signature,
        learner=header["learner"],
        noise=fail.noise(header),
        note=header["note"],
        spent=None if header["spent"] == "none" else header["spent"],
        local_epsilon=local_epsilon,
        hints=fail.hints(header),
    )


def _decode_values(codec: Codec, written: Tensors, m: int, d: int, fail: Failure) -> NDArray[np.float32]:
    """Decode, and check what every receiver relies on, whatever the codec."""
    values = codec.decode(written, m, d, fail)
    expect({"values": values}, "values", np.float32, (m, d), fail)
    if values.size and not -VALUE_LIMIT <= values.min() <= values.max() <= VALUE_LIMIT:  # NaN is not, either
        raise fail(f"it has values that are not finite, or beyond {VALUE_LIMIT:g}")
    return values
