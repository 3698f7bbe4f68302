"""The families of rewards that whole runs can be simulated with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from oddarms.arms import Bernoulli, Beta, SimulatedArms, Uniform
from oddarms.errors import InvalidParameter

BERNOULLI, BETA, UNIFORM = 0, 1, 2
LEAST_BETA = 0.05
"""The least parameter for which Beta rewards are surely drawn alike: see `drawn_alike`."""


@dataclass(frozen=True)
class Family:
    """A family: its code in compiled loops, its parameter's name and default, its arms."""

    code: int
    parameter: str | None
    default: float
    arms: Callable[..., SimulatedArms]

    def make(self, means: npt.ArrayLike, options: dict[str, Any]) -> SimulatedArms:
        """Return the arms with these means; the family's parameter is taken out of the options."""
        if self.parameter is None:
            return self.arms(means)
        return self.arms(means, options.pop(self.parameter, self.default))

    def value(self, arms: SimulatedArms) -> float:
        """Return the family's parameter of such arms."""
        return 0.0 if self.parameter is None else float(getattr(arms, self.parameter))


FAMILIES = {
    "bernoulli": Family(BERNOULLI, None, 0.0, Bernoulli),
    "beta": Family(BETA, "concentration", 10.0, Beta),
    "uniform": Family(UNIFORM, "width", 0.1, Uniform),
}


def get_family(name: str) -> Family:
    """Return the family of a name."""
    if name not in FAMILIES:
        raise InvalidParameter(f"family must be one of {', '.join(FAMILIES)} but got {name!r}.")
    return FAMILIES[name]


def family_of(arms: SimulatedArms) -> Family | None:
    """Return the family with rewards in [0, 1] that the arms belong to, or None."""
    if getattr(arms, "bounds", (0.0, 1.0)) != (0.0, 1.0):
        return None
    return next((family for family in FAMILIES.values() if type(arms) is family.arms), None)


def drawn_alike(arms: SimulatedArms) -> bool:
    """Tell whether compiled code surely draws the rewards that numpy draws from a generator.

    Only Beta rewards may differ, of arms whose parameters a and b are both at most 1: numpy then
    takes powers U^(1/a) and V^(1/b) of two uniform numbers, and logarithms in place of a power that
    is rounded to 0; numba has no such remedy and may draw for ever. U is 0, which gives the same
    reward in both, or at least 2^-53; so for a >= `LEAST_BETA` > 53/1074 a power is at least
    2^-1074, the smallest number above 0.
    """
    if not isinstance(arms, Beta):
        return True
    a, b = arms.means * arms.concentration, (1.0 - arms.means) * arms.concentration
    return bool(((a > 1.0) | (b > 1.0) | ((a >= LEAST_BETA) & (b >= LEAST_BETA))).all())
