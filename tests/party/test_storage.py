from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load as load_tensors

from fedonce import InputError
from fedonce.party import storage
from fedonce.party.storage import MANIFEST, Stored, load, save
from fedonce.system import disk
from fedonce.system.locks import only_one

REMEDY = "take it from a copy, or train again, into another folder"


def model(value=1, messages=None, kind="host"):
    weights = {
        "w": np.full((2, 3), value, np.float32),
        "flag": np.array(True),
        "columns": np.asfortranarray([[1, 2], [3, 4]]),
    }
    return Stored(
        kind, {"name": "bank", "value": value}, {"step": "é"}, weights, messages or {"shop": b"one", "post": b"two"}
    )


def same(first, second):
    assert (first.kind, first.settings, first.encoding, first.messages) == (
        second.kind,
        second.settings,
        second.encoding,
        second.messages,
    )
    assert first.weights.keys() == second.weights.keys()
    for name, value in first.weights.items():
        np.testing.assert_array_equal(value, second.weights[name])
        assert (value.dtype, value.shape) == (second.weights[name].dtype, second.weights[name].shape)


@pytest.fixture
def folder(tmp_path):
    return save(tmp_path / "bank", model())


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def rewrite(folder, change):
    """Change the manifest as somebody would who also knows its checksum."""
    content = json.loads((folder / MANIFEST).read_bytes())
    content.pop("sha256")
    change(content)
    (folder / MANIFEST).write_bytes(storage._manifest_bytes(content))


def test_what_is_saved_is_loaded(folder):
    same(load(folder, "host"), model())
    same(load(str(folder), "host"), model())
    assert storage.exists(folder)
    assert storage.kind(folder) == "host"
    assert not storage.exists(folder / "nothing")


def test_files_are_plain_and_listed_with_size_and_digest(folder):
    found = files(folder)
    listed = json.loads(found.pop(MANIFEST))["files"]
    assert {entry["file"] for entry in listed.values()} == found.keys()
    for entry in listed.values():
        data = found[entry["file"]]
        assert (entry["bytes"], entry["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
        if entry["file"].endswith("json"):
            json.loads(data)
        if entry["file"].endswith("safetensors"):
            load_tensors(data)
    assert {name.rpartition(".")[2] for name in found} == {"json", "safetensors", "fedonce"}
    assert not any(b"pickle" in data or b"\x80\x04" in data for data in found.values())


@pytest.mark.parametrize("name", ["settings", "encoding", "weights", "message of shop"])
@pytest.mark.parametrize("how", ["changed", "cut", "longer", "empty", "removed", "a folder"])
def test_a_damaged_file_is_noticed(folder, name, how):
    path = folder / json.loads((folder / MANIFEST).read_bytes())["files"][name]["file"]
    data = path.read_bytes()
    path.unlink()
    made = {"changed": bytes([data[0] ^ 1]) + data[1:], "cut": data[:-1], "longer": data + b" ", "empty": b""}
    if how in made:
        path.write_bytes(made[how])
    if how == "a folder":
        path.mkdir()
    with pytest.raises(InputError) as told:
        load(folder, "host")
    assert str(told.value).startswith(f"The model in {folder} cannot be read (")
    assert REMEDY in str(told.value)
    assert path.name in str(told.value)


def test_every_changed_byte_of_every_file_is_noticed(folder):
    rng = np.random.default_rng(0)
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        for place in rng.permutation(len(data))[:40]:
            path.write_bytes(data[:place] + bytes([data[place] ^ int(rng.integers(1, 256))]) + data[place + 1 :])
            with pytest.raises(InputError, match=str(folder)):
                load(folder, "host")
        for cut in (0, 1, len(data) // 2, len(data) - 1):
            path.write_bytes(data[:cut])
            with pytest.raises(InputError, match=str(folder)):
                load(folder, "host")
        path.write_bytes(data)
    same(load(folder, "host"), model())


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"not json", "cannot be read .*; take it from a copy"),
        (b"\xff\xfe\x00", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b"[]", "manifest.json is not the manifest of a fedonce model; name the folder that a fit wrote"),
        (b'{"name": "app", "icons": []}', "is not the manifest of a fedonce model"),
        (
            b'{"fedonce model": 9, "more": {}}',
            "has version 9, this program reads 1 to 8; use the fedonce that wrote it",
        ),
        (b'{"fedonce model": true}', "has version True"),
        (b'{"fedonce model": NaN}', "has version nan"),
    ],
)
def test_manifests_that_are_none(folder, content, told):
    (folder / MANIFEST).write_bytes(content)
    for act in (lambda: load(folder, "host"), lambda: storage.kind(folder)):
        with pytest.raises(InputError, match=told):
            act()
    before = files(folder)
    with pytest.raises(InputError, match=told):  # whatever it is, it is not overwritten
        save(folder, model(2))
    assert files(folder) == before


def test_no_model(tmp_path):
    with pytest.raises(InputError, match=r"There is no model in .*nowhere \(no manifest.json\); name the folder"):
        load(tmp_path / "nowhere", "host")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="file cannot be read"):
        load(tmp_path / "file", "host")


def test_a_model_of_the_other_kind_is_neither_loaded_nor_overwritten(folder):
    with pytest.raises(InputError, match=f"The folder {folder} holds the model of a host, not of a guest"):
        load(folder, "guest")
    with pytest.raises(InputError, match="holds the model of a host; name another one for this guest"):
        save(folder, model(kind="guest"))
    same(load(folder, "host"), model())


@pytest.mark.parametrize(
    "name", ["../secret.json", "/etc/hostname", "x/../../secret.json", "..", "", "secret.json", None, 3]
)
def test_a_manifest_names_only_files_of_a_model(folder, tmp_path, name):
    data = b'{"name": "bank"}'
    (tmp_path / "secret.json").write_bytes(data)
    (folder / "secret.json").write_bytes(data)
    entry = {"file": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    rewrite(folder, lambda content: content["files"].update(settings=entry))
    with pytest.raises(InputError, match=r"the manifest names a file that is none of a model's.*take it from a copy"):
        load(folder, "host")


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.pop("files"),
        lambda content: content.update(files=[]),
        lambda content: content.update(kind=3),
        lambda content: content["files"].pop("weights"),
        lambda content: content["files"].update(settings=content["files"]["weights"]),
        lambda content: content["files"].update(weights=content["files"]["settings"]),
        lambda content: content["files"].update(more="x"),
    ],
)
def test_manifests_that_lack_something(folder, change):
    rewrite(folder, change)
    with pytest.raises(InputError, match=f"The model in {folder} cannot be read .*{REMEDY}"):
        load(folder, "host")


def test_saving_again_replaces_all_and_leaves_what_is_not_ours(folder):
    (folder / "representation.fedonce").write_bytes(b"the user's")
    (folder / ".weights-0123456789abcdef.safetensors.abcd1234").write_bytes(b"of a process that was killed")
    (folder / ".manifest.json.x_yz0123").write_bytes(b"likewise")
    save(folder, model(2, {"shop": b"three"}))
    same(load(folder, "host"), model(2, {"shop": b"three"}))
    listed = json.loads((folder / MANIFEST).read_bytes())["files"]
    assert len(listed) == 4
    assert set(os.listdir(folder)) == {
        MANIFEST,
        "representation.fedonce",
        *(entry["file"] for entry in listed.values()),
    }


def test_saving_the_same_twice_changes_nothing(folder):
    before = files(folder)
    save(folder, model())
    assert files(folder) == before


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", range(6))
def test_a_failure_while_saving_leaves_the_old_model(folder, tmp_path, monkeypatch, call, error):
    calls = []

    def failing(path, data, private=False):
        calls.append(path)
        if len(calls) > call:
            if isinstance(error, OSError):
                raise disk.cannot_write(path, error)
            raise error
        return disk.write_file(path, data, private)

    monkeypatch.setattr(storage, "write_file", failing)
    with pytest.raises((InputError, KeyboardInterrupt)):
        save(folder, model(2, {"shop": b"three", "post": b"four"}))
    assert len(calls) == call + 1
    same(load(folder, "host"), model())
    with pytest.raises((InputError, KeyboardInterrupt)):
        save(tmp_path / "new", model())
    assert not storage.exists(tmp_path / "new")
    monkeypatch.undo()
    save(folder, model(3, {"shop": b"five"}))  # and the next saving tidies up
    same(load(folder, "host"), model(3, {"shop": b"five"}))
    assert len(os.listdir(folder)) == 5


def test_a_saving_has_as_many_writes_as_the_test_above_says(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(storage, "write_file", lambda *given, private: calls.append(given))
    save(tmp_path, model())
    assert len(calls) == 6
    assert calls[-1][0].name == MANIFEST


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_models_are_for_their_owner_alone(tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    there.chmod(0o755)
    for folder, mode in ((tmp_path / "new" / "bank", 0o700), (there, 0o755)):
        save(folder, model())
        assert folder.stat().st_mode & 0o777 == mode
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def test_a_folder_can_be_copied_and_renamed(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "elsewhere")
    shutil.rmtree(folder)
    same(load(tmp_path / "elsewhere", "host"), model())


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="file cannot be written"):
        save(tmp_path / "file", model())


def test_settings_that_are_no_numbers(tmp_path):
    with pytest.raises(InputError, match="cannot be saved: .*finite numbers"):
        save(tmp_path, Stored("host", {"x": float("nan")}, {}, {}))
    with pytest.raises(InputError, match="cannot be saved: its 'w' is <U1; learn arrays of numbers"):
        save(tmp_path, Stored("host", {}, {}, {"w": np.array(["a"])}))
    assert not os.listdir(tmp_path)


def test_an_array_of_nothing_has_no_side_of_which_memory_could_be_made(tmp_path):
    save(tmp_path / "small", Stored("host", {}, {}, {"w": np.zeros((2**16, 0), np.float32)}))
    assert load(tmp_path / "small", "host").weights["w"].shape == (2**16, 0)
    save(tmp_path / "large", Stored("host", {}, {}, {"w": np.zeros((10**9, 0), np.float32)}))
    with pytest.raises(InputError, match=r"its 'w' holds nothing, in \(1000000000, 0\)"):
        load(tmp_path / "large", "host")


def test_odd_text_survives(tmp_path):
    odd = Stored("guest", {"name": "\ud800 é \x00"}, {"values": ["\udfff"]}, {})
    same(load(save(tmp_path, odd), "guest"), odd)


@pytest.fixture
def no_sync(monkeypatch):
    """Many savings, which need not outlive a power cut."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def in_threads(*works):
    """Run some works at once; what one raises is raised."""
    failed = []

    def run(work):
        try:
            work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def test_two_savings_at_once_leave_one_of_the_models_whole(tmp_path, no_sync):
    rng = np.random.default_rng(0)
    for pair in range(200):
        first, second = (model(int(value), {"shop": bytes([pair, value])}) for value in rng.integers(0, 9, 2))
        in_threads(lambda first=first: save(tmp_path, first), lambda second=second: save(tmp_path, second))
        found = load(tmp_path, "host")
        assert found.messages in (first.messages, second.messages)
        same(found, first if found.messages == first.messages else second)
        assert len(os.listdir(tmp_path)) == 5


def test_whoever_reads_while_others_save_has_an_old_or_a_new_model(tmp_path, no_sync):
    save(tmp_path, model(0))
    saved = threading.Event()

    def saving():
        for value in range(60):
            save(tmp_path, model(value % 3))
        saved.set()

    def reading():
        while not saved.is_set():
            found = load(tmp_path, "host")
            same(found, model(found.settings["value"]))

    in_threads(saving, reading)


def leaving(value):
    return replace(model(value, kind="guest"), messages={}, leaving={"representation.fedonce": b"message %d" % value})


def test_a_message_that_leaves_changes_with_the_model(tmp_path):
    for value in (1, 2, 2):
        save(tmp_path, leaving(value))
        assert (tmp_path / "representation.fedonce").read_bytes() == b"message %d" % value
        assert load(tmp_path, "guest").settings["value"] == value
        assert len(os.listdir(tmp_path)) == 5
    (tmp_path / "representation.fedonce").unlink()  # sent, and moved away
    assert load(tmp_path, "guest").settings["value"] == 2
    assert not (tmp_path / "representation.fedonce").exists()
    save(tmp_path, leaving(3))
    assert (tmp_path / "representation.fedonce").read_bytes() == b"message 3"


def test_a_message_beside_a_model_of_the_first_version_is_kept_with_it(tmp_path, monkeypatch):
    save(tmp_path, replace(leaving(1), leaving={}))
    content = json.loads((tmp_path / MANIFEST).read_bytes())
    del content["leaving"], content["sha256"]
    (tmp_path / MANIFEST).write_bytes(storage._manifest_bytes({**content, "fedonce model": 1}))
    (tmp_path / "representation.fedonce").write_bytes(b"message 1")
    assert load(tmp_path, "guest").settings["value"] == 1

    monkeypatch.setattr(storage, "_settle", lambda folder: None)  # killed where the new manifest is written
    digest = hashlib.sha256(b"message 1").hexdigest()[:16]
    writes = []

    def killed(path, data, private=False):
        writes.append(path.name)
        if writes.count(MANIFEST) == 2:
            raise KeyboardInterrupt
        return disk.write_file(path, data, private)

    monkeypatch.setattr(storage, "write_file", killed)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, leaving(2))
    assert not (tmp_path / "representation.fedonce").exists()
    assert (tmp_path / f"message-{digest}.fedonce").exists()
    monkeypatch.undo()
    assert load(tmp_path, "guest").settings["value"] == 1
    assert (tmp_path / "representation.fedonce").read_bytes() == b"message 1"


def test_a_message_is_not_moved_while_a_saving_is_under_way(tmp_path):
    save(tmp_path, leaving(1))
    waiting = tmp_path / json.loads((tmp_path / MANIFEST).read_bytes())["leaving"]["representation.fedonce"]["file"]
    (tmp_path / "representation.fedonce").rename(waiting)
    with only_one(tmp_path):
        in_threads(lambda: storage.settle(tmp_path))
        assert waiting.exists()
    storage.settle(tmp_path)
    assert (tmp_path / "representation.fedonce").read_bytes() == b"message 1"


@pytest.mark.parametrize(
    "name", ["../x.fedonce", ".x.fedonce", "manifest.json", "message-0123456789abcdef.fedonce", ""]
)
def test_what_leaves_has_a_plain_name(tmp_path, name):
    with pytest.raises(InputError, match="'leaving' parameter"):
        save(tmp_path / "new", replace(leaving(1), leaving={name: b""}))
    assert not (tmp_path / "new").exists()
    save(tmp_path, leaving(1))
    rewrite(tmp_path, lambda content: content["leaving"].update({name: content["files"]["weights"]}))
    with pytest.raises(InputError, match="cannot leave"):
        load(tmp_path, "guest")


def test_a_folder_to_oneself_is_taken_away_where_nothing_came_of_it(tmp_path):
    with storage.alone(tmp_path / "a" / "b") as folder:
        assert folder.is_dir()
    assert not os.listdir(tmp_path)
    with storage.alone(tmp_path / "a") as folder:
        save(folder, model())
    assert storage.exists(tmp_path / "a")


def test_a_file_of_another_size_is_not_read(folder):
    path = folder / json.loads((folder / MANIFEST).read_bytes())["files"]["weights"]["file"]
    os.truncate(path, 2**40)  # a hole: it takes no room, and more memory than there is
    with pytest.raises(InputError, match="was changed since it was written"):
        load(folder, "host")
    os.truncate(folder / MANIFEST, 2**40)
    with pytest.raises(InputError, match=r"manifest\.json has more than"):
        load(folder, "host")


@pytest.mark.parametrize("name", ["settings", "encoding"])
def test_settings_are_a_table(folder, name):
    entry = storage._write_part(folder, name, "json", b"[1]")
    rewrite(folder, lambda content: content["files"].update({name: entry}))
    with pytest.raises(InputError, match="its settings or its encoding are no table"):
        load(folder, "host")
