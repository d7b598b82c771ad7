"""The package's log lines, shown to whoever asks for them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def lines_on_stderr(verbose: int) -> Iterator[None]:
    """Show the package's log lines on the error stream for as long as the block runs; 0: none, 2: also those of epochs."""
    if not verbose:
        yield
        return
    package, handler = logging.getLogger("fedonce"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    level = package.level
    package.addHandler(handler)
    package.setLevel(logging.DEBUG if verbose > 1 else logging.INFO)
    try:
        yield
    finally:
        package.removeHandler(handler)
        package.setLevel(level)
