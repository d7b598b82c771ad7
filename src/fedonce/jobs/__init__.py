"""Jobs: what a guest and a host do from tables in files to a message, a model or predictions, each with one report.

The commands, the federation and Python all run these.
"""

from fedonce.jobs.explain import ExplainJob, ExplanationReport
from fedonce.jobs.guest import GuestJob, GuestReport, MessageReport, RepresentJob
from fedonce.jobs.hint import HintJob, HintReport, HintsFile
from fedonce.jobs.host import HostJob, HostReport
from fedonce.jobs.incoming import Incoming, Limits
from fedonce.jobs.leakage import LeakageJob, LeakageReport
from fedonce.jobs.predict import (
    Care,
    EvaluateJob,
    EvaluationReport,
    ModelRows,
    PredictionReport,
    PredictJob,
)
from fedonce.jobs.sealing import Sealing
from fedonce.jobs.settings import Fitting, GuestBudget, HostBudget, Learning, RowNames
from fedonce.jobs.tables import TableSource

__all__ = [
    "Care",
    "EvaluateJob",
    "EvaluationReport",
    "ExplainJob",
    "ExplanationReport",
    "Fitting",
    "GuestBudget",
    "GuestJob",
    "GuestReport",
    "HintJob",
    "HintReport",
    "HintsFile",
    "HostBudget",
    "HostJob",
    "HostReport",
    "Incoming",
    "LeakageJob",
    "LeakageReport",
    "Learning",
    "Limits",
    "MessageReport",
    "ModelRows",
    "PredictJob",
    "PredictionReport",
    "RepresentJob",
    "RowNames",
    "Sealing",
    "TableSource",
]
