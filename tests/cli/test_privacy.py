from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from fedonce.assess import audit_report
from fedonce.cli.entry import app, exit_code
from fedonce.errors import BudgetError, InputError
from fedonce.privacy.budget import Plan

EPSILON = [
    "privacy",
    "epsilon",
    "--rows",
    "60000",
    "--batch",
    "128",
    "--epochs",
    "50",
    "--noise",
    "1",
    "--delta",
    "1e-5",
]
PLAN = ["privacy", "plan", "--epsilon", "2", "--rows", "1000", "--accountant", "rdp"]


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("options", "epsilon"),
    [
        (("--parties", 100, "--accountant", "reference", "--division", "simple"), 268.88),
        (("--parties", 100, "--accountant", "reference"), 29.84),
        (("--parties", 4, "--accountant", "reference"), 4.555),
        (("--parties", 4), 3.703),
    ],
)
def test_epsilon_of_the_papers_figure(options, epsilon):
    told = json.loads(run(*EPSILON, *options, "--json").stdout)
    assert told["epsilon"] == pytest.approx(epsilon, abs=0.05)
    assert told["steps"] == 23438


def test_the_saving_is_printed():
    text = run(*EPSILON, "--parties", 100, "--accountant", "reference").stdout
    assert "epsilon 29.84" in text
    assert "moments division saves 88.9 %" in text


def test_noise_of_zero_is_no_privacy():
    told = json.loads(run(*EPSILON[:8], "--noise", 0, "--delta", 1e-5, "--json").stdout)
    assert told["epsilon"] == "inf"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (("--delta", 2), "'--delta'.*between 0 and 1.*2.0"),
        (("--batch", 70000), "'--batch'.*60000.*70000"),
        (("--epochs", 0), "'--epochs'.*above 0"),
        (("--accountant", "mine"), "'accountant'.*'mine'"),
        (("--division", "mine"), "'division'.*'mine'"),
    ],
)
def test_epsilon_refuses(changed, said):
    result = run(*EPSILON, *changed)
    with pytest.raises(InputError, match=said):
        raise result.exception


def test_a_large_delta_is_warned_of():
    assert "warning: delta is above 1 / rows" in run(*EPSILON, "--delta", 0.01, "--accountant", "rdp").stdout


def test_plan_prints_and_writes_the_ledger(tmp_path):
    path = tmp_path / "plan.json"
    result = run(*PLAN, "--parties", "bank,shop,telco", "--learner", "autoencoder", "--guest-epochs", 3, "--out", path)
    assert result.exit_code == 0
    assert "total: epsilon 2 at delta 0.0001 (moments, rdp)" in result.stdout
    plan = Plan.from_file(path)
    assert [entry.party for entry in plan.entries if entry.what == "autoencoder"] == ["shop", "telco"]
    assert plan.of("shop")[0].event.steps == 12  # three epochs of four samples
    assert plan.ledger(spent=True).epsilon() <= 2


def test_plan_of_parties_with_other_numbers_of_rows():
    lines = json.loads(run(*PLAN, "--rows", "1000,500", "--parties", 2, "--batch", 100, "--json").stdout)["ledger"]
    sampling = {line["party"]: line["sampling"] for line in lines if line["sampling"]}
    assert sampling == {"party1": 0.1}
    assert lines[-1]["epsilon"] <= 2
    common = json.loads(run(*PLAN, "--parties", 2, "--common-noise", "--json").stdout)["ledger"]
    assert len({line["noise"] for line in common[:-1]}) == 1


@pytest.mark.parametrize(
    ("changed", "said", "error"),
    [
        (("--parties", "a,a"), "'--parties'.*different names", InputError),
        (("--parties", "0"), "'--parties'", InputError),
        (("--parties", "2", "--rows", "x"), "'--rows'.*'x'", InputError),
        (("--parties", "2", "--rows", "1,2,3"), "'--rows'", InputError),
        (("--parties", "2", "--epsilon", "0"), "'epsilon'.*above 0.*0.0", InputError),
        (("--parties", "2", "--epsilon", "1e-17"), "less than a single sum or step", BudgetError),
        (("--parties", "2", "--learner", "nat"), "cannot keep a privacy budget", BudgetError),
        (("--parties", "2", "--task", "guessing"), "'--task'.*'guessing'", InputError),
        (("--parties", "2", "--out", "/nowhere/plan.json"), "'--out'.*'/nowhere/plan.json'", InputError),
    ],
)
def test_plan_refuses(changed, said, error):
    result = run(*PLAN, *changed)
    with pytest.raises(error, match=said):
        raise result.exception
    assert exit_code(result.exception) == (5 if error is BudgetError else 3)


@pytest.fixture(scope="module")
def findings():
    return audit_report.run(2.0, models=4, canaries=100, seed=0)


def test_the_audit_finds_nat_and_nothing_else(findings):
    assert {check.what: check.passed for check in findings.checked} == {
        "pca": True,
        "autoencoder": True,
        "random": True,
        "nat": False,
        "the host's model": True,
    }
    assert findings.as_expected
    assert [run.what for run in findings.one_runs] == ["pca", "autoencoder", "the host's model"]
    assert [each.epsilon for each in findings.memberships] == [None, 8.0, 2.0]
    assert [each.planned for each in findings.answers] == [2.0] * 4


def test_the_audit_states_its_power_for_every_mechanism(findings):
    noises = [(of, each.what) for of, each in findings.measured if each.what.startswith("noise of ")]
    releases = ["noise of PCA: mean", "noise of PCA: radius", "noise of PCA: second moments"]
    assert [each for each in noises if each[0] != "nat"] == [
        *(("pca", what) for what in releases),
        ("autoencoder", "noise of autoencoder"),
        *(("the host's model", what) for what in [*releases, "noise of host's model"]),
    ]
    assert findings.weakest > 0.95
    said = "would have been seen in at least 100 of 100 runs"
    assert any(said in line for line in findings.lines())


def test_the_audit_says_that_passing_proves_nothing(findings, tmp_path):
    page = audit_report.write(findings, tmp_path).read_text()
    assert page.count("Passing proves nothing") == 1
    assert page.count("data:image/png;base64,") == 1
    assert "failed</span>, as expected" in page
    assert "Answers for each row" in page
    assert findings.lines()[-1].startswith("Passing proves nothing")
    json.dumps(findings.figures())


def test_audit_command(monkeypatch, findings, tmp_path):
    monkeypatch.setattr(audit_report, "run", lambda *settings: findings)
    told = json.loads(run("privacy", "audit", "--out", tmp_path, "--json", "--quiet").stdout)
    assert told["as expected"]
    assert [each["passed"] for each in told["answers"]] == [True] * 4
    assert told["trainings"][0]["bits"]["passed"]
    assert (tmp_path / "audit.html").exists()
    result = run("privacy", "audit", "--epsilon", 50)
    with pytest.raises(InputError, match="'--epsilon'.*at most 20.*50"):
        raise result.exception
