"""Models as ONNX files, for systems without Python: a guest's encoder, a host's model; each checked against the original.

Columns are prepared (scaled, encoded) before, and values rounded to bits after; neither is in the file.
"""

from __future__ import annotations

import copy
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedonce import __version__
from fedonce.errors import InputError
from fedonce.party import Guest, Host
from fedonce.system.disk import write_file
from fedonce.system.extras import require
from fedonce.training.loop import Rows

LARGEST_DIFFERENCE = 1e-3  # of the outputs' scale
CHECKED_ROWS = (1, 7, 64)
ROWS = "n"  # the name of the number of rows
CODES = 50  # of a column with an embedding, when rows are made up; codes beyond those learnt count as unseen

Shape = tuple[int | str, ...]
Arrays = dict[str, Rows]


@dataclass(frozen=True)
class Exported:
    """A file that was written: its inputs and outputs with their shapes, and how far it is from the original.

    `difference` is the largest on made-up rows, as a part of the outputs' scale.
    """

    path: Path
    inputs: dict[str, Shape]
    outputs: dict[str, Shape]
    difference: float


@dataclass(frozen=True)
class _Model:
    """What is to be exported, and what it must agree with."""

    party: str
    what: str  # for errors
    module: nn.Module
    widths: dict[str, tuple[int, ...]]  # of the inputs, without the rows
    embeddings: tuple[int, ...]
    output: str
    document: str
    original: Callable[[Arrays], NDArray[Any]]
    scale: float | None = None  # of the outputs, where it is known

    def made_up(self, n_rows: int, rng: np.random.Generator) -> Arrays:
        """Draw inputs: numbers, codes where a column has an embedding, marks of 0 and 1."""
        made = {name: rng.standard_normal((n_rows, *width)).astype(np.float32) for name, width in self.widths.items()}
        own = made[next(iter(made))]
        for column, width in enumerate(self.embeddings):
            if width:
                own[:, column] = rng.integers(0, CODES, n_rows)
        if "present" in made:
            made["present"] = rng.integers(0, 2, made["present"].shape).astype(np.float32)
        return made


def export_guest(guest: Guest, path: str | Path) -> Exported:
    """Write a guest's encoder: `rows`, as the guest prepares them, to `values`, as they are before they are rounded.

    Noise of a guest that blurs its values is not in the file.
    """
    if guest.codec is None:
        raise InputError(f"Party {guest.name!r} has not learnt yet; call learn first.")
    tuned = guest.fine_tuning
    added = None if tuned is None else tuned.network
    alone = added is not None and tuned is not None and tuned.alone
    learner = None if alone else guest.learner.module()
    bound = np.inf if alone or guest.purse is None else guest.bound
    shape = guest.preparation.row_shape
    noise = " The guest blurs values with noise before it sends them: that is not in this model." if guest.noise else ""
    document = (
        f"Encoder of guest {guest.name}, learnt by {guest.learner_name}. Input 'rows': float32, prepared columns, shape "
        f"{_shown(shape)}. Output 'values': the representation before it is rounded to {guest.bits} bits.{noise}"
    )
    what = f"the learner {guest.learner_name!r} of party {guest.name!r}"
    return _export(
        _Model(
            guest.name,
            what,
            _GuestModule(learner, added, bound),
            {"rows": shape},
            guest.preparation.embeddings,
            "values",
            document,
            lambda made: guest.values(made["rows"]),
        ),
        path,
    )


def export_host(host: Host, path: str | Path) -> Exported:
    """Write a host's model: `own` (prepared), `values` and `present` to `probabilities` a class, or to `numbers`.

    A host without guests has the input `own` alone.
    """
    if host.model is None:
        raise InputError(f"The host {host.name!r} has not been trained yet; call aggregate first.")
    model, shape = host.model.module(), host.preparation.row_shape
    widths: dict[str, tuple[int, ...]] = {"own": shape}
    if host.dims:
        widths |= {"values": (sum(host.dims.values()),), "present": (len(host.dims),)}

    def original(made: Arrays) -> NDArray[Any]:
        nothing = np.zeros((len(made["own"]), 0), np.float32)
        return host.outputs_of(made["own"], made.get("values", nothing), made.get("present", nothing))

    output = "numbers" if host.classes is None else "probabilities"
    module = _HostModule(model, None if host.classes is not None else _Numbers(host), host.temperature)
    scale = host.spread if host.classes is None else 1.0
    what = f"the model of host {host.name!r}"
    return _export(
        _Model(host.name, what, module, widths, host.preparation.embeddings, output, _about(host), original, scale),
        path,
    )


def _about(host: Host) -> str:
    guests = ", ".join(f"{name} ({dim})" for name, dim in host.dims.items())
    told = (
        f" Input 'values': float32, what guests sent, side by side: {guests}; zeros where a guest is absent. Input 'present': "
        "float32, 1 or 0 per guest."
        if guests
        else ""
    )
    given = (
        "numbers on the scale of the labels" if host.classes is None else f"probabilities of {host.classes.tolist()}"
    )
    return (
        f"Model of host {host.name}. Input 'own': float32, prepared columns, shape {_shown(host.preparation.row_shape)}.{told} "
        f"Output: {given}."
    )


def _shown(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, (ROWS, *shape)))})"


class _GuestModule(nn.Module):
    """As `Guest.values`: the learner, what rounds added to it, or that alone; with a budget, within its bound."""

    def __init__(self, learner: nn.Module | None, added: nn.Module | None, bound: float) -> None:
        super().__init__()
        self.learner, self.added, self.bound = learner, added, bound

    def forward(self, rows: Tensor) -> Tensor:
        parts = [part(rows) for part in (self.learner, self.added) if part is not None]
        values: Tensor = parts[0] if len(parts) == 1 else parts[0] + parts[1]
        return values if self.bound == np.inf else values.clamp(-self.bound, self.bound)


class _Numbers(nn.Module):
    """Back to the label's scale, in float64: labels may be large numbers close together."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self.bounded, self.spread, self.offset = host.labels is not None, host.spread, host.offset

    def forward(self, raw: Tensor) -> Tensor:
        inside = raw[:, 0].clamp(-1, 1) if self.bounded else raw[:, 0]
        # As tensors: plain numbers become float32 in the file.
        spread, offset = (torch.tensor(number, dtype=torch.float64) for number in (self.spread, self.offset))
        return inside.double() * spread + offset


class _HostModule(nn.Module):
    """The host's model, and its outputs as people read them."""

    def __init__(self, model: nn.Module, numbers: nn.Module | None, temperature: float) -> None:
        super().__init__()
        self.model, self.numbers, self.temperature = model, numbers, temperature

    def forward(self, own: Tensor, values: Tensor | None = None, present: Tensor | None = None) -> Tensor:
        nothing = own.new_zeros(own.shape[0], 0)
        raw: Tensor = self.model(own, nothing if values is None else values, nothing if present is None else present)
        return (raw / self.temperature).softmax(dim=1) if self.numbers is None else self.numbers(raw)


def _export(model: _Model, path: str | Path) -> Exported:
    """Make the file, check it, and only then write it."""
    _check_installed()
    data = _converted(model)
    inputs, outputs, difference = _compared(model, data)
    if not difference <= LARGEST_DIFFERENCE:  # NaN is a difference, too
        raise InputError(
            f"Exported as ONNX, {model.what} gives other outputs than the original (by {difference:.2g} of their scale, where "
            f"{LARGEST_DIFFERENCE:g} is allowed); {path} was not written. Use the model in Python."
        )
    return Exported(write_file(path, data), inputs, outputs, difference)


def _check_installed() -> None:
    for package in ("onnx", "onnxruntime", "onnxscript"):
        require("ONNX files need", "onnx", package)


def _converted(model: _Model) -> bytes:
    """Return the model as the bytes of an ONNX file, in float32."""
    module = copy.deepcopy(model.module).to("cpu", torch.float32).eval()
    example = tuple(torch.from_numpy(array) for array in model.made_up(3, np.random.default_rng(0)).values())
    rows = torch.export.Dim(ROWS)
    try:
        with _silence(), torch.no_grad():
            program = torch.onnx.export(
                module,
                example,
                dynamo=True,
                input_names=list(model.widths),
                output_names=[model.output],
                dynamic_shapes=tuple({0: rows} for _ in example),
                verbose=False,
            )
    except Exception as error:  # torch has many kinds, for operations that it cannot convert
        raise InputError(
            f"{model.what[0].upper()}{model.what[1:]} cannot be exported as ONNX: torch cannot convert an operation of it "
            f"({type(error).__name__}). Use the model in Python."
        ) from error
    assert program is not None
    proto: Any = program.model_proto
    proto.producer_name, proto.producer_version = "fedonce", __version__
    proto.doc_string = model.document
    for part in (
        proto,
        proto.graph,
        *proto.functions,
        *proto.graph.node,
        *(n for f in proto.functions for n in f.node),
    ):
        part.ClearField("metadata_props")  # torch writes paths and code of this machine there
    for part in (*proto.graph.value_info, *proto.graph.input, *proto.graph.output, *proto.graph.initializer):
        part.ClearField("metadata_props")
    proto.metadata_props.add(key="party", value=model.party)
    return bytes(proto.SerializeToString())


@contextmanager
def _silence() -> Iterator[None]:
    """Keep what torch says while it converts off the terminal."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


def _compared(model: _Model, data: bytes) -> tuple[dict[str, Shape], dict[str, Shape], float]:
    """Run the file on made-up rows, several numbers of them; return its inputs and outputs, and the largest difference."""
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        rng, difference = np.random.default_rng(1), 0.0
        for n_rows in CHECKED_ROWS:
            made = model.made_up(n_rows, rng)
            wanted, given = model.original(made), session.run(None, made)[0]
            scale = model.scale or float(np.abs(wanted).max()) or 1.0
            apart = np.abs(given - wanted).max() / scale if given.shape == wanted.shape else np.inf
            difference = float(np.maximum(difference, apart))  # of NaN, unlike max(), NaN
    except (RuntimeError, ValueError, TypeError) as error:  # onnxruntime's own are RuntimeErrors or of these kinds
        raise InputError(f"Exported as ONNX, {model.what} does not run: {error}. Use the model in Python.") from error
    sides = [{each.name: tuple(each.shape) for each in side} for side in (session.get_inputs(), session.get_outputs())]
    return sides[0], sides[1], difference
