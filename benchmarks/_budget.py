"""What is known when a budget ends: guesses, and how many of them are wrong.

Four ways to spend the same number of pulls. *Equal* pulls every arm as often, *APT* (Locatelli,
Gutzeit and Carpentier 2016) the arm with the least sqrt(N_i) |m_i - theta|, theta the plug-in
threshold; *SPADE* is stopped at the last step within the budget. All three guess by the plug-in
rule on plain averages (SPADE's decisions stand). *Rows* is the calibrated rule with goal "budget".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from benchmarks._calibrated import is_outlier, pull_once, totals_of
from benchmarks._compare import SPADE as SPADE_CONTENDER
from benchmarks._compare import instance_limit, repeated
from oddarms.algorithms import Decision
from oddarms.algorithms._calibrated import Calibrated
from oddarms.algorithms._spade import SPADE
from oddarms.arms import Bernoulli
from oddarms.experiments import Cell, Grid, Setting
from oddarms.experiments._paper import DELTA
from oddarms.problem import BoolArray, FloatArray
from oddarms.rules import Sigma
from oddarms.statistics.totals import Totals
from oddarms.theory import threshold

SHARES = (0.1, 0.3, 1.0, 3.0)
SPADE_SHARE = 8  # SPADE meets one in so many of the instances: its steps take long
LONGEST = 100_000  # pulls of the limit; with more, APT's pulls one by one take too long
STREAM = 12


class _Instance(NamedTuple):
    arms: Bernoulli
    k: float
    budgets: tuple[int, ...]


def budget_families(families: Sequence[Setting]) -> list[Setting]:
    """Return those with 0/1 rewards whose limits are not too large to be spent pull by pull."""
    found = []
    for family in families:
        arms = family.draw(seed=0)
        limit = instance_limit(arms, family.k, DELTA)
        if isinstance(arms, Bernoulli) and arms.means.size <= 200 and limit <= LONGEST:
            found.append(family)
    return found


def budget_runs(
    families: Sequence[Setting], runs: int, *, seed: int, report: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Return what every way of spending a budget comes to."""
    rows: list[dict[str, Any]] = []
    for family in families:
        cells = list(Grid([repeated(family, runs)], [SPADE_CONTENDER]).cells(seed))
        instances = [_instance(cell) for cell in cells]
        for way, spend in WAYS.items():
            some = len(cells) if way != "SPADE" else max(len(cells) // SPADE_SHARE, 1)
            found = [
                spend(one, np.random.default_rng([cell.seed, STREAM]))
                for one, cell in zip(instances[:some], cells, strict=False)
            ]
            rows += _rows(family.name, way, instances[:some], found)
        report(f"budget: {family.name}")
    return rows


def _instance(cell: Cell) -> _Instance:
    arms, k = cell.arms, cell.setting.k
    assert isinstance(arms, Bernoulli)
    limit = instance_limit(arms, k, DELTA)
    budgets = tuple(max(round(share * limit), 2 * arms.means.size) for share in SHARES)
    return _Instance(arms, k, budgets)


def _rows(
    family: str, way: str, instances: Sequence[_Instance], found: Sequence[list[BoolArray]]
) -> Iterator[dict[str, Any]]:
    """Yield a way of spending each budget, at least two pulls of every arm: its mean errors."""
    truths = [is_outlier(one.arms.means, one.k) for one in instances]
    for place, share in enumerate(SHARES):
        at_budget = [by_budget[place] for by_budget in found]
        wrong = [int((odd != truth).sum()) for odd, truth in zip(at_budget, truths, strict=True)]
        yield {
            "family": family,
            "n": truths[0].size,
            "share": share,
            "way": way,
            "runs": len(wrong),
            "pulls": fmean(one.budgets[place] for one in instances),
            "any_wrong": fmean(count > 0 for count in wrong),
            "wrong_arms": fmean(wrong),
        }


# The ways


def spend_rows(one: _Instance, rng: np.random.Generator) -> list[BoolArray]:
    """Return the guesses of the calibrated rows, a search for each budget."""
    found = []
    for budget in one.budgets:
        machine = Calibrated(
            one.arms.means.size, rule=Sigma(k=one.k), delta=DELTA, rng=rng, goal="budget"
        )
        arms, made = one.arms.seeded(rng), 0
        while made < budget:
            pull_once(machine, arms, budget - made)
            made = int(machine.pulls.sum())
        found.append(machine.guesses().decisions == Decision.HIGH)
    return found


def spend_equally(one: _Instance, rng: np.random.Generator) -> list[BoolArray]:
    """Return the guesses after as many pulls of every arm, what is left over at random."""
    found = []
    for budget in one.budgets:
        each, left = divmod(budget, one.arms.means.size)
        counts = np.full(one.arms.means.size, each)
        counts[rng.permutation(counts.size)[:left]] += 1
        sums = rng.binomial(counts, one.arms.means).astype(np.float64)
        found.append(_plug_in(Totals(counts.astype(np.float64), sums, sums), one.k))
    return found


def spend_by_apt(one: _Instance, rng: np.random.Generator) -> list[BoolArray]:
    """Return the guesses of APT, which does not know its budgets."""
    pulls, sums = _apt()(one.arms.means, one.k, np.array(one.budgets), rng)
    return [
        _plug_in(Totals(counts, total, total), one.k)
        for counts, total in zip(pulls, sums, strict=True)
    ]


def spend_by_spade(one: _Instance, rng: np.random.Generator) -> list[BoolArray]:
    """Return what SPADE knows at the last step within each budget, and guesses for the rest."""
    machine = SPADE(one.arms.means.size, rule=Sigma(k=one.k), delta=DELTA, rng=rng)
    arms, found = one.arms.seeded(rng), []
    for budget in one.budgets:
        while not machine.done:
            pulls = machine.propose(budget - int(machine.pulls.sum()))
            if pulls.total > budget - machine.pulls.sum():
                break
            machine.absorb(pulls, *totals_of(arms, pulls))
        guess = _plug_in(machine.totals, one.k, machine.threshold().estimate)
        found.append(np.where(machine.undecided, guess, machine.decisions == Decision.HIGH))
    return found


WAYS: dict[str, Callable[[_Instance, np.random.Generator], list[BoolArray]]] = {
    "equal": spend_equally,
    "APT": spend_by_apt,
    "SPADE": spend_by_spade,
    "rows": spend_rows,
}


def _plug_in(totals: Totals, k: float, theta: float | None = None) -> BoolArray:
    means = totals.total / totals.pulls
    odd: BoolArray = means > (threshold(means, k) if theta is None else theta)
    return odd


@cache
def _apt() -> Any:
    """Return the compiled loop; compiling takes a second or two, once."""
    import numba

    return numba.njit(_apt_loop)


def _apt_loop(
    y: FloatArray, k: float, budgets: Any, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Pull one arm at a time; return pulls and sums of every arm at each budget."""
    n = y.size
    pulls, sums = np.ones(n), np.zeros(n)
    for i in range(n):
        sums[i] = 1.0 if rng.random() < y[i] else 0.0
    kept_pulls, kept_sums = np.zeros((budgets.size, n)), np.zeros((budgets.size, n))
    made = n
    for place in range(budgets.size):
        while made < budgets[place]:
            theta = (sums / pulls).mean() + k * (sums / pulls).std()
            least, arm = np.inf, 0
            for i in range(n):
                index = np.sqrt(pulls[i]) * abs(sums[i] / pulls[i] - theta)
                if index < least:
                    least, arm = index, i
            pulls[arm] += 1.0
            sums[arm] += 1.0 if rng.random() < y[arm] else 0.0
            made += 1
        kept_pulls[place], kept_sums[place] = pulls, sums
    return kept_pulls, kept_sums
