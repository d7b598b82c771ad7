"""Settings as JSON values, to be kept on disk, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields, is_dataclass
from typing import Any

import numpy as np

from fedonce.errors import InputError
from fedonce.training.networks import NCF

LATER = "later"  # in the metadata of a field that came after models without it were kept: None is not written down


def added_later() -> Any:
    """Return the field of such a setting."""
    return field(default=None, metadata={LATER: True})


def settings_of(thing: Any, owner: str) -> dict[str, Any]:
    """Return the settings of a learner, a recipe or a host's model as JSON values; `owner` is for errors."""
    if not is_dataclass(thing):
        raise InputError(
            f"{owner} cannot be saved: {type(thing).__name__} must be a dataclass, its fields the settings."
        )
    values = {each.name: (getattr(thing, each.name), each.metadata) for each in fields(thing) if each.init}
    told = {name: value for name, (value, more) in values.items() if value is not None or not more.get(LATER)}
    return {name: _plain(value, name, owner) for name, value in told.items()}


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


def check_lengths(settings: Any, most: int) -> None:
    """Refuse settings with more layers or members than there are weights: a forged model must not take time or memory."""
    values = settings.values() if isinstance(settings, dict) else settings
    if len(values) > max(most, 100) or (isinstance(settings, dict) and settings.get("members", 1) > max(most, 1)):
        raise ValueError("its settings tell of more layers than it has weights")
    for value in values:
        if isinstance(value, dict | list):
            check_lengths(value, most)
