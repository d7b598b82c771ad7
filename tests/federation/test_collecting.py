"""Asking, waiting, asking again: over a pretended transport, by a clock that passes only where somebody waits."""

from __future__ import annotations

import json
import os

import pytest

import fedonce
from fedonce.errors import AbsentPartyError, FederationError, MessageError
from fedonce.federation.collecting import Collector, Terms
from fedonce.federation.jobqueue import LONGEST_RETRY, RETRY_SECONDS
from fedonce.federation.request import Request
from fedonce.federation.transport import Left, Seen
from tests.federation.pretended import (
    Clock,
    Killed,
    Play,
    Pretended,
    ends,
    falls_silent,
    never,
    refuses,
    sends,
    vanishes,
)

GOOD, OTHER, BAD = b"a good file", b"another good file", b"damaged"
ASKED = {name: Request("bank", name, "churn", "learn", fedonce.__version__) for name in ("shop", "telco")}
ALONE = {"shop": ASKED["shop"]}
SLACK = 4.0  # seconds between two looks, at most


class Host:
    """A host that collects, as often as it is started; it notes what it is told and what it reads."""

    def __init__(self, folder, **plays):
        self.clock, self.folder = Clock(), folder
        self.transport = Pretended(self.clock, plays)
        self.news, self.reads = [], []

    def read(self, guest, data):
        self.reads.append(guest)
        if data == BAD:
            raise MessageError(f"The file of {guest} is damaged.")
        return data

    def watch(self, status):
        self.news.append((status.guest, status.state))

    def start(self, **terms):
        terms = Terms(**{"deadline": self.clock() + 100.0, "least": 0, "silence": 20.0} | terms)
        self.collector = Collector(
            self.transport, self.folder, terms, self.read, self.watch, self.clock, self.clock.sleep
        )
        return self.collector

    def collect(self, asked=ALONE, **terms):
        collector = self.start(**terms)
        try:
            return collector.collect(asked)
        finally:
            collector.close()

    def is_killed(self, after=float("inf"), in_submission=False):
        """Start to collect, and be killed after so many seconds or in the middle of asking; then be ready to start again."""
        self.transport.killing, self.transport.dying = after, in_submission
        with pytest.raises(Killed):
            self.start().collect(ALONE)
        self.transport.killing, self.transport.dying = float("inf"), False

    def states(self, guest="shop"):
        return [state for name, state in self.news if name == guest]

    @property
    def status(self):
        return self.collector.statuses["shop"]

    @property
    def asked_at(self):
        return [when for _, when in self.transport.submitted]


@pytest.fixture
def host(tmp_path):
    return lambda **plays: Host(tmp_path / "received", **plays)


def test_a_guest_that_answers(host):
    bank = host(shop=[sends(GOOD, wire=77, seconds=4.5)])
    assert bank.collect() == {"shop": GOOD}
    assert bank.states() == ["queued", "learning", "received"]
    assert (bank.status.bytes, bank.status.wire, bank.status.seconds) == (len(GOOD), 77, 4.5)
    assert (bank.status.tries, bank.reads) == (1, ["shop"])
    assert bank.collector.files() == {"shop": GOOD}
    assert bank.transport.forgotten == ["shop-1"]


def test_a_guest_that_answers_late_is_waited_for_until_the_deadline(host):
    bank = host(shop=[sends(GOOD, after=90.0)])
    assert bank.collect() == {"shop": GOOD}
    assert 90 <= bank.status.waited <= 90 + SLACK


def test_an_answer_is_taken_out_of_a_job_that_ended(host):
    assert host(shop=[ends(data=GOOD, state="sent")]).collect() == {"shop": GOOD}


def test_a_guest_that_answers_twice_is_read_once(host):
    bank = host(shop=[sends(GOOD), sends(OTHER)], telco=[sends(GOOD, after=60.0)])
    assert bank.collect(ASKED)["shop"] == GOOD
    assert bank.transport.taken == ["shop-1", "telco-1"]
    assert bank.reads == ["shop", "telco"]
    assert bank.collect(ASKED)["shop"] == GOOD  # nobody is asked again
    assert bank.transport.played == {"shop": 1, "telco": 1}


def test_a_guest_that_never_answers_is_late_and_its_job_is_ended(host):
    bank = host(shop=[never()])
    assert bank.collect(deadline=30.0) == {}
    assert bank.clock() == pytest.approx(30.0)
    assert bank.states()[-1] == "late"
    assert bank.transport.stopped == ["shop-1"]
    assert bank.collector.queue.written_down() == {}


def test_a_job_that_fails_is_tried_again_after_longer_and_longer(host):
    failed = [ends(after=2.0, state="failed", reason="no memory") for _ in range(7)]
    bank = host(shop=[*failed, sends(GOOD)])
    assert bank.collect(deadline=1000.0) == {"shop": GOOD}
    assert bank.status.tries == 8
    pauses = [later - earlier - 2.0 for earlier, later in zip(bank.asked_at, bank.asked_at[1:], strict=False)]
    wanted = [min(RETRY_SECONDS * 2.0**power, LONGEST_RETRY) for power in range(7)]
    assert all(want <= pause <= want + 2 * SLACK for want, pause in zip(wanted, pauses, strict=True))
    assert bank.status.failure == "no memory"


def test_the_reason_of_a_failure_is_cleaned_and_kept_until_the_deadline(host):
    bank = host(shop=[ends(state="failed", reason="no\x1b[31m memory\n")])
    bank.collect(deadline=60.0)
    assert (bank.status.state, bank.status.reason) == ("late", "no[31m memory")


def test_a_job_that_ends_without_a_word_says_how_it_ended(host):
    bank = host(shop=[ends(how="execution_exception"), sends(GOOD)])
    assert bank.collect() == {"shop": GOOD}
    assert bank.status.failure == "the job ended without an answer (execution_exception)"


def test_a_guest_that_refuses_is_not_asked_again(host):
    bank = host(shop=[refuses("dim 8 is above 4")])
    assert bank.collect() == {}
    assert (bank.status.state, bank.status.reason) == ("refused", "dim 8 is above 4")
    assert bank.clock() < 5.0 + SLACK  # nobody waits for it
    assert len(bank.transport.submitted) == 1


def test_a_silent_job_is_taken_for_lost_and_the_guest_is_asked_again(host):
    bank = host(shop=[falls_silent(after=5.0), sends(GOOD)])
    assert bank.collect(silence=20.0) == {"shop": GOOD}
    assert bank.transport.stopped == ["shop-1"]
    assert bank.status.failure == "the job did not answer"
    assert 25 <= bank.asked_at[1] <= 25 + RETRY_SECONDS + 3 * SLACK


def test_a_guest_that_the_server_gave_up_is_asked_again(host):
    silent = Play(lambda elapsed: Seen("running", {"state": "silent", "done": True}))
    bank = host(shop=[silent, sends(GOOD)])
    assert bank.collect() == {"shop": GOOD}
    assert bank.transport.stopped == ["shop-1"]
    assert bank.status.failure == "it went silent"


def test_a_server_that_is_away_is_no_silence_of_the_guest(host):
    bank = host(shop=[sends(GOOD, after=20.0)])
    bank.transport.away = lambda now: 3 < now < 70
    assert bank.collect(silence=20.0) == {"shop": GOOD}
    assert len(bank.transport.submitted) == 1


def test_a_job_has_time_to_speak_after_its_server_was_away(host):
    def seen(elapsed):
        if elapsed < 75:  # it says nothing until the server has been back for a while
            return Seen("running", {"state": "learning"} if elapsed < 3 else None)
        return Seen("running", {"state": "sent", "done": True})

    bank = host(shop=[Play(seen, GOOD)])
    bank.transport.away = lambda now: 3 < now < 70
    assert bank.collect(silence=20.0) == {"shop": GOOD}
    assert bank.transport.stopped == []


def test_a_server_that_is_away_at_the_start_is_told_at_once(host):
    bank = host(shop=[sends(GOOD)])
    bank.transport.away = lambda now: True
    with pytest.raises(FederationError, match="nobody is there"):
        bank.collect()
    assert bank.clock() == 0


def test_a_server_that_is_away_at_the_deadline_keeps_a_job_that_is_found_again(host):
    bank = host(shop=[sends(GOOD, after=50.0)])
    bank.transport.away = lambda now: 10 < now < 40
    assert bank.collect(deadline=20.0) == {}
    bank.clock.now = 45.0
    assert bank.collect() == {"shop": GOOD}
    assert (len(bank.transport.submitted), bank.status.tries) == (1, 0)


def test_a_job_that_the_server_lost_is_followed_by_another(host):
    bank = host(shop=[vanishes(), sends(GOOD)])
    assert bank.collect() == {"shop": GOOD}
    assert bank.transport.played == {"shop": 2}


def test_answers_that_cannot_be_fetched_yet_are_waited_for(host):
    bank = host(shop=[Play(lambda elapsed: Seen("ended", how="completed"), left=None), sends(GOOD)])
    assert bank.collect(silence=20.0) == {"shop": GOOD}
    assert bank.asked_at[1] >= 20


def test_what_a_guest_tells_is_hostile(host):
    odd = Seen("running", {"state": 7, "done": True})
    word = Seen("running", {"state": "received", "epoch": "many", "epochs": True})
    last = Left({"state": "sent", "wire": -1, "seconds": "x"})  # and no file
    lies = Play(lambda elapsed: odd if elapsed < 5 else word if elapsed < 10 else Seen("ended"), left=last)
    bank = host(shop=[lies, never()])
    assert bank.collect() == {}
    assert set(bank.states()) <= {"queued", "starting", "failed", "learning", "late"}
    assert (bank.status.epoch, bank.status.wire, bank.status.seconds) == (None, None, None)


def test_too_few_guests_are_an_error_that_says_who_and_why(host):
    bank = host(shop=[refuses("dim 8 is above the 4 that shop allows (max_dim)")], telco=[sends(GOOD)])
    with pytest.raises(AbsentPartyError) as error:
        bank.collect(ASKED, least=2)
    assert str(error.value) == (
        "At least 2 guests must answer, and only telco did. shop: refused: dim 8 is above the 4 that shop allows (max_dim). "
        "Waiting does not help with shop, which refused: change what is asked for, or talk to the guest. Or train with fewer "
        "guests (min_guests). What arrived is kept: the same command goes on from there."
    )
    late = host(telco=[sends(GOOD)])
    with pytest.raises(AbsentPartyError, match=r"shop: late. Wait longer for shop \(deadline\). Or train"):
        late.collect(ASKED, least=2)


def test_what_arrived_is_kept_when_too_few_came(host):
    bank = host(shop=[sends(GOOD)], telco=[never(), sends(OTHER)])
    with pytest.raises(AbsentPartyError, match="only shop did"):
        bank.collect(ASKED, least=2, deadline=30.0)
    assert bank.collect(ASKED, least=2) == {"shop": GOOD, "telco": OTHER}
    assert bank.transport.played == {"shop": 1, "telco": 2}


def test_a_host_that_was_killed_while_it_waited_finds_its_job(host):
    bank = host(shop=[sends(GOOD, after=50.0)])
    bank.is_killed(after=10.0)
    assert bank.collect() == {"shop": GOOD}
    assert (len(bank.transport.submitted), bank.status.tries) == (1, 0)


def test_a_host_that_was_killed_between_asking_and_writing_it_down_asks_nobody_twice(host):
    bank = host(shop=[sends(GOOD)])
    bank.is_killed(in_submission=True)
    assert bank.collect() == {"shop": GOOD}
    assert (len(bank.transport.submitted), bank.status.tries) == (1, 0)


def test_an_asking_whose_answer_is_lost_is_not_repeated(host):
    bank = host(shop=[sends(GOOD, after=10.0)])
    bank.transport.losing = 1
    assert bank.collect() == {"shop": GOOD}
    assert (len(bank.transport.submitted), bank.status.tries) == (1, 1)


def test_an_asking_whose_answer_is_lost_is_ended_at_the_deadline(host):
    bank = host(shop=[never()])
    bank.transport.losing = 1
    bank.collect(deadline=1.0)
    assert bank.transport.stopped == ["shop-1"]


def test_jobs_written_down_by_an_earlier_version_are_found(host):
    bank = host(shop=[sends(GOOD)])
    bank.transport.submit(ASKED["shop"], "")
    bank.folder.mkdir()
    written = {ASKED["shop"].fingerprint: {"guest": "shop", "what": "learn", "job": "shop-1"}}
    (bank.folder / "jobs.json").write_text(json.dumps(written))
    assert bank.collect() == {"shop": GOOD}
    assert len(bank.transport.submitted) == 1


@pytest.mark.parametrize("killed", [{"after": 10.0}, {"in_submission": True}])
def test_what_is_no_longer_wanted_is_ended(host, killed):
    bank = host(shop=[never(), sends(GOOD)])
    bank.is_killed(**killed)
    other = Request("bank", "shop", "churn", "learn", fedonce.__version__, dim=2)
    assert bank.collect({"shop": other}) == {"shop": GOOD}
    assert bank.transport.stopped == ["shop-1"]


def test_an_oversized_file_is_refused_before_it_is_read(host, monkeypatch):
    bank = host(shop=[sends(GOOD)])

    def take(guest, job, path, limit):
        path.touch()
        os.truncate(path, 2**40)  # no memory holds it
        return True

    monkeypatch.setattr(bank.transport, "take", take)
    assert bank.collect(max_message=10**6) == {}
    assert bank.status.state == "refused"
    assert "1 MB" in bank.status.reason
    assert bank.reads == []
    assert not list(bank.folder.glob(".*"))


def test_a_damaged_message_is_refused_and_a_good_one_is_taken_the_next_time(host):
    bank = host(shop=[sends(BAD), sends(GOOD)])
    assert bank.collect() == {}
    assert (bank.status.state, bank.status.reason) == ("refused", "The file of shop is damaged.")
    assert not list(bank.folder.glob("*.fedonce"))
    assert bank.collect() == {"shop": GOOD}


def test_a_kept_file_that_was_damaged_since_is_asked_for_again(host):
    bank = host(shop=[sends(GOOD), sends(GOOD)])
    bank.collect()
    (kept,) = bank.folder.glob("*.fedonce")
    kept.write_bytes(BAD)
    assert bank.collect() == {"shop": GOOD}
    assert bank.transport.played == {"shop": 2}


def test_two_guests_side_by_side(host):
    bank = host(
        shop=[ends(after=3.0, state="failed"), sends(GOOD, after=20.0)],
        telco=[sends(OTHER, after=10.0)],
    )
    assert bank.collect(ASKED) == {"shop": GOOD, "telco": OTHER}
    assert [name for name, state in bank.news if state == "received"] == ["telco", "shop"]
    assert bank.states("telco") == ["queued", "learning", "received"]
    assert bank.states("shop") == ["queued", "learning", "failed", "queued", "learning", "received"]
