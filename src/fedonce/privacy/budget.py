"""A budget for all parties: what each will do, with how much noise, before anybody does it; and the purse to spend it from."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

from fedonce.errors import BudgetError, InputError, MessageError, parameter_error
from fedonce.privacy import accountants
from fedonce.privacy.events import Event, Gaussian, SampledGaussian
from fedonce.privacy.ledger import ALL_STEPS_LIMIT, LEAST_NOISE, Entry, Ledger, all_steps, describe, from_text, to_text
from fedonce.privacy.purse import Purse as Purse
from fedonce.system.disk import read_file, write_file

MOST_NOISE = 1e3  # times what a row adds to a sum; where every sum needs more, the budget is no budget
SLACK = 1e-9
PLAN_LIMIT = 2**20  # bytes of a plan; one for a thousand parties has fewer
KINDS_LIMIT = 64  # different kinds of steps in a plan from outside: each takes up to a second to price
VERSION = 1  # of the plan's file


@dataclass(frozen=True)
class Task:
    """What a party will do with its rows, noise not yet fixed: steps on Poisson samples, or one release (rate None).

    `weight` is its part of the budget: of the sum over all tasks of the squared signal-to-noise ratio, which is what adds up
    when Gaussian releases are composed. The accountant then prices the exact events; weights only steer who gets how much.
    """

    party: str
    what: str
    weight: float
    rate: float | None = None
    steps: int = 1
    nominal: bool = False

    def event(self, noise: float) -> Event:
        """Return the event with so much noise."""
        return Gaussian(noise, self.steps) if self.rate is None else SampledGaussian(noise, self.rate, self.steps)

    def noise(self, strength: float) -> float:
        """Return the noise at which its part of a budget of this strength (squared signal-to-noise ratio) is used up.

        For sampled steps by the central limit theorem of Bu, Dong, Long and Su (2020): rate sqrt(steps (exp(1/noise^2) - 1)).
        """
        own = self.weight * strength
        if self.rate is None:
            return math.sqrt(self.steps / max(own, 1e-300))
        return 1 / math.sqrt(max(math.log1p(own / (self.rate**2 * self.steps)), 1e-300))


def steps_task(what: str, n_rows: int, batch: int, epochs: float, weight: float, nominal: bool = False) -> Task:
    """Return the task of training: as many steps as make so many epochs of samples of `batch` rows on average."""
    expected = min(batch, n_rows)
    return Task("", what, weight, expected / n_rows, math.ceil(epochs * n_rows / expected), nominal)


@dataclass(frozen=True)
class Plan:
    """The ledger before anything was trained: a budget, and what each party may do with how much noise."""

    epsilon: float
    delta: float
    accountant: str
    division: str
    entries: tuple[Entry, ...]

    def of(self, party: str) -> tuple[Entry, ...]:
        """Return what a party may do."""
        found = tuple(entry for entry in self.entries if entry.party == party)
        if not found:
            known = ", ".join(dict.fromkeys(entry.party for entry in self.entries))
            raise BudgetError(f"Party {party!r} is not in the plan, which has {known}; make a plan with it.")
        return found

    def ledger(self, spent: bool = False) -> Ledger:
        """Return a ledger for this budget: empty, or as it will be when all is spent."""
        return Ledger(self.delta, self.accountant, self.division, list(self.entries) if spent else [])

    def check(self, ledger: Ledger) -> None:
        """Raise where a ledger is beyond the budget."""
        price = ledger.epsilon()
        if not price <= self.epsilon * (1 + SLACK):
            worst = max(ledger.parties, key=ledger.epsilon)
            raise BudgetError(
                f"What the parties spent costs epsilon {price:.4g} at delta {self.delta:.3g}; the plan has {self.epsilon:.4g}, "
                f"party {worst!r} spent most, {ledger.epsilon(worst):.4g} alone. Train again with the plan's noise."
            )

    def check_spent(self, party: str, spent: Sequence[Entry]) -> None:
        """Raise where a party says that it did something else than the plan has for it; nothing is priced for that."""
        refused = f"The message of party {party!r} is refused: "
        planned = {entry.what: entry for entry in self.entries if entry.party == party}
        if not planned:
            raise MessageError(f"{refused}the plan has no such party; make a plan with it, or leave it out.")
        for entry in spent:
            line = planned.pop(entry.what, None)
            # A mark that the price is no guarantee may be added (a test's seed), and not taken off.
            if line is None or line.event != entry.event or (line.nominal and not entry.nominal):
                allowed = "nothing of that name, or it once" if line is None else _in_words(line)
                raise MessageError(
                    f"{refused}it spent on {entry.what!r} {_in_words(entry)}, and the plan has {allowed}. Let the guest learn "
                    "with this plan."
                )
        if planned:
            raise MessageError(
                f"{refused}it says nothing of {next(iter(planned))!r}, which the plan has for it. Let the guest learn with this "
                "plan."
            )

    def to_text(self) -> str:
        """Return the plan as JSON, for the parties to read and to keep."""
        parties = dict.fromkeys(entry.party for entry in self.entries)
        content = {
            "fedonce plan": VERSION,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "accountant": self.accountant,
            "division": self.division,
            "parties": {party: json.loads(to_text(self.of(party))) for party in parties},
        }
        return json.dumps(content, indent=2) + "\n"

    def to_file(self, path: Path | str) -> None:
        """Write the plan as JSON."""
        write_file(path, self.to_text().encode())

    @classmethod
    def from_file(cls, path: Path | str) -> Plan:
        """Read a plan from its file; see `from_text`."""
        data = read_file(path, "plan", PLAN_LIMIT)
        try:
            text = data.decode()
        except ValueError as error:
            raise InputError(f"{path} is not a plan of `fedonce privacy plan`: {error}.") from None
        return cls.from_text(text, str(path))

    @classmethod
    def from_text(cls, text: str, name: str = "the plan") -> Plan:
        """Read a plan, which may come from another party: every number is checked, and the sum against the budget.

        `name` is what errors call it.
        """
        if len(text) > PLAN_LIMIT:
            raise InputError(f"{name} is not a plan of `fedonce privacy plan`: it has more than {PLAN_LIMIT:,} bytes.")
        try:
            content = json.loads(text)
            if not isinstance(content, dict) or content.get("fedonce plan") != VERSION:
                raise ValueError(f"it does not say that it is one of version {VERSION}")
            lacking = {"epsilon", "delta", "accountant", "division", "parties"} - set(content)
            if lacking or not content["parties"]:
                raise ValueError(f"it has no {', '.join(sorted(lacking)) or 'parties'}")
            check_budget(content["epsilon"], content["delta"], "a plan")
            epsilon, delta = float(content["epsilon"]), float(content["delta"])
            entries = [
                entry
                for party, lines in content["parties"].items()
                for entry in from_text(json.dumps(lines), party, f"what party {party!r} may do cannot be read")
            ]
            plan = cls(epsilon, delta, content["accountant"], content["division"], tuple(entries))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise InputError(f"{name} is not a plan of `fedonce privacy plan`: {str(error).rstrip('.')}.") from None
        accountants.check(plan.accountant, plan.division, "a plan")
        _check_kinds(plan, name)
        try:
            price = plan.ledger(spent=True).epsilon()
        except ArithmeticError:  # a delta next to nothing, say
            raise InputError(f"{name} is not a plan of `fedonce privacy plan`: it has no price.") from None
        if not price <= epsilon * (1 + SLACK):
            raise BudgetError(
                f"{name}: what its parties may do costs epsilon {price:.4g}, more than the {epsilon:.4g} that it "
                "promises. It was changed or made by other means; ask for the original, or make one with `fedonce privacy plan`."
            )
        return plan


def _check_kinds(plan: Plan, name: str) -> None:
    """Raise where a plan would keep the accountant busy for long."""
    apart = plan.division == "simple"  # each party is priced by itself
    kinds = {
        (entry.party if apart else "", entry.event.noise, getattr(entry.event, "rate", 1.0))
        for entry in plan.entries
        if isinstance(entry.event, SampledGaussian) or (apart and isinstance(entry.event, Gaussian))
    }
    if len(kinds) > KINDS_LIMIT:
        raise InputError(
            f"{name} has {len(kinds)} kinds of steps that differ in noise or sampling, and a plan may have {KINDS_LIMIT}. "
            "Plan with the same number of rows for all parties, or with learners that take no steps (pca)."
        )
    if (steps := all_steps(plan.entries)) > ALL_STEPS_LIMIT:
        raise InputError(
            f"{name} has {steps:,} steps of all parties together, and a plan may have {ALL_STEPS_LIMIT:,}. Plan with larger "
            "batches or fewer epochs, or with learners that take no steps (pca)."
        )


def _in_words(entry: Entry) -> str:
    numbers = [f"{name} {value!r}" for name, value in describe(entry.event).items() if value is not None]
    return (", ".join(numbers) or "no event") + (", nominal" if entry.nominal else "")


def check_budget(epsilon: object, delta: object, owner: str) -> None:
    """Raise unless epsilon is above 0 and delta between 0 and 1."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float | np.number) or not epsilon > 0:
        raise parameter_error(owner, "epsilon", "a number above 0 (inf: clip, without noise)", epsilon)
    if isinstance(delta, bool) or not isinstance(delta, int | float | np.number) or not 0 < delta < 1:
        raise parameter_error(owner, "delta", "a number between 0 and 1, well below 1 / rows", delta)


def calibrate(
    tasks: Sequence[Task],
    epsilon: float,
    delta: float,
    accountant: str = "pld",
    division: str = "moments",
    common: bool = False,
) -> Plan:
    """Find the noise with which all tasks together cost at most epsilon.

    With the moments division one number is sought: the strength that tasks share by weight or, with `common`, the noise
    that all have alike, as in the paper. With the simple division each party gets epsilon / k and delta / k for itself.
    """
    check_budget(epsilon, delta, "a plan")
    accountants.check(accountant, division, "a plan")
    if len({(task.party, task.what) for task in tasks}) < len(tasks):
        raise InputError("A plan's tasks must differ in their party or in what they do.")
    parties = tuple(dict.fromkeys(task.party for task in tasks))
    noises: dict[Task, float] = {}
    if division == "simple":
        for party in parties:
            own = [task for task in tasks if task.party == party]
            noises |= _fit(own, epsilon / len(parties), delta / len(parties), accountant, common)
    else:
        noises = _fit(tasks, epsilon, delta, accountant, common)
    entries = [
        Entry(task.party, task.what, task.event(noises[task]) if task.weight else None, task.nominal) for task in tasks
    ]
    plan = Plan(float(epsilon), float(delta), accountant, division, tuple(entries))
    plan.check(plan.ledger(spent=True))
    return plan


def _fit(tasks: Sequence[Task], epsilon: float, delta: float, accountant: str, common: bool) -> dict[Task, float]:
    """Return the noise of each task that costs anything, for tasks that share one budget."""
    paid = [task for task in tasks if task.weight]
    if not paid:
        return {}
    if epsilon == math.inf:
        return dict.fromkeys(paid, 0.0)

    def noises(level: float) -> dict[Task, float]:
        found = {task: math.exp(-level) if common else task.noise(math.exp(2 * level)) for task in paid}
        return {task: max(noise, LEAST_NOISE) for task, noise in found.items()}

    def excess(level: float) -> float:
        events = [task.event(noise) for task, noise in noises(level).items()]
        return accountants.epsilon(events, delta, accountant) / epsilon - 1

    # A Gaussian release of strength mu^2 costs about mu^2 / 2 + mu sqrt(2 log(1 / delta)): a first guess, then widened.
    root = math.sqrt(2 * math.log(1 / delta))
    low = high = 0.0 if common else math.log(2 * epsilon / (math.sqrt(root**2 + 2 * epsilon) + root))
    while excess(low) > 0 and min(noises(low).values()) < MOST_NOISE:
        low -= 0.5
    if min(noises(low).values()) >= MOST_NOISE:
        raise BudgetError(
            f"A budget of epsilon {epsilon:.3g} at delta {delta:.3g} is less than a single sum or step can meet with noise below "
            f"{MOST_NOISE:g} times what a row adds to it. Raise epsilon or delta, or train fewer steps."
        )
    while excess(high) < 0:
        high += 0.5
        if max(noises(high).values()) <= LEAST_NOISE:
            return noises(high)  # a budget so large that it is not all used; less noise would be none
    level = low if low == high else float(brentq(excess, low, high, xtol=1e-4))
    while excess(level) > 0:
        level -= 1e-4
    return noises(level)
