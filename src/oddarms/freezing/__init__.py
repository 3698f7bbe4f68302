"""Objects as bytes and back, without pickle, and without trust in the bytes."""

from oddarms.freezing._tree import freeze, thaw

__all__ = ["freeze", "thaw"]
