"""A guest's policy: its file, what it refuses, and what a refusal tells the host."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from fedonce import Hinting, learners
from fedonce.errors import InputError
from fedonce.federation import policy as policies
from fedonce.federation.policy import DEFAULT_POLICY, KEYS, LONGEST_PLAN, Policy
from fedonce.federation.request import Request
from fedonce.party.hinting import publish
from fedonce.privacy.budget import Task, calibrate
from fedonce.rounds.settings import LEAST_BITS
from fedonce.rows import alignment

COLUMNS = ["visits", "spend", "birthday", "city"]
LEARN = Request("bank", "shop", "churn", "learn", "0.6.0", naming="keyed 0123456789abcdef")
REPRESENT, ALIGN, ROUNDS = (replace(LEARN, what=what) for what in ("represent", "align", "rounds"))
IDS = np.array([f"c{i}" for i in range(12)], dtype=object)


@pytest.fixture
def write(tmp_path):
    def written(text):
        path = tmp_path / "policy.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return written


@pytest.fixture(scope="module")
def plan():
    return calibrate([Task("bank", "a", 0.5), Task("shop", "b", 0.5)], 4.0, 1e-5, "rdp")


def refused(policy, request, *said, columns=COLUMNS):
    reason = policy.refusal(request, columns)
    assert reason is not None
    for text in said:
        assert text in reason
    assert "\n" not in reason
    assert not reason.endswith(".")
    return reason


def test_the_default_policy_is_what_no_policy_says(write):
    assert Policy.read(write(DEFAULT_POLICY)) == Policy.read(write("")) == Policy()


def test_the_default_policy_shows_every_key():
    assert {each.name for each in fields(Policy)} == set(KEYS)
    for key in KEYS:
        assert f"\n{key} = " in DEFAULT_POLICY or f"\n# {key} = " in DEFAULT_POLICY
    assert max(map(len, DEFAULT_POLICY.splitlines())) <= 130


def test_the_commented_keys_can_be_set(write):
    lines = [
        line.removeprefix("# ") if line.startswith("# ") and " = " in line.split("(")[0] else line
        for line in DEFAULT_POLICY.splitlines()
    ]
    found = Policy.read(write("\n".join(line for line in lines if " = " in line and not line.startswith("#"))))
    assert found.hosts == ("bank",)
    assert found.forbid_columns == ("birthday",)
    assert found.max_epsilon == 4.0


def test_names_and_numbers_are_those_of_the_library():
    assert {*Policy().learners, "quantiles"} == set(learners.LEARNERS.built_in)
    assert policies.ROUNDS_BITS == LEAST_BITS


def test_the_default_policy_allows_what_a_run_file_asks_by_default():
    for request in (
        LEARN,
        REPRESENT,
        replace(LEARN, naming="keyed 0123456789abcdef"),
        replace(LEARN, naming="agreed"),
        ALIGN,
    ):
        assert Policy().refusal(request, COLUMNS) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max_dimm = 4", ["a policy has no key 'max_dimm'; did you mean 'max_dim'? It has 'hosts'"]),
        ("max_dim = 0", ["'max_dim' must be a whole number from 1 to 1048576. Got 0."]),
        ("max_dim = true", ["'max_dim'", "Got True."]),
        ("max_bits = 5", ["'max_bits' must be one of 4, 8, 16, 32. Got 5."]),
        ('hosts = "bank"', ["'hosts' must be a list of texts, one or more and each once. Got 'bank'."]),
        ("hosts = []", ["'hosts'", "Got []."]),
        ('budget = "needed"', ["'budget' must be one of \"optional\", \"required\". Got 'needed'."]),
        (
            'learners = ["pcaa"]',
            ["'learners' names a learner that does not exist, 'pcaa'; did you mean 'pca'? There are 'auto'"],
        ),
        ('ids = ["plain"]', ['\'ids\' must be a list of some of "hashed", "keyed", "agreed"']),
        ("min_noise = -1", ["'min_noise' must be a number from 0"]),
        ("min_noise = nan", ["'min_noise'"]),
        ("max_local_epsilon = 0", ["'max_local_epsilon' must be a number above 0"]),
        ("max_local_epsilon = 4\nmin_noise = 0.5", ["'max_local_epsilon' must be left out"]),
        ("max_delta = 1", ["'max_delta' must be a number above 0 and below 1. Got 1."]),
        ('budget = "required"\nmin_noise = 0.5', ["'min_noise' must be 0, or left out", "Got 0.5."]),
        ("predict = 1", ["'predict' must be true or false. Got 1."]),
        ("columns = [1]", ["'columns' must be a list of names of columns. Got [1]."]),
        ("max_learnings = 0", ["'max_learnings' must be a whole number from 1"]),
        ("min_columns = 0", ["'min_columns' must be a whole number from 1"]),
        ("max_rebuilt = 1.5", ["'max_rebuilt' must be a number from 0 to 1. Got 1.5."]),
        ("max_dim = \n", ["is not TOML", "line 1"]),
    ],
)
def test_a_wrong_policy_is_refused(write, text, said):
    path = write(text)
    with pytest.raises(InputError) as error:
        Policy.read(path)
    assert str(path) in str(error.value)
    for each in said:
        assert each in str(error.value)


def test_a_missing_policy_is_an_error_and_allows_nothing(tmp_path):
    with pytest.raises(InputError, match="policy .*policy.toml cannot be read: No such file"):
        Policy.read(tmp_path / "policy.toml")


def test_only_named_hosts_and_runs():
    refused(Policy(hosts=("other",)), LEARN, "'bank' is not one of the hosts that shop answers (hosts)")
    refused(Policy(runs=("other",)), ALIGN, "the run 'churn' is not one of those that shop takes part in (runs)")
    assert "other" not in refused(Policy(hosts=("other",)), LEARN)
    assert Policy(hosts=("bank",), runs=("churn",)).refusal(LEARN, COLUMNS) is None


@pytest.mark.parametrize(
    ("policy", "asked", "reason"),
    [
        (Policy(), {"dim": 32}, "dim 32 is above the 16 that shop allows (max_dim)"),
        (Policy(max_bits=8), {"bits": 16}, "bits 16 is above the 8 that shop allows (max_bits)"),
        (Policy(), {"epochs": 2000}, "epochs 2000 is above the 1000 that shop allows (max_epochs)"),
        (
            Policy(max_epochs=10, hints=True),
            {"epochs": 6, "hints": publish(np.arange(2), Hinting(2.0)).to_bytes()},
            "epochs 12 is above the 10 that shop allows (max_epochs)",
        ),
        (Policy(max_epochs=5), {"learner": "nat"}, "no epochs are given, and the learner 'nat' may take 100"),
        (
            Policy(max_local_epsilon=4),
            {},
            "no local epsilon, and shop allows 4 at most for a row and year (max_local_epsilon)",
        ),
        (Policy(max_local_epsilon=4), {"local_epsilon": 5.0}, "local_epsilon 5, and shop allows 4 at most"),
        (Policy(min_noise=0.5), {"noise": 0.1}, "noise 0.1 is below the 0.5 that shop wants (min_noise)"),
        (Policy(learners=("pca",)), {}, "the learner 'auto' is not allowed by shop, which allows 'pca' (learners)"),
        (Policy(), {"learner": "evil"}, "the learner 'evil' is not allowed"),
        (
            Policy(ids=("keyed",)),
            {"naming": "hashed"},
            "ids that are hashed are not allowed by shop, which allows 'keyed' (ids); name a secret",
        ),
        (Policy(ids=("agreed",)), {"naming": "keyed 0123456789abcdef"}, "ids that are keyed are not allowed"),
        (
            Policy(budget="required"),
            {},
            "shop learns with a privacy budget only (budget); add [budget] to the run file",
        ),
    ],
)
def test_limits_of_learning(policy, asked, reason):
    assert refused(policy, replace(LEARN, **asked)).startswith(reason)


def test_at_the_limit_is_allowed():
    assert Policy(max_local_epsilon=4).refusal(replace(LEARN, local_epsilon=4.0), COLUMNS) is None
    policy = Policy(max_dim=8, max_bits=8, max_epochs=10, min_noise=0.5, learners=("nat",))
    assert policy.refusal(replace(LEARN, learner="nat", epochs=10, noise=0.5), COLUMNS) is None
    assert Policy(max_epochs=5).refusal(replace(LEARN, learner="pca"), COLUMNS) is None


def test_a_column_that_is_forbidden_and_one_that_is_not_there_cannot_be_told_apart():
    forbid, some = Policy(forbid_columns=("birthday",)), Policy(columns=("visits", "spend"))
    for policy in (forbid, some):
        hidden = refused(policy, replace(LEARN, columns=("visits", "birthday")))
        absent = refused(policy, replace(LEARN, columns=("visits", "sirthday")))
        assert hidden.replace("birthday", "X") == absent.replace("sirthday", "X")
        both = refused(policy, replace(LEARN, columns=("birthday", "sirthday", "visits")))
        assert "'birthday', 'sirthday'" in both
        assert "'visits'" not in both


def test_no_column_is_named_that_the_host_did_not_name():
    everything = [LEARN, replace(LEARN, columns=("x",)), replace(LEARN, dim=99), REPRESENT, ALIGN, ROUNDS]
    policy = Policy(columns=("visits",), forbid_columns=("birthday", "visits"), predict=False, align=False)
    for request in everything:
        reason = refused(policy, request)
        assert not any(name in reason for name in COLUMNS)
    assert refused(policy, LEARN) == "shop offers no column to learn from (columns, forbid_columns)"


def test_a_request_names_all_columns_that_are_allowed_or_none():
    policy = Policy(forbid_columns=("birthday",))
    for columns in (None, ("visits", "spend", "city"), ("city", "spend", "visits", "spend")):
        assert policy.refusal(replace(LEARN, columns=columns), COLUMNS) is None
    for columns in (("visits",), ("visits", "spend"), ("visits", "visits", "visits")):
        reason = refused(
            policy, replace(LEARN, columns=columns), "shop learns from all columns that it offers", "(min_columns)"
        )
        assert not any(name in reason for name in COLUMNS)
    assert "it names 1 column, and" in refused(policy, replace(LEARN, columns=("visits", "visits")))


def test_a_guest_may_let_the_host_choose_columns():
    asked = replace(LEARN, columns=("visits", "city"))
    assert Policy(min_columns=2).refusal(asked, COLUMNS) is None
    refused(Policy(min_columns=3), asked, "it names 2 columns, and shop learns from 3 or more (min_columns)")
    some = Policy(min_columns=3, columns=("visits", "city"))  # there are no more: all of them are enough
    assert some.refusal(asked, COLUMNS) is None
    assert some.refusal(LEARN, COLUMNS) is None


def test_a_long_list_of_columns_is_shortened():
    reason = refused(Policy(), replace(LEARN, columns=tuple(f"c{i}" for i in range(1000))))
    assert "and 990 more" in reason
    assert len(reason) < 200


def test_used_columns_are_in_the_order_of_the_table():
    policy = Policy(forbid_columns=("birthday",))
    assert policy.used_columns(LEARN, COLUMNS) == ["visits", "spend", "city"]
    assert policy.used_columns(replace(LEARN, columns=("city", "visits", "city", "birthday")), COLUMNS) == [
        "visits",
        "city",
    ]
    assert Policy(columns=("spend", "birthday")).used_columns(LEARN, COLUMNS) == ["spend", "birthday"]


def test_without_the_table_at_hand_what_is_asked_by_name_is_checked():
    policy = Policy(forbid_columns=("birthday",))
    assert policy.refusal(LEARN, ()) is None
    assert policy.refusal(replace(LEARN, columns=("visits",)), ()) is None
    refused(policy, replace(LEARN, columns=("birthday",)), "'birthday'", columns=())


def test_a_slip_in_the_policy_is_found_with_the_table():
    Policy(forbid_columns=("birthday",), columns=("city",)).check_columns(COLUMNS, "policy.toml")
    with pytest.raises(InputError, match="policy.toml: 'forbid_columns' names 'birthdy'.*did you mean 'birthday'"):
        Policy(forbid_columns=("birthdy",)).check_columns(COLUMNS, "policy.toml")


def test_plans(plan):
    asked = replace(LEARN, plan=plan.to_text())
    assert Policy().refusal(asked, COLUMNS) is None
    assert Policy(budget="required", max_epsilon=4.0, max_delta=1e-5).refusal(asked, COLUMNS) is None
    refused(Policy(max_epsilon=2.0), asked, "epsilon 4 is above the 2.0 that shop allows (max_epsilon)")
    refused(Policy(max_delta=1e-6), asked, "delta 1e-05 is above the 1e-06 that shop allows (max_delta)")
    assert Policy(max_epsilon=2.0).refusal(LEARN, COLUMNS) is None


def test_plans_that_guarantee_nothing():
    endless = calibrate([Task("bank", "a", 0.5), Task("shop", "b", 0.5)], float("inf"), 1e-5)
    nominal = calibrate([Task("bank", "a", 0.5), Task("shop", "b", 0.5, nominal=True)], 4.0, 1e-5, "rdp")
    for made in (endless, nominal):
        asked = replace(LEARN, plan=made.to_text())
        assert Policy().refusal(asked, COLUMNS) is None
        refused(Policy(budget="required"), asked, "its privacy plan guarantees nothing")
    refused(Policy(max_epsilon=100.0), replace(LEARN, plan=endless.to_text()), "epsilon inf is above the 100.0")


def test_forged_plans(plan):
    text = plan.to_text()
    refused(
        Policy(), replace(LEARN, plan=text.replace("4.0", "1.0")), "cannot be used", "more than the 1 that it promises"
    )
    refused(Policy(), replace(LEARN, plan=text.replace('"shop"', '"telco"')), "Party 'shop' is not in the plan")
    for bad in (
        "",
        "{}",
        "[]",
        "[" * 10_000,
        text[:-9],
        text.replace("4.0", "NaN"),
        text.replace("rdp", "x"),
        '{"fedonce plan": 1}',
    ):
        assert len(refused(Policy(), replace(LEARN, plan=bad), "its privacy plan cannot be used")) < 500
    refused(Policy(), replace(LEARN, plan=" " * LONGEST_PLAN + text), "characters")


def test_predictions():
    rows = alignment.agreed_rows(IDS, "bank", "shop", "churn", salt=b"s" * 32)
    asked = replace(REPRESENT, rows=rows)
    refused(Policy(predict=False), asked, "shop represents no rows for predictions (predict)")
    refused(Policy(max_predict_rows=11), asked, "it is about 12 rows, and shop allows 11 at once (max_predict_rows)")
    refused(Policy(max_predict_rows=11), replace(asked, rows=rows[:-1]), "does not say about how many rows")
    refused(Policy(max_predict_rows=11), REPRESENT, "does not say about how many rows")
    assert Policy(max_predict_rows=12).refusal(asked, ()) is None


def test_alignments():
    points = np.zeros((3, alignment.POINT), np.uint8)
    points[:, 0], points[:, 1] = 2, [1, 2, 3]
    header = {"party": "bank", "run": "churn", "reveal": "both", "forms": "", "nonce": "a" * 32}
    asked = replace(ALIGN, points=alignment.pack(alignment.REQUEST, header, {"points": points}))
    refused(Policy(align=False), asked, "shop does not align ids (align)")
    refused(Policy(max_align_rows=2), asked, "it is about 3 rows, and shop allows 2 at once (max_align_rows)")
    refused(Policy(max_align_rows=2), replace(asked, points=b"nothing"), "does not say about how many rows")
    assert Policy(max_align_rows=3).refusal(asked, ()) is None


def test_rows_that_come_along_are_as_an_alignment():
    rows = alignment.agreed_rows(IDS, "bank", "shop", "churn", salt=b"s" * 32)
    asked = replace(LEARN, naming="agreed", rows=rows)
    refused(Policy(align=False), asked, "shop does not align ids (align)")
    refused(Policy(max_align_rows=11), asked, "it is about 12 rows, and shop allows 11 at once (max_align_rows)")
    refused(Policy(max_align_rows=11), replace(asked, rows=None), "does not say about how many rows")
    assert Policy(max_align_rows=12).refusal(asked, COLUMNS) is None
    assert Policy(align=False, max_align_rows=1).refusal(LEARN, COLUMNS) is None
    rounds = replace(ROUNDS, rounds={"rounds": 3}, rows=rows)
    refused(Policy(max_rounds=3, max_predict_rows=11), rounds, "about 12 rows", "(max_predict_rows)")
    assert Policy(max_rounds=3, max_predict_rows=12).refusal(rounds, ()) is None


def test_rounds():
    asked = replace(ROUNDS, rounds={"rounds": 2000})
    refused(Policy(), asked, "shop allows no rounds (max_rounds = 0)", "Ask shop to raise max_rounds in its policy")
    assert Policy(max_rounds=2000).refusal(asked, ()) is None
    refused(Policy(max_rounds=1999), asked, "rounds 2000 is above the 1999 that shop allows (max_rounds)")
    for settings in ({"epochs": 3}, {"rounds": None, "bytes": 10}, {"rounds": 1.5}, {"rounds": True}, None):
        refused(Policy(max_rounds=10), replace(ROUNDS, rounds=settings), "give a number of rounds")
    assert len(refused(Policy(max_rounds=10), replace(ROUNDS, rounds={"rounds": 10**4000}))) < 200
    refused(Policy(max_rounds=10, max_bits=4), replace(ROUNDS, rounds={"rounds": 3}), "bits 8 is above the 4")
    refused(
        Policy(max_rounds=10, max_bits=8), replace(ROUNDS, rounds={"rounds": 3, "bits": 16}), "bits 16 is above the 8"
    )
    refused(
        Policy(max_rounds=10, min_noise=0.1),
        replace(ROUNDS, rounds={"rounds": 3}),
        "(min_noise), and rounds have neither",
    )
    refused(
        Policy(max_rounds=10, budget="required"),
        replace(ROUNDS, rounds={"rounds": 3}),
        "(budget), and rounds have neither",
    )


def test_messages_that_can_be_read_are_for_guests_whose_policy_names_them():
    refused(Policy(), replace(LEARN, learner="quantiles"), "the learner 'quantiles' is not allowed by shop")
    assert Policy(learners=("quantiles",)).refusal(replace(LEARN, learner="quantiles"), COLUMNS) is None


def test_hashes_without_a_key_are_allowed_by_those_who_say_so():
    asked = replace(LEARN, naming="hashed")
    refused(
        Policy(),
        asked,
        "ids that are hashed are not allowed by shop",
        "name a secret (secret), or align (align = true)",
    )
    assert Policy(ids=("hashed",)).refusal(asked, COLUMNS) is None
