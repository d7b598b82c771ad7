from __future__ import annotations

import hashlib
import logging
import threading
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pooch
import pytest

from fedonce import InputError
from fedonce.datasets import SOURCES, data_folder, fetch_gisette, fetch_mnist, fetch_phishing, files, status
from fedonce.datasets.files import PINS, DamagedError, Edition, File, Source, find

CONTENT = b"one,two\n1,2\n"
SUM = hashlib.sha256(CONTENT).hexdigest()


def source(*parts, **more):
    """A data set of files named a, b, ..., whole unless `complete` says otherwise."""
    edition = Edition({f"part {file.name}": (file,) for file in parts}, **more)
    return Source("small", "small", 1, 2, "regression", "none", "nobody", "http://owner.example/", 2, (edition,))


@pytest.fixture
def owner(tmp_path_factory):
    """The owner's web server, on this machine's own loopback, and the folder that it serves."""
    folder = tmp_path_factory.mktemp("owner")
    (folder / "a.csv").write_bytes(CONTENT)

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", folder
    server.shutdown()
    thread.join()
    server.server_close()


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_the_folder_is_the_one_given_else_named_by_the_environment_else_a_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDONCE_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    assert data_folder("elsewhere") == Path("elsewhere")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file is a file. Name a folder"):
        data_folder(tmp_path / "file")
    with pytest.raises(InputError, match="'data_dir' parameter of a loader"):
        data_folder(3)
    monkeypatch.setenv("FEDONCE_DATA", "")
    assert data_folder().name == "fedonce"


def test_a_download_is_checked_and_kept(tmp_path, owner):
    address, _ = owner
    small = source(File("a.csv", SUM, address + "a.csv"))
    found = find(small, tmp_path, download=True)
    assert found.complete
    assert found.paths["part a.csv"].read_bytes() == CONTENT
    assert find(small, tmp_path, download=False).paths == found.paths
    assert status(small, tmp_path) == "present"


def test_a_download_with_a_wrong_checksum_is_refused_and_nothing_is_left(tmp_path, owner):
    address, _ = owner
    with pytest.raises(DamagedError, match=f"(?s){'0' * 64}.*{SUM}|{SUM}.*{'0' * 64}"):
        find(source(File("a.csv", "0" * 64, address + "a.csv")), tmp_path, download=True)
    assert left_in(tmp_path) == []


def test_a_download_that_is_not_there_leaves_nothing(tmp_path, owner):
    address, _ = owner
    with pytest.raises(InputError, match="The download of gone.csv failed: 404"):
        find(source(File("gone.csv", SUM, address + "gone.csv")), tmp_path / "new", download=True)
    assert not (tmp_path / "new").exists()


def test_where_the_owner_publishes_no_checksum_the_first_download_s_is_remembered(tmp_path, owner):
    address, _ = owner
    small = source(File("a.csv", None, address + "a.csv"))
    find(small, tmp_path, download=True)
    assert (tmp_path / "small" / PINS).read_text() == f"{SUM}  a.csv\n"
    (tmp_path / "small" / "a.csv").write_bytes(CONTENT + b"3,4\n")
    with pytest.raises(DamagedError, match=f"expected {SUM}"):
        find(small, tmp_path, download=True)


def test_a_list_of_sums_in_the_folder_does_not_overrule_ours(tmp_path):
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "a.csv").write_bytes(b"other")
    (tmp_path / "small" / PINS).write_bytes(hashlib.sha256(b"other").hexdigest().encode() + b"  a.csv\n\xff")
    with pytest.raises(DamagedError):
        find(source(File("a.csv", SUM)), tmp_path, download=False)


def test_a_file_without_any_known_checksum_is_read_with_a_word_of_warning(tmp_path, caplog):
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "a.csv").write_bytes(CONTENT)
    small = source(File("a.csv", None))
    find(small, tmp_path, download=False)
    assert status(small, tmp_path) == "unchecked"
    assert f"it has sha256 {SUM}" in caplog.text


def test_only_what_is_missing_is_downloaded(tmp_path, owner):
    address, folder = owner
    (folder / "b.csv").write_bytes(b"b")
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "a.csv").write_bytes(CONTENT)
    (folder / "a.csv").unlink()
    parts = [File("a.csv", SUM, address + "a.csv"), File("b.csv", hashlib.sha256(b"b").hexdigest(), address + "b.csv")]
    assert len(find(source(*parts), tmp_path, download=True).paths) == 2


def test_a_part_that_is_here_in_another_form_is_not_downloaded(tmp_path, owner):
    address, _ = owner
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "plain.csv").write_bytes(b"p")
    parts = {
        "one": (
            File("packed.gz", "0" * 64, address + "packed.gz"),
            File("plain.csv", hashlib.sha256(b"p").hexdigest()),
        ),
        "two": (File("a.csv", SUM, address + "a.csv"),),
    }
    found = find(replace(source(), editions=(Edition(parts),)), tmp_path, download=True)
    assert [path.name for path in found.paths.values()] == ["plain.csv", "a.csv"]


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InputError, match="nothing.csv cannot be read .No such file"):
        files.sha256_of(tmp_path / "nothing.csv")


@pytest.mark.parametrize("quiet", [True, False])
def test_a_quiet_download_says_nothing(tmp_path, owner, quiet):
    address, _ = owner
    token = files.quiet.set(quiet)
    find(source(File("a.csv", SUM, address + "a.csv")), tmp_path, download=True)
    files.quiet.reset(token)
    assert pooch.get_logger().level == (logging.WARNING if quiet else logging.INFO)


def test_without_a_network_the_error_says_what_to_do(tmp_path):
    with pytest.raises(InputError) as caught:
        fetch_gisette(tmp_path, download=False)
    with pytest.raises(InputError, match="not published; a known copy has 0cf66ef"):
        fetch_phishing(tmp_path, download=False)
    for part in (
        str(tmp_path / "gisette"),
        "gisette_train.data from https://archive.ics.uci.edu/ml/machine-learning-databases/gisette/GISETTE/gisette_train.data",
        "6d4c5e998afe67937b9e77a3334e03c85e545ebc65a6eb1333ffc14125cfc389",
        "download=True",
    ):
        assert part in str(caught.value)


def test_a_network_that_fails_names_file_address_checksum_and_place(tmp_path):
    small = source(File("a.csv", SUM, "http://127.0.0.1:9/a.csv"))  # the discard port: nobody answers
    with pytest.raises(InputError, match="a.csv from http://127.0.0.1:9/a.csv .*" + SUM) as caught:
        find(small, tmp_path, download=True)
    assert str(tmp_path / "small") in str(caught.value)
    assert not (tmp_path / "small").exists()


def test_what_is_missing_is_named(tmp_path):
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "a.csv").write_bytes(CONTENT)
    two = source(File("a.csv", SUM), File("b.csv", SUM))
    assert status(two, tmp_path) == "incomplete"
    message = r"(?s)Of data set 'small' files are missing in .*:\n  b.csv from http://owner"
    with pytest.raises(InputError, match=message) as caught:
        find(two, tmp_path, download=False)
    assert "a.csv" not in str(caught.value)


def test_a_damaged_file_is_refused_with_both_checksums(tmp_path):
    (tmp_path / "phishing").mkdir()
    (tmp_path / "phishing" / "phishing").write_bytes(b"0 1:1\n")
    got = hashlib.sha256(b"0 1:1\n").hexdigest()
    with pytest.raises(
        InputError, match=f"{got}, expected 0cf66ef36604c393da9359b2e5d894a2df8aee31fd184633cefa138add2ef08a"
    ):
        fetch_phishing(tmp_path)
    assert status(SOURCES["phishing"], tmp_path) == "damaged"


def test_a_complete_edition_goes_before_a_partial_one(tmp_path):
    (tmp_path / "small").mkdir()
    whole = source(File("whole.csv", SUM))
    partial_ = Edition({"part": (File("part.csv", SUM),)}, complete=False, note="half")
    both = replace(whole, editions=(*whole.editions, partial_))
    (tmp_path / "small" / "part.csv").write_bytes(CONTENT)
    assert find(both, tmp_path, download=True).note == "half"
    assert status(both, tmp_path) == "partial"
    (tmp_path / "small" / "whole.csv").write_bytes(CONTENT)
    assert find(both, tmp_path, download=True).complete


def test_a_partial_copy_under_the_whole_s_name_is_known_as_partial(tmp_path):
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "a.csv").write_bytes(CONTENT)
    whole = source(File("a.csv", None))
    partial_ = Edition({"part": (File("a.csv", SUM),)}, complete=False, note="half")
    assert find(replace(whole, editions=(*whole.editions, partial_)), tmp_path, download=True).note == "half"


def test_unverified_files_are_never_called_complete(tmp_path):
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "a.csv").write_bytes(b"other")
    found = find(source(File("a.csv", SUM)), tmp_path, download=False, verify=False)
    assert not found.complete
    assert found.note == "files not verified"


def test_the_progress_bar_follows_pooch():
    with files._bar("a.csv") as bar:
        bar.total = 10
        bar.update(4)
        bar.reset()
        bar.update(10)
        bar.close()
        assert bar.total == 10


def test_every_source_lists_its_files_with_sums_and_addresses():
    assert len(SOURCES) == 11
    for name, listed in SOURCES.items():
        assert listed.editions[0].complete
        assert all(len(edition.note) > 5 for edition in listed.editions if not edition.complete)
        for edition in listed.editions:
            for alternatives in edition.parts.values():
                assert all(file.sha256 is None or len(file.sha256) == 64 for file in alternatives)
        if name != "nus-wide":  # its owner publishes a rar archive, to be unpacked by hand
            assert all(alternatives[0].url for alternatives in listed.editions[0].parts.values())


def test_listed_sums_are_those_of_the_files_here(data_folder):
    for listed in SOURCES.values():
        assert status(listed, data_folder) in ("present", "partial", "absent")
    assert {name for name, listed in SOURCES.items() if status(listed, data_folder) != "absent"} >= {
        "phishing",
        "mnist",
    }


def test_mnist_is_read_packed_and_plain(tmp_path, data_folder):
    import gzip

    packed = fetch_mnist(data_folder)
    (tmp_path / "mnist").mkdir()
    for path in (data_folder / "mnist").glob("*.gz"):
        (tmp_path / "mnist" / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    assert (fetch_mnist(tmp_path, download=False).data == packed.data).all()
