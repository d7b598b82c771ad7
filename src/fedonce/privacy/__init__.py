"""What parties do to protect what leaves them."""

from fedonce.privacy.local import LocalNoise

__all__ = ["LocalNoise"]
