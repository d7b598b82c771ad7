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
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fedonce.errors import InputError

IDX_UNSIGNED_BYTE = 0x08  # third byte of the magic number; the fourth is the number of dimensions
_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError)


def read_bytes(path: Path, member: str | None = None) -> bytes:
    """Return a file's content, unpacked by its ending; of an archive the content of one member, by its last name."""
    try:
        if path.name.endswith(".zip"):
            return _read_zip(path, member or "")
        if path.name.endswith(".tar.gz"):
            return _read_tar(path, member or "")
        opener: Any = _OPENERS.get(path.suffix, open)
        with opener(path, "rb") as file:
            content: bytes = file.read()
            return content
    except _BROKEN as error:
        raise InputError(f"The file {path} cannot be read: it is damaged or cut off ({error}).") from error


def _read_zip(path: Path, member: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        return archive.read(_pick(names, member, path))


def _read_tar(path: Path, member: str) -> bytes:
    with tarfile.open(path, "r:gz") as archive:
        entry = archive.getmember(_pick(archive.getnames(), member, path))
        stream = archive.extractfile(entry) if entry.isreg() else None  # a link may lead out of the archive
        if stream is None:
            raise InputError(f"The archive {path} is refused: {member!r} is not a plain file in it.")
        return stream.read()


def _pick(names: Sequence[str], member: str, path: Path) -> str:
    """Choose a member by its last name; an archive that reaches out of its folder is refused whole."""
    for name in names:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or "\\" in name or ":" in name:
            raise InputError(f"The archive {path} is refused: its member {name!r} has a path that escapes the archive.")
    found = [name for name in names if PurePosixPath(name).name == member and "__MACOSX" not in name]
    if not found:
        raise InputError(f"The archive {path} has no member {member!r}. It has {', '.join(names[:10])}.")
    return found[0]


def read_idx(content: bytes, name: str, n_dimensions: int) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes: MNIST's format."""
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
    if len(values) != int(np.prod(shape, dtype=object)):
        raise InputError(f"The file {name} must hold {shape} values by its header. Got {len(values)}.")
    return values.reshape(shape)


def read_libsvm(content: bytes, name: str, n_features: int) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Read LIBSVM's text format, `label index:value ...` with indices from 1, into a dense array and labels."""
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(io.BytesIO(content), n_features=n_features, dtype=np.float32, zero_based=False)
    except ValueError as error:
        raise _libsvm_error(content, name, n_features, error) from error
    data: NDArray[np.float32] = X.toarray()
    if not np.isfinite(data).all() or not np.isfinite(y).all():
        raise _libsvm_error(content, name, n_features, ValueError("a value is not finite"))
    return data, np.asarray(y, dtype=np.float64)


def _libsvm_error(content: bytes, name: str, n_features: int, error: ValueError) -> InputError:
    """Find the line that the parser stumbled over."""
    for number, line in enumerate(content.decode("ascii", "replace").splitlines(), start=1):
        last = 0
        for position, token in enumerate(line.split("#")[0].split()):
            index, _, value = token.rpartition(":")
            if not _is_number(value) or (position > 0) != bool(index):
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
    if header:
        _check_header(content, name, header)
    try:
        values = np.loadtxt(
            io.BytesIO(content), dtype, delimiter=delimiter, skiprows=1 if header else 0, ndmin=2, comments=None
        )
    except ValueError as error:
        raise _numbers_error(content, name, n_columns, delimiter, bool(header), error) from error
    if values.shape[1] != n_columns or not np.isfinite(values).all():
        wrong = ValueError(f"{values.shape[1]} columns")
        raise _numbers_error(content, name, n_columns, delimiter, bool(header), wrong)
    return values


def _check_header(content: bytes, name: str, header: Sequence[str]) -> None:
    line = content[: content.find(b"\n")].decode("utf-8", "replace").lstrip("\ufeff").strip()
    got = [column.strip().strip('"') for column in line.split(",")]
    missing = [column for column in header if column not in got]
    if missing:
        raise InputError(f"{name}, line 1: column {missing[0]!r} is missing. The file must have {len(header)} columns.")
    if got != list(header):
        raise InputError(f"{name}, line 1: the columns are not in the published order, or there are others among them.")


def _numbers_error(
    content: bytes, name: str, n_columns: int, delimiter: str | None, header: bool, error: ValueError
) -> InputError:
    """Find the line that the parser stumbled over."""
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), start=1):
        fields = line.split(delimiter)
        if (header and number == 1) or not line.strip():
            continue
        if len(fields) != n_columns:
            return InputError(f"{name}, line {number}: {len(fields)} columns where there must be {n_columns}.")
        for column, text in enumerate(fields, start=1):
            if not _is_number(text):
                return InputError(f"{name}, line {number}, column {column}: {text!r} is not a number.")
    return InputError(f"The file {name} cannot be read as {n_columns} columns of numbers ({error}).")


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


class _ArraysOnly(pickle.Unpickler):
    """Admits arrays, bytes, lists and dicts (and the numbers and texts in them) alone: no other name is looked up."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in (("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")):
            return _empty_array
        if (module, name) == ("numpy", "ndarray"):
            return np.ndarray
        if (module, name) == ("numpy", "dtype"):
            return _plain_dtype
        if (module, name) == ("_codecs", "encode"):  # how Python 3 writes bytes in the old protocol
            return _latin1
        raise pickle.UnpicklingError(
            f"it asks for {module}.{name}, and only arrays, bytes, lists and dicts are admitted"
        )


def _empty_array(kind: Any, shape: Any, dtype: Any) -> NDArray[Any]:
    """Stand in for numpy's own function, for plain arrays only; the pickle then fills the array in."""
    if kind is not np.ndarray or shape != (0,) or dtype not in (b"b", "b"):
        raise pickle.UnpicklingError("it makes an array in an unusual way")
    return np.ndarray.__new__(np.ndarray, (0,), "b")


def _plain_dtype(code: Any, *_: Any) -> np.dtype[Any]:
    text = code.decode("ascii") if isinstance(code, bytes) else str(code)
    if text not in ("u1", "i8"):
        raise pickle.UnpicklingError(f"it has an array of type {text!r}, and only bytes and integers are admitted")
    return np.dtype(text)


def _latin1(text: str, encoding: str = "latin1") -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError("it encodes text in an unusual way")
    return text.encode("latin1")


def read_cifar_batch(content: bytes, name: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read a batch of CIFAR-10's python version: images, a row each, and labels."""
    try:
        batch = _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
    except Exception as error:  # a hostile pickle may raise anything
        raise InputError(f"The file {name} is refused as a CIFAR batch: {error}.") from error
    if not isinstance(batch, dict):
        raise InputError(f"The file {name} must hold a dict of data and labels. Got {type(batch).__name__}.")
    images, labels = (batch.get(key.encode(), batch.get(key)) for key in ("data", "labels"))
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.ndim != 2 or images.shape[1] != 3072:
        raise InputError(
            f"The file {name} must hold 'data', rows of 3,072 bytes. Got {getattr(images, 'shape', images)!r:.100}."
        )
    if (
        not isinstance(labels, list)
        or len(labels) != len(images)
        or not all(type(label) is int and 0 <= label < 10 for label in labels)
    ):
        raise InputError(f"The file {name} must hold 'labels', a number 0 to 9 for each of {len(images)} images.")
    return images, np.array(labels, dtype=np.int64)
