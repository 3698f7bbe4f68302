"""What the worker processes of the studies' tests do; they import this, so it imports little."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import psycopg

from oddarms.errors import StorageFailed
from oddarms.studies import Told, create_study, load_study

T = TypeVar("T")

PROCESSES = multiprocessing.get_context("forkserver")
"""Children of a process that has everything imported and no threads: quick to start."""
PROCESSES.set_forkserver_preload(
    [
        "oddarms.cli._serve",
        "oddarms.studies._stored",
        "oddarms.algorithms._spade",
        "psycopg",
        "sqlite3",
        "sqlalchemy.dialects.sqlite.pysqlite",
        "sqlalchemy.dialects.postgresql.psycopg",
    ]
)

PATIENCE = 300.0
MOST_AT_A_TIME = 20
SLOWEST_PULLS = 0.03
RATES = np.where(np.arange(250) < 5, 0.9, 0.4)
"""Rates of success of 250 arms, the first five outliers at k = 3: some 40,000 pulls."""


def together(function: Callable[..., T], tasks: Sequence[tuple[Any, ...]]) -> list[T]:
    """Call a function in a process for each task and return what it returned, in order.

    Its first argument is a function that waits until all the processes have called it.
    """
    barrier = PROCESSES.Barrier(len(tasks))
    answers = PROCESSES.Queue()
    todo = [(function, barrier, answers, i, task) for i, task in enumerate(tasks)]
    try:
        with workers(_answer, todo):
            found = dict(answers.get(timeout=PATIENCE) for _ in tasks)
    finally:
        answers.close()
        answers.join_thread()
    for answer in found.values():
        if isinstance(answer, BaseException):
            raise answer
    return [found[i] for i in range(len(tasks))]


@contextmanager
def workers(function: Callable[..., None], tasks: Sequence[tuple[Any, ...]]) -> Iterator[list[Any]]:
    """Run processes; they have ended by themselves, or are killed, when the block ends."""
    running = [PROCESSES.Process(target=function, args=task) for task in tasks]
    try:
        for process in running:
            process.start()
        yield running
        for process in running:
            process.join(PATIENCE)
    finally:
        for process in running:
            if process.pid is not None:
                process.kill()
                process.join()
            process.close()


def _answer(
    function: Callable[..., T], barrier: Any, answers: Any, i: int, task: tuple[Any, ...]
) -> None:
    try:
        answers.put((i, function(lambda: barrier.wait(PATIENCE), *task)))
    except Exception as error:
        barrier.abort()
        answers.put((i, error))


# Work that survives being killed


def work(storage: str, name: str, seed: int, ledger: Path, hurry: Path) -> None:
    """Ask, pull and tell until the study is done; note in a ledger what was acknowledged.

    Pulls take their time until the file `hurry` is there. Calls that fail because the storage is
    away are noted, and repeated.
    """
    rng = np.random.default_rng(seed)
    notes = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(text: str) -> None:
        os.write(notes, text.encode())  # what is written stays when the process is killed

    def insist(call: Callable[[], T]) -> T:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return call()
            except StorageFailed as error:
                note(f"failed {error}\n")
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    study = insist(lambda: load_study(name, storage=storage))
    while True:
        hurried = hurry.exists()
        most = 1000 if hurried else int(rng.integers(1, MOST_AT_A_TIME + 1))
        lease = timedelta(seconds=10.0 if hurried else 0.2)
        tickets = insist(lambda most=most, lease=lease: study.ask(most, f"{seed}", lease))
        if tickets.done:
            return
        if not tickets or not hurried:
            time.sleep(rng.uniform(0.0, SLOWEST_PULLS))
        results = [(t, float(rng.random() < RATES[t.arm])) for t in tickets]
        size = most if hurried or rng.random() < 0.5 else 1
        for start in range(0, len(results), size):
            part = results[start : start + size]
            told = insist(lambda part=part: study.tell_many(part))
            assert Told.CONFLICT not in told
            note("".join(f"told {ticket.id} {reward!r}\n" for ticket, reward in part))


def work_with(token: str | None, *task: Any) -> None:
    """Work with a token for a server; the processes know nothing of this one's environment."""
    if token is not None:
        os.environ["ODDARMS_TOKEN"] = token
    work(*task)


# Work that many do at once


def tell_for(
    ready: Callable[[], None], storage: str, name: str, seconds: float, most: int = 1
) -> int:
    """Tell up to so many at a time, for some time, and at least once if there is work."""
    rng = np.random.default_rng(os.getpid())
    study = load_study(name, storage=storage)
    tickets = list(study.ask(200))
    ready()
    told = 0
    deadline = time.monotonic() + seconds
    while (tickets and told == 0) or time.monotonic() < deadline:
        if tickets:
            size = int(rng.integers(1, most + 1))
            part, tickets = tickets[:size], tickets[size:]
            answers = study.tell_many([(ticket, rng.random()) for ticket in part])
            assert set(answers) == {Told.RECORDED}
            told += len(part)
        else:  # others may have the rest of the step
            time.sleep(0.005)
            tickets = list(study.ask(200))
    return told


def ask_for(ready: Callable[[], None], storage: str, name: str, seconds: float) -> int:
    """Ask all the time, so that results are read as they arrive; give the tickets back."""
    study = load_study(name, storage=storage)
    ready()
    asked = 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for ticket in study.ask(2):
            study.skip(ticket)
        study.result()
        asked += 1
    return asked


def use_up(ready: Callable[[], None], storage: str, name: str) -> tuple[int, int]:
    """Ask and tell until the study is done; return how many tickets and results that were."""
    rng = np.random.default_rng(os.getpid())
    study = load_study(name, storage=storage)
    ready()
    asked = told = 0
    while True:
        tickets = study.ask(int(rng.integers(1, 8)))
        if tickets.done:
            return asked, told
        if not tickets:  # others have the rest of the step
            time.sleep(0.005)
        asked += len(tickets)
        results = [(ticket, float(rng.random())) for ticket in tickets]
        told += study.tell_many(results).count(Told.RECORDED)


def tell_in_order(
    ready: Callable[[], None], storage: str, name: str, results: list[tuple[str, float]]
) -> int:
    study = load_study(name, storage=storage)
    ready()
    return study.tell_many(results).count(Told.RECORDED)


def create_one(ready: Callable[[], None], storage: str, name: str) -> str:
    ready()
    return create_study(name, range(3), k=1, delta=0.1, storage=storage).name


def fork_and_tell(ready: Callable[[], None], storage: str, name: str) -> int:
    """Let forked children tell, with this process's study and with their own; return how many."""
    ready()
    study = create_study(name, range(50), k=1, delta=0.1, storage=storage)
    tickets = study.ask(100)
    closed, close = os.pipe()
    children = []
    for part in (tickets[:50], tickets[50:]):
        child = os.fork()
        if child == 0:
            mine = study if part[0] is tickets[0] else load_study(name, storage=storage)
            mine.tell(part[0], 0.5)
            os.read(closed, 1)
            mine.tell_many([(ticket, 0.5) for ticket in part[1:25]])
            for ticket in part[25:]:
                mine.tell(ticket, 0.5)
            os._exit(0)
        children.append(child)
    study.tell(tickets[0], 0.5)  # also the parent goes on with its study
    os.write(close, b"go")
    codes = [os.waitpid(child, 0)[1] for child in children]
    os.close(closed)
    os.close(close)
    assert codes == [0, 0]
    return sum(1 for _ in load_study(name, storage=storage).trials())


def fork_while_a_thread_asks(ready: Callable[[], None], storage: str, name: str) -> int:
    """Fork while a thread waits for a lock of the database; return the child's exit code."""
    ready()
    study = create_study(name, range(3), k=1, delta=0.1, storage=storage)
    with psycopg.connect(storage) as other, ThreadPoolExecutor() as pool:
        other.execute("LOCK TABLE tickets IN EXCLUSIVE MODE")
        asking = pool.submit(study.ask)
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        while other.execute(waiting).fetchone() != (1,):
            time.sleep(0.01)
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            os._exit(len(study.workers()) + study.progress().pulls)
        code = os.waitpid(child, 0)[1]
        other.rollback()
        assert len(asking.result()) == 1
    return code


def fork_with_memory(ready: Callable[[], None]) -> str:
    """Let a forked child use a study in memory; return what it was told."""
    ready()
    study = create_study("mine", range(3), k=1, delta=0.1, storage="memory")
    answer, said = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            study.ask(1)
        except StorageFailed as error:
            os.write(said, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(said)
    study.ask(1)
    with os.fdopen(answer) as text:
        return text.read()


def either(ready: Callable[[], None], function: Callable[..., T], *task: Any) -> T:
    """Call the function that a task begins with, so that processes can do different things."""
    return function(ready, *task)
