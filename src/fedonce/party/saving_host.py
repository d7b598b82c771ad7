"""A host on disk: its settings and what its training made as the content of a folder, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce import hostmodels
from fedonce.data.preparation import Preparation
from fedonce.data.schema import Reading
from fedonce.errors import InputError, shown
from fedonce.hostmodels import HOST_MODELS, HostModel, Inputs
from fedonce.hostmodels.validation import Validation
from fedonce.messages.names import kept
from fedonce.messages.representation import DIM_LIMIT
from fedonce.party.drift import MOST_VALUES, Seen
from fedonce.party.host_state import HostSettings, HostState
from fedonce.party.saving import check_registered, empty_purse, ledger_from, ledger_json
from fedonce.party.storage import Stored
from fedonce.rows.matching import Matching

MOST_VALUES_IN_ALL = 2**20  # per row, of all guests together: a forged number must not take memory
_KINDS: dict[str, Any] = {"U": str, "O": object, "b": bool, "i": np.int64, "u": np.uint64, "f": np.float64}


def content(host: HostSettings, state: HostState, messages: Mapping[str, bytes]) -> Stored:
    """Return what is kept of a host that was trained, and the messages that it was trained with."""
    if state.model is None:
        raise InputError(
            f"The host {host.name!r} has not been trained yet, so there is nothing to save; call aggregate first."
        )
    owner = f"the host {host.name!r}"
    check_registered(HOST_MODELS, state.model, f"The model {state.model.name!r} of {owner}", "hostmodels")
    own = state.model.to_json(owner)

    def of_model(key: str) -> dict[str, Any]:
        """Return an entry of the model "network", which stands where it always stood; what other models add comes last."""
        return {key: own[key]} if key in own else {}

    settings = {
        "name": host.name,
        "task": host.task,
        "run": host.run,
        "random_state": int(host.random_state),
        **of_model("recipe"),
        "dims": {party: int(dim) for party, dim in state.dims.items()},
        "makers": dict(state.makers),
        "overlap": dict(state.trained_overlap),
        **of_model("sizes"),
        "classes": _values_json(state.classes),
        "labels": _values_json(host.labels),
        "offset": state.offset,
        "spread": state.spread,
        "forms": list(state.forms),
        **of_model("partial"),
        "ledger": None if state.ledger is None else ledger_json(state.ledger, state.ledger.parties),
        "reading": None if host.reading is None else host.reading.to_json(),
        "received": {party: int(size) for party, size in state.received.items()},
        "seen": {party: seen.to_json() for party, seen in state.seen.items()},
        **({} if state.temperature == 1 else {"temperature": state.temperature}),
        **({} if state.validation is None else {"validation": state.validation.as_json}),
        **({} if host.calibrate == "auto" else {"calibrate": bool(host.calibrate)}),
        **({} if host.validate else {"validate": False}),
        **own,
    }
    return Stored("host", settings, state.preparation.to_json(), state.model.state(), dict(messages))


def parts(stored: Stored) -> tuple[HostSettings, HostState]:
    """Return a host's settings and what its training made."""
    settings, preparation = stored.settings, Preparation.from_json(stored.encoding)
    name, forms = kept(settings["name"]), tuple(settings["forms"])
    ledger = None if settings["ledger"] is None else ledger_from(settings["ledger"])
    trained = _model(settings, len(stored.weights))
    host = HostSettings(
        name,
        hostmodels.make(trained, owner="Host"),
        settings["task"],
        preparation.shape,
        settings["random_state"],
        run=settings["run"],
        purse=None if ledger is None else empty_purse(name, ledger),
        public=None if ledger is None else preparation.public,
        labels=_values(settings["labels"]),
        matching=Matching(forms=forms),
        reading=None if settings["reading"] is None else Reading.from_json(settings["reading"]),
        validate=_flag(settings, "validate", True),
        calibrate=_flag(settings, "calibrate", "auto"),
    )
    classes, dims = _values(settings["classes"]), settings["dims"]
    _check_dims(dims)  # before anything is built of that size
    n_outputs = 1 if classes is None else len(classes)
    trained.restore(stored.weights, Inputs(preparation.row_shape, tuple(dims.values()), n_outputs))
    return host, HostState(
        preparation,
        forms,
        dims,
        settings["makers"],
        classes,
        settings["offset"],
        settings["spread"],
        trained,
        ledger,
        settings["overlap"],
        {party: Seen.from_json(figures) for party, figures in settings.get("seen", {}).items()},
        {party: int(size) for party, size in settings.get("received", {}).items()},
        settings.get("temperature", 1.0),
        Validation.from_json(settings["validation"]) if "validation" in settings else None,
    )


def _flag(settings: Mapping[str, Any], name: str, default: bool | str) -> Any:
    """Return what a host was told for its trainings, if that was not the default, of which nothing is written."""
    value = settings.get(name, default)
    if type(value) is not bool and value != default:
        raise ValueError(f"its {name} must be true or false")
    return value


def _check_dims(dims: Mapping[str, Any]) -> None:
    if (
        not all(type(dim) is int and 0 < dim <= DIM_LIMIT for dim in dims.values())
        or sum(dims.values()) > MOST_VALUES_IN_ALL
    ):
        raise ValueError("its guests must have one value per row or more, and not more than messages can")


def check_parts(state: HostState) -> None:
    """Raise where what is known of the guests and labels is of the wrong kind."""
    if not all(isinstance(dim, int) and dim > 0 for dim in state.dims.values()):
        raise ValueError("its guests must have one value per row or more")
    if not all(isinstance(each, str) for each in state.makers.values()):
        raise ValueError("it does not say how its guests' values were made")
    known = (state.offset, state.spread, state.temperature, *state.trained_overlap.values())
    if not all(type(value) in (int, float) and abs(value) < math.inf for value in known):
        raise ValueError("its figures must be numbers")
    if not state.temperature > 0:
        raise ValueError("its temperature must be above 0")
    if any(
        seen.rows and len(seen.quantiles) != min(state.dims[party], MOST_VALUES) for party, seen in state.seen.items()
    ):
        raise ValueError("its figures of a guest's message must be one per value of a row")


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
