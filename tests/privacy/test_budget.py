from __future__ import annotations

import json
import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from fedonce import InputError
from fedonce.errors import BudgetError
from fedonce.privacy import accountants
from fedonce.privacy.budget import Plan, Purse, Task, calibrate, check_budget, steps_task
from fedonce.privacy.events import Gaussian, SampledGaussian
from fedonce.privacy.ledger import Entry, Ledger
from fedonce.privacy.noise import SecretRandom

DELTA = 1e-5
TASKS = (
    Task("bank", "train", 0.5, 0.05, 40),
    Task("shop", "PCA: mean", 0.1),
    Task("shop", "PCA: second moments", 0.2),
    Task("telco", "train", 0.2, 0.02, 100, nominal=True),
    Task("gym", "Random", 0.0),
)


@pytest.fixture(scope="module")
def plan():
    return calibrate(TASKS, 2.0, DELTA, "rdp")


def purse(*entries, random=None, **settings):
    planned = entries or (Entry("shop", "PCA", Gaussian(2.0)), Entry("shop", "train", SampledGaussian(1.5, 0.1, 3)))
    return Purse("shop", planned, Ledger(DELTA, "rdp"), random or SecretRandom(), **settings)


def test_steps_make_the_epochs():
    assert steps_task("train", 1000, 128, 3, 0.5) == Task("", "train", 0.5, 0.128, 24)
    assert steps_task("train", 1000, 250, 0.5, 0.5, nominal=True) == Task("", "train", 0.5, 0.25, 2, nominal=True)
    assert steps_task("train", 100, 128, 3, 0.5) == Task("", "train", 0.5, 1.0, 3)


def test_a_task_s_event():
    assert TASKS[0].event(1.5) == SampledGaussian(1.5, 0.05, 40)
    assert replace(TASKS[1], steps=3).event(1.5) == Gaussian(1.5, 3)


def test_releases_use_up_their_part_of_the_strength():
    releases = [Task("a", "x", 0.7), Task("a", "y", 0.3, steps=5)]
    assert sum(task.steps / task.noise(2.5) ** 2 for task in releases) == pytest.approx(2.5)
    steps = Task("a", "train", 0.5, 0.01, 10_000)
    mu = 0.01 * math.sqrt(10_000 * (math.exp(1 / steps.noise(2.5) ** 2) - 1))
    assert mu**2 == pytest.approx(0.5 * 2.5)


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
@pytest.mark.parametrize(("common", "tasks"), [(False, TASKS[:2]), (True, TASKS[1:3])])
def test_a_plan_meets_its_budget(accountant, common, tasks):
    plan = calibrate(tasks, 2.0, DELTA, accountant, common=common)
    assert 0.97 * 2.0 <= plan.ledger(spent=True).epsilon() <= 2.0
    assert (plan.epsilon, plan.delta, plan.accountant, plan.division) == (2.0, DELTA, accountant, "moments")
    assert [(entry.party, entry.what) for entry in plan.entries] == [(task.party, task.what) for task in tasks]
    assert plan.ledger().entries == []


@pytest.mark.parametrize("epsilon", [0.1, 1, 30.0])
def test_budgets_small_and_large_are_met(epsilon):
    price = calibrate(TASKS[1:3], epsilon, DELTA, "rdp").ledger(spent=True).epsilon()
    assert 0.97 * epsilon <= price <= epsilon


def test_common_noise_is_the_same_for_all_who_pay():
    plan = calibrate(TASKS[1:], 2.0, DELTA, "rdp", common=True)
    assert 0.97 * 2.0 <= plan.ledger(spent=True).epsilon() <= 2.0
    assert len({entry.event.noise for entry in plan.entries if entry.event}) == 1


def test_more_weight_is_less_noise():
    releases = [Task("a", "x", 0.8), Task("b", "y", 0.2)]
    heavy, light = (entry.event.noise for entry in calibrate(releases, 1.0, DELTA, "rdp").entries)
    assert light == pytest.approx(2 * heavy)
    training = [Task("a", "x", 0.8, 0.1, 10), Task("b", "y", 0.2, 0.1, 10)]
    heavy, light = (entry.event.noise for entry in calibrate(training, 1.0, DELTA, "rdp").entries)
    assert light > 1.2 * heavy


def test_simple_division_gives_each_party_its_share():
    plan = calibrate(TASKS[:3], 2.0, DELTA, "rdp", "simple")
    ledger = plan.ledger(spent=True)
    for party in ledger.parties:
        assert 0.97 <= accountants.epsilon(ledger.events(party), DELTA / 2, "rdp") <= 1
    assert ledger.epsilon() <= 2.0


def test_an_infinite_budget_needs_no_noise():
    for division in accountants.DIVISIONS:
        plan = calibrate(TASKS, math.inf, DELTA, division=division)
        assert [entry.event.noise for entry in plan.entries if entry.event] == [0, 0, 0, 0]


def test_a_huge_budget_is_kept_too():
    plan = calibrate(TASKS[1:3], 1e6, DELTA, "rdp")
    assert 0 < plan.ledger(spent=True).epsilon() <= 1e6
    assert all(0 < entry.event.noise < 0.1 for entry in plan.entries)


def test_a_task_without_weight_is_free(plan):
    assert plan.of("gym") == (Entry("gym", "Random", None),)
    assert plan.of("telco")[0].nominal
    nothing = calibrate(TASKS[4:], 2.0, DELTA)
    assert nothing.ledger(spent=True).epsilon() == 0


@pytest.mark.parametrize(
    ("epsilon", "delta", "named"),
    [
        (0, DELTA, "'epsilon'.*Got 0"),
        (-1.0, DELTA, "'epsilon'.*Got -1.0"),
        (math.nan, DELTA, "'epsilon'.*Got nan"),
        (-math.inf, DELTA, "'epsilon'.*Got -inf"),
        ("1", DELTA, "'epsilon'.*Got '1'"),
        (True, DELTA, "'epsilon'.*Got True"),
        (None, DELTA, "'epsilon'.*Got None"),
        (1.0, 0, "'delta'.*Got 0"),
        (1.0, 1, "'delta'.*Got 1"),
        (1.0, math.nan, "'delta'.*Got nan"),
        (1.0, None, "'delta'.*Got None"),
    ],
)
def test_what_is_no_budget_is_refused(epsilon, delta, named):
    with pytest.raises(InputError, match=f"{named} instead") as caught:
        check_budget(epsilon, delta, "Somebody")
    assert "Somebody" in str(caught.value)
    with pytest.raises(InputError, match=named):
        calibrate(TASKS, epsilon, delta)


def test_what_is_a_budget_is_not_refused():
    for epsilon in (1, 0.5, math.inf, np.float32(2)):
        check_budget(epsilon, DELTA, "Somebody")
        assert calibrate(TASKS, epsilon, DELTA, "rdp").epsilon == epsilon


@pytest.mark.parametrize("common", [False, True])
@pytest.mark.parametrize("division", accountants.DIVISIONS)
def test_a_budget_that_no_noise_can_meet_is_refused(common, division):
    with pytest.raises(BudgetError, match="Raise epsilon or delta"):
        calibrate(TASKS[1:3], 1e-6, DELTA, "rdp", division, common)


def test_a_plan_survives_as_a_file(plan, tmp_path):
    for each in (plan, calibrate(TASKS, math.inf, DELTA), calibrate(TASKS[1:3], 2.0, DELTA, "rdp", "simple")):
        each.to_file(tmp_path / "plan.json")
        assert Plan.from_file(tmp_path / "plan.json") == each


def written(plan, tmp_path, **changes):
    path = tmp_path / "plan.json"
    plan.to_file(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return path


def test_a_plan_with_less_noise_than_its_budget_needs_is_refused(plan, tmp_path):
    path = written(plan, tmp_path)
    content = json.loads(path.read_text())
    content["parties"]["bank"][0]["noise"] *= 0.9
    path.write_text(json.dumps(content))
    with pytest.raises(BudgetError, match="plan.json: what its parties may do costs epsilon .* more than the 2 "):
        Plan.from_file(path)


@pytest.mark.parametrize("changes", [{"epsilon": 1.9}, {"delta": 1e-6}, {"accountant": "reference"}])
def test_a_plan_beyond_another_budget_is_refused(changes, plan, tmp_path):
    with pytest.raises(BudgetError, match="costs epsilon"):
        Plan.from_file(written(plan, tmp_path, **changes))


@pytest.mark.parametrize(
    "changes", [{"epsilon": -1}, {"epsilon": math.nan}, {"delta": 0}, {"accountant": "gdp"}, {"division": ["moments"]}]
)
def test_a_plan_with_an_impossible_setting_is_refused(changes, plan, tmp_path):
    with pytest.raises(InputError, match="a plan must be"):
        Plan.from_file(written(plan, tmp_path, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": "much"},
        {"epsilon": None},
        {"parties": []},
        {"parties": {"shop": []}},
        {"parties": {"shop": 3}},
        {"parties": {"shop": [{"what": "PCA", "noise": -1, "times": 1}]}},
        {"parties": {"shop": [{"what": "PCA", "noise": 1, "times": 1, "more": 1}]}},
    ],
)
def test_a_plan_with_unreadable_entries_is_refused(changes, plan, tmp_path):
    path = written(plan, tmp_path, **changes)
    with pytest.raises(InputError, match="plan.json is not a plan"):
        Plan.from_file(path)


@pytest.mark.parametrize("content", [b"", b"garbage", b"\xff\xfe\x00", b"[]", b"3", b"{}", b'{"epsilon": 1}'])
def test_garbage_is_no_plan(content, tmp_path):
    path = tmp_path / "garbage.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match="garbage.json is not a plan"):
        Plan.from_file(path)


def test_a_plan_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="absent.json cannot be read: No such file"):
        Plan.from_file(tmp_path / "absent.json")


def test_a_party_that_is_not_in_the_plan():
    plan = calibrate(TASKS, math.inf, DELTA)
    assert [entry.what for entry in plan.of("shop")] == ["PCA: mean", "PCA: second moments"]
    with pytest.raises(BudgetError, match="'cinema' is not in the plan, which has bank, shop, telco, gym"):
        plan.of("cinema")


def test_a_ledger_beyond_the_plan_is_refused(plan):
    ledger = plan.ledger(spent=True)
    plan.check(ledger)
    ledger.spend("shop", "once more", Gaussian(1.0))
    with pytest.raises(BudgetError, match="the plan has 2, party 'shop' spent most"):
        plan.check(ledger)


def test_a_line_is_used_once():
    mine = purse()
    mine.release("PCA", np.zeros(3, int), 1)
    with pytest.raises(BudgetError, match="'shop' wants to spend on 'PCA'; its plan allows 'train'"):
        mine.release("PCA", np.zeros(3, int), 1)
    mine.steps("train", np.zeros((10, 2)), 1.0)
    with pytest.raises(BudgetError, match="allows nothing more"):
        mine.steps("train", np.zeros((10, 2)), 1.0)
    assert mine.spent == [Entry("shop", "PCA", Gaussian(2.0))]


def test_what_is_not_planned_is_refused():
    mine = purse()
    for use in (
        lambda: mine.release("NAT", np.zeros(3, int), 1),
        lambda: mine.release("train", np.zeros(3, int), 1),  # planned as steps
        lambda: mine.steps("PCA", np.zeros((10, 2)), 1.0),  # planned as a release
        lambda: mine.free("Random"),
        lambda: mine.exactly("NAT"),
    ):
        with pytest.raises(BudgetError, match="its plan allows 'PCA', 'train'"):
            use()
    assert mine.ledger.entries == []


def test_a_release_has_noise_of_its_scale(rng):
    total = rng.integers(-1000, 1000, (500, 100))
    before = total.copy()
    released = purse(random=SecretRandom(insecure_test_seed=0)).release("PCA", total, 3)
    np.testing.assert_array_equal(total, before)
    noise = released - total
    assert noise.std() == pytest.approx(2.0 * 3.0, rel=0.02)
    assert abs(noise.mean()) < 5 * 6 / math.sqrt(noise.size)


def test_a_release_is_whole_parts_of_a_step():
    """For any sum the same numbers can come out: what is left of a sum's own is its place among them."""
    for sensitivity in (1, 3, 2**18, 2**36, 2**37):
        seen = []
        mine = purse(witness=lambda *each, seen=seen: seen.append(each))
        total = np.array([[5, -7], [2**24, 0]])
        released = mine.release("PCA", total, sensitivity)
        ((what, exact, noisy, scale),) = seen
        parts = exact[0, 0] // 5
        assert (what, scale) == ("PCA", 2.0 * sensitivity * parts)
        assert scale >= 2**36
        np.testing.assert_array_equal(exact, total * parts)
        np.testing.assert_array_equal(released * parts, noisy)  # to the bit, as parts are a power of two
        assert noisy.dtype == np.int64
        assert len(np.unique(noisy % 2**16)) > 1


def test_a_sum_of_floats_is_refused():
    with pytest.raises(
        InputError, match="'total' parameter of Purse.release must be an array of whole numbers.*float64"
    ):
        purse().release("PCA", np.zeros(3), 1)


@pytest.mark.parametrize(
    ("planned", "random", "nominal"),
    [(False, SecretRandom(), False), (True, SecretRandom(), True), (False, SecretRandom(insecure_test_seed=0), True)],
)
def test_a_release_that_is_no_guarantee_is_marked(planned, random, nominal):
    mine = purse(Entry("shop", "PCA", Gaussian(2.0), planned), random=random)
    mine.release("PCA", np.zeros(3, int), 1)
    assert mine.ledger.nominal == nominal


def test_what_is_spent_is_written_before_the_noise_is_drawn():
    class Broken(SecretRandom):
        def whole_normals(self, *_):
            raise OSError("no entropy")

    mine = purse(random=Broken())
    with pytest.raises(OSError, match="no entropy"):
        mine.release("PCA", np.zeros(3, int), 1)
    assert mine.spent == [Entry("shop", "PCA", Gaussian(2.0))]
    with pytest.raises(BudgetError, match="wants to spend on 'PCA'"):
        mine.release("PCA", np.zeros(3, int), 1)


def test_only_an_infinite_budget_does_without_noise():
    finite = purse()
    with pytest.raises(BudgetError, match="'PCA', and its budget is not infinite"):
        finite.exactly("PCA")
    assert finite.spent == []
    infinite = purse(Entry("shop", "PCA", Gaussian(0.0)), Entry("shop", "sum", Gaussian(0.0)))
    infinite.exactly("PCA")
    np.testing.assert_array_equal(infinite.release("sum", np.arange(3), 5), np.arange(3.0))
    assert infinite.ledger.epsilon() == math.inf


def test_free_things_are_written_down_and_cost_nothing():
    mine = purse(Entry("shop", "Random", None))
    mine.free("Random")
    assert mine.spent == [Entry("shop", "Random", None)]
    assert mine.ledger.epsilon() == 0
    with pytest.raises(BudgetError, match="'PCA' for nothing, and its plan has a price"):
        purse().free("PCA")


def test_a_purse_shows_only_its_own_spending():
    mine = purse()
    mine.ledger.spend("bank", "train", Gaussian(1.0))
    mine.release("PCA", np.zeros(3, int), 1)
    assert [entry.party for entry in mine.spent] == ["shop"]


def test_steps_have_the_plan_s_numbers_and_the_purse_s_clip_and_rows():
    rows = np.zeros((12, 2))
    steps = purse().steps("train", rows, 0.7)
    assert steps.event == SampledGaussian(1.5, 0.1, 3)
    assert (steps.clip, steps.n_rows, steps.public_rows) == (0.7, 12, 12)
    mine = purse(clip=0.2, n_rows=10)
    steps = mine.steps("train", rows, 0.7)
    assert (steps.clip, steps.n_rows, steps.public_rows) == (0.2, 12, 10)
    assert mine.count(rows) == 10
    assert mine.spent == []  # each step is written when it begins
    steps.sample()
    assert mine.spent == [Entry("shop", "train", SampledGaussian(1.5, 0.1, 1))]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"fedonce plan": 2}, "of version 1"),
        ({"epsilon": 10**400}, "not a plan"),
        ({"epsilon": "5"}, "'epsilon'"),
        ({"delta": 2}, "'delta'"),
    ],
)
def test_a_plan_with_wrong_numbers_is_refused(tmp_path, change, said):
    path = tmp_path / "plan.json"
    calibrate([Task("shop", "sum", 1.0)], 2.0, 1e-5, "rdp").to_file(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match=said):
        Plan.from_file(path)


def test_names_and_tasks_are_checked():
    with pytest.raises(InputError, match="'accountant'.*'mine'"):
        calibrate([Task("shop", "sum", 1.0)], 2.0, 1e-5, "mine")
    with pytest.raises(InputError, match="must differ"):
        calibrate([Task("shop", "sum", 1.0)] * 2, 2.0, 1e-5, "rdp")


def busy(kinds):
    """Return a plan whose price takes long to find, as somebody outside may write it."""
    lines = [{"what": "train", "noise": 0.5 + i / 1000, "rate": 0.01, "steps": 1000} for i in range(kinds)]
    parties = {f"p{i}": [line] for i, line in enumerate(lines)}
    settings = {"fedonce plan": 1, "epsilon": 50.0, "delta": 1e-5, "accountant": "pld", "division": "moments"}
    return json.dumps(settings | {"parties": parties})


def test_a_plan_that_would_keep_the_accountant_busy_is_not_priced(monkeypatch, tmp_path):
    monkeypatch.setattr(accountants, "_price", lambda *_: pytest.fail("an accountant ran"))
    with pytest.raises(InputError, match="the plan has 65 kinds of steps .*may have 64.*same number of rows"):
        Plan.from_text(busy(65))
    with pytest.raises(InputError, match="p0.*0.01.*below 0.05"):
        Plan.from_text(busy(1).replace("0.5", "0.01"))
    with pytest.raises(InputError, match="p0.*100000000 is not a number of steps from 1 to 2000000"):
        Plan.from_text(busy(1).replace("1000}", "100000000}"))
    with pytest.raises(
        InputError, match="the plan has 6,000,000 steps of all parties.*may have 5,000,000.*larger batches"
    ):
        Plan.from_text(busy(3).replace("1000}", "2000000}"))
    alike = json.loads(busy(1)) | {"division": "simple"}  # each party is priced by itself, however alike they are
    alike["parties"] = {f"p{i}": [{"what": "train", "noise": 1, "rate": 0.1, "steps": i}] for i in range(1, 81)}
    with pytest.raises(InputError, match="the plan has 80 kinds of steps"):
        Plan.from_text(json.dumps(alike))
    monkeypatch.setattr(accountants, "_price", lambda *_: 50.0)
    assert len(Plan.from_text(busy(64)).entries) == 64


def test_a_large_file_is_no_plan_and_is_not_read_whole(tmp_path):
    path = tmp_path / "plan.json"
    with path.open("wb") as file:
        file.truncate(2**32)
    tracemalloc.start()
    with pytest.raises(InputError, match="plan.json is too large to be a plan"):
        Plan.from_file(path)
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()


def test_a_plan_without_a_price_is_refused():
    """Half of the least delta that there is is none."""
    plan = {"fedonce plan": 1, "epsilon": 5.0, "delta": 5e-324, "accountant": "reference", "division": "simple"}
    parties = {name: [{"what": "train", "noise": 1, "rate": 0.1, "steps": 5}] for name in ("bank", "shop")}
    with pytest.raises(InputError, match="it has no price"):
        Plan.from_text(json.dumps(plan | {"parties": parties}))
