"""A simulated crowd of workers, the embedded example."""

from __future__ import annotations

import numpy as np

from oddarms.arms._simulated import Bernoulli
from oddarms.problem import FloatArray

WORKERS, NEVER_ERR, ALWAYS_ERR = 722, 200, 60
MEAN_ERROR, SD_ERROR = 0.328, 0.292


def crowd_error_rates() -> FloatArray:
    """Return the error rates of 722 simulated crowd workers; the same every time.

    A *synthetic* stand-in for the HyunCatherines crowd of the ADE paper, whose data we do not
    ship: 200 workers never err, 60 always do, and 462 error rates are quantiles of a Beta
    distribution whose two parameters make the mean of all 722 rates 0.328 and their standard
    deviation 0.292, up to rounding to four digits. Only those summary figures resemble the
    original; no row does. Workers stand in an order shuffled with a fixed seed.
    """
    from scipy.special import betaincinv

    between = WORKERS - NEVER_ERR - ALWAYS_ERR
    mean = (WORKERS * MEAN_ERROR - ALWAYS_ERR) / between
    second_moment = (WORKERS * (SD_ERROR**2 + MEAN_ERROR**2) - ALWAYS_ERR) / between
    variance = second_moment - mean**2
    levels = (np.arange(between) + 0.5) / between
    concentration = mean * (1.0 - mean) / variance - 1.0
    spread = betaincinv(mean * concentration, (1.0 - mean) * concentration, levels)
    rates = np.concatenate([np.zeros(NEVER_ERR), np.ones(ALWAYS_ERR), spread.round(4)])
    return np.random.default_rng(722).permutation(rates)


def simulated_crowd(rng: np.random.Generator | int | None = None) -> Bernoulli:
    """Return the crowd as arms: a pull asks a worker a question, the reward is 1 for an error.

    Examples
    --------
    >>> crowd = simulated_crowd()
    >>> crowd.labels[:2], round(float(crowd.means.mean()), 3), round(float(crowd.means.std()), 3)
    (('worker-001', 'worker-002'), 0.328, 0.292)
    """
    labels = [f"worker-{number:03d}" for number in range(1, WORKERS + 1)]
    return Bernoulli(crowd_error_rates(), labels=labels, rng=rng)
