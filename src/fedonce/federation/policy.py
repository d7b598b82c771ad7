"""What a guest allows: its own file, `policy.toml`, by which every request is checked before anything is done.

A reason for refusing goes to the host. It may repeat what the host asked for and say the guest's limit; it has no path, no value
of the data, and no name of a column that the host did not name itself.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedonce.data.table import did_you_mean
from fedonce.errors import FedOnceError, InputError, MessageError
from fedonce.federation.policy_file import DEFAULT_POLICY as DEFAULT_POLICY
from fedonce.federation.policy_file import KEYS, check_hints
from fedonce.federation.request import Request
from fedonce.federation.tomlfile import check, check_learner, load, wrong
from fedonce.learners.names import LEARNERS, UNREADABLE
from fedonce.messages.hints import Hints
from fedonce.rows import alignment

WHAT = "policy"
LONGEST_PLAN = 100_000  # characters: far more than a plan has, and little enough to be priced
OWN_EPOCHS = 100  # what a learner that trains takes at most where the host does not say
ROUNDS_BITS = 8  # what rounds send at least, as `rounds.LEAST_BITS`


@dataclass(frozen=True)
class Policy:
    """What a guest allows; the defaults are those of `DEFAULT_POLICY`.

    Parameters
    ----------
    hosts, runs : tuple of str, optional
        Who may ask, in which trainings; None: every host of the federation, any training.
    columns, forbid_columns : tuple of str
        Columns that may be used (None: all of the table), and those that may not.
    min_columns : int, optional
        How few columns a request may name; None: all that are allowed.
    learners : tuple of str
        How may be learnt. By default all learners of ours but those whose messages are the columns themselves, to be read.
    max_learnings, max_learnings_per_year : int
        How many requests to learn are answered in one run, and in 365 days over all runs; see `allowance`.
    max_values_per_row : int
        Most values that may leave of a row, over all models that ever answered.
    max_rebuilt : float
        How well any quick attack may rebuild a column, or whole records, from a message, from 0 to 1; 1: however well.
    max_dim, max_bits, max_epochs : int
        Most values per row, bits per value, and passes over the rows.
    min_noise : float
        Least noise on every value that leaves.
    max_local_epsilon : float, optional
        The most epsilon that a row's answers of 365 days may add up to, over all runs; None: messages need no local epsilon.
    budget : str
        "required": no learning without a privacy plan; "optional".
    max_epsilon, max_delta : float
        The most that a plan may cost, all parties together; max_epsilon None: any.
    predict, align : bool
        Whether rows are represented for predictions, and whether ids are aligned, or learnt from by the host's list of them.
    max_predict_rows, max_align_rows : int, optional
        How many rows one request may be about; None: any number.
    max_rounds : int
        Most rounds of training on together in one run; 0: none.
    ids : tuple of str
        How messages may name rows: "keyed", "agreed" or "hashed".
    hints : bool
        Whether the guest learns with hints at the host's labels, by which a host chooses what is looked for.
    """

    hosts: tuple[str, ...] | None = None
    runs: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    forbid_columns: tuple[str, ...] = ()
    min_columns: int | None = None
    max_learnings: int = 1
    max_learnings_per_year: int = 12
    max_values_per_row: int = 64
    max_rebuilt: float = 0.9
    learners: tuple[str, ...] = UNREADABLE
    max_dim: int = 16
    max_bits: int = 32
    max_epochs: int = 1000
    min_noise: float = 0.0
    max_local_epsilon: float | None = None
    budget: str = "optional"
    max_epsilon: float | None = None
    max_delta: float = 1e-3
    predict: bool = True
    max_predict_rows: int | None = None
    align: bool = True
    max_align_rows: int | None = None
    max_rounds: int = 0
    ids: tuple[str, ...] = ("keyed", "agreed")
    hints: bool = False

    @classmethod
    def read(cls, path: Path | str) -> Policy:
        """Read a policy file; raise InputError where it does not say clearly what is allowed."""
        content = load(path, WHAT)
        check(path, WHAT, content, KEYS)
        for name in content.get("learners", ()):
            check_learner(path, name, "learners")
        if content.get("budget") == "required" and content.get("min_noise"):
            must_be = '0, or left out, with budget = "required": learning with a privacy budget sends no other noise'
            raise wrong(path, "min_noise", must_be, content["min_noise"])
        if "max_local_epsilon" in content and (content.get("budget") == "required" or content.get("min_noise")):
            must_be = 'left out with min_noise, or with budget = "required": a row is told in one way'
            raise wrong(path, "max_local_epsilon", must_be, content["max_local_epsilon"])
        if content.get("hints"):
            check_hints(path, content)
        given: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in content.items()
        }
        return cls(**given)

    def check_columns(self, names: Sequence[str], path: Path | str) -> None:
        """Raise where the policy names a column that the table does not have; for the guest's own eyes.

        `names` are all of the table's, that of ids included. A forbidden column with a slip of the pen would not be forbidden.
        """
        for key, listed in (("columns", self.columns or ()), ("forbid_columns", self.forbid_columns)):
            for name in listed:
                if name not in names:
                    raise InputError(
                        f"{path}: {key!r} names {name!r}, and the table has no such column{did_you_mean(name, names)}"
                    )

    def used_columns(self, request: Request, columns: Sequence[str]) -> list[str]:
        """Return which of the table's columns are used, in the table's order: those asked for, else all that are allowed."""
        allowed = [
            name
            for name in columns
            if (self.columns is None or name in self.columns) and name not in self.forbid_columns
        ]
        return allowed if request.columns is None else [name for name in allowed if name in request.columns]

    def refusal(self, request: Request, columns: Sequence[str]) -> str | None:
        """Return why a request is refused, for the host to read; None where it is allowed.

        Parameters
        ----------
        request : Request
            What the host asks.
        columns : sequence of str
            The columns of the guest's table that could be learnt from, without that of ids. They count for "learn" alone; none:
            the table is not at hand, and only what is asked for by name is checked.
        """
        by_what = {"learn": self._learn, "represent": self._predict, "align": self._align, "rounds": self._rounds}
        reasons = [self._asker(request), by_what[request.what](request, columns)]
        return next((reason for some in reasons for reason in some), None)

    def _asker(self, request: Request) -> Iterator[str]:
        if self.hosts is not None and request.host not in self.hosts:
            yield f"{request.host!r} is not one of the hosts that {request.guest} answers (hosts)"
        if self.runs is not None and request.run not in self.runs:
            yield f"the run {request.run!r} is not one of those that {request.guest} takes part in (runs)"

    def _naming(self, request: Request) -> Iterator[str]:
        naming = request.naming.split(" ")[0]
        if naming not in self.ids:
            remedy = {
                "hashed": "name a secret (secret), or align (align = true)",
                "keyed": "align, or leave the secret out",
                "agreed": "do not align",
            }
            yield (
                f"ids that are {naming} are not allowed by {request.guest}, which allows {_listed(self.ids)} (ids); "
                f"{remedy[naming]}"
            )

    def _learn(self, request: Request, columns: Sequence[str]) -> Iterator[str]:
        guest = request.guest
        if request.learner not in self.learners:
            yield f"the learner {request.learner!r} is not allowed by {guest}, which allows {_listed(self.learners)} (learners)"
        yield from _above("dim", request.dim, self.max_dim, guest)
        yield from _above("bits", request.bits, self.max_bits, guest)
        yield from self._epochs(request)
        if request.noise < self.min_noise:
            yield f"noise {request.noise:g} is below the {self.min_noise:g} that {guest} wants (min_noise)"
        yield from self._local(request)
        yield from self._hints(request)
        yield from self._naming(request)
        if (
            request.naming == "agreed"
        ):  # its rows are ids that the host asks about, whether or not there was an alignment
            yield from self._align(request, columns)
        yield from self._columns(request, columns)
        yield from self._budget(request)  # the last: a plan takes time to price

    def _hints(self, request: Request) -> Iterator[str]:
        guest = request.guest
        if request.hints is None:
            return
        if not self.hints:
            yield (
                f"{guest} does not learn with hints (hints = false): they let the host choose what is looked for in its table. "
                f"Ask {guest} to write hints = true into its policy, or leave hints out of the run file"
            )
            return
        if request.plan is not None or request.local_epsilon is not None:
            yield "its hints stand beside a privacy budget or a local epsilon, by which nobody has priced them"
        if request.protect is not None or LEARNERS.facts(request.learner).on_steps:
            what = (
                f"the learner {request.learner!r}" if request.protect is None else f"the protection {request.protect!r}"
            )
            yield f"its hints stand beside {what}, whose values leave no room for them; leave one of the two out of the run file"
        try:
            found = Hints.from_bytes(request.hints, request.host)
        except MessageError as error:
            yield str(error).rstrip(".")
            return
        if found.run != request.run:
            yield f"its hints belong to run {found.run!r}, and it is about run {request.run!r}"

    def _local(self, request: Request) -> Iterator[str]:
        most, asked = self.max_local_epsilon, request.local_epsilon
        if most is not None and (asked is None or asked > most):
            given = "no local epsilon" if asked is None else f"local_epsilon {asked:g}"
            yield f"{given}, and {request.guest} allows {most:g} at most for a row and year (max_local_epsilon)"

    def _epochs(self, request: Request) -> Iterator[str]:
        what = f"the learner {request.learner!r}" if request.hints is None else "learning with hints"
        if request.epochs is not None:
            # Values by hints, and those beside them, are each learnt for so long.
            both = request.hints is not None and LEARNERS.facts(request.learner).trains
            passes = request.epochs * (2 if both else 1)
            yield from _above("epochs", passes, self.max_epochs, request.guest)
        elif self.max_epochs < OWN_EPOCHS and (request.hints is not None or LEARNERS.facts(request.learner).trains):
            yield (
                f"no epochs are given, and {what} may take {OWN_EPOCHS}, which is above the "
                f"{self.max_epochs} that {request.guest} allows (max_epochs); give epochs"
            )

    def _columns(self, request: Request, columns: Sequence[str]) -> Iterator[str]:
        """Give one reason for columns that are not there and for those that may not be used: a host cannot tell which."""
        used = self.used_columns(request, columns or request.columns or ())
        missing = [name for name in request.columns or () if name not in used]
        if missing:
            why = "not in its table, or not allowed (columns, forbid_columns)"
            yield f"{request.guest} offers no column {_listed(missing)}: {why}"
        if columns and not used:
            yield f"{request.guest} offers no column to learn from (columns, forbid_columns)"
        if columns and request.columns is not None:
            offered = len(self.used_columns(replace(request, columns=None), columns))
            yield from self.too_few_columns(request, len(used), offered)

    def too_few_columns(self, request: Request, used: int, offered: int | None = None) -> Iterator[str]:
        """Give a reason where a request names fewer columns than it must; `offered` None: nobody knows how many there were."""
        least = self.min_columns if offered is None else min(self.min_columns or offered, offered)
        if least is None or used >= least or request.columns is None:
            return
        if self.min_columns is None:
            wants = f"{request.guest} learns from all columns that it offers; leave columns out of the run file"
        else:
            wants = f"{request.guest} learns from {self.min_columns} or more"
        yield f"it names {used} column{'' if used == 1 else 's'}, and {wants} (min_columns)"

    def _budget(self, request: Request) -> Iterator[str]:
        guest, required = request.guest, self.budget == "required"
        if request.plan is None:
            if required:
                yield f"{guest} learns with a privacy budget only (budget); add [budget] to the run file"
            return
        if len(request.plan) > LONGEST_PLAN:
            yield f"its privacy plan has {len(request.plan)} characters; the most is {LONGEST_PLAN}"
            return
        from fedonce.privacy.budget import Plan  # slow to import

        try:
            plan = Plan.from_text(request.plan, "the privacy plan")
            plan.of(guest)
        except (FedOnceError, ValueError, ArithmeticError) as error:  # the accountant may stumble over odd numbers
            yield f"its privacy plan cannot be used: {str(error).rstrip('.')[:400]}"
            return
        if required and (plan.epsilon == math.inf or any(entry.nominal for entry in plan.entries)):
            yield f"its privacy plan guarantees nothing, and {guest} learns with a privacy budget only (budget)"
        yield from _above("epsilon", plan.epsilon, self.max_epsilon, guest)
        yield from _above("delta", plan.delta, self.max_delta, guest)

    def _predict(self, request: Request, columns: Sequence[str]) -> Iterator[str]:
        if not self.predict:
            yield f"{request.guest} represents no rows for predictions (predict)"
        if self.max_predict_rows is not None:
            yield from _rows_above(_count_rows(request.rows), "predict", self.max_predict_rows, request.guest)

    def _align(self, request: Request, columns: Sequence[str]) -> Iterator[str]:
        if not self.align:
            yield f"{request.guest} does not align ids (align)"
        if self.max_align_rows is not None:
            asked = _count_points(request.points) if request.what == "align" else _count_rows(request.rows)
            yield from _rows_above(asked, "align", self.max_align_rows, request.guest)

    def _rounds(self, request: Request, columns: Sequence[str]) -> Iterator[str]:
        guest, settings = request.guest, request.rounds or {}
        rounds, bits = settings.get("rounds"), settings.get("bits")
        if not self.max_rounds:
            yield (
                f"{guest} allows no rounds (max_rounds = 0): they let the host steer what the guest sends. Ask {guest} to raise "
                "max_rounds in its policy, or leave rounds out of the run file"
            )
        if self.min_noise or self.budget == "required" or self.max_local_epsilon is not None:
            key = "min_noise" if self.min_noise else "budget" if self.budget == "required" else "max_local_epsilon"
            yield f"{guest} sends no values without noise or a privacy budget ({key}), and rounds have neither"
        if self.max_predict_rows is not None:
            yield from _rows_above(_count_rows(request.rows), "predict", self.max_predict_rows, guest)
        if type(rounds) is not int:
            remedy = "give a number of rounds, not epochs or bytes alone"
            yield f"{guest} allows at most {self.max_rounds} rounds (max_rounds); {remedy}"
        else:
            yield from _above("rounds", rounds, self.max_rounds, guest)
        yield from _above("bits", bits if type(bits) is int else ROUNDS_BITS, self.max_bits, guest)


def _above(key: str, asked: float, limit: float | None, guest: str) -> Iterator[str]:
    if limit is not None and asked > limit:
        shown = f"{asked:.6g}" if isinstance(asked, float) else str(asked)[:20]
        yield f"{key} {shown} is above the {limit} that {guest} allows (max_{key})"


def _rows_above(asked: int | None, key: str, limit: int, guest: str) -> Iterator[str]:
    if asked is None:
        yield f"it does not say about how many rows it is, and {guest} allows {limit} at once (max_{key}_rows)"
    elif asked > limit:
        yield f"it is about {asked} rows, and {guest} allows {limit} at once (max_{key}_rows)"


def _count_rows(data: bytes | None) -> int | None:
    try:
        return None if data is None else len(alignment.AgreedRows.from_bytes(data).keys)
    except MessageError:
        return None


def _count_points(data: bytes | None) -> int | None:
    try:
        return None if data is None else len(alignment.Request.from_bytes(data).points)
    except MessageError:
        return None


def _listed(names: Collection[str], most: int = 10) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, list(names)[:most])) + more
