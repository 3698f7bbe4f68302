"""``oddarms explain``: what k, delta and margin mean, and how many samples to expect."""

from __future__ import annotations

import math

import numpy as np

from oddarms.cli import _options as opts
from oddarms.cli._options import Given, command, option, seed_option
from oddarms.cli._terminal import emit, note
from oddarms.errors import InvalidParameter
from oddarms.problem import FloatArray, Question
from oddarms.simulation import simulate
from oddarms.text import table
from oddarms.theory import first_order_program, gaps, threshold

CENTRE = 0.3
MIN_GAP, USUAL_GAPS = 0.001, (0.3, 0.2, 0.1, 0.05)
"""The smallest gap, and those of the table."""
MAX_ARMS = 2_000
RUNS = 5
BISECTIONS = 30

TEXT = """\
You have {n:,} items. A sample of an item is a number that varies; only many
samples show its mean. An item is abnormal if its mean is at or above

    threshold = mean of all means + k x standard deviation of all means.

k = {k:g}
    How far out "abnormal" is. If the means were normally distributed, {share}
    of them would be beyond it. Among n items none can be further out than
    sqrt(n - 1) standard deviations, so this k needs more than {least:g} items.

delta = {delta:g}
    The permitted probability of any wrong decision. A tenth of it costs only
    about {log_cost} more samples here.

margin = {margin:g}
    An abnormal item is also at least this far above the mean of all means.
    Without a margin, a search among items that are all alike would not end.

bounds = 0,1
    The smallest and the largest possible sample. The guarantee rests on them;
    wider bounds take more samples.

gap
    The distance of the hardest item from the threshold. It is unknown
    beforehand, and decides the cost: half the gap takes up to four times the
    samples.
"""

READING = f"""
limit: roughly what an oracle with the optimal allocation needs; a yardstick,
not a bound. SPADE: the average of {RUNS} simulated searches, in all and per
item.
"""


@command(
    None,
    "explain",
    option("--n N", int, "Number of items.", default=50),
    opts.SIGMAS,
    opts.DELTA,
    opts.MARGIN,
    option(
        "--gap NUMBER",
        float,
        "Distance of the hardest item from the threshold; samples lie in [0, 1].",
        "several",
    ),
    seed_option("Seed for the simulated samples.", 0),
)
def explain(given: Given) -> None:
    """Explain k, delta and margin, and how many samples to expect.

    The table compares the information-theoretic limit, to first order, with the samples that SPADE
    takes in simulated searches. Samples are 0 or 1, most means are about 0.3, and one item is
    abnormal.

    \b
    Examples:
      oddarms explain
      oddarms explain --n 200 --k 3 --gap 0.1
    """  # noqa: D301 - the \\b keeps click from filling the lines below it
    n, gap, seed = given.n, given.gap, given.seed
    if n > MAX_ARMS:
        raise InvalidParameter(f"--n must be at most {MAX_ARMS:,} here, not {n:,}.")
    if gap is not None and not MIN_GAP <= gap < 1.0:
        raise InvalidParameter(f"--gap must be at least {MIN_GAP:g} and below 1, not {gap:g}.")
    question = Question(n, **opts.words_of(given))
    if question.k <= 0.0:
        raise InvalidParameter(f"--k must be positive here, not {question.k:g}.")
    instances = _instances(question, gap)
    emit(_text(question))
    if not instances:
        emit(
            f"\nNo table: among {n} items none can lie far beyond {question.k:g} standard"
            " deviations\nfrom the mean; choose a smaller --k.\n"
        )
        return
    rows = []
    for one, means in instances.items():
        note(f"simulating a gap of {one:g} ...")
        rows.append(_row(question, means, one, seed))
    header = ["gap", "limit", "SPADE", "SPADE per item"]
    emit(
        "\nSamples to expect, with samples of 0 and 1 and one abnormal item:\n\n",
        table(header, rows, right=header),
        READING,
    )


def _instances(question: Question, gap: float | None) -> dict[float, FloatArray]:
    """Return means for each gap that is possible; a gap that was asked for must be."""
    if not question.can_have_outliers:
        return {}
    wanted = USUAL_GAPS if gap is None else (gap,)
    found = {one: _instance(question.n, question.k, one) for one in wanted}
    if gap is not None and found[gap] is None:
        raise InvalidParameter(
            f"--gap {gap:g} is too large for n = {question.n} and k = {question.k:g}: with one"
            " abnormal item, some mean is always nearer to the threshold; give a smaller --gap."
        )
    return {one: means for one, means in found.items() if means is not None}


def _text(question: Question) -> str:
    from scipy.special import ndtr

    n, k, delta = question.n, question.k, question.delta
    ratio = math.log(10.0 * n / delta) / math.log(n / delta)
    return TEXT.format(
        n=n,
        k=k,
        delta=delta,
        margin=question.margin,
        share=f"{100.0 * float(ndtr(-k)):.2g} %",
        least=1.0 + k * k,
        log_cost=f"{100.0 * (ratio - 1.0):.0f} %",
    )


def _instance(n: int, k: float, gap: float) -> FloatArray | None:
    """Return means of which one is above the threshold and none nearer to it than the gap.

    The others are quantiles of a normal distribution about 0.3, as wide as the gap leaves room;
    the one is as low as it leaves room, so that something is just that near.
    """
    from scipy.special import ndtri

    others = ndtri((np.arange(n - 1) + 0.5) / (n - 1))
    for spread in np.geomspace(0.1, 0.001, 15):
        bulk = np.clip(CENTRE + spread * others, 0.0, 1.0)
        low, high = CENTRE, 1.0
        if not _apart(np.append(bulk, high), k, gap):
            continue
        for _ in range(BISECTIONS):
            top = (low + high) / 2.0
            low, high = (low, top) if _apart(np.append(bulk, top), k, gap) else (top, high)
        return np.append(bulk, high)
    return None


def _apart(means: FloatArray, k: float, gap: float) -> bool:
    """Return whether only the last is above the threshold, and nothing nearer than the gap."""
    level = threshold(means, k)
    only = means[-1] > level > means[:-1].max()
    return bool(only and gaps(means, k).min() >= gap)


def _row(question: Question, means: FloatArray, gap: float, seed: int) -> list[str]:
    n, k, delta = question.n, question.k, question.delta
    limit = float(first_order_program(means, means * (1.0 - means), k).sum()) * math.log(n / delta)
    found = simulate(means, k=k, delta=delta, margin=question.margin, runs=RUNS, rng=seed)
    spade = found.pulls.mean()
    return [f"{gap:g}", f"{limit:,.0f}", f"{spade:,.0f}", f"{spade / n:,.0f}"]
