"""RR and WRR, the two round-robin algorithms of Zhuang, Wang and Wang (NIPS 2017)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from oddarms.algorithms._base import (
    Algorithm,
    Decision,
    Pulls,
    Threshold,
    no_pulls,
    outwards,
)
from oddarms.errors import InvalidParameter
from oddarms.problem import MAX_AT_A_TIME, BoolArray, FloatArray, check_number, check_whole
from oddarms.rules import Ends, Rule
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


def check_batch(batch: int) -> int:
    """Return the pulls per turn, at least 1."""
    return check_whole("batch", batch, least=1, most=MAX_AT_A_TIME)


def check_rho(rho: float | None, n: int, k: float, delta: float) -> float:
    """Return WRR's weight, at least 1; rho* for None."""
    if rho is None:
        return rho_star(k, n, delta)
    number = check_number("rho", rho)
    if not 1.0 <= number < math.inf:
        raise InvalidParameter(f"rho must be a number of at least 1 but got {number:g}.")
    return number


class RR(Algorithm):
    """Pull the arms in turn until no arm's interval overlaps the threshold's.

    Right with probability at least 1 - delta for independent rewards; simple, and costly where
    n is large: the threshold's radius grows with k sqrt(n) times an arm's.

    Parameters
    ----------
    batch
        Pulls of an arm per turn, 1 in the 2017 paper and 1,000 in the ADE paper's experiments.

    Notes
    -----
    An arm whose interval overlaps the threshold's is *active*. Activity is evaluated anew after
    each turn, and an arm can become active again, so decisions are final only at the end.
    """

    def __init__(
        self, n: int, *, rule: Rule, delta: float, rng: np.random.Generator, batch: int = 1
    ) -> None:
        super().__init__(n, rule=rule, delta=delta, rng=rng)
        self.batch = check_batch(batch)
        self.l_k = l_of_k(self.k, n, delta)
        self.T = 0
        self.i = 0  # the arm whose turn it is
        self.y_hat: FloatArray = np.full(n, np.nan)
        self.theta_hat = 0.0
        self.beta_theta = math.inf
        self.beta: FloatArray = np.full(n, np.inf)

    def propose(self, limit: int) -> Pulls:  # noqa: ARG002 - a turn cannot be made smaller
        if self.T == 0:
            return Pulls(np.arange(self.n), np.full(self.n, self.batch))
        if self.done:
            return no_pulls()
        return Pulls(np.array([self.i]), np.array([self.batch]))

    def absorb(self, pulls: Pulls, sums: FloatArray, squares: FloatArray) -> None:  # noqa: ARG002
        first = self.T == 0
        old_mean, old_pulls = self.y_hat[self.i], self.pulls[self.i]
        self._count(pulls, sums)
        self.T += pulls.total
        self.round += 1
        self.y_hat[pulls.indices] = self.sums[pulls.indices] / self.pulls[pulls.indices]
        if first:
            self.moments = moments_of(self.y_hat, self.pulls)
        else:
            new_mean, new_pulls = self.y_hat[self.i], self.pulls[self.i]
            self.moments = replace_arm(self.moments, old_mean, new_mean, old_pulls, new_pulls)
        active = self._find_active()
        if not first and self._turn_is_over(active):
            self._next_arm()

    def outlook(self) -> Iterator[Pulls]:
        arm = self.i if self.T else -1
        while True:
            arm = (arm + 1) % self.n
            yield Pulls(np.array([arm]), np.array([self.batch]))

    def _find_active(self) -> BoolArray:
        log_term = log_inverse_delta_prime(self.delta, self.n, self.T)
        self.theta_hat = plug_in_threshold(self.moments, self.k)
        self.beta_theta = beta_theta(log_term, harmonic_mean_of_pulls(self.moments), self.l_k)
        self.beta = beta_arm(log_term, self.pulls)
        active = self._meets_threshold()
        estimate = self.threshold().estimate
        self.decisions[:] = np.where(self.y_hat > estimate, Decision.HIGH, Decision.NORMAL)
        self.decisions[active] = Decision.UNDECIDED
        return active

    def _meets_threshold(self) -> BoolArray:
        """Return the arms whose interval meets that of the threshold."""
        active: BoolArray
        if self.rule.is_plain:
            active = is_active(self.y_hat, self.beta, self.theta_hat, self.beta_theta)
        else:
            low, high = self._ends()
            active = (self.y_hat - self.beta < high) & (self.y_hat + self.beta > low)
        return active

    def _turn_is_over(self, active: BoolArray) -> bool:  # noqa: ARG002
        return True

    def _next_arm(self) -> None:
        self.i = (self.i + 1) % self.n
        if self.i == 0:
            self.moments = moments_of(self.y_hat, self.pulls)

    @property
    def done(self) -> bool:
        return self.T > 0 and not self.undecided.any()

    def intervals(self) -> tuple[FloatArray, FloatArray]:
        y_hat = np.nan_to_num(self.y_hat, nan=0.5)
        return np.clip(y_hat - self.beta, 0.0, 1.0), np.clip(y_hat + self.beta, 0.0, 1.0)

    def _ends(self) -> Ends:
        """Return theta_hat -+ beta_theta, and what margin and floor make of it.

        On the event that every arm lies within its beta_i, on both sides, mu lies within their
        average of its estimate. With T from n on, 2 (n + 1) sum_T delta'_T is below delta, so
        nothing more is paid for it.
        """
        theta, radius = self.theta_hat, self.beta_theta
        mu, mu_radius = float(self.y_hat.mean()), float(self.beta.mean())
        return self.rule.raised((theta - radius, theta + radius), (mu - mu_radius, mu + mu_radius))

    def threshold(self) -> Threshold:
        theta, mu = self.theta_hat, float(self.y_hat.mean())
        estimate = self.rule.raised((theta, theta), (mu, mu))[0]
        return Threshold(estimate, *outwards(*self._ends()))


class WRR(RR):
    """Pull the arms in turn, active ones rho times as often as the others.

    Right with probability at least 1 - delta for independent rewards. With rho = 1 it is RR.

    Parameters
    ----------
    rho
        How many turns an active arm gets for one of an inactive arm, at least 1; by default the
        rho* of the 2017 paper, which minimises its bound on the pulls.
    batch
        Pulls of an arm per turn.

    Notes
    -----
    In each cycle an arm's credit c_i grows by rho, and the arm is pulled until it is inactive or
    has had c_i turns, at least once. Credit that an inactive arm did not use stays with it.
    """

    def __init__(
        self,
        n: int,
        *,
        rule: Rule,
        delta: float,
        rng: np.random.Generator,
        rho: float | None = None,
        batch: int = 1,
    ) -> None:
        super().__init__(n, rule=rule, delta=delta, rng=rng, batch=batch)
        self.rho = check_rho(rho, n, self.k, delta)
        self.cycle = 1

    def _turn_is_over(self, active: BoolArray) -> bool:
        credit = self.cycle * self.rho  # c_i, the same for all arms within a cycle
        return not active[self.i] or bool(self.pulls[self.i] >= credit * self.batch)

    def _next_arm(self) -> None:
        super()._next_arm()
        if self.i == 0:
            self.cycle += 1
