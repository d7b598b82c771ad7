"""What a host keeps beside a model that was trained over a federation: whom to ask for predictions, and for which models."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from fedonce.errors import InputError
from fedonce.system.disk import write_file
from fedonce.system.sizes import MESSAGE_LIMIT

FOLDER, FACTS, EVENTS, RECEIVED = "federation", "run.json", "events.jsonl", "received"


@dataclass(frozen=True)
class Facts:
    """Facts of a training.

    Parameters
    ----------
    kit : str
        The host's kit.
    models : dict by guest
        By which fingerprint each guest knows its model.
    run, forms, secret
        The run's name, how ids are made alike, and the file of the parties' secret.
    max_message, max_memory : int
        How much is taken of guests.
    hints : str
        With which epsilon labels were hinted at, and which label; empty: none were.
    """

    kit: str
    models: dict[str, str]
    run: str = ""
    forms: tuple[str, ...] = ()
    secret: str | None = None
    max_message: int = MESSAGE_LIMIT
    max_memory: int | None = None
    hints: str = ""

    def write(self, model: Path) -> None:
        """Write them into a model's folder."""
        write_file(model / FOLDER / FACTS, json.dumps(asdict(self), indent=2).encode(), private=True)

    @classmethod
    def read(cls, model: Path) -> Facts:
        """Read them from a model's folder."""
        try:
            found = json.loads((model / FOLDER / FACTS).read_text(encoding="utf-8"))
            secret, limits = found["secret"], (found.get("max_message", MESSAGE_LIMIT), found.get("max_memory"))
            hints = str(found.get("hints", ""))
            return cls(str(found["kit"]), dict(found["models"]), found.get("run", ""), (), secret, *limits, hints)
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(
                f"The folder {model} has no model that was trained over a federation; name the folder that such a training wrote "
                "(`fedonce federation fit`).",
                parameter="model",
            ) from None
