"""The demonstration runs, and leaves no process behind: not at its end, not on Ctrl-C, not where it was killed before."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from fedonce.data.files import read_table
from fedonce.errors import InputError
from fedonce.federation.flare import demonstration
from tests.federation.parties import FEDONCE

DEMO = [*FEDONCE, "federation", "demo"]


def running_from(folder: Path) -> list[psutil.Process]:
    """Return the processes that a folder's kits are at work in."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(str(folder) in word for word in process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.fixture
def started(tmp_path):
    """Start the demonstration; what is left of it is ended by its ids."""
    processes = []

    def start() -> subprocess.Popen:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        processes.append(subprocess.Popen([*DEMO, "--out", str(tmp_path / "demo"), "--json"], cwd=tmp_path, **pipes))
        return processes[-1]

    yield start
    for process in (*processes, *running_from(tmp_path)):
        process.kill()
    for process in processes:
        process.communicate()


def wait_until(there, timeout: float = 90) -> None:
    end = time.monotonic() + timeout
    while not there():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.slow_federation
@pytest.mark.federation
def test_it_runs_and_ends_all_that_it_started(started, tmp_path):
    out, err = (process := started()).communicate(timeout=300)
    assert process.returncode == 0, err
    assert running_from(tmp_path) == []
    told = json.loads(out)
    assert [model["guests"] for model in told["models"]] == [
        [],
        ["upper", "lower", "bottom"],
        ["upper", "middle", "lower", "bottom"],
    ]
    alone, three, four = (model["accuracy"] for model in told["models"])
    assert alone + 0.2 < three < four
    assert {each["guest"]: each["training"] for each in told["sent"]}["middle"] == "second (refit)"
    for each in told["sent"]:
        assert 4 * told["n_train"] == each["payload"] < each["message"] < each["wire"] < 60_000
    steps = [line for line in err.splitlines() if line.startswith("fedonce federation")]
    assert [step.split()[2] for step in steps if step.split()[2] != "stop"][:2] == ["init", "start"]
    with pytest.raises(InputError, match="not of an earlier demonstration"):
        demonstration.run(tmp_path)


@pytest.mark.slow_federation
@pytest.mark.federation
def test_ctrl_c_in_the_middle_of_training_leaves_no_process(started, tmp_path):
    process = started()
    events = tmp_path / "demo" / "model" / "federation" / "events.jsonl"
    wait_until(lambda: events.exists() and '"state": "starting"' in events.read_text())
    assert len(running_from(tmp_path / "demo" / "kits")) > 4  # the server, three guests, and jobs
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)  # who is impatient does not cut the end short
    _, err = process.communicate(timeout=60)
    assert process.returncode not in (0, None)
    assert "Traceback" not in err
    assert running_from(tmp_path) == []


@pytest.mark.slow_federation
@pytest.mark.federation
def test_what_a_killed_demonstration_left_behind_is_ended_by_the_next(started, tmp_path):
    process = started()
    wait_until((tmp_path / "demo" / "kits" / "bottom" / "process.json").exists)
    process.kill()
    process.wait()
    assert running_from(tmp_path / "demo" / "kits") != []
    assert [path.name for path in demonstration._empty(tmp_path / "demo").iterdir()] == [demonstration.MARK]
    assert running_from(tmp_path / "demo" / "kits") == []


def test_rows_held_back_are_in_no_table_to_learn_from(tmp_path):
    held_back = demonstration.write_tables(tmp_path)
    new = read_table(tmp_path / "new_top.csv", id="image")
    assert len(held_back) == new.n_rows == 450
    assert "digit" not in new.names
    pixels = []
    for name in demonstration.STRIPS:
        learnt, asked = (read_table(tmp_path / f"{prefix}{name}.csv", id="image") for prefix in ("", "new_"))
        assert not set(learnt.ids) & set(new.ids)
        assert set(asked.ids) == set(new.ids)
        pixels += [column for column in learnt.names if column != "digit"]
    assert pixels == [f"pixel{j}" for j in range(64)]
    assert np.isin(held_back, range(10)).all()
