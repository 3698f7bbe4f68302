"""What a search gives back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from oddarms import Result, Search, find
from oddarms.arms import Bernoulli
from oddarms.errors import TwoThresholds

LABELS = ["ann", "bob", "eve", "dan"]
# mean 0.25 and sd 0.4330127, so theta = 0.4665064 for k = 1/2
CONSTANT = [0.0, 1.0, 0.0, 0.0]


def result_of(budget: int | None = None, **changes: Any) -> Result:
    arguments: dict[str, Any] = {"k": 0.5, "delta": 0.1, "algorithm": "rr", "batch": 10, **changes}
    if arguments.get("side") == "both" and budget is None:
        arguments["batch"] = 500
    return find(Bernoulli(CONSTANT, labels=LABELS), budget=budget, **arguments)


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

    def test_pulls_of_ade_are_split(self) -> None:
        result = find(Bernoulli(CONSTANT, labels=LABELS), k=0, delta=0.1, algorithm="ade", rng=0)
        assert result.threshold_pulls > 0
        assert result.arm_pulls > 0
        assert result.threshold_pulls + result.arm_pulls == result.pulls

    def test_no_evidence_where_the_algorithm_has_none(self) -> None:
        assert result_of().evidence is None
        assert result_of().odds is None


class TestIncomplete:
    def test_budget(self) -> None:
        result = result_of(budget=57)
        assert result.pulls == 50  # 40 and one turn of 10
        assert (result.complete, result.status) == (False, "budget")
        assert result.undecided == LABELS

    def test_nothing_pulled(self) -> None:
        result = result_of(budget=0)
        assert np.isnan(result.means).all()
        assert result.intervals.tolist() == [[0.0, 1.0]] * 4
        assert result.trace == ()


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
    @pytest.mark.parametrize("budget", [0, 30, 57, None])
    @pytest.mark.parametrize("side", ["upper", "lower", "both"])
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
        assert exported["algorithm"] == "rr"
        assert (exported["k"], exported["delta"], exported["bounds"]) == (0.5, 0.1, [0.0, 1.0])
        bob = exported["arms"][1]
        assert (bob["label"], bob["decision"], bob["mean"], bob["upper"]) == ("bob", "high", 1, 1)

    def test_to_frame(self) -> None:
        frame = result_of().to_frame()
        assert list(frame["label"]) == LABELS
        assert list(frame["decision"]) == ["normal", "high", "normal", "normal"]
        assert list(frame["mean"]) == CONSTANT
        assert {"pulls", "lower", "upper"} <= set(frame.columns)


class TestRepr:
    def test_complete(self) -> None:
        result = result_of()
        head, threshold, outliers = repr(result).split("\n")
        assert head == (
            f"Result: 1 outlier among 4 arms, {result.pulls:,} pulls"
            " (rr, every arm decided, stopped: decided)"
        )
        assert threshold.startswith("  upper threshold, mean + 0.5 sd: 0.4665 in [")
        assert outliers == "  outliers: bob"

    def test_incomplete(self) -> None:
        text = repr(result_of(budget=57))
        assert "0 outliers among 4 arms, 50 pulls (rr, 4 undecided, stopped: budget)" in text
        assert text.endswith("  undecided: ann, bob, eve, dan")

    def test_long_lists_are_shortened(self) -> None:
        search = Search(20, k=1, delta=0.1, algorithm="rr")
        search.ask_step()
        search.tell_step([0.5] * 20)
        shown = repr(search.result()).splitlines()[-1]
        assert shown == "  undecided: 0, 1, 2, 3, 4, 5, 6, 7 and 12 more"


class TestPlainValues:
    def test_labels_of_numpy_become_plain(self) -> None:
        arms = Bernoulli(CONSTANT, labels=np.arange(4))
        result = find(arms, k=0.5, delta=0.1, algorithm="rr", batch=10)
        assert [type(label) for label in result.outliers] == [int]
        assert json.loads(json.dumps(result.to_dict()))["outliers"] == [1]

    def test_other_labels_become_text(self) -> None:
        labels = [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
        result = find(
            Bernoulli(CONSTANT, labels=labels), k=0.5, delta=0.1, algorithm="rr", batch=10
        )
        assert result.outliers == [("a", 2)]
        assert json.loads(json.dumps(result.to_dict()))["outliers"] == ["('a', 2)"]


def test_too_few_arms_for_an_outlier_are_explained() -> None:
    result = find(Bernoulli(CONSTANT), k=2, delta=0.1)
    assert result.complete
    assert result.pulls == 0
    assert "none of 4 < 1 + k^2 arms can lie beyond 2 sd" in repr(result)


def test_a_negative_k_reads_well() -> None:
    assert "upper threshold, mean - 0.5 sd:" in repr(result_of(k=-0.5))
