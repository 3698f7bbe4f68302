"""The papers' bounds on pulls: by hand on one instance, and above what is measured on several."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from oddarms import simulate
from oddarms.errors import InvalidParameter
from oddarms.statistics.round_robin import rho_star
from oddarms.testing import assert_error_rate
from oddarms.theory import ade_pulls_bound, rr_pulls_bound, wrr_pulls_bound

# mean 1/4, variance 3/16, sd 0.4330127; theta = 0.6830127 for k = 1;
# gaps 0.6830127 three times and 0.3169873; n = 4, delta = 0.1
MEANS = [0.0, 0.0, 0.0, 1.0]

INSTANCES = [
    ([0.0, 0.0, 0.0, 1.0], 1.0),
    ([0.2, 0.9, 0.1, 0.15, 0.95, 0.2], 0.5),
    ([0.1, 0.9, 0.05, 0.95, 0.9], -0.5),
    ([0.1, 0.9, 0.3], 0.0),
    ([0.05, 0.95, 0.0, 1.0], 2.5),
]


def test_ade_by_hand() -> None:
    # G = 4 (1 + sqrt(2) * 3 * 1 / 0.4330127)^2 = 4 * (1 + 9.7979590)^2 = 4 * 116.5959179
    G = 466.3836717
    # C / (3 delta) = 8 * 9.8696044 * 467.3836717^2 / 0.3 = 5.7493077e7, its log 17.8671751
    log_C = math.log(8 * 9.8696044 * 467.3836717**2 / 0.3)
    assert log_C == pytest.approx(17.8671751, rel=1e-7)
    # gap 0.6830127: 16 / 0.4665064 = 34.2974966; 2 * 34.2974966 * 3.5350724 + 34.2974966 * log_C
    far = 2 * 34.2974966 * math.log(34.2974966) + 34.2974966 * log_C + 2
    # gap 0.3169873: 16 / 0.1004809 = 159.2341678
    near = 2 * 159.2341678 * math.log(159.2341678) + 159.2341678 * log_C + 2
    expected = 3 * far + near + 2 * G * near
    assert ade_pulls_bound(MEANS, k=1, delta=0.1) == pytest.approx(expected, rel=1e-7)
    assert expected == pytest.approx(4_168_872.7, rel=1e-7)


def test_rr_by_hand() -> None:
    # l(1) = ((1 + sqrt(3)) / 2 + 1 / sqrt(2 log(pi^2 * 64 / 0.6)))^2
    #      = (1.3660254 + 1 / sqrt(13.9183370))^2 = (1.3660254 + 0.2680441)^2 = 2.6701833
    l_k = (1.3660254 + 1 / math.sqrt(2 * math.log(9.8696044 * 64 / 0.6))) ** 2
    H1 = 4 / 0.3169873**2  # 39.8085419
    H = (1 + math.sqrt(l_k)) ** 2 * H1
    expected = 8 * H * (math.log(2 * 9.8696044 * 5 * H / 0.3) + 1) + 16
    assert rr_pulls_bound(MEANS, k=1, delta=0.1) == pytest.approx(expected, rel=1e-6)
    assert expected == pytest.approx(27_453.4, rel=1e-5)


def test_wrr_by_hand() -> None:
    l_k = (1.3660254 + 1 / math.sqrt(2 * math.log(9.8696044 * 64 / 0.6))) ** 2
    H1 = 4 / 0.3169873**2
    H2 = 3 / 0.6830127**2 + 1 / 0.3169873**2  # 6.4307806 + 9.9521355
    rho = 2.0
    H = (H1 / rho + (rho - 1) * H2 / rho) * (1 + math.sqrt(l_k * rho)) ** 2
    expected = 8 * H * (math.log(2 * 9.8696044 * 5 * H / 0.3) + 1) + 2 * (rho + 2) * 4
    assert wrr_pulls_bound(MEANS, k=1, delta=0.1, rho=2) == pytest.approx(expected, rel=1e-6)
    assert expected == pytest.approx(30_895.4, rel=1e-5)


def test_wrr_with_weight_one_has_the_bound_of_rr_but_for_the_last_term() -> None:
    # 2 (1 + 2) n = 6n in place of 4n
    rr = rr_pulls_bound(MEANS, k=1, delta=0.1)
    assert wrr_pulls_bound(MEANS, k=1, delta=0.1, rho=1) == pytest.approx(rr + 2 * 4)


def test_wrr_takes_rho_star_by_default() -> None:
    rho = rho_star(1, 4, 0.1)
    expected = wrr_pulls_bound(MEANS, k=1, delta=0.1, rho=rho)
    assert wrr_pulls_bound(MEANS, k=1, delta=0.1) == expected


@pytest.mark.parametrize("bound", [ade_pulls_bound, rr_pulls_bound, wrr_pulls_bound])
class TestEveryBound:
    def test_units_do_not_matter(self, bound: Any) -> None:
        wide = [-3 + 8 * y for y in MEANS]
        assert bound(wide, k=1, delta=0.1, bounds=(-3, 5)) == pytest.approx(
            bound(MEANS, k=1, delta=0.1)
        )

    def test_an_arm_on_the_threshold_has_no_bound(self, bound: Any) -> None:
        assert bound([0.0, 1.0], k=1, delta=0.1) == math.inf
        assert bound([0.4, 0.4, 0.4], k=1, delta=0.1) == math.inf

    def test_delta(self, bound: Any) -> None:
        assert bound(MEANS, k=1, delta=0.01) > bound(MEANS, k=1, delta=0.1)
        with pytest.raises(InvalidParameter, match="delta must be strictly between 0 and 1"):
            bound(MEANS, k=1, delta=1.0)


@pytest.mark.parametrize(("means", "k"), INSTANCES)
@pytest.mark.parametrize(
    ("algorithm", "bound"),
    [("ade", ade_pulls_bound), ("rr", rr_pulls_bound), ("wrr", wrr_pulls_bound)],
)
def test_measured_pulls_stay_below(
    algorithm: str, bound: Any, means: list[float], k: float
) -> None:
    runs, delta = 50, 0.1
    found = simulate(means, k=k, delta=delta, algorithm=algorithm, runs=runs, rng=1)
    most = bound(means, k=k, delta=delta)
    assert found.complete.all()
    assert_error_rate(int((found.pulls > most).sum()), runs, delta)
    assert np.median(found.pulls) < most
