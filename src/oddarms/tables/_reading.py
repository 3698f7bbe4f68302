"""How the rewards of a table are read from its fields: words, decimal commas, what is missing."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any, get_args

from oddarms.problem import UNIT, check_choice
from oddarms.tables._columns import Copies
from oddarms.tables._frames import Missing
from oddarms.tables._transforms import Transform
from oddarms.tables._values import Bounds, Wrong, is_absent, number_of, truth_of, wrong

_WITH_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+(?:[eE][+-]?[0-9]+)?")
_ANY = (-math.inf, math.inf)


class Reading:
    """Makes rewards of one column's fields, and counts what was missing.

    Parameters
    ----------
    bounds
        Every reward must lie within.
    missing
        What an empty field, NA, NaN or null means: "stop" refuses it, "skip" leaves it out,
        "worst" counts it as `worst`.
    worst
        The most abnormal reward, by default the largest.
    transform
        What a reward counts as; that lies within the bounds.
    remedy
        What to do about a reward outside, for the message.
    """

    def __init__(
        self,
        bounds: Bounds = UNIT,
        missing: Missing = "stop",
        worst: float | None = None,
        transform: Transform | None = None,
        remedy: str = "",
    ) -> None:
        check_choice("missing", missing, get_args(Missing))
        self.bounds = bounds
        self.missing = missing
        self.worst = bounds[1] if worst is None else worst
        self.transform = transform
        self.remedy = remedy
        self.absent = 0
        self.copies = Copies()
        self._mark = ""

    def of_text(
        self, name: str, text: str, wrong: Wrong = wrong, *, commas: bool = False
    ) -> float | None:
        """Return the reward in a field, None for one that is left out.

        Parameters
        ----------
        name
            The column, for messages.
        text
            The field: a number, or yes, no, true or false.
        wrong
            Makes an error.
        commas
            Whether 0,5 is a number, as commas do not separate columns.
        """
        plain = text.strip()
        if is_absent(plain):
            return self._absent(name, wrong, f"is {plain!r}" if plain else "is empty")
        truth = truth_of(plain)
        if truth is not None:
            plain = f"{truth:g}"
        elif commas:
            plain = self._with_point(plain, wrong)
        if self.transform is None:
            return number_of(name, plain, self.bounds, wrong, self.remedy)
        return float(self.transform.one(number_of(name, plain, _ANY, wrong)))

    def of_value(self, name: str, value: Any, wrong: Wrong = wrong) -> float | None:
        """Return the reward that a value is, None for one that is left out."""
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return self._absent(name, wrong, "is missing")
        number = float(value) if isinstance(value, bool | int | float | Decimal) else math.nan
        if self.transform is not None:
            number = float(self.transform.one(number))
        a, b = self.bounds
        if not a <= number <= b:
            rule = f"{name} must lie within [{a:g}, {b:g}] but is {str(value)[:60]!r}"
            raise wrong(f"{rule}{self.remedy}")
        return number

    def _absent(self, name: str, wrong: Wrong, how: str) -> float | None:
        if self.missing == "stop":
            raise wrong(
                f"{name} must have a value but {how}: give missing (--missing) 'skip', which leaves"
                " it out, or 'worst', which counts it as the most abnormal reward"
            )
        self.absent += 1
        return self.worst if self.missing == "worst" else None

    def _with_point(self, text: str, wrong: Wrong) -> str:
        """Return a number with a decimal point; in one file it is always a point or a comma."""
        comma = _WITH_COMMA.fullmatch(text) is not None
        mark = "," if comma else "." if "." in text else self._mark
        if self._mark and mark != self._mark:
            raise wrong(
                "numbers must have one decimal mark in a file but this one has a"
                f" {'comma' if comma else 'point'} and one before has not: {text[:60]!r}"
            )
        self._mark = mark
        return text.replace(",", ".") if comma else text
