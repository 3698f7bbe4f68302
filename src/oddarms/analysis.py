"""`analyze`: what recorded rewards prove about all arms, in one look."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from oddarms.algorithms import Decision, Decisions, Threshold
from oddarms.errors import InvalidParameter
from oddarms.problem import (
    UNIT,
    WORDS,
    FloatArray,
    IntArray,
    Label,
    Question,
    brief,
    check_bounds,
    check_choice,
    check_whole,
)
from oddarms.randomness import Rng, seed_of
from oddarms.rules import Rule, Sigma, rule_of
from oddarms.search import Result, Rewards, Status
from oddarms.statistics.calibrated import Conditions
from oddarms.statistics.guesses import suspicion
from oddarms.statistics.one_look import Listed, Look, proven_look
from oddarms.statistics.one_look_bounds import largest_scatter, one_sided_ends
from oddarms.statistics.one_look_calibrated import calibrated_look, decided, estimated_threshold
from oddarms.statistics.threshold_box import known_outliers
from oddarms.statistics.totals import Totals, mirrored_totals, relative_error, scaled_totals
from oddarms.tables import Missing, Recorded, Transform, read_totals
from oddarms.tables import Totals as Recorded_Totals
from oddarms.text import counted

Method = Literal["proven", "calibrated"]
ALGORITHM = "analyze"
"""The algorithm in the question of a result; its options are those of the analysis."""
NOT_ASKED = ("budget", "goal", "algorithm")
"""Words of a question that only a live search has."""
MAX_HYPERGEOMETRIC = 10**9
"""Up to this number of rewards exactly half are drawn; beyond, each with probability 1/2."""
APART = 1e-9
"""More than rounding moves an end of an interval."""
LISTED = 5
"""The most arms that a note names."""


def analyze(
    data: Recorded,
    question: Question | None = None,
    *,
    arm: str | Sequence[str] | None = None,
    reward: str | None = None,
    trials: str | None = None,
    events: str | None = None,
    count: str | None = None,
    total: str | None = None,
    squares: str | None = None,
    method: Method = "proven",
    min_rows: int = 1,
    missing: Missing = "stop",
    looks: int = 1,
    clip: tuple[float, float] | None = None,
    above: float | None = None,
    encoding: str | None = None,
    finite_population: bool = False,
    rng: Rng = 0,
    **words: Any,
) -> Result:
    """Decide which arms are abnormal, as far as recorded rewards prove it.

    All rows are used, in one look. For the arms that remain undecided, the result estimates how
    many more rows would decide them. The same table gives the same answer.

    Parameters
    ----------
    data
        A frame of pandas, polars or pyarrow, or a relation of DuckDB; a mapping from label to
        rewards; a Series of pandas with the labels as its index; a path of a CSV (also gzipped, "-"
        for stdin), Excel or Parquet file; or what `oddarms.read_junit` returns.
    question, **words
        A `Question` about these arms, or its words as keywords, such as ``k=3``, ``delta=0.01``,
        ``margin=0.1``, ``rule="mad"``, ``side="both"`` or ``error="fdr"``.
    arm, reward
        The columns with the labels and the rewards, by default ``arm`` (or the index of a pandas
        frame) and ``reward``. Several columns of labels are joined, as in ``"AA / JFK"``; labels of
        files are texts. Rewards are numbers, yes/no or true/false; in files whose columns are not
        separated by commas, numbers may have decimal commas.
    trials, events
        Instead of `reward`, for rewards of 0 and 1: columns with the number of rewards and of ones.
    count, total, squares
        Instead of `reward`: columns with the number of rewards, their sum and the sum of their
        squares.
    method
        "proven": all decisions together are right with probability at least 1 - delta, whatever
        the distributions of the rewards. "calibrated", for the rule "sigma": adds the decisions of
        a cautious z-test; no theorem bounds its error, which stayed below delta wherever measured.
    min_rows
        Arms with fewer rows are left out of the question, and named.
    missing
        What to do with a missing reward (None, NaN, an empty cell, NA, null). "stop" refuses it.
        "skip" leaves it out, which is sound only if whether a reward is missing does not depend on
        its value. "worst" counts it as the most abnormal reward.
    looks
        The number of looks at a growing table for which the guarantee holds together; each has
        delta/looks. A nightly job over a month needs 30.
    clip, above
        For rewards without known bounds, as for `oddarms.find`.
    encoding
        The encoding of a CSV, such as "latin-1"; by default UTF-8, or that of its byte order mark.
    finite_population
        Whether the rows are the whole population instead of a sample: then averages are the means
        themselves, and every arm is decided.
    rng
        The seed that splits the rows into random halves, from which bounds on the threshold are
        made. Do not choose it by looking at the answer.

    Returns
    -------
    Result
        As that of `oddarms.find`; `history_per_arm` has the rows of each arm.

    Notes
    -----
    Rewards must be independent, those of an arm from one distribution, and the number of an arm's
    rows must not depend on their values. If all rewards of a table are 0 or 1, no others are
    assumed to be possible.

    Examples
    --------
    >>> import oddarms
    >>> hosts = {"a": [0] * 290 + [1] * 10, "b": [0] * 300, "c": [0] * 295 + [1] * 5}
    >>> hosts |= {"d": [0] * 100 + [1] * 200, "e": [0] * 297 + [1] * 3}
    >>> result = oddarms.analyze(hosts, k=1)
    >>> result.outliers, result.normal
    (['d'], ['a', 'b', 'c', 'e'])
    """
    check_choice("method", method, get_args(Method))
    check_whole("min_rows", min_rows, least=1)
    check_whole("looks", looks, least=1)
    transform = Transform.of(clip, above)
    bounds, worst = _reading(question, words, transform)
    seed = seed_of(rng)
    read = read_totals(
        data,
        arm=arm,
        reward=reward,
        trials=trials,
        events=events,
        count=count,
        total=total,
        squares=squares,
        missing=missing,
        transform=transform,
        bounds=bounds,
        worst=worst,
        encoding=encoding,
        min_rows=min_rows,
        rng=seed,
    )
    if len(read.labels) < 2:
        raise InvalidParameter(
            f"At least 2 arms with {min_rows:,} or more rows are needed, but only"
            f" {brief(read.labels[0])} has them."
        )
    asked = _question(question, words, read.labels, bounds)
    options: dict[str, Any] = {"method": method}
    options |= {"looks": int(looks)} if looks > 1 else {}
    options |= {"finite_population": True} if finite_population else {}
    asked = asked.but(algorithm=ALGORITHM, options=options, budget=None, goal="confidence")
    if method == "calibrated" and asked.rule != "sigma" and not finite_population:
        raise InvalidParameter(
            f"method='calibrated' requires the rule 'sigma', but the rule is {asked.rule!r}: use"
            " method='proven'."
        )
    notes = _notes(read, min_rows, missing, transform)
    return _Analysis(asked, read, seed).result(notes)


def _reading(
    question: Question | None, words: Mapping[str, Any], transform: Transform | None
) -> tuple[tuple[float, float], float]:
    """Check the words; return the bounds of rewards and the most abnormal reward."""
    if question is not None:
        if words:
            raise InvalidParameter(
                f"Give a question or its words, not both: leave out {', '.join(words)}."
            )
        return question.bounds, question.worst
    for word in words:
        if word not in WORDS or word in NOT_ASKED:
            known = ", ".join(name for name in WORDS if name not in NOT_ASKED)
            raise InvalidParameter(
                f"{word!r} is not a parameter of a question about recorded data; these are {known}."
            )
    usual = UNIT if transform is None else transform.bounds
    bounds = check_bounds(words.get("bounds", usual))
    return bounds, bounds[0] if words.get("side") == "lower" else bounds[1]


def _question(
    question: Question | None,
    words: Mapping[str, Any],
    labels: list[Label],
    bounds: tuple[float, float],
) -> Question:
    """Return the question about these labels."""
    if question is None:
        return Question(labels, **{**words, "bounds": bounds})
    different = set(labels) ^ set(question.labels)
    if different:
        label = different.pop()
        where = "only in the data" if label in labels else "not in the data"
        raise InvalidParameter(
            f"question must be about the arms of the data, but {brief(label)} is {where}."
        )
    return question


def _notes(
    read: Recorded_Totals, min_rows: int, missing: Missing, transform: Transform | None
) -> list[str]:
    """Return sentences about what was left out or changed."""
    notes = []
    if read.left_out:
        names = [str(label) for label in read.left_out][:LISTED]
        names += ["..."] if len(read.left_out) > LISTED else []
        why = f"with fewer than {min_rows:,} rows" if min_rows > 1 else "without rows"
        notes.append(f"{counted(len(read.left_out), 'arm')} {why} left out: {', '.join(names)}")
    if read.missing:
        done = "left out" if missing == "skip" else "counted as the most abnormal"
        notes.append(f"{counted(read.missing, 'missing reward')} {done}")
    if transform is not None and (transform.clipped or transform.above is not None):
        notes.append(transform.said())
    return notes


# One question


class _Rows(NamedTuple):
    """All rows as an algorithm sees rewards: in [0, 1], for the upper side."""

    totals: Totals
    half: Totals
    binary: bool

    def mirrored(self) -> _Rows:
        """Return the rows of 1 - X."""
        return _Rows(self._mirror(self.totals), self._mirror(self.half), self.binary)

    def _mirror(self, totals: Totals) -> Totals:
        if self.binary:
            zeros = totals.pulls - totals.total
            return Totals(totals.pulls, zeros, zeros)
        return Totals(totals.pulls, *mirrored_totals(*totals))


def _scaled(
    counts: Any, sums: FloatArray, squares: FloatArray, bounds: tuple[float, float]
) -> Totals:
    counts = counts.astype(np.float64)
    if bounds == UNIT:
        return Totals(counts, sums, squares)
    return Totals(counts, *scaled_totals(counts, sums, squares, bounds))


class _Analysis:
    """A question and the rows that answer it."""

    def __init__(self, question: Question, read: Recorded_Totals, seed: int) -> None:
        self.question = question
        self.rule = rule_of(question)
        self.units = Rewards(question)
        place = {label: i for i, label in enumerate(read.labels)}
        arms = np.array([place[label] for label in question.labels])
        self.counts: IntArray = read.counts[arms]
        self.options = question.options
        totals, half = (
            _scaled(counts[arms], sums[arms], squares[arms], question.bounds)
            for counts, sums, squares in ((read.counts, read.sums, read.squares), read.half)
        )
        binary = question.bounds == UNIT and _is_binary(totals)
        rows = _Rows(totals, _random_half(totals, seed) if binary else half, binary)
        self.rows = rows.mirrored() if self.units.mirrored else rows
        self.delta = question.delta / self.options.get("looks", 1)
        self._proven: list[Look] | None = None

    def looks(self, method: Method) -> list[Look]:
        """Return the look at the upper side and, if both are asked for, at the lower one."""
        both = [self.rows, self.rows.mirrored()] if self.question.side == "both" else [self.rows]
        if self.options.get("finite_population"):
            return [_census_look(rows, self.rule) for rows in both]
        if not isinstance(self.rule, Sigma):
            return _box_looks(self.rows, self.rule, self.delta, len(both))
        listed, delta = self._listed(len(both)), self.delta / len(both)
        if self._proven is None:
            self._proven = [_proven_sigma(rows, self.rule, delta, listed) for rows in both]
        if method == "proven":
            return self._proven
        pairs = zip(both, self._proven, strict=True)
        return [_calibrated_sigma(rows, self.rule, delta, found, listed) for rows, found in pairs]

    def _listed(self, sides: int) -> Listed:
        """Return the lists in which a share of the names may be wrong: section 7.

        A normal arm is below both thresholds, and so in two lists. Those in both are fewer than in
        either, so the share of wrong ones may be larger; for k < 0 this is true of low arms, too.
        """
        if self.question.error != "fdr" or (sides == 2 and not self.rule.ordered):
            return Listed.NONE
        return Listed.BOTH if sides == 1 else Listed.ABOVE

    def decisions(self, looks: Sequence[Look]) -> Decisions:
        """Return the decisions of looks at one or both sides."""
        upper = looks[0]
        found = np.full(self.question.n, Decision.UNDECIDED, dtype=np.int8)
        normal = upper.below.copy()
        if len(looks) == 2:
            lower = looks[1]
            normal &= lower.below
            found[lower.above & (upper.below | self.rule.ordered)] = Decision.LOW
        found[normal] = Decision.NORMAL
        found[upper.above] = Decision.HIGH
        found[list(self.rule.exempt)] = Decision.NORMAL
        if self.units.mirrored:
            found[found == Decision.HIGH] = Decision.LOW
        return found

    def result(self, notes: Sequence[str]) -> Result:
        """Return the answer."""
        method: Method = self.options["method"]
        looks = self.looks(method)
        decisions = self.decisions(looks)
        low, high = self._intervals(looks)
        estimates = self._estimates(looks)
        complete = bool((decisions != Decision.UNDECIDED).all())
        thresholds = self._thresholds(looks, estimates)
        means = self.units.in_units(self.rows.totals.total / self.rows.totals.pulls)
        guesses, ranks = self._guesses(estimates, decisions)
        return Result(
            question=self.question,
            status=Status.DECIDED if complete else Status.ENDED,
            decisions=decisions,
            pulls_per_arm=np.zeros(self.question.n, dtype=np.int64),
            means=means,
            intervals=np.column_stack([low, high]),
            thresholds=thresholds,
            centre=self._centre(looks[0]),
            round=1,
            threshold_pulls=0,
            history_per_arm=self.counts,
            pulls_needed=self._needed(looks, estimates, decisions),
            guesses=guesses,
            ranks=ranks,
            notes=(*notes, *self._other_method(method, decisions)),
        )

    def _other_method(self, method: Method, decisions: Decisions) -> list[str]:
        """Return what the other method would decide, where that may be something else."""
        n, known = self.question.n, int((decisions != Decision.UNDECIDED).sum())
        all_proven = method == "proven" and known == n
        if all_proven or self.question.rule != "sigma" or self.options.get("finite_population"):
            return []
        other: Method = "calibrated" if method == "proven" else "proven"
        there = int((self.decisions(self.looks(other)) != Decision.UNDECIDED).sum())
        worth = " (not proven)" if other == "calibrated" else ""
        how = "as many" if there == known else f"{there:,} of {n:,} arms instead of {known:,}"
        return [f"method {other!r}{worth} would decide {how}"]

    # In the user's units

    def _intervals(self, looks: Sequence[Look]) -> tuple[FloatArray, FloatArray]:
        low, high = looks[0].low, looks[0].high
        for lower in looks[1:]:
            low = np.maximum(low, np.nextafter(1.0 - lower.high, -1.0))
            high = np.minimum(high, np.nextafter(1.0 - lower.low, 2.0))
        return self.units.ends(np.minimum(low, high), np.maximum(low, high))

    def _estimates(self, looks: Sequence[Look]) -> list[float]:
        """Return an estimate of each side's threshold, within its interval."""
        found = []
        for look, rows in zip(looks, (self.rows, self.rows.mirrored()), strict=False):
            totals, (low, high) = rows.totals, look.threshold
            if isinstance(self.rule, Sigma) and not self.options.get("finite_population"):
                asked = Conditions(self.rule.k, self.rule.margin, self.rule.floor)
                estimate = estimated_threshold(totals, asked)
            else:
                estimate = self.rule.threshold(totals.total / totals.pulls)
            found.append(min(max(estimate, low), high))
        return found

    def _thresholds(self, looks: Sequence[Look], estimates: list[float]) -> dict[str, Threshold]:
        found = {}
        for i, (look, estimate) in enumerate(zip(looks, estimates, strict=True)):
            three = np.array((estimate, *look.threshold))
            middle, *ends = 1.0 - three[[0, 2, 1]] if i else three
            low, high = self.units.ends(*ends)
            side = "lower" if i or self.units.mirrored else "upper"
            found[side] = Threshold(float(self.units.in_units(middle)), float(low), float(high))
        return found

    def _centre(self, look: Look) -> tuple[float, float]:
        low, high = self.units.ends(*look.centre)
        return float(low), float(high)

    # What is open

    def _needed(
        self, looks: Sequence[Look], estimates: list[float], decisions: Decisions
    ) -> FloatArray:
        """Estimate how many more rows each open arm needs if all arms grow in proportion.

        Radii shrink like 1/sqrt(rows), so an arm at a distance from the threshold needs
        (radius/distance)^2 times its rows. Within about one standard error of the threshold the
        estimate is infinite.
        """
        needed = np.zeros(self.question.n)
        open_ = decisions == Decision.UNDECIDED
        most = 2.0 * math.log(self.question.n / self.delta)
        for i, (look, estimate) in enumerate(zip(looks, estimates, strict=True)):
            rows = self.rows if i == 0 else self.rows.mirrored()
            mean = rows.totals.total / rows.totals.pulls
            low, high = look.threshold
            up = mean >= estimate
            reach = np.where(
                up,
                mean - look.own_low + min(high, 2.0) - estimate,
                look.own_high - mean + estimate - max(low, -1.0),
            )
            gap = np.maximum(np.abs(mean - estimate), 1e-12)
            factor = (reach / gap) ** 2
            more = np.ceil(rows.totals.pulls * np.maximum(factor - 1.0, 0.05))
            more = np.where(factor > most, np.inf, more)
            own = open_ & ~(look.above | look.below)
            needed = np.where(own, np.maximum(needed, more), needed)
        return needed

    def _guesses(self, estimates: list[float], decisions: Decisions) -> tuple[Decisions, IntArray]:
        """Return the likeliest decisions, and the ranks of open arms, the most suspicious first."""
        counts = self.rows.totals.pulls
        sides = []
        for rows, estimate in zip((self.rows, self.rows.mirrored()), estimates, strict=False):
            means = rows.totals.total / counts
            variance = largest_scatter(rows.totals) / counts
            influence = self.rule.influence(means)
            sides.append(suspicion(means, variance, counts, influence, estimate))
        first = Decision.LOW if self.units.mirrored else Decision.HIGH
        guessed = np.where(sides[0] > 0.0, first, Decision.NORMAL)
        for lower in sides[1:]:
            guessed = np.where((lower > 0.0) & (sides[0] <= 0.0), Decision.LOW, guessed)
        open_ = decisions == Decision.UNDECIDED
        arms = np.flatnonzero(open_)
        suspected = np.max(sides, axis=0)[arms]
        ranks: IntArray = np.zeros(counts.size, dtype=np.int64)
        ranks[arms[np.argsort(-suspected, kind="stable")]] = np.arange(1, arms.size + 1)
        return np.where(open_, guessed, decisions).astype(np.int8), ranks


def _is_binary(totals: Totals) -> bool:
    """Return whether all rewards are 0 or 1: X^2 <= X, with equality only for these."""
    whole = np.rint(totals.total) == totals.total
    return bool((whole & (totals.total == totals.squares)).all())


def _random_half(totals: Totals, seed: int) -> Totals:
    """Return the totals of a random half of each arm's 0/1 rewards.

    Arms are drawn in the order of their totals, so the order of a table's rows does not matter.
    """
    counts, ones = totals.pulls.astype(np.int64), totals.total.astype(np.int64)
    order = np.lexsort((ones, counts))
    rng = np.random.default_rng(seed)
    size = np.where(counts < MAX_HYPERGEOMETRIC, counts // 2, 0)[order]
    good, bad = ones[order], (counts - ones)[order]
    few = size > 0
    found = np.where(few, rng.hypergeometric(good * few, bad * few, size), 0)
    flipped = rng.binomial(good, 0.5), rng.binomial(bad, 0.5)
    half_ones, half_counts = np.empty(ones.size), np.empty(ones.size)
    half_ones[order] = np.where(few, found, flipped[0])
    half_counts[order] = np.where(few, size, flipped[0] + flipped[1])
    return Totals(half_counts, half_ones, half_ones)


# Looks at one side


def _swapped(look: Look) -> Look:
    """Return a look at 1 - X with -k as a look at X, in which above and below change places."""
    low, high, own_low, own_high, threshold, centre, above, below = look
    return Look(
        np.nextafter(1.0 - high, -1.0),
        np.nextafter(1.0 - low, 2.0),
        1.0 - own_high,
        1.0 - own_low,
        (1.0 - threshold[1], 1.0 - threshold[0]),
        (1.0 - centre[1], 1.0 - centre[0]),
        below,
        above,
    )


def _proven_sigma(rows: _Rows, rule: Sigma, delta: float, listed: Listed) -> Look:
    """Return the proven look for the rule "sigma"."""
    if rule.k < 0.0:
        return _swapped(_proven_sigma(rows.mirrored(), Sigma(k=-rule.k), delta, listed))
    return proven_look(
        rows.totals,
        rows.half,
        k=rule.k,
        margin=rule.margin,
        floor=rule.floor,
        delta=delta,
        binary=rows.binary,
        listed=listed,
    )


def _calibrated_sigma(rows: _Rows, rule: Sigma, delta: float, proven: Look, listed: Listed) -> Look:
    """Return the decisions of the calibrated test and the proven ones.

    The intervals of arms are proven, that of the threshold is approximate.
    """
    if rule.k < 0.0:
        other = Sigma(k=-rule.k)
        return _swapped(_calibrated_sigma(rows.mirrored(), other, delta, _swapped(proven), listed))
    n = rows.totals.pulls.size
    low, high = one_sided_ends(rows.totals, delta / (2.0 * n), binary=rows.binary)
    asked = Conditions(rule.k, rule.margin, rule.floor)
    found = calibrated_look(rows.totals, asked, delta)
    above = decided(found.above, delta, fdr=listed is not Listed.NONE)
    above = above & asked.reachable(n) | proven.above
    below = decided(found.below, delta, fdr=listed is Listed.BOTH)
    below = below | (not asked.reachable(n)) | proven.below
    open_ = above == below
    _, least, most = found.threshold
    # the interval of an open arm must not lie beyond that of the threshold
    most = max(most, float(low[open_].max(initial=-1.0)) + APART)
    least = min(least, float(high[open_].min(initial=2.0)) - APART)
    ends = (least, most), found.centre
    return Look(low, high, low, high, *ends, above & ~below, below & ~above)


def _box_looks(rows: _Rows, rule: Rule, delta: float, sides: int) -> list[Look]:
    """Return what intervals of all means prove, for any rule, on one side or on both.

    Both sides use the same intervals, so they share delta. With error="fdr" the looks are the same.
    """
    n = rows.totals.pulls.size
    low, high = one_sided_ends(rows.totals, delta / (2.0 * n), binary=rows.binary)
    looks = [_box_look(low, high, rule)]
    if sides == 2:
        ends = np.nextafter(1.0 - high, -1.0), np.nextafter(1.0 - low, 2.0)
        looks.append(_box_look(*ends, rule))
    return looks


def _box_look(low: FloatArray, high: FloatArray, rule: Rule) -> Look:
    """Return what holds for all means within these intervals."""
    normal_below, odd_from = rule.cutoffs(low, high)
    threshold = rule.bounds(low, high)
    above = low >= min(odd_from, threshold[1])
    below = high < max(normal_below, threshold[0])
    above[list(rule.exempt)], below[list(rule.exempt)] = False, True
    ends = threshold, rule.centre_bounds(low, high)
    return Look(low, high, low, high, *ends, above & ~below, below & ~above)


def _census_look(rows: _Rows, rule: Rule) -> Look:
    """Return the exact answer if the rows are the whole population."""
    totals = rows.totals
    means = totals.total / totals.pulls
    if isinstance(rule, Sigma):
        error = 0.0 if rows.binary else relative_error(totals.pulls)
        asked = rule.k, rule.margin, rule.floor
        above = known_outliers(totals.total, totals.pulls, error * totals.pulls, *asked)
    else:
        above = rule.outliers(means)
    threshold, centre = rule.threshold(means), rule.centre(means)
    ends = (threshold, threshold), (centre, centre)
    return Look(means, means, means, means, *ends, above, ~above)
