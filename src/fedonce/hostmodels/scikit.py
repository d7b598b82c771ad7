"""Any classifier or regressor of scikit-learn's kind as a host's model."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from fedonce.errors import InputError, parameter_error
from fedonce.hostmodels.base import Examples, HostModel, Inputs, Tensors
from fedonce.hostmodels.names import Facts
from fedonce.hostmodels.onetable import repeated, with_gaps, with_marks
from fedonce.system.extras import require
from fedonce.training.loop import Rows
from fedonce.training.settings import Epoch

EXAMPLE = "a classifier or regressor object of scikit-learn, as model=HistGradientBoostingClassifier()"
LEAST = 1e-12  # probability that counts as none
MOST_SETTINGS = 2**20  # bytes of an estimator that has not been trained
# Their predictions are compiled code that takes the arrays of a model as they are; trees skops does not trust itself.
COMPILED = ("sklearn.svm", "sklearn.neighbors")
_trusted: set[str] = set()


def trust(*types: str) -> None:
    """Allow types by name in models that are loaded from disk, beside those that skops trusts; until the program ends.

    A type is named in full, as in the error that refuses it. Trust only types of which you know that loading one cannot do
    harm, and only for files from people whom you trust.

    Parameters
    ----------
    *types : str
        Names of types, in full.
    """
    _trusted.update(types)


@dataclass(eq=False)
class ScikitModel(HostModel):
    """A scikit-learn estimator on own columns and guests' values.

    Where a guest does not have a row, its values are NaN if the estimator takes NaN; else they are zeros, and a mark per guest
    is a column more.

    Parameters
    ----------
    estimator : object
        The classifier or regressor; it is cloned, and a copy is trained. A `random_state` of None is set from the host's.
    repeated : float
        Share of the rows that are there once more with guests left out, so that it copes with absent ones.
    """

    name: ClassVar[str] = "scikit"
    facts: ClassVar[Facts] = Facts()
    estimator: Any = None
    repeated: float = 0.25
    fitted_: Any = field(default=None, init=False, repr=False)
    inputs_: Inputs | None = field(default=None, init=False, repr=False)

    def check(self, owner: str) -> None:
        """Raise where it is no estimator, or neither a classifier nor a regressor."""
        if not is_estimator(self.estimator) or not (is_classifier(self.estimator) or is_regressor(self.estimator)):
            raise parameter_error(owner, "model", EXAMPLE, self.estimator)
        if type(self.repeated) not in (int, float) or not 0 <= self.repeated <= 1:
            raise parameter_error(f"ScikitModel of {owner}", "repeated", "a number from 0 to 1", self.repeated)

    def must(self, fact: str, lacks: str) -> None:
        """Raise where a fact is not so of this estimator."""
        able = {"classes": is_classifier, "numbers": is_regressor}.get(fact)
        if able is not None and self.estimator is not None and not able(self.estimator):
            other = "classifier" if fact == "classes" else "regressor"
            raise InputError(f"The host model {type(self.estimator).__name__} {lacks}; take a {other}.")
        super().must(fact, lacks)

    def fit(
        self, examples: Examples, dims: Sequence[int], n_outputs: int, rng: np.random.Generator, device: torch.device
    ) -> list[Epoch]:
        """Train a copy of the estimator."""
        self.inputs_ = Inputs(examples.own.shape[1:], tuple(dims), n_outputs)
        made = clone(self.estimator)
        for name, value in sorted(made.get_params().items()):
            if name.rpartition("__")[2] == "random_state" and value is None:
                made.set_params(**{name: int(rng.integers(2**31))})
        more = repeated(examples, self.repeated, rng)
        table = self._table(more.own, more.values, more.present)
        self.fitted_ = made.fit(table, more.target, **_weights(made, more.weight))
        return []

    def _table(self, own: Rows, values: Rows, present: Rows) -> Rows:
        assert self.inputs_ is not None
        gaps = get_tags(self.estimator).input_tags.allow_nan
        return (with_gaps if gaps else with_marks)(own, values, present, self.inputs_.dims)

    def outputs(self, own: Rows, values: Rows, present: Rows, device: torch.device) -> Rows:
        """Return what the estimator predicts: logarithms of its probabilities, its decisions, or its numbers."""
        made, table = self._trained(), self._table(own, values, present)
        assert self.inputs_ is not None
        if is_regressor(made):
            return np.asarray(made.predict(table), np.float32).reshape(len(own), 1)
        classes = np.asarray(made.classes_, np.intp)
        found = np.full((len(own), self.inputs_.n_outputs), np.log(LEAST))
        found[:, classes] = _logits(made, table, classes)
        return found.astype(np.float32)

    def state(self) -> Tensors:
        """Return the trained estimator, by skops: its data, and the names of its types, but no code."""
        return {"skops": np.frombuffer(_dumps(self._trained()), np.uint8)}

    def restore(self, tensors: Tensors, inputs: Inputs) -> None:
        """Take back an estimator, of trusted types alone."""
        data = tensors["skops"]
        if data.dtype != np.uint8 or data.ndim != 1:
            raise ValueError("its estimator must be bytes")
        made = _loads(data.tobytes())
        n_columns = inputs.shape[0] + sum(inputs.dims)
        gaps = get_tags(self.estimator).input_tags.allow_nan
        if type(made) is not type(self.estimator):
            raise ValueError("its estimator is of another type than its settings say")
        if getattr(made, "n_features_in_", None) not in (None, n_columns if gaps else n_columns + len(inputs.dims)):
            raise ValueError("its estimator takes another number of columns")
        codes = np.asarray(getattr(made, "classes_", []))
        if is_classifier(made) and not (
            codes.dtype.kind in "iu" and set(codes.tolist()) <= set(range(inputs.n_outputs))
        ):
            raise ValueError("its estimator has other classes")
        self.fitted_, self.inputs_ = made, inputs

    def to_json(self, owner: str) -> dict[str, Any]:
        """Return the settings: the estimator as it was before the training, by skops."""
        before = base64.b64encode(_dumps(clone(self.estimator))).decode()
        return {"model": self.name, "settings": {"estimator": before, "repeated": self.repeated}}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], n_arrays: int) -> Self:
        """Return a model with the estimator of a file, of trusted types alone."""
        settings = content["settings"]
        if len(settings["estimator"]) > MOST_SETTINGS:
            raise ValueError("its estimator's settings are too large")
        return cls(_loads(base64.b64decode(settings["estimator"])), settings["repeated"])

    def _trained(self) -> Any:
        if self.fitted_ is None:
            raise InputError("This ScikitModel has not been trained yet; call fit first.")
        return self.fitted_


def is_estimator(thing: object) -> bool:
    """Tell whether something is an object of scikit-learn's kind, and no class."""
    wanted = ("fit", "predict", "get_params", "set_params")
    return not isinstance(thing, type) and all(callable(getattr(thing, name, None)) for name in wanted)


def _logits(made: Any, table: Rows, classes: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return one per class that was seen in training."""
    if hasattr(made, "predict_proba"):
        return np.asarray(np.log(np.maximum(made.predict_proba(table), LEAST)), np.float64)
    if hasattr(made, "decision_function"):
        found = np.asarray(made.decision_function(table), np.float64)
        return np.stack([-found / 2, found / 2], axis=1) if found.ndim == 1 else found
    chosen = np.asarray(made.predict(table))[:, None] == classes
    return np.where(chosen, 0.0, np.log(LEAST))


def _weights(made: Any, weight: NDArray[np.float64] | None) -> dict[str, NDArray[np.float64]]:
    """Return weights as the estimator takes them; of a pipeline, its last step."""
    if weight is None:
        return {}
    last, prefix = made, ""
    while hasattr(last, "steps"):
        name, last = last.steps[-1]
        prefix += f"{name}__"
    if not has_fit_parameter(last, "sample_weight"):
        raise InputError(
            f"The host model {type(last).__name__} takes no weights of rows (no sample_weight in its fit); leave them out, or "
            "take another model."
        )
    return {f"{prefix}sample_weight": weight}


def _skops() -> Any:
    return require("Saving or loading a scikit-learn estimator needs", "skops", "skops.io", "skops")


def _dumps(estimator: Any) -> bytes:
    return bytes(_skops().dumps(estimator))


def _compiled(data: bytes) -> set[str]:
    """Return the types of a file whose compiled code trusts its arrays: forged ones could make it read beyond its memory."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            schema = json.loads(file.read("schema.json"))
    except (KeyError, RecursionError) as error:
        raise ValueError(f"its estimator cannot be read ({type(error).__name__})") from None
    found, open_parts = set(), [schema]
    while open_parts:  # no recursion: a forged file could nest without end
        part = open_parts.pop()
        if isinstance(part, dict):
            if str(part.get("__module__", "")).startswith(COMPILED):
                found.add(f"{part['__module__']}.{part.get('__class__')}")
            open_parts.extend(part.values())
        elif isinstance(part, list):
            open_parts.extend(part)
    return found


def _loads(data: bytes) -> Any:
    """Read an estimator that may be forged: nothing is unpacked to more than its size, and only trusted types are made."""
    skops = _skops()
    try:
        entries = zipfile.ZipFile(io.BytesIO(data)).infolist()
    except zipfile.BadZipFile as error:
        raise ValueError(str(error)) from None
    stored = all(entry.compress_type == zipfile.ZIP_STORED for entry in entries)
    if not stored or sum(entry.file_size for entry in entries) > len(data):
        raise ValueError("its estimator unpacks to more than its size")
    if any(entry.filename.endswith(".npz") for entry in entries):  # which is packed once more
        raise ValueError("its estimator has sparse matrices, which could unpack to more than its size")
    unknown = sorted((set(skops.get_untrusted_types(data=data)) | _compiled(data)) - _trusted)
    if unknown:
        raise InputError(
            f"The model has {', '.join(map(repr, unknown[:5]))}, which is not trusted in a file; if you trust the file and who "
            f"made it, call fedonce.hostmodels.trust({', '.join(map(repr, unknown[:5]))}) first."
        )
    return skops.loads(data, trusted=sorted(_trusted))
