"""What a site clears away by itself: folders of jobs that ended, and answers that nobody will ask for again."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from fedonce.federation.flare.hardening import JOB
from fedonce.federation.flare.kits import Kit
from fedonce.federation.flare.site_processes import running_jobs
from fedonce.federation.record import ANSWERS, ASKED, MESSAGE

JOB_DAYS, ANSWER_DAYS = 2, 14
_DAY = 86400.0

logger = logging.getLogger(__name__)


def tidy(kit: Kit, now: float | None = None) -> None:
    """Remove what is old. A model and its message stay: they are the guest's part of somebody's model."""
    now = time.time() if now is None else now
    jobs = _old((path for path in kit.site.glob("*") if JOB.fullmatch(path.name)), now, JOB_DAYS)
    answers = _old(filter(_is_answer, (kit.path / ANSWERS).glob("*")), now, ANSWER_DAYS)
    alive = running_jobs(kit) if jobs else set()
    for path in [*(job for job in jobs if job.name not in alive), *answers]:
        logger.info("removed %s, which is old", path.name)
        shutil.rmtree(path, ignore_errors=True)


def _old(paths: Iterable[Path], now: float, days: int) -> list[Path]:
    return [path for path in paths if now - _newest(path) > days * _DAY]


def _is_answer(path: Path) -> bool:
    """Tell whether a folder holds the answer to a prediction or an alignment; a learning that goes on later has none."""
    if not path.is_dir() or (path / ASKED).exists():
        return False
    return (path / MESSAGE).exists() or all(each.name == "lock" for each in path.iterdir())


def _newest(path: Path) -> float:
    """Return when something in a folder last changed."""
    try:
        return max(each.stat().st_mtime for each in (path, *path.rglob("*")))
    except OSError:  # being changed right now
        return time.time()
