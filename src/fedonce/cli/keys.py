"""`fedonce keys`: keys to sign and to seal, and a secret that parties share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedonce.cli.help import command, group
from fedonce.cli.terminal import AsJson

keys = group("Keys to sign and seal files, and secrets that parties share.", "fedonce keys secret loans.secret")


@command(keys, "fedonce keys new shop", "fedonce keys new bank --out keys/")
def new(
    name: Annotated[str, typer.Argument(help="Name of the party.")],
    out: Annotated[Path, typer.Option(help="Folder for the two files.")] = Path("."),
    as_json: AsJson = False,
) -> None:
    """Make a party's keys: NAME.key, which never leaves it, and NAME.pub, for everybody it works with.

    With the private key the party signs its files (--sign) and opens those sealed to it (--key); with the public one others
    verify (--verify NAME=KEY) and seal (--seal-to KEY). Compare the fingerprint by another way than the file came.
    """
    from fedonce.messages import keys as crypto

    private, public = crypto.new_keys(name, out)
    fingerprint = crypto.read_public(public).fingerprint
    if as_json:
        typer.echo(json.dumps({"private": str(private), "public": str(public), "fingerprint": fingerprint}, indent=2))
        return
    typer.echo(f"private key  {private}  keep it; give it to nobody, send it nowhere")
    typer.echo(f"public key   {public}  give it to the parties you work with")
    typer.echo(f"fingerprint  {fingerprint}  read it to them by telephone")


@command(keys, "fedonce keys secret loans.secret")
def secret(
    file: Annotated[Path, typer.Argument(help="File to write.")],
    as_json: AsJson = False,
) -> None:
    """Make a secret that the parties of a training share, to hash ids with (--secret FILE).

    Whoever has it can try ids against a file's hashes: it goes to the parties, by another way than their files, and to nobody
    else. Every party uses the same file.
    """
    from fedonce.messages import keys as crypto
    from fedonce.rows import ids

    fingerprint = ids.fingerprint(crypto.new_secret(file))
    if as_json:
        typer.echo(json.dumps({"secret": str(file), "fingerprint": fingerprint}, indent=2))
        return
    typer.echo(f"secret       {file}  give it to the parties, by another way than their files, and to nobody else")
    typer.echo(f"fingerprint  {fingerprint}  the same at every party")
