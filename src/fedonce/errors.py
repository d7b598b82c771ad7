"""What can go wrong, by name: one base error and a few kinds of it.

Every error also inherits a standard one, so that ``except ValueError`` works for people who do not know ours.
"""

from __future__ import annotations

from typing import Self

LONGEST_CELL = 20  # characters of a cell that is quoted


class _Mendable(Exception):  # noqa: N818  # the base of errors and of warnings
    """Something that a caller can mend by other parameters.

    Parameters
    ----------
    text : str
        What is wrong, and the remedy, in Python's words.
    parameter : str or tuple of str
        Which parameters the remedy is about; a program on top, as the command line, can add what it calls them.
    """

    def __init__(self, *text: object, parameter: str | tuple[str, ...] = ()) -> None:
        super().__init__(*text)
        self.parameters = (parameter,) if isinstance(parameter, str) else parameter


class FedOnceError(_Mendable):
    """Base of all errors that fedonce raises on purpose."""

    def found_in(self, where: object) -> Self:
        """Return the same error, with the place where it was found."""
        return type(self)(f"{self} ({where})", parameter=self.parameters)


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


class FedOnceWarning(_Mendable, UserWarning):
    """Something works, though perhaps not as the caller meant it."""


def parameter_error(owner: str, parameter: str, must_be: str, got: object) -> InputError:
    """One grammar for all parameter errors: who, which parameter, what it must be, what it was.

    >>> raise parameter_error("FedOnceClassifier", "dim", "a positive integer", 0)
    Traceback (most recent call last):
    ...
    fedonce.errors.InputError: The 'dim' parameter of FedOnceClassifier must be a positive integer. Got 0 instead.
    """
    text = f"The '{parameter}' parameter of {owner} must be {must_be}. Got {shown(got)} instead."
    return InputError(text, parameter=parameter)


LONGEST = 80  # characters of a value that is shown whole
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def shown(value: object) -> str:
    """Return a value for an error: plain and short ones as they are, others by type and size, since they may hold rows of data.

    >>> shown(0), shown("nat"), shown(["a", 1])
    ('0', "'nat'", "['a', 1]")
    >>> shown([[1.5, 2.5]] * 3), shown("x" * 100)
    ('a list of length 3', 'a str of length 100')
    """
    if _is_small(value):
        text = repr(value)
        if len(text) <= LONGEST:
            return text
    kind = type(value).__name__
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"{_article(kind)} {kind} of shape {shape}"
    try:
        return f"{_article(kind)} {kind} of length {len(value)}"  # type: ignore[arg-type]
    except Exception:  # whatever an object of the user's says when it is asked for its length
        return f"{_article(kind)} {kind}"


def quoted(cell: str) -> str:
    r"""Return one cell of a table for its owner: cut short, and printable.

    >>> quoted("1.2O"), quoted("a\nb"), quoted("y" * 30)
    ("'1.2O'", "'a\\nb'", "'yyyyyyyyyyyyyyyyyyyy...'")
    """
    return repr(cell if len(cell) <= LONGEST_CELL else cell[:LONGEST_CELL] + "...")


def _is_small(value: object) -> bool:
    """Tell settings from data: plain values, and flat collections of few of them."""
    if isinstance(value, dict):
        return len(value) <= 5 and all(isinstance(each, _PLAIN) for pair in value.items() for each in pair)
    if isinstance(value, list | tuple | set | frozenset):
        return len(value) <= 5 and all(isinstance(each, _PLAIN) for each in value)
    return isinstance(value, _PLAIN) or getattr(value, "shape", None) == () or isinstance(value, type)


def _article(word: str) -> str:
    return "an" if word[:1].lower() in "aeiou" else "a"
