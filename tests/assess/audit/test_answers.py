from __future__ import annotations

import numpy as np
import pytest

from fedonce.assess import audit
from fedonce.assess.audit import answers, measures
from fedonce.party import hinting
from fedonce.privacy import keyed, response, subset
from tests.assess.audit.weakened import rows

DRAWS = {
    "local epsilon": (subset, "best", answers.local_answers),
    "without ids": (subset, "best", answers.local_answers_once),
    "hints": (response, "keep_of", answers.hint_answers),
}


def test_all_answers_pass_and_would_not_with_twice_the_epsilon():
    found = audit.check_answers(rows(1500), 2.0)
    assert len(found) == 4
    assert all(each.passed for each in found)
    assert all(each.power > 0.999 for each in found)
    assert all(each.found == pytest.approx(2.0, abs=0.5) for each in found)


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
@pytest.mark.parametrize("name", DRAWS)
def test_twice_the_epsilon_is_found_in_each_mechanism(monkeypatch, name, epsilon):
    room, function, draw = DRAWS[name]
    assert measures.answers(name, draw, epsilon).passed
    honest = getattr(room, function)
    monkeypatch.setattr(room, function, lambda count, own: honest(count, 2 * own))
    found = measures.answers(name, draw, epsilon)
    assert not found.passed
    assert found.found > 1.5 * epsilon


def test_hints_that_are_drawn_again_each_time_are_found(monkeypatch):
    honest, calls = hinting.publish, []

    def forgetful(labels, settings, **how):
        calls.append(1)
        return honest(labels, settings, **{**how, "key": len(calls).to_bytes(32)})

    monkeypatch.setattr(answers, "publish", forgetful)
    found = measures.answers("hints", answers.hint_answers, 2.0)
    assert len(calls) == 2 * answers.ASKED
    assert not found.passed
    assert found.found > 2.2


def test_local_answers_that_are_drawn_again_each_time_are_found(monkeypatch):
    honest, calls = keyed.uniforms, []

    def forgetful(secret, *what):
        calls.append(1)
        return honest(secret + len(calls).to_bytes(4), *what)

    monkeypatch.setattr(keyed, "uniforms", forgetful)
    found = measures.answers("local epsilon", answers.local_answers, 2.0)
    assert not found.passed
    assert found.found > 4


def test_an_encoder_that_has_seen_labels_better_than_hinted_is_found(monkeypatch):
    honest = answers.publish
    monkeypatch.setattr(
        answers, "publish", lambda labels, settings: honest(labels, hinting.Hinting(2 * settings.epsilon))
    )
    data = rows(1500)
    found = measures.guesses("encoder", lambda own: answers.encoder_guesses(data, own), 2.0, answers.CLASSES)
    assert not found.passed


def test_fresh_secrets_give_fresh_answers():
    first, second = (answers.local_answers(2.0)[1] for _ in range(2))
    assert np.mean(first == second) < 0.95
