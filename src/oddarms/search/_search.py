"""`Search`: the ask-and-tell machine around an algorithm.

Which reward is used for what
-----------------------------
The algorithm proposes *steps*: so many rewards of some arms. Every arm has a sequence of rewards
with numbered *places*, and a ticket is an order to make the pull for one place. A step takes the
next places of its arms. Its rewards reach the algorithm together, once the last one has arrived.
Results of places that no step wants yet wait. Rewards from before the search (`history`) are
results told in advance: they fill the next places of their arms, so a step uses them before it
asks for new ones.

Why slow and early workers cannot bias the answer
-------------------------------------------------
Think of a table, fixed in advance, of the rewards of all places of all arms: independent, each
with its arm's mean, whichever worker makes the pull and when. (So the duration of a pull may depend
on its reward, but a reward must not depend on load or time.) *What the algorithm knows after j
steps is a function of the table alone.* By induction: the plan of step j + 1 is a function of what
is known after j steps, and takes places that no step used before; which places these are was
decided by rewards of other places. So given everything used before, the rewards of step j + 1 are
independent with their arms' means, which is all that the proofs of the algorithms use. When a
result arrives decides only when a step ends.

The guarantee covers all steps at once. So anybody may stop, or look, at any time. The budget stops
a search, too: a larger one (`raise_budget`) continues behind the last step that the smaller one
allowed, so it changes nothing that was decided. Two things are exact only at the end of a search,
or where the duration of a pull does not depend on its reward: a single e-value (`Result.evidence`),
and the error rates of ``error="fdr"``.

Lost tickets
------------
The place of a ticket that is given back (`skip`), or whose lease ends, is handed out again. If
losing a ticket has nothing to do with its reward, this changes nothing. If slow pulls are lost
more often and have other rewards, the reward of their place is drawn again, and not fairly: a few
such losses shift an arm's mean by at most (tickets lost)/(pulls), regular ones void the guarantee.
So leases must be longer than the longest pull, and a pull must not be given back because it takes
long. If a ticket is lost *because* of its reward (a test that hangs when it fails), report the
pull as a reward instead (a timeout as the worst one).

History
-------
The guarantee holds if the rewards of the history were drawn like all others, and if the number of
rewards that an arm has was not decided by looking at them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from oddarms.algorithms import (
    UNLIMITED,
    Algorithm,
    Decision,
    Decisions,
    Pulls,
    Threshold,
    check_options,
    create,
    get_algorithm,
    no_pulls,
)
from oddarms.errors import InvalidParameter, ProtocolError, RewardRejected
from oddarms.problem import (
    BoolArray,
    FloatArray,
    IntArray,
    Label,
    Question,
    check_number,
    check_whole,
)
from oddarms.randomness import Rng, generator_of
from oddarms.rules import rule_of
from oddarms.search._progress import Progress, look_alike, most_abnormal
from oddarms.search._result import OPEN, Result, Snapshot, TracePoint
from oddarms.search._rewards import Rewards
from oddarms.search._sequences import Outlook, Place, Sequences
from oddarms.search._tickets import Status, Ticket, Tickets
from oddarms.tables import Missing, Recorded, read_rewards

PREFETCH = 0.2
"""The share of the results so far that may wait, or be out, ahead of the step in progress."""
PER_WORKER = 24
"""Early on, results that may wait or be out ahead for each worker."""
EARLY_ROWS = 20
"""Pulls of each arm that are expected before an algorithm can tell."""
TRACE_GROWTH = 1.05


class Search:
    """A search that you drive: `ask` for pulls, `tell` their rewards, until it is `done`.

    Use it where rewards come from elsewhere (a queue, people, a cluster). `oddarms.find` is the
    same loop around things that can be called. One thread at a time may use a search.

    Parameters
    ----------
    question
        What is asked; or the arms' labels or number, with the words of a `Question` as keywords.
    rng
        Decides the algorithm's random choices.
    **words
        Words of a `Question`, and options of the algorithm.

    Examples
    --------
    Ticket by ticket, in any order:

    >>> truth = {"a": 0.0, "b": 0.1, "c": 0.0, "d": 1.0}
    >>> search = Search(list(truth), k=1, delta=0.1)
    >>> while not search.done:
    ...     for ticket in search.ask(10):
    ...         search.tell(ticket, truth[ticket.arm])
    >>> search.result().outliers
    ['d']

    Or a whole step at a time:

    >>> search = Search(4, k=1, delta=0.1, algorithm="rr", batch=500)
    >>> while not search.done:
    ...     pulls = search.ask_step()
    ...     search.tell_step(np.array([0.0, 0.1, 0.0, 1.0])[pulls.indices].repeat(pulls.counts))
    >>> search.result().outliers
    [3]
    """

    def __init__(
        self,
        question: Question | Iterable[Label] | int,
        *,
        rng: Rng = None,
        **words: Any,
    ) -> None:
        self.question = Question.of(question, words)
        self.algorithm = _new_algorithm(self.question, generator_of(rng))
        self.status = Status.RUNNING
        self._budgets = [self.question.budget]
        self._rewards = Rewards(self.question)
        self._sequences = Sequences(self.question.n)
        self._asked = False
        self._out: dict[str, Ticket] = {}
        self._out_places: set[Place] = set()
        self._last_id = 0
        # what is expected of the search, computed once in a step: results in all, and next steps
        self._expected: float | None = None
        self._outlook: Outlook | None = None
        self._trace: list[TracePoint] = []
        self._next_trace = 0.0
        self._first: Snapshot | None = None
        self._decided_after: IntArray = np.full(self.question.n, OPEN, dtype=np.int64)
        self._decisions_seen: Decisions = self.algorithm.decisions.copy()
        self._propose()

    # What is known

    @property
    def labels(self) -> Sequence[Label]:
        """The arms' labels."""
        return self.question.labels

    @property
    def done(self) -> bool:
        """True once there is nothing more to ask."""
        return self.status.final

    @property
    def undecided(self) -> int:
        """The number of arms still open."""
        return int(self.algorithm.undecided.sum())

    @property
    def decided(self) -> int:
        """The number of arms that are decided."""
        return self.question.n - self.undecided

    @property
    def decisions(self) -> Decisions:
        """What is known of each arm, without the cost of a whole result."""
        return self._on_side(self.algorithm.decisions.copy())

    @property
    def means(self) -> FloatArray:
        """Each arm's average reward, without the cost of a whole result."""
        means: FloatArray = self._rewards.in_units(self.algorithm.means)
        return means

    @property
    def pulls(self) -> int:
        """Pulls that steps have used; rewards of the history do not count."""
        return int(self._sequences.pulled.sum())

    @property
    def told(self) -> int:
        """Results that were told, used yet or not; rewards of the history do not count."""
        return self._sequences.total - int(self._sequences.history.sum())

    # Tickets

    def ask(self, n: int = 1, *, prefetch: float = PREFETCH) -> Tickets:
        """Hand out up to n pulls.

        Fewer, or none, are returned if there is nothing to do until results arrive. `status` of
        the list says whether to wait for them ("waiting") or to stop. `prefetch` is how far pulls
        of later steps may be handed out, as a share of the results so far; 0 for not at all.
        """
        check_whole("n", n, least=1)
        tickets = []
        for arm, place in self.open_places(n, self._out_places, prefetch=prefetch):
            self._last_id += 1
            ticket = Ticket(str(self._last_id), self.labels[arm], arm, place)
            self._out[ticket.id] = ticket
            self._out_places.add((arm, place))
            tickets.append(ticket)
        status = self.status
        if len(tickets) < n:
            status = self.status_with(self._out_places, prefetch=prefetch)
            if status.final:
                self.stop(status)
        return Tickets(tickets, status, self.decided)

    def tell(self, ticket: Ticket | str, reward: float) -> None:
        """Take the reward of a ticket; a reward that is refused changes nothing."""
        value = self.check_reward(reward)
        if self._sequences.take(*self._returned(ticket), value) and not self._sequences.missing:
            self._advance()

    def tell_many(self, results: Iterable[tuple[Ticket | str, float]]) -> None:
        """Take several rewards: all of them or, if one is refused, none."""
        checked = [(self._known(ticket), self.check_reward(reward)) for ticket, reward in results]
        _check_different([name for name, _ in checked])
        for name, value in checked:
            self.take(*self._returned(name), value)

    def skip(self, ticket: Ticket | str, reason: str = "") -> None:
        """Give a ticket back without a result; its place is handed out again.

        Do not skip a pull because it takes long or may turn out badly: that selects rewards.
        """
        self.skip_many([ticket], reason)

    def skip_many(self, tickets: Iterable[Ticket | str], reason: str = "") -> None:
        """Give several tickets back. A search ignores the reason; a study logs it."""
        del reason
        names = [self._known(ticket) for ticket in tickets]
        _check_different(names)
        for name in names:
            self._returned(name)

    def check_reward(self, reward: Any) -> float:
        """Return a reward as a float if it is a number within the bounds."""
        try:
            return self._rewards.checked_one(reward)
        except RewardRejected as error:
            error.result = self.result()
            raise

    def _known(self, ticket: Ticket | str) -> str:
        name = ticket.id if isinstance(ticket, Ticket) else ticket
        known = self._out.get(name)
        if known is None:
            raise InvalidParameter(
                f"Ticket {name!r} is not out: it was told or given back before, or never existed."
            )
        if isinstance(ticket, Ticket) and ticket != known:
            raise InvalidParameter(f"Ticket {name!r} belongs to another search.")
        return name

    def _returned(self, ticket: Ticket | str) -> Place:
        known = self._out.pop(self._known(ticket))
        place = (known.index, known.place)
        self._out_places.discard(place)
        return place

    # Whole steps

    def ask_step(self) -> Pulls:
        """Return all pulls that the step in progress needs: `counts[j]` of arm `indices[j]`.

        The same request is returned until its rewards are told.
        """
        if self.done:
            raise ProtocolError(f"ask_step() was called after the search stopped: {self.status}.")
        if self._out:
            raise ProtocolError("ask_step() was called while tickets are out: tell or skip them.")
        self._asked = True
        return self._sequences.rest()

    def tell_step(self, rewards: npt.ArrayLike) -> None:
        """Take the rewards of the last `ask_step`, one per pull, in the order asked.

        Either all of them are taken or, if one is refused, none.
        """
        pulls = self._waiting_step("tell_step")
        try:
            values = self._rewards.checked(rewards, pulls)
        except RewardRejected as error:
            error.result = self.result()
            raise
        self._finish_step(pulls, *self._rewards.totals(values, pulls.counts))

    def tell_step_totals(self, sums: npt.ArrayLike, squares: npt.ArrayLike) -> None:
        """Take, instead of single rewards, each entry's sum of rewards and of squared rewards."""
        pulls = self._waiting_step("tell_step_totals")
        try:
            totals = self._rewards.checked_totals(sums, squares, pulls)
        except RewardRejected as error:
            error.result = self.result()
            raise
        self._finish_step(pulls, *totals)

    def _waiting_step(self, method: str) -> Pulls:
        if not self._asked:
            raise ProtocolError(f"{method}() was called without calling ask_step().")
        return self._sequences.rest()

    # History

    def add_history(
        self,
        history: Recorded,
        *,
        arm: str | Sequence[str] | None = None,
        reward: str | None = None,
        missing: Missing = "stop",
    ) -> int:
        """Take rewards from before the search; return how many.

        They fill the next places of their arms and cost no budget. The module's text says when
        the guarantee holds with them.

        Parameters
        ----------
        history
            Lists or arrays by label, or a data frame with a row per reward or with counts. Arms
            may have any number of rewards, or none. Counts are put in a random order that `rng` of
            the search decides.
        arm, reward, missing
            As for `oddarms.analyze`.

        Examples
        --------
        >>> search = Search(["a", "b", "c"], k=1, delta=0.1)
        >>> search.add_history({"a": [0, 0, 1], "c": [1, 1, 1, 1]})
        7
        >>> search.result().history
        7
        """
        arms, rewards = history_rows(
            history, self.question, arm=arm, reward=reward, missing=missing
        )
        order = self.algorithm.rng.spawn(1)[0].permutation(arms.size)  # counts come sorted
        arms, rewards = arms[order], rewards[order]
        ends = self._sequences.behind(self._out_places)
        places = ends[arms] + numbers_within(arms)
        self.load(arms, places, rewards, np.ones(arms.size, dtype=np.bool_))
        return arms.size

    # The budget

    @property
    def budget(self) -> int | None:
        """How many pulls the search may ask for; None for no limit."""
        return self._budgets[-1]

    def raise_budget(self, budget: int | None) -> None:
        """Allow more pulls, or any number (None); a search that the budget stopped goes on."""
        check_raised(self.budget, budget)
        if budget != self.budget:
            self._budgets.append(budget)
            self.question = self.question.but(budget=budget)
            if self.status is Status.BUDGET:
                if not self._sequences.step.total:  # the smaller budget allows no further step
                    self._budgets.pop(0)
                self._resume()
                self._advance()

    # Places, for studies, which keep the tickets themselves

    def take(self, arm: int, place: int, reward: float) -> None:
        """Take the checked reward of a place; one that is there already counts once."""
        if self._sequences.take(arm, place, reward) and not self._sequences.missing:
            self._advance()

    def load(
        self, arms: IntArray, places: IntArray, rewards: FloatArray, history: BoolArray
    ) -> None:
        """Take many checked rewards at once, such as a log or history."""
        self._sequences.load(arms, places, rewards, history)
        self._asked = False
        if self.status is Status.BUDGET and history.any():  # which costs none
            self._resume()
        self._advance()

    def open_places(self, n: int, out: set[Place], *, prefetch: float = PREFETCH) -> list[Place]:
        """Return up to n places to be pulled now, given those that are out."""
        check_prefetch(prefetch)
        if self.done:
            return []
        workers = n + len(out)
        if self.budget is not None:
            n = min(n, self.budget - self.told - len(out))
        if n <= 0:
            return []
        found = self._sequences.open_in_step(n, out)
        if len(found) < n and prefetch > 0.0:
            room = self._room_ahead(prefetch, workers)
            if self._outlook is None:
                self._outlook = Outlook(self.algorithm.outlook())
            found += self._sequences.open_ahead(n - len(found), out, self._outlook, room)
        return found

    def _room_ahead(self, prefetch: float, workers: int) -> float:
        """Return how many results may wait or be out ahead of the step.

        To hide a pull that takes many times as long as others, each worker must find as many
        others to make meanwhile. Early in a search these are far more than a share of the results
        so far, and all will be used: the share is then that of the results expected in all.
        """
        if self._expected is None:
            needed = self.algorithm.pulls_needed()
            rows = EARLY_ROWS * self.question.n
            known = int(self._sequences.used.sum())
            self._expected = known + (rows if needed is None else float(needed.sum()))
        return max(prefetch * self.told, min(PER_WORKER * workers, prefetch * self._expected))

    def status_with(self, out: set[Place], *, prefetch: float = PREFETCH) -> Status:
        """Return the status of the search, given the places that are out."""
        allowed = self.budget is None or self.told + len(out) < self.budget
        if self.done or (allowed and self._sequences.free_in_step(1, out) > 0):
            return self.status
        if self.open_places(1, out, prefetch=prefetch):  # ahead of the step
            return self.status
        # the step needs pulls: if none is out and none may be handed out, the budget is in the way
        return Status.WAITING if out else Status.BUDGET

    def awaited(self, out: Iterable[Place]) -> list[Place]:
        """Return those of the places that are out that the step waits for."""
        return self._sequences.awaited(out)

    # Steps

    def _propose(self) -> None:
        """Begin the next step, or find out why there is none."""
        while True:
            limit = self._limit()
            pulls = no_pulls() if self.algorithm.done else _frozen(self.algorithm.propose(limit))
            if pulls.total <= limit or len(self._budgets) == 1:
                break
            self._budgets.pop(0)
        self._asked = False
        self._expected = self._outlook = None
        self._note_decisions()
        if pulls.total == 0:
            self.status = Status.DECIDED
        elif pulls.total > limit:
            self.status = Status.BUDGET
        self._sequences.begin(no_pulls() if self.done else pulls)
        self._check_budget()

    def _resume(self) -> None:
        """Go on after the budget was in the way, if it allows that now."""
        self.status = Status.RUNNING
        if self._sequences.step.total:
            self._check_budget()
        else:
            self._propose()

    def _check_budget(self) -> None:
        """Stop if the budget cannot complete the step."""
        if self.budget is not None and self._sequences.missing > self.budget - self.told:
            self.status = Status.BUDGET

    def _limit(self) -> int:
        """Return how many rewards the budget and the history allow the algorithm.

        A smaller budget that was raised later counts until it is used up, so that raising it
        changes no step before.
        """
        budget, sequences = self._budgets[0], self._sequences
        history = int(sequences.history.sum() - (sequences.used - sequences.pulled).sum())
        most = UNLIMITED if budget is None else min(budget, UNLIMITED)
        return most - self.pulls + history

    def _advance(self) -> None:
        """Give the algorithm every step that is complete."""
        while not self.done and self._sequences.missing == 0:
            self._finish_step(no_pulls(), np.empty(0), np.empty(0))

    def _finish_step(self, told: Pulls, sums: FloatArray, squares: FloatArray) -> None:
        """Give the algorithm a step: rewards that are there, and totals of those just told."""
        step = self._sequences.step
        found = self._sequences.finish()
        if found.rewards.size:
            own, own_squares = self._rewards.totals(found.rewards, found.counts)
            missing = found.counts < step.counts
            own[missing] += sums
            own_squares[missing] += squares
            sums, squares = own, own_squares
        self.algorithm.absorb(step, sums, squares)
        self._propose()
        self._record()
        if told.total:
            self._advance()

    def stop(self, reason: Status) -> None:
        """End the search for a reason of the caller's own, such as `Status.INTERRUPTED`."""
        if not self.done:
            self.status = Status(reason)

    # Reports

    def _record(self) -> None:
        if self._first is None and self.algorithm.round >= 2:
            self._first = self._snapshot()
        pulls = self.pulls
        if pulls >= self._next_trace or self.done:
            self._next_trace = max(pulls * TRACE_GROWTH, pulls + 1)
            self._trace.append(self.latest())

    def _note_decisions(self) -> None:
        decisions = self.algorithm.decisions
        new = decisions != self._decisions_seen
        if new.any():
            pulls = int(self._sequences.used.sum())
            self._decided_after[new] = np.where(decisions[new] == 0, OPEN, pulls)
            self._decisions_seen = decisions.copy()

    def result(self) -> Result:
        """Return what is known now; may be called at any time."""
        last = self._snapshot()
        algorithm, trace = self.algorithm, self._trace
        guesses = algorithm.guesses()
        if self._sequences.used.any() and (not trace or trace[-1].pulls < self.pulls):
            trace = [*trace, self.latest()]
        sequences = self._sequences
        return Result(
            question=self.question,
            status=self.status,
            decisions=self.decisions,
            pulls_per_arm=sequences.pulled.copy(),
            means=self.means,
            intervals=np.column_stack([last.lower, last.upper]),
            thresholds=self._thresholds(),
            centre=self._centre(),
            round=algorithm.round,
            threshold_pulls=min(algorithm.threshold_pulls, self.pulls),  # history may serve it
            history_per_arm=sequences.history.copy(),
            unused=sequences.total - int(sequences.used.sum()),
            evidence=algorithm.evidence(),
            pulls_needed=algorithm.pulls_needed(),
            guesses=self._on_side(guesses.decisions),
            ranks=_ranks(guesses.suspicion, algorithm.undecided),
            decided_after=self._decided_after.copy(),
            trace=tuple(trace),
            first=self._first or last,
        )

    def progress(self) -> Progress:
        """Return how far the search is, without the cost of a whole result."""
        point = self.latest()
        needed = self.algorithm.pulls_needed()
        return Progress(
            pulls=self.told,
            round=point.round,
            n=self.question.n,
            undecided=point.undecided,
            threshold_lower=point.threshold_lower,
            threshold_upper=point.threshold_upper,
            pulls_needed=None if needed is None else float(needed.sum()),
            alike=self._look_alike(),
            worst=most_abnormal(
                self.means, self.algorithm.decisions != Decision.NORMAL, self.question.side
            ),
        )

    def _look_alike(self) -> bool:
        """Return whether all arms look alike and nothing would end such a search."""
        algorithm = self.algorithm  # as `Result.all_alike`, without its cost
        if not self.question.may_not_end or not algorithm.undecided.all():
            return False
        return look_alike(algorithm.means, algorithm.pulls)

    def latest(self) -> TracePoint:
        """Return the present moment as a point of the trace."""
        bound = next(iter(self._thresholds().values()))
        algorithm = self.algorithm
        quartiles = _quartiles(algorithm.evidence())
        return TracePoint(self.pulls, algorithm.round, self.undecided, *bound, *quartiles)

    def waiting_rewards(self) -> list[tuple[Label, float]]:
        """Return label and reward of all results that no step has used; history is left out."""
        return [(self.labels[arm], reward) for arm, reward in self._sequences.waiting_rewards()]

    def wait(self) -> None:
        """Raise: nothing else can bring the results that are missing."""
        raise ProtocolError(
            "A search cannot be run while tickets of it are out: tell or skip them first."
        )

    # In the user's units and on the user's side

    def _snapshot(self) -> Snapshot:
        lower, upper = self._rewards.ends(*self.algorithm.intervals())
        return Snapshot(
            self.algorithm.round, self.means, lower, upper, self.decisions, self._thresholds()
        )

    def _on_side(self, found: Decisions) -> Decisions:
        if self._rewards.mirrored:
            found[found == Decision.HIGH] = Decision.LOW
        return found

    def _thresholds(self) -> dict[str, Threshold]:
        rewards = self._rewards
        return {
            "lower" if rewards.mirrored else side: Threshold(
                rewards.in_units(estimate), *rewards.ends(lower, upper)
            )
            for side, (estimate, lower, upper) in self.algorithm.thresholds().items()
        }

    def _centre(self) -> tuple[float, float]:
        low, high = self._rewards.ends(*self.algorithm.centre())
        return float(low), float(high)


def check_prefetch(prefetch: float) -> float:
    """Return how far pulls may be made ahead, as a share of the results so far."""
    if not 0.0 <= check_number("prefetch", prefetch) < math.inf:
        raise InvalidParameter(f"prefetch must be at least 0 but got {prefetch}.")
    return prefetch


def check_raised(before: int | None, budget: int | None) -> None:
    """Raise if a budget is smaller than the one before."""
    if budget is not None:
        check_whole("budget", budget, least=0)
    if before is None and budget is not None:
        raise InvalidParameter(
            f"budget is unlimited and can only grow, so it cannot become {budget:,}."
        )
    if before is not None and budget is not None and budget < before:
        raise InvalidParameter(
            f"budget can only grow, from {before:,}, but got {budget:,}: start a new search."
        )


def history_rows(
    history: Recorded, question: Question, **columns: Any
) -> tuple[IntArray, FloatArray]:
    """Return the arm and the reward of each row of a history, checked."""
    read = read_rewards(history, bounds=question.bounds, worst=question.worst, **columns)
    index: dict[Label, int] = {str(label): i for i, label in enumerate(question.labels)}
    index |= {label: i for i, label in enumerate(question.labels)}  # labels of files are texts
    unknown = next((label for label in read.labels if label not in index), None)
    if unknown is not None:
        raise InvalidParameter(f"history has rewards of {unknown!r}, which is not an arm.")
    numbers = np.array([index[label] for label in read.labels], dtype=np.int64)
    return numbers[read.arms], read.rewards


def numbers_within(arms: IntArray) -> IntArray:
    """Return for each row how many rows of the same arm come before it.

    Examples
    --------
    >>> numbers_within(np.array([3, 1, 3, 3])).tolist()
    [0, 0, 1, 2]
    """
    order = np.argsort(arms, kind="stable")
    ordered = arms[order]
    found: IntArray = np.empty(arms.size, dtype=np.int64)
    found[order] = np.arange(arms.size) - np.searchsorted(ordered, ordered)
    return found


def _new_algorithm(question: Question, rng: np.random.Generator) -> Algorithm:
    chosen = question.algorithm
    cls: type[Algorithm] = get_algorithm(chosen) if isinstance(chosen, str) else chosen
    if not issubclass(cls, Algorithm):
        raise InvalidParameter(f"algorithm must be a name or a class of Algorithm but got {cls!r}.")
    a, b = question.bounds
    options = question.options
    check_options(cls, options)  # before a reserved name meets the parameter that it is
    for name in cls.lengths & options.keys():
        options[name] = check_number(name, options[name]) / (b - a)
    return create(
        cls,
        question.n,
        rule=rule_of(question),
        delta=question.delta,
        rng=rng,
        side="both" if question.side == "both" else "upper",
        error=question.error,
        goal=question.goal,
        **options,
    )


def _ranks(suspicion: FloatArray, undecided: BoolArray) -> IntArray:
    """Return each undecided arm's rank, 1 for the most suspicious one; 0 for the others."""
    arms = np.flatnonzero(undecided)
    ranks: IntArray = np.zeros(undecided.size, dtype=np.int64)
    ranks[arms[np.argsort(-suspicion[arms], kind="stable")]] = np.arange(1, arms.size + 1)
    return ranks


def _quartiles(evidence: FloatArray | None) -> list[float]:
    """Return the smallest value and the quartiles; each is the value of an arm."""
    if evidence is None:
        return []
    places = [(evidence.size - 1) * quarter // 4 for quarter in range(4)]
    found: list[float] = np.partition(evidence, places)[places].tolist()
    return found


def _check_different(names: list[str]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidParameter(f"Ticket {twice!r} appears twice in one call.")


def _frozen(pulls: Pulls) -> Pulls:
    """Return copies that a caller cannot write to, as the algorithm may hold the originals."""
    copies = Pulls(pulls.indices.copy(), pulls.counts.copy())
    for array in copies:
        array.setflags(write=False)
    return copies
