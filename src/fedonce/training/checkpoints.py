"""How far a learning is: told after every epoch, and kept on disk, so that one that was killed goes on where it was.

What is kept is all that the epochs to come depend on, so that the message is the same to the last bit. It stays on the
party's own disk, readable by its owner alone, and is removed when the learning is finished.

A training with a privacy budget is told and not kept; killed, it starts over. That is sound: its noisy steps were seen by
nobody, as neither a message nor a file left the process, so nothing was released, and its ledger, which counted them, went with
it. The new process counts its own steps, each once.
"""

from __future__ import annotations

import json
import logging
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as save_tensors
from torch import nn

from fedonce.errors import InputError, parameter_error
from fedonce.messages.envelope import checksum
from fedonce.system.disk import make_folder, write_file

if TYPE_CHECKING:
    from fedonce.training.settings import Epoch, Training

logger = logging.getLogger(__name__)

KIND = "training"  # of a kept file, in its checksum
_OURS = re.compile(
    r"training-\d+\.safetensors|\.training-\d+\.safetensors\.\w{8}(\.part)?"
)  # the latter: of a killed writing
Tensors = dict[str, NDArray[Any]]
Tell = Callable[[int, int, str], None]
_listener: ContextVar[Tell | None] = ContextVar("who is told of epochs", default=None)


@contextmanager
def told(tell: Tell) -> Iterator[None]:
    """Tell of the epochs of all trainings within that are handed no `Progress`: those of host models, ours and others'."""
    token = _listener.set(tell)
    try:
        yield
    finally:
        _listener.reset(token)


def listener() -> Tell | None:
    """Return who is told of epochs here; None: nobody."""
    return _listener.get()


@dataclass(eq=False)
class Progress:
    """Whom to tell how far a learning is, and where to keep it.

    One learning is within `with progress:`, and each of its trainings is handed it.

    Parameters
    ----------
    tell : callable, optional
        Called after every epoch with its number from 1, the number of epochs, and the stage: the learner's name. Nothing
        else, and no figure of the data. What it raises ends the learning.
    folder : path, optional
        Where the state is kept, for this one learning of this one party. None: it is not kept.
    fingerprint : str
        What the state belongs to: settings, a digest of the table, fedonce's version. Another one's state is not used.
    every : float
        Seconds between two writings at least; 0: after every epoch.
    forgets : bool
        Whether what was kept is removed when the learning is done. False: the caller does it (`forget`), once the message is
        safe.
    """

    tell: Tell | None = None
    folder: str | Path | None = None
    fingerprint: str = ""
    every: float = 5.0
    forgets: bool = True
    _trainings: int = field(default=0, init=False, repr=False)  # begun in this learning: a learner may have several
    _written: float = field(default=0.0, init=False, repr=False)
    _warned: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.folder is not None and not self.fingerprint:
            wanted = "a text that says what a kept state belongs to (settings, digest of the table, version)"
            raise parameter_error("Progress", "fingerprint", wanted, self.fingerprint)
        if not 0 <= self.every < math.inf:
            raise parameter_error("Progress", "every", "a number of seconds, 0 or more", self.every)

    def __enter__(self) -> Self:
        """Begin a learning: its first training comes next."""
        self._trainings, self._written, self._warned = 0, time.monotonic(), False
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End it: unless it failed, what was kept is removed."""
        if kind is None and self.forgets:
            self.forget()

    def next_file(self) -> Path | None:
        """Return where the next training of the learning is kept."""
        self._trainings += 1
        return None if self.folder is None else Path(self.folder) / f"training-{self._trainings}.safetensors"

    def is_due(self) -> bool:
        """Tell whether it is time to write again."""
        return time.monotonic() - self._written >= self.every

    def write(self, path: Path, make: Callable[[], bytes]) -> None:
        """Write a state. Where that fails the learning goes on: it is worth more than a copy of it."""
        try:
            make_folder(path.parent)
            write_file(path, make(), private=True)
        except (InputError, SafetensorError, TypeError) as error:
            if not self._warned:
                logger.warning("the learning goes on, but it is not kept and would start over after a kill: %s", error)
            self._warned = True
        self._written = time.monotonic()

    def forget(self) -> None:
        """Remove what was kept."""
        # What is left over does no harm: it belongs to a learning that is known by its fingerprint.
        with suppress(OSError):
            for path in [] if self.folder is None else list(Path(self.folder).iterdir()):
                if _OURS.fullmatch(path.name):
                    path.unlink()


@dataclass(frozen=True)
class Memory:
    """What a training changes beside the generators and the memory of its update: modules, and arrays of its step."""

    modules: Mapping[str, nn.Module]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return parameters, buffers and arrays as they are now, on the memory that they live in."""
        named = [
            (f"{part}.{name}", value.detach())
            for part, module in self.modules.items()
            for name, value in [*module.named_parameters(), *module.named_buffers()]
        ]
        return dict(named) | {name: torch.from_numpy(array) for name, array in self.arrays.items()}


class Remembers(Protocol):
    """An update that can say what it remembers between steps, and take it back."""

    def __call__(self, rate: float) -> None:
        """Change the parameters by their gradients."""

    def state(self) -> Tensors:
        """Return what it remembers."""

    def restore(self, tensors: Tensors) -> None:
        """Take it back."""


class Watch:
    """One training under the eyes of a `Progress`; without `memory` it is told and not kept."""

    def __init__(
        self,
        progress: Progress,
        stage: str,
        training: Training,
        rng: np.random.Generator,
        update: Remembers,
        memory: Memory | None,
    ) -> None:
        self.progress, self.stage, self.training, self.rng = progress, stage, training, rng
        self.path: Path | None = None
        if memory is not None and (path := progress.next_file()) is not None:
            self.path, self.memory = path, memory
            self.update = update
            # A state is of this very training where both began alike, weights, generators and all.
            start = checksum(KIND, {"training": repr(training), "rng": self._rng()}, self._tensors())
            self.header = {"fingerprint": progress.fingerprint, "start": start}

    def resume(self) -> list[Epoch]:
        """Bring the training to where its kept state was, and return the history until then; nothing where there is none."""
        if self.path is None:
            return []
        try:
            content, tensors = _read(self.path, self.header)
        except FileNotFoundError:
            return []
        except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
            logger.warning("the state in %s is not used (%s); the learning starts over", self.path, error)
            return []
        history: list[Epoch] = content["history"]
        self._restore(content["rng"], tensors)
        logger.info("%s goes on after epoch %d of %d", self.stage, len(history), self.training.epochs)
        return history

    def done(self, history: list[Epoch]) -> None:
        """Take notice of an epoch that is done."""
        if self.path is not None and self.progress.is_due():
            self.progress.write(self.path, lambda: self._bytes(history))
        if self.progress.tell is not None:
            self.progress.tell(len(history), self.training.epochs, self.stage)

    def _rng(self) -> str:
        return json.dumps(self.rng.bit_generator.state)

    def _tensors(self) -> Tensors:
        """Return all that the training depends on, but for numpy's generator."""
        found = {f"memory.{name}": value.cpu().numpy() for name, value in self.memory.tensors().items()}
        found |= {f"update.{name}": value for name, value in self.update.state().items()}
        found |= {f"random.{place}": state.numpy() for place, state in _torch_random().items()}
        # safetensors writes memory as it lies
        return {name: np.asarray(value, order="C") for name, value in found.items()}

    def _restore(self, rng: dict[str, Any], tensors: Tensors) -> None:
        with torch.no_grad():
            for name, value in self.memory.tensors().items():
                value.copy_(torch.from_numpy(tensors[f"memory.{name}"]))
        self.update.restore(_part(tensors, "update."))
        for place, state in _part(tensors, "random.").items():
            if place == "cpu":
                torch.set_rng_state(torch.from_numpy(state))
            else:
                torch.cuda.set_rng_state(torch.from_numpy(state), int(place))
        self.rng.bit_generator.state = rng

    def _bytes(self, history: list[Epoch]) -> bytes:
        tensors = self._tensors()
        content = json.dumps({"history": history, "rng": self.rng.bit_generator.state})
        header = {**self.header, "content": content}
        return bytes(save_tensors(tensors, metadata={**header, "checksum": checksum(KIND, header, tensors)}))


def _read(path: Path, expected: Mapping[str, str]) -> tuple[dict[str, Any], Tensors]:
    """Read a state that is whole and has the expected entries in its header."""
    with safe_open(path, framework="numpy") as file:
        header = dict(file.metadata() or {})
        tensors = {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118 - it is no dict
    if header.pop("checksum", "") != checksum(KIND, header, tensors):
        raise ValueError("it is damaged")
    for name, value in expected.items():
        if header[name] != value:
            raise ValueError(f"it is of another learning: its {name} differs")
    return json.loads(header["content"]), tensors


def _part(tensors: Tensors, prefix: str) -> Tensors:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _torch_random() -> dict[str, torch.Tensor]:
    """Return the states of torch's generators, of which dropout draws, by their device."""
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"cpu": torch.get_rng_state()} | {str(number): state for number, state in enumerate(devices)}
