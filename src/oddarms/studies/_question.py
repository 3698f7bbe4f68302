"""What a study asks, as it is stored."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from oddarms.algorithms import get_algorithm
from oddarms.errors import StoreFailed
from oddarms.problem import Side
from oddarms.search import Search


@dataclass(frozen=True)
class Question:
    """Everything that decides a search but the rewards; arms are numbers here."""

    n: int
    k: float
    delta: float
    algorithm: str
    bounds: tuple[float, float]
    side: Side
    budget: int | None
    seed: int
    options: dict[str, Any] = field(default_factory=dict)

    def new_search(self) -> Search:
        """Return a search at its beginning; it checks every value."""
        return Search(
            self.n,
            k=self.k,
            delta=self.delta,
            algorithm=self.algorithm,
            bounds=self.bounds,
            side=self.side,
            budget=self.budget,
            rng=np.random.default_rng(self.seed),
            **self.options,
        )

    @property
    def package(self) -> str:
        """The package that the algorithm's class is in."""
        return get_algorithm(self.algorithm).__module__.partition(".")[0]

    def to_json(self) -> str:
        """Return the question as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Question:
        """Return the question that `to_json` was called on."""
        try:
            values = json.loads(text)
            return cls(**{**values, "bounds": tuple(values["bounds"])})
        except (KeyError, TypeError, ValueError) as error:
            raise StoreFailed(f"a stored question must be whole but is not: {error}.") from None
