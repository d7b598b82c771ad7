"""How a party's table is read: remembered with its model, so that at prediction, or trained again, it is read as at training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedonce.data.files import read_table
from fedonce.data.table import Table


@dataclass(frozen=True)
class Reading:
    """The column of ids, the columns to learn from in their order, the kind of each, and the host's column of labels.

    At a host also how much rows count in training: by a column of weights, and by class ("balanced", or a weight by class).
    """

    id: str | None
    columns: tuple[str, ...]
    types: Mapping[str, str] = field(default_factory=dict)
    label: str | None = None
    weight: str | None = None
    class_weight: str | Mapping[str, float] | None = None

    def read(self, path: str | Path, party: str, with_label: bool = False, with_weight: bool = False) -> Table:
        """Read a table with the same columns, of the same kinds; then the label and the weights, where they are wanted."""
        more = (self.label if with_label else None, self.weight if with_weight else None)
        wanted = (*self.columns, *(name for name in more if name is not None))
        known = set(wanted)
        types = {name: kind for name, kind in self.types.items() if name in known}  # rows to predict have no label
        return read_table(path, id=self.id, columns=wanted, types=types, party=party)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        content = {"id": self.id, "columns": list(self.columns), "types": dict(self.types), "label": self.label}
        weighed = {"weight": self.weight, "class_weight": self.class_weight}
        return content | {name: value for name, value in weighed.items() if value is not None}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Reading:
        """Take them back."""
        weighed = content.get("weight"), content.get("class_weight")
        return cls(content["id"], tuple(content["columns"]), dict(content["types"]), content["label"], *weighed)
