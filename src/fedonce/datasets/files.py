"""Where a data set's files lie, whether they are the right ones, and how they get there.

A file is used after its checksum is found right. What is downloaded goes to a temporary file first and takes its name when its
checksum is right, so that nothing half-written is left in the data folder. Archives are read in place, never unpacked.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedonce.data.partition import Parties
from fedonce.errors import InputError, parameter_error

logger = logging.getLogger(__name__)

quiet: ContextVar[bool] = ContextVar("quiet", default=False)  # whether downloads show nothing
UNVERIFIED = "files not verified"
PINS = "fedonce.sha256"  # sums of downloaded files whose owner publishes none, as `sha256sum --check` reads them


@dataclass(frozen=True)
class File:
    """A file that a loader accepts.

    Parameters
    ----------
    name : str
        Its name in the data set's folder; several files may share one.
    sha256 : str or None
        Its checksum. None: its owner publishes none; that of the download is remembered and compared from then on.
    url : str, optional
        The owner's address. None: not to be had by a plain download.
    """

    name: str
    sha256: str | None
    url: str | None = None


@dataclass(frozen=True)
class Edition:
    """A set of files that a data set can be read from; for each part any one of several files."""

    parts: Mapping[str, tuple[File, ...]]
    complete: bool = True
    note: str = ""  # what is missing from a partial one


@dataclass(frozen=True)
class Source:
    """A data set as its owner publishes it, and the editions of it that we read; complete ones first.

    Attributes
    ----------
    name, folder : str
        Its name, and the name of its folder.
    rows, columns : int
        Its size, whole.
    task : str
        "classification" or "regression".
    licence, citation, page : str
        Under what terms, whom to name, and the owner's page.
    parties : dict or int
        The paper's division.
    editions : tuple of Edition
        Which files it may come in.
    hint : str
        What to do by hand, where a plain download does not serve.
    image : tuple or None
        (channels, rows, columns) where the columns are pixels.
    """

    name: str
    folder: str
    rows: int
    columns: int
    task: str
    licence: str
    citation: str
    page: str
    parties: Parties  # the paper's division
    editions: tuple[Edition, ...] = field(repr=False)
    hint: str = ""  # what to do by hand, where a plain download does not serve
    image: tuple[int, ...] | None = None  # (channels, rows, columns) where the columns are pixels


@dataclass(frozen=True)
class Found:
    """A data set's files by part, checked."""

    paths: Mapping[str, Path]
    complete: bool
    note: str
    checked: bool = True  # whether every file's checksum was there to compare with


def data_folder(data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder for data sets: the one given, else FEDONCE_DATA, else the user's cache.

    Parameters
    ----------
    data_dir : path, optional
        The folder, if it is given.
    """
    named = data_dir if data_dir is not None else os.environ.get("FEDONCE_DATA")
    if named is not None and not isinstance(named, str | os.PathLike):
        raise parameter_error("a loader", "data_dir", "a folder's path or None", named)
    if named:
        path = Path(named).expanduser()
        if path.exists() and not path.is_dir():
            raise InputError(f"The data folder {path} is a file. Name a folder, by data_dir or FEDONCE_DATA.")
        return path
    import pooch

    return Path(pooch.os_cache("fedonce"))


def find(source: Source, data_dir: str | os.PathLike[str] | None, download: bool, verify: bool = True) -> Found:
    """Find a data set's files, download them where they are missing, and check them."""
    folder = data_folder(data_dir) / source.folder
    refused: DamagedError | None = None
    for edition in source.editions:
        paths = {part: _existing(folder, files) for part, files in edition.parts.items()}
        if all(paths.values()):
            try:
                return _checked(source, edition, {part: path for part, path in paths.items() if path}, verify)
            except DamagedError as error:  # perhaps these are the files of another edition
                refused = refused or error
    if refused:
        raise refused
    if not download:
        raise MissingFilesError(_absent(source, folder) + "\nOr let it be downloaded: download=True.")
    edition = source.editions[0]
    if not all(files[0].url for files in edition.parts.values()):
        raise MissingFilesError(_absent(source, folder))
    for files in edition.parts.values():
        if not _existing(folder, files):
            _download(files[0], folder, source)
    whole = {part: _existing(folder, files) or folder / files[0].name for part, files in edition.parts.items()}
    return _checked(source, edition, whole, verify)


def status(source: Source, data_dir: str | os.PathLike[str] | None = None) -> str:
    """Tell whether a data set is "present", "partial", "unchecked", "damaged", "incomplete" or "absent" in the data folder.

    "unchecked": its owner publishes no checksums, and the files were not downloaded by us. "incomplete": files are missing.

    Parameters
    ----------
    source : Source
        The data set: one of `SOURCES`.
    data_dir : path, optional
        Folder of data sets. None: the one in FEDONCE_DATA, else the user's cache.
    """
    folder = data_folder(data_dir) / source.folder
    try:
        found = find(source, data_dir, download=False)
    except DamagedError:
        return "damaged"
    except InputError:
        return "incomplete" if any(_present(_nearest(source, folder), folder)) else "absent"
    if not found.checked:
        return "unchecked"
    return "present" if found.complete else "partial"


class MissingFilesError(InputError):
    """Files of a data set are not here; the error has a line for each."""


class DamagedError(InputError):
    """A file is not the one that its name says."""


def sha256_of(path: Path) -> str:
    """Return a file's checksum.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as empty:
    ...     sha256_of(Path(empty.name))[:8]
    'e3b0c442'
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"The file {path} cannot be read ({error.strerror}). Check its permissions.") from error


def _existing(folder: Path, files: tuple[File, ...]) -> Path | None:
    return next((folder / file.name for file in files if (folder / file.name).is_file()), None)


def _checked(source: Source, edition: Edition, paths: dict[str, Path], verify: bool) -> Found:
    if not verify:
        return Found(paths, False, "; ".join(filter(None, [edition.note, UNVERIFIED])), checked=False)
    known = [_check(path, edition.parts[part], source) for part, path in paths.items()]
    return Found(paths, edition.complete, edition.note, checked=all(known))


def _check(path: Path, alternatives: tuple[File, ...], source: Source) -> bool:
    """Compare a file's checksum with those listed for its name; return whether there was one to compare with."""
    files = [file for file in alternatives if Path(file.name).name == path.name]
    expected = {file.sha256 for file in files if file.sha256}
    unpublished = any(file.sha256 is None for file in files)
    if unpublished:
        expected |= {_pins(path.parent)[path.name]} if path.name in _pins(path.parent) else set()
    got = sha256_of(path)
    if got in expected:
        return True
    if not expected and got not in _partial_sums(source):
        logger.warning("%s: its owner publishes no checksum to compare with; it has sha256 %s", path, got)
        return False
    trusted = (
        " Its owner publishes no checksum, this is a known copy's: if it is the owner's own," if unpublished else " Or"
    )
    raise DamagedError(
        f"The file {path} is refused: it has sha256 {got}, expected {' or '.join(sorted(expected)) or 'another'}. It is damaged "
        f"or another version: get it again from where you have it, or delete it and the owner's is fetched.{trusted} pass "
        "verify=False to read it as it is.",
        parameter="verify",
    )


def _partial_sums(source: Source) -> set[str | None]:
    """Return the sums of files that are known not to be the whole."""
    partial = [edition for edition in source.editions if not edition.complete]
    return {file.sha256 for edition in partial for files in edition.parts.values() for file in files}


def _pins(folder: Path) -> dict[str, str]:
    try:
        lines = (folder / PINS).read_text(errors="replace").splitlines()
    except OSError:
        return {}
    return {name.strip(): sha256 for sha256, _, name in (line.partition("  ") for line in lines)}


def _download(file: File, folder: Path, source: Source) -> None:
    """Download a file to its place, whole and checked, or not at all."""
    import pooch
    import requests

    pooch.get_logger().setLevel("WARNING" if quiet.get() else "INFO")  # its line "Downloading data from ..."
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        with _bar(file.name) as bar:
            pooch.retrieve(
                file.url,
                known_hash=file.sha256 and f"sha256:{file.sha256}",
                fname=file.name,
                path=folder,
                downloader=pooch.HTTPDownloader(progressbar=bar, chunk_size=2**16, timeout=30),
            )
    except (requests.exceptions.RequestException, OSError, ValueError) as error:
        for path in made:
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()
        if isinstance(error, ValueError) and "hash" in str(error):  # pooch names both checksums
            raise DamagedError(f"The download of {file.name} from {file.url} is refused. {error}") from error
        cause: BaseException = error
        # The innermost cause says it best: a name that is not known, a disk that is full.
        while (inner := cause.__cause__ or cause.__context__) is not None:
            cause = inner
        raise MissingFilesError(f"{_absent(source, folder)}\nThe download of {file.name} failed: {cause}.") from error
    if file.sha256 is None:
        with (folder / PINS).open("a") as pins:
            pins.write(f"{sha256_of(folder / file.name)}  {file.name}\n")


def _nearest(source: Source, folder: Path) -> Edition:
    """Return the edition that most files are here of."""
    return max(source.editions, key=lambda edition: sum(_present(edition, folder)) / len(edition.parts))


def _present(edition: Edition, folder: Path) -> list[bool]:
    return [_existing(folder, files) is not None for files in edition.parts.values()]


def _absent(source: Source, folder: Path) -> str:
    """Say which files are missing, where to get them, what their checksums are and where to put them."""
    edition = _nearest(source, folder)
    missing = [files[0] for files in edition.parts.values() if not _existing(folder, files)]
    lines = [f"{file.name} from {file.url or source.page} (sha256 {_sum_of(file, source)})" for file in missing]
    some = any(_present(edition, folder))
    here = f"Of data set {source.name!r} files are missing in" if some else f"Data set {source.name!r} is not in"
    return "\n  ".join([f"{here} {folder}. Put there, under the same name:", *lines, *filter(None, [source.hint])])


def _sum_of(file: File, source: Source) -> str:
    if file.sha256:
        return file.sha256
    same = [f for files in source.editions[0].parts.values() for f in files if f.name == file.name and f.sha256]
    return "not published" + "".join(f"; a known copy has {known.sha256}" for known in same)


@contextmanager
def _bar(title: str) -> Iterator[Any]:
    """Show a progress bar in a terminal, and nothing elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    hidden = quiet.get() or not console.is_terminal
    with Progress(*columns, console=console, disable=hidden, redirect_stdout=False, redirect_stderr=False) as progress:
        yield _PoochBar(progress, progress.add_task(title, total=None))


class _PoochBar:
    """The four names by which pooch drives a progress bar."""

    def __init__(self, progress: Any, task: Any) -> None:
        self._progress, self._task = progress, task

    @property
    def total(self) -> Any:
        return self._progress.tasks[0].total

    @total.setter
    def total(self, size: int) -> None:
        self._progress.update(self._task, total=size or None)

    def update(self, n: int) -> None:
        self._progress.advance(self._task, n)

    def reset(self) -> None:
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        pass
