"""The keys of a run file, and the checks of what they say: each alone, then together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedonce.data.table import KINDS, did_you_mean
from fedonce.errors import InputError
from fedonce.federation.runfile_hints import TOP_KEYS as HINTS
from fedonce.federation.tomlfile import (
    FLAG,
    NAME,
    NAMES,
    TABLE,
    TEXT,
    Kind,
    check,
    check_known,
    check_learner,
    needed,
    number,
    one_of,
    whole,
    wrong,
)
from fedonce.hostmodels.names import HOST_MODELS
from fedonce.learners.names import PROTECTION, is_protection
from fedonce.messages.codecs import BITS
from fedonce.messages.codecs.budget import LEAST_BYTES, MOST_BYTES
from fedonce.messages.message_checks import LEAST_EPSILON, MOST_EPSILON
from fedonce.messages.names import MUST_BE, is_party_name, why_not
from fedonce.rows.alignment import REVEAL

WHAT = "run file"
MOST_ROWS = 2**40
_EPOCHS, _BITS = whole(1, 10**6), one_of(*sorted(BITS))
_COUNT = whole(1, MOST_ROWS)


def _are_columns(value: Any) -> bool:
    # The commands separate columns by commas, and a model that was trained here is used by them, too.
    return NAMES.fits(value) and not any("," in name for name in value)


def _are_class_weights(value: Any) -> bool:
    if isinstance(value, dict):
        return bool(value) and all(number(0).fits(each) for each in value.values())
    return bool(value == "balanced")


_COLUMNS = Kind("a list of names of columns, one or more, each once and without commas", _are_columns)
LEARNING = {
    "learner": NAME,
    "dim": whole(1, 2**20),
    "bits": _BITS,
    "epochs": _EPOCHS,
    "noise": number(0, below=1e6),
    "bytes_per_row": number(LEAST_BYTES, below=MOST_BYTES),
    "local_epsilon": number(LEAST_EPSILON, below=MOST_EPSILON),
    "protect": Kind(PROTECTION, is_protection),
}
KEYS = {
    "run": NAME,
    "table": TEXT,
    "id": TEXT,
    "label": TEXT,
    "guests": NAMES,
    "kit": TEXT,
    "deadline": TEXT,
    "silence": TEXT,
    "min_guests": whole(0, 10**6),
    **LEARNING,
    "bytes_total": number(LEAST_BYTES, below=1e6),
    "seed": whole(0, 2**32 - 1),
    "task": one_of("classification", "regression"),
    "columns": _COLUMNS,
    "drop": _COLUMNS,
    "types": TABLE,
    "recipe": one_of("default", "large", "paper"),
    "host_epochs": _EPOCHS,
    "model": NAME,
    "weight": TEXT,
    "class_weight": Kind('"balanced", or a table of classes to numbers of at least 0', _are_class_weights),
    "calibrate": Kind('"auto", true or false', lambda value: type(value) is bool or value == "auto"),
    "validate": FLAG,
    "align": FLAG,
    "reveal": one_of(*REVEAL),
    "normalise_ids": TEXT,
    "secret": TEXT,
    "unkeyed_ids": FLAG,
    **HINTS,
    "max_message": TEXT,
    "max_memory": TEXT,
    "rounds": Kind("a whole number, or a table [rounds]", lambda value: isinstance(value, dict) or type(value) is int),
    "budget": TABLE,
    "guest": TABLE,
}
GUEST_KEYS = LEARNING | {"columns": NAMES, "rows": _COUNT}
ROUNDS_KEYS = {
    "rounds": whole(1, 10**9),
    "epochs": number(0, above=True),
    "bytes": _COUNT,
    "batch": whole(1, 10**9),
    "rate": number(0, above=True),
    "bits": _BITS,
}
BUDGET_KEYS = {
    "epsilon": Kind(
        "a number above 0 (inf: clip, without noise)", lambda value: type(value) in (int, float) and value > 0
    ),
    "delta": number(0, above=True, below=1),
    "accountant": one_of("pld", "rdp", "reference"),
    "division": one_of("moments", "simple"),
    "public": TEXT,
    "rows": _COUNT,
}
REQUIRED = {
    "run": '"churn-2026"',
    "table": '"bank.csv"',
    "id": '"customer_id"',
    "label": '"churned"',
    "guests": '["shop", "telco"]',
    "task": '"classification"',
    "epsilon": "4.0",
    "delta": "1e-5",
    "public": '"bank-public.toml"',
}


def check_top(path: Path, content: Mapping[str, Any]) -> None:
    """Check what stands above all sections."""
    if isinstance(content.get("guests"), dict):
        name = next(iter(content["guests"]), "shop")
        raise InputError(
            f"{path}: 'guests' must be a list, as in [\"{name}\"]; what one guest does differently is in [guest.{name}]."
        )
    check(path, WHAT, content, KEYS)
    needed(path, content, ("run", "table", "id", "label", "guests"), REQUIRED)
    check_learner(path, content.get("learner", "auto"))
    check_known(path, HOST_MODELS, content.get("model", "auto"), "model")
    for guest in content["guests"]:
        if not is_party_name(guest):
            raise InputError(f"{path}: names in 'guests' must be {MUST_BE}. Got {why_not(guest)}.")
    if content["label"] == content["id"]:
        raise wrong(path, "label", "another column than 'id'", content["label"])
    if content.get("weight") in (content["label"], content["id"]):
        raise wrong(path, "weight", "another column than 'id' and 'label'", content["weight"])
    if content.get("min_guests", 1) > len(content["guests"]):
        raise wrong(
            path, "min_guests", f"at most the number of guests, {len(content['guests'])}", content["min_guests"]
        )
    for name, kind in content.get("types", {}).items():
        if kind not in KINDS or "=" in name:
            raise wrong(path, name, f"one of {', '.join(KINDS)}, and the name without '='", kind, "types")
    if "reveal" in content and not content.get("align"):
        raise wrong(path, "reveal", "left out, or beside align = true", content["reveal"])
    aligned = content.get("align") and content.get("reveal") != "host"
    if not aligned and "secret" not in content and not content.get("unkeyed_ids"):
        raise InputError(
            f"{path}: messages would name rows by their ids, and nothing says how. Name the parties' secret (secret), or align "
            "(align = true, without reveal). Hashes without a key must be asked for (unkeyed_ids = true), and allowed by each "
            "guest's policy: anyone who gets a message and can list the ids finds out which are inside."
        )
    if "secret" in content and content.get("unkeyed_ids"):
        raise wrong(path, "unkeyed_ids", "left out beside 'secret', by which ids are hashed", True)


def check_guest_sections(path: Path, content: Mapping[str, Any]) -> None:
    """Check what guests do differently."""
    for name, own in content.get("guest", {}).items():
        section = f"guest.{name}"
        if name in GUEST_KEYS and not isinstance(own, dict):
            raise InputError(
                f"{path}: {name!r} stands in [guest]; name the guest, as in [guest.{content['guests'][0]}]."
            )
        if name not in content["guests"]:
            hint = did_you_mean(name, content["guests"])
            raise InputError(f"{path}: [{section}] is about a guest that 'guests' does not name{hint}")
        if not isinstance(own, dict):
            raise wrong(path, name, "a table of settings", own, "guest")
        check(path, WHAT, own, GUEST_KEYS, section, KEYS)
        check_learner(path, own.get("learner", "auto"), "learner", section)


def _check_told(path: Path, content: Mapping[str, Any], others: dict[str, object]) -> None:
    """Refuse what has no place beside a local epsilon."""
    own = content.get("guest", {})
    told = [f"[guest.{name}]" for name in own if "local_epsilon" in own[name]]
    told += ["local_epsilon"] if "local_epsilon" in content else []
    fine = any(each.get("bits", 8) > 8 for each in (content, *own.values()))
    what = next((name for name, given in (others | {"bits above 8": fine}).items() if given), None)
    if told and what is not None:
        raise InputError(
            f"{path}: there is a local epsilon ({told[0]}), and {what}; each row is told once, by an answer that has all the "
            "noise it needs. Take one of them out."
        )


def _check_protected(path: Path, content: Mapping[str, Any], others: dict[str, object]) -> None:
    """Refuse what has no place beside a protection."""
    own = content.get("guest", {})
    protected = [f"[guest.{name}]" for name in own if "protect" in own[name]]
    protected += ["protect"] if "protect" in content else []
    local = any("local_epsilon" in each for each in (content, *own.values()))
    what = next((name for name, given in (others | {"a local epsilon": local}).items() if given), None)
    if protected and what is not None:
        raise InputError(
            f"{path}: there is a protection ({protected[0]}), and {what}; protected rows are told by the number of a cell, and "
            "by nothing else. Take one of them out."
        )


def bytes_left(content: Mapping[str, Any]) -> float:
    """Return the bytes per row of each guest without bytes of its own: an even part of what others leave of `bytes_total`."""
    own = [each["bytes_per_row"] for each in content.get("guest", {}).values() if "bytes_per_row" in each]
    return float((content["bytes_total"] - sum(own)) / max(len(content["guests"]) - len(own), 1))


def check_bytes_total(path: Path, content: Mapping[str, Any]) -> None:
    """Raise where bytes for all guests together cannot be shared out."""
    if "bytes_total" not in content:
        return
    if "bytes_per_row" in content:
        raise InputError(
            f"{path}: there are 'bytes_per_row' for each guest, and 'bytes_total' for all; take one out. A guest may have "
            "bytes of its own, in its section [guest.NAME]."
        )
    shared = len(content["guests"]) > sum("bytes_per_row" in each for each in content.get("guest", {}).values())
    left = bytes_left(content)
    if left < (LEAST_BYTES if shared else 0) - 1e-9:
        must_be = f"enough for {LEAST_BYTES:g} bytes per guest, beside what [guest.NAME] gives to some"
        raise wrong(path, "bytes_total", must_be, content["bytes_total"])


def check_together(path: Path, content: Mapping[str, Any]) -> None:
    """Refuse what does not go together: each of rounds, noise and a budget excludes the others."""
    own, rounds, budget = content.get("guest", {}), content["rounds"] is not None, content["budget"] is not None
    noisy = [f"[guest.{name}]" for name in own if own[name].get("noise")] + (["noise"] if content.get("noise") else [])
    if rounds and noisy:
        raise InputError(
            f"{path}: there are rounds, and noise ({noisy[0]}); rounds send values without noise. Take one of them out."
        )
    lengths = [f"[guest.{name}]" for name in own if "bytes_per_row" in own[name]]
    lengths += [name for name in ("bytes_per_row", "bytes_total") if name in content]
    coarse = [content.get("bits", 8), *(each.get("bits", 8) for each in own.values())] != [8] * (1 + len(own))
    if lengths and (noisy or rounds or budget or coarse):
        what = "noise" if noisy else "rounds" if rounds else "[budget]" if budget else "bits other than 8"
        raise InputError(
            f"{path}: there are bytes per row ({lengths[0]}), and {what}; bytes per row are for the one message, of 8 bits and "
            "without noise or a budget. Take one of them out."
        )
    check_bytes_total(path, content)
    sized = lengths or "bytes_total" in content
    _check_protected(path, content, {"noise": noisy, "rounds": rounds, "[budget]": budget})
    _check_told(path, content, {"noise": noisy, "rounds": rounds, "bytes per row": sized, "[budget]": budget})
    weighed = [name for name in ("weight", "class_weight") if name in content]
    if weighed and (rounds or budget):
        what = "rounds, in which all rows count" if rounds else "[budget], whose noise is for rows that count"
        raise InputError(f"{path}: there is {weighed[0]!r}, and {what} alike. Take one of them out.")
    if "class_weight" in content and content.get("task") == "regression":
        raise wrong(path, "class_weight", "left out for numbers, which have no classes", content["class_weight"])
    if budget:
        if rounds:
            raise InputError(
                f"{path}: there are rounds, and [budget]; rounds have no private version. Take one of them out."
            )
        if noisy:
            raise InputError(
                f"{path}: there is noise ({noisy[0]}), and [budget]; that noise is made by figures of private rows that no "
                "budget prices. Take one of them out."
            )
        if "task" not in content:
            raise InputError(
                f"{path} has [budget] and no 'task': with a budget it is not read off the labels. Write above the first section: "
                f"task = {REQUIRED['task']}"
            )
    counted = [name for name in own if "rows" in own[name]]
    if counted and not budget:
        raise InputError(
            f"{path}: 'rows' in [guest.{counted[0]}] serves a privacy budget; add [budget], or leave it out."
        )
