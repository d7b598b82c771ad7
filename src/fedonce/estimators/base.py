"""What the classifier and the regressor share: parameters into parties, and one training of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from fedonce import hostmodels, learners, protocol
from fedonce.data.partition import Parties, resolve
from fedonce.data.preparation import Bounds, Preparation, Public
from fedonce.data.scikit import labels_of, table_of
from fedonce.data.table import Table
from fedonce.engine.local import LocalEngine
from fedonce.errors import FedOnceWarning, parameter_error
from fedonce.estimators import checks
from fedonce.estimators.weights import weights_of
from fedonce.hostmodels import HostModel
from fedonce.hostmodels.recipe import Recipe
from fedonce.learners import Learner
from fedonce.learners.hinted import LEAST_HINTED
from fedonce.messages.codecs.budget import most_values
from fedonce.messages.hints import Hinting, Hints
from fedonce.messages.traffic import Traffic
from fedonce.party import Guest, Host, purses, sharing
from fedonce.party.hinting import publish
from fedonce.party.parameters import ByGuest, of_guest, refuse_unknown_guests, values
from fedonce.party.presence import Present, masks
from fedonce.privacy import ledger, settings
from fedonce.privacy.budget import Plan, Purse
from fedonce.privacy.settings import Categories, Privacy
from fedonce.rounds.settings import Rounds, as_rounds
from fedonce.system.logs import lines_on_stderr

BY_GUEST = ("learner", "dim", "epochs", "bytes_per_row", "local_epsilon", "protect")


class FedOnce(BaseEstimator):  # type: ignore[misc]
    """What the classifier and the regressor share; `FedOnceClassifier` describes the parameters."""

    _task: str
    classes_: NDArray[Any]  # of a classifier

    @settings.takes_moved
    def __init__(
        self,
        parties: Parties = None,
        host: str | None = None,
        learner: ByGuest[str | Learner] = "auto",
        dim: ByGuest[int] = 8,
        bits: int = 8,
        epochs: ByGuest[int | None] = None,
        host_epochs: int | None = None,
        recipe: str | Recipe = "default",
        model: str | HostModel | BaseEstimator = "auto",
        class_weight: str | Mapping[Any, float] | None = None,
        calibrate: bool | str = "auto",
        validate: bool = True,
        bytes_per_row: ByGuest[float | None] = None,
        bytes_total: float | None = None,
        hints: float | Hinting | Hints | None = None,
        privacy: Privacy | None = None,
        rounds: int | Rounds = 0,
        representation_noise: float = 0.0,
        local_epsilon: ByGuest[float | None] = None,
        protect: ByGuest[str | None] = None,
        epsilon: float | None = None,
        delta: float | None = None,
        accountant: str = "pld",
        division: str = "moments",
        bounds: Bounds = None,
        target_bounds: ArrayLike | None = None,
        categories: Categories = None,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.parties = parties
        self.host = host
        self.learner = learner
        self.dim = dim
        self.bits = bits
        self.epochs = epochs
        self.host_epochs = host_epochs
        self.recipe = recipe
        self.model = model
        self.class_weight = class_weight
        self.calibrate = calibrate
        self.validate = validate
        self.bytes_per_row = bytes_per_row
        self.bytes_total = bytes_total
        self.hints = hints
        self.privacy = privacy
        self.rounds = rounds
        self.representation_noise = representation_noise
        self.local_epsilon = local_epsilon
        self.protect = protect
        self.epsilon = epsilon
        self.delta = delta
        self.accountant = accountant
        self.division = division
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.categories = categories
        self.device = device
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `privacy__clip=1.0` sets one field of `privacy`, in a copy of it."""
        moved = {name: params.pop(name) for name in settings.MOVED if name in params}
        settings.warn_of_moved(moved, self._owner)
        nested = {name: params.pop(name) for name in list(params) if name.startswith("privacy__")}
        super().set_params(**params)
        fields = moved | {name.removeprefix("privacy__"): value for name, value in nested.items()}
        self.privacy = settings.with_fields(self.privacy, fields, self._owner)
        return self

    def fit(self, X: Any, y: ArrayLike, present: Present = None, sample_weight: ArrayLike | None = None) -> Self:
        """Train: each guest learns without labels and sends one message, then the host learns with labels.

        `present` maps a guest to a boolean per row, or to False: which rows it has. Omitted: all. The columns of an absent
        guest stay in the table, filled with anything (NaN, say); they are not looked at. `sample_weight` says how much each
        row counts for the host.
        """
        label = labels_of(y, self._owner, np.float64 if self._task == "regression" else None)
        table = self._table(X, reset=True)
        for stale in ("ledger_", "plan_"):  # of a fit before, with a budget of its own
            self.__dict__.pop(stale, None)
        privacy = self._whole_privacy()
        checks.check_parameters(self, self._owner, self._task, privacy)
        hinting = checks.as_hinting(self.hints, self._owner)
        self._blocks, self.host_ = resolve(self.parties, self.host, table.names, self._owner)
        weight = weights_of(sample_weight, self.class_weight, X, label, self._task, self._owner)
        own, plan = self._budget(privacy, table.n_rows, present)
        public = privacy.public(table.names, self._owner)
        seed = self._seed()
        others = [name for name in self._blocks if name != self.host_]
        self.bytes_per_row_ = self._bytes(others, table, present, seed)
        guests = {
            name: self._make_guest(name, seed, self.bytes_per_row_[name], own.get(name), public) for name in others
        }
        if not guests:
            text = f"{self._owner} has one party only, {self.host_!r}: it trains alone (Solo)."
            warnings.warn(text, FedOnceWarning, stacklevel=2)
        self._host = self._make_host(privacy, seed, own, None if plan is None else public, plan)
        self._host.check_label(label, table.n_rows)  # before the guests spend time
        preparations = [self._host.preparation, *(guest.preparation for guest in guests.values())]
        for preparation in preparations:
            preparation.check_embeddings(len(self._blocks[preparation.party].positions))
        if self._task == "classification":
            check_classification_targets(label)
        # Where there is nobody to tell, no label is told.
        engine = self._engine(guests, table, present, self._hints(hinting, label) if guests else None)
        if plan is not None:
            self._check_networks([each for each in preparations if each.party in own], table)
            self.plan_ = plan
            self.ledger_ = own[self.host_].ledger  # all parties' own: it fills while they train, and stays if they fail
        rounds = as_rounds(self.rounds, self._owner)
        with lines_on_stderr(self.verbose):
            columns = self._columns(table, self.host_)
            fitted = protocol.fit(self._host, columns, label, engine, rounds, weight=weight)
        self._guests = engine.parties
        self._remember(fitted, engine.hints)
        return self

    def _remember(self, fitted: protocol.Fitted, hints: Hints | None) -> None:
        """Set what a training leaves for the user to look at."""
        if self._task == "classification":
            self.classes_ = np.asarray(self._host.classes)
        self.history_ = fitted.history
        self.traffic_ = fitted.traffic
        self.prediction_traffic_ = Traffic()
        self.representations_ = fitted.representations
        self.learners_ = {guest: message.learner for guest, message in fitted.representations.items()}
        self.dims_ = dict(self._host.dims)
        self.absent_ = fitted.absent
        self.overlap_ = fitted.overlap
        self.validation_ = self._host.validation
        self.hints_ = hints
        notes = [message.note for message in fitted.representations.values()]
        if hints is not None and notes and all(note.startswith("0 of ") for note in notes):
            text = (
                f"No guest had use for the hints at {hints.label!r}, which were told with epsilon {hints.epsilon:g}. Tables use "
                "hints only with learner='hinted'; images (fedonce.Pixels, fedonce.tiles) only where a trial finds them better; "
                f"and no guest does that has hints for fewer than {LEAST_HINTED} rows."
            )
            warnings.warn(FedOnceWarning(text, parameter="hints"), stacklevel=3)
        self._count_answers()

    def _count_answers(self) -> None:
        """Write down what guests have disclosed with a local epsilon, in all messages so far, and the host by hints."""
        answered = {
            name: (guest.local_epsilon, guest.state.answered)
            for name, guest in self._guests.items()
            if guest.local_epsilon is not None and guest.state.answered
        }
        hints = getattr(self, "hints_", None)  # is not pickled
        if found := ledger.local(answered, None if hints is None else (hints.party, hints.label, hints.epsilon)):
            self.ledger_ = found

    def _whole_privacy(self) -> Privacy:
        short = {name: getattr(self, name) for name in settings.SHORT_FORMS}
        return settings.resolve(self.privacy, short, self._owner, any(values(self.local_epsilon)))

    def _budget(self, privacy: Privacy, n_rows: int, present: Present) -> tuple[dict[str, Purse], Plan | None]:
        """Return a purse for each party, and the plan that they spend by; without a budget, nothing."""
        guests = [name for name in self._blocks if name != self.host_]
        refuse_unknown_guests({name: getattr(self, name) for name in BY_GUEST}, guests, self._owner)
        if privacy.epsilon is None:
            return {}, None
        rows = dict.fromkeys([self.host_, *guests], n_rows)
        rows |= {name: int(mask.sum()) for name, mask in masks(present, guests, n_rows, self._owner).items()}
        model = hostmodels.make(self.model, self.recipe, self.host_epochs, self._owner)
        own = {
            name: learners.make(of_guest(self.learner, name, "auto"), of_guest(self.epochs, name, None), self._owner)
            for name in guests
        }
        return purses.divide(privacy, self.host_, model, self._task, own, rows, self._owner)

    def _check_networks(self, preparations: Sequence[Preparation], table: Table) -> None:
        """Look at what parties would do privately, before anything is spent."""
        for each in preparations:
            own = self._columns(table, each.party)
            if each.party == self.host_:
                self._host.prototype.check_private(purses.row_shape(each, own))
            else:
                purses.check_network(each, own, of_guest(self.learner, each.party, "auto"))

    def _bytes(self, guests: Sequence[str], table: Table, present: Present, seed: int) -> dict[str, float | None]:
        """Return the bytes per row that each guest may take; with `bytes_total`, shared out by what there is to tell."""
        given = {name: of_guest(self.bytes_per_row, name, None) for name in guests}
        if self.bytes_total is None or not guests:
            return given
        own = {name: float(most) for name, most in given.items() if most is not None}
        left = sharing.check_bytes_total(self._owner, self.bytes_total, own, len(guests))
        sharers = {name: self._make_guest(name, seed, left) for name in guests if name not in own}
        engine = self._engine(sharers, table, present)
        return given | sharing.shares(sharers, {name: engine.rows_of(name)[0] for name in sharers}, left)

    def _make_guest(
        self, name: str, seed: int, most: float | None, purse: Purse | None = None, public: Public | None = None
    ) -> Guest:
        local = of_guest(self.local_epsilon, name, None)
        return Guest(
            name,
            of_guest(self.learner, name, "auto"),
            most_values(of_guest(self.dim, name, 8), most, prod(self._blocks[name].shape or (0,))),
            self.bits,
            of_guest(self.epochs, name, None),
            self._blocks[name].shape,
            noise=self.representation_noise,
            random_state=seed,
            device=self.device,
            purse=purse,
            public=None if purse is None and local is None else public,
            bytes_per_row=most,
            local_epsilon=local,
            protect=of_guest(self.protect, name, None),
        )

    def _make_host(
        self, privacy: Privacy, seed: int, own: Mapping[str, Purse], public: Public | None, plan: Plan | None
    ) -> Host:
        return Host(
            self.host_,
            self._task,
            self.recipe,
            self.host_epochs,
            self._blocks[self.host_].shape,
            seed,
            self.device,
            purse=own.get(self.host_),
            public=public,
            plan=plan,
            labels=privacy.target_bounds,
            allow_large_delta=privacy.allow_large_delta,
            model=self.model,
            validate=self.validate,
            calibrate=self.calibrate,
        )

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
        if any(guest.local_epsilon is not None for guest in self._guests.values()):
            self._count_answers()
        return prediction.outputs

    @property
    def _owner(self) -> str:
        return type(self).__name__

    def _table(self, X: Any, reset: bool) -> Table:
        return table_of(self, X, reset)

    def _columns(self, table: Table, party: str) -> Table:
        return table.select(self._blocks[party].positions)

    def _hints(self, hinting: Hinting | Hints | None, label: NDArray[Any]) -> Hints | None:
        """Return what the host tells guests of its labels; its noise is nobody's to repeat."""
        return publish(label, hinting, self._task, self.host_) if isinstance(hinting, Hinting) else hinting

    def _engine(
        self, guests: dict[str, Guest], table: Table, present: Present, hints: Hints | None = None
    ) -> LocalEngine:
        held = masks(present, guests, table.n_rows, self._owner)
        own = {name: self._columns(table, name) for name in guests}
        return LocalEngine(guests, own, held, self.n_jobs, hints=hints)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the guests' representations out. What is saved are all parties' models, as they are together here."""
        state: dict[str, Any] = dict(super().__getstate__())
        for sent in ("representations_", "hints_"):
            state.pop(sent, None)
        return state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        private = self.epsilon is not None or getattr(self.privacy, "epsilon", None) is not None
        blurred = (self.representation_noise, self.local_epsilon, self.protect, self.hints is not None)
        tags.non_deterministic = any(blurred) or private
        return tags
