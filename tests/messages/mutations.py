"""Coded messages with accidents and attacks: `python -m tests.messages.mutations 100000`.

Each is read, and must be refused with a MessageError or be a message: whole, finite, and the same when written and read again.
"""

from __future__ import annotations

import hashlib
import random
import resource
import struct
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable

import numpy as np

from fedonce import Guest, MessageError, Naming, Representation
from fedonce.learners import Cells
from fedonce.messages import envelope

MOST_MEMORY = 2**25  # bytes that a message may take
NUMBERS = ("0", "1", "2", "3", "7", "63", "64", "65", "100", "299", "301", "1024", "4096", "65536", "300000", "2000000")
WORDS = ("", "-1", "9" * 15, "9" * 16, "1e9", "nan", "4", "8", "12", "16", "32", "coded4", "coded8", "coded12", "²")
Tensors = dict[str, np.ndarray]


def originals() -> list[Representation]:
    """Return coded messages of every kind: by columns, by distinct rows, in layers, of 4, 8 and 12 bits, with rows absent."""
    rng = np.random.default_rng(0)
    rows = (rng.standard_normal((300, 8)) * 2.0 ** -np.arange(8)).astype(np.float32)
    flags = (rng.random((300, 6)) < 0.2).astype(np.float32)
    wide = rng.standard_normal((300, 70)).astype(np.float32)
    return [
        Guest("shop", "pca", 5).learn(rows),
        Guest("shop", "pca", 5, 4).learn(rows),
        Guest("shop", "pca", 3).learn(flags),
        Guest("shop", "pca", 70).learn(wide),
        Guest("shop", "pca", bytes_per_row=4.0).learn(rows),
        Guest("shop", Cells(cells=20, least=5)).learn(rows),
        Guest("shop", Cells(cells=12, least=5, layers=2), 4).learn(rows),
        Guest("shop", Cells(cells=12, least=5, layers=4), 2).learn(rows),
        Guest("shop", "pca", 2).learn(rows, np.arange(500) % 5 < 3),
        Guest("shop", "pca", 2, naming=Naming("keyed", b"s" * 32)).learn(rows),
    ]


def any_bytes(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """Return bytes with one change: flipped, cut, lengthened, swapped, spliced with others."""
    at, to = (rng.randrange(len(data) + 1) for _ in range(2))
    size, other = rng.choice((1, 1, 2, 4, 40)), rng.choice(others)
    kind = rng.randrange(7)
    if kind <= 1 and data:
        at = min(at, len(data) - 1)
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    if kind == 2:
        return data[:at]
    if kind == 3:
        return data[:at] + rng.choice((rng.randbytes(size), b"\0" * size, b"\xff" * size)) + data[at:]
    if kind == 4:
        low, high = min(at, to), max(at, to)
        return data[:low] + data[high : high + size] + data[low + size : high] + data[low : low + size] + data[high:]
    if kind == 5:
        return data[:at] + other[rng.randrange(len(other) + 1) :]
    return data[:at] + rng.choice((b"\0", b"\xff", rng.randbytes(1))) * min(size, len(data) - at) + data[at + size :]


def recoded(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """Return coded bytes whose tables or words were changed, and deflated anew; or a bomb."""
    size = int.from_bytes(data[:4], "little")
    try:
        table = zlib.decompress(data[4 : 4 + size])
    except zlib.error:
        return data
    words, kind = data[4 + size :], rng.randrange(8)
    if kind <= 3:
        table = any_bytes(table, [table, *others], rng)
    elif kind == 4:
        start = rng.randrange(len(table) + 1)
        table = table[:start] + rng.choice((b"\0", b"\1", b"\xff")) * rng.choice((1, 300, 70_000, 2**22))
    elif kind == 5:
        table = bytes([rng.randrange(3)]) + struct.pack("<I", rng.choice((0, 1, 2, 300, 2**16, 2**32 - 1))) + table[5:]
    else:
        many = rng.choice((0, 1, 5, 200, 3000))
        words = rng.choice((b"\xff", b"\0", b"\x80")) * 4 * many if kind == 6 else rng.randbytes(4 * many)
    deflated = zlib.compress(table, rng.choice((0, 1, 9)))
    told = len(deflated) if rng.random() < 0.95 else rng.choice((0, 1, 2**31, 2**32 - 1, len(deflated) + 4))
    return struct.pack("<I", told) + deflated + words


def other_steps(steps: np.ndarray, rng: random.Random) -> np.ndarray:
    """Return steps with other numbers, layers or shapes."""
    steps = steps.copy()
    if rng.random() < 0.3:
        shapes = (
            steps[:, :-1],
            np.hstack([steps, steps]),
            np.hstack([steps] * 5),
            steps[:3],
            steps.ravel(),
            steps[:, :1],
        )
        return rng.choice((*shapes, steps.astype(np.float64)))
    for _ in range(rng.randint(1, 3)):
        row = rng.randrange(4)
        values = ((0, -1e12, 1e38, np.nan), (0, -1, 1e-38, 3e38), (0, 1, 15, 255, 4095, 4096, 0.5), (0, 1, 3, 65536))[
            row
        ]
        column = slice(None) if rng.random() < 0.3 else rng.randrange(steps.shape[1])
        steps[row, column] = rng.choice(values)
    return steps


def can_change(steps: np.ndarray) -> bool:
    """Tell whether steps are still such as `other_steps` takes: an attack may come second."""
    return bool(steps.dtype == np.float32 and steps.ndim == 2 and len(steps) == 4 and steps.size)


def forged(message: Representation, others: list[bytes], rng: random.Random) -> bytes:
    """Return a message of another content whose checksum is right: whoever makes messages can make any."""
    header, tensors = message._content()
    for _ in range(rng.randint(1, 2)):
        kind = rng.random()
        if kind < 0.2:
            header[rng.choice(("n", "d"))] = rng.choice(NUMBERS)
        elif kind < 0.3:
            header[rng.choice((*header, "codec", "bits", "n", "d"))] = rng.choice(WORDS)
        elif kind < 0.55:
            tensors["coded"] = np.frombuffer(any_bytes(tensors["coded"].tobytes(), others, rng), np.uint8)
        elif kind < 0.85:
            tensors["coded"] = np.frombuffer(recoded(tensors["coded"].tobytes(), others, rng), np.uint8)
        elif kind < 0.95 and can_change(tensors["steps"]):
            tensors["steps"] = other_steps(tensors["steps"], rng)
        else:
            name = rng.choice((*tensors, "values", "low", "present"))
            old = tensors.get(name, np.zeros(38, np.uint8))
            tensors[name] = rng.choice((old[:0], old[:-1], old.view(np.int8), np.full_like(old, 100), old[None]))
    return envelope.pack("message", header, tensors)


def check(data: bytes) -> bool:
    """Tell whether bytes are a message, which is then whole; anything but a refusal is raised."""
    try:
        message = Representation.from_bytes(data, max_memory=MOST_MEMORY)
    except MessageError:
        return False
    held = message.n_rows if message.present is None else int(message.present.sum())
    assert message.values.shape == (held, message.dim)
    assert np.isfinite(message.values).all()
    written, values = message.to_bytes(), hashlib.sha256(message.values).digest()
    del message  # one at a time: their memory is measured
    assert hashlib.sha256(Representation.from_bytes(written, max_memory=MOST_MEMORY).values).digest() == values
    return True


def peak() -> int:
    """Return the most memory that this process has taken."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def attack(times: int, seed: int, tell: Callable[[str], None] = lambda line: None) -> Counter[bool]:
    """Read so many changed messages; return how many were messages still, and how many were refused."""
    rng, messages, found = random.Random(seed), originals(), Counter[bool]()
    files = [message.to_bytes() for message in messages]
    coded = [message.written["coded"].tobytes() for message in messages]
    assert all(check(data) for data in files)
    slowest, before = 0.0, peak()
    for number in range(times):
        which = rng.randrange(len(messages))
        bad = any_bytes(files[which], files, rng) if rng.random() < 0.2 else forged(messages[which], coded, rng)
        start = time.perf_counter()
        found[check(bad)] += 1
        slowest = max(slowest, time.perf_counter() - start)
        if number % 10_000 == 9999:
            tell(f"{number + 1:,}: {found[False]:,} refused, {found[True]:,} messages, slowest {slowest:.2f} s")
    tell(
        f"memory beyond that at the start: {(peak() - before) / 2**20:.0f} MiB; a message may take {MOST_MEMORY / 2**20:.0f} MiB"
    )
    return found


if __name__ == "__main__":
    attack(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000, 0, print)
