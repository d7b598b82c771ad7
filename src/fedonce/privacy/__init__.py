"""What parties do to protect what leaves them."""

from fedonce.privacy.local import LocalNoise
from fedonce.privacy.local_epsilon import LocalEpsilon

__all__ = ["LocalEpsilon", "LocalNoise"]
