"""Which arms seem to be outliers, and in which order of suspicion, where nothing is proven.

A search that ends by its budget leaves arms open. They are ranked by their distance from the
estimated threshold in standard errors. The distance is no probability: variances are estimated
from the same rewards, and a search that looks at rewards to choose its pulls biases averages.
"""

from __future__ import annotations

import numpy as np

from oddarms.problem import FloatArray


def padded_variance(pulls: FloatArray, total: FloatArray, squares: FloatArray) -> FloatArray:
    """Return the variance of an arm's rewards together with one more reward of 0 and one of 1.

    s^2 = (Q + 1)/(N + 2) - ((S + 1)/(N + 2))^2. Rewards that were all alike are not known to be:
    as Q >= S^2/N, s^2 >= (N (1 - 2 m + 2 m^2) + 1)/(N + 2)^2 >= 1/(2 (N + 2)), m = S/N. That bound
    also stands in where the difference was rounded. The same for rewards X and 1 - X.
    """
    padded = pulls + 2.0
    centre = (total + 1.0) / padded
    variance: FloatArray = np.maximum((squares + 1.0) / padded - centre**2, 0.5 / padded)
    return variance


def suspicion(
    means: FloatArray,
    variances: FloatArray,
    pulls: FloatArray,
    influence: FloatArray,
    threshold: float,
) -> FloatArray:
    """Return by how many standard errors each arm's average exceeds an estimated threshold.

    To first order the distance m_i - theta errs by sum_j (1{j = i} - c_j) (m_j - y_j), so with
    independent averages its variance is

        v_i = (1 - c_i)^2 s_i^2/N_i + sum_{j != i} c_j^2 s_j^2/N_j,

    s^2 the `padded_variance`, and the result is (m_i - theta)/sqrt(v_i).

    The averages `means` are any numbers for arms without pulls. `variances` are the squared
    deviations from them divided by N; where they were not kept, m (1 - m) is the largest they can
    be. c is the `influence` of each arm's mean on the threshold: (1 + k (y_j - mu)/sigma)/n for
    mu + k sigma, 1/n for mu + margin, 0 for a number. `threshold` is its estimate, NaN for none.

    Notes
    -----
    0 for an arm without pulls. If such an arm has influence, or there is no estimate of the
    threshold, every arm has 0.

    Examples
    --------
    >>> pulls, none = np.array([100.0, 100.0]), np.zeros(2)
    >>> means = np.array([0.4, 0.6])
    >>> suspicion(means, means * (1 - means), pulls, none, 0.5).round(2).tolist()
    [-2.04, 2.04]
    """
    seen = pulls > 0
    if not np.isfinite(threshold) or (influence[~seen] != 0.0).any():
        return np.zeros(pulls.size)
    known = np.where(seen, means, 0.0)
    squares = pulls * (np.where(seen, variances, 0.0) + known**2)
    noise = padded_variance(pulls, pulls * known, squares) / np.where(seen, pulls, 1.0)
    shared = influence**2 * noise
    variance = (1.0 - influence) ** 2 * noise + np.maximum(shared.sum() - shared, 0.0)
    error = np.sqrt(np.maximum(variance, np.finfo(np.float64).tiny))
    near = min(max(threshold, -1.0), 2.0)  # so that no quotient overflows; signs stay
    return np.where(seen, (known - near) / error, 0.0)
