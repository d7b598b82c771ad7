"""Every page, looked at: its parts always, and in a browser, as a phone and a desk show it, where there is one."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest

from fedonce.assess import audit_report
from fedonce.assess.attacked import Attacked
from fedonce.assess.audit import Bits, Checked, Measured, Membership, OneRun
from fedonce.demo import digits
from fedonce.demo import page as demo_page
from fedonce.errors import FedOnceWarning
from fedonce.jobs import (
    EvaluateJob,
    Fitting,
    GuestBudget,
    GuestJob,
    HostJob,
    Incoming,
    LeakageJob,
    Learning,
    ModelRows,
    RowNames,
    TableSource,
)
from fedonce.messages.representation import Representation
from tests.report.looking import BROWSER, WIDTHS, check_parts, seen

N = 160
UNKEYED = RowNames(unkeyed_ids=True)
WORD = "an uncommonly long name of a column, which has no place to break: " + "x" * 60
NOISE = Measured("noise of PCA: mean", 1.0, 1.01, 1000, 0.5, 0.99997)
PAGES = ("demo", "guest", "guest with a budget", "host", "leakage", "evaluation", "audit")


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    """A guest's and a host's folder with their pages, and those of leakage and evaluation."""
    folder = tmp_path_factory.mktemp("pages")
    rng = np.random.default_rng(0)
    ids = [f"secret-id-{number:04}" for number in range(N)]
    hidden = rng.normal(size=N)
    shop = pd.DataFrame({"who": ids, "spent": hidden, "<b>bold</b>": rng.normal(size=N), WORD: rng.random(N) < 0.5})
    label = np.where(hidden + 0.2 * rng.normal(size=N) > 0, "yes-label", "no-label")
    bank = pd.DataFrame({"who": ids, "income": rng.normal(size=N), "repaid": label})
    shop.to_csv(folder / "shop.csv", index=False)
    bank.to_csv(folder / "bank.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedOnceWarning)
        source = TableSource(folder / "shop.csv", "who")
        guest = GuestJob(source, "shop", folder / "shop", rows=UNKEYED).run()
        public = folder / "public.toml"
        public.write_text(
            f'[bounds]\nspent = [-4, 4]\n"<b>bold</b>" = [-4, 4]\n[categories]\n"{WORD}" = [true, false]\n'
        )
        budget = GuestBudget(epsilon=4.0, public=public)
        GuestJob(source, "shop", folder / "private", Learning(learner="pca"), UNKEYED, budget).run()
        LeakageJob(guest.message.path, source, html=folder / "leakage.html").run()
        messages = Incoming((guest.message.path,))
        job = HostJob(
            TableSource(folder / "bank.csv", "who"), folder / "bank", "repaid", "bank", Fitting(), incoming=messages
        )
        job.run()
        rows = ModelRows(folder / "bank.csv", folder / "bank", messages)
        EvaluateJob(rows, folder / "evaluation.html").run()
    return folder


@pytest.fixture(scope="module")
def demonstration():
    return digits.run(0, methods=(digits.SOLO, digits.FEDONCE, digits.COMBINE, digits.FEWER))


@pytest.fixture(scope="module")
def pages(office, demonstration, tmp_path_factory):
    rates = np.linspace(0, 1, 5)
    curves = dict.fromkeys(("loss", "likelihood ratio", "RMIA"), (rates, rates))
    found = audit_report.Findings(
        2.0,
        [Checked("nat", 3, 1.5, 0.2), Checked("pca", 3, 1.0, 0.0, (NOISE,), Bits("pca", 30, 0, 0))],
        [OneRun("pca", 2.0, 1e-5, 100, 60, 70, 0.4, 0.9)],
        [Measured("hints", 2.0, 1.9, 1000, 0.4, 0.9999)],
        [Membership("no budget", None, 0.9, curves)],
    )
    audit = audit_report.write(found, tmp_path_factory.mktemp("audit"))
    files = {
        "guest": office / "shop" / "report.html",
        "guest with a budget": office / "private" / "report.html",
        "host": office / "bank" / "report.html",
        "leakage": office / "leakage.html",
        "evaluation": office / "evaluation.html",
        "audit": audit,
    }
    made = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    return made | {"demo": demo_page.render(demonstration)}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_can_be_read_by_everybody_and_loads_nothing(pages, name):
    check_parts(pages[name])


@pytest.mark.skipif(BROWSER is None, reason="no chromium is installed to look at pages with")
@pytest.mark.parametrize("device", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_phone_and_a_desk(pages, name, device, tmp_path):
    told = seen(pages[name], WIDTHS[device], tmp_path)
    assert told["inner"] == WIDTHS[device]
    assert told["scroll"] <= WIDTHS[device], told["wide"]
    assert told["wide"] == []
    assert told["broken"] == 0
    assert told["reachable"]


@pytest.mark.skipif(BROWSER is None, reason="no chromium is installed to look at pages with")
def test_what_does_not_fit_would_be_seen(tmp_path):
    wide = "<!doctype html><html><body><main><p style='width: 900px'>wide</p></main></body></html>"
    told = seen(wide, 390, tmp_path)
    assert told["scroll"] >= 900
    assert told["wide"]


@pytest.mark.parametrize("name", ["guest", "guest with a budget", "host", "leakage", "evaluation"])
def test_pages_of_a_run_hold_no_row_and_no_id(pages, office, name):
    assert "secret-id-" not in pages[name]
    for value in pd.read_csv(office / "shop.csv")["spent"].head(20):
        assert f"{value:.5f}" not in pages[name]


def test_what_a_run_s_page_says(pages):
    assert "<b>bold</b>" not in pages["guest"]
    assert "&lt;b&gt;bold&lt;/b&gt;" in pages["guest"]
    assert "The learner &#39;auto&#39; chose &#39;pca&#39; for this table." in pages["guest"]
    assert "readable" in pages["guest"]
    headings = {name: re.findall(r"<h2>(.*?)</h2>", page) for name, page in pages.items()}
    # The verdict first: what attacks read, of which columns, before what the message says of itself.
    assert headings["guest"][0] == "What these attacks read in it"
    assert pages["guest"].index("of 3 columns") < pages["guest"].index("<h2>What leaves your premises</h2>")
    assert re.search(r"readable</span>: \d of 3 columns", pages["guest"])
    assert re.search(r"readable</span>: \d of 3 columns", pages["leakage"])
    assert headings["host"][0] == "What it was worth"
    assert "passed</span>: all 3 tests of what is called private" in pages["audit"]
    assert "seen in at least 99.9 of 100 runs" in pages["audit"]  # of the weakest of them, rounded down
    assert "All of it together: epsilon 4 at delta" in pages["guest with a budget"]
    assert "the host alone" in pages["host"]
    assert "loss on rows held back" in pages["host"]
    assert "average precision of" in pages["evaluation"]


def test_an_audit_that_found_a_fault_says_so_at_the_top(tmp_path):
    rates = np.linspace(0, 1, 5)
    faulty = audit_report.Findings(
        2.0,
        [Checked("nat", 3, 1.5, 0.2), Checked("a pca with bits", 3, 1.0, 0.0, (NOISE,), Bits("pca", 30, 1, 0))],
        [OneRun("a pca that leaks", 2.0, 1e-5, 100, 71, 70, 0.4, 0.9)],
        [Measured("hints", 2.0, 3.9, 1000, 1e-9, 0.9999)],
        [Membership("no budget", None, 0.9, dict.fromkeys(("loss", "likelihood ratio", "RMIA"), (rates, rates)))],
    )
    assert not faulty.as_expected
    page = audit_report.write(faulty, tmp_path).read_text(encoding="utf-8")
    assert "failed</span>: a pca with bits, a pca that leaks, hints." in page[: page.index("<h2>")]


def test_what_the_demonstration_s_page_says(pages, demonstration):
    page = pages["demo"]
    for outcome in demonstration.outcomes:
        assert f"{100 * outcome.accuracy:.1f} %" in page
    assert f"{demonstration.named('FedOnce').bytes:,}" in page
    for heading in ("What each party sees", "What was sent", "What it was worth", "What leaks"):
        assert f"<h2>{heading}" in page
    assert "does not mean safe" in page


def test_pages_to_sign_name_their_message_and_the_options_that_help(pages, office):
    sent = Representation.from_file(office / "shop" / "representation.fedonce")
    for name, path in (("guest", office / "shop" / "report.html"), ("leakage", office / "leakage.html")):
        known = Attacked.from_page(path)
        assert known.checksum == sent.checksum
        for shown in ("representation.fedonce", sent.checksum, *known.read.split("; ")[:1], f"{N:,}", "(--drop)"):
            assert shown in pages[name]
        assert "(drop)" not in pages[name]
    made = Attacked.from_page(office / "shop" / "report.html").made
    assert made in pages["leakage"]  # by the report of the making, which lies beside the message
    beside_a_budget = Attacked.from_page(office / "private" / "report.html")
    assert "columns" not in beside_a_budget.read
    assert "learnt with epsilon 4, delta" in pages["guest with a budget"]
