"""The host's alignment with its guests: which rows both have, by private set intersection."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedonce.errors import InputError, MessageError
from fedonce.rows import alignment
from fedonce.rows.ids import Ids
from fedonce.system.disk import write_file

FILES = ("alignment.request", "alignment.state")


@dataclass(frozen=True)
class Alignment:
    """One alignment, whose request is kept in a folder.

    Parameters
    ----------
    host, run, reveal, forms
        Whose it is, for which training, who learns which rows are shared, and how ids are made alike.
    ids : array of text
        The host's ids.
    folder : path
        Where the request is kept: one that was made before is used again. Another would name the rows anew, and guests would
        have to learn again.
    """

    host: str
    run: str
    reveal: str
    forms: tuple[str, ...]
    ids: Ids
    folder: Path

    def points(self) -> bytes:
        """Return what guests are asked with."""
        asked, state = self._files()
        if not (asked.exists() and state.exists()):
            points, kept = alignment.request(self.ids, self.host, self.run, self.reveal, self.forms)
            write_file(state, kept, private=True)
            write_file(asked, points, private=True)
        return asked.read_bytes()

    def _files(self) -> Sequence[Path]:
        """Return the files of the request and of its state, by what an alignment depends on, and no more."""
        depends = [self.run, self.reveal, ",".join(self.forms), *self.ids]
        about = hashlib.sha256("\n".join(depends).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return [self.folder / f"{name}-{about}" for name in FILES]

    def read(self, guest: str, data: bytes) -> alignment.Matched:
        """Return what a guest's answer says; raise MessageError where it cannot be used, or they share no row."""
        try:
            found = alignment.finish(self._files()[1].read_bytes(), data, self.ids)
        except InputError as error:  # they share no row
            raise MessageError(str(error)) from None
        if found.guest != guest:
            raise MessageError(f"its answer to the alignment is by {found.guest!r}")
        return found

    def agreed(self, matched: Mapping[str, alignment.Matched], secret: bytes | None) -> dict[str, bytes]:
        """Return by guest the file of the rows that both have, where the guest is to learn them."""
        if self.reveal != "both":
            return {}
        return {
            name: alignment.agreed_rows(
                self.ids[found.positions], self.host, name, self.run, self.forms, secret, found.salt
            )
            for name, found in matched.items()
        }
