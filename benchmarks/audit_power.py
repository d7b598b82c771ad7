"""How often `fedonce privacy audit` sees too little noise.

The noise of all releases of a training is multiplied by a factor, behind the back of plan and ledger, and the audit's tests are
run at their default settings: which of them fail is counted for each release. For mechanisms that answer for each row, epsilon is
divided by the factor instead; at 0 the truth is told.

    python -m benchmarks.audit_power [--runs 20] [--factors 1,.8,.7,.5,.25,0] [--only PATTERN]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from fedonce.assess import audit, audit_report
from fedonce.assess.audit import answers, measures
from fedonce.learners import PCA, Autoencoder
from fedonce.privacy import response, subset
from fedonce.privacy.budget import Purse

EPSILON = 2.0
MOST_EPSILON = 40.0  # stands for no noise
Verdicts = dict[str, tuple[bool, float]]  # by test: whether it failed, and the power that it states
Test = Callable[[float, int], Verdicts]  # of a factor and a seed


@contextmanager
def weak_purse(factor: float) -> Iterator[None]:
    """Let purses use this much of the planned noise."""
    take = Purse.take

    def weaker(purse: Purse, line: str, kind: type) -> Any:
        entry = take(purse, line, kind)
        return replace(entry, event=replace(entry.event, noise=entry.event.noise * factor))

    Purse.take = weaker  # type: ignore[method-assign]
    try:
        yield
    finally:
        Purse.take = take  # type: ignore[method-assign]


@contextmanager
def weak_answers(room: Any, name: str, factor: float) -> Iterator[None]:
    """Let a mechanism take a larger epsilon than it is given."""
    honest = getattr(room, name)
    setattr(room, name, lambda count, epsilon: honest(count, min(epsilon / max(factor, 1e-9), MOST_EPSILON)))
    try:
        yield
    finally:
        setattr(room, name, honest)


def of_training(check: Callable[[int], audit.Checked]) -> Test:
    """Return the test of a training's noise, release by release."""

    def test(factor: float, seed: int) -> Verdicts:
        with weak_purse(factor):
            found = check(seed)
        noises = [each for each in found.measured if each.what.startswith("noise")]
        return {f"{found.what}, {each.what}": (not each.passed, each.power) for each in noises}

    return test


def of_canaries(run: Callable[[int], audit.OneRun]) -> Test:
    """Return the test of a training by canaries."""

    def test(factor: float, seed: int) -> Verdicts:
        with weak_purse(factor):
            found = run(seed)
        return {f"{found.what}, by canaries": (not found.passed, found.power)}

    return test


def of_answers(room: Any, name: str, check: Callable[[int], measures.Measured]) -> Test:
    """Return the test of a mechanism that answers for each row; `name` in `room` makes it of an epsilon."""

    def test(factor: float, seed: int) -> Verdicts:
        with weak_answers(room, name, factor):
            found = check(seed)
        return {found.what: (not found.passed, found.power)}

    return test


def tests() -> dict[str, Test]:
    """Return the audit's tests."""
    rows, labels = audit_report.digits(0)
    learners = [PCA(), Autoencoder(epochs=5, private_batch=200)]
    draws = {
        "local epsilon": (subset, "best", answers.local_answers),
        "local epsilon, without ids": (subset, "best", answers.local_answers_once),
        "hints": (response, "keep_of", answers.hint_answers),
    }

    def guesses(seed: int) -> measures.Measured:
        return measures.guesses(
            "hints, by an encoder", lambda own: answers.encoder_guesses(rows, own, seed), EPSILON, answers.CLASSES
        )

    return {
        **{
            each.name: of_training(lambda seed, each=each: audit.check_learner(each, rows, 8, EPSILON, seed))
            for each in learners
        },
        audit_report.HOST: of_training(lambda seed: audit_report.check_host(rows, labels, EPSILON, seed)),
        **{
            f"{name}, canaries": of_canaries(
                lambda seed, name=name: audit_report.canary_run(name, rows, labels, EPSILON, 5000, seed)
            )
            for name in (PCA.name, Autoencoder.name, audit_report.HOST)
        },
        **{
            what: of_answers(room, name, lambda seed, what=what, draw=draw: measures.answers(what, draw, EPSILON, seed))
            for what, (room, name, draw) in draws.items()
        },
        "hints, encoder": of_answers(response, "keep_of", guesses),
    }


def main() -> None:
    """Print how often each test fails, for each factor, and what the audit states for a factor of a half."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--factors", default="1,.8,.7,.5,.25,0")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    factors = [float(each) for each in options.factors.split(",")]
    print(f"caught of {options.runs} runs, by factor of the noise; stated: the audit's own figure for 0.5")
    print(f"{'test':44}", *(f"{factor:>5g}" for factor in factors), "  stated")
    for name, test in tests().items():
        if options.only not in name:
            continue
        found = [[test(factor, seed) for seed in range(options.runs)] for factor in factors]
        for line in found[0][0]:
            caught = (f"{sum(each[line][0] for each in runs):>5}" for runs in found)
            print(f"{line:44}", *caught, f"{min(each[line][1] for each in found[0]):8.4f}", flush=True)


if __name__ == "__main__":
    main()
