"""FedOnceClassifier and FedOnceRegressor: FedOnce with scikit-learn's fit and predict.

All parties' columns come in one table, and `parties` says who holds which; each party then works on its own columns alone,
as it would on its own machine.
"""

from __future__ import annotations

import copy
import hashlib
import logging
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from torch import nn

from fedonce import hostmodels, learners, protocol
from fedonce.data.partition import Block, Parties, resolve
from fedonce.data.preparation import Preparation, Public
from fedonce.data.table import Table
from fedonce.engine.local import LocalEngine
from fedonce.errors import FedOnceWarning, InputError, parameter_error, shown
from fedonce.hostmodels.plan import plan as make_plan
from fedonce.messages.representation import BITS
from fedonce.messages.traffic import Traffic
from fedonce.party import Guest, Host, check_labels, check_noise
from fedonce.privacy import accountants
from fedonce.privacy.budget import Plan, Purse, check_budget
from fedonce.privacy.dpsgd import check_clippable
from fedonce.privacy.noise import SecretRandom
from fedonce.rounds.settings import Rounds
from fedonce.training.loop import pick_device

Present = Mapping[str, "ArrayLike | bool"] | None


class _FedOnce(BaseEstimator):  # type: ignore[misc]
    """What the classifier and the regressor share."""

    _task: str

    def __init__(
        self, parties: Parties = None, host: str | None = None, learner: Any = "auto", dim: Any = 8, bits: int = 8,
        epochs: Any = None, host_epochs: int | None = None, recipe: Any = "default", model: Any = "network", rounds: Any = 0,
        representation_noise: float = 0.0, epsilon: float | None = None, delta: float | None = None,
        clip: float | None = None, accountant: str = "pld", division: str = "moments", budget_shares: Any = None,
        bounds: Any = None, target_bounds: Any = None, categories: Any = None, allow_large_delta: bool = False,
        unsound_paper_reproduction: bool = False, device: str = "auto", random_state: Any = None,
        n_jobs: int | None = None, verbose: int = 0, insecure_test_seed: int | None = None,
    ) -> None:  # fmt: skip
        self.parties = parties
        self.host = host
        self.learner = learner
        self.dim = dim
        self.bits = bits
        self.epochs = epochs
        self.host_epochs = host_epochs
        self.recipe = recipe
        self.model = model
        self.rounds = rounds
        self.representation_noise = representation_noise
        self.epsilon = epsilon
        self.delta = delta
        self.clip = clip
        self.accountant = accountant
        self.division = division
        self.budget_shares = budget_shares
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.categories = categories
        self.allow_large_delta = allow_large_delta
        self.unsound_paper_reproduction = unsound_paper_reproduction
        self.device = device
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.insecure_test_seed = insecure_test_seed

    def _fit(self, table: Table, label: NDArray[Any], present: Present) -> Self:
        for stale in ("ledger_", "plan_"):  # of a fit before, with a budget of its own
            self.__dict__.pop(stale, None)
        self._check_parameters()
        self._blocks, self.host_ = resolve(self.parties, self.host, table.names, self._owner)
        purses, plan = self._budget(table.n_rows, present)
        public = self._public(table)
        seed = self._seed()
        guests = {
            name: self._make_guest(name, block, seed, purses.get(name), public if name in purses else None)
            for name, block in self._blocks.items()
            if name != self.host_
        }
        if not guests:
            warnings.warn(
                f"{self._owner} has one party only, {self.host_!r}: it trains alone (Solo).",
                FedOnceWarning,
                stacklevel=3,
            )
        self._host = Host(
            self.host_,
            self._task,
            self.recipe,
            self.host_epochs,
            self._blocks[self.host_].shape,
            seed,
            self.device,
            purse=purses.get(self.host_),
            public=public,
            plan=plan,
            labels=self.target_bounds,
            allow_large_delta=self.allow_large_delta,
            model=self.model,
        )
        self._host.check_label(label, table.n_rows)  # before the guests spend time
        preparations = [self._host.preparation, *(guest.preparation for guest in guests.values())]
        for preparation in preparations:
            preparation.check_embeddings(len(self._blocks[preparation.party].positions))
        if self._task == "classification":
            check_classification_targets(label)
        engine = self._engine(guests, table, present)
        if plan is not None:
            self._check_networks(preparations, table, purses)
            self.plan_ = plan
            self.ledger_ = purses[
                self.host_
            ].ledger  # all parties' own: it fills while they train, and stays if they fail
        with _progress(self.verbose):
            fitted = protocol.fit(self._host, self._columns(table, self.host_), label, engine, self._rounds())
        self._guests = engine.parties
        self.history_ = fitted.history
        self.traffic_ = fitted.traffic
        self.prediction_traffic_ = Traffic()
        self.representations_ = fitted.representations
        self.absent_ = fitted.absent
        self.overlap_ = fitted.overlap
        return self

    def _seed(self) -> int:
        try:
            return int(check_random_state(self.random_state).randint(2**31 - 1))
        except ValueError:  # it prints what it was given
            pass
        raise parameter_error(self._owner, "random_state", "an integer, a RandomState or None", self.random_state)

    def _outputs(self, X: Any, present: Present) -> NDArray[np.float64]:
        check_is_fitted(self, "traffic_")
        table = self._table(X, reset=False)
        engine = self._engine(self._guests, table, present)
        prediction = protocol.predict(self._host, self._columns(table, self.host_), engine)
        self.prediction_traffic_.include(prediction.traffic)
        return prediction.outputs

    @property
    def _owner(self) -> str:
        return type(self).__name__

    def _table(self, X: Any, reset: bool) -> Table:
        """Check X as scikit-learn does, and take it as a table."""
        frame = not isinstance(X, np.ndarray | list | tuple) and not sparse.issparse(X) and hasattr(X, "columns")
        if not frame:
            return Table.of(self._array(X, reset))
        table = Table.of(X)
        if not table.n_rows or not table.names:
            raise InputError(
                f"Found a table with {table.n_rows} rows and {len(table.names)} columns; at least one of each is needed."
            )
        validate_data(self, X, reset=reset, skip_check_array=True)
        return table

    def _array(self, X: Any, reset: bool) -> Any:
        """Check an array as scikit-learn does, whose error on the dimensions prints the array: ours must not show rows."""
        said = ""
        try:
            return validate_data(self, X, reset=reset, accept_sparse="csr", dtype=None, ensure_all_finite=False)
        except ValueError as error:
            said, printed, _ = str(error).partition(":\narray=")
            if not printed:
                raise
        raise InputError(
            f"{said}: {shown(X)}. Reshape your data to rows and columns: array.reshape(-1, 1) of one column, "
            "array.reshape(1, -1) of one row, pandas.DataFrame(records) of records."
        )

    def _label(self, y: Any, dtype: Any = None) -> NDArray[Any]:
        """Take labels as one array; errors say what they are, not their values."""
        if y is None:
            raise InputError(f"{self._owner} requires y to be passed, but the target y is None.")
        _check_one_column(y)
        try:
            return np.asarray(column_or_1d(y, dtype=dtype, warn=True))
        except ValueError as error:
            if "could not convert" not in str(error):
                raise
        raise InputError(
            f"The labels y of {self._owner} must be numbers. Got text among them; use a classifier for classes."
        )

    def _columns(self, table: Table, party: str) -> Table:
        return table.select(self._blocks[party].positions)

    def _engine(self, guests: dict[str, Guest], table: Table, present: Present) -> LocalEngine:
        masks = self._masks(guests, table.n_rows, present)
        return LocalEngine(guests, {name: self._columns(table, name) for name in guests}, masks, self.n_jobs)

    def _masks(self, guests: Collection[str], n_rows: int, present: Present) -> dict[str, NDArray[np.bool_]]:
        """Check `present` and return a boolean a row for each guest that it lists."""
        if present is None:
            return {}
        if not isinstance(present, Mapping) or not set(present) <= set(guests):
            raise parameter_error(
                self._owner,
                "present",
                f"a dict of guests ({', '.join(map(repr, guests))}) to a boolean or a boolean a row",
                list(present) if isinstance(present, Mapping) else type(present).__name__,
            )
        masks = {}
        for name, given in present.items():
            mask = np.full(n_rows, given) if isinstance(given, bool | np.bool_) else np.asarray(given)
            if mask.dtype != bool or mask.shape != (n_rows,):
                raise parameter_error(
                    self._owner,
                    "present",
                    f"False, or {n_rows} booleans, one a row, for guest {name!r}",
                    f"{mask.dtype} {mask.shape}",
                )
            masks[name] = mask
        return masks

    def _make_guest(self, name: str, block: Block, seed: int, purse: Purse | None, public: Public | None) -> Guest:
        return Guest(
            name, self._of(self.learner, name, "auto"), self._of(self.dim, name, 8), self.bits, self._of(self.epochs, name, None),
            block.shape, noise=self.representation_noise, random_state=seed, device=self.device, purse=purse, public=public,
        )  # fmt: skip

    def _public(self, table: Table) -> Public | None:
        """Return what is public of all columns; bounds by position become bounds by name."""
        if self.epsilon is None:
            return None
        bounds = self.bounds
        self._refuse_unknown_columns(table)
        if bounds is not None and not isinstance(bounds, Mapping) and _nested(bounds):
            if len(bounds) != len(table.names):
                wanted = (
                    f"(low, high), a dict of columns to such pairs, or one pair for each of {len(table.names)} columns"
                )
                raise parameter_error(self._owner, "bounds", wanted, f"{len(bounds)} pairs")
            bounds = dict(zip(table.names, bounds, strict=True))
        return Public(bounds, self.categories or {})

    def _refuse_unknown_columns(self, table: Table) -> None:
        for parameter in ("bounds", "categories"):
            given = getattr(self, parameter)
            unknown = [name for name in given if name not in table.names] if isinstance(given, Mapping) else []
            if unknown:
                wanted = f"keyed by columns of the table ({', '.join(map(repr, table.names[:5]))}, ...)"
                raise parameter_error(self._owner, parameter, wanted, unknown[0])

    def _budget(self, n_rows: int, present: Present) -> tuple[dict[str, Purse], Plan | None]:
        """Return a purse for each party, and the plan that they spend by; without a budget, nothing."""
        guests = [name for name in self._blocks if name != self.host_]
        self._refuse_unknown_guests(guests)
        if self.epsilon is None:
            return {}, None
        delta = 1 / (10 * n_rows) if self.delta is None else self.delta
        check_budget(self.epsilon, delta, self._owner)
        if delta > 1 / n_rows and not self.allow_large_delta:
            wanted = f"at most 1 / rows ({1 / n_rows:.3g}), or allow_large_delta=True: a larger one lets a whole row slip out"
            raise parameter_error(self._owner, "delta", wanted, delta)
        held = {name: int(mask.sum()) for name, mask in self._masks(guests, n_rows, present).items()}
        model = hostmodels.make(self.model, self.recipe, self.host_epochs, self._owner)
        guest_learners = {
            name: learners.make(self._of(self.learner, name, "auto"), self._of(self.epochs, name, None), self._owner)
            for name in guests
            if held.get(name, n_rows)
        }
        shares = self.budget_shares
        if isinstance(shares, Mapping):  # whoever is absent spends nothing
            shares = {name: share for name, share in shares.items() if name not in guests or name in guest_learners}
        plan = make_plan(
            self.host_, model, self._task, n_rows, guest_learners, {name: held.get(name, n_rows) for name in guest_learners},
            float(self.epsilon), float(delta), self.accountant, self.division, shares,
            self.unsound_paper_reproduction,
        )  # fmt: skip
        ledger, purses = plan.ledger(), {}
        for name in (self.host_, *guest_learners):
            # With a seed for tests each party draws from it by its own name.
            digest = hashlib.sha256(f"{self.insecure_test_seed} {name}".encode()).digest()
            seed = None if self.insecure_test_seed is None else int.from_bytes(digest[:8], "little")
            purses[name] = Purse(name, plan.of(name), ledger, SecretRandom(seed), self.clip)
        return purses, plan

    def _check_networks(self, preparations: Sequence[Preparation], table: Table, purses: Mapping[str, Purse]) -> None:
        """Look for bounds, and for networks that cannot be private, before anything is spent."""
        for preparation in preparations:
            name = preparation.party
            if name not in purses:
                continue
            nothing = self._columns(table, name).take(slice(0, 0))
            shape = preparation.fit(nothing).transform(nothing).shape[1:]
            if name == self.host_:
                self._host.prototype.check_private(shape)
                continue
            network = getattr(self._of(self.learner, name, "auto"), "network", None)
            if isinstance(network, nn.Module):
                check_clippable(copy.deepcopy(network), [torch.zeros(1, *shape)], f"guest {name!r}")

    def _rounds(self) -> Rounds | None:
        """Return how to go on after the one message; None: not at all."""
        if isinstance(self.rounds, Rounds):
            return self.rounds
        return Rounds(rounds=int(self.rounds)) if self.rounds else None

    @staticmethod
    def _of(setting: Any, guest: str, default: Any) -> Any:
        return setting.get(guest, default) if isinstance(setting, Mapping) else setting

    def _refuse_unknown_guests(self, guests: Sequence[str]) -> None:
        for parameter in ("learner", "dim", "epochs"):
            setting = getattr(self, parameter)
            unknown = set(setting) - set(guests) if isinstance(setting, Mapping) else ()
            if unknown:
                raise parameter_error(
                    self._owner,
                    parameter,
                    f"keyed by guests ({', '.join(map(repr, guests)) or 'there are none'})",
                    sorted(map(str, unknown))[0],
                )

    def _check_parameters(self) -> None:
        self._check_privacy()
        for parameter, nothing in (("dim", False), ("epochs", True)):
            setting = getattr(self, parameter)
            for value in setting.values() if isinstance(setting, Mapping) else [setting]:
                self._check_positive(parameter, value, nothing)
        self._check_positive("host_epochs", self.host_epochs, True)
        self._check_rounds()
        for learner in self.learner.values() if isinstance(self.learner, Mapping) else [self.learner]:
            learners.make(learner, owner=self._owner)
        hostmodels.make(self.model, self.recipe, None, self._owner)
        if not isinstance(self.bits, Integral) or self.bits not in BITS:
            raise parameter_error(self._owner, "bits", f"one of {', '.join(map(str, BITS))}", self.bits)
        pick_device(self.device, self._owner)

    def _check_privacy(self) -> None:
        accountants.check(self.accountant, self.division, self._owner)
        if self.epsilon is None:
            for parameter in ("delta", "clip", "budget_shares", "bounds", "target_bounds", "categories"):
                if getattr(self, parameter) is not None:
                    wanted = "None without epsilon: there is no privacy budget that it could belong to"
                    raise parameter_error(self._owner, parameter, wanted, getattr(self, parameter))
            return
        check_budget(self.epsilon, 0.5 if self.delta is None else self.delta, self._owner)
        if self.rounds:
            wanted = "0 with a privacy budget, as gradients of single rows would leave the host in every round"
            raise parameter_error(self._owner, "rounds", wanted, self.rounds)
        if self.clip is not None and (not isinstance(self.clip, Real) or not 0 < self.clip < np.inf):
            raise parameter_error(
                self._owner, "clip", "a number above 0, the largest norm of a row's gradient", self.clip
            )
        if self.categories is not None and not isinstance(self.categories, Mapping):
            raise parameter_error(self._owner, "categories", "a dict of columns to lists of values", self.categories)
        if self.representation_noise:
            wanted = "0 with a privacy budget: its centre and radius are figures of private rows that nobody has priced"
            raise parameter_error(self._owner, "representation_noise", wanted, self.representation_noise)
        check_labels(self.target_bounds, self._task)

    def _check_rounds(self) -> None:
        check_noise(self._owner, "representation_noise", self.representation_noise)
        if isinstance(self.rounds, Rounds):
            pass
        elif isinstance(self.rounds, bool) or not isinstance(self.rounds, Integral) or self.rounds < 0:
            raise parameter_error(self._owner, "rounds", "an integer of at least 0, or a Rounds", self.rounds)
        if self.rounds and self.representation_noise:
            wanted = "0 together with rounds, in which a row's values leave the guest many times and noise averages out"
            raise parameter_error(self._owner, "representation_noise", wanted, self.representation_noise)

    def _check_positive(self, parameter: str, value: Any, nothing: bool) -> None:
        if value is None and nothing:
            return
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            raise parameter_error(self._owner, parameter, "a positive integer" + (" or None" if nothing else ""), value)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the guests' representations out. What is saved are all parties' models, as they are together here."""
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("representations_", None)
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.non_deterministic = bool(self.representation_noise) or self.epsilon is not None
        return tags


class FedOnceClassifier(ClassifierMixin, _FedOnce):  # type: ignore[misc]
    """Classify rows whose columns lie with several parties, after one message from each.

    Parameters
    ----------
    parties : dict, int or None
        Names to columns (names, positions or `Pixels`); or a number of even, contiguous blocks; or None: two.
    host : str, optional
        The party with the labels. None: the first.
    learner : str, Learner or dict by guest
        How guests learn: "auto", another name of `fedonce.learners.LEARNERS` (docs/learners.md), or an object.
    dim : int or dict by guest
        Values a row in a message; lowered where a learner cannot give so many.
    bits : int
        Bits a value in a message: 32, 16, 8 or 4.
    epochs : int, optional, or dict by guest
        Overrides the learner's own.
    host_epochs : int, optional
        Overrides the host model's own.
    recipe : str or Recipe
        How the model "network" is built and trained: "default", "paper" or an object.
    model : str or HostModel
        The host's model: "network", another name of `fedonce.hostmodels.HOST_MODELS` (docs/host-models.md), or an object.
    rounds : int or Rounds
        0: one message. More: go on training together for so many batches; a `Rounds` also limits epochs or bytes.
        Gradients then go back to the guests, who learn something of the labels.
    representation_noise : float
        Scale of Gaussian noise that guests add to what they send, after clipping each row to norm 1; at training and at
        prediction. 0: neither. `random_state` does not fix the noise.
    epsilon : float, optional
        Privacy budget of the released models, all parties together (docs/privacy.md). None: no guarantee. inf: clipping
        without noise, for comparison.
    delta : float, optional
        Probability with which the guarantee may fail. None: 1 / (10 rows); above 1 / rows only with `allow_large_delta`.
    clip : float, optional
        Norm that each row's gradient is clipped to, with a budget. None: the recipe's and the learners' own.
    accountant, division : str
        How the budget is counted: "pld", "rdp" or "reference"; and divided among parties: "moments" or "simple".
    budget_shares : dict by party or "common", optional
        Which part of the budget each party has, or the same noise for all. None: most for the host, who trains longest.
    bounds : (low, high), list of pairs or dict of columns to pairs
        With a budget: between which values the columns lie, by public knowledge. Rows are not asked.
    target_bounds : list, or (low, high)
        With a budget: the classes; for a regressor the bounds of the labels.
    categories : dict of columns to lists, optional
        With a budget: the values of columns of text.
    allow_large_delta, unsound_paper_reproduction : bool
        Permit a delta above 1 / rows; permit "nat" with a budget, whose epsilon is then nominal: not a guarantee.
    device : str
        "auto" (a GPU where there is one), "cpu" or "cuda".
    random_state : int, RandomState or None
        Seed. Each party draws from it by its own name.
    n_jobs : int, optional
        Guests that learn side by side, in processes of their own. None: one after the other.
    verbose : int
        1: a line a party; 2: a line an epoch.
    insecure_test_seed : int, optional
        For tests: a seed for the noise of a budget, which otherwise comes from the operating system.

    Attributes
    ----------
    classes_ : array
        The classes.
    host_ : str
        The host's name.
    history_ : list of dict
        The host's loss by epoch.
    traffic_, prediction_traffic_ : Traffic
        Messages and bytes sent in training, and in all predictions since.
    representations_ : dict
        What each guest sent. Not pickled.
    absent_ : tuple of str
        Guests that did not answer in training.
    overlap_ : dict
        Share of the host's rows that each guest has.
    ledger_ : Ledger
        With a budget: what each party spent, and the total; also after a training that failed.
    plan_ : Plan
        With a budget: what each party was allowed to do.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fedonce import FedOnceClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = FedOnceClassifier(parties={"bank": [0, 1], "shop": [2, 3]}, host="bank", random_state=0).fit(X, y)
    >>> clf.traffic_.messages
    1
    """

    _task = "classification"

    def fit(self, X: Any, y: Any, present: Present = None) -> Self:
        """Train: each guest learns without labels and sends one message, then the host learns with labels.

        `present` maps a guest to a boolean a row, or to False: which rows it has. Omitted: all. The columns of an absent
        guest stay in the table, filled with anything (NaN, say); they are not looked at.
        """
        label = self._label(y)
        self._fit(self._table(X, reset=True), label, present)
        self.classes_: NDArray[Any] = np.asarray(self._host.classes)
        return self

    def predict_proba(self, X: Any, present: Present = None) -> NDArray[np.float64]:
        """Return a probability a class for each row; columns in the order of `classes_`."""
        return self._outputs(X, present)

    def score(self, X: Any, y: Any, sample_weight: Any = None, present: Present = None) -> float:
        """Return the accuracy."""
        _check_one_column(y)
        return float(accuracy_score(y, self.predict(X, present), sample_weight=sample_weight))

    def predict(self, X: Any, present: Present = None) -> NDArray[Any]:
        """Return the most probable class of each row."""
        probabilities = self.predict_proba(X, present)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])


class FedOnceRegressor(RegressorMixin, _FedOnce):  # type: ignore[misc]
    """Predict a number for rows whose columns lie with several parties. Parameters as in `FedOnceClassifier`."""

    _task = "regression"

    def fit(self, X: Any, y: Any, present: Present = None) -> Self:
        """Train: each guest learns without labels and sends one message, then the host learns with labels."""
        label = self._label(y, np.float64)
        return self._fit(self._table(X, reset=True), label, present)

    def score(self, X: Any, y: Any, sample_weight: Any = None, present: Present = None) -> float:
        """Return the coefficient of determination, R squared."""
        _check_one_column(y)
        return float(r2_score(y, self.predict(X, present), sample_weight=sample_weight))

    def predict(self, X: Any, present: Present = None) -> NDArray[np.float64]:
        """Return a number for each row."""
        return self._outputs(X, present)


def _check_one_column(y: Any) -> None:
    """Refuse tables of labels; some libraries' own errors come from far below."""
    shape = getattr(y, "shape", ())
    if isinstance(shape, tuple) and not sparse.issparse(y) and shape[1:] not in ((), (1,)):
        raise InputError(f"y should be a 1d array, one label a row. Got {shown(y)}; name one column.")


def _nested(bounds: Any) -> bool:
    """Tell whether bounds are a list of pairs, not one pair."""
    try:
        return np.ndim(bounds) == 2 or any(np.ndim(end) for end in bounds)
    except (TypeError, ValueError):
        return False


@contextmanager
def _progress(verbose: int) -> Iterator[None]:
    """Show the package's log lines on the error stream for as long as a fit runs."""
    if not verbose:
        yield
        return
    package, handler = logging.getLogger("fedonce"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    level = package.level
    package.addHandler(handler)
    package.setLevel(logging.DEBUG if verbose > 1 else logging.INFO)
    try:
        yield
    finally:
        package.removeHandler(handler)
        package.setLevel(level)
