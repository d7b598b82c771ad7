"""Why jobs name installed classes: what FLARE's Collab API makes is refused by our kits, with its code and without."""

from __future__ import annotations

import shutil
import sys
import time

import pytest

from fedonce.federation.flare import sessions

pytestmark = [pytest.mark.federation, pytest.mark.slow_federation]

SOURCE = """\
from nvflare.collab import collab


class Server:
    @collab.main
    def run(self):
        return 1


class Client:
    @collab.publish
    def learn(self):
        return 2
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A job of a `CollabRecipe` with two small classes, as FLARE writes it."""
    (tmp_path / "collab_classes.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "collab_classes", raising=False)
    import collab_classes
    from nvflare.collab.recipe import CollabRecipe

    recipe = CollabRecipe("together", server=collab_classes.Server(), client=collab_classes.Client())
    recipe.finalize().export_job(str(tmp_path / "jobs"))
    yield tmp_path / "jobs" / "together"
    sys.modules.pop("collab_classes", None)


def outcome(session, job) -> dict:
    number = session.submit_job(str(job))
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = session.get_job_meta(number)
        if str(found["status"]).startswith("FINISHED"):
            return found
        time.sleep(0.3)
    raise AssertionError(found)


def test_a_collab_recipe_is_refused(running, job):
    shipped = {path.parent.name for path in job.rglob("collab_classes.py")}
    assert shipped == {"custom"}  # the classes' source travels with the job
    session = sessions.open_session(running.kit("bank"))
    try:
        found = outcome(session, job)
        assert found["status"] != "FINISHED:COMPLETED"
        assert "BYOC not permitted" in str(found["job_deploy_detail"])
        for folder in list(job.rglob("custom")):
            shutil.rmtree(folder)
        assert outcome(session, job)["status"] != "FINISHED:COMPLETED"
    finally:
        sessions.close_session(session)
    for name in ("shop", "telco"):
        assert "collab.runtime.executor.CollabExecutor' at config path" in running.log(name)
        assert "is not in allow_list" in running.log(name)
