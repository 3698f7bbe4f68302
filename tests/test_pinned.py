"""Pinned outputs: the pulls and outliers of each algorithm for some seeds.

They guard against changes that nobody meant; they say nothing about what is right. After a change
that is meant to alter the pulls, print the new table with

    python tests/test_pinned.py

and paste it over `PINNED`, once the other tests (above all the guarantees) pass.
"""

from __future__ import annotations

from typing import Any

import pytest

from helpers import quick_and_long
from oddarms import find
from oddarms.arms import Bernoulli

INSTANCES: dict[str, tuple[list[float], float]] = {
    "six arms": ([0.05, 0.0, 0.95, 0.05, 0.0, 1.0], 0.0),
    "one of ten": ([0.1] * 9 + [0.95], 1.5),
    "many arms": ([0.1] * 290 + [0.9] * 10, 2.0),
}

PINNED: dict[tuple[str, int, str], tuple[int, list[int]]] = {
    ("rr", 1, "six arms"): (1693, [2, 5]),
    ("rr", 2, "six arms"): (1426, [2, 5]),
    ("wrr", 1, "six arms"): (1087, [2, 5]),
    ("wrr", 2, "six arms"): (1151, [2, 5]),
    ("spade", 1, "six arms"): (115, [2, 5]),
    ("spade", 2, "six arms"): (117, [2, 5]),
    ("rr", 1, "one of ten"): (7304, [9]),
    ("wrr", 1, "one of ten"): (6881, [9]),
    ("spade", 1, "one of ten"): (197, [9]),
    ("spade", 2, "one of ten"): (205, [9]),
    ("ade", 1, "six arms"): (2769, [2, 5]),
    ("ade", 2, "six arms"): (2993, [2, 5]),
    ("spade", 1, "many arms"): (16215, [290, 291, 292, 293, 294, 295, 296, 297, 298, 299]),
}


def output(algorithm: str, seed: int, name: str) -> tuple[int, list[Any]]:
    """Return the pulls and outliers of a search."""
    means, k = INSTANCES[name]
    result = find(Bernoulli(means), k=k, delta=0.1, margin=0, algorithm=algorithm, rng=seed)
    return result.pulls, result.outliers


LONG = [
    ("rr", 1, "one of ten"),
    ("wrr", 1, "one of ten"),
    ("ade", 2, "six arms"),
    ("rr", 2, "six arms"),
]


@pytest.mark.parametrize(
    ("algorithm", "seed", "name"),
    quick_and_long([case for case in PINNED if case not in LONG], LONG),
)
def test_outputs_are_those_pinned(algorithm: str, seed: int, name: str) -> None:
    assert output(algorithm, seed, name) == PINNED[algorithm, seed, name]


if __name__ == "__main__":
    print("PINNED: dict[tuple[str, int, str], tuple[int, list[int]]] = {")
    for case in PINNED:
        print(f"    {case!r}: {output(*case)!r},".replace("'", '"'))
    print("}")
