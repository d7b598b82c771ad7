"""Options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

TableFile = Annotated[Path, typer.Argument(help="CSV, TSV, Parquet or Arrow file, by its ending.", show_default=False)]
Id = Annotated[
    str | None,
    typer.Option("--id", help="Column of ids. Without it rows are known by position, the same in every table."),
]
Run = Annotated[str, typer.Option(help="Name of the training; messages of another one are refused.")]
Columns = Annotated[str | None, typer.Option(help="Columns to use, with commas. Default: all.")]
Drop = Annotated[str | None, typer.Option(help="Columns to leave out, with commas.")]
Types = Annotated[
    list[str] | None, typer.Option("--type", help="COLUMN=number, category, boolean or date, where the guess is wrong.")
]
Secret = Annotated[
    Path | None, typer.Option(help="Secret that the parties share (`fedonce keys secret`): ids travel as keyed hashes.")
]
Normalise = Annotated[str, typer.Option("--normalise-ids", help="Make ids alike first: some of trim,lower,nfkc.")]
Seed = Annotated[int, typer.Option(help="Seed; as random_state of an estimator.", min=0)]
PlanFile = Annotated[Path | None, typer.Option("--plan", help="Privacy plan of `fedonce privacy plan`.")]
PublicFile = Annotated[
    Path | None,
    typer.Option(
        "--public", help="With a budget: TOML or JSON with what is public, [bounds], [categories] and labels."
    ),
]
PrivateKeyFile = Annotated[Path | None, typer.Option("--key", help="Private key to open sealed files.")]
Rows = "Rows agreed in an alignment (`fedonce align finish`)."
RowsFile = Annotated[Path | None, typer.Option("--rows", help=f"{Rows} The message then has no ids at all.")]
PlainIds = Annotated[bool, typer.Option("--plain-ids", help="Send ids as they are.")]
Sign = Annotated[Path | None, typer.Option(help="Private key to sign the message with (`fedonce keys new`).")]
SealTo = Annotated[Path | None, typer.Option(help="Public key of the host: only the host can open the file.")]
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
