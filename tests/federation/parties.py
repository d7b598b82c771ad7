"""Real parties for tests: a server, a host and guests as processes on loopback, each ended by its ids."""

from __future__ import annotations

import csv
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest

from fedonce.federation.flare import sessions, site_processes, sites
from fedonce.federation.flare.kits import make_kits, open_kit
from fedonce.messages.keys import new_secret

FEDONCE = [sys.executable, "-m", "fedonce.cli"]
COLUMNS = {"bank": (0, 4), "shop": (4, 8), "telco": (8, 12), "cinema": (12, 16)}


def slow(*values):
    """Return values of a parameter whose tests run in `make test-federation-all` alone."""
    return [pytest.param(value, marks=pytest.mark.slow_federation) for value in values]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def write_tables(folder: Path, n: int = 1200, new: int = 200, seed: int = 0) -> None:
    """Write bank.csv (with labels), new.csv (without) and a table a guest, rows in orders of their own."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n + new, 16))
    y = (x[:, 0] + x[:, 4] * x[:, 5] + x[:, 8] + 0.5 * x[:, 12] + 0.3 * rng.standard_normal(n + new) > 0).astype(int)
    write_csv(folder / "bank.csv", x[:n, :4], range(n), 0, y)
    write_csv(folder / "new.csv", x[n:, :4], range(n, n + new), 0)
    for guest, (first, last) in list(COLUMNS.items())[1:]:
        order = rng.permutation(n + new)
        write_csv(folder / f"{guest}.csv", x[order, first:last], order, first)


def write_csv(path: Path, values, ids, first: int, label=None) -> None:
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        names = [f"c{first + j}" for j in range(values.shape[1])]
        out.writerow(["customer", *names, *([] if label is None else ["churned"])])
        for row, i in zip(values, ids, strict=True):
            out.writerow([f"k{i:06d}", *(f"{v:.6f}" for v in row), *([] if label is None else [label[i]])])


FREELY = "max_rebuilt = 1.0\n"  # of guests in tests of other things: their tables are made up


class Parties:
    """A federation in a folder: kits, tables, processes.

    `start`, `kill`, `freeze`, `thaw` and `stop` take a party's name: "bank" is the server. `fit` starts the host's training as a
    process of its own. All that was started is ended by `close`.
    """

    def __init__(self, folder: Path, guests=("shop", "telco"), rows: int = 1200) -> None:
        self.folder, self.guests = folder, tuple(guests)
        self.kits, self.started, self.hosts = folder / "kits", set(), []
        self.said = ""  # by the last command that ended well, to its user
        self.port = free_port()
        make_kits("127.0.0.1", "bank", list(guests), self.kits, self.port)
        for guest in guests:
            self.policy(guest, self.kit(guest).policy.read_text().replace("max_rebuilt = 0.9", FREELY.strip()))
        write_tables(folder, rows)
        self.secret = folder / "parties.secret"
        new_secret(self.secret)

    def kit(self, name: str):
        return open_kit(self.kits / name)

    def start(self, *names: str, **configured) -> None:
        for name in names or ("bank", *self.guests):
            if name != "bank" and (configured or not self.kit(name).tables.exists()):
                settings = {"data": self.folder / f"{name}.csv", "id": "customer", "secret": self.secret} | configured
                sites.configure_guest(self.kit(name), **settings)
            self.started.add(name)
            sites.start(self.kit(name))

    def policy(self, name: str, text: str) -> None:
        (self.kits / name / "policy.toml").write_text(text if "max_rebuilt" in text else FREELY + text)

    def processes(self, name: str) -> list[psutil.Process]:
        """The party's process and its job processes."""
        return [each for each in site_processes.processes_of(self.kit(name)) if each.is_running()]

    def signal(self, name: str, number: int) -> None:
        for process in self.processes(name):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def kill(self, name: str) -> None:
        """End a party at once, as a power cut would."""
        found = self.processes(name)
        self.signal(name, signal.SIGKILL)
        psutil.wait_procs(found, timeout=10)

    def freeze(self, name: str) -> None:
        self.signal(name, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        self.signal(name, signal.SIGCONT)

    def stop(self, name: str) -> None:
        sites.stop(self.kit(name))

    def write_run(self, name: str = "run.toml", guest: dict[str, dict] | None = None, **settings) -> Path:
        """Write a run file; keyword arguments are its keys."""
        values = {
            "run": "churn",
            "table": "bank.csv",
            "id": "customer",
            "label": "churned",
            "secret": self.secret.name,
            "guests": list(self.guests),
            "deadline": "60s",
            "learner": "pca",
            "dim": 3,
            "host_epochs": 3,
        } | settings
        lines = [f"{key} = {json.dumps(value)}" for key, value in values.items() if value is not None]
        for party, own in (guest or {}).items():
            lines += [f"[guest.{party}]", *(f"{key} = {json.dumps(value)}" for key, value in own.items())]
        path = self.folder / name
        path.write_text("\n".join(lines) + "\n")
        return path

    def command(self, *arguments: object) -> subprocess.Popen:
        """Start a command of the host's; its output is collected by `outcome`."""
        process = subprocess.Popen(
            [*FEDONCE, "federation", *map(str, arguments)],
            cwd=self.folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.hosts.append(process)
        return process

    def fit(self, run: Path, out: str = "bank", *options: str) -> subprocess.Popen:
        return self.command("fit", run, "--kit", self.kits / "bank", "--out", self.folder / out, "--json", *options)

    def predict(self, out: str = "bank", table: str = "new.csv", *options: str) -> subprocess.Popen:
        return self.command(
            "predict",
            self.folder / table,
            "--model",
            self.folder / out,
            "--out",
            self.folder / "predictions.csv",
            "--json",
            *options,
        )

    def outcome(self, process: subprocess.Popen, timeout: float = 120) -> dict:
        """Wait for a command, and return what it told as JSON; fail with what it said where it failed."""
        out, err = process.communicate(timeout=timeout)
        self.said = err
        assert process.returncode == 0, f"exit {process.returncode}\n{out}\n{err}"
        return json.loads(out)

    def error(self, process: subprocess.Popen, timeout: float = 120) -> tuple[int, str]:
        """Wait for a command that must fail, and return its exit code and what it said, on one line."""
        out, err = process.communicate(timeout=timeout)
        assert process.returncode != 0, out
        return process.returncode, re.sub(r"[\s│╭╮╰╯─]+", " ", err)

    def events(self, out: str = "bank") -> list[dict]:
        path = self.folder / out / "federation" / "events.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def wait_for(self, guest: str, state: str, out: str = "bank", timeout: float = 120, **values) -> dict:
        """Wait until a guest stands somewhere, as the host's events tell, and return that event."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            for event in self.events(out):
                if (
                    event.get("guest") == guest
                    and event.get("state") == state
                    and all(event.get(key) == value for key, value in values.items())
                ):
                    return event
            time.sleep(0.1)
        raise AssertionError(f"{guest} never was {state}: {self.events(out)}")

    def log(self, name: str) -> str:
        return self.kit(name).log.read_text(errors="replace")

    def answers(self, guest: str) -> dict[str, bytes]:
        """A guest's kept messages, by fingerprint."""
        folder = self.kits / guest / "answers"
        return {path.parent.name: path.read_bytes() for path in folder.glob("*/message.fedonce")}

    def idle(self, timeout: float = 40) -> None:
        """Wait until no job process runs anywhere; fail where one stays."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            busy = {name: self.processes(name)[1:] for name in self.started}
            if not any(busy.values()):
                return
            time.sleep(0.3)
        raise AssertionError(f"job processes stay: {busy}")

    def wait_until(self, is_so, what: str, timeout: float = 120):
        """Wait until a function returns something true, and return that."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if found := is_so():
                return found
            time.sleep(0.1)
        raise AssertionError(f"never: {what}")

    def wait_for_state(self, guest: str, timeout: float = 60) -> None:
        """Wait until a guest that learns has put its epochs on disk."""
        folder = self.kits / guest / "answers"
        self.wait_until(lambda: list(folder.glob("*/state/*.safetensors")), f"{guest} kept a state", timeout)

    def forget(self, guest: str) -> None:
        """Remove what a guest keeps, so that it learns from the start."""
        shutil.rmtree(self.kits / guest / "answers", ignore_errors=True)

    def jobs(self) -> dict[str, str]:
        """Return jobs that the server has not finished, with their state."""
        session = sessions.open_session(self.kit("bank"))
        try:
            listed = session.list_jobs()
        finally:
            sessions.close_session(session)
        found = {str(job["job_name"]): str(job["status"]) for job in listed}
        return {name: status for name, status in found.items() if not status.startswith("FINISHED")}

    def settle(self, timeout: float = 60) -> None:
        """Wait until no job is left, neither as a process nor at the server; fail where one stays."""
        self.idle(timeout)
        self.wait_until(lambda: not self.jobs(), "the server has no job left", timeout)

    def close(self) -> None:
        for process in self.hosts:
            if process.poll() is None:
                process.kill()
            process.communicate()
        for name in self.started:
            with suppress(Exception):
                self.thaw(name)
            self.kill(name)
