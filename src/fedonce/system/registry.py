"""Things that are known by a name and made from a class: ours, those that a program registers, and those of installed packages.

Ours are named with their module, so that names and facts can be had without importing what they need (torch is slow). Packages
name theirs as entry points in their metadata; such a class is imported when its name is asked for, and not before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from fedonce.errors import InputError


class Named(Protocol):
    """What the classes have in common."""

    name: ClassVar[str]
    facts: ClassVar[Any]


C = TypeVar("C", bound=Named)  # the classes
F = TypeVar("F")  # what is known of each of them


@dataclass(frozen=True)
class BuiltIn(Generic[F]):
    """Where a class of ours is, and its facts."""

    home: str  # "package.module:Class"
    facts: F


class Registry(MutableMapping[str, type[C]], Generic[C, F]):
    """Classes by name, each with the facts that stand in its `facts`.

    Parameters
    ----------
    what : str
        What the classes are, for errors: "learner".
    group : str
        The group of entry points in which packages name theirs.
    base : str
        Where the class is that all of them inherit, "package.module:Class".
    built_in : dict by name
        Ours.
    """

    def __init__(self, what: str, group: str, base: str, built_in: Mapping[str, BuiltIn[F]]) -> None:
        self.what, self.group, self.base = what, group, base
        self.built_in = dict(built_in)
        self._known: dict[str, type[C] | BuiltIn[F]] = dict(built_in)

    def register(self, made: type[C]) -> type[C]:
        """Add a class under its `name`; works as a decorator."""
        self[_name_of(made)] = made
        return made

    def __getitem__(self, name: str) -> type[C]:
        found = self._known[name] if name in self._known else self._from_package(name)
        if isinstance(found, BuiltIn):
            found = _load(found.home)
            self._known[name] = found
        return found

    def __setitem__(self, name: str, made: type[C]) -> None:
        self._known[name] = made

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def clear(self) -> None:
        """Forget all but what packages offer."""
        self._known.clear()

    def __contains__(self, name: object) -> bool:
        return name in self._known or name in _installed(self.group)

    def __iter__(self) -> Iterator[str]:
        """Go over all names; no class is imported for it."""
        return iter(dict.fromkeys((*self._known, *_installed(self.group))))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def names(self) -> tuple[str, ...]:
        """All names: ours, those registered, and those of installed packages."""
        return tuple(self)

    def facts(self, name: str) -> F:
        """Return what is known of a class; one of a package is imported for it, one of ours is not."""
        found = self._known.get(name)
        if isinstance(found, BuiltIn):
            return found.facts
        facts: F = self[name].facts
        return facts

    def which(self, fact: str) -> str:
        """Return those of ours and of the registered ones of which a fact is true, as a choice: "'pca' or 'random'"."""
        return one_of(name for name in self._known if getattr(self.facts(name), fact))

    def meant(self, name: object) -> str:
        """Return which name was perhaps meant, for the end of an error; nothing where none is close."""
        close = get_close_matches(str(name), self.names, n=1)
        return f" (did you mean {close[0]!r}?)" if close else ""

    def _from_package(self, name: str) -> type[C]:
        """Import a class that a package offers; raise KeyError where none does."""
        point = _installed(self.group)[name]
        package = "a package" if point.dist is None else f"the package {point.dist.name!r}"
        broken = f"The {self.what} {name!r} of {package} cannot be used: "
        remedy = f"mend or remove the package ({self.group} in its entry points)."
        try:
            made = point.load()
        except Exception as error:  # whatever the code of a stranger raises when it is imported
            raise InputError(
                f"{broken}importing {point.value!r} failed with {type(error).__name__}: {error}; {remedy}"
            ) from error
        if not isinstance(made, type) or not issubclass(made, _load(self.base)):
            kind = self.base.rpartition(":")[2]
            raise InputError(f"{broken}{point.value!r} is no class that inherits {kind}; {remedy}")
        if _name_of(made) != name:
            raise InputError(
                f"{broken}the name of {point.value!r} is {_name_of(made)!r}; give both the same, or {remedy}"
            )
        self._known[name] = made
        return made


def one_of(names: Iterable[str]) -> str:
    """Return names as a choice: "'a', 'b' or 'c'"."""
    *most, last = [repr(name) for name in names] or ["none"]
    return f"{', '.join(most)} or {last}" if most else last


def _name_of(made: type[Any]) -> str:
    return str(getattr(made, "name", ""))


def _load(home: str) -> Any:
    module, _, name = home.partition(":")
    return getattr(import_module(module), name)


@cache
def _installed(group: str) -> dict[str, EntryPoint]:
    """Return what installed packages offer, by name; nothing of them is imported. Of two with one name, the first counts."""
    return {point.name: point for point in reversed(tuple(entry_points(group=group)))}
