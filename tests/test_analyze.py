"""`analyze`: one look at recorded rewards.

Every check of an error rate is an exact binomial bound: a method that errs with probability
exactly delta fails it with probability at most 1e-6 (`oddarms.testing.assert_error_rate`). There
are fewer than 100 of them with fixed seeds, so the module raises a false alarm with probability
below 1e-4, once and for all. The proven answer as a whole errs far less often than delta, as many
bounds must hold for it; so each of them is also tested by itself, at a level where its error
would show (`test_power`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import oddarms
from helpers import quick_and_long
from oddarms import Question, Result, analyze
from oddarms.errors import InvalidParameter
from oddarms.rules import true_outliers
from oddarms.statistics import one_look_bounds as bounds
from oddarms.statistics.binomial import most_errors
from oddarms.statistics.calibrated import Conditions
from oddarms.statistics.one_look import FEW_SHARES, MANY_SHARES, Listed, Look, proven_look
from oddarms.statistics.one_look_calibrated import calibrated_look, decided
from oddarms.statistics.totals import Totals
from oddarms.testing import assert_error_rate

Draw = Callable[[np.random.Generator, int], np.ndarray]


def table(**events: tuple[int, int]) -> pd.DataFrame:
    """Return a frame of trials and events by arm."""
    rows = [(arm, trials, ones) for arm, (trials, ones) in events.items()]
    return pd.DataFrame(rows, columns=["arm", "trials", "events"])


HOSTS = table(a=(300, 10), b=(300, 0), c=(2000, 30), d=(300, 200), e=(500, 5))


def said(result: Result) -> str:
    """Return the answer in one line: where it is wrapped does not matter."""
    return " ".join(str(result).split())


def added_up(rewards: list[np.ndarray]) -> Totals:
    return Totals(
        np.array([float(x.size) for x in rewards]),
        np.array([x.sum() for x in rewards]),
        np.array([(x * x).sum() for x in rewards]),
    )


def halves(rewards: list[np.ndarray]) -> tuple[Totals, Totals]:
    return added_up(rewards), added_up([x[: x.size // 2] for x in rewards])


# Answers


def test_answer() -> None:
    result = analyze(HOSTS, k=1)
    assert (result.outliers, result.normal, result.complete) == (["d"], ["a", "b", "c", "e"], True)
    assert result.history_per_arm.tolist() == [300, 300, 2000, 300, 500]
    assert (result.pulls, result.history) == (0, 3400)
    assert result.algorithm == "analyze"
    assert result.question.options == {"method": "proven"}
    text = said(result)
    assert "1 of 5 arms is an outlier (right with probability at least 0.95)" in text
    assert "samples: 3,400, all recorded" in text


def test_open_arms_say_how_many_rows_would_decide_them() -> None:
    rows = {"a": (300, 90), "b": (300, 80), "c": (300, 100), "d": (300, 150), "e": (40, 8)}
    result = analyze(table(**rows), k=1)
    assert result.status is oddarms.Status.ENDED
    assert result.pulls_needed is not None
    assert result.pulls_needed[result.decisions == 0].min() > 0.0
    assert (result.pulls_needed[result.decisions != 0] == 0.0).all()
    assert result.undecided[0] == "d"
    assert "still needed" in said(result)
    more = {arm: (400 * trials, 400 * events) for arm, (trials, events) in rows.items()}
    assert analyze(table(**more), k=1).outliers == ["d"]


def test_an_arm_on_the_threshold() -> None:
    rows = dict.fromkeys("abc", (1000, 100)) | dict.fromkeys("def", (1000, 300))
    result = analyze(table(**rows), k=1, margin=0)
    assert result.pulls_needed is not None
    assert np.isinf(result.pulls_needed[3:]).all()
    assert "unknown for 3 that may lie on the threshold" in said(result)
    assert "on the threshold?" in said(result)


def test_the_same_answer_from_every_door_and_in_any_order(tmp_path: Any) -> None:
    rng = np.random.default_rng(1)
    sizes = rng.integers(20, 900, 30)
    arms = np.repeat([f"h{i}" for i in range(30)], sizes)
    rewards = (rng.random(arms.size) < np.repeat(rng.uniform(0.1, 0.5, 30), sizes)).astype(int)
    frame = pd.DataFrame({"host": arms, "failed": rewards})
    shuffled = frame.sample(frac=1.0, random_state=2)
    path = tmp_path / "rows.csv"
    shuffled.to_csv(path, index=False)
    counts = frame.groupby("host")["failed"].agg(["size", "sum"]).reset_index()
    named = {"arm": "host", "reward": "failed"}
    results = [
        analyze(frame, **named),
        analyze(frame, **named),
        analyze(shuffled, **named),
        analyze(path, **named),
        analyze(counts, arm="host", trials="size", events="sum"),
        analyze(counts.assign(q=counts["sum"]), arm="host", count="size", total="sum", squares="q"),
        analyze({arm: part["failed"].tolist() for arm, part in frame.groupby("host")}),
    ]
    assert len({(frozenset(r.normal), frozenset(r.outliers)) for r in results}) == 1
    ends = np.array([r.threshold_interval for r in results])
    assert np.ptp(ends, axis=0).max() < 1e-12  # sums in another order
    assert 0 < len(results[0].normal) < 30


def test_counts_of_any_size() -> None:
    big = 10**12
    rows = table(a=(big, big // 100), b=(big, big // 50), c=(big, big // 100), d=(big, big // 10))
    assert analyze(rows, k=1).complete
    sums = pd.DataFrame({"arm": list("abcd"), "n": big, "s": [1e9, 2e9, 1e9, 3e11]})
    sums["q"] = sums["s"] / 2
    result = analyze(sums, count="n", total="s", squares="q", k=1)
    assert result.outliers == ["d"]
    assert np.diff(result.intervals, axis=1).max() < 1e-4


def test_a_question_and_its_words() -> None:
    question = Question(["d", "c", "b", "a", "e"], k=1, delta=0.01)
    result = analyze(HOSTS, question)
    assert result.labels == ("d", "c", "b", "a", "e")
    assert result.outliers == ["d"]
    assert result.history_per_arm.tolist() == [300, 2000, 300, 300, 500]
    with pytest.raises(InvalidParameter, match="not both"):
        analyze(HOSTS, question, k=2)
    with pytest.raises(InvalidParameter, match="'f' is not in the data"):
        analyze(HOSTS, Question([*"abcdef"]))
    with pytest.raises(InvalidParameter, match="'e' is only in the data"):
        analyze(HOSTS, Question([*"abcd"]))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"method": "bayes"}, "method must be"),
        ({"min_rows": 0}, "min_rows must be a whole number of at least 1"),
        ({"looks": 0}, "looks must be"),
        ({"budget": 5}, "'budget' is not a parameter of a question about recorded data"),
        ({"indifference": 0.1}, "'indifference' is not a parameter"),
        ({"method": "calibrated", "rule": "mad"}, "requires the rule 'sigma'"),
        ({"clip": (0, 1), "above": 0.5}, "clip or above"),
    ],
)
def test_misuse(words: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        analyze(HOSTS, **words)


def test_small_arms_are_left_out_and_named() -> None:
    result = analyze(HOSTS, k=1, min_rows=400)
    assert result.labels == ("c", "e")
    assert result.notes[0] == "3 arms with fewer than 400 rows left out: a, b, d"
    again = Result.from_dict(result.to_dict())
    assert again.notes == result.notes
    with pytest.raises(InvalidParameter, match="At least 2 arms"):
        analyze(HOSTS, min_rows=1000)
    empty = analyze({"a": [0, 1], "b": [1], "c": []})
    assert empty.notes[0] == "1 arm without rows left out: c"


def test_changed_rewards_are_noted() -> None:
    rng = np.random.default_rng(3)
    seconds = {f"h{i}": rng.exponential(1.0 + 9.0 * (i == 7), 400) for i in range(20)}
    assert analyze(seconds, clip=(0, 30)).outliers == ["h7"]
    slow = analyze(seconds, above=3.0)
    assert slow.outliers == ["h7"]
    assert "a mean is the share of samples above 3" in str(slow)
    seconds["h1"][0] = math.nan
    worst = analyze(seconds, clip=(0, 30), missing="worst")
    assert "1 missing reward counted as the most abnormal" in worst.notes


def test_looks_share_delta() -> None:
    once, often = analyze(HOSTS, k=1), analyze(HOSTS, k=1, looks=30)
    smaller = analyze(HOSTS, k=1, delta=0.05 / 30)
    assert (np.diff(often.intervals) > np.diff(once.intervals)).all()
    assert (often.intervals == smaller.intervals).all()
    assert "right with probability at least 0.95, all 30 looks together" in said(often)


def test_few_arms_for_k() -> None:
    assert analyze(HOSTS, k=3).normal == [*"abcde"]
    result = analyze(HOSTS, k=3, margin=0)
    assert result.normal == [*"abcde"]  # as the means are proven to differ
    alike = table(a=(10, 1), b=(10, 1), c=(10, 1))
    assert analyze(alike, k=3, margin=0).undecided == [*"abc"]
    assert analyze(alike, k=3).complete


def test_negative_k() -> None:
    rows = table(a=(3000, 900), b=(3000, 950), c=(3000, 1000), d=(3000, 30))
    result = analyze(rows, k=-1)
    assert (result.outliers, result.normal) == (["a", "b", "c"], ["d"])
    assert analyze(rows, k=-1, method="calibrated").normal == ["d"]


MEANS = np.array([0.1, 0.12, 0.15, 0.11, 0.13, 0.1, 0.14, 0.12, 0.8, 0.02, 0.11, 0.13])
RULES: dict[str, dict[str, Any]] = {
    "sigma": {"k": 1.5},
    "mad": {"rule": "mad", "k": 5},
    "tukey": {"rule": "tukey", "k": 3},
    "quantile": {"rule": "quantile", "quantile": 0.9, "margin": 0.1},
    "control": {"rule": "control", "control": 3, "margin": 0.05},
    "absolute": {"rule": "absolute", "floor": 0.5},
    "floor": {"k": 1.5, "floor": 0.4},
}


ASKED = [
    (name, side)
    for name, words in RULES.items()
    for side in ("upper", "lower", "both")
    if not ("floor" in words and side == "both")
]


@pytest.mark.parametrize(("name", "side"), ASKED)
def test_every_rule_on_every_side(name: str, side: str) -> None:
    words = {**RULES[name], "side": side}
    n = 40_000
    rewards = {i: np.arange(n) < y * n for i, y in enumerate(MEANS)}
    result = analyze(rewards, **words)
    truth = true_outliers(Question(MEANS.size, **words), MEANS)
    upper = truth.get("upper", np.zeros(MEANS.size, dtype=bool))
    lower = truth.get("lower", np.zeros(MEANS.size, dtype=bool))
    assert set(result.high) <= set(np.flatnonzero(upper))
    assert set(result.low) <= set(np.flatnonzero(lower))
    assert not set(result.normal) & set(np.flatnonzero(upper | lower))
    assert len(result.undecided) <= 1
    certain = analyze(rewards, finite_population=True, **words)
    assert certain.complete
    assert set(certain.outliers) == set(np.flatnonzero(upper | lower))
    assert "certain, as the rows are all there is" in said(certain)


def test_finite_population_decides_ties() -> None:
    rows = table(a=(4, 0), b=(4, 0), c=(4, 4), d=(4, 4))
    assert analyze(rows, k=1, margin=0, finite_population=True).outliers == ["c", "d"]


# It never contradicts itself


def contradictions(result: Result) -> int:
    """Return how many open arms have an interval that meets no threshold's."""
    lower, upper = result.intervals.T
    open_ = result.decisions == 0
    apart = np.ones(open_.size, dtype=bool)
    for _, least, most in result.thresholds.values():
        apart &= (lower >= most) | (upper < least)
    return int((open_ & apart).sum())


@pytest.mark.parametrize("seeds", quick_and_long([range(20)], [range(20, 60)]))
@pytest.mark.parametrize("method", ["proven", "calibrated"])
def test_no_open_arm_lies_beyond_the_threshold(method: Any, seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 40))
        counts = np.floor(10.0 ** rng.uniform(0.0, 4.0, n)).astype(int)
        frame = pd.DataFrame({"arm": range(n), "trials": counts})
        frame["events"] = rng.binomial(counts, rng.beta(0.5, 2.0, n))
        words: dict[str, Any] = {"k": rng.choice([-1.0, 0.0, 1.0, 2.0, 3.0])}
        words |= {"side": str(rng.choice(["upper", "lower", "both"]))}
        words |= {"error": str(rng.choice(["fwer", "fdr"]))}
        result = analyze(frame, method=method, **words)
        assert contradictions(result) == 0
        lower, upper = result.intervals.T
        assert (lower <= result.means + 1e-9).all()
        assert (result.means <= upper + 1e-9).all()
        for estimate, least, most in result.thresholds.values():
            assert least <= estimate <= most


def test_a_share_of_wrong_decisions_allows_more() -> None:
    rng = np.random.default_rng(0)
    for binary in (True, False):
        rewards = {}
        for i, y in enumerate(rng.uniform(0.1, 0.6, 200)):
            values = rng.random(150) < y if binary else rng.beta(2 * y, 2 * (1 - y), 150)
            rewards[i] = values
        every, some = (analyze(rewards, k=1, error=error) for error in ("fwer", "fdr"))
        assert set(every.normal) <= set(some.normal)
        assert binary or set(every.normal) < set(some.normal)
        assert set(every.outliers) <= set(some.outliers)
        assert "on average at most 5 % of the decisions" in said(some)


# Errors: each bound by itself


def test_shares_add_up_to_one() -> None:
    assert FEW_SHARES.total <= 1.0 + 1e-12
    assert MANY_SHARES.total <= 1.0 + 1e-12


def test_power() -> None:
    assert binom.sf(most_errors(4000, 0.2), 4000, 0.25) > 0.99
    assert binom.sf(most_errors(250, 0.2), 250, 0.4) > 0.95
    assert binom.sf(most_errors(60, 0.3), 60, 0.72) > 0.95


def spiky(p: float) -> Draw:
    return lambda rng, m: np.where(rng.random(m) < p, 1.0, 0.1)


REWARDS: dict[str, tuple[Draw, float, float]] = {
    "0/1": (lambda rng, m: (rng.random(m) < 0.3).astype(float), 0.3, 0.21),
    "rare": (lambda rng, m: (rng.random(m) < 0.02).astype(float), 0.02, 0.0196),
    "beta": (lambda rng, m: rng.beta(0.6, 1.4, m), 0.3, 0.07),
    "spikes": (spiky(0.02), 0.118, 0.81 * 0.02 * 0.98),
    "quiet": (lambda rng, m: rng.uniform(0.49, 0.51, m), 0.5, 0.0001 / 3.0),
}


@pytest.mark.parametrize("name", REWARDS)
def test_own_ends(name: str) -> None:
    """4,000 arms are 4,000 runs: their ends depend on each other only by the bets' sizes."""
    draw, mean, _ = REWARDS[name]
    rng = np.random.default_rng(11)
    totals = added_up([draw(rng, int(m)) for m in rng.integers(3, 300, 4000)])
    for binary in {False, name in ("0/1", "rare")}:
        low, high = bounds.one_sided_ends(totals, 0.2, binary=binary)
        assert_error_rate(int((low > mean).sum()), 4000, 0.2)
        assert_error_rate(int((high < mean).sum()), 4000, 0.2)
        assert (low <= totals.total / totals.pulls).all()


def test_binomial_ends_where_the_inverse_fails() -> None:
    from scipy.special import betainc

    counts = np.array([1e9, 1e9, 1e12, 1e15, 10.0, 1e6])
    ones = np.array([1e3, 1e9 - 1e3, 1e9, 1e12, 3.0, 0.0])
    for alpha in (1e-3, 1e-8, 1e-30, 1e-100):
        low = bounds.binomial_low(counts, ones, alpha)
        assert (low <= ones / counts).all()
        seen = ones > 0
        assert (betainc(ones[seen], (counts - ones + 1)[seen], low[seen]) <= 1.01 * alpha).all()
        assert (low[seen] > 0.0).all()


@pytest.mark.parametrize("name", REWARDS)
def test_sums_of_variances_and_errors(name: str) -> None:
    draw, mean, variance = REWARDS[name]
    rng = np.random.default_rng(12)
    runs, counts = 1000, np.array([2, 3, 5, 10, 40, 90])
    weights = np.array([1.0, 0.5, 0.3, 0.2, 0.1, 0.4])
    step, level = float((weights / (counts // 2)).max()), math.log(5.0)
    under = beyond = 0
    exact = float((weights**2 * variance / counts).sum())
    off = bounds.radius(exact, float((weights / counts).max()), level)
    for _ in range(runs):
        rewards = [draw(rng, m) for m in counts]
        estimate = sum(w * x.var(ddof=1) for w, x in zip(weights, rewards, strict=True))
        under += float(bounds.not_less(estimate, step, level)) < variance * weights.sum()
        error = sum(w * (x.mean() - mean) for w, x in zip(weights, rewards, strict=True))
        beyond += error > off
    assert_error_rate(under, runs, 0.2)
    assert_error_rate(beyond, runs, 0.2)


def family_of(rng: np.random.Generator, n: int, m: int, *, binary: bool) -> Any:
    y = rng.uniform(0.1, 0.5, n)
    counts = rng.integers(m, 4 * m, n)
    return y, counts, binary


def drawn(rng: np.random.Generator, family: Any) -> list[np.ndarray]:
    y, counts, binary = family
    if binary:
        return [(rng.random(m) < p).astype(float) for m, p in zip(counts, y, strict=True)]
    return [rng.beta(2 * p, 2 * (1 - p), m) for m, p in zip(counts, y, strict=True)]


@pytest.mark.parametrize("binary", [True, False])
def test_bounds_by_halves_and_by_products(binary: bool) -> None:
    rng = np.random.default_rng(13)
    family = family_of(rng, 30, 8, binary=binary)
    y, runs, level = family[0], 250, math.log(10.0)
    variance = y * (1.0 - y) / (1.0 if binary else 3.0)
    theta, sigma, wrong = y.mean() + 1.5 * y.std(), y.std(), [0, 0, 0, 0]
    levels = level, level, level
    for _ in range(runs):
        rewards = drawn(rng, family)
        whole, first = halves(rewards)
        second = Totals(*(a - b for a, b in zip(whole, first, strict=True)))
        found = bounds.below_by_halves(first, second, np.full(30, 0.25), 1.5, levels)
        wrong[0] += found[0] > theta
        wrong[1] += found[1] > sigma
        errors = [x - p for x, p in zip(rewards, y, strict=True)]
        products = sum((e.sum() ** 2 - (e * e).sum()) / (e.size * (e.size - 1.0)) for e in errors)
        arms = bounds.Arms.made(whole, np.maximum(variance, 0.2))
        bound = bounds.products_bound(arms, level, level)
        wrong[2] += products > bound
        wrong[3] += products < -bound
    for count in wrong:
        assert_error_rate(count, runs, 0.2)  # two events of probability 0.1 each


# Errors: whole answers


def holds(look: Look, y: np.ndarray, threshold: float) -> bool:
    inside = (look.low <= y).all() and (y <= look.high).all()
    return bool(
        inside
        and look.threshold[0] <= threshold <= look.threshold[1]
        and look.centre[0] <= y.mean() <= look.centre[1]
    )


def wrong_looks(family: Any, k: float, margin: float, runs: int, delta: float) -> tuple[int, int]:
    """Return how many of some looks decide an arm wrongly, and in how many anything is false."""
    y, _, binary = family
    threshold = max(y.mean() + k * y.std(), y.mean() + margin)
    truth = y >= threshold - 1e-12
    wrong = false = 0
    for run in range(runs):
        rewards = drawn(np.random.default_rng([17, run]), family)
        whole, first = halves(rewards)
        look = proven_look(whole, first, k=k, margin=margin, delta=delta, binary=binary)
        wrong += bool((look.above & ~truth).any() or (look.below & truth).any())
        false += not holds(look, y, threshold)
    return wrong, false


@pytest.mark.parametrize(
    ("n", "binary"),
    quick_and_long([(6, True), (40, False)], [(6, False), (40, True), (400, True), (400, False)]),
)
def test_proven_looks(n: int, binary: bool) -> None:
    family = family_of(np.random.default_rng(14), n, 20, binary=binary)
    for k, margin in ((0.0, 0.0), (1.0, 0.05)):
        for count in wrong_looks(family, k, margin, 60, 0.3):
            assert_error_rate(count, 60, 0.3)


CLUSTERS = {
    "on the threshold": (np.repeat([0.1, 0.3], 20), 1.0, 0.0),
    "rare, on the threshold": (np.repeat([0.01, 0.03], 20), 1.0, 0.0),
    "equal": (np.full(30, 0.3), 1.0, 0.05),
    "one far": (np.r_[np.full(19, 0.3), 0.6], 2.0, 0.0),
    "uniform": (np.linspace(0.05, 0.8, 60), 1.0, 0.0),
}


def calibrated_errors(name: str, runs: int, delta: float) -> int:
    y, k, margin = CLUSTERS[name]
    truth = y >= max(y.mean() + k * y.std(), y.mean() + margin) - 1e-12
    counts = np.floor(np.exp(np.random.default_rng(15).normal(5.5, 1.2, y.size))) + 5.0
    wrong = 0
    for run in range(runs):
        sums = np.random.default_rng([16, run]).binomial(counts.astype(int), y).astype(float)
        found = calibrated_look(Totals(counts, sums, sums), Conditions(k, margin), delta)
        above, below = (decided(p, delta, fdr=False) for p in (found.above, found.below))
        wrong += bool((above & ~truth).any() or (below & truth).any())
    return wrong


@pytest.mark.parametrize(
    "name",
    quick_and_long(["rare, on the threshold", "one far"], ["on the threshold", "equal", "uniform"]),
)
def test_calibrated_looks(name: str) -> None:
    assert_error_rate(calibrated_errors(name, 150, 0.2), 150, 0.2)


@pytest.mark.long
@pytest.mark.parametrize("name", CLUSTERS)
def test_calibrated_looks_more_often(name: str) -> None:
    assert_error_rate(calibrated_errors(name, 4000, 0.05), 4000, 0.05)


def test_the_share_of_wrong_decisions() -> None:
    """Most arms lie next to the threshold; the shares of both lists are averaged."""
    rng = np.random.default_rng(18)
    y = np.r_[rng.normal(0.3, 0.01, 60), np.full(40, 0.1)]
    truth = y >= y.mean()
    shares = []
    for run in range(60):
        sums = np.random.default_rng([19, run]).binomial(2000, y).astype(float)
        first = np.random.default_rng([20, run]).hypergeometric(
            sums.astype(int), 2000 - sums.astype(int), 1000
        )
        totals = Totals(np.full(100, 2000.0), sums, sums)
        half = Totals(np.full(100, 1000.0), first.astype(float), first.astype(float))
        look = proven_look(totals, half, k=0.0, delta=0.2, binary=True, listed=Listed.BOTH)
        shares.append(
            max(
                (look.above & ~truth).sum() / max(look.above.sum(), 1),
                (look.below & truth).sum() / max(look.below.sum(), 1),
            )
        )
    assert np.mean(shares) <= 0.2


def test_the_share_of_wrong_decisions_on_both_sides() -> None:
    """Every arm lies on one of the two thresholds, so each one that is called normal is wrong.

    The lists of arms below the upper threshold and of those above the lower one have 10,000 right
    names each, and none in common: a few wrong ones would be all that is left.
    """
    n, rows = 20_000, 1000
    ones = np.random.default_rng(2).binomial(rows, np.repeat([0.3, 0.5], n // 2))
    table = pd.DataFrame({"arm": np.arange(n), "rows": rows, "ones": ones})
    words: dict[str, Any] = {"k": 1, "margin": 0, "side": "both", "error": "fdr", "delta": 0.2}
    for method in ("proven", "calibrated"):
        result = analyze(table, trials="rows", events="ones", method=method, **words)
        assert result.normal == []


def test_a_direction_follows_from_one_half_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, seen = np.random.default_rng(21), []
    one = Totals(np.array([0.0, 1.0, 1.0, 9.0]), np.array([0.0, 0.3, 0.6, 3.0]), np.full(4, 0.5))
    one.squares[:] = one.total**2 / np.maximum(one.pulls, 1.0) + np.array([0.0, 0.0, 0.0, 0.4])
    found = bounds.direction

    def watched(first: bounds.Arms, *rest: Any) -> np.ndarray:
        seen.append(found(first, *rest))
        return seen[-1]

    monkeypatch.setattr(bounds, "direction", watched)
    levels = 2.0, 2.0, 2.0
    for _ in range(2):
        other = added_up([rng.beta(1, 3, 9) for _ in range(4)])
        bounds.below_by_halves(one, other, rng.uniform(0.01, 0.25, 4), 1.0, levels)
    assert np.array_equal(*seen)
