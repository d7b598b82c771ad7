from __future__ import annotations

import json
import os
import resource
import threading
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedonce import AbsentPartyError, Guest, InputError, MessageError, Representation
from fedonce.engine import files
from fedonce.engine.files import FilesEngine
from fedonce.errors import FedOnceWarning
from fedonce.messages import envelope
from fedonce.messages.codecs.coded import Coded4
from fedonce.messages.codecs.steps import Steps
from fedonce.messages.keys import new_keys, read_private, read_public, seal
from fedonce.messages.names import KeptName
from tests.conftest import as_sent, make_table

LONG = 60.0  # seconds that no test waits for
X = make_table(30)[0]


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch):
    monkeypatch.setattr(files, "PAUSE", 0.01)


def message(name="shop", seed=0, run="june"):
    return Guest(name, "random", 2, run=run, random_state=seed).learn(X)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    return {
        name: tuple(read(path) for read, path in zip((read_private, read_public), new_keys(name, folder), strict=True))
        for name in ("bank", "shop")
    }


def put(folder, name, data, at=None):
    """Put a file into a folder as a careful sender does, whole; `at` is its time."""
    path = Path(folder) / name
    unfinished = path.with_suffix(".part")
    unfinished.write_bytes(data)
    if at is not None:
        os.utime(unfinished, (at, at))
    return unfinished.rename(path)


def test_messages_by_name(tmp_path):
    sent = {name: message(name).to_bytes() for name in ("shop", "post")}
    paths = [put(tmp_path, f"{name}.fedonce", data) for name, data in sent.items()]
    told = []
    engine = FilesEngine("june", paths, tell=told.append)
    assert as_sent(engine.learn()) == sent
    assert engine.guests == ("shop", "post")
    assert engine.late == ()
    assert engine.moved == {name: len(data) for name, data in sent.items()}
    assert told == [
        f"received {name}: 30 rows, {len(sent[name])} bytes ({path})" for name, path in zip(sent, paths, strict=True)
    ]
    assert as_sent(FilesEngine("june", paths).represent()) == sent


def test_the_same_bytes_again_are_harmless(tmp_path):
    data = message().to_bytes()
    paths = [put(tmp_path, name, data) for name in ("a.fedonce", "b.fedonce")]
    assert as_sent(FilesEngine("june", paths).learn()) == {"shop": data}
    engine = FilesEngine("june", paths, inbox=tmp_path, expect=["shop"], kept={"shop": data})
    assert as_sent(engine.learn()) == {"shop": data}
    assert engine.refused == {}


def test_a_second_different_message_is_refused_or_replaces(tmp_path):
    first, second = message(seed=1).to_bytes(), message(seed=2).to_bytes()
    paths = [put(tmp_path, "z.fedonce", first), put(tmp_path, "a.fedonce", second)]
    with pytest.raises(
        MessageError,
        match=r"'shop' in .*a.fedonce is refused: another, different one is in .*z.fedonce.*take the later one .replace.",
    ):
        FilesEngine("june", paths).learn()
    assert as_sent(FilesEngine("june", paths, replace=True).learn()) == {"shop": second}
    assert as_sent(FilesEngine("june", paths[::-1], replace=True).learn()) == {"shop": first}


def test_in_the_inbox_the_first_stays_and_the_later_replaces_by_time(tmp_path):
    first, second = message(seed=1).to_bytes(), message(seed=2).to_bytes()
    put(tmp_path, "z.fedonce", first, at=1_000)
    put(tmp_path, "a.fedonce", second, at=2_000)
    engine = FilesEngine("june", inbox=tmp_path, expect=["shop"])
    assert as_sent(engine.learn()) == {"shop": first}
    assert "a.fedonce" in engine.refused
    assert as_sent(FilesEngine("june", inbox=tmp_path, expect=["shop"], replace=True).learn()) == {"shop": second}


def test_messages_kept_from_before(tmp_path):
    kept, new = {"shop": message().to_bytes()}, message("post").to_bytes()
    path = put(tmp_path, "post.fedonce", new)
    engine = FilesEngine("june", [path], expect=["shop", "post"], kept=kept)
    assert as_sent(engine.learn()) == {**kept, "post": new}
    other = put(tmp_path, "shop.fedonce", message(seed=2).to_bytes())
    with pytest.raises(MessageError, match=r"different one is in the model's folder \(shop\)"):
        FilesEngine("june", [other], kept=kept).learn()
    replaced = FilesEngine("june", [other], kept=kept, replace=True)
    assert as_sent(replaced.learn()) == {"shop": other.read_bytes()}
    with pytest.raises(MessageError, match="'bank' is refused: it says that it is from party 'shop'"):
        FilesEngine("june", kept={"bank": kept["shop"]}).learn()


def test_another_run_is_refused(tmp_path):
    path = put(tmp_path, "shop.fedonce", message(run="may").to_bytes())
    with pytest.raises(
        MessageError, match=r"'shop' in .*shop.fedonce is refused: it belongs to run 'may', this is run 'june'"
    ):
        FilesEngine("june", [path]).learn()


@pytest.mark.parametrize("data", [b"", b"nonsense" * 50, message().to_bytes()[:-1]])
def test_damaged_files_are_named(tmp_path, data):
    path = put(tmp_path, "shop.fedonce", data)
    with pytest.raises(MessageError, match=str(path)):
        FilesEngine("june", [path]).learn()
    told = []
    engine = FilesEngine("june", inbox=tmp_path, expect=["shop"], least=0, tell=told.append)
    assert engine.learn() == {}
    assert engine.late == ("shop",)
    assert any(line.startswith("refused shop.fedonce: ") for line in told)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(MessageError, match="The message .*nowhere.fedonce cannot be read: No such file"):
        FilesEngine("june", [tmp_path / "nowhere.fedonce"]).learn()
    with pytest.raises(InputError, match="The inbox .*nowhere is no folder; make it"):
        FilesEngine("june", inbox=tmp_path / "nowhere").learn()


def test_whoever_is_late_is_named_and_whoever_is_not_expected_is_refused(tmp_path):
    data = message().to_bytes()
    put(tmp_path, "shop.fedonce", data)
    put(tmp_path, "stranger.fedonce", message("stranger").to_bytes())
    put(tmp_path, "notes.txt", b"not ours")
    told = []
    engine = FilesEngine("june", inbox=tmp_path, expect=["post", "shop"], deadline=0.05, tell=told.append)
    assert as_sent(engine.learn()) == {"shop": data}
    assert engine.guests == ("post", "shop")
    assert engine.late == ("post",)
    assert list(engine.refused) == ["stranger.fedonce"]
    assert "refused stranger.fedonce: it is from party 'stranger', who is not expected (expect)" in told
    assert "waiting for post" in told


def test_without_expectations_everybody_in_the_inbox_is_taken(tmp_path):
    for name in ("shop", "post"):
        put(tmp_path, f"{name}.fedonce", message(name).to_bytes())
    assert set(FilesEngine("june", inbox=tmp_path).learn()) == {"shop", "post"}


def test_a_message_under_the_hosts_name_is_refused_and_the_rest_goes_on(tmp_path):
    path = put(tmp_path, "a.fedonce", message("bank").to_bytes())
    put(tmp_path, "shop.fedonce", message().to_bytes())
    engine = FilesEngine("june", inbox=tmp_path, host="bank")
    assert list(engine.learn()) == ["shop"]
    assert list(engine.refused) == ["a.fedonce"]
    assert "party 'bank'" in engine.refused["a.fedonce"]
    assert "the host's own name" in engine.refused["a.fedonce"]
    with pytest.raises(MessageError, match=r"'bank' in .*a.fedonce is refused: that is the host's own name"):
        FilesEngine("june", [path], host="bank").learn()


def test_a_folder_in_the_inbox_is_told_and_nothing_more(tmp_path):
    (tmp_path / "odd.fedonce").mkdir()
    put(tmp_path, "shop.fedonce", message().to_bytes())
    engine = FilesEngine("june", inbox=tmp_path)
    assert list(engine.learn()) == ["shop"]
    assert list(engine.refused) == ["odd.fedonce"]


class Clock:
    """A clock that goes on by sleeping alone: what is waited for is known, and nobody waits."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(files, "time", made)
    return made


def test_the_deadline_is_kept_and_not_waited_for_without_need(tmp_path, clock):
    with pytest.raises(AbsentPartyError, match="Still missing: shop"):
        FilesEngine("june", inbox=tmp_path, expect=["shop"], deadline=LONG).learn()
    assert clock.now == pytest.approx(LONG)
    put(tmp_path, "shop.fedonce", message().to_bytes())
    FilesEngine("june", inbox=tmp_path, expect=["shop"], deadline=LONG).learn()
    assert clock.now == pytest.approx(LONG)


def later(act):
    """Run something in a thread, once the engine has begun to wait."""
    thread = threading.Timer(0.1, act)
    thread.start()
    return thread


def test_a_message_that_arrives_while_waiting(tmp_path):
    data = message().to_bytes()
    thread = later(lambda: put(tmp_path, "shop.fedonce", data))
    try:
        assert as_sent(FilesEngine("june", inbox=tmp_path, expect=["shop"], deadline=LONG).learn()) == {"shop": data}
    finally:
        thread.join()


@pytest.mark.parametrize("sealed", [False, True])
def test_a_file_that_is_being_copied_is_waited_for(tmp_path, keys, sealed):
    private, public = keys["bank"]
    data = message().to_bytes()
    whole = seal(data, public) if sealed else data
    path = tmp_path / "shop.fedonce"
    path.write_bytes(whole[: len(whole) // 2])
    half_seen = threading.Event()

    def finish():
        half_seen.wait(LONG)
        with path.open("ab") as file:
            file.write(whole[len(whole) // 2 :])

    class Watching(FilesEngine):
        def _accept(self, path, expected_only=False):
            try:
                super()._accept(path, expected_only)
            finally:
                half_seen.set()

    told = []
    engine = Watching("june", inbox=tmp_path, expect=["shop"], deadline=LONG, key=private, tell=told.append)
    thread = threading.Thread(target=finish)
    thread.start()
    try:
        assert as_sent(engine.learn()) == {"shop": data}
    finally:
        half_seen.set()
        thread.join()
    assert engine.refused == {}
    assert not any(line.startswith("refused") for line in told)


def test_a_file_is_read_once_unless_it_changes(tmp_path, monkeypatch):
    put(tmp_path, "bad.fedonce", b"nonsense")
    reads = []
    read = files.envelope.read_bytes
    monkeypatch.setattr(files.envelope, "read_bytes", lambda *given: reads.append(given) or read(*given))
    with pytest.raises(AbsentPartyError, match="bad.fedonce was refused: .*not a fedonce message"):
        FilesEngine("june", inbox=tmp_path, expect=["shop"], deadline=0.1).learn()
    assert len(reads) == 1


def test_too_few_guests(tmp_path):
    put(tmp_path, "shop.fedonce", message().to_bytes())
    given = {"inbox": tmp_path, "expect": ["shop", "post"]}
    with pytest.raises(
        AbsentPartyError,
        match=r"At least 2 guests must answer, and only shop did. Still missing: post.*wait longer .deadline.",
    ):
        FilesEngine("june", least=2, **given).learn()
    assert list(FilesEngine("june", least=1, **given).learn()) == ["shop"]
    with pytest.raises(AbsentPartyError, match="At least 1 guest must answer, and nobody did"):
        FilesEngine("june").learn()
    assert FilesEngine("june", least=0).represent() == {}


def test_sealed_messages_need_the_key(tmp_path, keys):
    data = message().to_bytes()
    path = put(tmp_path, "shop.fedonce", seal(data, keys["bank"][1]))
    with pytest.raises(
        MessageError, match=r"shop.fedonce is sealed; give the private key that it was sealed to \(key\)"
    ):
        FilesEngine("june", [path]).learn()
    with pytest.raises(MessageError, match=r"cannot be opened with the key .*shop.fedonce"):
        FilesEngine("june", [path], key=keys["shop"][0]).learn()
    engine = FilesEngine("june", [path], key=keys["bank"][0])
    assert as_sent(engine.learn()) == {"shop": data}  # opened
    assert engine.moved == {"shop": path.stat().st_size}  # and counted as it came
    assert path.stat().st_size > len(data)
    kept = FilesEngine("june", kept={"shop": data}, kept_sizes=engine.moved)
    assert as_sent(kept.learn()) == {"shop": data}
    assert kept.moved == engine.moved  # also when it was opened before
    open_one = put(tmp_path, "open.fedonce", data)
    assert as_sent(FilesEngine("june", [open_one, path], key=keys["bank"][0]).learn()) == {"shop": data}


def test_a_sealed_message_within_a_sealed_one_is_refused(tmp_path, keys):
    private, public = keys["bank"]
    path = put(tmp_path, "shop.fedonce", seal(seal(message().to_bytes(), public), public))
    with pytest.raises(MessageError, match=r"it is sealed.*shop.fedonce"):
        FilesEngine("june", [path], key=private).learn()


def signed(sent, key):
    return replace(sent, signature=key.sign(sent.checksum))


def test_signatures_are_asked_for_by_guest(tmp_path, keys):
    private, public = keys["shop"]
    good = put(tmp_path, "good.fedonce", signed(message(), private).to_bytes())
    assert list(FilesEngine("june", [good], verify={"shop": public}).learn()) == ["shop"]
    assert list(FilesEngine("june", [good]).learn()) == ["shop"]  # nobody asked
    unsigned = put(tmp_path, "unsigned.fedonce", message().to_bytes())
    with pytest.raises(MessageError, match=f"unsigned.fedonce is refused: it is not signed.*{public.fingerprint}"):
        FilesEngine("june", [unsigned], verify={"shop": public}).learn()


def test_with_any_key_every_message_must_be_verified(tmp_path, keys):
    private, public = keys["shop"]
    put(tmp_path, "shop.fedonce", signed(message(), private).to_bytes())
    stranger = put(tmp_path, "post.fedonce", signed(message("post"), private).to_bytes())
    engine = FilesEngine("june", inbox=tmp_path, verify={"shop": public})
    assert list(engine.learn()) == ["shop"]
    assert "keys to verify 'shop' and none for it" in engine.refused["post.fedonce"]
    with pytest.raises(MessageError, match="keys to verify 'shop' and none for it.*Give its key, too .verify."):
        FilesEngine("june", [stranger], verify={"shop": public}).learn()
    kept = {"post": stranger.read_bytes()}  # it was taken before, and lies in the host's own folder
    assert list(FilesEngine("june", [tmp_path / "shop.fedonce"], verify={"shop": public}, kept=kept).learn()) == [
        "post",
        "shop",
    ]


def test_a_key_of_somebody_else_is_an_error_at_training_and_a_warning_at_prediction(tmp_path, keys, clock):
    sent = signed(message(), keys["shop"][0]).to_bytes()
    path, verify = put(tmp_path, "shop.fedonce", sent), {"shop": keys["shop"][1], "post": keys["shop"][1]}
    with pytest.raises(InputError, match=r"key to verify 'post' \(verify\), and messages are from 'shop'; write"):
        FilesEngine("june", [path], verify=verify).learn()
    with pytest.raises(InputError, match="key to verify 'post'"):  # before the waiting
        FilesEngine("june", inbox=tmp_path, expect=["shop", "mill"], deadline=LONG, verify=verify).learn()
    assert clock.now == 0
    with pytest.warns(FedOnceWarning, match="'post' .*no guest here .'shop'.: nothing was verified"):
        FilesEngine("june", [path], verify=verify).represent()
    assert list(FilesEngine("june", [path], verify=verify, members=["post"]).represent()) == ["shop"]


def test_signatures_that_are_wrong(tmp_path, keys):
    private, public = keys["shop"]
    forged = {
        "by another": signed(message(), keys["bank"][0]),
        "of another message": replace(message(), signature=signed(message(seed=2), private).signature),
        "none": replace(message(), signature="x"),
    }
    for name, sent in forged.items():
        path = put(tmp_path, f"{name}.fedonce", sent.to_bytes())
        with pytest.raises(
            MessageError, match=f"{name}.fedonce is refused: its signature is not by .*{public.fingerprint}"
        ):
            FilesEngine("june", [path], verify={"shop": public}).learn()


def test_a_message_without_a_valid_signature_does_not_replace_one_that_has(tmp_path, keys):
    private, public = keys["shop"]
    good = signed(message(), private).to_bytes()
    put(tmp_path, "good.fedonce", good, at=1_000)
    put(tmp_path, "later.fedonce", message(seed=2).to_bytes(), at=2_000)
    engine = FilesEngine("june", inbox=tmp_path, expect=["shop"], verify={"shop": public}, replace=True)
    assert as_sent(engine.learn()) == {"shop": good}
    assert list(engine.refused) == ["later.fedonce"]


@pytest.fixture
def little_memory():
    """Let a test take little address space beyond what it has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + 2**28, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.parametrize("start", [b"fedonce sealed 1\n", b"", message().to_bytes()])
def test_a_file_is_judged_before_it_is_read(tmp_path, keys, little_memory, start):
    for size in (6 * 2**30, 2**30):
        path = tmp_path / f"{size}.fedonce"
        path.write_bytes(start)
        os.truncate(path, size)  # it takes no room on the disk
    for key in (None, keys["bank"][0]):
        engine = FilesEngine("june", inbox=tmp_path, least=0, key=key, max_message=2**29)
        assert engine.learn() == {}
        assert all("max_message" in why for why in engine.refused.values())
    engine = FilesEngine("june", inbox=tmp_path, least=0)  # without the key a sealed file is of no use
    assert engine.learn() == {}
    assert "the limit is 4 GB (max_message)" in engine.refused[f"{6 * 2**30}.fedonce"]
    assert len(engine.refused) == 2


def header_of(n, d, coded):
    """Return the header of a message of 4 bits that announces so many rows and values, coded or plain."""
    header, _ = Representation.from_bytes(message().to_bytes())._content()
    how = {"codec": "coded4"} if coded else {}
    return {key: text for key, text in header.items() if key != "codec"} | {"n": str(n), "d": str(d), "bits": "4"} | how


def wide(d, coded, n=1):
    """Return a message of many values per row in few bytes."""
    header = header_of(n, d, coded)
    if coded:
        steps = Steps(np.zeros(1, np.float32), np.ones(1, np.float32), np.ones(1, np.uint16))
        values = Coded4(steps).encode(np.zeros((n, d), np.float32))
        return envelope.pack("message", header, values | Coded4(steps).state())
    values = np.zeros(-(-n * d // 2), np.uint8)
    scale = {name: np.zeros(d if d <= 64 else 1, np.float32) for name in ("low", "high")}
    return envelope.pack("message", header, {"values": values, **scale})


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("d", [1025, 2**17, 2**20])
def test_more_values_per_row_than_the_limit_are_refused_before_they_are_decoded(tmp_path, d, coded):
    path = put(tmp_path, "shop.fedonce", wide(d, coded))
    tracemalloc.start()
    with pytest.raises(
        MessageError, match=rf"'shop' is refused: it has {d} values per row, and the limit is 1024 \(max_dim\)"
    ):
        FilesEngine("june", [path]).learn()
    assert tracemalloc.get_traced_memory()[1] < 2**18
    tracemalloc.stop()
    if d == 1025:
        assert list(FilesEngine("june", [path], max_dim=d).learn()) == ["shop"]


def sparse(n, absent=False, coded=False):
    """Return a message of `n` rows whose values are zeros that the file need not hold: its start, and its size."""
    header = header_of(n, 120, coded)
    shapes = {"coded": ("U8", [1000])} if coded else {"values": ("U8", [0 if absent else n * 60])}
    shapes |= {"steps": ("F32", [4])} if coded else {"low": ("F32", [1]), "high": ("F32", [1])}
    if absent:
        shapes = {"present": ("U8", [-(-n // 8)])} | shapes
    data = envelope.pack("message", header, {"values": np.zeros(0, np.uint8)})
    length = int.from_bytes(data[:8], "little")
    texts, end = {"__metadata__": json.loads(data[8 : 8 + length])["__metadata__"]}, 0
    for name, (dtype, shape) in shapes.items():
        size = shape[0] * (4 if dtype == "F32" else 1)
        texts[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    head = json.dumps(texts, sort_keys=True, separators=(",", ":")).encode()
    return len(head).to_bytes(8, "little") + head, 8 + len(head) + end


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("absent", [False, True])
def test_more_memory_than_the_limit_is_refused_before_a_message_is_read(tmp_path, absent, coded):
    start, size = sparse(1_000_000, absent, coded)
    path = put(tmp_path, "shop.fedonce", start)
    os.truncate(path, size)
    taken = "513 MB" if coded else "481 MB"
    limit = rf"'shop' is refused: its 1,000,000 rows of 120 values would take {taken} .* limit is 1 MB \(max_memory\)"
    reads = (
        lambda: FilesEngine("june", [path], max_memory=10**6).learn(),
        lambda: Representation.from_file(path, max_memory=10**6),
    )
    for read in reads:
        tracemalloc.start()
        with pytest.raises(MessageError, match=f"{limit}; raise .*max_memory.* fewer rows or fewer values"):
            read()
        assert tracemalloc.get_traced_memory()[1] < 2**18
        tracemalloc.stop()


def test_memory_is_limited_also_of_sealed_and_kept_messages(tmp_path, keys):
    data = message().to_bytes()  # 30 rows of 2 values: 30 * (2 * 4 + 1) bytes, and 30 * (2 * 2 + 16) to decode them
    path = put(tmp_path, "shop.fedonce", seal(data, keys["bank"][1]))
    for given in ({"files": [path], "key": keys["bank"][0]}, {"kept": {"shop": data}}):
        assert list(FilesEngine("june", max_memory=870, **given).learn()) == ["shop"]
        with pytest.raises(MessageError, match="limit is 869 bytes"):
            FilesEngine("june", max_memory=869, **given).learn()


def test_a_file_larger_than_its_header_says_is_refused_before_it_is_read(tmp_path, little_memory):
    """Whoever makes files can announce a tensor of any size; so many rows of so many values have their own."""
    header, tensors = Representation.from_bytes(message().to_bytes())._content()
    data = envelope.pack("message", header, tensors | {"more": np.zeros(0, np.uint8)})
    length = int.from_bytes(data[:8], "little")
    texts = json.loads(data[8 : 8 + length])
    end = max(entry["data_offsets"][1] for name, entry in texts.items() if name != "__metadata__")
    texts["more"] |= {"shape": [2**30], "data_offsets": [end, end + 2**30]}
    head = json.dumps(texts, sort_keys=True, separators=(",", ":")).encode()
    path = put(tmp_path, "shop.fedonce", len(head).to_bytes(8, "little") + head + data[8 + length :])
    os.truncate(path, 8 + len(head) + end + 2**30)
    with pytest.raises(MessageError, match="30 rows of 2 values take no more than"):
        FilesEngine("june", [path]).learn()


def test_names_that_look_alike_are_refused_unless_the_model_has_them(tmp_path):
    old = "m\u00fcller"
    data = message(KeptName(old)).to_bytes()
    path = put(tmp_path, "old.fedonce", data)
    with pytest.raises(MessageError, match=r"old.fedonce is refused: its party's name must be ASCII .*'m\\xfcller'"):
        FilesEngine("june", [path]).learn()
    assert as_sent(FilesEngine("june", [path], members=[old]).represent()) == {old: data}
    assert as_sent(FilesEngine("june", kept={old: data}).learn()) == {old: data}
    assert Representation.from_bytes(data).party == old


def test_a_key_to_verify_a_name_that_nobody_can_have_is_refused(keys, tmp_path):
    """But for guests of a model from an earlier version."""
    sent = signed(message(), keys["shop"][0]).to_bytes()
    path, verify = put(tmp_path, "shop.fedonce", sent), {"\u0455hop": keys["shop"][1]}
    for call in ("learn", "represent"):
        with pytest.raises(InputError, match=r"verify\) must be ASCII .*'\\u0455hop': .* looks like 's'"):
            getattr(FilesEngine("june", [path], verify=verify), call)()
    with pytest.raises(MessageError, match="none for it"):
        FilesEngine("june", [path], verify=verify, members=["\u0455hop"]).represent()
