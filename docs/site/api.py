"""The pages of the API reference: which modules are public, and a directive for each name that they export."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

DOCS = Path(__file__).parents[1]

# Page to the modules on it. A name that several modules export is described where it comes first.
PAGES: dict[str, tuple[str, ...]] = {
    "api": ("fedonce",),
    "api-learners": ("fedonce.learners",),
    "api-hostmodels": (
        "fedonce.hostmodels",
        "fedonce.hostmodels.blend",
        "fedonce.hostmodels.trees",
        "fedonce.hostmodels.mlp",
        "fedonce.hostmodels.scikit",
    ),
    "api-assess": ("fedonce.assess", "fedonce.assess.attacks", "fedonce.assess.audit"),
    "api-jobs": ("fedonce.jobs",),
    "api-datasets": ("fedonce.datasets", "fedonce.presets"),
    "api-messages": (
        "fedonce.messages.codecs",
        "fedonce.data.files",
        "fedonce.data.partition",
        "fedonce.rows.alignment",
    ),
}

FIRST = ("FedOnceClassifier", "FedOnceRegressor", "Guest", "Host", "read_table")

# Public names of modules that export no list of them: those that the guides show.
SHOWN: dict[str, tuple[str, ...]] = {
    "fedonce.hostmodels.blend": ("BlendModel",),
    "fedonce.hostmodels.trees": ("TreesModel",),
    "fedonce.hostmodels.mlp": ("MlpModel",),
    "fedonce.hostmodels.scikit": ("ScikitModel",),
    "fedonce.data.partition": ("even", "views"),
    "fedonce.rows.alignment": ("request", "respond", "finish", "agreed_rows"),
}

# Modules with a list of names that is for the library itself.
INSIDE = {
    "fedonce.assess.leakage": "for commands and jobs; users take names of fedonce.assess",
    "fedonce.cli": "the command line has a page of its own",
    "fedonce.data.preparation": "a party's own scaling and encoding, done by Guest and Host",
    "fedonce.estimators": "the two estimators are names of fedonce",
    "fedonce.party": "Guest and Host are names of fedonce; the rest is what they keep",
    "fedonce.privacy": "what Guest makes of `noise` and `local_epsilon`",
}

# Values have no docstrings of their own.
VALUES = {
    "fedonce.learners.LEARNERS": "Learners by name, those of installed packages included; a mapping to classes.",
    "fedonce.hostmodels.HOST_MODELS": "Host models by name, those of installed packages included; a mapping to classes.",
    "fedonce.assess.attacks.ATTACKS": "Attacks by name, those of installed packages included; a mapping to classes.",
    "fedonce.assess.audit.PROVES_NOTHING": "The sentence that stands above every audit.",
    "fedonce.assess.audit.TOLERANCE": "How far a sum may move beyond its bound by rounding alone, as a part of that bound.",
    "fedonce.assess.audit.Model": "A callable: trained on rows at these positions, the probability of each row's true class.",
    "fedonce.assess.audit.LEVEL": "The chance with which a mechanism that works as planned fails one test.",
    "fedonce.assess.audit.Train": "A callable that trains on rows with a purse.",
    "fedonce.datasets.FETCHERS": "Loaders by the name of the data set.",
    "fedonce.datasets.SOURCES": "Each data set's `Source` by its name.",
    "fedonce.messages.codecs.BITS": "Bits per value for which every party has an encoding.",
    "fedonce.messages.codecs.CODECS": "Encodings that can be chosen, by bits or by name.",
    "fedonce.messages.codecs.VALUE_LIMIT": "No value of a message is this large.",
    "fedonce.messages.codecs.Fail": "A callable that makes an error of a text.",
    "fedonce.messages.codecs.Tensors": "Arrays by name, as they lie in a file.",
    "fedonce.messages.codecs.Values": "An array of float32.",
}


def page(name: str) -> str:
    """Return what stands on a page of the reference, below its head."""
    parts = []
    for module in PAGES[name]:
        parts.append(f"## {module}" if len(PAGES[name]) > 1 else "")
        parts += [_directive(module, each) for where, each in everything() if where == module]
    return "\n\n".join(parts) + "\n"


def everything() -> Iterator[tuple[str, str]]:
    """Give every public name once, with the module on whose page it stands."""
    seen: dict[int, object] = {}
    for modules in PAGES.values():
        for module in modules:
            home = import_module(module)
            for name in sorted(SHOWN.get(module) or home.__all__, key=lambda each: _place(getattr(home, each))):
                found = getattr(home, name)
                known = callable(found) and id(found) in seen
                if not name.startswith("__") and not known:
                    seen[id(found)] = found
                    yield module, name


def _place(found: object) -> int:
    """Return where a name stands on its page: what users meet first, all others, errors."""
    return 0 if getattr(found, "__name__", "") in FIRST else 2 if _is_error(found) else 1


def _is_error(found: object) -> bool:
    return inspect.isclass(found) and issubclass(found, Exception)


def _directive(module: str, name: str) -> str:
    found, whole = getattr(import_module(module), name), f"{module}.{name}"
    if whole in VALUES:
        lines = [f".. py:data:: {whole}", "", f"   {VALUES[whole]}"]
    elif _is_error(found):
        lines = [f".. autoexception:: {whole}", "   :no-members:"]
    elif inspect.isclass(found):
        lines = [f".. autoclass:: {whole}", "   :inherited-members:"]
    else:
        lines = [f".. autofunction:: {whole}"]
    return "```{eval-rst}\n" + "\n".join(lines) + "\n```"
