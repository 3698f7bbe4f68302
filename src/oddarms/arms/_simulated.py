"""Simulated arms: with known means, drawn from recorded rewards, and the embedded crowd."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from oddarms.errors import InvalidParameter, PullFailed
from oddarms.problem import (
    FloatArray,
    IntArray,
    Label,
    Question,
    check_bounds,
    check_labels,
    check_means,
)


class SimulatedArms(ABC):
    """Base class: independent arms with known means, drawn with one generator.

    Parameters
    ----------
    means
        The true mean of each arm.
    labels
        Names of the arms; 0, 1, 2, ... by default.
    rng
        A generator or a seed. By default the ``rng`` of `oddarms.find` decides.
    """

    def __init__(
        self,
        means: npt.ArrayLike,
        *,
        labels: Sequence[Label] | None = None,
        rng: np.random.Generator | int | None = None,
    ) -> None:
        self.means: FloatArray = check_means(means)
        self.labels = check_labels(range(self.means.size) if labels is None else labels)
        if len(self.labels) != self.means.size:
            raise InvalidParameter(
                f"labels must be one per mean ({self.means.size}) but got {len(self.labels)}."
            )
        self._rng = None if rng is None else np.random.default_rng(rng)
        self._check_means()

    def _check_means(self) -> None:  # noqa: B027 - a hook
        """Raise if the family cannot have these means."""

    def seeded(self, rng: np.random.Generator) -> Self:
        """Return these arms drawing from `rng`, or themselves if they have a generator."""
        if self._rng is not None:
            return self
        arms = copy(self)
        arms._rng = rng
        return arms

    @property
    def has_generator(self) -> bool:
        """Whether they have their own generator."""
        return self._rng is not None

    @property
    def endless(self) -> bool:
        """Whether they never run out of rewards."""
        return True

    @property
    def rng(self) -> np.random.Generator:
        """The generator; a fresh, unpredictable one if none was given."""
        if self._rng is None:
            self._rng = np.random.default_rng()
        return self._rng

    def pull(self, indices: IntArray, counts: IntArray) -> FloatArray:
        """Return one reward per pull, in order."""
        return self._draw(np.repeat(np.asarray(indices), counts))

    @abstractmethod
    def _draw(self, arms: IntArray) -> FloatArray:
        """Return one reward of each listed arm."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.means.size} arms)"


class Bernoulli(SimulatedArms):
    """Rewards 0 and 1; the mean is the probability of a 1.

    Examples
    --------
    >>> Bernoulli([0.0, 1.0], labels=["never", "always"]).pull([0, 1], [2, 1]).tolist()
    [0.0, 0.0, 1.0]
    """

    def _check_means(self) -> None:
        _check_within(self.means, 0.0, 1.0)

    def _draw(self, arms: IntArray) -> FloatArray:
        return (self.rng.random(arms.size) < self.means[arms]).astype(np.float64)

    def pull_totals(self, indices: IntArray, counts: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return each entry's sum, drawn as one binomial where it stands for several pulls."""
        if (counts == 1).all():
            ones = self._draw(indices)
        else:
            ones = self.rng.binomial(counts, self.means[indices]).astype(np.float64)
        return ones, ones


class Beta(SimulatedArms):
    """Rewards on (0, 1) from Beta(mean * concentration, (1 - mean) * concentration).

    The variance is mean * (1 - mean) / (concentration + 1).
    """

    def __init__(
        self,
        means: npt.ArrayLike,
        concentration: float = 10.0,
        *,
        labels: Sequence[Label] | None = None,
        rng: np.random.Generator | int | None = None,
    ) -> None:
        super().__init__(means, labels=labels, rng=rng)
        if not 0.0 < concentration < np.inf:
            raise InvalidParameter(f"concentration must be positive but got {concentration}.")
        if self.means.min() <= 0.0 or self.means.max() >= 1.0:
            raise InvalidParameter("means of Beta arms must be strictly between 0 and 1.")
        self.concentration = float(concentration)

    def _draw(self, arms: IntArray) -> FloatArray:
        y = self.means[arms]
        return self.rng.beta(y * self.concentration, (1.0 - y) * self.concentration)


class Uniform(SimulatedArms):
    """Rewards uniform on [mean - width/2, mean + width/2], which must lie within the bounds."""

    def __init__(
        self,
        means: npt.ArrayLike,
        width: float = 0.1,
        *,
        bounds: tuple[float, float] = (0.0, 1.0),
        labels: Sequence[Label] | None = None,
        rng: np.random.Generator | int | None = None,
    ) -> None:
        super().__init__(means, labels=labels, rng=rng)
        a, b = check_bounds(bounds)
        if not 0.0 <= width <= b - a:
            raise InvalidParameter(f"width must be between 0 and {b - a:g} but got {width}.")
        self.width = float(width)
        self.bounds = a, b
        _check_within(self.means, a + width / 2.0, b - width / 2.0)

    def _draw(self, arms: IntArray) -> FloatArray:
        return self.means[arms] + self.width * (self.rng.random(arms.size) - 0.5)


class Gaussian(SimulatedArms):
    """Normal rewards with one standard deviation, which no bounds contain.

    For research on algorithms that know the deviation (option ``sd``). Set bounds so wide that no
    reward lies beyond them, such as ten deviations from the means.

    Examples
    --------
    >>> arms = Gaussian([0.0, 1.0], sd=0.5, rng=1)
    >>> arms.pull([0, 1], [1, 2]).round(2).tolist()
    [0.17, 1.41, 1.17]
    """

    def __init__(
        self,
        means: npt.ArrayLike,
        sd: float = 1.0,
        *,
        labels: Sequence[Label] | None = None,
        rng: np.random.Generator | int | None = None,
    ) -> None:
        super().__init__(means, labels=labels, rng=rng)
        if not 0.0 < sd < np.inf:
            raise InvalidParameter(f"sd must be positive and finite but got {sd}.")
        self.sd = float(sd)

    def _draw(self, arms: IntArray) -> FloatArray:
        return self.rng.normal(self.means[arms], self.sd)

    def pull_totals(self, indices: IntArray, counts: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return each entry's sum and sum of squares.

        The sum S is normal; the sum of squares minus S^2/N is independent of it: sd^2 times a
        chi-square with N - 1 degrees of freedom.
        """
        sums = self.rng.normal(counts * self.means[indices], self.sd * np.sqrt(counts))
        spread = 2.0 * self.rng.standard_gamma(0.5 * (counts - 1))
        return sums, sums * sums / counts + self.sd**2 * spread


def check_not_census(arms: object, question: Question) -> None:
    """Raise if the algorithm is "census", which requires a finite population, and arms are not."""
    if question.algorithm_name.lower() == "census" and getattr(arms, "endless", False):
        raise InvalidParameter(
            "The algorithm 'census' requires arms with finitely many rows, such as"
            " Resampled(records, replace=False); these are drawn with replacement."
        )


def check_endless(arms: SimulatedArms) -> SimulatedArms:
    """Return the arms; raise if they run out of rewards, so that they cannot be simulated."""
    if not arms.endless:
        raise InvalidParameter(
            f"{arms!r} cannot be simulated, as each row is used once: Resampled(records) draws"
            " rows with replacement."
        )
    return arms


def _check_within(means: FloatArray, low: float, high: float) -> None:
    outside = (means < low) | (means > high)
    if outside.any():
        i = int(np.flatnonzero(outside)[0])
        raise InvalidParameter(
            f"means must lie within [{low:g}, {high:g}] but means[{i}] is {means[i]:g}."
        )


class Resampled(SimulatedArms):
    """Arms whose rewards are drawn from recorded ones.

    This simulates searches on such arms. `oddarms.analyze` says what recorded rewards prove.

    Parameters
    ----------
    records
        A mapping from label to that arm's recorded rewards.
    replace
        True draws with replacement: the rows are the arm's distribution. False draws each row once,
        in a random order: the rows are a finite population, and `oddarms.find` uses the algorithm
        "census".
    rng
        A generator or a seed. By default the ``rng`` of `oddarms.find` decides.

    Attributes
    ----------
    means, sizes
        The average of each arm's rows, and their number.

    Examples
    --------
    >>> audit = Resampled({"ann": [0, 0, 1, 1], "bob": [1, 1]}, replace=False, rng=1)
    >>> audit.means.tolist(), sorted(audit.pull([0], [4]).tolist())
    ([0.5, 1.0], [0.0, 0.0, 1.0, 1.0])
    """

    def __init__(
        self,
        records: Mapping[Any, npt.ArrayLike],
        *,
        replace: bool = True,
        rng: np.random.Generator | int | None = None,
    ) -> None:
        rewards = [np.asarray(values, dtype=np.float64).ravel() for values in records.values()]
        for label, values in zip(records, rewards, strict=True):
            if values.size == 0 or not np.isfinite(values).all():
                raise InvalidParameter(f"The records of arm {label!r} must be finite numbers.")
        super().__init__([v.mean() for v in rewards], labels=list(records), rng=rng)
        self.replace = replace
        self.sizes: IntArray = np.array([v.size for v in rewards], dtype=np.int64)
        self._rewards: FloatArray = np.concatenate(rewards)
        self._starts = np.cumsum(self.sizes) - self.sizes
        self._used: IntArray = np.zeros(self.sizes.size, dtype=np.int64)
        self._order: IntArray | None = None  # of all rows, arm by arm; drawn at the first pull

    @property
    def endless(self) -> bool:
        """Whether rewards are drawn with replacement."""
        return self.replace

    def seeded(self, rng: np.random.Generator) -> Self:
        """Return the arms with no row used, in the same order if they have their own generator."""
        if self.replace:
            return super().seeded(rng)
        if self._rng is not None and self._order is None:
            self._order = self._shuffled()
        arms = copy(self)
        arms._rng = rng if self._rng is None else self._rng
        arms._order = None if self._rng is None else self._order
        arms._used = np.zeros_like(self._used)
        return arms

    def _draw(self, arms: IntArray) -> FloatArray:
        if self.replace:
            rows = self._starts[arms] + self.rng.integers(self.sizes[arms])
        else:
            rows = self._next_rows(arms)
        drawn: FloatArray = self._rewards[rows]
        return drawn

    def _next_rows(self, arms: IntArray) -> IntArray:
        if self._order is None:
            self._order = self._shuffled()
        wanted = np.bincount(arms, minlength=self.sizes.size)
        short = np.flatnonzero(wanted > self.sizes - self._used)
        if short.size:
            label = self.labels[int(short[0])]
            raise PullFailed(f"arm {label!r} has no rows left.", label)
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


WORKERS, NEVER_ERR, ALWAYS_ERR = 722, 200, 60
MEAN_ERROR, SD_ERROR = 0.328, 0.292


def crowd_error_rates() -> FloatArray:
    """Return the error rates of 722 simulated crowd workers; the same every time.

    A *synthetic* stand-in for the HyunCatherines crowd of the ADE paper, whose data we do not
    ship: 200 workers never err, 60 always do, and 462 error rates are quantiles of a Beta
    distribution, such that all rates have mean 0.328 and standard deviation 0.292. Only these
    figures resemble the original.
    """
    from scipy.special import betaincinv

    between = WORKERS - NEVER_ERR - ALWAYS_ERR
    mean = (WORKERS * MEAN_ERROR - ALWAYS_ERR) / between
    second_moment = (WORKERS * (SD_ERROR**2 + MEAN_ERROR**2) - ALWAYS_ERR) / between
    variance = second_moment - mean**2
    levels = (np.arange(between) + 0.5) / between
    concentration = mean * (1.0 - mean) / variance - 1.0
    spread = betaincinv(mean * concentration, (1.0 - mean) * concentration, levels)
    rates = np.concatenate([np.zeros(NEVER_ERR), np.ones(ALWAYS_ERR), spread.round(4)])
    return np.random.default_rng(722).permutation(rates)


def simulated_crowd(rng: np.random.Generator | int | None = None) -> Bernoulli:
    """Return the crowd as arms: a pull asks a worker a question, the reward is 1 for an error.

    Examples
    --------
    >>> crowd = simulated_crowd()
    >>> crowd.labels[:2], round(float(crowd.means.mean()), 3), round(float(crowd.means.std()), 3)
    (('worker-001', 'worker-002'), 0.328, 0.292)
    """
    labels = [f"worker-{number:03d}" for number in range(1, WORKERS + 1)]
    return Bernoulli(crowd_error_rates(), labels=labels, rng=rng)
