"""The paper's settings: `load` gives them as an estimator's keyword arguments, `settings` as the numbers of its tables.

The numbers are in `level0.toml` (FedOnce-L0) and `level1.toml` (FedOnce-L1), beside this file.
"""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

from fedonce.datasets import SOURCES
from fedonce.errors import parameter_error
from fedonce.hostmodels.recipe import PAPER
from fedonce.learners import NAT
from fedonce.privacy.settings import Privacy
from fedonce.training.networks import NCF, Network

__all__ = ["Settings", "Step", "load", "names", "settings"]


@dataclass(frozen=True)
class Step:
    """How a party trains, in the paper's symbols: eta, lambda, b and T.

    Attributes
    ----------
    rate, weight_decay : float
        eta and lambda.
    batch, epochs : int
        b and T.
    """

    rate: float
    weight_decay: float
    batch: int
    epochs: int


@dataclass(frozen=True)
class Settings:
    """One row of the paper's tables: models, and hyperparameters.

    Attributes
    ----------
    guest_model, host_model
        Networks, in the paper's words.
    guest, host : Step
        How each trains.
    dim, update_every : int
        d and f in the paper.
    optimizer : str
        Of both.
    parties : dict or int
        Who holds which columns.
    embeddings : dict, optional
        Widths of embeddings by party.
    clip, delta : float, optional
        At level 1.
    """

    guest_model: str | Mapping[str, str]
    host_model: str
    guest: Step
    host: Step
    dim: int
    update_every: int
    optimizer: str
    parties: Any = None
    embeddings: Mapping[str, tuple[int, ...]] | None = None
    clip: float | None = None
    delta: float | None = None


def names(level: int = 0) -> tuple[str, ...]:
    """Return the data sets that have settings.

    Parameters
    ----------
    level : int
        0: FedOnce-L0. 1: FedOnce-L1.

    >>> names(1)
    ('gisette', 'covtype', 'phishing', 'ujiindoorloc', 'superconduct', 'mnist', 'fashion-mnist')
    """
    return tuple(_table(level))


def settings(name: str, level: int = 0, host: str | None = None, epsilon: float | None = None) -> Settings:
    """Return the paper's numbers for a data set; parameters as in `load`."""
    table = _table(level)
    if not isinstance(name, str) or name not in table:
        raise parameter_error("presets", "name", f"one of {', '.join(table)} at level {level}", name)
    row = table[name]
    hosts, budgets = row.pop("hosts", None), row.pop("epsilon", None)
    _check_host(name, host, row.get("parties"))
    if hosts:
        row |= hosts[host or next(iter(hosts))]
    if budgets:
        matching = [key for key in budgets if isinstance(epsilon, int | float) and float(key) == epsilon]
        if not matching:
            raise parameter_error("presets", "epsilon", f"one of {', '.join(budgets)} at level 1", epsilon)
        row |= budgets[matching[0]]
    elif epsilon is not None:
        raise parameter_error("presets", "epsilon", "None at level 0, which has no privacy budget", epsilon)
    row["guest"], row["host"] = Step(**row["guest"]), Step(**row["host"])
    row.setdefault("parties", copy.deepcopy(SOURCES[name].parties))
    return Settings(**row)


def load(name: str, level: int = 0, host: str | None = None, epsilon: float | None = None) -> dict[str, Any]:
    """Return the paper's settings as keyword arguments: `FedOnceClassifier(**presets.load("phishing"))`.

    Parameters
    ----------
    name : str
        A data set, as in `fedonce data list`.
    level : int
        0: FedOnce-L0. 1: FedOnce-L1, with a privacy budget.
    host : str, optional
        The party with the labels. None: the first. For MovieLens the settings depend on it.
    epsilon : float, optional
        The privacy budget at level 1: 2, 4, 6 or 8.

    >>> load("phishing")["dim"], load("mnist", level=1, epsilon=8)["privacy"].clip
    (3, 1.5)
    """
    row = settings(name, level, host, epsilon)
    parties = list(row.parties) if isinstance(row.parties, Mapping) else ["party1"]
    own = host if host is not None else parties[0]
    hidden, network = _encoder(row, own)
    learners = {guest: _learner(row, guest) for guest in parties if guest != own}
    arguments: dict[str, Any] = {
        "parties": row.parties,
        "host": own,
        "learner": learners if row.embeddings else _learner(row, own),
        "dim": row.dim,
        "bits": 32,
        "recipe": replace(
            PAPER,
            encoder_hidden=hidden,
            network=network,
            encoder_dim=row.dim,
            head=_widths(row.host_model),
            epochs=row.host.epochs,
            batch=row.host.batch,
            rate=row.host.rate,
            weight_decay=row.host.weight_decay,
            optimizer=row.optimizer.lower(),
        ),
    }
    if level == 1:
        arguments |= {"epsilon": float(epsilon or 0), "delta": row.delta, "privacy": Privacy(clip=row.clip)}
    return arguments


def _table(level: int) -> dict[str, dict[str, Any]]:
    if type(level) is not int or level not in (0, 1):
        raise parameter_error("presets", "level", "0 or 1", level)
    return tomllib.loads((resources.files("fedonce.presets") / f"level{level}.toml").read_text())


def _check_host(name: str, host: str | None, parties: Any) -> None:
    parties = SOURCES[name].parties if parties is None else parties
    known = list(parties) if isinstance(parties, Mapping) else [f"party{j}" for j in range(1, parties + 1)]
    if host is not None and host not in known:
        raise parameter_error("presets", "host", f"one of {', '.join(known)} or None", host)


def _learner(row: Settings, party: str) -> NAT:
    hidden, network = _encoder(row, party)
    return NAT(
        hidden=hidden,
        network=network,
        epochs=row.guest.epochs,
        batch=row.guest.batch,
        rate=row.guest.rate,
        weight_decay=row.guest.weight_decay,
        update_every=row.update_every,
        optimizer=row.optimizer.lower(),
    )


def _encoder(row: Settings, party: str) -> tuple[tuple[int, ...], Network]:
    """Return hidden widths and network of a party's encoder, from the table's words: FC(..), CNN0->FC(128), CNN1, NCF(..)."""
    model = row.guest_model if isinstance(row.guest_model, str) else row.guest_model[party]
    if model.startswith("NCF") and row.embeddings:
        return (), NCF(tuple(row.embeddings[party]), _widths(model))
    if model.startswith("CNN"):
        return (), model[:4].lower()
    return _widths(model), None


def _widths(model: str) -> tuple[int, ...]:
    """Return the widths in FC(30x10) or NCF(32x16)."""
    return tuple(int(width) for width in re.findall(r"\d+", model.partition("(")[2]))
