"""The families of instances that the benchmark compares the algorithms on."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from oddarms.arms import crowd_error_rates
from oddarms.problem import FloatArray, gaps

SMALLEST_GAP = 0.02
PAPER_SIZES = (100, 200, 400, 600, 800, 1000)
HYUNCATHERINES = Path("../shared/data/hyuncatherines_arms.csv")

Generator = np.random.Generator


@dataclass(frozen=True)
class InstanceFamily:
    """A way to draw instances: means, k, and the family of the rewards.

    Attributes
    ----------
    name, description
        Name in tables, and what it is.
    draw
        Returns the means of one random instance.
    k
        The k of the k-sigma rule.
    n
        The number of arms.
    rewards, options
        Family of rewards for `oddarms.simulate` and its options.
    """

    name: str
    description: str
    draw: Callable[[Generator], FloatArray]
    k: float
    n: int
    rewards: str = "bernoulli"
    options: tuple[tuple[str, float], ...] = ()

    def variances(self, means: FloatArray) -> FloatArray:
        """Return the true variance of one reward of each arm."""
        bernoulli: FloatArray = means * (1.0 - means)
        if self.rewards == "beta":
            return bernoulli / (dict(self.options)["concentration"] + 1.0)
        return bernoulli


def uniform_with_gap(
    n: int, k: float, low: float, high: float
) -> Callable[[Generator], FloatArray]:
    """Return a drawer of n means uniform on [0, 1] given that Delta_min lies in [low, high].

    By rejection, many candidates at a time: the paper's narrowest window keeps one in 3,000.
    """

    def draw(rng: Generator) -> FloatArray:
        while True:
            y = rng.random((max(1, 200_000 // n), n))
            theta = y.mean(axis=1) + k * y.std(axis=1)
            smallest = np.abs(y - theta[:, None]).min(axis=1)
            accepted = np.flatnonzero((smallest >= low) & (smallest <= high))
            if accepted.size:
                return np.asarray(y[accepted[0]])

    return draw


def planted(
    normal: int, odd: int, low: float, high: float, k: float
) -> Callable[[Generator], FloatArray]:
    """Return a drawer of N(.3, .075^2) means with `odd` arms planted uniformly on [low, high].

    Instances in which an arm lies within 0.02 of the threshold are drawn again: one such arm
    would cost every algorithm more than all others together and hide them.
    """

    def candidate(rng: Generator) -> FloatArray:
        bulk = np.clip(rng.normal(0.3, 0.075, normal), 0.0, 1.0)
        return np.concatenate([bulk, rng.uniform(low, high, odd)])

    return _with_smallest_gap(candidate, k, SMALLEST_GAP)


def low_rate(normal: int, odd: int, k: float) -> Callable[[Generator], FloatArray]:
    """Return a drawer of rates about 0.01 with `odd` rates about 0.1."""

    def candidate(rng: Generator) -> FloatArray:
        return np.concatenate([rng.uniform(0.005, 0.015, normal), rng.uniform(0.09, 0.11, odd)])

    return _with_smallest_gap(candidate, k, SMALLEST_GAP / 4.0)


def _with_smallest_gap(
    candidate: Callable[[Generator], FloatArray], k: float, smallest: float
) -> Callable[[Generator], FloatArray]:
    def draw(rng: Generator) -> FloatArray:
        while True:
            y = candidate(rng)
            if gaps(y, k).min() >= smallest:
                return rng.permutation(y)

    return draw


def real_crowd_error_rates() -> FloatArray | None:
    """Return the error rates of the HyunCatherines workers, or None where the data is absent."""
    if not HYUNCATHERINES.exists():
        return None
    with HYUNCATHERINES.open(newline="", encoding="utf-8") as file:
        return np.array([float(row["mean"]) for row in csv.DictReader(file)])


def _fixed(means: FloatArray) -> Callable[[Generator], FloatArray]:
    return lambda rng: rng.permutation(means)


def instance_families() -> list[InstanceFamily]:
    """Return all families of the benchmark."""
    return [*paper_families((100, 1000)), *_planted_families(), *_quiet_families()]


def held_out_families() -> list[InstanceFamily]:
    """Return families that played no part in choosing SPADE's constants."""
    settings: list[tuple[str, float, int, float, Callable[[Generator], FloatArray]]] = [
        (
            "40 U(.1,.5) + 3 U(.8,.95)",
            2.0,
            43,
            0.02,
            lambda rng: np.concatenate([rng.uniform(0.1, 0.5, 40), rng.uniform(0.8, 0.95, 3)]),
        ),
        (
            "75 Beta(2,8) + 5 U(.7,.9)",
            2.5,
            80,
            0.02,
            lambda rng: np.concatenate([rng.beta(2, 8, 75), rng.uniform(0.7, 0.9, 5)]),
        ),
        (
            "14 N(.5,.1²) + one .95",
            2.0,
            15,
            0.02,
            lambda rng: np.append(np.clip(rng.normal(0.5, 0.1, 14), 0.0, 1.0), 0.95),
        ),
        (
            "150 U(.02,.08) + 4 U(.25,.4)",
            3.0,
            154,
            0.01,
            lambda rng: np.concatenate([rng.uniform(0.02, 0.08, 150), rng.uniform(0.25, 0.4, 4)]),
        ),
        (
            "60 N(.7,.08²)",
            1.5,
            60,
            0.01,
            lambda rng: np.clip(rng.normal(0.7, 0.08, 60), 0.0, 1.0),
        ),
    ]
    return [
        InstanceFamily(f"{name}, k={k:g}", name, _with_smallest_gap(draw, k, gap), k, n)
        for name, k, n, gap, draw in settings
    ]


def paper_families(sizes: tuple[int, ...] = PAPER_SIZES) -> list[InstanceFamily]:
    """Return the settings of the ADE paper's Figures 2a (all its sizes by default), 2b and 3."""
    figure_2a = [
        InstanceFamily(
            f"figure 2a, n={n}",
            "means uniform on [0,1], smallest gap in [.1,.2], k=2.5",
            uniform_with_gap(n, 2.5, 0.1, 0.2),
            2.5,
            n,
        )
        for n in sizes
    ]
    figure_2b = [
        InstanceFamily(
            f"figure 2b, gap {gap:g}",
            f"n=900 means uniform on [0,1], smallest gap {gap:g} ± .001, k=2",
            uniform_with_gap(900, 2.0, gap - 0.001, gap + 0.001),
            2.0,
            900,
        )
        for gap in (0.06, 0.09, 0.12)
    ]
    real = real_crowd_error_rates()
    crowd = crowd_error_rates() if real is None else real
    name = "crowd stand-in" if real is None else "HyunCatherines"
    figure_3 = [
        InstanceFamily(f"{name}, k={k}", "722 workers", _fixed(crowd), float(k), crowd.size)
        for k in (2, 3)
    ]
    return [*figure_2a, *figure_2b, *figure_3]


def _planted_families() -> list[InstanceFamily]:
    """Return Bernoulli arms about 0.3 with a few planted outliers."""
    settings = [(100, 5, 0.8, 1.0, 3)]
    settings += [
        (normal, odd, 0.7, 0.9, k) for normal, odd in ((19, 1), (48, 2), (190, 10)) for k in (2, 3)
    ]
    return [
        InstanceFamily(
            f"{normal}+{odd} planted, k={k}",
            f"{normal} N(.3,.075²) + {odd} U({low:g},{high:g})",
            planted(normal, odd, low, high, float(k)),
            float(k),
            normal + odd,
        )
        for normal, odd, low, high, k in settings
    ]


def _quiet_families() -> list[InstanceFamily]:
    """Return families whose rewards vary much less than the bounds allow."""
    low_rates = [
        InstanceFamily(
            f"97+3 low rate, k={k}",
            "97 U(.005,.015) + 3 U(.09,.11)",
            low_rate(97, 3, float(k)),
            float(k),
            100,
        )
        for k in (2, 3)
    ]
    beta_rewards = [
        InstanceFamily(
            f"48+2 Beta({concentration:g}), k=2",
            f"48 N(.3,.075²) + 2 U(.7,.9), Beta rewards of concentration {concentration:g}",
            planted(48, 2, 0.7, 0.9, 2.0),
            2.0,
            50,
            "beta",
            (("concentration", concentration),),
        )
        for concentration in (5.0, 10.0, 50.0)
    ]
    return [*low_rates, *beta_rewards]
