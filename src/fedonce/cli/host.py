"""`fedonce host`: train with the messages that arrived, predict, evaluate, explain."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedonce.cli.options import (
    AllowAbsent,
    Columns,
    Deadline,
    Drop,
    Expect,
    Guests,
    Id,
    Inbox,
    LeastGuests,
    MaxDim,
    MaxMemory,
    MaxMessage,
    Model,
    NeededGuests,
    NeededOverlap,
    Normalise,
    PlanFile,
    PrivateKeyFile,
    PublicFile,
    Replace,
    RowsFiles,
    Secret,
    Strict,
    TableFile,
    Training,
    Types,
    Verify,
)
from fedonce.cli.terminal import AsJson, Quiet, one_line, progress, show, to_json
from fedonce.hostmodels.names import HOST_MODELS
from fedonce.system.text import duration, names

if TYPE_CHECKING:
    from fedonce.party import Host

host = typer.Typer(help="The party with the labels: train with what arrived, predict.", no_args_is_help=True)


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
        Training("--refit", help="Train the model in --out again, with its messages and those that came since."),
    ] = False,
    replace: Replace = False,
    max_dim: MaxDim = None,
    max_message: MaxMessage = None,
    max_memory: MaxMemory = None,
    verify: Verify = None,
    key: PrivateKeyFile = None,
    rows: RowsFiles = None,
    secret: Secret = None,
    normalise_ids: Normalise = "",
    task: Annotated[str | None, Training(help="classification or regression. Default: by the labels.")] = None,
    columns: Columns = None,
    drop: Drop = None,
    types: Types = None,
    model: Annotated[
        str | None,
        Training(help=f"{', '.join(HOST_MODELS.built_in)}; or one of another package. With --refit: as before."),
    ] = None,
    recipe: Annotated[
        str | None, Training(help="How to train a network: default or paper. With --refit: as before.")
    ] = None,
    epochs: Annotated[int | None, Training(help="Default: the recipe's own. With --refit: as before.", min=1)] = None,
    plan: PlanFile = None,
    public_file: PublicFile = None,
    seed: Annotated[
        int | None,
        Training(help="Seed; as random_state of an estimator. Default: 0. With --refit: as before.", min=0),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train on the host's table, its labels and the messages that have arrived.

    The host's rows lead: a row that a guest does not have, and a guest that does not answer in time, are zeros and a mark. Late
    guests are named, and join later with --refit.
    """
    from fedonce import protocol
    from fedonce.jobs import steps
    from fedonce.party import Host, storage
    from fedonce.privacy.budget import Plan
    from fedonce.rows.ids import parse_forms

    steps.check_folder(out)
    with progress(quiet) as tell, storage.alone(out, tell):
        before = steps.model_before(out, refit)
        run = run or (before.run if before else "local")
        tell(f"reading {table}")
        own, y, reading = steps.labelled_table(table, before, name, id, columns, drop, types, label)
        kind = task or (before.task if before else steps.infer_task(y))
        budget = None if plan is None else Plan.from_file(plan)
        bounds, labels = steps.public(public_file, budget is not None)
        who = name or (before.name if before else "host")
        steps.check_task(kind, y, reading.label)
        party = Host(
            who,
            kind,
            recipe or "default",
            epochs,
            run=run,
            model=_model(model, recipe, before),
            random_state=before.random_state if before and seed is None else steps.estimator_seed(seed or 0),
            purse=None if budget is None else steps.purse(budget, who),
            public=bounds,
            plan=budget,
            labels=labels,
            forms=parse_forms(normalise_ids) or (before.forms if before else ()),
            reading=reading,
            known=tuple(before.dims) if before else (),
        )
        kept = storage.load(out, "host").messages if before else {}
        sizes = before.received if before else {}
        incoming = steps.Incoming(
            guest or [],
            inbox,
            names(expect),
            duration(deadline),
            verify or [],
            key,
            rows or [],
            secret,
            replace,
            max_dim,
            max_message,
            max_memory,
        )
        matching = incoming.matching(party.forms)
        engine = incoming.engine(run, least, tell, kept, sizes, host=who)
        party.check_label(y, own.n_rows)  # before anybody waits
        fitted = protocol.fit(party, own, y, engine, matching=matching)
        party.save(out, {name: arrived.data for name, arrived in engine.arrived.items()}, engine.moved)
    told = {
        "host": who,
        "run": run,
        "rows": own.n_rows,
        "task": kind,
        "guests": {
            name: {"overlap": fitted.overlap[name], "bytes": size} for name, size in fitted.traffic.per_guest.items()
        },
        "late": list(fitted.absent),
        "refused": engine.refused,
        "messages": fitted.traffic.messages,
        "bytes": fitted.traffic.bytes,
        "payload bytes": fitted.traffic.payload_bytes,
        "id bytes": fitted.traffic.id_bytes,
        "epsilon": None if party.ledger is None else party.ledger.epsilon(),
        "model": str(out),
    }
    if as_json:
        typer.echo(to_json(told))
        return
    _tell_fit(told)


def _model(asked: str | None, recipe: str | None, before: Host | None) -> object:
    """Return the model that is asked for; else that of before, with its settings unless a recipe gives others."""
    if asked is not None or before is None:
        return asked or "network"
    return before.prototype if recipe is None else before.prototype.name


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
    _tell_refused(told)
    typer.echo(f"received: {told['messages']} message{'' if told['messages'] == 1 else 's'}, {told['bytes']:,} bytes")
    typer.echo(f"model: {told['model']}")


def _tell_refused(told: dict[str, Any]) -> None:
    for file, why in told["refused"].items():
        typer.echo(one_line(f"  refused {file}: {why}"))


def _tell_guests(told: dict[str, Any]) -> None:
    for party, share in told["guests"].items():
        typer.echo(f"  {party}: has {100 * share:.1f} % of the rows")
    for party in told["absent"]:
        typer.echo(f"  {party}: ABSENT, zeros in its place")
    _tell_refused(told)


@host.command()
def predict(
    table: TableFile,
    model: Model,
    out: Annotated[
        Path,
        typer.Option(
            help="File for ids, predictions, probabilities, who has the row: CSV, TSV or Parquet by its ending."
        ),
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
    min_guests: NeededGuests = None,
    min_overlap: NeededOverlap = None,
    allow_absent: AllowAbsent = False,
    strict: Strict = False,
    max_dim: MaxDim = None,
    max_message: MaxMessage = None,
    max_memory: MaxMemory = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict the rows of a table with what guests sent for them.

    Every guest of the training must be there, with half of its share of the rows at least, unless you say otherwise: else nothing
    is written (exit code 6). A guest that may be missing is zeros.
    """
    from fedonce.data.files import check_ending, write_table
    from fedonce.jobs import steps
    from fedonce.party.presence import Needed

    check_ending(out)
    incoming = steps.Incoming(
        guest or [],
        inbox,
        names(expect),
        duration(deadline),
        verify or [],
        key,
        rows or [],
        secret,
        replace,
        max_dim,
        max_message,
        max_memory,
    )
    care = steps.Care(Needed(min_guests, min_overlap, allow_absent), strict)
    with progress(quiet) as tell:
        done = steps.predict(table, model, incoming, tell, care=care)
        write_table(out, steps.columns_of(done.host, done.table, done.prediction))
    told = done.told | {"bytes": done.prediction.traffic.bytes, "out": str(out)}
    if as_json:
        typer.echo(to_json(told))
        return
    typer.echo(f"predicted {told['rows']:,} rows: {out}")
    _tell_guests(told)


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
    min_guests: NeededGuests = None,
    min_overlap: NeededOverlap = None,
    allow_absent: AllowAbsent = False,
    strict: Strict = False,
    max_dim: MaxDim = None,
    max_message: MaxMessage = None,
    max_memory: MaxMemory = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict rows whose labels are known, and compare."""
    from fedonce.assess import evaluation
    from fedonce.jobs import steps
    from fedonce.party.presence import Needed

    incoming = steps.Incoming(
        guest or [],
        inbox,
        names(expect),
        duration(deadline),
        verify or [],
        key,
        rows or [],
        secret,
        replace,
        max_dim,
        max_message,
        max_memory,
    )
    care = steps.Care(Needed(min_guests, min_overlap, allow_absent), strict)
    with progress(quiet) as tell:
        done = steps.predict(table, model, incoming, tell, labelled=True, care=care)
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
    min_guests: NeededGuests = None,
    min_overlap: NeededOverlap = None,
    allow_absent: AllowAbsent = False,
    strict: Strict = False,
    max_dim: MaxDim = None,
    max_message: MaxMessage = None,
    max_memory: MaxMemory = None,
    repeats: Annotated[int, typer.Option(help="How often each party is shuffled.", min=1)] = 5,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say what each party is worth: how much worse predictions get when its columns are shuffled among rows; with a plot.

    Use rows that the model was not trained on.
    """
    from fedonce.assess import evaluation, importance
    from fedonce.jobs import steps
    from fedonce.party.presence import Needed

    importance.check_plot(out)
    incoming = steps.Incoming(
        guest or [],
        inbox,
        names(expect),
        duration(deadline),
        verify or [],
        key,
        rows or [],
        secret,
        replace,
        max_dim,
        max_message,
        max_memory,
    )
    care = steps.Care(Needed(min_guests, min_overlap, allow_absent), strict)
    with progress(quiet) as tell:
        done = steps.predict(table, model, incoming, tell, labelled=True, care=care)
        assert done.label is not None
        tell("shuffling")
        messages = [each.message for each in done.engine.arrived.values()]
        worths = evaluation.worth(done.host, done.table, done.label, messages, repeats, matching=done.matching)
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
    _tell_refused(done.told)
    typer.echo(f"plot: {path}")
