"""The API reference has every public name, and each describes its parameters. (Their examples are run as tests of src.)"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pkgutil import walk_packages

import pytest

import fedonce
from docs.site import api

NAMES = [f"{module}.{name}" for module, name in api.everything()]
MAIN = {
    "fedonce.FedOnceClassifier",
    "fedonce.FedOnceRegressor",
    "fedonce.Guest",
    "fedonce.Host",
    "fedonce.Pixels",
    "fedonce.Privacy",
    "fedonce.Recipe",
    "fedonce.Representation",
    "fedonce.Rounds",
    "fedonce.assess.what_leaks",
    "fedonce.data.partition.even",
    "fedonce.jobs.GuestJob",
    "fedonce.presets.load",
    "fedonce.read_table",
    "fedonce.tiles",
}
SECTION = re.compile(r"^(Parameters|Attributes)\n-+\n((?:\S.*\n(?:[ ].*\n|\n(?=[ ]))*)+)", re.MULTILINE)
ELSEWHERE = re.compile(r"[Pp]arameters as in `(\w+)`")


def find(name: str):
    module, _, last = name.rpartition(".")
    return getattr(import_module(module), last)


def described(text: str) -> set[str]:
    """Return the parameters that a docstring describes: in a section of them, or in its text between backticks."""
    heads = [line for _, body in SECTION.findall(text + "\n") for line in body.splitlines() if line[:1].strip()]
    listed = {name.strip(" *") for head in heads for name in head.partition(" : ")[0].split(",")}
    return listed | set(re.findall(r"`(\w+)=?", text))


def lacking(found) -> list[str]:
    """Return the parameters of a class or function that its docstring does not describe."""
    text = inspect.getdoc(found) or ""
    known = described(text)
    for other in ELSEWHERE.findall(text):
        known |= described(inspect.getdoc(getattr(inspect.getmodule(found), other)) or "")
    return [name for name in inspect.signature(found).parameters if name not in known]


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_described_with_its_parameters(name):
    if name in api.VALUES:
        assert api.VALUES[name]
        return
    found = find(name)
    assert (found.__doc__ or "").strip()
    if not (inspect.isclass(found) and issubclass(found, Exception)):
        assert lacking(found) == []


@pytest.mark.parametrize("name", sorted(MAIN))
def test_what_users_meet_first_has_an_example(name):
    assert name in NAMES
    assert ">>>" in find(name).__doc__


def test_every_name_has_its_place_on_a_page():
    text = "".join(api.page(page) for page in api.PAGES)
    assert sorted(re.findall(r"^\.\. \S+:: (\S+)", text, re.MULTILINE)) == sorted(NAMES)
    for page in api.PAGES:
        assert (api.DOCS / f"{page}.md").exists()


def test_every_module_that_exports_names_is_on_a_page_or_said_to_be_inside():
    modules = {"fedonce", *(module.name for module in walk_packages(fedonce.__path__, "fedonce."))}
    exporting = {
        name
        for name in modules
        if "flare" not in name and not name.endswith("__main__") and hasattr(import_module(name), "__all__")
    }
    public = {module for modules in api.PAGES.values() for module in modules} - set(api.SHOWN)
    assert exporting == public | set(api.INSIDE)


def test_a_parameter_without_a_word_would_be_found():
    def example(first, second, third, fourth):
        """Do `fourth`.

        Parameters
        ----------
        first, second : int
            Two of them.
        """

    assert lacking(example) == ["third"]
