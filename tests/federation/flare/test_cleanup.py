"""What a site clears away, and what it must not."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from fedonce.federation.flare.cleanup import tidy
from fedonce.federation.flare.kits import Kit

JOB = "0a1b2c3d-0000-4000-8000-0123456789ab"
DAY = 86400


def make(path, *names, days=0.0):
    path.mkdir(parents=True)
    for name in names:
        (path / name).write_text("")
    when = time.time() - days * DAY
    for each in (*path.iterdir(), path):
        os.utime(each, (when, when))
    return path


def test_old_jobs_and_answers_go_models_stay(tmp_path):
    kit = Kit(tmp_path, "guest", "shop", "127.0.0.1", 8002, "bank", (), "0.1.0", "00")
    old = make(kit.site / JOB, "log.txt", days=3)
    new = make(kit.site / JOB.replace("0a", "0b", 1), "log.txt", days=1)
    local = make(kit.site / "local", "resources.json", days=100)
    answers = tmp_path / "answers"
    model = make(answers / "model", "manifest.json", "message.fedonce", "request.fedonce", days=400)
    unfinished = make(answers / "unfinished", "lock", "state", days=100)
    predicted = make(answers / "predicted", "lock", "message.fedonce", days=15)
    fresh = make(answers / "fresh", "lock", "message.fedonce", days=13)
    refused = make(answers / "refused", "lock", days=15)
    tidy(kit)
    assert [path.exists() for path in (old, predicted, refused)] == [False] * 3
    assert all(path.exists() for path in (new, local, model, unfinished, fresh))


def test_a_job_that_still_writes_is_left_alone(tmp_path):
    kit = Kit(tmp_path, "guest", "shop", "127.0.0.1", 8002, "bank", (), "0.1.0", "00")
    job = make(kit.site / JOB, "log.txt", days=9)
    os.utime(job / "log.txt")
    tidy(kit)
    assert job.exists()
    tidy(kit, now=time.time() + 3 * DAY)
    assert not job.exists()


def test_a_job_whose_process_lives_is_left_alone(tmp_path):
    kit = Kit(tmp_path, "guest", "shop", "127.0.0.1", 8002, "bank", (), "0.1.0", "00")
    job, other = make(kit.site / JOB, days=9), make(kit.site / JOB.replace("0a", "0b", 1), days=9)
    words = ["nvflare.private.fed.app.client.worker_process", "-m", str(kit.site), "-n", JOB]
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", *words])
    try:
        tidy(kit)
        assert [path.exists() for path in (job, other)] == [True, False]
    finally:
        process.kill()
        process.wait()
    tidy(kit)
    assert not job.exists()


def test_a_file_among_the_answers(tmp_path):
    kit = Kit(tmp_path, "guest", "shop", "127.0.0.1", 8002, "bank", (), "0.1.0", "00")
    make(tmp_path / "answers", "notes.txt", days=100)
    tidy(kit)
    assert (tmp_path / "answers" / "notes.txt").exists()


def test_a_kit_without_answers(tmp_path):
    tidy(Kit(tmp_path, "host", "bank", "127.0.0.1", 8002, "bank", ("shop",), "0.1.0", "00"))
    assert list(tmp_path.iterdir()) == []
