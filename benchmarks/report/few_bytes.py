"""Few bytes: how good the one message is where it may take so many bytes for each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.report.figures import (
    Line,
    Point,
    by_data,
    look,
    mean_cell,
    message_bytes,
    pick,
    results,
    table,
    times,
    title,
)
from benchmarks.report.frontier import Frontier, frontiers


@dataclass(frozen=True)
class Few:
    """The runs of one data set, and what stands beside them: messages that are not coded, larger networks, and SplitNN."""

    lines: Sequence[Line]
    beside: Frontier | None
    larger: Sequence[Line] = ()

    @property
    def name(self) -> str:
        """Name of its picture."""
        first = self.lines[0]
        return "few_bytes-" + "-".join([first["data"], *first["loader"].values()])

    def groups(self) -> Iterator[tuple[str, str, list[tuple[float, list[Line]]]]]:
        """Yield each learner and host model with its runs by bytes, fewest first."""
        ways = dict.fromkeys((look(line, "learner"), look(line, "model")) for line in self.lines)
        for learner, model in ways:
            runs = pick(self.lines, learner=learner, model=model)
            asked = sorted({look(line, "bytes_per_row") for line in runs})
            yield learner, model, [(each, pick(runs, bytes_per_row=each)) for each in asked]

    def plain(self) -> list[tuple[float, float]]:
        """Return bytes and means of principal components of 8 bits that are not coded."""
        sizes = [] if self.beside is None else self.beside.sizes
        return [(size.bytes, size.mean) for size in sizes if (size.method, size.bits) == ("FedOnce-PCA", 8)]


def found() -> list[Few]:
    """Return what is known of each data set."""
    others = {
        (each.lines[0]["data"], tuple(each.lines[0]["loader"].values())): each for each in frontiers() if each.lines
    }
    return [
        Few(
            list(lines),
            others.get((lines[0]["data"], tuple(lines[0]["loader"].values()))),
            pick(results("hints"), data=lines[0]["data"]),
        )
        for lines in by_data(results("few_bytes")).values()
    ]


def section() -> str:
    """Return a picture and a table for each data set."""
    return "\n\n".join(_section(each) for each in found())


def summary() -> str:
    """Return a table of what a byte per row and guest, or less, is good for."""
    rows = [[title(few.lines[0]), *row] for few in found() for row in _rows(few, most=1.0)]
    return table(["data (parties)", *HEAD], rows)


HEAD = (
    "`bytes_per_row`",
    "bytes per row and guest, all in",
    "learner",
    "host model",
    "accuracy or error",
    "seeds",
    "SplitNN needs, times the bytes",
)


def _rows(few: Few, most: float) -> list[list[str]]:
    """Return a row for each learner, host model and number of bytes, up to so many."""
    rows = []
    for learner, model, by_bytes in few.groups():
        for asked, runs in by_bytes:
            if asked > most:
                continue
            sent, mean = message_bytes(runs), float(np.mean([line["value"] for line in runs]))
            split = few.beside.split if few.beside is not None else []
            more = times(split, Point(sent, mean, 0.0, {}), runs[0]["metric"]) if split else "-"
            used = ", ".join(sorted({name for line in runs for name in line["learners"]}))
            what = f"{learner} ({used})" if learner == "auto" else learner
            rows.append([f"{asked:g}", f"{sent:.2f}", what, model, mean_cell(runs), str(len(runs)), more])
    return rows


def _section(few: Few) -> str:
    name = title(few.lines[0])
    picture = f"![{name}: accuracy or error against bytes](results/{few.name}.png)"
    return f"### {name}, few bytes\n\n{picture}\n\n{table(list(HEAD), _rows(few, most=np.inf))}"
