"""Boosted trees as plain arrays: what is kept on disk, and what LightGBM predicts from.

LightGBM's own file is text that its parser trusts: a forged one can make it read beyond its memory. So its text is never kept or
read from outside. Arrays are kept; they are checked, every one of them; and the text is rewritten from them, for LightGBM's
own prediction and its exact contributions (TreeSHAP). A trained model goes the same way, so that predictions are the same, to
the bit, before and after it was on disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_LEAVES = 1024  # per tree: contributions take memory by the square of a tree's depth
MOST_ROWS = 2**31 - 1  # that a tree was grown from: LightGBM counts so far
# LightGBM's marks of a split: where missing values go (2: left), and whether they are known as such (8) or are zeros.
_DECISIONS = (0, 2, 8, 10)
_KINDS = {"leaves": "i", "feature": "i", "threshold": "f", "decision": "u", "left": "i", "right": "i"}
_KINDS |= {"value": "f", "rows": "i"}


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees, one after the other; of several outputs, each in turn has a tree.

    Per tree: its `leaves`. Per split: the column and the `threshold` up to which rows go `left`, what becomes of missing values
    (`decision`), and where it leads: a later split of the same tree, or -1, -2, ... the first leaf, the second. Per leaf: its
    `value`, and how many training rows it had.
    """

    leaves: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    decision: NDArray[np.uint8]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[np.float64]
    rows: NDArray[np.int64]
    n_columns: int
    n_outputs: int  # 1 for two classes

    @classmethod
    def of(cls, text: str, n_columns: int, n_outputs: int) -> Forest:
        """Read what LightGBM has just trained; not for text from outside."""
        trees = list(_trees(text)) or [{"num_leaves": "1", "leaf_value": "0", "leaf_count": "1"}] * n_outputs

        def together(key: str, kind: Any, default: str = "") -> NDArray[Any]:
            found = [np.array(tree.get(key, default).split(), kind) for tree in trees]
            return np.concatenate(found)

        return cls(
            leaves=together("num_leaves", np.int32),
            feature=together("split_feature", np.int32),
            # Infinite where a split parts missing values from all others.
            threshold=np.minimum(together("threshold", np.float64), np.finfo(np.float64).max),
            decision=together("decision_type", np.uint8),
            left=together("left_child", np.int32),
            right=together("right_child", np.int32),
            value=together("leaf_value", np.float64),
            rows=np.maximum(together("leaf_count", np.int64, "1"), 1),  # a tree of one leaf alone may have none
            n_columns=n_columns,
            n_outputs=n_outputs,
        )

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]], n_columns: int, n_outputs: int) -> Forest:
        """Return the trees of arrays that may be forged; raise ValueError where they are none."""
        if set(arrays) != set(_KINDS):
            raise ValueError("its arrays are not those of trees")
        for name, kind in _KINDS.items():
            if arrays[name].ndim != 1 or arrays[name].dtype.kind != kind:
                raise ValueError(f"its array {name!r} is none of trees")
        made = cls(**arrays, n_columns=n_columns, n_outputs=n_outputs)
        made.check()
        return made

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what is kept on disk."""
        return {name: getattr(self, name) for name in _KINDS}

    def check(self) -> None:
        """Raise ValueError where these are no trees: nothing of it may lead LightGBM beyond its memory, or in a circle."""
        n_splits, n_leaves = len(self.feature), len(self.value)
        leaves = self.leaves.astype(np.int64)
        sound = len(leaves) > 0 and len(leaves) % self.n_outputs == 0
        if not sound or leaves.min() < 1 or leaves.max() > MOST_LEAVES:
            raise ValueError(f"its trees must be as many for each output, of 1 to {MOST_LEAVES} leaves")
        if n_leaves != leaves.sum() or n_splits != n_leaves - len(leaves) or len(self.rows) != n_leaves:
            raise ValueError("its trees have not as many splits and leaves as they say")
        if any(len(each) != n_splits for each in (self.threshold, self.decision, self.left, self.right)):
            raise ValueError("its splits are not complete")
        if not (np.isfinite(self.threshold).all() and np.isfinite(self.value).all()):
            raise ValueError("its trees must have finite numbers")
        if not np.isin(self.decision, _DECISIONS).all():
            raise ValueError("its splits are of a kind that is not known")
        if n_splits and not 0 <= self.feature.min() <= self.feature.max() < self.n_columns:
            raise ValueError("its splits are by columns that there are not")
        if self.rows.min() < 1 or self.rows.max() > MOST_ROWS:
            raise ValueError("its leaves must have rows")
        if np.add.reduceat(self.rows.astype(np.int64), _starts(leaves)).max() > MOST_ROWS:
            raise ValueError("its trees have more rows than can be counted")
        self._check_ways(leaves)

    def _check_ways(self, leaves: NDArray[np.int64]) -> None:
        """Every split but the first of a tree, and every leaf, must be reached from exactly one split, an earlier one."""
        first_split, first_leaf = _starts(leaves - 1), _starts(leaves)
        tree = np.repeat(np.arange(len(leaves)), leaves - 1)
        own = np.arange(len(tree)) - first_split[tree]
        wrong = ValueError("its splits do not make trees")
        reached = []
        for child in (self.left.astype(np.int64), self.right.astype(np.int64)):
            inner = child >= 0
            if (child >= leaves[tree] - 1).any() or (child < -leaves[tree]).any() or (child <= own)[inner].any():
                raise wrong
            reached.append(np.where(inner, first_split[tree] + child, len(tree) + first_leaf[tree] - child - 1))
        times = np.bincount(np.concatenate(reached), minlength=len(tree) + len(self.value))
        wanted = np.ones(len(times), np.int64)
        wanted[first_split[leaves > 1]] = 0
        wanted[len(tree) + first_leaf[leaves == 1]] = 0
        if (times != wanted).any():
            raise wrong

    @cached_property
    def booster(self) -> Any:
        """LightGBM's model of these trees."""
        import lightgbm

        return lightgbm.Booster(model_str=self.text())

    def predict(self, table: NDArray[np.float32], threads: int) -> NDArray[np.float64]:
        """Return the outputs of rows, (n, n_outputs)."""
        found = np.asarray(self.booster.predict(table, raw_score=True, num_threads=threads))
        return found.reshape(len(table), self.n_outputs)

    def contributions(self, table: NDArray[np.float32], threads: int) -> NDArray[np.float64]:
        """Return what each column adds to each output, and last what is there without them: (n, n_outputs, columns + 1)."""
        found = np.asarray(self.booster.predict(table, pred_contrib=True, num_threads=threads))
        return found.reshape(len(table), self.n_outputs, self.n_columns + 1)

    def text(self) -> str:
        """Return the trees as a file of LightGBM."""
        trees = [f"Tree={number}\n{lines}\n\n" for number, lines in enumerate(self._tree_texts())]
        head = {
            "version": "v4",
            "num_class": self.n_outputs,
            "num_tree_per_iteration": self.n_outputs,
            "label_index": 0,
            "max_feature_idx": self.n_columns - 1,
            "feature_names": " ".join(f"c{column}" for column in range(self.n_columns)),
            "feature_infos": " ".join(["none"] * self.n_columns),
            "tree_sizes": " ".join(str(len(each)) for each in trees),
        }
        return f"tree\n{_lines(head)}\n{''.join(trees)}end of trees\n"

    def _tree_texts(self) -> Iterator[str]:
        leaves = self.leaves.astype(np.int64)
        first_split, first_leaf, covers = _starts(leaves - 1), _starts(leaves), self._covers()
        for tree, count in enumerate(leaves.tolist()):
            split = slice(first_split[tree], first_split[tree] + count - 1)
            leaf = slice(first_leaf[tree], first_leaf[tree] + count)
            parts = {"num_leaves": count, "num_cat": 0}
            if count > 1:
                parts |= {
                    "split_feature": _row(self.feature[split]),
                    "threshold": _row(self.threshold[split]),
                    "decision_type": _row(self.decision[split]),
                    "left_child": _row(self.left[split]),
                    "right_child": _row(self.right[split]),
                }
            parts |= {"leaf_value": _row(self.value[leaf]), "leaf_count": _row(self.rows[leaf])}
            if count > 1:
                parts |= {"internal_count": _row(covers[split])}
            yield _lines(parts | {"is_linear": 0, "shrinkage": 1})

    def _covers(self) -> NDArray[np.int64]:
        """Return the training rows of each split: those of all leaves below it. Splits lead to later ones, so from the end."""
        leaves = self.leaves.astype(np.int64)
        first_split, first_leaf = _starts(leaves - 1), _starts(leaves)
        covers = np.zeros(len(self.feature), np.int64)
        for place in range(int(leaves.max()) - 2, -1, -1):
            trees = np.flatnonzero(leaves - 1 > place)
            split = first_split[trees] + place
            for child in (self.left[split].astype(np.int64), self.right[split].astype(np.int64)):
                inner = child >= 0
                covers[split[inner]] += covers[(first_split[trees] + child)[inner]]
                covers[split[~inner]] += self.rows[(first_leaf[trees] - child - 1)[~inner]]
        return covers

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle the arrays alone: LightGBM's own model is made again."""
        return Forest, tuple(getattr(self, each.name) for each in fields(self))


def _trees(text: str) -> Iterator[dict[str, str]]:
    """Go over the trees of a file of LightGBM: its lines are key=value."""
    for block in text.partition("\nend of trees")[0].split("\nTree=")[1:]:
        yield dict(line.split("=", 1) for line in block.splitlines()[1:] if "=" in line)


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each of several parts begins that lie one after the other."""
    return np.cumsum(counts) - counts


def _row(values: NDArray[Any]) -> str:
    """Return numbers as text that gives the same numbers, to the bit."""
    return " ".join(map(repr, values.tolist()))


def _lines(parts: Mapping[str, object]) -> str:
    return "".join(f"{key}={value}\n" for key, value in parts.items())
