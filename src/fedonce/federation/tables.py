"""Where a guest's tables are, and what it leaves out of them: `guest.toml` in its kit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedonce.data.preparation import Public
from fedonce.federation import tomlfile
from fedonce.federation.request import Request
from fedonce.federation.tomlfile import NAMES, TABLE, TEXT, Kind
from fedonce.jobs.settings import public_knowledge
from fedonce.system.disk import write_file

_TABLE_PATHS = ("data", "predict", "secret", "public", "policy")
_KINDS = Kind("columns with a type each", lambda value: TABLE.fits(value) and all(map(TEXT.fits, value.values())))
_TABLES = dict.fromkeys(("id", *_TABLE_PATHS), TEXT) | {"drop": NAMES, "types": _KINDS}


@dataclass(frozen=True)
class GuestTables:
    """What a guest takes part with: `guest.toml` in its kit.

    Parameters
    ----------
    data : Path
        Table to learn from.
    id : str
        Column that says who a row is.
    predict : Path, optional
        Table of the rows to be predicted; None: `data`.
    drop : tuple of str
        Columns to leave out.
    types : dict
        Columns to "number", "category", "boolean" or "date", where the guess is wrong.
    secret : Path, optional
        Secret that the parties share, to hash ids with.
    public : Path, optional
        What is public of the columns, for a privacy budget.
    policy : Path, optional
        What the guest allows; None: `policy.toml` of its kit.
    """

    data: Path
    id: str
    predict: Path | None = None
    drop: tuple[str, ...] = ()
    types: dict[str, str] = field(default_factory=dict)
    secret: Path | None = None
    public: Path | None = None
    policy: Path | None = None

    def public_for(self, request: Request) -> Public | None:
        """Return what is public of the columns, where a request has a budget or a local epsilon that needs it."""
        if request.plan is None and request.local_epsilon is None:
            return None
        return public_knowledge(self.public)[0] or Public()

    def to_file(self, path: Path) -> None:
        """Write the file; paths in it are absolute."""
        values = {key: getattr(self, key) for key in _TABLES if getattr(self, key)}
        texts = {key: value.absolute() if isinstance(value, Path) else value for key, value in values.items()}
        write_file(path, toml(texts).encode(), private=True)

    @classmethod
    def from_file(cls, path: Path) -> GuestTables:
        """Read the file; a relative path in it counts from where the file is."""
        what = "file of a guest's tables"
        content = tomlfile.load(path, what)
        tomlfile.check(path, what, content, _TABLES)
        tomlfile.needed(path, content, ("data", "id"), {"data": '"/data/shop.csv"', "id": '"customer"'})
        values = {key: path.parent / value if key in _TABLE_PATHS else value for key, value in content.items()}
        return cls(**values | {"drop": tuple(content.get("drop", ()))})


def toml(values: Mapping[str, Any]) -> str:
    r"""Return names and values as TOML: texts, numbers, lists and dicts of texts.

    >>> toml({"name": "shop", "port": 8002, "drop": ["a", "b"], "types": {"zip code": "category"}})
    'name = "shop"\nport = 8002\ndrop = ["a", "b"]\ntypes = {"zip code" = "category"}\n'
    """

    def text(value: Any) -> str:
        if isinstance(value, Mapping):
            return "{" + ", ".join(f"{text(key)} = {text(each)}" for key, each in value.items()) + "}"
        if isinstance(value, list | tuple):
            return "[" + ", ".join(text(each) for each in value) + "]"
        return json.dumps(value if isinstance(value, int) else str(value), ensure_ascii=False).replace(
            "\x7f", "\\u007f"
        )

    return "".join(f"{key} = {text(value)}\n" for key, value in values.items())
