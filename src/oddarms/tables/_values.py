"""Single values as people write them: numbers, tickets, bounds."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from oddarms.errors import InvalidParameter
from oddarms.problem import UNIT, check_bounds

Bounds = tuple[float, float]
Wrong = Callable[[str], InvalidParameter]
"""Makes an error of a rule; `Lines.wrong` adds where it is broken."""
_ABSENT = {"", "na", "n/a", "nan", "null", "none"}
_TRUTH = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


def wrong(rule: str) -> InvalidParameter:
    """Return the error of a value that stands in no file."""
    return InvalidParameter(f"{rule}.")


def shown(text: str, most: int = 60) -> str:
    """Return a text for a message, shortened."""
    return repr(text if len(text) <= most else f"{text[:most]}...")


def number_of(
    name: str, text: str, bounds: Bounds = UNIT, wrong: Wrong = wrong, remedy: str = ""
) -> float:
    """Return a number within the bounds; the remedy is for one that is not.

    Examples
    --------
    >>> number_of("reward", " 0.25 ")
    0.25
    """
    a, b = bounds
    try:
        value = math.nan if "_" in text else float(text)  # Python would read 1_0 as 10
    except ValueError:
        value = math.nan
    if a <= value <= b:
        return value
    if math.isfinite(value):
        raise wrong(f"{name} must lie within [{a:g}, {b:g}] but is {shown(text.strip())}{remedy}")
    raise wrong(f"{name} must be a finite number but is {shown(text.strip())}")


def truth_of(text: str) -> float | None:
    """Return 1 for yes or true, 0 for no or false, and None for anything else.

    Examples
    --------
    >>> truth_of("Yes"), truth_of(" false "), truth_of("maybe")
    (1.0, 0.0, None)
    """
    return _TRUTH.get(text.strip().casefold())


def is_absent(text: str) -> bool:
    """Return whether a text is one of those that people write where a value is missing.

    Examples
    --------
    >>> is_absent(" N/A "), is_absent("0")
    (True, False)
    """
    return text.strip().casefold() in _ABSENT


def ticket_of(text: str, wrong: Wrong = wrong) -> str:
    """Return the id of a ticket; whether it is one of the study, the study says."""
    ticket = text.strip()
    if not re.fullmatch("[0-9]{1,19}-[a-z2-7]{16}", ticket):
        raise wrong(
            "ticket must be an id that ask has printed, such as 17-mzxw6ytboi4dgnbt, but is"
            f" {shown(ticket)}"
        )
    return ticket


def bounds_of(text: str, name: str = "bounds") -> Bounds:
    """Return the two numbers of ``A,B``.

    Examples
    --------
    >>> bounds_of("0,10")
    (0.0, 10.0)
    """
    try:
        a, b = (float(part) for part in text.split(","))
    except ValueError:
        raise InvalidParameter(
            f"{name} must be two numbers with a comma between, such as 0,1, but got {shown(text)}."
        ) from None
    return check_bounds((a, b), name)
