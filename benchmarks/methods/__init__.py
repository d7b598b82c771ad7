"""Methods by the paper's names: each is `run(problem, config, seed) -> Result`, one file each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.config import Config
from benchmarks.methods import (
    calibration,
    combine,
    estimator,
    fedonce,
    leakage,
    linear,
    multiround,
    overlap,
    private,
    secureboost,
    solo,
    splitnn,
    splitnn_tabm,
)
from benchmarks.problem import Problem, Result

Run = Callable[[Problem, Config, int], Result]


@dataclass(frozen=True)
class Method:
    """A method, and whether it is run with each host; if not, with the first of them."""

    run: Run
    by_host: bool = True


METHODS = {
    "Solo": Method(solo.run),
    "Combine": Method(combine.run, by_host=False),
    "Linear-Combine": Method(linear.run, by_host=False),
    "SplitNN": Method(splitnn.run, by_host=False),
    "SplitNN-Comm": Method(splitnn.run_comm, by_host=False),
    "SplitNN-TabM": Method(splitnn_tabm.run, by_host=False),
    "SecureBoost": Method(secureboost.run, by_host=False),
    "SecureBoost-Comm": Method(secureboost.run_comm, by_host=False),
    "FedOnce-L0": Method(fedonce.paper),
    "FedOnce-L0 multi-round": Method(multiround.paper),
    "FedOnce": Method(fedonce.run),
    "FedOnce multi-round": Method(multiround.run),
    "FedOnce-NAT": Method(fedonce.with_learner("nat")),
    "FedOnce-PCA": Method(fedonce.with_learner("pca")),
    "FedOnce-autoencoder": Method(fedonce.with_learner("autoencoder")),
    "FedOnce-patches": Method(fedonce.with_learner("patches")),
    "FedOnce-random": Method(fedonce.with_learner("random")),
    "FedOnce private": Method(private.run),
    "FedOnce-L1": Method(private.paper),
    "Priv-Baseline": Method(private.baseline),
    "FedOnce (estimator)": Method(estimator.run),
    "Solo (estimator)": Method(estimator.solo),
    "Combine (estimator)": Method(estimator.combine, by_host=False),
    "FedOnce (leakage)": Method(leakage.run),
    "Calibration": Method(calibration.run),
    "Guest kept": Method(overlap.kept),
    "Guest left out": Method(overlap.left_out),
    "Common rows": Method(overlap.common),
}
