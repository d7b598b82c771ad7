"""What each party did with its rows, as far as privacy goes: frozen events, one line each, and their sum.

An event says how a sum over rows was made noisy; `fedonce.privacy.accountants` says what it costs. Everything that a party
gives away of its training rows is in the ledger, or it is not given away.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

from fedonce.errors import MessageError
from fedonce.privacy import accountants
from fedonce.privacy.events import Event, Gaussian, Local, SampledGaussian

NOMINAL = "nominal epsilon"  # the mark of what was made without a sound guarantee
LOCAL = "each row's values"
HINTS = "hints at {label!r}"
EVENTS_LIMIT = 16  # events of one party in a message
STEPS_LIMIT = 2 * 10**6  # of one event: the paper's longest training on a million rows has 1.3 million
ALL_STEPS_LIMIT = 5 * 10**6  # of all events together: seconds to price
# What can be priced in reasonable time; plans are made within these bounds (`fedonce.privacy.budget`).
NOISE_LIMIT, LEAST_NOISE, LEAST_RATE = 1e9, 0.05, 1e-9


@dataclass(frozen=True)
class Entry:
    """One line: a party, what it did, and the event; None where it looked at no row."""

    party: str
    what: str
    event: Event | None
    nominal: bool = False  # whether the event's price is not a guarantee


@dataclass
class Ledger:
    """What all parties spent, in one book.

    Parameters
    ----------
    delta : float
        The probability with which the guarantee may fail; epsilon is for this delta.
    accountant, division : str
        How the entries are priced, see `fedonce.privacy.accountants`.
    """

    delta: float
    accountant: str = "pld"
    division: str = "moments"
    entries: list[Entry] = field(default_factory=list)

    def spend(self, party: str, what: str, event: Event | None, nominal: bool = False) -> None:
        """Write down what a party is about to do, before it does it: a crash later leaves the line.

        Further steps of the same kind are added to the line that is there.
        """
        for position in reversed(range(len(self.entries))):
            last = self.entries[position]
            if (last.party, last.what) == (party, what) and isinstance(event, SampledGaussian):
                before = last.event
                if isinstance(before, SampledGaussian) and (before.noise, before.rate) == (event.noise, event.rate):
                    longer = replace(before, steps=before.steps + event.steps)
                    self.entries[position] = replace(last, event=longer, nominal=last.nominal or nominal)
                    return
        self.entries.append(Entry(party, what, event, nominal))

    def include(self, entries: Iterable[Entry]) -> None:
        """Add what another party says that it spent."""
        self.entries.extend(entries)

    @property
    def parties(self) -> tuple[str, ...]:
        """Who is in the book, in the order of the first entry."""
        return tuple(dict.fromkeys(entry.party for entry in self.entries))

    @property
    def nominal(self) -> bool:
        """Whether some price is not a guarantee."""
        return any(entry.nominal for entry in self.entries)

    def events(self, party: str | None = None) -> list[Event]:
        """Return the events of a party, or of all."""
        wanted = [entry for entry in self.entries if party in (None, entry.party)]
        return [entry.event for entry in wanted if entry.event is not None]

    def epsilon(self, party: str | None = None) -> float:
        """Return the price of all parties together, or of what one of them did, at the ledger's delta."""
        if party is not None:
            return accountants.epsilon(self.events(party), self.delta, self.accountant)
        by_party = [self.events(each) for each in self.parties]
        return accountants.total(by_party, self.delta, self.accountant, self.division)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per entry, in a party's first row the epsilon of that party alone, and the total."""
        rows: list[dict[str, Any]] = []
        for party in self.parties:
            own = [entry for entry in self.entries if entry.party == party]
            prices = [self.epsilon(party), *[None] * (len(own) - 1)]  # of all that the party did, in its first line
            rows += [
                {"party": party, "what": entry.what, **describe(entry.event), "party alone": price}
                for entry, price in zip(own, prices, strict=True)
            ]
        mark = {"mark": NOMINAL} if self.nominal else {}
        return [
            *rows,
            {
                "party": "total",
                "what": f"{self.division}, {self.accountant}",
                **describe(None),
                "epsilon": self.epsilon(),
                "delta": self.delta,
                **mark,
            },
        ]

    def __str__(self) -> str:
        head = ("party", "what", "noise", "sampling", "steps", "party alone")
        rows = self.rows()
        table = [head, *(tuple(_cell(row.get(name), name) for name in head) for row in rows[:-1])]
        widths = [max(len(row[column]) for row in table) for column in range(len(head))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
        ]
        mark = f" ({NOMINAL}: not a guarantee)" if self.nominal else ""
        total = f"total: epsilon {rows[-1]['epsilon']:.4g} at delta {self.delta:.3g}, {rows[-1]['what']}{mark}"
        return "\n".join([*lines, total])


def local(
    epsilons: Mapping[str, tuple[float, int]],
    hinted: tuple[str, str, float] | None = None,
    claimed_by: Sequence[str] = (),
) -> Ledger | None:
    """Return the ledger of parties that answer for each row with an epsilon; None: none does. What is pure has delta 0.

    `epsilons` are by party that of an answer, and how many independent answers a row may have had: messages about rows
    without ids. `hinted` is who hinted at which label, with which epsilon; an infinite one is of a label that travels as it
    is. Where it is known from guests' messages alone, `claimed_by` are these guests.
    """
    lines = [
        Entry(party, LOCAL + (f", {count} messages" if count > 1 else ""), Local(count * epsilon))
        for party, (epsilon, count) in epsilons.items()
    ]
    if hinted is not None:
        party, label, epsilon = hinted
        what = HINTS.format(label=label) + ("" if isfinite(epsilon) else ", as it is")
        what += f" (claimed by {', '.join(claimed_by)})" if claimed_by else ""
        lines.append(Entry(party, what, Local(epsilon)))
    return Ledger(0.0, "pure", "simple", lines) if lines else None


def _cell(value: Any, name: str) -> str:
    if value is None:
        return "" if name == "party alone" else "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def describe(event: Event | None) -> dict[str, Any]:
    """Return an event's numbers by name."""
    if event is None or isinstance(event, Local):
        return {"noise": None, "sampling": None, "steps": None}
    if isinstance(event, Gaussian):
        return {"noise": event.noise, "sampling": None, "steps": event.times}
    return {"noise": event.noise, "sampling": event.rate, "steps": event.steps}


def to_text(entries: Sequence[Entry]) -> str:
    """Write a party's entries as text for a message's header."""
    lines = []
    for entry in entries:
        line: dict[str, Any] = {"what": entry.what}
        if isinstance(entry.event, Gaussian):
            line |= {"noise": entry.event.noise, "times": entry.event.times}
        elif isinstance(entry.event, SampledGaussian):
            line |= {"noise": entry.event.noise, "rate": entry.event.rate, "steps": entry.event.steps}
        lines.append(line | ({"nominal": True} if entry.nominal else {}))
    return json.dumps(lines, separators=(",", ":"))


def from_text(text: str, party: str, fail: str = "") -> list[Entry]:
    """Read what another party says that it spent, trusting nothing of its form; `fail` begins the error."""
    fail = fail or f"The message of party {party!r} is refused: what it says of its privacy cannot be read"
    try:
        lines = json.loads(text)
    except (ValueError, RecursionError):
        raise MessageError(f"{fail}: {text[:80]!r} is not JSON.") from None
    if not isinstance(lines, list) or not 1 <= len(lines) <= EVENTS_LIMIT:
        raise MessageError(f"{fail}: it must be a list of 1 to {EVENTS_LIMIT} events.")
    entries = []
    for line in lines:
        try:
            entries.append(_read(line, party))
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            raise MessageError(f"{fail}: {str(line)[:120]} ({str(error)[:120]}).") from None
    if (steps := all_steps(entries)) > ALL_STEPS_LIMIT:
        raise MessageError(f"{fail}: its events have {steps:,} steps, and {ALL_STEPS_LIMIT:,} are the most.")
    return entries


def all_steps(entries: Sequence[Entry]) -> int:
    """Return the steps of all entries together: what pricing them takes grows with it."""
    return sum(entry.event.steps for entry in entries if isinstance(entry.event, SampledGaussian))


def _read(line: Any, party: str) -> Entry:
    if not isinstance(line, Mapping) or not set(line) <= {"what", "noise", "times", "rate", "steps", "nominal"}:
        raise ValueError("unknown entries")
    what, nominal = line["what"], line.get("nominal", False)
    if not isinstance(what, str) or not what.isprintable() or len(what) > 100 or type(nominal) is not bool:
        raise ValueError("no description")
    if "noise" not in line:
        if set(line) - {"what", "nominal"}:
            raise ValueError("numbers without noise")
        return Entry(party, what, None, nominal)
    noise = _number(line["noise"], 0, NOISE_LIMIT)
    if 0 < noise < LEAST_NOISE:
        raise ValueError(f"noise {noise!r} is below {LEAST_NOISE}, next to none; 0 is none")
    if "rate" in line:
        rate = _number(line["rate"], LEAST_RATE, 1)
        return Entry(party, what, SampledGaussian(noise, rate, _count(line["steps"])), nominal)
    return Entry(party, what, Gaussian(noise, _count(line["times"])), nominal)


def _number(value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ValueError(f"{value!r} is not a number from {low} to {high}")
    return float(value)


def _count(value: Any) -> int:
    if type(value) is not int or not 1 <= value <= STEPS_LIMIT:
        raise ValueError(f"{value!r} is not a number of steps from 1 to {STEPS_LIMIT}")
    return value
