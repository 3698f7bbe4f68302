"""Which code a stored outcome came from, so that a resumed study never mixes two versions."""

from __future__ import annotations

import hashlib
import inspect
from functools import cache
from pathlib import Path

import numpy as np

from oddarms.algorithms import get_algorithm
from oddarms.files import digest_of_package

CODE_THAT_DECIDES = (
    "problem.py",
    "statistics/*.py",
    "theory/*.py",
    "rules/*.py",
    "algorithms/*.py",
    "arms/*.py",
    "search/*.py",
    "simulation/*.py",
    "experiments/_cells.py",
)


@cache
def code_fingerprint(algorithm: str) -> str:
    """Return a digest of the code that decides a run: ours, the algorithm's file, numpy's version.

    An algorithm of another package counts with the file its class is in, not with what that
    imports.
    """
    ours = digest_of_package(CODE_THAT_DECIDES, np.__version__)
    digest = hashlib.sha256(ours.encode())
    for path in _file_of(algorithm):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _file_of(algorithm: str) -> list[Path]:
    try:
        return [Path(inspect.getfile(get_algorithm(algorithm)))]
    except (OSError, TypeError):  # typed into an interpreter
        return []
