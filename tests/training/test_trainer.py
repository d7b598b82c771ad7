from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedonce import InputError
from fedonce.privacy.budget import Purse, calibrate, steps_task
from fedonce.privacy.noise import SecretRandom
from fedonce.training.checkpoints import Progress
from fedonce.training.closedform import FlatAdam, FlatSGD
from fedonce.training.losses import LabelLoss, Loss, SquaredDistance
from fedonce.training.networks import mlp
from fedonce.training.problem import Problem
from fedonce.training.randomness import torch_seeded
from fedonce.training.settings import TorchUpdate, Training
from fedonce.training.trainer import trainer

N = 60
CLASSES = torch.from_numpy(np.random.default_rng(2).integers(0, 3, N))


def rows(seed=0, width=5, n=N):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((n, width))).to(torch.get_default_dtype())


def network(width=5, outputs=3, activation="tanh"):
    with torch_seeded(np.random.default_rng(1)):
        return mlp(width, (8,), outputs, activation=activation)


def problems(loss, targets):
    """Return the same problem twice: once with linear layers alone, and once with a layer that has no closed form."""
    own = network(outputs=1 if targets.ndim == 1 and targets.is_floating_point() else 3)
    made = [copy.deepcopy(own), nn.Sequential(nn.Identity(), *copy.deepcopy(own))]
    return [Problem(each, [rows()], targets, loss) for each in made]


def weights(problem):
    return torch.cat([parameter.detach().flatten() for parameter in problem.network.parameters()])


def purse(epsilon=np.inf, epochs=3):
    task = replace(steps_task("test", N, 20, epochs, 1.0), party="shop")
    plan = calibrate([task], epsilon, 1e-5, "rdp")
    return Purse("shop", plan.of("shop"), plan.ledger(), SecretRandom(insecure_test_seed=0))


def private(epsilon=np.inf):
    return purse(epsilon).steps("test", rows().numpy(), 0.1)


STATED = {
    "squared distance": lambda: (SquaredDistance(), rows(3, 3)),
    "classes": lambda: (LabelLoss(), CLASSES),
    "smoothed classes": lambda: (LabelLoss(0.2), CLASSES),
    "numbers": lambda: (LabelLoss(), rows(3, 1)[:, 0]),
}


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
@pytest.mark.parametrize("stated", STATED)
def test_closed_form_equals_autograd(stated, optimizer, float64):
    closed, other = problems(*STATED[stated]())
    training = Training(3, 16, 0.01, 1e-3, "one-cycle", optimizer)
    loops = [trainer(each, training, np.random.default_rng(0)) for each in (closed, other)]
    assert isinstance(loops[0].update, FlatAdam | FlatSGD)
    assert isinstance(loops[1].update, TorchUpdate)
    histories = [[line["loss"] for line in loop.run()] for loop in loops]
    np.testing.assert_allclose(histories[0], histories[1], rtol=1e-10)
    torch.testing.assert_close(weights(closed), weights(other), rtol=1e-9, atol=1e-11)
    assert histories[0][-1] < histories[0][0]


@pytest.mark.parametrize("stated", STATED)
def test_private_closed_form_equals_private_autograd(stated, float64):
    closed, other = problems(*STATED[stated]())
    begun = weights(closed)
    for each in (closed, other):
        steps = private()
        training = Training(steps.epochs, steps.batch, 0.1, optimizer="sgd", steps=steps.event.steps)
        assert trainer(each, training, np.random.default_rng(0), steps).run() == []  # no figure of private rows
        assert steps.taken == steps.event.steps
    torch.testing.assert_close(weights(closed), weights(other), rtol=1e-9, atol=1e-11)
    assert not torch.equal(weights(closed), begun)


def test_with_a_budget_there_is_noise_and_each_step_is_written_down():
    spent = purse(2.0)
    steps = spent.steps("test", rows().numpy(), 0.1)
    one, other = problems(SquaredDistance(), rows(3, 3))
    training = Training(steps.epochs, steps.batch, 0.1, optimizer="sgd", steps=steps.event.steps)
    trainer(one, training, np.random.default_rng(0), steps).run()
    trainer(other, training, np.random.default_rng(0), private()).run()
    assert not torch.allclose(weights(one), weights(other), atol=1e-3)
    assert sum(entry.event.steps for entry in spent.spent) == steps.event.steps


class Huber(Loss):
    """One of the user's own, known row by row and no further."""

    def rows(self, outputs, targets):
        return nn.functional.huber_loss(outputs, targets, reduction="none").sum(dim=1)


def test_a_loss_without_closed_form_goes_by_autograd(float64):
    problem = Problem(network(), [rows()], rows(3, 3), Huber())
    loop = trainer(problem, Training(20, 16, 0.01), np.random.default_rng(0))
    history = loop.run()
    assert isinstance(loop.update, TorchUpdate)
    assert history[-1]["loss"] < 0.9 * history[0]["loss"]
    steps = private()
    training = Training(steps.epochs, steps.batch, 0.1, optimizer="sgd", steps=steps.event.steps)
    trainer(Problem(network(), [rows()], rows(3, 3), Huber()), training, np.random.default_rng(0), steps).run()
    assert steps.taken == steps.event.steps


@pytest.mark.parametrize("kind", [0, 1], ids=["closed form", "autograd"])
def test_a_training_that_was_stopped_goes_on_to_the_same_bits(tmp_path, kind):
    def stop(epoch, *_):
        if epoch == 2:
            raise KeyboardInterrupt

    def run(progress):
        changing = np.zeros((N, 3), np.float32)  # what the targets remember must go on, too

        def targets_of(batch, outputs, epoch):
            changing[batch] += 1
            return changing[batch]

        problem = replace(problems(SquaredDistance(), CLASSES)[kind], targets=targets_of, memory={"seen": changing})
        history = trainer(problem, Training(4, 16, 0.01), np.random.default_rng(0), progress=progress).run()
        return history, weights(problem)

    def kept(tell=None):
        return Progress(tell, tmp_path, "mine", 0.0)

    history, expected = run(None)
    with pytest.raises(KeyboardInterrupt), kept(stop) as progress:
        run(progress)
    told = []
    with kept(lambda *line: told.append(line)) as progress:
        again, found = run(progress)
    assert torch.equal(found, expected)
    assert (again, told) == (history, [(3, 4, ""), (4, 4, "")])
    assert list(tmp_path.iterdir()) == []


def test_a_private_training_is_told_and_not_kept(tmp_path):
    told, steps = [], private()
    problem = problems(SquaredDistance(), rows(3, 3))[0]
    training = Training(steps.epochs, steps.batch, 0.1, steps=steps.event.steps)
    with Progress(lambda *line: told.append(line[:2]), tmp_path, "mine", 0.0, forgets=False) as progress:
        trainer(problem, training, np.random.default_rng(0), steps, progress).run()
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert list(tmp_path.iterdir()) == []


def test_rows_count_by_their_weight(float64):
    """With one batch per epoch, every second row twice and the others not at all is the same as half of the rows."""
    weight = torch.tensor([2.0, 0.0] * (N // 2))
    whole = Problem(network(), [rows()], CLASSES, LabelLoss(0.1), weight=weight)
    half = Problem(network(), [rows()[::2]], CLASSES[::2], LabelLoss(0.1))
    for each in (whole, half):
        trainer(each, Training(5, N, 0.01), np.random.default_rng(0)).run()
    torch.testing.assert_close(weights(whole), weights(half))
    with pytest.raises(InputError, match="weights, which a training with a privacy budget does not take"):
        trainer(whole, Training(5, N, 0.01), np.random.default_rng(0), private())


@pytest.mark.parametrize("kind", [0, 1], ids=["closed form", "autograd"])
def test_what_the_network_gets_may_be_changed(kind):
    own, fixed = problems(SquaredDistance(), rows(3, 3))[kind], nn.Linear(2, 5).requires_grad_(False)
    changed = replace(own, inputs=[rows(4, 2), rows(5, 5)], change=lambda left, right: [fixed(left) + right])
    plain = replace(own, inputs=[fixed(rows(4, 2)) + rows(5, 5)], network=copy.deepcopy(own.network))
    histories = [trainer(each, Training(2, 16, 0.01), np.random.default_rng(0)).run() for each in (changed, plain)]
    for line, expected in zip(*histories, strict=True):
        assert line["loss"] == pytest.approx(expected["loss"], rel=1e-5)


def test_images_never_go_by_closed_form():
    linear = nn.Sequential(nn.Linear(4, 2))
    problem = Problem(linear, [torch.zeros(6, 1, 4, 4)], torch.zeros(6, 1, 4, 2), SquaredDistance())
    assert isinstance(trainer(problem, Training(1, 2, 0.1), np.random.default_rng(0)).update, TorchUpdate)


def test_threads_are_chosen_by_the_part_that_is_measured():
    problem = problems(SquaredDistance(), rows(3, 3))[0]
    training, rng = Training(1, 10, 0.1), np.random.default_rng(0)
    assert trainer(problem, training, rng).work == 3 * 2 * 10 * (5 * 8 + 8 + 8 * 3 + 3)
    assert trainer(replace(problem, measured=problem.network[0]), training, rng).work == 3 * 2 * 10 * (5 * 8 + 8)


class Centred(nn.Module):
    def forward(self, values):
        return values - values.mean(dim=0)


def test_a_network_that_mixes_rows_is_refused_before_anything_is_spent():
    spent = purse(2.0)
    mixing = nn.Sequential(*network(), Centred())
    problem = Problem(mixing, [rows()], rows(3, 3), SquaredDistance(), "the learner 'own'")
    with pytest.raises(InputError, match="The network of the learner 'own'"):
        trainer(problem, Training(1, 20, 0.1), np.random.default_rng(0), spent.steps("test", rows().numpy(), 0.1))
    assert spent.spent == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_on_a_gpu_it_is_autograd():
    problem = problems(SquaredDistance(), rows(3, 3).cuda())[0]
    moved = replace(problem, network=problem.network.cuda(), inputs=[rows().cuda()])
    loop = trainer(moved, Training(2, 16, 0.01), np.random.default_rng(0))
    assert isinstance(loop.update, TorchUpdate)
    assert len(loop.run()) == 2
