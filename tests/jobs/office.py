"""A bank, a shop and a utility with tables in files, and the commands that they run; in this process."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedonce.cli import entry

N = 120
FIT_SHOP = "guest fit shop.csv --id who --name shop --out shop --secret secret"
FIT_UTILITY = "guest fit utility.parquet --id meter --name utility --out utility --secret secret --bits 4"
FIT_BANK = "host fit bank.csv --id customer --label default --name bank --epochs 2 --secret secret --out bank"
SHOP, UTILITY = "--guest shop/representation.fedonce", "--guest utility/representation.fedonce"


@dataclass(frozen=True)
class Done:
    """What a command left: its exit code, and what it printed."""

    code: int
    out: str
    err: str


def command(folder, line):
    """Run a command in a folder, as the program does, errors and exit code and all, in this process."""
    out, err, code, before = io.StringIO(), io.StringIO(), 0, sys.argv
    sys.argv = ["fedonce", *line.split()]
    try:
        with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            entry.main()
    except SystemExit as ended:
        code = ended.code or 0
    finally:
        sys.argv = before
    return Done(code, out.getvalue(), err.getvalue())


def done(folder, line):
    """Run a command that must succeed, and return what it printed."""
    result = command(folder, line)
    assert result.code == 0, (line, result)
    return result.out


def told(folder, line):
    """Return the figures of a command."""
    return json.loads(done(folder, f"{line} --json --quiet"))


def refused(folder, code, said, line):
    """Run a command that must end with an exit code and one line that says why."""
    result = command(folder, f"{line} --quiet")
    assert result.code == code, (line, result)
    (error,) = [each for each in result.err.splitlines() if not each.startswith("warning: ")]
    assert error.startswith("error: ")
    for text in [said] if isinstance(said, str) else said:
        assert text in error
    assert result.out == ""


def make_tables(folder):
    """A bank with labels, a shop with three quarters of its customers, a utility; ids shuffled, gaps, categories, dates."""
    rng = np.random.default_rng(5)
    people = np.array([f"c{i:03}" for i in range(N + 20)])
    wealth, thrift = rng.standard_normal((2, N + 20))
    bank = pd.DataFrame(
        {
            "customer": people[:N],
            "income": wealth[:N].round(3),
            "region": rng.choice(["north", "south", "east"], N),
            "member": rng.random(N) < 0.5,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 999, N), "D"),
            "default": np.where(wealth[:N] + thrift[:N] > 0, "no", "yes"),
        }
    )
    bank.loc[::9, "income"] = None
    bank.to_csv(folder / "bank.csv", index=False, date_format="%Y-%m-%d")
    some = rng.permutation(np.arange(30, N + 20))
    shop = pd.DataFrame(
        {"who": people[some], "spent": (thrift[some] * 50).round(2), "visits": rng.integers(0, 9, len(some))}
    )
    shop["kind"] = rng.choice(["food", "toys"], len(some))
    shop.to_csv(folder / "shop.csv", index=False)
    utility = pd.DataFrame({"meter": people[:N], "kwh": thrift[:N] + wealth[:N], "solar": rng.random(N) < 0.3})
    utility.sample(frac=1, random_state=0).to_parquet(folder / "utility.parquet")
    bank.assign(balance=1000 + 10 * wealth[:N]).to_csv(folder / "balance.csv", index=False, date_format="%Y-%m-%d")


def make_office(folder):
    """Tables, a secret, keys, two guests that learnt, and a host that trained with the shop alone."""
    make_tables(folder)
    for line in ("keys secret secret", "keys secret other", "keys new bank", "keys new shop", FIT_SHOP, FIT_UTILITY):
        done(folder, line)
    done(folder, f"{FIT_BANK} {SHOP}")
    return folder
