"""What a study is, wherever it lives: in a database, or behind a server.

A search one can leave and come back to, shared by many workers. `StoredStudy` has it in a storage,
`RemoteStudy` asks a server that has; all that follows from a few methods of theirs is here.
"""

from __future__ import annotations

import hashlib
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from oddarms.algorithms import Decision
from oddarms.arms import BatchFunction, Function
from oddarms.errors import InvalidParameter, MissingExtra, StoreFailed
from oddarms.problem import Label, Question
from oddarms.search import (
    AHEAD,
    PATIENCE,
    Patience,
    Progress,
    Result,
    Status,
    Ticket,
    Tickets,
    drive,
)
from oddarms.search._rewards import Rewards
from oddarms.studies._desk import RUN_LEASE, StudyDesk
from oddarms.studies._limits import MOST_KEY, MOST_TEXT
from oddarms.studies._log import Conflict, Revision, Told, Trial, Worker
from oddarms.studies._verify import Verification
from oddarms.studies._watch import study_html, watch
from oddarms.studies._workers import is_gone
from oddarms.tables import Missing, Recorded, recorded_rewards

LEASE = timedelta(minutes=10)
"""Of tickets that nobody renews by itself."""
MOST_LEASE = timedelta(days=365)

DecisionCallback = Callable[["Study", list[tuple[Label, Decision]]], None]


@dataclass(frozen=True)
class Overview:
    """A study at one moment.

    Attributes
    ----------
    created
        When it was created.
    status
        Where it stands; "waiting" if all pulls that can be handed out are out, "stopped" if
        somebody has stopped it.
    result
        What is known; `Result.status` is "running" as long as more will be.
    handed_out, live
        All tickets, and those whose results may still be on the way.
    told, beyond, imported, conflicts
        Results of tickets, those that came late and beyond the budget, imported results, and
        results that were refused.
    stopped
        Why it is stopped; None if it is not.
    """

    created: datetime
    status: Status
    result: Result
    handed_out: int
    live: int
    told: int
    beyond: int
    imported: int
    conflicts: int
    stopped: str | None = None


class Study(ABC):
    """A search that many workers share. `oddarms.create_study` and `oddarms.load_study` return it.

    Any number of processes may have the same study open; methods may be called from any thread.

    Attributes
    ----------
    name
        Its name in the storage.
    seed
        Decides the algorithm's random choices.
    """

    name: str
    seed: int

    def __init__(self, name: str, seed: int, question: Question) -> None:
        self.name = name
        self.seed = seed
        self._rewards = Rewards(question)
        self._callbacks: list[DecisionCallback] = []
        self._reported: npt.NDArray[np.int8] | None = None
        self._reported_at = (0, 0)
        self._reporting = threading.Lock()

    def __repr__(self) -> str:
        return f"Study({self.name!r}, {self.n:,} arms, storage={self.storage!r})"

    @property
    def n(self) -> int:
        """The number of arms."""
        return len(self._rewards.labels)

    @property
    @abstractmethod
    def storage(self) -> str:
        """Where the study is stored."""

    @property
    @abstractmethod
    def question(self) -> Question:
        """What is asked: the question in force, as this process has read it last."""

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest reward possible."""
        return self._rewards.bounds

    @property
    @abstractmethod
    def labels(self) -> tuple[Label, ...]:
        """The arms' labels."""

    # Work

    @abstractmethod
    def ask(
        self,
        n: int = 1,
        worker: str | None = None,
        lease: timedelta = LEASE,
        *,
        ahead: float = AHEAD,
        key: str | None = None,
    ) -> Tickets:
        """Hand out up to n pulls.

        Workers that ask at the same time get different work. Fewer than n tickets, or none, come
        back where there is nothing to do until results arrive; `status` of the list says whether
        to wait for them ("waiting") or to stop ("decided", "budget", "stopped").

        Parameters
        ----------
        n
            How many pulls at most.
        worker
            A name for the log.
        lease
            For how long, a year at most; afterwards the pull may be handed to somebody else. A
            result that comes later is still recorded and, within the budget, used. Choose it
            longer than a pull takes, or `renew` it meanwhile, as `run` does.
        ahead
            How far pulls of later steps may be handed out, as a share of the results so far; 0 for
            not at all.
        key
            A name of up to 64 characters for this call, by which it may be repeated after an error:
            it returns the same tickets then, those of them that are still out, with new leases.
        """

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
        """Record several results at once, all of them or, where one breaks a rule, none."""

    @abstractmethod
    def renew(self, tickets: Iterable[Ticket | str], lease: timedelta = LEASE) -> int:
        """Let leases last as long from now, as pulls are still under way; return how many do.

        Fewer than were given where a result is there, or the place was handed to somebody else.
        """

    def import_rewards(
        self,
        rewards: Recorded,
        *,
        key: str | None = None,
        arm: str | None = None,
        reward: str | None = None,
        labels: Iterable[Label] | None = None,
        missing: Missing = "stop",
    ) -> int:
        """Record rewards that nobody asked for; return how many.

        They count as evidence but not as pulls of the budget. The guarantee stays if they were
        drawn like all others and how many an arm has was not decided by looking at them. Where the
        speed of a pull depends on its reward, import before the first `ask`.

        Parameters
        ----------
        rewards
            Rewards by label, of which arms may have any number or be missing; a data frame with a
            row per reward or with counts (the columns ``successes`` and ``trials``, in an order
            that the seed of the study and the key decide), or an array with a row for each of the
            `labels`.
        key
            A name for this import, of up to 64 characters; a second one with the same key and the
            same rewards records nothing and returns 0, one with others is refused.
        arm, reward, labels, missing
            As for `Search.import_rewards`.
        """
        key = check_text("key", key, most=MOST_KEY)
        plain = (arm, reward, labels, missing) == (None, None, None, "stop")
        if not (isinstance(rewards, Mapping) and plain):
            rewards = recorded_rewards(
                rewards,
                arm=arm,
                reward=reward,
                labels=labels,
                missing=missing,
                worst=self.question.worst,
                rng=self._rng_of_import(key),
            )
        return self._import(self._checked(rewards), key)

    def _rng_of_import(self, key: str | None) -> np.random.Generator:
        """Return what decides the order of counts: of each import another, of one always the same.

        One without a key is known by what was imported before it.
        """
        if key is None:
            before = self.overview().imported
            words: tuple[int, ...] = (before,) if before else ()
        else:
            words = tuple(hashlib.sha256(key.encode()).digest())
        sequence = np.random.SeedSequence(self.seed, spawn_key=(2, *words))
        return np.random.default_rng(sequence)

    def _checked(self, rewards: Mapping[Label, Any]) -> dict[Label, list[float]]:
        """Return rewards by label as numbers, if all are some within the bounds."""
        lists = {label: np.atleast_1d(np.asarray(given)) for label, given in rewards.items()}
        return {
            label: [self.check_reward(reward) for reward in given.tolist()]
            for label, given in lists.items()
        }

    @abstractmethod
    def _import(self, rewards: Mapping[Label, list[float]], key: str | None) -> int:
        """Record checked rewards that nobody asked for; return how many."""

    @abstractmethod
    def revise(self, /, **changes: Any) -> None:
        """Ask a somewhat different question of the same arms, on the samples that are there.

        Margin, floor and indifference may be changed, where the algorithm can decide anew (SPADE
        can). The budget may become larger, or None, and a study without one may be given one. All
        processes that have the study open go on with the new question; one that was done is open
        again if it has to be. Once margin or floor were changed after the first result, the answer
        is right with probability at least 1 - 3 delta; indifference and budget cost nothing.
        Choose by `result`, not by single `trials`; `oddarms.search._search` says why.

        May be repeated after an error: what is asked already changes nothing.

        Parameters
        ----------
        **changes
            Words of the question that are changed: margin, floor, indifference, budget.

        Examples
        --------
        >>> from oddarms import create_study, delete_study
        >>> study = create_study("ads", ["a", "b", "c"], k=1, budget=100, storage="memory")
        >>> study.revise(margin=0.1, budget=200)
        >>> study.question.margin, study.question.budget
        (0.1, 200)
        >>> delete_study("ads", storage="memory")
        """

    @abstractmethod
    def what_if(self, changes: Mapping[str, Any]) -> Result:
        """Return what `revise` with these changes would make of the samples there are.

        Nothing is changed.
        """

    @abstractmethod
    def revisions(self) -> list[Revision]:
        """Return all changes of the question, in their order."""

    @abstractmethod
    def stop(self, reason: str = "") -> None:
        """Hand out no more tickets until `resume`; results of those that are out are taken.

        The status is "stopped" then, and `run` ends everywhere. May be repeated; the last reason
        counts.
        """

    @abstractmethod
    def resume(self) -> None:
        """Hand out tickets again; changes nothing where the study is not stopped."""

    def skip(self, ticket: Ticket | str, reason: str = "") -> None:
        """Give a ticket back without a result; its pull may be handed out again at once.

        Not because it takes long or may turn out badly: what comes back would be a selection.
        """
        self.skip_many([ticket], reason)

    @abstractmethod
    def skip_many(self, tickets: Iterable[Ticket | str], reason: str = "") -> None:
        """Give several tickets back at once."""

    @abstractmethod
    def skip_worker(self, worker: str, reason: str = "") -> int:
        """Give back all tickets that a worker has out, for one that is known to be gone.

        Returns how many.
        """

    @contextmanager
    def _given_back_on_error(self, tickets: Iterable[Ticket]) -> Iterator[None]:
        """A block whose error gives back tickets that nobody gets to see.

        Where there is no time for it, their leases end.
        """
        try:
            yield
        except BaseException as error:
            with suppress(StoreFailed), self.hurried():
                self.skip_many(tickets, f"ask ended with {type(error).__name__}")
            raise

    def take_over(self) -> int:
        """Give back the tickets of processes of this machine that are gone; return how many.

        Such as this one's, before it was killed: nobody has to wait for their leases.
        """
        gone = [worker for worker in self._live_workers() if is_gone(worker)]
        return sum(self.skip_worker(worker, "its process is gone") for worker in gone)

    @abstractmethod
    def _live_workers(self) -> list[str]:
        """Return the workers that have tickets out."""

    @abstractmethod
    def hurried(self) -> AbstractContextManager[None]:
        """Return a block in which this thread's calls wait for a lock for a moment only."""

    def check_reward(self, reward: Any) -> float:
        """Return a reward as a number, if it is one within the bounds."""
        return self._rewards.checked_one(reward)

    # What is known

    def result(self) -> Result:
        """Return what is known now: the same document as that of a search in memory."""
        return self.overview().result

    @abstractmethod
    def overview(self) -> Overview:
        """Return where the study stands, all of it at the same moment."""

    @abstractmethod
    def progress(self) -> Progress:
        """Return pulls, open arms, threshold and estimated pulls to go, cheaply."""

    @abstractmethod
    def pulse(self) -> str:
        """Return a short text that changes when anything of the study has changed; cheap.

        For caches and for those who watch: results, tickets, changes of the question, a stop, and
        tickets that are no longer out.
        """

    @property
    @abstractmethod
    def status(self) -> Status:
        """Where the study stands: "running", "waiting", "decided", "budget" or "stopped"."""

    @property
    def done(self) -> bool:
        """True once no more pulls will be handed out."""
        return self.status.final

    def wait(self, timeout: float | None = None, *, poll: float = 0.5) -> bool:
        """Wait until the study is done; return False if that took longer than the timeout."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while not self.done:
            if time.monotonic() >= deadline:
                return False
            time.sleep(min(poll, max(deadline - time.monotonic(), 0.0)))
        return True

    def watch(
        self,
        timeout: float | None = None,
        *,
        poll: float = 1.0,
        patience: Patience = PATIENCE,
    ) -> Result:
        """Show the study until it is done, while others work on it; return what it found.

        In a notebook the study is shown below the cell and kept current, elsewhere as a line on
        stderr. Ctrl-C ends the watching, not the study, and returns what is known.

        Parameters
        ----------
        timeout
            For how many seconds at most.
        poll
            Seconds between two looks; it looks less often where a look takes long.
        patience
            How long to wait for a storage that is away, as for `oddarms.find`.

        Examples
        --------
        >>> from oddarms import create_study, delete_study
        >>> study = create_study("ads", ["a", "b", "c"], k=1, budget=100, storage="memory")
        >>> study.watch(timeout=0).pulls
        0
        >>> delete_study("ads", storage="memory")
        """
        return watch(self, timeout=timeout, poll=poll, patience=patience)

    def _repr_html_(self) -> str:
        """Return the study as a notebook shows it."""
        return study_html(self)

    @abstractmethod
    def trials(self, *, after: int = 0, most: int | None = None) -> Iterator[Trial]:
        """Yield every recorded result, in the order of recording.

        Parameters
        ----------
        after
            Only those behind the one with this `Trial.number`. Whoever goes on behind the last one
            misses none: no result appears later with a lower number.
        most
            At most so many.
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
    def conflicts(self) -> list[Conflict]:
        """Return the results that were refused because another one was there first."""

    @abstractmethod
    def workers(self) -> list[Worker]:
        """Return who has worked on the study, by name; tickets asked for without one are None's."""

    @abstractmethod
    def verify(self) -> Verification:
        """Replay the log and hold everything stored against it, as `oddarms.studies.verify`."""

    def on_decision(self, callback: DecisionCallback) -> None:
        """Call a function with the study and the newly decided arms, as this process sees them.

        Called from `ask`, `result` and `run`, after the results that decided are stored; with pairs
        of label and `Decision`.
        """
        self._callbacks.append(callback)

    def desk(self, worker: str | None = None, lease: timedelta = RUN_LEASE) -> StudyDesk:
        """Return a worker's end of the study, for `oddarms.search.drive`."""
        return StudyDesk(self, worker, lease)

    def run(
        self,
        pull: Callable[[Any], Any],
        *,
        worker: str | None = None,
        lease: timedelta = RUN_LEASE,
        batch: bool = False,
        **options: Any,
    ) -> Result:
        """Ask, pull and tell until the study is done; return what it found.

        Several processes may run the same study at once. Whatever ends this - an exception,
        Ctrl-C, kill - the results told before are stored, and running again goes on from there.

        Parameters
        ----------
        pull
            Called with a label, returns a reward; an ``async def`` is awaited. If it has a method
            `stop`, that is called when the run is interrupted, to end calls under way.
        worker
            A name for the log.
        lease
            How long pulls stand still if this process dies; as long as it lives, leases are
            renewed.
        batch
            Whether `pull` takes a list of labels and returns a list of rewards; it is then called
            in this thread, with up to a thousand labels at a time.
        **options
            `jobs`, `executor`, `on_error`, `ahead`, `patience` and `progress` of `oddarms.find`.
        """
        arms = BatchFunction(pull, self.labels) if batch else Function(pull, self.labels)
        return drive(self.desk(worker, lease), arms, **options)

    def _report(self, decisions: npt.NDArray[np.int8], at: tuple[int, int]) -> None:
        """Call those who want to know of newly decided arms.

        Decisions that are older than those reported last say nothing new: a thread was slow.

        Parameters
        ----------
        decisions
            Of all arms.
        at
            How many results and revisions they are made of.
        """
        with self._reporting:
            if at < self._reported_at:
                return
            before = self._reported if self._reported is not None else np.zeros_like(decisions)
            fresh = np.flatnonzero((decisions != Decision.UNDECIDED) & (decisions != before))
            self._reported, self._reported_at = decisions, at
        if not fresh.size:
            return
        labels = self.labels
        news = [(labels[i], Decision(int(decisions[i]))) for i in fresh.tolist()]
        for callback in self._callbacks:
            callback(self, news)


def check_lease(lease: timedelta) -> float:
    """Return the seconds of a lease."""
    if not isinstance(lease, timedelta) or not timedelta(0) < lease <= MOST_LEASE:
        raise InvalidParameter(
            f"lease must be a positive timedelta of at most a year but got {lease!r}."
        )
    return lease.total_seconds()


def check_text(name: str, text: str | None, most: int = MOST_TEXT) -> str | None:
    """Return a text that every storage can hold."""
    if text is None:
        return None
    if not isinstance(text, str) or len(text) > most or storable(text) != text:
        raise InvalidParameter(
            f"{name} must be a text of up to {most} characters, without NUL, but got {text!r:.100}."
        )
    return text


def storable(text: object) -> str:
    """Return a text with all that a storage cannot hold written out."""
    return str(text).encode(errors="backslashreplace").decode().replace("\0", "\\x00")


def reason_of(text: object) -> str:
    """Return as much of a reason as every storage holds."""
    return storable(text)[:MOST_TEXT]
