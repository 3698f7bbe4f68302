"""Faults in random order against workers on one study, and what must be there afterwards."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from fault_crew import PULLERS, Hand
from fault_model import Model, check_answer, tails
from fault_process import LEASE, PATIENCE, STUDY, Task
from fault_schedule import Event, schedule
from fault_workers import begin
from oddarms.studies import Study, create_study, load_study, retried
from postgresql import Server
from study_workers import PROCESSES

T = TypeVar("T")

OTHERS = ("hearsay", "reader", "decoy")


@dataclass(eq=False)
class Stage:
    """Workers on one study, and what happens to them.

    Attributes
    ----------
    happened
        What was done when, in words.
    tally
        How often what was tried, and what came of it.
    """

    study: Study
    storage: str
    folder: Path
    seed: int
    server: Server | None = None
    happened: list[str] = field(default_factory=list)
    tally: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self._acknowledged = 0
        self._started = 0
        self._away = False
        self._calm: set[str] = set()
        self._lasting: list[tuple[float, Callable[[], None]]] = []
        self._copies: list[tuple[Path, Model]] = []
        self._crew = [self._start(kind) for kind in (*PULLERS, *OTHERS)]

    # Processes

    def _start(self, kind: str) -> Hand:
        self._started += 1
        name = f"{self._started:03}-{kind}"
        seed = 1000 * self.seed + self._started
        task = Task(self.storage, self.folder, kind, name, seed)
        task.ledger.touch()
        process = PROCESSES.Process(target=begin, args=(task,))
        process.start()
        return Hand(task, process)

    def _look(self) -> None:
        """Read the ledgers, end what has lasted long enough, and see who has ended by itself."""
        for hand in self._crew:
            self._acknowledged += hand.read_on()
            code = hand.process.exitcode
            assert code in (None, 0), f"{hand.task.name} ended with {code}"
        due = [entry for entry in self._lasting if time.monotonic() >= entry[0]]
        for entry in due:
            self._lasting.remove(entry)
            entry[1]()

    def _wait(self, happened: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
        deadline = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < deadline, f"in {seconds:.0f} seconds {what}"
            time.sleep(0.01)
            self._look()

    def _say(self, words: str) -> None:
        seconds = time.monotonic() - self._began
        self.happened.append(f"{seconds:7.2f} s {self._acknowledged:6} results: {words}")

    @property
    def _done(self) -> bool:
        return all(h.process.exitcode == 0 for h in self._crew if h.task.kind in PULLERS)

    def _somebody(self, event: Event, kinds: tuple[str, ...]) -> Hand | None:
        """Return one of the workers that have told something, None if there is none.

        While a storage is away there will be none.
        """

        def able() -> list[Hand]:
            return [
                h
                for h in self._crew
                if h.task.kind in kinds and h.at_work and h.process.exitcode is None
            ]

        if not self._away:
            self._wait(lambda: able() or self._done, "nobody was at work")
        found = able()
        return found[int(event.who * len(found))] if found else None

    # Faults

    def play(self, events: list[Event]) -> None:
        """Let everything happen, and let the workers end."""
        for event in events:
            enough = self._acknowledged + event.after
            self._wait(
                lambda n=enough: self._acknowledged >= n or self._done,
                f"less than {event.after} results were acknowledged",
            )
            if self._done:
                self._say("done before all faults")
                break
            self._say(event.fault)
            self._cause(event.fault, event)
        self._wait(lambda: not self._lasting, "a fault did not end")
        self._end()

    def _cause(self, fault: str, event: Event) -> None:
        self.tally[fault] += 1
        if fault.startswith("server"):
            self._server_fault(fault, event)
            return
        {
            "kill": lambda: self._kill([self._somebody(event, PULLERS + OTHERS)]),
            "kill all": lambda: self._kill(list(self._crew)),
            "terminate": lambda: self._terminate(event),
            "suspend": lambda: self._suspend(event),
            "lock": lambda: self._lock(event),
            "slow disk": lambda: self._flag("slow", "", event),
            "full disk: pages": lambda: self._flag("full", "pages", event),
            "full disk: bytes": lambda: self._flag("full", "bytes", event),
            "backup": self._back_up,
            "connections ended": lambda: self.server and self.server.drop_connections(),
            "nothing": lambda: None,
        }[fault]()

    def _kill(self, hands: list[Hand | None]) -> None:
        chosen = [hand for hand in hands if hand is not None and hand.process.exitcode is None]
        for hand in chosen:
            self._say(f"  kill -9 of {hand.task.name}")
            hand.process.kill()
        for hand in chosen:
            hand.process.join(PATIENCE)
            self._acknowledged += hand.read_on()
            hand.process.close()
            self._replace(hand)
        self.tally["workers killed"] += len(chosen)

    def _replace(self, hand: Hand) -> None:
        self._crew[self._crew.index(hand)] = self._start(hand.task.kind)

    def _terminate(self, event: Event) -> None:
        hand = self._somebody(event, ("run", "command"))
        if hand is not None:
            calm = not self._lasting and not self._away
            self._end_cleanly(hand, calm=calm)
            self._replace(hand)

    def _end_cleanly(self, hand: Hand, *, calm: bool) -> None:
        """Ask a run to end; if nothing else is wrong it has told all, and given the rest back."""
        name = hand.task.name
        self._say(f"  SIGTERM to {name}")
        self.tally["workers sent SIGTERM"] += 1
        os.kill(hand.process.pid, signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        while hand.process.exitcode is None:
            assert time.monotonic() < deadline, f"{name} does not end"
            hand.process.join(0.01)
        self._acknowledged += hand.read_on()
        code = hand.process.exitcode
        late = code == -signal.SIGTERM and self._read(lambda: self.study.done)  # its run was over
        asked = 128 + signal.SIGTERM if hand.task.kind == "command" else 0
        assert late or code in (asked, 0), f"{name} ended with {code}"
        if calm and hand.patient:
            self._calm.add(name)
            left = self._read(lambda: self._live_tickets(name))
            assert left == 0, f"{name} has not given {left} tickets back"
        hand.process.close()

    def _read(self, call: Callable[[], T]) -> T:
        """Read the study, however long the storage is unavailable."""
        return retried(call, PATIENCE)

    def _live_tickets(self, worker: str) -> int:
        return sum(one.live for one in self.study.workers() if one.name == worker)

    def _suspend(self, event: Event) -> None:
        """Let somebody sleep for longer than leases last; what it tells then is late."""
        hand = self._somebody(event, PULLERS)
        if hand is None:
            return
        self._say(f"  SIGSTOP to {hand.task.name}")
        os.kill(hand.process.pid, signal.SIGSTOP)
        hand.suspended = True

        def wake() -> None:
            if hand in self._crew:  # it may have been killed asleep
                os.kill(hand.process.pid, signal.SIGCONT)
                hand.suspended = False
                self._say(f"  SIGCONT to {hand.task.name}")

        self._lasting.append((time.monotonic() + LEASE + event.seconds, wake))

    def _flag(self, name: str, text: str, event: Event) -> None:
        """Let the workers do something to themselves for a while."""
        if (self.folder / name).exists():
            return
        (self.folder / "new").write_text(text)
        (self.folder / "new").rename(self.folder / name)
        until = time.monotonic() + event.seconds
        self._lasting.append((until, (self.folder / name).unlink))

    def _lock(self, event: Event) -> None:
        """Keep everybody from writing, by a connection of somebody else's."""
        with self._locked():
            self._meanwhile(event)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        connection, lock = self._somebody_else()
        with closing(connection):
            self._wait(lock, "the lock was not to be had")  # somebody suspended may have it
            yield
            connection.rollback()

    def _somebody_else(self) -> tuple[Any, Callable[[], bool]]:
        """Return another connection, and what locks the study if that is possible now."""
        if self.server is None:
            file = sqlite3.connect(self.study.storage, timeout=0.0, isolation_level=None)
            return file, lambda: _begins(file)
        connection = psycopg.connect(self.storage)
        return connection, lambda: _locks(connection)

    def _server_fault(self, fault: str, event: Event) -> None:
        assert self.server is not None
        end = {
            "server killed": self.server.kill9,
            "server stopped": self.server.stop,
            "server stopped at once": self.server.stop_at_once,
        }[fault]
        end()
        try:
            self._meanwhile(event)
        finally:
            self.server.start()

    def _meanwhile(self, event: Event) -> None:
        """Let the storage be away, and something else happen."""
        self._away = True
        time.sleep(event.seconds)
        if event.meanwhile != "nothing":
            self._say(f"  and meanwhile, {event.meanwhile}")
            self._cause(event.meanwhile, event)
        self._away = False

    def _back_up(self) -> None:
        """Copy the file while all are at work; what was acknowledged before is in the copy."""
        known = Model(self.folder)
        copy = self.folder / f"copy-{len(self._copies)}.db"
        with sqlite3.connect(self.study.storage, timeout=PATIENCE) as source:
            with sqlite3.connect(copy) as target:
                source.backup(target)
            target.close()
        source.close()
        self._copies.append((copy, known))

    # The end

    def _end(self) -> None:
        """End everybody, bring the study to its end in a new process, and hold it to account."""
        (self.folder / "stop").touch()
        while self._crew:
            self._let_go(self._crew[0])
            del self._crew[0]
        time.sleep(LEASE)
        self._wait(lambda: self._read(self.study.overview).live == 0, "a lease did not end")
        self.tally["acknowledged under faults"] += self._acknowledged
        finisher = self._start("finisher")
        self._crew = [finisher]
        finisher.process.join(5.0 * PATIENCE)
        assert finisher.process.exitcode == 0, "the study cannot be finished"
        self._check()

    def _let_go(self, hand: Hand) -> None:
        runs = hand.task.kind in ("run", "command") and hand.process.exitcode is None
        if runs and hand.at_work:
            self._end_cleanly(hand, calm=True)
            return
        if runs:  # it has hardly begun, and may not listen to signals yet
            hand.process.kill()
        hand.process.join(PATIENCE)
        code = hand.process.exitcode
        assert runs or code == 0, f"{hand.task.name} ended with {code}"
        self._acknowledged += hand.read_on()
        hand.process.close()

    def _check(self) -> None:
        study = load_study(STUDY, storage=self.storage)
        model = Model(self.folder)
        model.check(study, self._calm)
        check_answer(study)
        for copy, known in self._copies:
            copied = load_study(STUDY, storage=copy)
            assert copied.verify().problems == []
            assert known.lost({t.ticket: t.reward for t in copied.trials()}) == []
        for word in ("recorded", "repeated", "conflict", "failed", "untold", "jumped"):
            self.tally[word] += model.counts[word]
        for word in ("refused", "verified"):
            self.tally[word] += model.counts[word]

    def end(self) -> None:
        """Kill whoever is left."""
        for hand in self._crew:
            try:
                hand.process.kill()
                hand.process.join()
                hand.process.close()
            except ValueError:  # it has ended, and is closed
                continue

    def _stacks(self) -> str:
        """Return what those who are still there are doing."""
        alive = [hand for hand in self._crew if hand.at_work and hand.process.exitcode is None]
        for hand in alive:
            os.kill(hand.process.pid, signal.SIGUSR1)
        time.sleep(1.0)
        return "\n".join(f"{h.task.name}:\n{h.task.stacks.read_text()}" for h in alive)

    def report(self, events: list[Event]) -> str:
        """Return what one needs to understand a failure and to repeat it."""
        planned = "\n".join(f"    {event}" for event in events)
        done = "\n".join(f"    {line}" for line in self.happened)
        stacks = self._stacks()
        return f"planned:\n{planned}\nhappened:\n{done}\n{tails(self.folder)}\n{stacks}"


def _locks(connection: Any) -> bool:
    try:
        connection.execute("LOCK TABLE results, tickets IN EXCLUSIVE MODE NOWAIT")
    except psycopg.errors.LockNotAvailable:
        connection.rollback()
        return False
    return True


def _begins(file: sqlite3.Connection) -> bool:
    try:
        file.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return False
    return True


def shake(
    storage: str,
    folder: Path,
    seed: int,
    *,
    faults: int,
    apart: int,
    arms: int,
    server: Server | None = None,
) -> Counter[str]:
    """Make a study, shake it by a seed's faults, and hold it to account; return what was tried."""
    events = schedule(seed, faults, apart, server=server is not None)
    budget = 2 * sum(event.after for event in events) + 300 if seed % 2 else None
    labels = [f"arm{arm}" for arm in range(arms)]
    study = create_study(STUDY, labels, k=2, delta=0.1, rng=seed, budget=budget, storage=storage)
    stage = Stage(study, storage, folder, seed, server)
    try:
        stage.play(events)
    except BaseException as error:
        if isinstance(error, Exception):
            said = f"ODDARMS_FAULT_SEED={seed}: {type(error).__name__}: {error}"
            raise AssertionError(f"{said}\n{stage.report(events)}") from error
        raise
    finally:
        stage.end()
    return stage.tally
