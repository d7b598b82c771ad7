"""Hints: what a host discloses of its labels to guests before they learn, and which hint a guest has for each of its rows."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedonce.data.table import as_text
from fedonce.errors import FedOnceWarning, InputError, MessageError, parameter_error, shown
from fedonce.learners.hint_encoder import Told
from fedonce.learners.hinted import Hinted
from fedonce.learners.names import LEARNERS
from fedonce.messages.envelope import is_name
from fedonce.messages.hints import MOST_CLASSES, Hinting, Hints
from fedonce.messages.keys import LEAST_SECRET
from fedonce.messages.names import check_name
from fedonce.messages.representation import row_digest
from fedonce.party.labels import Labels
from fedonce.privacy import keyed, response
from fedonce.rows.ids import Ids, Naming, as_ids, keys_of, locate, normalise, repeated, unnamed

if TYPE_CHECKING:
    from fedonce.data.table import Table
    from fedonce.learners.base import Learner
    from fedonce.party.guest_state import GuestSettings
    from fedonce.rows.alignment import AgreedRows

KEY_BYTES = 32
NO_HINT = -1


@dataclass(frozen=True)
class Purpose:
    """What an answer is for: all that tells one publication of a label from another.

    With one key, the same label of the same row has one answer for each purpose, for ever; answers for two purposes share no
    noise, and their epsilons add up. `epsilon` None: the label travels as it is. `forms` is how ids are normalised, by which rows
    are known; None: rows are known by their places, and `table` is a digest of all of their labels.
    """

    label: str
    epsilon: float | None
    classes: tuple[str, ...]
    edges: tuple[float, ...] | None
    forms: tuple[str, ...] | None
    table: str = ""

    @classmethod
    def of(
        cls,
        label: ArrayLike,
        hinting: Hinting,
        task: str = "classification",
        party: str = "host",
        forms: tuple[str, ...] | None = None,
    ) -> tuple[Purpose, NDArray[np.intp]]:
        """Return what a publication is for, and the number of each row's class."""
        values = _as_labels(label)
        if hinting.edges is not None:
            Labels(party, "regression").check(values, len(values))
            classes = tuple(f"bin {number}" for number in range(len(hinting.edges) + 1))
            codes = np.searchsorted(np.asarray(hinting.edges), values.astype(np.float64), side="right")
        elif task == "regression":
            raise InputError(
                "Hints at numbers need bins with public edges: Hinting(epsilon, edges=(...)).", parameter="edges"
            )
        else:
            public = None if hinting.classes is None else _public(hinting.classes, values)
            targets = Labels(party, task, public).targets(values, len(values))
            assert targets.classes is not None
            classes, codes = tuple(map(as_text, targets.classes.tolist())), targets.values
            if len(classes) > MOST_CLASSES:
                raise InputError(f"The labels have {len(classes)} classes, and {MOST_CLASSES} at most can be hinted.")
        epsilon = hinting.epsilon if math.isfinite(hinting.epsilon) else None
        edges = None if hinting.edges is None else tuple(hinting.edges)
        # Were noise shared by two tables' rows in one place, anyone who knows one row's label would learn the other's.
        table = hashlib.sha256(codes.astype("<i8").tobytes()).hexdigest() if forms is None else ""
        return cls(hinting.label, epsilon, classes, edges, forms, table), codes


def _as_labels(label: ArrayLike) -> NDArray[Any]:
    try:
        values = np.asarray(label)
    except ValueError:  # lists of different lengths
        values = np.zeros((0, 0))
    if values.ndim != 1 or not len(values):
        raise InputError("The labels must be an array of one dimension; give one per row (label).", parameter="label")
    return values


def _public(classes: Sequence[Any], values: NDArray[Any]) -> NDArray[Any]:
    """Return public classes as labels have them. An error says how many labels are none of them, and not which."""
    kind, named = values.dtype.kind, {"true": True, "false": False, "1": True, "0": False}
    try:
        if kind == "b":
            public = np.unique([named[as_text(each).strip().lower()] for each in classes])
        else:
            public = np.unique(np.array(classes, np.float64)) if kind in "iuf" else np.array(classes, dtype=object)
    except (KeyError, ValueError):
        raise InputError(
            f"The labels are {'true or false' if kind == 'b' else 'numbers'}, and the classes given are not: "
            f"{shown(list(classes))}; give the classes of this column (classes), or read it as text (types).",
            parameter=("classes", "types"),
        ) from None
    known = {as_text(each) for each in public.tolist()}
    if outside := sum(as_text(value) not in known for value in values.tolist() if not isinstance(value, list)):
        raise InputError(
            f"{outside:,} of {len(values):,} labels are none of the classes given, {shown(list(classes))}; give all classes that "
            "a label can have, or drop these rows (classes).",
            parameter="classes",
        )
    return public


def publish(
    label: ArrayLike,
    hinting: Hinting,
    task: str = "classification",
    party: str = "host",
    run: str = "local",
    ids: ArrayLike | None = None,
    naming: Naming | None = None,
    key: bytes | None = None,
    agreed: AgreedRows | None = None,
) -> Hints:
    """Return the host's hints at its labels, one per row.

    Parameters
    ----------
    label : array of shape (n,)
        The labels.
    hinting : Hinting
        With which epsilon, and in which bins or classes.
    task : str
        "classification" or "regression".
    party, run : str
        The host's name, and the training that hints are for.
    ids, naming
        The rows' ids, texts or integers, and how the file names rows by them; without ids rows are in an agreed order.
    key : bytes, optional
        The host's secret, of 16 bytes or more. With the same key the same label of the same row has the same answer, however
        often and for whomever it is published, so that there is nothing to average. None: drawn from the operating system, and
        forgotten.
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
    _check_key(key)
    if ids is None and (naming is not None or agreed is not None):
        raise InputError(
            "Hints name rows by ids, and the table has none; say which column has them (id).", parameter="id"
        )
    forms = None if ids is None else forms_of(naming, agreed)
    purpose, codes = Purpose.of(label, hinting, task, party, forms)
    known = None if ids is None else as_ids(ids)
    if known is not None and len(known) != len(codes):
        raise InputError(
            f"There are {len(codes):,} labels and {len(known):,} ids; give one id per label, in the same order (ids).",
            parameter="ids",
        )
    names = map(str, range(len(codes))) if known is None else normalise(known, forms or ())
    secret, text = secrets.token_bytes(KEY_BYTES) if key is None else key, json.dumps(asdict(purpose))
    # The row's own class is part of what the noise follows from: were it not, two answers to two labels would rule classes out.
    draws = keyed.uniforms(secret, f"hints\n{text}", names, (b"%d" % code for code in codes), 2)
    answers = response.answers(codes, len(purpose.classes), hinting.epsilon, draws).astype(np.uint8)
    order, named = _order(len(answers), known, naming, agreed, party, run)
    return Hints(
        party,
        hinting.label,
        len(purpose.classes),
        hinting.epsilon,
        answers if order is None else answers[order],
        run=run,
        edges=None if hinting.edges is None else np.asarray(hinting.edges, np.float64),
        **named,
    )


def forms_of(naming: Naming | None, agreed: AgreedRows | None) -> tuple[str, ...]:
    """Return how ids are normalised before a row is known by them."""
    if agreed is not None:
        return agreed.forms
    return () if naming is None else naming.forms


def _check_key(key: object) -> None:
    """Raise unless it is None, or bytes that nobody guesses; no error shows it."""
    if key is None or (isinstance(key, bytes) and len(key) >= LEAST_SECRET):
        return
    got = len(key) if isinstance(key, bytes) else f"a {type(key).__name__}"
    raise InputError(
        f"The 'key' parameter of publish must be bytes, {LEAST_SECRET} or more. Got {got} instead; draw one, once, by "
        "secrets.token_bytes(32), and keep it.",
        parameter="key",
    )


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
    """Return the learner of a guest that may have hints, and what else its `fit` is given."""
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
    protected = bool(getattr(learner, "shuffled", False))
    check_beside(learner, guest.purse is not None, guest.local_epsilon is not None, protected)
    answers = hints_of(hints, own, mask, naming, agreed, guest.name, guest.run)
    around = Hinted.around(learner, guest.bytes_per_row)
    return around, {"told": Told(answers, hints.classes, hints.epsilon, asked)}


def check_beside(learner: Learner | str, budget: bool, local: bool, protect: bool) -> None:
    """Raise where a guest is to do what has no place beside hints."""
    name = learner if isinstance(learner, str) else learner.name
    on_steps = name in LEARNERS and LEARNERS.facts(name).on_steps
    unpriced = "what an encoder learns from hints is not priced"
    no_room = "its values lie on steps of their own, which leaves no room for what is learnt from hints"
    for given, which, parameter, why in (
        (budget, "a privacy budget (epsilon)", "epsilon", unpriced),
        (local, "a local epsilon (local_epsilon)", "local_epsilon", unpriced),
        (protect, "a protection (protect)", "protect", no_room),
        (on_steps, f"the learner {name!r} (learner)", "learner", no_room),
    ):
        if given:
            raise InputError(
                f"Learn with hints (hints), or with {which}, not with both: {why}. Leave out one of the two.",
                parameter=("hints", parameter),
            )
    if not isinstance(learner, str):
        Hinted.around(learner)  # it raises where the learner has settings of its own


def hints_of(
    hints: Hints,
    own: Table,
    mask: NDArray[np.bool_] | None,
    naming: Naming | None,
    agreed: AgreedRows | None,
    guest: str,
    run: str,
) -> NDArray[np.int64]:
    """Return the answer that hints have for each of a guest's rows; `NO_HINT` where they have none.

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
        raise _refused(hints, "they have two answers for the same row")
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
