"""What anybody reads in a message who knows no row at all, and what control attacks find: the table of docs/leakage.md.

    python -m benchmarks.attacks [--part shop] [--out FILE]

Parts: `shop` (the table of examples/two_departments), `phishing`, `covtype` (real data, in FEDONCE_DATA), `held-out` (the
example's other tables), `mixed` (real data of mixed types that no setting of the attacks was chosen on: covtype's numbers, its
wilderness areas as a category, its rarest soils as flags), `rare` (flags with few ones), `controls` (where nothing is to be
found), `rounds` (labels, by what a guest receives in rounds), `hints` (labels, by what a guest is told of them). A JSON line for
each figure.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from benchmarks.columns import select
from benchmarks.data import fetch
from benchmarks.run import parties_of
from fedonce import Guest, Hinting, Host, Representation, Rounds, protocol, read_table
from fedonce.assess import Leakage, what_leaks
from fedonce.assess.attacks.hints import LabelsFromHints
from fedonce.assess.attacks.spans import candidates
from fedonce.data.table import Table
from fedonce.engine.local import LocalEngine
from fedonce.party.hinting import publish
from fedonce.rounds.guest import GuestSide

EXAMPLE = Path(__file__).parents[1] / "examples" / "two_departments" / "make_tables.py"
NUMBERS = (
    "visits",
    "basket",
    "returned",
    "newsletter",
)  # of the shop: with these, eight values carry all that there is
ZERO = ["yes/no columns"]
RARE = 0.01  # of a yes/no column: below, guessing is all but right
EXACT = 0.9999
FEWEST_RARE = 2  # rows with a flag: one row is an outlier


def attacked(guest: Guest, table: Any, attacks: Any = "quick") -> tuple[Leakage, float]:
    """Let a guest learn, attack its message, and say how long the attack took."""
    values = guest.learn(table).values
    own = table if isinstance(table, Table) else Table.of(table)
    begun = time.perf_counter()
    found = what_leaks(values, own, attacks, learner=guest.learner_name)
    return found, time.perf_counter() - begun


def example(folder: Path, party: str, id_column: str, ending: str = "csv") -> Table:
    """Return a table of the example, without its ids: rows then keep their order."""
    return replace(read_table(folder / party / f"{party}.{ending}", id=id_column, party=party), ids=None)


def chosen(table: Table, names: tuple[str, ...]) -> Table:
    """Return some columns."""
    return table.select([table.names.index(name) for name in names])


def shop(folder: Path) -> Iterator[dict[str, Any]]:
    """Attack the shop's messages: `newsletter` in all its columns, `pays_by` where the values carry it."""
    whole = example(folder, "shop", "client_no")
    settings = [("pca", 8, 8), ("pca", 8, 4), ("pca", 4, 8), ("autoencoder", 8, 8), ("nat", 8, 8), ("random", 8, 8)]
    for learner, dim, bits in settings:
        found, seconds = attacked(Guest("shop", learner, dim, bits, random_state=0), whole, ZERO)
        yield _line(f"shop, {learner} {dim}x{bits}", found, seconds, "newsletter")
    protected: list[tuple[str, dict[str, Any]]] = [
        ("cells", {"learner": "cells"}),
        ("pca, 1 byte per row", {"learner": "pca", "bytes_per_row": 1.0}),
        ("pca, noise 0.1", {"learner": "pca", "noise": 0.1}),
        ("pca, noise 0.3", {"learner": "pca", "noise": 0.3}),
    ]
    for what, options in protected:
        found, seconds = attacked(Guest("shop", dim=8, random_state=0, **options), whole, ZERO)
        yield _line(f"shop, {what}", found, seconds, "newsletter")
    for dim, bits in ((8, 8), (8, 4), (4, 8)):
        part = chosen(whole, (*NUMBERS, "pays_by"))
        found, seconds = attacked(Guest("shop", "pca", dim, bits, random_state=0), part, ZERO)
        yield _line(f"shop, five columns, pca {dim}x{bits}", found, seconds, "pays_by")


def _line(what: str, found: Leakage, seconds: float, column: str) -> dict[str, Any]:
    each = next(each for each in found.findings if each.column == column and each.kind != "missing")
    score, control = 100 * (each.score or 0), 100 * (each.control or 0)
    return {
        "what": what,
        "column": column,
        "right": score,
        "guess": 100 * each.guess,
        "control": control,
        "seconds": seconds,
    }


def real(name: str, dims: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """Attack every guest of a data set: its yes/no columns whose rarer value is in more than one row of a hundred."""
    data = fetch(name, {})
    guests = list(parties_of(data, {}).items())[1:]
    for dim in dims:
        findings, seconds = [], 0.0
        for party, columns in guests:
            rows = np.asarray(select(data.data, list(columns)))
            found, took = attacked(Guest(party, "pca", dim, 8, random_state=0), rows, ZERO)
            findings += [each for each in found.findings if each.kind == "boolean" and each.guess < 1 - RARE]
            seconds += took
        scores = np.array([each.score for each in findings], float)
        yield {
            "what": f"{name}, {len(guests)} guests, pca {dim}x8",
            "columns": len(findings),
            "exact": int((scores >= EXACT).sum()),
            "right": 100 * float(scores.mean()),
            "guess": 100 * float(np.mean([each.guess for each in findings])),
            "control": 100 * float(np.mean([each.control or 0 for each in findings])),
            "seconds": seconds,
        }


def held_out(folder: Path) -> Iterator[dict[str, Any]]:
    """Attack the example's other tables, of mixed types, with the quick set; a line for each column."""
    tables = {
        "utility": example(folder, "utility", "customer", "parquet"),
        "bank": chosen(
            whole := example(folder, "bank", "customer"), tuple(name for name in whole.names if name != "repaid")
        ),
    }
    for party, table in tables.items():
        yield from _verdicts(f"{party}, pca 8x8", *attacked(Guest(party, "pca", 8, 8, random_state=0), table))


def _verdicts(what: str, found: Leakage, seconds: float) -> Iterator[dict[str, Any]]:
    for each in found.columns:
        assert each.finding is not None
        yield {
            "what": what,
            "column": each.column,
            "verdict": each.verdict,
            "by": each.finding.told_by,
            "right": each.finding.figure,
            "guess": each.finding.guessed,
            "seconds": seconds,
        }


def mixed(folder: Path) -> Iterator[dict[str, Any]]:
    """Attack covtype's numbers with its wilderness areas as one category, and with its rarest soils, with the quick set."""
    rows = np.asarray(fetch("covtype", {}).data)
    soils = rows[:, 14:]
    counts = soils.sum(axis=0)
    rarest = [int(j) for j in np.argsort(counts, kind="stable") if counts[j] >= FEWEST_RARE][:3]
    numbers = {f"number {j}": rows[:, j] for j in range(10)}
    area = {"wilderness": np.array(["a", "b", "c", "d"], dtype=object)[rows[:, 10:14].argmax(axis=1)]}
    flags = {f"soil {j}, {int(counts[j])} rows": soils[:, j] > 0.5 for j in rarest}
    few = {name: numbers[name] for name in ("number 0", "number 5", "number 9")}
    for what, columns in (("numbers and areas", numbers | area), ("three numbers and rare soils", few | flags)):
        table = Table(tuple(columns), named=True, columns=tuple(columns.values()))
        for settings in ({"dim": 8}, {"dim": 2}, {"dim": 8, "protect": "cells:20"}):
            told = ", ".join(f"{name} {value}" for name, value in settings.items())
            yield from _verdicts(
                f"covtype, {what}, {told}", *attacked(Guest("guest", random_state=0, **settings), table)
            )


def rare(folder: Path) -> Iterator[dict[str, Any]]:
    """Attack messages of a clinic, few of whose rows have a flag, and count in how many of 20 runs it is readable."""
    for n, ones in ((4000, 2), (4000, 4), (4000, 8), (20_000, 10)):
        verdicts = []
        for seed in range(20):
            rng = np.random.default_rng(seed)
            columns = {
                "age": rng.integers(18, 90, n),
                "income": np.round(rng.lognormal(10, 0.5, n)),
                "visits": rng.poisson(3, n),
                "married": rng.random(n) < 0.5,
                "ill": rng.permutation(n) < ones,
            }
            table = Table(tuple(columns), named=True, columns=tuple(columns.values()))
            found = attacked(Guest("clinic", dim=8, random_state=seed), table, ZERO)[0]
            verdicts.append(found.columns[-1].verdict)
        yield {"what": f"clinic, {ones} of {n} rows ill", "readable": verdicts.count("readable"), "runs": len(verdicts)}


def random_table(rng: np.random.Generator, n: int = 1000) -> Table:
    """Return a table of numbers, yes/no columns, categories and gaps, all by chance."""
    columns: dict[str, NDArray[Any]] = {}
    for j in range(3):
        columns[f"number {j}"] = rng.standard_normal(n) if rng.random() < 0.5 else rng.lognormal(size=n)
        columns[f"flag {j}"] = rng.random(n) < rng.uniform(0.05, 0.95)
        kinds = np.array([f"kind {k}" for k in range(rng.integers(3, 8))], dtype=object)
        columns[f"category {j}"] = kinds[rng.integers(0, len(kinds), n)]
    columns["gaps"] = np.where(rng.random(n) < 0.1, np.nan, rng.standard_normal(n))
    return Table(tuple(columns), named=True, columns=tuple(columns.values()))


def controls(folder: Path, tables: int = 50) -> Iterator[dict[str, Any]]:
    """Attack where nothing is to be found: values without structure, messages of other tables, rows in another order."""
    rng = np.random.default_rng(7)
    counts = [len(candidates(rng.standard_normal((5000, 8)), rng)) for _ in range(10)]
    yield {"what": "8 Gaussian columns, 10 draws", "candidates": sum(counts)}
    readable = columns = 0
    for _ in range(tables):
        sent = Guest("other", "pca", 8, 8, random_state=0).learn(random_table(rng)).values
        found = what_leaks(sent, random_table(rng))
        readable, columns = readable + len(found.with_verdict("readable")), columns + len(found.columns)
    yield {"what": f"messages of other tables, {tables} times", "readable": readable, "columns": columns}
    table = example(folder, "shop", "client_no")
    values = Guest("shop", "pca", 8, 8, random_state=0).learn(table).values
    found = what_leaks(values[rng.permutation(len(values))], table)
    yield {
        "what": "the shop's message, rows shuffled",
        "readable": len(found.with_verdict("readable")),
        "columns": len(found.columns),
    }


def rounds(folder: Path) -> Iterator[dict[str, Any]]:
    """Let a guest of phishing take part in an epoch of rounds, and attack the labels by what it received."""
    data = fetch("phishing", {})
    host, guest = (np.asarray(select(data.data, list(columns))) for columns in list(parties_of(data, {}).values())[:2])
    labels = np.asarray(data.target)
    received = np.zeros((len(labels), 3))
    plain = GuestSide.backward

    def noted(side: GuestSide, gradient: bytes) -> None:
        assert side.batch is not None
        received[side.batch] = Representation.from_bytes(gradient).values
        plain(side, gradient)

    for start in ("one-shot", "random"):
        engine = LocalEngine({"guest": Guest("guest", "pca", 3, 32, random_state=0)}, {"guest": Table.of(guest)}, {})
        with patch.object(GuestSide, "backward", noted):
            protocol.fit(Host("host", epochs=5, random_state=0), host, labels, engine, Rounds(epochs=1, start=start))
        values = engine.parties["guest"].represent(guest).values
        found = what_leaks(
            values, Table.of(guest), ["labels from gradients"], gradients=received, labels=labels
        ).findings
        for each in found:
            yield {
                "what": f"phishing, one guest of 3 values, an epoch of rounds, {start} start",
                "way": each.way,
                "knows": each.knows,
                "right": 100 * (each.score or 0),
                "guess": 100 * each.guess,
                "control": 100 * (each.control or 0),
            }


def hints(folder: Path) -> Iterator[dict[str, Any]]:
    """Hint at the labels of phishing, and attack them by what the same guest then has."""
    data = fetch("phishing", {})
    _, guest = (np.asarray(select(data.data, list(columns))) for columns in list(parties_of(data, {}).values())[:2])
    labels = np.asarray(data.target)
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        told = publish(labels, Hinting(epsilon), key=bytes(32), party="host")  # the same noise each time, for the table
        values = Guest("guest", "hinted", 3, random_state=0).learn(guest, hints=told).values
        more = {"hints": told.answers, "labels": labels}
        for each in what_leaks(values, Table.of(guest), [LabelsFromHints(epsilon)], **more).findings:
            yield {
                "what": f"phishing, one guest of 3 values, hints with epsilon {epsilon:g}",
                "way": each.way,
                "right": 100 * (each.score or 0),
                "guess": 100 * each.guess,
                "control": 100 * (each.control or 0),
                "note": each.note,
            }


def main() -> None:
    parts: dict[str, Callable[[Path], Iterator[dict[str, Any]]]] = {
        "shop": shop,
        "phishing": lambda folder: real("phishing", (8, 3)),
        "covtype": lambda folder: real("covtype", (3,)),
        "held-out": held_out,
        "mixed": mixed,
        "rare": rare,
        "controls": controls,
        "rounds": rounds,
        "hints": hints,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=parts)
    parser.add_argument("--out", type=Path, help="JSON lines are added to this file, too.")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as made:
        subprocess.run([sys.executable, str(EXAMPLE), made], check=True)
        for name in [asked.part] if asked.part else parts:
            for line in parts[name](Path(made)):
                text = json.dumps({"part": name, **line}, ensure_ascii=False)
                print(text, flush=True)
                if asked.out is not None:
                    with asked.out.open("a", encoding="utf-8") as file:
                        file.write(text + "\n")


if __name__ == "__main__":
    main()
