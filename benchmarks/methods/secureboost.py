"""SecureBoost (Cheng et al., 2019): boosted trees whose splits each party looks for in its own columns.

The model is XGBoost's own vertical federated training, a process for each party over the loopback (`benchmarks.methods.wire`);
prediction runs in the federation, too. It gives the trees that XGBoost grows on all columns in one place, number by number
(tests/benchmarks/test_secureboost.py), so that above 10 parties that model stands for it.

Bytes, by formula
-----------------
XGBoost passes on candidates for splits, not histograms, and nothing is encrypted. What SecureBoost itself sends is counted
from the trees for n training rows, in float32 and without encryption (by Paillier's with a key of 2048 bits, a number takes
512 bytes in place of 4, unless several share one):

- per tree, from the host to each guest: gradient and Hessian of every row, 2 * 4 * n bytes in one message. A tree is one
  boosting iteration, or one class of it where there are more than two.
- per node that may be split (of depth 0 to `config.depth` - 1), from each guest to the host: sums of gradient and Hessian
  for each bin of each of its columns, 2 * 4 * bins bytes in one message. A column has as many bins as training rows have
  distinct values in it (not counting missing ones), 256 at most. Sibling nodes are not had by subtraction.
- per split in a guest's column, from it to the host: which rows of the node go left, a bit each, in one message.

Not counted, which favours SecureBoost: the host's word to the guest whose split won, and the rows of each new node, which
the other guests must learn. `Result.wire` is what XGBoost's training moved through the loopback: bytes of gRPC between
parties and server, both directions, from connecting to the end of training.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.columns import arrays
from benchmarks.config import Config
from benchmarks.methods import settings, wire
from benchmarks.problem import Problem, Result, clocked
from fedonce import FedOnceError, InputError

MOST_PARTIES = 10
BINS = 256
FLOAT = 4
LEARNING_RATE = 0.1
NO_IMAGES = "not applied to images, as in the paper"


def run(problem: Problem, config: Config, seed: int) -> Result:
    """Train all trees, in a federation up to 10 parties."""
    if problem.data.image:
        return Result(None, note=NO_IMAGES)
    rows = Rows.of(problem)
    parameters = rows.parameters(config, seed)
    if not (config.federated and 1 < len(rows.train) <= MOST_PARTIES):
        return _centralised(problem, config, rows, parameters)
    _require_federation()
    try:
        trained = wire.federate(rows.train, rows.test, rows.label, parameters, config.trees)
    except wire.FederationError as error:
        raise FedOnceError(str(error)) from error
    booster = _xgboost().Booster({"nthread": 1}, model_file=trained.model)
    messages, payload = _total(traffic(booster, rows, config.depth))
    return Result(
        problem.score(rows.answers(trained.predicted)),
        messages,
        payload,
        payload,
        trained.wire,
        trained.seconds,
        trained.cpu,
        detail={"trees": config.trees},
    )


def _centralised(problem: Problem, config: Config, rows: Rows, parameters: dict[str, Any]) -> Result:
    with clocked() as clock:
        booster = train(rows, parameters, config.trees)
    messages, payload = _total(traffic(booster, rows, config.depth))
    return Result(
        problem.score(rows.answers(predict(booster, rows))),
        messages,
        payload,
        payload,
        seconds=clock.seconds,
        cpu=clock.cpu,
        detail={"trees": config.trees},
        note=f"centralised XGBoost, to which the federated model is equal: {len(rows.train)} parties"
        if problem.guests
        else "",
    )


def run_comm(problem: Problem, config: Config, seed: int) -> Result:
    """Train as many whole boosting iterations as the bytes of FedOnce's float32 payload pay for.

    Boosting never changes an earlier tree, so these are the first trees of `run`, and centralised training grows them.
    """
    if problem.data.image:
        return Result(None, note=NO_IMAGES)
    rows = Rows.of(problem)
    parameters = rows.parameters(config, seed)
    budget = len(problem.y) * settings.dim(problem, config) * FLOAT * len(problem.guests)
    # Gradients alone say how many iterations could fit; only so many have to be tried.
    gradients = rows.trees_a_round * 2 * FLOAT * len(problem.y) * len(problem.guests)
    most = min(config.trees, max(1, budget // gradients)) if gradients else config.trees
    rounds = traffic(train(rows, parameters, most), rows, config.depth)
    spent = list(accumulate(payload for _, payload in rounds))
    trees = sum(bytes_ <= budget for bytes_ in spent)
    unit = "tree" if rows.trees_a_round == 1 else "tree for each class"
    if not trees:
        return Result(None, note=f"not even one {unit} fits into {budget:,} bytes: the first needs {spent[0]:,}")
    with clocked() as clock:
        booster = train(rows, parameters, trees)
    messages, payload = _total(rounds[:trees])
    return Result(
        problem.score(rows.answers(predict(booster, rows))),
        messages,
        payload,
        payload,
        seconds=clock.seconds,
        cpu=clock.cpu,
        detail={"trees": trees},
        note=f"{trees} of {config.trees} iterations fit into {budget:,} bytes; centralised XGBoost, whose trees are equal",
    )


@dataclass(frozen=True, eq=False)
class Rows:
    """A problem as XGBoost takes it: columns of each party, the host first.

    Attributes
    ----------
    train, test : list of arrays
        A party's columns as float32; categories are codes, NaN is missing.
    label : array
        Numbers, or codes of classes.
    classes : array or None
        What the codes stand for; None for numbers.
    """

    train: list[NDArray[np.float32]]
    test: list[NDArray[np.float32]]
    label: NDArray[np.float32]
    classes: NDArray[Any] | None

    @classmethod
    def of(cls, problem: Problem) -> Rows:
        """Take the rows of a problem."""
        encoded = [
            encode(problem.table(party), problem.table(party, test=True)) for party in (problem.host, *problem.guests)
        ]
        train, test = ([both[side] for both in encoded] for side in (0, 1))
        if not problem.classes:
            label = np.asarray(problem.y, dtype=np.float32)
            if not np.isfinite(label).all():
                raise InputError("SecureBoost needs labels without NaN and infinity; drop such rows.")
            return cls(train, test, label, None)
        classes, codes = np.unique(problem.y, return_inverse=True)
        if len(classes) < 2:
            raise InputError(f"SecureBoost needs training rows of two classes at least. Got {classes.tolist()} alone.")
        return cls(train, test, codes.astype(np.float32), classes)

    @property
    def trees_a_round(self) -> int:
        """Trees of a boosting iteration: one for each class where there are more than two."""
        return 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)

    @cached_property
    def guest_bins(self) -> int:
        """Bins of all guests' columns."""
        return sum(_bins(own) for own in self.train[1:])

    def parameters(self, config: Config, seed: int) -> dict[str, Any]:
        """Return XGBoost's parameters."""
        # The base score is given, as guests cannot estimate it and would start from another one.
        if self.classes is None:
            goal = {"objective": "reg:squarederror", "base_score": float(self.label.mean(dtype=np.float64))}
        elif self.trees_a_round == 1:
            goal = {"objective": "binary:logistic", "base_score": 0.5}
        else:
            goal = {"objective": "multi:softprob", "base_score": 0.5, "num_class": self.trees_a_round}
        return goal | {
            "learning_rate": LEARNING_RATE,
            "max_depth": config.depth,
            "reg_alpha": config.reg_alpha,
            "tree_method": "hist",
            "max_bin": BINS,
            "nthread": 1,
            "seed": seed,
            "device": "cpu",
        }

    def answers(self, predicted: NDArray[np.float32]) -> NDArray[Any]:
        """Turn what XGBoost predicts into classes or numbers."""
        if self.classes is None:
            return predicted
        codes = predicted.argmax(axis=1) if predicted.ndim == 2 else (predicted > 0.5).astype(int)
        return self.classes[codes]


def encode(train: Any, test: Any) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return training and test rows as numbers: categories of the training rows by number, others NaN."""
    if not isinstance(train, pa.Table):
        return _dense(train), _dense(test)
    pairs = [_encode_column(own, later) for own, later in zip(arrays(train), arrays(test), strict=True)]
    rows, later = (np.column_stack([pair[side] for pair in pairs]) for side in (0, 1))
    return rows, later


def _dense(matrix: Any) -> NDArray[np.float32]:
    # A sparse table's zeros are numbers; XGBoost would take what is not stored as missing.
    return np.ascontiguousarray(matrix if isinstance(matrix, np.ndarray) else matrix.toarray(), dtype=np.float32)


def _encode_column(train: NDArray[Any], test: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    if train.dtype != object and test.dtype != object:
        return train.astype(np.float32), test.astype(np.float32)
    code = {category: float(number) for number, category in enumerate(sorted(set(train.tolist()) - {None}))}
    both = [
        np.array([code.get(each, np.nan) for each in column.tolist()], dtype=np.float32) for column in (train, test)
    ]
    return both[0], both[1]


def train(rows: Rows, parameters: dict[str, Any], rounds: int) -> Any:
    """Train XGBoost on all columns in one place."""
    xgboost = _xgboost()
    return xgboost.train(parameters, xgboost.DMatrix(np.hstack(rows.train), rows.label, nthread=1), rounds)


def predict(booster: Any, rows: Rows) -> NDArray[np.float32]:
    """Predict the test rows from all columns in one place."""
    return np.asarray(booster.predict(_xgboost().DMatrix(np.hstack(rows.test), nthread=1)))


def traffic(booster: Any, rows: Rows, depth: int) -> list[tuple[int, int]]:
    """Return messages and payload bytes of each boosting iteration by the module's formula."""
    every = _xgboost().DMatrix(np.hstack(rows.train), nthread=1)
    trees = [json.loads(tree) for tree in booster.get_dump(dump_format="json")]
    found = []
    for start in range(0, len(trees), rows.trees_a_round):
        number = start // rows.trees_a_round
        # One iteration at a time, as the leaves of all rows in all trees would fill the memory.
        leaves = booster[number : number + 1].predict(every, pred_leaf=True)
        leaves = leaves.reshape(len(rows.label), rows.trees_a_round)
        new = trees[start : start + rows.trees_a_round]
        found.append(_total([_tree_traffic(tree, leaves[:, place], rows, depth) for place, tree in enumerate(new)]))
    return found


def _tree_traffic(tree: dict[str, Any], leaves: NDArray[np.float32], rows: Rows, depth: int) -> tuple[int, int]:
    """Return messages and payload bytes of a tree; `leaves`: where each training row ends."""
    guests, host_columns = len(rows.train) - 1, rows.train[0].shape[1]
    ends = dict(zip(*(each.tolist() for each in np.unique(leaves.astype(int), return_counts=True)), strict=True))
    nodes = list(_walk(tree))
    looked_at = sum(at < depth for _, at in nodes)
    won = [node for node, _ in nodes if "children" in node and int(node["split"][1:]) >= host_columns]
    masks = sum(-(-_rows_of(node, ends) // 8) for node in won)
    gradients = guests * 2 * FLOAT * len(rows.label)
    return guests * (1 + looked_at) + len(won), gradients + looked_at * 2 * FLOAT * rows.guest_bins + masks


def _walk(node: dict[str, Any], depth: int = 0) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield every node of a tree, and how deep it is."""
    yield node, depth
    for child in node.get("children", ()):
        yield from _walk(child, depth + 1)


def _rows_of(node: dict[str, Any], ends: dict[int, int]) -> int:
    """Return how many rows come through a node."""
    return sum(ends.get(each["nodeid"], 0) for each, _ in _walk(node))


def _total(parts: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Add up messages and bytes."""
    return sum(messages for messages, _ in parts), sum(payload for _, payload in parts)


def _bins(columns: NDArray[np.float32]) -> int:
    """Return the bins of a party's columns: their distinct values, 256 per column at most."""
    return sum(min(BINS, len(np.unique(column[~np.isnan(column)]))) for column in columns.T)


def _xgboost() -> Any:
    try:
        import xgboost
    except ImportError as error:
        raise InputError("SecureBoost needs XGBoost: pip install --no-deps xgboost.") from error
    return xgboost


def _require_federation() -> None:
    if not _xgboost().build_info().get("USE_FEDERATED"):
        raise InputError(
            "SecureBoost needs an XGBoost with federated learning (USE_FEDERATED), as the wheels for Linux have."
        )
