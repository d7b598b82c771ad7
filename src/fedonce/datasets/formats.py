"""The formats that owners publish in: idx, LIBSVM, delimited numbers, CIFAR's pickles; packed or plain.

Every reader takes a file's content and its name, and an error names the file and, for text, the line.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickle
import struct
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from math import prod
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fedonce.errors import InputError

IDX_UNSIGNED_BYTE = 0x08  # third byte of the magic number; the fourth is the number of dimensions
_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError)
LARGEST = 2**31  # bytes of one unpacked file; the largest of our data sets' has a tenth of it


def read_bytes(path: Path, member: str | None = None) -> bytes:
    """Return a file's content, unpacked by its ending; of an archive the content of one member, by its last name."""
    try:
        if path.name.endswith(".zip"):
            return _read_zip(path, member or "")
        if path.name.endswith(".tar.gz"):
            return _read_tar(path, member or "")
        opener: Any = _OPENERS.get(path.suffix, open)
        with opener(path, "rb") as file:
            return _read(file, path)
    except _BROKEN as error:
        raise InputError(f"The file {path} cannot be read: it is damaged or cut off ({error}).") from error


def _read(file: IO[bytes], path: Path) -> bytes:
    content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise InputError(f"The file {path} is refused: unpacked it has more than {LARGEST:,} bytes.")
    return content


def _read_zip(path: Path, member: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        every = archive.infolist()
        name = _pick([entry.filename for entry in every], [e.filename for e in every if not e.is_dir()], member, path)
        try:
            with archive.open(name) as file:
                return _read(file, path)
        except RuntimeError as error:  # a password, or a way of packing that is not known
            raise InputError(
                f"The file {path} cannot be read: its member {name!r} cannot be unpacked ({error})."
            ) from error


def _read_tar(path: Path, member: str) -> bytes:
    with tarfile.open(path, "r:gz") as archive:
        every = archive.getmembers()
        # Plain files alone: a link may lead out of the archive.
        name = _pick([entry.name for entry in every], [entry.name for entry in every if entry.isreg()], member, path)
        file = archive.extractfile(name)
        if file is None:
            raise InputError(f"The archive {path} is refused: {name!r} is not a plain file in it.")
        return _read(file, path)


def _pick(names: Sequence[str], files: Sequence[str], member: str, path: Path) -> str:
    """Choose a file by its last name; an archive that reaches out of its folder is refused whole."""
    for name in names:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or "\\" in name or ":" in name:
            raise InputError(f"The archive {path} is refused: its member {name!r} has a path that escapes the archive.")
    found = [name for name in files if PurePosixPath(name).name == member and "__MACOSX" not in name]
    if len(found) != 1:
        has = f"It has {', '.join(names[:10])}" if not found else f"It has {', '.join(found[:10])}"
        raise InputError(f"The archive {path} must have one file {member!r}. {has}.")
    return found[0]


def read_idx(content: bytes, name: str, n_dimensions: int) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes: MNIST's format."""
    if not content:
        raise InputError(f"The file {name} is empty.")
    size = 4 + 4 * n_dimensions
    magic = content[:4].hex()
    wanted = bytes([0, 0, IDX_UNSIGNED_BYTE, n_dimensions]).hex()
    if magic != wanted:
        raise InputError(
            f"The file {name} is no idx file of {n_dimensions} dimensions: magic number {magic}, not {wanted}."
        )
    if len(content) < size:
        raise InputError(f"The file {name} is cut off: it ends in its header, at byte {len(content)}.")
    shape = struct.unpack(f">{n_dimensions}I", content[4:size])
    values = np.frombuffer(content, np.uint8, offset=size)
    if len(values) != prod(shape):
        raise InputError(f"The file {name} must hold {shape} values by its header. Got {len(values)}.")
    return values.reshape(shape)


def read_libsvm(content: bytes, name: str, n_features: int) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Read LIBSVM's text format, `label index:value ...` with indices from 1, into a dense array and labels."""
    from sklearn.datasets import load_svmlight_file

    _refuse_empty(content, name)
    try:
        X, y = load_svmlight_file(io.BytesIO(content), n_features=n_features, dtype=np.float32, zero_based=False)
    except (ValueError, OverflowError) as error:
        raise _libsvm_error(content, name, n_features, error) from error
    data: NDArray[np.float32] = X.toarray()
    if not np.isfinite(data).all() or not np.isfinite(y).all():
        raise _libsvm_error(content, name, n_features, ValueError("a value is not finite"))
    return data, np.asarray(y, dtype=np.float64)


def _libsvm_error(content: bytes, name: str, n_features: int, error: Exception) -> InputError:
    """Find the line that the parser stumbled over."""
    for number, line in enumerate(content.decode("ascii", "replace").split("\n"), start=1):
        last = 0
        for position, token in enumerate(line.split("#")[0].split()):
            index, _, value = token.rpartition(":")
            if not _is_number(value, np.dtype(np.float32)) or (position > 0) != bool(index):
                return InputError(f"{name}, line {number}: {token!r} is not a number, or not 'index:value'.")
            if position == 0:
                continue
            if not index.isdecimal() or not last < int(index) <= n_features:
                return InputError(
                    f"{name}, line {number}: index {index} in {token!r}; indices must rise from 1 to {n_features}."
                )
            last = int(index)
    return InputError(f"The file {name} is not in LIBSVM's format ({error}).")


def read_numbers(
    content: bytes, name: str, n_columns: int, dtype: DTypeLike, delimiter: str | None = ",", header: Sequence[str] = ()
) -> NDArray[Any]:
    """Read lines of numbers; `delimiter` None is any blank space. Where there is a `header`, its names are checked."""
    _refuse_empty(content, name)
    if header:
        _check_header(content, name, header)
    kind = np.dtype(dtype)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # no rows: refused below
            values = np.loadtxt(
                io.BytesIO(content), kind, delimiter=delimiter, skiprows=1 if header else 0, ndmin=2, comments=None
            )
    except (ValueError, OverflowError) as error:
        raise _numbers_error(content, name, n_columns, kind, delimiter, bool(header)) from error
    if values.shape[1] != n_columns or not np.isfinite(values).all() or not len(values):
        raise _numbers_error(content, name, n_columns, kind, delimiter, bool(header))
    return values


def line_of(content: bytes, row: int, header: bool = False) -> int:
    r"""Return the line that a row of numbers stands in; blank lines are no rows.

    >>> line_of(b"1,2\n\n3,4\n", row=1)
    3
    """
    lines = [number for number, line in enumerate(content.split(b"\n"), start=1) if line.strip()]
    return lines[row + header]


def _refuse_empty(content: bytes, name: str) -> None:
    if not content.strip():
        raise InputError(f"The file {name} is empty.")


def _check_header(content: bytes, name: str, header: Sequence[str]) -> None:
    line = content.partition(b"\n")[0].decode("utf-8", "replace").lstrip("\ufeff").strip()
    got = [column.strip().strip('"') for column in line.split(",")]
    missing = [column for column in header if column not in got]
    if missing:
        raise InputError(f"{name}, line 1: column {missing[0]!r} is missing. The file must have {len(header)} columns.")
    if got != list(header):
        raise InputError(f"{name}, line 1: the columns are not in the published order, or there are others among them.")


def _numbers_error(
    content: bytes, name: str, n_columns: int, kind: np.dtype[Any], delimiter: str | None, header: bool
) -> InputError:
    """Find the line that the parser stumbled over."""
    for number, line in enumerate(content.decode("utf-8", "replace").split("\n"), start=1):
        fields = line.strip("\r\n").split(delimiter)
        if (header and number == 1) or not line.strip():
            continue
        if len(fields) != n_columns:
            return InputError(f"{name}, line {number}: {len(fields)} columns where there must be {n_columns}.")
        for column, text in enumerate(fields, start=1):
            if not _is_number(text, kind):
                whole = "a whole number" if kind.kind == "i" else "a number"
                return InputError(
                    f"{name}, line {number}, column {column}: {text!r} is not {whole} within bounds ({kind})."
                )
    return InputError(f"The file {name} cannot be read as lines of {n_columns} numbers.")


def _is_number(text: str, kind: np.dtype[Any]) -> bool:
    """Tell whether a text is a finite number that fits a type."""
    try:
        value = (int if kind.kind == "i" else float)(text)
    except ValueError:
        return False
    bounds = np.iinfo(kind) if kind.kind == "i" else np.finfo(kind)
    return "_" not in text and bool(bounds.min <= value <= bounds.max)


class _ArraysOnly(pickle.Unpickler):
    """Admits arrays, bytes, lists and dicts (and the numbers and texts in them) alone.

    A pickle calls what it names, and sets attributes of what it has made. It is given nothing of numpy's and no function
    of ours, only fresh objects of three small classes that check what they are told.
    """

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in (("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")):
            return _Maker(_PickledArray)
        if (module, name) == ("numpy", "dtype"):
            return _Maker(_PickledType)
        if (module, name) == ("numpy", "ndarray"):
            return "numpy.ndarray"  # a mere word: an argument of _reconstruct, never called
        if (module, name) == ("_codecs", "encode"):  # how Python 3 writes bytes in the old protocol
            return _Maker(_latin1)
        raise pickle.UnpicklingError(
            f"it asks for {module}.{name}, and only arrays, bytes, lists and dicts are admitted"
        )


class _Maker:
    """What a pickle may call; it has no attributes to change."""

    __slots__ = ("__make",)

    def __init__(self, make: Any) -> None:
        self.__make = make

    def __call__(self, *arguments: Any) -> Any:
        return self.__make(*arguments)

    def __setstate__(self, _: Any) -> None:
        raise pickle.UnpicklingError("it changes what it calls")


class _PickledType:
    """A type of numbers: bytes alone."""

    __slots__ = ()

    def __init__(self, code: Any, *_: Any) -> None:
        text = code.decode("ascii", "replace") if isinstance(code, bytes) else code
        if text != "u1":
            raise pickle.UnpicklingError(f"it has an array of type {text!r:.20}, and only bytes are admitted")

    def __setstate__(self, _: Any) -> None:
        """Byte order and the like, which bytes do not have."""


class _PickledArray:
    """An array of bytes, once its state is there."""

    __slots__ = ("values",)

    def __init__(self, *_: Any) -> None:
        self.values: NDArray[np.uint8] | None = None

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise pickle.UnpicklingError("it makes an array in an unusual way")
        _, shape, kind, fortran, content = state
        plain = isinstance(kind, _PickledType) and isinstance(content, bytes) and isinstance(shape, tuple)
        if not plain or not all(type(side) is int and side >= 0 for side in shape) or prod(shape) != len(content):
            raise pickle.UnpicklingError("it makes an array in an unusual way")
        self.values = np.frombuffer(content, np.uint8).reshape(shape, order="F" if fortran else "C").copy()


def _latin1(text: Any, encoding: Any = "latin1") -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError("it encodes text in an unusual way")
    return text.encode("latin1")


def read_cifar_batch(content: bytes, name: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read a batch of CIFAR-10's python version: images, one per row, and labels."""
    try:
        batch = _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
    except Exception as error:  # a hostile pickle may raise anything
        raise InputError(f"The file {name} is refused as a CIFAR batch: {error}.") from error
    if not isinstance(batch, dict):
        raise InputError(f"The file {name} must hold a dict of data and labels. Got {type(batch).__name__}.")
    images, labels = (batch.get(key.encode(), batch.get(key)) for key in ("data", "labels"))
    images = images.values if isinstance(images, _PickledArray) else None
    if images is None or images.ndim != 2 or images.shape[1] != 3072:
        raise InputError(
            f"The file {name} must hold 'data', rows of 3,072 bytes. Got {getattr(images, 'shape', 'none')}."
        )
    if (
        not isinstance(labels, list)
        or len(labels) != len(images)
        or not all(type(label) is int and 0 <= label < 10 for label in labels)
    ):
        raise InputError(f"The file {name} must hold 'labels', a number 0 to 9 for each of {len(images)} images.")
    return images, np.array(labels, dtype=np.int64)
