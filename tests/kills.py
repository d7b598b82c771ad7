"""Kills a command at a chosen file-system call, without a process for each: from that call on nothing has any effect."""

from __future__ import annotations

import builtins
import io
import os
from pathlib import Path

CALLS = ("replace", "rename", "unlink", "mkdir", "rmdir", "fsync", "chmod", "link")


class Killed(BaseException):
    """The process is dead; handlers may run, and can do nothing."""


class Kill:
    """Counts the moments at which a process can be killed, before and after each call, and kills it at one of them."""

    def __init__(self, at: int | None = None) -> None:
        self.at, self.moments = at, 0

    def moment(self) -> None:
        self.moments += 1
        if self.at is not None and self.moments >= self.at:
            raise Killed

    def wrap(self, call):
        def wrapped(*given, **named):
            self.moment()
            result = call(*given, **named)
            self.moment()
            return result

        return wrapped

    def patch(self, monkeypatch) -> None:
        monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # slow, and of no effect on who is killed
        for name in CALLS:
            monkeypatch.setattr(os, name, self.wrap(getattr(os, name)))
        open_low, open_high, write = os.open, io.open, Path.write_bytes

        def opened_low(path, flags, *given, **named):
            writes = flags & (os.O_WRONLY | os.O_RDWR)
            return (self.wrap(open_low) if writes else open_low)(path, flags, *given, **named)

        def opened_high(file, mode="r", *given, **named):
            writes = set(mode) & set("wax+") and not isinstance(file, int)
            return (self.wrap(open_high) if writes else open_high)(file, mode, *given, **named)

        def torn(path, data):
            write(path, data[: len(data) // 2])
            self.moment()
            return write(path, data)

        monkeypatch.setattr(os, "open", opened_low)
        monkeypatch.setattr(io, "open", opened_high)
        monkeypatch.setattr(builtins, "open", opened_high)
        monkeypatch.setattr(Path, "write_bytes", self.wrap(torn))
