"""Which executor to open."""

from __future__ import annotations

import concurrent.futures
import os
import sys
from typing import Any

from oddarms.errors import InvalidParameter
from oddarms.executors._base import Executor
from oddarms.executors._dask import open_dask, with_client
from oddarms.executors._joblib import JoblibExecutor
from oddarms.executors._pools import BorrowedExecutor, PoolExecutor, ThreadExecutor
from oddarms.executors._ray import open_ray, with_ray
from oddarms.executors._serial import SerialExecutor
from oddarms.problem import check_whole

BACKENDS = ("serial", "threads", "joblib", "dask", "ray")
"""The backends of `open_executor`."""


def open_executor(
    backend: str = "joblib", *, jobs: int | None = None, address: str | None = None
) -> Executor:
    """Return an executor, which the caller closes.

    Parameters
    ----------
    backend
        ``"serial"`` for this thread, ``"threads"`` for threads, ``"joblib"`` for processes of this
        machine, ``"dask"`` or ``"ray"`` for a cluster, which without an address is one of this
        machine, started here and ended by `Executor.close`.
    jobs
        How many threads or processes to start; by default one for each core. With joblib, 1 means
        none: calls run in this thread, as they always do with serial. A cluster at an address has
        its own, as has a ray that this process has already initialised.
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
    number = check_whole("jobs", (os.cpu_count() or 1) if jobs is None else jobs, least=1)
    if backend == "dask":
        return open_dask(number, address)
    if backend == "ray":
        return open_ray(number, address)
    if backend == "threads":
        return ThreadExecutor(number)
    if backend == "serial" and jobs not in (None, 1):
        raise InvalidParameter(f"jobs must be left out with the backend 'serial' but got {jobs}.")
    return JoblibExecutor(number) if backend == "joblib" and number > 1 else SerialExecutor()


def as_executor(executor: Any, jobs: int | None = None) -> Executor:
    """Return an executor over what a user has, which closing it leaves open.

    Parameters
    ----------
    executor
        One of ours, one of `concurrent.futures`, a dask ``Client``, the ray module once it is
        initialised, or None for one that calls in this thread or, for several jobs, in threads.
    jobs
        How many calls run at once; by default as many as the executor has workers.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(2) as pool, as_executor(pool) as executor:
    ...     executor.submit(abs, -3).result()
    3
    """
    number = None if jobs is None else check_whole("jobs", jobs, least=1)
    if executor is None:
        return ThreadExecutor(number) if number is not None and number > 1 else SerialExecutor()
    if isinstance(executor, Executor):
        return BorrowedExecutor(executor, number)
    if executor is sys.modules.get("ray"):
        return with_ray(executor, number)
    if _comes_from_dask(executor):
        if hasattr(executor, "get_executor"):
            return with_client(executor, number)
        raise InvalidParameter(
            "executor must be the dask Client itself but got its get_executor()."
        )
    if isinstance(executor, concurrent.futures.Executor):
        return PoolExecutor(executor, number)
    raise InvalidParameter(
        "executor must be a concurrent.futures executor, a dask Client or the ray module but got"
        f" {type(executor).__name__}."
    )


def _comes_from_dask(executor: Any) -> bool:
    return any(cls.__module__.partition(".")[0] == "distributed" for cls in type(executor).__mro__)


def _check_address(backend: str, jobs: Any, address: Any) -> None:
    """Raise if there is an address that makes no sense."""
    if address is None:
        return
    if not isinstance(address, str) or not address.strip():
        raise InvalidParameter(f"address must be a text such as 'host:port' but got {address!r}.")
    if backend not in ("dask", "ray"):
        raise InvalidParameter(
            f"address must be left out with the backend {backend!r} but got {address!r}."
        )
    if jobs is not None:
        raise InvalidParameter(
            f"jobs must be left out with an address, whose workers are used, but got {jobs!r}."
        )
