"""Durations as people write them."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import typer

from oddarms.errors import InvalidParameter
from oddarms.text import DURATIONS, seconds_of, shown


def duration_of(name: str, text: str) -> timedelta:
    """Return a duration.

    Parameters
    ----------
    name
        Of the parameter, for the message.
    text
        Seconds, or a number and a unit.

    Examples
    --------
    >>> duration_of("lease", "90m") == duration_of("lease", "1.5h")
    True
    """
    try:
        return timedelta(seconds=seconds_of(text))
    except (ValueError, OverflowError):
        raise InvalidParameter(f"{name} must be {DURATIONS} but got {shown(text)!r}.") from None


def seconds_option(text: str) -> float:
    """Return the seconds that an option gives; the name of the option is added to the message."""
    try:
        return seconds_of(text)
    except ValueError:
        with suppress(ValueError):
            return float(text)  # such as -1, which is refused by whom it is for
        raise typer.BadParameter(f"it must be {DURATIONS} but got {shown(text)!r}.") from None
