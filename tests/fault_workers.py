"""What the processes of the fault tests do: work on one study, and note what they were told.

Each has a ledger, a file in which it notes what it is about to do and what came of it. What was
written there stays when the process is killed; `fault_model` holds the study against all of them.
"""

from __future__ import annotations

import os
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import sqlalchemy as sa

from oddarms.errors import (
    DuplicateStudy,
    InvalidParameter,
    SearchInterrupted,
    StoreFailed,
    UnknownStudy,
)
from oddarms.search import Tickets, _patience
from oddarms.studies import (
    Study,
    Told,
    _database,
    _replay,
    create_study,
    delete_study,
    load_study,
    verify,
)

T = TypeVar("T")

STUDY, DECOY = "shaken", "decoy"
PATIENCE = 120.0
LEASE = 1.0
"""Seconds of the longest lease."""
SLOWEST_PULL = 0.02
SLOW_COMMIT = 0.05
OUTLIER, NORMAL = 0.9, 0.4
MOST_PAGES = 2**30
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


def begin(task: Task) -> None:
    """Do what a task says; the ledger has the traceback of an error that nobody expects."""
    worker = _Worker(task)
    try:
        _KINDS[task.kind](worker)
    except Exception:
        worker.note("crashed", repr(traceback.format_exc()))
        raise


class _Worker:
    """A process at work: its choices, its ledger, and the faults that live in it."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.rng = np.random.default_rng(task.seed)
        self._ledger = os.open(task.ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._offset = 0.0
        _replay.LEAST_BETWEEN_STATES = 1
        _patience.LONGEST_PAUSE = 0.2
        _database.LOCK_SECONDS = float(self.rng.choice([0.2, 60.0]))
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
            except StoreFailed as error:
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
        pages = raw.execute("PRAGMA page_count").fetchone()[0] if how == "pages" else MOST_PAGES
        raw.execute(f"PRAGMA max_page_count = {pages}")
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        room = self.task.ledger.stat().st_size + FILE_BYTES
        resource.setrlimit(resource.RLIMIT_FSIZE, (room if how == "bytes" else hard, hard))

    # The ledger protocol

    def watch(self) -> None:
        """Note what the study is asked and told in this process, whoever does it."""
        ask, tell = Study.ask, Study.tell_many

        def noted_ask(study: Study, *arguments: Any, **options: Any) -> Any:
            tickets = ask(study, *arguments, **options)
            self.note_all(("asked", t.id, t.index, t.place) for t in tickets)
            return tickets

        def noted_tell(study: Study, results: Any, *, worker: str | None = None) -> list[Told]:
            pairs = [(t if isinstance(t, str) else t.id, reward) for t, reward in results]
            self.note_all(("telling", *pair) for pair in pairs)
            try:
                answers = tell(study, pairs, worker=worker)
            except StoreFailed as error:
                self.note("untellable", error)
                raise
            self.note_all(("told", *pair, said) for pair, said in zip(pairs, answers, strict=True))
            return answers

        Study.ask, Study.tell_many = noted_ask, noted_tell


# Those who make pulls


def by_hand(worker: _Worker) -> None:
    """Ask and tell: late, twice, in any order, differently, to a study opened anew."""
    worker.watch()
    rng, study = worker.rng, worker.load()
    held: list[tuple[str, float]] = []
    told: list[tuple[str, float]] = []
    while not worker.stopped:
        worker.jump()
        if rng.random() < 0.1:
            study = worker.load()
        tickets = _asked(worker, study)
        if tickets.done and not held:
            return
        drawn = [(ticket.id, worker.draw(ticket.index)) for ticket in tickets]
        worker.note_all(("drawn", *pair) for pair in drawn)
        time.sleep(rng.uniform(0.0, SLOWEST_PULL))
        held += drawn
        rng.shuffle(held)
        late = 0 if tickets.done else int(rng.integers(0, len(held) + 1))
        now, held = held[late:], held[:late]
        for part in _parts(worker, now, told):
            worker.insist(lambda s=study, p=part: s.tell_many(p))
        told = [*told, *now][-50:]


def _asked(worker: _Worker, study: Study) -> Tickets:
    number = int(worker.rng.integers(1, 9))
    lease = timedelta(seconds=worker.rng.choice([0.1, 0.3, LEASE]))
    return worker.insist(lambda: study.ask(number, worker.task.name, lease))


def _parts(
    worker: _Worker, now: list[tuple[str, float]], told: list[tuple[str, float]]
) -> list[list[tuple[str, float]]]:
    """Return results in batches, with some that were told before, the same or otherwise."""
    rng, results = worker.rng, list(now)
    if told and rng.random() < 0.4:
        results += [told[i] for i in rng.integers(0, len(told), 2)]
    if told and rng.random() < 0.2:
        ticket, reward = told[int(rng.integers(0, len(told)))]
        results.append((ticket, 1.0 - reward))
    rng.shuffle(results)
    size = 1 if rng.random() < 0.5 else max(len(results), 1)
    return [
        [(str(ticket), float(reward)) for ticket, reward in results[i : i + size]]
        for i in range(0, len(results), size)
    ]


def by_run(worker: _Worker) -> None:
    """`study.run`, with several functions at a time in threads."""
    worker.watch()
    study = worker.load()
    worker.insist(lambda: study.labels)
    try:
        study.run(
            _puller(worker),
            worker=worker.task.name,
            jobs=3,
            lease=timedelta(seconds=LEASE),
            patience=PATIENCE,
        )
    except SearchInterrupted as error:
        worker.note_all(("untold", ticket.id, reward) for ticket, reward in error.untold)
        worker.note("ended", "interrupted")
        return
    worker.note("ended", "done")


def _puller(worker: _Worker) -> Callable[[str], float]:
    def pull(label: str) -> float:
        worker.jump()
        time.sleep(worker.rng.uniform(0.0, SLOWEST_PULL))
        reward = worker.draw(int(label.removeprefix("arm")))
        worker.note("paid", reward)
        return reward

    return pull


pull_from_shell: Callable[[str], float]
"""What `oddarms find --python` calls in this process."""


def by_shell(worker: _Worker) -> None:
    """``oddarms find --study``, all but the start of an interpreter and the report."""
    global pull_from_shell
    from oddarms.cli import main
    from oddarms.cli.find import _output

    _output.write_report = lambda *_, **__: None
    worker.watch()
    study = worker.load()
    arms = ",".join(worker.insist(lambda: study.labels))
    pull_from_shell = _puller(worker)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for good
    words = ["find", "--study", STUDY, "--storage", worker.task.storage, "--arms", arms]
    words += ["--python", "fault_workers:pull_from_shell", "--jobs", "2", "--patience", "120s"]
    words += ["--out", str(worker.task.folder / worker.task.name)]
    while (code := main(words)) == 1 and not _lines(worker, ("asked",), worker.task.ledger):
        time.sleep(0.02)  # a command that finds no storage when it begins says so at once
    worker.note("ended", "by shell", code)
    sys.exit(code if code != 3 else 0)


# Those who do not


def by_hearsay(worker: _Worker) -> None:
    """Tell what others have told, or are about to, or died with; sometimes otherwise."""
    worker.watch()
    rng = worker.rng
    while not worker.stopped:
        worker.jump()
        study = worker.load()
        lines = _lines(worker, ("drawn", "telling", "told", "untold"))
        chosen = [lines[i] for i in rng.integers(0, len(lines), 5)] if lines else []
        results = []
        for word, ticket, reward, *_ in chosen:
            wrong = word in ("told", "drawn") and rng.random() < 0.1
            results.append((ticket, float(reward) if not wrong else 1.0 - float(reward)))
        worker.insist(lambda s=study, r=results: s.tell_many(r))
        time.sleep(rng.uniform(0.0, 0.1))


def _lines(worker: _Worker, words: tuple[str, ...], ledger: Path | None = None) -> list[list[str]]:
    """Return the last lines of a ledger, somebody's unless it is said whose."""
    ledgers = sorted(worker.task.folder.glob("ledger-*"))
    lines = whole_lines(ledger or ledgers[int(worker.rng.integers(0, len(ledgers)))])[-100:]
    return [line[1:] for line in lines if line[1] in words]


def whole_lines(ledger: Path) -> list[list[str]]:
    """Return a ledger's lines, in words, without one that a kill has cut off."""
    text = ledger.read_text()
    return [line.split() for line in text[: text.rfind("\n") + 1].splitlines()]


def by_reading(worker: _Worker) -> None:
    """Read all the time: nothing that was there once may change."""
    seen: dict[str | None, float] = {}
    decided: dict[int, int] = {}
    while not worker.stopped:
        worker.jump()
        study = worker.load()
        overview = worker.insist(study.overview)
        for arm, decision in enumerate(overview.result.decisions.tolist()):
            assert decided.get(arm, decision) == decision, f"arm {arm} was decided otherwise"
            if decision:
                decided[arm] = decision
        trials = worker.insist(lambda s=study: list(s.trials()))
        found = {trial.ticket: trial.reward for trial in trials}
        assert len(found) == len(trials), "a ticket has two results"
        assert seen.items() <= found.items(), "what was there has changed"
        seen = found
        worker.insist(study.conflicts)
        verified = worker.insist(lambda s=study: verify(s))
        assert verified.problems == [], verified.problems
        worker.note("verified", verified.results)
        time.sleep(worker.rng.uniform(0.0, 0.2))


def by_distracting(worker: _Worker) -> None:
    """Make and delete another study; no ticket of one study is one of another."""
    main, before = worker.load(), ""
    while not worker.stopped:
        worker.jump()
        other = worker.insist(lambda: _decoy(worker))
        first, second, _ = worker.insist(lambda o=other: o.ask(3))
        assert worker.insist(lambda o=other, t=first: o.tell(t, 0.5)) != Told.CONFLICT
        _assert_refused(main, first.id, second.id)
        lines = _lines(worker, ("asked",))
        _assert_refused(other, before or first.id + "a", *(line[1] for line in lines[-1:]))
        before = second.id
        with suppress(UnknownStudy):  # done, but the answer was lost
            worker.insist(lambda: delete_study(DECOY, storage=worker.task.storage))
        worker.note("refused")
        time.sleep(worker.rng.uniform(0.0, 0.2))


def _decoy(worker: _Worker) -> Study:
    try:
        return create_study(
            DECOY, range(3), k=0.5, delta=0.1, storage=worker.task.storage, algorithm="rr"
        )
    except DuplicateStudy:  # of somebody who was killed
        return load_study(DECOY, storage=worker.task.storage)


def _assert_refused(study: Study, *tickets: str) -> None:
    for ticket in tickets:
        try:
            study.tell(ticket, 0.5)
        except InvalidParameter:
            continue
        raise AssertionError(f"{study.name} took {ticket}, which is none of its tickets")


def by_finishing(worker: _Worker) -> None:
    """Tell what others died with, and bring the study to its end; then verify it."""
    worker.watch()
    study = worker.load()
    left = {}
    for ledger in sorted(worker.task.folder.glob("ledger-*")):
        for _, word, *rest in whole_lines(ledger):
            if word in ("drawn", "untold"):
                left[rest[0]] = float(rest[1])
    worker.insist(lambda: study.tell_many(left.items()))
    while not (tickets := worker.insist(lambda: study.ask(1000, worker.task.name))).done:
        results = [(ticket, worker.draw(ticket.index)) for ticket in tickets]
        worker.insist(lambda r=results: study.tell_many(r))
    verified = verify(load_study(STUDY, storage=worker.task.storage))
    assert verified.problems == [], verified.problems
    worker.note("verified", verified.results)


_KINDS: dict[str, Callable[[_Worker], None]] = {
    "hand": by_hand,
    "run": by_run,
    "shell": by_shell,
    "hearsay": by_hearsay,
    "reader": by_reading,
    "decoy": by_distracting,
    "finisher": by_finishing,
}
