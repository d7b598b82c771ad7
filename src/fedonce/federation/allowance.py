"""What a guest's policy still allows, after all that its record says it has answered.

The reasons go to the host: they say what was counted and the guest's limit, and nothing of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from fedonce.federation.policy import Policy
from fedonce.federation.record import Entry, Tally, of_run
from fedonce.federation.request import Request

YEAR = timedelta(days=365)
LAST = 5  # answers that are shown
ANSWERED = ("learn", "represent", "align", "tuned")


def refuse_learning(policy: Policy, tally: Tally, request: Request) -> str | None:
    """Return why a learning may not begin.

    One that answered before may: what it gives is the same again, or counted when it is there. One with a privacy budget may not:
    its noise would be drawn afresh.
    """
    if request.plan is not None and (spent := _spent(tally, request)) is not None:
        return spent
    if tally.has_model(request.fingerprint):
        return None
    return next(_beyond(policy, tally, request, request.dim), None)


def refuse_answer(policy: Policy, tally: Tally, request: Request, dim: int) -> str | None:
    """Return why a message that was learnt, and that the record does not have yet, may not leave."""
    if request.plan is not None and (spent := _spent(tally, request, but=request.fingerprint)) is not None:
        return spent
    return next(_beyond(policy, tally, request, dim), None)


def refuse_rounds(policy: Policy, tally: Tally, request: Request, more: int) -> str | None:
    """Return why there may not be so many more rounds."""
    done = tally.rounds(request.run)
    if done + more <= policy.max_rounds:
        return None
    return (
        f"there were {done} rounds in run {request.run!r}, {more} more are wanted, and {request.guest} allows "
        f"{policy.max_rounds} in a run, with those of tries that broke off (max_rounds)"
    )


def refuse_values(policy: Policy, tally: Tally, guest: str, dim: int) -> str | None:
    """Return why so many more values of a row may not leave."""
    total = tally.values_per_row + dim
    if total <= policy.max_values_per_row:
        return None
    return (
        f"with these {dim} {guest} would have sent {total} values per row, over all runs, and allows "
        f"{policy.max_values_per_row} (max_values_per_row)"
    )


def _spent(tally: Tally, request: Request, but: str = "") -> str | None:
    """Say so where a privacy budget was spent in the run, `but` by a learning of this fingerprint that has just ended.

    Another message with new noise would be spent again.
    """
    spent = [each for each in of_run(tally.learnings(but), request.run) if each.epsilon is not None]
    if not spent:
        return None
    if request.fingerprint in tally.open:
        how = "by a learning that did not get to its end, whose noise would be drawn afresh"
    elif any(each.fingerprint == request.fingerprint for each in spent):
        how = "and no longer has the message"
    else:
        how = "with other settings"
    return f"{request.guest} has spent a privacy budget in run {request.run!r} already, {how}; name another run"


def _beyond(policy: Policy, tally: Tally, request: Request, dim: int) -> Iterator[str]:
    """Give the limits that one more learning would pass."""
    guest, before = request.guest, tally.learnings(but=request.fingerprint)
    in_run, in_year = len(of_run(before, request.run)), len(within_a_year(before))
    if in_run >= policy.max_learnings:
        yield (
            f"{guest} has learnt {_times(in_run)} in run {request.run!r}, and allows {_times(policy.max_learnings)} in a run "
            "(max_learnings); ask for the same as before, which it sends again, or name another run"
        )
    if in_year >= policy.max_learnings_per_year:
        yield (
            f"{guest} has learnt {_times(in_year)} in 365 days, and allows {_times(policy.max_learnings_per_year)} over all runs "
            "(max_learnings_per_year)"
        )
    reason = refuse_values(policy, tally, guest, dim)
    if reason is not None:
        yield reason


def within_a_year(entries: Sequence[Entry], now: datetime | None = None) -> list[Entry]:
    """Return the lines of the last 365 days; those of a clock that was ahead, too."""
    begin = (datetime.now(UTC) if now is None else now) - YEAR
    return [entry for entry in entries if _time(entry) > begin]


def _time(entry: Entry) -> datetime:
    found = datetime.fromisoformat(entry.time)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def as_json(policy: Policy, tally: Tally, local_epsilon: float = 0.0) -> dict[str, Any]:
    """Return how much of the policy's allowance is used, as JSON values, for the guest's own eyes.

    `local_epsilon` is the most that the answers of a year cost one row.
    """
    learnt = tally.learnings()
    runs = {run: {"learnings": len(of_run(learnt, run)), "rounds": tally.rounds(run)} for run in tally.runs()}
    return {
        "learnings": len(within_a_year(learnt)),
        "max_learnings_per_year": policy.max_learnings_per_year,
        "runs": runs,
        "max_learnings": policy.max_learnings,
        "max_rounds": policy.max_rounds,
        "values_per_row": tally.values_per_row,
        "max_values_per_row": policy.max_values_per_row,
        "local_epsilon_per_row": local_epsilon,
        "max_local_epsilon": policy.max_local_epsilon,
        "last": [_shown(entry) for entry in tally.entries if entry.what in ANSWERED][-LAST:],
    }


def _shown(entry: Entry) -> dict[str, Any]:
    names = ("time", "what", "run", "rows", "dim", "bits", "bytes", "rebuilt", "hints")
    return {name: getattr(entry, name) for name in names}
