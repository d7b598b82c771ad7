"""What of a party is kept on disk, and how it comes back; `storage` has the files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedonce.data.preparation import Preparation
from fedonce.data.schema import Reading
from fedonce.errors import FedOnceError, InputError, shown
from fedonce.hostmodels import HOST_MODELS, HostModel, Inputs
from fedonce.learners import LEARNERS, Learner
from fedonce.messages.codecs import Codec
from fedonce.messages.names import kept
from fedonce.messages.representation import Representation
from fedonce.party import storage
from fedonce.party.drift import MOST_VALUES, Seen
from fedonce.party.storage import Stored, Tensors
from fedonce.party.tuned import Tuned
from fedonce.privacy import LocalNoise
from fedonce.privacy.budget import Purse
from fedonce.privacy.ledger import Ledger, from_text, to_text
from fedonce.privacy.noise import SecretRandom
from fedonce.rows.ids import Naming
from fedonce.system.registry import Registry
from fedonce.training.networks import TUNED_HIDDEN, Correction, check_weights, encoder
from fedonce.training.randomness import torch_seeded
from fedonce.training.stored import check_lengths, restored_settings, settings_of

_KINDS: dict[str, Any] = {"U": str, "O": object, "b": bool, "i": np.int64, "u": np.uint64, "f": np.float64}
_DAMAGE = (
    LookupError,
    ValueError,
    TypeError,
    RuntimeError,
    AttributeError,
    ArithmeticError,
    StopIteration,
    MemoryError,
)
# The order of a host's settings in its file, those of the model "network" among them; what other models add comes last.
_HOST_KEYS = (
    "name",
    "task",
    "run",
    "random_state",
    "recipe",
    "dims",
    "makers",
    "overlap",
    "sizes",
    "classes",
    "labels",
    "offset",
    "spread",
    "forms",
    "partial",
    "ledger",
    "reading",
    "received",
    "seen",
)
# A guest's folder has a scale even where its encoding needs none.
NO_SCALE = {f"scale.{name}": np.zeros(0, np.float32) for name in ("low", "high")}
_ROW_LIMIT = 2**24  # numbers of a prepared row; or as many as there are weights


class GuestState(Protocol):
    """What of a guest is kept."""

    name: str
    dim: int
    bits: int | str
    run: str
    random_state: int
    learner: Learner
    preparation: Preparation
    encoding: type[Codec]
    codec: Codec | None
    noise: LocalNoise | None
    tuned: Tuned | None
    purse: Purse | None
    reading: Reading | None
    naming: Naming | None
    learnt_naming: tuple[str, tuple[str, ...]] | None

    def values(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the values of prepared rows."""

    def message(self, values: NDArray[np.float32], present: NDArray[np.bool_] | None, **rows: Any) -> Representation:
        """Put values into a message."""


class HostState(Protocol):
    """What of a host is kept."""

    seen: dict[str, Seen]
    trained_overlap: dict[str, float]
    name: str
    task: str
    run: str
    random_state: int
    preparation: Preparation
    model: HostModel | None
    dims: dict[str, int]
    makers: dict[str, str]
    overlap: dict[str, float]
    received: dict[str, int]
    classes: NDArray[Any] | None
    labels: NDArray[Any] | None
    offset: float
    spread: float
    forms: tuple[str, ...]
    ledger: Ledger | None
    purse: Purse | None
    reading: Reading | None

    @property
    def n_outputs(self) -> int:
        """Values that the model gives for a row."""

    def outputs_of(
        self, rows: NDArray[np.float32], values: NDArray[np.float32], present: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        """Return the outputs for prepared rows."""


G = TypeVar("G", bound=GuestState)
H = TypeVar("H", bound=HostState)


def keep_guest(guest: GuestState, folder: str | Path, leaving: Mapping[str, bytes]) -> Path:
    """Write a guest that has learnt, and what leaves it."""
    if guest.codec is None:
        raise InputError(f"Party {guest.name!r} has not learnt yet, so there is nothing to save; call learn first.")
    owner = f"The learner {guest.learner.name!r} of party {guest.name!r}"
    _check_registered(LEARNERS, guest.learner, owner, "learners")
    # After rounds from a random start, which stand alone, the learner may never have learnt.
    learnt = {} if guest.tuned is not None and guest.tuned.alone else guest.learner.state()
    weights = {f"learner.{name}": np.asarray(value) for name, value in learnt.items()}
    weights |= NO_SCALE | {f"scale.{name}": value for name, value in guest.codec.state().items()}
    if guest.noise is not None and guest.noise.centre is not None:
        weights["noise.centre"] = guest.noise.centre
    if guest.tuned is not None and guest.tuned.network is not None:
        weights |= _weights("tuned.", guest.tuned.network)
    settings = {
        "name": guest.name,
        "dim": int(guest.dim),
        "bits": guest.bits,
        "run": guest.run,
        "random_state": int(guest.random_state),
        "learner": {"name": guest.learner.name, "settings": settings_of(guest.learner, owner)},
        "noise": None if guest.noise is None else {"scale": guest.noise.scale, "radius": guest.noise.radius},
        "tuned": None
        if guest.tuned is None
        else {"network": guest.tuned.network is not None, "alone": guest.tuned.alone},
        "ledger": None if guest.purse is None else _ledger_json(guest.purse.ledger, [guest.name]),
        "reading": None if guest.reading is None else guest.reading.to_json(),
        "naming": None if guest.naming is None else {"form": guest.naming.form, "forms": list(guest.naming.forms)},
    }
    return storage.save(folder, Stored("guest", settings, guest.preparation.to_json(), weights, leaving=leaving))


def _check_registered(registry: Registry[Any, Any], thing: Learner | HostModel, owner: str, room: str) -> None:
    """Refuse what could not be loaded, or would be loaded as another one of the same name."""
    if registry.get(thing.name) is not type(thing):
        raise InputError(
            f"{owner} cannot be saved: {type(thing).__name__} is not known by that name, so nobody could load it; give it a "
            f"name of its own, and call fedonce.{room}.register with it first."
        )


def guest_from(folder: str | Path, make: Callable[..., G]) -> G:
    """Read a guest, ready to represent rows."""
    stored = storage.load(folder, "guest")
    try:
        with torch_seeded(np.random.default_rng(0)):  # weights drawn on the way are replaced at once
            check_lengths(stored.settings["learner"], len(stored.weights))
            guest = _guest(stored, make)
            _try_guest(guest, stored.weights)
            return guest
    except FedOnceError:
        raise
    except _DAMAGE as error:
        raise storage.damaged(folder, error) from None


def _guest(stored: Stored, make: Callable[..., G]) -> G:
    settings, weights = stored.settings, stored.weights
    name, noise, tuned = kept(settings["name"]), settings["noise"], settings["tuned"]
    guest = make(
        name,
        _learner(settings["learner"], weights),
        settings["dim"],
        settings["bits"],
        run=settings["run"],
        random_state=settings["random_state"],
    )
    guest.preparation = Preparation.from_json(stored.encoding)
    if noise is not None:
        guest.noise = LocalNoise(noise["scale"], weights["noise.centre"], noise["radius"])
    if tuned is not None:
        network = _tuned(tuned["alone"], guest, weights) if tuned["network"] else None
        guest.tuned = Tuned(network, tuned["alone"])
    if settings["ledger"] is not None:
        guest.purse = _empty_purse(name, _ledger(settings["ledger"]))
    guest.reading = None if settings["reading"] is None else Reading.from_json(settings["reading"])
    if settings["naming"] is not None:
        form, forms = settings["naming"]["form"], tuple(settings["naming"]["forms"])
        guest.learnt_naming = (form, forms)
        guest.naming = None if form == "keyed" else Naming(form, forms=forms)  # a secret is not kept
    return guest


def _one_row(preparation: Preparation, weights: Tensors) -> NDArray[np.float32]:
    """Return a prepared row of zeros, to try a model with."""
    width = math.prod(preparation.row_shape)
    if width > max(_ROW_LIMIT, sum(value.size for value in weights.values())):
        raise ValueError(f"its rows have {width} numbers")
    return np.zeros((1, *preparation.row_shape), np.float32)


def _try_guest(guest: GuestState, weights: Tensors) -> None:
    """Restore the codec and represent a row: parts that do not fit together are found here, and not when the guest is needed."""
    if "noise.centre" in weights and weights["noise.centre"].ndim != 1:
        raise ValueError("its noise must be a number per value")
    values = guest.values(_one_row(guest.preparation, weights))
    state = {name: weights[f"scale.{name}"] for name in guest.encoding.keeps}
    guest.codec = guest.encoding.restore(state, values.shape[1], ValueError)
    guest.message(values if guest.noise is None else guest.noise.blur(values), None)


def _try_host(host: HostState, weights: Tensors) -> None:
    """Predict a row, and see that what is known of the guests is of the right kind."""
    if not all(isinstance(dim, int) and dim > 0 for dim in host.dims.values()):
        raise ValueError("its guests must have one value per row or more")
    if not all(isinstance(each, str) for each in host.makers.values()):
        raise ValueError("it does not say how its guests' values were made")
    known = (host.offset, host.spread, *host.overlap.values())
    if not all(type(value) in (int, float) and abs(value) < math.inf for value in known):
        raise ValueError("its figures must be numbers")
    if any(
        seen.rows and len(seen.quantiles) != min(host.dims[party], MOST_VALUES) for party, seen in host.seen.items()
    ):
        raise ValueError("its figures of a guest's message must be one per value of a row")
    guests = np.zeros((1, sum(host.dims.values())), np.float32), np.ones((1, len(host.dims)), np.float32)
    outputs = host.outputs_of(_one_row(host.preparation, weights), *guests)
    if host.classes is not None and outputs.shape != (1, len(host.classes)):
        raise ValueError("its outputs are not one per class")


def _learner(content: Mapping[str, Any], weights: Tensors) -> Learner:
    if content["name"] not in LEARNERS:
        raise InputError(
            f"The model was learnt by {content['name']!r}, a learner that is not known here; call fedonce.learners.register with "
            "it first."
        )
    learner: Learner = LEARNERS[content["name"]](**restored_settings(content["settings"]))
    learnt = {name.removeprefix("learner."): value for name, value in weights.items() if name.startswith("learner.")}
    if learnt:
        learner.restore(learnt)
    return learner


def _tuned(alone: bool, guest: GuestState, weights: Tensors) -> nn.Module:
    shape = guest.preparation.row_shape

    def build() -> nn.Module:
        if alone:
            return encoder(shape, TUNED_HIDDEN, guest.dim)
        return Correction(shape, np.zeros((1, len(weights["tuned.spread"])), np.float32))

    own = {name.removeprefix("tuned."): value for name, value in weights.items() if name.startswith("tuned.")}
    check_weights(build, own)
    return _loaded(build(), own)


def keep_host(host: HostState, folder: str | Path, messages: Mapping[str, bytes]) -> Path:
    """Write a host that was trained, and the messages that it was trained with."""
    if host.model is None:
        raise InputError(
            f"The host {host.name!r} has not been trained yet, so there is nothing to save; call aggregate first."
        )
    owner = f"the host {host.name!r}"
    _check_registered(HOST_MODELS, host.model, f"The model {host.model.name!r} of {owner}", "hostmodels")
    settings = {
        "name": host.name,
        "task": host.task,
        "run": host.run,
        "random_state": int(host.random_state),
        "dims": {party: int(dim) for party, dim in host.dims.items()},
        "makers": host.makers,
        "overlap": host.trained_overlap,
        "classes": _values_json(host.classes),
        "labels": _values_json(host.labels),
        "offset": host.offset,
        "spread": host.spread,
        "forms": list(host.forms),
        "ledger": None if host.ledger is None else _ledger_json(host.ledger, host.ledger.parties),
        "reading": None if host.reading is None else host.reading.to_json(),
        "received": {party: int(size) for party, size in host.received.items()},
        "seen": {party: seen.to_json() for party, seen in host.seen.items()},
        **host.model.to_json(owner),
    }
    ordered = {key: settings[key] for key in sorted(settings, key=_place)}
    stored = Stored("host", ordered, host.preparation.to_json(), host.model.state(), dict(messages))
    return storage.save(folder, stored)


def _place(key: str) -> int:
    """Return where a key of a host's settings stands in its file."""
    return _HOST_KEYS.index(key) if key in _HOST_KEYS else len(_HOST_KEYS)


def host_from(folder: str | Path, make: Callable[..., H]) -> H:
    """Read a host, ready to predict."""
    stored = storage.load(folder, "host")
    try:
        with torch_seeded(np.random.default_rng(0)):
            host = _host(stored, make)
            _try_host(host, stored.weights)
            return host
    except FedOnceError:
        raise
    except _DAMAGE as error:
        raise storage.damaged(folder, error) from None


def _host(stored: Stored, make: Callable[..., H]) -> H:
    settings = stored.settings
    model = _model(settings, len(stored.weights))
    host = make(
        kept(settings["name"]),
        settings["task"],
        random_state=settings["random_state"],
        run=settings["run"],
        forms=settings["forms"],
        model=model,
    )
    host.dims, host.makers, host.overlap = settings["dims"], settings["makers"], settings["overlap"]
    host.trained_overlap = dict(host.overlap)
    host.seen = {party: Seen.from_json(content) for party, content in settings.get("seen", {}).items()}
    host.classes, host.labels = _values(settings["classes"]), _values(settings["labels"])
    host.offset, host.spread = settings["offset"], settings["spread"]
    host.received = {party: int(size) for party, size in settings.get("received", {}).items()}
    host.preparation = Preparation.from_json(stored.encoding)
    if settings["ledger"] is not None:
        host.ledger = _ledger(settings["ledger"])
        host.purse = _empty_purse(host.name, host.ledger)
    model.restore(stored.weights, Inputs(host.preparation.row_shape, tuple(host.dims.values()), host.n_outputs))
    host.model = model
    host.reading = None if settings["reading"] is None else Reading.from_json(settings["reading"])
    return host


def _model(settings: Mapping[str, Any], n_arrays: int) -> HostModel:
    """Return the model of a file, without what it learnt; before there were several, its name was not written."""
    name = settings.get("model", "network")
    if name not in HOST_MODELS:
        raise InputError(
            f"The host was trained by {name!r}, a host model that is not known here; install its package, or call "
            "fedonce.hostmodels.register with it first."
        )
    made: HostModel = HOST_MODELS[name].from_json(settings, n_arrays)
    return made


def _weights(prefix: str, network: nn.Module) -> Tensors:
    return {prefix + name: value.cpu().numpy() for name, value in network.state_dict().items()}


def _loaded(network: nn.Module, weights: Tensors) -> nn.Module:
    network.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    return network.eval()


def _values_json(values: NDArray[Any] | None) -> dict[str, Any] | None:
    """Return classes or bounds with their type: 1, "1" and True are three different classes."""
    if values is None:
        return None
    plain = [value.item() if isinstance(value, np.generic) else value for value in values.tolist()]
    if values.dtype.kind not in _KINDS or not all(isinstance(value, bool | int | float | str) for value in plain):
        raise InputError(
            f"The host cannot be saved: its labels are {values.dtype}, as {shown(values[0])}; use text or numbers."
        )
    return {"kind": values.dtype.kind, "values": plain}


def _values(content: Mapping[str, Any] | None) -> NDArray[Any] | None:
    return None if content is None else np.array(content["values"], dtype=_KINDS[content["kind"]])


def _ledger_json(ledger: Ledger, parties: Any) -> dict[str, Any]:
    entries = {
        party: json.loads(to_text([entry for entry in ledger.entries if entry.party == party])) for party in parties
    }
    return {"delta": ledger.delta, "accountant": ledger.accountant, "division": ledger.division, "entries": entries}


def _ledger(content: Mapping[str, Any]) -> Ledger:
    entries = [
        entry
        for party, lines in content["entries"].items()
        for entry in from_text(json.dumps(lines), party, "its ledger")
    ]
    return Ledger(content["delta"], content["accountant"], content["division"], entries)


def _empty_purse(party: str, ledger: Ledger) -> Purse:
    """Return a purse from which all is spent: a model that comes from disk represents and predicts, and learns no more."""
    return Purse(
        party, (), ledger, SecretRandom(), used={entry.what for entry in ledger.entries if entry.party == party}
    )
