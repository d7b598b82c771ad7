"""One colour for each method, in every picture: the palette of Okabe and Ito, which colour-blind readers can tell apart.

Okabe and Ito, "Color Universal Design", 2008. Two methods share a colour only where no picture has both, or a mark tells them
apart; what is nobody's method takes `OTHERS` in turn.
"""

from __future__ import annotations

BLACK, GREY = "#000000", "#767676"
ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
PALETTE = (BLACK, GREY, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE)
OTHERS = (BLUE, GREEN, PURPLE, ORANGE, SKY, VERMILION)

METHODS = {
    "Solo": GREY,
    "Combine": BLACK,
    "Linear-Combine": PURPLE,
    "FedOnce": VERMILION,
    "FedOnce multi-round": VERMILION,
    "FedOnce-L0": ORANGE,
    "FedOnce-L1": ORANGE,
    "FedOnce-PCA": VERMILION,
    "FedOnce-NAT": ORANGE,
    "FedOnce-autoencoder": GREEN,
    "FedOnce-patches": PURPLE,
    "FedOnce-cells": GREEN,
    "FedOnce-quantiles": PURPLE,
    "FedOnce-hints": GREEN,
    "FedOnce-random": GREY,
    "FedOnce, protect": SKY,
    "FedOnce, noise": BLUE,
    "FedOnce, local epsilon": BLACK,
    "SplitNN": BLUE,
    "SplitNN-Comm": SKY,
    "SplitNN-TabM": SKY,
    "SecureBoost": GREEN,
    "SecureBoost-Comm": GREEN,
    "Priv-Baseline": SKY,
}


def colour(method: str) -> str:
    """Return a method's colour; of a name that is not in the table, always the same one.

    >>> colour("SplitNN")
    '#0072B2'
    >>> colour("FedOnce (anything)")
    '#D55E00'
    """
    if method in METHODS:
        return METHODS[method]
    family = next(
        (name for name in ("FedOnce", "SplitNN", "SecureBoost", "Combine", "Solo") if method.startswith(name)), ""
    )
    return METHODS[family] if family else OTHERS[sum(method.encode()) % len(OTHERS)]
