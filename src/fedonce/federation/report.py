"""What a training and a prediction over a federation came to: the job's own report, and where each guest stood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedonce.federation.hinting import Hinted
from fedonce.federation.status import GuestStatus
from fedonce.jobs import EvaluationReport, ExplanationReport, HostReport, PredictionReport
from fedonce.jobs.predict import Predicted


@dataclass(frozen=True)
class FederationReport:
    """What a training over a federation came to."""

    training: HostReport
    statuses: Mapping[str, GuestStatus]
    lost: Mapping[str, str]
    aligned: Mapping[str, GuestStatus]
    hinted: Hinted | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        figures, traffic = self.training.as_json(), self.training.fitted.traffic
        heard = (*self.statuses.values(), *self.aligned.values())
        return figures | {
            "took part": list(traffic.per_guest),
            **_by_state(self.statuses),
            "lost in rounds": dict(self.lost),
            "guests": {name: self._of_guest(status) for name, status in self.statuses.items()},
            "bytes to guests": traffic.bytes_to_guests,
            "rounds": traffic.rounds,
            "hinted": None if self.hinted is None else self.hinted.as_json(),
            "alignment bytes": sum(status.bytes or 0 for status in self.aligned.values()),
            "wire bytes": sum(status.wire or 0 for status in heard),
        }

    def _of_guest(self, status: GuestStatus) -> dict[str, Any]:
        fitted = self.training.fitted
        sent = fitted.representations.get(status.guest)
        return {
            "state": status.state,
            "overlap": fitted.overlap.get(status.guest, 0.0),
            "bytes": fitted.traffic.per_guest.get(status.guest, 0),
            "payload bytes": 0 if sent is None else sent.payload_bytes,
            "wire bytes": status.wire,
            "seconds": status.seconds,
            "waited": status.waited,
            "jobs": status.tries,
        }


@dataclass(frozen=True)
class Answered:
    """What was predicted over a federation, whether it is good enough or not, and how guests answered."""

    predicted: Predicted
    statuses: Mapping[str, GuestStatus]

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        traffic = self.predicted.prediction.traffic
        return self.predicted.as_json() | {
            **_by_state(self.statuses),
            "seconds": {name: status.seconds for name, status in self.statuses.items()},
            "messages": traffic.messages,
            "bytes": traffic.bytes,
            "payload bytes": traffic.payload_bytes,
            "wire bytes": sum(status.wire or 0 for status in self.statuses.values()),
        }


@dataclass(frozen=True)
class FederationPrediction:
    """What a prediction over a federation came to: a file of predictions, scores, or what each party is worth."""

    written: PredictionReport | EvaluationReport | ExplanationReport
    answered: Answered

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return self.answered.as_json() | self.written.as_json() | _by_state(self.answered.statuses)


def _by_state(statuses: Mapping[str, GuestStatus]) -> dict[str, Any]:
    late = [status for status in statuses.values() if status.state == "late"]
    return {
        "late": [status.guest for status in late],
        "refused": {name: status.reason for name, status in statuses.items() if status.state == "refused"},
        "failed": {status.guest: status.reason for status in late if status.reason},
    }
