"""Which executor to open."""

from __future__ import annotations

import os
from typing import Any

from oddarms.errors import InvalidParameter
from oddarms.executors._base import Executor
from oddarms.executors._dask import open_dask
from oddarms.executors._joblib import JoblibExecutor
from oddarms.executors._ray import open_ray
from oddarms.executors._serial import SerialExecutor
from oddarms.problem import check_whole

BACKENDS = ("joblib", "dask", "ray")
"""The backends of `open_executor`."""


def open_executor(
    backend: str = "joblib", *, jobs: int | None = None, address: str | None = None
) -> Executor:
    """Return an executor, which the caller closes.

    Parameters
    ----------
    backend
        ``"joblib"`` for processes of this machine, ``"dask"`` or ``"ray"`` for a cluster, which
        without an address is one of this machine, started here and ended by `Executor.close`.
    jobs
        How many processes to start; by default one for each core. With joblib, 1 means none: calls
        run in this process. A cluster at an address has its own, as has a ray that this process
        has already initialised.
    address
        Where the cluster is: dask's ``"tcp://host:port"``, ray's ``"host:port"``,
        ``"ray://host:port"`` or ``"auto"``.

    Raises
    ------
    BackendUnavailable
        If the cluster cannot be reached or started.
    MissingExtra
        If the backend's package is not installed.

    Examples
    --------
    >>> with open_executor(jobs=1) as executor:
    ...     sorted(executor.map_unordered(abs, [-3, 1, -2]))
    [1, 2, 3]
    """
    if backend not in BACKENDS:
        known = ", ".join(repr(name) for name in BACKENDS)
        raise InvalidParameter(f"backend must be one of {known} but got {backend!r}.")
    _check_address(backend, jobs, address)
    processes = check_whole("jobs", (os.cpu_count() or 1) if jobs is None else jobs, least=1)
    if backend == "dask":
        return open_dask(processes, address)
    if backend == "ray":
        return open_ray(processes, address)
    return JoblibExecutor(processes) if processes > 1 else SerialExecutor()


def _check_address(backend: str, jobs: Any, address: Any) -> None:
    """Raise if there is an address that makes no sense."""
    if address is None:
        return
    if not isinstance(address, str) or not address.strip():
        raise InvalidParameter(f"address must be a text such as 'host:port' but got {address!r}.")
    if backend == "joblib":
        raise InvalidParameter(
            f"address must be left out with the backend 'joblib' but got {address!r}."
        )
    if jobs is not None:
        raise InvalidParameter(
            f"jobs must be left out with an address, whose workers are used, but got {jobs!r}."
        )
