"""Durations as people write them."""

from __future__ import annotations

import re
from datetime import timedelta

from oddarms.errors import InvalidParameter
from oddarms.text import shown

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def duration_of(name: str, text: str) -> timedelta:
    """Return a duration.

    Parameters
    ----------
    name
        Of the parameter, for the message.
    text
        A number and a unit.

    Examples
    --------
    >>> duration_of("lease", "90m") == duration_of("lease", "1.5h")
    True
    """
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*([smhd])", text.strip())
    try:
        if found:
            return timedelta(**{UNITS[found[2]]: float(found[1])})
    except OverflowError:
        pass
    raise InvalidParameter(
        f"{name} must be a duration such as 30s, 10m, 2h or 1d but got {shown(text)!r}."
    )
