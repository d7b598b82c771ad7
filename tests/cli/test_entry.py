from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedonce import InputError, MessageError, __version__
from fedonce.cli import entry


def test_version():
    result = CliRunner().invoke(entry.app, ["--version"])
    assert result.output.strip() == f"fedonce {__version__}"


def test_help_names_the_commands():
    result = CliRunner().invoke(entry.app, ["--help"])
    assert result.exit_code == 0
    assert "demo" in result.output


def test_demo_prints_and_writes(tmp_path, monkeypatch):
    from fedonce.demo import digits

    monkeypatch.setattr(digits.run, "__defaults__", (0, None, (digits.SOLO, digits.FEDONCE, digits.COMBINE)))
    done = CliRunner().invoke(entry.app, ["demo", "--out", str(tmp_path / "new" / "folder"), "--json", "--quiet"])
    assert done.exit_code == 0, done.output
    printed = json.loads(done.stdout)
    assert [outcome["method"] for outcome in printed["outcomes"]] == ["Solo", "FedOnce", "Combine"]
    assert printed["outcomes"][1]["columns read"].keys() == {"readable", "partly", "not by these attacks"}
    assert (tmp_path / "new" / "folder" / "report.html").stat().st_size > 10_000
    table = CliRunner().invoke(entry.app, ["demo", "--out", str(tmp_path), "--quiet"], env={"COLUMNS": "100"}).stdout
    assert "readable" in table
    assert f"report: {tmp_path}" in table


def test_out_must_be_a_folder(tmp_path):
    (tmp_path / "file").write_text("x")
    done = CliRunner().invoke(entry.app, ["demo", "--out", str(tmp_path / "file")])
    assert done.exit_code == 2
    assert "is a file" in " ".join(done.output.replace("│", " ").split())  # a long path breaks the line


@pytest.mark.parametrize(("error", "code"), [(InputError, 3), (MessageError, 4)])
def test_errors_are_one_line_and_an_exit_code(error, code, monkeypatch, capsys):
    def fail():
        raise error("the thing [/abc], the value, pip install 'fedonce[report]'")

    monkeypatch.setattr(entry, "app", fail)
    with pytest.raises(SystemExit) as caught:
        entry.main()
    assert caught.value.code == code
    assert "error: the thing [/abc], the value, pip install 'fedonce[report]'" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["-c", "import fedonce"], ["-m", "fedonce.cli", "--help"]])
def test_heavy_libraries_are_not_loaded_before_they_are_used(command):
    code = [*command] if command[0] == "-m" else command
    done = subprocess.run([sys.executable, "-X", "importtime", *code], capture_output=True, text=True, check=True)
    loaded = {line.split("|")[-1].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line}
    assert "fedonce" in loaded
    assert not loaded & {"torch", "sklearn", "pandas", "numpy", "scipy", "polars", "matplotlib"}


def test_a_message_is_inspected_without_what_learns():
    message = next((Path(__file__).parents[1] / "golden").glob("4/8-bits.fedonce"))
    command = [sys.executable, "-X", "importtime", "-m", "fedonce.cli", "inspect", str(message)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "values per row" in done.stdout
    loaded = {line.split("|")[-1].strip() for line in done.stderr.splitlines() if "|" in line}
    assert "fedonce.assess.inspection" in loaded
    assert not loaded & {"torch", "sklearn", "pandas", "scipy"}


def test_data_list_tells_what_is_here(tmp_path):
    done = CliRunner().invoke(entry.app, ["data", "list", "--data-dir", str(tmp_path), "--json"])
    rows = json.loads(done.stdout)
    assert len(rows) == 11
    assert rows[0] == {
        "name": "gisette",
        "rows": 6000,
        "columns": 5000,
        "task": "classification",
        "status": "absent",
        "licence": "CC BY 4.0",
        "folder": str(tmp_path / "gisette"),
    }
    (tmp_path / "phishing").mkdir()
    (tmp_path / "phishing" / "phishing").write_text("0 1:1")
    table = CliRunner().invoke(entry.app, ["data", "list", "--data-dir", str(tmp_path)]).output
    assert "damaged" in table
    assert "1,000,209" in table
    missing = CliRunner().invoke(entry.app, ["data", "list", "--data-dir", str(tmp_path / "none")])
    assert "there is no such folder" in " ".join(missing.output.split())


def test_data_list_of_real_files(data_folder):
    done = CliRunner().invoke(entry.app, ["data", "list", "--json"])
    status = {row["name"]: row["status"] for row in json.loads(done.stdout)}
    assert (status["mnist"], status["covtype"]) == ("present", "partial")


def test_data_fetch_reads_what_is_here(data_folder):
    done = CliRunner().invoke(entry.app, ["data", "fetch", "phishing", "--json", "--quiet"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows"] == 11055
    plain = CliRunner().invoke(entry.app, ["data", "fetch", "covtype", "--quiet"]).output
    assert "note      92,962 of 581,012 rows" in plain


def test_data_fetch_of_an_unknown_name():
    done = CliRunner().invoke(entry.app, ["data", "fetch", "mnst"])
    assert done.exit_code == 2
    assert "Did you mean mnist?" in done.output


def test_data_fetch_says_what_is_missing_in_words(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fedonce", "data", "fetch", "nus-wide", "--data-dir", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 3
    said = capsys.readouterr().err
    assert "\n  TrainTestLabels/Labels_sky_Test.txt from https" in said  # a line for each file
    assert "\\n" not in said  # a line break that the command line had to spell out


def test_data_fetch_of_a_damaged_file_ends_with_3(tmp_path, monkeypatch, capsys):
    (tmp_path / "phishing").mkdir()
    (tmp_path / "phishing" / "phishing").write_text("0 1:1")
    monkeypatch.setattr(sys, "argv", ["fedonce", "data", "fetch", "phishing", "--data-dir", str(tmp_path)])
    with pytest.raises(SystemExit) as caught:
        entry.main()
    assert caught.value.code == 3
    assert "is refused: it has sha256" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--no-verify"])
    with pytest.raises(SystemExit):
        entry.main()
    assert "1 of 11,055 rows" in capsys.readouterr().out
