"""Every radius against values computed by hand; the arithmetic stands beside each."""

from __future__ import annotations

import math

import numpy as np
import pytest

from oddarms.algorithms import create
from oddarms.algorithms._ade import ADE
from oddarms.rules import Sigma
from oddarms.statistics.ade import (
    arm_radius,
    epsilon_sigma,
    log_inverse_delta_t,
    threshold_estimate,
    threshold_radius,
)
from oddarms.statistics.round_robin import (
    beta_arm,
    beta_theta,
    harmonic_mean_of_pulls,
    is_active,
    l_of_k,
    log_inverse_delta_prime,
    moments_of,
    plug_in_threshold,
    replace_arm,
    rho_star,
)

# delta_t = 3 * 0.1 / ((6 + 4) * pi^2 * 10^2) = 0.3 / 9869.6044 = 3.0396355e-5 for n = 6, t = 10
LOG_T = 10.4011879  # log(1 / 3.0396355e-5)

# delta' = 6 * 0.1 / (pi^2 * (15 + 1) * 1000^2) = 0.6 / 1.57913670e8 = 3.7995444e-9 for T = 1000
LOG_PRIME = 19.3883847  # log(1 / 3.7995444e-9)


def close(value: float) -> object:
    """Equal to the seven digits that the comments carry."""
    return pytest.approx(value, rel=2e-7)


class TestADE:
    def test_delta_t(self) -> None:
        assert log_inverse_delta_t(0.1, 6, 10) == close(LOG_T)
        assert math.exp(-log_inverse_delta_t(0.1, 6, 10)) == close(3.0396355e-5)

    def test_the_union_bound_spends_delta(self) -> None:
        # sum over t of (2n + 8) delta_t = (2n + 8) * 3 delta / ((n + 4) pi^2) * pi^2 / 6 = delta
        spent = sum(20 * math.exp(-log_inverse_delta_t(0.1, 6, t)) for t in range(1, 20_000))
        assert spent == pytest.approx(0.1, rel=1e-4)
        assert spent < 0.1

    def test_arm_radius(self) -> None:
        # sqrt(10.4011879 / (2 * 50)) = sqrt(0.104011879) = 0.32250873
        assert arm_radius(LOG_T, 50) == close(0.32250873)
        # four times the pulls, half the radius
        np.testing.assert_allclose(
            arm_radius(LOG_T, np.array([50.0, 200.0])), [0.32250873, 0.16125436], rtol=1e-7
        )

    def test_threshold_estimate(self) -> None:
        # pairs (1,1) (1,0) (0,0) (0,0): mean x1 = 2/4, mean x2 = 1/4, mean x1*x2 = 1/4;
        # sigma^2 = |1/4 - 1/2 * 1/4| = 1/8; theta = 1/2 + 2 * sqrt(1/8) = 0.5 + 0.70710678
        theta, sigma_squared = threshold_estimate(4, 2.0, 1.0, 1.0, k=2.0)
        assert sigma_squared == 0.125
        assert theta == close(1.20710678)
        # pairs (1,0) (0,1): 0 - 1/2 * 1/2 = -1/4, so sigma = 1/2; theta = 1/2 - 1.5 * 1/2
        assert threshold_estimate(2, 1.0, 1.0, 0.0, k=-1.5) == (-0.25, 0.25)

    def test_epsilon_sigma(self) -> None:
        # R' + 2bR = 1 + 2 = 3; sqrt(10.4011879 / (2 * 200)) = 0.16125436; product 0.48376309
        assert epsilon_sigma(LOG_T, 200) == close(0.48376309)

    def test_threshold_radius(self) -> None:
        # U = 1/4, k = 2: 1 + 1.41421356 * 2 * 3 / 0.5 = 17.9705627; * 0.16125436 = 2.8978317
        assert threshold_radius(LOG_T, 200, U_sigma=0.25, k=2.0) == close(2.8978317)
        assert threshold_radius(LOG_T, 200, U_sigma=0.25, k=-2.0) == close(2.8978317)
        assert threshold_radius(LOG_T, 200, U_sigma=0.25, k=0.0) == close(0.16125436)

    def test_u_sigma_is_a_running_minimum(self) -> None:
        # n = 2, delta = 0.1: log(1/delta_t) = log(6 * pi^2 / 0.3) + 2 log t = 5.2851920 + 2 log t
        ade = create("ade", 2, rule=Sigma(k=0.0), delta=0.1, rng=np.random.default_rng(0))
        assert isinstance(ade, ADE)
        _absorb(ade, [1.0, 1.0])  # a pair
        _absorb(ade, [0.0, 1.0])  # every arm
        # t = 3: log = 7.4824166; pair (1,1): sigma^2 = |1 - 1| = 0; 3 * sqrt(7.4824166 / 2)
        assert ade.U_sigma == close(5.8026610)
        _absorb(ade, [0.0, 0.0])
        # t = 4: log = 8.0577808; pairs (1,1) (0,0): 1/2 - 1/4 = 1/4; + 3 * sqrt(8.0577808 / 4)
        assert ade.U_sigma == close(0.25 + 4.2579346)
        _absorb(ade, [0.0, 1.0])
        # t = 5: log = 8.5040679, the same pairs: 1/4 + 3 * sqrt(8.5040679 / 4) = 4.6242602, more
        assert ade.U_sigma == close(4.5079346)
        # k = 0: r_theta = sqrt(8.5040679 / (2 * 2)); and m_a = 2 as well
        assert ade.r_theta == close(1.4580867)
        assert ade.r.tolist() == [close(1.4580867)] * 2

    def test_which_radius_is_wider_decides_the_next_round(self) -> None:
        ade = create("ade", 3, rule=Sigma(k=0.0), delta=0.1, rng=np.random.default_rng(0))
        sizes = []
        for _ in range(6):
            pulls = ade.propose(10**6)
            sizes.append(pulls.total)
            ade.absorb(pulls, np.full(pulls.indices.size, 0.5), np.full(pulls.indices.size, 0.25))
        # pair, arms; then r_a <= r_theta at equal counts: pair, arms, pair, arms
        assert sizes == [2, 3, 2, 3, 2, 3]


def _absorb(algorithm: ADE, rewards: list[float]) -> None:
    pulls = algorithm.propose(10**6)
    assert pulls.total == len(rewards)
    sums = np.array(rewards)
    algorithm.absorb(pulls, sums, sums**2)


class TestRoundRobin:
    def test_delta_prime(self) -> None:
        assert log_inverse_delta_prime(0.1, 15, 1000) == close(LOG_PRIME)
        assert math.exp(-log_inverse_delta_prime(0.1, 15, 1000)) == close(3.7995444e-9)

    def test_l_of_k(self) -> None:
        # n = 15, k = 2.5, delta = 0.1: (1 + 2.5 * sqrt(14)) / sqrt(15) = 10.3541435 / 3.87298335
        # = 2.6734283; log(pi^2 * 15^3 / 0.6) = log(55516.525) = 10.9244360;
        # 2.5 / sqrt(21.8488720) = 0.5348420; (2.6734283 + 0.5348420)^2 = 10.2929986
        assert l_of_k(2.5, 15, 0.1) == close(10.2929986)
        assert l_of_k(0.0, 4, 0.1) == 0.25  # the mean alone: (1 / sqrt(4))^2
        assert l_of_k(-2.5, 15, 0.1) == close(10.2929986)

    def test_rho_star(self) -> None:
        # 14^(2/3) / 10.2929986^(1/3) = 5.8087857 / 2.1752740 = 2.6703697
        assert rho_star(2.5, 15, 0.1) == close(2.6703697)
        # n = 2, k = 3: 1 / l^(1/3) with l > ((1 + 3) / sqrt(2))^2 = 8 would be below 1/2
        assert rho_star(3.0, 2, 0.1) == 1.0

    def test_beta_arm(self) -> None:
        # sqrt(19.3883847 / (2 * 50)) = sqrt(0.193883847) = 0.44032244
        assert beta_arm(LOG_PRIME, 50) == close(0.44032244)

    def test_beta_theta(self) -> None:
        # sqrt(10.2929986 * 19.3883847 / (2 * 40)) = sqrt(2.4945577) = 1.5794169
        assert beta_theta(LOG_PRIME, 40.0, 10.2929986) == close(1.5794169)

    def test_replacing_an_arm(self) -> None:
        # 0.9 becomes 1.0 and 2 pulls become 3: mean 0.5, sd 0.3, h = 4 / (3 + 1/3) = 1.2
        before = moments_of(np.array([0.2, 0.4, 0.4, 0.9]), np.array([1, 1, 1, 2]))
        after = replace_arm(before, 0.9, 1.0, 2, 3)
        assert plug_in_threshold(after, 1.5) == close(0.95)
        assert harmonic_mean_of_pulls(after) == close(1.2)

    def test_activity(self) -> None:
        # theta in [0.6, 0.8]; an arm of radius 1/8 is inactive from 0.925 up and 0.475 down
        means = np.array([0.95, 0.9, 0.7, 0.5, 0.45])
        assert is_active(means, 0.125, 0.7, 0.1).tolist() == [False, True, True, True, False]
        # intervals that only touch do not overlap: 0.75 - 0.125 = 0.5 + 0.125 exactly
        assert not is_active(0.75, 0.125, 0.5, 0.125)

    def test_radii_in_a_run(self) -> None:
        # n = 2, k = 1, delta = 0.1, batch 4, rewards 0 and 1: T = 8, h = 4;
        # log(1/delta') = log(pi^2 * 3 / 0.6) + 2 log 8 = 3.8988977 + 4.1588831 = 8.0577808;
        # beta_i = sqrt(8.0577808 / 8) = 1.0036048
        # l = ((1 + 1) / sqrt(2) + 1 / sqrt(2 log(pi^2 * 8 / 0.6)))^2
        #   = (1.4142136 + 1 / sqrt(9.7594539))^2 = (1.4142136 + 0.3201012)^2 = 3.0078475
        # beta_theta = sqrt(3.0078475 * 8.0577808 / 8) = 1.7405666; theta_hat = 1/2 + 1/2
        rr = create("rr", 2, rule=Sigma(k=1.0), delta=0.1, rng=np.random.default_rng(0), batch=4)
        rr.absorb(rr.propose(100), np.array([0.0, 4.0]), np.array([0.0, 4.0]))
        assert rr.threshold().estimate == 1.0
        assert rr.threshold().upper - 1.0 == close(1.7405666)
        assert rr.beta.tolist() == [close(1.0036048)] * 2  # type: ignore[attr-defined]
