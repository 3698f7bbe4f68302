"""What the processes of the fault tests do on one study."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from fault_process import LEASE, PATIENCE, STUDY, Task, Worker, whole_lines
from oddarms import studies
from oddarms.errors import DuplicateStudy, InvalidParameter, SearchInterrupted, UnknownStudy
from oddarms.search import Tickets
from oddarms.studies import Study, Told, create_study, delete_study, load_study

DECOY = "decoy"
SLOWEST_PULL = 0.02


def begin(task: Task) -> None:
    """Do what a task says; the ledger has the traceback of an error that nobody expects."""
    worker = Worker(task)
    try:
        _KINDS[task.kind](worker)
    except Exception:
        worker.note("crashed", repr(traceback.format_exc()))
        raise


# Those who make pulls


def by_hand(worker: Worker) -> None:
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


def _asked(worker: Worker, study: Study) -> Tickets:
    number = int(worker.rng.integers(1, 9))
    lease = timedelta(seconds=worker.rng.choice([0.1, 0.3, LEASE]))
    return worker.insist(lambda: study.ask(number, worker.task.name, lease))


def _parts(
    worker: Worker, now: list[tuple[str, float]], told: list[tuple[str, float]]
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


def by_run(worker: Worker) -> None:
    """`study.run`, with several functions at a time in threads or, sometimes, with batches."""
    worker.watch()
    study = worker.load()
    worker.insist(lambda: study.labels)
    options = {"worker": worker.task.name, "lease": timedelta(seconds=LEASE), "retry_for": PATIENCE}
    try:
        if worker.rng.random() < 0.3:
            study.run(_batch_puller(worker), batch=True, **options)
        else:
            study.run(_puller(worker), jobs=3, **options)
    except SearchInterrupted as error:
        worker.note_all(("untold", ticket.id, reward) for ticket, reward in error.untold)
        worker.note("ended", "interrupted")
        return
    worker.note("ended", "done")


def _puller(worker: Worker) -> Callable[[str], float]:
    def pull(label: str) -> float:
        worker.jump()
        time.sleep(worker.rng.uniform(0.0, SLOWEST_PULL))
        reward = worker.draw(int(label.removeprefix("arm")))
        worker.note("paid", reward)
        return reward

    return pull


def _batch_puller(worker: Worker) -> Callable[[list[str]], list[float]]:
    """Return a function that is called in the main thread, where a signal ends it midway."""

    def pull(labels: list[str]) -> list[float]:
        worker.jump()
        time.sleep(worker.rng.uniform(0.0, SLOWEST_PULL))
        return [worker.draw(int(label.removeprefix("arm"))) for label in labels]

    return pull


pull_from_command: Callable[[str], float]
"""What `oddarms study work --python` calls in this process."""


def by_command(worker: Worker) -> None:
    """``oddarms study work``, all but the start of an interpreter."""
    global pull_from_command
    from oddarms.cli import main

    kept = studies.Worker.__init__.__kwdefaults__
    assert kept is not None
    kept["lease"] = timedelta(seconds=LEASE)
    worker.watch()
    pull_from_command = _puller(worker)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for good
    words = ["study", "work", STUDY, "--storage", worker.task.storage, "--quiet", "--jobs", "2"]
    words += ["--python", "fault_workers:pull_from_command", "--retry-for", f"{PATIENCE:.0f}s"]
    words += ["--worker", worker.task.name]
    out = worker.task.folder / worker.task.name
    out.mkdir()
    tempfile.tempdir = str(out)  # where results go that cannot be stored
    while (code := main(words)) == 1 and not _lines(worker, ("asked",), worker.task.ledger):
        time.sleep(0.02)  # a command that finds no storage when it begins says so at once
    for left in sorted(out.glob("untold*.txt")):
        worker.note_all(("untold", *line.split()) for line in left.read_text().splitlines())
    worker.note("ended", "interrupted" if code == 143 else "done")
    sys.exit(0 if code == 3 else code)


# Those who do not


def by_hearsay(worker: Worker) -> None:
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
        time.sleep(rng.uniform(0.02, 0.15))


def _lines(worker: Worker, words: tuple[str, ...], ledger: Path | None = None) -> list[list[str]]:
    """Return the last lines of a ledger, somebody's unless it is said whose."""
    ledgers = sorted(worker.task.folder.glob("ledger-*"))
    lines = whole_lines(ledger or ledgers[int(worker.rng.integers(0, len(ledgers)))])[-100:]
    return [line[1:] for line in lines if line[1] in words]


def by_reading(worker: Worker) -> None:
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
        verified = worker.insist(study.verify)
        assert verified.problems == [], verified.problems
        worker.note("verified", verified.results)
        time.sleep(worker.rng.uniform(0.1, 0.4))


def by_distracting(worker: Worker) -> None:
    """Make and delete another study; no ticket of one study is one of another."""
    main, before = worker.load(), ""
    while not worker.stopped:
        worker.jump()
        with suppress(UnknownStudy, DuplicateStudy):  # the last call of one who was killed works
            before = _distract(worker, main, before)
            worker.note("refused")
        time.sleep(worker.rng.uniform(0.1, 0.4))


def _distract(worker: Worker, main: Study, before: str) -> str:
    """Have a study for a moment; return one of its tickets."""
    other = worker.insist(lambda: _decoy(worker))
    first, second, _ = worker.insist(lambda: other.ask(3))
    assert worker.insist(lambda: other.tell(first, 0.5)) != Told.CONFLICT
    _assert_refused(main, first.id, second.id)
    lines = _lines(worker, ("asked",))
    _assert_refused(other, before or first.id + "a", *(line[1] for line in lines[-1:]))
    worker.insist(lambda: delete_study(DECOY, storage=worker.task.storage))
    return second.id


def _decoy(worker: Worker) -> Study:
    storage = worker.task.storage
    with suppress(UnknownStudy):  # of somebody who was killed, or of a call that was repeated
        delete_study(DECOY, storage=storage)
    return create_study(DECOY, range(3), k=0.5, delta=0.1, storage=storage, algorithm="rr")


def _assert_refused(study: Study, *tickets: str) -> None:
    for ticket in tickets:
        try:
            study.tell(ticket, 0.5)
        except InvalidParameter:
            continue
        raise AssertionError(f"{study.name} took {ticket}, which is none of its tickets")


def by_finishing(worker: Worker) -> None:
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
    verified = load_study(STUDY, storage=worker.task.storage).verify()
    assert verified.problems == [], verified.problems
    worker.note("verified", verified.results)


_KINDS: dict[str, Callable[[Worker], None]] = {
    "hand": by_hand,
    "run": by_run,
    "command": by_command,
    "hearsay": by_hearsay,
    "reader": by_reading,
    "decoy": by_distracting,
    "finisher": by_finishing,
}
