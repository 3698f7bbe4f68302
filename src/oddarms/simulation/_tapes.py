"""Bernoulli rewards drawn 53 at a time: in order, exactly, for a seventh of a draw each.

A *tape* holds an arm's next rewards in the bits of a whole number, the next one lowest, below a
bit that marks its end (so 1 is an empty tape). It is filled when a reward of an empty one is
asked for.
"""

from __future__ import annotations

import numpy as np

LENGTH = 53
"""Rewards on a full tape: the random bits in one draw of ``rng.random()``."""

EMPTY = 1
"""The tape with nothing but the mark of its end."""

_MARK: int = 2**LENGTH
_ALL: int = 2**LENGTH - 1


def full_tape(rng: np.random.Generator, p: float, mirrored: bool) -> int:
    """Return a tape of 53 independent rewards that are 1 with probability p, 0 where mirrored.

    Bit by bit, 53 uniform numbers U are compared with p at a time. ``rng.random()`` is a whole
    number below 2^53 over 2^53, so it gives one fair bit for each. Let U agree with p so far: if
    the next bit of p is 1 and that of U is 0 then U < p; if it is the other way round, U > p;
    otherwise U is still undecided. Where no 1 follows in p, U >= p. So each reward is 1 with
    probability exactly p: doubling `rest` and taking 1 off lose no digit of p. Half of the
    undecided are decided by each draw, so about log2(53) + 4/3 draws do for all.
    """
    ones: int = 0
    undecided: int = _ALL
    rest = p
    while undecided != 0 and rest > 0.0:
        word = int(rng.random() * 9007199254740992.0)  # 2^53, exactly
        rest *= 2.0
        bit = 1 if rest >= 1.0 else 0  # of p; no branches from here, as they take much longer
        rest -= bit
        agree = word ^ (bit - 1)  # -1 has all bits
        ones |= undecided & ~agree & -bit
        undecided &= agree
    return _MARK | (_ALL ^ ones if mirrored else ones)
