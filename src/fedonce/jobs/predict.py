"""The host's jobs with a trained model: predict rows, and compare predictions with labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce import protocol
from fedonce.assess import evaluation
from fedonce.data.files import check_ending, write_table
from fedonce.data.table import Table, as_text
from fedonce.errors import FedOnceWarning, InputError
from fedonce.jobs.host import Connection
from fedonce.jobs.incoming import Incoming
from fedonce.jobs.pages import evaluation_page
from fedonce.party import Host, drift
from fedonce.party.presence import Needed, check_present
from fedonce.report import page
from fedonce.rows.matching import Matching
from fedonce.system.text import Tell, silent


@dataclass(frozen=True)
class Care:
    """What a prediction must have: which guests, and whether messages that look odd are refused or warned of.

    Parameters
    ----------
    needed : Needed, optional
        Which guests must be there. None: every guest of the training.
    strict : bool
        Whether messages that look odd are refused instead of warned of.
    """

    needed: Needed | None = None  # None: every guest of the training
    strict: bool = False

    def check(self, party: Host, prediction: protocol.Prediction, reasons: Mapping[str, str]) -> None:
        """Raise where too few guests are there; warn of messages that do not look like those of the training, or raise."""
        trained = {name: party.trained_overlap.get(name, 0.0) for name in party.dims}
        check_present(trained, prediction.overlap, self.needed, reasons)
        drift.check(party.seen, prediction.representations.values(), self.strict)


@dataclass(frozen=True)
class Predicted:
    """A host from its folder, the table, its labels where they are wanted, and what was predicted."""

    host: Host
    table: Table
    label: NDArray[Any] | None
    prediction: protocol.Prediction
    refused: Mapping[str, str]
    matching: Matching

    def as_json(self) -> dict[str, Any]:
        """Return the figures of the guests as JSON values."""
        overlap = self.prediction.overlap
        absent = [name for name in self.host.dims if name not in overlap]
        return {"rows": self.table.n_rows, "guests": overlap, "absent": absent, "refused": dict(self.refused)}

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the id by its own name (or the row), the prediction, a probability per class, and who has the row."""
        outputs, classes = self.prediction.outputs, self.host.classes
        found: dict[str, NDArray[Any]] = {"prediction": outputs}
        if classes is not None:
            texts = [str(name) if isinstance(name, bool) else as_text(name) for name in classes.tolist()]
            chances = {f"probability_{text}": outputs[:, j] for j, text in enumerate(texts)}
            found = {"prediction": classes[outputs.argmax(axis=1)], **chances}
        found |= {f"has_{guest}": present for guest, present in self.prediction.present.items()}
        return self.with_ids(found)

    def with_ids(self, columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return columns of one value per row, after that of the ids, or of the rows' positions."""
        if self.table.ids is None:
            return {"row": np.arange(self.table.n_rows), **columns}
        return {_id_name(self.host, columns): self.table.ids, **columns}


def _id_name(party: Host, taken: Collection[str]) -> str:
    """Return the name of the id column, its own where no column of ours has it."""
    own = "id" if party.reading is None or party.reading.id is None else party.reading.id
    if own not in taken:
        return own
    warnings.warn(
        f"The column of ids is called {own!r}, as one of the columns that are written; it is written as 'id'.",
        FedOnceWarning,
        stacklevel=3,
    )
    return "id"


ConnectModel = Callable[[Host, Table, Tell], AbstractContextManager[Connection]]


@dataclass(frozen=True)
class ModelRows:
    """Rows of a table for a trained model, and what guests sent for them.

    Parameters
    ----------
    table : path
        The rows; read as the table of the training was.
    model : path
        The host's folder.
    incoming, care
        Where messages come from, and who must be there.
    """

    table: str | Path
    model: str | Path
    incoming: Incoming = field(default_factory=Incoming)
    care: Care = field(default_factory=Care)

    def predict(self, tell: Tell = silent, connect: ConnectModel | None = None, labelled: bool = False) -> Predicted:
        """Load the host, read the table and what guests sent for it, and predict; `check` says whether that is good enough."""
        party = Host.load(self.model)
        if party.reading is None:
            raise InputError(
                f"The model in {self.model} does not say how tables are read; predict with Host.predict, as it was made."
            )
        tell(f"reading {self.table}")
        own, label = party.reading.read(self.table, party.name, labelled), None
        if labelled:
            label, own = own.pop(party.reading.label)
        with (connect or self._by_files)(party, own, tell) as connection:
            prediction = protocol.predict(party, own, connection.engine, connection.matching)
        return Predicted(party, own, label, prediction, connection.engine.refused, connection.matching)

    @contextmanager
    def _by_files(self, party: Host, own: Table, tell: Tell) -> Iterator[Connection]:
        incoming = self.incoming
        if incoming.inbox is not None and not incoming.expect:
            incoming = replace(incoming, expect=tuple(party.dims))
        yield Connection(incoming.engine(party, tell, members=party.dims), incoming.matching(party.forms))

    def check(self, done: Predicted) -> None:
        """Raise where too few guests are there, or messages look odd; warn of guests that have none of the rows."""
        self.care.check(done.host, done.prediction, done.refused)
        for name, share in done.prediction.overlap.items():
            if not share:
                warnings.warn(
                    f"None of the rows is in the message of {name!r}: zeros in its place (is it the message for training, or for "
                    "other rows?).",
                    FedOnceWarning,
                    stacklevel=3,
                )


@dataclass(frozen=True)
class PredictionReport:
    """What a prediction came to, and the file that it is in.

    Attributes
    ----------
    predicted : Predicted
        Predictions, who was there, and what was sent.
    out : path
        The file.
    """

    predicted: Predicted
    out: Path

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return self.predicted.as_json() | {"bytes": self.predicted.prediction.traffic.bytes, "out": str(self.out)}


@dataclass(frozen=True)
class PredictJob:
    """Predict the rows of a table with what guests sent for them, and write them to a file: CSV, TSV or Parquet by its ending.

    Parameters
    ----------
    rows : ModelRows
        The rows, and what guests sent for them.
    out : path
        The file to write.
    """

    rows: ModelRows
    out: str | Path

    def __post_init__(self) -> None:
        check_ending(Path(self.out))

    def run(self, tell: Tell = silent) -> PredictionReport:
        """Do it; `tell` is told each step in a line."""
        return self.finish(self.rows.predict(tell))

    @property
    def labelled(self) -> bool:
        """Whether labels are needed."""
        return False

    def finish(self, done: Predicted, tell: Tell = silent) -> PredictionReport:
        """Write predictions, unless too few guests are there."""
        self.rows.check(done)
        write_table(Path(self.out), done.columns())
        return PredictionReport(done, Path(self.out))


@dataclass(frozen=True)
class EvaluationReport:
    """How good predictions are.

    Attributes
    ----------
    predicted : Predicted
        Who was there, and what was sent.
    scores : mapping
        Scores by name.
    page : path or None
        A page of them.
    """

    predicted: Predicted
    scores: Mapping[str, float]
    page: Path | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        page = {} if self.page is None else {"page": str(self.page)}
        return self.predicted.as_json() | dict(self.scores) | page


@dataclass(frozen=True)
class EvaluateJob:
    """Predict rows whose labels are known, and compare.

    Parameters
    ----------
    rows : ModelRows
        The rows, with labels, and what guests sent for them.
    html : path, optional
        A file for a page of the result.
    """

    rows: ModelRows
    html: str | Path | None = None

    def run(self, tell: Tell = silent) -> EvaluationReport:
        """Do it; `tell` is told each step in a line."""
        return self.finish(self.rows.predict(tell, labelled=True))

    @property
    def labelled(self) -> bool:
        """Whether labels are needed."""
        return True

    def finish(self, done: Predicted, tell: Tell = silent) -> EvaluationReport:
        """Compare, unless too few guests are there."""
        self.rows.check(done)
        assert done.label is not None
        scores = evaluation.scores(done.host, done.label, done.prediction.outputs)
        if self.html is None:
            return EvaluationReport(done, scores)
        written = page.write(Path(self.html), evaluation_page(done.host, done.as_json(), scores))
        return EvaluationReport(done, scores, written)
