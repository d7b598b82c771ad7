"""Options that commands share, and what they mean to the library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedonce.errors import InputError
from fedonce.system.sizes import size
from fedonce.system.text import duration, names

if TYPE_CHECKING:
    from fedonce.jobs import Care, Incoming, Limits, ModelRows, RowNames, Sealing, TableSource

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
    Privacy(
        "--public", help="With a budget or a local epsilon: TOML or JSON of what is public: bounds, categories, labels."
    ),
]
RefuseAbove = Annotated[
    float | None,
    Privacy(
        help="Write nothing where a quick attack rebuilds more than this part of what guessing gets wrong, of any column or of "
        "whole records.",
        min=0,
        max=1,
    ),
]
PrivateKeyFile = Annotated[Path | None, Messages("--key", help="Private key to open sealed files.")]
Rows = "Rows agreed in an alignment (`fedonce align finish`)."
RowsFile = Annotated[Path | None, IdsAndRows("--rows", help=f"{Rows} The message then has no ids at all.")]
PlainIds = Annotated[bool, IdsAndRows("--plain-ids", help="Send ids as they are.")]
UnkeyedIds = Annotated[
    bool,
    IdsAndRows("--unkeyed-ids", help="Send hashes of ids without a key: anyone who can list the ids can undo them."),
]
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


def pairs(given: Sequence[str] | None, option: str, meaning: str) -> dict[str, str]:
    """Return NAME=VALUE options as a dict."""
    found = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise InputError(f"The option {option} must be like {meaning}. Got {text!r}.")
        found[name] = value
    return found


# Options that go together: parameters of commands that are `unfolded`.


@dataclass(frozen=True)
class TableOptions:
    """Of a table to learn from."""

    id: Id = None
    columns: Columns = None
    drop: Drop = None
    types: Types = None

    def source(self, path: Path) -> TableSource:
        """Return where the table is, and which of it is used."""
        from fedonce.jobs import TableSource

        columns = None if self.columns is None else names(self.columns)
        return TableSource(path, self.id, columns, names(self.drop), pairs(self.types, "--type", "age=number"))


@dataclass(frozen=True)
class LeavingOptions:
    """Of a guest's message: how it names rows, who signs it, who can open it."""

    rows: RowsFile = None
    secret: Secret = None
    plain_ids: PlainIds = False
    unkeyed_ids: UnkeyedIds = False
    normalise_ids: Normalise = ""
    sign: Sign = None
    seal_to: SealTo = None
    key: PrivateKeyFile = None

    def row_names(self) -> RowNames:
        """Return how the message names rows."""
        from fedonce.jobs import RowNames
        from fedonce.rows.ids import parse_forms

        forms = parse_forms(self.normalise_ids)
        return RowNames(self.secret, self.plain_ids, forms, self.rows, self.key, self.unkeyed_ids)

    def sealing(self) -> Sealing:
        """Return who signs it, and who can open it."""
        from fedonce.jobs import Sealing

        return Sealing(self.sign, self.seal_to)


@dataclass(frozen=True)
class LimitOptions:
    """How much is taken of others."""

    max_dim: MaxDim = None
    max_message: MaxMessage = None
    max_memory: MaxMemory = None

    def limits(self) -> Limits:
        """Return them in bytes."""
        from fedonce.jobs import Limits

        sizes = [None if text is None else size(text) for text in (self.max_message, self.max_memory)]
        return Limits(self.max_dim, *sizes)


@dataclass(frozen=True)
class IncomingOptions:
    """Of messages that arrive: where, and with what they are opened, verified and matched."""

    guest: Guests = None
    inbox: Inbox = None
    expect: Expect = None
    deadline: Deadline = "0s"
    verify: Verify = None
    key: PrivateKeyFile = None
    rows: RowsFiles = None
    secret: Secret = None
    replace: Replace = False

    def incoming(self, limits: LimitOptions, least: int = 1) -> Incoming:
        """Return where messages come from."""
        from fedonce.jobs import Incoming

        return Incoming(
            self.guest or (),
            self.inbox,
            names(self.expect),
            duration(self.deadline),
            least,
            pairs(self.verify, "--verify", "shop=shop.pub"),
            self.key,
            self.rows or (),
            self.secret,
            self.replace,
            limits.limits(),
        )


@dataclass(frozen=True)
class CareOptions:
    """Of a prediction: who must be there, and whether odd messages are refused."""

    min_guests: NeededGuests = None
    min_overlap: NeededOverlap = None
    allow_absent: AllowAbsent = False
    strict: Strict = False

    def care(self) -> Care:
        """Return what a prediction must have."""
        from fedonce.jobs import Care
        from fedonce.party.presence import Needed

        return Care(Needed(self.min_guests, self.min_overlap, self.allow_absent), self.strict)


def model_rows(
    table: Path, model: Path, incoming: IncomingOptions, care: CareOptions, limits: LimitOptions
) -> ModelRows:
    """Return rows for a trained model, and what guests sent for them."""
    from fedonce.jobs import ModelRows

    return ModelRows(table, model, incoming.incoming(limits), care.care())
