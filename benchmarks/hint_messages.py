"""What a message of so many bytes is best made of, where labels are hinted at: on validation rows of images, one split.

    python -m benchmarks.hint_messages fashion-mnist --epsilon 2 [--by-hints 0 4 9] [--values 16 32 48] [--bytes 16] [--epochs 7]
                                       [--seed 0] [--bfloat16]

A line for each number of values by hints, and of values in all, in benchmarks/results/hint_messages.jsonl: the accuracy in % on a
fifth of the training rows. Guests learn as they do in the product, but without a trial, and each kind of values once, of which
messages are then put together and rounded as they would be sent. The host's network is trained for a third of its epochs:
compare messages with each other, and not with other tables. On a core of a processor with instructions for bfloat16 an encoder
takes some two minutes, and a host's network one.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import store
from benchmarks.data import fetch
from benchmarks.problem import Problem
from benchmarks.rows import scored_on
from benchmarks.run import parties_of
from fedonce import Hinting, Host
from fedonce.learners import Hinted, Patches
from fedonce.learners.hint_encoder import Told, in_bytes, train
from fedonce.messages.codecs import find
from fedonce.messages.codecs.budget import within
from fedonce.messages.representation import Representation, row_digest
from fedonce.party.hinting import publish
from fedonce.training.loop import apply

RESULTS = store.RESULTS / "hint_messages.jsonl"
CPU = torch.device("cpu")
Values = NDArray[np.float32]
Pair = tuple[Values, Values]  # of the rows that are learnt from, and of those that are scored


def split_of(name: str, seed: int) -> Problem:
    """Return four fifths of the training rows to learn from, and a fifth to be scored."""
    data = scored_on("validation", fetch(name, {}), seed)
    parties = parties_of(data, {})
    return Problem(data, parties, next(iter(parties)), *data.split(seed))


def images(problem: Problem, guest: str) -> Pair:
    """Return a guest's part of the images, brightness from 0 to 1."""
    shape = problem.shape(guest) or ()
    parts = [np.asarray(problem.table(guest, test), np.float32).reshape(-1, *shape) for test in (False, True)]
    return parts[0] / parts[0].max(), parts[1] / parts[0].max()


def by_hints(rows: Pair, told: Told, width: int, seed: int) -> Pair:
    """Return values that are learnt from noisy labels."""
    learner = Hinted()
    torch.manual_seed(seed)
    network = learner.build(rows[0].shape[1:], width)
    train(network, rows[0], told, width, learner.training(len(rows[0])), np.random.default_rng(seed))
    network.eval()
    return apply(network, rows[0], CPU), apply(network, rows[1], CPU)


def without(rows: Pair, most: int, seed: int) -> Pair:
    """Return values that are learnt without labels, those first that vary most."""
    learner = Patches()
    learner.fit(rows[0], most, np.random.default_rng(seed), CPU)
    return learner.transform(rows[0], CPU), learner.transform(rows[1], CPU)


def sent(learnt: Pair | None, rest: Pair, bytes_per_row: float) -> Pair:
    """Return both kinds of values side by side, as a message of so many bytes holds them."""
    steps = within(rest[0], bytes_per_row) if learnt is None else in_bytes(learnt[0], rest[0], bytes_per_row)
    whole = [part if learnt is None else np.hstack([learnt[side], part]) for side, part in enumerate(rest)]
    known = steps.levels > 0
    return steps.rounded(whole[0])[:, known], steps.rounded(whole[1])[:, known]


def score(problem: Problem, values: dict[str, Pair], epochs: int, seed: int) -> float:
    """Train the host's network on messages, and return its accuracy in %."""
    host = Host(
        problem.host,
        problem.data.task,
        "large",
        epochs,
        problem.shape(problem.host),
        random_state=seed,
        device="cpu",
        model="network",
        validate=False,
    )
    messages = [
        [Representation.encode(part, find(32)(), guest, rows=row_digest(len(part))) for guest, part in side]
        for side in ([(guest, pair[place]) for guest, pair in values.items()] for place in (0, 1))
    ]
    host.aggregate(problem.table(problem.host), problem.y, messages[0])
    return problem.score(host.predict(problem.table(problem.host, test=True), messages[1]))


def lines(given: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Yield what each message gives."""
    problem = split_of(given.data, given.seed)
    hints = publish(problem.y, Hinting(given.epsilon, label="the label"), party=problem.host)
    told = Told(hints.answers.astype(np.int64), hints.classes, given.epsilon)
    rows = {guest: images(problem, guest) for guest in problem.guests}
    rest = {guest: without(pair, max(given.values), given.seed) for guest, pair in rows.items()}
    for width in given.by_hints:
        learnt = {guest: by_hints(pair, told, width, given.seed) if width else None for guest, pair in rows.items()}
        for count in given.values:
            messages = {
                guest: sent(learnt[guest], (pair[0][:, : count - width], pair[1][:, : count - width]), given.bytes)
                for guest, pair in rest.items()
            }
            yield {
                "data": given.data,
                "seed": given.seed,
                "epsilon": given.epsilon,
                "bytes_per_row": given.bytes,
                "epochs": given.epochs,
                "by_hints": width,
                "values": count,
                "sent": [pair[0].shape[1] for pair in messages.values()],
                "accuracy": round(score(problem, messages, given.epochs, given.seed), 2),
                **store.origin("cpu"),
            }


def main() -> None:
    """Keep and print a line for each message."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", choices=["mnist", "fashion-mnist", "kmnist", "cifar10"])
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--by-hints", type=int, nargs="+", default=[0, 4, 9])
    parser.add_argument("--values", type=int, nargs="+", default=[16, 32, 48], help="of a message, in all")
    parser.add_argument("--bytes", type=float, default=16.0)
    parser.add_argument("--epochs", type=int, default=7, help="of the host's network")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bfloat16", action="store_true", help="train in numbers of half the length")
    given = parser.parse_args()
    with store.mixed_precision(given.bfloat16):
        for line in lines(given):
            store.append(RESULTS, line)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
