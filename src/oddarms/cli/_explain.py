"""``oddarms explain``: what k, delta and bounds mean, and how many samples to expect."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from oddarms.cli._explain_samples import of_samples
from oddarms.cli._printing import emit, note
from oddarms.cli.study._storage import StorageOption
from oddarms.errors import InvalidParameter
from oddarms.problem import (
    UNIT,
    USUAL_MARGIN,
    FloatArray,
    check_delta,
    check_k,
    check_margin,
    check_whole,
)
from oddarms.simulation import simulate
from oddarms.text import table as text_table
from oddarms.theory import first_order_program, gaps, threshold

CENTRE = 0.3
MAX_ARMS = 2_000
RUNS = 5
BISECTIONS = 30
USUAL_GAPS = [0.3, 0.2, 0.1, 0.05]
LEAST_GAP = 0.001
SHOWN_GAP = 0.1
MOST_COMPARED = 300

TEXT = """\
You have {n:,} things. Each gives a number when you try it, another one every
time; only many samples show its mean. A thing is abnormal if its mean is at or
above

    threshold = mean of all means + k x standard deviation of all means.

k = {k:g}
    How far out "abnormal" is. If the means were spread like a bell curve,
    {share} of them would be beyond it. Among n things none can be further
    out than sqrt(n - 1) standard deviations: with this k, n must be over {least:g}.

delta = {delta:g}
    The permitted probability that anything in the answer is wrong. A tenth of
    it costs only about {log_cost} more samples here.

bounds = 0,1
    The smallest and the largest reward possible; the guarantee rests on them.
    What counts is the gap as a share of their distance.

gap
    How far the hardest thing is from the threshold. Nobody knows it in advance,
    and it decides the cost: half the gap, up to four times the samples.

margin = {margin:g}
    How far above the mean an abnormal thing must be, whatever the spread. It
    ends the search where all things are alike: nothing stands out.
"""

READING = f"""
limit: roughly what an oracle with the optimal allocation needs; a yardstick,
not a bound. SPADE: the average of {RUNS} simulated searches, in all and per
thing.
"""

SAVING = """
What other options would take, in simulated searches of the gap {gap:g}:

"""


def explain(
    n: Annotated[int, typer.Option("--n", help="How many things.")] = 50,
    k: Annotated[float, typer.Option("--k", help="Standard deviations.")] = 2.0,
    gap: Annotated[
        float | None,
        typer.Option(help="Distance of the hardest thing from the threshold; rewards in [0, 1]."),
    ] = None,
    delta: Annotated[float, typer.Option(help="Permitted probability of an error.")] = 0.05,
    margin: Annotated[
        float, typer.Option(help="How far above the mean an abnormal thing is at least.")
    ] = USUAL_MARGIN,
    table: Annotated[
        Path | None,
        typer.Option("--table", metavar="FILE", help="Recorded samples: what do they prove?"),
    ] = None,
    arm: Annotated[str, typer.Option(metavar="COLUMN", help="Its column of things.")] = "arm",
    reward: Annotated[
        str, typer.Option(metavar="COLUMN", help="Its column of rewards.")
    ] = "reward",
    bounds: Annotated[str, typer.Option(metavar="A,B", help="Bounds of its rewards.")] = "0,1",
    study: Annotated[
        str | None, typer.Option(metavar="NAME", help="A study: what is missing, what would help?")
    ] = None,
    storage: StorageOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides the simulated samples.")] = 0,
) -> None:
    """Teach what k, delta and margin mean, how many samples to expect, and what would save some.

    The table compares what no algorithm can do without (the information-theoretic limit, to first
    order) with what SPADE takes in simulated searches. Rewards are 0 and 1, most means about 0.3,
    one thing is abnormal. With --table or --study it describes the recorded samples instead.

    \b
    Try:
      oddarms explain
      oddarms explain --n 200 --k 3 --gap 0.1
      oddarms explain --table runs.csv --arm test --reward failed
      oddarms explain --study find --storage output/find-.../study.db
    """  # noqa: D301 - the \\b keeps click from filling the lines below it
    if table is not None or study is not None:
        emit(of_samples(_question(k, delta, margin), table, arm, reward, bounds, study, storage))
        return
    check_whole("--n", n, least=2)
    check_margin(margin, UNIT)
    check_k(k)
    check_delta(delta)
    if n > MAX_ARMS:
        raise InvalidParameter(f"--n must be at most {MAX_ARMS} here but got {n}.")
    if k <= 0.0:
        raise InvalidParameter(f"--k must be positive here but got {k:g}.")
    if gap is not None and not LEAST_GAP <= gap < 1.0:
        raise InvalidParameter(f"--gap must be at least {LEAST_GAP:g} and below 1 but got {gap:g}.")
    possible = n > 1.0 + k * k
    wanted = (USUAL_GAPS if gap is None else [gap]) if possible else []
    instances = {one: means for one in wanted if (means := _instance(n, k, one)) is not None}
    if gap is not None and possible and not instances:
        raise InvalidParameter(
            f"--gap must be possible with n = {n} and k = {k:g}, where no mean in [0, 1] is that"
            f" far above the threshold, but got {gap:g}."
        )
    emit(_text(n, k, delta, margin))
    if not instances:
        emit(
            f"\nNo table: among {n} things none can be {k:g} standard deviations out, or hardly.\n"
        )
        return
    rows = []
    for one, means in instances.items():
        note(f"simulating a gap of {one:g} ...")
        rows.append(_row(means, k, delta, one, seed))
    header = ["gap", "limit", "SPADE", "SPADE a thing"]
    emit(
        "\nSamples to expect, with rewards of 0 and 1 and one abnormal thing:\n\n",
        text_table(header, rows, right=header),
        READING,
    )
    one = min(instances, key=lambda known: abs(known - SHOWN_GAP))
    if n <= MOST_COMPARED:
        note("simulating other options ...")
        emit(_savings(instances[one], k, delta, margin, one, seed))


def _question(k: float, delta: float, margin: float) -> dict[str, Any]:
    return {"k": check_k(k), "delta": check_delta(delta), "margin": margin}


def _savings(
    means: FloatArray, k: float, delta: float, margin: float, gap: float, seed: int
) -> str:
    """Return what other options would take on the same instance, and what alike things take."""
    choices: dict[str, dict[str, Any]] = {
        "as asked": {},
        "--error fdr": {"error": "fdr"},
        f"--indifference {gap / 2.0:g}": {"indifference": gap / 2.0},
        f"--delta {min(4.0 * delta, 0.5):g}": {"delta": min(4.0 * delta, 0.5)},
        "--algorithm calibrated (not proven)": {"algorithm": "calibrated"},
    }
    asked: dict[str, Any] = {
        "k": k,
        "delta": delta,
        "margin": margin,
        "runs": RUNS,
        "rng": seed,
    }
    pulls = {
        name: float(simulate(means, **{**asked, **words}).pulls.mean())
        for name, words in choices.items()
    }
    rows = [
        [name, f"{taken:,.0f}", f"{taken / pulls['as asked']:.2f}"] for name, taken in pulls.items()
    ]
    text = SAVING.format(gap=gap) + text_table(
        ["option", "samples", "share"], rows, right=["samples", "share"]
    )
    if margin == 0.0:
        return text + "\nIf all things are alike, a margin of 0 never ends.\n"
    alike = simulate(np.full(means.size, CENTRE), **{**asked, "runs": 1}).pulls.mean()
    return text + f"\nIf all things are alike: about {alike:,.0f}, until nothing stands out.\n"


def _text(n: int, k: float, delta: float, margin: float) -> str:
    from scipy.special import ndtr

    share = f"{100.0 * float(ndtr(-k)):.2g} %"
    ratio = math.log(10.0 * n / delta) / math.log(n / delta)
    log_cost = f"{100.0 * (ratio - 1.0):.0f} %"
    return TEXT.format(
        n=n, k=k, delta=delta, margin=margin, share=share, least=1.0 + k * k, log_cost=log_cost
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


def _row(means: FloatArray, k: float, delta: float, gap: float, seed: int) -> list[str]:
    n = means.size
    limit = float(first_order_program(means, means * (1.0 - means), k).sum()) * math.log(n / delta)
    spade = simulate(means, k=k, delta=delta, runs=RUNS, rng=seed).pulls.mean()
    return [f"{gap:g}", f"{limit:,.0f}", f"{spade:,.0f}", f"{spade / n:,.0f}"]
