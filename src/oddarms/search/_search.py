"""The one ask-and-tell machine: labels, bounds, sides, budget and workers around an algorithm.

Which reward is used for which bound
------------------------------------
The algorithm proposes *steps*, each so many rewards of some arms. Every arm has a sequence of
rewards with numbered *places*, and a ticket is an order to make the pull for one place: the reward
of an arm's s-th place is that arm's s-th reward, whoever makes the pull and whenever its result
arrives. A step takes the next places of its arms. Its rewards reach the algorithm together, once
the last of them is there; before that none of them touches a bound, an interval or a decision.
Results of places that no step wants yet wait for theirs. Those that none has wanted when the
search ends are counted in `Result.unused`.

A ticket is *lost* if it is given back (`skip`), if its lease runs out, or if its worker dies or is
interrupted while the pull is under way. Its place is then handed out again. Where both tickets
answer in the end, the first result has the place and the other one becomes a *spare*: it takes a
place whose reward is not there yet, in this step or a later one.

Rewards that nobody asked for are *imported* between two steps. SPADE adds them to what it knows.
ADE, RR and WRR cannot; a step of theirs that wants five rewards of an arm with three imported ones
takes those and two places.

Pulls ahead
-----------
Where all places of the step are out, `ask` hands out places of the steps that the algorithm
expects next (`Algorithm.outlook`), so that slow pulls do not hold up workers who have nothing to
do. What waits or is out ahead is at most max(ahead * told, min(PER_WORKER * workers, ahead *
expected)): told are the results so far, workers those who ask or have tickets out, and expected
the results that the search will take in all, as far as the algorithm can tell.

Why slow and early workers cannot bias the answer
-------------------------------------------------
Think of a table, fixed in advance, of the rewards of all places of all arms: independent, each
with its arm's mean, the same whoever makes the pull, when, and beside what. (So the speed of a
pull may depend on its reward, but a reward must not depend on speed, load or time.) Suppose that
no ticket is lost, and nothing is imported once pulls are out.

Claim: what the algorithm has after j steps is a function of the table alone. By induction: the
plan of step j + 1 is a function of what it has after j steps, and takes the next places of its
arms. When a result arrived decides only when a step ends, and how many places were handed out
ahead only which results are there already. The places of step j + 1 have not been used before, and
which ones they are was decided by those that were. So given all that was used before, its rewards
are independent with their arms' means. That is all that the algorithms' proofs use.

The guarantee speaks of all steps at once. So one may stop, or look, at any moment, even one chosen
by looking at results that no step has; and though with a budget early results that no step wants
use it up, so that speed may decide at which step the search ends, it does not decide what is known
there. Two things are fair only at the end of a search, or where speed does not depend on the reward
and nobody stops it by looking at results of an unfinished step: a single e-value
(`Result.evidence`), and the shares of wrong names where ``error="fdr"``.

What losses mean
----------------
If neither speed nor loss depends on the reward, condition on all of them: the rewards are as they
were, and which ticket serves a place is decided without looking at their rewards. Nothing changes.

If speed does depend on the reward, so do losses by lease, by kill and by interruption, as slow
pulls are hit more often. Each of them redraws a reward, and not a fair sample of rewards. A few in
a long search shift an arm's mean by at most (its tickets lost)/(its pulls); regular ones, with
pulls about as long as the time between them, void the guarantee. So leases must be longer than the
longest pull, and nobody should give a ticket back because it takes long.

If loss itself depends on the reward - a test that hangs when it fails, an expert who does not
answer when in doubt - and a lost ticket never answers, what is estimated is the mean of the
rewards that come back. Report such pulls as a reward (a timeout as the worst one) rather than lose
them.

An import while pulls are out falls between two steps that the speed of these pulls decides. So
where speed depends on the reward, import before the first `ask`, or while no ticket is out.

Revisions
---------
`revise` changes margin, floor or indifference on the samples that are there, where the algorithm
is `revisable`, and of any algorithm a budget to a larger one; a search without a budget may get
one, which ends it as Ctrl-C would. What the answer is worth after that is said at the algorithm:
for SPADE 1 - 3 delta once margin or floor were changed after the first result
(`Question.revised`), for indifference and budget nothing changes. Nothing that was told is lost:
results that no step has taken wait, also when every arm is decided, as another question may want
them. A search that had ended then goes on, and one that has its answer ends.

The step in progress goes on as it was planned, even if the answer is there and it is finished only
after another revision. So a step's places are decided by what was used before it, also if somebody
chooses a margin by looking at rewards that the step has so far. Rewards that wait for *later* steps
are another matter: who looks at single results (`Study.trials`) and chooses by them decides by
rewards which places come before them. `result` shows none of these; choose by that. And where
speed depends on the reward, revise while no ticket is out, as for an import.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from oddarms.algorithms import (
    Algorithm,
    Decision,
    Decisions,
    Pulls,
    create,
    get_algorithm,
    no_pulls,
)
from oddarms.algorithms._base import UNLIMITED, check_options
from oddarms.errors import InvalidParameter, ProtocolError, RewardRejected
from oddarms.problem import (
    FloatArray,
    IntArray,
    Label,
    Question,
    check_number,
    check_whole,
)
from oddarms.randomness import Rng, generator_of
from oddarms.rules import rule_of
from oddarms.search._decided import DecisionTimes
from oddarms.search._places import Outlook, Place, Sequences
from oddarms.search._progress import Progress, look_alike, most_abnormal
from oddarms.search._result import Result, Snapshot, TracePoint
from oddarms.search._revising import DECIDING, changed, revision
from oddarms.search._rewards import Rewards
from oddarms.search._saved import frozen_state, guarded, restore_state
from oddarms.search._step import Out
from oddarms.search._tickets import Status, Ticket, Tickets
from oddarms.search._view import (
    FindRows,
    centre,
    decisions,
    later_intervals,
    on_side,
    snapshot,
    thresholds,
    trace_point,
)
from oddarms.tables import Missing, Recorded, recorded_rewards

AHEAD = 0.2
"""The share of the results so far that may wait, or be out, ahead of the step in progress."""
PER_WORKER = 24
"""Early on, results that may wait or be out ahead for each worker."""
EARLY_ROWS = 20
"""Pulls of each arm that are expected before an algorithm can tell."""
TRACE_GROWTH = 1.05


class Search:
    """A search that you drive: `ask` for pulls, `tell` their rewards, until it is `done`.

    Use it where rewards come from elsewhere (a queue, people, a cluster); `oddarms.find` is the
    same loop around things that can be called. The module's text says which reward is used when.

    Parameters
    ----------
    question
        What is asked; or the arms' labels or number, with the question's other words as keywords.
    rng
        Decides the algorithm's random choices.
    **words
        Of a `Question`, and options of the algorithm.

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
        self.told = 0
        """Results of tickets or steps within the budget, used yet or not."""
        self.beyond = 0
        """Results of tickets that came when the budget was used up; they are not used."""
        self.taken = 0
        """All results, the imported ones included."""
        self.total_pulls = 0
        """Pulls that the algorithm has the rewards of; some of them may have been imported."""
        self.imported: IntArray = np.zeros(self.question.n, dtype=np.int64)
        self._rewards = Rewards(self.question)
        self._sequences = Sequences(self.question.n)
        self._imports: list[tuple[IntArray, FloatArray]] = []
        self._free = 0  # imported rewards that are used as pulls, and cost no budget
        self._unused = 0
        # what is expected of the search, found once in a step: results in all, and the next steps
        self._needed: float | None = None
        self._outlook: Outlook | None = None
        self._asked = False
        self._out: dict[str, Place] = {}
        self._out_places: Out = {}
        self._last_id = 0
        self._trace: list[TracePoint] = []
        self._next_trace = 0.0
        self._first: Snapshot | None = None
        self._decided = DecisionTimes(self.question.n)
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
        return decisions(self.algorithm, self._rewards)

    @property
    def means(self) -> FloatArray:
        """Each arm's average reward, without the cost of a whole result."""
        means: FloatArray = self._rewards.in_units(self.algorithm.means)
        return means

    @property
    def pulls(self) -> int:
        """Pulls that were made and that the algorithm has the rewards of; imported ones are not."""
        return int(self._sequences.used.sum())

    @property
    def unused(self) -> int:
        """Results that no step has taken, those of the step in progress not counted."""
        imported = sum(rewards.size for _, rewards in self._imports)
        return self._unused + self._sequences.waiting + imported

    @property
    def in_step(self) -> int:
        """Results that have arrived for the step in progress."""
        step = self._sequences.step
        return step.total - step.missing

    # Tickets

    def ask(self, n: int = 1, *, ahead: float = AHEAD) -> Tickets:
        """Hand out up to n pulls.

        Fewer, or none, come back where there is nothing to do until results arrive; `status` of
        the list says whether to wait for them ("waiting") or to stop.

        Parameters
        ----------
        n
            How many at most.
        ahead
            How far pulls of later steps may be handed out, as a share of the results so far;
            0 for not at all.
        """
        check_whole("n", n, least=1)
        tickets = []
        for arm, place in self.open_places(n, self._out_places, ahead=ahead):
            self._last_id += 1
            ticket = Ticket(str(self._last_id), self.labels[arm], arm, place)
            self._out[ticket.id] = (arm, place)
            self._out_places.setdefault(arm, set()).add(place)
            tickets.append(ticket)
        status = self.status_with(self._out_places, ahead=ahead)
        if status.final:
            self.stop(status)
        return Tickets(tickets, status, self.decided)

    def tell(self, ticket: Ticket | str, reward: float) -> None:
        """Take the reward of a ticket; one that is refused changes nothing."""
        value = self.check_reward(reward)
        self.take(*self._returned(ticket), value)

    def tell_many(self, results: Iterable[tuple[Ticket | str, float]]) -> None:
        """Take several rewards, all of them or, where one breaks a rule, none."""
        checked = [(self._known(ticket), self.check_reward(reward)) for ticket, reward in results]
        _check_different([name for name, _ in checked])
        for name, value in checked:
            self.take(*self._returned(name), value)

    def skip(self, ticket: Ticket | str, reason: str = "") -> None:
        """Give a ticket back without a result; its place is handed out again.

        Not because it takes long or may turn out badly: what comes back would be a selection.
        """
        self.skip_many([ticket], reason)

    def skip_many(self, tickets: Iterable[Ticket | str], reason: str = "") -> None:
        """Give several tickets back; a study keeps the reason."""
        del reason
        names = [self._known(ticket) for ticket in tickets]
        _check_different(names)
        for name in names:
            self._returned(name)

    def check_reward(self, reward: Any) -> float:
        """Return a reward as a number, if it is one within the bounds."""
        try:
            return self._rewards.checked_one(reward)
        except RewardRejected as error:
            error.result = self.result()
            raise

    def has_used(self, ticket: Ticket) -> bool:
        """Return whether the step that a ticket's place belongs to is complete."""
        return ticket.place < int(self._sequences.used[ticket.index])

    def _known(self, ticket: Ticket | str) -> str:
        name = ticket.id if isinstance(ticket, Ticket) else ticket
        if name not in self._out:
            raise InvalidParameter(
                f"ticket must be one that is out but {name!r} was told, given back, or never"
                " handed out."
            )
        if isinstance(ticket, Ticket) and (
            self._out[name] != (ticket.index, ticket.place)
            or self.labels[ticket.index] != ticket.arm
        ):
            raise InvalidParameter(
                f"ticket must be one of this search but {name} here is for another pull."
            )
        return name

    def _returned(self, ticket: Ticket | str) -> Place:
        arm, place = self._out.pop(self._known(ticket))
        self._out_places[arm].discard(place)
        if not self._out_places[arm]:
            del self._out_places[arm]
        return arm, place

    # Whole steps

    def ask_step(self) -> Pulls:
        """Return all pulls that the step in progress misses: `counts[j]` of arm `indices[j]`.

        The same request is returned until its rewards are told.
        """
        if self.done:
            raise ProtocolError(
                f"ask_step() was called after the search had stopped: {self.status}."
            )
        if self._out:
            raise ProtocolError("ask_step() was called while tickets are out: tell or skip them.")
        self._asked = True
        return self._sequences.step.rest()

    def tell_step(self, rewards: npt.ArrayLike) -> None:
        """Take the rewards of the last `ask_step`, one per pull, in the order asked.

        Either all of them are absorbed or, where one breaks a rule, none.
        """
        pulls = self._waiting_step("tell_step")
        values = self._checked(rewards, pulls)
        self._take_rest(pulls, *self._rewards.totals(values, pulls))

    def tell_step_totals(self, sums: npt.ArrayLike, squares: npt.ArrayLike) -> None:
        """Take, instead of single rewards, each entry's sum of rewards and of squared rewards."""
        pulls = self._waiting_step("tell_step_totals")
        try:
            totals = self._rewards.checked_totals(sums, squares, pulls)
        except RewardRejected as error:
            error.result = self.result()
            raise
        self._take_rest(pulls, *totals)

    def _checked(self, rewards: npt.ArrayLike, pulls: Pulls) -> FloatArray:
        try:
            return self._rewards.checked(rewards, pulls)
        except RewardRejected as error:
            error.result = self.result()
            raise

    def _waiting_step(self, method: str) -> Pulls:
        if not self._asked:
            raise ProtocolError(f"{method}() was called without calling ask_step().")
        return self._sequences.step.rest()

    def _take_rest(self, pulls: Pulls, sums: FloatArray, squares: FloatArray) -> None:
        self.told += pulls.total
        self.taken += pulls.total
        self._sequences.step.add_rest(sums, squares)
        self._advance()

    # Imports

    def import_rewards(
        self,
        rewards: Recorded,
        *,
        arm: str | None = None,
        reward: str | None = None,
        labels: Iterable[Label] | None = None,
        missing: Missing = "stop",
    ) -> int:
        """Take rewards that nobody asked for; return how many.

        They count as evidence but not as pulls, and cost no budget. The guarantee stays if they
        were drawn like all others and how many of them an arm has was not decided by looking at
        them; arms may have any number, or be missing. Where the speed of a pull depends on its
        reward, import before the first `ask`, or while no ticket is out.

        Parameters
        ----------
        rewards
            Lists or arrays by label, a data frame with a row per reward or with counts (the columns
            ``successes`` and ``trials``, in an order that `rng` of the search decides), or an
            array with a row for each of the `labels`.
        arm, reward
            The frame's columns of labels and of rewards, as for `oddarms.find`.
        labels
            Of the array's rows.
        missing
            What a missing reward means: "stop", "skip" or "worst", as for `oddarms.find`.

        Examples
        --------
        >>> search = Search(["a", "b", "c"], k=1, delta=0.1)
        >>> search.import_rewards({"a": [0, 0, 1], "c": [1, 1, 1, 1]})
        7
        >>> search.result().imported
        7
        """
        rewards = self._recorded(rewards, arm, reward, labels, missing)
        index = {label: i for i, label in enumerate(self.labels)}
        unknown = next((label for label in rewards if label not in index), None)
        if unknown is not None:
            raise InvalidParameter(f"rewards must name arms of the search but have {unknown!r}.")
        arms, values = [], []
        for label, given in rewards.items():
            array = np.atleast_1d(np.asarray(given))
            one_arm = Pulls(np.array([index[label]]), np.array([array.size]))
            values.append(self._checked(array, one_arm))
            arms.append(np.full(array.size, index[label]))
        if not values:
            return 0
        self.take_import(np.concatenate(arms), np.concatenate(values))
        return sum(array.size for array in values)

    def _recorded(
        self,
        rewards: Recorded,
        arm: str | None,
        reward: str | None,
        labels: Iterable[Label] | None,
        missing: Missing,
    ) -> Mapping[Any, npt.ArrayLike]:
        plain = (arm, reward, labels, missing) == (None, None, None, "stop")
        if isinstance(rewards, Mapping) and plain:
            return rewards
        return recorded_rewards(
            rewards,
            arm=arm,
            reward=reward,
            labels=labels,
            missing=missing,
            worst=self.question.worst,
            rng=self.algorithm.rng,
        )

    def end(self, rewards: Mapping[Any, npt.ArrayLike]) -> None:
        """Take the last rewards there are, too few for the step in progress, and end the search.

        They are imported instead of that step: SPADE uses them all, and other algorithms none, so
        that `Result.unused` counts them. How many are left of an arm was decided by how many it
        had and by the rewards used before, not by looking at them, so the guarantee stays. The
        status is "ended", or "decided" if they decide every arm.
        """
        if self._out:
            raise ProtocolError("end() was called while tickets are out: tell or skip them.")
        self._asked = False
        self.import_rewards(rewards)
        self.stop(Status.ENDED)

    def take_import(self, arms: IntArray, values: FloatArray) -> None:
        """Take checked rewards that nobody asked for, by the arms' numbers."""
        self.taken += arms.size
        self.imported += np.bincount(arms, minlength=self.question.n)
        if self.status is Status.BUDGET:
            self.status = Status.RUNNING  # they cost none of it, and may be all that is needed
        between_steps = not self.done and self._sequences.step.untouched and not self._asked
        if self.algorithm.takes_imports:
            self._imports.append((arms, values))
            if between_steps:
                self._propose()
        else:
            self._free += arms.size
            self._sequences.take_imported(arms, self._rewards.scaled(values))
            if between_steps and self._sequences.step.total:
                self._sequences.begin(self._sequences.step.pulls)
            elif between_steps:
                self._propose()
        self._advance()

    # Revisions

    def revise(self, question: Question | None = None, /, **changes: Any) -> None:
        """Ask a somewhat different question of the same arms, on the samples that are there.

        Margin, floor and indifference may be changed, where the algorithm can decide anew (SPADE
        can). The budget may become larger, or None, and a search without one may be given one. The
        search goes on, or ends, or was over and goes on. Once margin or floor were changed after
        the first result, the answer is right with probability at least 1 - 3 delta; indifference
        and budget cost nothing. The module's text says by what they may be chosen.

        Parameters
        ----------
        question
            The other question, whole; by default that of the search.
        **changes
            Words of it that are changed.

        Examples
        --------
        >>> truth = [0.0, 0.1, 0.2, 0.9]
        >>> search = Search(4, k=1, delta=0.1)
        >>> while not search.done:
        ...     pulls = search.ask_step()
        ...     search.tell_step(np.array(truth)[pulls.indices].repeat(pulls.counts))
        >>> search.result().outliers
        [3]
        >>> search.revise(floor=0.95)
        >>> search.result().outliers, search.status.value
        ([], 'decided')
        """
        wanted = changed(question or self.question, changes)
        new = revision(self.question, wanted, self.algorithm, looked=self.taken > 0, told=self.told)
        if new == self.question:
            return
        if any(getattr(new, word) != getattr(self.question, word) for word in DECIDING):
            a, b = new.bounds
            indifference = new.indifference / (b - a)
            self.algorithm.revise(rule_of(new), indifference, revised=new.revised)
        limited = self.question.budget is None and new.budget is not None
        self.question = new
        self._go_on(limited=limited)

    def _go_on(self, *, limited: bool) -> None:
        """Find out where the search stands under another question, perhaps with a new limit."""
        step = self._sequences.step
        self._needed = self._outlook = None
        self.status = Status.DECIDED if self.algorithm.done else Status.RUNNING
        self._note_decisions()
        untouched = step.untouched and not self._asked
        wanted = step.total == 0 or (untouched and (limited or bool(self._imports)))
        if not self.done and wanted:
            self._propose()
        if self._trace and self._trace[-1].pulls == self.pulls:
            self._trace[-1] = self.latest()
        self._advance()

    # Places, for those who keep the tickets themselves

    def take(self, arm: int, place: int, reward: float) -> None:
        """Take the checked reward of a place of an arm, or count it as beyond the budget."""
        self.taken += 1
        if self.question.budget is not None and self.told >= self.question.budget:
            self.beyond += 1
            return
        self.told += 1
        if self._is_over:
            self._unused += 1  # there is no step to wait for
            return
        self._sequences.take(arm, place, self._rewards.scaled_one(reward))
        self._advance()

    def open_places(self, n: int, out: Out, *, ahead: float = AHEAD) -> list[Place]:
        """Return up to n places to be pulled now, given those that are out."""
        check_ahead(ahead)
        if self.done:
            return []
        number_out = sum(map(len, out.values()))
        workers = n + number_out
        if self.question.budget is not None:
            n = min(n, self.question.budget - self.told - number_out)
        if n <= 0:
            return []
        found = self._sequences.open_in_step(n, out)
        if len(found) < n and ahead > 0.0:
            room = self._room_ahead(ahead, workers)
            if self._outlook is None:
                self._outlook = Outlook(self.algorithm.outlook())
            found += self._sequences.open_ahead(n - len(found), out, self._outlook, room)
        return found

    def _room_ahead(self, ahead: float, workers: int) -> float:
        """Return how many results may wait or be out ahead of the step.

        To hide a pull that takes many times as long as others, each worker must find as many
        others to make meanwhile. Early in a search that is much more than a share of what is
        there, and sure to be used; so the share is then that of the results expected in all.
        """
        if self._needed is None:
            needed = self.algorithm.pulls_needed()
            rows = EARLY_ROWS * self.question.n
            self._needed = self.total_pulls + (rows if needed is None else float(needed.sum()))
        early = min(PER_WORKER * workers, ahead * self._needed)
        return max(ahead * self.told, early)

    def status_with(self, out: Out, *, ahead: float = AHEAD) -> Status:
        """Return where the search stands, given the places that are out."""
        if self.done or self.open_places(1, out, ahead=ahead):
            return self.status
        # the step needs pulls: if none is out and none may be handed out, the budget is in the way
        return Status.WAITING if any(out.values()) else Status.BUDGET

    # Steps

    def _propose(self) -> None:
        """Give the algorithm what was imported, and find the next step or why there is none."""
        while self._imports and not self.algorithm.done:
            arms, values = self._imports.pop(0)
            order = np.argsort(arms, kind="stable")
            counts = np.bincount(arms, minlength=self.question.n)
            self.algorithm.absorb_imports(counts, self._rewards.scaled(values[order]))
        budget = self.question.budget
        allowed = UNLIMITED if budget is None else min(budget + self._free, UNLIMITED)
        left = allowed - self.total_pulls
        pulls = no_pulls() if self.algorithm.done else _frozen(self.algorithm.propose(left))
        self._asked = False
        self._needed = self._outlook = None
        self._note_decisions()
        if pulls.total == 0:
            self.status = Status.DECIDED
        elif pulls.total > left:
            self.status = Status.BUDGET
        self._sequences.begin(no_pulls() if self.done else pulls)

    def _advance(self) -> None:
        """Give the algorithm every step that is complete."""
        while not self.done and self._sequences.step.missing == 0:
            pulls, sums, squares = self._sequences.finish()
            self.algorithm.absorb(pulls, sums, squares)
            self.total_pulls += pulls.total
            self._propose()
            self._record()
        if self._is_over:
            self._unused = self.unused  # only count what no step has taken
            self._sequences.forget()
            self._imports = []

    @property
    def _is_over(self) -> bool:
        """True if no step will follow, whatever comes: a larger budget, or another question."""
        return self.status is Status.DECIDED and not self.algorithm.revisable

    def stop(self, reason: Status) -> None:
        """End the search for a reason of the caller's own, such as `Status.INTERRUPTED`."""
        if reason not in set(Status):
            known = ", ".join(Status)
            raise InvalidParameter(f"reason must be one of {known} but got {reason!r}.")
        if not self.done:
            self.status = Status(reason)

    # Reports

    def _record(self) -> None:
        if self._first is None and self.algorithm.round >= 2:
            self._first = snapshot(self.algorithm, self._rewards)
        pulls = self.pulls
        if pulls >= self._next_trace or self.done:
            self._next_trace = max(pulls * TRACE_GROWTH, pulls + 1)
            self._trace.append(self.latest())

    def _note_decisions(self) -> None:
        self._decided.note(self.algorithm.decisions, self.total_pulls)

    def result(self) -> Result:
        """Return what is known now; may be called at any time."""
        last = snapshot(self.algorithm, self._rewards)
        ends = np.column_stack([last.lower, last.upper])
        return self._known_of(ends, first=self._first or last, last=last)

    def outline(self) -> tuple[Result, FindRows]:
        """Return what is known now at less cost, and what finds the intervals of some arms later.

        The intervals of the result itself have no ends.
        """
        ends = np.tile([-np.inf, np.inf], (self.question.n, 1))
        return self._known_of(ends), later_intervals(self.algorithm, self._rewards)

    def _known_of(self, intervals: FloatArray, **snapshots: Snapshot) -> Result:
        algorithm, rewards, trace = self.algorithm, self._rewards, self._trace
        if self.total_pulls and (not trace or trace[-1].pulls < self.pulls):
            trace = [*trace, self.latest()]
        return Result(
            question=self.question,
            status=self.status,
            decisions=decisions(algorithm, rewards),
            pulls_per_arm=self._sequences.used.copy(),
            means=rewards.in_units(algorithm.means),
            intervals=intervals,
            thresholds=thresholds(algorithm, rewards),
            centre=centre(algorithm, rewards),
            round=algorithm.round,
            threshold_pulls=min(algorithm.threshold_pulls, self.pulls),  # imports may serve it
            imported_per_arm=self.imported.copy(),
            unused=self.unused + self.in_step,
            beyond=self.beyond,
            evidence=algorithm.evidence(),
            pulls_needed=algorithm.pulls_needed(),
            guesses=on_side(algorithm.guesses(), rewards),
            doubts=algorithm.doubts(),
            decided_after=self._decided.after.copy(),
            trace=tuple(trace),
            **snapshots,
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
                self._rewards.in_units(self.algorithm.means),
                self.algorithm.decisions != Decision.NORMAL,
                self.question.side,
            ),
        )

    def _look_alike(self) -> bool:
        """Return whether all arms look alike, where nothing would end such a search."""
        asked, algorithm = self.question, self.algorithm  # as `Result.all_alike`, at no cost
        if asked.margin > 0.0 or asked.indifference > 0.0 or asked.rule != "sigma":
            return False
        everything_open = bool(algorithm.undecided.all())
        return everything_open and look_alike(algorithm.means, algorithm.pulls)

    def wait_for_others(self, seconds: float) -> None:
        """Refuse to wait: whoever drives a search in memory has all its tickets."""
        del seconds
        raise ProtocolError(
            "a search must be driven when no tickets of it are out elsewhere but some are: tell or"
            " skip them."
        )

    def latest(self) -> TracePoint:
        """Return the present moment as a point of the trace."""
        return trace_point(self.algorithm, self._rewards, self.pulls)

    # As bytes

    def to_bytes(self) -> bytes:
        """Return the whole state but the question, in a size that goes with the arms.

        Tickets that are out are not part of it: to whoever reads it, their places are open again.
        """
        return frozen_state(self)

    @classmethod
    def from_bytes(cls, question: Question, data: bytes) -> Search:
        """Return the search that `to_bytes` was called on; the question is kept by the caller."""
        search = (_SavedSearch if cls is Search else cls)(question)
        restore_state(search, data)
        return search


class _SavedSearch(Search):
    """A search whose state was read: whatever fails, as its figures do not fit, is a sentence."""

    ask = guarded(Search.ask)
    tell = guarded(Search.tell)
    tell_many = guarded(Search.tell_many)
    skip_many = guarded(Search.skip_many)
    ask_step = guarded(Search.ask_step)
    tell_step = guarded(Search.tell_step)
    tell_step_totals = guarded(Search.tell_step_totals)
    take = guarded(Search.take)
    take_import = guarded(Search.take_import)
    open_places = guarded(Search.open_places)
    revise = guarded(Search.revise)
    result = guarded(Search.result)
    outline = guarded(Search.outline)
    progress = guarded(Search.progress)
    latest = guarded(Search.latest)


def check_ahead(ahead: float) -> float:
    """Return how far pulls may be made ahead, a share of the results so far."""
    if not 0.0 <= check_number("ahead", ahead) < math.inf:
        raise InvalidParameter(f"ahead must be a share of at least 0 but got {ahead}.")
    return ahead


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
        revised=question.revised,
        **options,
    )


def _check_different(names: list[str]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidParameter(f"tickets must be different but {twice} appears twice.")


def _frozen(pulls: Pulls) -> Pulls:
    """Return copies that a caller cannot write to, as the algorithm may hold the originals."""
    copies = Pulls(pulls.indices.copy(), pulls.counts.copy())
    for array in copies:
        array.setflags(write=False)
    return copies
