"""Privacy: a privacy budget and all that belongs to it, as one setting."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import wraps
from numbers import Real
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fedonce.data.preparation import Bounds, Public
from fedonce.errors import FedOnceWarning, InputError, parameter_error, shown
from fedonce.privacy import accountants
from fedonce.privacy.budget import check_budget
from fedonce.privacy.noise import SecretRandom

Shares = Mapping[str, float] | Literal["common"] | None
Categories = Mapping[Hashable, Sequence[Any]] | None

# Parameters of an estimator that are also fields of its `privacy`.
SHORT_FORMS = ("epsilon", "delta", "accountant", "division", "bounds", "target_bounds", "categories")
# What means nothing without epsilon, and is then refused.
NEED_EPSILON = ("delta", "clip", "budget_shares", "bounds", "target_bounds", "categories")


@dataclass(frozen=True)
class Privacy:
    """A privacy budget, and all that belongs to it. docs/privacy.md says what it guarantees, and what not.

    Parameters
    ----------
    epsilon : float, default=None
        Budget of the released models, all parties together. None: no budget and no guarantee. inf: clipping without noise,
        for comparison.
    delta : float, default=None
        Probability with which the guarantee may fail. None: 1 / (10 rows).
    accountant : {"pld", "rdp", "reference"}, default="pld"
        How the budget is counted.
    division : {"moments", "simple"}, default="moments"
        How it is divided among parties.
    bounds : (low, high), list of pairs or dict of columns to pairs, default=None
        Between which values the columns lie, by public knowledge. Rows are not asked.
    target_bounds : list or (low, high), default=None
        The classes; for a regressor the bounds of the labels.
    categories : dict of columns to lists, default=None
        The values of columns of text.
    clip : float, default=None
        Norm that each row's gradient is clipped to. None: the recipe's and the learners' own.
    budget_shares : dict by party or "common", default=None
        Which part of the budget each party has, or the same noise for all. None: most for the host, who trains longest.
    allow_large_delta : bool, default=False
        Whether delta may be above 1 / rows.
    unsound_paper_reproduction : bool, default=False
        Permit "nat" with a budget, whose epsilon is then nominal: not a guarantee.
    insecure_test_seed : int, default=None
        For tests: a seed for the noise, which otherwise comes from the operating system.

    >>> budget = Privacy(epsilon=2, bounds={"age": (18, 110)}, target_bounds=["no", "yes"])
    >>> budget.delta_for(1000)
    0.0001
    """

    epsilon: float | None = None
    delta: float | None = None
    accountant: str = "pld"
    division: str = "moments"
    bounds: Bounds = None
    target_bounds: ArrayLike | None = None
    categories: Categories = None
    clip: float | None = None
    budget_shares: Shares = None
    allow_large_delta: bool = False
    unsound_paper_reproduction: bool = False
    insecure_test_seed: int | None = None

    def __post_init__(self) -> None:
        _check(vars(self), "Privacy")
        if self.clip is not None and (not isinstance(self.clip, Real) or not 0 < self.clip < np.inf):
            raise parameter_error(
                "Privacy", "clip", "a number above 0, the largest norm of a row's gradient", self.clip
            )

    def delta_for(self, n_rows: int, owner: str = "Privacy") -> float:
        """Return delta for so many rows: the one given, or by rule."""
        delta = 1 / (10 * n_rows) if self.delta is None else float(self.delta)
        if delta > 1 / n_rows and not self.allow_large_delta:
            wanted = (
                f"at most 1 / rows ({1 / n_rows:.3g}), or Privacy(allow_large_delta=True): "
                "a larger one lets a whole row slip out"
            )
            raise parameter_error(owner, "delta", wanted, delta)
        return delta

    def public(self, names: Sequence[Hashable], owner: str = "Privacy") -> Public:
        """Return what is public of a table with these columns; bounds by position become bounds by name."""
        self._refuse_unknown_columns(names, owner)
        bounds = self.bounds
        if bounds is None or isinstance(bounds, Mapping) or not _nested(bounds):
            return Public(bounds, self.categories or {})
        pairs = list(bounds)
        if len(pairs) != len(names):
            wanted = f"(low, high), a dict of columns to such pairs, or one pair for each of {len(names)} columns"
            raise parameter_error(owner, "bounds", wanted, f"{len(pairs)} pairs")
        return Public(dict(zip(names, pairs, strict=True)), self.categories or {})

    def _refuse_unknown_columns(self, names: Sequence[Hashable], owner: str) -> None:
        for parameter, given in (("bounds", self.bounds), ("categories", self.categories)):
            unknown = [name for name in given if name not in names] if isinstance(given, Mapping) else []
            if unknown:
                wanted = f"keyed by columns of the table ({', '.join(map(repr, names[:5]))}, ...)"
                raise parameter_error(owner, parameter, wanted, unknown[0])

    def random_of(self, party: str) -> SecretRandom:
        """Return where a party's noise comes from; with a seed for tests each party draws from it by its own name."""
        if self.insecure_test_seed is None:
            return SecretRandom()
        digest = hashlib.sha256(f"{self.insecure_test_seed} {party}".encode()).digest()
        return SecretRandom(int.from_bytes(digest[:8], "little"))


DEFAULTS: Mapping[str, Any] = {field.name: field.default for field in fields(Privacy)}


# Parameters of an estimator that became fields of its `privacy`; still taken, with a warning.
MOVED = ("clip", "budget_shares", "allow_large_delta", "unsound_paper_reproduction", "insecure_test_seed")
Given = ParamSpec("Given")


class HasPrivacy(Protocol):
    """Whatever has a setting `privacy`."""

    privacy: Privacy | None


Owner = TypeVar("Owner", bound=HasPrivacy)


def takes_moved(init: Callable[Concatenate[Owner, Given], None]) -> Callable[Concatenate[Owner, Given], None]:
    """Let a constructor take the parameters that have moved; its signature stays as written, which scikit-learn reads."""

    @wraps(init)
    def wrapped(self: Owner, /, *args: Given.args, **given: Given.kwargs) -> None:
        moved = {name: given.pop(name) for name in MOVED if name in given}
        init(self, *args, **given)
        if moved:
            warn_of_moved(moved, type(self).__name__)
            self.privacy = with_short_forms(self.privacy, moved, type(self).__name__)

    return wrapped


def warn_of_moved(names: Iterable[str], owner: str) -> None:
    """Say where parameters of an estimator have moved to, at the line that called its method."""
    for name in names:
        text = f"The '{name}' parameter of {owner} has moved: write privacy=Privacy({name}=...)."
        warnings.warn(text, FedOnceWarning, stacklevel=3)


def with_fields(privacy: Privacy | None, changes: Mapping[str, Any], owner: str) -> Privacy | None:
    """Return `privacy` with some fields changed; the one given stays as it is."""
    unknown = [name for name in changes if name not in DEFAULTS]
    if unknown:
        raise parameter_error(owner, "privacy", f"set by its fields ({', '.join(DEFAULTS)})", f"privacy__{unknown[0]}")
    return replace(_own(privacy, owner), **changes) if changes else privacy


def resolve(privacy: Privacy | None, short: Mapping[str, Any], owner: str, local: bool = False) -> Privacy:
    """Return the whole of what an estimator was given, in `privacy` and in short forms, checked.

    `local`: guests answer with a local epsilon, which needs bounds and categories too.
    """
    own = _own(privacy, owner)
    accountants.check(short["accountant"], short["division"], owner)
    if own.epsilon is None and short["epsilon"] is None:
        _refuse_without_epsilon(short, owner, local)
        _refuse_without_epsilon(vars(own), "Privacy", local)
    _check(short, owner)
    return with_short_forms(own, short, owner)


def with_short_forms(privacy: Privacy | None, short: Mapping[str, Any], owner: str) -> Privacy:
    """Return `privacy` with short forms filled in. A value that is not the default counts as given; two must agree."""
    own = _own(privacy, owner)
    given = {name: value for name, value in short.items() if not _same(value, DEFAULTS[name])}
    for name, value in given.items():
        other = getattr(own, name)
        if not _same(other, DEFAULTS[name]) and not _same(other, value):
            raise InputError(
                f"The '{name}' parameter of {owner} is {shown(value)}, and its privacy=Privacy({name}=...) is {shown(other)}. "
                "Give one of the two."
            )
    return replace(own, **given)


def _own(privacy: object, owner: str) -> Privacy:
    if privacy is not None and not isinstance(privacy, Privacy):
        raise parameter_error(owner, "privacy", "a Privacy or None", privacy)
    return privacy or Privacy()


def _check(given: Mapping[str, Any], owner: str) -> None:
    """Raise where a value could be no one's, whatever the rows are."""
    accountants.check(given["accountant"], given["division"], owner)
    epsilon, delta = given["epsilon"], given["delta"]
    check_budget(1.0 if epsilon is None else epsilon, 0.5 if delta is None else delta, owner)
    if given["categories"] is not None and not isinstance(given["categories"], Mapping):
        raise parameter_error(owner, "categories", "a dict of columns to lists of values", given["categories"])


def _refuse_without_epsilon(given: Mapping[str, Any], owner: str, local: bool) -> None:
    for name in NEED_EPSILON:
        if given.get(name) is not None and not (local and name in ("bounds", "categories")):
            also = " or local_epsilon" if name in ("bounds", "categories") else ""
            wanted = f"left out without epsilon{also}: there is no privacy budget that it could belong to"
            raise parameter_error(owner, name, wanted, given[name])


def _same(one: object, other: object) -> bool:
    """Tell whether two settings are the same; a list is the same as a tuple or an array of its values."""
    if one is None or other is None:
        return one is other
    try:
        return bool(np.array_equal(one, other))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # dicts of arrays
        return False


def _nested(bounds: Any) -> bool:
    """Tell whether bounds are a list of pairs, not one pair."""
    try:
        return np.ndim(bounds) == 2 or any(np.ndim(end) for end in bounds)
    except (TypeError, ValueError):
        return False
