"""ADE, Adaptive Double Exploration: Algorithm 1 of Zhang, Zhuang, Zhang and Zhou (AAAI 2020)."""

from __future__ import annotations

import numpy as np

from oddarms.algorithms._base import (
    Algorithm,
    Decision,
    Pulls,
    Threshold,
    averages,
    no_pulls,
    outwards,
)
from oddarms.errors import InvalidParameter
from oddarms.problem import FloatArray
from oddarms.rules import Ends, Rule
from oddarms.statistics.ade import (
    arm_radius,
    epsilon_sigma,
    log_inverse_delta_t,
    threshold_estimate,
    threshold_radius,
)


class ADE(Algorithm):
    """Explore the threshold with random pairs and the undecided arms in turn, the wider first.

    Right with probability at least 1 - delta for independent rewards (Theorem 1). The threshold's
    radius does not grow with n, but its constant is large: on most problems nearly all pulls go
    to the threshold. Use it to reproduce the paper, or as a baseline.

    Parameters
    ----------
    shared
        The variant of the paper's Remark: the two pulls of a pair also count for the arm they
        hit, so that each arm has its own m_i and r_i. The arms' radius r_a, which is weighed
        against the threshold's, is then the widest of the undecided arms.

    Notes
    -----
    For k < 0 the threshold's radius takes |k|, see `oddarms.statistics.ade.threshold_radius`.
    Equal means, or an arm exactly on the threshold, have gap 0: the search then ends only by a
    budget, with those arms undecided.
    """

    def __init__(
        self, n: int, *, rule: Rule, delta: float, rng: np.random.Generator, shared: bool = False
    ) -> None:
        super().__init__(n, rule=rule, delta=delta, rng=rng)
        if not isinstance(shared, bool | np.bool_):
            raise InvalidParameter(f"shared must be true or false but got {shared!r}.")
        self.shared = bool(shared)
        self.S = np.arange(n)  # the undecided arms
        self.t = 1
        self.m_theta = 0
        self.m: FloatArray = np.zeros(n)  # pulls that estimate the arm itself
        self.arm_sums: FloatArray = np.zeros(n)
        self.sum_x1 = self.sum_x2 = self.sum_x1x2 = 0.0
        self.theta_hat = 0.0
        self.mu_hat = 0.0
        self.r_mu = self.r_theta = np.inf
        self.r: FloatArray = np.full(n, np.inf)
        self.U_sigma = np.inf

    def propose(self, limit: int) -> Pulls:  # noqa: ARG002 - a round cannot be made smaller
        """Return a pair of one random arm, or one pull of each undecided arm (lines 5-19)."""
        if self.S.size == 0:
            return no_pulls()
        if self._sample_threshold():
            i = int(self.rng.random() * self.n)
            return Pulls(np.array([i, i]), np.ones(2, dtype=np.int64))
        return Pulls(self.S, np.ones(self.S.size, dtype=np.int64))

    def absorb(self, pulls: Pulls, sums: FloatArray, squares: FloatArray) -> None:  # noqa: ARG002
        """Update the estimates and radii, and decide (lines 20-30)."""
        self._count(pulls, sums)
        sampled_threshold = self._sample_threshold()
        if sampled_threshold:
            self._absorb_pair(sums[0], sums[1])
        if self.shared or not sampled_threshold:
            open_ = self.undecided[pulls.indices]  # a decided arm keeps its y_hat and r_i
            np.add.at(self.m, pulls.indices[open_], 1.0)
            np.add.at(self.arm_sums, pulls.indices[open_], sums[open_])
        self.t += 1
        self.round += 1
        if self.t >= 3:
            self._update()
        if self.t > 3:  # Algorithm 1 decides nothing right after the initialisation
            self._decide()

    def _sample_threshold(self) -> bool:
        if self.t <= 2:
            return self.t == 1  # lines 5-8
        r_a = self.r[self.S].max()
        return bool(r_a <= self.r_theta)  # line 13

    def _absorb_pair(self, x1: float, x2: float) -> None:
        self.m_theta += 1
        self.threshold_pulls += 2
        self.sum_x1 += x1
        self.sum_x2 += x2
        self.sum_x1x2 += x1 * x2

    def _update(self) -> None:
        log_term = log_inverse_delta_t(self.delta, self.n, self.t)
        self.theta_hat, sigma_squared = threshold_estimate(
            self.m_theta, self.sum_x1, self.sum_x2, self.sum_x1x2, self.k
        )
        self.U_sigma = min(self.U_sigma, sigma_squared + epsilon_sigma(log_term, self.m_theta))
        self.mu_hat, self.r_mu = self.sum_x1 / self.m_theta, arm_radius(log_term, self.m_theta)
        self.r_theta = threshold_radius(log_term, self.m_theta, self.U_sigma, self.k)
        self.r[self.S] = arm_radius(log_term, self.m[self.S])

    def _decide(self) -> None:
        y_hat = self.arm_sums[self.S] / self.m[self.S]
        r = self.r[self.S]
        low, high = self._ends()
        normal = y_hat + r <= low  # line 23
        outlier = y_hat - r >= high  # line 26
        self.decisions[self.S[normal]] = Decision.NORMAL
        self.decisions[self.S[outlier & ~normal]] = Decision.HIGH
        self.S = self.S[~(normal | outlier)]

    @property
    def means(self) -> FloatArray:
        return averages(self.arm_sums, self.m)

    def intervals(self) -> tuple[FloatArray, FloatArray]:
        """Return y_hat -+ r_i, frozen when the arm was decided."""
        y_hat = np.nan_to_num(self.means, nan=0.5)
        return np.clip(y_hat - self.r, 0.0, 1.0), np.clip(y_hat + self.r, 0.0, 1.0)

    def _ends(self) -> Ends:
        """Return theta_hat -+ r_theta (Lemma 4), and what margin and floor make of it.

        That mu lies within Hoeffding's radius of its estimate is one of the events of Lemma 4.
        """
        theta, mu = self.theta_hat, self.mu_hat
        return self.rule.raised(
            (theta - self.r_theta, theta + self.r_theta), (mu - self.r_mu, mu + self.r_mu)
        )

    def threshold(self) -> Threshold:
        theta, mu = self.theta_hat, self.mu_hat
        ends = outwards(*self._ends())
        return Threshold(self.rule.raised((theta, theta), (mu, mu))[0], *ends)
