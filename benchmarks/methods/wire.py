"""XGBoost's vertical federated training over the loopback: a process for each party, one for the server, bytes counted.

The parties talk to the server through a forwarder in this process, which counts what passes. Party, server and this process
agree by files in a temporary folder: a party's file has its own columns, and only the host's has the labels. Run as a
script, this file is a party or the server, and then needs numpy and XGBoost alone, so that ten of them start soon.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DEADLINE = 20 * 60.0
POLL = 0.02
CHUNK = 1 << 18
SERVER = "server"


class FederationError(RuntimeError):
    """A party or the server failed, or they took too long."""


@dataclass(frozen=True)
class Trained:
    """What a federation gave.

    Attributes
    ----------
    model : bytearray
        XGBoost's model; every party has the same.
    predicted : array
        What the federation predicts for the test rows.
    wire : int
        Bytes that went through the forwarder until the last party was trained, both directions.
    seconds, cpu : float
        Training time at the slowest party, and CPU time of all parties and the server.
    """

    model: bytearray
    predicted: NDArray[np.float32]
    wire: int
    seconds: float
    cpu: float


def federate(
    train: Sequence[NDArray[np.float32]],
    test: Sequence[NDArray[np.float32]],
    label: NDArray[np.float32],
    parameters: dict[str, Any],
    rounds: int,
    deadline: float = DEADLINE,
) -> Trained:
    """Train and predict with a process for each party.

    Parameters
    ----------
    train, test : sequence of arrays
        Columns of each party, the host first.
    label : array
        The host's labels.
    parameters : dict
        XGBoost's.
    rounds : int
        Boosting iterations.
    deadline : float
        Seconds until everything must be done; what still runs is ended.
    """
    with tempfile.TemporaryDirectory(prefix="secureboost-") as name:
        folder = Path(name)
        for rank, (own, later) in enumerate(zip(train, test, strict=True)):
            np.savez(folder / f"{rank}.npz", train=own, test=later, **({"label": label} if rank == 0 else {}))
        task = {"parameters": parameters, "rounds": rounds, "parties": len(train)}
        write(folder / "task.json", task)
        with Processes(folder, deadline) as processes:
            return _direct(folder, processes, len(train))


def _direct(folder: Path, processes: Processes, n_parties: int) -> Trained:
    """Start server and parties; let nobody predict before all are trained, so that bytes of training can be told apart."""
    processes.start(SERVER)
    processes.wait("the server starts", (folder / "port.json").exists)
    with Forwarder(read(folder / "port.json")) as forwarder:
        write(folder / "address.json", f"127.0.0.1:{forwarder.port}")
        ranks = [str(rank) for rank in range(n_parties)]
        for rank in ranks:
            processes.start(rank)
        marks = [folder / f"trained-{name}.json" for name in ranks]
        processes.wait("every party is trained", lambda: all(mark.exists() for mark in marks))
        wire = forwarder.bytes
        write(folder / "predict.json", True)
        processes.wait("every party has predicted", lambda: all(processes.ended(rank) for rank in ranks))
        processes.wait("the server tells its time", (folder / f"trained-{SERVER}.json").exists)
    times = [read(mark) for mark in marks]
    return Trained(
        bytearray((folder / "model.ubj").read_bytes()),
        np.load(folder / "predicted.npy"),
        wire,
        seconds=max(each["seconds"] for each in times),
        cpu=sum(each["cpu"] for each in [*times, read(folder / f"trained-{SERVER}.json")]),
    )


class Processes:
    """Processes of one federation; all of them end with the block, and nothing else does."""

    def __init__(self, folder: Path, deadline: float) -> None:
        self.folder, self.deadline = folder, deadline
        self.end = time.monotonic() + deadline
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running.values():
            process.kill()
        for process in self.running.values():
            process.wait()

    def start(self, name: str) -> None:
        """Start the server, or a party by its rank."""
        # Not the folder of this file on the path (-P): its modules are named like packages. And no proxy to the loopback.
        command = [sys.executable, "-P", str(Path(__file__).resolve()), str(self.folder), name]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "no_grpc_proxy": "127.0.0.1"}
        with self._log(name).open("wb") as log:
            self.running[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment
            )

    def ended(self, name: str) -> bool:
        """Tell whether a process has ended."""
        return self.running[name].poll() is not None

    def wait(self, what: str, reached: Callable[[], bool]) -> None:
        """Wait until something is reached; raise where a process fails or time is up."""
        done = False
        while not done:
            done = reached()  # before the look at failures: processes may end in between
            self._refuse_failures(what)
            if not done and time.monotonic() > self.end:
                busy = ", ".join(self._who(name) for name in self.running if not self.ended(name))
                raise FederationError(
                    f"SecureBoost: {self.deadline:g} seconds have passed before {what}; ended {busy or 'nothing'}."
                )
            time.sleep(0 if done else POLL)

    def _refuse_failures(self, what: str) -> None:
        for name, process in self.running.items():
            code = process.poll()
            if code or (code is not None and name == SERVER):
                raise FederationError(
                    f"SecureBoost: {self._who(name)} ended with code {code} before {what}. {self._last_words(name)}"
                )

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _last_words(self, name: str) -> str:
        words = self._log(name).read_text(errors="replace").partition("\nStack trace:")[0].strip()
        return f"It said: {words[-1000:]}" if words else "It said nothing."

    @staticmethod
    def _who(name: str) -> str:
        return "the server" if name == SERVER else f"party {name}{' (the host)' if name == '0' else ''}"


class Forwarder:
    """Passes connections on to a port of the loopback, and counts the bytes of both directions."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._lock = threading.Lock()
        self._bytes = 0
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._listener.getsockname()[1])

    @property
    def bytes(self) -> int:
        """Bytes so far."""
        with self._lock:
            return self._bytes

    def __enter__(self) -> Forwarder:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            open_sockets, self._sockets = [self._listener, *self._sockets], []
        for each in open_sockets:
            _hang_up(each)

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
                called = socket.create_connection(("127.0.0.1", self.target))
            except OSError:  # the listener is closed, or the server is gone: its process is watched elsewhere
                return
            with self._lock:
                self._sockets += [caller, called]
            for pair in ((caller, called), (called, caller)):
                # Small answers must not wait for a full packet.
                pair[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while chunk := source.recv(CHUNK):
                with self._lock:
                    self._bytes += len(chunk)
                target.sendall(chunk)
        for each in (source, target):
            _hang_up(each)


def _hang_up(connection: socket.socket) -> None:
    """Close a socket; a thread that waits on it wakes up."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def write(path: Path, value: Any) -> None:
    """Write JSON to a file that others wait for: it is there at once and whole."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value))
    part.rename(path)


def read(path: Path) -> Any:
    """Read JSON."""
    return json.loads(path.read_text())


def serve(folder: Path) -> None:
    """Be the server, until the process is ended or its parent is gone."""
    from xgboost.federated import run_federated_server

    # Port 0: the system finds a free one. XGBoost would share a taken port without a word.
    address = run_federated_server(n_workers=read(folder / "task.json")["parties"], port=0, blocking=False)
    start = time.process_time()
    write(folder / "port.json", address["dmlc_tracker_port"])
    _await(folder / "predict.json")
    write(folder / f"trained-{SERVER}.json", {"cpu": time.process_time() - start})
    _await(folder / "never.json")


def take_part(folder: Path, rank: int) -> None:
    """Be a party: train, wait until all are trained, predict."""
    from xgboost import DMatrix, collective, train
    from xgboost.core import DataSplitMode

    task, own = read(folder / "task.json"), np.load(folder / f"{rank}.npz")
    with collective.CommunicatorContext(
        dmlc_communicator="federated",
        federated_server_address=read(folder / "address.json"),
        federated_world_size=task["parties"],
        federated_rank=rank,
    ):
        collective.allreduce(np.zeros(1), collective.Op.SUM)  # clocks start when all are here
        wall, cpu = time.perf_counter(), time.process_time()
        label = own["label"] if rank == 0 else None
        rows = DMatrix(own["train"], label, nthread=1, data_split_mode=DataSplitMode.COL)
        booster = train(task["parameters"], rows, task["rounds"])
        times = {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        write(folder / f"trained-{rank}.json", times)
        _await(folder / "predict.json")
        predicted = booster.predict(DMatrix(own["test"], nthread=1, data_split_mode=DataSplitMode.COL))
        if rank == 0:
            booster.save_model(folder / "model.ubj")
            np.save(folder / "predicted.npy", predicted)


def _await(path: Path) -> None:
    """Wait for a file; leave if the process that would write it is gone."""
    parent = os.getppid()
    while not path.exists():
        if os.getppid() != parent:
            sys.exit("The process that started this one is gone.")
        time.sleep(POLL)


def main() -> None:
    folder, name = Path(sys.argv[1]), sys.argv[2]
    sys.modules["sklearn"] = None  # type: ignore[assignment]  # XGBoost does without, and starts five times as fast
    if name == SERVER:
        serve(folder)
    else:
        take_part(folder, int(name))


if __name__ == "__main__":
    main()
