"""A federation on one machine: digits cut into five strips, five parties, one of which comes late.

The server and the guests are processes of their own, with kits, certificates and policies, as they would be on machines of their
own; the host's commands run here. Whatever was started is ended, also when something fails or is interrupted.
"""

from __future__ import annotations

import shutil
import signal
import socket
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from fedonce.data.files import read_table, write_table
from fedonce.errors import AbsentPartyError, FederationError, FedOnceWarning, InputError
from fedonce.federation.flare import host_steps, sites
from fedonce.federation.flare.kits import make_kits, open_kit
from fedonce.federation.report import FederationReport
from fedonce.federation.runfile import RunFile
from fedonce.federation.tables import toml
from fedonce.jobs import ModelRows, PredictJob
from fedonce.jobs.settings import estimator_seed
from fedonce.messages.keys import new_secret
from fedonce.party import Host
from fedonce.system.disk import make_folder, write_file
from fedonce.system.extras import require
from fedonce.system.text import Tell, silent

HOST, ON_TIME, LATE = "top", ("upper", "lower", "bottom"), "middle"
# The host has two of an image's eight rows of pixels, each guest one and a half of the rest.
STRIPS = {HOST: (0, 16), "upper": (16, 28), "middle": (28, 40), "lower": (40, 52), "bottom": (52, 64)}
GUESTS = tuple(name for name in STRIPS if name != HOST)
MARK = "federation-demo.txt"
SECRET = "parties.secret"
RUN: dict[str, Any] = {
    "run": "digits",
    "table": "top.csv",
    "id": "image",
    "label": "digit",
    "guests": list(GUESTS),
    "secret": SECRET,
    "learner": "pca",
    "dim": 4,
    "seed": 0,
    "host_epochs": 20,
}
PATIENCE = 20  # seconds that the first training waits for everybody, the late guest included
CONNECTED = 120.0  # seconds for a party to start, likewise on a busy machine
TRIES = 5  # of the first training, on a machine that is so busy that guests who are there come late


@dataclass(frozen=True)
class Model:
    """A model: who took part and who was late, how good it is on rows held back, and how long it took."""

    name: str
    guests: tuple[str, ...]
    late: tuple[str, ...]
    accuracy: float
    seconds: float


@dataclass(frozen=True)
class Sent:
    """What one guest sent for the training: values, the message that holds them, and all that the wire carried both ways."""

    guest: str
    training: str
    payload: int
    message: int
    wire: int
    seconds: float


@dataclass(frozen=True)
class Step:
    """A step of a party: what it does in the federation, with what, and how; `note` is for whoever looks on."""

    what: str
    given: tuple[str, ...] = ()
    options: Mapping[str, str | bool] = field(default_factory=dict)
    note: str = ""

    def __str__(self) -> str:
        """One line."""
        return " ".join([self.what, *self.given]) + (f" ({self.note})" if self.note else "")


Show = Callable[[Step], None]


@dataclass
class Demonstration:
    """What there is to tell."""

    n_train: int
    n_test: int
    models: list[Model] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)


def run(out: Path, tell: Tell = silent, port: int | None = None, show: Show | None = None) -> Demonstration:
    """Make kits, start the parties, train with three guests, predict, let the fourth join, train and predict again.

    Parameters
    ----------
    out : path
        Folder for kits, tables, models and predictions; one of an earlier demonstration is emptied.
    tell : callable
        Is told in a line what is being done.
    port : int, optional
        Where the server listens; None: one that is free.
    show : callable, optional
        Is shown each step that a party takes; None: `tell` is told it.
    """
    require("The federation needs", "nvflare", "nvflare")
    began = time.monotonic()
    out = _empty(out.absolute())
    held_back = write_tables(out)
    with _ended_by_signals(), _stopped_at_the_end(out / "kits", tell):
        return _Play(out, tell, show or (lambda step: tell(str(step))), port or _free_port(), held_back).play(began)


def write_tables(out: Path, seed: int = 0) -> NDArray[Any]:
    """Write a table a party and one of rows held back, each in an order of its own; return the digits held back, by id."""
    X, y = load_digits(return_X_y=True)
    ids = np.array([f"image-{i:04d}" for i in range(len(y))], dtype=object)
    parts = train_test_split(np.arange(len(y)), test_size=0.25, random_state=seed, stratify=y)
    chance = np.random.default_rng(seed)
    for name, (first, last) in STRIPS.items():
        for prefix, rows in zip(("", "new_"), parts, strict=True):
            rows = chance.permutation(rows) if name != HOST else rows
            columns = {"image": ids[rows]} | {f"pixel{j}": X[rows, j] for j in range(first, last)}
            if name == HOST and not prefix:
                columns["digit"] = y[rows]
            write_table(out / f"{prefix}{name}.csv", columns)
    return np.asarray(y[parts[1]])


@dataclass
class _Play:
    """The parties of one demonstration."""

    out: Path
    tell: Tell
    show: Show
    port: int
    held_back: NDArray[Any]

    def play(self, began: float) -> Demonstration:
        self._init()
        self._start(HOST, *ON_TIME)
        alone = self._alone()  # while the guests find their way to the server
        self._await(*ON_TIME)
        first, three = self._fit("with three guests", f"{PATIENCE}s", False)
        self._start(LATE)
        self._await(LATE)
        second, four = self._fit("with four guests", "120s", True)
        self._stop()
        done = Demonstration(first.training.rows, len(self.held_back), [alone, three, four], _sent(first, second))
        done.seconds = round(time.monotonic() - began, 1)
        return done

    def _show(self, what: str, *given: str, note: str = "", **options: str | bool) -> None:
        self.show(Step(what, given, options, note))

    def _init(self) -> None:
        self._show("init", server=f"127.0.0.1:{self.port}", host=HOST, guests=",".join(GUESTS))
        make_kits("127.0.0.1", HOST, GUESTS, self.out / "kits", self.port)
        for name in GUESTS:  # public pictures of digits may be read; a policy refuses that by default
            policy = open_kit(self.out / "kits" / name).policy
            own = policy.read_text(encoding="utf-8").replace("max_rebuilt = 0.9", "max_rebuilt = 1.0")
            write_file(policy, own.encode(), private=True)
        new_secret(self.out / SECRET)

    def _start(self, *names: str) -> None:
        for name in names:
            kit = open_kit(self.out / "kits" / name)
            table = {"data": f"{name}.csv", "id": "image", "predict_data": f"new_{name}.csv", "secret": SECRET}
            self._show("start", f"kits/{name}", **({} if name == HOST else table))
            if name != HOST:
                data, new = self.out / f"{name}.csv", self.out / f"new_{name}.csv"
                sites.configure_guest(kit, data, "image", new, secret=self.out / SECRET)
            sites.start(kit, wait=CONNECTED if name == HOST else 0.0)

    def _await(self, *names: str) -> None:
        """Wait until guests are connected; one that ended says why."""
        end = time.monotonic() + CONNECTED
        for name in names:
            kit = open_kit(self.out / "kits" / name)
            while not (site := sites.status(kit)).connected:
                if not site.alive or time.monotonic() > end:
                    raise FederationError(f"{name!r} is not connected: {sites.last_words(kit)} (all of it: {kit.log})")
                time.sleep(0.2)

    def _alone(self) -> Model:
        """Train the host without anybody."""
        self.tell(f"training {HOST} alone, to compare")
        began = time.monotonic()
        own = read_table(self.out / f"{HOST}.csv", id="image")
        label, own = own.pop("digit")
        new = read_table(self.out / f"new_{HOST}.csv", id="image")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FedOnceWarning)  # one party alone, on purpose
            host = Host(HOST, epochs=RUN["host_epochs"], random_state=estimator_seed(0))
            host.aggregate(own, label, [])
            found = host.predict(new, [])
        return Model("the host alone", (), (), self._score(found), round(time.monotonic() - began, 1))

    def _fit(self, name: str, deadline: str, refit: bool) -> tuple[FederationReport, Model]:
        """Train by a run file; guests that come too late on a busy machine are waited for by the same command again."""
        began = time.monotonic()
        file = self.out / "run.toml"
        write_file(file, toml(RUN | {"kit": f"kits/{HOST}", "deadline": deadline, "min_guests": 3 + refit}).encode())
        for left in reversed(range(TRIES)):
            self._show("fit", "run.toml", out="model", refit=refit, note=f"waits {deadline} at most")
            try:
                outcome = host_steps.fit(
                    RunFile.read(file),
                    self.out / "kits" / HOST,
                    self.out / "model",
                    lambda status: None,
                    self.tell,
                    refit,
                )
                break
            except AbsentPartyError:
                if not left:
                    raise
        seconds = time.monotonic() - began
        predictions = "predictions_refit.csv" if refit else "predictions.csv"
        self._show("predict", f"new_{HOST}.csv", model="model", out=predictions)
        rows = ModelRows(self.out / f"new_{HOST}.csv", self.out / "model")
        host_steps.predict(PredictJob(rows, self.out / predictions), 120.0, lambda status: None, self.tell)
        found = read_table(self.out / predictions, id=RUN["id"]).pop("prediction")[0]
        figures = outcome.as_json()
        guests, late = tuple(figures["took part"]), tuple(figures["late"])
        return outcome, Model(name, guests, late, self._score(found), round(seconds, 1))

    def _stop(self) -> None:
        self._show("stop", f"kits/{HOST}", note="and likewise the guests")
        _stop_kits(self.out / "kits")

    def _score(self, found: NDArray[Any]) -> float:
        return float((np.asarray(found).astype(int) == self.held_back).mean())


def _sent(first: FederationReport, second: FederationReport) -> list[Sent]:
    """Return what guests sent in the first training, and then what the late one did."""
    sent = []
    for outcome, training, names in ((first, "first", ON_TIME), (second, "second (refit)", (LATE,))):
        for name in names:
            its = outcome.as_json()["guests"][name]
            sent.append(
                Sent(
                    name,
                    training,
                    its["payload bytes"],
                    its["bytes"],
                    its["wire bytes"] or 0,
                    round(its["waited"] or 0.0, 1),
                )
            )
    return sent


def _empty(out: Path) -> Path:
    """Return the folder, empty but for the mark; one that is not of a demonstration is left alone."""
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / MARK).exists())):
        raise InputError(
            f"{out} is not empty, and not of an earlier demonstration; name another folder (out).", parameter="out"
        )
    if out.exists():
        _stop_kits(out / "kits")  # of one that was killed
        shutil.rmtree(out)
    make_folder(out)
    write_file(out / MARK, b"A demonstration of `fedonce federation`; the next one empties this folder.\n")
    return out


def _stop_kits(kits: Path) -> None:
    """End the processes that run from kits, side by side: of each kit its own, by their ids."""
    found = [open_kit(kits / name) for name in (*GUESTS, HOST) if (kits / name / "kit.toml").is_file()]
    with ThreadPoolExecutor(len(STRIPS)) as workers:
        list(workers.map(sites.stop, found))


@contextmanager
def _stopped_at_the_end(kits: Path, tell: Tell) -> Iterator[None]:
    """End the parties' processes whatever happens; who presses Ctrl-C twice does not cut this short."""
    try:
        yield
    except BaseException:
        tell("ending what was started")
        raise
    finally:
        before = {number: signal.signal(number, signal.SIG_IGN) for number in _signals()}
        try:
            _stop_kits(kits)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let the signal that asks a process to end do as Ctrl-C does."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before: dict[signal.Signals, Any] = {number: signal.signal(number, interrupt) for number in _signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _signals() -> tuple[signal.Signals, ...]:
    return (signal.SIGINT, signal.SIGTERM)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
