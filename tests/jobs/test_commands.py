from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedonce import FedOnceClassifier, Guest, Host, InputError, protocol
from fedonce.data.files import read_table
from fedonce.jobs import guest, host, settings, tables
from fedonce.party import storage
from fedonce.rows.ids import Naming
from fedonce.system.disk import write_file
from fedonce.system.locks import if_free
from tests.jobs.office import FIT_BANK, FIT_SHOP, SHOP, UTILITY, N, command, done, make_office, make_tables, refused
from tests.system.test_locks import HOLD


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    return make_office(tmp_path_factory.mktemp("office"))


def python_guest(folder, name, file, id):
    secret = bytes.fromhex((folder / "secret").read_text())
    guest = Guest(name, random_state=settings.estimator_seed(0), naming=Naming("keyed", secret))
    return guest.learn(read_table(folder / file, id=id))


def test_python_and_the_commands_agree(office):
    message = python_guest(office, "shop", "shop.csv", "who")
    assert message.to_bytes() == (office / "shop" / "representation.fedonce").read_bytes()
    secret = bytes.fromhex((office / "secret").read_text())
    host = Host("bank", epochs=2, random_state=settings.estimator_seed(0), secret=secret)
    label, own = read_table(office / "bank.csv", id="customer").pop("default")
    host.aggregate(own, label, [message])
    done(office, f"host predict bank.csv --model bank {SHOP} --secret secret --out agree.csv")
    written = pd.read_csv(office / "agree.csv")
    assert written["prediction"].tolist() == host.predict(own, [message]).tolist()
    np.testing.assert_array_equal(written[["probability_no", "probability_yes"]], host.outputs(own, [message]))


def test_an_estimator_and_two_departments_agree(office, tmp_path):
    whole = pd.read_csv(office / "bank.csv").drop(columns=["customer", "since"])
    label = whole.pop("default")
    whole["kwh"] = np.arange(N) % 7 + whole["income"].fillna(0)
    whole["solar"] = np.arange(N) % 3
    columns = {"bank": ["income", "region", "member"], "utility": ["kwh", "solar"]}
    estimator = FedOnceClassifier(columns, host="bank", host_epochs=2, random_state=3).fit(whole, label)
    whole[columns["bank"]].assign(label=label).to_csv(tmp_path / "bank.csv", index=False)
    whole[columns["utility"]].to_csv(tmp_path / "utility.csv", index=False)
    done(tmp_path, "guest fit utility.csv --name utility --out utility --seed 3")
    done(tmp_path, f"host fit bank.csv --label label --name bank --epochs 2 --seed 3 --out model {UTILITY}")
    done(tmp_path, f"host predict bank.csv --model model {UTILITY} --out out.parquet")
    written = pd.read_parquet(tmp_path / "out.parquet")
    assert list(written) == ["row", "prediction", "probability_no", "probability_yes", "has_utility"]
    assert written["has_utility"].all()
    np.testing.assert_array_equal(written.iloc[:, 2:4], estimator.predict_proba(whole))


@pytest.mark.parametrize(
    ("labels", "task"),
    [
        (np.array(["a", "b"], object), "classification"),
        (np.array([True, False]), "classification"),
        (np.array([1, 2, 3]), "classification"),
        (np.array([0.0, 1.0, 0.0]), "classification"),
        (np.array([0.5, 1.0]), "regression"),
        (np.arange(21), "regression"),
    ],
)
def test_the_task_is_what_labels_ask_for(labels, task):
    assert tables.infer_task(labels) == task


def test_public_knowledge_is_toml_or_json(tmp_path):
    (tmp_path / "a.toml").write_text("labels = [0, 1]\n[bounds]\nage = [0, 120]\n")
    (tmp_path / "a.json").write_text('{"bounds": {"age": [0, 120]}, "labels": [0, 1]}')
    for name in ("a.toml", "a.json"):
        known, labels = settings.public_knowledge(tmp_path / name)
        assert (known.bounds, labels) == ({"age": [0, 120]}, [0, 1])
    for text, said in (("{", "neither TOML nor JSON"), ('{"bonds": 1}', "Got 'bonds'"), ("[1]", "Got '?'")):
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(InputError, match=said):
            settings.public_knowledge(tmp_path / "a.json")


def test_a_guest_without_room_keeps_what_it_had(tmp_path, monkeypatch):
    """Model and message change together: where one cannot be written, both are as before."""
    make_tables(tmp_path)
    done(tmp_path, "keys secret secret")
    done(tmp_path, FIT_SHOP)
    before = {path.name: path.read_bytes() for path in (tmp_path / "shop").iterdir()}
    for room in range(5):  # settings, encoding, weights, message, manifest
        calls = []

        def full(path, data, private=False, calls=calls, room=room):
            calls.append(path)
            if len(calls) > room:
                raise InputError("no room")
            return write_file(path, data, private)

        with monkeypatch.context() as patch:
            patch.setattr(storage, "write_file", full)
            refused(tmp_path, 3, "no room", f"{FIT_SHOP} --replace --seed 1")
        assert len(calls) == room + 1
        assert models(tmp_path / "shop") == {name: before[name] for name in models(tmp_path / "shop")}
        assert before.keys() <= {path.name for path in (tmp_path / "shop").iterdir()}
    done(tmp_path, f"{FIT_SHOP} --replace --seed 1")
    assert len(list((tmp_path / "shop").iterdir())) == len(before)


FULL_DISK = """
import resource, signal, sys, torch
torch.set_num_threads(1)
sys.path.insert(0, ".")
from tests.jobs.office import command
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
for limit, line in [line.strip().split(" ", 1) for line in sys.stdin]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), hard))
    result = command(sys.argv[1], line)
    print(result.code, result.err.strip().splitlines()[-1])
"""


def tree(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def models(folder):
    """What a folder says after an accident: its manifests, messages and outputs; files that no manifest names do no harm."""
    return {
        name: data
        for name, data in tree(folder).items()
        if name.endswith(("manifest.json", "representation.fedonce", "out.csv", "out.parquet"))
    }


def test_a_full_disk_is_told_and_nothing_is_lost(tmp_path):
    make_office(tmp_path)
    predict = f"host predict bank.csv --model bank {SHOP} --secret secret --quiet --out"
    done(tmp_path, f"{predict} out.csv")
    new_guest = FIT_SHOP.replace("--out shop", "--out new")
    new_host = f"{FIT_BANK} {SHOP}".replace("--out bank", "--out fresh")
    deep = "--learner autoencoder --epochs 1"  # whose model needs more room than its message
    lines = [f"100 {new_guest}", f"2500 {new_guest} {deep}"]
    lines += [f"100 {FIT_SHOP} --replace --dim 2", f"2500 {FIT_SHOP} --replace {deep}"]
    lines += [f"{limit} {new_host}" for limit in (100, 2500)]
    lines += [f"{limit} host fit bank.csv --out bank --refit --secret secret {UTILITY}" for limit in (100, 9999)]
    lines += [f"100 {predict} {out}" for out in ("out.csv", "out.parquet", "new.tsv")]
    before = models(tmp_path)
    ran = subprocess.run(
        [sys.executable, "-c", FULL_DISK, tmp_path],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=True,
    )
    said = ran.stdout.splitlines()
    assert len(said) == len(lines), ran
    for line, each in zip(lines, said, strict=True):
        assert each.startswith("3 error: "), (line, each)
        assert "written" in each, (line, each)
        assert "File too large" in each, (line, each)
        assert "make room" in each, (line, each)
    assert models(tmp_path) == before
    assert not [name for name in tree(tmp_path) if Path(name).name.startswith(".")]
    done(tmp_path, new_guest)  # a folder that was not finished may be written
    done(tmp_path, new_host)


REFIT = "host fit bank.csv --out bank --refit --epochs 1 --secret secret --replace --quiet"
REFITS = f"""
import contextlib, os, sys, torch
from fedonce import cli
torch.set_num_threads(1)
os.chdir(sys.argv[1])
def run(line):
    sys.argv = ["fedonce", *line.split()]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(sys.stderr):
        cli.main()
run("{REFIT}")
print("ready", flush=True)
for seed in range(10**6):
    run(f"{REFIT} --seed {{seed}} {{['{SHOP}', '{UTILITY}'][seed % 2]}}")
"""


def check_whole(folder):
    """Load the host; its messages are those that it was trained with."""
    host = Host.load(folder / "bank")
    assert set(storage.load(folder / "bank", "host").messages) == set(host.dims)
    done(folder, f"host predict bank.csv --model bank {SHOP} --secret secret --allow-absent --out out.csv")
    return host


def test_a_killed_refit_leaves_the_old_model_or_the_new_one(tmp_path):
    make_office(tmp_path)
    delays = np.random.default_rng(0)
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", REFITS, tmp_path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as child:
            try:
                assert child.stdout.readline() == b"ready\n"
                time.sleep(delays.uniform(0.05, 0.5))
            finally:
                child.kill()
        check_whole(tmp_path)
    done(tmp_path, REFIT)
    kept = storage.load(tmp_path / "bank", "host").messages
    assert len(list((tmp_path / "bank").iterdir())) == 5 + len(kept)  # what the killed ones left over is gone


@pytest.mark.parametrize("at", range(6))
def test_an_interruption_at_any_file_leaves_the_old_model_or_the_new_one(office, tmp_path, monkeypatch, at):
    shutil.copytree(office, tmp_path, dirs_exist_ok=True)
    before, write, left = Host.load(tmp_path / "bank"), storage.write_file, iter(range(at))

    def interrupted(path, data, private):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return write(path, data, private)

    monkeypatch.setattr(storage, "write_file", interrupted)
    result = command(tmp_path, f"{REFIT} {UTILITY} --seed 9")
    monkeypatch.undo()
    assert result.code == 130
    after = check_whole(tmp_path)
    assert after.random_state == before.random_state
    assert list(after.dims) == ["shop"]


def test_a_guest_whose_rows_are_not_asked_for_is_zeros_and_told(office, tmp_path):
    table = pd.read_csv(office / "bank.csv")
    table["customer"] = [f"new{i}" for i in range(N)]
    table.to_csv(tmp_path / "new.csv", index=False)
    line = f"host predict {tmp_path}/new.csv --model bank --secret secret --out {tmp_path}/out.csv"
    result = command(office, f"{line} {SHOP}")
    assert result.code == 6
    assert "'shop' has 0.0 % of the rows (75.0 % in training): are these other rows, or is it the message" in result.err
    result = command(office, f"{line} {SHOP} --allow-absent")
    assert "warning: None of the rows is in the message of 'shop': zeros in its place (is it" in result.err
    with_zeros = (tmp_path / "out.csv").read_bytes()
    done(office, f"{line} --allow-absent")
    assert (tmp_path / "out.csv").read_bytes() == with_zeros


def test_columns_that_look_like_ids_are_told(office, tmp_path):
    shop = "guest fit shop.csv --name shop --no-attack --out"
    said = (
        "warning: Column 'who' of shop.csv is different in every row and looks like ids: name it as the column of ids (--id), "
        "or leave it out (--drop)"
    )
    assert said in command(office, f"{shop} {tmp_path}/a").err
    assert "looks like ids" not in command(office, f"{shop} {tmp_path}/b --drop who").err
    assert "looks like ids" not in command(office, f"{shop} {tmp_path}/c --id who").err
    bank = f"host fit bank.csv --label default --min-guests 0 --epochs 1 --out {tmp_path}/d"
    assert "'customer' of bank.csv is different in every row" in command(office, bank).err


@pytest.mark.parametrize(
    ("column", "like"),
    [
        (np.arange(20), True),
        (np.arange(19), False),
        (np.arange(2000) % 1999, False),
        (np.arange(20) / 3, False),
        (np.array([*map(str, range(20))], object), True),
        (np.array([*map(str, range(20)), None], object), False),
    ],
)
def test_what_looks_like_ids(column, like):
    assert tables.looks_like_ids(column) == like


def is_free(folder):
    """Tell whether somebody else could have a folder: another thread tries."""
    found = []

    def attempt():
        with if_free(folder) as free:
            found.append(free)

    other = threading.Thread(target=attempt)
    other.start()
    other.join()
    return found[0]


@pytest.mark.parametrize(
    ("line", "folder", "steps"),
    [
        (REFIT, "bank", [(host, "model_before"), (protocol, "fit"), (Host, "save")]),
        (f"{FIT_SHOP} --replace --quiet", "shop", [(guest, "warn_of_spent"), (Guest, "learn"), (Guest, "save")]),
    ],
)
def test_a_model_that_is_trained_again_is_locked_from_reading_to_saving(
    office, tmp_path, monkeypatch, line, folder, steps
):
    shutil.copytree(office, tmp_path, dirs_exist_ok=True)
    free = {}

    def watched(owner, name):
        step = getattr(owner, name)

        def watching(*given, **named):
            free[name] = is_free(tmp_path / folder)
            return step(*given, **named)

        monkeypatch.setattr(owner, name, watching)

    for owner, name in steps:
        watched(owner, name)
    done(tmp_path, line)
    assert free == {name: False for _, name in steps}
    assert is_free(tmp_path / folder)


def test_whoever_comes_second_waits_and_is_told_for_whom(office, tmp_path):
    shutil.copytree(office, tmp_path, dirs_exist_ok=True)
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path / "bank"], stdin=-1, stdout=-1) as other:
        assert other.stdout.readline() == b"held\n"
        timer = threading.Timer(0.5, other.kill)
        timer.start()
        result = command(tmp_path, REFIT.replace(" --quiet", ""))
        timer.join()
    assert result.code == 0
    assert "waiting for " in result.err
    assert "which has bank to itself" in result.err


@pytest.fixture
def no_waiting():
    """End a test that waits for somebody to write into a pipe."""

    def waited(*_):
        raise TimeoutError("the command waits")

    before = signal.signal(signal.SIGALRM, waited)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


LEARN = "guest fit shop.csv --id who --name shop --out learnt"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no pipes with names")
@pytest.mark.parametrize("thing", ["pipe", "folder", "device"])
@pytest.mark.parametrize(
    ("code", "line"),
    [
        (3, "guest fit THING --name x --out x"),
        (3, f"{LEARN} --secret THING"),
        (3, f"{LEARN} --unkeyed-ids --plan THING"),
        (3, f"{LEARN} --epsilon 1 --public THING"),
        (3, f"{LEARN} --sign THING"),
        (3, f"{LEARN} --seal-to THING"),
        (4, f"{LEARN} --rows THING"),
        (4, f"{FIT_BANK}2 --guest THING"),
        (3, f"{FIT_BANK}2 {SHOP} --key THING"),
        (3, f"{FIT_BANK}2 {SHOP} --verify shop=THING"),
        (3, "host predict THING --model bank --out out.csv"),
        (4, "host predict bank.csv --model bank --secret secret --out out.csv --guest THING"),
        (3, "guest represent THING --model shop --out out.fedonce"),
        (3, "federation fit THING --out there"),
    ],
)
def test_what_is_no_file_is_refused_by_name_and_not_waited_for(office, tmp_path, no_waiting, thing, code, line):
    name = tmp_path / "thing.csv"
    {"pipe": os.mkfifo, "folder": Path.mkdir, "device": lambda path: path.symlink_to("/dev/zero")}[thing](name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refused(office, code, (str(name), thing), line.replace("THING", str(name)))


HOSTILE = "x\x1b[31m\u202ey"


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (0, "guest fit shop.csv --id who --name shop --out NAME --secret secret"),
        (0, "guest represent shop.csv --model shop --secret secret --out NAME.fedonce"),
        (3, "guest fit NAME.csv --name shop --out y"),
        (3, "guest fit shop.csv --name shop --out y --id NAME"),
        (4, "inspect NAME"),
        (4, "host fit bank.csv --id customer --label default --out y --guest NAME"),
        (0, f"host predict bank.csv --model bank {SHOP} --secret secret --out NAME.csv"),
        (0, "keys new bank --out NAME"),
        (2, "guest fit shop.csv --NAME"),
        (2, "NAME"),
        (3, "federation fit NAME --out y"),
    ],
)
def test_no_name_reaches_the_terminal_as_a_control_sequence(office, tmp_path, code, line):
    shutil.copytree(office, tmp_path, dirs_exist_ok=True)
    if "keys" in line:
        (tmp_path / HOSTILE).mkdir()
    result = command(tmp_path, line.replace("NAME", HOSTILE))
    assert result.code == code, result
    printed = result.out + result.err
    assert "\x1b" not in printed
    assert "\u202e" not in printed
    assert r"\u202e" in printed


def test_no_column_reaches_the_terminal_as_a_control_sequence(tmp_path):
    table = pd.DataFrame({f"{HOSTILE}{j}\nz": np.arange(40.0) * (j + 1) % 7 for j in range(3)})
    table.to_csv(tmp_path / "table.csv", index=False)
    result = command(tmp_path, "guest fit table.csv --name shop --out shop")
    assert result.code == 0, result
    assert "\x1b" not in result.out + result.err
    assert "\nz" not in result.out
