"""The steps of a guest and of a host with tables in files, as the commands take them."""

from __future__ import annotations

import json
import tomllib
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from fedonce import learners, protocol
from fedonce.assess import leakage
from fedonce.data.files import read_table
from fedonce.data.preparation import Public
from fedonce.data.schema import Reading
from fedonce.data.table import Table, as_text, did_you_mean, is_missing
from fedonce.engine.files import FilesEngine
from fedonce.errors import BudgetError, FedOnceWarning, InputError, MessageError, quoted
from fedonce.messages.envelope import kind_of, read_bytes
from fedonce.messages.keys import PrivateKey, PublicKey, read_private, read_public, read_secret, seal, unseal
from fedonce.messages.representation import MAX_DIM, Representation
from fedonce.party import Guest, Host, drift, storage
from fedonce.party.guest import GUESSABLE
from fedonce.party.presence import Needed, check_present
from fedonce.privacy.budget import Plan, Purse, calibrate, check_budget
from fedonce.privacy.noise import SecretRandom
from fedonce.rows.alignment import AgreedRows
from fedonce.rows.ids import Naming
from fedonce.rows.matching import Matching
from fedonce.system.disk import read_file, write_file
from fedonce.system.sizes import MESSAGE_LIMIT, size
from fedonce.system.text import Tell, pairs

MOST_CLASSES = 20  # whole numbers with more values than this are a quantity
LEAST_IDS = 20  # rows below which values that all differ are no sign of ids


def read(
    path: Path,
    party: str,
    id: str | None,
    columns: str | None,
    drop: str | None,
    types: Sequence[str] | None,
    label: str | None = None,
) -> tuple[Table, Reading]:
    """Read a table, and say how it was read, so that it is read alike at prediction. The label is the last column."""
    given = pairs(types or [], "--type", "age=number")
    wanted = None if columns is None else [*_listed(columns), *([label] if label else [])]
    table = read_table(path, id=id, columns=wanted, types=given, party=party)
    dropped, places = set(_listed(drop)), {name: position for position, name in enumerate(table.names)}
    unknown = [name for name in (*_listed(drop), *([label] if label else ())) if name not in places]
    if unknown:
        raise InputError(f"The file {path} has no column {unknown[0]!r}{did_you_mean(unknown[0], table.names)}")
    kept = [name for name in map(str, table.names) if name not in dropped and name != label]
    if not kept:
        raise InputError(f"{path} has no column to learn from, besides {id!r} and {label!r}.")
    order = [*kept, *([label] if label else [])]
    table = table.select([places[name] for name in order])
    if id is None:
        _warn_of_ids(table, kept, path)
    kinds = {str(name): kind for name, kind in table.kinds.items()}
    return table, Reading(id, tuple(kept), kinds, label)


def _warn_of_ids(table: Table, names: Sequence[str], path: Path) -> None:
    """Say so where nobody named ids, and a column looks like them."""
    columns = dict(zip(table.names, table.columns, strict=True))
    found = [name for name in names if _like_ids(columns[name])]
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        warnings.warn(
            f"Column {found[0]!r}{more} of {path} is different in every row and looks like ids: name it with --id, or leave it "
            "out with --drop.",
            FedOnceWarning,
            stacklevel=3,
        )


def _like_ids(column: NDArray[Any]) -> bool:
    """Tell whether text or whole numbers are all there and all different; a part of the rows tells most columns apart."""
    if column.dtype.kind not in "Oiu" or len(column) < LEAST_IDS:
        return False
    for part in (column[:1000], column):
        values = part.tolist()
        if None in values or len(set(values)) < len(values):
            return False
    return True


def _listed(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def naming(secret: Path | None, plain: bool, forms: tuple[str, ...]) -> Naming | None:
    """Return how a guest's messages name rows; None: by hashes without a key, of which the guest is warned."""
    if secret is not None and plain:
        raise InputError("Give --secret or --plain-ids, not both: ids travel as keyed hashes, or as they are.")
    if secret is not None:
        return Naming("keyed", read_secret(secret), forms)
    if plain:
        return Naming("plain", forms=forms)
    return None if not forms else Naming("hashed", forms=forms)


def warn_if_guessable(party: Guest, own: Table, order: AgreedRows | None, named: Naming | None) -> None:
    """Say so where ids will travel as hashes without a key by other ways than the guest's own default, which warns itself."""
    if own.ids is not None and order is None and named is not None and named.form == "hashed":
        warnings.warn(GUESSABLE.format(party=party.name), FedOnceWarning, stacklevel=2)


def agreed(path: Path, key: PrivateKey | None) -> AgreedRows:
    """Read the rows that an alignment agreed on, sealed or not."""
    data = read_bytes(path, "file of agreed rows")
    try:
        return AgreedRows.from_bytes(unseal(data, key) if kind_of(data) == "sealed" and key is not None else data)
    except MessageError as error:
        raise MessageError(f"{error} ({path})") from None


def private_key(path: Path | None) -> PrivateKey | None:
    """Read a private key, if there is one."""
    return None if path is None else read_private(path)


def public_keys(given: Sequence[str] | None) -> dict[str, PublicKey]:
    """Read the public keys of NAME=FILE options."""
    return {name: read_public(Path(path)) for name, path in pairs(given or [], "--verify", "shop=shop.pub").items()}


def public(path: Path | None, budget: bool = True) -> tuple[Public | None, Any]:
    """Read what is public of columns and labels, which is needed with a privacy budget alone."""
    if path is None:
        return None, None
    if not budget:
        raise InputError("There is no privacy budget that --public could serve; give one, or leave --public out.")
    data = read_file(path, "file of public knowledge")
    try:
        content = json.loads(data) if path.suffix == ".json" else tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is neither TOML nor JSON, by its ending: {error}.") from None
    unknown = sorted(set(content) - {"bounds", "categories", "labels"}) if isinstance(content, Mapping) else ["?"]
    if unknown:
        raise InputError(f"{path} may have bounds, categories and labels. Got {unknown[0]!r}.")
    return Public(content.get("bounds"), content.get("categories", {})), content.get("labels")


def purse(plan: Plan, name: str) -> Purse:
    """Return what a party may spend by a plan."""
    return Purse(name, plan.of(name), plan.ledger(), SecretRandom())


def attack(party: Guest, own: Table, most_rows: int = leakage.MOST_ROWS) -> list[leakage.ColumnLeakage]:
    """Rebuild columns of a sample of rows from what the host would receive of them."""
    sample = np.random.default_rng(0).permutation(own.n_rows)[:most_rows]
    rows = replace(own.take(np.sort(sample)), ids=None)
    return leakage.reconstruct(party.represent(rows).values, rows)


def warn_of_spent(out: Path) -> None:
    """Say so where a guest's model with a privacy budget is about to be replaced: what it spent stays spent."""
    if storage.exists(out) and storage.load(out, "guest").settings.get("ledger") is not None:
        warnings.warn(
            f"The model in {out} was learnt with a privacy budget. What it spent stays spent: if it was sent, both count.",
            FedOnceWarning,
            stacklevel=2,
        )


def guest_purse(
    name: str,
    n_rows: int,
    learner: str,
    epochs: int | None,
    plan: Path | None,
    epsilon: float | None,
    delta: float | None,
) -> Purse | None:
    """Return what the guest may spend: its part of a plan, or a budget of its own."""
    if plan is not None and epsilon is not None:
        raise InputError("Give --plan or --epsilon, not both: a plan says what this guest may spend.")
    if delta is not None and epsilon is None:
        raise InputError(
            "Give --delta with --epsilon, or leave it out: a plan has its own, and without a budget there is none."
        )
    if plan is not None:
        return purse(Plan.from_file(plan), name)
    if epsilon is None:
        return None
    delta = 1 / (10 * n_rows) if delta is None else delta
    check_budget(epsilon, delta, "fedonce guest fit")
    tasks = learners.make(learner, epochs, "fedonce guest fit").private_tasks(n_rows, 1.0, epsilon == float("inf"))
    return purse(calibrate([replace(task, party=name) for task in tasks], epsilon, delta), name)


def estimator_seed(seed: int) -> int:
    """Return the seed that an estimator gives its parties: `--seed 0` and `random_state=0` are the same training."""
    return int(check_random_state(seed).randint(2**31 - 1))


def write_message(
    message: Representation, path: Path, signer: PrivateKey | None, sealer: PublicKey | None
) -> tuple[Representation, int]:
    """Write the message, signed and sealed where it is wanted; return it with the size of its file."""
    message, data = _for_the_host(message, signer, sealer)
    write_file(path, data)
    return message, len(data)


def _for_the_host(
    message: Representation, signer: PrivateKey | None, sealer: PublicKey | None
) -> tuple[Representation, bytes]:
    """Return the message, signed where it is wanted, and its file, sealed where it is wanted."""
    if signer is not None:
        message = replace(message, signature=signer.sign(message.checksum))
    return message, message.to_bytes() if sealer is None else seal(message.to_bytes(), sealer)


def save_guest(
    party: Guest, message: Representation, out: Path, name: str, signer: PrivateKey | None, sealer: PublicKey | None
) -> tuple[Representation, int]:
    """Write model and message, both or none: the message in the folder is always the one of the model in it."""
    message, data = _for_the_host(message, signer, sealer)
    party.save(out, {name: data})
    return message, len(data)


def check_folder(out: Path) -> None:
    """Raise where a model's folder cannot be one, before anybody waits or trains."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; name a folder for the model.")


def model_before(out: Path, refit: bool) -> Host | None:
    """Return the model that is trained again, and refuse to overwrite one that is not to be."""
    check_folder(out)
    if storage.exists(out) and not refit:
        raise InputError(
            f"The folder {out} has a model already. Train it again, with more guests, by --refit, or name another one."
        )
    before = Host.load(out) if refit else None
    if before is not None and before.ledger is not None:
        raise BudgetError(
            f"The model in {out} has spent its privacy budget; to train it again would spend it twice. Make a new plan, for all "
            "that is spent together, and train into another folder."
        )
    return before


def labelled_table(
    path: Path,
    before: Host | None,
    name: str | None,
    id: str | None,
    columns: str | None,
    drop: str | None,
    types: list[str] | None,
    label: str | None,
) -> tuple[Table, NDArray[Any], Any]:
    """Read the training table and its labels; where a model is trained again, as it was read before."""
    if before is not None and before.reading is not None:
        reading = before.reading
        _check_unchanged(reading, id, columns, drop, types, label)
        own = reading.read(path, before.name, with_label=True)
    elif label is None:
        raise InputError("Say which column to predict, with --label COLUMN.")
    else:
        own, reading = read(path, name or "host", id, columns, drop, types, label)
    y, own = own.pop(reading.label or "")
    _check_label(y, f"Column {reading.label!r} of {path}")
    return own, y, reading


def _check_unchanged(
    reading: Reading, id: str | None, columns: str | None, drop: str | None, types: list[str] | None, label: str | None
) -> None:
    """Refuse to read a table in another way than the model that is trained again did."""
    given = pairs(types or [], "--type", "age=number")
    same = {
        "--id": id in (None, reading.id),
        "--label": label in (None, reading.label),
        "--columns": columns is None or _listed(columns) == list(reading.columns),
        "--drop": not set(_listed(drop)) & set(reading.columns),
        "--type": all(reading.types.get(name) == kind for name, kind in given.items()),
    }
    for option in same:
        if not same[option]:
            raise InputError(
                f"Leave {option} out with --refit, which reads the table as before; to read it otherwise, train into another "
                "folder."
            )


def _check_label(y: NDArray[Any], column: str) -> None:
    """Refuse labels with gaps, and dates."""
    if y.dtype.kind == "M":
        raise InputError(f"{column} holds dates, which cannot be predicted; name another --label, or make it numbers.")
    gaps = np.flatnonzero([is_missing(value) for value in y.tolist()])
    if len(gaps):
        first = f"first in row {gaps[0] + 1}"
        raise InputError(f"{column} has no label in {len(gaps)} of {len(y)} rows, {first}; train without these rows.")


def check_task(task: str, y: NDArray[Any], column: str | None) -> None:
    """Raise where numbers are to be predicted, and labels are text."""
    if task == "regression" and y.dtype.kind == "O":
        raise InputError(
            f"The labels, column {column!r}, are text ({quoted(str(y[0]))}), and regression needs numbers; see --task."
        )


def infer_task(y: NDArray[Any]) -> str:
    """Return the task that labels ask for: text, booleans and few whole numbers are classes."""
    if y.dtype.kind in "Ob":
        return "classification"
    known = y[np.isfinite(y)] if y.dtype.kind == "f" else y
    whole = bool((known == np.rint(known)).all())
    return "classification" if whole and len(np.unique(known)) <= MOST_CLASSES else "regression"


@dataclass(frozen=True)
class Incoming:
    """Where messages come from, and with what they are opened, verified and matched."""

    files: Sequence[Path]
    inbox: Path | None
    expect: Sequence[str]
    deadline: float
    verify: Sequence[str]
    key: Path | None
    rows: Sequence[Path]
    secret: Path | None
    replace: bool
    max_dim: int | None = None
    max_message: str | None = None
    max_memory: str | None = None

    def matching(self, forms: tuple[str, ...]) -> Matching:
        """Return how the rows of messages are found, where ids are made alike by `forms`, and how much memory they may take."""
        secret = None if self.secret is None else read_secret(self.secret)
        rows = tuple(agreed(path, private_key(self.key)) for path in self.rows)
        return Matching(secret, forms, rows, self._memory())

    def _memory(self) -> int | None:
        return None if self.max_memory is None else size(self.max_memory)

    def engine(
        self,
        run: str,
        least: int,
        tell: Tell,
        kept: Mapping[str, bytes] | None = None,
        kept_sizes: Mapping[str, int] | None = None,
        members: Mapping[str, int] | None = None,
        host: str | None = None,
    ) -> FilesEngine:
        """Return the engine that collects the messages of others than `host`; `members`: a model's guests, and values per row."""
        if self.inbox is None and (self.expect or self.deadline):
            option = "--expect" if self.expect else "--deadline"
            raise InputError(f"Say with --inbox DIR in which folder messages arrive, or leave {option} out.")
        return FilesEngine(
            run,
            self.files,
            self.inbox,
            self.expect,
            self.deadline,
            least,
            public_keys(self.verify),
            private_key(self.key),
            self.replace,
            kept or {},
            kept_sizes or {},
            tuple(members or ()),
            tell,
            max_dim=self.max_dim or max((MAX_DIM, *(members or {}).values())),
            max_message=MESSAGE_LIMIT if self.max_message is None else size(self.max_message),
            max_memory=self._memory(),
            secret=None if self.secret is None else read_secret(self.secret),
            host=host,
        )


@dataclass(frozen=True)
class Predicted:
    """A host from its folder, the table with its labels, if wanted, and what came of it."""

    host: Host
    table: Table
    label: NDArray[Any] | None
    engine: FilesEngine
    prediction: protocol.Prediction
    matching: Matching

    @property
    def told(self) -> dict[str, Any]:
        """What to say of the guests."""
        overlap = self.prediction.overlap
        absent = [name for name in self.host.dims if name not in overlap]
        return {"rows": self.table.n_rows, "guests": overlap, "absent": absent, "refused": self.engine.refused}


@dataclass(frozen=True)
class Care:
    """What a prediction must have: which guests, and whether messages that look odd are refused or warned of."""

    needed: Needed | None = None  # None: every guest of the training
    strict: bool = False

    def check(self, party: Host, prediction: protocol.Prediction, reasons: Mapping[str, str]) -> None:
        """Raise where too few guests are there; warn of messages that do not look like those of the training, or raise."""
        trained = {name: party.trained_overlap.get(name, 0.0) for name in party.dims}
        check_present(trained, prediction.overlap, self.needed, reasons)
        drift.check(party.seen, prediction.representations.values(), self.strict)


def predict(
    table: Path, model: Path, incoming: Incoming, tell: Tell, labelled: bool = False, care: Care | None = None
) -> Predicted:
    """Load the host, read the table and what guests sent for it, and predict."""
    party = Host.load(model)
    if party.reading is None:
        raise InputError(f"The model in {model} does not say how tables are read; predict in Python, as it was made.")
    matching = incoming.matching(party.forms)
    tell(f"reading {table}")
    own, label = party.reading.read(table, party.name, labelled), None
    if labelled:
        label, own = own.pop(party.reading.label)
    if incoming.inbox is not None and not incoming.expect:
        incoming = replace(incoming, expect=tuple(party.dims))
    engine = incoming.engine(party.run, 0, tell, members=party.dims, host=party.name)
    prediction = protocol.predict(party, own, engine, matching)
    (care or Care()).check(party, prediction, engine.refused)
    for name, share in prediction.overlap.items():
        if not share:
            warnings.warn(
                f"None of the rows is in the message of {name!r}: zeros in its place (is it the message for training, or for "
                "other rows?).",
                FedOnceWarning,
                stacklevel=2,
            )
    return Predicted(party, own, label, engine, prediction, matching)


def columns_of(party: Host, table: Table, prediction: protocol.Prediction) -> dict[str, NDArray[Any]]:
    """Return what `predict` writes: the id by its own name (or row), prediction, a probability per class, and who has the row."""
    outputs = prediction.outputs
    found: dict[str, NDArray[Any]] = {"prediction": outputs}
    if party.classes is not None:
        texts = [str(name) if isinstance(name, bool) else as_text(name) for name in party.classes.tolist()]
        chances = {f"probability_{text}": outputs[:, j] for j, text in enumerate(texts)}
        found = {"prediction": party.classes[outputs.argmax(axis=1)], **chances}
    found |= {f"has_{guest}": present for guest, present in prediction.present.items()}
    if table.ids is None:
        return {"row": np.arange(table.n_rows), **found}
    return {_id_name(party, found): table.ids, **found}


def _id_name(party: Host, taken: Collection[str]) -> str:
    """Return the name of the id column, its own where no column of ours has it."""
    own = "id" if party.reading is None or party.reading.id is None else party.reading.id
    if own not in taken:
        return own
    warnings.warn(
        f"The column of ids is called {own!r}, as one of the columns that are written; it is written as 'id'.",
        FedOnceWarning,
        stacklevel=3,
    )
    return "id"
