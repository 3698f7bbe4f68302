"""A comparison of algorithms, declared as a grid: settings x instances x algorithms x runs."""

from __future__ import annotations

import hashlib
import inspect
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from oddarms.algorithms import create, get_algorithm
from oddarms.arms import Bernoulli, SimulatedArms, check_endless
from oddarms.errors import InvalidParameter
from oddarms.files import digest_of_package
from oddarms.problem import (
    DEFAULT_DELTA,
    DEFAULT_K,
    UNIT,
    USUAL_K,
    FloatArray,
    Question,
    check_k,
    check_number,
    check_whole,
)
from oddarms.randomness import Rng, seed_of
from oddarms.rules import gaps_to_thresholds, rule_of, true_outliers
from oddarms.theory import gaps

Draw = Callable[[np.random.Generator], npt.ArrayLike | SimulatedArms]
_MAX_CANDIDATES = 1_000_000
_NUMBERS_PER_BATCH = 16_384


@dataclass(frozen=True)
class Contender:
    """An algorithm with its options, and its name in tables.

    Examples
    --------
    >>> Contender("RR, 1000 at a time", "rr", {"batch": 1000}).algorithm
    'rr'
    """

    name: str
    algorithm: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, algorithm: str | Contender) -> Contender:
        """Return a contender as it is, or make one of an algorithm with its defaults."""
        return algorithm if isinstance(algorithm, Contender) else cls(algorithm, algorithm)


@dataclass(frozen=True, eq=False)
class Setting:
    """One point of a comparison: the source of instances, the question, the number of runs.

    Attributes
    ----------
    name
        Its name in tables; unique within its figure.
    instance
        True means in [0, 1] (Bernoulli rewards), simulated arms, or a function that draws either
        from a generator.
    k, delta, bounds, budget
        The question, as for `oddarms.find`; the budget is that of each run.
    instances, runs
        The number of instances to draw, and of runs of each algorithm on each of them.
    figure
        The figure that the setting belongs to.
    data
        The source of the means, in words.
    options
        Options that replace a contender's own in this setting, by the contender's name.
    words
        Further words of the question, such as ``rule``; a rule without a k does not get it.
    """

    name: str
    instance: npt.ArrayLike | SimulatedArms | Draw
    k: float = DEFAULT_K
    delta: float = DEFAULT_DELTA
    bounds: tuple[float, float] = UNIT
    budget: int | None = None
    instances: int = 1
    runs: int = 1
    figure: str = ""
    data: str = ""
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    words: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.question(1000, Contender.of("spade"))  # checks its words
        check_whole("runs", self.runs, least=1)
        if check_whole("instances", self.instances, least=1) > 1 and not self.draws:
            raise InvalidParameter(
                f"instances={self.instances} requires a function as instance; to repeat fixed arms"
                " set runs."
            )

    @property
    def draws(self) -> bool:
        """Whether instances are drawn at random."""
        return callable(self.instance)

    def question(self, n: int, contender: Contender) -> Question:
        """Return the question about an instance of n arms."""
        options = self.options.get(contender.name, contender.options)
        return Question(
            n,
            k=self.k if self.words.get("rule", "sigma") in USUAL_K else None,
            delta=self.delta,
            bounds=self.bounds,
            budget=self.budget,
            algorithm=contender.algorithm,
            options=dict(sorted(options.items())),  # their order is not part of a run's key
            **{"margin": 0.0, **self.words},  # the paper's definition
        )

    def draw(self, seed: int) -> SimulatedArms:
        """Return the arms of the instance with this seed."""
        source = self.instance
        drawn = source(np.random.default_rng(seed)) if callable(source) else source
        arms = drawn if isinstance(drawn, SimulatedArms) else Bernoulli(drawn)
        if check_endless(arms).has_generator:
            raise InvalidParameter(
                "Leave out the rng of these arms: the seed of the comparison decides their rewards."
            )
        return arms


@dataclass(frozen=True, eq=False)
class Cell:
    """One run of one algorithm on one instance: ``oddarms.simulate(arms, rng=seed, ...)``."""

    setting: Setting
    contender: Contender
    arms: SimulatedArms
    instance: int
    run: int
    instance_seed: int
    seed: int
    smallest_gap: float
    outliers: int

    @property
    def task(self) -> CellTask:
        """All that decides the run."""
        question = self.setting.question(self.arms.means.size, self.contender)
        return CellTask(self.arms, question, self.seed)

    @property
    def expected_cost(self) -> float:
        """Its length relative to other cells, roughly: n / Delta_min^2."""
        return self.arms.means.size / max(self.smallest_gap, 1e-9) ** 2


@dataclass(frozen=True, eq=False)
class CellTask:
    """All that decides a run: sent to workers; its digest is the run's key."""

    arms: SimulatedArms
    question: Question
    seed: int

    @property
    def key(self) -> str:
        """A digest of all inputs and of the code."""
        decisive = (
            self.question.to_json(),
            self.seed,
            code_fingerprint(self.question.algorithm_name),
        )
        digest = hashlib.sha256(repr(decisive).encode())
        digest.update(pickle.dumps(self.arms, protocol=5))
        return digest.hexdigest()


class Grid:
    """Settings and algorithms to be compared.

    The seeds of instances and runs depend only on the seed of the grid and the names of figure and
    setting. So all algorithms meet the same instances, and other settings do not change the rows.

    Parameters
    ----------
    settings
        The settings, with unique names within a figure.
    algorithms
        Names of algorithms, or `Contender` objects, with unique names.

    Examples
    --------
    >>> grid = Grid([Setting("five workers", [0.1, 0.2, 0.1, 0.2, 0.9], k=1.5, runs=3)], ["spade"])
    >>> len(list(grid.cells(rng=0)))
    3
    """

    def __init__(
        self, settings: Sequence[Setting], algorithms: Iterable[str | Contender] = ("spade",)
    ) -> None:
        self.settings = tuple(settings)
        self.contenders = tuple(Contender.of(algorithm) for algorithm in algorithms)
        _check_unique("settings", [(setting.figure, setting.name) for setting in self.settings])
        _check_unique("algorithms", [contender.name for contender in self.contenders])
        for contender in self.contenders:
            for setting in self.settings:
                _check_options(setting, contender, contender.options)
                _check_options(setting, contender, setting.options.get(contender.name, {}))

    def cells(self, rng: Rng = 0) -> Iterator[Cell]:
        """Draw the instances and yield every cell, in the order of the tables."""
        seed = seed_of(rng)
        for setting in self.settings:
            for instance in range(setting.instances):
                place = (seed, setting.figure, setting.name, instance)
                instance_seed = derived_seed("instance", *place)
                arms = setting.draw(instance_seed)
                smallest_gap, odd = _truth(setting, self.contenders[0], arms.means)
                for contender in self.contenders:
                    for run in range(setting.runs):
                        seeds = instance_seed, derived_seed("run", *place, run)
                        where = setting, contender, arms, instance, run
                        yield Cell(*where, *seeds, smallest_gap, odd)


def derived_seed(*place: object) -> int:
    """Return a seed of 63 bits that depends on all parts of a place."""
    digest = hashlib.sha256(repr(place).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def _truth(setting: Setting, contender: Contender, means: FloatArray) -> tuple[float, int]:
    """Return the smallest gap of an instance and the number of its outliers."""
    question = setting.question(means.size, contender)
    odd = np.logical_or.reduce(list(true_outliers(question, means).values()))
    return float(gaps_to_thresholds(question, means).min()), int(odd.sum())


def _check_options(setting: Setting, contender: Contender, options: Mapping[str, Any]) -> None:
    rule = rule_of(setting.question(1000, contender))
    create(contender.algorithm, 1000, rule=rule, delta=0.1, rng=np.random.default_rng(0), **options)


def _check_unique(what: str, names: Sequence[object]) -> None:
    if not names:
        raise InvalidParameter(f"{what} must not be empty.")
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InvalidParameter(f"{what} must have unique names but {repeated!r} appears twice.")


@dataclass(frozen=True)
class UniformMeans:
    """n means drawn uniformly from [0, 1], given that the smallest gap lies in a window.

    They are drawn until they fit, so they follow the conditional law exactly. The rarest window of
    the ADE paper contains one instance in 4,100.

    Parameters
    ----------
    n
        The number of means.
    k
        The k of the threshold theta = mean + k * standard deviation.
    smallest_gap
        The limits of min_i |y_i - theta|, the upper one possibly infinite; None for no condition.
        Drawing raises `InvalidParameter` if none of a million candidates fits.

    Examples
    --------
    >>> draw = UniformMeans(n=900, k=2, smallest_gap=(0.119, 0.121))
    >>> y = draw(np.random.default_rng(1))
    >>> bool(0.119 <= gaps(y, k=2).min() <= 0.121)
    True
    """

    n: int
    k: float
    smallest_gap: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", check_whole("n", self.n, least=2))
        object.__setattr__(self, "k", check_k(self.k))
        if self.smallest_gap is not None:
            object.__setattr__(self, "smallest_gap", _check_window(self.smallest_gap))

    def __call__(self, rng: np.random.Generator) -> FloatArray:
        """Return the means of one random instance."""
        if self.smallest_gap is None:
            return rng.random(self.n)
        low, high = self.smallest_gap
        rows = max(1, _NUMBERS_PER_BATCH // self.n)
        for _ in range(0, _MAX_CANDIDATES, rows):
            y = rng.random((rows, self.n))
            theta = y.mean(axis=1) + self.k * y.std(axis=1)
            smallest = np.abs(y - theta[:, None]).min(axis=1)
            for row in y[(low <= smallest) & (smallest <= high)]:
                # sums of rows are rounded in another order than those of one row
                if low <= gaps(row, self.k).min() <= high:
                    return np.asarray(row)
        raise InvalidParameter(
            f"None of {_MAX_CANDIDATES:,} instances with n = {self.n} and k = {self.k:g} had its"
            f" smallest_gap in ({low:g}, {high:g}): choose a wider window."
        )


def _check_window(window: tuple[float, float]) -> tuple[float, float]:
    """Return the window (low, high) if 0 <= low < high."""
    try:
        low, high = (check_number("smallest_gap", gap) for gap in window)
    except (TypeError, ValueError):
        raise InvalidParameter(
            f"smallest_gap must be two numbers (low, high) but got {window!r}."
        ) from None
    if not 0.0 <= low < high:
        raise InvalidParameter(
            f"smallest_gap must have 0 <= low < high but got ({low:g}, {high:g})."
        )
    return low, high


@cache
def code_fingerprint(algorithm: str) -> str:
    """Return a digest of the code that decides a run: ours, the algorithm's file, numpy's version.

    So a resumed comparison does not mix two versions of the code.
    """
    digest = hashlib.sha256(digest_of_package(["**/*.py"], np.__version__).encode())
    with suppress(OSError, TypeError):  # a class without a file
        digest.update(Path(inspect.getfile(get_algorithm(algorithm))).read_bytes())
    return digest.hexdigest()
