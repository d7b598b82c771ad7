"""The host's model: an encoder of its own columns, the guests' representations, and a head on both (Algorithm 1, lines 18-31)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from fedonce.errors import parameter_error
from fedonce.hostmodels.base import Examples
from fedonce.training.loop import Batch, Rows, apply, autograd_step, train
from fedonce.training.networks import NCF, Network, Standardise, code_sizes, encoder, fits_cnn0, mlp
from fedonce.training.randomness import torch_seeded
from fedonce.training.settings import Epoch, Training
from fedonce.training.threads import network_work, threads_for


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
# How long to train is tried on a part of the training rows: of images with few rows, of tables unless they are so many that
# nothing is learnt by heart. With few rows every length is tried.
FEW_ROWS, MANY_ROWS = 5000, 100_000
ENOUGH_OVERLAP = 0.9  # a guest with fewer of the host's rows is also done without, by a second model
TRUSTS = (0.0, 0.25, 0.5, 0.75, 1.0)  # in the model with such guests
LEAST_HELD = 20  # rows on which trust can be tried
CLEARLY = 0.95  # so much of a loss is clearly better than it

TABLES = Recipe()
IMAGES = Recipe(encoder_dim=128, head=(1024, 512), dropout=0.3, rate=2e-3, smoothing=0.1)
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
    elif recipe == "paper":
        found = PAPER
    else:
        raise parameter_error(owner, "recipe", "'default', 'paper' or a Recipe", recipe)
    return found if epochs is None else replace(found, epochs=epochs)


class AggregationModel(nn.Module):
    """f_w of the paper: own columns and representations in, one output per class (or one value) out."""

    def __init__(
        self, shape: tuple[int, ...], dims: Sequence[int], n_outputs: int, recipe: Recipe, sizes: Sequence[int] = ()
    ) -> None:
        super().__init__()
        self.dims, self.marks = tuple(dims), recipe.marks
        self.encoder = encoder(shape, recipe.encoder_hidden, recipe.encoder_dim, recipe.network, sizes)
        self.representations = Standardise(torch.zeros(sum(dims)), torch.ones(sum(dims)))
        width = recipe.encoder_dim + sum(dims) + (len(dims) if recipe.marks else 0)
        self.head = mlp(width, recipe.head, n_outputs, recipe.dropout, recipe.activation)

    def fit_scale(self, values: Tensor, present: Tensor) -> None:
        """Standardise each guest's values by the rows that it has."""
        if not self.dims:
            return
        has = self.expand(present)
        count = has.sum(dim=0).clamp(min=1)
        mean = (values * has).sum(dim=0) / count
        variance = ((values - mean).square() * has).sum(dim=0) / count
        self.representations.mean.copy_(mean)
        self.representations.scale.copy_(torch.where(variance > 1e-12, variance.sqrt(), 1.0))

    def expand(self, present: Tensor) -> Tensor:
        """Repeat a mark per guest for each of its values."""
        return torch.cat([present[:, j : j + 1].expand(-1, d) for j, d in enumerate(self.dims)], dim=1)

    def inputs(self, own: Tensor, values: Tensor, present: Tensor) -> Tensor:
        """Return what the head sees: encoded own columns, the guests' values, and who is present."""
        parts = [self.encoder(own)]
        if self.dims:
            parts.append(self.representations(values) * self.expand(present))
            if self.marks:
                parts.append(present)
        return torch.cat(parts, dim=1)

    def forward(self, own: Tensor, values: Tensor, present: Tensor) -> Tensor:
        """Give outputs from the host's own rows, the guests' values side by side and who is present (1 or 0)."""
        outputs: Tensor = self.head(self.inputs(own, values, present))
        return outputs


class Ensemble(nn.Module):
    """Several models of the host; their outputs are averaged."""

    def __init__(self, members: Sequence[AggregationModel]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, own: Tensor, values: Tensor, present: Tensor) -> Tensor:
        """Average the members' outputs."""
        return torch.stack([member(own, values, present) for member in self.members]).mean(dim=0)


class ByOverlap(nn.Module):
    """Two models, where some guests lack many rows: one with those guests and one without them, and how much each is trusted.

    One model alone would learn to do without such a guest from few rows, and with it from few others. `trust` is that in the
    model with all guests, on rows that none of the partial guests has, and on rows that one of them has.
    """

    def __init__(self, without: nn.Module, with_all: nn.Module, partial: Sequence[bool]) -> None:
        super().__init__()
        self.without, self.with_all = without, with_all
        self.partial: Tensor
        self.trust: Tensor
        self.register_buffer("partial", torch.tensor([float(each) for each in partial]), persistent=False)
        self.register_buffer("trust", torch.tensor([0.0, 1.0]))

    def forward(self, own: Tensor, values: Tensor, present: Tensor) -> Tensor:
        """Mix what both models give."""
        with_all, without, has = self.both(own, values, present)
        trust = torch.where(has, self.trust[1], self.trust[0]).to(with_all.dtype)
        return trust * with_all + (1 - trust) * without

    def both(self, own: Tensor, values: Tensor, present: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return what the model with all guests gives, what the other gives, and which rows a partial guest has."""
        partial = self.partial.to(present.dtype)
        has = (present * partial).amax(dim=1, keepdim=True) > 0
        return self.with_all(own, values, present), self.without(own, values, present * (1 - partial)), has

    @torch.no_grad()
    def choose_trust(self, rest: Examples) -> None:
        """Choose by rows that neither model was trained on."""
        arrays = (rest.own, rest.values, rest.present)
        with_all, without, has = self.eval().both(*(torch.from_numpy(array).to(self.trust.dtype) for array in arrays))
        target = torch.from_numpy(rest.target)
        for regime, rows in enumerate((~has[:, 0], has[:, 0])):
            if int(rows.sum()) >= LEAST_HELD:
                losses = [
                    float(loss(trust * with_all[rows] + (1 - trust) * without[rows], target[rows], 0.0))
                    for trust in TRUSTS
                ]
                self.trust[regime] = TRUSTS[int(np.argmin(losses))]


def partial_guests(present: Rows) -> tuple[bool, ...]:
    """Tell which guests lack so many of the training rows that a model without them pays."""
    return tuple(bool(0 < share < ENOUGH_OVERLAP) for share in present.mean(axis=0, dtype=np.float64))


TrainOnce = Callable[[Examples, Recipe, np.random.Generator], tuple[AggregationModel, "list[Epoch]"]]


def fit(
    examples: Examples,
    dims: Sequence[int],
    n_outputs: int,
    recipe: Recipe,
    rng: np.random.Generator,
    device: torch.device,
) -> tuple[nn.Module, list[Epoch]]:
    """Train the host's model: cross-entropy where targets are classes, squared error where they are numbers.

    Returns the model and its history; where there are several members, that of the first.
    """
    if not isinstance(recipe.members, int) or recipe.members < 1:
        raise parameter_error("Recipe", "members", "a positive integer", recipe.members)

    def once(part: Examples, recipe: Recipe, rng: np.random.Generator) -> tuple[AggregationModel, list[Epoch]]:
        return _train(part, dims, n_outputs, recipe, rng, device)

    if recipe.epochs is None and len(examples.own) < (FEW_ROWS if fits_cnn0(examples.own.shape[1:]) else MANY_ROWS):
        trial = copy.deepcopy(rng).spawn(1)[0]  # of its own: the training itself is the same with and without the trial
        recipe = replace(recipe, epochs=_choose_epochs(examples, recipe, once, trial, device))
    model, history = _members(examples, recipe, once, rng)
    if any(partial_guests(examples.present)):
        model = _by_overlap(examples, model, recipe, once, np.random.default_rng(rng.integers(2**63)))
    return model, history


def _by_overlap(
    examples: Examples, with_all: nn.Module, recipe: Recipe, once: TrainOnce, rng: np.random.Generator
) -> ByOverlap:
    """Add a model without the partial guests; with tables that are not too large, try how much each is to be trusted."""
    partial = partial_guests(examples.present)

    def without(part: Examples) -> Examples:
        return replace(part, present=part.present * ~np.array(partial))

    both = ByOverlap(_members(without(examples), recipe, once, rng)[0], with_all, partial)
    if len(examples.own) < MANY_ROWS:
        held, kept = np.split(rng.permutation(len(examples.own)), [len(examples.own) // 6])
        part = examples.take(kept)
        trial = ByOverlap(once(without(part), recipe, rng)[0], once(part, recipe, rng)[0], partial)
        trial.choose_trust(examples.take(held))
        both.trust.copy_(trial.trust)
    return both


def _members(
    examples: Examples, recipe: Recipe, once: TrainOnce, rng: np.random.Generator
) -> tuple[nn.Module, list[Epoch]]:
    """Train as many models as the recipe has; return them as one, and the history of the first."""
    trained = [once(examples, recipe, generator) for generator in (rng, *rng.spawn(recipe.members - 1))]
    model = trained[0][0] if len(trained) == 1 else Ensemble([member for member, _ in trained])
    return model, trained[0][1]


def _choose_epochs(
    examples: Examples, recipe: Recipe, once: TrainOnce, rng: np.random.Generator, device: torch.device
) -> int:
    """Try how long to train on a part of the training rows: what cannot be learnt, a long training learns by heart.

    A twelfth, a quarter or all of the epochs. Numbers: the length with the least loss on the rest of the training rows. Classes:
    the longest that is not worse than the best by two standard errors. With many rows, all of the epochs are not tried where a
    quarter is clearly better or worse than a twelfth. The model is then trained anew on all rows.
    """
    most = recipe.training(len(examples.own)).epochs
    order = rng.permutation(len(examples.own))
    held, kept = np.split(order, [len(order) // 6])
    if len(held) < 10:
        return most
    rest, part, losses = examples.take(held), examples.take(kept), dict[int, NDArray[np.float64]]()
    for epochs in sorted({max(1, most // 12), max(1, most // 4), most}):
        if epochs == most and len(losses) == 2 and len(examples.own) >= FEW_ROWS:
            short, longer = losses.values()
            if longer.mean() < CLEARLY * short.mean():
                return most
            if _worse(longer, short):
                return min(losses)
        model, _ = once(part, replace(recipe, epochs=epochs), rng)
        losses[epochs] = _row_losses(outputs(model, rest.own, rest.values, rest.present, device), rest.target)
    best = min(losses, key=lambda epochs: float(losses[epochs].mean()))
    if rest.target.dtype.kind == "f":
        return best
    return max(epochs for epochs, each in losses.items() if not _worse(each, losses[best]))


def _row_losses(raw: Rows, target: NDArray[Any]) -> NDArray[np.float64]:
    """Return the loss of each row."""
    if target.dtype.kind == "f":
        return np.asarray(np.square(raw[:, 0] - target), dtype=np.float64)
    each = F.cross_entropy(torch.from_numpy(raw).double(), torch.from_numpy(target), reduction="none")
    return np.asarray(each.numpy())


def _worse(losses: NDArray[np.float64], than: NDArray[np.float64]) -> bool:
    """Tell whether losses are higher than others of the same rows, by two standard errors."""
    more = losses - than
    return bool(more.mean() > 2 * more.std() / np.sqrt(len(more)))


def loss(raw: Tensor, target: Tensor, smoothing: float) -> Tensor:
    """Return the mean loss of outputs."""
    if target.is_floating_point():
        return F.mse_loss(raw[:, 0], target.to(raw.dtype))
    return F.cross_entropy(raw, target, label_smoothing=smoothing)


def untrained(
    shape: tuple[int, ...],
    dims: Sequence[int],
    n_outputs: int,
    recipe: Recipe,
    sizes: Sequence[int] = (),
    partial: Sequence[bool] = (),
) -> nn.Module:
    """Make the host's model, with as many members as the recipe has; two such where guests are `partial`."""
    if any(partial):
        two = [untrained(shape, dims, n_outputs, recipe, sizes) for _ in range(2)]
        return ByOverlap(two[0], two[1], partial)
    members = [build(shape, dims, n_outputs, recipe, sizes) for _ in range(recipe.members)]
    return members[0] if len(members) == 1 else Ensemble(members)


def build(
    shape: tuple[int, ...], dims: Sequence[int], n_outputs: int, recipe: Recipe, sizes: Sequence[int] = ()
) -> AggregationModel:
    """Make the host's model for own rows of a shape and guests of so many values; weights are drawn from torch's generator.

    `sizes` are those of `networks.code_sizes`.
    """
    return AggregationModel(shape, dims, n_outputs, recipe, sizes)


def _train(
    examples: Examples,
    dims: Sequence[int],
    n_outputs: int,
    recipe: Recipe,
    rng: np.random.Generator,
    device: torch.device,
) -> tuple[AggregationModel, list[Epoch]]:
    dtype = torch.get_default_dtype()
    with torch_seeded(rng):
        sizes = code_sizes(recipe.network, examples.own)
        model = build(examples.own.shape[1:], dims, n_outputs, recipe, sizes).to(device, dtype)
        arrays = (examples.own, examples.values, examples.present)
        tensors = [torch.from_numpy(array).to(device, dtype) for array in arrays]
        if recipe.standardise:
            model.fit_scale(tensors[1], tensors[2])
        target = torch.from_numpy(examples.target).to(device)

        def batch_loss(batch: Batch, epoch: int) -> Tensor:
            rows = torch.from_numpy(batch).to(device)
            x, r, p = (tensor[rows] for tensor in tensors)
            return loss(model(x, r, drop_guests(p, recipe.guest_dropout)), target[rows], recipe.smoothing)

        parameters = list(model.train().parameters())
        training = recipe.training(len(examples.own))
        with threads_for(3 * network_work(model, examples.own.shape[1:], training.batch)):
            history = train(
                training.update(parameters), len(examples.own), autograd_step(parameters, batch_loss), training, rng
            )
    return model.cpu().eval(), history


def drop_guests(present: Tensor, share: float) -> Tensor:
    """For a share of the rows, drop each guest with a chance of its own, drawn anew for each row."""
    if not share or not present.shape[1]:
        return present
    chance = torch.rand(len(present), 1, device=present.device) * (torch.rand_like(present[:, :1]) < share)
    return present * (torch.rand_like(present) >= chance)


def outputs(model: nn.Module, own: Rows, values: Rows, present: Rows, device: torch.device) -> Rows:
    """Return the model's outputs, row by row."""
    return apply(model, [own, values, present], device)
