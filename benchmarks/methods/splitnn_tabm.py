"""SplitNN-TabM: SplitNN with the strongest networks that we know for tables, on both sides.

Every guest has piecewise-linear encodings of its own columns and a network that makes d values per row of them. The host has
such encodings of its own columns and, beside them, the guests' values as they come; TabM with k heads learns from both. All
networks are trained together, end to end. A seventh of the training rows (a third of fewer than 2,000) is held back to stop
by; the weights of the epoch that was best there are kept. The settings are those of published work on TabM; none was chosen by
test rows.

All parties are simulated in one process, with the rows where the networks are. What they would send is counted: in each epoch
every row that is learnt from goes up as d values of float32 and comes back as d gradients, a message per batch, guest and
direction; and every row held back goes up once, a message per guest. Headers are not counted. Seconds are those of the whole
training in this process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.config import Config
from benchmarks.methods import settings
from benchmarks.problem import Problem, Result, clocked
from fedonce.data.preparation import Preparation
from fedonce.data.table import Table
from fedonce.hostmodels.base import Examples, Split
from fedonce.hostmodels.holding import splits
from fedonce.hostmodels.tabm_network import HeadsLoss, Shape, TabM
from fedonce.party.labels import Labels, Targets
from fedonce.training.loop import pick_device
from fedonce.training.randomness import torch_seeded

ON_GPU = Shape(heads=32, width=512, layers=2, bins=48, embedding=16, dropout=0.1)
ON_CPU = replace(ON_GPU, heads=8, width=256)
BINS = {"ujiindoorloc": 16}  # of its hundreds of columns
LARGE = {"covtype": (1024, 3e-3)}  # batch and rate
VALUE_BYTES = 4
BLOCK = 4096  # rows that are predicted at a time
WARM_UP = 3  # batches on a GPU before a step is recorded


@dataclass(frozen=True)
class Training:
    """How the networks are trained."""

    shape: Shape
    batch: int = 256
    rate: float = 2e-3
    weight_decay: float = 3e-4
    largest_norm: float = 1.0
    epochs: int = 200  # at most
    patience: int = 16  # epochs without a better score on the rows held back

    @classmethod
    def of(cls, problem: Problem, config: Config, device: torch.device) -> Training:
        """Return how to train for a problem; `config.epochs` are the most."""
        name = problem.data.name
        shape = ON_CPU if device.type == "cpu" else ON_GPU
        batch, rate = LARGE.get(name, (cls.batch, cls.rate))
        epochs = max(1, round(config.epochs)) if config.epochs else cls.epochs
        return cls(replace(shape, bins=BINS.get(name, shape.bins)), batch, rate, epochs=epochs)


def run(problem: Problem, config: Config, seed: int) -> Result:
    """Train all networks together, and score."""
    rng, device, dim = np.random.default_rng(seed), pick_device(config.device), settings.dim(problem, config)
    training = Training.of(problem, config, device)
    with clocked() as clock, torch_seeded(rng):
        targets = Labels(problem.host, problem.data.task).targets(problem.y, len(problem.y))
        tables, test_tables = _tables(problem)
        split = splits(targets.values, rng)[0]
        n_outputs = 1 if targets.classes is None else len(targets.classes)
        network = SplitNetwork.of([rows[split.learn] for rows in tables], dim, n_outputs, training.shape).to(device)
        epochs = _train(network, Rows.of(tables, targets, device), split, training)
    predicted = _labels(_predict(network, [torch.from_numpy(rows).to(device) for rows in test_tables]), targets)
    size = Size(len(split.learn), len(split.held), training.batch, len(problem.guests), dim)
    return Result(
        problem.score(predicted),
        size.messages(epochs),
        size.payload(epochs),
        size.payload(epochs),
        seconds=clock.seconds,
        cpu=clock.cpu,
        detail={"epochs_trained": epochs, "test_rows": len(problem.y_test)},
    )


@dataclass(frozen=True)
class Size:
    """All that the traffic of an epoch depends on: rows learnt from and held back, rows of a batch, guests and their values."""

    learn: int
    held: int
    batch: int
    guests: int
    dim: int

    def messages(self, epochs: int) -> int:
        """Return how many messages all guests send and get: two per batch, and one for the rows held back."""
        return epochs * self.guests * (2 * math.ceil(self.learn / self.batch) + 1)

    def payload(self, epochs: int) -> int:
        """Return the bytes of their values: up and down for each row learnt from, up for each row held back."""
        return epochs * self.guests * self.dim * VALUE_BYTES * (2 * self.learn + self.held)


class SplitNetwork(nn.Module):
    """The guests' networks, each on its own columns, and the host's on its own columns and the guests' values."""

    def __init__(self, host: TabM, guests: Sequence[TabM]) -> None:
        super().__init__()
        self.host, self.guests = host, nn.ModuleList(guests)

    @classmethod
    def of(cls, tables: Sequence[NDArray[np.float32]], dim: int, n_outputs: int, shape: Shape) -> SplitNetwork:
        """Make networks for the columns of the host, whose table is the first, and of the guests."""
        own, *others = tables
        guests = [_encoder(rows, dim, replace(shape, heads=1)) for rows in others]
        return cls(_with_room(_encoder(own, n_outputs, shape), dim * len(guests)), guests)

    def forward(self, own: Tensor, *tables: Tensor) -> Tensor:
        """Return the outputs of each head of the host, (heads, rows, outputs)."""
        values = [guest.each(_inputs(guest, rows))[0] for guest, rows in zip(self.guests, tables, strict=True)]
        return self.host.each(torch.cat([_inputs(self.host, own), *values], dim=1))


def _encoder(rows: NDArray[np.float32], n_outputs: int, shape: Shape) -> TabM:
    """Return TabM on the columns of one party alone; with one head it is a plain network on their encodings."""
    nobody = np.zeros((len(rows), 0), np.float32)
    return TabM.of(Examples(rows, nobody, nobody, np.zeros(len(rows))), (), n_outputs, shape)


def _with_room(network: TabM, values: int) -> TabM:
    """Return the network with an input more for each value of a guest."""
    made = TabM(replace(network.size, guests=values), network.dropout)
    made.many, made.two, made.holder, made.embedding = network.many, network.two, network.holder, network.embedding
    return made


def _inputs(network: TabM, rows: Tensor) -> Tensor:
    return network.inputs(rows, rows[:, :0], rows[:, :0])


@dataclass(frozen=True, eq=False)
class Rows:
    """The training rows on the device: the host's columns, the guests', and what to predict."""

    tables: list[Tensor]
    target: Tensor

    @classmethod
    def of(cls, tables: Sequence[NDArray[np.float32]], targets: Targets, device: torch.device) -> Rows:
        """Move rows to a device."""
        target = torch.from_numpy(targets.values).to(device)
        moved = [torch.from_numpy(rows).to(device) for rows in tables]
        return cls(moved, target.float() if target.is_floating_point() else target)

    def take(self, rows: Tensor) -> Rows:
        """Return some of the rows."""
        return Rows([table.index_select(0, rows) for table in self.tables], self.target.index_select(0, rows))


def _tables(problem: Problem) -> tuple[list[NDArray[np.float32]], list[NDArray[np.float32]]]:
    """Return the columns of the host and of each guest as that party prepares them: of the training rows and of the test rows."""
    train, test = [], []
    for party in (problem.host, *problem.guests):
        own = Table.of(problem.table(party))
        preparation = Preparation(party).fit(own)
        train.append(preparation.transform(own).astype(np.float32))
        test.append(preparation.transform(Table.of(problem.table(party, test=True))).astype(np.float32))
    return train, test


def _train(network: SplitNetwork, rows: Rows, split: Split, training: Training) -> int:
    """Train until the rows held back get no better, and keep the best weights; return how many epochs it took."""
    device = rows.target.device
    learn, held = (torch.from_numpy(part).to(device) for part in (split.learn, split.held))
    held_rows, step = rows.take(held), Step(network, rows, training)
    best, best_error, best_epoch = network.state_dict(), math.inf, 0
    for epoch in range(1, training.epochs + 1):
        network.train()
        for batch in learn[torch.randperm(len(learn), device=device)].split(training.batch):
            step(batch)
        error = _error(_predict(network, held_rows.tables), held_rows.target)
        if error < best_error:
            best, best_error, best_epoch = _copied(network), error, epoch
        elif epoch - best_epoch >= training.patience:
            break
    network.load_state_dict(best)
    return epoch


class Step:
    """Learns from a batch, given by the positions of its rows.

    On a GPU, ten small networks are a thousand kernels, which take five times longer to start than to run: the step of a whole
    batch is recorded once, as a CUDA graph, and replayed.
    """

    def __init__(self, network: SplitNetwork, rows: Rows, training: Training) -> None:
        gpu = rows.target.is_cuda
        self.network, self.rows, self.training = network, rows, training
        self.parameters = list(network.parameters())
        self.optimizer = torch.optim.AdamW(
            self.parameters, training.rate, weight_decay=training.weight_decay, fused=gpu, capturable=gpu
        )
        self.until_recorded = WARM_UP if gpu else math.inf
        self.batch = torch.zeros(training.batch, dtype=torch.int64, device=rows.target.device)
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, batch: Tensor) -> None:
        """Change the weights by one batch."""
        if len(batch) < self.training.batch or self.until_recorded == math.inf:
            self._learn(batch)
        elif self.until_recorded > 0:
            self.until_recorded -= 1
            self._learn_beside(batch)
        else:
            self.batch.copy_(batch)
            self.graph = self.graph or self._recorded()
            self.graph.replay()

    def _learn(self, batch: Tensor) -> None:
        self.optimizer.zero_grad()
        rows = self.rows.take(batch)
        outputs = self.network(*rows.tables).transpose(0, 1)
        HeadsLoss().rows(outputs, rows.target).mean().backward()
        nn.utils.clip_grad_norm_(self.parameters, self.training.largest_norm)
        self.optimizer.step()

    def _learn_beside(self, batch: Tensor) -> None:
        """Learn on a stream of its own, as torch asks for before a step is recorded."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._learn(batch)
        torch.cuda.current_stream().wait_stream(stream)

    def _recorded(self) -> torch.cuda.CUDAGraph:
        """Record a step on `batch`; nothing is learnt by that."""
        graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad()
        with torch.cuda.graph(graph):
            self._learn(self.batch)
        return graph


def _copied(network: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in network.state_dict().items()}


@torch.no_grad()
def _predict(network: SplitNetwork, tables: Sequence[Tensor]) -> Tensor:
    """Return for each row what the heads give on average: probabilities of classes, or a number."""
    network.eval()
    blocks = [network(*block) for block in zip(*(table.split(BLOCK) for table in tables), strict=True)]
    each = torch.cat(blocks, dim=1)
    return each.mean(dim=0) if each.shape[2] == 1 else each.softmax(dim=2).mean(dim=0)


def _error(outputs: Tensor, target: Tensor) -> float:
    """Return what the method is scored by, the less the better: the share of wrong classes, or the mean squared error."""
    if target.is_floating_point():
        return float((outputs[:, 0] - target).square().mean())
    return float((outputs.argmax(dim=1) != target).float().mean())


def _labels(outputs: Tensor, targets: Targets) -> NDArray[np.generic]:
    """Return the classes of probabilities, or numbers in their own unit."""
    found = outputs.double().cpu().numpy()
    if targets.classes is not None:
        classes: NDArray[np.generic] = targets.classes[found.argmax(axis=1)]
        return classes
    return found[:, 0] * targets.spread + targets.offset
