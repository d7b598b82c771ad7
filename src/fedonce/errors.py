"""What can go wrong, by name: one base error and a few kinds of it.

Every error also inherits a standard one, so that ``except ValueError`` works for people who do not know ours.
"""

from __future__ import annotations


class FedOnceError(Exception):
    """Base of all errors that fedonce raises on purpose."""


class InputError(FedOnceError, ValueError):
    """The caller's data or parameters cannot be used as they are."""


class MissingPackageError(InputError):
    """A feature needs a package that is not installed."""


class MessageError(FedOnceError, ValueError):
    """A message from another party is damaged, malformed or does not belong here."""


class BudgetError(FedOnceError, ValueError):
    """A privacy budget does not allow what is asked for, or was not kept."""


class AbsentPartyError(FedOnceError, TimeoutError):
    """Too few parties answered in time."""


class FederationError(FedOnceError, ConnectionError):
    """The federation's machinery: a kit, a connection, a process."""


class FedOnceWarning(UserWarning):
    """Something works, though perhaps not as the caller meant it."""


def parameter_error(owner: str, parameter: str, must_be: str, got: object) -> InputError:
    """One grammar for all parameter errors: who, which parameter, what it must be, what it was.

    >>> raise parameter_error("FedOnceClassifier", "dim", "a positive integer", 0)
    Traceback (most recent call last):
    ...
    fedonce.errors.InputError: The 'dim' parameter of FedOnceClassifier must be a positive integer. Got 0 instead.
    """
    return InputError(f"The '{parameter}' parameter of {owner} must be {must_be}. Got {got!r} instead.")
