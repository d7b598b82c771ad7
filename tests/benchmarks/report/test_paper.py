"""`benchmarks/report/paper.toml` against the paper's own text, number by number, where FEDONCE_PAPER names its source."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest

from benchmarks.report import paper
from benchmarks.report.paper import Number
from fedonce import InputError
from fedonce.datasets import SOURCES

TABLES = ("tab:train_time", "tab:exp_dp_perf", "tab:apdx_pca", "tab:noise_repr")
NOT_PRINTED_IN_A_TABLE = ("section", "text", "parties", "versus", "note")


@pytest.fixture(scope="module")
def latex():
    path = os.environ.get("FEDONCE_PAPER")
    if not path or not Path(path).is_file():
        pytest.skip("FEDONCE_PAPER names no file with the paper's LaTeX source")
    return re.sub(r"(?<!\\)%.*", "", Path(path).read_text(encoding="utf-8"))


def environment(latex: str, label: str) -> str:
    """Return the table or table* around a label."""
    position = latex.index(f"\\label{{{label}}}")
    return latex[latex.rindex("\\begin{table", 0, position) : latex.index("\\end{table", position)]


def plain(text: str) -> str:
    """Return text without LaTeX's dressing; a cell over several rows or columns stays in the first of them."""
    text = re.sub(r"\\cmidrule(\(\w+\))?\{[\d-]+\}|\\(mid|top|bottom)rule", "", text)
    text = re.sub(r"\\multi(row|column)\{\d\}\{[*c]\}", "", text)
    text = text.replace("\\textbf", "").replace("$\\sim$", "-").replace("$\\infty$", "inf")
    return re.sub(r"[{}]", "", text)


def tabulars(latex: str, label: str) -> list[tuple[list[list[str]], list[list[str]]]]:
    """Return the cells of every tabular of a table: rows of the head, rows of the body."""
    found = []
    for content in re.findall(
        r"\\begin\{tabular\}\{[c ]+\}(.*?)\\end\{tabular\}", environment(latex, label), re.DOTALL
    ):
        parts = content.split("\\midrule", 1)
        found.append(
            tuple(
                [[cell.strip() for cell in line.split("&")] for line in plain(part).split("\\\\") if line.strip()]
                for part in parts
            )
        )
    return found


def read(cell: str) -> tuple[str, float]:
    """Return a cell's metric and value; what has no per cent sign is an error."""
    return ("accuracy" if cell.endswith("\\%") else "rmse"), float(cell.removesuffix("\\%"))


def train_time(latex: str) -> list[Number]:
    [(head, body)] = tabulars(latex, "tab:train_time")
    assert head[0] == ["Dataset", "Training Time(min)"]
    return [
        Number(float(cell), "minutes", method, "tab:train_time", name, data=name.lower())
        for name, *cells in body
        for method, cell in zip(head[1][1:], cells, strict=True)
    ]


def exp_dp_perf(latex: str) -> list[Number]:
    label = "tab:exp_dp_perf"
    names = re.findall(r"\\subcaption\{Performance on ([\w-]+),", environment(latex, label))
    found = []
    for name, (head, body) in zip(names, tabulars(latex, label), strict=True):
        assert head[1] == ["", "", "Party 1", "Party 2", "Party 3", "Party 4", "Range"]
        method = ""
        for first, epsilon, *cells, printed_range in body:
            method = first or method
            columns = [{"host": f"party{j}"} for j in (1, 2, 3, 4)] + [{"over_hosts": "min"}, {"over_hosts": "max"}]
            for column, cell in zip(columns, [*cells, *printed_range.split("-")], strict=True):
                metric, value = read(cell)
                assert metric == head[0][2].lower()
                where = {"table": label, "row": f"{method}, {epsilon}", "data": name.lower(), **column}
                found.append(Number(value, metric, method, epsilon=float(epsilon), **where))
    return found


def apdx_pca(latex: str) -> list[Number]:
    assert "Without loss of generality, party $\\mathcal{P}_1$ is selected as the host party." in latex
    [(head, body)] = tabulars(latex, "tab:apdx_pca")
    assert head[0][2] == "Accuracy"
    return [
        Number(read(cell)[1], "accuracy", method, "tab:apdx_pca", name, data=name.lower(), host="party1")
        for _, name, *cells in body
        for method, cell in zip(head[1][2:], cells, strict=True)
    ]


def noise_repr(latex: str) -> list[Number]:
    assert "We report the average performance of all the parties" in latex
    [(head, body)] = tabulars(latex, "tab:noise_repr")
    assert head[1][-1] == "Solo"
    columns = [("FedOnce-L0", float(noise)) for noise in head[2][1:-1]] + [("Solo", None)]
    found = []
    for name, *cells in body:
        for (method, noise), cell in zip(columns, cells, strict=True):
            metric, value = read(cell)
            where = {"table": "tab:noise_repr", "row": name, "data": name.lower(), "over_hosts": "mean"}
            found.append(Number(value, metric, method, noise=noise, **where))
    return found


def counted(numbers: list[Number]) -> Counter:
    keys = [key for key in paper.KEYS if key not in NOT_PRINTED_IN_A_TABLE]
    return Counter(tuple(getattr(number, key) for key in keys) for number in numbers)


@pytest.mark.parametrize(
    ("table", "parse", "count"),
    list(zip(TABLES, (train_time, exp_dp_perf, apdx_pca, noise_repr), (20, 324, 8, 12), strict=True)),
)
def test_a_table_is_in_the_file_and_nothing_else_is_said_of_it(latex, table, parse, count):
    printed, ours = counted(parse(latex)), counted(paper.find(table=table))
    assert printed.total() == count
    assert printed - ours == Counter()
    assert ours - printed == Counter()


def test_prose_is_the_paper_s(latex):
    for number in paper.find(table=None):
        start = re.search(rf"section\{{{re.escape(number.section)}\}}", latex).end()
        section = re.split(r"\\(?:sub)?section\*?\{", latex[start:], maxsplit=1)[0]
        assert " ".join(number.text.split()) in " ".join(section.split())
        assert number.value in [float(digits) for digits in re.findall(r"\d+(?:\.\d+)?", number.text)]


def test_no_percentage_or_multiple_of_the_prose_is_left_out(latex):
    outside = re.sub(r"\\begin\{table(\*?)\}.*?\\end\{table\1\}", "", latex, flags=re.DOTALL)
    printed = re.findall(r"(\d+(?:\.\d+)?)(?:\\%|x\b)", outside)
    units = ("accuracy loss", "communication saved", "communication ratio", "privacy loss saved")
    assert Counter(map(float, printed)) == Counter(n.value for n in paper.find(table=None) if n.metric in units)


def test_numbers_are_of_a_table_or_of_the_text_and_named_as_the_package_names():
    for number in paper.load():
        assert number.table in TABLES or number.table is None
        assert (
            (number.table is None) == (number.row is None) == (number.text is not None) == (number.section is not None)
        )
        assert number.data is None or number.data in SOURCES
        assert number.table is None or number.data
        assert number.host in (None, "party1", "party2", "party3", "party4")
        assert number.over_hosts in (None, "min", "max", "mean")
        assert math.isfinite(number.value)


def test_a_range_that_its_row_contradicts_has_a_note():
    wrong = 0
    for _, group in groupby(paper.find(table="tab:exp_dp_perf"), key=lambda number: (number.data, number.row)):
        *hosts, low, high = group
        values = [number.value for number in hosts]
        for end, right in ((low, min(values)), (high, max(values))):
            assert (end.note is not None) == (end.value != right)
            if end.note:
                assert end.note.endswith(f"has {right}")
                wrong += 1
    assert wrong == 5


def test_find():
    [number] = paper.find(table="tab:exp_dp_perf", data="mnist", method="FedOnce-L1", epsilon=2, host="party3")
    assert number.value == 83.30
    assert {number.over_hosts for number in paper.find(epsilon=math.inf, host=None)} == {"min", "max"}
    assert paper.find(data="iris") == []
    with pytest.raises(InputError, match="find: unknown key 'metod'; did you mean 'method'?"):
        paper.find(metod="Solo")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[number]]\nvalue = 1\nepsilom = 2", "number 1: unknown key 'epsilom'; did you mean 'epsilon'"),
        ("[[prose]]\nvalue = 1\nzzz = 2", "prose 1: unknown key 'zzz'; known are value, metric"),
        ("[[numbers]]\nvalue = 1", "unknown key 'numbers'; did you mean 'number'"),
        ("[[number]]\nvalue = 1", "number 1: metric, method missing"),
    ],
)
def test_wrong_files(tmp_path, text, message):
    path = tmp_path / "paper.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        paper.load(path)
