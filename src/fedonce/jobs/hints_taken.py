"""Hints as a guest takes them: read from a file of the host's, and what the learning made of them."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fedonce.data.table import Table
from fedonce.errors import InputError, MessageError
from fedonce.jobs.settings import File, GuestBudget, Learning
from fedonce.learners.base import Learner
from fedonce.learners.hinted import LEAST_HINTED, Hinted
from fedonce.learners.names import LEARNERS
from fedonce.messages.envelope import SEALED, kind_of, read_bytes
from fedonce.messages.hints import Hints, check_signed, check_start, too_large
from fedonce.messages.keys import PrivateKey, read_public, unseal
from fedonce.messages.names import MUST_BE, is_party_name, why_not
from fedonce.party import Guest
from fedonce.party.hinting import hints_of
from fedonce.rows.alignment import AgreedRows


@dataclass(frozen=True)
class HintsFile:
    """Hints of the host that a guest learns with.

    Parameters
    ----------
    path : path
        The file of `fedonce host hint`.
    verify : path, optional
        Public key of the host: the hints must be signed with it.
    """

    path: str | Path
    verify: File = None

    def read(self, run: str, guest: str, key: PrivateKey | None) -> Hints:
        """Read them, trusting nothing of them; `key` opens them where they are sealed."""
        raw = read_bytes(self.path, "hints file", look=partial(self._judge, key is not None))
        try:
            hints = Hints.from_bytes(unseal(raw, key) if key is not None and kind_of(raw) == "sealed" else raw)
        except MessageError as error:
            raise error.found_in(self.path) from None
        refused = f"The hints in {self.path} are refused: "
        if not is_party_name(hints.party) or hints.party == guest:
            what = why_not(hints.party) if hints.party != guest else f"the guest's own, {guest!r}"
            raise MessageError(
                f"{refused}the name of their host must be {MUST_BE}, and another than the guest's. Got {what}."
            )
        if hints.run != run:
            text = f"{refused}they belong to run {hints.run!r}, this is run {run!r}."
            raise MessageError(text, parameter="run")
        if self.verify is not None:
            check_signed(hints, read_public(self.verify), self.path)
        return hints

    def _judge(self, has_key: bool, start: bytes, size: int) -> None:
        """Refuse a file by its first bytes and its size, before it is read."""
        if start.startswith(SEALED):
            if not has_key:
                text = f"The hints file {self.path} is sealed; give the private key that it was sealed to (key)."
                raise MessageError(text, parameter="key")
            if why := too_large(size):
                raise MessageError(f"The hints file {self.path} is refused: {why}.")
            return
        try:
            check_start(start, size)
        except MessageError as error:
            raise error.found_in(self.path) from None


def check_beside_hints(learning: Learning, budget: GuestBudget) -> None:
    """Raise where a guest is told to do what has no place beside hints, before it reads anything."""
    plan = budget.plan is not None or budget.epsilon is not None
    own = learning.learner
    name = own if isinstance(own, str) else own.name
    on_steps = name in LEARNERS and LEARNERS.facts(name).on_steps
    unpriced = "what an encoder learns from hints is not priced"
    no_room = "its values lie on steps of their own, which leaves no room for what is learnt from hints"
    for given, which, parameter, why in (
        (plan, "a privacy budget (epsilon)", "epsilon", unpriced),
        (learning.local_epsilon is not None, "a local epsilon (local_epsilon)", "local_epsilon", unpriced),
        (learning.protect is not None, "a protection (protect)", "protect", no_room),
        (on_steps, f"the learner {name!r} (learner)", "learner", no_room),
    ):
        if given:
            raise InputError(
                f"Learn with hints (hints), or with {which}, not with both: {why}. Leave out one of the two.",
                parameter=("hints", parameter),
            )
    if isinstance(own, Learner):
        Hinted.around(own)  # it raises where the learner has settings of its own


@dataclass(frozen=True)
class Taken:
    """What a guest made of hints: at which label, for how many of its rows there was one, and how many values are by them."""

    label: str
    epsilon: float
    classes: int
    rows: int
    hinted_rows: int
    values: int
    hinted_values: int

    @classmethod
    def of(cls, hints: Hints, party: Guest, own: Table, agreed: AgreedRows | None, values: int) -> Taken:
        """Return it of a guest that has learnt, and sends so many values per row."""
        told = hints_of(hints, own, None, party.naming, agreed, party.name, party.run)
        by_hints = int(getattr(party.learner, "hinted_", 0))
        return cls(hints.label, hints.epsilon, hints.classes, len(told), int((told >= 0).sum()), values, by_hints)

    @property
    def in_words(self) -> str:
        """All of it, in some sentences."""
        how = "as it is" if math.isinf(self.epsilon) else f"label epsilon {self.epsilon:g}"
        gaps = "" if self.hinted_rows == self.rows else "; rows without one are fine"
        if self.hinted_values:
            made = f"{self.hinted_values} of {self.values} values {'is' if self.hinted_values == 1 else 'are'} learnt from hints"
        elif self.hinted_rows < LEAST_HINTED:
            made = f"no value is by hints: fewer than {LEAST_HINTED} rows have one"
        else:
            made = (
                "no value is by hints: a table uses hints only if you ask for the learner 'hinted', images only if a trial on "
                "rows held back shows that they help"
            )
        told = f"{self.hinted_rows:,} of {self.rows:,} rows have one{gaps}"
        return f"Hints at {self.label!r} ({how}, {self.classes} classes): {told}. {made[0].upper()}{made[1:]}."

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON values; an epsilon that is infinite as None."""
        return asdict(self) | {"epsilon": None if math.isinf(self.epsilon) else self.epsilon}
