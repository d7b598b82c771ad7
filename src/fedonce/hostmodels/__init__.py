"""The host's models by name: `make("network")`, and `register` to add one's own."""

from __future__ import annotations

import copy
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedonce.errors import parameter_error
from fedonce.hostmodels.names import HOST_MODELS, OBJECT_ONLY, Facts

if TYPE_CHECKING:
    from fedonce.hostmodels.base import Examples, HostModel, Inputs
    from fedonce.hostmodels.network_model import NetworkModel
    from fedonce.hostmodels.scikit import trust

__all__ = ["HOST_MODELS", "Examples", "Facts", "HostModel", "Inputs", "NetworkModel", "make", "register", "trust"]

# Imported when they are first used: names and facts are wanted where torch, which is slow, is not.
_HOME = {"Examples": "base", "HostModel": "base", "Inputs": "base", "NetworkModel": "network_model", "trust": "scikit"}


def register(model: type[HostModel]) -> type[HostModel]:
    """Add a model to the table of names; works as a decorator.

    Parameters
    ----------
    model : type
        A subclass of `HostModel` with a `name`.
    """
    return HOST_MODELS.register(model)


def make(model: object, recipe: object = "default", epochs: int | None = None, owner: str = "make") -> HostModel:
    """Return a fresh model from a name or from an object, which is copied: a HostModel, or an estimator of scikit-learn.

    `epochs` overrides its own, where it has such a setting; `recipe`, unless "default", its recipe.

    Parameters
    ----------
    model : str, HostModel or estimator
        A name of `HOST_MODELS`, or an object.
    recipe : str or Recipe
        Unless "default", replaces the model's recipe.
    epochs : int, optional
        Overrides the model's own, where it has such a setting.
    owner : str
        Who is named in errors.
    """
    from fedonce.hostmodels.base import HostModel

    if isinstance(model, HostModel):
        made = copy.deepcopy(model)
    elif isinstance(model, str) and model in HOST_MODELS and model != OBJECT_ONLY:
        made = HOST_MODELS[model]()
    elif callable(getattr(model, "get_params", None)) and not isinstance(model, type):
        made = _of_estimator(model)
    else:
        names = ", ".join(name for name in HOST_MODELS if name != OBJECT_ONLY)
        wanted = f"one of {names}, a HostModel or an estimator{HOST_MODELS.meant(model)}"
        raise parameter_error(owner, "model", wanted, model)
    if not isinstance(recipe, str) or recipe != "default":
        if not hasattr(made, "recipe"):
            wanted = f"'default' with the host model {made.name!r}, which has no recipe"
            raise parameter_error(owner, "recipe", wanted, recipe)
        made.recipe = recipe
    if epochs is not None and hasattr(made, "epochs"):
        made.epochs = epochs
    made.check(owner)
    return made


def _of_estimator(estimator: object) -> HostModel:
    from fedonce.hostmodels.scikit import ScikitModel

    return ScikitModel(copy.deepcopy(estimator))


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'fedonce.hostmodels' has no attribute {name!r}")
    return getattr(import_module(f"fedonce.hostmodels.{_HOME[name]}"), name)
