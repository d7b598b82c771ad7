"""Write the files of a generation: `python tests/golden/make.py OUT`, with the fedonce that is installed.

`python tests/golden/make.py OUT calibrated` writes only what generation 3 has: hosts whose probabilities are calibrated;
`python tests/golden/make.py OUT local` what generation 6 has: guests that tell rows with an epsilon;
`python tests/golden/make.py OUT coded` what generation 4 has: guests whose messages are coded, and these messages;
`python tests/golden/make.py OUT own` what generation 5 has: a host with trees of its own columns;
`python tests/golden/make.py OUT hints` what generation 7 has: hints, and a guest that learnt with them.
`python tests/golden/make.py OUT alone` what generation 8 has: a host of a noisy guest, with models without guests.
`python tests/golden/make.py OUT record` what generation 9 has: a host's record of hints.

Made-up tables of a bank and a shop, the commands that a user would run, and what each of them wrote. Keys and secrets here
protect nothing.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np

import fedonce
from fedonce import Guest, Representation

ROWS = 40
GUESTS = {  # folder: options of `guest fit`
    "pca-8": ["--learner", "pca", "--secret", "secret"],
    "pca-4": ["--learner", "pca", "--bits", "4", "--unkeyed-ids"],
    "pca-16": ["--learner", "pca", "--bits", "16", "--plain-ids"],
    "pca-32": ["--learner", "pca", "--bits", "32", "--secret", "secret"],
    "autoencoder": ["--learner", "autoencoder", "--epochs", "2", "--secret", "secret"],
    "nat": ["--learner", "nat", "--epochs", "2", "--secret", "secret"],
    "random": ["--learner", "random", "--secret", "secret"],
    "auto": ["--normalise-ids", "lower", "--secret", "secret"],
    "noise": ["--learner", "pca", "--noise", "0.5", "--secret", "secret"],
    "signed": ["--learner", "pca", "--secret", "secret", "--sign", "keys/shop.key"],
    "sealed": ["--learner", "pca", "--secret", "secret", "--sign", "keys/shop.key", "--seal-to", "keys/bank.pub"],
    "budget": ["--learner", "pca", "--secret", "secret", "--plan", "plan.json", "--public", "shop.toml"],
    "half": ["--learner", "pca", "--secret", "secret"],
    "aligned": ["--learner", "pca", "--rows", "align/finished/shop.rows"],
}
HOSTS = {  # folder: options of `host fit`
    "classes": ["--label", "repaid", "--guest", "pca-8/representation.fedonce", "--secret", "secret"],
    "numbers": [
        "--label",
        "limit",
        "--drop",
        "repaid",
        "--guest",
        "pca-32/representation.fedonce",
        "--secret",
        "secret",
    ],
    "partial": ["--label", "repaid", "--guest", "half/representation.fedonce", "--secret", "secret"],
    "budget": [
        "--label",
        "repaid",
        "--guest",
        "budget/representation.fedonce",
        "--secret",
        "secret",
        "--plan",
        "plan.json",
        "--public",
        "bank.toml",
    ],
    "alone": ["--label", "repaid", "--min-guests", "0"],
}


SHORT = (
    ("--recipe", "paper", "--epochs", "2"),
    ("--epochs", "2"),
)  # the paper's recipe is small, and has no private version


def run(out: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "fedonce.cli", *arguments]
    done = subprocess.run(command, cwd=out, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)}\n{done.stdout}{done.stderr}")


def write_tables(out: Path, rows: int = ROWS) -> None:
    rng = np.random.default_rng(0)
    days = np.datetime64("2024-01-01") + rng.integers(0, 700, rows)
    shop = {
        "customer": [f"C{i:03}" for i in range(rows)],
        "visits": rng.poisson(4, rows),
        "spent": np.where(rng.random(rows) < 0.1, "", np.round(rng.gamma(2, 40, rows), 2).astype(str)),
        "city": rng.choice(["Bern", "Genf", "Chur"], rows),
        "joined": days,
        "vip": rng.choice(["true", "false"], rows),
    }
    bank = {
        "customer": [f"C{i:03}" for i in range(4, rows + 4)][::-1],
        "income": rng.integers(20, 90, rows),
        "age": rng.integers(18, 80, rows),
        "limit": np.round(rng.random(rows) * 10, 3),
    }
    bank["repaid"] = np.where(np.asarray(bank["income"]) > 50, "yes", "no")
    half = {name: list(column)[: rows // 2] for name, column in shop.items()}
    for name, table in (("shop", shop), ("half", half), ("bank", bank)):
        with (out / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(table)
            writer.writerows(zip(*table.values(), strict=True))


PUBLIC = {
    "shop": """\
[bounds]
visits = [0, 20]
spent = [0, 500]
joined = [2024-01-01, 2026-01-01]
vip = [0, 1]

[categories]
city = ["Bern", "Genf", "Chur"]
""",
    "bank": """\
labels = ["no", "yes"]

[bounds]
income = [0, 100]
age = [18, 90]
limit = [0, 10]
""",
}


def write_messages(out: Path) -> None:
    """Write messages without ids, for which there is no command: as estimators send them."""
    rows = np.random.default_rng(1).random((12, 3), dtype=np.float32)
    guest = Guest("shop", "pca", dim=2)
    guest.learn(rows).to_file(out / "positions.fedonce")
    present = np.arange(20) % 5 < 3
    guest.represent(rows, present).to_file(out / "some-rows.fedonce")
    images = np.random.default_rng(2).random((30, 144), dtype=np.float32)
    from fedonce.learners import Patches

    pixels = Guest("shop", Patches(centroids=6, sample=200), dim=2, shape=(1, 12, 12))
    pixels.learn(images).to_file(out / "images.fedonce")
    pixels.save(out / "guests" / "patches")
    shutil.copy(out / "images.fedonce", out / "guests" / "patches" / "representation.fedonce")
    np.save(out / "images.npy", (images * 255).astype(np.uint8))


def write_requests(out: Path) -> None:
    """Write what a host asks of guests in a federation, and the job that carries it."""
    try:
        request, jobs = (import_module(f"fedonce.federation.{name}") for name in ("request", "flare.jobs"))
    except ImportError:
        request, jobs = (import_module(f"fedonce.federation.{name}") for name in ("asking", "jobs"))
    folder = out / "requests"
    folder.mkdir()
    plan = (out / "plan.json").read_text()
    rows = (out / "align" / "finished" / "shop.rows").read_bytes()
    asked = {
        "learn": request.Request(
            "bank", "shop", "loans", "learn", "0.1.0", dim=3, bits=4, seed=7, columns=("visits", "city")
        ),
        "learn-plan": request.Request(
            "bank", "shop", "loans", "learn", "0.1.0", naming="keyed 0123456789abcdef", plan=plan
        ),
        "represent": request.Request(
            "bank", "shop", "loans", "represent", "0.1.0", model="0" * 32, nonce="ab" * 8, naming="agreed", rows=rows
        ),
        "align": request.Request(
            "bank", "shop", "loans", "align", "0.1.0", points=(out / "align" / "request.fedonce").read_bytes()
        ),
        "rounds": request.Request(
            "bank",
            "shop",
            "loans",
            "rounds",
            "0.1.0",
            model="1" * 32,
            rounds={"rounds": 5, "bits": 8},
            rows=rows,
            order=np.array([2, 0, -1, 1]),
        ),
    }
    for name, each in asked.items():
        (folder / f"{name}.fedonce").write_bytes(each.to_bytes())
    jobs.write_job(out / "job", "loans", {"shop": asked["learn"].to_bytes()})


def describe(out: Path) -> dict[str, object]:
    """Return what the files say, as the code of their time reads them."""
    messages = {}
    for path in sorted(out.rglob("*.fedonce")):
        try:
            message = Representation.from_file(path)
        except fedonce.MessageError:
            continue  # sealed, or of another kind
        messages[str(path.relative_to(out))] = {
            "party": message.party,
            "run": message.run,
            "bits": message.bits,
            "rows": message.n_rows,
            "learner": message.learner,
            "noise": message.noise,
            **({"local": message.local_epsilon} if getattr(message, "local_epsilon", None) else {}),
            **({"hints": message.hints} if getattr(message, "hints", "") else {}),
            "naming": message.naming,
            "signed": bool(message.signature),
            **({"codec": message.codec.name} if message.codec.name else {}),
            "values": [[round(float(value), 5) for value in row] for row in message.values[:3]],
        }
    return messages


def main(out: Path) -> None:
    out.mkdir(parents=True)
    write_tables(out)
    for name, text in PUBLIC.items():
        (out / f"{name}.toml").write_text(text)
    (out / "keys").mkdir()
    run(out, "keys", "secret", "secret")
    for name in ("shop", "bank"):
        run(out, "keys", "new", name, "--out", "keys")
    run(
        out,
        "privacy",
        "plan",
        "--rows",
        str(ROWS),
        "--parties",
        "bank,shop",
        "--learner",
        "pca",
        "--epsilon",
        "8",
        "--delta",
        "0.002",
        "--out",
        "plan.json",
    )
    (out / "align").mkdir()
    run(
        out,
        "align",
        "request",
        "bank.csv",
        "--id",
        "customer",
        "--name",
        "bank",
        "--run",
        "loans",
        "--out",
        "align/request.fedonce",
        "--state",
        "align/state.fedonce",
    )
    run(
        out,
        "align",
        "respond",
        "shop.csv",
        "--request",
        "align/request.fedonce",
        "--id",
        "customer",
        "--name",
        "shop",
        "--out",
        "align/response.fedonce",
    )
    run(
        out,
        "align",
        "finish",
        "bank.csv",
        "--response",
        "align/response.fedonce",
        "--id",
        "customer",
        "--state",
        "align/state.fedonce",
        "--out",
        "align/finished",
    )
    for name in ("guests", "predictions"):
        (out / name).mkdir()
    for name, options in GUESTS.items():
        table = "half.csv" if name == "half" else "shop.csv"
        run(
            out,
            "guest",
            "fit",
            table,
            "--id",
            "customer",
            "--name",
            "shop",
            "--run",
            "loans",
            "--dim",
            "2",
            "--out",
            f"guests/{name}",
            "--no-attack",
            *options,
        )
    for name, options in HOSTS.items():
        given = [f"guests/{each}" if each.endswith("representation.fedonce") else each for each in options]
        run(
            out,
            "host",
            "fit",
            "bank.csv",
            "--id",
            "customer",
            "--run",
            "loans",
            "--name",
            "bank",
            *SHORT[name == "budget"],
            "--out",
            f"hosts/{name}",
            *given,
        )
        guests = [part for each in given if each.endswith("representation.fedonce") for part in ("--guest", each)]
        secret = ["--secret", "secret"] if "secret" in given else []
        run(
            out,
            "host",
            "predict",
            "bank.csv",
            "--model",
            f"hosts/{name}",
            *guests,
            *secret,
            "--out",
            f"predictions/{name}.csv",
        )
    write_messages(out)
    write_requests(out)
    (out / "described.json").write_text(json.dumps(describe(out), indent=1) + "\n")


def calibrated(out: Path) -> None:
    """Write hosts with a temperature and scores on rows held back: a linear model, and the blend that `auto` chose.

    The blend is of small models, so that the files are small.
    """
    auto, jobs = import_module("fedonce.hostmodels.auto"), import_module("fedonce.jobs")
    trees = import_module("fedonce.hostmodels.trees").TreesModel
    trees.__init__.__defaults__ = (6, 0.3, 4, *trees.__init__.__defaults__[3:])  # few trees of few leaves
    out.mkdir(parents=True)
    write_tables(out)
    lines = (out / "bank.csv").read_text().splitlines()
    changed = {"yes": "no", "no": "yes"}  # every seventh label: else nothing would have to be calibrated
    for row in range(3, len(lines), 7):
        start, label = lines[row].rsplit(",", 1)
        lines[row] = f"{start},{changed[label]}"
    (out / "bank.csv").write_text("\n".join([*lines, ""]))
    run(out, "keys", "secret", "secret")
    named = ["--id", "customer", "--run", "loans", "--secret", "secret"]
    learn = ["--name", "shop", "--dim", "2", "--learner", "pca", "--out", "guest", "--no-attack"]
    run(out, "guest", "fit", "shop.csv", *named, *learn)
    (out / "messages").mkdir()
    (out / "predictions").mkdir()
    shutil.move(out / "guest" / "representation.fedonce", out / "messages" / "shop.fedonce")
    shutil.rmtree(out / "guest")
    for name, model in (("calibrated", "linear"), ("auto", auto.AutoModel(models=("linear", "trees")))):
        how = jobs.Fitting("loans", model=model, weight="age", class_weight="balanced", calibrate=True)
        arrived = jobs.Incoming([out / "messages" / "shop.fedonce"], secret=out / "secret")
        table = jobs.TableSource(out / "bank.csv", "customer")
        jobs.HostJob(table, out / "hosts" / name, "repaid", "bank", how, incoming=arrived).run()
        known = ["--model", f"hosts/{name}", "--secret", "secret", "--out", f"predictions/{name}.csv"]
        run(out, "host", "predict", "bank.csv", *known, "--guest", "messages/shop.fedonce")
    for name in ("shop.csv", "half.csv"):
        (out / name).unlink()
    (out / "described.json").write_text(json.dumps(describe(out), indent=1) + "\n")


def coded(out: Path) -> None:
    """Write guests whose integers are coded: by columns and by distinct rows, in layers, with 4, 8 and 12 bits."""
    jobs, cells = import_module("fedonce.jobs"), import_module("fedonce.learners").Cells
    codecs = import_module("fedonce.messages.codecs.coded")
    out.mkdir(parents=True)
    write_tables(out)
    (out / "keys").mkdir()
    run(out, "keys", "secret", "secret")
    for name in ("shop", "bank"):
        run(out, "keys", "new", name, "--out", "keys")
    named = ["--id", "customer", "--run", "loans", "--name", "shop", "--no-attack"]
    for name in ("pca-8", "pca-4", "signed", "sealed", "half"):
        table = "half.csv" if name == "half" else "shop.csv"
        run(out, "guest", "fit", table, *named, "--dim", "2", "--out", f"guests/{name}", *GUESTS[name])
    for name, learner in (
        ("cells", cells(cells=4, least=5)),
        ("layers", cells(cells=4, least=5, layers=2)),
        ("numbers", cells(cells=4, least=5, centres=False)),
    ):
        how = jobs.Learning("loans", learner, dim=2)
        table, rows = jobs.TableSource(out / "shop.csv", "customer"), jobs.RowNames(secret=out / "secret")
        jobs.GuestJob(table, "shop", out / "guests" / name, how, rows, attack=False).run()
    rng = np.random.default_rng(1)
    values = rng.random((400, 3), dtype=np.float32)
    guest = Guest("shop", "pca", dim=2)
    guest.learn(values).to_file(out / "positions.fedonce")
    guest.represent(values[:12], np.arange(20) % 5 < 3).to_file(out / "some-rows.fedonce")
    for name, kind in (("8-bits", codecs.Coded8), ("12-bits", codecs.Coded12)):  # with tables, and of one range for all
        many = rng.exponential(1, (500, 3 if name == "12-bits" else 70)).astype(np.float32)
        message = Representation.encode(many, kind.fit(many), "shop", rows="0" * 64)
        message.to_file(out / f"{name}.fedonce")
    (out / "bank.csv").unlink()
    (out / "described.json").write_text(json.dumps(describe(out), indent=1) + "\n")


def own(out: Path) -> None:
    """Write a host whose model is trees, those of its own columns among them, and what it says of rows that its guest lacks."""
    trees = import_module("fedonce.hostmodels.trees").TreesModel
    told = ["--learner", "pca", "--dim", "2"]
    write_host(out, "own-trees", trees(trees=6, rate=0.3, leaves=4), "half.csv", told)


def alone(out: Path) -> None:
    """Write a host whose guest tells rows with an epsilon: some of its models were trained without guests."""
    blend = import_module("fedonce.hostmodels.blend").BlendModel
    answers = ["--dim", "4", "--local-epsilon", "0.1", "--public", str(Path(__file__).parent / "1" / "shop.toml")]
    write_host(out, "noisy", blend(models=("linear", "mlp")), "shop.csv", answers)


def write_host(out: Path, name: str, model: object, table: str, told: list[str]) -> None:
    """Write a host of one guest, and what it predicts."""
    jobs = import_module("fedonce.jobs")
    out.mkdir(parents=True)
    write_tables(out)
    run(out, "keys", "secret", "secret")
    named = ["--id", "customer", "--run", "loans", "--secret", "secret", *told]
    run(out, "guest", "fit", table, *named, "--name", "shop", "--out", "guest", "--no-attack")
    (out / "messages").mkdir()
    (out / "predictions").mkdir()
    shutil.move(out / "guest" / "representation.fedonce", out / "messages" / "shop.fedonce")
    shutil.rmtree(out / "guest")
    how = jobs.Fitting("loans", model=model)
    arrived = jobs.Incoming([out / "messages" / "shop.fedonce"], secret=out / "secret")
    jobs.HostJob(
        jobs.TableSource(out / "bank.csv", "customer"),
        out / "hosts" / name,
        "repaid",
        "bank",
        how,
        incoming=arrived,
    ).run()
    known = ["--model", f"hosts/{name}", "--secret", "secret", "--out", f"predictions/{name}.csv"]
    run(out, "host", "predict", "bank.csv", *known, "--guest", "messages/shop.fedonce")
    for made in ("shop.csv", "half.csv"):
        (out / made).unlink()
    (out / "described.json").write_text(json.dumps(describe(out), indent=1) + "\n")


def local(out: Path) -> None:
    """Write a guest that answers for each row with an epsilon."""
    out.mkdir(parents=True)
    write_tables(out)
    (out / "shop.toml").write_text((Path(__file__).parent / "1" / "shop.toml").read_text())
    run(out, "keys", "secret", "secret")
    named = ["--id", "customer", "--run", "loans", "--name", "shop", "--no-attack", "--secret", "secret"]
    more = ["--dim", "4", "--local-epsilon", "4", "--public", "shop.toml", "--out", "guests/local"]
    run(out, "guest", "fit", "shop.csv", *named, *more)
    for name in ("bank.csv", "half.csv", "shop.toml"):
        (out / name).unlink()
    (out / "described.json").write_text(json.dumps(describe(out), indent=1) + "\n")


def hints(out: Path) -> None:
    """Write hints by ids, signed, by places in bins, and as they are; and a guest that learnt with the first."""
    fedonce_hints, jobs = import_module("fedonce.party.hinting"), import_module("fedonce.jobs")
    hinting, publish = fedonce_hints.Hinting, fedonce_hints.publish
    keys, hinted = import_module("fedonce.messages.keys"), import_module("fedonce.learners").Hinted
    out.mkdir(parents=True)
    write_tables(out, 240)
    (out / "keys").mkdir()
    run(out, "keys", "secret", "secret")
    run(out, "keys", "new", "bank", "--out", "keys")
    naming = fedonce.Naming("keyed", keys.read_secret(out / "secret"), ("trim",))
    bank = fedonce.read_table(out / "bank.csv", id="customer")
    columns = dict(zip(bank.names, bank.columns, strict=True))
    made = {
        "keyed": publish(
            columns["repaid"], hinting(4.0, label="repaid"), "classification", "bank", "loans", bank.ids, naming
        ),
        "bins": publish(columns["limit"], hinting(2.0, (2.5, 5.0), "limit"), "regression", "bank", "loans"),
        "as-it-is": publish(
            np.asarray(columns["age"], float) > 40,
            hinting(float("inf"), label="over 40"),
            "classification",
            "bank",
            "loans",
        ),
    }
    made["keyed"] = replace(
        made["keyed"], signature=keys.read_private(out / "keys" / "bank.key").sign(made["keyed"].checksum)
    )
    (out / "hints").mkdir()
    for name, each in made.items():
        each.to_file(out / "hints" / f"{name}.fedonce")
    told = {
        name: {
            "party": each.party,
            "run": each.run,
            "label": each.label,
            "classes": each.classes,
            "epsilon": str(each.epsilon),
            "keep": each.keep,
            "rows": each.n_rows,
            "naming": each.naming,
            "forms": list(each.forms),
            "edges": None if each.edges is None else each.edges.tolist(),
            "signed": bool(each.signature),
            "answers": each.answers[:12].tolist(),
        }
        for name, each in made.items()
    }
    (out / "hints.json").write_text(json.dumps(told, indent=1) + "\n")
    table, reading = jobs.TableSource(out / "shop.csv", "customer").read("shop")
    learner = hinted(hidden=(4,), base="pca", epochs=2, share=0.5)
    guest = Guest("shop", learner, 2, run="loans", naming=naming, reading=reading)
    message = guest.learn(table, hints=made["keyed"])
    guest.save(out / "guests" / "hinted", {"representation.fedonce": message.to_bytes()})
    message.to_file(out / "guests" / "hinted" / "representation.fedonce")
    (out / "half.csv").unlink()
    (out / "described.json").write_text(json.dumps(describe(out), indent=1) + "\n")


def record(out: Path) -> None:
    """Write a host's record of four publications: by ids with two epsilons, by places in bins, and one as it is."""
    out.mkdir(parents=True)
    write_tables(out)
    run(out, "keys", "secret", "secret")
    by_ids = ["--id", "customer", "--secret", "secret"]
    lines = {
        "repaid": ["--label", "repaid", "--epsilon", "2", *by_ids],
        "less": ["--label", "repaid", "--epsilon", "0.5", *by_ids],
        "bins": ["--label", "limit", "--epsilon", "1", "--edges", "2.5,5"],
        "as-it-is": ["--label", "income", "--proxy", "income of old", "--task", "classification", *by_ids],
    }
    told: dict[str, object] = {}
    for name, options in lines.items():
        more = ["--name", "bank", "--run", "loans", "--record", "hints.record", "--out", f"{name}.fedonce"]
        run(out, "host", "hint", "bank.csv", *options, *more)
        told[name] = fedonce.Hints.from_file(out / f"{name}.fedonce").checksum
        (out / f"{name}.fedonce").unlink()
    books = import_module("fedonce.jobs.hint_record").HintRecord(out / "hints.record").look()
    told = {"checksums": told, "spent": books.spent(), "limit": books.limit, "published": len(books.published)}
    (out / "record.json").write_text(json.dumps(told, indent=1) + "\n")
    (out / "described.json").write_text("{}\n")  # there are no messages
    for name in ("shop.csv", "half.csv", "hints.record.lock"):
        (out / name).unlink(missing_ok=True)


if __name__ == "__main__":
    kinds = {
        "all": main,
        "calibrated": calibrated,
        "coded": coded,
        "own": own,
        "local": local,
        "hints": hints,
        "alone": alone,
        "record": record,
    }
    kinds[sys.argv[2] if len(sys.argv) > 2 else "all"](Path(sys.argv[1]).resolve())
