"""The mechanisms that answer for each row, put to the test of `measures.answers`: local epsilon and hints.

Each function is given an epsilon, asks its mechanism about many rows with a fresh secret, and returns the rows' true values and
the values that each answer speaks for.
"""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedonce.assess.audit import measures
from fedonce.assess.audit.measures import Ints, Measured
from fedonce.data.table import Table
from fedonce.learners import Hinted
from fedonce.messages.hints import LEAST_EPSILON, Hinting
from fedonce.party import Guest
from fedonce.party.hinting import KEY_BYTES, hints_of, publish
from fedonce.privacy import local_epsilon
from fedonce.privacy.local_epsilon import LocalEpsilon
from fedonce.rows.ids import Naming
from fedonce.training.loop import Rows

ROWS = 50_000  # that a mechanism is asked about
HINTED = 20_000  # labels that are hinted at
CELLS, CLASSES = 16, 10
ASKED = 3  # times that a row is asked about


def check_answers(rows: Rows, epsilon: float, seed: int = 0) -> list[Measured]:
    """Test all mechanisms that answer for each row.

    Parameters
    ----------
    rows : array
        Prepared rows, for an encoder that is trained on hints.
    epsilon : float
        What each answer claims; hints, at least the least that they may have.
    seed : int
        Of the rows; the answers' randomness comes from fresh secrets.
    """
    hinted = max(epsilon, LEAST_EPSILON)
    return [
        measures.answers(f"local epsilon, asked for {ASKED} times", local_answers, epsilon, seed),
        measures.answers("local epsilon, rows without ids", local_answers_once, epsilon, seed),
        measures.answers(f"hints, asked for {ASKED} times", hint_answers, hinted, seed),
        measures.guesses(
            "hints, by an encoder trained on them", lambda own: encoder_guesses(rows, own, seed), hinted, CLASSES
        ),
    ]


def local_answers(epsilon: float) -> tuple[Ints, NDArray[np.bool_]]:
    """Return cells drawn evenly, and the cells that all answers about a row speak for when it is asked about several times."""
    truth = _truth(CELLS, ROWS)
    made = LocalEpsilon(epsilon, CELLS, secrets.token_bytes(local_epsilon.KEY_BYTES))
    names = [f"row {row}" for row in range(ROWS)]
    marks = [made.answers(truth[:, None].astype(np.float32), names, "audit") for _ in range(ASKED)]
    return truth, np.all([each > 0 for each in marks], axis=0)


def local_answers_once(epsilon: float) -> tuple[Ints, NDArray[np.bool_]]:
    """Return cells drawn evenly, and the cells that an answer speaks for, where rows have no ids."""
    truth = _truth(CELLS, ROWS)
    made = LocalEpsilon(epsilon, CELLS, secrets.token_bytes(local_epsilon.KEY_BYTES))
    return truth, made.answers(truth[:, None].astype(np.float32), None, "audit") > 0


def hint_answers(epsilon: float) -> tuple[Ints, NDArray[np.bool_]]:
    """Return labels drawn evenly, and the answers that come most often when hints at them are published several times."""
    labels = _truth(CLASSES, HINTED)
    ids, key = np.array([f"row {row}" for row in range(len(labels))], dtype=object), secrets.token_bytes(KEY_BYTES)
    naming, hinting = Naming("plain"), Hinting(epsilon, classes=list(range(CLASSES)))
    rows = Table(("none",), True, columns=(np.zeros(len(labels)),), ids=ids)
    counts = np.zeros((len(labels), CLASSES))
    for _ in range(ASKED):
        hints = publish(labels, hinting, ids=ids, naming=naming, key=key)
        np.add.at(counts, (np.arange(len(labels)), hints_of(hints, rows, None, naming, None, "shop", "local")), 1)
    return labels, counts == counts.max(axis=1, keepdims=True)


def encoder_guesses(rows: Rows, epsilon: float, seed: int = 0) -> NDArray[np.bool_]:
    """Return which labels are guessed rightly from an encoder's values, its hints, and half of the labels.

    Labels are drawn evenly, so that rows have nothing to do with them: what can be guessed, the encoder has memorised.
    """
    labels = _truth(CLASSES, len(rows))
    hints = publish(labels, Hinting(epsilon, classes=list(range(CLASSES))))
    message = Guest("shop", Hinted(base="pca", share=1.0, epochs=20), 8, random_state=seed).learn(rows, hints=hints)
    seen = np.hstack([message.values, np.eye(hints.classes)[hints.answers]])
    known = np.arange(len(labels)) % 2 == 0
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(seen[known], labels[known])
    return np.asarray(model.predict(seen[~known]) == labels[~known])


def _truth(values: int, rows: int) -> Ints:
    return np.random.default_rng().integers(0, values, rows)
