"""What a search found out."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from oddarms.algorithms import Decision, Decisions, Threshold
from oddarms.errors import MissingExtra, TwoThresholds
from oddarms.problem import BoolArray, FloatArray, IntArray, Label, Problem


class HistoryPoint(NamedTuple):
    """The state of a search at one moment; thresholds are those of the first side.

    The evidence is the least log e-value of all arms and the quartiles of their log e-values;
    None where the algorithm has none.
    """

    pulls: int
    round: int
    undecided: int
    threshold: float
    threshold_lower: float
    threshold_upper: float
    evidence_least: float | None = None
    evidence_lower_quartile: float | None = None
    evidence_median: float | None = None
    evidence_upper_quartile: float | None = None


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Every arm and the threshold at one moment, in the user's units: Figure 1 of the paper."""

    round: int
    means: FloatArray
    lower: FloatArray
    upper: FloatArray
    decisions: Decisions
    thresholds: dict[str, Threshold]


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The answer of a search, complete or not, in the user's labels and units.

    Attributes
    ----------
    problem
        Labels, k, delta, bounds and side of the question.
    algorithm
        Name of the algorithm that answered.
    decisions
        Per arm: 0 undecided, 1 normal, 2 outlier above, 3 outlier below.
    pulls_per_arm, means, intervals
        Per arm: how often it was pulled, its average reward (NaN if never), and an (n, 2) array
        of ends. All intervals, those of the thresholds included, hold together with probability
        at least 1 - delta.
    thresholds
        The threshold of each side: estimate, lower and upper end.
    stopped
        Why the search ended: "decided", "budget", "interrupted", "failed", or "running".
    round, threshold_pulls
        Rounds of the algorithm, and the pulls made only for the threshold.
    imported, imported_per_arm
        Rewards that were given without being asked for; not part of the pulls.
    evidence
        Per arm the log e-value for its decision or, while it is undecided, for the side of the
        threshold it seems to be on; None where the algorithm has none.
    history
        A few moments of the search, evenly spaced on a logarithmic scale of pulls.
    first, last
        All intervals after the first rounds and at the end.
    """

    problem: Problem
    algorithm: str
    decisions: Decisions
    pulls_per_arm: IntArray
    means: FloatArray
    intervals: FloatArray
    thresholds: dict[str, Threshold]
    stopped: str
    round: int
    threshold_pulls: int
    imported: int = 0
    evidence: FloatArray | None = None
    history: tuple[HistoryPoint, ...] = ()
    first: Snapshot | None = field(default=None)
    last: Snapshot | None = field(default=None)
    imported_per_arm: IntArray | None = None

    @property
    def labels(self) -> tuple[Label, ...]:
        """The arms' labels, in the order of all arrays."""
        return self.problem.labels

    @cached_property
    def outliers(self) -> list[Label]:
        """Labels of the outliers."""
        return self._labels_where(self.decisions >= Decision.HIGH)

    @cached_property
    def high(self) -> list[Label]:
        """Labels of the outliers above the upper threshold."""
        return self._labels_where(self.decisions == Decision.HIGH)

    @cached_property
    def low(self) -> list[Label]:
        """Labels of the outliers below the lower threshold."""
        return self._labels_where(self.decisions == Decision.LOW)

    @cached_property
    def normal(self) -> list[Label]:
        """Labels of the arms known to be normal."""
        return self._labels_where(self.decisions == Decision.NORMAL)

    @cached_property
    def undecided(self) -> list[Label]:
        """Labels of the arms still open."""
        return self._labels_where(self.decisions == Decision.UNDECIDED)

    def _labels_where(self, mask: BoolArray) -> list[Label]:
        return [self.problem.labels[i] for i in np.flatnonzero(mask)]

    @property
    def pulls(self) -> int:
        """All pulls made."""
        return int(self.pulls_per_arm.sum())

    @property
    def arm_pulls(self) -> int:
        """Pulls that were not made for the threshold alone."""
        return self.pulls - self.threshold_pulls

    @property
    def complete(self) -> bool:
        """True if every arm is decided."""
        return self.stopped == "decided"

    @property
    def threshold(self) -> float:
        """The estimate of the threshold of a one-sided search."""
        return self._only_threshold().estimate

    @property
    def threshold_interval(self) -> tuple[float, float]:
        """An interval that contains the threshold of a one-sided search."""
        return self._only_threshold()[1:]

    def _only_threshold(self) -> Threshold:
        if len(self.thresholds) > 1:
            raise TwoThresholds(
                "threshold must be read from result.thresholds['upper'] or ['lower']"
                " when side is 'both'."
            )
        return next(iter(self.thresholds.values()))

    @property
    def odds(self) -> FloatArray | None:
        """The evidence as odds (e-values): 1000 is a bet won 1000 to 1 against the contrary."""
        if self.evidence is None:
            return None
        return np.exp(np.minimum(self.evidence, 700.0))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values, ready for JSON; other labels as text."""
        a, b = self.problem.bounds
        return {
            "algorithm": self.algorithm,
            "k": self.problem.k,
            "delta": self.problem.delta,
            "bounds": [a, b],
            "side": self.problem.side,
            "complete": self.complete,
            "stopped": self.stopped,
            "pulls": self.pulls,
            "threshold_pulls": self.threshold_pulls,
            "imported": self.imported,
            "round": self.round,
            "thresholds": {
                side: {name: _finite(end) for name, end in bound._asdict().items()}
                for side, bound in self.thresholds.items()
            },
            "outliers": [_plain(label) for label in self.outliers],
            "undecided": [_plain(label) for label in self.undecided],
            "arms": self._rows(),
        }

    def _rows(self) -> list[dict[str, Any]]:
        columns: dict[str, list[Any]] = {
            "label": [_plain(label) for label in self.labels],
            "decision": [Decision(d).name.lower() for d in self.decisions],
            "pulls": self.pulls_per_arm.tolist(),
            "mean": [_finite(mean) for mean in self.means.tolist()],
            "lower": self.intervals[:, 0].tolist(),
            "upper": self.intervals[:, 1].tolist(),
        }
        if self.evidence is not None:
            columns["log_evidence"] = [_finite(value) for value in self.evidence.tolist()]
        names = list(columns)
        return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def to_frame(self) -> Any:
        """Return one row per arm as a pandas data frame."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtra.of("frame", "to_frame()") from None
        return pd.DataFrame(self._rows())

    def __repr__(self) -> str:
        return "\n".join(self._summary())

    def _summary(self) -> list[str]:
        n = self.problem.n
        state = "every arm decided" if self.complete else f"{len(self.undecided)} undecided"
        head = (
            f"Result: {_number(len(self.outliers), 'outlier')} among {n:,} arms,"
            f" {self.pulls:,} pulls ({self.algorithm}, {state}, stopped: {self.stopped})"
        )
        lines = [head]
        if self.complete and not self.pulls:
            lines.append(f"  none of {n} < 1 + k^2 arms can lie beyond {self.problem.k:g} sd")
            return lines
        for side, (estimate, lower, upper) in self.thresholds.items():
            k = self.problem.k if side == "upper" else -self.problem.k
            lines.append(
                f"  {side} threshold, mean {'-' if k < 0 else '+'} {abs(k):g} sd:"
                f" {estimate:.4g} in [{lower:.4g}, {upper:.4g}]"
            )
        if self.outliers:
            lines.append("  outliers: " + _shortened(self.outliers))
        if self.undecided and self.pulls:
            lines.append("  undecided: " + _shortened(self.undecided))
        return lines


def _finite(value: float) -> float | None:
    """Return the value, or None for what JSON has no number for."""
    return value if np.isfinite(value) else None


def _plain(label: Label) -> str | int | float | bool | None:
    return label if isinstance(label, str | int | float | bool | None) else str(label)


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _shortened(labels: list[Label], most: int = 8) -> str:
    shown = ", ".join(str(label) for label in labels[:most])
    return shown if len(labels) <= most else f"{shown} and {len(labels) - most} more"
