"""The command line, ``oddarms`` (``pip install 'oddarms[cli]'``)."""

from oddarms.cli._main import main

__all__ = ["main"]
