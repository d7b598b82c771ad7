"""Make up the tables of a bank, a shop and a utility, with a fixed seed: `python make_tables.py [FOLDER]`.

Each person has three hidden traits: how solvent the bank, how orderly the shop and how punctual the utility would find them. Each
party's columns show its own trait, blurred; whether a loan was repaid depends on all three, and on luck.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

TRAIN, HELD_BACK, NEW, STRANGERS = 4000, 1500, 500, 1500  # customers of the bank; people that only a guest knows
Columns = dict[str, np.ndarray]


def main(folder: Path) -> None:
    rng = np.random.default_rng(4711)
    n = TRAIN + HELD_BACK + NEW + STRANGERS
    solvent, orderly, punctual = rng.standard_normal((3, n))
    ids = np.array([f"C-{number:06d}" for number in rng.permutation(20_000)[:n]])
    luck = rng.logistic(size=n)
    repaid = np.where(1.0 + 1.2 * solvent + 2.6 * orderly + 3.0 * punctual + luck > 0, "yes", "no")
    tables = {
        "bank": {"customer": ids, **bank(rng, solvent), "repaid": repaid},
        "shop": {"client_no": ids, **shop(rng, orderly)},
        "utility": {"customer": ids, **utility(rng, punctual)},
    }
    known = {"shop": rng.random(n) < 0.7, "utility": rng.random(n) < 0.51}
    training, held_back, new, strangers = np.split(np.arange(n), np.cumsum([TRAIN, HELD_BACK, NEW]))
    write(folder / "bank" / "bank.csv", chosen(rng, tables["bank"], training))
    write(folder / "bank" / "held_back.csv", chosen(rng, tables["bank"], held_back))
    write(folder / "bank" / "new_customers.csv", chosen(rng, tables["bank"], new, label=False))
    for party, ending in (("shop", "csv"), ("utility", "parquet")):
        first, later = np.concatenate([training, strangers]), np.concatenate([held_back, new])
        write(folder / party / f"{party}.{ending}", chosen(rng, tables[party], first[known[party][first]]))
        write(folder / party / f"new_customers.{ending}", chosen(rng, tables[party], later[known[party][later]]))
    for part in ("keys", "training", "prediction", "alignment", "aligned"):
        (folder / "post" / part).mkdir(parents=True, exist_ok=True)


def bank(rng: np.random.Generator, trait: np.ndarray) -> Columns:
    n = len(trait)
    income = np.round(np.exp(10.4 + 0.35 * trait + 0.3 * rng.standard_normal(n)), -2)
    work = np.array(["unemployed", "student", "self-employed", "employed", "civil servant"])
    return {
        "age": rng.integers(19, 80, n),
        "income": gaps(rng, income, 0.08),
        "employment": work[np.clip(np.rint(2.3 + trait + 0.7 * rng.standard_normal(n)), 0, 4).astype(int)],
        "account_since": days(rng, 1990, 2023, trait, 0.3),
        "loan": np.round(rng.lognormal(9.3, 0.6, n), -2),
        "months": rng.choice([12, 24, 36, 48, 60], n),
        "overdrawn_days": rng.poisson(np.exp(1.6 - 0.7 * trait)),
        "online_banking": flags(rng, 0.7, n),
    }


def shop(rng: np.random.Generator, trait: np.ndarray) -> Columns:
    n = len(trait)
    basket = np.round(np.exp(3.4 + 0.4 * rng.standard_normal(n)), 2)
    pays = np.array(["instalments", "invoice", "cash", "card"])
    return {
        "member_since": days(rng, 2005, 2024, trait, 0.2),
        "visits": rng.poisson(np.exp(1.2 + 0.25 * trait)),
        "basket": gaps(rng, basket, 0.05),
        "returned": np.round(np.clip(0.15 - 0.07 * trait + 0.04 * rng.standard_normal(n), 0, 1), 3),
        "reminders": rng.poisson(np.exp(-0.1 - 0.9 * trait)),
        "pays_by": pays[np.clip(np.rint(1.8 + 1.1 * trait + 0.6 * rng.standard_normal(n)), 0, 3).astype(int)],
        "department": rng.choice(["groceries", "garden", "electronics", "clothing", "toys"], n),
        "points": gaps(rng, np.round(np.exp(5 + 0.6 * trait + 0.4 * rng.standard_normal(n))), 0.1),
        "newsletter": flags(rng, 0.4, n),
        "branch": rng.choice([101, 102, 205, 310, 318], n),
    }


def utility(rng: np.random.Generator, trait: np.ndarray) -> Columns:
    n = len(trait)
    people = 1 + rng.poisson(1.3, n)
    return {
        "contract_since": days(rng, 2000, 2024, trait, 0.5),
        "tariff": rng.choice(["basic", "green", "night", "business"], n, p=[0.5, 0.3, 0.15, 0.05]),
        "kwh": gaps(rng, np.round(1200 + 900 * people + 500 * rng.standard_normal(n)), 0.04),
        "people": people,
        "days_late": np.round(np.clip(8 - 6 * trait + 2.5 * rng.standard_normal(n), 0, None), 1),
        "late_payments": rng.poisson(np.exp(0.6 - 0.8 * trait)),
        "arrears": np.round(np.clip(np.exp(3.5 - 0.9 * trait + 0.5 * rng.standard_normal(n)) - 10, 0, None), 2),
        "direct_debit": rng.random(n) < 1 / (1 + np.exp(-0.5 - 1.5 * trait)),
        "moves": rng.poisson(np.exp(-0.5 - 0.4 * trait)),
    }


def flags(rng: np.random.Generator, share: float, n: int) -> np.ndarray:
    return np.where(rng.random(n) < share, "true", "false")


def gaps(rng: np.random.Generator, values: np.ndarray, share: float) -> np.ndarray:
    """Return numbers, some of which are missing."""
    return np.where(rng.random(len(values)) < share, np.nan, values)


def days(rng: np.random.Generator, first: int, last: int, trait: np.ndarray, pull: float) -> np.ndarray:
    """Return dates between two years, the earlier the larger the trait, by `pull`."""
    start, end = np.datetime64(f"{first}-01-01"), np.datetime64(f"{last}-12-31")
    place = 1 / (1 + np.exp(pull * trait + rng.standard_normal(len(trait))))
    return start + np.rint(place * (end - start).astype(int)).astype("timedelta64[D]")


def chosen(rng: np.random.Generator, table: Columns, rows: np.ndarray, label: bool = True) -> Columns:
    """Return some rows in an order of their own, with or without the label."""
    rows = rng.permutation(rows)
    return {name: column[rows] for name, column in table.items() if label or name != "repaid"}


def write(path: Path, table: Columns) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.table({name: pa.array(column, from_pandas=True) for name, column in table.items()}), path)
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table)
        columns = [["" if str(value) == "nan" else str(value) for value in column] for column in table.values()]
        writer.writerows(zip(*columns, strict=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
