from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from opacus import GradSampleModule
from torch import nn
from torch.nn.functional import cross_entropy

from fedonce import InputError
from fedonce.errors import BudgetError
from fedonce.privacy import dpsgd
from fedonce.privacy.dpsgd import PrivateSteps, check_clippable, check_network, clipped_gradients
from fedonce.privacy.events import SampledGaussian
from fedonce.privacy.ledger import Entry, Ledger
from fedonce.privacy.noise import SecretRandom
from fedonce.training.closedform import ClosedForm
from fedonce.training.networks import cnn0, mlp


def mlp_case():
    return mlp(5, (8, 7), 3), torch.randn(13, 5)


def cnn_case():
    network = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 3))
    return network, torch.randn(13, 1, 6, 6)


def squared(outputs, target):
    return (outputs - target).square().sum()


def flat_gradient(network):
    return torch.cat([parameter.grad.reshape(-1) for parameter in network.parameters()])


def row_gradients(network, x, targets, loss):
    """Return each row's gradient of all parameters, by plain autograd."""
    rows = []
    for position in range(len(x)):
        network.zero_grad()
        loss(network(x[position : position + 1]), targets[position : position + 1]).backward()
        rows.append(flat_gradient(network).clone())
    return torch.stack(rows)


def between(gradients):
    """Return a norm to which some rows are clipped and others are not; else a test shows nothing."""
    norms = gradients.norm(dim=1)
    return float(norms.min() + norms.max()) / 2


def clipped_sum(gradients, clip):
    return (gradients * (clip / gradients.norm(dim=1)).clamp(max=1)[:, None]).sum(dim=0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", [mlp_case, cnn_case])
def test_clipped_gradients_equal_opacus(case, float64):
    torch.manual_seed(0)
    network, x = case()
    targets = torch.arange(len(x)) % 3
    reference = GradSampleModule(copy.deepcopy(network), loss_reduction="sum")
    cross_entropy(reference(x), targets, reduction="sum").backward()
    gradients = torch.cat([parameter.grad_sample.flatten(1) for parameter in reference.parameters()], dim=1)
    clip = between(gradients)
    clipped_gradients(network, [x], targets, cross_entropy, clip)
    torch.testing.assert_close(flat_gradient(network), clipped_sum(gradients, clip), atol=1e-6, rtol=1e-6)


FORMS = {
    "one layer": lambda: nn.Sequential(nn.Linear(5, 3)),
    "relu": lambda: mlp(5, (8, 7), 3),
    "tanh": lambda: mlp(5, (8, 7), 3, activation="tanh"),
    "tanh outputs": lambda: nn.Sequential(*mlp(5, (8,), 3), nn.Tanh()),
    "relu outputs": lambda: nn.Sequential(*mlp(5, (8,), 3, activation="tanh"), nn.ReLU()),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_closed_form_clips_as_gradients_of_rows_do(name, float64):
    torch.manual_seed(0)
    network = FORMS[name]()
    x, targets = torch.randn(17, 5), torch.randn(17, 3)
    gradients = row_gradients(network, x, targets, squared)
    clip = between(gradients)
    clipped_gradients(network, [x], targets, squared, clip)
    expected = flat_gradient(network).clone()
    torch.testing.assert_close(expected, clipped_sum(gradients, clip), atol=1e-9, rtol=1e-9)
    form = ClosedForm(network)
    form.backward(2 * (form.forward(x.numpy()) - targets.numpy()), clip)
    torch.testing.assert_close(form.parameter.grad, expected, atol=1e-9, rtol=1e-9)


def test_a_clip_that_no_row_reaches_changes_nothing(float64):
    torch.manual_seed(0)
    form = ClosedForm(mlp(5, (8,), 3))
    x, slope = np.random.default_rng(0).standard_normal((2, 17, 5))
    form.forward(x)
    form.backward(slope[:, :3])
    plain = form.gradient.copy()
    form.backward(slope[:, :3], clip=1e6)
    np.testing.assert_allclose(form.gradient, plain, rtol=1e-12, atol=1e-12)


def test_one_more_row_changes_the_sum_by_at_most_the_clip(float64):
    torch.manual_seed(0)
    network = mlp(5, (8,), 3)
    x, targets = 100 * torch.randn(10, 5), torch.randn(10, 3)
    form, sums = ClosedForm(copy.deepcopy(network)), []
    for rows in (slice(10), slice(9)):
        clipped_gradients(network, [x[rows]], targets[rows], squared, 0.3)
        form.backward(2 * (form.forward(x[rows].numpy()) - targets[rows].numpy()), 0.3)
        sums.append((flat_gradient(network).clone(), form.parameter.grad.clone()))
    for with_row, without in zip(*sums, strict=True):
        assert float((with_row - without).norm()) == pytest.approx(0.3)


def test_no_rows_give_zeros():
    network = mlp(5, (8,), 3)
    for parameter in network.parameters():
        parameter.grad = torch.ones_like(parameter)
    clipped_gradients(network, [torch.empty(0, 5)], torch.empty(0, 3), squared, 1.0)
    assert not flat_gradient(network).any()
    form = ClosedForm(network)
    form.gradient[:] = 1
    form.backward(form.forward(np.empty((0, 5), np.float32)), 1.0)
    assert not form.gradient.any()


def test_a_row_without_gradient_adds_nothing():
    network = nn.Sequential(nn.Linear(2, 1))
    with torch.no_grad():
        targets = network(torch.zeros(3, 2))
    clipped_gradients(network, [torch.zeros(3, 2)], targets, squared, 1.0)
    assert not flat_gradient(network).any()
    form = ClosedForm(network)
    form.backward(form.forward(np.zeros((3, 2), np.float32)) - targets.numpy(), 1.0)
    assert not form.gradient.any()


@pytest.mark.parametrize("far", [1e20, np.inf, np.nan])
@pytest.mark.filterwarnings("ignore:.*encountered in")
def test_a_row_whose_gradient_overflows_adds_nothing(far):
    torch.manual_seed(0)
    network = mlp(5, (8,), 3)
    x = torch.randn(4, 5)
    targets = torch.randn(4, 3)
    clipped_gradients(network, [x[:3]], targets[:3], squared, 1.0)
    expected = flat_gradient(network).clone()
    x[3] = far
    clipped_gradients(network, [x], targets, squared, 1.0)
    torch.testing.assert_close(flat_gradient(network), expected)
    form = ClosedForm(network)
    form.backward(2 * (form.forward(x.numpy()) - targets.numpy()), 1.0)
    torch.testing.assert_close(form.parameter.grad, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("at_once", [1, 4, 13])
def test_more_rows_than_are_in_memory_together_give_the_same_sum(at_once, monkeypatch, float64):
    monkeypatch.setattr(dpsgd, "ROWS_AT_ONCE", at_once)
    torch.manual_seed(0)
    network, x = mlp_case()
    targets = torch.randn(13, 3)
    gradients = row_gradients(network, x, targets, squared)
    clip = between(gradients)
    clipped_gradients(network, [x], targets, squared, clip)
    torch.testing.assert_close(flat_gradient(network), clipped_sum(gradients, clip), atol=1e-9, rtol=1e-9)


def test_rows_beyond_the_limit_are_summed(float64):
    torch.manual_seed(0)
    network = mlp(5, (8,), 3)
    x, targets = torch.randn(dpsgd.ROWS_AT_ONCE + 3, 5), torch.randn(dpsgd.ROWS_AT_ONCE + 3, 3)
    gradients = row_gradients(network, x, targets, squared)
    clip = between(gradients)
    clipped_gradients(network, [x], targets, squared, clip)
    torch.testing.assert_close(flat_gradient(network), clipped_sum(gradients, clip), atol=1e-9, rtol=1e-9)


def test_a_frozen_parameter_has_no_gradient_and_no_part_of_the_norm(float64):
    torch.manual_seed(0)
    network, x = mlp_case()
    network[0].requires_grad_(False)
    targets = torch.randn(13, 3)
    clipped_gradients(network, [x[:1]], targets[:1], squared, 0.01)
    assert network[0].weight.grad is None
    trained = [parameter.grad.reshape(-1) for parameter in network.parameters() if parameter.requires_grad]
    assert float(torch.cat(trained).norm()) == pytest.approx(0.01)


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(2, 3), nn.Linear(4, 3)

    def forward(self, left, right):
        return self.left(left) * self.right(right)


def test_a_network_of_two_inputs(float64):
    torch.manual_seed(0)
    network, left, right, targets = Two(), torch.randn(1, 2), torch.randn(1, 4), torch.randn(1, 3)
    squared(network(left, right), targets).backward()
    expected = flat_gradient(network).clone()
    clipped_gradients(network, [left, right], targets, squared, 1e6)
    torch.testing.assert_close(flat_gradient(network), expected, atol=1e-12, rtol=1e-12)
    check_clippable(network, [left, right], "the test")


def steps(noise=1.5, rate=0.25, count=3, clip=0.5, n_rows=40, public_rows=40, random=None):
    entry = Entry("shop", "train", SampledGaussian(noise, rate, count), nominal=True)
    random = random or SecretRandom(insecure_test_seed=0)
    return PrivateSteps(entry, n_rows, public_rows, clip, Ledger(1e-5, "rdp"), random)


def test_a_step_is_a_sample_and_a_release():
    private = steps()
    with pytest.raises(BudgetError, match="call sample first"):
        private.release([np.zeros(3)])
    private.sample()
    with pytest.raises(BudgetError, match="not released"):
        private.sample()
    private.release([np.zeros(3)])
    with pytest.raises(BudgetError, match="call sample first"):
        private.release([np.zeros(3)])
    assert private.taken == 1


def test_more_steps_than_planned_are_refused():
    private = steps(count=3)
    for _ in range(3):
        private.sample()
        private.release([np.zeros(3)])
    with pytest.raises(BudgetError, match="'shop' has taken all 3 steps"):
        private.sample()
    assert private.ledger.entries == [private.entry]


def test_a_step_is_in_the_ledger_before_its_rows_are_drawn():
    class Broken(SecretRandom):
        def poisson_sample(self, n_rows, rate):
            raise OSError("no entropy")

    for random in (None, Broken()):
        private = steps(random=random)
        if random is None:
            private.sample()  # and its release never comes
        else:
            with pytest.raises(OSError, match="no entropy"):
                private.sample()
        assert private.ledger.entries == [Entry("shop", "train", SampledGaussian(1.5, 0.25, 1), nominal=True)]


def test_samples_are_of_the_party_s_rows_at_the_plan_s_rate():
    private = steps(count=2000, n_rows=50, public_rows=10)
    counts = np.zeros(50)
    for _ in range(2000):
        rows = private.sample()
        counts[rows] += 1
        private.release([])
    assert np.abs(counts / 2000 - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / 2000)


def test_without_noise_a_release_is_the_sum_by_the_expected_rows():
    private = steps(noise=0.0, rate=0.25, n_rows=50, public_rows=40)
    totals = [np.arange(6.0).reshape(2, 3), np.full(2, 7, np.float32)]
    private.sample()
    private.release(totals)
    np.testing.assert_array_equal(totals[0], np.arange(6.0).reshape(2, 3) / 10)
    np.testing.assert_array_equal(totals[1], np.full(2, 7, np.float32) / 10)
    assert totals[1].dtype == np.float32


def test_a_release_has_noise_of_noise_times_clip():
    private = steps(noise=1.5, rate=0.25, clip=0.5, n_rows=50, public_rows=40)
    totals = [np.full((200, 100), 3.0, np.float32), np.full(20_000, -2.0)]
    private.sample()
    private.release(totals)
    for total, exact in zip(totals, (0.3, -0.2), strict=True):
        assert total.mean() == pytest.approx(exact, abs=5 * 0.075 / np.sqrt(total.size))
        assert total.std() == pytest.approx(1.5 * 0.5 / 10, rel=0.05)
    first, second = totals[0].ravel() - 0.3, totals[1] + 0.2
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(20_000)


def test_each_step_has_noise_of_its_own():
    private, released = steps(), []
    for _ in range(2):
        total = np.zeros(100)
        private.sample()
        private.release([total])
        released.append(total)
    assert not np.intersect1d(*released).size


def test_the_batch_and_the_epochs_that_steps_make():
    private = steps(rate=128 / 1000, count=24, public_rows=1000)
    assert (private.batch, private.epochs) == (128, 3)
    assert steps(rate=128 / 1000, count=25, public_rows=1000).epochs == 4
    assert steps(rate=1e-6, public_rows=1000).batch == 1


class Nested(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), layer)

    def forward(self, x):
        return self.body(x)


@pytest.mark.parametrize(
    ("network", "kind", "layer"),
    [
        (nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), "BatchNorm1d", "'1'"),
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)), "BatchNorm2d", "'1'"),
        (Nested(nn.LazyBatchNorm1d()), "LazyBatchNorm1d", "'body.1'"),
        (Nested(nn.SyncBatchNorm(4)), "SyncBatchNorm", "'body.1'"),
    ],
)
def test_layers_that_mix_rows_are_refused_by_name(network, kind, layer):
    for check in (lambda: check_network(network, "the host"), lambda: check_clippable(network, [], "the host")):
        with pytest.raises(InputError, match=rf"the host has {kind} \(layer {layer}\).*nn.GroupNorm"):
            check()


@pytest.mark.parametrize(
    ("network", "shape"),
    [
        (mlp(4, (8,), 2, dropout=0.5), (4,)),
        (cnn0((1, 6, 6), 2, hidden=4), (1, 6, 6)),
        (nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(64, 2)), (1, 6, 6)),
        (nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)), (4,)),
    ],
)
def test_networks_that_treat_each_row_by_itself_pass(network, shape):
    before = copy.deepcopy(network.state_dict())
    check_clippable(network, [torch.full((5, *shape), torch.nan)], "the host")  # no row is looked at
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert network.training


class ByHand(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)
        self.register_buffer("mean", torch.zeros(4))


class Centred(ByHand):
    def forward(self, x):
        return self.linear(x - x.mean(dim=0))


class Item(ByHand):
    def forward(self, x):
        return self.linear(x - x.mean().item())


class Branch(ByHand):
    def forward(self, x):
        return self.linear(x) if x.mean() > 1 else self.linear(-x)


class Running(ByHand):
    def forward(self, x):
        self.mean.mul_(0.9).add_(0.1 * x.mean(dim=0))
        return self.linear(x - self.mean)


@pytest.mark.parametrize("kind", [Item, Branch, Running])
def test_a_network_without_gradients_of_rows_is_refused(kind):
    with pytest.raises(InputError, match=rf"the recipe \({kind.__name__}\) has no gradient for one row alone"):
        check_clippable(kind(), [torch.zeros(5, 4)], "the recipe")


def test_a_network_that_mixes_rows_by_hand_is_refused():
    with pytest.raises(
        InputError, match=r"the recipe \(Centred\) gives a row other values when other rows are with it"
    ):
        check_clippable(Centred(), [torch.zeros(5, 4)], "the recipe")


def test_steps_with_noise_from_a_seed_are_no_guarantee():
    for seed, nominal in ((0, True), (None, False)):
        entry = Entry("shop", "train", SampledGaussian(1.5, 0.25, 1))
        private = PrivateSteps(entry, 40, 40, 1.0, Ledger(1e-5), SecretRandom(seed))
        private.sample()
        assert private.ledger.nominal == nominal


def witnessed(totals, noise=1.5):
    """Return what a step makes of sums, and what a witness of it sees."""
    seen, private = [], steps(noise=noise, rate=0.25, clip=0.5, public_rows=40)
    private.witness = lambda *each: seen.append(each)
    private.sample()
    private.release(totals)
    return seen


def test_a_witness_sees_a_step_s_sums_in_whole_steps_and_what_was_made_of_them():
    totals = [np.arange(6.0).reshape(2, 3), np.full(2, 7, np.float32)]
    ((what, exact, noisy, scale),) = witnessed(totals)
    step = 0.5 * dpsgd.MARGIN / (2 * np.sqrt(8))
    assert what == "train"
    assert scale == pytest.approx(1.5 * 0.5 * (1 + dpsgd.MARGIN) / step)
    assert exact.dtype == noisy.dtype == np.int64
    np.testing.assert_allclose(exact * step, [0, 1, 2, 3, 4, 5, 7, 7], atol=step / 2)
    np.testing.assert_allclose(noisy * step / 10, np.concatenate([each.ravel() for each in totals]), rtol=1e-6)
    assert len(np.unique(noisy - exact)) == 8


def test_what_a_step_yields_is_whole_steps_whatever_the_sums_were(rng):
    """The numbers that can come out are the same for all data: nothing is left in the last digits."""
    step = 0.5 * dpsgd.MARGIN / (2 * np.sqrt(300))
    for total in (np.zeros(300), rng.standard_normal(300), 1e-9 * rng.standard_normal(300)):
        witnessed([total])
        whole = total / (step / 10)
        np.testing.assert_allclose(whole, np.rint(whole), atol=1e-6)


@pytest.mark.parametrize("same", [False, True])
def test_rounding_stays_within_the_margin(same, rng):
    """One row more changes the rounded sum by at most clip x (1 + MARGIN / 2); float32's part is a tenth of the rest."""
    torch.manual_seed(0)
    form, clip, sums = ClosedForm(mlp(20, (64, 32), 5)), 0.3, {}
    x = (100 * rng.standard_normal((4001, 20))).astype(np.float32)
    slopes = rng.standard_normal((4001, 5)).astype(np.float32)
    if same:  # all rows point one way: the sum is as long as it can be, and float32 is at its coarsest
        x[:], slopes[:] = x[0], slopes[0]
    for n in (4001, 4000):
        form.forward(x[:n])
        form.backward(slopes[:n], clip)
        sums[n] = form.gradient.copy()
    moved = np.linalg.norm(np.subtract(sums[4001], sums[4000], dtype=np.float64))
    assert moved - clip < 0.1 * clip * dpsgd.MARGIN / 2
    whole = [witnessed([sums[n]])[0][1] for n in (4001, 4000)]
    step = 0.5 * dpsgd.MARGIN / (2 * np.sqrt(whole[0].size))
    assert np.linalg.norm((whole[0] - whole[1]) * step) <= moved + 0.5 * dpsgd.MARGIN / 2
