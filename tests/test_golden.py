"""What earlier versions wrote is read as it was meant, and written again to the same bytes (tests/golden/README.md)."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from fedonce import AgreedRows, Guest, Hinting, Hints, Host, MessageError, Naming, Representation
from fedonce.data.files import read_table
from fedonce.federation.flare.jobs import write_job
from fedonce.federation.request import Request
from fedonce.jobs import HintJob, RowNames, TableSource
from fedonce.messages.keys import read_private, read_public, read_secret, unseal
from fedonce.party.hinting import hints_of
from fedonce.privacy.budget import Plan
from fedonce.rows import alignment

# Keys in a checkout can be read by all, and protect nothing here.
pytestmark = pytest.mark.filterwarnings("ignore:.*read by others")
GOLDEN = Path(__file__).parent / "golden"
GENERATIONS = sorted(path for path in GOLDEN.iterdir() if path.is_dir() and path.name.isdigit())


def files(pattern: str) -> list:
    """Return the files of all generations as parameters of a test."""
    found = [path for generation in GENERATIONS for path in sorted(generation.glob(pattern))]
    assert found
    return [pytest.param(path, id=str(path.relative_to(GOLDEN))) for path in found]


def generation(path: Path) -> Path:
    return GOLDEN / path.relative_to(GOLDEN).parts[0]


def is_newest(path: Path) -> bool:
    """Tell whether no later generation has the same: what is written today is written as here."""
    later = [each for each in GENERATIONS if int(each.name) > int(generation(path).name)]
    return not any((each / name_of(path)).exists() for each in later)


def described(path: Path) -> dict:
    return json.loads((generation(path) / "described.json").read_text())


def messages() -> list:
    return [each for each in files("**/*.fedonce") if name_of(each.values[0]) in described(each.values[0])]


def name_of(path: Path) -> str:
    return str(path.relative_to(generation(path)))


@pytest.mark.parametrize("path", messages())
def test_messages(path):
    message, data = Representation.from_file(path), path.read_bytes()
    told = described(path)[name_of(path)]
    assert message.to_bytes() == data
    found = {
        "party": message.party,
        "run": message.run,
        "bits": message.bits,
        "rows": message.n_rows,
        "learner": message.learner,
        "noise": message.noise,
        **({} if message.local_epsilon is None else {"local": message.local_epsilon}),
        **({"hints": message.hints} if message.hints else {}),
        "naming": message.naming,
        "signed": bool(message.signature),
        **({"codec": message.codec.name} if message.codec.name else {}),
    }
    assert found == {key: value for key, value in told.items() if key != "values"}
    np.testing.assert_allclose(message.values[:3], told["values"], atol=1e-5)


def test_every_kind_of_message_is_here():
    seen = {
        (each["bits"], each["naming"].split()[0] if each["naming"] else "")
        for path in GENERATIONS
        for each in described(path / "x").values()
    }
    assert {bits for bits, _ in seen} == {32, 16, 12, 8, 4}
    assert {naming for _, naming in seen} == {"keyed", "hashed", "plain", ""}
    told = [each.get("codec", "") for path in GENERATIONS for each in described(path / "x").values()]
    assert set(told) == {"", "coded4", "coded8", "coded12"}


@pytest.mark.parametrize("path", files("hints/*.fedonce"))
def test_hints(path):
    told, got = json.loads((generation(path) / "hints.json").read_text())[path.stem], Hints.from_file(path, "bank")
    assert got.to_bytes() == path.read_bytes()
    assert got.answers[:12].tolist() == told.pop("answers")
    found = {name: getattr(got, name) for name in ("party", "run", "label", "classes", "keep", "naming")}
    edges = None if got.edges is None else got.edges.tolist()
    more = {"epsilon": str(got.epsilon), "rows": got.n_rows, "forms": list(got.forms), "edges": edges}
    assert found | more | {"signed": bool(got.signature)} == told
    if got.signature:
        key = read_private(generation(path) / "keys" / "bank.key")
        assert key.sign(got.checksum) == got.signature
        assert read_public(generation(path) / "keys" / "bank.pub").verify(got.checksum, got.signature)


def record_of(path, folder):
    """Return a copy of a record that may be changed, and how its publications were made."""
    for name in ("hints.record", "bank.csv", "secret"):
        (folder / name).write_bytes((path.parent / name).read_bytes())
        (folder / name).chmod(0o600)
    by_ids, by_places = TableSource(folder / "bank.csv", id="customer"), TableSource(folder / "bank.csv")
    keyed, out = RowNames(folder / "secret"), folder / "hints.fedonce"
    old = Hinting(float("inf"), label="income of old")
    more = {"name": "bank", "for_run": "loans"}
    return {
        "repaid": HintJob(by_ids, "repaid", out, Hinting(2.0), rows=keyed, **more),
        "less": HintJob(by_ids, "repaid", out, Hinting(0.5), rows=keyed, **more),
        "bins": HintJob(by_places, "limit", out, Hinting(1.0, (2.5, 5.0)), **more),
        "as-it-is": HintJob(by_ids, "income", out, old, rows=keyed, task="classification", **more),
    }


@pytest.mark.parametrize("path", files("hints.record"))
def test_records_of_hints(path, tmp_path):
    told, jobs = json.loads((path.parent / "record.json").read_text()), record_of(path, tmp_path)
    books = jobs["repaid"].book.look()
    assert (books.spent(), books.limit, len(books.published)) == (told["spent"], told["limit"], told["published"])
    assert books.to_bytes() == path.read_bytes()
    for name, job in jobs.items():
        done = job.run().publication
        assert (done.cost, done.hints[0].checksum) == (0.0, told["checksums"][name])
    assert (tmp_path / "hints.record").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("path", files("hints/keyed.fedonce"))
def test_a_guest_learns_from_hints_as_it_did(path):
    root = generation(path)
    guest = Guest.load(root / "guests" / "hinted")
    naming = Naming("keyed", read_secret(root / "secret"), guest.learnt_naming[1])
    table, hints = guest.reading.read(root / "shop.csv", "shop"), Hints.from_file(path)
    told = hints_of(hints, table, None, naming, None, "shop", "loans")
    assert int((told >= 0).sum()) == len(table.ids) - 4  # four of them are the shop's alone
    sent = Representation.from_file(root / "guests" / "hinted" / "representation.fedonce")
    assert (sent.hints, sent.note) == (hints.stated, "1 of 2 values by hints")


@pytest.mark.parametrize("path", files("guests/sealed/representation.fedonce"))
def test_sealed_and_signed(path):
    keys = generation(path) / "keys"
    with pytest.raises(MessageError, match="sealed"):
        Representation.from_file(path)
    opened = Representation.from_bytes(unseal(path.read_bytes(), read_private(keys / "bank.key")))
    assert read_public(keys / "shop.pub").verify(opened.checksum, opened.signature)
    signed = Representation.from_file(path.parent.parent / "signed" / path.name)
    assert read_private(keys / "shop.key").sign(signed.checksum) == signed.signature
    np.testing.assert_array_equal(opened.values, signed.values)


def coded_in_one_layer() -> list:
    return [
        each
        for each in messages()
        if "codec" in described(each.values[0])[name_of(each.values[0])] and "layers" not in each.id
    ]


@pytest.mark.parametrize("path", coded_in_one_layer())
def test_coded_messages_are_coded_to_the_same_bytes(path):
    """Whoever has the values writes the message that is there: the coder's bytes are part of the format."""
    message = Representation.from_file(path)
    np.testing.assert_array_equal(message.codec.encode(message.values)["coded"], message.written["coded"])


def shop(folder: Path, guest: Guest):
    if folder.name == "patches":
        return np.load(generation(folder) / "images.npy").astype(np.float32) / 255
    return guest.reading.read(generation(folder) / ("half.csv" if folder.name == "half" else "shop.csv"), "shop")


@pytest.mark.parametrize("folder", files("guests/*"))
def test_guests(folder, tmp_path):
    guest = Guest.load(folder)
    root = generation(folder)
    naming = Naming("hashed") if guest.learnt_naming is None else None  # earlier guests took that for granted
    if guest.learnt_naming is not None and guest.learnt_naming[0] == "keyed":
        naming = Naming("keyed", read_secret(root / "secret"), guest.learnt_naming[1])
    rows = None
    if folder.name == "aligned":
        rows = AgreedRows.from_bytes((root / "align" / "finished" / "shop.rows").read_bytes())
    message = guest.represent(shop(folder, guest), agreed=rows, naming=naming)
    if folder.name not in ("noise", "sealed"):
        sent = Representation.from_file(folder / "representation.fedonce")
        assert (message.maker, message.rows, message.naming) == (sent.maker, sent.rows, sent.naming)
        step = 0.02 if folder.name == "patches" else 1e-5  # the images were rounded to be stored
        np.testing.assert_allclose(message.values, sent.values, atol=max(step, float(np.ptp(sent.values)) / 250))
    if is_newest(folder):
        leaving = {} if folder.name == "patches" else {"representation.fedonce": message_of(folder)}
        guest.save(tmp_path / "again", leaving)
        assert stored(tmp_path / "again") == stored(folder)


def message_of(folder: Path) -> bytes:
    return (folder / "representation.fedonce").read_bytes()


def stored(folder: Path) -> dict[str, bytes]:
    """Return a model's files, but for the message beside them."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".json", ".safetensors")}


@pytest.mark.parametrize("folder", files("hosts/*"))
def test_hosts(folder, tmp_path):
    host, root = Host.load(folder), generation(folder)
    matching = replace(host.matching, secret=read_secret(root / "secret"))
    guests = {"classes": "pca-8", "numbers": "pca-32", "partial": "half", "budget": "budget"}
    sent = [root / "guests" / guests[folder.name] / "representation.fedonce"] if folder.name in guests else []
    if folder.name in ("calibrated", "auto"):
        sent = [root / "messages" / "shop.fedonce"]
        assert host.temperature != 1
        assert (host.validation.rows, host.validation.metric) == (
            len(host.reading.read(root / "bank.csv", "bank").ids),
            "accuracy",
        )
    if folder.name == "own-trees":
        sent = [root / "messages" / "shop.fedonce"]
        assert json.loads((folder / "manifest.json").read_text())["fedonce model"] == 5
        assert host.state.model.own_ is not None
    if folder.name == "noisy":
        sent = [root / "messages" / "shop.fedonce"]
        assert json.loads((folder / "manifest.json").read_text())["fedonce model"] == 8
        assert any(host.state.model.alone_)
    messages = [Representation.from_file(path) for path in sent]
    outputs = host.outputs(host.reading.read(root / "bank.csv", "bank"), messages, matching)
    with (root / "predictions" / f"{folder.name}.csv").open() as file:
        lines = list(csv.DictReader(file))
    names = [name for name in lines[0] if name.startswith("probability_")] or ["prediction"]
    expected = [[float(line[name]) for name in names] for line in lines]
    np.testing.assert_allclose(outputs.reshape(len(lines), -1), expected, atol=1e-4)
    if is_newest(folder):
        host.save(tmp_path / "again", {message.party: message.to_bytes() for message in messages})
        assert stored(tmp_path / "again") == stored(folder)


@pytest.mark.parametrize("path", files("plan.json"))
def test_plans(path, tmp_path):
    plan = Plan.from_file(path)
    assert (plan.epsilon, plan.delta, {entry.party for entry in plan.entries}) == (8.0, 0.002, {"bank", "shop"})
    plan.to_file(tmp_path / "plan.json")
    assert (tmp_path / "plan.json").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("folder", files("align"))
def test_alignments(folder):
    root = generation(folder)
    bank, shop = (read_table(root / f"{name}.csv", id="customer", party=name).ids for name in ("bank", "shop"))
    state, response = ((folder / f"{name}.fedonce").read_bytes() for name in ("state", "response"))
    found = alignment.finish(state, response, bank)
    assert sorted(bank[found.positions]) == sorted(set(bank) & set(shop))
    assert alignment.respond((folder / "request.fedonce").read_bytes(), shop, "shop")
    rows = AgreedRows.from_bytes((folder / "finished" / "shop.rows").read_bytes())
    assert (rows.host, rows.guest, rows.run) == ("bank", "shop", "loans")
    assert sorted(bank[rows.positions(bank, None)]) == sorted(bank[found.positions])


@pytest.mark.parametrize("path", files("requests/*.fedonce"))
def test_requests(path):
    request = Request.from_bytes(path.read_bytes())
    assert request.to_bytes() == path.read_bytes()
    assert (request.host, request.guest, request.run) == ("bank", "shop", "loans")
    assert request.what == path.stem.split("-")[0]


@pytest.mark.parametrize("folder", files("job"))
def test_jobs(folder, tmp_path):
    """Class paths in jobs are a wire format: the classes of old jobs are still there, and new jobs name the same."""
    configs = "".join(path.read_text() for path in folder.rglob("config_*.json"))
    paths = re.findall(r'"path": "([\w.]+)"', configs)
    assert len(paths) == 2
    for path in paths:
        module, _, name = path.rpartition(".")
        assert callable(getattr(import_module(module), name))
    write_job(tmp_path / "job", "loans", {"shop": (generation(folder) / "requests" / "learn.fedonce").read_bytes()})
    if is_newest(folder):
        assert contents(tmp_path / "job") == contents(folder)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
