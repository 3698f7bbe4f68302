"""How the calibrated rule does, which nothing proves: its pulls and its errors, counted.

On the benchmark's families of at most 200 arms and on families drawn up for this alone, some of
them with an arm so near to the threshold that a rule without proof is tempted to err.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks._compare import SPADE, instance_limit, repeated
from benchmarks._instances import (
    Draw,
    Generator,
    beta_rewards,
    drawn_families,
    uniform,
    with_smallest_gap,
)
from oddarms.algorithms import UNLIMITED, Pulls
from oddarms.algorithms._calibrated import Calibrated
from oddarms.arms import Bernoulli, SimulatedArms
from oddarms.experiments import Cell, Grid, Setting
from oddarms.experiments._paper import DELTA
from oddarms.problem import BoolArray, FloatArray
from oddarms.rules import Sigma
from oddarms.statistics.calibrated import FIRST_ROWS, stated_error
from oddarms.statistics.directions import leave_one_out_k
from oddarms.statistics.totals import added_up
from oddarms.theory import outliers

DELTAS = (0.05, 0.1, 0.2)
MOST_PULLS = UNLIMITED
BETA_MOST_PULLS = 3_000_000  # whose rewards are drawn one by one
STREAM = 11  # keeps the rewards apart from those of other parts with the same seed


def calibrated_families() -> list[Setting]:
    """Return families for the rule alone: n from 2 to 500, k of either sign, arms near theta.

    Two choices were made on them (other seeds, 40 to 60 runs): the factor n/(n - 1) in
    `stated_error` and the least sd in `spread_sd`. All else of the rule was there before them.
    """
    settings = drawn_families(
        [
            ("2 at .499 and .501", 0.0, 0.0, lambda rng: rng.permutation([0.499, 0.501])),
            (
                "2 at 1e-7 from their mean", 0.0, 0.0,
                lambda rng: 0.5 + rng.permutation([-1e-7, 1e-7]),
            ),
            ("8 U(0,1)", 1.0, 0.03, uniform((0.0, 1.0, 8))),
            ("10 U(.3,.7)", 0.0, 0.01, uniform((0.3, 0.7, 10))),
            ("22 U(.6,.9) + 2 U(.1,.2)", -1.5, 0.02, uniform((0.6, 0.9, 22), (0.1, 0.2, 2))),
            ("40 U(0,1)", 1.2, 0.01, uniform((0.0, 1.0, 40))),
            (
                "62 rates U(.001,.004) + 2 U(.02,.03)", 3.0, 0.001,
                uniform((0.001, 0.004, 62), (0.02, 0.03, 2)),
            ),
            (
                "300 rates Exp(.003) + 6 U(.05,.08)", 4.0, 0.003,
                lambda rng: np.append(rng.exponential(0.003, 300), rng.uniform(0.05, 0.08, 6)),
            ),
            (
                "27 U(.95,.995) + 3 U(.75,.85)", -2.0, 0.01,
                uniform((0.95, 0.995, 27), (0.75, 0.85, 3)),
            ),
            (
                "500 N(.5,.08²)", 2.5, 0.005,
                lambda rng: np.clip(rng.normal(0.5, 0.08, 500), 0.0, 1.0),
            ),
            ("one of 8 at .003 from theta", 1.0, 0.0, _one_near(8, 1.0, 0.003)),
            ("one of 8 at .0003 from theta", 1.0, 0.0, _one_near(8, 1.0, 0.0003)),
            ("one of 30 at .002 from theta", 2.0, 0.0, _one_near(30, 2.0, 0.002)),
            ("one of 300 at .002 from theta", 2.0, 0.0, _one_near(300, 2.0, 0.002)),
        ]
    )  # fmt: skip
    loud = beta_rewards(with_smallest_gap(uniform((0.2, 0.6, 15), (0.85, 0.95, 1)), 2.0, 0.03), 1)
    quiet = beta_rewards(with_smallest_gap(uniform((0.2, 0.6, 15), (0.85, 0.95, 1)), 2.0, 0.03), 30)
    return [
        *settings,
        Setting("15+1 Beta(1), k=2", loud, 2.0, DELTA, data="rewards mostly near 0 or 1"),
        Setting("15+1 Beta(30), k=2", quiet, 2.0, DELTA, data="rewards near their mean"),
    ]


def _one_near(n: int, k: float, gap: float) -> Draw:
    """Return a drawer of normal means, one of which lies about `gap` from theta, on either side."""

    def draw(rng: Generator) -> FloatArray:
        others = np.clip(rng.normal(0.4, 0.05, n - 1), 0.0, 1.0)
        theta = others.mean() + leave_one_out_k(n, k) * others.std()
        return np.append(others, theta + rng.choice([-gap, gap]))

    return with_smallest_gap(draw, k, 0.5 * gap)


def calibrated_runs(
    families: Sequence[Setting], runs: int, *, seed: int, report: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each family and delta.

    What is pulled does not depend on delta, so one run says for each delta when it would stop.
    """
    for family in families:
        cells = list(Grid([repeated(family, runs)], [SPADE]).cells(seed))
        found = [_stops(cell) for cell in cells]
        n = cells[0].arms.means.size
        for place, delta in enumerate(DELTAS):
            stops = [stop[place] for stop in found]
            yield {
                "family": family.name,
                "n": n,
                "k": family.k,
                "delta": delta,
                "runs": len(cells),
                "pulls": fmean(stop.pulls for stop in stops),
                "limit": fmean(instance_limit(cell.arms, family.k, delta) for cell in cells),
                "wrong": sum(stop.finished and not stop.right for stop in stops),
                "unfinished": sum(not stop.finished for stop in stops),  # of too many pulls
            }
        report(f"calibrated: {family.name}")


@dataclass(frozen=True)
class _Stop:
    pulls: int
    right: bool
    finished: bool


def _stops(cell: Cell) -> list[_Stop]:
    """Return where one run stops for each of the deltas."""
    rng = np.random.default_rng([cell.seed, STREAM])
    arms, k = cell.arms.seeded(rng), cell.setting.k
    truth = is_outlier(arms.means, k)
    machine = Calibrated(truth.size, rule=Sigma(k=k), delta=min(DELTAS), rng=rng)
    most = MOST_PULLS if isinstance(arms, Bernoulli) else BETA_MOST_PULLS
    open_deltas, stops = list(DELTAS), {}
    while open_deltas:
        made = int(machine.pulls.sum())
        if machine.rows.number >= FIRST_ROWS:
            found = machine._verdict()
            error = stated_error(machine.totals.pulls, found)
            right = np.array_equal(found.odd, truth)
            for delta in [delta for delta in open_deltas if error <= delta or made >= most]:
                stops[delta] = _Stop(made, right, error <= delta)
                open_deltas.remove(delta)
        if open_deltas:
            pull_once(machine, arms, UNLIMITED)
    return [stops[delta] for delta in DELTAS]


def is_outlier(means: FloatArray, k: float) -> BoolArray:
    """Return a mask of the true outliers."""
    mask: BoolArray = np.zeros(means.size, dtype=np.bool_)
    mask[outliers(means, k)] = True
    return mask


def pull_once(machine: Calibrated, arms: SimulatedArms, limit: int) -> None:
    """Make one step."""
    pulls = machine.propose(limit)
    machine.absorb(pulls, *totals_of(arms, pulls))


def totals_of(arms: SimulatedArms, pulls: Pulls) -> tuple[FloatArray, FloatArray]:
    """Return sums and sums of squares of the rewards of a step."""
    if isinstance(arms, Bernoulli):
        return arms.pull_totals(*pulls)
    return added_up(pulls.counts, arms.pull(*pulls))
