"""Options that commands share."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

# What an option is about: a group of its own in the printed help.
Messages = partial(typer.Option, rich_help_panel="Messages")
IdsAndRows = partial(typer.Option, rich_help_panel="Ids and rows")
InTable = partial(typer.Option, rich_help_panel="Table")
Training = partial(typer.Option, rich_help_panel="Training")
Privacy = partial(typer.Option, rich_help_panel="Privacy")
Output = partial(typer.Option, rich_help_panel="Output")

TableFile = Annotated[Path, typer.Argument(help="CSV, TSV, Parquet or Arrow file, by its ending.", show_default=False)]
Id = Annotated[
    str | None,
    IdsAndRows("--id", help="Column of ids. Without it rows are known by position, the same in every table."),
]
Run = Annotated[str, typer.Option(help="Name of the training; messages of another one are refused.")]
Columns = Annotated[str | None, InTable(help="Columns to use, with commas. Default: all.")]
Drop = Annotated[str | None, InTable(help="Columns to leave out, with commas.")]
Types = Annotated[
    list[str] | None, InTable("--type", help="COLUMN=number, category, boolean or date, where the guess is wrong.")
]
Secret = Annotated[
    Path | None, IdsAndRows(help="Secret that the parties share (`fedonce keys secret`): ids travel as keyed hashes.")
]
Normalise = Annotated[str, IdsAndRows("--normalise-ids", help="Make ids alike first: some of trim,lower,nfkc.")]
Seed = Annotated[int, Training(help="Seed; as random_state of an estimator.", min=0)]
PlanFile = Annotated[Path | None, Privacy("--plan", help="Privacy plan of `fedonce privacy plan`.")]
PublicFile = Annotated[
    Path | None,
    Privacy("--public", help="With a budget: TOML or JSON of what is public: bounds, categories, labels."),
]
PrivateKeyFile = Annotated[Path | None, Messages("--key", help="Private key to open sealed files.")]
Rows = "Rows agreed in an alignment (`fedonce align finish`)."
RowsFile = Annotated[Path | None, IdsAndRows("--rows", help=f"{Rows} The message then has no ids at all.")]
PlainIds = Annotated[bool, IdsAndRows("--plain-ids", help="Send ids as they are.")]
Sign = Annotated[Path | None, Messages(help="Private key to sign the message with (`fedonce keys new`).")]
SealTo = Annotated[Path | None, Messages(help="Public key of the host: only the host can open the file.")]
Guests = Annotated[list[Path] | None, Messages("--guest", help="A guest's message; once for each.", show_default=False)]
Inbox = Annotated[Path | None, Messages(help="Folder in which messages arrive.")]
Expect = Annotated[str | None, Messages(help="Guests to wait for, with commas.")]
Deadline = Annotated[str, Messages(help="How long to wait for them: 90s, 30m, 2h, 1d.")]
Verify = Annotated[
    list[str] | None,
    Messages(
        "--verify",
        help="NAME=KEY: that guest's message must be signed with the key. Messages without a key are refused.",
    ),
]
Replace = Annotated[
    bool, Messages("--replace", help="A second, different message of a guest takes the place of the first.")
]
RowsFiles = Annotated[list[Path] | None, IdsAndRows("--rows", help=f"{Rows} Once for each guest.")]
Model = Annotated[Path, typer.Option(help="The host's folder, from `fedonce host fit`.")]
NeededGuests = Annotated[
    int | None,
    Messages(
        "--min-guests",
        help="With fewer guests, stop (exit code 6). Default: all of the training.",
        min=0,
        show_default=False,
    ),
]
NeededOverlap = Annotated[
    float | None,
    Messages(
        "--min-overlap",
        help="Share of the rows, 0 to 1, that a guest must have. Default: half of its share in training.",
        min=0,
        max=1,
        show_default=False,
    ),
]
AllowAbsent = Annotated[
    bool, Messages("--allow-absent", help="Any guest may be missing, all of them included: zeros in its place.")
]
Strict = Annotated[
    bool,
    Messages("--strict", help="Refuse messages that do not look like those of the training, instead of a warning."),
]
MaxDim = Annotated[
    int | None,
    Messages("--max-dim", help="Most values per row of a message. Default: 1,024, or the model's own.", min=1),
]
MaxMessage = Annotated[
    str | None,
    Messages("--max-message", help="Largest file that is read, as in 500MB. Default: 4GB.", show_default=False),
]
MaxMemory = Annotated[
    str | None,
    Messages(
        "--max-memory",
        help="Most memory for the guests' values, as in 8GB. Default: a quarter of the machine's.",
        show_default=False,
    ),
]
LeastGuests = Annotated[int, Messages("--min-guests", help="With fewer, stop (exit code 6).", min=0)]
