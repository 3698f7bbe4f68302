"""`Study` and `Storage`, the interfaces: the same for a database and for a server.

A study is a search that many workers share and that outlives them: its question, its seed, and a
log of results. Its state is a function of these three, so every process that has a study open
computes the same one. `oddarms.search._search` says which reward is used for what, and what slow
and lost workers mean for the guarantee.
"""

from __future__ import annotations

import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from oddarms.arms import BatchFunction, Function
from oddarms.documents import Literal, Paragraph, to_fragment, visible
from oddarms.errors import InvalidParameter, MissingExtra, OddarmsError
from oddarms.problem import FloatArray, IntArray, Label, Question, check_plain_label, check_whole
from oddarms.search import (
    PREFETCH,
    RETRY_FOR,
    Policy,
    Progress,
    ProgressCallback,
    Result,
    Rewards,
    Search,
    Seconds,
    Status,
    Ticket,
    Tickets,
    answer,
    check_prefetch,
    history_rows,
    progress_line,
    run,
    seconds_of,
    status_text,
)
from oddarms.studies._worker import WORKER_LEASE, Worker, is_gone, retried
from oddarms.tables import Missing, Recorded
from oddarms.text import duration

MEMORY = ("memory", ":memory:", "sqlite://", "sqlite:///:memory:")
"""Names of the memory of this process, as a storage."""
VARIABLE = "ODDARMS_STORAGE"
"""The environment variable with the storage that is used by default."""
LEASE = timedelta(minutes=10)
"""Of tickets that are asked for without a worker that renews them."""
MAX_LEASE = timedelta(hours=1)
"""The longest lease, unless a server is started with another one."""
MAX_TEXT = 500
"""Characters of a worker's name, and of a reason. PostgreSQL indexes names of up to 2,704 bytes."""
MAX_KEY = 64
"""Characters of a key by which a call may be repeated."""
MAX_WORKERS = 10_000
"""Names of workers that a study lists; further ones count as one without a name."""
MIN_POLL, LOOK_SHARE = 0.05, 0.1
"""Of `Study.watch`: seconds between two looks at least, and the share of the time they may take."""
CONFLICTS_KEPT = 3
"""Conflicts of a ticket that are stored; further ones are counted."""


class Told(StrEnum):
    """What became of a result."""

    RECORDED = "recorded"
    REPEATED = "repeated"
    """The same result was there already; it counts once."""
    CONFLICT = "conflict"
    """A different result was there already and stands; `Study.conflicts` lists this one."""


@dataclass(frozen=True)
class Trial:
    """A recorded result: its number in the log, the arm's label, and its place among its rewards.

    `ticket` and `worker` are None for history, and `told` is when it was recorded, in UTC.
    """

    number: int
    ticket: str | None
    arm: Label
    place: int
    reward: float
    worker: str | None
    told: datetime


@dataclass(frozen=True)
class Conflict:
    """A second result of a ticket, which differs from the first and was not used."""

    number: int
    ticket: str
    arm: Label
    first: float
    second: float
    worker: str | None
    told: datetime


@dataclass(frozen=True)
class WorkerRecord:
    """Who works on a study, or has; times are in UTC, None for never.

    `name` is None for tickets that were asked for without one. `live` is how many tickets it has
    out, and `rate` how many results it told in the last minute, about.
    """

    name: str | None
    handed_out: int
    results: int
    live: int
    last_told: datetime | None
    last_seen: datetime
    rate: float


@dataclass(frozen=True)
class Holder:
    """A worker with tickets that the step waits for.

    `since` is when the first of them was handed out, and `expires` when the last lease ends, in
    UTC. `worker` is None for tickets that were asked for without a name.
    """

    worker: str | None
    tickets: int
    since: datetime
    expires: datetime


@dataclass(frozen=True)
class Overview:
    """A study at one moment.

    `status` is "running", "waiting" (all pulls that can be handed out are out), "decided",
    "budget" or "stopped", and `stopped` the reason of a stop. `handed_out` and `live` count all
    tickets and those that are out, `told` results of tickets, and `conflicts` refused results.
    """

    created: datetime
    status: Status
    result: Result
    handed_out: int
    live: int
    told: int
    conflicts: int
    stopped: str | None = None


@dataclass
class Verification:
    """What `Study.verify` found: how many results the log has, and a sentence for each problem."""

    results: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True if there is no problem."""
        return not self.problems


@dataclass(frozen=True)
class StudySummary:
    """A study as `list_studies` shows it; the labels of its question are numbers.

    Status, decided arms and outliers are those that the last `ask` has found. `seen` is when a
    worker last asked or told, else when the study was created, and `rate` the results in the last
    minute, about.
    """

    name: str
    question: Question
    created: datetime
    handed_out: int
    results: int
    stopped: str | None
    status: Status
    decided: int
    outliers: int
    seen: datetime
    rate: float


SORTS = ("name", "status", "decided", "outliers", "results", "rate", "seen", "created")
"""What `list_studies` may sort by; a minus before it reverses the order."""


class StudyList(list[StudySummary]):
    """Some studies of a storage; `total` is how many there are in all."""

    def __init__(self, studies: Iterable[StudySummary], total: int) -> None:
        super().__init__(studies)
        self.total = total


@dataclass(eq=False)
class Ask:
    """A call of `Study.ask`, whose answer depends on the storage."""

    n: int
    worker: str | None
    lease: float
    prefetch: float
    key: str | None
    wait: float
    answer: Any = None


class Study(ABC):
    """A search that many workers share. `oddarms.create_study` and `oddarms.load_study` return it.

    Any number of processes may have the same study open; methods may be called from any thread.
    """

    waits: ClassVar[bool] = False
    """Whether `ask` can wait for work; a signal may interrupt it then."""

    def __init__(self, name: str, seed: int, question: Question) -> None:
        self.name = name
        self.seed = seed
        self.max_lease = MAX_LEASE
        self._rewards = Rewards(question)

    def __repr__(self) -> str:
        return f"Study({self.name!r}, {self.n:,} arms, storage={self.storage!r})"

    @property
    def n(self) -> int:
        """The number of arms."""
        return len(self.labels)

    @property
    @abstractmethod
    def storage(self) -> str:
        """Where the study is stored."""

    @property
    @abstractmethod
    def question(self) -> Question:
        """What is asked, with the present budget."""

    @property
    def labels(self) -> Sequence[Label]:
        """The arms' labels."""
        return self._rewards.labels

    # Work

    def ask(
        self,
        n: int = 1,
        worker: str | None = None,
        lease: Seconds = LEASE,
        *,
        prefetch: float = PREFETCH,
        key: str | None = None,
        wait: float = 0.0,
    ) -> Tickets:
        """Hand out up to n pulls; workers that ask at the same time get different ones.

        Fewer than n tickets, or none, are returned if there is nothing to do until results arrive;
        `status` of the list says whether to wait for them ("waiting") or to stop ("decided",
        "budget", "stopped").

        Parameters
        ----------
        n, worker
            The largest number of pulls, and a name for the log.
        lease
            For how long, as a timedelta or in seconds, at most an hour, unless a server allows
            more. Afterwards another worker may get the pull; a result that comes later is
            still recorded and used. Choose it longer than a pull takes, or `renew` it meanwhile.
        prefetch
            How far pulls of later steps may be handed out, as a share of the results so far; 0 for
            not at all.
        key
            A name of up to 64 characters for this call, by which it may be repeated after an
            error: it then returns those of the same tickets that are still out, with new leases.
        wait
            How many seconds a server may wait for work before it answers, at most 30. Other
            storages answer at once.
        """
        return self._ask(self.checked_ask(n, worker, lease, prefetch, key, wait))

    def checked_ask(
        self,
        n: int,
        worker: str | None,
        lease: Seconds,
        prefetch: float,
        key: str | None,
        wait: float,
    ) -> Ask:
        """Return a call of `ask`, or raise if something is wrong with it."""
        return Ask(
            check_whole("n", n, least=1),
            check_text("worker", worker),
            check_lease(lease, self.max_lease),
            check_prefetch(prefetch),
            check_text("key", key, MAX_KEY),
            seconds_of("wait", wait),
        )

    @abstractmethod
    def _ask(self, ask: Ask) -> Tickets: ...

    def tell(self, ticket: Ticket | str, reward: float, *, worker: str | None = None) -> Told:
        """Record the result of a ticket; when this returns it is stored for good.

        May be repeated after an error: the same result counts once. A second, different result
        does not count and is returned as a conflict.
        """
        return self.tell_many([(ticket, reward)], worker=worker)[0]

    @abstractmethod
    def tell_many(
        self, results: Iterable[tuple[Ticket | str, float]], *, worker: str | None = None
    ) -> list[Told]:
        """Record several results at once: all of them or, if one is refused, none."""

    @abstractmethod
    def renew(self, tickets: Iterable[Ticket | str], lease: Seconds = LEASE) -> int:
        """Let leases last as long from now, as pulls are still under way; return how many.

        Fewer than were given if a result is there, or another worker has the place.
        """

    def skip(self, ticket: Ticket | str, reason: str = "") -> bool:
        """Give a ticket back without a result; its pull may be handed out again at once.

        Return False if it was not out: it has a result, or its lease had ended.
        The reason is logged, not stored. Do not skip a pull because it takes long or may turn out
        badly: that selects rewards.
        """
        return self.skip_many([ticket], reason) == 1

    @abstractmethod
    def skip_many(self, tickets: Iterable[Ticket | str], reason: str = "") -> int:
        """Give several tickets back at once; return how many were out.

        The reason is logged, not stored.
        """

    @abstractmethod
    def release(self, worker: str | None, reason: str = "") -> int:
        """Take back all tickets that a worker has out, if it is gone; return how many.

        None stands for workers without a name. Results that it still tells are used. The reason is
        logged, not stored.
        """

    def take_over(self) -> int:
        """Give back the tickets of processes of this machine that are gone; return how many.

        So other workers need not wait for the leases of a process that was killed.
        """
        live = [one.name for one in self.workers() if one.live and one.name is not None]
        return sum(self.release(name, "its process is gone") for name in live if is_gone(name))

    def add_history(
        self,
        history: Recorded,
        *,
        key: str | None = None,
        arm: str | Sequence[str] | None = None,
        reward: str | None = None,
        missing: Missing = "stop",
    ) -> int:
        """Record rewards from before the study, without tickets; return how many.

        They fill the next places of their arms and cost no budget. The guarantee holds if they
        were drawn like all others and how many an arm has was not decided by looking at them.
        A study that was created with a budget refuses history once it has handed out a ticket:
        this would change steps that are under way.

        Parameters
        ----------
        history, arm, reward, missing
            As for `Search.add_history`; the study's seed and the key decide the order of counts.
        key
            A name for this call, of up to 56 characters: a second call with the same key records
            nothing and returns 0.
        """
        key = check_text("key", key, MAX_KEY - 8)  # a client adds the numbers of parts
        arms, rewards = history_rows(
            history, self.question, arm=arm, reward=reward, missing=missing
        )
        sequence = np.random.SeedSequence(self.seed, spawn_key=(2, *(key or self.pulse()).encode()))
        order = np.random.default_rng(sequence).permutation(arms.size)
        return self.add_rows(arms[order], rewards[order], key)

    @abstractmethod
    def add_rows(self, arms: IntArray, rewards: FloatArray, key: str | None) -> int:
        """Record checked rewards without tickets, in this order; return how many."""

    @abstractmethod
    def raise_budget(self, budget: int | None) -> None:
        """Allow more pulls, or any number (None); a study that the budget stopped goes on."""

    @abstractmethod
    def stop(self, reason: str = "") -> None:
        """Hand out no more tickets until `resume`; results of tickets that are out are taken.

        The status is then "stopped", and `run` ends everywhere.
        """

    @abstractmethod
    def resume(self) -> None:
        """Hand out tickets again; changes nothing if the study is not stopped."""

    def check_reward(self, reward: Any) -> float:
        """Return a reward as a float if it is a number within the bounds."""
        return self._rewards.checked_one(reward)

    def worker(
        self,
        name: str | None = None,
        *,
        lease: Seconds = WORKER_LEASE,
        retry_for: Seconds = RETRY_FOR,
    ) -> Worker:
        """Return a `Worker`: the desk through which `run` asks and tells."""
        return Worker(self, name, lease=lease, retry_for=retry_for)

    def run(
        self,
        pull: Callable[[Any], Any],
        *,
        worker: str | None = None,
        lease: Seconds = WORKER_LEASE,
        batch: bool = False,
        progress: ProgressCallback | bool | None = None,
        **policy: Any,
    ) -> Result:
        """Ask, pull and tell until the study is done; return what it found.

        Several processes may run the same study at once. Whatever ends this - an exception,
        Ctrl-C, kill - the results told before are stored, and running again goes on from there.

        Parameters
        ----------
        pull
            Called with a label, returns a reward; coroutine functions are awaited. If it has a
            method `stop`, that is called when the run is interrupted, to end calls under way.
        worker, lease
            A name for the log, and after how long another worker may make its pulls if this
            process dies.
        batch
            Whether `pull` takes a list of labels and returns a list of rewards; it is then called
            in this thread, with up to a thousand labels at a time.
        progress, **policy
            `jobs`, `executor`, `on_error`, `timeout`, `retry_for` and `prefetch` as for
            `oddarms.find`.
        """
        arms = BatchFunction(pull, self.labels) if batch else Function(pull, self.labels)
        chosen = Policy(**policy)
        return run(
            self.worker(worker, lease=lease, retry_for=chosen.retry_for), arms, chosen, progress
        )

    # What is known

    def result(self) -> Result:
        """Return what is known now."""
        return self.overview().result

    @abstractmethod
    def overview(self) -> Overview:
        """Return the state of the study, all of it at the same moment."""

    @abstractmethod
    def progress(self) -> Progress:
        """Return pulls, open arms, threshold and estimated pulls to go, at less cost."""

    @abstractmethod
    def pulse(self) -> str:
        """Return a short text that changes when anything of the study has changed; cheap."""

    @property
    @abstractmethod
    def status(self) -> Status:
        """The status: "running", "waiting", "decided", "budget" or "stopped"."""

    @property
    def done(self) -> bool:
        """True once no more pulls will be handed out."""
        return self.status.final

    def watch(
        self,
        timeout: float | None = None,
        *,
        poll: float = 1.0,
        retry_for: Seconds = RETRY_FOR,
    ) -> Result:
        """Show the study until it is done, while others work on it; return what it found.

        A notebook shows a bar below the cell, a terminal a line on stderr. Ctrl-C ends the
        watching, not the study, and returns what is known.

        Parameters
        ----------
        timeout, retry_for
            For how long at most, and how long to wait for a storage that is unavailable.
        poll
            Seconds between two looks; it looks less often if a look takes long.

        Examples
        --------
        >>> from oddarms import create_study, delete_study
        >>> study = create_study("ads", ["a", "b", "c"], k=1, budget=100, storage="memory")
        >>> study.watch(timeout=0).pulls
        0
        >>> delete_study("ads", storage="memory")
        """
        pause, retry = seconds_of("poll", poll), seconds_of("retry_for", retry_for)
        limit = math.inf if timeout is None else seconds_of("timeout", timeout)
        until = time.monotonic() + limit
        with suppress(KeyboardInterrupt), progress_line(wait=0.0) as line:
            while not retried(lambda: self.done, retry):
                look = time.monotonic()
                line(retried(self.progress, retry))
                now = time.monotonic()
                if now >= until:
                    break
                time.sleep(min(max(pause, MIN_POLL, (now - look) / LOOK_SHARE), until - now))
        return retried(self.result, retry)

    def _repr_html_(self) -> str:
        """Return the study as a notebook shows it; if it does not answer, why."""
        name = Literal(visible(self.name))
        try:
            overview = self.overview()
        except OddarmsError as error:
            return to_fragment([Paragraph((name, Literal(visible(f": {error}"))))])
        head = Paragraph(("**Study** ", name, f", {status_text(overview.status)}"))
        counts = f"{overview.told:,} results, {overview.live:,} pulls under way"
        return to_fragment([head, Paragraph(counts), *answer(overview.result)])

    @abstractmethod
    def trials(self, *, after: int = 0, most: int | None = None) -> Iterator[Trial]:
        """Yield recorded results in the order of their numbers, at most so many behind a number.

        Going on behind the last one misses none.
        """

    def to_frame(self) -> Any:
        """Return the trials as a pandas data frame (``pip install 'oddarms[frame]'``)."""
        try:
            import pandas
        except ImportError:
            raise MissingExtra.of("frame", "a data frame") from None
        columns = list(Trial.__dataclass_fields__)
        rows = [[getattr(trial, column) for column in columns] for trial in self.trials()]
        return pandas.DataFrame(rows, columns=columns)

    @abstractmethod
    def conflicts(self, *, after: int = 0, most: int | None = None) -> list[Conflict]:
        """Return results that were refused because their ticket had a different one already.

        At most so many behind a number. The first three of each ticket are stored;
        `Overview.conflicts` counts all of them.
        """

    @abstractmethod
    def workers(self) -> list[WorkerRecord]:
        """Return the workers of the study, by name.

        Names after the first 10,000 count as one worker without a name.
        """

    @abstractmethod
    def holders(self) -> list[Holder]:
        """Return the workers whose tickets the step waits for, the longest wait first."""

    @abstractmethod
    def verify(self) -> Verification:
        """Run the database's own check of its integrity, then replay and check the whole log."""


class Storage(ABC):
    """A place with studies: a database, or a server that has one. Any thread may use it."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Where it is, without secrets."""

    @abstractmethod
    def create(self, name: str, question: Question, seed: int) -> Study:
        """Create a study."""

    @abstractmethod
    def load(self, name: str) -> Study:
        """Return a study."""

    @abstractmethod
    def list(
        self,
        search: str = "",
        most: int | None = None,
        skip: int = 0,
        *,
        sort: str = "name",
        status: str = "",
    ) -> StudyList:
        """Return studies, as `list_studies` does."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a study with all its results, for good."""


def new_search(question: Question, seed: int) -> Search:
    """Return a study's search at its beginning: that of `oddarms.find` with the same seed."""
    algorithm_rng, _ = np.random.default_rng(seed).spawn(2)
    return Search(question, rng=algorithm_rng)


def checked_question(question: Question, seed: int) -> Question:
    """Return a question as it comes back from a storage, if a search can be made of it."""
    for label in question.labels:
        check_plain_label(label)
    asked = Question.from_json(question.numbered().to_json())
    new_search(asked, seed)
    return asked.relabelled(question.labels)


def server_address(storage: str | Path | None) -> str | None:
    """Return the address of the server that a storage is, None for a file or database.

    Examples
    --------
    >>> server_address("http://localhost:8321/"), server_address("studies.db")
    ('http://localhost:8321', None)
    """
    chosen = storage if storage is not None else os.environ.get(VARIABLE)
    if not isinstance(chosen, str) or not chosen.lower().startswith(("http://", "https://")):
        return None
    return chosen.rstrip("/")


def check_name(name: str) -> str:
    """Return the name of a study if it can be one."""
    if not isinstance(name, str) or not name.strip() or len(name) > 200 or not name.isprintable():
        raise InvalidParameter(
            f"The name of a study must have 1 to 200 printable characters but got {name!r:.300}."
        )
    if name in (".", ".."):  # addresses of a server cannot have them
        raise InvalidParameter(f"A study cannot be called {name!r}.")
    return name


def check_lease(lease: Seconds, most: timedelta = MAX_LEASE) -> float:
    """Return the seconds of a lease."""
    seconds = seconds_of("lease", lease)
    if not 0.0 < seconds <= most.total_seconds():
        raise InvalidParameter(
            f"lease must be longer than 0 and at most {duration(most.total_seconds())} but got"
            f" {lease}."
        )
    return seconds


def check_text(name: str, text: str | None, most: int = MAX_TEXT) -> str | None:
    """Return a text that every storage can hold."""
    if text is None:
        return None
    if not isinstance(text, str) or len(text) > most or storable(text) != text:
        raise InvalidParameter(
            f"{name} must be a text of up to {most} characters, without NUL, but got {text!r:.100}."
        )
    return text


def storable(text: object) -> str:
    """Return a text with everything escaped that a storage cannot hold."""
    return str(text).encode(errors="backslashreplace").decode().replace("\0", "\\x00")


def reason_of(text: object) -> str:
    """Return as much of a reason as every storage holds."""
    return storable(text)[:MAX_TEXT]
