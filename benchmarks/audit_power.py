"""How often `fedonce privacy audit` sees too little noise: every mechanism weakened, one at a time.

The noise of one mechanism is multiplied by a factor, behind the back of plan and ledger, and the audit's tests of it are run at
their default settings. For mechanisms that answer for each row, epsilon is divided by the factor instead; at 0 the truth is told.

    python -m benchmarks.audit_power [--runs 20] [--factors 1,.8,.7,.5,.25,0] [--only PATTERN]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from fedonce.assess import audit, audit_report
from fedonce.assess.audit import answers, measures
from fedonce.learners import PCA, Autoencoder
from fedonce.privacy import privunit, response, subset
from fedonce.privacy.budget import Purse

EPSILON = 2.0
MOST_EPSILON = 40.0  # stands for no noise
RELEASES = ("PCA: mean", "PCA: radius", "PCA: second moments")
Test = tuple[bool, float]  # whether it failed, and the power that it states


@contextmanager
def weak_purse(what: str | None, factor: float) -> Iterator[None]:
    """Let purses use too little noise for one line of the plan; None: for all."""
    take = Purse.take

    def weaker(purse: Purse, line: str, kind: type) -> Any:
        entry = take(purse, line, kind)
        if what not in (None, line):
            return entry
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


def tests() -> dict[str, Callable[[float, int], Test]]:
    """Return the audit's test of each mechanism: takes a factor and a seed."""
    rows, labels = audit_report._rows(0)

    def of_training(check: Callable[[int], audit.Checked], what: str) -> Callable[[float, int], Test]:
        def test(factor: float, seed: int) -> Test:
            with weak_purse(what, factor):
                found = check(seed)
            own = next(each for each in found.measured if each.what == f"noise of {what}")
            return not found.passed, own.power

        return test

    def of_canaries(what: str) -> Callable[[float, int], Test]:
        def test(factor: float, seed: int) -> Test:
            with weak_purse(None, factor):
                found = audit_report.canary_run(what, rows, labels, EPSILON, 5000, seed)
            return not found.passed, found.power

        return test

    def of_answers(room: Any, name: str, draw: measures.Draw) -> Callable[[float, int], Test]:
        def test(factor: float, seed: int) -> Test:
            with weak_answers(room, name, factor):
                found = measures.answers(name, draw, EPSILON, seed)
            return not found.passed, found.power

        return test

    def encoder(factor: float, seed: int) -> Test:
        with weak_answers(response, "keep_of", factor):
            found = measures.guesses(
                "encoder", lambda own: answers.encoder_guesses(rows, own, seed), EPSILON, answers.CLASSES
            )
        return not found.passed, found.power

    learners = [PCA(), Autoencoder(epochs=5, private_batch=200)]
    checks: dict[str, Callable[[int], audit.Checked]] = {
        each.name: lambda seed, each=each: audit.check_learner(each, rows, 8, EPSILON, seed) for each in learners
    }
    checks[audit_report.HOST] = lambda seed: audit_report.check_host(rows, labels, EPSILON, seed)
    lines = {PCA.name: RELEASES, Autoencoder.name: ("autoencoder",), audit_report.HOST: (*RELEASES, "host's model")}
    return {
        **{f"{name}, {what}": of_training(checks[name], what) for name, own in lines.items() for what in own},
        **{f"{name}, all, by canaries": of_canaries(name) for name in lines},
        "local epsilon, subset selection": of_answers(subset, "best", answers.subset_answers),
        "local epsilon, PrivUnit": of_answers(privunit, "best", answers.vector_answers),
        "hints, randomised response": of_answers(response, "keep_of", answers.hint_answers),
        "hints, an encoder trained on them": encoder,
    }


def main() -> None:
    """Print how often each mechanism is caught, for each factor, and what the audit states for a factor of a half."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--factors", default="1,.8,.7,.5,.25,0")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    factors = [float(each) for each in options.factors.split(",")]
    print(f"caught of {options.runs} runs, by factor of the noise; stated: the audit's own figure for 0.5")
    print(f"{'mechanism':42}", *(f"{factor:>6g}" for factor in factors), "  stated  s/run")
    for name, test in tests().items():
        if options.only not in name:
            continue
        began = time.perf_counter()
        found = [[test(factor, seed) for seed in range(options.runs)] for factor in factors]
        caught = (f"{sum(failed for failed, _ in each):>6}" for each in found)
        stated = min(power for _, power in found[0])
        took = (time.perf_counter() - began) / options.runs / len(factors)
        print(f"{name:42}", *caught, f"{stated:8.4f} {took:6.2f}", flush=True)


if __name__ == "__main__":
    main()
