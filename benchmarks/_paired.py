"""SPADE against an earlier report, run by run on the same instances with the same rewards' seeds.

Instances differ in difficulty by factors, so two means of a hundred runs say little about a change
of a few per cent. The ratios of paired runs vary much less, and their logarithms have a standard
error.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._compare import SMALL, Limits, Row
from benchmarks._tables import geometric_mean, markdown
from oddarms.errors import InvalidParameter
from oddarms.experiments import Setting

SAME_LIMIT = 1e-6  # the limit comes from an iteration, which may end a little elsewhere


@dataclass(frozen=True)
class Runs:
    """SPADE's runs on one family, and the limit of each one's instance."""

    pulls: list[int]
    limits: list[float]

    @property
    def over_limit(self) -> float:
        """Mean pulls over the mean limit."""
        return statistics.fmean(self.pulls) / statistics.fmean(self.limits)


@dataclass(frozen=True)
class Earlier:
    """An earlier report: its file, its seed, and SPADE's runs by family."""

    path: Path
    seed: int
    runs: dict[str, Runs]

    @classmethod
    def read(cls, path: Path) -> Earlier:
        """Return the report of a file that the benchmark wrote."""
        try:
            report = json.loads(path.read_text(encoding="utf-8"))
            families = {entry["family"]: entry for entry in report["samples"]}
            seed = int(report["seed"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidParameter(
                f"--against must name the JSON of a benchmark with the part samples but {path} is"
                f" none ({type(error).__name__}: {error})."
            ) from None
        lacking = [name for name, entry in families.items() if "spade_runs" not in entry]
        if lacking:
            raise InvalidParameter(
                f"--against must name a report with the pulls of every run but {path} has none for"
                f" {lacking[0]!r}: an older benchmark wrote it; run this one with the older SPADE."
            )
        return cls(path, seed, {name: _runs(entry) for name, entry in families.items()})

    def check(self, families: Sequence[Setting], runs: int, seed: int) -> None:
        """Raise if a run of these families could not be paired with this one."""
        if seed != self.seed:
            raise InvalidParameter(
                f"--against must name a report with the same seed but {self.path} has seed"
                f" {self.seed} and this run {seed}; use --seed {self.seed}."
            )
        names = [family.name for family in families]
        unknown = [name for name in names if name not in self.runs]
        if unknown:
            raise InvalidParameter(
                f"--against must name a report with the same families but {self.path} lacks"
                f" {', '.join(map(repr, unknown))}; leave them out with --match, or choose the same"
                " --families and --data as for that report."
            )
        for name in names:
            before = len(self.runs[name].pulls)
            if before != runs:
                raise InvalidParameter(
                    f"--against must name a report with as many runs but {self.path} has {before}"
                    f" of {name!r} and this run {runs}; use --runs {before}."
                )

    def check_limits(self, limits: Limits) -> None:
        """Raise if the instances are others, which the limits show."""
        for name, now in limits.items():
            for old, new in zip(self.runs[name].limits, now, strict=True):
                if not math.isclose(old, new, rel_tol=SAME_LIMIT):
                    raise InvalidParameter(
                        f"--against must name a report on the same instances but those of {name!r}"
                        f" in {self.path} differ (a limit of {old:,.1f} then, {new:,.1f} now): the"
                        " family or the limit has changed; run this benchmark with the older SPADE."
                    )


def _runs(entry: dict[str, Any]) -> Runs:
    return Runs(entry["spade_runs"]["pulls"], entry["spade_runs"]["limits"])


@dataclass(frozen=True)
class Pair:
    """One family then and now.

    Attributes
    ----------
    new_over_old
        The geometric mean of the ratios of paired runs.
    log_error
        The standard error of its logarithm; NaN for one run.
    before, now
        Mean pulls over the mean limit.
    wrong, runs
        Runs with a wrong answer now, and all.
    """

    family: str
    n: int
    new_over_old: float
    log_error: float
    mean_pulls: float
    before: float
    now: float
    wrong: int
    runs: int


def paired(rows: Sequence[Row], earlier: Earlier) -> list[Pair]:
    """Return a pair per family that is in both."""
    return [_pair(row, earlier) for row in rows]


def _pair(row: Row, earlier: Earlier) -> Pair:
    name, before = row.setting.name, earlier.runs[row.setting.name]
    pulls = [outcome.pulls for outcome in row.spade]
    logs = [math.log(new / old) for old, new in zip(before.pulls, pulls, strict=True)]
    spread = statistics.stdev(logs) if len(logs) > 1 else math.nan
    return Pair(
        family=name,
        n=row.n,
        new_over_old=math.exp(statistics.fmean(logs)),
        log_error=spread / math.sqrt(len(logs)),
        mean_pulls=statistics.fmean(pulls),
        before=before.over_limit,
        now=row.ratio_to_limit,
        wrong=sum(not outcome.correct for outcome in row.spade),
        runs=len(pulls),
    )


def paired_table(pairs: Sequence[Pair]) -> str:
    """Return what has changed, a row per family."""
    return markdown(
        ["family", "n", "new / old (± standard error)", "pulls", "x limit", "before", "wrong"],
        [
            [
                pair.family,
                f"{pair.n:,}",
                _with_error(pair.new_over_old, pair.log_error),
                f"{pair.mean_pulls:,.0f}",
                f"{pair.now:.2f}",
                f"{pair.before:.2f}",
                f"{pair.wrong} of {pair.runs}",
            ]
            for pair in pairs
        ],
    )


def paired_change(pairs: Sequence[Pair]) -> str:
    """Return the sentence that says how many more or fewer pulls all families take."""
    change = geometric_mean(pair.new_over_old for pair in pairs)
    error = math.hypot(*(pair.log_error for pair in pairs)) / len(pairs)
    return f"Geometric mean of new / old over {len(pairs)} families: {_with_error(change, error)}."


def paired_verdict(pairs: Sequence[Pair], earlier: Earlier) -> list[str]:
    """Return the sentences that sum the change up."""
    small = [pair for pair in pairs if pair.n <= SMALL]
    mean = "Geometric mean of mean pulls / mean limit over"
    lines = [
        paired_change(pairs),
        f"{mean} all families: {_now_and_before(pairs)}.",
    ]
    if small:
        lines.append(f"{mean} n <= {SMALL}: {_now_and_before(small)}.")
    left_out = [name for name in earlier.runs if name not in {pair.family for pair in pairs}]
    if left_out:
        lines.append(f"In {earlier.path} but not run now: {'; '.join(left_out)}.")
    return lines


def _now_and_before(pairs: Sequence[Pair]) -> str:
    now = geometric_mean(pair.now for pair in pairs)
    return f"{now:.3f} (before: {geometric_mean(pair.before for pair in pairs):.3f})"


def _with_error(ratio: float, log_error: float) -> str:
    """Return a ratio with its standard error, that of its logarithm times the ratio."""
    return f"{ratio:.3f}" if math.isnan(log_error) else f"{ratio:.3f} ± {ratio * log_error:.3f}"
