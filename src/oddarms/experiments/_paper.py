"""The ADE paper (AAAI 2020): the settings of its figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from oddarms.experiments._crowd import Crowd
from oddarms.experiments._grid import Contender, Setting, UniformMeans

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


def figure_settings(
    figure: str, *, runs: int, quick: bool, crowd: Crowd, budget: int | None
) -> list[Setting]:
    """Return the settings of a figure; `runs` is the paper's ten.

    The paper does not give the instance of Figure 1; ours has 34 normal arms and 6 outliers.
    """
    shared: dict[str, Any] = {"delta": DELTA, "budget": budget, "figure": figure}
    if figure == "fig1":
        data = "34 means uniform on [0, 0.3], 6 uniform on [0.9, 1]"
        # batches of 1,000 pulls would decide all arms at once
        shared |= {"data": data, "options": {"RR": {}, "WRR": {}}}
        return [Setting("34 + 6 arms", _two_groups, k=1.0, **shared)]
    if figure == "fig3":
        shared |= {"data": crowd.description, "runs": runs}
        return [Setting(f"k = {k:g}", crowd.arms, k=k, **shared) for k in CROWD_KS]
    shared |= {"data": "means uniform on [0, 1]", "instances": runs}
    if figure == "fig2a":
        return [
            Setting(f"n = {n}", UniformMeans(n, 2.5, (0.1, 0.2)), k=2.5, **shared)
            for n in (QUICK_SIZES if quick else SIZES)
        ]
    return [
        Setting(f"gap {(low + high) / 2.0:.2f}", UniformMeans(900, 2.0, (low, high)), **shared, k=2)
        for low, high in SMALLEST_GAPS
    ]


def _two_groups(rng: np.random.Generator) -> npt.ArrayLike:
    return np.concatenate([rng.uniform(0.0, 0.3, 34), rng.uniform(0.9, 1.0, 6)])
