"""The solver behind `first_order_program`.

Let V(Q) be the least number of pulls when the threshold's variance, sum_j c_j^2 s_j^2 / N_j, may be
at most Q. For one Q the best N_j is the free choice sqrt(nu) |c_j| s_j, raised to arm j's own need
D_j / (H_j - Q), and nu makes the variances sum to Q. V falls up to the optimal Q and rises after
it, also when some D_i < 0 (an arm with c_i > 1/2, of which there are at most three): take two
points on one side of the optimum and walk from the worse one towards the optimum inside the convex
feasible set. By the envelope theorem V'(Q) is the sum of the multipliers of the arms' own needs
less nu, so the optimum is the root of one function of Q; each value of it costs O(n).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from oddarms.problem import BoolArray, FloatArray, IntArray

_LOGIT_TOLERANCE = 1e-8  # V is flat at its minimum, so the sum is accurate to about the square
_LARGEST_LOGIT = 60.0


@dataclass(frozen=True)
class Program:
    """The program's data, with the arms sorted by the sign of D_i.

    own: undecided arms with D > 0, which need pulls of their own; steep: undecided arms with D < 0,
    which must not be pulled so much that their slack in Q is lost. Q stays below cap.
    """

    root: FloatArray  # |c_j| s_j
    own: IntArray
    own_d: FloatArray
    own_h_less_cap: FloatArray
    steep: IntArray
    steep_d: FloatArray
    steep_h: FloatArray
    cap: float


def program_of(c: FloatArray, s2: FloatArray, Delta: FloatArray, undecided: BoolArray) -> Program:
    """Return the program for the gradient c, the variances, the gaps and the arms to settle."""
    D = (1.0 - 2.0 * c) * s2
    H = 0.5 * Delta**2
    own = np.flatnonzero(undecided & (D > 0.0))
    steep = np.flatnonzero(undecided & (D < 0.0))
    limits = np.where(D < 0.0, H * (c / (1.0 - c)) ** 2, H)[undecided]
    cap = float(limits.min())
    return Program(
        root=np.abs(c) * np.sqrt(s2),
        own=own,
        own_d=D[own],
        own_h_less_cap=H[own] - cap,
        steep=steep,
        steep_d=-D[steep],
        steep_h=H[steep],
        cap=cap,
    )


def solve(program: Program) -> FloatArray:
    """Find the root of V'(Q) in logit(Q / cap): first a bracket, then the Illinois rule."""
    if not program.root.any():  # the threshold is known: every arm needs its own pulls only
        N = np.zeros(program.root.size)
        N[program.own] = program.own_d / (program.own_h_less_cap + program.cap)
        return N
    best = _Best()
    low = high = 0.0
    slope_low = slope_high = best.visit(program, 0.0)
    step = 1.0
    while slope_high < 0.0 and high < _LARGEST_LOGIT:
        low, slope_low, high, step = high, slope_high, high + step, 2.0 * step
        slope_high = best.visit(program, high)
    while slope_low > 0.0 and low > -_LARGEST_LOGIT:
        high, slope_high, low, step = low, slope_low, low - step, 2.0 * step
        slope_low = best.visit(program, low)
    while high - low > _LOGIT_TOLERANCE and slope_low < 0.0 < slope_high:
        middle = (low * slope_high - high * slope_low) / (slope_high - slope_low)
        if not low < middle < high:  # also when a slope is infinite
            middle = 0.5 * (low + high)
        slope = best.visit(program, middle)
        if abs(slope) < _LOGIT_TOLERANCE:
            break
        if slope < 0.0:
            slope_high *= 0.5 if low == best.previous else 1.0
            low, slope_low = middle, slope
        else:
            slope_low *= 0.5 if high == best.previous else 1.0
            high, slope_high = middle, slope
        best.previous = middle
    return best.N


class _Best:
    """The least sum seen so far; every visited N is feasible, so the last need not be the best."""

    N: FloatArray
    previous = math.nan  # the end of the bracket that moved last

    def __init__(self) -> None:
        self._sum = math.inf
        self._x = math.inf

    def visit(self, program: Program, logit: float) -> float:
        """Solve for one Q, keep the result if it is the best, and return the slope of V."""
        N, slope, self._x = _at(program, logit, self._x)
        total = float(N.sum())
        if total <= self._sum:
            self.N, self._sum = N, total
        return slope


def _at(program: Program, logit: float, x: float) -> tuple[FloatArray, float, float]:
    """Return the best N for one Q, the sign-true slope log(sum of multipliers / nu), and nu^(-1/2).

    `x` is a first guess of nu^(-1/2). The slope is +inf where no N reaches Q.
    """
    slack = program.cap * _expit(-logit)  # kept apart from Q, so that H - Q loses no digits
    Q = program.cap * _expit(logit)
    need = program.own_d / (program.own_h_less_cap + slack)
    lower = np.zeros(program.root.size)
    lower[program.own] = need
    excess = Q - program.steep_h
    upper = np.full(excess.size, np.inf)
    np.divide(program.steep_d, excess, out=upper, where=excess > 0.0)
    if (upper < lower[program.steep]).any():
        return np.full(lower.size, np.inf), math.inf, x
    steep_root = program.root[program.steep]
    if np.sum(steep_root**2 / upper) >= Q:
        return np.full(lower.size, np.inf), math.inf, x
    x = _root_of_variance(program, lower, upper, Q, x)
    N = np.maximum(lower, program.root / x)
    N[program.steep] = np.minimum(N[program.steep], upper)
    if math.isinf(x):  # Q is reached for nothing; if no arm needs more either, that is optimal
        return N, (math.inf if N.any() else 0.0), x
    own_root = program.root[program.own]
    binding = need * x > own_root
    multipliers = np.sum(((need * x) ** 2 - own_root**2) / program.own_d, where=binding)
    steep_gain = np.maximum(steep_root**2 - (upper * x) ** 2, 0.0) / program.steep_d
    total = float(multipliers + steep_gain.sum())
    return N, (math.log(total) if total > 0.0 else -_LARGEST_LOGIT), x


def _root_of_variance(
    program: Program, lower: FloatArray, upper: FloatArray, Q: float, x: float
) -> float:
    """Return x = nu^(-1/2) with sum_j root_j^2 / clip(root_j / x, lower_j, upper_j) = Q.

    The sum rises in x and is piecewise linear, so Newton's steps end after a few; a bracket keeps
    them honest at the few convex kinks that `upper` makes. Infinite if even nu = 0 leaves room.
    """
    root = program.root
    turn = np.full(root.size, np.inf)  # arm j stays at lower_j once x >= turn_j
    np.divide(root, lower, out=turn, where=lower > 0.0)
    turn[root == 0.0] = 0.0
    share = np.where(np.isinf(turn), 0.0, root * np.where(np.isinf(turn), 0.0, turn))
    steep_turn = np.divide(root[program.steep], upper)  # arm j stays at upper_j while x <= this
    below, above = 0.0, math.inf
    if not np.isinf(turn).any() and share.sum() <= Q:
        return math.inf
    if not 0.0 < x < math.inf:
        x = Q / root.sum()
    for _ in range(200):
        at_lower = turn <= x
        held = x <= steep_turn
        steep_root = root[program.steep]
        fixed = np.sum(share, where=at_lower) + np.sum(steep_root * steep_turn, where=held)
        slope = np.sum(root, where=~at_lower) - np.sum(steep_root, where=held)
        value = fixed + slope * x
        if value < Q:
            below = x
        else:
            above = x
        following = (Q - fixed) / slope if slope > 0.0 else math.nan
        if not below <= following <= above:
            following = 2.0 * x if math.isinf(above) else 0.5 * (below + above)
        if abs(following - x) <= 1e-15 * x:
            break
        x = following
    return x


def _expit(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-value)) if value > -700.0 else 0.0
