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
    Proof, and how it is computed: ``docs/explanation/limit.md``. "exact" returns a value that is at
    most T*, up to rounding: it comes from finitely many worlds z that satisfy z_i = theta(z), each
    of which is a valid constraint. For Gaussian noise it is within 5e-4 of T* where the search for
    the best shares has converged. For Bernoulli noise the worlds found are local optima; they are
    surely the nearest for normal arms only (for k < 0, for outliers). A Bernoulli bound also holds
    for algorithms that must be correct for every reward in [0, 1].

    "first_order" is no bound. It is exact for k = 0 and Gaussian noise, and was within an eighth
    for thirty and more arms. With few arms and one far out, n near 1 + k^2, a jump of one arm is
    the cheapest other world, which no tangent sees: 0.37 of the exact value for means 0.1, 0.3, 0.9
    and k = 1. For Bernoulli noise it gives nothing to arms at 0 or 1, whose variance is 0.

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
