"""The audit of the privacy claims, run on data that need no file, and as one page that opens anywhere."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedonce.assess import audit
from fedonce.assess.audit import PROVES_NOTHING, Coupled, Membership, OneRun, ToldLabels
from fedonce.assess.audit import hints as audit_hints
from fedonce.data.table import Table
from fedonce.estimators import FedOnceClassifier
from fedonce.hostmodels import Examples, NetworkModel
from fedonce.hostmodels.recipe import PRIVATE_CLASSES
from fedonce.learners import NAT, PCA, Autoencoder, Hinted, Random
from fedonce.messages.hints import LEAST_EPSILON, Hinting
from fedonce.party import Guest
from fedonce.party.hinting import KEY_BYTES, hints_of, publish
from fedonce.privacy.budget import Purse, calibrate
from fedonce.privacy.noise import SecretRandom
from fedonce.report import page, pictures
from fedonce.report.colours import GREY, OTHERS
from fedonce.rows.ids import Naming
from fedonce.training.loop import Rows

DPI = 120  # of the picture in the page
HOST = "the host's model"
MEMBERS = 400  # rows that are members or not, half each


@dataclass(frozen=True)
class Findings:
    """All that the audit found."""

    epsilon: float
    coupled: list[Coupled]
    one_runs: list[OneRun]
    memberships: list[Membership]
    told: list[ToldLabels]

    @property
    def claims(self) -> list[Coupled | OneRun | ToldLabels]:
        """The tests of all that we call private."""
        return [*(check for check in self.coupled if check.what != NAT.name), *self.one_runs, *self.told]

    @property
    def as_expected(self) -> bool:
        """Whether all that we call private passed, and NAT, which we do not, failed."""
        return all(claim.passed for claim in self.claims) and not any(
            check.passed for check in self.coupled if check.what == NAT.name
        )

    def figures(self) -> dict[str, Any]:
        """Return the figures by name."""
        return {
            "epsilon": self.epsilon,
            "as expected": self.as_expected,
            "coupled": [{**vars(check), "passed": check.passed} for check in self.coupled],
            "one run": [{**vars(run), "passed": run.passed} for run in self.one_runs],
            "hints": [{**vars(each), "passed": each.passed} for each in self.told],
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
        told = [
            f"sums, {check.what}: {'passed' if check.passed else 'FAILED'}; leaving a row out moved a sum by {check.moved:.3g} "
            f"times what a row may add, and by {check.elsewhere:.3g} where the row was not drawn"
            for check in self.coupled
        ]
        told += [
            f"one run, {run.what}: epsilon is at least {run.bound:.2f} (95 % confidence), claimed {run.claimed:g}; "
            f"{run.correct} of {run.guesses} guesses about {run.canaries} canaries were right"
            for run in self.one_runs
        ]
        told += [
            f"membership, {each.model}: area under the curve {each.area('loss'):.3f} by loss, "
            f"{each.area('likelihood ratio'):.3f} by likelihood ratio, {each.area('RMIA'):.3f} by RMIA (0.5 is guessing); "
            f"members found at 1 % and 0.1 % of false alarms by RMIA {100 * each.caught('RMIA'):.1f} % and "
            f"{100 * each.caught('RMIA', 0.001):.1f} %; accuracy on rows not trained on {100 * each.accuracy:.1f} %"
            for each in self.memberships
        ]
        told += [
            f"hints, {each.what}: label epsilon is at least {each.bound:.2f} (99.99 % confidence), claimed {each.claimed:g}; "
            f"{each.correct:,} of {each.rows:,} labels were told, and {100 * each.most:.1f} % may be"
            for each in self.told
        ]
        return [
            *told,
            "As expected: NAT fails, all else passes." if self.as_expected else "NOT as expected.",
            PROVES_NOTHING,
        ]


def run(
    epsilon: float, models: int, canaries: int, seed: int, tell: Callable[[str], None] = lambda what: None
) -> Findings:
    """Run the tests."""
    rows, labels = _rows(seed)
    coupled = []
    for learner in (PCA(), Autoencoder(epochs=5, private_batch=200), Random(), NAT(epochs=5, batch=64)):
        tell(f"sums of {learner.name}")
        coupled.append(audit.check_learner(learner, rows, 8, epsilon, seed, unsound=True))
    tell(f"sums of {HOST}")
    coupled.append(check_host(rows, labels, epsilon, seed))
    one_runs = []
    for learner in (PCA(), Autoencoder(epochs=20, private_batch=500)):
        tell(f"canaries, {learner.name}")
        n = len(rows) + canaries
        tasks = [replace(task, party="audited") for task in learner.private_tasks(n, 1.0)]
        plan = calibrate(tasks, epsilon, 1 / (10 * n))
        # The canaries' coins are drawn from a seed; the noise, which is what is tested, comes from the operating system.
        purse = Purse("audited", plan.of("audited"), plan.ledger(), SecretRandom())

        def train(own: Rows, spending: Purse, learner: Any = learner) -> None:
            learner.fit_private(own, 8, np.random.default_rng(seed), torch.device("cpu"), spending)

        one_runs.append(audit.one_run(learner.name, train, rows, purse, epsilon, canaries, seed))
    memberships = []
    for name, budget in (
        ("no budget", None),
        (f"epsilon {4 * epsilon:g}", 4 * epsilon),
        (f"epsilon {epsilon:g}", epsilon),
    ):
        tell(f"membership, {models} models, {name}")
        memberships.append(audit.membership(name, _model(budget), MEMBERS, budget, models, seed))
    tell("labels from hints")
    hinted = max(epsilon, LEAST_EPSILON)
    again, encoder = _asked_again(hinted), _from_encoder(hinted, rows, seed)
    told = [
        audit.told_labels("answers, asked for three times", again, hinted, seed=seed, answers=True),
        audit.told_labels("an encoder trained on them", encoder, hinted, rows=len(rows), seed=seed),
    ]
    return Findings(epsilon, coupled, one_runs, memberships, told)


def _asked_again(epsilon: float) -> audit_hints.Guess:
    """Return what somebody makes of hints who asks for them three times: the answer that he got most often."""

    def guess(labels: NDArray[np.intp]) -> NDArray[np.intp]:
        ids, key = np.array([f"row {row}" for row in range(len(labels))], dtype=object), secrets.token_bytes(KEY_BYTES)
        naming, classes = Naming("plain"), np.unique(labels)
        hinting = Hinting(epsilon, classes=classes.tolist())
        files = [publish(labels, hinting, ids=ids, naming=naming, key=key) for _ in range(3)]
        counts = np.zeros((len(labels), len(classes)))
        rows = Table(("none",), True, columns=(np.zeros(len(labels)),), ids=ids)
        for each in files:
            np.add.at(counts, (np.arange(len(labels)), hints_of(each, rows, None, naming, None, "shop", "local")), 1)
        return np.asarray(counts.argmax(axis=1))

    return guess


def _from_encoder(epsilon: float, rows: Rows, seed: int) -> audit_hints.Guess:
    """Return what somebody makes of an encoder's values, its hints, and half of the labels.

    Labels are drawn by coin, so that rows tell nothing of them: what can be told, the encoder has memorised.
    """

    def guess(labels: NDArray[np.intp]) -> NDArray[np.intp]:
        hints = publish(labels, Hinting(epsilon))
        message = Guest("shop", Hinted(base="pca", share=1.0, epochs=20), 8, random_state=seed).learn(rows, hints=hints)
        seen = np.hstack([message.values, np.eye(hints.classes)[hints.answers]])
        known = np.arange(len(labels)) % 2 == 0
        guesses = np.full(len(labels), -1)
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
        guesses[~known] = model.fit(seen[known], labels[known]).predict(seen[~known])
        return guesses

    return guess


def check_host(rows: Rows, labels: NDArray[np.int64], epsilon: float = 2.0, seed: int = 0) -> Coupled:
    """Check the host's training: a row is its columns and its label."""
    model = NetworkModel(replace(PRIVATE_CLASSES, epochs=3, head=(16,)))
    tasks = [replace(task, party="audited") for task in model.private_tasks(len(rows), "classification", 1.0)]
    plan = calibrate(tasks, epsilon, 1 / (10 * len(rows)), "rdp")
    purse = Purse("audited", plan.of("audited"), plan.ledger(), SecretRandom(insecure_test_seed=seed))
    empty = np.zeros((len(rows), 0), np.float32)

    def train(own: Rows, spending: Purse) -> None:
        n = len(own)
        examples = Examples(own, empty[:n], empty[:n], labels[:n])
        model.fit_private(
            examples, [], int(labels.max()) + 1, np.random.default_rng(seed), torch.device("cpu"), spending
        )

    return audit.coupled_check(HOST, train, rows, purse)


def _rows(seed: int) -> tuple[Rows, NDArray[np.int64]]:
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
