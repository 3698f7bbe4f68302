"""The census: it ends on every table, its answers are right, and certain once all was seen.

Searches err far less than delta allows, as every interval holds with more than its share: the
checks of whole searches find gross mistakes only, at a false alarm of 1e-6 each. The bounds they
rest on are held against their alpha in `test_without_replacement.py`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import quick_and_long
from oddarms import Search, find, simulate
from oddarms.algorithms._census import Census, shared_out
from oddarms.arms import Bernoulli, Function, Resampled
from oddarms.errors import InvalidParameter, UnknownOption
from oddarms.rules import Sigma
from oddarms.search import Result
from oddarms.statistics.threshold_box import known_outliers
from oddarms.testing import assert_error_rate
from oddarms.theory import outliers, threshold
from our_conformance import INTERVALS, Ours, long

QUICKLY = settings(derandomize=True, deadline=None, max_examples=40)
Rows = list[list[float]]


def of_rate(rate: float, rows: int = 200) -> list[float]:
    """Return so many rewards 0 and 1 with this mean."""
    ones = round(rate * rows)
    return [1.0] * ones + [0.0] * (rows - ones)


def census(rows: Rows, rng: Any = 1, **words: Any) -> Result:
    """Return what is found of arms 0, 1, 2, ... with these rows."""
    words = {"margin": 0.0, **words}
    return find(Resampled(dict(enumerate(rows)), replace=False), rng=rng, **words)


@long(*INTERVALS)  # see TestGuarantee
class TestConformance(Ours):
    """The suite for all algorithms; its coins are arms with 200 rows, its functions without end.

    Whole runs are not simulated, as `simulate` draws with replacement; `TestGuarantee` has them.
    """

    algorithm = "census"
    options: ClassVar = {"rows": 10**6}
    test_jobs_do_not_change_the_runs = None
    test_answers_are_as_right_as_promised = None

    def find(self, source: Any = None, **changes: Any) -> Result:
        if source is not None and not isinstance(source, Bernoulli):
            return super().find(source, **changes)
        rows = [of_rate(mean) for mean in self.easy.means]
        words = {"k": self.easy.k, "delta": self.delta, "budget": self.easy_budget, "rng": 4}
        return census(rows, **{**words, **changes})


class TestItEnds:
    @pytest.mark.parametrize("side", ["upper", "lower", "both"])
    @pytest.mark.parametrize("k", [0.0, 1.0, 2.0, -1.0])
    def test_equal_means(self, side: Any, k: float) -> None:
        """All rows are seen, and all arms are on the threshold."""
        result = census([[0, 1], [1, 0, 0, 1], [1, 0] * 5], k=k, side=side)
        assert result.complete
        assert result.outliers == [0, 1, 2]
        assert result.pulls == 16 or k < 0

    def test_equal_means_of_rewards_that_are_rounded(self) -> None:
        result = census([[0.1, 0.2, 0.3], [0.3, 0.3, 0.0], [0.15, 0.25, 0.2], [0.2]], k=1.0)
        assert result.outliers == [0, 1, 2, 3]

    @pytest.mark.parametrize("k", [1e100, -1e100, 1e60, 5e-324])
    def test_any_k(self, k: float) -> None:
        result = census([[0, 1], [0, 0, 0, 1], [1] * 3], k=k, side="both")
        assert result.complete
        assert len(result.outliers) == (0 if k > 1 else 3 if k < 0 else 2 + 1)

    @QUICKLY
    @given(
        st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=8), min_size=2),
        st.sampled_from([-1.5, 0.0, 0.5, 1.0, 2.0]),
        st.sampled_from(["upper", "lower", "both"]),
    )
    def test_what_is_certain_is_what_the_rows_say(self, rows: Rows, k: float, side: Any) -> None:
        """With hardly any delta nearly all rows are seen, and the answer has no excuse."""
        result = census(rows, k=k, side=side, delta=1e-90)
        assert result.complete
        totals, sizes = np.array([sum(r) for r in rows]), np.array([len(r) for r in rows])

        def odd(sums: Any) -> Any:
            return known_outliers(sums * 1.0, sizes * 1.0, np.zeros(len(rows)), k)

        if result.pulls == sizes.sum():
            np.testing.assert_allclose(result.means, totals / sizes)
            np.testing.assert_allclose(np.ptp(result.intervals, axis=1), 0.0, atol=1e-14)
        high = odd(totals) if side != "lower" else np.zeros(len(rows), bool)
        low = odd(sizes - totals) if side != "upper" else np.zeros(len(rows), bool)
        assert result.high == np.flatnonzero(high).tolist()
        assert result.low == np.flatnonzero(low & ~high).tolist()


class TestItSaves:
    def test_few_rows_are_needed_where_means_differ_much(self) -> None:
        rows = [of_rate(0.05, 1000)] * 19 + [of_rate(0.8, 1000)]
        result = census(rows, k=2.0)
        assert result.outliers == [19]
        assert result.complete
        assert result.pulls < 4_000  # of 20,000; 1,480 with this seed

    def test_pulls_ahead_are_of_rows_that_are_there(self) -> None:
        """Tickets for all rows, and no more, whoever asks and however early."""
        search = Search(3, k=1.0, algorithm="census", rows=[3, 5, 9])
        places = set()
        while tickets := search.ask(100, prefetch=100.0):
            places |= {(ticket.index, ticket.place) for ticket in tickets}
            for ticket in tickets:
                search.tell(ticket, 0.0)
        assert search.result().complete
        assert places <= {(i, place) for i, rows in enumerate((3, 5, 9)) for place in range(rows)}

    @QUICKLY
    @given(
        st.lists(
            st.tuples(st.floats(1e-6, 1.0), st.integers(0, 50), st.integers(0, 50)), min_size=1
        ),
        st.integers(1, 300),
    )
    def test_pulls_are_shared_out(self, arms: list[tuple[float, int, int]], size: int) -> None:
        targets, seen, left = (np.array(column) for column in zip(*arms, strict=True))
        counts = shared_out(targets, seen, left, size)
        assert counts.sum() == min(size, left.sum())
        assert ((counts >= 0) & (counts <= left)).all()

    def test_the_farthest_from_their_targets_come_first(self) -> None:
        counts = shared_out(np.array([1.0, 1.0, 2.0]), np.array([10, 0, 0]), np.full(3, 99), 12)
        assert counts.tolist() == [0, 4, 8]


class TestGuarantee:
    """At a delta of 0.3. 40 runs find out a rate of 0.82, and 200 one of 0.54."""

    TABLES: ClassVar[dict[str, tuple[float, Rows]]] = {
        "coins": (1.0, [of_rate(rate, 60) for rate in (0.1, 0.2, 0.3, 0.2, 0.8)]),
        "none": (2.0, [of_rate(rate, 40) for rate in (0.3, 0.4, 0.5, 0.6, 0.3, 0.4)]),
        "different sizes": (0.5, [of_rate(0.2, 10), of_rate(0.5, 100), of_rate(0.4, 55), [0, 1]]),
        "fractions": (1.0, [list(np.linspace(0, x, 30)) for x in (0.1, 0.3, 0.2, 1.0, 0.4)]),
    }

    @pytest.mark.parametrize("name", quick_and_long(["coins"], ["fractions"]))
    def test_answers_and_intervals(self, name: str) -> None:
        self.check(name, 40)

    @pytest.mark.long
    @pytest.mark.parametrize("name", TABLES)
    def test_answers_and_intervals_in_more_runs(self, name: str) -> None:
        self.check(name, 200)

    def check(self, name: str, runs: int) -> None:
        k, rows = self.TABLES[name]
        means = np.array([np.mean(r) for r in rows])
        truth, theta = outliers(means, k).tolist(), threshold(means, k)
        wrong = missed = 0
        for child in np.random.default_rng(3).spawn(runs):
            result = census(rows, child, k=k, delta=0.3)
            wrong += result.outliers != truth
            low, high = result.intervals.T
            least, most = result.threshold_interval
            covered = ((low <= means + 1e-12) & (means <= high + 1e-12)).all()
            missed += not (covered and least <= theta + 1e-12 and theta <= most + 1e-12)
            assert (result.pulls_per_arm <= [len(r) for r in rows]).all()
        assert_error_rate(wrong, runs, 0.3)
        assert_error_rate(missed, runs, 0.3)

    def test_what_all_rows_show_replaces_what_was_likely(self) -> None:
        """A bad event, by hand: an interval that misses the mean is given up in the end."""
        algorithm = Census(
            2, rule=Sigma(k=0.0), delta=0.1, rng=np.random.default_rng(0), rows=[4, 4]
        )
        algorithm.low[:], algorithm.high[:] = [0.9, 0.0], [1.0, 0.1]
        pulls = algorithm.propose(100)
        assert pulls.counts.tolist() == [4, 4]
        algorithm.absorb(pulls, np.array([0.0, 4.0]), np.array([0.0, 4.0]))
        assert algorithm.done
        assert algorithm.decisions.tolist() == [1, 2]
        low, high = algorithm.intervals()
        assert low[0] == 0.0
        assert high[0] < 1e-15


RECORDS: dict[str, list[float]] = {"a": [0, 1, 1], "b": [0, 0]}


class TestPairs:
    """An algorithm that sees all rows is for arms that have so many and no more."""

    def test_any_source_with_so_many_rewards(self) -> None:
        """An audit: drawing without replacement is up to whoever gives the rewards."""
        cards = {"a": [0.0, 0.0, 0.0], "b": [1.0, 1.0], "c": [0.0]}
        arms = Function(lambda label: cards[label].pop(), "abc")
        result = find(arms, k=1.0, algorithm="census", rows=[3, 2, 1])
        assert result.outliers == ["b"]
        assert result.algorithm == "census"

    @pytest.mark.parametrize("arms", [Bernoulli([0, 1]), Resampled(RECORDS)])
    @pytest.mark.parametrize("algorithm", ["census", Census])
    def test_endless_arms_are_refused(self, arms: Any, algorithm: Any) -> None:
        for run in (find, simulate):
            with pytest.raises(InvalidParameter, match="requires arms with finitely many rows"):
                run(arms, algorithm=algorithm, rows=9)

    def test_other_algorithms_do_not_take_rows(self) -> None:
        with pytest.raises(UnknownOption, match="rows"):
            find(Resampled(RECORDS, replace=False), algorithm="spade")

    @pytest.mark.parametrize(
        ("rows", "said"),
        [
            (None, "census requires rows, the number of rewards"),
            ([1], r"one number per arm \(2\) but got 1"),
            ([1, 0], "rows must be a whole number of at least 1 but got 0"),
            (1.5, "rows must be a whole number"),
            ("12", "rows must be a whole number"),
            (10**11, "rows must be at most"),
        ],
    )
    def test_rows_that_cannot_be(self, rows: Any, said: str) -> None:
        with pytest.raises(InvalidParameter, match=said):
            Search(2, algorithm="census", rows=rows)

    def test_a_history_counts_as_seen(self) -> None:
        """Of 3 rows of an arm one was seen before; more rewards than rows are not used."""
        search = Search(2, k=0.0, margin=0, algorithm="census", rows=[3, 2])
        search.add_history({0: [0.0], 1: [1.0, 1.0, 0.0]})
        pulls = search.ask_step()
        assert (pulls.indices.tolist(), pulls.counts.tolist()) == ([0], [2])
        search.tell_step([0.0, 0.0])
        result = search.result()
        assert result.outliers == [1]
        assert (result.history, result.unused) == (4, 1)
