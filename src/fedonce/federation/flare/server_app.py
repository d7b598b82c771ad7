"""What the FLARE server runs for a job: hand the guests their task, take what they send, keep it in the job's folder.

It opens no message. Imports neither torch nor numpy: one such process runs for every job.
"""

from __future__ import annotations

import base64
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.app_common.streamers.file_streamer import FileStreamer

from fedonce.federation.flare.jobs import ANSWERS, CHANNEL, MESSAGE, PROGRESS, ROUND
from fedonce.federation.flare.receiving import Inbox
from fedonce.federation.status import SILENCE
from fedonce.system.sizes import MESSAGE_LIMIT, in_words

START = 30.0  # seconds at least for a guest's first sign: its process has to start
FETCH = 2.0  # seconds that one command waits for a guest's values: fewer than FLARE gives a command
LINGER = 10.0  # seconds for the host to take a message, or its next piece; then the job ends, and keeps it
PIECE = 4 << 20  # bytes of a message that one command takes


class Collect(Controller):  # type: ignore[misc]
    """Ask guests, by name, and keep their answers.

    Parameters
    ----------
    guests : list of str
        Whose answers are taken.
    silence : float
        Seconds without a sign after which a guest is given up.
    limit : int
        Bytes of the largest message that is taken.
    """

    def __init__(self, guests: list[str], silence: float = SILENCE, limit: int = MESSAGE_LIMIT) -> None:
        super().__init__(task_check_period=0.1)
        self.guests, self.silence, self.limit = list(guests), silence, limit
        self.lock = threading.Lock()
        self.states: dict[str, dict[str, Any]] = {name: {"state": "starting"} for name in self.guests}
        self.seen: dict[str, float] = {}
        self.started: dict[str, float] = {}
        self.settled: set[str] = set()  # guests whose message the host has, or of whom it knows that there is none
        self.last_piece = 0.0
        self.values: dict[str, tuple[int, Any]] = {}  # of rounds: the turn, and what is under way, by guest
        self.workers: ThreadPoolExecutor | None = None

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Listen to guests and to the host's commands."""
        engine = fl_ctx.get_engine()
        self.folder = Path(fl_ctx.get_workspace().get_run_dir(fl_ctx.get_job_id())) / ANSWERS
        self.folder.mkdir(mode=0o700, exist_ok=True)
        inbox = Inbox(self.folder, self.limit, self._wanted, self._refuse_large)
        engine.register_stream_processing(CHANNEL, MESSAGE, factory=inbox, stream_done_cb=self._received)
        engine.register_aux_message_handler(PROGRESS, self._progress)
        engine.register_app_command("progress", self._tell)
        engine.register_app_command("take", self._take)
        engine.register_app_command("post", self._post)
        engine.register_app_command("fetch", self._fetch)

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Hand out the task, and wait until every guest has answered or has been silent for too long."""
        now = time.monotonic()
        self.seen = dict.fromkeys(self.guests, now + max(0.0, START - self.silence))
        self.started = dict.fromkeys(self.guests, now)
        task = Task(name="answer", data=Shareable(), result_received_cb=self._answered)
        self.broadcast(task, fl_ctx, targets=self.guests, min_responses=len(self.guests))
        while not abort_signal.triggered and any(self._waiting(name) for name in self.guests):
            time.sleep(0.05)
        self.cancel_task(task, fl_ctx=fl_ctx)
        for name in self.guests:
            self._write(name)
        self._remove_pieces()
        self.last_piece = time.monotonic()
        while not abort_signal.triggered and time.monotonic() < self.last_piece + LINGER and self._unsettled():
            time.sleep(0.05)

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """End what serves the rounds."""
        if self.workers is not None:
            self.workers.shutdown(wait=False, cancel_futures=True)

    def process_result_of_unknown_task(
        self, client: Any, task_name: str, client_task_id: str, result: Shareable, fl_ctx: FLContext
    ) -> None:
        """Leave answers to nothing alone."""
        self.log_warning(fl_ctx, f"an answer of {client.name} to nothing that was asked is left out")

    def _waiting(self, name: str) -> bool:
        with self.lock:
            if self.states[name].get("done"):
                return False
            if time.monotonic() - self.seen[name] > self.silence:
                self.states[name] |= {"state": "silent", "done": True}
            return not self.states[name].get("done")

    def _unsettled(self) -> bool:
        with self.lock:
            return not self.settled >= set(self.guests)

    def _remove_pieces(self) -> None:
        """Keep nothing of messages that were cut short."""
        whole = {f"{name}.{ending}" for name in self.guests for ending in ("fedonce", "json")}
        for path in self.folder.iterdir():
            if path.name not in whole:
                path.unlink(missing_ok=True)

    def _progress(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        """Note what a guest says of itself; numbers and one word, nothing else is kept."""
        name = fl_ctx.get_peer_context().get_identity_name()
        with self.lock:
            if name in self.states and not self.states[name].get("done"):
                told = {key: request.get(key) for key in ("epoch", "epochs") if isinstance(request.get(key), int)}
                self.states[name] = {"state": str(request.get("state"))[:20], **told}
                self.seen[name] = time.monotonic()
        return make_reply(ReturnCode.OK)

    def _wanted(self, name: str) -> bool:
        """Tell whether a message of a guest may still come."""
        with self.lock:
            return name in self.states and not self.states[name].get("done") and name not in self.settled

    def _refuse_large(self, name: str) -> None:
        """Have no more to do with a guest that sends more than the host takes."""
        why = f"its message is larger than {in_words(self.limit)}, the most that the host takes (max_message)"
        with self.lock:
            self.states[name] = {"state": "refused", "reason": why, "done": True}

    def _received(self, stream_ctx: dict[str, Any], fl_ctx: FLContext, **_: Any) -> None:
        """Keep the first whole message of a guest that was asked; a second one is left out."""
        name = fl_ctx.get_peer_context().get_identity_name()
        found = Path(FileStreamer.get_file_location(stream_ctx))
        target = self.folder / f"{name}.fedonce"
        with self.lock:
            whole = FileStreamer.get_rc(stream_ctx) == ReturnCode.OK
            if not whole or name not in self.states or name in self.settled or target.exists():
                found.unlink(missing_ok=True)
                self.log_warning(fl_ctx, f"a message of {name} is left out: cut short, not asked for, or a second one")
                return
            os.chmod(found, 0o600)
            found.replace(target)
            self.seen[name] = time.monotonic()
        self.log_info(fl_ctx, f"a message of {name} is here: {target.stat().st_size} bytes")

    def _answered(self, client_task: ClientTask, fl_ctx: FLContext) -> None:
        """Note how a guest's task ended."""
        name, result = client_task.client.name, client_task.result
        state = str(result.get("state", "failed"))[:20] if isinstance(result, Shareable) else "failed"
        here = (self.folder / f"{name}.fedonce").exists()
        with self.lock:
            if state == "sent" and not here:
                state = "failed"
            told = {"state": state, "done": True}
            if isinstance(result, Shareable):
                wire = result.get("wire")
                told |= {
                    "reason": str(result.get("reason", ""))[:1000],
                    "wire": wire if isinstance(wire, int) else None,
                }
            told["seconds"] = round(time.monotonic() - self.started[name], 3)
            if self.states[name]["state"] != "refused":  # by the server, whatever the guest says of it
                self.states[name] = told
        client_task.result = None  # nothing of it is needed any more
        self._write(name)

    def _write(self, name: str) -> None:
        """Write how it went with a guest beside its message; once."""
        target = self.folder / f"{name}.json"
        if target.exists() or name not in self.states:
            return
        target.write_text(json.dumps(self.states[name]), encoding="utf-8")

    def _tell(self, topic: str, data: Any, fl_ctx: FLContext, *_: Any) -> dict[str, Any]:
        """Answer the host: where each guest stands."""
        with self.lock:
            self.settled |= {
                name for name, state in self.states.items() if state.get("done") and state["state"] != "sent"
            }
            return {"guests": {name: dict(state) for name, state in self.states.items()}}

    def _take(self, topic: str, data: Any, fl_ctx: FLContext, *_: Any) -> dict[str, Any]:
        """Give the host a piece of a guest's message; once the host has all of it, the server keeps none."""
        name, start = data["guest"], int(data["start"])
        path = self.folder / f"{name}.fedonce"
        if name not in self.guests or not path.exists():
            return {"state": "unknown"}
        if start >= path.stat().st_size:
            path.unlink()
            with self.lock:
                self.settled.add(name)
            return {"state": "taken"}
        self.last_piece = time.monotonic()
        with path.open("rb") as file:
            file.seek(start)
            return {"state": "here", "piece": base64.b64encode(file.read(PIECE)).decode()}

    def _post(self, topic: str, data: Any, fl_ctx: FLContext, *_: Any) -> dict[str, Any]:
        """Send a guest the host's part of a round, each turn once; its values are fetched by another command."""
        name, turn = data["guest"], int(data["turn"])
        content = {key: value for key, value in data.items() if key not in ("guest", "turn")}
        if name not in self.guests:
            return {"state": "unknown"}
        if self.values.get(name, (0, None))[0] >= turn:
            return {"state": "posted"}
        if self.workers is None:
            self.workers = ThreadPoolExecutor(len(self.guests))
        request = Shareable({**content, "gradient": base64.b64decode(content.get("gradient") or "")})
        self.values[name] = turn, self.workers.submit(self._ask, fl_ctx.get_engine(), name, request)
        return {"state": "posted"}

    def _ask(self, engine: Any, name: str, request: Shareable) -> Shareable | None:
        with engine.new_context() as context:
            replies = engine.send_aux_request(
                targets=[name], topic=ROUND, request=request, timeout=self.silence, fl_ctx=context
            )
        reply = (replies or {}).get(name)  # nothing at all where the guest did not answer in time
        if reply is None or reply.get_return_code() != ReturnCode.OK:
            return None
        with self.lock:
            self.seen[name] = time.monotonic()
        return reply

    def _fetch(self, topic: str, data: Any, fl_ctx: FLContext, *_: Any) -> dict[str, Any]:
        """Give the host a guest's values, once they are there."""
        turn, pending = self.values.get(data["guest"], (0, None))
        if pending is None or turn != int(data["turn"]):
            return {"state": "unknown"}
        try:
            reply = pending.result(timeout=FETCH)
        except TimeoutError:
            return {"state": "waiting"}
        if reply is None:
            return {"state": "silent"}
        if reply.get("reason"):
            return {"state": "refused", "reason": str(reply.get("reason"))[:1000]}
        values = reply.get("message") or b""
        if len(values) > self.limit:
            return {
                "state": "refused",
                "reason": f"its values of a round are larger than {in_words(self.limit)} (max_message)",
            }
        return {"state": "here", "message": base64.b64encode(values).decode()}
