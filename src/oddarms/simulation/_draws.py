"""How compiled runs draw rewards."""

from __future__ import annotations

from typing import Any

from numba import njit
from numba.extending import register_jitable

from oddarms.simulation._families import BERNOULLI, BETA
from oddarms.simulation._tapes import EMPTY, full_tape

register_jitable(full_tape)


@njit(nogil=True)
def refilled(tape: int, rng: Any, y: float, mirrored: bool) -> int:
    """Return the tape, or a full one if it is empty; inlined, it would slow its callers down."""
    return full_tape(rng, y, mirrored) if tape == EMPTY else tape


@njit(nogil=True, inline="always")
def draw(rng: Any, family: int, y: float, parameter: float, mirrored: bool) -> float:
    """Return one reward, seen from the upper side."""
    if family == BERNOULLI:
        reward = 1.0 * (rng.random() < y)
    elif family == BETA:
        reward = rng.beta(y * parameter, (1.0 - y) * parameter)
    else:
        reward = y + parameter * (rng.random() - 0.5)
    return 1.0 - reward if mirrored else reward


@njit(nogil=True, inline="always")
def take(
    tapes: Any, i: int, rng: Any, family: int, y: float, parameter: float, mirrored: bool
) -> float:
    """Return one reward of arm i, seen from the upper side; a Bernoulli one from its tape."""
    if family != BERNOULLI:
        return draw(rng, family, y, parameter, mirrored)
    tape = refilled(tapes[i], rng, y, mirrored)
    tapes[i] = tape >> 1
    return float(tape & 1)


@njit(nogil=True, inline="always")
def turn(
    tapes: Any,
    i: int,
    rng: Any,
    family: int,
    y: float,
    parameter: float,
    mirrored: bool,
    count: int,
) -> float:
    """Return the sum of a turn of arm i; several Bernoulli rewards are one binomial."""
    if count == 1:
        return take(tapes, i, rng, family, y, parameter, mirrored)
    if family == BERNOULLI:
        ones = float(rng.binomial(count, y))
        return count - ones if mirrored else ones
    total = 0.0
    for _ in range(count):
        total += draw(rng, family, y, parameter, mirrored)
    return total
