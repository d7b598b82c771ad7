"""`fedonce host`: train with the messages that arrived, predict, evaluate, explain."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from fedonce import evaluation, importance, protocol, storage
from fedonce.cli_guest import estimator_seed
from fedonce.cli_tables import (
    Columns,
    Drop,
    Id,
    Normalise,
    PlanFile,
    PrivateKeyFile,
    PublicFile,
    Rows,
    Secret,
    Seed,
    TableFile,
    Types,
    agreed,
    private_key,
    public,
    public_keys,
    purse,
    read,
)  # fmt: skip
from fedonce.crypto import read_secret
from fedonce.engine.files import FilesEngine
from fedonce.errors import FedOnceWarning, InputError, parameter_error
from fedonce.ids import parse_forms
from fedonce.party import Host
from fedonce.privacy.budget import Plan
from fedonce.tablefiles import check_ending, write_table
from fedonce.tables import Table, as_text
from fedonce.terminal import AsJson, Quiet, Tell, duration, names, progress, show, to_json

MOST_CLASSES = 20  # whole numbers with more values than this are a quantity

host = typer.Typer(help="The party with the labels: train with what arrived, predict.", no_args_is_help=True)

Guests = Annotated[
    list[Path] | None, typer.Option("--guest", help="A guest's message; once for each.", show_default=False)
]
Inbox = Annotated[Path | None, typer.Option(help="Folder in which messages arrive.")]
Expect = Annotated[str | None, typer.Option(help="Guests to wait for, with commas.")]
Deadline = Annotated[str, typer.Option(help="How long to wait for them: 90s, 30m, 2h, 1d.")]
Verify = Annotated[
    list[str] | None, typer.Option("--verify", help="NAME=KEY: that guest's message must be signed with the key.")
]
Replace = Annotated[
    bool, typer.Option("--replace", help="A second, different message of a guest takes the place of the first.")
]
RowsFiles = Annotated[list[Path] | None, typer.Option("--rows", help=f"{Rows} Once for each guest.")]
Model = Annotated[Path, typer.Option(help="The host's folder, from `fedonce host fit`.")]
LeastGuests = Annotated[int, typer.Option("--min-guests", help="With fewer, stop (exit code 6).", min=0)]


@host.command()
def fit(
    table: TableFile,
    out: Annotated[Path, typer.Option(help="Folder for the model and the messages that it was trained with.")],
    label: Annotated[str | None, typer.Option(help="Column to predict.")] = None,
    id: Id = None,
    name: Annotated[str | None, typer.Option(help="The host's name. Default: host.")] = None,
    run: Annotated[str | None, typer.Option(help="Name of the training; messages of another one are refused.")] = None,
    guest: Guests = None,
    inbox: Inbox = None,
    expect: Expect = None,
    deadline: Deadline = "0s",
    least: LeastGuests = 1,
    refit: Annotated[
        bool,
        typer.Option("--refit", help="Train the model in --out again, with its messages and those that came since."),
    ] = False,
    replace: Replace = False,
    verify: Verify = None,
    key: PrivateKeyFile = None,
    rows: RowsFiles = None,
    secret: Secret = None,
    normalise_ids: Normalise = "",
    task: Annotated[str | None, typer.Option(help="classification or regression. Default: by the labels.")] = None,
    columns: Columns = None,
    drop: Drop = None,
    types: Types = None,
    recipe: Annotated[str, typer.Option(help="How to train: default or paper.")] = "default",
    epochs: Annotated[int | None, typer.Option(help="Default: the recipe's own.", min=1)] = None,
    plan: PlanFile = None,
    public_file: PublicFile = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train on the host's table, its labels and the messages that have arrived.

    The host's rows lead: a row that a guest does not have, and a guest that does not answer in time, are zeros and a mark. Late
    guests are named, and join later with --refit.
    """
    before = _before(out, refit)
    with progress(quiet) as tell:
        run = run or (before.run if before else "local")
        tell(f"reading {table}")
        own, y, reading = _labelled(table, before, name, id, columns, drop, types, label)
        kind = task or (before.task if before else infer_task(y))
        budget = None if plan is None else Plan.from_file(plan)
        bounds, labels = public(public_file)
        who = name or (before.name if before else "host")
        party = Host(
            who, kind, recipe, epochs, random_state=estimator_seed(seed), run=run,
            purse=None if budget is None else purse(budget, who), public=bounds, plan=budget, labels=labels,
            forms=parse_forms(normalise_ids) or (before.forms if before else ()),
        )  # fmt: skip
        party.reading = reading
        kept = storage.load(out, "host").messages if before else {}
        incoming = Incoming(
            guest or [], inbox, names(expect), duration(deadline), verify or [], key, rows or [], secret, replace
        )
        incoming.prepare(party)
        engine = incoming.engine(run, least, kept, tell)
        party.check_label(y, own.n_rows)  # before anybody waits
        fitted = protocol.fit(party, own, y, engine)
        party.save(out, {name: arrived.data for name, arrived in engine.arrived.items()})
    told = {
        "host": who, "run": run, "rows": own.n_rows, "task": kind,
        "guests": {
            party: {"overlap": fitted.overlap[party], "bytes": fitted.traffic.per_guest[party]} for party in fitted.representations
        },
        "late": list(fitted.absent), "messages": fitted.traffic.messages, "bytes": fitted.traffic.bytes,
        "payload bytes": fitted.traffic.payload_bytes, "id bytes": fitted.traffic.id_bytes,
        "epsilon": None if party.ledger is None else party.ledger.epsilon(), "model": str(out),
    }  # fmt: skip
    if as_json:
        typer.echo(to_json(told))
        return
    _tell_fit(told)


def _tell_fit(told: dict[str, Any]) -> None:
    typer.echo(f"trained {told['task']} on {told['rows']:,} rows of {told['host']}, run {told['run']}")
    for party, its in told["guests"].items():
        typer.echo(f"  {party}: has {100 * its['overlap']:.1f} % of the rows, {its['bytes']:,} bytes")
    if not told["guests"]:
        typer.echo("  no guest: the host alone")
    for party in told["late"]:
        typer.echo(f"  {party}: LATE, left out (zeros); add it later with --refit --guest FILE")
    if told["epsilon"] is not None:
        typer.echo(f"privacy: epsilon {told['epsilon']:.4g} for all parties that answered")
    typer.echo(f"received: {told['messages']} messages, {told['bytes']:,} bytes")
    typer.echo(f"model: {told['model']}")


def _before(out: Path, refit: bool) -> Host | None:
    """Return the model that is trained again, and refuse to overwrite one that is not to be."""
    if storage.exists(out) and not refit:
        raise InputError(
            f"The folder {out} has a model already. Train it again, with more guests, by --refit, or name another one."
        )
    return Host.load(out) if refit else None


def _labelled(
    path: Path, before: Host | None, name: str | None, id: str | None, columns: str | None, drop: str | None,
    types: list[str] | None, label: str | None,
) -> tuple[Table, NDArray[Any], Any]:  # fmt: skip
    """Read the training table and its labels; where a model is trained again, as it was read before."""
    if before is not None and before.reading is not None:
        reading = before.reading
        own = reading.read(path, before.name, with_label=True)
    elif label is None:
        raise parameter_error("fedonce host fit", "--label", "the column to predict", label)
    else:
        own, reading = read(path, name or "host", id, columns, drop, types, label)
    y, own = own.pop(reading.label or "")
    return own, y, reading


def infer_task(y: NDArray[Any]) -> str:
    """Return the task that labels ask for: text, booleans and few whole numbers are classes."""
    if y.dtype.kind in "Ob":
        return "classification"
    known = y[np.isfinite(y)] if y.dtype.kind == "f" else y
    whole = bool((known == np.rint(known)).all())
    return "classification" if whole and len(np.unique(known)) <= MOST_CLASSES else "regression"


@dataclass(frozen=True)
class Incoming:
    """Where messages come from, and with what they are opened, verified and matched."""

    files: Sequence[Path]
    inbox: Path | None
    expect: Sequence[str]
    deadline: float
    verify: Sequence[str]
    key: Path | None
    rows: Sequence[Path]
    secret: Path | None
    replace: bool

    def prepare(self, party: Host) -> None:
        """Give the host what it needs to match rows."""
        party.secret = None if self.secret is None else read_secret(self.secret)
        party.agreed = tuple(agreed(path, private_key(self.key)) for path in self.rows)

    def engine(self, run: str, least: int, kept: Mapping[str, bytes], tell: Tell) -> FilesEngine:
        """Return the engine that collects the messages."""
        if self.expect and self.inbox is None:
            raise parameter_error("fedonce host", "--inbox", "given with --expect: the folder to wait at", None)
        return FilesEngine(
            run, self.files, self.inbox, self.expect, self.deadline, least, public_keys(self.verify), private_key(self.key),
            self.replace, kept, tell,
        )  # fmt: skip


@dataclass(frozen=True)
class _Predicted:
    """A host from its folder, the table with its labels, if wanted, and what came of it."""

    host: Host
    table: Table
    label: NDArray[Any] | None
    engine: FilesEngine
    prediction: protocol.Prediction

    @property
    def told(self) -> dict[str, Any]:
        """What to say of the guests."""
        overlap = {name: self.host.overlap[name] for name in self.engine.arrived}
        return {"rows": self.table.n_rows, "guests": overlap, "absent": [n for n in self.host.dims if n not in overlap]}


def _predict(table: Path, model: Path, incoming: Incoming, tell: Tell, labelled: bool = False) -> _Predicted:
    """Load the host, read the table and what guests sent for it, and predict."""
    party = Host.load(model)
    if party.reading is None:
        raise InputError(f"The model in {model} does not say how tables are read; predict in Python, as it was made.")
    incoming.prepare(party)
    tell(f"reading {table}")
    own, label = party.reading.read(table, party.name, labelled), None
    if labelled:
        label, own = own.pop(party.reading.label)
    if incoming.inbox is not None and not incoming.expect:
        incoming = replace(incoming, expect=tuple(party.dims))
    engine = incoming.engine(party.run, 0, {}, tell)
    prediction = protocol.predict(party, own, engine)
    for name in engine.arrived:
        if not party.overlap[name]:
            warnings.warn(
                f"None of the rows is in the message of {name!r}: zeros in its place.", FedOnceWarning, stacklevel=2
            )
    return _Predicted(party, own, label, engine, prediction)


def _tell_guests(told: dict[str, Any]) -> None:
    for party, share in told["guests"].items():
        typer.echo(f"  {party}: has {100 * share:.1f} % of the rows")
    for party in told["absent"]:
        typer.echo(f"  {party}: ABSENT, zeros in its place")


@host.command()
def predict(
    table: TableFile,
    model: Model,
    out: Annotated[
        Path, typer.Option(help="File for id, prediction and probabilities: CSV, TSV or Parquet by its ending.")
    ],
    guest: Guests = None,
    inbox: Inbox = None,
    expect: Expect = None,
    deadline: Deadline = "0s",
    verify: Verify = None,
    key: PrivateKeyFile = None,
    rows: RowsFiles = None,
    secret: Secret = None,
    replace: Replace = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict the rows of a table with what guests sent for them; a guest without a message is zeros."""
    check_ending(out)
    incoming = Incoming(
        guest or [], inbox, names(expect), duration(deadline), verify or [], key, rows or [], secret, replace
    )
    with progress(quiet) as tell:
        done = _predict(table, model, incoming, tell)
        write_table(out, columns_of(done.host, done.table, done.prediction.outputs))
    told = done.told | {"bytes": done.prediction.traffic.bytes, "out": str(out)}
    if as_json:
        typer.echo(to_json(told))
        return
    typer.echo(f"predicted {told['rows']:,} rows: {out}")
    _tell_guests(told)


def columns_of(party: Host, table: Table, outputs: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
    """Return what `predict` writes: id (or row), prediction, and a probability a class."""
    first = {"id": table.ids} if table.ids is not None else {"row": np.arange(table.n_rows)}
    if party.classes is None:
        return {**first, "prediction": outputs}
    chances = {f"probability_{as_text(name)}": outputs[:, j] for j, name in enumerate(party.classes.tolist())}
    return {**first, "prediction": party.classes[outputs.argmax(axis=1)], **chances}


@host.command()
def evaluate(
    table: TableFile,
    model: Model,
    guest: Guests = None,
    inbox: Inbox = None,
    expect: Expect = None,
    deadline: Deadline = "0s",
    verify: Verify = None,
    key: PrivateKeyFile = None,
    rows: RowsFiles = None,
    secret: Secret = None,
    replace: Replace = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict rows whose labels are known, and compare."""
    incoming = Incoming(
        guest or [], inbox, names(expect), duration(deadline), verify or [], key, rows or [], secret, replace
    )
    with progress(quiet) as tell:
        done = _predict(table, model, incoming, tell, labelled=True)
        assert done.label is not None
        found = evaluation.scores(done.host, done.label, done.prediction.outputs)
    if as_json:
        typer.echo(to_json(done.told | found))
        return
    typer.echo(f"evaluated on {done.told['rows']:,} rows")
    _tell_guests(done.told)
    show({name: f"{value:.4f}" for name, value in found.items()})


@host.command()
def explain(
    table: TableFile,
    model: Model,
    out: Annotated[Path, typer.Option(help="The plot, PNG or SVG by its ending.")] = Path("worth.png"),
    guest: Guests = None,
    inbox: Inbox = None,
    expect: Expect = None,
    deadline: Deadline = "0s",
    verify: Verify = None,
    key: PrivateKeyFile = None,
    rows: RowsFiles = None,
    secret: Secret = None,
    replace: Replace = False,
    repeats: Annotated[int, typer.Option(help="How often each party is shuffled.", min=1)] = 5,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say what each party is worth: how much worse predictions get when its columns are shuffled among rows; with a plot.

    Use rows that the model was not trained on.
    """
    incoming = Incoming(
        guest or [], inbox, names(expect), duration(deadline), verify or [], key, rows or [], secret, replace
    )
    with progress(quiet) as tell:
        done = _predict(table, model, incoming, tell, labelled=True)
        assert done.label is not None
        tell("shuffling")
        worths = evaluation.worth(
            done.host, done.table, done.label, [each.message for each in done.engine.arrived.values()], repeats
        )
        unit = "accuracy" if done.host.task == "classification" else "root mean squared error"
        path = importance.plot(worths, out, unit)
    if as_json:
        typer.echo(
            to_json(done.told | {"unit": unit, "parties": [asdict(worth) for worth in worths], "plot": str(path)})
        )
        return
    typer.echo(f"what each party is worth, in {unit}, on {done.told['rows']:,} rows:")
    for worth in worths:
        absent = "" if worth.absent is None else f"; {worth.absent:.4f} when it does not answer"
        typer.echo(f"  {worth.party}: {worth.drop:.4f} ± {worth.spread:.4f} when shuffled{absent}")
    typer.echo(f"plot: {path}")
