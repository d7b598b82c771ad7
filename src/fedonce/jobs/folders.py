"""A model's folder before a job writes into it."""

from __future__ import annotations

from pathlib import Path

from fedonce.errors import BudgetError, InputError
from fedonce.party import Guest, Host, storage
from fedonce.privacy import LocalEpsilon


def check_folder(out: str | Path) -> Path:
    """Return the folder of a model; raise where it cannot be one, before anybody waits or trains."""
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; name a folder for the model.", parameter="out")
    return out


def model_before(out: Path, again: bool) -> Host | None:
    """Return the model that is trained again, and refuse to overwrite one that is not to be."""
    check_folder(out)
    if storage.exists(out) and not again:
        raise InputError(
            f"The folder {out} has a model already. Train it again, with more guests (refit), or name another one.",
            parameter=("refit", "out"),
        )
    before = Host.load(out) if again else None
    if before is not None and before.ledger is not None:
        raise BudgetError(
            f"The model in {out} has spent its privacy budget; to train it again would spend it twice. Make a new plan, for all "
            "that is spent together, and train into another folder."
        )
    return before


def again_without_ids(party: Guest) -> InputError:
    """Return the error about a second message with a local epsilon about rows without ids."""
    return InputError(
        f"Party {party.name!r} answers with a local epsilon of {party.local_epsilon:g}, and the table has no ids: another "
        "message would disclose the same rows again, uncounted. Learn from a table with ids (id).",
        parameter="id",
    )


def answer_key(out: Path) -> bytes | None:
    """Return the secret of the model that is replaced, where it answered with a local epsilon: its rows keep their answers."""
    if not storage.exists(out):
        return None
    before = Guest.load(out).noise
    return before.key if isinstance(before, LocalEpsilon) else None
