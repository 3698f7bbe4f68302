"""What the parts of the suite share: the algorithm under test, an easy instance, and a driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from oddarms.arms import Bernoulli
from oddarms.finding import Arms, find
from oddarms.problem import FloatArray, Label, Side
from oddarms.search import Result, Search
from oddarms.theory import outliers


class Instance(NamedTuple):
    """Known means and the k of the question."""

    means: Sequence[float]
    k: float


class Streams:
    """Bernoulli rewards that do not depend on the order of pulls: the j-th of an arm is fixed.

    Parameters
    ----------
    means
        Probability of a 1, per arm.
    seeds
        One seed per arm, so that a permuted search can be given the permuted streams.
    """

    def __init__(self, means: Sequence[float], seeds: Sequence[int] | None = None) -> None:
        seeds = range(len(means)) if seeds is None else seeds
        self.means = means
        self._generators = [np.random.default_rng([7, seed]) for seed in seeds]

    def __call__(self, arm: int) -> float:
        """Return the next reward of an arm."""
        return float(self._generators[arm].random() < self.means[arm])


def drive(search: Search, rewards: Streams, *, steps: int | None = None) -> Result:
    """Ask and tell until the search is done, or for some steps, and return its result."""
    made = 0
    while not search.done and (steps is None or made < steps):
        pulls = search.ask_step()
        search.tell_step([rewards(int(i)) for i in np.repeat(pulls.indices, pulls.counts)])
        made += 1
    return search.result()


class Setting:
    """The attributes that a subclass of the suite may set."""

    algorithm: ClassVar[str]
    """The name under which the algorithm is registered."""

    options: ClassVar[Mapping[str, Any]] = {}
    """Options passed to it throughout."""

    delta: ClassVar[float] = 0.1

    easy: ClassVar[Instance] = Instance((0.05, 0.0, 0.95, 0.05, 0.0, 1.0), k=0.0)
    """An instance with outliers and normal arms that is settled in `easy_budget` pulls; it is
    searched interactively, a few hundred times in all."""

    easy_budget: ClassVar[int] = 50_000

    short_budget: ClassVar[int] = 300
    """Enough pulls for several steps of the algorithm."""

    instances: ClassVar[Sequence[Instance]] = (
        Instance((0.0, 0.1, 0.05, 0.0, 1.0), k=1.0),  # an outlier
        Instance((0.2, 0.9, 0.1, 0.15, 0.95, 0.2), k=0.5),  # two
        Instance((0.05, 0.95, 0.0, 1.0), k=2.5),  # none
        Instance((0.1, 0.9, 0.05, 0.95, 0.9), k=-0.5),  # most
        Instance((0.3, 0.7, 0.2, 0.6), k=0.0),  # smaller gaps
        Instance((0.1, 0.9), k=0.0),  # the fewest arms there can be
    )
    """Instances on which delta-correctness is simulated, outliers present and absent."""

    runs: ClassVar[int] = 100
    """Simulated runs on each of them."""

    simulated_budget: ClassVar[int | None] = None
    """Pulls after which a simulated run may be cut off, where complete ones would take too long."""

    def search(self, labels: Sequence[Label] | int | None = None, **changes: Any) -> Search:
        """Return a fresh search on the easy instance, with some arguments changed."""
        arguments: dict[str, Any] = {
            "k": self.easy.k,
            "delta": self.delta,
            "margin": 0.0,
            "algorithm": self.algorithm,
            "budget": self.easy_budget,
            "rng": 3,
            **self.options,
        }
        return Search(
            len(self.easy.means) if labels is None else labels, **{**arguments, **changes}
        )

    def find(self, source: Arms | None = None, **changes: Any) -> Result:
        """Return the result of a whole search on the easy instance, with arguments changed."""
        arguments: dict[str, Any] = {
            "k": self.easy.k,
            "delta": self.delta,
            "margin": 0.0,
            "algorithm": self.algorithm,
            "budget": self.easy_budget,
            "rng": 4,
            **self.options,
        }
        arms = Bernoulli(self.easy.means) if source is None else source
        return find(arms, **{**arguments, **changes})

    def truth(self, side: Side = "upper") -> list[int]:
        """Return the outliers of the easy instance."""
        found: list[int] = outliers(self.easy.means, self.easy.k, side).tolist()
        return found

    @property
    def easy_array(self) -> FloatArray:
        """The means of the easy instance."""
        return np.asarray(self.easy.means, dtype=np.float64)


def assert_same(one: Result, two: Result) -> None:
    """Fail unless two results say the same of every arm and threshold, in the same rounds.

    The budgets that were asked for, and rewards that were not used, may differ.
    """
    documents = [result.to_dict() for result in (one, two)]
    for document in documents:
        del document["question"], document["unused"]
    assert documents[0] == documents[1]
