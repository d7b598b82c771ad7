"""What a site clears away by itself: folders of jobs that ended, and answers that nobody will ask for again."""

from __future__ import annotations

import logging
import re
import shutil
import time
from pathlib import Path

from fedonce.federation.answering import ANSWERS, ASKED
from fedonce.federation.kits import Kit

JOB = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
JOB_DAYS, ANSWER_DAYS = 2, 14
_DAY = 86400.0

logger = logging.getLogger(__name__)


def tidy(kit: Kit, now: float | None = None) -> None:
    """Remove what is old. A model and its message stay: they are the guest's part of somebody's model."""
    now = time.time() if now is None else now
    jobs = [path for path in kit.site.glob("*") if JOB.fullmatch(path.name)]
    answers = [path for path in (kit.path / ANSWERS).glob("*") if not (path / ASKED).exists() and _is_answer(path)]
    for paths, days in ((jobs, JOB_DAYS), (answers, ANSWER_DAYS)):
        for path in paths:
            if now - _newest(path) > days * _DAY:
                logger.info("removed %s, which is older than %d days", path.name, days)
                shutil.rmtree(path, ignore_errors=True)


def _is_answer(path: Path) -> bool:
    """Tell whether a folder holds the answer to a prediction or an alignment; a learning that goes on later has none."""
    return (path / "message.fedonce").exists() or not any(each.name != "lock" for each in path.iterdir())


def _newest(path: Path) -> float:
    """Return when something in a folder last changed."""
    try:
        return max(each.stat().st_mtime for each in (path, *path.rglob("*")))
    except OSError:  # being changed right now
        return time.time()
