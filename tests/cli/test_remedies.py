from __future__ import annotations

import pytest
import typer
from typer.main import get_command

from fedonce.cli import entry, remedies


@pytest.fixture(autouse=True)
def guest_fit():
    remedies.begin(get_command(entry.app), ["guest", "fit", "shop.csv", "--name", "host"])
    yield
    remedies.begin(get_command(entry.app), [])


@pytest.mark.parametrize(
    ("text", "parameters", "printed"),
    [
        ("Send fewer values (dim).", ("dim",), "Send fewer values (--dim)."),
        ("Take more (dim=4).", ("dim",), "Take more (--dim 4)."),
        ("Name the column.", ("id", "drop"), "Name the column. (--id, --drop)"),
        ("Write them alike (forms), or not.", ("forms",), "Write them alike (--normalise-ids), or not."),
        ("Give it (secret), or rows.", ("secret", "agreed"), "Give it (--secret), or rows. (--rows)"),
        ("Wait longer (deadline).", ("deadline",), "Wait longer (deadline)."),  # no option of this command
        ("A column '(dim)' is odd.", (), "A column '(dim)' is odd."),
        ("Correct --id.", ("id",), "Correct --id."),
        ("Leave the attack out.", ("attack",), "Leave the attack out. (--no-attack)"),
    ],
)
def test_options_take_the_place_of_parameters(text, parameters, printed):
    assert remedies.with_options(text, parameters) == printed


def test_every_option_in_the_table_is_one_of_a_command():
    def every(command):
        inner = getattr(command, "commands", {}).values()
        own = {option for each in command.params for option in each.opts}
        return own.union(*(every(each) for each in inner))

    assert set(remedies.OPTIONS.values()) <= every(get_command(entry.app))


def test_a_word_that_is_no_command_ends_the_search():
    remedies.begin(typer.main.get_command(entry.app), ["host", "nonsense", "fit"])
    assert remedies.with_options("x", ("dim",)) == "x"
