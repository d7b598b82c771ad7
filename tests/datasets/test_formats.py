from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import pickle
import struct
import tarfile
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedonce import InputError
from fedonce.datasets import formats
from fedonce.datasets.formats import read_bytes, read_cifar_batch, read_idx, read_libsvm, read_numbers


def idx(values):
    """Write MNIST's format."""
    return bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


def archive(path, members):
    """Write a zip or a tar.gz archive by its ending."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as file:
            for name, content in members.items():
                file.writestr(name, content)
        return path
    with tarfile.open(path, "w:gz") as file:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            file.addfile(entry, io.BytesIO(content))
    return path


@pytest.mark.parametrize(
    ("ending", "pack"), [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
)
def test_files_are_unpacked_by_their_ending(tmp_path, ending, pack):
    path = tmp_path / f"table{ending}"
    path.write_bytes(pack(b"content"))
    assert read_bytes(path) == b"content"


@pytest.mark.parametrize("ending", [".zip", ".tar.gz"])
def test_a_member_is_found_in_any_folder_of_an_archive(tmp_path, ending):
    path = archive(tmp_path / f"a{ending}", {"folder/other": b"x", "folder/table.csv": b"content"})
    assert read_bytes(path, "table.csv") == b"content"
    with pytest.raises(InputError, match="must have one file 'none.csv'. It has folder/other"):
        read_bytes(path, "none.csv")


@pytest.mark.parametrize("ending", [".zip", ".tar.gz"])
@pytest.mark.parametrize(
    "name", ["../table.csv", "/etc/table.csv", "a/../../table.csv", "..\\table.csv", "C:table.csv"]
)
def test_an_archive_with_a_path_that_escapes_is_refused(tmp_path, ending, name):
    path = archive(tmp_path / f"a{ending}", {"table.csv": b"fine", name: b"not fine"})
    with pytest.raises(InputError, match="has a path that escapes"):
        read_bytes(path, "table.csv")
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name]


def test_a_link_in_an_archive_is_not_followed(tmp_path):
    (tmp_path / "secret").write_text("secret")
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as file:
        entry = tarfile.TarInfo("table.csv")
        entry.type, entry.linkname = tarfile.SYMTYPE, str(tmp_path / "secret")
        file.addfile(entry)
    with pytest.raises(InputError, match="a.tar.gz must have one file 'table.csv'"):
        read_bytes(path, "table.csv")


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)])
def test_a_cut_off_file_is_refused_by_name(tmp_path, ending, pack):
    path = tmp_path / f"table{ending}"
    path.write_bytes(pack(os.urandom(1000))[:-20])
    with pytest.raises(InputError, match=f"table{ending} cannot be read: it is damaged or cut off"):
        read_bytes(path)


@pytest.mark.parametrize("ending", [".zip", ".tar.gz"])
def test_a_cut_off_archive_is_refused_by_name(tmp_path, ending):
    path = archive(tmp_path / f"a{ending}", {"table.csv": os.urandom(3000)})
    path.write_bytes(path.read_bytes()[:-1500])
    with pytest.raises(InputError, match=f"a{ending} cannot be read"):
        read_bytes(path, "table.csv")


def test_a_folder_is_no_file_and_two_files_are_one_too_many(tmp_path):
    path = archive(tmp_path / "a.zip", {"t.csv/": b"", "folder/t.csv": b"content"})
    assert read_bytes(path, "t.csv") == b"content"
    archive(path, {"one/t.csv": b"1", "two/t.csv": b"2"})
    with pytest.raises(InputError, match="must have one file 't.csv'. It has one/t.csv, two/t.csv"):
        read_bytes(path, "t.csv")


def test_what_unpacks_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "LARGEST", 1000)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(1001)))
    with pytest.raises(InputError, match="bomb.gz is refused: unpacked it has more than 1,000 bytes"):
        read_bytes(path)
    archive(tmp_path / "bomb.zip", {"t.csv": bytes(1001)})
    with pytest.raises(InputError, match="bomb.zip is refused"):
        read_bytes(tmp_path / "bomb.zip", "t.csv")


def test_a_zip_packed_in_an_unknown_way(tmp_path):
    path = archive(tmp_path / "a.zip", {"t.csv": b"content"})
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 10] = 77  # the compression method
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match="a.zip cannot be read"):
        read_bytes(path, "t.csv")


@given(arrays(np.uint8, st.tuples(st.integers(0, 4), st.integers(1, 3), st.integers(1, 3))))
def test_idx_round_trip(values):
    np.testing.assert_array_equal(read_idx(idx(values), "images", 3), values)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "images is empty"),
        (b"\0\0\x0d\x03" + bytes(12), "images is no idx file of 3 dimensions: magic number 00000d03, not 00000803"),
        (idx(np.zeros(3, np.uint8)), "magic number 00000801"),
        (b"\0\0\x08\x03\0\0", "cut off: it ends in its header"),
        (idx(np.zeros((2, 2, 2), np.uint8))[:-1], r"must hold \(2, 2, 2\) values by its header. Got 7"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "Got 0"),
    ],
)
def test_wrong_idx_files(content, message):
    with pytest.raises(InputError, match=message):
        read_idx(content, "images", 3)


def test_libsvm():
    X, y = read_libsvm(b"1 1:0.5 3:2\n-1 2:1 # a remark\n+1\n", "table", 3)
    np.testing.assert_array_equal(X, [[0.5, 0, 2], [0, 1, 0], [0, 0, 0]])
    np.testing.assert_array_equal(y, [1, -1, 1])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1 1:1\n1 0:1 2:3\n", "table, line 2: index 0 in '0:1'; indices must rise from 1 to 3"),
        (b"1 1:1\n1 4:1\n", "table, line 2: index 4"),
        (b"1 2:1 1:1\n", "table, line 1: index 1"),
        (b"1 1:1\n1 2:x\n", "table, line 2: '2:x' is not a number"),
        (b"1 1:1\none 2:1\n", "table, line 2: 'one' is not a number"),
        (b"1 1:1\n1 2\n", "table, line 2: '2' is not a number, or not 'index:value'"),
        (b"1 1:1\n1 2:nan\n", "table, line 2: '2:nan'"),
        (b"1 1:1\n1 -1:2\n", "table, line 2: index -1"),
        (b"1 1:1\n1 2147483648:1\n", "table, line 2: index 2147483648"),
        (b" \n", "table is empty"),
    ],
)
def test_wrong_libsvm_lines(content, message):
    with pytest.raises(InputError, match=message):
        read_libsvm(content, "table", 3)


def test_numbers():
    np.testing.assert_array_equal(read_numbers(b"1,2\n\n3,4\n", "t", 2, np.int16), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(read_numbers(b"1  2 \n3 4\t\n", "t", 2, np.float32, delimiter=None), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(read_numbers(b'"a",b\r\n1,2\r\n', "t", 2, float, header=("a", "b")), [[1, 2]])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\n1\n", "t.csv, line 1: column 'b' is missing. The file must have 2 columns"),
        (b"b,a\n1,2\n", "t.csv, line 1: the columns are not in the published order"),
        (b"a,b\n1,2\n3,many\n", "t.csv, line 3, column 2: 'many' is not a number"),
        (b"a,b\n1,2\n3\n", "t.csv, line 3: 1 columns where there must be 2"),
        (b"a,b\n1,2,3\n", "t.csv, line 2: 3 columns where there must be 2"),
        (b"a,b\n1,2\n\n3,nan\n", "t.csv, line 4, column 2: 'nan' is not a number"),
        (b"a,b\n1,\n", "t.csv, line 2, column 2: '' is not a number"),
        (b"a,b\n1,1_0\n", "t.csv, line 2, column 2: '1_0' is not a number"),
        (b"a,b\n1,1e999\n", "t.csv, line 2, column 2: '1e999' is not a number within bounds .float64."),
        (b"a,b", "t.csv cannot be read as lines of 2 numbers"),
        (b"", "t.csv is empty"),
    ],
)
def test_wrong_lines_of_numbers(content, message):
    with pytest.raises(InputError, match=message):
        read_numbers(content, "t.csv", 2, np.float64, header=("a", "b"))


def test_a_number_that_does_not_fit_its_column():
    with pytest.raises(
        InputError, match=r"t.csv, line 3, column 1: '40000' is not a whole number within bounds \(int16\)"
    ):
        read_numbers(b"1\n\n40000\n", "t.csv", 1, np.int16)
    with pytest.raises(InputError, match=r"line 2, column 1: '2.5' is not a whole number"):
        read_numbers(b"1\n2.5\n", "t.csv", 1, np.int16)


def batch(**changes):
    images = np.arange(2 * 3072, dtype=np.uint8).reshape(2, 3072)
    return {b"data": images, b"labels": [3, 9], b"batch_label": b"one", b"filenames": [b"a", b"b"]} | changes


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_cifar_batches_of_old_protocols(protocol):
    images, labels = read_cifar_batch(pickle.dumps(batch(), protocol), "data_batch_1")
    np.testing.assert_array_equal(images, batch()[b"data"])
    np.testing.assert_array_equal(labels, [3, 9])


class Evil:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


def test_a_pickle_that_runs_code_is_refused(tmp_path):
    content = pickle.dumps(batch() | {b"more": Evil(tmp_path / "ran")})
    with pytest.raises(InputError, match=r"data_batch_1 is refused as a CIFAR batch: it asks for (posix|nt)\.system"):
        read_cifar_batch(content, "data_batch_1")
    assert not (tmp_path / "ran").exists()


def pickled(*opcodes):
    return b"\x80\x02" + b"".join(opcodes) + b"."


NDARRAY, DTYPE, ENCODE = b"cnumpy\nndarray\n", b"cnumpy\ndtype\n", b"c_codecs\nencode\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickled(NDARRAY, b"K\x02M\x00\x0c\x86\x85R"), "not callable"),  # memory that nobody has written
        (pickled(NDARRAY, b"K\x03\x85\x81"), "NEWOBJ"),
        (pickled(ENCODE, b"N}U\x0c__defaults__U\x05utf16\x85s\x86b"), "changes what it calls"),
        (pickled(DTYPE, b"U\x02O8K\x00K\x01\x87R"), "type 'O8'"),
        (pickled(b"cnumpy.core.multiarray\n_reconstruct\n", NDARRAY, b"K\x00\x85U\x01b\x87RK\x07b"), "unusual way"),
    ],
)
def test_a_pickle_gets_nothing_of_numpy_to_play_with(content, message):
    with pytest.raises(InputError, match=message):
        read_cifar_batch(content, "data_batch_1")


@pytest.mark.parametrize("length", [2 * 3072 - 1, 2 * 3072 + 1])
def test_an_array_has_as_many_bytes_as_its_shape_says(length):
    content = pickle.dumps(batch(), 4).replace(batch()[b"data"].tobytes(), bytes(length))
    with pytest.raises(InputError, match="refused as a CIFAR batch"):
        read_cifar_batch(content, "data_batch_1")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.array([print], dtype=object), "asks for builtins.print|type 'O8'"),
        (np.array(["x"], dtype=object), "type 'O8'"),
        (np.float64(1.0), "asks for numpy"),
        (np.zeros(2), "type 'f8'"),
        ({1, 2}, "asks for builtins.set|asks for __builtin__.set"),
    ],
)
def test_only_plain_arrays_are_admitted(value, message):
    with pytest.raises(InputError, match=message):
        read_cifar_batch(pickle.dumps(batch() | {b"more": value}, 2), "data_batch_1")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "refused as a CIFAR batch"),
        (pickle.dumps(batch())[:-100], "refused as a CIFAR batch"),
        (pickle.dumps([1, 2]), "must hold a dict"),
        (pickle.dumps({b"labels": [1]}), "must hold 'data'"),
        (pickle.dumps(batch(**{}) | {b"data": np.zeros((2, 5), np.uint8)}), "rows of 3,072 bytes"),
        (pickle.dumps(batch() | {b"labels": [3]}), "for each of 2 images"),
        (pickle.dumps(batch() | {b"labels": [3, 10]}), "a number 0 to 9"),
        (pickle.dumps(batch() | {b"labels": [3, b"x"]}), "a number 0 to 9"),
    ],
)
def test_wrong_cifar_batches(content, message):
    with pytest.raises(InputError, match=message):
        read_cifar_batch(content, "data_batch_1")
