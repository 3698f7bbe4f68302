"""The families of instances that the benchmark compares the algorithms on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from oddarms.arms import Beta
from oddarms.experiments import Crowd, Setting, read_crowd
from oddarms.experiments._paper import CONTENDERS, DELTA, figure_settings
from oddarms.problem import FloatArray
from oddarms.theory import gaps

SMALLEST_GAP = 0.02
LARGE = 700
HYUNCATHERINES = "hyuncatherines_arms.csv"
FRESH_CONCENTRATION = 20

Generator = np.random.Generator
Draw = Callable[[Generator], FloatArray]


def instance_families(data: Path | None = None) -> list[Setting]:
    """Return all families of the benchmark.

    Parameters
    ----------
    data
        A folder with ``hyuncatherines_arms.csv``, the error rates of that crowd's workers; without
        it a stand-in is used.
    """
    return [*_paper_families(data), *_planted_families(), *_quiet_families()]


def held_out_families() -> list[Setting]:
    """Return families that played no part in choosing SPADE's constants.

    Their figures have been published and looked at since, so they are no proof against choices made
    later; `fresh_families` are for those.
    """
    return drawn_families(
        [
            ("40 U(.1,.5) + 3 U(.8,.95)", 2.0, 0.02, uniform((0.1, 0.5, 40), (0.8, 0.95, 3))),
            (
                "75 Beta(2,8) + 5 U(.7,.9)", 2.5, 0.02,
                lambda rng: np.concatenate([rng.beta(2, 8, 75), rng.uniform(0.7, 0.9, 5)]),
            ),
            (
                "14 N(.5,.1²) + one .95", 2.0, 0.02,
                lambda rng: np.append(np.clip(rng.normal(0.5, 0.1, 14), 0.0, 1.0), 0.95),
            ),
            (
                "150 U(.02,.08) + 4 U(.25,.4)", 3.0, 0.01,
                uniform((0.02, 0.08, 150), (0.25, 0.4, 4)),
            ),
            (
                "60 N(.7,.08²)", 1.5, 0.01,
                lambda rng: np.clip(rng.normal(0.7, 0.08, 60), 0.0, 1.0),
            ),
        ]
    )  # fmt: skip


def drawn_families(families: list[tuple[str, float, float, Draw]]) -> list[Setting]:
    """Return families of a name, k, the smallest gap and a drawer of means."""
    return [
        Setting(f"{name}, k={k:g}", with_smallest_gap(draw, k, gap), k, DELTA, data=name)
        for name, k, gap, draw in families
    ]


def uniform(*groups: tuple[float, float, int]) -> Draw:
    """Return a drawer of groups of uniform means."""
    return lambda rng: np.concatenate([rng.uniform(*group) for group in groups])


def _paper_families(data: Path | None) -> list[Setting]:
    """Return the ADE paper's Figures 2a (its smallest and its largest n), 2b and 3."""
    crowd = Crowd.stand_in() if data is None else read_crowd(data / HYUNCATHERINES)
    figure_2a, figure_2b, figure_3 = (
        figure_settings(figure, runs=1, quick=False, crowd=crowd, budget=None)
        for figure in ("fig2a", "fig2b", "fig3")
    )
    workers = "HyunCatherines" if crowd.real else "crowd stand-in"
    wide = "means uniform on [0,1], smallest gap in [.1,.2], k=2.5"
    narrow = "n=900 means uniform on [0,1], smallest gap ± .001, k=2"
    return [
        _paper_family("figure 2a", figure_2a[0], wide),
        _paper_family("figure 2a", figure_2a[-1], wide),
        *(_paper_family("figure 2b", setting, narrow) for setting in figure_2b),
        *(_paper_family(workers, setting, "722 workers") for setting in figure_3),
    ]


def _paper_family(group: str, setting: Setting, description: str) -> Setting:
    """Return a setting under the benchmark's name, with the paper's batches where n is large."""
    batches = {CONTENDERS[name].name: CONTENDERS[name].options for name in ("rr", "wrr")}
    return replace(
        setting,
        name=f"{group}, {setting.name.replace(' = ', '=')}",
        data=description,
        options=batches if setting.draw(seed=0).means.size >= LARGE else {},
    )


def _planted_families() -> list[Setting]:
    """Return Bernoulli arms about 0.3 with a few planted outliers."""
    families = [(100, 5, 0.8, 1.0, 3.0)]
    families += [
        (normal, odd, 0.7, 0.9, k)
        for normal, odd in ((19, 1), (48, 2), (190, 10))
        for k in (2.0, 3.0)
    ]
    return [
        Setting(
            f"{normal}+{odd} planted, k={k:g}",
            _planted(normal, odd, low, high, k),
            k,
            DELTA,
            data=f"{normal} N(.3,.075²) + {odd} U({low:g},{high:g})",
        )
        for normal, odd, low, high, k in families
    ]


def _quiet_families() -> list[Setting]:
    """Return families whose rewards vary much less than the bounds allow."""
    rates, odd = (0.005, 0.015, 97), (0.09, 0.11, 3)
    low_rates = [
        Setting(
            f"97+3 low rate, k={k:g}",
            with_smallest_gap(uniform(rates, odd), k, SMALLEST_GAP / 4.0),
            k,
            DELTA,
            data="97 U(.005,.015) + 3 U(.09,.11)",
        )
        for k in (2.0, 3.0)
    ]
    with_beta_rewards = [
        Setting(
            f"48+2 Beta({concentration}), k=2",
            beta_rewards(_planted(48, 2, 0.7, 0.9, 2.0), concentration),
            2.0,
            DELTA,
            data=f"48 N(.3,.075²) + 2 U(.7,.9), Beta rewards of concentration {concentration}",
        )
        for concentration in (5, 10, 50)
    ]
    return [*low_rates, *with_beta_rewards]


def _planted(normal: int, odd: int, low: float, high: float, k: float) -> Draw:
    """Return a drawer of N(.3, .075^2) means with `odd` arms planted uniformly on [low, high].

    Instances in which an arm lies within 0.02 of the threshold are drawn again: one such arm
    would cost every algorithm more than all others together and hide them.
    """

    def candidate(rng: Generator) -> FloatArray:
        bulk = np.clip(rng.normal(0.3, 0.075, normal), 0.0, 1.0)
        return np.concatenate([bulk, rng.uniform(low, high, odd)])

    return with_smallest_gap(candidate, k, SMALLEST_GAP)


def with_smallest_gap(candidate: Draw, k: float, smallest: float) -> Draw:
    """Return a drawer that draws again while an arm lies nearer to the threshold, and shuffles."""

    def draw(rng: Generator) -> FloatArray:
        while True:
            y = candidate(rng)
            if gaps(y, k).min() >= smallest:
                return rng.permutation(y)

    return draw


def beta_rewards(draw: Draw, concentration: float) -> Callable[[Generator], Beta]:
    """Return a drawer of arms with Beta rewards that have the means of another drawer."""

    def beta(rng: Generator) -> Beta:
        inside = np.clip(draw(rng), 0.001, 0.999)  # a clipped normal mean may be 0
        return Beta(inside, concentration)

    return beta


def fresh_families() -> list[Setting]:
    """Return families to be looked at once, after all choices are made: tune nothing on them.

    They are unlike the others in the shape of the means, in n and in k. When they were written,
    their smallest gaps were chosen on two or three instances each (of other seeds than 0), so that
    a search ends within about 300,000 pulls; that is all they have been used for.
    """
    settings = drawn_families(
        [
            ("12 U(0,1)", 1.0, 0.05, uniform((0.0, 1.0, 12))),
            (
                "25 .05 + Exp(.12)", 2.0, 0.03,
                lambda rng: np.minimum(0.05 + rng.exponential(0.12, 25), 1.0),
            ),
            (
                "57 N(.4,.04²) + 3 just above", 2.0, 0.03,
                lambda rng: np.append(rng.normal(0.4, 0.04, 57), rng.uniform(0.56, 0.62, 3)),
            ),
            (
                "90 N(.2,.05²) + 30 N(.65,.05²)", 1.0, 0.03,
                lambda rng: np.append(_normal(rng, 0.2, 90), _normal(rng, 0.65, 30)),
            ),
            (
                "240 lognormal about .03", 2.5, 0.018,
                lambda rng: np.minimum(rng.lognormal(np.log(0.03), 0.7, 240), 1.0),
            ),
            (
                "400 .03 + Pareto(2)/25", 3.0, 0.03,
                lambda rng: np.minimum(0.03 + rng.pareto(2.0, 400) / 25.0, 1.0),
            ),
            (
                "400 U(.1,.3) + 392 U(.4,.6) + 8 U(.8,.9)", 2.0, 0.05,
                uniform((0.1, 0.3, 400), (0.4, 0.6, 392), (0.8, 0.9, 8)),
            ),
        ]
    )  # fmt: skip
    quiet = f"28 U(.2,.5) + 2 U(.7,.85), Beta rewards of concentration {FRESH_CONCENTRATION}"
    means = with_smallest_gap(uniform((0.2, 0.5, 28), (0.7, 0.85, 2)), 2.0, 0.02)
    drawn = beta_rewards(means, FRESH_CONCENTRATION)
    name = f"28+2 Beta({FRESH_CONCENTRATION}), k=2"
    settings.insert(2, Setting(name, drawn, 2.0, DELTA, data=quiet))
    return settings


def _normal(rng: Generator, centre: float, n: int) -> FloatArray:
    return np.clip(rng.normal(centre, 0.05, n), 0.0, 1.0)
