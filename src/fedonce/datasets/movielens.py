"""MovieLens 1M: which film got how many stars from whom."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedonce.datasets.base import Dataset, make
from fedonce.datasets.files import Edition, File, Source, find
from fedonce.datasets.formats import line_of, read_bytes, read_numbers
from fedonce.errors import InputError

PARTIES = {
    "ids": ["user", "movie"],
    "auxiliary": ["gender", "age", "occupation", "rating_year", "film_year", "genre"],
}
USERS = (File("users.dat", "1dc3a95300cb19f7c10e027daf29b8cdf1d908dab65b5edfb45950aa389a10a3"),)
MOVIES = (File("movies.dat", "0140fc2356357c1a851d0f52e893a1e4d3696df632c4141cea8d5bc3d621f0b9"),)

SOURCE = Source(
    name="movielens",
    folder="movielens-1m",
    rows=1_000_209,
    columns=8,
    task="regression",
    licence="research use only, no redistribution",
    citation="F. M. Harper, J. A. Konstan: The MovieLens datasets: history and context, 2015.",
    page="https://grouplens.org/datasets/movielens/1m/",
    parties=PARTIES,
    editions=(
        Edition(
            {
                "archive": (
                    File(
                        "ml-1m.zip",
                        "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
                        "https://files.grouplens.org/datasets/movielens/ml-1m.zip",
                    ),
                )
            }
        ),
        Edition({"ratings.dat": (File("ratings.dat", None),), "users.dat": USERS, "movies.dat": MOVIES}),
        Edition(
            {
                "ratings.dat": (
                    File("ratings.dat.xz", "4cb2319663eb90e4617613029eb4e5b004239eb24d57320769afe87119b996ff"),
                    File("ratings.dat", "1273c4edfe3c0ff9e3a0a0d55819faeb947da0ad7df3927333b51ebefbeedc3d"),
                ),
                "users.dat": USERS,
                "movies.dat": MOVIES,
            },
            complete=False,
            note="487,650 of 1,000,209 ratings: those of users 1 to 2999",
        ),
    ),
)


def fetch_movielens(data_dir: Any = None, download: bool = True, *, verify: bool = True) -> Dataset:
    """Load MovieLens 1M: 1,000,209 ratings, 1 to 5 stars, as published; `data` is an Arrow table of eight categories.

    The party "ids" holds user and movie, the party "auxiliary" gender, age group and occupation of the user, the year
    of the rating, and year and first genre of the film.

    Parameters
    ----------
    data_dir : path, optional
        Folder of data sets. None: the one in FEDONCE_DATA, else the user's cache.
    download : bool
        Whether to download from the owner what is not there.
    verify : bool
        Whether checksums are compared; False reads whatever has the right name and format.
    """
    import pyarrow as pa

    found = find(SOURCE, data_dir, download, verify)

    def path_of(name: str) -> Path:
        return found.paths.get("archive") or found.paths[name]

    path = path_of("ratings.dat")
    content = read_bytes(path, "ratings.dat").replace(b"::", b",")
    ratings = read_numbers(content, f"{path} (ratings.dat)", 4, np.int64)
    user, movie, stars, time = ratings.T
    if stars.min() < 1 or stars.max() > 5:
        row = int(np.argmax((stars < 1) | (stars > 5)))
        raise InputError(
            f"{path} (ratings.dat), line {line_of(content, row)}: {stars[row]} stars, and there are 1 to 5."
        )
    users = _lines(path_of("users.dat"), "users.dat", 5)
    movies = {key: _film(fields) for key, fields in _lines(path_of("movies.dat"), "movies.dat", 3).items()}
    year = time.astype("datetime64[s]").astype("datetime64[Y]").astype(int) + 1970
    columns = {"user": _categories(user), "movie": _categories(movie)}
    for position, name in enumerate(("gender", "age", "occupation")):
        columns[name] = _looked_up(user, {key: fields[position] for key, fields in users.items()}, "user", path)
    columns["rating_year"] = _categories(year)
    for position, name in enumerate(("film_year", "genre")):
        columns[name] = _looked_up(movie, {key: film[position] for key, film in movies.items()}, "movie", path)
    return make(SOURCE, found, pa.table(columns), stars.astype(np.float64), tuple(columns))


def _lines(path: Path, member: str, n_fields: int) -> dict[int, list[str]]:
    """Read lines of `id::field::...` into the fields after each id."""
    lines = {}
    for number, line in enumerate(read_bytes(path, member).decode("latin1").split("\n"), start=1):
        if not line.strip():
            continue
        key, *fields = line.rstrip("\r").split("::")
        if len(fields) != n_fields - 1 or not key.isdecimal():
            raise InputError(
                f"{path} ({member}), line {number}: must be a number and {n_fields - 1} fields after '::'."
            )
        lines[int(key)] = fields
    return lines


def _film(fields: list[str]) -> tuple[str, str]:
    """Return a film's year, which its title ends with, and its first genre."""
    title, genres = fields
    year = re.search(r"\((\d{4})\)\s*$", title)
    return year.group(1) if year else "unknown", genres.split("|")[0]


def _categories(values: NDArray[Any]) -> Any:
    import pyarrow as pa

    known, codes = np.unique(values, return_inverse=True)
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array([str(value) for value in known]))


def _looked_up(keys: NDArray[Any], table: dict[int, str], kind: str, path: Path) -> Any:
    import pyarrow as pa

    known, positions = np.unique(keys, return_inverse=True)
    for key in known.tolist():
        if key not in table:
            raise InputError(f"The file {path} rates {kind} {key}, who is not in {kind}s.dat.")
    names, codes = np.unique([table[key] for key in known.tolist()], return_inverse=True)
    return pa.DictionaryArray.from_arrays(pa.array(codes[positions], pa.int32()), pa.array(names.tolist()))
