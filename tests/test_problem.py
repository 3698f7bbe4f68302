"""What a search is asked, and the checks of its parts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from oddarms import Problem
from oddarms.errors import InvalidParameter
from oddarms.problem import check_whole


def test_a_problem_holds_what_was_checked() -> None:
    problem = Problem(["a", "b"], k=1, delta=0.1, bounds=(-1, 1), side="lower")
    assert problem.labels == ("a", "b")
    assert (problem.k, problem.delta, problem.bounds, problem.side, problem.n) == (
        1.0,
        0.1,
        (-1.0, 1.0),
        "lower",
        2,
    )
    assert Problem(3, k=0, delta=0.5).labels == (0, 1, 2)


@pytest.mark.parametrize("value", [0, 2.5, math.nan, math.inf, True, "3", None])
def test_counts_must_be_whole_numbers(value: object) -> None:
    with pytest.raises(InvalidParameter, match="runs must be a whole number of at least 1"):
        check_whole("runs", value, least=1)


def test_whole_numbers_of_any_type() -> None:
    counts = [check_whole("runs", value, least=1) for value in (3, 3.0, np.int64(3))]
    assert counts == [3, 3, 3]
    assert all(type(count) is int for count in counts)
