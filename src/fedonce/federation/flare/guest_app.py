"""What a guest's FLARE client runs for a job: read the request, let the guest answer it, send the file.

A thin skin: what is done, and whether, is `answer`'s business. The host sees a word, an epoch, and a reason that `answer`
made for its eyes; errors stay in the guest's own log.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.app_common.streamers.file_streamer import FileStreamer
from nvflare.fuel.f3.stats_pool import StatsPoolManager

from fedonce.federation.flare.jobs import CHANNEL, MESSAGE, PATIENCE, PROGRESS, REQUEST, ROUND
from fedonce.federation.status import SILENCE

if TYPE_CHECKING:
    from fedonce.federation.tasks import RoundsResponder

ALIVE = 2.0  # seconds between two signs of life
CHUNK, CHUNK_SECONDS = 1 << 20, 60.0
TRIES = 5  # of sending a message

logger = logging.getLogger(__name__)


class Answer(Executor):  # type: ignore[misc]
    """Answer the request that came with the job.

    Parameters
    ----------
    patience : float
        Seconds that the guest waits for the host's next word during rounds.
    """

    def __init__(self, patience: float = PATIENCE * SILENCE) -> None:
        super().__init__()
        self.patience = patience
        self.progress: dict[str, Any] = {"state": "starting"}
        self.rounds: RoundsResponder | None = None
        self.last_word = 0.0
        self.closed = threading.Event()

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """Answer, and say how it went."""
        from fedonce.federation.workplace import Failed, Refused

        ended = threading.Event()
        signs = threading.Thread(target=self._show_life, args=(fl_ctx, ended), daemon=True)
        signs.start()
        outcome: dict[str, Any]
        try:
            outcome = {"state": self._answer(fl_ctx, abort_signal)}
        except Refused as refused:
            logger.warning("refused: %s", refused)
            outcome = {"state": "refused", "reason": str(refused)}
        except Failed as failed:
            logger.error("failed: %s", failed, exc_info=failed.__cause__)
            outcome = {"state": "failed", "reason": str(failed)}
        finally:
            ended.set()
            signs.join()  # no sign of life may come after the last word
        return Shareable({**outcome, "wire": wire_bytes()})

    def _answer(self, fl_ctx: FLContext, abort_signal: Signal) -> str:
        from fedonce.errors import MessageError
        from fedonce.federation.answer import Responder
        from fedonce.federation.workplace import Refused
        from fedonce.messages.envelope import read_bytes

        job, workspace = fl_ctx.get_job_id(), fl_ctx.get_workspace()
        try:
            data = read_bytes(Path(workspace.get_app_config_dir(job)) / REQUEST, "request")
        except MessageError as error:
            logger.warning("%s", error)
            raise Refused("the request is too large, or no file of fedonce's.") from None
        responder = Responder.of(
            Path(workspace.get_root_dir()), fl_ctx.get_identity_name(), self._tell, lambda: abort_signal.triggered
        )
        request = responder.read(data)
        if request.what == "rounds":
            return self._serve_rounds(responder.open_rounds(request), fl_ctx, abort_signal)
        message = responder.answer(request)
        self._tell("sending")
        self._send(message, fl_ctx, abort_signal)
        return "sent"

    def _send(self, message: Path, fl_ctx: FLContext, abort_signal: Signal) -> None:
        """Stream the file; what is lost on the way is sent again."""
        from fedonce.federation.workplace import Failed

        for attempt in range(TRIES):
            rc, _ = FileStreamer.stream_file(
                channel=CHANNEL,
                topic=MESSAGE,
                stream_ctx={},
                targets=["server"],
                file_name=str(message),
                fl_ctx=fl_ctx,
                chunk_size=CHUNK,
                chunk_timeout=CHUNK_SECONDS,
            )
            if rc == ReturnCode.OK or abort_signal.triggered:
                return
            logger.warning("the message could not be sent (%s), try %d of %d", rc, attempt + 1, TRIES)
            time.sleep(1.0)
        raise Failed("the message is finished, and could not be sent; it is kept, and will be sent when asked again")

    def _serve_rounds(self, responder: RoundsResponder, fl_ctx: FLContext, abort_signal: Signal) -> str:
        """Answer the host's words until it closes the rounds, or says nothing for long."""
        self.rounds, self.last_word = responder, time.monotonic()
        fl_ctx.get_engine().register_aux_message_handler(ROUND, self._round)
        self._tell("rounds")
        while not self.closed.wait(0.2) and not abort_signal.triggered:
            if time.monotonic() - self.last_word > self.patience:
                return "silent"
        return "closed"

    def _round(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        """Answer one word of the host."""
        from fedonce.federation.workplace import Failed, Refused

        self.last_word = time.monotonic()
        assert self.rounds is not None
        reply = make_reply(ReturnCode.OK)
        try:
            reply["message"] = self.rounds.answer(dict(request))
        except (Refused, Failed) as error:
            logger.warning("rounds: %s", error, exc_info=error.__cause__)
            reply["reason"] = str(error)
        if request.get("word") == "close":
            self.closed.set()
        return reply

    def _tell(self, state: str, epoch: int | None = None, epochs: int | None = None) -> None:
        """Note where the guest stands; the next sign of life carries it."""
        self.progress = {"state": state} | ({} if epoch is None else {"epoch": epoch, "epochs": epochs})

    def _show_life(self, fl_ctx: FLContext, ended: threading.Event) -> None:
        """Tell the server where the guest stands, at every change and every now and then."""
        engine, shown, last = fl_ctx.get_engine(), None, 0.0
        while not ended.wait(0.1):
            if self.progress == shown and time.monotonic() - last < ALIVE:
                continue
            shown, last = dict(self.progress), time.monotonic()
            with suppress(Exception), engine.new_context() as context:  # a sign that is lost is followed by another
                engine.send_aux_request(["server"], PROGRESS, Shareable(shown), 5.0, context, optional=True)


def wire_bytes() -> int:
    """Return the bytes of all messages between this job and the server, both ways, as FLARE counts them."""
    total = 0.0
    for name in ("sent_msg_sizes", "received_msg_sizes"):
        pool = StatsPoolManager.get_pool(name)
        for bins in (pool.to_dict()["cat_data"] if pool else {}).values():
            total += sum(each["total"] for each in bins if each)
    return round(total * 1024 * 1024)  # FLARE counts in megabytes
