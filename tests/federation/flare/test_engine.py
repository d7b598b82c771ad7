"""What the engine of a federation says; what it does is in tests/federation, with real processes."""

from __future__ import annotations

import pytest

from fedonce.federation.flare.kits import Kit
from fedonce.federation.status import GuestStatus

pytest.importorskip("nvflare")


def test_too_few_guests_are_told_with_their_reasons_and_advice_that_fits(tmp_path):
    from fedonce.federation.flare.engine import NvflareEngine

    kit = Kit(tmp_path, "host", "bank", "127.0.0.1", 8002, "bank", ("shop", "telco"), "0.1.0", "00")
    engine = NvflareEngine(kit, {}, 0.0, tmp_path, least=2)
    reason = "dim 8 is above the 4 that shop allows (max_dim)"
    engine.statuses = {
        "shop": GuestStatus("shop", state="refused", reason=reason),
        "telco": GuestStatus("telco", state="received", bytes=1),
    }
    said = engine._too_few(["telco"])
    assert said == (
        f"At least 2 guests must answer, and only telco did. shop: refused: {reason}. Waiting does not help with shop, which "
        "refused: change what is asked for, or talk to the guest. Or train with fewer guests (min_guests). What arrived is kept: "
        "the same command goes on from there."
    )
    engine.statuses["shop"] = GuestStatus("shop", state="late")
    assert "shop: late. Wait longer for shop (deadline). Or train" in engine._too_few(["telco"])
