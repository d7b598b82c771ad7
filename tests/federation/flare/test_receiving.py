"""What the server takes of streams; FLARE's part is played by hand, real streams are in `test_faults`."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

pytest.importorskip("nvflare")
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.app_common.streamers import file_streamer as keys

from fedonce.federation.flare.jobs import write_job
from fedonce.federation.flare.receiving import MOST_STREAMS, Inbox
from fedonce.federation.flare.server_app import Collect

MESSAGE = bytes(range(100))


def context(name="shop"):
    return SimpleNamespace(get_peer_context=lambda: SimpleNamespace(get_identity_name=lambda: name))


def piece(data, last=False):
    return Shareable({keys.KEY_DATA: data, keys.KEY_DATA_SIZE: len(data), keys.KEY_EOF: last})


@pytest.fixture
def refused():
    return []


@pytest.fixture
def inbox(tmp_path, refused):
    return Inbox(tmp_path, 100, lambda name: name == "shop" and not refused, refused.append)


def opened(inbox, size=100, name="shop", **more):
    about = {keys.KEY_FILE_SIZE: size, **more}
    return inbox.get_consumer(about, context(name)), about


def test_a_message_arrives_in_pieces(inbox, tmp_path, refused):
    receiver, about = opened(inbox, **{keys.KEY_FILE_LOCATION: "/etc/passwd"})
    assert receiver.consume(piece(MESSAGE[:60]), about, context())[0]
    going_on, reply = receiver.consume(piece(MESSAGE[60:], True), about, context())
    receiver.finalize(about, context())
    assert not going_on
    assert reply.get_return_code() == ReturnCode.OK
    (path,) = tmp_path.iterdir()
    assert (path.read_bytes(), str(path), path.stat().st_mode & 0o77) == (MESSAGE, about[keys.KEY_FILE_LOCATION], 0)
    assert refused == []


def test_what_is_announced_too_large_is_not_begun(inbox, tmp_path, refused):
    for size in (101, 2**50, "100", None):
        assert opened(inbox, size)[0] is None
        assert refused == ["shop"]
        refused.clear()
    assert opened(inbox, name="stranger")[0] is None
    assert refused == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [0, -1])
def test_what_is_announced_empty_is_not_begun(inbox, tmp_path, size):
    assert opened(inbox, size)[0] is None
    assert list(tmp_path.iterdir()) == []


def test_a_guest_has_no_more_than_so_many_streams_open(inbox, tmp_path, refused):
    streams = [opened(inbox) for _ in range(MOST_STREAMS)]
    assert opened(inbox)[0] is None
    assert len(list(tmp_path.iterdir())) == MOST_STREAMS
    assert refused == []  # what it sent before may still become whole
    for _ in range(2):  # FLARE may end a stream twice; it is given back once
        streams[0][0].finalize(streams[0][1], context())
    streams[0] = opened(inbox)
    assert streams[0][0] is not None
    assert opened(inbox)[0] is None
    for receiver, about in streams:
        receiver.finalize(about, context())
    assert not any(inbox.streams.values())


def test_streams_are_counted_by_guest(tmp_path):
    inbox = Inbox(tmp_path, 100, lambda name: True, lambda name: None)
    streams = [opened(inbox) for _ in range(MOST_STREAMS)] + [opened(inbox, name="telco")]
    assert all(receiver is not None for receiver, _ in streams)
    for receiver, about in streams:
        receiver.finalize(about, context())


def test_a_stream_without_a_file_is_not_counted(tmp_path):
    inbox = Inbox(tmp_path / "nowhere", 100, lambda name: True, lambda name: None)
    with pytest.raises(OSError, match="nowhere"):
        opened(inbox)
    assert not any(inbox.streams.values())


def test_streams_side_by_side_are_counted_together_and_cut_off(inbox, tmp_path, refused):
    streams = [opened(inbox) for _ in range(5)]
    for receiver, about in streams[:2]:
        receiver.consume(piece(b"x" * 50), about, context())
    receiver, about = streams[2]
    with pytest.raises(ValueError, match="shop sends more than 100 bytes"):
        receiver.consume(piece(b"x"), about, context())
    assert refused == ["shop"]
    with pytest.raises(ValueError, match="not wanted"):  # nor by the others, from now on
        streams[0][0].consume(piece(b""), streams[0][1], context())
    for receiver, about in streams:
        receiver.finalize(about, context())
    assert list(tmp_path.iterdir()) == []
    assert not any(inbox.under_way.values())


@pytest.mark.parametrize("pieces", [[b"x" * 11], [b"x" * 5, b"x" * 6], [b"x" * 9], ["text"]])
def test_what_is_not_as_announced_is_removed(inbox, tmp_path, pieces):
    receiver, about = opened(inbox, 10)
    *first, last = pieces
    for data in first:
        receiver.consume(piece(data), about, context())
    with pytest.raises(ValueError, match="shop"):
        receiver.consume(piece(last, True), about, context())
    receiver.finalize(about, context())
    assert list(tmp_path.iterdir()) == []


def test_the_server_refuses_the_guest_by_name_and_keeps_to_it(tmp_path):
    server = Collect(["shop"], limit=10**6)
    server.folder = tmp_path
    server.started = {"shop": 0.0}
    assert server._wanted("shop")
    server._refuse_large("shop")
    assert not server._wanted("shop")
    answer = SimpleNamespace(client=SimpleNamespace(name="shop"), result=make_reply(ReturnCode.OK))
    server._answered(answer, context())  # whatever the guest says of it
    told = json.loads((tmp_path / "shop.json").read_text())
    assert (told["state"], told["done"]) == ("refused", True)
    assert told["reason"] == "its message is larger than 1 MB, the most that the host takes (max_message)"


def test_a_job_tells_the_server_how_much_it_takes(tmp_path):
    write_job(tmp_path, "learn", {"shop": b""}, limit=12345)
    config = json.loads((tmp_path / "server" / "config" / "config_fed_server.json").read_text())
    assert config["workflows"][0]["args"]["limit"] == 12345


def test_values_of_a_round_are_no_larger(tmp_path):
    server = Collect(["shop"], limit=10)
    server.values["shop"] = 1, SimpleNamespace(result=lambda timeout: {"message": b"x" * 11})
    told = server._fetch("fetch", {"guest": "shop", "turn": 1}, context())
    assert told["state"] == "refused"
    assert "max_message" in told["reason"]
