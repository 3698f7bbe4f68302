"""The question that the options of ``oddarms find`` put."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from oddarms.cli._printing import shown
from oddarms.errors import InvalidParameter
from oddarms.studies import Study

DEFAULT_K, DEFAULT_DELTA, DEFAULT_BOUNDS = 2.0, 0.05, (0.0, 1.0)


@dataclass(frozen=True)
class Asked:
    """The question, as far as the options put it; what was left out is None."""

    k: float | None
    delta: float | None
    bounds: tuple[float, float] | None
    side: Any
    algorithm: str | None
    budget: int | None
    seed: int | None
    options: dict[str, Any] | None

    def within(self, study: Study) -> Asked:
        """Return the question with the study's answer for what was left out.

        Raises
        ------
        InvalidParameter
            If it was asked another one.
        """
        names = [field.name for field in fields(self)]
        stored = {name: getattr(study.question, name) for name in names}
        for name, given in vars(self).items():
            if given is not None and given != stored[name]:
                option = "--indifference" if name == "options" else f"--{name}"
                raise another_question(study, option, f"has {stored[name]!r}, not {given!r}")
        return replace(self, **stored)

    def words(self) -> dict[str, Any]:
        """Return the whole question, for a study or a search."""
        return {
            "k": DEFAULT_K if self.k is None else self.k,
            "delta": DEFAULT_DELTA if self.delta is None else self.delta,
            "bounds": self.bounds or DEFAULT_BOUNDS,
            "side": self.side or "upper",
            "algorithm": self.algorithm or "spade",
            **(self.options or {}),
        }


def another_question(study: Study, option: str, told: str) -> InvalidParameter:
    """Return the error for an option that contradicts the study."""
    return InvalidParameter(
        f"{option} must be what the study in {shown(study.storage)} was begun with, which {told};"
        " choose another --out or --study to begin anew."
    )
