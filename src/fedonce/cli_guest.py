"""`fedonce guest` and `fedonce inspect`: learn, see what leaves the house, represent new rows."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.utils import check_random_state

from fedonce import leakage, learners, storage
from fedonce.cli_tables import (
    Columns,
    Drop,
    Id,
    Normalise,
    PlanFile,
    PrivateKeyFile,
    PublicFile,
    Rows,
    Run,
    Secret,
    Seed,
    TableFile,
    Types,
    agreed,
    naming,
    private_key,
    public,
    purse,
    read,
)  # fmt: skip
from fedonce.crypto import PrivateKey, PublicKey, read_public, seal
from fedonce.disk import write_file
from fedonce.errors import InputError, parameter_error
from fedonce.ids import parse_forms
from fedonce.inspection import describe_message
from fedonce.inspection import inspect as inspect_file
from fedonce.message import Representation
from fedonce.party import Guest
from fedonce.privacy.budget import Plan, Purse, calibrate, check_budget
from fedonce.tables import Table
from fedonce.terminal import AsJson, Quiet, progress, show, to_json

MESSAGE = "representation.fedonce"

guest = typer.Typer(help="A party without labels: learn, and send one file.", no_args_is_help=True)

RowsFile = Annotated[Path | None, typer.Option("--rows", help=f"{Rows} The message then has no ids at all.")]
PlainIds = Annotated[bool, typer.Option("--plain-ids", help="Send ids as they are.")]
Sign = Annotated[Path | None, typer.Option(help="Private key to sign the message with (`fedonce keys new`).")]
SealTo = Annotated[Path | None, typer.Option(help="Public key of the host: only the host can open the file.")]


@guest.command()
def fit(
    table: TableFile,
    name: Annotated[str, typer.Option(help="The party's name.")],
    out: Annotated[Path, typer.Option(help=f"Folder for the model, which stays, and {MESSAGE}, which leaves.")],
    id: Id = None,
    run: Run = "local",
    columns: Columns = None,
    drop: Drop = None,
    types: Types = None,
    learner: Annotated[str, typer.Option(help=f"One of {', '.join(learners.LEARNERS)}.")] = "auto",
    dim: Annotated[int, typer.Option(help="Values a row.", min=1)] = 8,
    bits: Annotated[int, typer.Option(help="Bits a value: 32, 16, 8 or 4.")] = 8,
    epochs: Annotated[int | None, typer.Option(help="Default: the learner's own.", min=1)] = None,
    noise: Annotated[float, typer.Option(help="Noise on every value that leaves, rows clipped to norm 1.")] = 0.0,
    rows: RowsFile = None,
    secret: Secret = None,
    plain_ids: PlainIds = False,
    normalise_ids: Normalise = "",
    plan: PlanFile = None,
    epsilon: Annotated[float | None, typer.Option(help="A privacy budget of this guest alone, without a plan.")] = None,
    delta: Annotated[float | None, typer.Option(help="With --epsilon. Default: 1 / (10 rows).")] = None,
    public_file: PublicFile = None,
    sign: Sign = None,
    seal_to: SealTo = None,
    key: PrivateKeyFile = None,
    seed: Seed = 0,
    replace_model: Annotated[
        bool, typer.Option("--replace", help="Learn anew where the folder has a model; it is then lost.")
    ] = False,
    attack: Annotated[
        bool, typer.Option("--attack/--no-attack", help="Try to rebuild columns from the message.")
    ] = True,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Learn from a table without labels; write the model (it stays) and the one message (it leaves).

    Asks nothing of anybody. Prints what leaves the house, and how well a plain attack rebuilds each column from it.
    """
    if storage.exists(out) and (out / MESSAGE).exists() and not replace_model:
        raise InputError(
            f"The folder {out} has a model and its message already. Name another folder, or learn anew with --replace: messages "
            "that were sent before then no longer fit."
        )
    forms = parse_forms(normalise_ids)
    signer, sealer = private_key(sign), None if seal_to is None else read_public(seal_to)
    with progress(quiet) as tell:
        order = None if rows is None else agreed(rows, private_key(key))
        bounds, _ = public(public_file)
        tell(f"reading {table}")
        own, reading = read(table, name, id, columns, drop, types)
        if own.ids is None and (order is not None or secret is not None or plain_ids or forms):
            raise parameter_error("fedonce guest fit", "--id", "given with options about ids", id)
        money = _purse(name, own.n_rows, learner, epochs, plan, epsilon, delta)
        party = Guest(
            name, learner, dim, bits, epochs, run=run, noise=noise, random_state=estimator_seed(seed),
            naming=naming(secret, plain_ids, forms), purse=money, public=bounds,
        )  # fmt: skip
        party.reading = reading
        tell(f"learning from {own.n_rows:,} rows and {len(own.names)} columns")
        message = party.learn(own, agreed=order)
        found: list[leakage.Rebuilt] = []
        if attack:
            tell("attacking the message")
            found = _attack(party, own)
        party.save(out)
        size = _write(message, out / MESSAGE, signer, sealer)
    told = describe_message(size[0], size[1], str(out / MESSAGE), verify=None if signer is None else signer.public)
    told |= {"sealed": f"to {sealer.fingerprint}" if sealer else "no", "model folder": f"{out} (stays here)"}
    _tell_fit(told, found, attack, as_json)


def _tell_fit(told: dict[str, Any], found: list[leakage.Rebuilt], attack: bool, as_json: bool) -> None:
    warning = leakage.warning(found)
    if as_json:
        typer.echo(to_json(told | {"rebuilt": [asdict(each) for each in found], "warning": warning}))
        return
    typer.echo("What leaves the house:")
    show(told)
    if attack:
        typer.echo("\nHow well a plain attack rebuilds each column from the message, on rows held back:")
        for line in leakage.lines(found):
            typer.echo(line)
    if warning:
        typer.secho(f"warning: {warning}", fg="yellow", err=True)


def _attack(party: Guest, own: Table) -> list[leakage.Rebuilt]:
    """Rebuild columns of a sample of rows from what the host would receive of them."""
    sample = np.random.default_rng(0).permutation(own.n_rows)[: leakage.MOST_ROWS]
    rows = replace(own.take(np.sort(sample)), ids=None)
    return leakage.reconstruct(party.represent(rows).values, rows)


def _purse(
    name: str,
    n_rows: int,
    learner: str,
    epochs: int | None,
    plan: Path | None,
    epsilon: float | None,
    delta: float | None,
) -> Purse | None:
    """Return what the guest may spend: its part of a plan, or a budget of its own."""
    if plan is not None and epsilon is not None:
        raise parameter_error("fedonce guest fit", "--epsilon", "left out where there is a --plan", epsilon)
    if plan is not None:
        return purse(Plan.from_file(plan), name)
    if epsilon is None:
        return None
    delta = 1 / (10 * n_rows) if delta is None else delta
    check_budget(epsilon, delta, "fedonce guest fit")
    tasks = learners.make(learner, epochs, "fedonce guest fit").private_tasks(n_rows, 1.0, epsilon == float("inf"))
    return purse(calibrate([replace(task, party=name) for task in tasks], epsilon, delta), name)


def estimator_seed(seed: int) -> int:
    """Return the seed that an estimator gives its parties: `--seed 0` and `random_state=0` are the same training."""
    return int(check_random_state(seed).randint(2**31 - 1))


def _write(
    message: Representation, path: Path, signer: PrivateKey | None, sealer: PublicKey | None
) -> tuple[Representation, int]:
    """Write the message, signed and sealed where it is wanted; return it with the size of its file."""
    if signer is not None:
        message = replace(message, signature=signer.sign(message.checksum))
    data = message.to_bytes() if sealer is None else seal(message.to_bytes(), sealer)
    write_file(path, data)
    return message, len(data)


@guest.command()
def represent(
    table: TableFile,
    model: Annotated[Path, typer.Option(help="The guest's folder, from `fedonce guest fit`.")],
    out: Annotated[Path, typer.Option(help="The message's file.")],
    rows: RowsFile = None,
    secret: Secret = None,
    plain_ids: PlainIds = False,
    normalise_ids: Normalise = "",
    sign: Sign = None,
    seal_to: SealTo = None,
    key: PrivateKeyFile = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Make the message for rows that the host is to predict, with the model that stayed here."""
    signer, sealer = private_key(sign), None if seal_to is None else read_public(seal_to)
    with progress(quiet) as tell:
        party = Guest.load(model)
        if party.reading is None:
            raise InputError(
                f"The model in {model} does not say how tables are read; represent rows in Python, as it was made."
            )
        party.naming = naming(secret, plain_ids, parse_forms(normalise_ids))
        order = None if rows is None else agreed(rows, private_key(key))
        tell(f"reading {table}")
        own = party.reading.read(table, party.name)
        tell(f"representing {own.n_rows:,} rows")
        message, size = _write(party.represent(own, agreed=order), out, signer, sealer)
    told = describe_message(message, size, str(out), verify=None if signer is None else signer.public)
    told["sealed"] = f"to {sealer.fingerprint}" if sealer else "no"
    if as_json:
        typer.echo(to_json(told))
        return
    typer.echo("What leaves the house:")
    show(told)


def inspect(
    file: Annotated[Path, typer.Argument(help="A message, *.fedonce.", show_default=False)],
    key: PrivateKeyFile = None,
    verify: Annotated[Path | None, typer.Option(help="Public key of the guest, to verify the signature.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what is in a message, for the person who signs off: what leaves the house."""
    told = inspect_file(file, private_key(key), None if verify is None else read_public(verify))
    if as_json:
        typer.echo(to_json(told))
    else:
        show(told)
