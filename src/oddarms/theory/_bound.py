"""The lower bound on the expected number of pulls of any correct algorithm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from oddarms.errors import InvalidParameter
from oddarms.problem import FloatArray, check_delta, check_k, check_means
from oddarms.theory._exact import Bernoulli, Gaussian, Noise, exact_limit
from oddarms.theory._first_order import first_order_program, no_outlier_possible
from oddarms.theory._known_means import gaps

_AUTO_DISTINCT_ARMS = 20


@dataclass(frozen=True, eq=False)
class Limit:
    """What no algorithm can beat, in pulls: a proven bound if `strict`, else an approximation.

    Attributes
    ----------
    pulls
        kl(delta, 1 - delta) * T*, where kl(p, q) is the Bernoulli relative entropy: the bound on
        the expected number of pulls. 0 for delta >= 1/2, where guessing may do.
    characteristic_time
        T*, the pulls per nat of evidence.
    allocation
        The share of the pulls that an oracle would give to each arm; sums to 1. Where T* is 0 every
        arm has the same share; where it is infinite, the shares are the limit as the gaps of the
        arms on the threshold go to 0 together.
    method
        "exact" or "first_order", whichever was used.
    """

    pulls: float
    characteristic_time: float
    allocation: FloatArray
    method: Literal["exact", "first_order"]

    @property
    def strict(self) -> bool:
        """Whether `pulls` is a proven lower bound rather than an approximation of one."""
        return self.method == "exact"


def lower_bound(
    means: npt.ArrayLike,
    *,
    k: float,
    delta: float,
    noise: Literal["bernoulli", "gaussian"] = "bernoulli",
    scale: npt.ArrayLike | None = None,
    method: Literal["auto", "exact", "first_order"] = "auto",
) -> Limit:
    """Return the least expected number of pulls, as a bound or, for many means, to first order.

    Use it to judge an algorithm, or a problem before a pull is made. An algorithm is delta-correct
    if, whatever the means, it stops and names exactly the arms with y_i >= theta(y) with
    probability at least 1 - delta. Every such algorithm has

        E[pulls] >= kl(delta, 1 - delta) T*(y),
        1 / T* = max over shares w, min over arms i, inf { sum_j w_j d(y_j, z_j) : z_i = theta(z) },

    with d(y_j, z_j) the relative entropy of one reward of arm j under means y_j and z_j.

    Parameters
    ----------
    means
        The arms' means; between 0 and 1 for Bernoulli noise.
    k
        The multiple of the standard deviation in the threshold; any sign.
    delta
        The allowed probability of a wrong answer.
    noise
        "bernoulli" for rewards 0 and 1, "gaussian" for normal rewards of known variance.
    scale
        The noise's standard deviation, one number or one per arm; for Gaussian noise only.
    method
        "exact", "first_order" (theta replaced by its tangent at y and d by its quadratic), or
        "auto": exact for up to 20 distinct arms, otherwise first order.

    Returns
    -------
    Limit
        T* is 0 if n <= 1 + k^2, where no arm can cross the threshold, and infinite if an arm lies
        on the threshold.

    Notes
    -----
    *Proof.* Let z be means with another answer and E the event that the algorithm gives the right
    answer for y; P_y(E) >= 1 - delta and P_z(E) <= delta. By change of measure (Kaufmann, Cappe and
    Garivier 2016, Lemma 1) sum_j E_y[N_j] d(y_j, z_j) >= kl(P_y(E), P_z(E)) >= kl(delta, 1 - delta)
    for delta < 1/2. On the way from y to z some arm i crosses the threshold, where z_i = theta(z),
    at no larger cost; and every such z has means with another answer next to it, as n > 1 + k^2.
    Take w_j = E_y[N_j] / E_y[pulls], the least z, and then the best w (Garivier and Kaufmann 2016,
    Theorem 1).

    *What is rigorous.* "exact" returns a value that is at most T*, up to rounding: it comes from
    finitely many worlds z that satisfy z_i = theta(z), each of which is a valid constraint. For
    Gaussian noise it is within 5e-4 of T* once the search for the best shares has converged, as it
    did for the families below. For Bernoulli noise the same holds if the worlds found are the
    nearest there are; they are local optima, and global ones are only assured for normal arms (for
    k < 0, for outliers). A Bernoulli bound also holds for algorithms that must be correct for every
    reward in [0, 1]. "first_order" is no bound. For k > 0 and Gaussian noise it makes normal arms
    look closer to the threshold than they are and outliers farther, so it can err on either side;
    for k = 0 it is exact. For Bernoulli noise it gives nothing to arms at 0 or 1, whose variance
    is 0.

    *How far the two differ.* First-order T* divided by the exact one, for Gaussian noise with the
    variances of Bernoulli rewards, and for Bernoulli rewards:

    ===========================================  ====  ========  =========
    means                                        k     Gaussian  Bernoulli
    ===========================================  ====  ========  =========
    30 from U(0, 1)                              1     1.00      1.01
    30 from U(0, 1)                              1.5   0.99      0.99
    95 from N(0.3, 0.075^2), 5 from U(0.7, 0.9)  2     1.04      0.94
    48 and 2 of the same                         2     1.07      0.97
    48 and 2 of the same                         3     0.88      0.88
    19 and 1 of the same                         2     1.23      1.07
    19 and 1 of the same                         3     0.59      0.59
    6 at 0.3, 1 at 0.8                           2     0.61      0.52
    0.1, 0.3, 0.9                                1     0.48      0.37
    ===========================================  ====  ========  =========

    They agree where the smallest gap is small against the spread of the means, and differ where n
    is near 1 + k^2: then a jump of one single arm is the cheapest other world, which no tangent
    sees, and the truth is up to a few times the first-order value.

    References
    ----------
    E. Kaufmann, O. Cappe, A. Garivier. On the complexity of best-arm identification in multi-armed
    bandit models. JMLR 17, 2016.
    A. Garivier, E. Kaufmann. Optimal best arm identification with fixed confidence. COLT 2016.

    Examples
    --------
    With k = 0 and unit noise, arms at 0, 1 and 5 need 32/9 pulls per nat (see
    `first_order_program`).

    >>> limit = lower_bound([0.0, 1.0, 5.0], k=0, delta=0.1, noise="gaussian", scale=1.0)
    >>> round(limit.characteristic_time * 9, 2), limit.allocation.round(2).tolist()
    (32.0, [0.25, 0.5, 0.25])
    >>> round(limit.pulls, 2)  # kl(0.1, 0.9) = 0.8 log 9 = 1.7578
    6.25
    """
    y = check_means(means)
    check_k(k)
    evidence = _evidence(check_delta(delta))
    if method not in ("auto", "exact", "first_order"):
        raise InvalidParameter(
            f"method must be 'auto', 'exact' or 'first_order' but got {method!r}."
        )
    model, variances = _noise(y, k, noise, scale)
    if method == "auto":
        few = np.unique(np.column_stack([y, variances]), axis=0).shape[0] <= _AUTO_DISTINCT_ARMS
        method = "exact" if few else "first_order"
    T, w = _characteristic_time(y, k, variances, model if method == "exact" else None)
    w.setflags(write=False)
    pulls = evidence * T if evidence else 0.0
    return Limit(pulls, T, w, method)


def _evidence(delta: float) -> float:
    """Return kl(delta, 1 - delta) for delta < 1/2, and 0 above."""
    return max((1.0 - 2.0 * delta) * math.log((1.0 - delta) / delta), 0.0) if delta < 0.5 else 0.0


def _characteristic_time(
    y: FloatArray, k: float, variances: FloatArray, model: Noise | None
) -> tuple[float, FloatArray]:
    n = y.size
    if no_outlier_possible(n, k):
        return 0.0, np.full(n, 1.0 / n)
    tied = gaps(y, k) == 0.0
    if tied.any():
        return math.inf, _shares(first_order_program(y, variances, k, gaps=1.0, undecided=tied))
    if model is not None:
        return exact_limit(y, k, model)
    N = first_order_program(y, variances, k)
    return float(N.sum()), _shares(N)


def _shares(N: FloatArray) -> FloatArray:
    return N / N.sum() if N.any() else np.full(N.size, 1.0 / N.size)


def _noise(
    y: FloatArray, k: float, noise: str, scale: npt.ArrayLike | None
) -> tuple[Noise, FloatArray]:
    if noise == "bernoulli":
        if scale is not None:
            raise InvalidParameter(f"noise='bernoulli' has no scale: leave out scale={scale!r}.")
        outside = np.flatnonzero((y < 0.0) | (y > 1.0))
        if outside.size:
            bad = int(outside[0])
            raise InvalidParameter(
                f"means must be between 0 and 1 for Bernoulli noise but means[{bad}] is {y[bad]}."
            )
        return Bernoulli(y, k), y * (1.0 - y)
    if noise != "gaussian":
        raise InvalidParameter(f"noise must be 'bernoulli' or 'gaussian' but got {noise!r}.")
    s = _scale(scale, y.size)
    return Gaussian(y, k, s), s**2


def _scale(scale: npt.ArrayLike | None, n: int) -> FloatArray:
    if scale is None:
        raise InvalidParameter(
            "noise='gaussian' requires a scale, the standard deviation of a reward."
        )
    s = np.asarray(scale, dtype=np.float64)
    if s.shape not in ((), (n,)):
        raise InvalidParameter(f"scale must be one number or {n} but got shape {s.shape}.")
    bad = s.reshape(-1)[~(np.isfinite(s) & (s > 0.0)).reshape(-1)]
    if bad.size:
        raise InvalidParameter(f"scale must be positive and finite but got {bad[0]}.")
    return np.array(np.broadcast_to(s, (n,)))
