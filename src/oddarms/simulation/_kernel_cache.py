"""Compiled kernels: functions of this package with all that they call, kept on disk.

Only the bookkeeping around the formulas differs: where an interactive algorithm looks at all arms
after each pull, a kernel looks at one or two numbers that prove that nothing can have changed. Why
that is exact is said where it is done, and tests compare both forms pull for pull.

numba looks only at the file of a function itself, so a stored kernel would stay as it was when a
formula of another file changes. Hence a directory for each state of the sources.
"""

from __future__ import annotations

import logging
import os
import platform
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from llvmlite.binding import get_host_cpu_name

from oddarms.files import digest_of_package
from oddarms.simulation._loops import OPTIONS, register_called

SOURCES = (
    *("simulation/*.py", "statistics/*.py", "algorithms/_base.py"),
    *("algorithms/_spade_joint.py", "algorithms/_spade_plans.py", "problem.py"),
)
"""Every file with a function or a constant that a kernel uses."""

VARIABLE = "ODDARMS_CACHE"
_ROOM = 2**20
"""More bytes than a stored kernel has."""

_log = logging.getLogger(__name__)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function when it is first called, or take it from an earlier process.

    It must have one signature: numba may mix up two that different processes store at a time.
    """
    register_called(function)
    with _numba_stores_in(folder := kernel_folder()):
        return numba.njit(**OPTIONS, no_cfunc_wrapper=True, cache=folder is not None)(function)


@cache
def kernel_folder() -> Path | None:
    """Return where kernels of these sources are, or None if nothing can be written there."""
    try:
        folder = cache_folder() / "kernels" / _state_of_sources()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_ROOM))
    except (OSError, RuntimeError) as error:  # the latter where there is no home
        _log.warning("kernels are compiled anew, as they cannot be stored: %s", error)
        return None
    return folder


def cache_folder() -> Path:
    """Return the folder for what can be made again."""
    own = os.environ.get(VARIABLE)
    if own:
        return Path(own).absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "oddarms"


def _state_of_sources() -> str:
    versions = (platform.python_version(), numba.__version__, llvmlite.__version__)
    return digest_of_package(SOURCES, *versions, np.__version__, get_host_cpu_name())[:32]


@contextmanager
def _numba_stores_in(folder: Path | None) -> Iterator[None]:
    """Set for our kernels what numba reads when a function is decorated, and for no others."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder or before)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before
