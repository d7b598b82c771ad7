"""Hints: what a host tells guests of its labels before they learn, and which hint a guest has for each of its rows."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedonce.data.table import as_text
from fedonce.errors import FedOnceWarning, InputError, MessageError, parameter_error
from fedonce.learners.hinted import Hinted
from fedonce.learners.told import Told
from fedonce.messages.envelope import is_name
from fedonce.messages.hints import LEAST_EPSILON, MOST_CLASSES, MOST_EPSILON, Hints, is_label
from fedonce.messages.names import check_name
from fedonce.messages.representation import row_digest
from fedonce.party.hint_checks import check_among, check_key, checked_ids, checked_labels, checked_public
from fedonce.party.labels import Labels
from fedonce.privacy import keyed, response
from fedonce.rows.ids import Ids, Naming, keys_of, locate, normalise, repeated, unnamed

if TYPE_CHECKING:
    from fedonce.data.table import Table
    from fedonce.learners.base import Learner
    from fedonce.party.guest_state import GuestSettings
    from fedonce.rows.alignment import AgreedRows

KEY_BYTES = 32
NO_HINT = -1


@dataclass(frozen=True)
class Hinting:
    """How a host hints at its labels.

    Parameters
    ----------
    epsilon : float
        With which each label is told, by randomised response. Infinite: the label may travel as it is, which `label` must
        then name: it is not the one that is to be predicted, but last year's, a coarser one, a public stand-in.
    edges : sequence of float, optional
        Of numbers: between which of them the bins lie. They are published, so they must be public knowledge.
    label : str
        What the label is called in the file, in the guests' messages and in the ledger.

    Examples
    --------
    >>> Hinting(2.0, edges=(10_000, 50_000))
    Hinting(epsilon=2.0, edges=(10000.0, 50000.0), label='label')
    """

    epsilon: float
    edges: Sequence[float] | None = None
    label: str = "label"

    def __post_init__(self) -> None:
        number = isinstance(self.epsilon, int | float | np.number) and not isinstance(self.epsilon, bool)
        if not number or not (LEAST_EPSILON <= self.epsilon <= MOST_EPSILON or self.epsilon == math.inf):
            wanted = f"a number from {LEAST_EPSILON:g} to {MOST_EPSILON:g}, or infinite for a label that may travel"
            raise parameter_error("Hinting", "epsilon", wanted, self.epsilon)
        if not is_label(self.label):
            raise parameter_error("Hinting", "label", "printable text of 1 to 100 bytes", self.label)
        if math.isinf(self.epsilon) and self.label == "label":
            wanted = "the name of a label that may travel as it is, with an infinite epsilon"
            raise parameter_error("Hinting", "label", wanted, self.label)
        object.__setattr__(self, "epsilon", float(self.epsilon))
        if self.edges is not None:
            object.__setattr__(self, "edges", _checked_edges(self.edges))

    def codes(
        self, label: ArrayLike, task: str, host: str, public: NDArray[Any] | None = None
    ) -> tuple[NDArray[Any], tuple[str, ...]]:
        """Return each row's class as a number, and what the classes are: texts, or bins by their numbers."""
        values = np.asarray(label)
        labels = Labels(host, task, public if task == "classification" else None)
        if self.edges is not None:
            labels = Labels(host, "regression")
            labels.check(values, len(values))
            bins = tuple(f"bin {number}" for number in range(len(self.edges) + 1))
            return np.searchsorted(np.asarray(self.edges), values.astype(np.float64), side="right"), bins
        if task == "regression":
            raise InputError(
                "Hints at numbers need bins with public edges: Hinting(epsilon, edges=(...)).", parameter="edges"
            )
        if public is not None:
            check_among(values, public)
        targets = labels.targets(values, len(values))
        assert targets.classes is not None
        if len(targets.classes) > MOST_CLASSES:
            raise InputError(
                f"The labels have {len(targets.classes)} classes, and {MOST_CLASSES} at most can be hinted."
            )
        return targets.values, tuple(map(as_text, targets.classes.tolist()))

    def way(self, classes: Sequence[str]) -> str:
        """Return all that tells one way of telling labels from another: told the same way, the same label has the same answer."""
        return json.dumps(["hint", self.label, classes, self.edges, repr(self.epsilon)])


def _checked_edges(edges: Sequence[float]) -> tuple[float, ...]:
    try:
        made = tuple(float(edge) + 0.0 for edge in edges)  # 0 and -0 are one edge
    except (TypeError, ValueError, OverflowError):
        made = ()
    ascending = all(low < high for low, high in pairwise(made))
    if not 1 <= len(made) < MOST_CLASSES or not ascending or not all(map(math.isfinite, made)):
        wanted = f"1 to {MOST_CLASSES - 1} finite numbers, ascending"
        raise parameter_error("Hinting", "edges", wanted, edges)
    return made


def as_hinting(given: object, owner: str) -> Hinting | Hints | None:
    """Return how to hint from what a user gives: an epsilon, a `Hinting`, ready `Hints`; None: not at all."""
    if given is None or isinstance(given, Hints):
        return given
    if isinstance(given, bool) or not isinstance(given, int | float | np.number | Hinting):
        raise parameter_error(owner, "hints", "an epsilon, a Hinting, Hints or None", given)
    if math.isinf(given.epsilon if isinstance(given, Hinting) else float(given)):
        wanted = (
            "finite: fit hints at its own labels, which would leave as they are. Of another label, which may, give the Hints "
            "(fedonce.party.hinting.publish)"
        )
        raise parameter_error(owner, "hints", wanted, given)
    return given if isinstance(given, Hinting) else Hinting(float(given))


def publish(
    label: ArrayLike,
    hinting: Hinting,
    task: str = "classification",
    party: str = "host",
    run: str = "local",
    ids: ArrayLike | None = None,
    naming: Naming | None = None,
    key: bytes | None = None,
    public: ArrayLike | None = None,
    agreed: AgreedRows | None = None,
) -> Hints:
    """Return the host's hints at its labels, one per row.

    Parameters
    ----------
    label : array of shape (n,)
        The labels.
    hinting : Hinting
        With which epsilon, and in which bins.
    task : str
        "classification" or "regression".
    party, run : str
        The host's name, and the training that hints are for.
    ids, naming
        The rows' ids, texts or integers, and how the file names rows by them; without ids rows are in an agreed order.
    key : bytes, optional
        The host's secret, of 16 bytes or more. With the same key the same label of the same row is told alike however often
        it is asked for, so that there is nothing to average. None: drawn from the operating system, and forgotten.
    public : array, optional
        The classes, by public knowledge, whether or not a row has them; None: those that there are.
    agreed : AgreedRows, optional
        What an alignment with a guest found: hints are then for that guest, in the agreed order and without ids.
    """
    if not isinstance(hinting, Hinting):
        raise parameter_error("publish", "hinting", "a Hinting, such as Hinting(2.0)", hinting)
    if task not in ("classification", "regression"):
        raise parameter_error("publish", "task", "'classification' or 'regression'", task)
    check_name("publish", "party", party)
    if not is_name(run):
        raise parameter_error("publish", "run", "printable text of 1 to 100 bytes", run)
    check_key(key)
    values, public = checked_labels(label), checked_public(public, hinting.edges)
    ids = checked_ids(ids, len(values))
    if ids is None and (naming is not None or agreed is not None):
        raise InputError(
            "Hints name rows by ids, and the table has none; say which column has them (id).", parameter="id"
        )
    codes, classes = hinting.codes(values, task, party, public)
    secret = secrets.token_bytes(KEY_BYTES) if key is None else key
    # All that tells one publication from another is part of the name, the row's own class, too: were noise shared between two of
    # them, answers that differ would rule classes out. Without ids a row is known by its place, and by the labels of all rows.
    names = _places(codes) if ids is None else iter(normalise(ids, forms_of(naming, agreed)))
    which = hinting.way(classes)
    draws = keyed.uniforms(secret, f"hints\n{which}", names, (b"%d" % code for code in codes), 2)
    told = response.answers(codes, len(classes), hinting.epsilon, draws).astype(np.uint8)
    edges = None if hinting.edges is None else np.asarray(hinting.edges, np.float64)
    order, named = _order(len(told), ids, naming, agreed, party, run)
    return Hints(
        party,
        hinting.label,
        len(classes),
        hinting.epsilon,
        told if order is None else told[order],
        run=run,
        edges=edges,
        **named,
    )


def forms_of(naming: Naming | None, agreed: AgreedRows | None) -> tuple[str, ...]:
    """Return how ids are made alike before a row is known by them."""
    if agreed is not None:
        return agreed.forms
    return () if naming is None else naming.forms


def _places(codes: NDArray[Any]) -> Iterator[str]:
    table = hashlib.sha256(codes.astype("<i8").tobytes()).hexdigest()
    return (f"row {place} of {table}" for place in range(len(codes)))


def _order(
    n_rows: int, ids: Ids | None, naming: Naming | None, agreed: AgreedRows | None, party: str, run: str
) -> tuple[NDArray[Any] | None, dict[str, Any]]:
    """Return in which order hints leave (None: the table's), and how the file names their rows."""
    if ids is None:
        return None, {"rows": row_digest(n_rows)}
    if agreed is not None:
        places = agreed.positions(normalise(ids, agreed.forms), None if naming is None else naming.secret)
        if (places < 0).any():
            raise InputError(
                f"The table lacks rows that were agreed with {agreed.guest!r}; give the one that was aligned."
            )
        return places, {"rows": agreed.digest}
    if naming is None:
        raise unnamed(f"The hints of party {party!r}")
    keys = naming.keys(ids, run)
    order = np.lexsort(keys.T[::-1])  # the order of keys says nothing, that of the table might
    named = {"rows": row_digest(len(keys), keys[order]), "ids": keys[order]}
    return order, named | {"naming": naming.label, "forms": naming.forms}


def taken(
    guest: GuestSettings,
    learner: Learner,
    hints: Hints | None,
    own: Table,
    mask: NDArray[np.bool_] | None,
    naming: Naming | None,
    agreed: AgreedRows | None,
) -> tuple[Learner, dict[str, Any]]:
    """Return the learner of a guest that may have hints, and what its `fit` is told beside the rows."""
    asked = isinstance(learner, Hinted)
    if hints is None and isinstance(learner, Hinted):  # one that learnt with hints before may have none now
        text = f"Party {guest.name!r} has no hints: the learner 'hinted' learns as {learner.base!r}. Give it hints (hints)."
        warnings.warn(FedOnceWarning(text, parameter="hints"), stacklevel=4)
        return Hinted.around(learner, guest.bytes_per_row).without_hints(), {}
    if hints is None:
        return learner, {}
    if not isinstance(hints, Hints):
        wanted = "Hints (fedonce.party.hinting.publish makes them, Hints.from_file reads them) or None"
        raise parameter_error("Guest.learn", "hints", wanted, hints)
    if guest.purse is not None or guest.local_epsilon is not None:
        which = "purse" if guest.purse is not None else "local_epsilon"
        wanted = "left out with hints: an encoder that learns from hints looks at rows in ways that nobody has priced"
        raise parameter_error("Guest", which, wanted, "one")
    if learner.facts.on_steps:
        drop = (
            "the protection (protect)"
            if getattr(learner, "shuffled", False)
            else f"the learner {learner.name!r} (learner)"
        )
        raise InputError(
            f"Party {guest.name!r} has hints, and {drop}, whose values lie on steps of their own, which leaves no room for "
            "what is learnt from hints. Leave out the hints (hints), or that.",
            parameter=("hints", "protect" if "protect" in drop else "learner"),
        )
    answers = hints_of(hints, own, mask, naming, agreed, guest.name, guest.run)
    around = Hinted.around(learner, guest.bytes_per_row)
    return around, {"told": Told(answers, hints.classes, hints.epsilon, asked)}


def hints_of(
    hints: Hints,
    own: Table,
    mask: NDArray[np.bool_] | None,
    naming: Naming | None,
    agreed: AgreedRows | None,
    guest: str,
    run: str,
) -> NDArray[np.int64]:
    """Return the class that hints tell of each of a guest's rows; `NO_HINT` where they tell none.

    `mask` says which of the agreed rows the guest has, `naming` and `agreed` how it names rows, as for its message.
    """
    if hints.run != run:
        raise _refused(hints, f"they belong to run {hints.run!r}, this is run {run!r}")
    if own.ids is None:
        return _by_position(hints, own.n_rows, mask)
    if hints.ids is None:
        return _by_agreement(hints, own.ids, naming, agreed, guest)
    return _by_ids(hints, own.ids, hints.ids, naming)


def _by_position(hints: Hints, n_rows: int, mask: NDArray[np.bool_] | None) -> NDArray[np.int64]:
    expected = n_rows if mask is None else len(mask)
    if hints.ids is not None:
        raise _refused(
            hints, "they name rows by ids, and the guest's table has none; say which column has them (id)", "id"
        )
    if hints.n_rows != expected or hints.rows != row_digest(expected):
        raise _refused(hints, f"they are about {hints.n_rows} rows, and the agreed ones are {expected}")
    told = hints.answers.astype(np.int64)
    return told if mask is None else told[mask]


def _by_ids(hints: Hints, ids: Ids, keys: NDArray[np.uint8], naming: Naming | None) -> NDArray[np.int64]:
    secret = None if naming is None else naming.secret
    if hints.naming.startswith("keyed"):
        if naming is None or hints.naming != naming.label:
            raise _refused(hints, "their ids are hashed with a secret; give the same to the guest (secret)", "secret")
    elif secret is not None:
        raise _refused(hints, f"their ids are {hints.naming}, made without the secret; let the host use it", "secret")
    if repeated(keys) is not None:
        raise _refused(hints, "they tell two classes of the same row")
    found = locate(keys_of(hints.naming, ids, secret, hints.run, hints.forms), keys)
    if not (found >= 0).any():
        raise _refused(
            hints, "none of their ids is in the guest's table; see that ids are written alike (forms)", "forms"
        )
    told = np.full(len(ids), NO_HINT, np.int64)
    told[found >= 0] = hints.answers[found[found >= 0]]
    return told


def _by_agreement(
    hints: Hints, ids: Ids, naming: Naming | None, agreed: AgreedRows | None, guest: str
) -> NDArray[np.int64]:
    if agreed is None or agreed.digest != hints.rows or agreed.guest != guest or len(agreed.keys) != hints.n_rows:
        raise _refused(hints, "they have no ids, and are not about rows that were agreed with this guest", "agreed")
    places = agreed.positions(normalise(ids, agreed.forms), None if naming is None else naming.secret)
    told = np.full(len(ids), NO_HINT, np.int64)
    told[places[places >= 0]] = hints.answers[places >= 0]
    return told


def _refused(hints: Hints, why: str, *parameters: str) -> MessageError:
    return MessageError(f"The hints of party {hints.party!r} are refused: {why}.", parameter=parameters)
