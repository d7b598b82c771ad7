from __future__ import annotations

import copy
import inspect
import signal
import subprocess
import sys
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import nn

from fedonce import NCF, Guest, InputError
from fedonce.data.preparation import Public
from fedonce.learners import NAT, PCA, Autoencoder, Learner, NetworkLearner
from fedonce.privacy.budget import Purse, calibrate
from fedonce.privacy.noise import SecretRandom
from fedonce.training.checkpoints import Progress
from fedonce.training.losses import SquaredDistance
from fedonce.training.problem import Problem
from fedonce.training.randomness import torch_seeded
from fedonce.training.settings import Training
from fedonce.training.trainer import trainer

EPOCHS = 4
CPU = torch.device("cpu")


class StopError(Exception):
    """Stands for a kill: what is on disk then is what a kill leaves."""


def table(n=150, width=6):
    return np.random.default_rng(0).standard_normal((n, width))


def stop_after(epoch):
    def tell(done, epochs, stage):
        if done == epoch:
            raise StopError

    return tell


def kept(tmp_path, tell=None, **settings):
    return Progress(tell, tmp_path / "state", **{"fingerprint": "mine", "every": 0.0, **settings})


def files(tmp_path):
    return sorted(path.name for path in (tmp_path / "state").iterdir())


def own_network(*layers):
    """Initial weights of a user's module are the user's, so they are the same in every process only by a seed."""
    with torch_seeded(np.random.default_rng(1)):
        return nn.Sequential(*[layer() for layer in layers])


def autograd_network(dim=2):
    return own_network(
        lambda: nn.Linear(6, 8), lambda: nn.BatchNorm1d(8), nn.GELU, lambda: nn.Dropout(0.3), lambda: nn.Linear(8, dim)
    )


def frozen_network():
    network = own_network(lambda: nn.Linear(6, 8), nn.ReLU, lambda: nn.Linear(8, 2))
    network[0].requires_grad_(False)
    return network


def images(learner):
    return Guest("shop", learner, dim=2, bits=32, shape=(1, 8, 8)), table(40, 64)


GUESTS = {
    "nat": lambda: (Guest("shop", NAT(epochs=EPOCHS, batch=32), dim=2, bits=32), table()),
    "nat, every second epoch": lambda: (Guest("shop", NAT(epochs=EPOCHS, update_every=2), dim=2, bits=32), table()),
    "nat by adamw": lambda: (Guest("shop", NAT(epochs=EPOCHS, optimizer="adamw"), dim=2, bits=32), table()),
    "nat by sgd": lambda: (Guest("shop", NAT(epochs=EPOCHS, optimizer="sgd"), dim=2, bits=32), table()),
    "nat by autograd": lambda: (
        Guest("shop", NAT(epochs=EPOCHS, batch=32, network=autograd_network()), dim=2, bits=32),
        table(),
    ),
    "nat by autograd and sgd": lambda: (
        Guest("shop", NAT(epochs=EPOCHS, optimizer="sgd", network=autograd_network()), dim=2, bits=32),
        table(),
    ),
    "nat, a frozen layer": lambda: (
        Guest("shop", NAT(epochs=EPOCHS, network=frozen_network()), dim=2, bits=32),
        table(),
    ),
    "nat of codes": lambda: (
        Guest("shop", NAT(epochs=EPOCHS, network=NCF((3, 0), (8,), 0.2)), dim=2, bits=32),
        np.column_stack([np.arange(60) % 5, table(60, 1)]),
    ),
    "nat of images": lambda: images(NAT(epochs=EPOCHS)),
    "autoencoder": lambda: (Guest("shop", Autoencoder(epochs=EPOCHS, batch=32), dim=2, bits=32), table()),
    "autoencoder by autograd": lambda: (
        Guest("shop", Autoencoder(epochs=EPOCHS, batch=32, network=autograd_network()), dim=2, bits=32),
        table(),
    ),
    "autoencoder of images": lambda: images(Autoencoder(epochs=EPOCHS)),
    "autoencoder of images, channels last": lambda: images(Autoencoder(epochs=EPOCHS, network="cnn3")),
    "auto": lambda: (Guest("shop", "auto", dim=2, bits=32, epochs=EPOCHS), table()),
}


def interrupt(tmp_path, name="nat", epoch=2, **settings):
    guest, rows = GUESTS[name]()
    with pytest.raises(StopError):
        guest.learn(rows, progress=kept(tmp_path, stop_after(epoch), **settings))


def resume(tmp_path, name="nat", **settings):
    told = []
    guest, rows = GUESTS[name]()
    progress = kept(tmp_path, lambda *line: told.append(line), **settings)
    return guest.learn(rows, progress=progress).to_bytes(), told, guest


def plain(name="nat"):
    guest, rows = GUESTS[name]()
    return guest.learn(rows).to_bytes(), guest


@pytest.mark.parametrize("name", GUESTS)
def test_an_interrupted_learning_goes_on_to_the_same_bits(tmp_path, name):
    expected, whole = plain(name)
    for epoch in range(1, EPOCHS + 1):
        interrupt(tmp_path, name, epoch)
        torch.manual_seed(epoch)  # the new process's own generators are somewhere else
        message, told, guest = resume(tmp_path, name)
        assert message == expected
        assert [line[0] for line in told] == list(range(epoch + 1, EPOCHS + 1))
        assert guest.history == whole.history
        assert files(tmp_path) == []


def test_double_precision(tmp_path, float64):
    interrupt(tmp_path)
    assert resume(tmp_path)[0] == plain()[0]


def test_interrupted_again_and_again(tmp_path):
    for epoch in range(1, EPOCHS + 1):
        interrupt(tmp_path, epoch=epoch)
    message, told, _ = resume(tmp_path)
    assert (message, told) == (plain()[0], [])


def test_what_is_told(tmp_path):
    told = []
    guest, rows = GUESTS["auto"]()
    message = guest.learn(rows, progress=Progress(lambda *line: told.append(line)))
    assert told == [(epoch, EPOCHS, "autoencoder") for epoch in range(1, EPOCHS + 1)]
    assert message.to_bytes() == plain("auto")[0]
    guest.learn(rows)
    assert len(told) == EPOCHS  # the learner has not remembered whom it told


def test_a_state_is_for_its_owner_s_eyes_and_holds_no_table(tmp_path):
    interrupt(tmp_path)
    (path,) = (tmp_path / "state").iterdir()
    assert path.stat().st_mode & 0o077 == 0
    with safe_open(path, framework="numpy") as file:
        assert set(file.metadata()) == {"fingerprint", "start", "content", "checksum"}
        shapes = [file.get_tensor(name).shape for name in file.keys()]  # noqa: SIM118
    assert (150, 6) not in shapes


def test_states_are_written_seldom(tmp_path):
    interrupt(tmp_path, every=100.0)
    assert not (tmp_path / "state").exists()
    message, told, _ = resume(tmp_path)
    assert (message, len(told)) == (plain()[0], EPOCHS)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: data.replace(b"mine", b"mime"),
        lambda data: b"\xff" * len(data),
        lambda data: (2).to_bytes(8, "little") + b"{}",
    ],
    ids=["empty", "cut", "one bit", "header", "noise", "no header"],
)
def test_a_damaged_state_is_not_used(tmp_path, damage, caplog):
    interrupt(tmp_path)
    (path,) = (tmp_path / "state").iterdir()
    path.write_bytes(damage(path.read_bytes()))
    message, told, _ = resume(tmp_path)
    assert (message, len(told)) == (plain()[0], EPOCHS)
    assert "the learning starts over" in caplog.text
    assert files(tmp_path) == []


def test_another_learning_s_state_is_not_used(tmp_path, caplog):
    interrupt(tmp_path)
    message, told, _ = resume(tmp_path, fingerprint="of another table")
    assert (message, len(told)) == (plain()[0], EPOCHS)
    assert "its fingerprint differs" in caplog.text


def test_a_training_that_began_otherwise_is_not_used_in_spite_of_its_fingerprint(tmp_path, caplog):
    guest, rows = Guest("shop", NAT(epochs=EPOCHS, batch=32), dim=2, bits=32, random_state=7), table()
    with pytest.raises(StopError):
        guest.learn(rows, progress=kept(tmp_path, stop_after(2)))
    message, told, _ = resume(tmp_path)
    assert (message, len(told)) == (plain()[0], EPOCHS)
    assert "its start differs" in caplog.text


@pytest.mark.parametrize("obstacle", ["a folder in the file's place", "a file in the folder's place"])
def test_what_cannot_be_written_is_said_once_and_the_learning_goes_on(tmp_path, caplog, obstacle):
    if obstacle.startswith("a folder"):
        (tmp_path / "state" / "training-1.safetensors").mkdir(parents=True)
    else:
        (tmp_path / "state").write_text("")
    assert resume(tmp_path)[0] == plain()[0]
    assert caplog.text.count("the learning goes on") == 1


def test_a_full_disk_is_said_once_and_the_learning_goes_on(tmp_path, caplog, monkeypatch):
    from fedonce.system import disk

    def full(descriptor):
        raise OSError(28, "No space left on device")

    interrupt(tmp_path, epoch=1)
    monkeypatch.setattr(disk.os, "fsync", full)
    interrupt(tmp_path, epoch=3)
    assert caplog.text.count("No space left on device") == 1
    monkeypatch.undo()
    message, told, _ = resume(tmp_path)
    assert (message, len(told)) == (plain()[0], EPOCHS - 1)  # what was kept before the disk was full is whole


def test_a_state_that_cannot_be_removed_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(Progress, "is_due", lambda self: True)
    guest, rows = GUESTS["nat"]()
    progress = kept(
        tmp_path, lambda *line: (tmp_path / "state").rename(tmp_path / "elsewhere") if line[0] == 4 else None
    )
    assert guest.learn(rows, progress=progress).to_bytes() == plain()[0]


def test_other_files_of_the_folder_stay_and_those_of_a_killed_writing_go(tmp_path):
    interrupt(tmp_path)
    for name in ("notes.txt", ".training-1.safetensors.ab12_xyz"):
        (tmp_path / "state" / name).write_text("")
    resume(tmp_path)
    assert files(tmp_path) == ["notes.txt"]


def test_a_failed_learning_keeps_its_state(tmp_path):
    interrupt(tmp_path)
    assert files(tmp_path) == ["training-1.safetensors"]


@pytest.mark.parametrize("settings", [{"folder": "x"}, {"every": -1.0}, {"every": float("nan")}])
def test_wrong_settings(settings):
    with pytest.raises(InputError, match="'fingerprint'|'every'"):
        Progress(**settings)


@dataclass(frozen=True)
class Unknowing(Learner):
    """A user's learner that knows nothing of progress, and cannot even be given an attribute."""

    name = "unknowing"
    memory: dict = field(default_factory=dict)

    def fit(self, rows, dim, rng, device):
        self.memory["weights"] = rng.standard_normal((rows.shape[1], dim)).astype(np.float32)
        return []

    def transform(self, rows, device):
        return (rows[:, :, None] * self.memory["weights"]).sum(axis=1)

    def state(self):
        return self.memory

    def restore(self, tensors):
        self.memory.update(tensors)


@pytest.mark.parametrize("learner", [PCA, Unknowing])
def test_learners_without_epochs(tmp_path, learner):
    told = []
    expected = Guest("shop", learner(), dim=2).learn(table()).to_bytes()
    progress = kept(tmp_path, lambda *line: told.append(line))
    assert Guest("shop", learner(), dim=2).learn(table(), progress=progress).to_bytes() == expected
    assert told == []
    assert list(inspect.signature(Learner.fit).parameters) == ["self", "rows", "dim", "rng", "device"]


@dataclass(eq=False)
class Own(NetworkLearner):
    """A user's learner that states a loss, of two trainings."""

    name = "own"

    def fit(self, rows, dim, rng, device, progress=None):
        with self.encoder_to_train(rows, dim, rng, device) as network:
            data = torch.from_numpy(rows)
            problem = Problem(network, [data], torch.zeros(len(rows), dim), SquaredDistance(), stage=self.name)
            trainings = [Training(epochs, 32, 0.01) for epochs in (2, 3)]
            return [line for each in trainings for line in trainer(problem, each, rng, progress=progress).run()]


@dataclass(eq=False)
class Silent(Own):
    """The same, by one who does not know of progress."""

    def fit(self, rows, dim, rng, device):
        return super().fit(rows, dim, rng, device)


def test_a_user_s_learner_of_two_trainings(tmp_path):
    expected = Guest("shop", Own(), dim=2, bits=32).learn(table()).to_bytes()

    def tell(epoch, epochs, stage):
        if (epoch, epochs) == (2, 3):
            raise StopError

    with pytest.raises(StopError):
        Guest("shop", Own(), dim=2, bits=32).learn(table(), progress=kept(tmp_path, tell))
    assert files(tmp_path) == ["training-1.safetensors", "training-2.safetensors"]
    told = []
    progress = kept(tmp_path, lambda *line: told.append(line))
    assert Guest("shop", Own(), dim=2, bits=32).learn(table(), progress=progress).to_bytes() == expected
    assert told == [(3, 3, "own")]


def test_a_learner_that_does_not_take_progress_is_not_handed_it(tmp_path):
    told, expected = [], Guest("shop", Own(), dim=2).learn(table())
    progress = kept(tmp_path, lambda *line: told.append(line))
    guest = Guest("shop", Silent(), dim=2)
    np.testing.assert_array_equal(guest.learn(table(), progress=progress).values, expected.values)
    assert (told, len(guest.history)) == ([], 5)


def test_the_learner_is_not_changed_and_others_are_not_told():
    told, learner = [], NAT(epochs=1)
    rows, before = table().astype(np.float32), dict(vars(learner))
    with Progress(lambda *line: told.append(line)) as progress:
        copy.deepcopy(learner).fit(rows, 2, np.random.default_rng(0), CPU)
        assert told == []  # what is told is handed over, never found
        copy.deepcopy(learner).fit(rows, 2, np.random.default_rng(0), CPU, progress)
        assert told == [(1, 1, "nat")]
        assert vars(learner) == before


def private_guest():
    learner = Autoencoder(epochs=3, private_batch=50)
    tasks = [replace(task, party="shop") for task in learner.private_tasks(200, 1.0)]
    plan = calibrate(tasks, 2.0, 1e-5, "rdp")
    purse = Purse("shop", plan.of("shop"), plan.ledger(), SecretRandom(insecure_test_seed=0))
    return Guest("shop", learner, dim=2, purse=purse, public=Public((-9, 9)))


def test_a_private_learning_is_not_kept_starts_anew_and_counts_its_steps_once(tmp_path):
    told, whole, stopped, again = [], private_guest(), private_guest(), private_guest()
    message = whole.learn(table(200))
    with pytest.raises(StopError):
        stopped.learn(table(200), progress=kept(tmp_path, stop_after(2)))
    assert not (tmp_path / "state").exists()  # nothing of the steps outlives the process, so nothing was released
    progress = kept(tmp_path, lambda *line: told.append(line))
    assert again.learn(table(200), progress=progress).spent == message.spent
    assert told == [(epoch, 3, "autoencoder") for epoch in (1, 2, 3)]
    assert again.purse.ledger.epsilon() == whole.purse.ledger.epsilon()
    assert again.history == []


SCRIPT = """
import sys
import time
import numpy as np
import torch
from fedonce import Guest
from fedonce.learners import LEARNERS
from fedonce.training.checkpoints import Progress

def tell(epoch, epochs, stage):
    print(epoch, flush=True)
    time.sleep(float(pause))

torch.set_num_threads(1)
learner, folder, pause = sys.argv[1:]
guest = Guest("shop", LEARNERS[learner](epochs=12, batch=16), dim=3)
rows = np.random.default_rng(0).standard_normal((2000, 6))
message = guest.learn(rows, progress=Progress(tell, folder + "/state", "mine", 0.0))
with open(folder + "/message", "wb") as file:
    file.write(message.to_bytes())
"""


def start(learner, folder, pause=0.0):
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-c", SCRIPT, learner, str(folder), str(pause)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("learner", ["nat", "autoencoder"])
def test_a_killed_process_is_continued_by_another(tmp_path, learner):
    with start(learner, tmp_path / "whole") as whole, start(learner, tmp_path / "killed", pause=0.2) as killed:
        lines = [next(killed.stdout) for _ in range(4)]  # the pause leaves time to kill it before it is done
        killed.send_signal(signal.SIGKILL)
        lines += list(killed.stdout)
        assert len(list(whole.stdout)) == 12
    assert (whole.returncode, killed.returncode) == (0, -signal.SIGKILL)
    assert not (tmp_path / "killed" / "message").exists()
    with start(learner, tmp_path / "killed") as second:
        again = [int(line) for line in second.stdout]
    assert second.returncode == 0
    first = int(lines[-1])  # the kill came before or after the next epoch was kept
    assert again in (list(range(first + 1, 13)), list(range(first + 2, 13)))
    assert (tmp_path / "killed" / "message").read_bytes() == (tmp_path / "whole" / "message").read_bytes()
    assert list((tmp_path / "killed" / "state").iterdir()) == []


def test_trainings_without_a_progress_of_their_own_are_told_within_a_block():
    from fedonce.training.checkpoints import listener, told

    heard = []
    rng = np.random.default_rng(0)
    rows = torch.from_numpy(rng.normal(size=(40, 3)).astype(np.float32))

    def train():
        with torch_seeded(np.random.default_rng(2)):
            network = torch.nn.Sequential(torch.nn.Linear(3, 2))
        problem = Problem(network, [rows], rows[:, :2], SquaredDistance(), "me", "stage")
        return trainer(problem, Training(3, 16, 1e-3), np.random.default_rng(1)).run()

    before = train()
    with told(lambda *epoch: heard.append(epoch)):
        assert train() == before  # being told changes nothing
    train()
    assert heard == [(1, 3, "stage"), (2, 3, "stage"), (3, 3, "stage")]
    assert listener() is None
