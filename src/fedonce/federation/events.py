"""The host's log of a federation: events as JSON lines in the model's folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedonce.federation.status import GuestStatus

Watch = Callable[[GuestStatus], None]


@dataclass
class Log:
    """Who stands where, and when; never a value of the data."""

    path: Path
    watch: Watch
    stage: str = "learn"

    def __call__(self, status: GuestStatus) -> None:
        """Write a line, and pass the news on."""
        self.write(stage=self.stage, **status.as_json())
        self.watch(status)

    def write(self, **event: Any) -> None:
        """Write a line."""
        line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **event})
        self.path.touch(mode=0o600)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
