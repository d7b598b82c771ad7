"""`fedonce guest` and `fedonce inspect`: learn, see what leaves the house, represent new rows."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedonce.cli.options import (
    Columns,
    Drop,
    Id,
    Normalise,
    Output,
    PlainIds,
    PlanFile,
    Privacy,
    PrivateKeyFile,
    PublicFile,
    RowsFile,
    Run,
    SealTo,
    Secret,
    Seed,
    Sign,
    TableFile,
    Training,
    Types,
)
from fedonce.cli.terminal import AsJson, Quiet, one_line, progress, show, to_json, warn
from fedonce.errors import InputError
from fedonce.learners.names import OURS

if TYPE_CHECKING:
    from fedonce.assess.leakage import ColumnLeakage

MESSAGE = "representation.fedonce"

guest = typer.Typer(help="A party without labels: learn, and send one file.", no_args_is_help=True)


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
    learner: Annotated[str, Training(help=f"{', '.join(OURS)}; or one of another package.")] = "auto",
    dim: Annotated[int, Training(help="Values a row.", min=1)] = 8,
    bits: Annotated[int, Training(help="Bits per value: 32 is exact, fewer weigh less and tell less.")] = 8,
    epochs: Annotated[int | None, Training(help="Default: the learner's own.", min=1)] = None,
    noise: Annotated[float, Privacy(help="Noise on every value that leaves, rows clipped to norm 1.")] = 0.0,
    rows: RowsFile = None,
    secret: Secret = None,
    plain_ids: PlainIds = False,
    normalise_ids: Normalise = "",
    plan: PlanFile = None,
    epsilon: Annotated[float | None, Privacy(help="A privacy budget of this guest alone, without a plan.")] = None,
    delta: Annotated[float | None, Privacy(help="With --epsilon. Default: 1 / (10 rows).")] = None,
    public_file: PublicFile = None,
    sign: Sign = None,
    seal_to: SealTo = None,
    key: PrivateKeyFile = None,
    seed: Seed = 0,
    replace_model: Annotated[
        bool, Output("--replace", help="Learn anew where the folder has a model; it is then lost.")
    ] = False,
    attack: Annotated[bool, Privacy("--attack/--no-attack", help="Try to rebuild columns from the message.")] = True,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Learn from a table without labels; write the model (it stays) and the one message (it leaves).

    Asks nothing of anybody. Prints what leaves the house, and how well a plain attack rebuilds each column from it.
    """
    from fedonce.assess.inspection import describe_message
    from fedonce.jobs import steps
    from fedonce.messages.keys import read_public
    from fedonce.party import Guest, storage
    from fedonce.rows.ids import parse_forms

    steps.check_folder(out)
    forms = parse_forms(normalise_ids)
    with progress(quiet) as tell, storage.alone(out, tell):
        storage.settle(out)
        if storage.exists(out) and (out / MESSAGE).exists() and not replace_model:
            raise InputError(
                f"The folder {out} has a model and its message already. Name another folder, or learn anew with --replace: "
                "messages that were sent before then no longer fit."
            )
        steps.warn_of_spent(out)
        signer, sealer = steps.private_key(sign), None if seal_to is None else read_public(seal_to)
        order = None if rows is None else steps.agreed(rows, steps.private_key(key))
        bounds, _ = steps.public(public_file, plan is not None or epsilon is not None)
        tell(f"reading {table}")
        own, reading = steps.read(table, name, id, columns, drop, types)
        if own.ids is None and (order is not None or secret is not None or plain_ids or forms):
            raise InputError(
                "Name the column of ids with --id, or leave --rows, --secret, --plain-ids and --normalise-ids out."
            )
        purse = steps.guest_purse(name, own.n_rows, learner, epochs, plan, epsilon, delta)
        party = Guest(
            name,
            learner,
            dim,
            bits,
            epochs,
            run=run,
            noise=noise,
            random_state=steps.estimator_seed(seed),
            naming=steps.naming(secret, plain_ids, forms),
            purse=purse,
            public=bounds,
            reading=reading,
        )
        steps.warn_if_guessable(party, own, order, party.naming)
        tell(f"learning from {own.n_rows:,} rows and {len(own.names)} columns")
        message = party.learn(own, agreed=order)
        found: list[ColumnLeakage] = []
        if attack:
            tell("attacking the message")
            found = steps.attack(party, own)
        message, size = steps.save_guest(party, message, out, MESSAGE, signer, sealer)
    told = describe_message(message, size, str(out / MESSAGE), verify=None if signer is None else signer.public)
    told |= {"sealed": f"to {sealer.fingerprint}" if sealer else "no", "model folder": f"{out} (stays here)"}
    _tell_fit(told, found, attack, as_json)


def _tell_fit(told: dict[str, Any], found: list[ColumnLeakage], attack: bool, as_json: bool) -> None:
    from fedonce.assess import leakage

    warning = leakage.warning(found)
    if as_json:
        typer.echo(to_json(told | {"rebuilt": [asdict(each) for each in found], "warning": warning}))
        return
    typer.echo("What leaves the house:")
    show(told)
    if attack:
        typer.echo("\nHow well a plain attack rebuilds each column from the message, on rows held back:")
        for line in leakage.lines(found):
            typer.echo(one_line(line))
    if warning:
        warn(warning)


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
    from fedonce.assess.inspection import describe_message
    from fedonce.jobs import steps
    from fedonce.messages.keys import read_public
    from fedonce.party import Guest
    from fedonce.rows.ids import parse_forms

    with progress(quiet) as tell:
        signer, sealer = steps.private_key(sign), None if seal_to is None else read_public(seal_to)
        party = Guest.load(model)
        if party.reading is None:
            raise InputError(
                f"The model in {model} does not say how tables are read; represent rows in Python, as it was made."
            )
        forms = parse_forms(normalise_ids) or (party.learnt_naming[1] if party.learnt_naming else ())
        named = steps.naming(secret, plain_ids, forms) if secret or plain_ids or normalise_ids else party.naming
        order = None if rows is None else steps.agreed(rows, steps.private_key(key))
        tell(f"reading {table}")
        own = party.reading.read(table, party.name)
        steps.warn_if_guessable(party, own, order, named)
        tell(f"representing {own.n_rows:,} rows")
        message = party.represent(own, agreed=order, naming=named)
        message, size = steps.write_message(message, out, signer, sealer)
    told = describe_message(message, size, str(out), verify=None if signer is None else signer.public)
    told["sealed"] = f"to {sealer.fingerprint}" if sealer else "no"
    if as_json:
        typer.echo(to_json(told))
        return
    typer.echo("What leaves the house:")
    show(told)


def inspect(
    file: Annotated[Path, typer.Argument(help="A message, *.fedonce, or a file of an alignment.", show_default=False)],
    key: Annotated[Path | None, typer.Option(help="Private key, to open a sealed file.")] = None,
    verify: Annotated[Path | None, typer.Option(help="Public key of the guest, to verify the signature.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what is in a message or a file of an alignment, for the person who signs off: what leaves the house."""
    from fedonce.assess.inspection import inspect as inspect_file
    from fedonce.messages.keys import read_private, read_public
    from fedonce.party import storage

    with progress(quiet=True):  # warnings are lines here, too
        if not file.exists():
            with suppress(InputError):  # a message that an interrupted fit did not move to its place
                storage.settle(file.parent)
        told = inspect_file(
            file, None if key is None else read_private(key), None if verify is None else read_public(verify)
        )
    if as_json:
        typer.echo(to_json(told))
    else:
        show(told)
