"""Settings of one run of a method, as experiment files give them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    """What a method may be told. Each method reads what concerns it.

    Attributes
    ----------
    settings : str
        "ours": the default recipe; "paper": the paper's models and hyperparameters of the data set (`fedonce.presets`).
    learner : str
        How guests learn.
    dim, bits : int
        Values a row and guest in a message, and bits a value.
    epochs : float or None
        SplitNN and multi-round FedOnce: epochs of rounds. None: as many as the host's recipe trains.
    host_epochs, guest_epochs : int or None
        Epochs of the host's own training, and of the guests'; None: the recipe's and the learner's.
    trees, depth : int
        SecureBoost.
    federated : bool
        SecureBoost: whether real workers train it, up to ten parties; if not, XGBoost in one place, whose model is equal.
    noise : float
        Scale of the Gaussian noise on representations.
    absent : int
        So many guests, drawn by the seed, do not answer, neither in training nor in prediction.
    probe : bool
        Whether to score a linear model on the representations alone, too.
    device : str
        "auto", "cpu" or "cuda".
    """

    settings: str = "ours"
    learner: str = "auto"
    dim: int = 8
    bits: int = 8
    epochs: float | None = None
    host_epochs: int | None = None
    guest_epochs: int | None = None
    trees: int = 100
    depth: int = 6
    federated: bool = True
    noise: float = 0.0
    absent: int = 0
    probe: bool = False
    device: str = "auto"
