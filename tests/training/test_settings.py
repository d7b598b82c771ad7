"""Updates by torch's arithmetic, as torch's own optimizers do them."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from fedonce.training.settings import TorchUpdate

KINDS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
# Trains by autograd, then says whether torch's compiler was imported for it.
TRAINING = """
import sys
import numpy as np
import torch
from torch import nn
from fedonce.training.losses import LabelLoss
from fedonce.training.problem import Problem
from fedonce.training.settings import Training
from fedonce.training.trainer import trainer

network = nn.Sequential(nn.Linear(2, 4), nn.GELU(), nn.Linear(4, 2))
problem = Problem(network, [torch.ones(8, 2)], torch.zeros(8, dtype=torch.long), LabelLoss(), largest_norm=1.0)
trainer(problem, Training(1, 4, 0.1, optimizer="adamw"), np.random.default_rng(0)).run()
print("torch._dynamo" in sys.modules)
"""


def parameters():
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(shape)) for shape in ((3, 4), (4,), (2, 2))]


def give_gradients(ours, theirs, step):
    torch.manual_seed(step)
    for place, (first, second) in enumerate(zip(ours, theirs, strict=True)):
        # One parameter has no gradient at first: it must be left as it is, and its steps counted from its first gradient.
        gradient = None if place == 2 and step < 3 else torch.randn_like(first)
        first.grad, second.grad = gradient, None if gradient is None else gradient.clone()


@pytest.mark.parametrize("optimizer", KINDS)
def test_an_update_equals_torch_s_to_the_bit(optimizer):
    ours, theirs = parameters(), parameters()
    update = TorchUpdate(ours, optimizer, 0.1)
    torch_s = KINDS[optimizer](theirs, lr=1.0, weight_decay=0.1, fused=True)
    for step in range(10):
        give_gradients(ours, theirs, step)
        rate = 0.1 / (step + 1)
        torch_s.param_groups[0]["lr"] = rate
        torch_s.step()
        update(rate)
    assert all(torch.equal(first, second) for first, second in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("optimizer", KINDS)
def test_an_update_goes_on_from_what_was_kept(optimizer):
    ours, theirs = parameters(), parameters()
    update, other = TorchUpdate(ours, optimizer), TorchUpdate(theirs, optimizer)
    for step in range(10):
        give_gradients(ours, theirs, step)
        update(0.1)
        other(0.1)
        kept, other = other.state(), TorchUpdate(theirs, optimizer)
        other.restore(kept)
    assert all(torch.equal(first, second) for first, second in zip(ours, theirs, strict=True))
    if optimizer != "sgd":  # the names of torch's optimizers, which were on disk before
        assert set(kept) == {f"{number}.{name}" for number in range(3) for name in ("step", "exp_avg", "exp_avg_sq")}


def test_a_training_does_not_wait_for_torch_s_compiler():
    done = subprocess.run([sys.executable, "-c", TRAINING], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
