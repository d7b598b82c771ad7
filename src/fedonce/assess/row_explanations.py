"""What moved each prediction: which party, and which of the host's own columns.

Exact where the host's model can say it (trees, linear). Else an approximation: a party's values, or a column's, are replaced by
those of some other rows, and what moved the prediction is how far it goes back by that, on average.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.data.table import Table
from fedonce.errors import parameter_error
from fedonce.hostmodels.blend import BlendModel
from fedonce.messages.representation import Representation
from fedonce.party import Host
from fedonce.rows.matching import Matching
from fedonce.training.loop import Rows, pick_device

BACKGROUND = 20  # rows whose values take the place of a party's, where it is not exact
BLOCK = 40_000  # rows that the model is asked about at a time
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class RowExplanations:
    """What moved each prediction.

    Parameters
    ----------
    host : str
        The host's name.
    prediction : array
        A class or a number per row.
    explained : array
        What is explained: the number, or how much surer the model is of the predicted class than of the others: of two classes
        its log-odds, of more its logit less the mean of the others'.
    parties : dict by party
        How far each party moved that, per row; the host first.
    columns : dict by own column of the host
        Likewise; empty of images.
    exact : bool
        Whether parts are exactly what the model adds up; else they are an approximation.
    """

    host: str
    prediction: NDArray[Any]
    explained: Numbers
    parties: Mapping[str, Numbers]
    columns: Mapping[str, Numbers]
    exact: bool

    @property
    def rest(self) -> Numbers:
        """What is left: where it is exact, the prediction without any party; else that, and what parties do only together."""
        return self.explained - sum(self.parties.values(), np.zeros(len(self.explained)))

    @property
    def how(self) -> str:
        """Either "exact" or "approximate"."""
        return "exact" if self.exact else "approximate"

    def as_columns(self) -> dict[str, NDArray[Any]]:
        """Return all of it as columns of a table."""
        moved = {f"moved_by_{party}": each for party, each in self.parties.items()}
        moved |= {f"moved_by_{self.host}.{column}": each for column, each in self.columns.items()}
        how = np.full(len(self.explained), self.how, dtype=object)
        return {"prediction": self.prediction, "explained": self.explained, **moved, "rest": self.rest, "how": how}


@dataclass(frozen=True)
class _Rows:
    own: Rows
    values: Rows
    present: Rows

    def take(self, rows: NDArray[np.intp]) -> _Rows:
        return _Rows(self.own[rows], self.values[rows], self.present[rows])


@dataclass(frozen=True)
class _Part:
    """Some of a row's inputs: prepared columns of the host, values and mark of a guest."""

    own: NDArray[np.intp] | slice
    values: slice
    present: slice

    def replaced(self, rows: _Rows, by: _Rows) -> _Rows:
        """Return rows with this part of others."""
        own, values, present = rows.own.copy(), rows.values.copy(), rows.present.copy()
        own[:, self.own] = by.own[:, self.own]
        values[:, self.values] = by.values[:, self.values]
        present[:, self.present] = by.present[:, self.present]
        return _Rows(own, values, present)


def explain_rows(
    host: Host,
    table: Any,
    messages: Sequence[Representation],
    matching: Matching | None = None,
    background: int = BACKGROUND,
    seed: int = 0,
) -> RowExplanations:
    """Say what moved the prediction of each row of a table, with what guests sent for it.

    `matching` says how the rows of messages are found; None: as the host was made. Where the model cannot say it exactly, values
    are replaced by those of `background` rows of the table, drawn by `seed`.
    """
    if type(background) is not int or background < 1:
        raise parameter_error("explain_rows", "background", "a positive integer", background)
    own = Table.of(table)
    outputs = host.outputs(own, messages, matching)
    rows = _Rows(host.preparation.transform(own), *host.arrange(own, messages, matching))
    toward = _toward(host, outputs)
    explained = np.asarray((_raw(host, rows) * toward).sum(axis=1))
    found = _exact(host, rows, toward)
    exact = found is not None
    if found is None:
        others = rows.take(np.random.default_rng(seed).permutation(own.n_rows)[:background])
        found = _approximate(host, rows, others, toward, explained)
    prediction = outputs if host.classes is None else host.classes[outputs.argmax(axis=1)]
    return RowExplanations(host.name, prediction, explained, *found, exact)


def _toward(host: Host, outputs: Numbers) -> Numbers:
    """Return what to multiply a row's outputs by, so that their sum is what is explained."""
    if host.classes is None:
        return np.ones((len(outputs), 1))
    others = max(outputs.shape[1] - 1, 1)
    found = np.full(outputs.shape, -1 / others)
    found[np.arange(len(outputs)), outputs.argmax(axis=1)] = 1.0
    return found


def _raw(host: Host, rows: _Rows) -> Numbers:
    """Return logits, as calibrated, or numbers on the scale of the labels, as one column."""
    if host.classes is None:
        return host.outputs_of(rows.own, rows.values, rows.present)[:, None]
    assert host.model is not None
    logits = host.model.outputs(rows.own, rows.values, rows.present, pick_device(host.device))
    return logits.astype(np.float64) / host.temperature


Found = tuple[dict[str, Numbers], dict[str, Numbers]]


def _exact(host: Host, rows: _Rows, toward: Numbers) -> Found | None:
    """Return what the model itself says of parties and own columns; None: it cannot."""
    model = host.model
    assert model is not None
    if isinstance(model, BlendModel) and model.alone_ == (False,):  # it answers what its only member answers
        model = model.members_[0]
    each = model.contributions(rows.own, rows.values, rows.present, pick_device(host.device))
    if each is None:
        return None
    unit = host.spread if host.classes is None else 1 / host.temperature
    moved = np.einsum("rof,ro->rf", each, toward * unit)
    n_own = rows.own.shape[1]
    parties = {host.name: moved[:, :n_own].sum(axis=1)}
    parties |= {guest: moved[:, n_own:-1][:, theirs].sum(axis=1) for guest, theirs in _values(host)}
    return parties, {name: moved[:, its].sum(axis=1) for name, its in _own_columns(host)}


def _values(host: Host) -> Iterator[tuple[str, slice]]:
    """Give each guest and where its values are."""
    start = 0
    for guest, dim in host.dims.items():
        yield guest, slice(start, start + dim)
        start += dim


def _own_columns(host: Host) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """Give each of the host's columns and where it is in prepared rows; none of images."""
    origins = host.preparation.origins
    if origins is not None:
        for position, name in enumerate(host.preparation.names):
            yield str(name), np.flatnonzero(origins == position)


def _approximate(host: Host, rows: _Rows, others: _Rows, toward: Numbers, explained: Numbers) -> Found:
    """Return how far predictions go back when a part of the rows is replaced by that of others."""
    n_rows = len(rows.own)
    nothing = slice(0)
    parts = {host.name: _Part(slice(None), nothing, nothing)}
    for j, (guest, theirs) in enumerate(_values(host)):
        parts[guest] = _Part(nothing, theirs, slice(j, j + 1))
    columns = {name: _Part(its, nothing, nothing) for name, its in _own_columns(host)}
    size = max(1, BLOCK // max(1, len(others.own)))
    blocks = [np.arange(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]

    def moved(part: _Part) -> Numbers:
        found = [_without(host, rows.take(block), others, part, toward[block]) for block in blocks]
        return np.asarray(explained - np.concatenate([np.empty(0), *found]))

    return {name: moved(part) for name, part in parts.items()}, {name: moved(part) for name, part in columns.items()}


def _without(host: Host, rows: _Rows, others: _Rows, part: _Part, toward: Numbers) -> Numbers:
    """Return what would be explained with a part of each of the others in turn, on average."""
    n_rows, n_others = len(rows.own), len(others.own)
    many = rows.take(np.repeat(np.arange(n_rows), n_others))
    by = others.take(np.tile(np.arange(n_others), n_rows))
    mean = _raw(host, part.replaced(many, by)).reshape(n_rows, n_others, -1).mean(axis=1)
    return np.asarray((mean * toward).sum(axis=1))
