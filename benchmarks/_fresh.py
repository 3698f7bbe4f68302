"""Families to be looked at once, after all choices are made: nothing may be tuned on them.

They are unlike the others in the shape of the means, in n and in k. When they were written, their
smallest gaps were chosen on two or three instances each (of other seeds than 0), so that a search
ends within about 300,000 pulls; that is all they have been used for.
"""

from __future__ import annotations

import numpy as np

from benchmarks._instances import Draw, Generator, beta_rewards, with_smallest_gap
from oddarms.experiments import Setting
from oddarms.experiments._paper import DELTA
from oddarms.problem import FloatArray

CONCENTRATION = 20


def fresh_families() -> list[Setting]:
    """Return the families; see the module for what they may be used for."""
    bernoulli: list[tuple[str, float, float, Draw]] = [
        ("12 U(0,1)", 1.0, 0.05, lambda rng: rng.uniform(0.0, 1.0, 12)),
        (
            "25 .05 + Exp(.12)",
            2.0,
            0.03,
            lambda rng: np.minimum(0.05 + rng.exponential(0.12, 25), 1.0),
        ),
        ("57 N(.4,.04²) + 3 just above", 2.0, 0.03, _just_above),
        (
            "90 N(.2,.05²) + 30 N(.65,.05²)",
            1.0,
            0.03,
            lambda rng: np.concatenate([_normal(rng, 0.2, 90), _normal(rng, 0.65, 30)]),
        ),
        (
            "240 lognormal about .03",
            2.5,
            0.018,
            lambda rng: np.minimum(rng.lognormal(np.log(0.03), 0.7, 240), 1.0),
        ),
        (
            "400 .03 + Pareto(2)/25",
            3.0,
            0.03,
            lambda rng: np.minimum(0.03 + rng.pareto(2.0, 400) / 25.0, 1.0),
        ),
        ("400 U(.1,.3) + 392 U(.4,.6) + 8 U(.8,.9)", 2.0, 0.05, _two_bulks),
    ]
    settings = [
        Setting(f"{name}, k={k:g}", with_smallest_gap(draw, k, gap), k, DELTA, data=name)
        for name, k, gap, draw in bernoulli
    ]
    quiet = f"28 U(.2,.5) + 2 U(.7,.85), Beta rewards of concentration {CONCENTRATION}"
    drawn = beta_rewards(with_smallest_gap(_two_above_a_uniform_bulk, 2.0, 0.02), CONCENTRATION)
    settings.insert(2, Setting(f"28+2 Beta({CONCENTRATION}), k=2", drawn, 2.0, DELTA, data=quiet))
    return settings


def _just_above(rng: Generator) -> FloatArray:
    """Return a bulk that reaches to about 0.5, and three outliers that begin at 0.56."""
    return np.concatenate([rng.normal(0.4, 0.04, 57), rng.uniform(0.56, 0.62, 3)])


def _two_bulks(rng: Generator) -> FloatArray:
    groups = ((0.1, 0.3, 400), (0.4, 0.6, 392), (0.8, 0.9, 8))
    return np.concatenate([rng.uniform(*group) for group in groups])


def _two_above_a_uniform_bulk(rng: Generator) -> FloatArray:
    return np.concatenate([rng.uniform(0.2, 0.5, 28), rng.uniform(0.7, 0.85, 2)])


def _normal(rng: Generator, centre: float, n: int) -> FloatArray:
    return np.clip(rng.normal(centre, 0.05, n), 0.0, 1.0)
