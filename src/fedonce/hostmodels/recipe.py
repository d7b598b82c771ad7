"""Recipes: how the host's network is built and trained, and which one is taken where nobody says."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedonce.errors import parameter_error
from fedonce.training.networks import NCF, Network, fits_cnn0
from fedonce.training.settings import Training
from fedonce.training.stored import added_later


@dataclass(frozen=True)
class Recipe:
    """How the host builds and trains its model; the fields of the paper's tables, and a few of ours.

    Parameters
    ----------
    encoder_hidden, encoder_dim
        The network that takes the host's own columns to `encoder_dim` values (FC; CNN0 where they are an image).
    head : tuple of int
        Widths of the head's hidden layers: the "host model" of the paper's tables.
    dropout : float
        Dropout in the head.
    epochs : int, optional
        None: as many as make about `steps` steps, 20 to 100, and above half a million rows fewer. With fewer than
        100,000 rows (images: 5,000) that many, a quarter or a twelfth of them: what a sixth of the training rows speaks for.
    batch, rate, weight_decay, schedule, optimizer
        As in `fedonce.training.settings.Training`. A batch is at most a sixteenth of the rows, and at least 16. A weight decay
        of None is 0.1, and less in proportion above 5,000 rows.
    guest_dropout : float
        Share of the rows for which, in each epoch, guests are dropped at random, so that the model copes with absent ones.
    standardise, marks : bool
        Whether representations are standardised, and whether the head is told who is present.
    network : torch.nn.Module, NCF, "cnn0", "cnn1" or None
        The encoder of the host's own columns instead of the one chosen by shape; gives `encoder_dim` values per row.
    members : int
        Models that are trained alike from different random numbers, their outputs averaged (Lakshminarayanan et al., 2017):
        more accurate, at so many times the host's work; nothing more is sent.
    smoothing : float
        Label smoothing (Szegedy et al., 2016) of classes: more accurate on images, and probabilities less extreme.
    activation : str
        "relu" or "tanh", between the layers of the head.
    clip : float
        With a privacy budget: the norm that a row's gradient is clipped to.
    drift : float, optional
        With a privacy budget and "sgd": lower the rate so that the noise alone moves a weight by no more than this
        (standard deviation after the last step); `rate` is then the highest. What it needs is in the plan.
    shift : int, optional
        Pixels by which images are moved at random while the network is trained. None: they are not.
    fixed_encoder : bool
        With a privacy budget: own columns go through a private PCA to `encoder_dim` values, and only the head is trained.
    """

    encoder_hidden: tuple[int, ...] = (128,)
    encoder_dim: int = 64
    head: tuple[int, ...] = (256, 256, 128)
    dropout: float = 0.0
    epochs: int | None = None
    steps: int = 5000
    batch: int = 256
    rate: float = 4e-3
    weight_decay: float | None = None
    schedule: str = "one-cycle"
    optimizer: str = "adamw"
    guest_dropout: float = 0.1
    standardise: bool = True
    marks: bool = True
    network: Network = None
    members: int = 1
    smoothing: float = 0.0
    activation: str = "relu"
    clip: float = 0.5
    drift: float | None = None
    fixed_encoder: bool = False
    shift: int | None = added_later()

    @property
    def embeddings(self) -> tuple[int, ...]:
        """Widths of the embeddings of the host's own columns."""
        return self.network.embeddings if isinstance(self.network, NCF) else ()

    def training(self, n_rows: int) -> Training:
        """Return how to train on so many rows."""
        batch = int(np.clip(n_rows // 16, 16, self.batch)) if self.schedule == "one-cycle" else self.batch
        if self.fixed_encoder:
            batch = min(self.batch, max(1, n_rows // 4))
        epochs = self.epochs
        if epochs is None:
            least = int(np.clip(ROW_VISITS // n_rows, 5, 20))
            epochs = int(np.clip(round(self.steps * batch / n_rows), least, 100))
        decay = 0.1 * min(1.0, 5000 / n_rows) if self.weight_decay is None else self.weight_decay
        return Training(epochs, batch, self.rate, decay, self.schedule, self.optimizer)


ROW_VISITS = 10_000_000  # rows times epochs, beyond which a large table is not gone over 20 times

TABLES = Recipe()
IMAGES = Recipe(encoder_dim=128, head=(1024, 512), dropout=0.3, rate=2e-3, smoothing=0.1)
# For images, where there is a GPU or time: a larger network than the paper's, three to four times the work.
LARGE_IMAGES = replace(IMAGES, network="cnn3", shift=1)
# The paper: Adam at a constant rate, representations as they come, nobody dropped. A preset fills in the shapes.
PAPER = Recipe(
    encoder_hidden=(30, 30),
    encoder_dim=3,
    head=(30,),
    dropout=0.0,
    epochs=100,
    batch=100,
    rate=1e-4,
    weight_decay=1e-4,
    schedule="constant",
    optimizer="adam",
    guest_dropout=0.0,
    standardise=False,
    marks=False,
)


# With a privacy budget: few parameters, few large batches, bounded activations. docs/privacy.md says how they were chosen.
PRIVATE_CLASSES = Recipe(
    encoder_dim=20,
    head=(128,),
    epochs=60,
    batch=4096,
    rate=200.0,
    weight_decay=0.0,
    schedule="linear",
    optimizer="sgd",
    guest_dropout=0.0,
    standardise=False,
    marks=False,
    activation="tanh",
    clip=0.3,
    drift=0.5,
    fixed_encoder=True,
)
PRIVATE_NUMBERS = replace(PRIVATE_CLASSES, head=(64,), rate=0.03, optimizer="adam", clip=0.1, drift=None)
PRIVATE_IMAGE_DIM = 32


def find_recipe(
    recipe: object, epochs: int | None, shape: tuple[int, ...], owner: str, budget: str | None = None
) -> Recipe:
    """Return the recipe of a name or the user's own; `epochs` overrides its own.

    `budget` is the task, "classification" or "regression", where there is a privacy budget.
    """
    if isinstance(recipe, Recipe):
        found = recipe
    elif recipe == "default" and budget:
        found = PRIVATE_CLASSES if budget == "classification" else PRIVATE_NUMBERS
        found = replace(found, encoder_dim=PRIVATE_IMAGE_DIM) if fits_cnn0(shape) else found
    elif recipe == "default":
        found = IMAGES if fits_cnn0(shape) else TABLES
    elif recipe == "large":
        found = LARGE_IMAGES if fits_cnn0(shape) else TABLES
    elif recipe == "paper":
        found = PAPER
    else:
        raise parameter_error(owner, "recipe", "'default', 'large', 'paper' or a Recipe", recipe)
    return found if epochs is None else replace(found, epochs=epochs)
