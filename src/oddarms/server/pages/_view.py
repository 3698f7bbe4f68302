"""A result prepared for pages: orders and texts that are found once and used by many requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from oddarms.algorithms import Decision
from oddarms.documents import visible
from oddarms.problem import FloatArray, IntArray, Label
from oddarms.reports._figures import DECISIONS, Figures
from oddarms.search import Result
from oddarms.search._view import FindRows

LABEL_CHARACTERS = 300
"""Of a label in a table, where it is wrapped; of longer ones the middle is left out."""
KINDS = {
    Decision.HIGH: "high",
    Decision.LOW: "low",
    Decision.UNDECIDED: "open",
    Decision.NORMAL: "normal",
}
"""Of arms, as the style sheet and the scripts call them; outliers first."""
NAMES = {kind: DECISIONS[decision] for decision, kind in KINDS.items()}
SYMBOLS = {"high": "▲", "low": "▼", "open": "◇", "normal": "●"}

FindLabels = Callable[[Sequence[int]], Sequence[Label]]


def plural(name: str, count: int) -> str:
    """Return the name of a kind of arms, for so many of them."""
    return name if count == 1 else name.replace("outlier", "outliers")


class View(Figures):
    """One result, as pages look at it.

    Parameters
    ----------
    result
        What is known.
    labels
        Returns the labels of some arms; by default they are those of the result.
    intervals
        Returns the intervals of some arms; by default they are those of the result.
    """

    def __init__(
        self, result: Result, labels: FindLabels | None = None, intervals: FindRows | None = None
    ) -> None:
        super().__init__(result)
        self._find_labels = labels or (lambda arms: [result.labels[arm] for arm in arms])
        self._find_intervals = intervals or (lambda arms: result.intervals[arms])
        self._labels: dict[int, str] = {}
        self._ends: dict[int, tuple[float, float]] = {}
        self._orders: dict[str, IntArray] = {}

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many arms there are of each kind."""
        found = np.bincount(self.result.decisions, minlength=4)
        return {kind: int(found[decision]) for decision, kind in KINDS.items()}

    @cached_property
    def folded(self) -> list[str]:
        """Each label as it is searched: whatever its case."""
        return [str(label).casefold() for label in self._find_labels(range(self.n))]

    @cached_property
    def intervals(self) -> FloatArray:
        """All intervals, a row of ends each: dear where there are many arms."""
        return self._find_intervals(np.arange(self.n))

    def look_at(self, arms: Sequence[int]) -> None:
        """Find labels and intervals of some arms together, rather than one at a time."""
        new = [arm for arm in arms if arm not in self._labels]
        if not new:
            return
        rows = self._find_intervals(np.array(new, dtype=np.int64))
        self._ends.update(zip(new, map(tuple, rows.tolist()), strict=True))
        texts = [visible(label, LABEL_CHARACTERS) for label in self._find_labels(new)]
        self._labels.update(zip(new, texts, strict=True))

    def ends(self, arm: int) -> tuple[float, float]:
        """Return an arm's interval."""
        self.look_at([arm])
        return self._ends[arm]

    def label(self, arm: int) -> str:
        """Return an arm's label, as text in which nothing is hidden."""
        self.look_at([arm])
        return self._labels[arm]

    def kind(self, arm: int) -> str:
        """Return what an arm is known to be."""
        return KINDS[Decision(int(self.result.decisions[arm]))]

    def order(self, key: str) -> IntArray:
        """Return the arms in the order of a column, the smallest or first first."""
        if key not in self._orders:
            self._orders[key] = ORDERS[key](self)
        return self._orders[key]


def _by_interest(view: View) -> IntArray:
    """Outliers, the farthest first; open arms, the most suspicious first; then the nearest."""
    result = view.result
    group = np.where(result.decisions >= Decision.HIGH, 0, result.decisions + 1)
    near = np.nan_to_num(view.distances, nan=0.0)
    rank = np.zeros(view.n) if result.ranks is None else result.ranks
    within = np.choose(group, [-near, rank, near])
    return np.lexsort((within, group))


def _by_mean(view: View) -> IntArray:
    return np.argsort(np.nan_to_num(view.result.means, nan=-np.inf), kind="stable")


def _by_label(view: View) -> IntArray:
    folded = view.folded
    return np.array(sorted(range(view.n), key=folded.__getitem__), dtype=np.int64)


def _by_samples(view: View) -> IntArray:
    return np.argsort(view.samples_per_arm, kind="stable")


def _by_evidence(view: View) -> IntArray:
    evidence = view.result.evidence
    return np.arange(view.n) if evidence is None else np.argsort(evidence, kind="stable")


def _by_needed(view: View) -> IntArray:
    needed = view.result.pulls_needed
    return np.arange(view.n) if needed is None else np.argsort(needed, kind="stable")


def _by_decided(view: View) -> IntArray:
    """Return those decided first first, and open arms at the end."""
    after = view.result.decided_after
    if after is None:
        return np.arange(view.n)
    return np.argsort(np.where(after < 0, np.iinfo(np.int64).max, after), kind="stable")


ORDERS = {
    "interest": _by_interest,
    "label": _by_label,
    "mean": _by_mean,
    "samples": _by_samples,
    "evidence": _by_evidence,
    "needed": _by_needed,
    "decided": _by_decided,
}
"""What the arms may be sorted by."""
