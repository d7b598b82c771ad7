"""The audit of the privacy claims, run on data that need no file, and as one page that opens anywhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits

from fedonce.assess import audit
from fedonce.assess.audit import PROVES_NOTHING, Checked, Measured, Membership, OneRun
from fedonce.estimators import FedOnceClassifier
from fedonce.hostmodels import Examples, NetworkModel
from fedonce.hostmodels.recipe import PRIVATE_CLASSES
from fedonce.learners import NAT, PCA, Autoencoder, Random
from fedonce.privacy.budget import Purse, Task, calibrate
from fedonce.privacy.noise import SecretRandom
from fedonce.report import page, pictures
from fedonce.report.colours import GREY, OTHERS
from fedonce.training.loop import Rows

DPI = 120  # of the picture in the page
HOST = "the host's model"
MEMBERS = 400  # rows that are members or not, half each


@dataclass(frozen=True)
class Findings:
    """All that the audit found."""

    epsilon: float
    checked: list[Checked]
    one_runs: list[OneRun]
    answers: list[Measured]
    memberships: list[Membership]

    @property
    def measured(self) -> list[tuple[str, Measured]]:
        """The tests of noise, samples, prices and answers, each with whose it is."""
        return [*self.of_trainings, *(("answers", each) for each in self.answers)]

    @property
    def of_trainings(self) -> list[tuple[str, Measured]]:
        """Those of noise, samples and prices."""
        return [(check.what, each) for check in self.checked for each in check.measured]

    @property
    def claims(self) -> list[Checked | OneRun | Measured]:
        """The tests of all that we call private."""
        return [*(check for check in self.checked if check.what != NAT.name), *self.one_runs, *self.answers]

    @property
    def weakest(self) -> float:
        """The least of the chances that a factor of two would have been seen, over all mechanisms."""
        return min((each.power for _, each in self.measured), default=0.0)

    @property
    def as_expected(self) -> bool:
        """Whether all that we call private passed, and NAT, which we do not, failed."""
        return all(claim.passed for claim in self.claims) and not any(
            check.passed for check in self.checked if check.what == NAT.name
        )

    def figures(self) -> dict[str, Any]:
        """Return the figures by name."""
        return {
            "epsilon": self.epsilon,
            "as expected": self.as_expected,
            "level": audit.LEVEL,
            "trainings": [_figures(check) for check in self.checked],
            "one run": [_figures(run) for run in self.one_runs],
            "answers": [_figures(each) for each in self.answers],
            "membership": [
                {
                    "model": each.model,
                    "epsilon": each.epsilon,
                    "accuracy": each.accuracy,
                    **{f"{attack}: area": each.area(attack) for attack in each.curves},
                    **{f"{attack}: found at 1 % false": each.caught(attack) for attack in each.curves},
                    **{f"{attack}: found at 0.1 % false": each.caught(attack, 0.001) for attack in each.curves},
                }
                for each in self.memberships
            ],
            "remark": PROVES_NOTHING,
        }

    def lines(self) -> list[str]:
        """Return the findings in sentences."""
        found = [
            f"sums, {check.what}: {_result(check.exact_passed)}; leaving a row out moved a sum by {check.moved:.3g} "
            f"times what a row may add, and by {check.elsewhere:.3g} where the row was not drawn; what was counted costs epsilon "
            f"{check.price:.4g}, claimed {check.claimed:g}"
            + (
                f"; of {check.bits.numbers:,} released numbers {check.bits.disclosed} disclose their sum"
                if check.bits
                else ""
            )
            for check in self.checked
        ]
        found += [
            f"{of}, {each.what}: {_result(each.passed)}; {each.found:.4g}, planned {each.planned:.4g}; a factor of two would "
            f"have been seen in {in_100(each.power)} of 100 runs"
            for of, each in self.measured
        ]
        found += [
            f"one run, {run.what}: {_result(run.passed)}; {run.correct:,} of {run.canaries:,} canaries were guessed rightly, and "
            f"{run.allowed:,} may be: epsilon is at least {run.bound:.2f} (95 % confidence), claimed {run.claimed:g}; half the "
            f"noise would have been seen in {in_100(run.power)} of 100 runs"
            for run in self.one_runs
        ]
        found += [
            f"membership, {each.model}: area under the curve {each.area('loss'):.3f} by loss, "
            f"{each.area('likelihood ratio'):.3f} by likelihood ratio, {each.area('RMIA'):.3f} by RMIA (0.5 is guessing); "
            f"members found at 1 % and 0.1 % of false alarms by RMIA {100 * each.caught('RMIA'):.1f} % and "
            f"{100 * each.caught('RMIA', 0.001):.1f} %; accuracy on rows not trained on {100 * each.accuracy:.1f} %"
            for each in self.memberships
        ]
        return [
            *found,
            "Too little noise by a factor of two, in any one mechanism, would have been seen in at least "
            f"{in_100(self.weakest)} of 100 runs.",
            "As expected: NAT fails, all else passes." if self.as_expected else "NOT as expected.",
            PROVES_NOTHING,
        ]


def in_100(power: float) -> str:
    """Return a chance as a number of runs of 100, rounded down."""
    return f"{math.floor(1000 * power) / 10:g}"


def _result(passed: bool) -> str:
    return "passed" if passed else "FAILED"


def _figures(found: Checked | OneRun | Measured) -> dict[str, Any]:
    own = {**vars(found), "passed": found.passed}
    if isinstance(found, Checked):
        own |= {"measured": [_figures(each) for each in found.measured]}
        own |= {"bits": None if found.bits is None else {**vars(found.bits), "passed": found.bits.passed}}
    return own


def run(
    epsilon: float, models: int, canaries: int, seed: int, tell: Callable[[str], None] = lambda what: None
) -> Findings:
    """Run the tests."""
    rows, labels = digits(seed)
    checked = []
    for learner in (PCA(), Autoencoder(epochs=5, private_batch=200), Random(), NAT(epochs=5, batch=64)):
        tell(f"sums and noise of {learner.name}")
        checked.append(audit.check_learner(learner, rows, 8, epsilon, seed, unsound=True))
    tell(f"sums and noise of {HOST}")
    checked.append(check_host(rows, labels, epsilon, seed))
    one_runs = []
    for what in (PCA.name, Autoencoder.name, HOST):
        tell(f"canaries, {what}")
        one_runs.append(canary_run(what, rows, labels, epsilon, canaries, seed))
    tell("answers for each row")
    answers = audit.check_answers(rows, epsilon, seed)
    memberships = []
    for name, budget in (
        ("no budget", None),
        (f"epsilon {4 * epsilon:g}", 4 * epsilon),
        (f"epsilon {epsilon:g}", epsilon),
    ):
        tell(f"membership, {models} models, {name}")
        memberships.append(audit.membership(name, _model(budget), MEMBERS, budget, models, seed))
    return Findings(epsilon, checked, one_runs, answers, memberships)


def check_host(rows: Rows, labels: NDArray[np.int64], epsilon: float = 2.0, seed: int = 0) -> Checked:
    """Check the host's training: a row is its columns and its label."""
    model = _host_model()
    purse = _purse(model.private_tasks(len(rows), "classification", 1.0), epsilon, len(rows))
    return audit.check_training(HOST, _host_training(model, labels, seed), rows, purse, epsilon)


def canary_run(
    what: str, rows: Rows, labels: NDArray[np.int64], epsilon: float, canaries: int, seed: int = 0
) -> OneRun:
    """Put canaries into one training of a learner, or of the host's model."""
    n = len(rows) + canaries
    if what == HOST:
        model = _host_model()
        tasks, train = model.private_tasks(n, "classification", 1.0), _host_training(model, labels, seed)
    else:
        learner = PCA() if what == PCA.name else Autoencoder(epochs=20, private_batch=500)
        tasks = learner.private_tasks(n, 1.0)

        def train(own: Rows, spending: Purse) -> None:
            learner.fit_private(own, 8, np.random.default_rng(seed), torch.device("cpu"), spending)

    # The canaries' coins are drawn from a seed; the noise, which is what is tested, comes from the operating system.
    return audit.one_run(what, train, rows, _purse(tasks, epsilon, n), epsilon, canaries, seed)


def _host_model() -> NetworkModel:
    return NetworkModel(replace(PRIVATE_CLASSES, epochs=3, head=(16,)))


def _host_training(model: NetworkModel, labels: NDArray[np.int64], seed: int) -> audit.Train:
    """Return how the host trains on its own columns, without guests."""
    empty = np.zeros((len(labels), 0), np.float32)

    def train(own: Rows, spending: Purse) -> None:
        n = len(own)
        examples = Examples(own, empty[:n], empty[:n], labels[:n])
        device = torch.device("cpu")
        model.fit_private(examples, [], int(labels.max()) + 1, np.random.default_rng(seed), device, spending)

    return train


def _purse(tasks: Sequence[Task], epsilon: float, n_rows: int) -> Purse:
    plan = calibrate([replace(task, party="audited") for task in tasks], epsilon, 1 / (10 * n_rows))
    return Purse("audited", plan.of("audited"), plan.ledger(), SecretRandom())


def digits(seed: int) -> tuple[Rows, NDArray[np.int64]]:
    """Return the digits' pixels between -1 and 1, in an order of their own."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    return (X[order] / 8 - 1).astype(np.float32), y[order].astype(np.int64)


def _model(epsilon: float | None) -> audit.Model:
    """Return how to train a model of breast cancer, two parties, on some rows: it gives each row's chance of its class."""
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:MEMBERS], y[:MEMBERS]
    low, high = X.min(axis=0), X.max(axis=0)  # what is known of tumours, here taken from the rows
    public: dict[str, Any] = {}
    if epsilon is not None:
        public = {
            "epsilon": epsilon,
            "bounds": np.stack([low, high + 1e-9], axis=1),
            "target_bounds": [0, 1],
            "accountant": "rdp",
        }

    def train(members: NDArray[np.intp]) -> NDArray[np.float64]:
        seed = int(members[:8].sum())
        model = FedOnceClassifier(parties=2, learner="pca", random_state=seed, **public)
        if epsilon is None:
            model.set_params(host_epochs=100)
        chances = model.fit(X[members], y[members]).predict_proba(X)
        return np.asarray(chances[np.arange(len(y)), y])

    return train


def write(findings: Findings, folder: Path) -> Path:
    """Write `audit.html` into a folder, the picture inside, and return its path."""
    drawn = pictures.png(plot(findings.memberships), DPI)
    text = page.render(
        "assess/audit.html.jinja",
        found=findings,
        failed=[claim.what for claim in findings.claims if not claim.passed],
        noises=findings.of_trainings,
        answers=[("answers", each) for each in findings.answers],
        in_100=in_100,
        plot=drawn,
        remark=PROVES_NOTHING,
        nat=NAT.name,
    )
    return page.write(folder / "audit.html", text)


def plot(memberships: list[Membership]) -> Any:
    """Draw the curves of the membership test, the attacks side by side."""
    attacks = list(memberships[0].curves)
    figure = pictures.figure(3.6 * len(attacks), 3.6)
    for axes, attack in zip(figure.subplots(1, len(attacks)), attacks, strict=True):
        for each, colour in zip(memberships, OTHERS, strict=False):
            false, true = each.curves[attack]
            axes.plot(
                np.maximum(false, 1e-4),
                np.maximum(true, 1e-4),
                color=colour,
                label=f"{each.model}: {each.area(attack):.3f}",
            )
        axes.plot([1e-4, 1], [1e-4, 1], color=GREY, linestyle="--", linewidth=1, label="guessing: 0.5")
        axes.set(xscale="log", yscale="log", xlim=(1e-3, 1), ylim=(1e-3, 1.05), xlabel="others taken for members")
        axes.set_title(f"by {attack}", fontsize=11)
        axes.legend(title="area under the curve", frameon=False, loc="lower right", fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("members found")
    return figure
