"""A FLARE job: which installed classes run at the server and at a guest, and the request beside them. No code travels."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from fedonce.federation.status import SILENCE
from fedonce.system.sizes import MESSAGE_LIMIT

CHANNEL = "fedonce"
MESSAGE, PROGRESS, ROUND = "message", "fedonce.progress", "fedonce.round"  # topics
REQUEST = "request.fedonce"  # beside the job's configuration
ANSWERS = "answers"  # in the job's folder at the server: NAME.fedonce and NAME.json
TOKEN = "fedonce_token"  # in the job's description: by which the host finds a job that it may have submitted
PATIENCE = 4  # times `silence`: how long a guest waits for the host's next word during rounds


def write_job(
    folder: Path,
    name: str,
    requests: Mapping[str, bytes],
    silence: float = SILENCE,
    limit: int = MESSAGE_LIMIT,
    token: str = "",
) -> Path:
    """Write a job for some guests, with a request each, into a folder; the server takes messages of up to `limit` bytes."""
    collect = _component("collect", "server_app.Collect", guests=list(requests), silence=silence, limit=limit)
    server = {"workflows": [collect]}
    answer = _component("answer", "guest_app.Answer", patience=PATIENCE * silence)
    guest = {"executors": [{"tasks": ["*"], "executor": answer}]}
    deploy = {"server": ["server"]}
    _write(folder / "server" / "config" / "config_fed_server.json", server)
    for party, data in requests.items():
        deploy[f"guest_{party}"] = [party]
        config = folder / f"guest_{party}" / "config"
        _write(config / "config_fed_client.json", guest)
        (config / REQUEST).write_bytes(data)
    meta = {
        "name": name,
        "resource_spec": {},
        "min_clients": len(requests),
        "mandatory_clients": list(requests),
        "deploy_map": deploy,
    } | ({TOKEN: token} if token else {})
    (folder / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
    return folder


def _component(id: str, path: str, **arguments: object) -> dict[str, object]:
    return {"id": id, "path": f"fedonce.federation.{path}", "args": arguments}


def _write(path: Path, content: Mapping[str, object]) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"format_version": 2, "components": [], **content}), encoding="utf-8")
