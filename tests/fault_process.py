"""A process of the fault tests: its task, its ledger, and the faults that live in it.

A ledger is a file in which a process notes what it is about to do and what came of it. What was
written there stays when the process is killed; `fault_model` holds the study against all of them.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import sqlalchemy as sa

from oddarms.errors import StorageFailed
from oddarms.studies import Study, Told, _database, _worker, load_study

T = TypeVar("T")

STUDY = "shaken"
PATIENCE = 120.0
LEASE = 0.6
"""Seconds of the longest lease."""
SLOW_COMMIT = 0.05
OUTLIER, NORMAL = 0.9, 0.4
MAX_PAGES = 2**30
FILE_BYTES = 2**17
JUMPS = (-86_400.0 * 400, -7200.0, 0.0, 3.0, 7200.0, 86_400.0 * 400)


@dataclass(frozen=True)
class Task:
    """What a process has to know.

    Attributes
    ----------
    storage, folder
        Where the study is, and where the ledgers and the files `stop`, `slow` and `full` are.
    kind, name, seed
        What it does, its name in the log, and what decides its choices.
    """

    storage: str
    folder: Path
    kind: str
    name: str
    seed: int

    @property
    def ledger(self) -> Path:
        return self.folder / f"ledger-{self.name}"

    @property
    def stacks(self) -> Path:
        """Where the process writes what it is doing when it gets SIGUSR1."""
        return self.folder / f"stacks-{self.name}"


class Worker:
    """A process at work: its choices, its ledger, and the faults that live in it."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.rng = np.random.default_rng(task.seed)
        self._ledger = os.open(task.ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._offset = 0.0
        faulthandler.register(signal.SIGUSR1, open(task.stacks, "w"))  # noqa: SIM115 - for good
        _worker.MAX_PAUSE = 0.2
        if self.rng.random() < 0.4:
            _database.LOCK_SECONDS = 0.2
            self.note("impatient")
        self._break_the_clock()
        sa.event.listen(sa.Engine, "begin", self._fill_the_disk)
        sa.event.listen(sa.Engine, "commit", self._slow_the_disk)

    def note(self, *words: object) -> None:
        self.note_all([words])

    def note_all(self, lines: Iterable[Iterable[object]]) -> None:
        now = f"{time.monotonic():.3f}"
        text = "".join(" ".join(map(str, (now, *words))) + "\n" for words in lines)
        os.write(self._ledger, text.encode())

    def insist(self, call: Callable[[], T]) -> T:
        """Repeat a call while it fails for reasons that pass."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return call()
            except StorageFailed as error:
                self.note("failed", error)
                if not error.passing or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def load(self) -> Study:
        return self.insist(lambda: load_study(STUDY, storage=self.task.storage))

    @property
    def stopped(self) -> bool:
        return (self.task.folder / "stop").exists()

    def draw(self, arm: int) -> float:
        """Return a reward unlike any other."""
        rate = OUTLIER if arm == 0 else NORMAL
        return float(0.9 * (self.rng.random() < rate) + 0.1 * self.rng.random())

    # Faults

    def _break_the_clock(self) -> None:
        right = time.time
        time.time = lambda: right() + self._offset

    def jump(self) -> None:
        """Set the time of day, now and then."""
        if self.rng.random() < 0.1:
            self._offset = float(self.rng.choice(JUMPS))
            self.note("jumped", self._offset)

    def _slow_the_disk(self, _connection: Any) -> None:
        if (self.task.folder / "slow").exists():
            time.sleep(SLOW_COMMIT)

    def _fill_the_disk(self, connection: Any) -> None:
        if connection.dialect.name != "sqlite":
            return
        how = ""
        with suppress(FileNotFoundError):
            how = (self.task.folder / "full").read_text()
        raw = connection.connection.driver_connection
        pages = raw.execute("PRAGMA page_count").fetchone()[0] if how == "pages" else MAX_PAGES
        raw.execute(f"PRAGMA max_page_count = {pages}")
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        room = self.task.ledger.stat().st_size + FILE_BYTES
        resource.setrlimit(resource.RLIMIT_FSIZE, (room if how == "bytes" else hard, hard))

    # The ledger protocol

    def watch(self) -> None:
        """Note what the study is asked and told in this process, whoever does it."""
        kind: Any = type(self.load())
        ask, tell = kind.ask, kind.tell_many

        def noted_ask(study: Study, *arguments: Any, **options: Any) -> Any:
            tickets = ask(study, *arguments, **options)
            self.note_all(("asked", t.id, t.index, t.place) for t in tickets)
            return tickets

        def noted_tell(study: Study, results: Any, *, worker: str | None = None) -> list[Told]:
            pairs = [(t if isinstance(t, str) else t.id, reward) for t, reward in results]
            self.note_all(("telling", *pair) for pair in pairs)
            try:
                answers = tell(study, pairs, worker=worker)
            except StorageFailed as error:
                self.note("untellable", error)
                raise
            self.note_all(("told", *pair, said) for pair, said in zip(pairs, answers, strict=True))
            return answers

        kind.ask, kind.tell_many = noted_ask, noted_tell


def whole_lines(ledger: Path) -> list[list[str]]:
    """Return a ledger's lines, in words, without one that a kill has cut off."""
    text = ledger.read_text()
    return [line.split() for line in text[: text.rfind("\n") + 1].splitlines()]
