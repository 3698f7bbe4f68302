"""What a search gives back."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from oddarms import Result, Search, find
from oddarms.arms import Bernoulli
from oddarms.errors import TwoThresholds

LABELS = ["ann", "bob", "eve", "dan"]
# mean 0.25 and sd 0.4330127, so theta = 0.4665064 for k = 1/2
CONSTANT = [0.0, 1.0, 0.0, 0.0]


@cache
def result_of(budget: int | None = None, **changes: Any) -> Result:
    batch = 500 if budget is None else 10
    words: dict[str, Any] = {"k": 0.5, "delta": 0.1, "margin": 0, "algorithm": "rr", **changes}
    words = {"batch": batch, **words}
    return find(Bernoulli(CONSTANT, labels=LABELS), budget=budget, **words)


class TestComplete:
    def test_answer(self) -> None:
        result = result_of()
        assert result.outliers == result.high == ["bob"]
        assert result.low == result.undecided == []
        assert result.normal == ["ann", "eve", "dan"]
        assert (result.complete, result.status) == (True, "decided")

    def test_numbers(self) -> None:
        result = result_of()
        assert result.means.tolist() == CONSTANT
        assert result.pulls == result.pulls_per_arm.sum() == result.arm_pulls
        assert result.threshold_pulls == 0
        assert result.intervals.shape == (4, 2)
        assert result.threshold == pytest.approx(0.25 + 0.5 * 0.4330127)
        low, high = result.threshold_interval
        assert low < result.threshold < high
        # bob is decided because the intervals are apart
        assert result.intervals[1, 0] >= high
        assert (result.intervals[[0, 2, 3], 1] <= low).all()


class TestIncomplete:
    def test_budget(self) -> None:
        result = result_of(budget=57)
        assert result.pulls == 50  # 40 and one turn of 10
        assert (result.complete, result.status) == (False, "budget")
        assert sorted(result.undecided) == sorted(LABELS)
        assert result.undecided[0] == "bob"  # the most suspicious first


class TestBothSides:
    def test_thresholds_by_side(self) -> None:
        result = result_of(side="both")
        assert set(result.thresholds) == {"upper", "lower"}
        assert result.thresholds["upper"].estimate == pytest.approx(0.25 + 0.5 * 0.4330127)
        assert result.thresholds["lower"].estimate == pytest.approx(0.25 - 0.5 * 0.4330127)

    @pytest.mark.parametrize("name", ["threshold", "threshold_interval"])
    def test_one_threshold_is_ambiguous(self, name: str) -> None:
        with pytest.raises(TwoThresholds, match=r"result\.thresholds\['upper'\] or \['lower'\]"):
            getattr(result_of(side="both"), name)

    def test_lower(self) -> None:
        result = result_of(side="lower", k=-0.5)  # at or below mean + 0.5 sd
        assert result.low == result.outliers == ["ann", "eve", "dan"]
        assert result.high == []


class TestExport:
    @pytest.mark.parametrize(
        ("budget", "side"), [(0, "upper"), (57, "lower"), (57, "both"), (None, "both")]
    )
    def test_to_dict_is_json(self, budget: int | None, side: str) -> None:
        result = result_of(budget, side=side)
        text = json.dumps(result.to_dict(), allow_nan=False)
        back = json.loads(text)
        assert back == result.to_dict()
        assert back["pulls"] == result.pulls
        assert back["outliers"] == result.outliers
        assert [row["label"] for row in back["arms"]] == LABELS

    def test_to_dict_of_a_complete_search(self) -> None:
        exported = result_of().to_dict()
        assert exported["version"] == 1
        assert (exported["status"], exported["complete"]) == ("decided", True)
        asked = exported["question"]
        assert (asked["algorithm"], asked["options"]) == ("rr", {"batch": 500})
        assert (asked["k"], asked["delta"], asked["bounds"]) == (0.5, 0.1, [0.0, 1.0])
        assert (asked["n"], "labels" in asked) == (4, False)  # the arms have them
        bob = exported["arms"][1]
        assert (bob["label"], bob["decision"], bob["mean"], bob["upper"]) == ("bob", "high", 1, 1)

    def test_to_frame(self) -> None:
        frame = result_of().to_frame()
        assert list(frame["label"]) == LABELS
        assert list(frame["decision"]) == ["normal", "high", "normal", "normal"]
        assert list(frame["mean"]) == CONSTANT
        assert list(frame.columns) == list(result_of().rows()[0])


SURE = "right with probability at least 0.9"


class TestRepr:
    def test_complete(self) -> None:
        result = result_of()
        head, header, row, threshold, samples = repr(result).split("\n")
        assert head == f"1 of 4 arms is an outlier ({SURE})"
        assert header.split() == ["label", "mean", "interval", "odds", "samples"]
        assert row.split()[:2] == ["bob", "1.0000"]
        assert re.fullmatch(
            r"upper threshold: about 0\.4665, between 0\.\d+ and 0\.\d+ \(mean \+ 0\.5 sd\)",
            threshold,
        )
        assert samples == f"samples: {result.pulls:,}"

    def test_incomplete(self) -> None:
        lines = repr(result_of(budget=57)).split("\n")
        assert lines[0] == "0 of 4 arms are known to be outliers, 4 are undecided"
        assert lines[2:6] == [
            "samples: 50",
            "status: budget: the budget does not allow another step",
            "",
            "Undecided, the most suspicious first; guesses are not proven:",
        ]
        assert sorted(line.split()[0] for line in lines[7:]) == sorted(LABELS)

    def test_what_is_decided_of_an_incomplete_result_has_its_guarantee(self) -> None:
        decisions = np.array([1, 2, 0, 1], dtype=np.int8)
        lines = repr(replace(result_of(budget=57), decisions=decisions)).split("\n")
        assert lines[:2] == [
            "1 of 4 arms is known to be an outlier, 1 is undecided",
            f"what is decided: {SURE}",
        ]

    def test_history_and_unused_samples(self) -> None:
        search = Search(["a", "b", "c"], k=1, delta=0.1)
        search.add_history({"a": [0, 0, 1], "c": [1, 1, 1, 1]})
        assert "\nsamples: 7, all recorded, 7 not used yet\n" in repr(search.result())
        search.tell_many([(ticket, 0.5) for ticket in search.ask(2)])
        assert "\nsamples: 9, 7 of them recorded before, " in repr(search.result())
        assert "\nstatus: running: more samples are needed\n" in repr(search.result())

    def test_long_lists_are_shortened_but_no_label_and_lines_fit(self) -> None:
        labels = [f"tests/{'x' * 90}.py::test[{i}]" for i in range(21)]
        search = Search(labels, k=1, delta=0.1, algorithm="rr")
        search.ask_step()
        search.tell_step([0.5] * 21)
        lines = repr(search.result()).splitlines()
        column = lines.index(next(line for line in lines if line.startswith("label")))
        cells = "".join(line.split("  ")[0] for line in lines[column + 1 : -1])
        assert cells == "".join(labels[:20])
        assert lines[-1] == "... and 1 other"
        assert max(map(len, lines)) <= 80

    @pytest.mark.parametrize(
        ("bounds", "mean"),
        [((0, 1), "0.5000"), ((0, 10), "5.000"), ((-1, 1), "0.0000"), ((0, 1e6), "500,000")],
    )
    def test_numbers_have_the_digits_that_matter(
        self, bounds: tuple[float, float], mean: str
    ) -> None:
        search = Search(2, k=0, delta=0.1, algorithm="rr", bounds=bounds)
        middle = sum(bounds) / 2.0
        search.ask_step()
        search.tell_step([middle, middle])
        assert repr(search.result()).splitlines()[-1].split()[1] == mean


class TestPlainValues:
    def test_other_labels_become_text(self) -> None:
        labels = [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
        result = find(
            Bernoulli(CONSTANT, labels=labels), k=0.5, delta=0.1, algorithm="rr", batch=500
        )
        assert result.outliers == [("a", 2)]
        assert json.loads(json.dumps(result.to_dict()))["outliers"] == ["('a', 2)"]


def test_too_few_arms_for_an_outlier_are_explained() -> None:
    result = find(Bernoulli(CONSTANT), k=2, delta=0.1)
    assert result.complete
    assert result.pulls == 0
    assert "none of 4 arms can be 2 sd from the mean, whatever the samples" in repr(result)


def test_as_many_arms_as_can_only_be_on_the_threshold_are_explained() -> None:
    result = find(Bernoulli([0.1, 0.1, 0.1, 0.1, 0.9]), k=2, delta=0.1, budget=1000, rng=1)
    assert not result.complete
    said = " ".join(repr(result).split())
    assert "none of 5 arms can be more than 2 sd from the mean" in said
    assert "so this may not end; choose a smaller k" in said


class TestKindsOfAnswers:
    """What an answer is worth is said on the first lines."""

    ARMS = Bernoulli([0.1] * 10 + [0.9])

    def first_lines(self, **words: Any) -> str:
        result = find(self.ARMS, k=1.5, rng=1, **words)
        lines = str(result).splitlines()
        assert max(map(len, lines)) <= 80
        return " ".join(lines[:3])

    def test_a_share_of_wrong_names(self) -> None:
        said = self.first_lines(error="fdr", delta=0.1)
        assert "on average at most 10 % of the decisions on either side are wrong" in said

    def test_not_proven(self) -> None:
        said = self.first_lines(algorithm="calibrated")
        assert "in simulations wrong at most 5 % of the time; not proven" in said

    def test_a_budget(self) -> None:
        said = self.first_lines(goal="budget", budget=200)
        assert said.startswith("best guess: 1 of 11 arms is an outlier (not proven) ")

    def test_a_guess_has_the_most_suspicious_first(self) -> None:
        result = find(Bernoulli([0.1, 0.2, 0.6, 0.9]), k=0.2, margin=0, budget=60, rng=1)
        assert not result.complete
        assert result.guess[0] == 3
        assert result.undecided[0] == 2
        document = result.to_dict()
        assert document["guess"] == result.guess
        ranks = {row["label"]: row["rank"] for row in document["arms"]}
        assert [ranks[arm] for arm in result.undecided] == [1, 2, 3]
        assert ranks[3] is None  # decided
        again = Result.from_dict(document)
        assert (again.undecided, again.guess) == (result.undecided, result.guess)


def test_of_a_million_arms_the_first_few_are_shown() -> None:
    n = 1_000_000
    search = Search(n, k=2, budget=4 * n)
    result = replace(search.result(), means=np.random.default_rng(0).random(n))
    text, page = str(result), result._repr_html_()
    assert text.startswith("0 of 1,000,000 arms are known to be outliers, 1,000,000 are undecided")
    assert "... and 999,980 others\n" in f"{text}\n"
    assert len(page) < 200_000
