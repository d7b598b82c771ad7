"""What is publicly known of the data sets' columns: the bounds that private methods scale by, in place of the rows.

Ranges of elements' properties, of pixels, of radio signals and of angles are physics; distances and coordinates are round numbers
around what the owners' descriptions give; identifiers are numbered by them. They were written down once, and not tuned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fedonce import InputError
from fedonce.datasets import Dataset

Pair = tuple[float, float]

# Properties of the chemical elements: the least and the largest that any of them has (superconduct's columns are their means,
# ranges and so on over the elements of a material).
ELEMENTS: dict[str, Pair] = {
    "atomic_mass": (1, 210),
    "fie": (370, 1320),
    "atomic_radius": (40, 300),
    "Density": (0, 23000),
    "ElectronAffinity": (0, 350),
    "FusionHeat": (0, 110),
    "ThermalConductivity": (0, 430),
    "Valence": (1, 7),
}

COVTYPE: dict[str, Pair] = {
    "elevation": (1800, 3900),
    "aspect": (0, 360),
    "slope": (0, 66),
    "horizontal_distance_to_hydrology": (0, 1400),
    "vertical_distance_to_hydrology": (-175, 605),
    "horizontal_distance_to_roadways": (0, 7120),
    "hillshade_9am": (0, 255),
    "hillshade_noon": (0, 255),
    "hillshade_3pm": (0, 255),
    "horizontal_distance_to_fire_points": (0, 7200),
}

UJIINDOORLOC: dict[str, Pair] = {
    "LONGITUDE": (-7700, -7300),
    "LATITUDE": (4864740, 4865020),
    "FLOOR": (0, 4),
    "BUILDINGID": (0, 2),
    "SPACEID": (1, 254),
    "RELATIVEPOSITION": (1, 2),
    "USERID": (1, 18),
    "PHONEID": (1, 24),
}

TARGETS: dict[str, Pair] = {
    "superconduct": (0, 185),  # kelvin, the warmest known when the data were gathered
    "ujiindoorloc": (1369900000, 1371740000),  # the seconds of the weeks of the measurement
    "diabetes": (25, 346),
}


# The columns of numbers and dates of the bank and the shop of examples/two_departments; flags and text need none.
SHOP: dict[str, Any] = {
    "age": (18, 100),
    "income": (0, 200_000),
    "account_since": ("1990-01-01", "2025-01-01"),
    "loan": (0, 100_000),
    "months": (0, 60),
    "overdrawn_days": (0, 100),
    "member_since": ("2005-01-01", "2025-01-01"),
    "visits": (0, 30),
    "basket": (0, 200),
    "returned": (0, 1),
    "reminders": (0, 20),
    "points": (0, 2000),
    "branch": (100, 400),
}

IMAGES = {"mnist": 255, "fashion-mnist": 255, "kmnist": 255, "cifar10": 255, "digits": 16, "digits16": 16}  # brightest


def bounds(data: Dataset) -> Any:
    """Return bounds for all columns together, or for each."""
    names: Sequence[str] = data.feature_names
    if data.name in IMAGES:
        return (0, IMAGES[data.name])
    if data.name == "shop":
        return SHOP
    if data.name == "gisette":
        return (0, 999)
    if data.name == "phishing":
        return (0, 0.1826)  # 30 answers of 0 or 1 each, brought to length 1
    if data.name == "covtype":
        return [COVTYPE.get(name, (0, 1)) for name in names]
    if data.name == "ujiindoorloc":
        return [UJIINDOORLOC.get(name, (-110, 0)) for name in names]
    if data.name == "superconduct":
        return [_of_material(name) for name in names]
    if data.name in ("breast-cancer", "diabetes"):
        return (-0.2, 5000) if data.name == "breast-cancer" else (-0.2, 0.2)
    raise InputError(f"Nobody has written down public bounds of {data.name!r}; add them to benchmarks/public.py.")


def target_bounds(data: Dataset) -> Any:
    """Return the classes, or the bounds of a number."""
    if data.task == "classification":
        return list(range(10)) if data.name in IMAGES else [-1, 1] if data.name == "gisette" else [0, 1]
    if "longitude" in data.variant:
        return UJIINDOORLOC["LONGITUDE"]
    return TARGETS[data.name]


def _of_material(name: str) -> Pair:
    """Return the bounds of a statistic over the elements of a material."""
    if name == "number_of_elements":
        return (1, 9)
    known = next((element for element in ELEMENTS if name.endswith(element)), None)
    if known is None:
        raise InputError(f"superconduct has no column {name!r} that is known of.")
    low, high = ELEMENTS[known]
    if "entropy" in name:
        return (0, math.log(9))
    if "range" in name:
        return (0, high)
    return (0, (high - low) / 2) if "std" in name else (low, high)
