"""What a run came to, as a page: what a guest sends and what attacks read in it, and what a training was worth.

Pages hold names of columns and parties, sizes and scores; no row and no id. They stay on your premises, for their owner alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fedonce.assess.attacked import FIRST, Attacked
from fedonce.assess.attacked import REPORT as REPORT
from fedonce.assess.attacks.base import VERDICTS
from fedonce.assess.leakage import NEVER_SAFE, REMEDIES, Leakage
from fedonce.errors import FedOnceWarning, InputError
from fedonce.party import Guest, Host
from fedonce.report import page

FIGURES_OF_ROWS = ("different rows of values",)  # of a message, which lie beside no model with a privacy budget
CLEARLY = 2.0  # standard errors by which a gain is told from none


@contextmanager
def report_aside(folder: Path) -> Iterator[None]:
    """Take the page of a model that is about to be replaced away; put it back where that fails.

    So a page is of the model that is there, whenever one is killed; or there is none.
    """
    path, aside = folder / REPORT, folder / f".{REPORT}.before"
    with suppress(FileNotFoundError):
        path.replace(aside)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            aside.replace(path)
        raise
    aside.unlink(missing_ok=True)


def write_report(folder: Path, text: str) -> Path | None:
    """Write a model's page into its folder; where that fails there is a warning and no page: the model is what counts."""
    try:
        return page.write(folder / REPORT, text, private=True)
    except InputError as error:
        warnings.warn(f"The model is saved, but its page is not: {error}", FedOnceWarning, stacklevel=2)
        return None


def guest_page(
    party: Guest, leaving: Mapping[str, Any], found: Leakage, chosen: str | None, attacked: Attacked | None
) -> str:
    """Return what a guest has learnt, what leaves, and what attacks read in it."""
    order = sorted(found.columns, key=lambda each: (VERDICTS.index(each.verdict), -each.gain))
    ledger = None if party.purse is None else party.purse.ledger
    if ledger is not None and attacked is not None:
        attacked = attacked.without_figures()
    about = dict(leaving) | {"file": Path(leaving["file"]).name} | ({} if attacked is None else attacked.lines())
    about = {name: about[name] for name in FIRST}
    left_out = {*FIRST, "model folder", *(() if ledger is None else FIGURES_OF_ROWS)}
    return page.render(
        "jobs/guest.html.jinja",
        party=party,
        about=about,
        leaving={name: value for name, value in leaving.items() if name not in left_out},
        attacked=attacked,
        remedies=REMEDIES,
        columns=order,
        found=found,
        chosen=chosen,
        never_safe=NEVER_SAFE,
        ledger=None if ledger is None else ledger.rows(),
        delta=None if ledger is None else ledger.delta,
    )


def host_page(host: Host, figures: Mapping[str, Any]) -> str:
    """Return what a training was given, what it was worth, and what was chosen; `figures` are those of its report."""
    validation, ledger = host.validation, host.ledger
    return page.render(
        "jobs/host.html.jinja",
        host=host,
        figures=figures,
        guests=[(name, host.dims[name], host.makers.get(name), its) for name, its in figures["guests"].items()],
        validation=validation,
        verdict=None if validation is None or validation.gain is None else judged(validation.gain),
        ledger=None if ledger is None else ledger.rows(),
        delta=None if ledger is None else ledger.delta,
    )


def evaluation_page(host: Host, figures: Mapping[str, Any], scores: Mapping[str, float]) -> str:
    """Return how good predictions are, and who was there for them."""
    return page.render("jobs/evaluation.html.jinja", host=host, figures=figures, scores=scores)


def judged(gain: Any) -> str:
    """Return a gain in a word: better or worse by two standard errors, or no clear difference."""
    if abs(gain.value) <= CLEARLY * gain.error:
        return "no clear difference"
    return "better" if gain.value > 0 else "worse"
