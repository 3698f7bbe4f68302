"""The settings of the ADE paper's figures, and the algorithms it compares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oddarms.arms import Bernoulli, SimulatedArms, Table, crowd_error_rates
from oddarms.experiments import Contender, Setting, UniformMeans
from oddarms.tables import RecordedArms

DELTA = 0.1
FIGURES = ("fig1", "fig2a", "fig2b", "fig3")
SIZES = (100, 200, 400, 600, 800, 1000)
QUICK_SIZES = (100, 400, 1000)
SMALLEST_GAPS = ((0.059, 0.061), (0.089, 0.091), (0.119, 0.121))
CROWD_KS = (2.0, 3.0)
CONTENDERS = {
    "ade": Contender("ADE", "ade"),
    "rr": Contender("RR", "rr", {"batch": 1000}),
    "wrr": Contender("WRR", "wrr", {"batch": 1000}),
    "spade": Contender("SPADE", "spade"),
}
"""As in the paper's experiments: RR and WRR pull 1,000 times where they would pull once."""

UNIFORM = "means uniform on [0, 1]"
STAND_IN = "synthetic stand-in for HyunCatherines"


@dataclass(frozen=True, eq=False)
class Crowd:
    """The workers of Figure 3: real ones from a file, or the simulated crowd.

    Attributes
    ----------
    arms
        Simulated arms with the workers' error rates as means.
    description
        What they are, for captions and tables.
    real
        False for the stand-in.
    """

    arms: SimulatedArms
    description: str
    real: bool

    @classmethod
    def of(cls, recorded: RecordedArms | None) -> Crowd:
        """Return the crowd of a file, or the stand-in."""
        if recorded is None:
            return cls(Bernoulli(crowd_error_rates()), STAND_IN, real=False)
        if recorded.binary or recorded.records is None:
            return cls(Bernoulli(recorded.means), recorded.source, real=True)
        return cls(Table(recorded.records, replay=True), recorded.source, real=True)


def figure_settings(
    figure: str, *, runs: int, quick: bool, crowd: Crowd, budget: int | None
) -> list[Setting]:
    """Return the settings of a figure; `runs` is the paper's ten."""
    makers = {"fig1": _figure_1, "fig2a": _figure_2a, "fig2b": _figure_2b}
    if figure == "fig3":
        return _figure_3(runs, crowd, budget)
    return makers[figure](runs, quick, budget)


def _figure_1(runs: int, quick: bool, budget: int | None) -> list[Setting]:  # noqa: ARG001
    """Return an instance on which ADE can be followed round by round; the paper does not give its.

    34 normal arms and 6 outliers, k = 1: theta = 0.59, the smallest gap is 0.29.
    """
    return [
        Setting(
            "34 + 6 arms",
            _two_groups,
            k=1.0,
            delta=DELTA,
            budget=budget,
            figure="fig1",
            data="34 means uniform on [0, 0.3], 6 uniform on [0.9, 1]",
            keep_intervals=True,
            options={"RR": {}, "WRR": {}},  # 1,000 pulls at a time would decide all arms at once
        )
    ]


def _two_groups(rng: np.random.Generator) -> npt.ArrayLike:
    return np.concatenate([rng.uniform(0.0, 0.3, 34), rng.uniform(0.9, 1.0, 6)])


def _figure_2a(runs: int, quick: bool, budget: int | None) -> list[Setting]:
    return [
        Setting(
            f"n = {n}",
            UniformMeans(n, 2.5, (0.1, 0.2)),
            k=2.5,
            delta=DELTA,
            budget=budget,
            instances=runs,
            figure="fig2a",
            data=UNIFORM,
        )
        for n in (QUICK_SIZES if quick else SIZES)
    ]


def _figure_2b(runs: int, quick: bool, budget: int | None) -> list[Setting]:  # noqa: ARG001
    return [
        Setting(
            f"gap {(low + high) / 2.0:.2f}",
            UniformMeans(900, 2.0, (low, high)),
            k=2.0,
            delta=DELTA,
            budget=budget,
            instances=runs,
            figure="fig2b",
            data=UNIFORM,
        )
        for low, high in SMALLEST_GAPS
    ]


def _figure_3(runs: int, crowd: Crowd, budget: int | None) -> list[Setting]:
    return [
        Setting(
            f"k = {k:g}",
            crowd.arms,
            k=k,
            delta=DELTA,
            budget=budget,
            runs=runs,
            figure="fig3",
            data=crowd.description,
        )
        for k in CROWD_KS
    ]
