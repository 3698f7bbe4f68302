"""The limit to first order: a convex program in the pulls.

Near the true means theta is linear, theta(z) ~ theta(y) + <c, z - y>, with

    c_j = 1/n + k (y_j - mu_y) / (n sigma_y),    sum_j c_j = 1,    ||c||^2 = (1 + k^2) / n.

Arm i is settled, per unit of log(1/delta), once the variance of y_hat_i - theta_hat is small enough
against its gap Delta_i. With s_j^2 the variance of a pull of arm j and N_j the number of pulls:

    minimise sum_j N_j  subject to, for every undecided i,  Q + D_i / N_i <= H_i,
    Q = sum_j c_j^2 s_j^2 / N_j,    D_i = (1 - 2 c_i) s_i^2,    H_i = Delta_i^2 / 2.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from oddarms.errors import InvalidParameter
from oddarms.problem import BoolArray, FloatArray, check_k, check_means
from oddarms.theory._known_means import gaps as gaps_of
from oddarms.theory._program import program_of, solve


def no_outlier_possible(n: int, k: float) -> bool:
    """Whether n <= 1 + k^2: then no arm can cross the threshold, whatever the (unequal) means."""
    return n - 1.0 - k * k <= 1e-12 * n


def threshold_gradient(means: FloatArray, k: float) -> FloatArray:
    """Return c, the gradient of theta at the means; 1/n each where all means are equal."""
    n = means.size
    if means.min() == means.max():
        return np.full(n, 1.0 / n)
    return np.asarray((1.0 + k * (means - means.mean()) / means.std()) / n)


def first_order_program(
    means: npt.ArrayLike,
    variances: npt.ArrayLike,
    k: float,
    *,
    gaps: npt.ArrayLike | None = None,
    undecided: npt.ArrayLike | None = None,
) -> FloatArray:
    """Return the pulls N_j per unit of log(1/delta) that an oracle would spend on each arm.

    The sum is T* to first order.

    Parameters
    ----------
    means
        The arms' means.
    variances
        The variance of one pull of each arm, or one number for all; 0 means "known exactly".
    k
        The multiple of the standard deviation in the threshold; any sign.
    gaps
        Delta_i to use instead of those of the means, for instance to keep estimates away from 0.
    undecided
        True for the arms whose side still matters; every arm by default. The others are pulled for
        the threshold only.

    Returns
    -------
    numpy.ndarray
        N_j. All 0 if there is nothing to decide or n <= 1 + k^2; infinite, for every arm with a
        positive variance, if an undecided arm lies exactly on the threshold.

    Examples
    --------
    With k = 0 and three arms at 0, 1 and 5 the threshold is 2 and the gaps are 2, 1 and 3. Arm 1 is
    the hard one: (2/3)^2/N_1 + (1/3)^2/N_0 + (1/3)^2/N_2 <= 1/2 costs 2 (2/3 + 1/3 + 1/3)^2 = 32/9,
    and the other two arms are settled on the way.

    >>> N = first_order_program([0.0, 1.0, 5.0], 1.0, k=0)
    >>> (N * 9).round(3).tolist()
    [8.0, 16.0, 8.0]
    """
    y = check_means(means)
    check_k(k)
    s2 = _per_arm("variances", variances, y.size)
    Delta = gaps_of(y, k) if gaps is None else _per_arm("gaps", gaps, y.size)
    open_arms = _mask(undecided, y.size)
    if no_outlier_possible(y.size, k) or not open_arms.any() or not s2.any():
        return np.zeros(y.size)
    if (Delta[open_arms] ** 2 == 0.0).any():
        return np.where(s2 > 0.0, np.inf, 0.0)
    return solve(program_of(threshold_gradient(y, k), s2, Delta, open_arms))


def _per_arm(name: str, values: npt.ArrayLike, n: int) -> FloatArray:
    """Return one finite number of at least 0 per arm, from one number or n of them."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape not in ((), (n,)):
        raise InvalidParameter(f"{name} must be one number or {n} but got shape {array.shape}.")
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0.0)))
    if bad.size:
        value = array.reshape(-1)[bad[0]]
        raise InvalidParameter(f"{name} must be finite and at least 0 but got {value}.")
    return np.array(np.broadcast_to(array, (n,)))


def _mask(undecided: npt.ArrayLike | None, n: int) -> BoolArray:
    if undecided is None:
        return np.ones(n, dtype=np.bool_)
    mask = np.asarray(undecided)
    if mask.dtype != np.bool_ or mask.shape != (n,):
        raise InvalidParameter(
            f"undecided must be {n} truth values but got shape {mask.shape} of {mask.dtype}."
        )
    return mask
