"""What tests of faults share: slow runs, and looks at what happened."""

from __future__ import annotations

from fedonce.federation.answer import Responder
from fedonce.federation.request import Request

POLICY = "max_epochs = 100000\nmax_rounds = 100000\nmax_dim = 64\nmax_learnings = 100\nmax_values_per_row = 1000\n"
SLOW = {"learner": "nat", "epochs": 4000}  # some twenty seconds: time to be killed in
GRACE = 15.0  # seconds after its deadline in which the host stops waiting
TRAINING = 45.0  # seconds for the host to start and to train, on a busy machine


def slow_run(federation, deadline: str = "150s", name: str = "run.toml", **settings):
    """Write a run in which the shop takes long, and the telco does not."""
    return federation.write_run(name, **{"deadline": deadline, "silence": "15s", "guest": {"shop": SLOW}} | settings)


def news(federation, guest: str, out: str = "bank") -> list[dict]:
    return [event for event in federation.events(out) if event.get("guest") == guest]


def epochs(federation, guest: str, out: str = "bank") -> list[int]:
    """Return the epochs that a host was told."""
    return [event["epoch"] for event in news(federation, guest, out) if event["state"] == "learning" and event["epoch"]]


def kept_message(federation, guest: str) -> bytes:
    """Return the one message that a guest keeps."""
    (message,) = federation.answers(guest).values()
    return message


def learnt_anew(federation, guest: str) -> bytes:
    """Let the guest answer the same request again, from the start and in peace; return its message."""
    (asked,) = (federation.kits / guest / "answers").glob("*/request.fedonce")
    request = Request.from_bytes(asked.read_bytes())
    federation.forget(guest)
    return Responder(federation.kits / guest, guest, lambda *told: None).answer(request).read_bytes()


def patched(federation, guest: str, monkeypatch, code: str) -> None:
    """Start a guest whose job processes run other code: what a dishonest or a broken guest could do."""
    folder = federation.folder / "patch"
    folder.mkdir()
    lines = "".join(f"    {line}\n" for line in code.splitlines())
    job = "any('worker_process' in word for word in sys.orig_argv)"
    (folder / "sitecustomize.py").write_text(f"import sys\nif {job}:\n{lines}")
    with monkeypatch.context() as environment:
        environment.setenv("PYTHONPATH", str(folder))
        federation.start(guest)


def weights(federation, out: str) -> dict[str, bytes]:
    found = {path.name: path.read_bytes() for path in (federation.folder / out).glob("*.safetensors")}
    assert found
    return found
