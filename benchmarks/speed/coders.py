"""How short integers get by the range coder of messages (constriction), and by general compressors of bytes; and how fast.

    python -m benchmarks.speed.coders [--data phishing,superconduct,mnist,digits] [--rows 1000000]

One guest's message of each data set, as the guest sends it (learner "auto", seed 0, the second party's columns of the training
rows). A compressor gets the same integers row by row and column by column, at its strongest setting, with 4 bits also a byte per
value and two values per byte, and the shortest is taken. A trained dictionary is counted, as the receiver needs it. Then the time
for many rows of 8 values. Data sets need FEDONCE_DATA, but for the digits; others that are not there are left out. Results of
other messages stay; with `--rows 0` those of time, too.
"""

from __future__ import annotations

import argparse
import json
import lzma
import time
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import store
from benchmarks.data import digits
from benchmarks.run import parties_of
from fedonce import Guest, InputError, Pixels
from fedonce.datasets import FETCHERS
from fedonce.messages.codecs import find
from fedonce.messages.codecs.integers import Integers4
from fedonce.messages.codecs.packing import pack

RESULTS = store.RESULTS / "coders.json"
MESSAGES = {
    "phishing": [({}, 3, 8)],
    "superconduct": [({}, 3, 8), ({}, 6, 4)],
    "covtype": [({}, 3, 8)],
    "ujiindoorloc": [({"target": "longitude"}, 12, 8), ({"target": "longitude"}, 24, 4)],
    "mnist": [({}, 16, 8), ({}, 8, 4)],
    "digits": [({}, 8, 8), ({}, 8, 4)],
}


def zstandard(data: bytes) -> int:
    import zstandard

    return len(zstandard.ZstdCompressor(level=22).compress(data))


def zstandard_dictionary(data: bytes) -> int:
    """Train a dictionary on pieces of the very message, and return its size and that of the message by it."""
    import zstandard

    pieces = [data[start : start + 512] for start in range(0, len(data), 512)]
    try:
        trained = zstandard.train_dictionary(max(256, len(data) // 100), pieces)
    except zstandard.ZstdError:
        return len(data)
    coder = zstandard.ZstdCompressor(level=22, dict_data=trained)
    return len(coder.compress(data)) + len(trained.as_bytes())


def brotli(data: bytes) -> int:
    import brotli

    return len(brotli.compress(data, quality=11, lgwin=24))


COMPRESSORS: dict[str, Callable[[bytes], int]] = {
    "zstandard": zstandard,
    "zstandard, dictionary": zstandard_dictionary,
    "brotli": brotli,
    "lzma": lambda data: len(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)),
    "zlib": lambda data: len(zlib.compress(data, 9)),
}


def integers(name: str, loader: dict[str, Any], dim: int, bits: int) -> tuple[str, Any, list[int]]:
    """Return what the data are, the integers of one guest's message, and the largest of each column."""
    data = digits() if name == "digits" else FETCHERS[name](download=False, **loader)
    X, _, _, _ = data.split(0)
    own = list(parties_of(data, {}).values())[1]
    columns, shape = (list(own.columns), own.shape) if isinstance(own, Pixels) else (own, None)
    guest = Guest("guest", dim=dim, bits=bits, shape=shape, random_state=0)
    message = guest.learn(X[:, columns])
    steps = message.codec.steps
    return data.title, steps.encode(message.values), steps.levels.tolist()


def layouts(codes: Any, bits: int) -> list[bytes]:
    """Return integers as bytes: row by row and column by column, with 4 bits also two per byte."""
    found = []
    for lying in (codes, codes.T):
        flat = np.ascontiguousarray(lying).astype(np.uint8)
        found.append(flat.tobytes())
        if bits == 4:
            found.append(Integers4.pack(None, flat).tobytes())  # type: ignore[arg-type]
    return found


def compare(name: str, loader: dict[str, Any], dim: int, bits: int) -> dict[str, Any]:
    """Return bytes per row and seconds of each coder on one message."""
    title, codes, levels = integers(name, loader, dim, bits)
    rows, found = len(codes), {"plain": {"bytes_per_row": codes.shape[1] * bits / 8, "seconds": 0.0}}
    start = time.perf_counter()
    size = len(pack(codes, levels, [list(range(codes.shape[1]))]))
    found["constriction"] = {"bytes_per_row": size / rows, "seconds": time.perf_counter() - start}
    for coder, compressed in COMPRESSORS.items():
        tried = []
        for data in layouts(codes, bits):
            start = time.perf_counter()
            tried.append((compressed(data) / rows, time.perf_counter() - start))
        best = min(tried)
        found[coder] = {"bytes_per_row": best[0], "seconds": best[1]}
    line = "  ".join(f"{coder} {each['bytes_per_row']:.3f} ({each['seconds']:.2f} s)" for coder, each in found.items())
    print(f"{title} {codes.shape[1]}x{bits}, {rows:,} rows: bytes per row: {line}", flush=True)
    return {"data": title, "dim": codes.shape[1], "bits": bits, "rows": rows, "coders": found}


def speed(rows: int) -> dict[str, Any]:
    """Return the seconds for coding and decoding many rows of 8 values."""
    values = np.random.default_rng(0).standard_normal((rows, 8)).astype(np.float32)
    plain = find(8).fit(values)
    codec, taken = plain.coded, []
    for _ in range(3):
        start = time.perf_counter()
        written = codec.encode(values)
        middle = time.perf_counter()
        read = codec.decode(written, rows, 8, ValueError)
        taken.append((middle - start, time.perf_counter() - middle))
    assert (read == plain.decode(plain.encode(values), rows, 8, ValueError)).all()
    coding, decoding = (min(times) for times in zip(*taken, strict=True))
    size = written["coded"].nbytes
    print(f"{rows:,} rows x 8 normal values: {coding:.2f} s to code, {decoding:.2f} s to decode, {size:,} bytes")
    return {"rows": rows, "dim": 8, "coding_seconds": coding, "decoding_seconds": decoding, "bytes": size}


def _which(line: dict[str, Any]) -> tuple[Any, ...]:
    return line["data"], line["dim"], line["bits"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=",".join(MESSAGES))
    parser.add_argument("--rows", type=int, default=1_000_000)
    given = parser.parse_args()
    found = []
    for name in given.data.split(","):
        for message in MESSAGES[name]:
            try:
                found.append(compare(name, *message))
            except InputError as error:
                print(f"{name} is left out: {error}")
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"messages": [], "speed": None}
    fast, new = speed(given.rows) if given.rows else before["speed"], {_which(line) for line in found}
    kept = [line for line in before["messages"] if _which(line) not in new]
    RESULTS.write_text(json.dumps({"messages": kept + found, "speed": fast}, indent=2) + "\n")


if __name__ == "__main__":
    main()
