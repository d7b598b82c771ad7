"""FedOnce: one-shot vertical federated learning. One message per party, then predict."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedonce.system.former import answer_former_names

__version__ = "0.1.0"

if TYPE_CHECKING:
    from fedonce.data.files import read_table as read_table
    from fedonce.data.partition import Pixels as Pixels
    from fedonce.data.partition import biased as biased
    from fedonce.data.partition import tiles as tiles
    from fedonce.engine.files import FilesEngine as FilesEngine
    from fedonce.errors import AbsentPartyError as AbsentPartyError
    from fedonce.errors import BudgetError as BudgetError
    from fedonce.errors import FederationError as FederationError
    from fedonce.errors import FedOnceError as FedOnceError
    from fedonce.errors import FedOnceWarning as FedOnceWarning
    from fedonce.errors import InputError as InputError
    from fedonce.errors import MessageError as MessageError
    from fedonce.estimators import FedOnceClassifier as FedOnceClassifier
    from fedonce.estimators import FedOnceRegressor as FedOnceRegressor
    from fedonce.hostmodels import HostModel as HostModel
    from fedonce.hostmodels.recipe import Recipe as Recipe
    from fedonce.learners import Learner as Learner
    from fedonce.messages.hints import Hinting as Hinting
    from fedonce.messages.hints import Hints as Hints
    from fedonce.messages.representation import Representation as Representation
    from fedonce.messages.traffic import Traffic as Traffic
    from fedonce.party import Guest as Guest
    from fedonce.party import Host as Host
    from fedonce.privacy.settings import Privacy as Privacy
    from fedonce.rounds.settings import Rounds as Rounds
    from fedonce.rows.alignment import AgreedRows as AgreedRows
    from fedonce.rows.ids import Naming as Naming
    from fedonce.rows.matching import Matching as Matching
    from fedonce.training.networks import NCF as NCF

# Names are imported when they are first used: `import fedonce` and `fedonce --help` load neither torch nor scikit-learn.
_HOME = {
    "Recipe": "hostmodels.recipe",
    "AgreedRows": "rows.alignment",
    "FilesEngine": "engine.files",
    "AbsentPartyError": "errors",
    "BudgetError": "errors",
    "FederationError": "errors",
    "FedOnceError": "errors",
    "FedOnceWarning": "errors",
    "InputError": "errors",
    "MessageError": "errors",
    "FedOnceClassifier": "estimators",
    "FedOnceRegressor": "estimators",
    "Naming": "rows.ids",
    "Matching": "rows.matching",
    "HostModel": "hostmodels",
    "Hinting": "messages.hints",
    "Hints": "messages.hints",
    "Learner": "learners",
    "Representation": "messages.representation",
    "Traffic": "messages.traffic",
    "Privacy": "privacy.settings",
    "Rounds": "rounds.settings",
    "NCF": "training.networks",
    "Pixels": "data.partition",
    "biased": "data.partition",
    "tiles": "data.partition",
    "Guest": "party",
    "Host": "party",
    "read_table": "data.files",
}

__all__ = ["__version__", *sorted(_HOME)]

answer_former_names()


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'fedonce' has no attribute {name!r}")
    return getattr(import_module(f"fedonce.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
