"""Which learner is best where: every learner on every data set, host model and bytes equal.

    python -m benchmarks.learners [--data phishing,mnist] [--learners pca,auto] [--dims 8] [--bits 8] [--seeds 3]

Scored on *validation* rows, a fifth of the training rows: the rule behind learner="auto" and the settings of
`benchmarks.datasets` were chosen here, and test rows play no part. Appends a JSON line per run to
benchmarks/results/learners.jsonl and skips what is there already.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sklearn.datasets import load_digits

from benchmarks import store
from benchmarks.datasets import Case, done, for_validation, run
from fedonce import InputError, tiles
from fedonce.datasets import FETCHERS, Dataset

RESULTS = Path(__file__).parent / "results" / "learners.jsonl"
DATA = {
    "digits": {},
    "phishing": {},
    "superconduct": {},
    "ujiindoorloc": {"target": "longitude"},
    "covtype": {},
    "mnist": {},
    "fashion-mnist": {},
}
METHODS = ("random", "nat", "pca", "autoencoder", "patches", "auto")


def digits() -> Dataset:
    """Return the 8x8 digits of scikit-learn, four quadrants."""
    X, y = load_digits(return_X_y=True)
    names = tuple(f"pixel_{j}" for j in range(64))
    return Dataset(
        "digits", X, y, names, "classification", tiles((8, 8), (2, 2)), True, "BSD", "scikit-learn", image=(1, 8, 8)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=",".join(DATA))
    parser.add_argument("--learners", default=",".join(METHODS))
    parser.add_argument("--dims", default="8")
    parser.add_argument("--bits", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    known = done(arguments.out)
    for name in arguments.data.split(","):
        try:
            data = digits() if name == "digits" else FETCHERS[name](download=False, **DATA[name])
        except InputError as error:
            print(f"{name}: skipped. {error}", flush=True)
            continue
        for learner in arguments.learners.split(","):
            if learner == "patches" and not data.image:
                continue
            dims = [int(dim) for dim in arguments.dims.split(",")]
            for dim, seed in ((dim, seed) for dim in dims for seed in range(arguments.seeds)):
                key = [name, learner, dim, arguments.bits, seed]
                if tuple(key) in known:
                    continue
                case = Case(name, name, learner, dim, None, bits=arguments.bits)
                line = {"key": key, **run(case, for_validation(data, seed), "named", seed, arguments.device)}
                store.append(arguments.out, line | store.origin(arguments.device))
                print(*key, f"{line['value']:.4f}", f"{line['payload_bytes']:,} B", f"{line['seconds']} s", flush=True)


if __name__ == "__main__":
    main()
