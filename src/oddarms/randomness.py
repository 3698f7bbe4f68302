"""Generators and seeds from `rng=`, as SPEC 7 asks."""

from __future__ import annotations

import secrets

import numpy as np

from oddarms.errors import InvalidParameter
from oddarms.problem import check_whole

Rng = np.random.Generator | np.random.SeedSequence | np.random.BitGenerator | int | None
"""Anything that `numpy.random.default_rng` takes: a seed, a generator, or None for a fresh one."""


def seed_of(rng: Rng) -> int:
    """Return a seed that can be written down: a whole number as it is, or one that is drawn.

    Examples
    --------
    >>> seed_of(7)
    7
    """
    if rng is None:
        return secrets.randbits(63)
    if isinstance(rng, int | float | np.integer):
        return check_whole("rng", rng, least=0)
    return int(generator_of(rng).integers(2**63))


def generator_of(rng: Rng) -> np.random.Generator:
    """Return a generator, or say what may be one."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise InvalidParameter(
            "rng must be a whole number of at least 0, a generator, a seed sequence or None but got"
            f" {rng!r}."
        ) from None
