"""The report's sections, one an experiment: a table, a picture, and what to make of them."""

from __future__ import annotations

from benchmarks.report import (
    calibration,
    communication,
    few_bytes,
    frontier,
    hints,
    host_models,
    leakage,
    local,
    performance,
    private,
    times,
    unsupervised,
    varied,
    whoever,
)

SECTIONS = {
    "methods": performance.methods,
    "performance": performance.performance,
    "communication": communication.communication,
    "cifar10": communication.cifar10,
    "frontier": frontier.section,
    "few_bytes": few_bytes.section,
    "whoever": whoever.section,
    "hints": hints.section,
    "unsupervised": unsupervised.unsupervised,
    "host_models": host_models.section,
    "dimension": varied.dimension,
    "parties": varied.parties,
    "biased": varied.biased,
    "noise": varied.noise,
    "local": local.section,
    "leakage": leakage.section,
    "laggy": varied.laggy,
    "absent": varied.absent,
    "calibration": calibration.section,
    "time": times.time,
    "private": private.section,
}
