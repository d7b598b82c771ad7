"""The host's models by name, and what is known of each without importing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedonce.system.registry import BuiltIn, Registry


@dataclass(frozen=True)
class Facts:
    """What a model of the host can do.

    Parameters
    ----------
    classes, numbers : bool
        Whether it predicts classes, and whether numbers.
    images : bool
        Whether the host's own columns may be an image, (channels, rows, columns).
    absent : bool
        Whether rows that a guest does not have may be among those that it trains on or predicts.
    private : bool
        Whether it can keep a privacy budget.
    rounds : bool
        Whether training can go on in rounds, for which it must give gradients.
    exports : bool
        Whether it gives a network to export.
    """

    classes: bool = True
    numbers: bool = True
    images: bool = False
    absent: bool = True
    private: bool = False
    rounds: bool = False
    exports: bool = False


# A test compares the facts with those that the classes state themselves.
HOST_MODELS: Registry[Any, Facts] = Registry(
    "host model",
    "fedonce.host_models",
    "fedonce.hostmodels.base:HostModel",
    {
        "auto": BuiltIn("fedonce.hostmodels.auto:AutoModel", Facts(images=True, private=True, rounds=True)),
        "blend": BuiltIn("fedonce.hostmodels.blend:BlendModel", Facts()),
        "network": BuiltIn(
            "fedonce.hostmodels.network_model:NetworkModel",
            Facts(images=True, private=True, rounds=True, exports=True),
        ),
        "tabm": BuiltIn("fedonce.hostmodels.tabm:TabMModel", Facts(exports=True)),
        "trees": BuiltIn("fedonce.hostmodels.trees:TreesModel", Facts()),
        "mlp": BuiltIn("fedonce.hostmodels.mlp:MlpModel", Facts()),
        "linear": BuiltIn("fedonce.hostmodels.linear:LinearModel", Facts()),
        "scikit": BuiltIn("fedonce.hostmodels.scikit:ScikitModel", Facts()),
    },
)
OBJECT_ONLY = "scikit"  # holds an estimator of the user's, which a name cannot say
BY_NAME = tuple(name for name in HOST_MODELS.built_in if name != OBJECT_ONLY)
