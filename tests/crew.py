"""Workers on one study that are killed at any moment, with ledgers of what they were told."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from study_workers import PATIENCE, PROCESSES, work_with

WORKERS = 4


class Crew:
    """Workers on one study, each with a ledger of what was acknowledged; seeded."""

    def __init__(
        self,
        storage: str,
        name: str,
        folder: Path,
        seed: int,
        *,
        workers: int = WORKERS,
        token: str | None = None,
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.kills = 0
        self._task = (storage, name)
        self._token = token
        self._folder = folder
        self._seed = seed
        self._started = 0
        self._ledgers: list[Path] = [Path()] * workers
        self._running: list[Any] = [self._start(i) for i in range(workers)]

    @property
    def _hurry(self) -> Path:
        return self._folder / "hurry"

    def _start(self, i: int) -> Any:
        self._started += 1
        seed = 1000 * self._seed + self._started
        self._ledgers[i] = ledger = self._folder / f"ledger-{self._started:04}"
        ledger.touch()
        task = (self._token, *self._task, seed, ledger, self._hurry)
        process = PROCESSES.Process(target=work_with, args=task)
        process.start()
        return process

    def somebody_at_work(self) -> int:
        """Return a worker at random of those that have told something."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            busy = [i for i, ledger in enumerate(self._ledgers) if ledger.stat().st_size]
            if busy:
                return int(self.rng.choice(busy))
            time.sleep(0.01)
        raise AssertionError("nobody told anything")

    def wait_for_a_failure(self) -> None:
        """Wait until somebody has noticed that the storage is away."""
        known = len(self.failures())
        deadline = time.monotonic() + PATIENCE
        while len(self.failures()) == known:
            assert time.monotonic() < deadline, "nobody noticed"
            time.sleep(0.02)

    def kill(self, which: list[int]) -> None:
        """Kill some workers with SIGKILL, all of them before any is replaced."""
        for i in which:
            ended = f"a worker ended ({self._running[i].exitcode}) before it was killed"
            assert self._running[i].is_alive(), ended
            self._running[i].kill()
        for i in which:
            self._running[i].join()
            self._running[i].close()
            self._running[i] = self._start(i)
        self.kills += len(which)

    def finish(self) -> None:
        """Let the workers finish the study."""
        self._hurry.touch()
        for process in self._running:
            process.join(PATIENCE)
        codes = [process.exitcode for process in self._running]
        assert codes == [0] * len(self._running)

    def end(self) -> None:
        for process in self._running:
            process.kill()
            process.join()
            process.close()

    def acknowledged(self) -> list[tuple[str, float]]:
        return acknowledged(self._folder)

    def failures(self) -> list[str]:
        return _notes(self._folder, "failed")


def acknowledged(folder: Path) -> list[tuple[str, float]]:
    """Return the tickets and rewards that the ledgers in a folder note as stored."""
    pairs = [line.split() for line in _notes(folder, "told")]
    return [(ticket, float(reward)) for ticket, reward in pairs]


def _notes(folder: Path, kind: str) -> list[str]:
    ledgers = sorted(folder.glob("ledger-*"))
    lines = [line for ledger in ledgers for line in ledger.read_text().splitlines()]
    return [line.partition(" ")[2] for line in lines if line.startswith(kind)]
