"""Hints in a run file: the key `hints` or the section [hints], `hints_record` and `hints_limit`, and what they exclude."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from fedonce.data.table import as_text
from fedonce.errors import InputError
from fedonce.federation.tomlfile import FLAG, NAME, TEXT, Keys, Kind, check, number, wrong
from fedonce.learners.names import LEARNERS
from fedonce.messages.hints import LEAST_EPSILON, MOST_CLASSES, MOST_EPSILON

SECTION = "hints"
RECORD, MOST_LIMIT = "hints.record", 1000.0  # as in `jobs.hint_record`, which takes seconds to import
MOST_EDGES = MOST_CLASSES - 1


def _is_epsilon(value: Any) -> bool:
    return type(value) in (int, float) and LEAST_EPSILON <= value <= MOST_EPSILON


def _are_edges(value: Any) -> bool:
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_EDGES:
        return False
    if not all(type(each) in (int, float) and abs(each) <= sys.float_info.max for each in value):
        return False
    return all(low < high for low, high in pairwise(value))


def _are_classes(value: Any) -> bool:
    if not isinstance(value, list) or not 2 <= len(value) <= MOST_CLASSES:
        return False
    kinds = {str if type(each) is str else type(each) if type(each) is bool else float for each in value}
    known = all(
        each if type(each) is str else type(each) in (int, float, bool) and abs(each) <= sys.float_info.max
        for each in value
    )
    return known and len(kinds) == 1 and len(set(map(_class_name, value))) == len(value)


def _class_name(value: str | float) -> str:
    """Return a class as a text: 2 and 2.0 are one, true is "true"."""
    if isinstance(value, bool):
        return str(value).lower()
    return as_text(value)


_EPSILON = Kind(f"a number from {LEAST_EPSILON:g} to {MOST_EPSILON:g}", _is_epsilon)
HINTS_KEYS: Keys = {
    "epsilon": _EPSILON,
    "edges": Kind(f"a list of 1 to {MOST_EDGES} numbers, ascending", _are_edges),
    "classes": Kind(f"a list of 2 to {MOST_CLASSES} texts or numbers, each once", _are_classes),
    "label": TEXT,
    "proxy": NAME,
    "new_rows": FLAG,
}
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
    epsilon : float, optional
        With which each label is told; None: it travels as it is, as `proxy`.
    edges : tuple of float, optional
        Of numbers: between which of them the bins lie.
    proxy : str, optional
        The name under which a column that is no secret travels.
    record : path
        What the host has published so far.
    limit : float, optional
        The most that a row's epsilons may add up to; None: as the record says.
    classes : tuple of str, optional
        The classes that a label can have, by public knowledge; None: those of the labels.
    new_rows : bool
        Whether ids that the record does not know are new people's.
    """

    label: str
    epsilon: float | None
    edges: tuple[float, ...] | None
    proxy: str | None
    record: Path
    limit: float | None = None
    classes: tuple[str, ...] | None = None
    new_rows: bool = False


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
    label, proxy, epsilon = own.get("label", content["label"]), own.get("proxy"), own.get("epsilon")
    if label == content["id"]:
        raise wrong(path, "label", "another column than 'id'", label, SECTION)
    if (proxy is None) == (epsilon is None):
        raise InputError(
            f"{path}: [hints] must have an 'epsilon', or the name of a 'proxy', a column that is no secret and travels as it is; "
            "write for example: epsilon = 2.0"
        )
    if proxy is not None and label == content["label"]:
        must_be = "another column than the run's own 'label', which travels with an epsilon alone"
        raise wrong(path, "label", must_be, label, SECTION)
    _check_together(path, content, own)
    edges = own.get("edges")
    return HintsWanted(
        label,
        None if epsilon is None else float(epsilon),
        None if edges is None else tuple(map(float, edges)),
        proxy,
        path.parent / content.get("hints_record", RECORD),
        content.get("hints_limit"),
        None if "classes" not in own else tuple(map(_class_name, own["classes"])),
        own.get("new_rows", False),
    )


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
    if "classes" in own and ("edges" in own or (content.get("task") == "regression" and "label" not in own)):
        other = "edges" if "edges" in own else 'task = "regression"'
        raise InputError(
            f"{path}: [hints] has 'classes', and there are numbers that are told in bins ({other}). Take one of them out."
        )
    if content.get("task") == "regression" and "label" not in own and "edges" not in own:
        raise InputError(
            f"{path}: there are hints at numbers, and no bins; write in a section [hints] between which numbers, by public "
            "knowledge: edges = [10000, 50000]"
        )
