"""The families of rewards that whole runs can be simulated with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from oddarms.arms import Bernoulli, Beta, SimulatedArms, Uniform
from oddarms.errors import InvalidParameter

BERNOULLI, BETA, UNIFORM = 0, 1, 2


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
