"""A guest on disk: its settings and what it has learnt as the content of a folder, and back."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from fedonce.data.preparation import Preparation
from fedonce.data.schema import Reading
from fedonce.errors import InputError
from fedonce.learners import LEARNERS, Learner
from fedonce.learners.hinted import Hinted
from fedonce.learners.signs import MOST_DIRECTIONS
from fedonce.messages import codecs
from fedonce.messages.codecs import Codec
from fedonce.messages.codecs.budget import LEAST_BYTES, MOST_BYTES
from fedonce.messages.codecs.coded import Coded12, coded_by
from fedonce.messages.message_checks import says_hints
from fedonce.messages.names import kept
from fedonce.party.blurring import Blur
from fedonce.party.fine_tuning import FineTuning
from fedonce.party.guest_state import GuestSettings, GuestState
from fedonce.party.saving import check_registered, empty_purse, ledger_from, ledger_json
from fedonce.party.storage import Stored, Tensors
from fedonce.privacy import LocalEpsilon, LocalNoise
from fedonce.privacy.local_epsilon import KEY_BYTES
from fedonce.rows.ids import Naming
from fedonce.training.networks import TUNED_HIDDEN, Correction, check_weights, encoder
from fedonce.training.stored import check_lengths, restored_settings, settings_of

# A guest's folder has a scale even where its encoding needs none.
NO_SCALE = {f"scale.{name}": np.zeros(0, np.float32) for name in ("low", "high")}


def content(guest: GuestSettings, state: GuestState, leaving: Mapping[str, bytes]) -> Stored:
    """Return what is kept of a guest that has learnt, and what leaves it."""
    if state.codec is None:
        raise InputError(f"Party {guest.name!r} has not learnt yet, so there is nothing to save; call learn first.")
    owner = f"The learner {state.learner.name!r} of party {guest.name!r}"
    check_registered(LEARNERS, state.learner, owner, "learners")
    noise, tuned, naming = state.noise, state.fine_tuning, state.learnt_naming
    settings = {
        "name": guest.name,
        "dim": int(guest.dim),
        "bits": guest.encoding.choice(),
        "run": guest.run,
        "random_state": int(guest.random_state),
        "learner": {"name": state.learner.name, "settings": settings_of(state.learner, owner)},
        "noise": _blur_settings(noise),
        "tuned": None if tuned is None else {"network": tuned.network is not None, "alone": tuned.alone},
        "ledger": None if guest.purse is None else ledger_json(guest.purse.ledger, [guest.name]),
        "reading": None if guest.reading is None else guest.reading.to_json(),
        "naming": None if naming is None else {"form": naming[0], "forms": list(naming[1])},
    }
    if state.hints:
        settings["hints"] = state.hints
    if isinstance(state.learner, Hinted) and not isinstance(guest.learner, Hinted):
        settings["asked_for_hints"] = False  # its learner was put beside hints, as there were some
    if state.answered:
        settings["answered"] = state.answered
    if guest.bytes_per_row is not None:
        settings["bytes_per_row"] = float(guest.bytes_per_row)
    weights = _weights(state, state.codec)
    return Stored("guest", settings, state.preparation.to_json(), weights, leaving=leaving)


def _weights(state: GuestState, codec: Codec) -> Tensors:
    tuned = state.fine_tuning
    # After rounds from a random start, which stand alone, the learner may never have learnt.
    weights = {} if tuned is not None and tuned.alone else _named("learner.", state.learner.state())
    weights |= NO_SCALE | _named("scale.", codec.state())
    if isinstance(state.noise, LocalNoise) and state.noise.centre is not None:
        weights["noise.centre"] = state.noise.centre
    if isinstance(state.noise, LocalEpsilon):
        weights["noise.key"] = np.frombuffer(state.noise.key, np.uint8)
    if tuned is not None and tuned.network is not None:
        weights |= _named("tuned.", {name: value.cpu() for name, value in tuned.network.state_dict().items()})
    return weights


def _named(part: str, arrays: Mapping[str, Any]) -> Tensors:
    """Return the arrays of a part of the guest, by their names in the file."""
    return {part + name: np.asarray(value) for name, value in arrays.items()}


def _part(part: str, weights: Tensors) -> Tensors:
    """Return the arrays of a part of the guest, by their own names."""
    return {name.removeprefix(part): value for name, value in weights.items() if name.startswith(part)}


def parts(stored: Stored) -> tuple[GuestSettings, GuestState]:
    """Return a guest's settings and what it has learnt, but for the codec, whose size the values tell (`codec`)."""
    settings, weights = stored.settings, stored.weights
    check_lengths(settings["learner"], len(weights))
    name, noise, naming = kept(settings["name"]), settings["noise"], settings["naming"]
    most = settings.get("bytes_per_row")
    if most is not None and (type(most) is not float or not LEAST_BYTES <= most <= MOST_BYTES):
        raise ValueError("its bytes per row are no number of bytes that a row can take")
    learner = _learner(settings["learner"])
    taken = isinstance(learner, Hinted) and settings.get("asked_for_hints") is False
    given = learner.without_hints() if isinstance(learner, Hinted) and taken else learner
    preparation = replace(Preparation.from_json(stored.encoding), coding=given.coding)
    guest = GuestSettings(
        name,
        given,
        settings["dim"],
        codecs.find(settings["bits"], "Guest"),
        preparation.shape,
        settings["run"],
        0.0 if noise is None else noise.get("scale", 0.0),
        settings["random_state"],
        purse=None if settings["ledger"] is None else empty_purse(name, ledger_from(settings["ledger"])),
        public=None if settings["ledger"] is None else preparation.public,
        naming=None if naming is None else _naming(naming),
        reading=None if settings["reading"] is None else Reading.from_json(settings["reading"]),
        bytes_per_row=most,
        local_epsilon=None if noise is None else noise.get("epsilon"),
    )
    return guest, GuestState(
        _restored(learner, weights),
        preparation,
        None if noise is None else _blur(noise, weights),
        fine_tuning=_fine_tuning(settings["tuned"], preparation, guest.dim, weights),
        learnt_naming=None if naming is None else (naming["form"], tuple(naming["forms"])),
        hints=_hints(settings.get("hints", "")),
        answered=_answered(settings.get("answered", 0)),
    )


def _answered(count: object) -> int:
    """Return how many messages there were about rows without ids."""
    if type(count) is not int or count < 0:
        raise ValueError("its number of answers is none")
    return count


def _hints(text: object) -> str:
    """Return what a folder says of hints, which its messages repeat."""
    if text == "" or says_hints(text):
        return str(text)
    raise ValueError("what it says of hints cannot be read")


def _blur_settings(blur: Blur | None) -> dict[str, Any] | None:
    if isinstance(blur, LocalEpsilon):
        return {"epsilon": blur.epsilon, "cells": blur.cells}
    return None if blur is None else {"scale": blur.scale, "radius": blur.radius}


def _blur(content: Mapping[str, Any], weights: Tensors) -> Blur:
    """Return how the guest perturbs values; a key for answers is kept with the model, as another would give other answers."""
    if "epsilon" not in content:
        return LocalNoise(content["scale"], weights["noise.centre"], content["radius"])
    key, cells = weights["noise.key"], content["cells"]
    if key.dtype != np.uint8 or key.shape != (KEY_BYTES,):
        raise ValueError("its key must be bytes")
    if type(cells) is not int or not 2 <= cells <= 2**MOST_DIRECTIONS:
        raise ValueError("its answers are of a number of cells that there cannot be")
    return LocalEpsilon(content["epsilon"], cells, key.tobytes())


def _naming(content: Mapping[str, Any]) -> Naming | None:
    """Return how the guest's messages name rows; a secret is not kept, and must be given again."""
    return None if content["form"] == "keyed" else Naming(content["form"], forms=tuple(content["forms"]))


def _learner(content: Mapping[str, Any]) -> Learner:
    if content["name"] not in LEARNERS:
        raise InputError(
            f"The model was learnt by {content['name']!r}, a learner that is not known here; call fedonce.learners.register with "
            "it first."
        )
    learner: Learner = LEARNERS[content["name"]](**restored_settings(content["settings"]))
    return learner


def _restored(learner: Learner, weights: Tensors) -> Learner:
    """Return a learner with what it has learnt."""
    made, learnt = copy.deepcopy(learner), _part("learner.", weights)
    if learnt:
        made.restore(learnt)
    return made


def _fine_tuning(
    content: Mapping[str, Any] | None, preparation: Preparation, dim: int, weights: Tensors
) -> FineTuning | None:
    if content is None:
        return None
    network = _network(content["alone"], preparation, dim, weights) if content["network"] else None
    return FineTuning(network, content["alone"])


def _network(alone: bool, preparation: Preparation, dim: int, weights: Tensors) -> nn.Module:
    """Return the network that rounds trained, with its weights."""

    def build() -> nn.Module:
        if alone:
            return encoder(preparation.row_shape, TUNED_HIDDEN, dim)
        values = np.zeros((1, len(weights["tuned.spread"])), np.float32)
        return Correction(preparation.row_shape, values, preparation.code_sizes)

    own = _part("tuned.", weights)
    check_weights(build, own)
    network = build()
    network.load_state_dict({name: torch.from_numpy(value) for name, value in own.items()})
    return network.eval()


def codec(guest: GuestSettings, weights: Tensors, dim: int) -> Codec:
    """Return how a guest's values, `dim` per row, are written; without `steps`, as versions before those wrote them."""
    if "scale.steps" in weights:
        found = Coded12.restore({"steps": weights["scale.steps"]}, dim, ValueError)
        return coded_by(found.steps)
    state = {name: weights[f"scale.{name}"] for name in guest.encoding.keeps}
    return guest.encoding.restore(state, dim, ValueError)
