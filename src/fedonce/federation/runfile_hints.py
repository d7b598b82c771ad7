"""Hints in a run file: the key `hints` or the section [hints], `hints_record` and `hints_limit`, and what they exclude."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedonce.errors import InputError
from fedonce.federation.tomlfile import NAME, TEXT, Keys, Kind, check, number, wrong
from fedonce.learners.names import LEARNERS
from fedonce.messages.hints import LEAST_EPSILON, MOST_EPSILON, MOST_LIMIT, RECORD, Hinting

SECTION = "hints"


def _is_epsilon(value: Any) -> bool:
    return type(value) in (int, float) and LEAST_EPSILON <= value <= MOST_EPSILON


_EPSILON = Kind(f"a number from {LEAST_EPSILON:g} to {MOST_EPSILON:g}", _is_epsilon)
_LIST = Kind("a list", lambda value: isinstance(value, list))
HINTS_KEYS: Keys = {"epsilon": _EPSILON, "edges": _LIST, "classes": _LIST, "label": TEXT, "proxy": NAME}
TOP_KEYS: Keys = {
    "hints": Kind(
        f"an epsilon, {_EPSILON.must_be}, or a table [hints]",
        lambda value: isinstance(value, dict) or _is_epsilon(value),
    ),
    "hints_record": TEXT,
    "hints_limit": number(0, above=True, below=MOST_LIMIT),
}


@dataclass(frozen=True)
class HintsWanted:
    """How the host hints at a label before guests learn.

    Parameters
    ----------
    label : str
        The column that is hinted at.
    hinting : Hinting
        With which epsilon, in which bins or classes.
    record : path
        What the host has published so far.
    limit : float, optional
        The most that label epsilons may add up to; None: as the record says.
    """

    label: str
    hinting: Hinting
    record: Path
    limit: float | None = None


def hints_wanted(path: Path, content: Mapping[str, Any], outside: Keys) -> HintsWanted | None:
    """Return the hints of a run file, checked; None: there are none."""
    given = content.get("hints")
    if given is None:
        for key in ("hints_record", "hints_limit"):
            if key in content:
                raise wrong(path, key, "left out, or beside 'hints'", content[key])
        return None
    own = given if isinstance(given, dict) else {"epsilon": given}
    check(path, "run file", own, HINTS_KEYS, SECTION, outside)
    label, proxy = own.get("label", content["label"]), own.get("proxy")
    if label == content["id"]:
        raise wrong(path, "label", "another column than 'id'", label, SECTION)
    if proxy is not None and label == content["label"]:
        must_be = "another column than the run's own 'label', which travels with an epsilon alone"
        raise wrong(path, "label", must_be, label, SECTION)
    try:
        hinting = Hinting.of(label, own.get("epsilon"), proxy, own.get("edges"), own.get("classes"))
    except InputError as error:
        raise InputError(f"{path}, [hints]: {error}", parameter=error.parameters) from None
    _check_together(path, content, own)
    return HintsWanted(label, hinting, path.parent / content.get("hints_record", RECORD), content.get("hints_limit"))


def _check_together(path: Path, content: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Refuse what has no place beside hints."""
    guests = content.get("guest", {}).values()
    others = {
        "[budget]": "budget" in content,
        "rounds": bool(content.get("rounds")),
        "a local epsilon (local_epsilon)": any("local_epsilon" in each for each in (content, *guests)),
    }
    what = next((name for name, given in others.items() if given), None)
    if what is not None:
        raise InputError(
            f"{path}: there are hints, and {what}; what guests learn from hints is not priced there. Take out the hints, or "
            f"{what}."
        )
    if content.get("align") and content.get("reveal") == "host":
        raise InputError(
            f'{path}: there are hints, and reveal = "host"; hints tell a guest which of its rows the host has. Take one of them '
            "out."
        )
    protection = next((each["protect"] for each in (content, *guests) if "protect" in each), None)
    learners = (each["learner"] for each in (content, *guests) if "learner" in each)
    learner = next((name for name in learners if LEARNERS.facts(name).on_steps), None)
    if protection is not None or learner is not None:
        what = f"the learner {learner!r}" if protection is None else f"the protection {protection!r} (protect)"
        raise InputError(
            f"{path}: there are hints, and {what}, whose values lie on steps of their own, which leaves no room for hints. "
            f"Take out the hints, or {what}."
        )
    if content.get("task") == "regression" and not {"label", "edges", "classes"} & own.keys():
        raise InputError(
            f"{path}: there are hints at numbers, and no bins; write in a section [hints] between which numbers, by public "
            "knowledge: edges = [10000, 50000]"
        )
