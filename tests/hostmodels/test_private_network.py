"""A privacy budget from the user's side: estimators, guests and hosts, and what they refuse."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from joblib import parallel_config
from sklearn.base import clone
from sklearn.datasets import load_digits
from torch import nn

from fedonce import (
    BudgetError,
    FedOnceClassifier,
    FedOnceRegressor,
    FedOnceWarning,
    Guest,
    Host,
    InputError,
    MessageError,
    Privacy,
    Recipe,
    tiles,
)
from fedonce.data.preparation import Public
from fedonce.hostmodels import NetworkModel, private_network
from fedonce.hostmodels.plan import plan as make_plan
from fedonce.hostmodels.recipe import PAPER, PRIVATE_CLASSES
from fedonce.learners import NAT, PCA, Autoencoder, Random
from fedonce.privacy import accountants
from fedonce.privacy.budget import Purse
from fedonce.privacy.noise import SecretRandom


def problem(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    X = np.clip(rng.normal(size=(n, 8)) / 3, -1, 1)
    return X, (X[:, 1] + X[:, 4] + X[:, 6] > 0).astype(int)


class Centred(nn.Module):
    """Takes the batch's mean off each row: what it says of a row depends on the others."""

    def forward(self, rows):
        return rows - rows.mean(dim=0)


BUDGET = {
    "epsilon": 4.0,
    "bounds": (-1, 1),
    "target_bounds": [0, 1],
    "accountant": "rdp",
    "random_state": 0,
}
EXPERT = ("clip", "budget_shares", "allow_large_delta", "unsound_paper_reproduction", "insecure_test_seed")


def classifier(**given):
    expert = {"insecure_test_seed": 0} | {name: given.pop(name) for name in EXPERT if name in given}
    return FedOnceClassifier(**{"parties": 4, "dim": 2, **BUDGET, "privacy": Privacy(**expert), **given})


def priced(book):
    return sorted((entry.party, entry.what, repr(entry.event)) for entry in book.entries)


def test_noise_is_the_systems_and_a_seed_for_tests_is_marked():
    X, y = problem(300)
    first, second = (classifier(insecure_test_seed=None, host_epochs=1).fit(X, y) for _ in range(2))
    assert not first.ledger_.nominal
    assert not np.array_equal(first.predict_proba(X), second.predict_proba(X))
    seeded = [classifier(host_epochs=1).fit(X, y) for _ in range(2)]
    np.testing.assert_array_equal(*(model.predict_proba(X) for model in seeded))
    assert all(model.ledger_.nominal for model in seeded)  # whoever knows the seed can take the noise away


def test_a_budget_is_kept_and_written_down():
    X, y = problem()
    model = classifier().fit(X, y)
    assert model.score(X, y) > 0.85
    assert model.ledger_.epsilon() == pytest.approx(4.0, rel=0.01)
    assert model.ledger_.epsilon() <= 4.0
    assert model.ledger_.delta == 1 / (10 * len(X))
    assert set(model.ledger_.parties) == {"party1", "party2", "party3", "party4"}
    assert priced(model.ledger_) == priced(model.plan_)
    total = model.ledger_.rows()[-1]
    assert total["epsilon"] <= 4.0
    assert model.history_ == []  # exact losses are figures of private rows


def test_what_the_host_composes_from_messages_is_what_was_spent():
    X, y = problem(600)
    model = classifier().fit(X, y)
    by_party = {entry.party for entry in model._host.ledger.entries}
    assert by_party == set(model.ledger_.parties)
    assert sorted(map(repr, model._host.ledger.entries)) == sorted(map(repr, model.ledger_.entries))
    for message in model.representations_.values():
        assert "PCA: second moments" in message.spent
        scale = message.codec.scale
        np.testing.assert_array_equal(scale.low, np.full(2, -3.0))
        np.testing.assert_array_equal(scale.high, np.full(2, 3.0))


def test_less_budget_is_more_noise():
    X, y = problem(600)
    noises = [classifier(epsilon=epsilon).fit(X, y).ledger_.entries[0].event.noise for epsilon in (1.0, 4.0)]
    assert noises[0] > 2 * noises[1]


def test_rows_do_not_change_scaling_or_ranges():
    X, y = problem(600)
    narrow = X * 0.5
    first, second = classifier().fit(X, y), classifier().fit(narrow, y)
    for name in ("party1", "party2"):
        steps = [
            (model._host if name == "party1" else model._guests[name]).preparation.steps[0] for model in (first, second)
        ]
        np.testing.assert_array_equal(steps[0].low, steps[1].low)
    scales = [model.representations_["party2"].codec.state() for model in (first, second)]
    assert scales[0].keys() == scales[1].keys() == {"low", "high"}
    for name in scales[0]:
        np.testing.assert_array_equal(scales[0][name], scales[1][name])


def test_classes_that_no_row_has_are_still_classes():
    X, y = problem(400)
    model = classifier(target_bounds=["no", "yes", "perhaps"]).fit(X, np.where(y, "yes", "no"))
    assert list(model.classes_) == ["no", "perhaps", "yes"]
    assert model.predict_proba(X[:3]).shape == (3, 3)


def test_regression_within_public_bounds():
    X, _ = problem()
    y = 10 + 5 * (X[:, 1] + X[:, 4])
    model = FedOnceRegressor(parties=4, dim=2, **{**BUDGET, "target_bounds": (0, 20)}).fit(X, y)
    predicted = model.predict(X)
    assert 0 <= predicted.min() <= predicted.max() <= 20
    assert model.score(X, y) > 0.5


def test_infinite_budget_clips_without_noise_with_every_learner():
    X, y = problem(400)
    for learner in ("pca", "nat", "autoencoder", "random"):
        model = classifier(
            epsilon=math.inf, learner=learner, epochs=None if learner == "pca" else 1, host_epochs=5
        ).fit(X, y)
        assert model.ledger_.epsilon() == math.inf


def test_data_beyond_the_bounds_are_set_to_them_and_the_user_is_told_once_for_a_party():
    X, y = problem(400)
    with pytest.warns(FedOnceWarning, match="values beyond the bounds given in column") as told:
        classifier(bounds=(-0.5, 0.5), host_epochs=1).fit(X, y)
    assert len(told) == 4
    assert len({str(warning.message) for warning in told}) == 4  # a party each, and nobody is told how often


def test_missing_values_and_categories_from_public_lists():
    X, y = problem(300)
    table = pd.DataFrame(X, columns=list("abcdefgh"))
    table["shop"] = np.where(X[:, 0] > 0, "north", "south")
    table.loc[3, "b"] = np.nan
    bounds = dict.fromkeys("abcdefgh", (-1, 1))
    parties = {"bank": ["a", "b", "c"], "shop": ["d", "shop"]}
    model = classifier(parties=parties, bounds=bounds, categories={"shop": ["north", "south", "east"]}, host_epochs=2)
    model.fit(table, y)
    assert model.predict(table).shape == (300,)
    with pytest.raises(InputError, match=r"Column 'b' of party 'bank' has bounds, and holds text.*categories=\{'b'"):
        classifier(parties=parties, bounds=bounds).fit(table.assign(b="old"), y)
    with pytest.raises(InputError, match=r"Column 'shop' of party 'shop' holds text.*categories"):
        classifier(parties=parties, bounds=bounds).fit(table, y)
    with pytest.raises(InputError, match=r"Column 'd' of party 'shop' has no bounds"):
        classifier(
            parties=parties, bounds={"a": (-1, 1), "b": (-1, 1), "c": (-1, 1)}, categories={"shop": ["n", "s"]}
        ).fit(table, y)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"epsilon": 0}, InputError, "'epsilon'.*above 0.*Got 0"),
        ({"epsilon": -1.0}, InputError, "'epsilon'.*Got -1.0"),
        ({"epsilon": math.nan}, InputError, "'epsilon'.*Got nan"),
        ({"delta": 0.0}, InputError, "'delta'.*Got 0.0"),
        ({"delta": 1.0}, InputError, "'delta'.*Got 1.0"),
        ({"delta": 0.1}, InputError, "'delta'.*allow_large_delta.*Got 0.1"),
        ({"epsilon": 1e-9, "delta": 1e-9}, BudgetError, "less than a single sum or step can meet"),
        ({"bounds": None}, InputError, "Column 0 of party 'party1' has no bounds"),
        ({"bounds": (1, -1)}, InputError, "low below high"),
        ({"bounds": [(-1, 1)] * 3}, InputError, "'bounds'.*8 columns.*3 pairs"),
        ({"target_bounds": None}, InputError, "classes must be given"),
        ({"target_bounds": [0, 2]}, InputError, "the class '1', which is not among those given: \\[0, 2\\]"),
        ({"rounds": 3}, InputError, "'rounds'.*0 with a privacy budget.*Got 3"),
        ({"representation_noise": 0.5}, InputError, "'representation_noise'.*0 with a privacy budget"),
        ({"learner": "nat"}, BudgetError, "cannot keep a privacy budget"),
        ({"learner": "patches"}, BudgetError, "no private version"),
        ({"accountant": "mine"}, InputError, "'accountant'.*pld, rdp, reference.*'mine'"),
        ({"division": "equal"}, InputError, "'division'.*moments, simple.*'equal'"),
        ({"budget_shares": {"party1": 1}}, InputError, "'budget_shares'.*every party"),
        ({"bounds": {0: (-1, 1), 99: (0, 1)}}, InputError, "'bounds'.*keyed by columns.*Got 99"),
        ({"target_bounds": [1, 1]}, InputError, "two or more"),
        ({"learner": Random(network=Centred())}, InputError, "'party2'.*other values when other rows are with it"),
        ({"categories": ["a"]}, InputError, "'categories'.*dict"),
        ({"recipe": Recipe(members=3, epochs=1)}, InputError, "'members'.*1 with a privacy budget"),
        (
            {"recipe": Recipe(network=nn.Sequential(nn.Linear(2, 64), nn.BatchNorm1d(64)), epochs=1)},
            InputError,
            "BatchNorm1d",
        ),
    ],
)
def test_what_is_refused_is_refused_before_anything_is_spent(given, error, said):
    X, y = problem(200)
    model = classifier(**given)
    with pytest.raises(error, match=said):
        model.fit(X, y)
    assert not hasattr(model, "ledger_") or not model.ledger_.entries


@pytest.mark.parametrize("parameter", ["delta", "bounds", "target_bounds", "categories"])
def test_parts_of_a_budget_without_epsilon_are_refused(parameter):
    X, y = problem(100)
    with pytest.raises(InputError, match=f"'{parameter}' parameter of FedOnceClassifier.*left out without epsilon"):
        FedOnceClassifier(**{parameter: 0.5}).fit(X, y)


@pytest.mark.parametrize("field", ["delta", "clip", "budget_shares", "bounds", "target_bounds"])
def test_fields_of_a_budget_without_epsilon_are_refused(field):
    X, y = problem(100)
    with pytest.raises(InputError, match=f"'{field}' parameter of Privacy.*left out without epsilon"):
        FedOnceClassifier(privacy=Privacy(**{field: 0.5})).fit(X, y)


def test_a_large_delta_can_be_allowed():
    X, y = problem(200)
    model = classifier(delta=0.01, allow_large_delta=True, host_epochs=1).fit(X, y)
    assert model.ledger_.delta == 0.01


def test_a_crash_leaves_the_ledger_of_what_was_spent(monkeypatch):
    X, y = problem(400)
    taken = []
    original = SecretRandom.poisson_sample

    def fails(self, n_rows, rate):
        taken.append(rate)
        if len(taken) == 5:
            raise RuntimeError("power cut")
        return original(self, n_rows, rate)

    monkeypatch.setattr(SecretRandom, "poisson_sample", fails)
    model = classifier()
    with pytest.raises(RuntimeError, match="power cut"):
        model.fit(X, y)
    steps = [entry.event.steps for entry in model.ledger_.entries if entry.what == private_network.TRAINING]
    assert steps == [5]
    assert len([entry for entry in model.ledger_.entries if entry.party == "party3"]) == 3
    assert 0 < model.ledger_.epsilon() < 4.0


def test_the_papers_reproduction_is_marked_everywhere():
    X, y = problem(400)
    learner = NAT(hidden=(8,), epochs=1, batch=50)
    recipe = replace(
        PAPER, encoder_hidden=(8,), encoder_dim=2, head=(4,), epochs=2, batch=50, rate=0.1, optimizer="sgd"
    )
    model = classifier(
        learner=learner,
        recipe=recipe,
        unsound_paper_reproduction=True,
        budget_shares="common",
        accountant="reference",
        clip=1.0,
    ).fit(X, y)
    assert model.ledger_.nominal
    assert "nominal epsilon" in str(model.ledger_)
    assert model.ledger_.rows()[-1]["mark"] == "nominal epsilon"
    assert all("nominal" in message.spent for message in model.representations_.values())
    assert len({entry.event.noise for entry in model.ledger_.entries}) == 1  # one noise for all, as in the paper


def test_simple_division_costs_more_noise():
    X, y = problem(400)
    simple, moments = (classifier(division=division).fit(X, y).plan_ for division in ("simple", "moments"))
    noises = [
        next(e.event.noise for e in plan.entries if e.what == private_network.TRAINING) for plan in (simple, moments)
    ]
    assert noises[0] > noises[1]


def test_shares_steer_the_noise():
    X, y = problem(400)
    shares = {"party1": 10, "party2": 10, "party3": 1, "party4": 1}
    plan = classifier(budget_shares=shares).fit(X, y).plan_
    noise = {party: plan.of(party)[-1].event.noise for party in ("party2", "party3")}
    assert noise["party3"] == pytest.approx(noise["party2"] * math.sqrt(10))


def test_each_party_is_priced_by_its_own_rows():
    X, y = problem(800)
    has = np.arange(800) < 200
    learner = Autoencoder(private_batch=40, epochs=3)
    model = classifier(learner=learner, parties=2, dim=2).fit(X, y, present={"party2": has})
    rate = {entry.party: entry.event.rate for entry in model.ledger_.entries if hasattr(entry.event, "rate")}
    assert rate == {"party1": 0.25, "party2": 0.2}  # 200 of 800, and 40 of the guest's own 200
    model = classifier(parties=2).fit(X, y, present={"party2": False})
    assert model.ledger_.parties == ("party1",)
    assert model.absent_ == ("party2",)


def test_pickling_and_cloning_leave_no_representation_behind():
    X, y = problem(300)
    model = classifier(host_epochs=2).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert not hasattr(again, "representations_")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.ledger_.entries == model.ledger_.entries
    assert clone(model).get_params()["epsilon"] == 4.0
    model.fit(X, y)  # a second fit spends anew, from a plan of its own
    assert model.ledger_.epsilon() <= 4.0


def test_images_and_few_bits():
    X, y = load_digits(return_X_y=True)
    model = classifier(
        parties=tiles((8, 8), (2, 2)), bounds=(0, 16), target_bounds=range(10), bits=4, dim=6, epsilon=20.0
    ).fit(X, y)
    assert model.score(X, y) > 0.7
    wide = classifier(parties=2, bounds=(0, 16), target_bounds=range(10), bits=32, dim=6, epsilon=20.0).fit(X, y)
    assert wide.score(X, y) > 0.7


def plan_for(n, epsilon=4.0):
    return make_plan(
        "host", NetworkModel(PRIVATE_CLASSES), "classification", n, {"shop": PCA()}, {"shop": n}, epsilon, 1e-5, "rdp"
    )


def purse_of(plan, party):
    return Purse(party, plan.of(party), plan.ledger(), SecretRandom(insecure_test_seed=0))


def test_host_refuses_messages_without_or_beyond_the_plan():
    X, y = problem(400)
    plan = plan_for(400)
    public = Public((-1, 1))
    host = Host("host", purse=purse_of(plan, "host"), public=public, plan=plan, labels=[0, 1])
    silent = Guest("shop", "pca", 2).learn(X[:, 4:])
    with pytest.raises(MessageError, match="'shop'.*without a privacy budget"):
        host.aggregate(X[:, :4], y, [silent])
    richer = plan_for(400, epsilon=60.0)
    loud = Guest("shop", "pca", 2, purse=purse_of(richer, "shop"), public=public).learn(X[:, 4:])
    host = Host("host", purse=purse_of(plan, "host"), public=public, plan=plan, labels=[0, 1])
    with pytest.raises(MessageError, match="'shop' is refused: it spent on 'PCA: mean' noise .*the plan has noise"):
        host.aggregate(X[:, :4], y, [loud])
    assert host.purse.spent == []  # refused before the host spent anything
    other = Guest("shop", "pca", 2, purse=purse_of(plan, "shop"), public=public, run="monday").learn(X[:, 4:])
    host = Host("host", purse=purse_of(plan, "host"), public=public, plan=plan, labels=[0, 1])
    with pytest.raises(MessageError, match="run 'monday'"):
        host.aggregate(X[:, :4], y, [other])


MEAN, RADIUS, MOMENTS = (f"PCA: {what}" for what in ("mean", "radius", "second moments"))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda lines: [lines[0] | {"noise": 0.05}, *lines[1:]], MEAN),
        (lambda lines: [lines[0], lines[1] | {"times": 2}, lines[2]], RADIUS),
        (lambda lines: lines[:2], MOMENTS),
        (lambda lines: [*lines, lines[0]], MEAN),
        (lambda lines: [*lines, {"what": "more", "noise": 0.06, "rate": 0.3, "steps": 10**6}], "more"),
        (
            lambda lines: [{"what": f"{i}", "noise": 0.05 + i / 1e3, "rate": 0.9, "steps": 1 + i} for i in range(16)],
            "0",
        ),
    ],
)
def test_what_a_guest_spent_is_compared_with_its_plan_and_not_priced(change, named, monkeypatch):
    X, y = problem(200)
    plan = plan_for(200)
    public = Public((-1, 1))
    message = Guest("shop", "pca", 2, purse=purse_of(plan, "shop"), public=public).learn(X[:, 4:])
    lines = [{key: value for key, value in line.items() if key != "nominal"} for line in json.loads(message.spent)]
    host = Host("host", purse=purse_of(plan, "host"), public=public, plan=plan, labels=[0, 1])
    host.spent_of(replace(message, spent=json.dumps(lines)))  # as planned
    monkeypatch.setattr(accountants, "_price", lambda *_: pytest.fail("an accountant ran"))
    with pytest.raises(MessageError, match=f"'shop' is refused: .*{named!r}.*learn with this plan"):
        host.aggregate(X[:, :4], y, [replace(message, spent=json.dumps(change(lines)))])
    assert host.purse.spent == []
    stranger = replace(message, party="post")
    with pytest.raises(MessageError, match="'post' is refused: the plan has no such party"):
        host.spent_of(stranger)


def test_a_mark_that_nothing_is_guaranteed_is_not_taken_off():
    plan = plan_for(200)
    marked = replace(plan, entries=tuple(replace(entry, nominal=True) for entry in plan.entries))
    with pytest.raises(MessageError, match="'shop'.*nominal"):
        marked.check_spent("shop", plan.of("shop"))
    plan.check_spent("shop", marked.of("shop"))  # to say less is allowed


def test_a_guest_cannot_spend_twice():
    X, _ = problem(200)
    plan = plan_for(200)
    guest = Guest("shop", "pca", 2, purse=purse_of(plan, "shop"), public=Public((-1, 1)))
    guest.learn(X[:, 4:])
    with pytest.raises(BudgetError, match="'shop' wants to spend on 'PCA: mean'.*nothing more"):
        guest.learn(X[:, 4:])


def test_a_later_fit_without_a_budget_claims_none():
    X, y = problem(200)
    model = classifier(host_epochs=1).fit(X, y)
    model.set_params(epsilon=None, bounds=None, target_bounds=None).fit(X, y)
    assert not hasattr(model, "ledger_")
    assert not hasattr(model, "plan_")


def test_guests_side_by_side_write_in_one_ledger():
    X, y = problem(300)
    with parallel_config(backend="loky", n_jobs=2):
        model = classifier(host_epochs=1).fit(X, y)
    assert len(model.ledger_.parties) == 4


def test_labels_of_another_type_are_the_same_classes():
    X, y = problem(200)
    model = classifier(host_epochs=1).fit(X, y.astype(float))
    assert set(model.predict(X)) <= {0, 1}


def test_infinity_is_set_to_the_bound():
    X, y = problem(200)
    X[3, 2] = np.inf
    with pytest.warns(FedOnceWarning, match="beyond the bounds"):
        classifier(host_epochs=1).fit(X, y)


def test_dropout_is_as_secret_as_noise(monkeypatch):
    X, y = problem(200)
    monkeypatch.setattr(SecretRandom, "poisson_sample", lambda self, n_rows, rate: np.arange(n_rows))
    recipe = replace(PRIVATE_CLASSES, dropout=0.5, guest_dropout=0.5, epochs=2)
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    models = [classifier(recipe=recipe, epsilon=math.inf, insecure_test_seed=None).fit(X, y) for _ in range(2)]
    assert torch.equal(before, torch.random.get_rng_state())
    # No noise, the same weights at the start, every row in every step: nothing is left to differ but the dropout.
    assert not np.array_equal(*(model.predict_proba(X) for model in models))
    still = [classifier(recipe=PRIVATE_CLASSES, epsilon=math.inf, insecure_test_seed=None).fit(X, y) for _ in range(2)]
    np.testing.assert_array_equal(*(model.predict_proba(X) for model in still))


def test_what_belongs_to_a_budget_fits_together():
    X, y = problem(400)
    plan, public = plan_for(400), Public((-1, 1))
    with pytest.raises(InputError, match="'purse'.*given with 'public'"):
        Guest("shop", "pca", 2, public=public)
    with pytest.raises(InputError, match="'purse'.*that of party 'shop'.*'host'"):
        Guest("shop", "pca", 2, purse=purse_of(plan, "host"), public=public)
    with pytest.raises(InputError, match="'purse'.*given with a plan"):
        Host("host", plan=plan)
    with pytest.raises(BudgetError, match="cannot keep a privacy budget"):
        Guest("shop", "nat", 2, purse=purse_of(plan, "shop"), public=public).learn(X[:, 4:])
    message = Guest("shop", "pca", 2, purse=purse_of(plan, "shop"), public=public).learn(X[:, 4:])
    rich = Host("host", purse=purse_of(plan_for(400, epsilon=60.0), "host"), public=public, plan=plan, labels=[0, 1])
    with pytest.raises(BudgetError, match="'host' spent most"):
        rich.aggregate(X[:, :4], y, [message])
    few = Host("host", purse=purse_of(plan_for(400), "host"), public=public, plan=plan, labels=[0, 1])
    few.ledger.delta = 0.1
    with pytest.raises(InputError, match="'delta'.*allow_large_delta.*0.1"):
        few.aggregate(X[:, :4], y, [message])


def test_a_refused_host_can_try_again():
    X, y = problem(400)
    plan, public = plan_for(400), Public((-1, 1))
    message = Guest("shop", "pca", 2, purse=purse_of(plan, "shop"), public=public).learn(X[:, 4:])
    host = Host("host", purse=purse_of(plan, "host"), public=public, plan=plan, labels=[0, 1], epochs=1)
    with pytest.raises(MessageError, match="two for the same rows"):
        host.aggregate(X[:, :4], y, [message, message])
    host.aggregate(X[:, :4], y, [message])
    assert host.ledger.epsilon() <= 4.0


@pytest.mark.parametrize("epsilon", [300.0, 1e6])
def test_a_huge_budget_is_not_exceeded(epsilon):
    X, y = problem(200)
    model = classifier(epsilon=epsilon, host_epochs=1).fit(X, y)
    assert model.ledger_.epsilon() <= epsilon
