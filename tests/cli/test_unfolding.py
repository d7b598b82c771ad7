from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from fedonce.cli.unfolding import unfolded


@dataclass(frozen=True)
class Size:
    """Two options that go together."""

    width: Annotated[int, typer.Option(help="How wide.")]
    height: Annotated[int, typer.Option("--tall", help="How tall.")] = 3


@pytest.fixture
def app():
    app = typer.Typer()

    @app.command()
    @unfolded
    def draw(name: str, size: Size, loud: bool = False) -> None:
        """Draw it."""
        typer.echo(f"{name} {size.width}x{size.height} {loud}")

    return app


def test_fields_are_options_and_the_command_gets_the_whole(app):
    assert CliRunner().invoke(app, ["--loud", "door", "--width", "2"]).output == "door 2x3 True\n"
    assert CliRunner().invoke(app, ["door", "--width", "2", "--tall", "5"]).output == "door 2x5 False\n"


def test_what_has_no_default_must_be_given_and_help_is_kept(app):
    assert CliRunner().invoke(app, ["door"]).exit_code == 2
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output
    for text in ("Draw it.", "--width", "How wide.", "--tall", "--loud"):
        assert text in shown
    assert "--size" not in shown
