from __future__ import annotations

import re
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from fedonce import Guest, MessageError, Representation
from fedonce.assess.attacked import UNKNOWN
from fedonce.assess.inspection import inspect, protected_by
from fedonce.data.preparation import Public
from fedonce.data.table import Table
from fedonce.jobs.settings import purse
from fedonce.learners import PCA, Cells
from fedonce.messages import keys as crypto
from fedonce.messages.envelope import SEALED
from fedonce.party.hinting import Hinting, publish
from fedonce.privacy.budget import calibrate
from fedonce.rows import alignment
from fedonce.rows.ids import Naming, fingerprint
from tests.conftest import make_table

SECRET = b"s" * 32


@pytest.fixture(scope="module")
def table():
    X, _ = make_table(40)
    ids = np.array([f"c{i}" for i in range(40)], dtype=object)
    return Table(tuple("abcdefgh"), True, columns=tuple(X.T), ids=ids)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    for name in ("shop", "bank"):
        crypto.new_keys(name, folder)
    return {name: crypto.read_private(folder / f"{name}.key") for name in ("shop", "bank")}


@pytest.fixture(scope="module")
def message(table):
    return Guest("shop", "pca", 3, run="spring", naming=Naming("keyed", SECRET, ("trim",))).learn(table)


def test_a_local_epsilon_is_told(table, tmp_path):
    public = Public(bounds=(-9, 9))
    guest = Guest("shop", dim=2, naming=Naming("keyed", SECRET), local_epsilon=1.5, public=public)
    told = inspect(guest.learn(table).to_file(tmp_path / "m.fedonce"))
    assert told["protection"].startswith("epsilon 1.5 per row, pure, by subset selection; not hidden: who is in it")
    assert "guarantee" not in str(told)  # nothing says beside it that there is none


def test_everything_that_leaves_is_told(message, tmp_path):
    path = message.to_file(tmp_path / "m.fedonce")
    told = inspect(path)
    assert told == {
        "file": str(path),
        "protection": "nothing",
        **UNKNOWN,
        "bytes": path.stat().st_size,
        "payload bytes": message.payload_bytes,
        "bytes per row": float(f"{message.payload_bytes / len(message.values):.3g}"),
        "id bytes": 320,
        "run": "spring",
        "party": "shop",
        "rows": 40,
        "rows present": 40,
        "values per row": 3,
        "bits per value": f"8, coded: {message.payload_bytes / 15:.2g} on average",
        "different rows of values": f"{len(message.values)}; {len(message.values)} rows share theirs with no other",
        "learner": "pca",
        "model": message.model,
        "hints": "none",
        "ids": f"keyed hashes (HMAC-SHA-256, 8 bytes), fingerprint of the secret {fingerprint(SECRET)}; normalised: trim",
        "rows digest": message.rows,
        "checksum": message.checksum,
        "signature": "none",
        "sealed": "no",
    }


def test_how_many_rows_share_their_values_is_told(tmp_path):
    rows = np.random.default_rng(0).standard_normal((400, 5)).astype(np.float32)
    found = {}
    for least in (7, 30):
        path = Guest("shop", Cells(cells=40, least=least), 3).learn(rows).to_file(tmp_path / "m")
        counts = np.unique(Representation.from_file(path).values, axis=0, return_counts=True)[1]
        found[least] = inspect(path)["different rows of values"]
        assert found[least] == f"{len(counts)}; each is that of {counts.min()} rows or more"
        assert counts.min() >= least
    assert found[7] != found[30]
    nobody = Guest("shop", "pca", 2)
    nobody.learn(rows)
    assert inspect(nobody.represent(rows[:0]).to_file(tmp_path / "none"))["different rows of values"] == "no rows"


def test_layers_and_messages_that_are_to_be_read_are_told(tmp_path):
    rows = np.random.default_rng(0).standard_normal((400, 5)).astype(np.float32)
    layered = inspect(Guest("shop", Cells(cells=8, least=5, layers=2), 3).learn(rows).to_file(tmp_path / "m"))
    assert layered["layers"] == "2, which add up to the values"
    assert layered["protection"] == "nothing"
    read = Guest("shop", "quantiles", 3).learn(rows)
    told = inspect(read.to_file(tmp_path / "m"))
    assert told["protection"] == "nothing; quantiles sends the columns themselves, in bins, BY DESIGN"
    assert told["bytes per row"] == pytest.approx(read.payload_bytes / 400, rel=0.01)
    assert "layers" not in told
    blurred = inspect(Guest("shop", "quantiles", 3, noise=0.1).learn(rows).to_file(tmp_path / "m"))
    assert blurred["protection"].startswith("noise of 0.1 on every value")
    assert blurred["protection"].endswith("no guarantee; quantiles sends the columns themselves, in bins, BY DESIGN")


def test_a_protection_that_a_message_does_not_keep_is_not_believed(tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 3))
    lying = replace(Guest("shop", "pca", 2).learn(rows), note="protect cells:999")
    told = inspect(lying.to_file(tmp_path / "m"))["protection"]
    assert (
        "(as the guest states it); IN THIS FILE THE RAREST IS THAT OF 1 ROW, as it may be in a message for pre" in told
    )


def test_a_protection_is_named(tmp_path):
    rows = np.random.default_rng(0).standard_normal((400, 5)).astype(np.float32)
    guest = Guest("shop", protect="cells:30")
    message = guest.learn(rows)
    told = inspect(message.to_file(tmp_path / "m"))
    assert told["learner"] == "cells (protect cells:30 (training rows))"
    fewest = np.bincount(message.values[:, 0].astype(int)).min()
    promised = "cells:30: numbers in random order, each that of 30 training rows or more (as the guest states it); "
    assert told["protection"] == f"{promised}in this file the rarest is that of {fewest} rows; no guarantee"
    assert protected_by(message)["protect"] == "cells:30"
    alone = inspect(guest.represent(rows[:1]).to_file(tmp_path / "m"))["protection"]
    assert alone.startswith(f"{promised}IN THIS FILE THE RAREST IS THAT OF 1 ROW")
    plain = Guest("shop", "pca", 2).learn(rows)
    assert protected_by(plain) == {"protect": "", "blurred": ""}
    assert protected_by(replace(plain, note="protect cells:x; protect walls"))["protect"] == ""
    assert protected_by(Guest("shop", "pca", 2, noise=0.1).learn(rows))["blurred"] == "noise"
    assert (
        protected_by(Guest("shop", dim=2, local_epsilon=4.0, public=Public((-9, 9))).learn(rows))["blurred"]
        == "local_epsilon"
    )


@pytest.mark.parametrize(("form", "said"), [("plain", "every id can be read"), ("hashed", "CAN GUESS THEM")])
def test_ids_that_can_be_guessed_are_told(table, tmp_path, form, said):
    path = Guest("shop", "pca", naming=Naming(form)).learn(table).to_file(tmp_path / "m")
    assert said in inspect(path)["ids"]


def test_rows_in_an_agreed_order(table, tmp_path):
    held = np.arange(50) < 40
    path = Guest("shop", "pca", bits=4).learn(replace(table, ids=None), held).to_file(tmp_path / "m")
    told = inspect(path)
    assert (told["rows"], told["rows present"], told["id bytes"]) == (50, 40, 7)
    assert told["ids"] == "none: rows are in an agreed order"


def test_noise_is_told_and_is_no_guarantee(table, tmp_path):
    path = Guest("shop", "pca", noise=0.5).learn(replace(table, ids=None)).to_file(tmp_path / "noisy")
    protection = "noise of 0.5 on every value, rows clipped to norm 1 (as the guest states it); no guarantee"
    assert inspect(path)["protection"] == protection


@pytest.fixture(scope="module")
def budgeted(table):
    """A message of a guest that learnt with epsilon 2 at the delta that is the default for its rows."""
    tasks = [replace(task, party="shop") for task in PCA().private_tasks(40, 1.0, False)]
    plan = calibrate(tasks, 2.0, 1e-3)
    guest = Guest("shop", "pca", 3, purse=purse(plan, "shop"), public=Public((-99, 99)))
    return guest.learn(replace(table, ids=None))


def test_a_budget_is_priced_and_does_not_protect_the_message(budgeted, tmp_path):
    told = inspect(budgeted.to_file(tmp_path / "private"))
    words = r"nothing; the guest's model, not this message, was learnt with epsilon ([\d.]+), delta 0.001 "
    said = re.fullmatch(words + r"\(as the guest states it\)", told["protection"])
    assert float(said[1]) == pytest.approx(2.0, rel=0.01)
    assert "PCA: mean: noise" in told["privacy spent"]


def test_a_nominal_epsilon_is_no_guarantee(budgeted, tmp_path):
    spent = budgeted.spent.replace('"PCA: mean"', '"PCA: mean","nominal":true')
    told = inspect(replace(budgeted, spent=spent).to_file(tmp_path / "nominal"))
    assert "nominal and no guarantee" in told["protection"]
    free = inspect(
        replace(budgeted, spent='[{"what":"clipping alone","noise":0,"times":1}]').to_file(tmp_path / "free")
    )
    assert "learnt with epsilon inf" in free["protection"]


def test_signatures(message, keys, tmp_path):
    signed = replace(message, signature=keys["shop"].sign(message.checksum))
    path = signed.to_file(tmp_path / "m")
    name = keys["shop"].fingerprint
    assert inspect(path)["signature"] == f"by {name}, not verified (verify)"
    assert inspect(path, verify=keys["shop"].public)["signature"] == f"verified: by {name}"
    with pytest.raises(MessageError, match=f"'shop' is not by the key {keys['bank'].fingerprint}, it names {name}"):
        inspect(path, verify=keys["bank"].public)


def test_a_sealed_message_is_opened_with_the_key_it_was_sealed_to(message, keys, tmp_path):
    path = tmp_path / "m"
    path.write_bytes(crypto.seal(message.to_bytes(), keys["bank"].public))
    assert inspect(path) == {
        "file": str(path),
        "bytes": path.stat().st_size,
        "sealed": "yes: only the receiver can read it (key)",
    }
    opened = inspect(path, keys["bank"])
    assert (opened["sealed"], opened["bytes"]) == ("yes, opened here", path.stat().st_size)
    with pytest.raises(MessageError, match=rf"sealed to another key.*\({path}\)"):
        inspect(path, keys["shop"])


def test_a_sealed_message_without_a_key_is_not_read(tmp_path):
    """Its first bytes tell; the file here has 3 GB of nothing, and takes no memory."""
    path, size = tmp_path / "m", 3 * 10**9
    with open(path, "wb") as file:
        file.write(SEALED)
        file.truncate(size)
    tracemalloc.start()
    told = inspect(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (told["bytes"], told["sealed"]) == (size, "yes: only the receiver can read it (key)")
    assert most < 10**7


def test_what_is_no_message(tmp_path):
    with pytest.raises(MessageError, match=r"none cannot be read: No such file"):
        inspect(tmp_path / "none")
    (tmp_path / "text").write_text("id,age\n1,2\n")
    with pytest.raises(MessageError, match=r"not a fedonce message, or it is cut short.*text\)"):
        inspect(tmp_path / "text")


def test_files_of_an_alignment(table, keys, tmp_path):
    asked, kept = alignment.request(table.ids, "bank", "spring", "both", ("trim",))
    answer = alignment.respond(asked, table.ids[:30], "shop", ("trim",))
    rows = alignment.agreed_rows(table.ids[:30], "bank", "shop", "spring")
    with_secret = alignment.agreed_rows(table.ids[:30], "bank", "shop", "spring", secret=SECRET)
    files = {"ask": asked, "state": kept, "answer": answer, "rows": rows, "secret": with_secret}
    files["sealed"] = crypto.seal(rows, keys["shop"].public)
    told = {}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        told[name] = inspect(tmp_path / name, keys["shop"])
        assert (told[name]["bytes"], told[name]["run"]) == (len(data), "spring")
    assert (told["ask"]["kind"], told["ask"]["party"]) == ("alignment request", "bank (host)")
    assert (told["ask"]["ids asked about"], told["answer"]["ids answered"]) == (40, 40)
    assert "normalised: trim" in told["ask"]["ids"]
    assert told["answer"]["rows of the guest"] == 30
    assert "NEVER SEND IT" in told["state"]["who learns what"]
    assert "key" not in {*told["state"]}
    assert (told["rows"]["rows"], told["rows"]["party"]) == (30, "bank (host), for shop")
    assert "WHOEVER HAS THIS FILE" in told["rows"]["who learns what"]
    assert fingerprint(SECRET) in told["secret"]["ids"]
    assert told["sealed"] == told["rows"] | {
        "file": str(tmp_path / "sealed"),
        "bytes": len(files["sealed"]),
        "sealed": "yes, opened here",
    }
    for name in ("ask", "state", "answer", "rows"):
        (tmp_path / name).write_bytes(files[name][:-1] + bytes([files[name][-1] ^ 1]))
        with pytest.raises(MessageError, match=rf"is refused: .*{name}\)"):
            inspect(tmp_path / name)


def hints_at(labels, epsilon, **more):
    ids = np.array([f"c{i}" for i in range(len(labels))], dtype=object)
    hinting = Hinting(epsilon, label="repaid", edges=more.pop("edges", None))
    return publish(labels, hinting, party="bank", run="spring", ids=ids, naming=Naming("keyed", SECRET), **more)


def test_hints_say_how_truly_they_tell_and_what_everybody_sees(tmp_path):
    labels = np.repeat([0, 1, 2], [3000, 2000, 1000])
    told = inspect(hints_at(labels, 2.0).to_file(tmp_path / "h.fedonce"))
    assert (told["kind"], told["party"], told["run"], told["label"]) == ("hints", "bank (host)", "spring", "repaid")
    assert (told["classes"], told["rows"], told["signature"], told["sealed"]) == ("3", 6000, "none", "no")
    assert told["label epsilon"] == "2, pure, by randomised response (as the host states it)"
    assert told["keep probability"].startswith(f"with probability {np.exp(2) / (np.exp(2) + 2):.4g} the true class")
    rates = [float(rate) for rate in told["base rates"].removeprefix("VISIBLE: about ").split(", ")]
    assert np.allclose(rates, [1 / 2, 1 / 3, 1 / 6], atol=0.04)  # of 6,000 answers, with a spread of 0.01
    assert "an answer that its owner can deny" in told["who learns what"]


def test_hints_that_travel_as_they_are_say_so(tmp_path):
    told = inspect(hints_at(np.arange(40) % 2, np.inf).to_file(tmp_path / "h.fedonce"))
    assert told["label epsilon"] == "none: THE LABEL TRAVELS AS IT IS"
    assert (told["keep probability"], told["base rates"]) == (
        "1: every class is the true one",
        "VISIBLE: about 0.5, 0.5",
    )
    assert told["who learns what"].endswith("an answer that is true")


def test_bins_of_hints_are_told_and_many_are_cut_short(tmp_path):
    numbers = np.linspace(0, 100, 500)
    few = hints_at(numbers, 2.0, edges=(10, 20), task="regression").to_file(tmp_path / "h.fedonce")
    assert inspect(few)["classes"] == "3, bins between 10, 20"
    many = hints_at(numbers, 2.0, edges=range(1, 99), task="regression").to_file(tmp_path / "h.fedonce")
    assert inspect(many)["classes"].endswith("12, ...")
    assert inspect(many)["base rates"].endswith(" and 87 more")


def test_signed_and_sealed_hints_are_opened_and_verified(keys, tmp_path):
    hints = hints_at(np.arange(40) % 2, 2.0)
    signed = replace(hints, signature=keys["bank"].sign(hints.checksum))
    path = tmp_path / "h.fedonce"
    path.write_bytes(crypto.seal(signed.to_bytes(), keys["shop"].public))
    assert inspect(path)["sealed"].startswith("yes: only the receiver")
    told = inspect(path, keys["shop"], keys["bank"].public)
    assert (told["signature"], told["sealed"]) == (f"verified: by {keys['bank'].fingerprint}", "yes, opened here")
    with pytest.raises(MessageError, match="do not use it"):
        inspect(path, keys["shop"], keys["shop"].public)


def test_a_message_made_with_hints_says_so(message, tmp_path):
    path = tmp_path / "m.fedonce"
    assert inspect(replace(message, hints="2.0 repaid").to_file(path))["hints"].startswith(
        "made with hints at 'repaid', label epsilon 2 "
    )
    assert ", as it is" in inspect(replace(message, hints="inf last year").to_file(path))["hints"]
