"""Attributes that can be read and not assigned."""

from __future__ import annotations


class ReadOnly:
    """Says, where somebody assigns a property, what to do instead."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        kind = type(self)
        if isinstance(getattr(kind, name, None), property):
            raise AttributeError(
                f"The attribute {name!r} of a {kind.__name__} can be read and not assigned. What it is made with goes to "
                f"{kind.__name__}(...); how rows are named or matched, to the call (naming=, matching=)."
            )
        super().__setattr__(name, value)
