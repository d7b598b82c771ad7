from __future__ import annotations

import numpy as np
import torch

from fedonce.assess.attacks.base import Exposed
from fedonce.assess.attacks.gradients import LabelsFromGradients
from fedonce.data.table import Table


def gradients_of(values, labels, classes, seed=0):
    """Return what a guest would receive: gradients of the host's loss by its values, early in a training."""
    torch.manual_seed(seed)
    sent = torch.tensor(values, dtype=torch.float32, requires_grad=True)
    head = torch.nn.Sequential(torch.nn.Linear(values.shape[1], 16), torch.nn.ReLU(), torch.nn.Linear(16, classes))
    torch.nn.functional.cross_entropy(head(sent), torch.tensor(labels), reduction="sum").backward()
    return sent.grad.numpy()


def attacked(gradients, values, labels):
    exposed = Exposed(values, Table.of(values), gradients=gradients, labels=labels)
    return {each.way: each for each in LabelsFromGradients().run(exposed, np.random.default_rng(0))}


def test_directions_of_gradients_tell_labels_and_norms_where_classes_are_rare():
    rng = np.random.default_rng(0)
    values = rng.standard_normal((3000, 4))
    labels = (values[:, 0] + 0.5 * rng.standard_normal(3000) > 1.2).astype(np.int64)
    found = attacked(gradients_of(values, labels, 2), values, labels)
    assert found["direction"].score > 0.95
    assert found["direction"].verdict == "readable"
    assert found["model completion"].knows == 0.01
    assert all(each.control < each.guess + 0.05 for each in found.values())


def test_gradients_by_chance_tell_nothing():
    rng = np.random.default_rng(0)
    values, labels = rng.standard_normal((2000, 4)), rng.integers(0, 2, 2000)
    found = attacked(rng.standard_normal((2000, 4)), values, labels)
    assert {each.verdict for each in found.values()} == {"not by these attacks"}


def test_numbers_as_labels_are_left_alone():
    values = np.random.default_rng(0).standard_normal((500, 2))
    assert attacked(values, values, values[:, 0]) == {}
