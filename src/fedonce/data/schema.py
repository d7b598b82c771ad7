"""How a party's table is read: remembered with its model, so that at prediction it is read as at training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedonce.data.files import read_table
from fedonce.data.table import Table


@dataclass(frozen=True)
class Reading:
    """The column of ids, the columns to learn from in their order, the kind of each, and the host's column of labels."""

    id: str | None
    columns: tuple[str, ...]
    types: Mapping[str, str] = field(default_factory=dict)
    label: str | None = None

    def read(self, path: str | Path, party: str, with_label: bool = False) -> Table:
        """Read a table with the same columns, of the same kinds; with the label as last column where it is wanted."""
        wanted = self.columns if self.label is None or not with_label else (*self.columns, self.label)
        known = set(wanted)
        types = {name: kind for name, kind in self.types.items() if name in known}  # rows to predict have no label
        return read_table(path, id=self.id, columns=wanted, types=types, party=party)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"id": self.id, "columns": list(self.columns), "types": dict(self.types), "label": self.label}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Reading:
        """Take them back."""
        return cls(content["id"], tuple(content["columns"]), dict(content["types"]), content["label"])
