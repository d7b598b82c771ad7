"""Where guests stand, and what to do about those that are missing."""

from __future__ import annotations

from fedonce.federation.status import GuestStatus, advice


def statuses(**states):
    return [GuestStatus(guest, state=state) for guest, state in states.items()]


def test_late_guests_are_worth_waiting_for():
    assert advice(statuses(shop="late", telco="failed")) == (
        "Wait longer for shop, telco (deadline). Or train with fewer guests (min_guests)."
    )


def test_waiting_does_not_help_with_a_refusal():
    said = advice(statuses(shop="refused"))
    assert said.startswith(
        "Waiting does not help with shop, which refused: change what is asked for, or talk to the guest"
    )
    assert "Wait longer" not in said
    assert "deadline" not in said


def test_each_kind_of_missing_has_its_advice():
    said = advice(statuses(shop="refused", telco="late"))
    assert "Waiting does not help with shop, which refused" in said
    assert "Wait longer for telco (deadline)" in said
