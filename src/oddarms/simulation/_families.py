"""The families of rewards that whole runs can be simulated with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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

    def value(self, options: dict[str, float]) -> float:
        """Take the family's parameter out of the options, or its default."""
        return self.default if self.parameter is None else options.pop(self.parameter, self.default)

    def make(self, means: npt.ArrayLike, value: float) -> SimulatedArms:
        """Return the arms with these means."""
        return self.arms(means) if self.parameter is None else self.arms(means, value)


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
