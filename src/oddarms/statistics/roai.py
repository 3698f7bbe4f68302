"""The radius of Zhu, Katariya and Nowak, "Robust Outlier Arm Identification" (ICML 2020)."""

from __future__ import annotations

import numpy as np

from oddarms.problem import FloatArray, IntArray


def arm_radius(pulls: FloatArray | IntArray, n: int, delta: float, sd: float) -> FloatArray:
    """Return sd sqrt(2 log(4 n s^2 / delta) / s) for s pulls; their sd is 1/2.

    For independent sub-Gaussian rewards with parameter sd. After s pulls a mean is farther off than
    this with probability at most 2 delta/(4 n s^2); over all s and all n arms that is at most
    delta pi^2/12. So all intervals hold together, at all times, with probability at least
    1 - delta. (The code that goes with the paper has log(pi^2 n s^2 / (3 delta)), which is the
    same bound at delta itself.)
    """
    log_term = np.log(4.0 * n / delta) + 2.0 * np.log(pulls)
    radius: FloatArray = sd * np.sqrt(2.0 * log_term / pulls)
    return radius
