"""What a search found out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from oddarms.algorithms import Decision, Decisions, Threshold
from oddarms.errors import InvalidParameter, MissingExtra, TwoThresholds
from oddarms.problem import BoolArray, FloatArray, IntArray, Label, Question
from oddarms.search._answer import as_html, as_text
from oddarms.search._progress import look_alike
from oddarms.search._tickets import Status

VERSION = 1
"""Of the result as a document."""
_DECISIONS = {decision.name.lower(): int(decision) for decision in Decision}
OPEN = -1
"""In `Result.decided_after`, of an arm that is not decided."""


class TracePoint(NamedTuple):
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
    question
        What was asked: labels, k, delta, bounds, side, budget, algorithm, options.
    status
        Where the search stood: "decided", "budget", "interrupted", "failed", "ended" (no more
        rewards) or "running".
    decisions
        Per arm: 0 undecided, 1 normal, 2 outlier above, 3 outlier below.
    pulls_per_arm, means, intervals
        Per arm: how often it was pulled, its average reward (NaN if never), and an (n, 2) array
        of ends. All intervals, those of the thresholds included, hold together with probability
        at least 1 - delta.
    thresholds
        The threshold of each side: estimate, lower and upper end.
    centre
        An interval of the mean of all means; of rules other than "sigma", of their centre.
    round, threshold_pulls
        Rounds of the algorithm, and the pulls made only for the threshold.
    history_per_arm, unused
        Rewards from before the search, which are not part of the pulls; and rewards that are there
        but not part of the answer: their step is not complete, or no step asked for them.
    evidence
        Per arm the log e-value for its decision or, while it is undecided, for the side of the
        threshold it seems to be on; None where the algorithm has none.
    pulls_needed
        Per arm about how many more pulls it needs, None where the algorithm cannot tell.
    guesses, ranks
        **Not proven:** per arm what it seems to be, a decision where there is one; and per
        undecided arm its place in the order of suspicion, 1 for the likeliest outlier.
    decided_after
        Per arm after how many pulls of all arms it got the decision that it has; -1 of open ones.
    trace, first
        A few moments of the search, evenly spaced on a logarithmic scale of pulls; and all arms
        after the first rounds.
    notes
        Further sentences about the answer, such as which arms were left out.
    """

    question: Question
    status: Status
    decisions: Decisions
    pulls_per_arm: IntArray
    means: FloatArray
    intervals: FloatArray
    thresholds: dict[str, Threshold]
    round: int
    threshold_pulls: int
    history_per_arm: IntArray
    centre: tuple[float, float] = (-math.inf, math.inf)
    unused: int = 0
    evidence: FloatArray | None = None
    pulls_needed: FloatArray | None = None
    guesses: Decisions | None = None
    ranks: IntArray | None = None
    decided_after: IntArray | None = None
    trace: tuple[TracePoint, ...] = ()
    first: Snapshot | None = None
    notes: tuple[str, ...] = ()

    @property
    def last(self) -> Snapshot:
        """All arms now."""
        lower, upper = self.intervals.T
        return Snapshot(self.round, self.means, lower, upper, self.decisions, self.thresholds)

    @property
    def labels(self) -> Sequence[Label]:
        """The arms' labels, in the order of all arrays."""
        return self.question.labels

    @property
    def algorithm(self) -> str:
        """Name of the algorithm that answered."""
        return self.question.algorithm_name

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
        """Labels of the arms still open, the likeliest outliers first; the order is not proven."""
        return [self.labels[i] for i in self.suspects.tolist()]

    @cached_property
    def suspects(self) -> IntArray:
        """Numbers of the arms still open, the likeliest outliers first; not proven."""
        arms = np.flatnonzero(self.decisions == Decision.UNDECIDED)
        return arms if self.ranks is None else arms[np.argsort(self.ranks[arms], kind="stable")]

    @cached_property
    def guess(self) -> list[Label]:
        """Labels of the arms that seem to be outliers, the surest first. Not proven.

        For a search that is not complete; the outliers that are known come first.
        """
        if self.guesses is None:
            return self.outliers
        likely = self.suspects[self.guesses[self.suspects] >= Decision.HIGH]
        return [*self.outliers, *(self.labels[i] for i in likely.tolist())]

    @property
    def all_alike(self) -> bool:
        """Whether the averages look equal, so that only a budget would end the search."""
        a, b = self.question.bounds
        if not self.question.may_not_end:
            return False
        samples = self.pulls_per_arm + self.history_per_arm
        everything_open = not self.decisions.any()
        return everything_open and look_alike((self.means - a) / (b - a), samples)

    def _labels_where(self, mask: BoolArray) -> list[Label]:
        return [self.labels[i] for i in np.flatnonzero(mask).tolist()]

    @property
    def pulls(self) -> int:
        """Pulls that steps have used; `unused` has the others."""
        return int(self.pulls_per_arm.sum())

    @property
    def history(self) -> int:
        """All rewards from before the search."""
        return int(self.history_per_arm.sum())

    @property
    def arm_pulls(self) -> int:
        """Pulls that were not made for the threshold alone."""
        return self.pulls - self.threshold_pulls

    @property
    def complete(self) -> bool:
        """True if every arm is decided."""
        return self.status is Status.DECIDED

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
                "With side='both' there are two thresholds: read result.thresholds['upper'] or"
                " ['lower']."
            )
        return next(iter(self.thresholds.values()))

    @property
    def nothing_stands_out(self) -> bool:
        """True if every arm is decided and none is an outlier."""
        return self.complete and not (self.decisions >= Decision.HIGH).any()

    @property
    def farthest(self) -> dict[str, float]:
        """How far beyond the centre any arm's mean can be at most, on each side asked for.

        From the intervals, so with their guarantee; empty for the rule "absolute", which has no
        centre.
        """
        low, high = self.centre
        far = {
            "upper": float(self.intervals[:, 1].max()) - low,
            "lower": high - float(self.intervals[:, 0].min()),
        }
        if not (math.isfinite(low) and math.isfinite(high)) or self.question.rule == "absolute":
            return {}
        if self.nothing_stands_out:  # then no arm is beyond the threshold, either
            for side, (_, lowest, highest) in self.thresholds.items():
                beyond = highest - low if side == "upper" else high - lowest
                far[side] = min(far[side], beyond + self.question.indifference)
        return {side: max(far[side], 0.0) for side in self.question.sides}

    @property
    def odds(self) -> FloatArray | None:
        """The evidence as odds (e-values): 1000 is a bet won 1000 to 1 against the contrary.

        Arms share the error probability, more of it for those near the threshold, and SPADE's odds
        have that in them: the average over all arms is a fair bet, at the end of a search or where
        the speed of a pull does not depend on its reward. That the odds of any one of n arms ever
        exceed n/a, for what is false, has probability at most a in any case.
        """
        if self.evidence is None:
            return None
        return np.exp(np.minimum(self.evidence, 700.0))

    @classmethod
    def from_dict(cls, document: Any) -> Result:
        """Return the result that `to_dict` was called on.

        What is not in the document, or is None there, is what it was most likely: an interval
        without an end has none.
        """
        try:
            if type(document["version"]) is not int or document["version"] > VERSION:
                raise InvalidParameter(
                    f"This result is of version {document['version']!r}, while this oddarms reads"
                    f" version {VERSION}: upgrade oddarms."
                )
            return _result(document)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, InvalidParameter):
                raise
            raise InvalidParameter(f"The result is damaged or incomplete: {error!r}.") from None

    def to_dict(self, *, snapshots: bool = False) -> dict[str, Any]:
        """Return everything as plain Python values, ready for JSON: the one result document.

        Its `version` grows when a key changes its meaning or goes. What is not a finite number is
        None, and labels that are neither text nor numbers are text. With `snapshots` it has
        `first`, too.
        """
        needed = self.pulls_needed
        document: dict[str, Any] = {
            "version": VERSION,
            "question": plain(self.question.numbered().to_dict()),
            "status": self.status.value,
            "complete": self.complete,
            "outliers": [_plain_label(label) for label in self.outliers],
            "undecided": [_plain_label(label) for label in self.undecided],
            "guess": [_plain_label(label) for label in self.guess],
            "thresholds": plain(_sides(self.thresholds)),
            "centre": plain(list(self.centre)),
            "nothing_stands_out": self.nothing_stands_out,
            "farthest": plain(self.farthest),
            "pulls": self.pulls,
            "threshold_pulls": self.threshold_pulls,
            "history": self.history,
            "unused": self.unused,
            "pulls_needed": None if needed is None else plain(float(needed.sum())),
            "round": self.round,
            "notes": list(self.notes),
            "arms": self.rows(),
            "trace": [plain(point._asdict()) for point in self.trace],
        }
        del document["question"]["labels"]  # `arms` has them
        if snapshots:
            first = self.first and {**vars(self.first), "thresholds": _sides(self.first.thresholds)}
            document["first"] = plain(first)
        return document

    def rows(self, arms: IntArray | None = None) -> list[dict[str, Any]]:
        """Return what is known of arms, by their numbers, as plain values; of all by default."""
        chosen = np.arange(self.question.n) if arms is None else np.asarray(arms, dtype=np.int64)
        nothing = [None] * chosen.size
        odds, evidence, needed = (
            nothing if values is None else values[chosen].tolist()
            for values in (self.odds, self.evidence, self.pulls_needed)
        )
        columns: dict[str, list[Any]] = {
            "label": [_plain_label(self.labels[i]) for i in chosen.tolist()],
            "decision": names_of(self.decisions[chosen]),
            "mean": plain(self.means[chosen].tolist()),
            "lower": plain(self.intervals[chosen, 0].tolist()),
            "upper": plain(self.intervals[chosen, 1].tolist()),
            "odds": plain(odds),
            "log_evidence": plain(evidence),
            "pulls": self.pulls_per_arm[chosen].tolist(),
            "history": self.history_per_arm[chosen].tolist(),
            "pulls_needed": plain(needed),
            "decided_after": nothing
            if self.decided_after is None
            else _or_none(self.decided_after[chosen], least=0),
            "guess": nothing if self.guesses is None else names_of(self.guesses[chosen]),
            "rank": nothing if self.ranks is None else _or_none(self.ranks[chosen], least=1),
        }
        names = list(columns)
        return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def to_frame(self) -> Any:
        """Return one row per arm as a pandas data frame."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtra.of("frame", "to_frame()") from None
        return pd.DataFrame(self.rows())

    def __repr__(self) -> str:
        return as_text(self).rstrip("\n")

    def _repr_html_(self) -> str:
        """Return the answer as a notebook shows it."""
        return as_html(self)


def names_of(decisions: Decisions) -> list[str]:
    """Return decisions as words."""
    return [Decision(decision).name.lower() for decision in decisions.tolist()]


def _or_none(numbers: IntArray, least: int) -> list[int | None]:
    return [number if number >= least else None for number in numbers.tolist()]


def _plain_label(label: Label) -> str | int | float | bool | None:
    """Return a label that JSON has; of other kinds, and infinity and NaN, its text."""
    if isinstance(label, float) and not math.isfinite(label):
        return str(label)
    return label if isinstance(label, str | int | float | bool | None) else str(label)


def plain(value: Any) -> Any:
    """Return a tree of values that JSON has."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool | None) else str(value)


def _sides(thresholds: dict[str, Threshold]) -> dict[str, dict[str, float]]:
    return {side: threshold._asdict() for side, threshold in thresholds.items()}


# A result from its document


def _result(document: dict[str, Any]) -> Result:
    rows: list[dict[str, Any]] = document["arms"]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    lower, upper = _floats(columns["lower"], -math.inf), _floats(columns["upper"], math.inf)
    words = {**document["question"], "labels": None, "n": len(rows)}
    low, high = document["centre"]
    return Result(
        question=Question.from_dict(words).relabelled(columns["label"]),
        status=Status(document["status"]),
        decisions=_decisions(columns["decision"]),
        pulls_per_arm=np.array(columns["pulls"], dtype=np.int64),
        means=_floats(columns["mean"]),
        intervals=np.column_stack([lower, upper]),
        thresholds=_thresholds(document["thresholds"]),
        centre=(_or(low, -math.inf), _or(high, math.inf)),
        round=document["round"],
        threshold_pulls=document["threshold_pulls"],
        history_per_arm=np.array(columns["history"], dtype=np.int64),
        unused=document["unused"],
        evidence=_known(columns["log_evidence"], _floats),
        pulls_needed=_known(columns["pulls_needed"], lambda needed: _floats(needed, math.inf)),
        guesses=_known(columns["guess"], _decisions),
        ranks=_known(columns["rank"], lambda ranks: _whole(ranks, 0)),
        decided_after=_known(columns["decided_after"], lambda after: _whole(after, OPEN)),
        trace=tuple(_point(point) for point in document["trace"]),
        first=_snapshot(document.get("first")),
        notes=tuple(document["notes"]),
    )


def _snapshot(document: dict[str, Any] | None) -> Snapshot | None:
    if document is None:
        return None
    return Snapshot(
        document["round"],
        _floats(document["means"]),
        _floats(document["lower"], -math.inf),
        _floats(document["upper"], math.inf),
        np.array(document["decisions"], dtype=np.int8),
        _thresholds(document["thresholds"]),
    )


def _thresholds(sides: dict[str, dict[str, float | None]]) -> dict[str, Threshold]:
    missing = {"estimate": math.nan, "lower": -math.inf, "upper": math.inf}
    return {
        side: Threshold(*(_or(ends[name], other) for name, other in missing.items()))
        for side, ends in sides.items()
    }


def _point(values: dict[str, Any]) -> TracePoint:
    missing = {
        "threshold": math.nan,
        "threshold_lower": -math.inf,
        "threshold_upper": math.inf,
    }
    return TracePoint(**{name: _or(value, missing.get(name)) for name, value in values.items()})


def _or(value: Any, other: Any) -> Any:
    return other if value is None else value


def _floats(values: list[float | None], missing: float = math.nan) -> FloatArray:
    return np.array([_or(value, missing) for value in values], dtype=np.float64)


def _whole(values: list[int | None], missing: int) -> IntArray:
    return np.array([_or(value, missing) for value in values], dtype=np.int64)


def _decisions(names: list[str]) -> Decisions:
    return np.array([_DECISIONS[name] for name in names], dtype=np.int8)


def _known(values: list[Any], convert: Callable[[list[Any]], Any]) -> Any:
    """Return a column, None if nothing is known of any arm."""
    return None if all(value is None for value in values) else convert(values)
