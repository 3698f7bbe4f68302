"""Recorded rewards, each used once; or drawn with replacement, for simulations."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from oddarms.algorithms import Algorithm, get_algorithm
from oddarms.arms._simulated import SimulatedArms
from oddarms.errors import InvalidParameter, PullFailed
from oddarms.problem import FloatArray, IntArray
from oddarms.tables import reward_array

Population = Literal["unlimited", "rows"]


class Table(SimulatedArms):
    """Arms with rewards that were recorded earlier, each of which is used at most once.

    A pull of an arm is the next of its rows, in a random order that is decided before the first
    one. A search ends when it is decided, or when an arm has too few rows left for the next step:
    then the rows that are left are used as far as the algorithm can, the result says what is
    decided, and its status is "ended". Its `pulls` are the rows that the search asked for, and
    `imported` those that it did not ask for and got in the end.

    The guarantee of the search stays if the rows of an arm are independent rewards with its mean,
    and how many there are was not decided by looking at them.

    Parameters
    ----------
    records
        A mapping from label to that arm's recorded rewards.
    replay
        True draws with replacement, without end: the rows stand for the arm's distribution. This is
        for simulations (`oddarms.simulate`, `oddarms.experiments`), of how a search would do on
        arms like these. It proves nothing about the arms: a few rows drawn again and again look
        like any number of samples.
    population
        Whose mean is asked for. "unlimited": that of the distribution the rows were drawn from.
        "rows": that of the rows; they are all there is, as in an audit of so many invoices. Then
        no assumption about the rows is needed, `oddarms.find` uses the algorithm "census", and an
        arm is known for certain once all its rows were seen.
    rng
        Decides the order of the rows: a generator or a seed. Without one, the ``rng`` of
        `oddarms.find` does.

    Attributes
    ----------
    means
        The averages of the records: the true means where the population is the rows, or they are
        replayed, and estimates otherwise.
    sizes
        How many rows each arm has.

    Examples
    --------
    >>> table = Table({"ann": [0, 0, 1, 1], "bob": [1, 1]}, rng=1)
    >>> table.means.tolist(), table.rewards_left.tolist()
    ([0.5, 1.0], [4, 2])
    >>> sorted(table.pull([0], [4]).tolist()), table.rewards_left.tolist()
    ([0.0, 0.0, 1.0, 1.0], [0, 2])
    """

    def __init__(
        self,
        records: Mapping[Any, npt.ArrayLike],
        *,
        replay: bool = False,
        population: Population = "unlimited",
        rng: np.random.Generator | int | None = None,
    ) -> None:
        rewards = {
            label: reward_array(f"records of arm {label!r}", values)
            for label, values in records.items()
        }
        for label, values in rewards.items():
            if values.size == 0:
                raise InvalidParameter(
                    f"records of arm {label!r} must be a list of numbers but it is empty: leave the"
                    " arm out to ask about the others."
                )
            wrong = values[~np.isfinite(values)]
            if wrong.size:
                raise InvalidParameter(
                    f"records of arm {label!r} must be finite numbers but one is {wrong[0]}."
                )
        super().__init__([v.mean() for v in rewards.values()], labels=list(rewards), rng=rng)
        self.replay = replay
        self.population = _check_population(population, replay=replay)
        self.sizes: IntArray = np.array([v.size for v in rewards.values()], dtype=np.int64)
        self._rewards: FloatArray = np.concatenate(list(rewards.values()))
        self._starts = np.cumsum(self.sizes) - self.sizes
        self._used: IntArray = np.zeros(self.sizes.size, dtype=np.int64)
        self._order: IntArray | None = None  # of all rows, arm after arm; found at the first pull

    @classmethod
    def from_columns(
        cls,
        labels: npt.ArrayLike,
        rewards: npt.ArrayLike,
        *,
        replay: bool = False,
        population: Population = "unlimited",
        rng: np.random.Generator | int | None = None,
    ) -> Table:
        """Return a table from two columns, an arm and a reward per row, in any order of rows."""
        names: npt.NDArray[Any] = np.asarray(labels)
        values = np.asarray(rewards, dtype=np.float64)
        if names.shape != values.shape or names.ndim != 1:
            raise InvalidParameter(
                f"labels and rewards must be columns of one length but have {names.shape}"
                f" and {values.shape}."
            )
        unique, codes = np.unique(names, return_inverse=True)
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=unique.size))[:-1]
        records = dict(zip(unique.tolist(), np.split(values[order], ends), strict=True))
        return cls(records, replay=replay, population=population, rng=rng)

    @property
    def endless(self) -> bool:
        """Whether rewards are drawn with replacement."""
        return self.replay

    @property
    def rewards_left(self) -> IntArray | None:
        """How many rows of each arm were not used yet; None where they are drawn again."""
        return None if self.replay else self.sizes - self._used

    def seeded(self, rng: np.random.Generator) -> Self:
        """Return the table with no row used, in an order that `rng` decides.

        One with a generator of its own keeps that, and its order.
        """
        if self.replay:
            return super().seeded(rng)
        if self._rng is not None and self._order is None:
            self._order = self._shuffled()
        table = copy(self)
        table._rng = rng if self._rng is None else self._rng
        table._order = None if self._rng is None else self._order
        table._used = np.zeros_like(self._used)
        return table

    def _draw(self, arms: IntArray) -> FloatArray:
        if self.replay:
            rows = self._starts[arms] + self.rng.integers(self.sizes[arms])
        else:
            rows = self._next_rows(arms)
        drawn: FloatArray = self._rewards[rows]
        return drawn

    def _next_rows(self, arms: IntArray) -> IntArray:
        if self._order is None:
            self._order = self._shuffled()
        wanted = np.bincount(arms, minlength=self.sizes.size)
        self._check_left(wanted)
        grouped = np.argsort(arms, kind="stable")
        before = np.cumsum(wanted) - wanted
        places = np.empty(arms.size, dtype=np.int64)
        places[grouped] = np.arange(arms.size) - np.repeat(before, wanted)
        rows: IntArray = self._order[self._starts[arms] + self._used[arms] + places]
        self._used = self._used + wanted
        return rows

    def _shuffled(self) -> IntArray:
        arms = np.repeat(np.arange(self.sizes.size), self.sizes)
        return np.lexsort((self.rng.random(arms.size), arms))

    def _check_left(self, wanted: IntArray) -> None:
        short = np.flatnonzero(wanted > self.sizes - self._used)
        if short.size:
            i = int(short[0])
            raise PullFailed(
                f"arm {self.labels[i]!r} must not be pulled more often than it has rows but of its"
                f" {self.sizes[i]} rows {self._used[i]} are used and {wanted[i]} more were asked"
                " for: Table(records, replay=True) draws them again, for simulations.",
                self.labels[i],
            )


def _check_population(population: str, *, replay: bool) -> Population:
    if population not in get_args(Population):
        raise InvalidParameter(f"population must be 'unlimited' or 'rows' but got {population!r}.")
    if population == "rows" and replay:
        raise InvalidParameter(
            "replay must be left out where population is 'rows' but got True: what is drawn again"
            " and again does not come to an end."
        )
    return population  # type: ignore[return-value]


def check_fits(source: object, algorithm: str | type[Algorithm]) -> None:
    """Refuse an algorithm that is not for this source: the census, where rewards do not end."""
    from oddarms.algorithms._census import Census

    cls = get_algorithm(algorithm) if isinstance(algorithm, str) else algorithm
    census = isinstance(cls, type) and issubclass(cls, Census)
    rows = isinstance(source, Table) and source.population == "rows"
    if rows and not census:
        raise InvalidParameter(
            "algorithm must be 'census', or be left out, where a table's rows are the population"
            f" but got {algorithm!r}."
        )
    if census and isinstance(source, SimulatedArms) and not rows:
        raise InvalidParameter(
            "algorithm must not be 'census' where the rewards of an arm do not end but got it for"
            f" {source!r}: give Table(records, population='rows')."
        )
