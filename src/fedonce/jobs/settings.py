"""What a job is told beside its table: how to learn or to train, what may be spent, how rows are named, who opens a file."""

from __future__ import annotations

import datetime
import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sklearn.utils import check_random_state

from fedonce import learners
from fedonce.data.preparation import Public
from fedonce.data.preparation.public import as_bounds
from fedonce.errors import InputError, MessageError, shown
from fedonce.jobs.weighing import ClassWeight, Weighing
from fedonce.learners import Learner
from fedonce.messages.envelope import kind_of, read_bytes
from fedonce.messages.keys import PrivateKey, read_private, read_secret, unseal
from fedonce.privacy.budget import Plan, Purse, calibrate, check_budget
from fedonce.privacy.noise import SecretRandom
from fedonce.rows.alignment import AgreedRows
from fedonce.rows.ids import Naming
from fedonce.system.disk import read_file

File = str | Path | None  # one that need not be given


def estimator_seed(seed: int) -> int:
    """Return the seed that an estimator gives its parties: a job's `seed=0` and `random_state=0` are the same training."""
    return int(check_random_state(seed).randint(2**31 - 1))


@dataclass(frozen=True)
class Learning:
    """How a guest learns, and for which run; as the parameters of `Guest`, but for `seed`: as `random_state` of an estimator.

    Parameters
    ----------
    run : str
        Name of the training.
    learner, dim, bits, epochs, noise, bytes_per_row, local_epsilon, protect
        As for `Guest`.
    seed : int
        As `random_state` of an estimator.
    """

    run: str = "local"
    learner: str | Learner = "auto"
    dim: int = 8
    bits: int | str = 8
    epochs: int | None = None
    noise: float = 0.0
    seed: int = 0
    bytes_per_row: float | None = None
    local_epsilon: float | None = None
    protect: str | None = None


@dataclass(frozen=True)
class Fitting:
    """How a host trains, and for which run; None: the default, or as before where a model is trained again.

    `weight` is a column that says how much each row counts, `class_weight` "balanced" or a weight by class, `calibrate` and
    `validate` are as for `Host`, by default "auto" and True.

    Parameters
    ----------
    run, task : str, optional
        Name of the training; "classification" or "regression".
    model, recipe : str, optional
        The host's model, and the recipe of its network.
    epochs, seed : int, optional
        How long it trains, and its seed.
    weight : str, optional
        Column that says how much each row counts.
    class_weight : "balanced" or dict, optional
        How much rows of a class count.
    calibrate, validate : optional
        As for `Host`.
    """

    run: str | None = None
    task: str | None = None
    model: str | None = None
    recipe: str | None = None
    epochs: int | None = None
    seed: int | None = None
    weight: str | None = None
    class_weight: ClassWeight = None
    calibrate: bool | str | None = None
    validate: bool | None = None

    @property
    def weighing(self) -> Weighing:
        """How much rows count."""
        return Weighing(self.weight, self.class_weight)


@dataclass(frozen=True)
class RowNames:
    """How a guest's messages name rows.

    Parameters
    ----------
    secret : path, optional
        The secret that parties share: ids travel as keyed hashes.
    plain_ids : bool
        Whether ids travel as they are.
    unkeyed_ids : bool
        Whether ids travel as hashes without a key, which anyone who can list the ids can undo.
    forms : tuple of str
        How ids are made alike first: some of "trim", "lower", "nfkc".
    rows : path, optional
        Rows agreed in an alignment: the message then has no ids at all.
    key : path, optional
        Private key to open `rows`, where it is sealed.
    """

    secret: File = None
    plain_ids: bool = False
    forms: tuple[str, ...] = ()
    rows: File = None
    key: File = None
    unkeyed_ids: bool = False

    def __post_init__(self) -> None:
        if (self.secret is not None) + self.plain_ids + self.unkeyed_ids > 1:
            raise InputError(
                "Give a secret (secret), plain ids (plain_ids) or hashes without a key (unkeyed_ids), one of them alone: ids "
                "travel in one way.",
                parameter=("secret", "plain_ids", "unkeyed_ids"),
            )

    @property
    def by_ids(self) -> bool:
        """Whether it is said how ids travel."""
        return self.secret is not None or self.plain_ids or self.unkeyed_ids

    def naming(self) -> Naming | None:
        """Return how messages name rows by ids; None: that is not said."""
        if self.secret is not None:
            return Naming("keyed", read_secret(self.secret), self.forms)
        if self.plain_ids:
            return Naming("plain", forms=self.forms)
        return Naming("hashed", forms=self.forms) if self.unkeyed_ids else None

    def agreed(self) -> AgreedRows | None:
        """Read the agreed rows, if there are any."""
        return None if self.rows is None else agreed_rows(self.rows, private_key(self.key))

    def check_ids(self, has_ids: bool, what: str) -> None:
        """Raise where rows are to be named, and the table has no ids; or where it has, and nothing says how."""
        if has_ids and self.rows is None and not self.by_ids:
            raise InputError(
                f"{what} would name rows by their ids, and nothing says how. Share a secret (secret), or agree on rows by an "
                "alignment (rows). Hashes without a key must be asked for (unkeyed_ids): anyone who gets the file and can list "
                "the ids (customer numbers, addresses) finds out which are inside.",
                parameter=("secret", "rows", "unkeyed_ids"),
            )
        if not has_ids and (self.by_ids or self.forms or self.rows is not None):
            raise InputError(
                "Name the column of ids (id): without it nothing can be said of how rows are named.",
                parameter=("id", "rows", "secret", "plain_ids", "unkeyed_ids", "forms"),
            )


def agreed_rows(path: str | Path, key: PrivateKey | None) -> AgreedRows:
    """Read the rows that an alignment agreed on, sealed or not."""
    data = read_bytes(path, "file of agreed rows")
    try:
        return AgreedRows.from_bytes(unseal(data, key) if kind_of(data) == "sealed" and key is not None else data)
    except MessageError as error:
        raise error.found_in(path) from None


def private_key(path: File) -> PrivateKey | None:
    """Read a private key, if there is one."""
    return None if path is None else read_private(path)


@dataclass(frozen=True)
class GuestBudget:
    """What a guest may spend: its part of a plan, or a budget of its own; `public` is what is known of its columns.

    Parameters
    ----------
    plan : path, optional
        File of a plan for all parties.
    epsilon, delta : float, optional
        A budget of this guest alone.
    public : path, optional
        File of what is public about its columns; for a local epsilon, too.
    """

    plan: File = None
    epsilon: float | None = None
    delta: float | None = None
    public: File = None

    def __post_init__(self) -> None:
        if self.plan is not None and self.epsilon is not None:
            raise InputError(
                "Give a plan (plan) or a budget (epsilon), not both: a plan says what this guest may spend.",
                parameter=("plan", "epsilon"),
            )
        if self.delta is not None and self.epsilon is None:
            raise InputError(
                "Give delta (delta) with a budget (epsilon), or leave it out: a plan has its own, and without a budget there is "
                "none.",
                parameter=("delta", "epsilon"),
            )

    def known(self, learning: Learning) -> Public | None:
        """Read what is public of the columns."""
        needed = self.plan is not None or self.epsilon is not None or learning.local_epsilon is not None
        known = public_knowledge(self.public, needed)[0]
        return Public() if known is None and learning.local_epsilon is not None else known

    def purse(self, name: str, n_rows: int, learning: Learning) -> Purse | None:
        """Return what the guest may spend; None: there is no budget."""
        if self.plan is not None:
            return purse(Plan.from_file(self.plan), name)
        if self.epsilon is None:
            return None
        delta = 1 / (10 * n_rows) if self.delta is None else self.delta
        check_budget(self.epsilon, delta, "GuestJob")
        learner = learners.make(learning.learner, learning.epochs, "GuestJob")
        tasks = learner.private_tasks(n_rows, 1.0, self.epsilon == float("inf"))
        return purse(calibrate([replace(task, party=name) for task in tasks], self.epsilon, delta), name)


@dataclass(frozen=True)
class HostBudget:
    """The plan of all parties, or what makes it by the number of the host's rows; `public`: what is known beforehand.

    Parameters
    ----------
    plan : path or callable, optional
        File of the plan, or what makes it by the number of rows.
    public : path, optional
        File of what is public about its columns and labels.
    """

    plan: File | Callable[[int], Plan | None] = None
    public: File = None

    def plan_for(self, n_rows: int) -> Plan | None:
        """Return the plan; None: there is no budget."""
        if callable(self.plan):
            return self.plan(n_rows)
        return None if self.plan is None else Plan.from_file(self.plan)


def purse(plan: Plan, name: str) -> Purse:
    """Return what a party may spend by a plan."""
    return Purse(name, plan.of(name), plan.ledger(), SecretRandom())


def public_knowledge(path: File, budget: bool = True) -> tuple[Public | None, Any]:
    """Read what is public of columns and labels, which serves a privacy budget or a local epsilon."""
    if path is None:
        return None, None
    if not budget:
        raise InputError(
            "There is no privacy budget or local epsilon that public knowledge (public) could serve; give one, or leave it out.",
            parameter="public",
        )
    data = read_file(path, "file of public knowledge")
    try:
        content = json.loads(data) if Path(path).suffix == ".json" else tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is neither TOML nor JSON, by its ending: {error}.") from None
    unknown = sorted(set(content) - {"bounds", "categories", "labels"}) if isinstance(content, Mapping) else ["?"]
    if unknown:
        raise InputError(f"{path} may have bounds, categories and labels. Got {unknown[0]!r}.")
    bounds = content.get("bounds")
    for name, pair in bounds.items() if isinstance(bounds, Mapping) else [("all columns", bounds)]:
        if bounds is not None and not _is_range(pair):
            raise InputError(
                f"The bounds of {name!r} in {path} must be two numbers or two dates, the lower one first. Got {shown(pair)}.",
                parameter="public",
            )
    return Public(bounds, content.get("categories", {})), content.get("labels")


def _is_range(pair: Any) -> bool:
    """Tell whether bounds are two numbers or two dates; which dates, the preparation says."""
    if not isinstance(pair, list) or len(pair) != 2:
        return False
    dates = [isinstance(end, str | datetime.date) for end in pair]
    return all(dates) or (not any(dates) and as_bounds(pair) is not None)
