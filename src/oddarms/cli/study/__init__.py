"""``oddarms study``: studies from the shell."""

from oddarms.cli.study._command import app

__all__ = ["app"]
