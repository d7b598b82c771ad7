"""The host's run file: one training, as TOML; every key is checked when it is read, before any guest is asked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedonce.data.table import did_you_mean
from fedonce.errors import InputError
from fedonce.federation.runfile_checks import (
    BUDGET_KEYS,
    KEYS,
    LEARNING,
    REQUIRED,
    ROUNDS_KEYS,
    WHAT,
    bytes_left,
    check_guest_sections,
    check_together,
    check_top,
)
from fedonce.federation.runfile_hints import HintsWanted, hints_wanted
from fedonce.federation.status import SILENCE
from fedonce.federation.tomlfile import check, load, needed, wrong
from fedonce.messages.codecs.budget import MOST_BYTES, most_values
from fedonce.rows.ids import RULES, parse_forms
from fedonce.system.sizes import MESSAGE_LIMIT, size
from fedonce.system.text import duration

if TYPE_CHECKING:
    from fedonce.privacy.budget import Plan
    from fedonce.rounds.settings import Rounds


@dataclass(frozen=True)
class Budget:
    """A privacy budget for all parties; `rows` is how many each has, where that is public, None: as many as the host."""

    epsilon: float
    delta: float
    public: Path
    accountant: str = "pld"
    division: str = "moments"
    rows: int | None = None


@dataclass(frozen=True)
class RunFile:
    """One training, as the host wants it.

    Parameters
    ----------
    path : path
        The file; `table`, `kit`, `secret` and a budget's `public` are found from its folder.
    run, table, id, label, guests
        Name of the training, the host's table, its columns of ids and of labels, who is asked.
    kit : path, optional
        The host's kit; None: named elsewhere.
    deadline : float
        Seconds to wait for all guests together.
    silence : float
        Seconds without a sign of a guest after which it is asked again.
    min_guests : int
        Fewer answers are an error.
    learner, dim, bits, epochs, noise, bytes_per_row, local_epsilon, protect
        How guests learn, where `guest` says nothing else.
    bytes_total : float, optional
        Instead of `bytes_per_row`: bytes per row of all guests together, divided evenly among those without their own. No
        guest knows of another, and each sends one message, so none can tell what another leaves over.
    guest : dict by guest
        What differs for a guest: of learner, dim, bits, epochs, noise, bytes_per_row, local_epsilon, protect, columns and rows.
    seed : int
        Of host and guests; as `random_state` of an estimator.
    task : str, optional
        "classification" or "regression"; None: by the labels.
    columns, drop, types
        Of the host's own table, as for `jobs.TableSource`.
    recipe, host_epochs, model, weight, class_weight, calibrate, validate
        How the host trains, as for `jobs.Fitting`.
    align, reveal
        Whether private set intersection comes first, and who learns which rows are shared.
    forms : tuple of str
        How ids are made alike (`normalise_ids`).
    secret : path, optional
        The parties' secret, for keyed ids.
    unkeyed_ids : bool
        Whether ids may travel as hashes without a key, where there is neither a secret nor an alignment.
    rounds : dict, optional
        Fields of `rounds.Rounds`.
    budget : Budget, optional
        Differential privacy.
    hints : HintsWanted, optional
        Hints at the labels, published before guests learn.
    max_message, max_memory : int
        Bytes of the largest message that is taken, and that the guests' values may take; None: a quarter of the machine's memory.
    """

    path: Path
    run: str
    table: Path
    id: str
    label: str
    guests: tuple[str, ...]
    kit: Path | None = None
    deadline: float = 3600.0
    silence: float = SILENCE
    min_guests: int = 1
    learner: str = "auto"
    dim: int = 8
    bits: int = 8
    epochs: int | None = None
    noise: float = 0.0
    bytes_per_row: float | None = None
    local_epsilon: float | None = None
    protect: str | None = None
    bytes_total: float | None = None
    guest: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    seed: int = 0
    task: str | None = None
    columns: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    recipe: str = "default"
    host_epochs: int | None = None
    model: str = "auto"
    weight: str | None = None
    class_weight: str | Mapping[str, float] | None = None
    calibrate: bool | str = "auto"
    validate: bool = True
    align: bool = False
    reveal: str = "both"
    forms: tuple[str, ...] = ()
    secret: Path | None = None
    unkeyed_ids: bool = False
    rounds: Mapping[str, Any] | None = None
    budget: Budget | None = None
    hints: HintsWanted | None = None
    max_message: int = MESSAGE_LIMIT
    max_memory: int | None = None

    @classmethod
    def read(cls, path: Path | str) -> RunFile:
        """Read a run file; raise InputError where something of it cannot be meant."""
        path = Path(path)
        content = load(path, WHAT)
        check_top(path, content)
        check_guest_sections(path, content)
        given: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in content.items()
        }
        given |= {name: path.parent / given[name] for name in ("table", "kit", "secret") if name in given}
        given |= {"rounds": _rounds(path, given.get("rounds")), "budget": _budget(path, given.get("budget"))}
        given |= {"forms": _forms(path, given.pop("normalise_ids", "")), "hints": hints_wanted(path, content, KEYS)}
        given = {key: value for key, value in given.items() if key not in ("hints_record", "hints_limit")}
        given |= {key: _time(path, key, given[key]) for key in ("deadline", "silence") if key in given}
        given |= {key: _size(path, key, given[key]) for key in ("max_message", "max_memory") if key in given}
        check_together(path, given)
        return cls(path, **given)

    def check_guests(self, known: Sequence[str]) -> None:
        """Raise where a guest is not one of the federation's."""
        for guest in self.guests:
            if guest not in known:
                hint = did_you_mean(guest, known)
                raise InputError(f"{self.path}: 'guests' names {guest!r}, and the federation has no such guest{hint}")

    def learn_settings(self, guest: str) -> dict[str, Any]:
        """Return how a guest is asked to learn: keyword arguments of `request.Request`."""
        own = self._of(guest)
        settings = {name: own.get(name, getattr(self, name)) for name in LEARNING}
        if self.bytes_total is not None and "bytes_per_row" not in own:
            settings["bytes_per_row"] = min(bytes_left(vars(self)), MOST_BYTES)
        columns, most = own.get("columns"), settings["bytes_per_row"]
        for name in ("bytes_per_row", "local_epsilon"):
            settings[name] = None if settings[name] is None else float(settings[name])
        settings["dim"] = most_values(settings["dim"], most)
        return settings | {"noise": float(settings["noise"]), "columns": None if columns is None else tuple(columns)}

    def rounds_settings(self) -> Rounds | None:
        """Return how to train on together; None: not at all."""
        from fedonce.rounds.settings import Rounds

        return None if self.rounds is None else Rounds(**self.rounds)

    def plan(self, host: str, n_rows: int) -> Plan | None:
        """Return the privacy plan of the host and all guests, None without a budget; the same each time.

        `n_rows` is how many rows the host has, unless the budget's `rows` says it: numbers of rows are public. A guest has as
        many as its own `rows` says, or else as many as the host. They steer how long and on how large samples parties train;
        the price is that of the steps that are planned, however many rows there are.
        """
        if self.budget is None:
            return None
        from fedonce import hostmodels, learners
        from fedonce.hostmodels.plan import plan

        if host in self.guests:
            raise InputError(f"{self.path}: 'guests' names {host!r}, which is the host.")
        own = self.budget.rows or n_rows
        rows = {guest: int(self._of(guest).get("rows", own)) for guest in self.guests}
        least = 1 / max(own, *rows.values())
        if self.budget.delta > least:
            must_be = f"at most 1 / rows ({least:.3g}): a larger one lets a whole row slip out"
            raise wrong(self.path, "delta", must_be, self.budget.delta, "budget")
        owner = str(self.path)
        guests = {}
        for guest in self.guests:
            settings = self.learn_settings(guest)
            guests[guest] = learners.make(settings["learner"], settings["epochs"], owner)
        model, budget = hostmodels.make(self.model, self.recipe, self.host_epochs, owner), self.budget
        assert self.task is not None  # checked when the file was read
        return plan(
            host, model, self.task, own, guests, rows, budget.epsilon, budget.delta, budget.accountant, budget.division
        )

    def _of(self, guest: str) -> Mapping[str, Any]:
        if guest not in self.guests:
            raise InputError(f"{self.path}: 'guests' does not name {guest!r}{did_you_mean(guest, self.guests)}")
        return self.guest.get(guest, {})


def _rounds(path: Path, given: Any) -> dict[str, Any] | None:
    if given is None or (isinstance(given, int) and given == 0):
        return None
    if isinstance(given, int):
        check(path, WHAT, {"rounds": given}, ROUNDS_KEYS)
        return {"rounds": given}
    check(path, WHAT, given, ROUNDS_KEYS, "rounds", KEYS)
    if not {"rounds", "epochs", "bytes"} & set(given):
        raise InputError(
            f"{path}: [rounds] must say when training ends; write for example: rounds = 2000 (or epochs, or bytes)"
        )
    return dict(given)


def _budget(path: Path, given: Mapping[str, Any] | None) -> Budget | None:
    if given is None:
        return None
    check(path, WHAT, given, BUDGET_KEYS, "budget", KEYS)
    needed(path, given, ("epsilon", "delta", "public"), REQUIRED, "budget")
    return Budget(**{**given, "public": path.parent / given["public"]})


def _time(path: Path, key: str, text: str) -> float:
    try:
        seconds = duration(text)
    except InputError:
        seconds = math.nan
    if not seconds > 0:
        raise wrong(path, key, "a time like 90s, 30m, 2h or 1d", text)
    return seconds


def _size(path: Path, key: str, text: str) -> int:
    try:
        return size(text)
    except InputError:
        raise wrong(path, key, "a size like 800KB, 500MB or 4GB", text) from None


def _forms(path: Path, text: str) -> tuple[str, ...]:
    try:
        return parse_forms(text)
    except InputError:
        raise wrong(path, "normalise_ids", f"some of {', '.join(RULES)}, with commas", text) from None
