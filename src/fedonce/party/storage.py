"""A party's model on disk: a folder with a manifest, weights as safetensors and the rest as JSON; never pickle.

The manifest names every other file with its size and sha256, and every other file's name holds its own digest. Saving writes new
files beside the old ones and then replaces the manifest, in one rename: whoever reads, and whatever happens, there is the
old model or the new one, whole. One process at a time saves: it has the folder locked (`alone`), and a command that reads a model
in order to save another in its place has it locked from the reading on. Readers lock nothing: they read once more if need be.

A file that leaves your premises, a guest's message, stands in the folder under a name that people look for. The manifest has its
digest, so that the one rename decides on it, too. Before the rename the old one is moved aside, to message-DIGEST.fedonce, where
the new one waits as well; after it, the one that the manifest names is moved to its place. Whenever that is interrupted, the
message in its place is the model's, or there is none, and whoever reads or saves next moves the model's there (`settle`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from fedonce.errors import InputError, parameter_error
from fedonce.system.disk import cannot_write, make_folder, open_file, remove_abandoned, sync_folder, write_file
from fedonce.system.locks import Tell, if_free, only_one
from fedonce.system.sizes import not_hollow

VERSION = 2
CALIBRATED = 3  # of a host whose probabilities would be others to a program that does not know of temperatures
CODED = 4  # of a guest whose messages are coded: a program that does not know how would write others
OWN_TREES = 5  # of a host with trees of own columns: one that does not know them would predict other numbers for gaps
LOCAL = 6  # of a guest with a local epsilon: one that does not know of it would send them as they are
HINTED = 7  # of a guest that learnt with hints: its messages say so
ALONE = 8  # of a host with models without guests: one that does not know of these would ask them with guests
READABLE = range(1, ALONE + 1)  # 1: without the files that leave
MANIFEST = "manifest.json"
MANIFEST_LIMIT = 2**24  # bytes; a line per message: some fifty thousand of them
_OURS = re.compile(r"[a-z]+-[0-9a-f]{16}\.(json|safetensors|fedonce)")
_UNFINISHED = re.compile(rf"\.({_OURS.pattern}|{re.escape(MANIFEST)})\.\w{{8}}(\.part)?")  # of a killed process
_LEAVES = re.compile(r"(?!\.)[\w.-]{1,100}\.fedonce")  # names of files that leave
Tensors = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Stored:
    """What is in a folder: settings and encodings as JSON values, weights as arrays, and messages that were received.

    `leaving` are files for others that belong to the model, by their names in the folder. They are saved, and not loaded.
    """

    kind: str
    settings: dict[str, Any]
    encoding: dict[str, Any]
    weights: Tensors
    messages: dict[str, bytes] = field(default_factory=dict)
    leaving: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def version(self) -> int:
        """The oldest version of the format that can say it."""
        needed = {
            CALIBRATED: "temperature" in self.settings,
            CODED: "scale.steps" in self.weights,
            OWN_TREES: self.kind == "host" and any(name.rpartition(".")[2] == "own_share" for name in self.weights),
            LOCAL: "noise.key" in self.weights,
            HINTED: "hints" in self.settings,
            ALONE: any("alone" in each for each in self.settings.get("members", ())),
        }
        return max([VERSION, *(version for version, needs in needed.items() if needs)])


def save(folder: str | Path, model: Stored) -> Path:
    """Write a model, for its owner's eyes only; one of the other kind that is there already is not overwritten.

    Waits while another process saves into the folder, or has it for itself (`alone`).
    """
    odd = next((name for name in model.leaving if not _can_leave(name)), None)
    if odd is not None:
        raise parameter_error("storage.save", "leaving", "files with names as in message.fedonce", odd)
    with alone(folder) as target:
        there = _manifest(target) if (target / MANIFEST).exists() else None
        if there is not None and there["kind"] != model.kind:
            raise InputError(
                f"The folder {target} holds the model of a {there['kind']}; name another one for this {model.kind}."
            )
        try:
            _save(target, model, there)
        except OSError as error:
            raise cannot_write(target, error) from None
    return target


def _save(folder: Path, model: Stored, there: dict[str, Any] | None) -> None:
    parts = {
        "settings": ("settings", "json", _json(model.settings)),
        "encoding": ("encoding", "json", _json(model.encoding)),
        "weights": ("weights", "safetensors", _tensors(model.weights)),
        **{f"message of {party}": ("message", "fedonce", data) for party, data in model.messages.items()},
    }
    listed = {name: _write_part(folder, *part) for name, part in parts.items()}
    leaving = {
        name: _write_part(folder, "message", "fedonce", data, private=False) for name, data in model.leaving.items()
    }
    _switch(folder, there, {"fedonce model": model.version, "kind": model.kind, "files": listed, "leaving": leaving})


def _write_part(folder: Path, stem: str, ending: str, data: bytes, private: bool = True) -> dict[str, Any]:
    """Write a file of a model under a name that holds its digest; return what the manifest says of it."""
    digest = hashlib.sha256(data).hexdigest()
    file = f"{stem}-{digest[:16]}.{ending}"
    write_file(folder / file, data, private=private)
    return {"file": file, "bytes": len(data), "sha256": digest}


def _switch(folder: Path, there: dict[str, Any] | None, manifest: dict[str, Any]) -> None:
    """Put a manifest in the place of the one that is there, and with it the files that leave."""
    try:
        for name in manifest["leaving"]:
            _set_aside(folder, name, there)
        sync_folder(folder)
        write_file(folder / MANIFEST, _manifest_bytes(manifest), private=True)
    finally:  # of whichever is the manifest now
        _settle(folder)
    _tidy(folder, manifest)


def _set_aside(folder: Path, name: str, there: dict[str, Any] | None) -> None:
    """Move a file that leaves to where the manifest that is there finds it again."""
    path = folder / name
    if not path.exists():
        return
    if there is None:
        path.unlink()  # of no model
        return
    if name not in there["leaving"]:  # of a version that did not list it
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        entry = {"file": f"message-{digest[:16]}.fedonce", "bytes": len(data), "sha256": digest}
        there.update(
            {"fedonce model": max(VERSION, there["fedonce model"]), "leaving": {**there["leaving"], name: entry}}
        )
        write_file(folder / MANIFEST, _manifest_bytes(there), private=True)
    aside = folder / there["leaving"][name]["file"]
    if aside.exists():  # the same message as before waits there
        path.unlink()
    else:
        path.replace(aside)


def settle(folder: str | Path) -> None:
    """Move files that leave to their place, where a saving was interrupted; not while one is under way."""
    target = Path(folder)
    if exists(target) and _manifest(target)["leaving"]:
        with suppress(OSError), if_free(target) as free:
            if free:
                _settle(target)


def _settle(folder: Path) -> None:
    if not (folder / MANIFEST).exists():
        return
    for name, entry in _manifest(folder)["leaving"].items():
        if not (folder / name).exists() and (folder / entry["file"]).is_file():
            (folder / entry["file"]).replace(folder / name)


@contextmanager
def alone(folder: str | Path, tell: Tell = lambda line: None) -> Iterator[Path]:
    """Have a model's folder to oneself, from reading what is there until saving; whoever comes second waits.

    The folder is made where it is missing, and taken away again where nothing came of it. `tell` is told for whom one waits.
    """
    target = Path(folder)
    missing = [each for each in (target, *target.parents) if not each.exists()]
    make_folder(target.parent)
    with ExitStack() as held:
        try:
            held.enter_context(only_one(target, tell))
        except OSError as error:
            raise cannot_write(target, error) from None
        try:
            yield target
        finally:
            with suppress(OSError):  # what is no longer empty stays
                for each in missing:
                    each.rmdir()


def model_folder(folder: str | Path) -> Path:
    """Make a folder that only its owner may look into; one that is there already stays as it is."""
    target = Path(folder)
    make_folder(target.parent)
    try:
        target.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise cannot_write(target, error) from None
    return target


def _tidy(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Remove files of earlier models, and of savings that did not get to their end."""
    waiting = [entry for name, entry in manifest["leaving"].items() if not (folder / name).exists()]
    kept = {entry["file"] for entry in (*manifest["files"].values(), *waiting)}
    for path in folder.iterdir():
        with suppress(OSError):  # what is left over does no harm
            if _UNFINISHED.fullmatch(path.name):
                remove_abandoned(path)
            elif _OURS.fullmatch(path.name) and path.name not in kept:
                path.unlink()


def exists(folder: str | Path) -> bool:
    """Tell whether a folder holds a model."""
    return (Path(folder) / MANIFEST).is_file()


def kind(folder: str | Path) -> str:
    """Return whose model a folder holds: "guest" or "host"."""
    return str(_manifest(Path(folder))["kind"])


def load(folder: str | Path, kind: str) -> Stored:
    """Read a model, and compare every file with the manifest."""
    source = Path(folder)
    settle(source)
    data = _contents(source, kind)
    try:
        settings, encoding = json.loads(data["settings"]), json.loads(data["encoding"])
        if not isinstance(settings, dict) or not isinstance(encoding, dict):
            raise TypeError("its settings or its encoding are no table")
        texts = ((name.partition("message of "), text) for name, text in data.items())
        messages = {party: text for (before, of, party), text in texts if of and not before}
        return Stored(kind, settings, encoding, not_hollow(load_tensors(data["weights"])), messages)
    except (ValueError, KeyError, TypeError, SafetensorError, RecursionError) as error:
        raise damaged(source, error) from None


def _contents(folder: Path, kind: str) -> dict[str, bytes]:
    """Return all files that the manifest lists; again, where it was replaced meanwhile and old files are gone."""
    while True:
        state = _state(folder)
        manifest = _manifest(folder)
        if manifest["kind"] != kind:
            raise InputError(f"The folder {folder} holds the model of a {manifest['kind']}, not of a {kind}.")
        try:
            return {name: _content(folder, entry) for name, entry in manifest["files"].items()}
        except InputError:
            if _state(folder) == state:
                raise


def _state(folder: Path) -> tuple[int, int] | None:
    """Return what tells a manifest from one that was written later, were it the same."""
    try:
        found = (folder / MANIFEST).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def damaged(folder: str | Path, error: Exception) -> InputError:
    """Return the error about a model that cannot be read."""
    return InputError(
        f"The model in {folder} cannot be read ({error}); take it from a copy, or train again, into another folder."
    )


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        with open_file(path, "manifest") as file:
            data = file.read(MANIFEST_LIMIT + 1)
        if len(data) > MANIFEST_LIMIT:
            raise ValueError(f"{MANIFEST} has more than {MANIFEST_LIMIT} bytes")
        content = json.loads(data)
    except FileNotFoundError:
        raise InputError(f"There is no model in {folder} (no {MANIFEST}); name the folder that a fit wrote.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise damaged(folder, error) from None
    if not isinstance(content, dict) or "fedonce model" not in content:
        raise InputError(f"{path} is not the manifest of a fedonce model; name the folder that a fit wrote.")
    version = content["fedonce model"]
    if type(version) is not int or version not in READABLE:
        known = f"this program reads {READABLE[0]} to {READABLE[-1]}"
        raise InputError(f"The model in {folder} has version {version!r}, {known}; use the fedonce that wrote it.")
    content.pop("sha256", None)
    if data != _manifest_bytes(content):
        raise damaged(folder, ValueError(f"{MANIFEST} was changed since it was written"))
    if not isinstance(content.get("files"), dict) or not isinstance(content.get("kind"), str):
        raise damaged(folder, ValueError("the manifest lists no files"))
    leaving = content.setdefault("leaving", {})
    if not isinstance(leaving, dict) or not all(map(_can_leave, leaving)):
        raise damaged(folder, ValueError("the manifest names a file that cannot leave"))
    for entry in (*content["files"].values(), *leaving.values()):
        _check_entry(folder, entry)
    return content


def _manifest_bytes(content: Mapping[str, Any]) -> bytes:
    """Return a manifest with a checksum of itself."""
    return _json({**content, "sha256": hashlib.sha256(_json(content)).hexdigest()})


def _can_leave(name: str) -> bool:
    """Tell whether a name is a plain one, and none of the model's own files'."""
    return bool(_LEAVES.fullmatch(name)) and not _OURS.fullmatch(name)


def _check_entry(folder: Path, entry: Any) -> None:
    if not isinstance(entry, dict) or not isinstance(entry.get("file"), str) or not _OURS.fullmatch(entry["file"]):
        raise damaged(folder, ValueError("the manifest names a file that is none of a model's"))


def _content(folder: Path, entry: Mapping[str, Any]) -> bytes:
    """Return the bytes of a listed file, as they were written; one of another size is not read."""
    path = folder / entry["file"]
    try:
        with open_file(path, "model's file") as file:
            as_listed = os.fstat(file.fileno()).st_size == entry.get("bytes")
            data = file.read() if as_listed else b""
    except (OSError, ValueError, MemoryError) as error:
        raise damaged(folder, error) from None
    if not as_listed or hashlib.sha256(data).hexdigest() != entry.get("sha256"):
        raise damaged(folder, ValueError(f"{path.name} was changed since it was written"))
    return data


def _json(value: Mapping[str, Any]) -> bytes:
    try:
        return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"The model cannot be saved: {error}; its settings must be finite numbers and text.") from None


def _tensors(weights: Tensors) -> bytes:
    """Return arrays as safetensors, which writes memory as it lies: rows must come first."""
    odd = next((name for name, value in weights.items() if value.dtype.kind not in "biuf"), None)
    if odd is not None:
        raise InputError(f"The model cannot be saved: its {odd!r} is {weights[odd].dtype}; learn arrays of numbers.")
    return bytes(save_tensors({name: np.array(value, order="C") for name, value in weights.items()}))
