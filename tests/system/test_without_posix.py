"""The library and its files work where Python lacks what only POSIX has, as on Windows; the federation is not meant to."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# What Windows refuses: modules that it lacks, opening a folder as a file, renaming a file that is open.
LACKING = """
import os, sys
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
for name in ("fork", "getuid", "geteuid", "sysconf", "mkfifo", "setsid", "killpg"):
    if hasattr(os, name):
        delattr(os, name)
really_open, really_replace = os.open, os.replace

def open_file(path, *given, **named):
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", path)
    return really_open(path, *given, **named)

def replace(source, target):
    for number in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        if os.path.realpath(f"/proc/self/fd/{number}") == os.path.realpath(source):
            raise PermissionError(13, "used by another process", source)
    really_replace(source, target)

os.open, os.replace = open_file, replace
"""
IMPORTS = """
import importlib, json, pkgutil
import fedonce
names = [each.name for each in pkgutil.walk_packages(fedonce.__path__, "fedonce.")]
ours = [name for name in names if not name.startswith("fedonce.federation.flare.") and "__main__" not in name]
for name in ours:
    importlib.import_module(name)
print(json.dumps(ours))
"""
COMMANDS = """
import json, sys
from fedonce.cli.entry import app
for step in json.loads(sys.argv[1]):
    app(step, standalone_mode=False)
"""


def run(code: str, *given: str, folder=None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LACKING + code, *given]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


def test_every_module_but_those_of_flare_can_be_imported():
    ended = run(IMPORTS)
    assert ended.returncode == 0, ended.stderr
    assert {"fedonce.cli.entry", "fedonce.federation.host_run", "fedonce.demo.digits"} <= set(json.loads(ended.stdout))


def test_two_parties_learn_and_predict_by_files(tmp_path, rng):
    rows = rng.standard_normal((60, 4)).round(3)
    for name, columns in (("bank", (0, 1)), ("shop", (2, 3))):
        lines = ["id,a,b" + ",y" * (name == "bank")]
        lines += [
            f"c{i},{row[columns[0]]},{row[columns[1]]}" + f",{int(row[2] > 0)}" * (name == "bank")
            for i, row in enumerate(rows)
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines), encoding="utf-8")
    message = "shop/representation.fedonce"
    host = ["--id", "id", "--label", "y", "--run", "r", "--model", "linear"]
    steps = [
        ["guest", "fit", "shop.csv", "--id", "id", "--name", "shop", "--run", "r", "--plain-ids", "--out", "shop"],
        ["host", "fit", "bank.csv", *host, "--guest", message, "--out", "bank"],
        ["host", "fit", "bank.csv", *host, "--guest", message, "--refit", "--out", "bank"],
        ["guest", "represent", "shop.csv", "--model", "shop", "--out", "new.fedonce"],
        ["host", "predict", "bank.csv", "--model", "bank", "--guest", "new.fedonce", "--out", "predictions.csv"],
    ]
    ended = run(COMMANDS, json.dumps(steps), folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert len((tmp_path / "predictions.csv").read_text(encoding="utf-8").splitlines()) == 61
    assert not list(tmp_path.rglob("*.part"))


def test_what_is_lacking_is_felt():
    with pytest.raises(subprocess.CalledProcessError):
        run("import fcntl").check_returncode()
    with pytest.raises(subprocess.CalledProcessError):
        run("os.open('.', os.O_RDONLY)").check_returncode()
