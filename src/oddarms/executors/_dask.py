"""Calls on a dask cluster: one at an address, or one of this machine for the occasion."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack
from itertools import count
from typing import Any

from oddarms.errors import BackendUnavailable, InvalidParameter, MissingExtra
from oddarms.executors._base import (
    CONNECT_SECONDS,
    Executor,
    count_of,
    sentence_of,
    shielded_from_interrupts,
    unreachable,
    worker_lost,
)
from oddarms.executors._staged import StagedExecutor


def open_dask(jobs: int, address: str | None) -> Executor:
    """Return an executor on the cluster at the address, or on a new one with that many processes.

    Dask imports the main script again in each process that it starts, so that a script which opens
    a cluster of its own must do so under ``if __name__ == "__main__"``.
    """
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise MissingExtra.of("dask", "the backend 'dask'") from None
    return _local(jobs) if address is None else _at(address)


def with_client(client: Any, jobs: int | None) -> Executor:
    """Return an executor on the cluster of a client, which stays open."""
    if client.asynchronous:
        raise InvalidParameter(
            "executor must be a synchronous dask Client but got an asynchronous one."
        )
    workers = jobs or max(sum(client.nthreads().values()), 1)
    described = f"dask at {client.scheduler.address}, {count_of(workers, 'worker', 'workers')}"
    return DaskExecutor(described, workers, client, ExitStack())


def _local(jobs: int) -> DaskExecutor:
    from distributed import Client, LocalCluster

    with ExitStack() as stack:
        try:
            with shielded_from_interrupts():
                cluster = LocalCluster(
                    n_workers=jobs,
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address="127.0.0.1:0",  # None is port 8787 of every interface
                    scheduler_kwargs={"dashboard": False},
                    silence_logs=logging.CRITICAL,  # of lost workers and closing; we raise
                )
                stack.enter_context(cluster)
        except (OSError, RuntimeError) as error:
            raise BackendUnavailable(
                "a local dask cluster cannot be started (which a script must do under "
                f"if __name__ == '__main__'): {sentence_of(error)}"
            ) from error
        client = stack.enter_context(Client(cluster, set_as_default=False))
        described = f"dask, local, {count_of(jobs, 'process', 'processes')}"
        return DaskExecutor(described, jobs, client, stack.pop_all())


def _at(address: str) -> DaskExecutor:
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    from distributed import Client

    with ThreadPoolExecutor(1) as thread:  # a notebook has a loop running in this one
        error = thread.submit(asyncio.run, _refusal(address)).result()
    if error is not None:
        raise unreachable("dask", address, error)
    with ExitStack() as stack:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        stack.enter_context(client)
        workers = sum(client.nthreads().values())
        if workers == 0:
            raise BackendUnavailable(f"dask at {address} has no workers.")
        described = f"dask at {address}, {count_of(workers, 'worker', 'workers')}"
        return DaskExecutor(described, workers, client, stack.pop_all())


async def _refusal(address: str) -> Exception | str | None:
    """Return why no scheduler answers: a client that fails waits for ever, or 20 s at exit."""
    import asyncio

    from distributed import rpc
    from distributed.security import Security

    security = Security().get_connection_args("client")
    try:
        async with (
            asyncio.timeout(CONNECT_SECONDS + 1),
            rpc(address, timeout=CONNECT_SECONDS, connection_args=security) as server,
        ):
            identity = await server.identity()
    except TimeoutError:
        return f"no answer within {CONNECT_SECONDS:.0f} seconds"
    except (OSError, ValueError) as error:
        return error
    except Exception:  # such as a MemoryError, at the address of the dashboard
        identity = {}
    return None if identity.get("type") == "Scheduler" else "what answers is not a dask scheduler"


class DaskExecutor(StagedExecutor):
    """Runs calls on the workers of a dask cluster.

    Dask cannot stop a call: on a cluster that stays, those under way run to their end.
    """

    def __init__(self, description: str, workers: int, client: Any, opened: ExitStack) -> None:
        super().__init__(description, workers, most=2 * workers)
        self._client = client
        self._opened = opened
        self._number = count()

    def _begin(self, function: Callable[[Any], Any], argument: Any) -> Any:
        # not pure: else calls with one argument are one call; in order: else close ones are not
        future = self._client.submit(function, argument, pure=False, priority=-next(self._number))
        future.add_done_callback(self._bell.ring)
        return future

    def _finished(self, handles: Collection[Any], timeout: float | None) -> Iterable[Any]:
        return self._when_one_is_done(handles, timeout)

    def _outcome(self, handle: Any) -> tuple[BaseException | None, Any]:
        from distributed import KilledWorker

        if handle.cancelled():  # not by us
            return BackendUnavailable(f"{self.description}: the scheduler went away."), None
        try:
            return None, handle.result()
        except KilledWorker as error:
            lost = worker_lost("dask", error)
            lost.__cause__ = error
            return lost, None
        except Exception as error:
            return error, None

    def _stop(self, handles: Collection[Any]) -> None:
        self._client.cancel(list(handles))

    def _release(self) -> None:
        self._opened.close()
