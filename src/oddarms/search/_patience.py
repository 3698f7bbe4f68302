"""A desk whose storage may be away for a while: calls are repeated until it is back."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import timedelta
from numbers import Real
from typing import Any, TypeVar

from oddarms.errors import InvalidParameter, StoreFailed
from oddarms.interrupts import pause
from oddarms.problem import Question
from oddarms.search._desk import Desk
from oddarms.search._progress import Progress
from oddarms.search._result import Result
from oddarms.search._search import AHEAD, Search
from oddarms.search._tickets import Ticket, Tickets
from oddarms.text import counted

Patience = timedelta | float
"""How long to wait for a storage that is away: a timedelta, or seconds."""
Answer = TypeVar("Answer")

PATIENCE = timedelta(minutes=10)
"""How long `find` and `study.run` wait for a storage, unless you say otherwise."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
SAY_SECONDS = 60.0
"""How often a wait that goes on is spoken of."""
HURRY_SECONDS = 0.3
"""The patience at the end of a run: a connection that is dead is found out and made anew."""
ANSWER_SECONDS, MOMENT_SECONDS = 30.0, 3.0
"""How long a call may take at the end of a run, and if the storage was in trouble before."""

LEAST_IDLE = 0.02
"""Seconds between the first two questions whether others are done with their pulls."""

_log = logging.getLogger(__name__)


def patience_seconds(patience: Patience) -> float:
    """Return a patience in seconds, infinite for as long as it takes."""
    seconds: Any = patience.total_seconds() if isinstance(patience, timedelta) else patience
    if isinstance(seconds, bool) or not isinstance(seconds, Real) or not float(seconds) >= 0:
        raise InvalidParameter(
            "patience must be a timedelta, or a number of seconds that is not negative, but got"
            f" {patience!r}."
        )
    return float(seconds)


def patiently(
    call: Callable[[], Answer], patience: Patience, *, kept: int = 0, aloud: bool = True
) -> Answer:
    """Return what a call returns; repeat it while it fails for reasons that pass.

    A signal is obeyed at once, also in an `uninterrupted` block, which must bear that.

    Parameters
    ----------
    call
        May be made twice, as its answer can be lost on the way.
    patience
        For how long in all.
    kept
        How many results wait to be stored, to be said.
    aloud
        Whether to say that there is a wait, and that it is over.
    """
    wait: _Wait | None = None
    while True:
        try:
            answer = call()
        except StoreFailed as error:
            wait = wait or _Wait(patience_seconds(patience), kept, aloud)
            if not error.passing or wait.left <= 0.0:
                raise
            wait.say(error)
        else:
            if wait is not None:
                wait.say_that_it_is_over()
            return answer
        wait.pause()


class _Wait:
    """The pauses between the attempts of one call, and what is said of them."""

    def __init__(self, seconds: float, kept: int, aloud: bool) -> None:
        self._began = time.monotonic()
        self._seconds = seconds
        self._kept = kept
        self._aloud = aloud
        self._next = FIRST_PAUSE
        self._said = -math.inf

    @property
    def left(self) -> float:
        return self._seconds - (time.monotonic() - self._began)

    def pause(self) -> None:
        pause(max(min(self._next, self.left), 0.0))
        self._next = min(2.0 * self._next, LONGEST_PAUSE)

    def say(self, error: StoreFailed) -> None:
        if self._aloud and time.monotonic() - self._said >= SAY_SECONDS:
            self._said = time.monotonic()
            kept = f"; {counted(self._kept, 'result')} kept meanwhile" if self._kept else ""
            _log.warning("%s Trying again for %s%s.", str(error), duration(self.left), kept)

    def say_that_it_is_over(self) -> None:
        if self._aloud:
            after = duration(time.monotonic() - self._began)
            kept = f", and {counted(self._kept, 'result')} stored" if self._kept else ""
            _log.warning("The storage answers again after %s%s.", after, kept)


def duration(seconds: float) -> str:
    """Return a duration in words.

    Examples
    --------
    >>> duration(600.0), duration(1.25), duration(math.inf)
    ('10 minutes', '1.2 seconds', 'as long as it takes')
    """
    if math.isinf(seconds):
        return "as long as it takes"
    if seconds >= 90.0:
        return counted(round(seconds / 60.0), "minute")
    return f"{seconds:.2g} seconds"


class PatientDesk:
    """A desk that repeats calls while its storage is away, and has a driver's last word quickly.

    Attributes
    ----------
    desk
        Where tickets are handed out and results taken.
    """

    def __init__(self, desk: Desk, patience: Patience) -> None:
        self.desk = desk
        self._patience = patience_seconds(patience)
        self._hurried = False
        self._in_trouble = False
        self._idle = LEAST_IDLE

    def hurry(self) -> None:
        """Have hardly any patience from now on, and wait for no call that takes long.

        Such a call may go on in a thread, and may succeed: what is told twice counts once.
        """
        self._hurried = True
        self._patience = min(self._patience, HURRY_SECONDS)

    @property
    def question(self) -> Question:
        """What is asked."""
        return self._read(lambda: self.desk.question)

    def ask(self, n: int = 1, *, ahead: float = AHEAD) -> Tickets:
        """Hand out up to n pulls."""
        tickets = self._written(lambda: self.desk.ask(n, ahead=ahead))
        if tickets:
            self._idle = LEAST_IDLE
        return tickets

    def tell_many(self, results: Sequence[tuple[Ticket, float]]) -> None:
        """Take results; when this returns they are kept."""
        self._written(lambda: self.desk.tell_many(results), len(results))

    def skip_many(self, tickets: Sequence[Ticket], reason: str = "") -> None:
        """Take tickets back."""
        self._written(lambda: self.desk.skip_many(tickets, reason))

    def check_reward(self, reward: Any) -> float:
        """Return a reward as a number, if it is one within the bounds."""
        return self.desk.check_reward(reward)

    def has_used(self, ticket: Ticket) -> bool:
        """Return whether a ticket's result need not be kept by the caller any more."""
        return self.desk.has_used(ticket)

    def result(self) -> Result:
        """Return what is known."""
        return self._read(self.desk.result)

    def progress(self) -> Progress:
        """Return how far it is."""
        return self._read(self.desk.progress)

    def wait_for_others(self, most: float) -> None:
        """Wait a moment, where all pulls are with others: at first a short one, as theirs may be.

        Each time twice as long as before, up to the given seconds.
        """
        seconds, self._idle = min(self._idle, most), 2.0 * self._idle
        self._read(lambda: self.desk.wait_for_others(seconds))

    def _read(self, call: Callable[[], Answer]) -> Answer:
        if self._hurried and self._in_trouble:
            return self._within(MOMENT_SECONDS, call)
        return self._repeated(call)

    def _written(self, call: Callable[[], Answer], kept: int = 0) -> Answer:
        try:
            if self._hurried and not isinstance(self.desk, Search):
                seconds = MOMENT_SECONDS if self._in_trouble else ANSWER_SECONDS
                return self._within(seconds, call)
            return self._repeated(call, kept)
        except KeyboardInterrupt:  # it waits in a write, for a lock or a server, and nowhere else
            self._in_trouble = True
            raise

    def _repeated(self, call: Callable[[], Answer], kept: int = 0) -> Answer:
        def noticed() -> Answer:
            try:
                answer = call()
            except StoreFailed:
                self._in_trouble = True
                raise
            self._in_trouble = False
            return answer

        return patiently(noticed, self._patience, kept=kept, aloud=not self._hurried)

    def _within(self, seconds: float, call: Callable[[], Answer]) -> Answer:
        """Make a call in a thread of its own, which is left alone if it takes too long."""
        outcome: Future[Answer] = Future()

        def work() -> None:
            try:
                outcome.set_result(self._repeated(call))
            except BaseException as error:
                outcome.set_exception(error)

        threading.Thread(target=work, name="oddarms last call", daemon=True).start()
        try:
            return outcome.result(seconds)
        except TimeoutError:
            self._in_trouble = True
            took = f"the storage did not answer within {duration(seconds)}."
            raise StoreFailed(took, passing=True) from None
