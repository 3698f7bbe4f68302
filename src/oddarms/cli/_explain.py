"""``oddarms explain``: what k, delta and bounds mean, and how many samples to expect."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
import typer

from oddarms.cli._tables import emit, note, table
from oddarms.errors import InvalidParameter
from oddarms.limit import first_order_program
from oddarms.problem import FloatArray, check_delta, check_k, check_whole, gaps, threshold
from oddarms.simulation import simulate
from oddarms.statistics.round_robin import pulls_until_decided

CENTRE = 0.3
MOST_ARMS = 2_000
RUNS = 5

TEXT = """\
You have {n:,} things, each with a mean that only sampling shows. A thing is
abnormal if its mean is at or above

    threshold = mean of all means + k x standard deviation of all means.

k = {k:g}
           How far out "abnormal" is. {rule}
           Among fewer than 1 + k^2 = {least:g} things nothing can be that far out.
delta = {delta:g}
           The permitted probability that anything in the answer is wrong. A tenth of it costs
           {log_cost}.
bounds     The smallest and the largest reward possible; the guarantee rests on them, and the
           samples needed grow with the square of their distance over the gap.
gap        How far the hardest thing is from the threshold. Nobody knows it in advance, and
           it decides the cost: half the gap, four times the samples. With --indifference, things
           within that distance may be called either way, which bounds the cost.
"""


def explain(
    n: Annotated[int, typer.Option("--n", help="How many things.")] = 50,
    k: Annotated[float, typer.Option("--k", help="Standard deviations.")] = 2.0,
    gap: Annotated[
        float | None,
        typer.Option(help="Distance of the hardest thing from the threshold; rewards in [0, 1]."),
    ] = None,
    delta: Annotated[float, typer.Option(help="Permitted probability of an error.")] = 0.05,
    seed: Annotated[int, typer.Option(help="Decides the simulated samples.")] = 0,
) -> None:
    """Teach what k, delta and bounds mean, and how many samples to expect.

    The table compares what no algorithm can do without (the information-theoretic limit, to first
    order), what SPADE takes in simulated searches, and what sampling everything equally takes.
    Rewards are 0 and 1, most means about 0.3, one thing is abnormal.

    \b
    Try:
      oddarms explain
      oddarms explain --n 200 --k 3 --gap 0.1
    """  # noqa: D301 - the \\b keeps click from filling the lines below it
    check_whole("--n", n, least=2)
    check_k(k)
    check_delta(delta)
    if n > MOST_ARMS:
        raise InvalidParameter(f"--n must be at most {MOST_ARMS} here but got {n}.")
    emit(_text(n, k, delta))
    if n <= 1.0 + k * k or k <= 0.0:
        emit(f"\nNo table: with n = {n} and k = {k:g} there is no thing above the threshold.\n")
        return
    wanted = [gap] if gap is not None else [0.3, 0.2, 0.1, 0.05]
    rows = []
    for one in wanted:
        means = _instance(n, k, one)
        if means is None:
            if gap is not None:
                raise InvalidParameter(
                    f"--gap must be possible with n = {n} and k = {k:g}, where no mean in [0, 1] is"
                    f" that far above the threshold, but got {gap:g}."
                )
            continue
        note(f"simulating a gap of {one:g} ...")
        rows.append(_row(means, k, delta, one, seed))
    header = ["gap", "limit", "SPADE", "equal sampling", "SPADE a thing"]
    emit("\nSamples to expect:\n\n", table(header, rows, right=header))


def _text(n: int, k: float, delta: float) -> str:
    from scipy.special import ndtr

    share = float(ndtr(-k))
    rule = f"If the means were normal, {100 * share:.2g} % of them would be beyond it."
    ratio = math.log(10.0 * n / delta) / math.log(n / delta)
    log_cost = f"{100 * (ratio - 1.0):.0f} % more samples here"
    return TEXT.format(n=n, k=k, delta=delta, rule=rule, least=1.0 + k * k, log_cost=log_cost)


def _instance(n: int, k: float, gap: float) -> FloatArray | None:
    """Return means of which one is above the threshold and none nearer to it than the gap.

    The others are quantiles of a normal distribution about 0.3, as wide as the gap leaves room;
    the one is as low as it leaves room, so that something is just that near.
    """
    from scipy.special import ndtri

    others = ndtri((np.arange(n - 1) + 0.5) / (n - 1))
    for spread in np.geomspace(0.1, 0.001, 15):
        bulk = np.clip(CENTRE + spread * others, 0.0, 1.0)
        for top in np.linspace(CENTRE, 1.0, 141):
            means = np.append(bulk, top)
            if top > threshold(means, k) and gaps(means, k).min() >= gap:
                return means
    return None


def _row(means: FloatArray, k: float, delta: float, gap: float, seed: int) -> list[str]:
    n = means.size
    limit = float(first_order_program(means, means * (1.0 - means), k).sum()) * math.log(n / delta)
    spade = simulate(means, k=k, delta=delta, runs=RUNS, rng=seed).pulls.mean()
    equal = pulls_until_decided(float(gaps(means, k).min()), k, n, delta)
    return [f"{gap:g}", f"{limit:,.0f}", f"{spade:,.0f}", f"{equal:,.0f}", f"{spade / n:,.0f}"]
