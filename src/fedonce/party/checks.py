"""What guests and hosts check alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedonce.data.preparation import Public
from fedonce.errors import parameter_error
from fedonce.messages.codecs.budget import LEAST_BYTES, MOST_BYTES
from fedonce.messages.envelope import is_name
from fedonce.messages.names import check_name
from fedonce.privacy.budget import Purse

NOISE_LIMIT = 1e6


def public_of(purse: Purse | None, public: Public | None, local_epsilon: float | None = None) -> Public | None:
    """Return what is public of a party's columns; None: its rows say how they are prepared."""
    if local_epsilon is not None:
        return replace(public or Public(), hashes=True)
    return None if purse is None else public or Public()


def check_purse(
    owner: str, name: str, purse: Purse | None, public: Public | None, local_epsilon: float | None = None
) -> None:
    """Raise where what belongs to a privacy budget does not fit together."""
    if purse is None and public is not None and local_epsilon is None:
        raise parameter_error(owner, "purse", "given with 'public': without one nothing would be private", purse)
    if purse is not None and purse.party != name:
        raise parameter_error(owner, "purse", f"that of party {name!r}", purse.party)


def check_party(owner: str, name: object, random_state: object, run: object) -> None:
    """Raise where a party's name, run or seed cannot be one."""
    check_name(owner, "name", name)
    if not is_name(run):
        raise parameter_error(owner, "run", "printable text of 1 to 100 bytes", run)
    if not isinstance(random_state, int | np.integer) or random_state < 0:
        raise parameter_error(owner, "random_state", "an integer of at least 0", random_state)


def check_bytes_per_row(owner: str, given: object) -> None:
    """Raise unless it is None, or a number of bytes that a row can take."""
    if given is None:
        return
    number = isinstance(given, int | float | np.number) and not isinstance(given, bool)
    if not (number and LEAST_BYTES <= float(str(given)) <= MOST_BYTES):
        raise parameter_error(owner, "bytes_per_row", f"a number from {LEAST_BYTES:g} to {MOST_BYTES:g}", given)


def check_noise(owner: str, parameter: str, noise: object) -> None:
    """Raise unless `noise` is a scale that noise can have."""
    if isinstance(noise, bool) or not isinstance(noise, int | float | np.number) or not 0 <= noise <= NOISE_LIMIT:
        raise parameter_error(owner, parameter, f"a number from 0 (no noise) to {NOISE_LIMIT:g}", noise)
