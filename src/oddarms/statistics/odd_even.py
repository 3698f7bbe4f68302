"""An interval for the threshold from uniform sweeps in two halves, for many arms."""

from __future__ import annotations

import math

import numpy as np

from oddarms.problem import FloatArray
from oddarms.statistics.evidence import degenerate_bound, normal_mixture_boundary

SWEEPS_AHEAD = 25.0


class OddEven:
    """Threshold interval from sweeps that alternate between two halves A and B.

    Theorem 10 of docs/explanation/proofs.md, with (a) and (b) of Lemma 10. No bias, as the noise of
    one half does not meet itself. Also bounds sigma.

    D is a union over the readings b = 1, 2, ..., at level delta_D/(2 b (b+1)) each, two-sided. The
    number of sweeps at reading b must be fixed in advance, which is why a pair of sweeps is never
    shortened.

    Costs 2 `end_delta` for the two ends, 2 `end_delta` for |<v*, e>|, and `degenerate_delta`.
    """

    def __init__(self, n: int, k: float, *, end_delta: float, degenerate_delta: float) -> None:
        self.n = n
        self.k = k
        self.end_delta = end_delta
        self.degenerate_delta = degenerate_delta
        self.sums: tuple[FloatArray, FloatArray] = (np.zeros(n), np.zeros(n))
        self.sweeps = [0, 0]
        self.readings = 0
        self.low, self.high = -math.inf, math.inf
        self.sigma = (0.0, math.inf)
        self._reading = (-math.inf, math.inf)

    @property
    def balanced(self) -> bool:
        """True while both halves have the same number of sweeps."""
        return self.sweeps[0] == self.sweeps[1]

    def absorb(self, sweeps: int, sums: FloatArray) -> None:
        """Take some sweeps into the half whose turn it is."""
        half = int(self.sweeps[0] > self.sweeps[1])
        self.sums[half][:] += sums
        self.sweeps[half] += sweeps
        if self.balanced:
            self._read()

    def _read(self) -> None:
        n, k, half = self.n, self.k, self.sweeps[0]
        m, v0 = 2.0 * half, (1.0 + k * k) / (4.0 * n)
        self.readings += 1
        radius = normal_mixture_boundary(m * v0, self.end_delta, SWEEPS_AHEAD * v0) / m
        along = normal_mixture_boundary(m / 4.0, self.end_delta, SWEEPS_AHEAD / 4.0) / m
        level = self.degenerate_delta / (2.0 * self.readings * (self.readings + 1.0))
        D = degenerate_bound(n, half, half, level)
        odd, even = self.sums[0] / half, self.sums[1] / half
        T = float(np.dot(odd - odd.mean(), even))
        y = 0.5 * (odd + even)
        mu = float(y.mean())
        unbiased = T - D
        sigma_low = math.sqrt(unbiased / n) if unbiased > along**2 else 0.0
        sigma_high = min(float(y.std()), math.sqrt(max(T + D + along**2, 0.0) / n))
        error = float(along) / math.sqrt(n)
        self.sigma = (sigma_low - error, float(y.std()) + error)
        no_lower_end = sigma_low == 0.0
        self._reading = (-math.inf if no_lower_end else mu + k * sigma_low, mu + k * sigma_high)
        self.sharpen(float(radius))

    def sharpen(self, radius: float) -> None:
        """Use another bound on |<c*, e>| with the last reading; the caller pays for it."""
        self.low = max(self.low, self._reading[0] - radius)
        self.high = min(self.high, self._reading[1] + radius)
