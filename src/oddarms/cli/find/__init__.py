"""``oddarms find``: one command from arms to the answer."""

from oddarms.cli.find._command import find

__all__ = ["find"]
