"""Which code a stored outcome came from, so that a resumed study never mixes two versions."""

from __future__ import annotations

import hashlib
import inspect
from functools import cache
from pathlib import Path

import numpy as np

from oddarms.algorithms import get_algorithm

CODE_THAT_DECIDES = (
    "problem.py",
    "statistics/*.py",
    "limit/*.py",
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
    package = Path(__file__).parents[1]
    files = [path for pattern in CODE_THAT_DECIDES for path in sorted(package.glob(pattern))]
    digest = hashlib.sha256(np.__version__.encode())
    for path in [*files, *_file_of(algorithm)]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _file_of(algorithm: str) -> list[Path]:
    try:
        return [Path(inspect.getfile(get_algorithm(algorithm)))]
    except (OSError, TypeError):  # typed into an interpreter
        return []
