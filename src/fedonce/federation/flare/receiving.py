"""How the server takes the guests' files: piece by piece, each guest's no longer than allowed, so that nobody fills its disk.

It is FLARE's protocol of streams (`FileStreamer` sends), with a receiver of our own: FLARE's writes whatever comes. Imports
neither torch nor numpy, as `server_app`.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.streaming import ConsumerFactory, ObjectConsumer
from nvflare.app_common.streamers.file_streamer import KEY_DATA, KEY_EOF, KEY_FILE_LOCATION, KEY_FILE_SIZE

MOST_STREAMS = 8  # files that a guest may have open at a time: one is enough, others are of tries it gave up


class Inbox(ConsumerFactory):  # type: ignore[misc]
    """Gives each stream a file in a folder, and counts what a guest has under way in all of its streams.

    Parameters
    ----------
    folder : path
        Where the files are.
    limit : int
        Bytes that a guest may have under way.
    wanted : callable
        Whether anything is wanted of a guest, by its name.
    too_large : callable
        Is told the name of a guest that sends more.
    """

    def __init__(
        self, folder: Path, limit: int, wanted: Callable[[str], bool], too_large: Callable[[str], None]
    ) -> None:
        self.folder, self.limit, self.wanted, self.too_large = folder, limit, wanted, too_large
        self.lock = threading.Lock()
        self.under_way: Counter[str] = Counter()
        self.streams: Counter[str] = Counter()

    def get_consumer(self, stream_ctx: dict[str, Any], fl_ctx: FLContext) -> Receiver | None:
        """Return what takes a new stream; nothing is taken of who is not asked, announces too much, or has too many open."""
        name, size = fl_ctx.get_peer_context().get_identity_name(), stream_ctx.get(KEY_FILE_SIZE)
        if not self.wanted(name):
            return None
        if type(size) is not int or size > self.limit:
            self.too_large(name)
            return None
        if size < 1 or not self._open(name):
            return None
        path = self.folder / str(uuid.uuid4())
        stream_ctx[KEY_FILE_LOCATION] = str(path)
        try:
            return Receiver(self, name, path, size)
        except OSError:  # FLARE finalizes no stream that has no receiver
            self.closed(name)
            raise

    def _open(self, name: str) -> bool:
        """Count a stream of a guest, where it may have one more."""
        with self.lock:
            free = self.streams[name] < MOST_STREAMS
            self.streams[name] += free
        return free

    def closed(self, name: str) -> None:
        """Count a stream no longer."""
        with self.lock:
            self.streams[name] -= 1

    def take(self, name: str, count: int) -> None:
        """Count what a guest sends; raise where it is too much."""
        with self.lock:
            self.under_way[name] += count
            enough = self.under_way[name] <= self.limit
        if not enough:
            self.too_large(name)
            raise ValueError(f"{name} sends more than {self.limit} bytes")

    def give_back(self, name: str, count: int) -> None:
        """Count no longer what is removed, or whole and kept."""
        with self.lock:
            self.under_way[name] -= count


class Receiver(ObjectConsumer):  # type: ignore[misc]
    """One stream on its way into a file. What it raises ends the stream, and FLARE then calls `finalize`."""

    def __init__(self, inbox: Inbox, name: str, path: Path, size: int) -> None:
        self.inbox, self.name, self.path, self.size = inbox, name, path, size
        self.counted = 0
        self.path.touch(mode=0o600)
        self.file = self.path.open("wb")

    def consume(self, shareable: Shareable, stream_ctx: dict[str, Any], fl_ctx: FLContext) -> tuple[bool, Shareable]:
        """Write a piece, once it is clear that there is room for it."""
        piece = shareable.get(KEY_DATA) or b""
        if not isinstance(piece, bytes | bytearray | memoryview) or not self.inbox.wanted(self.name):
            raise ValueError(f"what {self.name} sends is not wanted")
        self.counted += len(piece)
        self.inbox.take(self.name, len(piece))
        if self.counted > self.size:
            raise ValueError(f"{self.name} sends more than the {self.size} bytes that it announced")
        self.file.write(piece)
        if shareable.get(KEY_EOF) and self.counted != self.size:
            raise ValueError(f"{self.name} sent {self.counted} bytes of {self.size}")
        return not shareable.get(KEY_EOF), make_reply(ReturnCode.OK)

    def finalize(self, stream_ctx: dict[str, Any], fl_ctx: FLContext) -> None:
        """Close the file, and remove what is not whole."""
        if self.file.closed:
            return  # a stream is given back once
        self.file.close()
        self.inbox.closed(self.name)
        self.inbox.give_back(self.name, self.counted)
        if self.counted != self.size:
            self.path.unlink(missing_ok=True)
