"""The ask-and-tell interface of a search: labels, bounds, sides and budget around an algorithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from oddarms.algorithms import (
    Algorithm,
    Decision,
    Decisions,
    Pulls,
    Threshold,
    create,
    get_algorithm,
    no_pulls,
)
from oddarms.algorithms._base import UNLIMITED
from oddarms.errors import InvalidParameter, ProtocolError, RewardRejected
from oddarms.problem import (
    FloatArray,
    IntArray,
    Label,
    Problem,
    Side,
    check_budget,
    check_number,
)
from oddarms.search._result import HistoryPoint, Result, Snapshot

_HISTORY_GROWTH = 1.05


class Search:
    """A search that you drive: `ask` which arms to pull, `tell` the rewards, until `done`.

    Use it where rewards come from elsewhere (a queue, people, a cluster); `oddarms.find` is the
    same loop around a function or object that can be called.

    Parameters
    ----------
    labels
        The arms' names, or their number.
    k, delta
        Outliers are at or above mean + k standard deviations of all arms' means; the whole
        answer is right with probability at least 1 - delta.
    algorithm
        A name of `oddarms.algorithms.available()`, or an `Algorithm` class.
    bounds
        All rewards lie within these; the guarantee rests on them.
    side
        "upper", "lower" (mean - k standard deviations and below) or "both".
    budget
        The search never asks for more than this many pulls in all.
    rng
        A seed or generator that decides the algorithm's random choices.
    **options
        The algorithm's own options.

    Examples
    --------
    >>> search = Search(["a", "b", "c", "d"], k=1, delta=0.1, algorithm="rr", batch=500)
    >>> truth = {"a": 0.0, "b": 0.1, "c": 0.0, "d": 1.0}
    >>> while not search.done:
    ...     pulls = search.ask()
    ...     arms = np.repeat(pulls.indices, pulls.counts)
    ...     search.tell([truth[search.labels[i]] for i in arms])
    >>> search.result().outliers
    ['d']
    """

    def __init__(
        self,
        labels: Sequence[Label] | int,
        *,
        k: float,
        delta: float,
        algorithm: str | type[Algorithm] = "spade",
        bounds: tuple[float, float] = (0.0, 1.0),
        side: Side = "upper",
        budget: int | None = None,
        rng: np.random.Generator | np.random.SeedSequence | int | None = None,
        **options: Any,
    ) -> None:
        self.problem = Problem(labels, k=k, delta=delta, bounds=bounds, side=side)
        self.budget = check_budget(budget)
        chosen = get_algorithm(algorithm) if isinstance(algorithm, str) else algorithm
        self.algorithm_name = algorithm if isinstance(algorithm, str) else chosen.__name__
        a, b = self.problem.bounds
        for name in chosen.lengths & options.keys():
            options[name] = check_number(name, options[name]) / (b - a)
        self.algorithm = create(
            chosen,
            self.problem.n,
            k=self.problem.k,
            delta=self.problem.delta,
            rng=np.random.default_rng(rng),
            side="both" if side == "both" else "upper",
            **options,
        )
        self.stopped = "running"
        self.total_pulls = 0
        self.imported: IntArray = np.zeros(self.problem.n, dtype=np.int64)
        self._next: Pulls
        self._asked = False
        self._history: list[HistoryPoint] = []
        self._next_history = 0.0
        self._first: Snapshot | None = None
        self._prepare()

    @property
    def labels(self) -> tuple[Label, ...]:
        """The arms' labels; `ask` names arms by their index here."""
        return self.problem.labels

    @property
    def done(self) -> bool:
        """True once there is nothing more to ask."""
        return self.stopped != "running"

    @property
    def undecided(self) -> int:
        """The number of arms still open."""
        return int(self.algorithm.undecided.sum())

    @property
    def decisions(self) -> Decisions:
        """What is known of each arm, without the cost of a whole result."""
        return self._decisions()

    @property
    def means(self) -> FloatArray:
        """Each arm's average reward, without the cost of a whole result."""
        means: FloatArray = self._in_units(self.algorithm.means)
        return means

    def ask(self) -> Pulls:
        """Return the next pulls: `counts[j]` rewards of arm `indices[j]` for each entry j.

        The same request is returned until its rewards are told.
        """
        if self.done:
            raise ProtocolError(f"ask() was called after the search had stopped: {self.stopped}.")
        self._asked = True
        return self._next

    @property
    def next_pulls(self) -> Pulls:
        """What `ask` would return, without asking; no entries once the search is done."""
        return no_pulls() if self.done else self._next

    def _prepare(self) -> None:
        """Find the next pulls, or why there are none."""
        left = UNLIMITED if self.budget is None else self.budget - self.total_pulls
        self._next = no_pulls() if self.algorithm.done else _frozen(self.algorithm.propose(left))
        self._asked = False
        if self._next.total == 0:
            self.stopped = "decided"
        elif self._next.total > left:
            self.stopped = "budget"

    def tell(self, rewards: npt.ArrayLike) -> None:
        """Take the rewards of the last `ask`, one per pull, in the order asked.

        Either all of them are absorbed or, where one breaks a rule, none.
        """
        pulls = self._waiting("tell")
        values = self._checked(rewards, pulls)
        entries = np.repeat(np.arange(pulls.counts.size), pulls.counts)
        scaled = self.scaled(values)
        sums: FloatArray = _sum_by(entries, scaled, pulls.counts.size)
        squares = _sum_by(entries, scaled * scaled, pulls.counts.size)
        self._absorb(pulls, sums, squares)

    def tell_totals(self, sums: npt.ArrayLike, squares: npt.ArrayLike) -> None:
        """Take, instead of single rewards, each entry's sum of rewards and of squared rewards."""
        pulls = self._waiting("tell_totals")
        s, q = self._numbers(sums), self._numbers(squares)
        self._check_totals(s, q, pulls)
        a, b = self.problem.bounds
        m, R = pulls.counts, b - a
        if self._mirrored:
            scaled, scaled_squares = (m * b - s) / R, (m * b * b - 2.0 * b * s + q) / (R * R)
        else:
            scaled, scaled_squares = (s - m * a) / R, (q - 2.0 * a * s + m * a * a) / (R * R)
        self._check_squares(scaled, scaled_squares, pulls)
        self._absorb(pulls, scaled, np.clip(scaled_squares, scaled * scaled / m, scaled))

    def tell_scaled_totals(self, sums: FloatArray, squares: FloatArray) -> None:
        """Take each entry's sum and sum of squares of rewards that `scaled` was called on.

        For callers that add rewards up one by one: nothing is lost to rounding where the bounds
        are narrow and far from 0.
        """
        pulls = self._waiting("tell_scaled_totals")
        self._check_squares(sums, squares, pulls)
        self._absorb(pulls, sums, squares)

    def add(self, history: Mapping[Any, npt.ArrayLike]) -> None:
        """Take rewards that were not asked for, such as a history: a list of them per arm.

        They count as evidence but not as pulls, and cost no budget. The guarantee stays if they
        were drawn like all others and how many of them an arm has was not decided by looking at
        them; arms may have any number, or be missing. Not every algorithm can use them.

        Examples
        --------
        >>> search = Search(["a", "b", "c"], k=1, delta=0.1, algorithm="spade")
        >>> search.add({"a": [0, 0, 1], "c": [1, 1, 1, 1]})
        >>> search.result().imported
        7
        """
        if self._asked:
            raise ProtocolError("add() was called between ask() and tell().")
        if self.done:
            raise ProtocolError(f"add() was called after the search had stopped: {self.stopped}.")
        index = {label: i for i, label in enumerate(self.labels)}
        lists: list[FloatArray] = [np.empty(0)] * self.problem.n
        for label, rewards in history.items():
            if label not in index:
                raise InvalidParameter(f"history must name arms of the search but has {label!r}.")
            values = np.atleast_1d(np.asarray(rewards))
            one_arm = Pulls(np.array([index[label]]), np.array([values.size]))
            lists[index[label]] = self.scaled(self._checked(values, one_arm))
        self.algorithm.remember(np.array([v.size for v in lists]), np.concatenate(lists))
        self.imported += [v.size for v in lists]
        self._prepare()

    def scaled(self, values: FloatArray) -> FloatArray:
        """Return rewards in [0, 1] as the algorithm sees them: the lower side is mirrored."""
        a, b = self.problem.bounds
        return (b - values if self._mirrored else values - a) / (b - a)

    @property
    def _mirrored(self) -> bool:
        return self.problem.side == "lower"

    def _waiting(self, method: str) -> Pulls:
        if not self._asked:
            raise ProtocolError(f"{method}() was called without calling ask().")
        return self._next

    def _checked(self, rewards: npt.ArrayLike, pulls: Pulls) -> FloatArray:
        values = self._numbers(rewards)
        if values.shape != (pulls.total,):
            raise self._rejected(
                f"rewards must be {pulls.total}, one per pull asked for, but got"
                f" {values.size if values.ndim == 1 else f'an array of shape {values.shape}'}."
            )
        a, b = self.problem.bounds
        wrong = ~((values >= a) & (values <= b))
        if wrong.any():
            j = int(np.flatnonzero(wrong)[0])
            arms = np.repeat(pulls.indices, pulls.counts)
            label = self.labels[int(arms[j])]
            error = self._rejected(
                f"rewards must lie within the bounds [{a:g}, {b:g}]"
                f" but arm {label!r} gave {values[j]:g}."
            )
            error.unabsorbed = [
                (self.labels[i], value)
                for i, value, bad in zip(arms.tolist(), values.tolist(), wrong, strict=True)
                if not bad
            ]
            raise error
        return values

    def _numbers(self, values: npt.ArrayLike) -> FloatArray:
        try:
            return np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            kind = type(values).__name__
            raise self._rejected(f"rewards must be numbers but got {kind} of others.") from None

    def _check_totals(self, sums: FloatArray, squares: FloatArray, pulls: Pulls) -> None:
        if sums.shape != pulls.counts.shape or squares.shape != pulls.counts.shape:
            raise self._rejected(
                f"totals must be {pulls.counts.size}, one per entry asked for,"
                f" but got {sums.size} sums and {squares.size} sums of squares."
            )
        a, b = self.problem.bounds
        m = pulls.counts
        slack = 1e-9 * m * max(abs(a), abs(b), b - a)
        ok = (sums >= m * a - slack) & (sums <= m * b + slack) & np.isfinite(squares)
        if not ok.all():
            j = int(np.flatnonzero(~ok)[0])
            raise self._rejected(
                f"rewards must lie within the bounds [{a:g}, {b:g}] but {m[j]} rewards of arm"
                f" {self.labels[int(pulls.indices[j])]!r} add up to {sums[j]:g}."
            )

    def _check_squares(self, sums: FloatArray, squares: FloatArray, pulls: Pulls) -> None:
        """Check that rewards in [0, 1] can have these sums and sums of squares."""
        m = pulls.counts
        slack = 1e-6 * m
        wrong = (squares > sums + slack) | (squares < sums * sums / m - slack)
        if wrong.any():
            label = self.labels[int(pulls.indices[np.flatnonzero(wrong)[0]])]
            raise self._rejected(
                f"totals of arm {label!r} must be those of rewards within the bounds, but no"
                " such rewards have this sum and this sum of squares."
            )

    def _rejected(self, message: str) -> RewardRejected:
        error = RewardRejected(message)
        error.result = self.result()
        return error

    def _absorb(self, pulls: Pulls, sums: FloatArray, squares: FloatArray) -> None:
        self.algorithm.absorb(pulls, sums, squares)
        self.total_pulls += pulls.total
        self._prepare()
        self._record()

    def _record(self) -> None:
        if self._first is None and self.algorithm.round >= 2:
            self._first = self._snapshot()
        if self.total_pulls >= self._next_history or self.done:
            self._next_history = max(self.total_pulls * _HISTORY_GROWTH, self.total_pulls + 1)
            self._history.append(self.latest())

    def stop(self, reason: str) -> None:
        """End the search for a reason of the caller's own, such as "interrupted"."""
        if not self.done:
            self.stopped = reason

    def result(self) -> Result:
        """Return what is known now; may be called at any time."""
        last = self._snapshot()
        history = self._history
        if self.total_pulls and (not history or history[-1].pulls < self.total_pulls):
            history = [*history, self.latest()]
        return Result(
            problem=self.problem,
            algorithm=self.algorithm_name,
            decisions=last.decisions,
            pulls_per_arm=self.algorithm.pulls.copy(),
            means=last.means,
            intervals=np.column_stack([last.lower, last.upper]),
            thresholds=last.thresholds,
            stopped=self.stopped,
            round=self.algorithm.round,
            threshold_pulls=self.algorithm.threshold_pulls,
            imported=int(self.imported.sum()),
            imported_per_arm=self.imported.copy(),
            evidence=self.algorithm.evidence(),
            history=tuple(history),
            first=self._first or last,
            last=last,
        )

    def latest(self) -> HistoryPoint:
        """Return the present moment as a point of the history."""
        bound = next(iter(self._thresholds().values()))
        return HistoryPoint(
            self.total_pulls,
            self.algorithm.round,
            self.undecided,
            *bound,
            *_quartiles(self.algorithm.evidence()),
        )

    def _snapshot(self) -> Snapshot:
        lower, upper = self.algorithm.intervals()
        if self._mirrored:
            lower, upper = upper, lower
        return Snapshot(
            round=self.algorithm.round,
            means=self._in_units(self.algorithm.means),
            lower=self._in_units(lower),
            upper=self._in_units(upper),
            decisions=self._decisions(),
            thresholds=self._thresholds(),
        )

    def _in_units(self, scaled: Any) -> Any:
        a, b = self.problem.bounds
        return b - (b - a) * scaled if self._mirrored else a + (b - a) * scaled

    def _decisions(self) -> Decisions:
        decisions = self.algorithm.decisions.copy()
        if self._mirrored:
            decisions[decisions == Decision.HIGH] = Decision.LOW
        return decisions

    def _thresholds(self) -> dict[str, Threshold]:
        found: dict[str, Threshold] = {}
        for side, (estimate, lower, upper) in self.algorithm.thresholds().items():
            if self._mirrored:
                found["lower"] = Threshold(*map(self._in_units, (estimate, upper, lower)))
            else:
                found[side] = Threshold(*map(self._in_units, (estimate, lower, upper)))
        return found


def _frozen(pulls: Pulls) -> Pulls:
    """Return copies that a caller cannot write to, as the algorithm may hold the originals."""
    copies = Pulls(pulls.indices.copy(), pulls.counts.copy())
    for array in copies:
        array.setflags(write=False)
    return copies


def _quartiles(evidence: FloatArray | None) -> list[float]:
    """Return the least and the quartiles of what is there; each is the value of an arm."""
    if evidence is None:
        return []
    places = [(evidence.size - 1) * quarter // 4 for quarter in range(4)]
    found: list[float] = np.partition(evidence, places)[places].tolist()
    return found


def _sum_by(entries: IntArray, values: FloatArray, size: int) -> FloatArray:
    return np.bincount(entries, values, minlength=size).astype(np.float64)
