"""The guests' values beside the host's rows: what may be laid there, and where it goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fedonce.errors import InputError, MessageError, parameter_error
from fedonce.messages.representation import Representation
from fedonce.rows.matching import HostRows
from fedonce.system import sizes
from fedonce.training.loop import Rows


def check_memory(n_rows: int, n_values: int, limit: int | None = None) -> None:
    """Raise where the guests' values would take more memory than the host allows, before any of it is taken."""
    wanted, most = n_rows * n_values * np.dtype(np.float32).itemsize, sizes.memory_limit() if limit is None else limit
    if wanted > most:
        whose = "a quarter of this machine's memory" if limit is None else "max_memory"
        raise InputError(
            f"The guests' values would take {sizes.in_words(wanted)} ({n_rows:,} rows of {n_values:,} values), and the limit is "
            f"{sizes.in_words(most)} ({whose}). Let guests send fewer values per row (dim), take fewer guests or fewer rows, or "
            "raise the limit (max_memory).",
            parameter="max_memory",
        )


def check_decoded(messages: object) -> None:
    """Raise unless messages are what `Host` takes."""
    if not isinstance(messages, list | tuple) or not all(isinstance(message, Representation) for message in messages):
        raise parameter_error(
            "Host", "messages", "a list of Representation (read bytes with from_bytes)", type(messages).__name__
        )


def arrange(messages: Sequence[Representation], dims: Mapping[str, int], rows: HostRows, run: str) -> tuple[Rows, Rows]:
    """Lay the guests' values side by side, zeros where a guest or a row is absent, and mark who is present."""
    by_party = {message.party: message for message in messages}
    if len(by_party) < len(messages):
        names = [message.party for message in messages]
        twice = next(name for name in names if names.count(name) > 1)
        raise MessageError(f"The messages of party {twice!r} are refused: there are two for the same rows; keep one.")
    values = np.zeros((rows.n_rows, sum(dims.values())), np.float32)
    present = np.zeros((rows.n_rows, len(dims)), np.float32)
    for message in messages:
        _check_belongs(message, dims, run)
    start = 0
    for j, (party, dim) in enumerate(dims.items()):
        if party in by_party:
            held, taken = rows.match(by_party[party])
            values[held, start : start + dim] = by_party[party].values[taken]
            present[held, j] = 1
        start += dim
    return values, present


def _check_belongs(message: Representation, dims: Mapping[str, int], run: str) -> None:
    refused = f"The message of party {message.party!r} is refused: "
    if message.party not in dims:
        raise MessageError(
            f"{refused}the model was trained without this party ({', '.join(dims) or 'no guest'}); train again with it."
        )
    if message.run != run:
        raise MessageError(f"{refused}it belongs to run {message.run!r}, this is run {run!r}.")
    if message.dim != dims[message.party]:
        raise MessageError(
            f"{refused}it has {message.dim} values per row, the model was trained with {dims[message.party]}."
        )


def check_overlap(overlap: Mapping[str, float], n_rows: int) -> None:
    """Refuse a message that has no row of the host's."""
    for party, share in overlap.items():
        if not share:
            raise MessageError(
                f"The message of party {party!r} is refused: none of its rows is one of the host's {n_rows}. Look at the "
                "columns of ids and how they are written (forms); or leave this guest out.",
                parameter="forms",
            )
