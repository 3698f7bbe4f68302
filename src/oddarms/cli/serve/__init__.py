"""``oddarms serve``: a server for studies."""

from oddarms.cli.serve._command import app

__all__ = ["app"]
