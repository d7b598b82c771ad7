"""What the commands of guests and hosts share: which table, which ids, which keys, which budget."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fedonce.alignment import AgreedRows
from fedonce.crypto import PrivateKey, PublicKey, read_private, read_public, read_secret, unseal
from fedonce.envelope import kind_of, read_bytes
from fedonce.errors import InputError, parameter_error
from fedonce.ids import Naming
from fedonce.preparation import Public
from fedonce.privacy.budget import Plan, Purse
from fedonce.privacy.noise import SecretRandom
from fedonce.reading import Reading
from fedonce.tablefiles import read_table
from fedonce.tables import Table
from fedonce.terminal import pairs

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


def read(
    path: Path, party: str, id: str | None, columns: str | None, drop: str | None, types: Sequence[str] | None,
    label: str | None = None,
) -> tuple[Table, Reading]:  # fmt: skip
    """Read a table, and say how it was read, so that it is read alike at prediction. The label is the last column."""
    given = pairs(types or [], "--type", "age=number")
    wanted = None if columns is None else [*_listed(columns), *([label] if label else [])]
    table = read_table(path, id=id, columns=wanted, types=given, party=party)
    dropped = _listed(drop)
    unknown = [name for name in (*dropped, *([label] if label else ())) if name not in table.names]
    if unknown:
        known = ", ".join(map(str, table.names[:8]))
        raise InputError(
            f"{path} has no column {unknown[0]!r}; it has {known}{', ...' if len(table.names) > 8 else ''}."
        )
    kept = [name for name in map(str, table.names) if name not in dropped and name != label]
    if not kept:
        raise InputError(f"{path} has no column to learn from, besides {id!r} and {label!r}.")
    order = [*kept, *([label] if label else [])]
    table = table.select([table.names.index(name) for name in order])
    kinds = {str(name): kind for name, kind in table.kinds.items()}
    return table, Reading(id, tuple(kept), kinds, label)


def _listed(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def naming(secret: Path | None, plain: bool, forms: tuple[str, ...]) -> Naming | None:
    """Return how a guest's messages name rows; None: by hashes without a key, of which the guest is warned."""
    if secret is not None and plain:
        raise parameter_error("fedonce guest", "--plain-ids", "left out where there is a --secret", True)
    if secret is not None:
        return Naming("keyed", read_secret(secret), forms)
    if plain:
        return Naming("plain", forms=forms)
    return None if not forms else Naming("hashed", forms=forms)


def agreed(path: Path, key: PrivateKey | None) -> AgreedRows:
    """Read the rows that an alignment agreed on, sealed or not."""
    data = read_bytes(path, "file of agreed rows")
    if kind_of(data) == "sealed" and key is not None:
        data = unseal(data, key)
    return AgreedRows.from_bytes(data)


def private_key(path: Path | None) -> PrivateKey | None:
    """Read a private key, if there is one."""
    return None if path is None else read_private(path)


def public_keys(given: Sequence[str] | None) -> dict[str, PublicKey]:
    """Read the public keys of NAME=FILE options."""
    return {name: read_public(Path(path)) for name, path in pairs(given or [], "--verify", "shop=shop.pub").items()}


def public(path: Path | None) -> tuple[Public | None, Any]:
    """Read what is public of columns and labels."""
    if path is None:
        return None, None
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise InputError(f"{path} is neither TOML nor JSON, by its ending: {error}.") from None
    unknown = sorted(set(content) - {"bounds", "categories", "labels"}) if isinstance(content, Mapping) else ["?"]
    if unknown:
        raise InputError(f"{path} may have bounds, categories and labels. Got {unknown[0]!r}.")
    return Public(content.get("bounds"), content.get("categories", {})), content.get("labels")


def purse(plan: Plan, name: str) -> Purse:
    """Return what a party may spend by a plan."""
    return Purse(name, plan.of(name), plan.ledger(), SecretRandom())
