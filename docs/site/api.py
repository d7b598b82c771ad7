"""The pages of the API reference: which modules are public, and a directive for each name that they export."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module

# Page to the modules on it. A name that several modules export is described where it comes first.
PAGES: dict[str, tuple[str, ...]] = {
    "api": ("fedonce",),
    "api-learners": ("fedonce.learners",),
    "api-hostmodels": ("fedonce.hostmodels",),
    "api-assess": ("fedonce.assess", "fedonce.assess.leakage", "fedonce.assess.attacks", "fedonce.assess.audit"),
    "api-jobs": ("fedonce.jobs",),
    "api-datasets": ("fedonce.datasets", "fedonce.presets"),
    "api-parties": ("fedonce.party", "fedonce.privacy", "fedonce.data.files", "fedonce.messages.codecs"),
}


def page(name: str) -> str:
    """Return what stands on a page of the reference, below its head."""
    parts = []
    for module in PAGES[name]:
        parts.append(f"## {module}")
        parts += [_directive(module, each) for each in names(module)]
    return "\n\n".join(parts) + "\n"


def names(module: str) -> list[str]:
    """Return the names that a module exports and no module before it does."""
    return [name for where, name in everything() if where == module]


def everything() -> Iterator[tuple[str, str]]:
    """Give every public name once, with the module on whose page it stands."""
    seen: dict[int, object] = {}
    for modules in PAGES.values():
        for module in modules:
            for name in import_module(module).__all__:
                found = getattr(import_module(module), name)
                known = callable(found) and id(found) in seen
                if not name.startswith("__") and not known:
                    seen[id(found)] = found
                    yield module, name


def _directive(module: str, name: str) -> str:
    found = getattr(import_module(module), name)
    whole = f"{module}.{name}"
    if inspect.isclass(found) and issubclass(found, Exception):
        lines = [f".. autoexception:: {whole}", "   :no-members:"]
    elif inspect.isclass(found):
        lines = [f".. autoclass:: {whole}", "   :inherited-members:"]
    elif inspect.isroutine(found):
        lines = [f".. autofunction:: {whole}"]
    else:
        lines = [f".. autodata:: {whole}", "   :no-value:"]
    return "```{eval-rst}\n" + "\n".join(lines) + "\n```"
