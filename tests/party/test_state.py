"""Settings never change, what was learnt changes as a whole, and nobody but the party itself changes it."""

from __future__ import annotations

import ast
import pickle
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path

import numpy as np
import pytest

import fedonce
from fedonce import Guest, Host, InputError, MessageError, protocol
from fedonce.data.table import Table
from fedonce.engine.files import FilesEngine
from fedonce.engine.local import LocalEngine
from fedonce.party import GuestSettings, GuestState, HostSettings, HostState
from fedonce.party.guest_state import GuestAttributes
from fedonce.party.host_state import HostAttributes
from fedonce.rounds.settings import Rounds
from fedonce.rows.ids import Naming
from fedonce.rows.matching import Matching
from tests.conftest import make_table

SOURCE = Path(fedonce.__file__).parent
PARTIES = {"party", "host", "guest"}
SECRET, N = b"s" * 32, 120
X, Y = make_table(N)
IDS = np.array([f"c{i}" for i in range(N)], dtype=object)
OWN, THEIRS = replace(Table.of(X[:, :4]), ids=IDS), replace(Table.of(X[:, 4:]), ids=IDS)


def is_party(node: ast.expr) -> bool:
    """Whether an expression reads as a party: `host`, `self.guest`, `self._host`, `guest.state`, `host.dims`, ..."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute) and node.attr.strip("_") in PARTIES:
            return True
        node = node.value
    return isinstance(node, ast.Name) and node.id.strip("_") in PARTIES


def targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return [each for target in node.targets for each in ast.walk(target) if isinstance(each, ast.expr)]
    return [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For) else []


def assigned(source: str) -> list[str]:
    """Return the attributes of parties, and parts of such attributes, that a source assigns or sets by name."""
    found = []
    for node in ast.walk(ast.parse(source)):
        for target in targets(node):
            stored = isinstance(target, ast.Attribute | ast.Subscript) and isinstance(target.ctx, ast.Store)
            if stored and is_party(target.value):
                found.append(ast.unparse(target))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("setattr", "object.__setattr__"):
            found += [ast.unparse(node)] if is_party(node.args[0]) else []
    return found


OUTSIDE = [str(path.relative_to(SOURCE)) for path in sorted(SOURCE.rglob("*.py")) if path.parent != SOURCE / "party"]


@pytest.mark.parametrize("path", OUTSIDE)
def test_nobody_outside_assigns_an_attribute_of_a_party(path):
    assert assigned((SOURCE / path).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "party.reading = reading",
        "self.guest.tuned, self.done = tuned, 1",
        "host.makers[name] = maker",
        "party.noise.key = key",
        "self._host.seen: dict = {}",
        "guest.dim += 1",
        "setattr(host, 'dims', {})",
        "for host.name in names: pass",
    ],
)
def test_an_assignment_would_be_found(source):
    assert len(assigned(source)) == 1


@pytest.mark.parametrize("source", ["self.host = host", "guest = Guest('a')", "guests['a'] = guest", "x = host.dims"])
def test_what_is_no_assignment_to_a_party_is_left_alone(source):
    assert assigned(source) == []


def readable(kind):
    return sorted(name for name, value in vars(kind).items() if isinstance(value, property))


@pytest.mark.parametrize("name", [*readable(GuestAttributes), "bound", "model", "tunde"])
def test_a_guest_s_attributes_cannot_be_assigned(name):
    guest = Guest("shop")
    with pytest.raises(
        AttributeError, match="'tunde'" if name == "tunde" else rf"'{name}' of a Guest .*to Guest\(\.\.\.\)"
    ):
        setattr(guest, name, None)


@pytest.mark.parametrize("name", [*readable(HostAttributes), "secert"])
def test_a_host_s_attributes_cannot_be_assigned(name):
    host = Host("bank")
    with pytest.raises(
        AttributeError, match="'secert'" if name == "secert" else rf"'{name}' of a Host .*\(naming=, matching=\)"
    ):
        setattr(host, name, None)


@pytest.mark.parametrize("kind", [GuestSettings, GuestState, HostSettings, HostState, Matching])
def test_settings_and_states_are_frozen(kind):
    guest, host = Guest("shop"), Host("bank")
    made = {type(each): each for each in (guest.settings, guest.state, host.settings, host.state, host.matching)}[kind]
    for field in fields(kind):
        with pytest.raises(FrozenInstanceError):
            setattr(made, field.name, None)


def test_settings_are_those_that_were_given_also_after_learning():
    guest, host = Guest("shop", "autoencoder", 2, epochs=1), Host("bank", epochs=1, secret=SECRET, max_memory=10**9)
    given = guest.settings, host.settings
    message = guest.learn(X[:, 4:])
    host.aggregate(X[:, :4], Y, [message])
    assert (guest.settings, host.settings) == given
    assert guest.settings.learner is not guest.learner
    with pytest.raises(InputError, match="not"):
        guest.settings.learner.transform(X[:, 4:].astype(np.float32), None)  # it is the guest's copy that has learnt
    assert (host.secret, host.max_memory, guest.dim, guest.bits) == (SECRET, 10**9, 2, 8)


def test_wrong_settings_are_refused_wherever_they_come_from():
    with pytest.raises(InputError, match="'dim' parameter of Guest must be a positive integer. Got 0"):
        replace(Guest("shop").settings, dim=0)
    with pytest.raises(InputError, match="'task' parameter of Host"):
        replace(Host("bank").settings, task="guessing")


def test_a_party_made_of_settings_and_state_goes_on_where_the_other_stood():
    guest = Guest("shop", "pca", 2)
    message = guest.learn(X[:, 4:])
    host = Host("bank", epochs=1)
    host.aggregate(X[:, :4], Y, [message])
    again = Guest.from_settings(guest.settings, guest.state)
    assert again.represent(X[:, 4:]).to_bytes() == guest.represent(X[:, 4:]).to_bytes()
    twin = Host.from_settings(host.settings, host.state)
    np.testing.assert_array_equal(twin.outputs(X[:, :4], [message]), host.outputs(X[:, :4], [message]))
    anew = Host.from_settings(host.settings)
    assert (anew.model, dict(anew.dims), anew.classes) == (None, {}, None)


def test_parties_can_be_sent_to_other_processes():
    guest = Guest("shop", "pca", 2, naming=Naming("keyed", SECRET))
    sent = guest.learn(THEIRS)
    host = Host("bank", epochs=1, secret=SECRET)
    host.aggregate(OWN, Y, [sent])
    there, twin = pickle.loads(pickle.dumps((guest, host)))
    assert there.represent(THEIRS).to_bytes() == guest.represent(THEIRS).to_bytes()
    np.testing.assert_array_equal(twin.outputs(OWN, [sent]), host.outputs(OWN, [sent]))


def test_a_failed_learning_leaves_what_was_learnt_before():
    guest, host = Guest("shop", "pca", 2), Host("bank", epochs=1)
    message = guest.learn(X[:, 4:])
    host.aggregate(X[:, :4], Y, [message])
    before, outputs = (guest.state, host.state), host.outputs(X[:, :4], [message])
    with pytest.raises(InputError):
        guest.learn(np.full((N, 3), np.inf))
    with pytest.raises(MessageError, match="it is about 120 rows"):
        host.aggregate(X[:60, :3], Y[:60], [message])
    assert (guest.state, host.state) == before
    np.testing.assert_array_equal(host.outputs(X[:, :4], [message]), outputs)


def test_matching_is_an_argument_of_training_and_prediction(tmp_path):
    naming, matching = Naming("keyed", SECRET, ("trim",)), Matching(SECRET, ("trim",))
    guest, host = Guest("shop", "pca", 2), Host("bank", epochs=1)
    message = guest.learn(THEIRS, naming=naming)
    with pytest.raises(MessageError, match="normalised trim, the host's not at all"):
        host.aggregate(OWN, Y, [message])
    host.aggregate(OWN, Y, [message], matching)
    assert (host.overlap, host.forms, host.secret) == ({"shop": 1.0}, ("trim",), None)
    with pytest.raises(MessageError, match="hashed with a secret"):
        host.outputs(OWN, [message])
    np.testing.assert_array_equal(host.predict(OWN, [message], matching), host.predict(OWN, [message], matching))
    again = Host.load(host.save(tmp_path, received={"shop": 99}))
    assert (again.forms, again.received, dict(host.received)) == (("trim",), {"shop": 99}, {})


def test_the_protocol_hands_matching_on(tmp_path):
    guest = Guest("shop", "pca", 2)
    guest.learn(THEIRS, naming=Naming("keyed", SECRET)).to_file(tmp_path / "shop.fedonce")
    host, matching = Host("bank", epochs=1), Matching(SECRET)
    engine = FilesEngine("local", [tmp_path / "shop.fedonce"])
    assert protocol.fit(host, OWN, Y, engine, matching=matching).overlap == {"shop": 1.0}
    assert protocol.predict(host, OWN, engine, matching).overlap == {"shop": 1.0}
    with pytest.raises(MessageError, match="the limit is 1 byte"):
        protocol.predict(host, OWN, engine, replace(matching, max_memory=1))


def test_a_guest_from_disk_is_told_how_to_name_rows_and_keeps_how_it_did(tmp_path):
    guest = Guest("shop", "pca", 2)
    sent = guest.learn(THEIRS, naming=Naming("keyed", SECRET, ("trim",)))
    again = Guest.load(guest.save(tmp_path / "first"))
    assert (again.learnt_naming, again.naming) == (("keyed", ("trim",)), None)
    with pytest.raises(InputError, match="give the same secret again"):
        again.represent(THEIRS)
    represented = again.represent(THEIRS, naming=Naming("keyed", SECRET, ("trim",)))
    np.testing.assert_array_equal(represented.ids, sent.ids)
    # Saved without the secret at hand, it still knows that there was one, and names no row without it.
    with pytest.raises(InputError, match="give the same secret again"):
        Guest.load(again.save(tmp_path / "second")).represent(THEIRS)


@pytest.mark.parametrize("start", ["one-shot", "random"])
def test_rounds_hand_over_new_states(start):
    guests = {"shop": Guest("shop", "pca", 2)}
    host, engine = Host("bank", epochs=1), LocalEngine(guests, {"shop": Table.of(X[:, 4:])}, {})
    first = guests["shop"].state, host.state
    protocol.fit(host, X[:, :4], Y, engine, Rounds(rounds=2, batch=60, start=start))
    guest = engine.parties["shop"]
    assert (first[0].fine_tuning, first[1].model) == (None, None)
    assert guest.fine_tuning.alone == (start == "random")
    assert host.makers["shop"] == guest.represent(X[:, 4:]).maker
    assert protocol.predict(host, X[:, :4], engine).overlap == {"shop": 1.0}
