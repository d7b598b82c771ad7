from __future__ import annotations

import datetime
import gzip
import os
from contextlib import nullcontext
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from fedonce import InputError
from fedonce.data.files import check_ending, read_table, sources, write_table
from fedonce.data.schema import Reading
from fedonce.data.table import Table
from fedonce.errors import FedOnceWarning
from fedonce.jobs import TableSource

TEXT = "id,age,city,member,since,spent\n007,31,Ulm,true,2024-01-31,1.5\n8 ,45,,False,,NA\nx,27,Ulm,TRUE,2020-02-29 12:00,-2e3\n"


@pytest.fixture
def file(tmp_path):
    def make(content, name="shop.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return make


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(sources, "BLOCK_BYTES", 64)
    monkeypatch.setattr(sources, "BLOCK_ROWS", 3)


def columns_of(table):
    return dict(zip(table.names, [column.tolist() for column in table.columns], strict=True))


def stored(path, data):
    table = data if isinstance(data, pa.Table) else pa.table(data)
    pq.write_table(table, path) if path.suffix == ".parquet" else pa.feather.write_feather(table, str(path))
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("shop.csv", TEXT.encode()),
        ("shop.csv", b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode()),
        ("SHOP.CSV.GZ", gzip.compress(TEXT.encode())),
        ("shop.tsv", TEXT.replace(",", "\t").encode()),
        ("shop.txt", TEXT.replace(",", "\t").encode()),
        ("shop.txt.gz", gzip.compress(TEXT.encode())),
    ],
)
def test_text_of_every_kind(file, name, content):
    table = read_table(file(content, name), id="id")
    assert table.ids.tolist() == ["007", "8 ", "x"]
    assert table.kinds == {"age": "number", "city": "category", "member": "boolean", "since": "date", "spent": "number"}
    assert columns_of(table) == {
        "age": [31, 45, 27],
        "city": ["Ulm", None, "Ulm"],
        "member": [True, False, True],
        "since": [datetime.datetime(2024, 1, 31), None, datetime.datetime(2020, 2, 29, 12)],
        "spent": pytest.approx([1.5, np.nan, -2000], nan_ok=True),
    }
    assert [column.dtype.kind for column in table.columns] == list("iObMf")
    assert table.columns[1][0] is table.columns[1][2]


@pytest.mark.parametrize("name", ["shop.parquet", "shop.feather", "shop.arrow"])
@pytest.mark.usefixtures("small_chunks")
def test_typed_files_keep_their_types(tmp_path, name):
    day = datetime.datetime(2024, 1, 31, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    data = pa.table(
        {
            "id": [5, 0, 7, 1],
            "whole": pa.array([1, 2, 3, None], pa.int32()),
            "later": [None, 2, 3, 4],
            "small": pa.array([1, 2, 3, 4], pa.float32()),
            "price": [Decimal("1.50"), None, Decimal("2.00"), Decimal("0.25")],
            "yes": [True, False, True, None],
            "zoned": pa.array([day, None, day, day], pa.timestamp("ns", "Europe/Rome")),
            "city": pa.array(["Ulm", None, "", "Ulm"]).dictionary_encode(),
            "name": ["NA", "b", None, "NA"],
            "lasted": pa.array([1500, None, 2000, 0], pa.duration("ms")),
            "clock": pa.array([61, None, 0, 1], pa.time32("s")),
            "nothing": pa.nulls(4),
        }
    )
    path = stored(tmp_path / name, data)
    table = read_table(path, id="id")
    assert table.ids.tolist() == ["5", "0", "7", "1"]
    day = datetime.datetime(2024, 1, 30, 23)
    nan = np.nan
    for values, wanted in zip(
        columns_of(table).values(),
        [
            [1, 2, 3, nan],
            [nan, 2, 3, 4],
            [1, 2, 3, 4],
            [1.5, nan, 2, 0.25],
            [1, 0, 1, nan],
            [day, None, day, day],
            ["Ulm", None, "", "Ulm"],
            ["NA", "b", None, "NA"],
            [1.5, nan, 2, 0],
            [61, nan, 0, 1],
            [nan] * 4,
        ],
        strict=True,
    ):
        assert values == (pytest.approx(wanted, nan_ok=True) if isinstance(wanted[0], int | float) else wanted)
    assert table.columns[2].dtype == np.float32
    assert table.kinds["yes"] == "boolean"


def test_the_stream_format_of_arrow(tmp_path):
    data = pa.table({"a": [1, 2], "b": ["x", "y"]})
    with pa.OSFile(str(tmp_path / "s.arrow"), "wb") as opened, pa.ipc.new_stream(opened, data.schema) as writer:
        writer.write_table(data)
    assert columns_of(read_table(tmp_path / "s.arrow", columns=["b", "a"])) == {"b": ["x", "y"], "a": [1, 2]}


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(
    ("last", "kind"),
    [
        ("3", "number"),
        ("3.5", "number"),
        ("", "number"),
        ("x", "category"),
        ("true", "category"),
        ("2024-01-01", "category"),
    ],
)
def test_types_do_not_depend_on_where_chunks_end(file, last, kind):
    path = file("a,b\n" + "1,0\n" * 500 + f"{last},0\n")
    with (
        nullcontext() if kind == "number" else pytest.warns(FedOnceWarning, match=f"500 of 501 .* row 501 is '{last}'")
    ):
        table = read_table(path)
    assert table.kinds == {"a": kind, "b": "number"}
    assert table.columns[0].dtype.kind == {"3": "i", "3.5": "f", "": "f"}.get(last, "O")
    assert table.columns[0][0] == ("1" if kind == "category" else 1)
    assert len(table.columns[0]) == 501


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(
    ("first", "kind"), [("7", "number"), ("true", "boolean"), ("2024-01-01", "date"), ("x", "category"), ("", "number")]
)
def test_a_column_that_begins_empty(file, first, kind):
    table = read_table(file("a,b\n" + ",0\n" * 100 + f"{first},0\n,0\n"))
    assert table.kinds["a"] == kind
    values = table.columns[0]
    assert len(values) == 102
    assert (
        Table.of(table).take(np.array([0, 101])).columns[0].astype(str).tolist()
        == [{"date": "NaT", "category": "None"}.get(kind, "nan")] * 2
    )
    assert str(values[100])[:4] == {"7": "7.0", "true": "1.0", "": "nan"}.get(first, first[:4])


@pytest.mark.usefixtures("small_chunks")
def test_quotes_and_new_lines_in_them(file):
    path = file('a,"b, c"\n' + '1,"x, ""y""\nz\n\n"\n' * 40)
    assert columns_of(read_table(path)) == {"a": [1] * 40, "b, c": ['x, "y"\nz\n\n'] * 40}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2024-01-01T10:00:00Z", "2024-01-01T10:00"),
        ("2024-01-01 10:00:00+02:00", "2024-01-01T08:00"),
        (" 2024-01-01 ", "2024-01-01T00:00"),
        ("2024-01-01T10:00:00.123456789", "2024-01-01T10:00:00.123456"),
    ],
)
def test_forms_of_dates(file, text, wanted):
    dates = read_table(file(f"a,b\n{text},1\n1999-12-31,1\n")).columns[0]
    assert dates.tolist() == [np.datetime64(wanted, "us").item(), datetime.datetime(1999, 12, 31)]


def test_columns_in_the_order_asked_for(file):
    path = file(TEXT)
    table = read_table(path, id="id", columns=["spent", "label", "age"], optional=["label"], types={"label": "number"})
    assert table.names == ("spent", "age")
    assert read_table(path, columns=["id", "age"]).names == ("id", "age")
    assert read_table(path, id="id", columns=[]).n_rows == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"columns": ["agee"]},
            r"shop.csv \(party 'bank'\) has no column 'agee'; did you mean 'age'\? It has 'id', 'age'",
        ),
        ({"id": "idd"}, "has no id column 'idd'; did you mean 'id'"),
        ({"id": "id", "columns": ["id"]}, "'columns' parameter of read_table must be different columns"),
        ({"columns": ["age", "age"]}, "'columns' parameter"),
        ({"columns": "age"}, "a list of names. Got 'age'"),
        ({"types": {"age": "float"}}, "'age' of .*type 'float' .types.*one of number, category, boolean, date."),
        ({"types": {"agee": "number"}}, "no column 'agee' to give a type .types.*did you mean 'age'"),
        ({"types": {"city": "number"}}, "Column 'city' of .*shop.csv .* has 'Ulm' in row 1, and must hold numbers"),
        ({"types": {"age": "boolean"}}, "has '31' in row 1, and must hold booleans"),
        ({"types": {"spent": "date"}}, "has '1.5' in row 1, and must hold dates"),
        ({"id": "city"}, "id column 'city' of .* has no id in 1 of 3 rows, first in row 2; give every row an id"),
    ],
)
def test_what_the_file_has_not(file, options, message):
    with pytest.raises(InputError, match=message):
        read_table(file(TEXT), party="bank", **options)


@pytest.mark.usefixtures("small_chunks")
def test_a_value_that_does_not_fit_is_found(file):
    path = file("a,b\n" + "1,0\n" * 300 + "1;5,0\n" + "2,0\n" * 50)
    with pytest.raises(InputError, match="Column 'a' of .* has '1;5' in row 301"):
        read_table(path, types={"a": "number"})


def test_a_category_reads_any_type_as_text(file, tmp_path):
    types = dict.fromkeys("abcd", "category")
    assert columns_of(read_table(file("a,b\n01,1.0\nNA,x\n"), types=dict.fromkeys("ab", "category"))) == {
        "a": ["01", None],
        "b": ["1.0", "x"],
    }
    data = {"a": [3, None], "b": [2.0, 2.5], "c": [True, False], "d": [datetime.date(2024, 1, 1), None]}
    wanted = {"a": ["3", None], "b": ["2", "2.5"], "c": ["1", "0"], "d": ["2024-01-01", None]}
    assert columns_of(read_table(stored(tmp_path / "a.parquet", data), types=types)) == wanted


def test_kinds_of_training_hold_at_prediction(file, tmp_path):
    train = read_table(file(TEXT), id="id")
    later = "id,age,city,member,since,spent\n1,2.5,5,,,3\n"
    assert read_table(file(later), id="id", types=train.kinds).kinds == train.kinds
    path = stored(tmp_path / "a.parquet", {"a": ["1.5", None], "b": ["TRUE", "false"], "c": ["2024-01-01", None]})
    table = read_table(path, types={"a": "number", "b": "boolean", "c": "date"})
    assert [column.dtype.kind for column in table.columns] == list("fbM")
    assert read_table(stored(tmp_path / "b.parquet", {"a": [True]}), types={"a": "number"}).n_rows == 1
    with pytest.raises(InputError, match="Column 'a' of .* has type int64, and must hold dates .*convert the column"):
        read_table(stored(tmp_path / "c.parquet", {"a": [1]}), types={"a": "date"})


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", "b", "a", "b", "a"], "has an id more than once, in 3 of 5 rows, first 'a' in row 3; keep one row an id"),
        (["a", None, ""], "no id in 2 of 3 rows, first in row 2"),
        ([1.0, 2.0], "has type double; store ids as integers or text"),
        ([True, False], "has type bool"),
    ],
)
def test_ids_that_name_nobody_or_two(tmp_path, ids, message):
    with pytest.raises(InputError, match=message):
        read_table(stored(tmp_path / "a.parquet", {"key": ids}), id="key")


def test_ids_stay_as_they_are(file, tmp_path):
    assert read_table(file("k,a\nNA,1\nnull,2\n1e5, 3\n"), id="k").ids.tolist() == ["NA", "null", "1e5"]
    data = {"k": pa.array([" x", "y "]).dictionary_encode(), "a": [1, 2]}
    assert read_table(stored(tmp_path / "a.feather", data), id="k").ids.tolist() == [" x", "y "]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty, or its first line is"),
        ("\n1,2\n", "is empty, or its first line is"),
        ("a,b\n", "has no rows"),
        ("a,a\n1,2\n", "has 2 columns 'a'; rename"),
        ("a,,b\n1,2,3\n", "Column 2 of .* has no name in the first line"),
        ("1.5,3\n2,4\n", r"first line of .* holds numbers \(1.5, 3\); add a line"),
        ("a;b\n1;2\n", "is one column, 'a;b'; separate columns by commas"),
        ("a,b\n1,2\n3\n", "Line 3 of .*shop.csv has 1 values, and the first line names 2 columns"),
        ('a,b\n"1\n1",2\n3,4,5\n', "Line 4 of .* has 3 values"),
        ('a,b\n1,"x\n2,y\n', "has a quote that nothing closes, before 'x"),
        ("a,b\nZürich,1\n".encode("latin-1"), "is not text in UTF-8; save"),
        ("ä,b\n1,1\n".encode("latin-1"), "is not text in UTF-8; save"),
        ("a,b\n1,1\n".encode("utf-16"), "is not text in UTF-8; save"),
        (b"\x00" * 3_000_000, "shop.csv"),
    ],
)
def test_files_that_are_no_tables(file, content, message):
    with pytest.raises(InputError, match=message):
        read_table(file(content))


def test_positions_are_names(file):
    assert read_table(file("0,1\n5,6\n")).names == ("0", "1")


@pytest.mark.parametrize("name", ["shop.parquet", "shop.feather"])
def test_damaged_files(tmp_path, file, name):
    whole = stored(tmp_path / name, {"a": np.arange(5000) * 0.1, "b": [f"v{j}" for j in range(5000)]}).read_bytes()
    for content in (b"", b"a,b\n1,2\n", whole[: len(whole) // 2], whole[:-1], b"x" * 2000 + whole[2000:]):
        with pytest.raises(InputError, match=f"{name}.* is damaged, cut short, or not what its ending says"):
            read_table(file(content, name), columns=["a", "b"])
    with pytest.raises(InputError, match="has no rows"):
        read_table(stored(tmp_path / name, {"a": pa.array([], pa.int64())}))


@pytest.mark.parametrize("name", ["a.csv.gz", "a.parquet", "a.feather"])
def test_flipped_bits_give_a_table_or_a_clear_error(tmp_path, name, rng):
    columns = {"id": np.array([f"k{j}" for j in range(200)], dtype=object), "a": rng.normal(size=200)}
    path = write_table(tmp_path / name, columns)
    whole, refused = path.read_bytes(), 0
    for _ in range(200):
        content = bytearray(whole)
        content[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
        path.write_bytes(content)
        try:
            assert read_table(path, id="id").names
        except InputError as error:
            refused += name in str(error)
    assert refused > 50


def test_a_damaged_gzip(file):
    with pytest.raises(InputError, match="damaged, cut short"):
        read_table(file(b"a,b\n1,2\n", "a.csv.gz"))
    with pytest.raises(InputError, match=r"a.csv.gz"):
        read_table(file(gzip.compress(os.urandom(1000).hex().encode() * 3)[:-20], "a.csv.gz"))


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.feather"])
def test_files_that_are_not_there(tmp_path, name, monkeypatch):
    with pytest.raises(InputError, match=f"no file .*{name}; check"):
        read_table(tmp_path / name)
    (tmp_path / name).mkdir()
    with pytest.raises(InputError, match=f"{name} is a folder"):
        read_table(tmp_path / name)

    def refuse(*args, **kwargs):
        raise PermissionError

    monkeypatch.setattr("pathlib.Path.open", refuse)
    with pytest.raises(InputError, match=f"{name} may not be read"):
        read_table(tmp_path / name)


def test_types_without_a_meaning(tmp_path):
    path = stored(tmp_path / "a.parquet", {"a": [1], "b": [[1, 2]]})
    for types in ({}, {"b": "category"}):
        with pytest.raises(InputError, match="Column 'b' of .* has type list"):
            read_table(path, types=types)
    assert read_table(path, columns=["a"]).n_rows == 1


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.csv.gz", "out.parquet", "out.feather"])
def test_what_is_written_is_read(tmp_path, name):
    columns = {
        "id": np.array(["01", 'b,\t"c"', "ü"], dtype=object),
        "p": np.array([0.1 + 0.2, np.nan, 1e-300]),
        "f": np.array([0.1, 2, np.nan], np.float32),
        "n": np.array([1, -2, 2**40]),
        "b": np.array([True, False, True]),
        "d": np.array(["2024-01-01T01:02:03.000004", "NaT", "1960-01-01"], "datetime64[us]"),
        "c": np.array(["x", None, "y"], dtype=object),
    }
    assert write_table(tmp_path / name, columns) == tmp_path / name
    table = read_table(tmp_path / name, id="id")
    assert table.ids.tolist() == columns.pop("id").tolist()
    for column, wanted in zip(table.columns, columns.values(), strict=True):
        np.testing.assert_array_equal(column.astype(wanted.dtype), wanted)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_csv_holds_shortest_exact_numbers(tmp_path):
    columns = {
        "a": np.array([0.1, np.nan]),
        "b": np.array([0.1, 3], np.float32),
        "c": np.array(["x y", None], dtype=object),
    }
    assert write_table(tmp_path / "a.csv", columns).read_text() == "a,b,c\n0.1,0.1,x y\n,3.0,\n"


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.arrow"])
def test_a_full_disk_leaves_what_was_there(tmp_path, name, monkeypatch):
    path = tmp_path / name
    path.write_text("old")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(InputError, match=f"{name} could not be written .No space left on device.; make room"):
        write_table(path, {"a": np.arange(3)})
    assert [(found.name, found.read_text()) for found in tmp_path.iterdir()] == [(name, "old")]
    with pytest.raises(InputError, match="could not be written"):
        write_table(tmp_path / "none" / name, {"a": np.arange(3)})


def test_columns_of_different_lengths(tmp_path):
    with pytest.raises(InputError, match="'columns' parameter of write_table must be of one length"):
        write_table(tmp_path / "a.csv", {"a": np.arange(3), "b": np.arange(2)})


@pytest.mark.parametrize("name", ["shop.xlsx", "shop", "shop.parquet.gz", "csv"])
def test_endings(name):
    for use in (check_ending, read_table, lambda path: write_table(path, {})):
        with pytest.raises(InputError, match=r"must end in one of .csv, .tsv, .*\.parquet, .*\.ipc"):
            use(name)
    assert check_ending("a/B.TSV.gz") == "csv"


def test_the_index_that_pandas_writes_is_no_column(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0]}).iloc[[2, 0, 1]]
    frame.to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").names == ("a",)
    assert read_table(tmp_path / "t.parquet", columns=["__index_level_0__"]).n_rows == 3


@pytest.mark.parametrize("kind", [None, "date", "category"])
@pytest.mark.parametrize(
    "type", [pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("s", "UTC"), pa.date32()], ids=str
)
def test_dates_too_far_away_are_refused_by_column_and_count(tmp_path, type, kind):
    far = [2**31 - 1] * 2 if pa.types.is_date32(type) else [2**60, -(2**60)]
    storage = pa.int32() if pa.types.is_date32(type) else pa.int64()
    for ending, write in ((".arrow", pyarrow.feather.write_feather), (".parquet", pq.write_table)):
        if ending == ".parquet" and type in (pa.timestamp("s"), pa.timestamp("s", "UTC")):
            continue  # it has no such type
        path = tmp_path / f"x{ending}"
        write(pa.table({"when": pa.array([*far, 0, None], storage).cast(type)}), path)
        with pytest.raises(InputError, match=r"Column 'when' of .* has 2 values or more too far away for a date"):
            read_table(path, types=None if kind is None else {"when": kind})


def test_dates_that_can_be_held_are_read_in_every_unit(tmp_path):
    moment = np.datetime64("2500-02-03T04:05:06", "s")
    for unit in ("s", "ms", "us"):
        column = pa.array(np.array([moment, "NaT"], f"M8[{unit}]"))
        pyarrow.feather.write_feather(pa.table({"when": column}), tmp_path / "x.arrow")
        found = read_table(tmp_path / "x.arrow").columns[0]
        assert found.dtype == "M8[us]"
        assert found[0] == moment
        assert np.isnat(found[1])
    text = tmp_path / "x.csv"
    text.write_text("when\n9999-12-31T23:59:59.999999\n0001-01-01\n")
    assert read_table(text).columns[0].tolist()[0].year == 9999
    text.write_text("when\n2024-01-01\n292277-01-01\n")
    assert read_table(text).kinds == {"when": "category"}
    with pytest.raises(InputError, match="'292277-01-01' in row 2, and must hold dates"):
        read_table(text, types={"when": "date"})


class Name(str):
    """A column's name that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other):
        Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


class Wide(sources.Source):
    textual = together = True

    def chunks(self, names):
        yield [pa.array(["1", "2"]) for _ in names]


def test_the_work_grows_with_the_columns_and_not_with_their_square(monkeypatch):
    n = 2000
    names = [Name(f"column {j}") for j in range(n)]
    monkeypatch.setitem(sources.SOURCES, "csv", lambda path, whose: Wide(path, whose, names))
    Name.compared = 0
    table, _ = TableSource("wide.csv", names[0], None, [names[1]], {names[2]: "number"}).read("shop")
    assert len(table.names) == n - 2
    again = Reading(names[0], tuple(names[2:]), dict.fromkeys(names[2:], "number"))
    assert again.read("wide.csv", "shop").n_rows == 2
    assert Name.compared < 50 * n


def test_a_first_line_may_be_long(tmp_path):
    names = [f"{j}{'x' * 100_000}" for j in range(12)]
    (tmp_path / "wide.csv").write_text(",".join(names) + "\n" + ",".join("1" * 12) + "\n")
    assert list(read_table(tmp_path / "wide.csv").names) == names


def test_true_and_false_are_numbers_where_numbers_are_asked_for(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\ntrue,1\nFalse,0\n,\n")
    table = read_table(tmp_path / "t.csv", types={"a": "number"})
    np.testing.assert_array_equal(table.columns[0], [1, 0, np.nan])
    assert table.kinds == {"a": "number", "b": "number"}
