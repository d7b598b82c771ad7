"""A party's model on disk: a folder with a manifest, weights as safetensors and the rest as JSON; never pickle.

The manifest names every other file with its size and sha256, and every other file's name holds its own digest. Saving writes new
files beside the old ones and then replaces the manifest, in one rename: whoever reads, and whatever happens, there is the
old model or the new one, whole.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from fedonce.disk import cannot_write, make_folder, write_file
from fedonce.errors import InputError
from fedonce.networks import NCF

VERSION = 1
MANIFEST = "manifest.json"
_OURS = re.compile(r"[a-z]+-[0-9a-f]{16}\.(json|safetensors|fedonce)")
_UNFINISHED = re.compile(rf"\.({_OURS.pattern}|{re.escape(MANIFEST)})\.\w{{8}}")  # of a process that was killed
Tensors = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Stored:
    """What is in a folder: settings and encodings as JSON values, weights as arrays, and messages that were received."""

    kind: str
    settings: dict[str, Any]
    encoding: dict[str, Any]
    weights: Tensors
    messages: dict[str, bytes] = field(default_factory=dict)


def save(folder: str | Path, model: Stored) -> Path:
    """Write a model, for its owner's eyes only; one of the other kind that is there already is not overwritten."""
    target = model_folder(folder)
    if (target / MANIFEST).exists() and (there := _manifest(target)["kind"]) != model.kind:
        raise InputError(f"The folder {target} holds the model of a {there}; name another one for this {model.kind}.")
    parts = {
        "settings": ("settings", "json", _json(model.settings)),
        "encoding": ("encoding", "json", _json(model.encoding)),
        "weights": ("weights", "safetensors", _tensors(model.weights)),
        **{f"message of {party}": ("message", "fedonce", data) for party, data in model.messages.items()},
    }
    listed = {}
    for name, (stem, ending, data) in parts.items():
        digest = hashlib.sha256(data).hexdigest()
        file = f"{stem}-{digest[:16]}.{ending}"
        write_file(target / file, data, private=True)
        listed[name] = {"file": file, "bytes": len(data), "sha256": digest}
    manifest = _manifest_bytes({"fedonce model": VERSION, "kind": model.kind, "files": listed})
    write_file(target / MANIFEST, manifest, private=True)
    _tidy(target, {entry["file"] for entry in listed.values()})
    return target


def model_folder(folder: str | Path) -> Path:
    """Make a folder that only its owner may look into; one that is there already stays as it is."""
    target = Path(folder)
    make_folder(target.parent)
    try:
        target.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise cannot_write(target, error) from None
    return target


def _tidy(folder: Path, kept: set[Any]) -> None:
    """Remove files of earlier models, and of savings that did not get to their end."""
    for path in folder.iterdir():
        stale = _OURS.fullmatch(path.name) and path.name not in kept
        if stale or _UNFINISHED.fullmatch(path.name):
            with suppress(OSError):  # what is left over does no harm
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
    manifest = _manifest(source)
    if manifest["kind"] != kind:
        raise InputError(f"The folder {source} holds the model of a {manifest['kind']}, not of a {kind}.")
    data = {name: _content(source, entry) for name, entry in manifest["files"].items()}
    try:
        settings, encoding = json.loads(data["settings"]), json.loads(data["encoding"])
        weights = load_tensors(data["weights"])
        messages = {
            name.removeprefix("message of "): text for name, text in data.items() if name.startswith("message of ")
        }
        return Stored(kind, settings, encoding, weights, messages)
    except (ValueError, KeyError, TypeError, SafetensorError, RecursionError) as error:
        raise damaged(source, error) from None


def damaged(folder: str | Path, error: Exception) -> InputError:
    """Return the error about a model that cannot be read."""
    return InputError(
        f"The model in {folder} cannot be read ({error}); take it from a copy, or train again, into another folder."
    )


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        data = path.read_bytes()
        content = json.loads(data)
    except FileNotFoundError:
        raise InputError(f"There is no model in {folder} (no {MANIFEST}); name the folder that a fit wrote.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise damaged(folder, error) from None
    if not isinstance(content, dict) or "fedonce model" not in content:
        raise InputError(f"{path} is not the manifest of a fedonce model; name the folder that a fit wrote.")
    if content["fedonce model"] != VERSION:
        raise InputError(
            f"The model in {folder} has version {content['fedonce model']!r}, this program reads {VERSION}; use the fedonce that "
            "wrote it."
        )
    content.pop("sha256", None)
    if data != _manifest_bytes(content):
        raise damaged(folder, ValueError(f"{MANIFEST} was changed since it was written"))
    if not isinstance(content.get("files"), dict) or not isinstance(content.get("kind"), str):
        raise damaged(folder, ValueError("the manifest lists no files"))
    return content


def _manifest_bytes(content: Mapping[str, Any]) -> bytes:
    """Return a manifest with a checksum of itself."""
    return _json({**content, "sha256": hashlib.sha256(_json(content)).hexdigest()})


def _content(folder: Path, entry: Any) -> bytes:
    """Return the bytes of a listed file, as they were written."""
    if not isinstance(entry, dict) or not isinstance(entry.get("file"), str) or not _OURS.fullmatch(entry["file"]):
        raise damaged(folder, ValueError("the manifest names a file that is none of a model's"))
    path = folder / entry["file"]
    try:
        data = bytes(path.read_bytes())
    except OSError as error:
        raise damaged(folder, error) from None
    if len(data) != entry.get("bytes") or hashlib.sha256(data).hexdigest() != entry.get("sha256"):
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


def settings_of(thing: Any, owner: str) -> dict[str, Any]:
    """Return the settings of a learner or a recipe as JSON values."""
    if not is_dataclass(thing):
        raise InputError(
            f"{owner} cannot be saved: {type(thing).__name__} must be a dataclass, its fields the settings."
        )
    return {each.name: _plain(getattr(thing, each.name), each.name, owner) for each in fields(thing) if each.init}


def _plain(value: Any, name: str, owner: str) -> Any:
    if isinstance(value, NCF):
        return {"ncf": settings_of(value, owner)}
    if isinstance(value, tuple | list):
        return [_plain(each, name, owner) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InputError(
        f"{owner} cannot be saved: its {name!r} is a {type(value).__name__} of your own, which a file without code cannot hold. "
        "Use one of fedonce's networks."
    )


def restored_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as they were: lists are tuples, and embeddings are NCF."""
    return {name: _restored(value) for name, value in values.items()}


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        return NCF(**restored_settings(value["ncf"]))
    return tuple(_restored(each) for each in value) if isinstance(value, list) else value
