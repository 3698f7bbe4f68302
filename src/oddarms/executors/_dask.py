"""Calls on a dask cluster: one at an address, or one of this machine for the occasion."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack
from itertools import islice
from typing import Any

from oddarms.errors import BackendUnavailable, MissingExtra
from oddarms.executors._base import (
    CONNECT_SECONDS,
    Executor,
    Outcome,
    Task,
    count_of,
    sentence_of,
    shielded_from_interrupts,
    unreachable,
    worker_lost,
)


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


class DaskExecutor(Executor):
    """Runs calls on the workers of a dask cluster.

    Dask cannot stop a call: on a cluster that stays, those under way run to their end.
    """

    def __init__(self, description: str, workers: int, client: Any, opened: ExitStack) -> None:
        super().__init__(description, workers)
        self._client = client
        self._opened = opened

    def _results(
        self, function: Callable[[Task], Outcome], tasks: Iterable[Task]
    ) -> Generator[Outcome, None, None]:
        from distributed import KilledWorker, as_completed

        waiting = enumerate(tasks)
        pending: set[Any] = set()
        finished = as_completed(loop=self._client.loop)
        try:
            while True:
                for number, task in islice(waiting, self._window - len(pending)):
                    future = self._client.submit(function, task, pure=False, priority=-number)
                    pending.add(future)
                    finished.add(future)
                if not pending:
                    return
                future = next(finished)
                pending.remove(future)
                if future.cancelled():  # not by us
                    raise BackendUnavailable(f"{self.description}: the scheduler went away.")
                yield future.result()
        except KilledWorker as error:
            raise worker_lost("dask", error) from error
        finally:
            self._client.cancel(list(pending))

    def _release(self) -> None:
        self._opened.close()
