"""Figures as text."""

from __future__ import annotations

import math

LARGEST_ODDS = 1e12


def odds_text(odds: float) -> str:
    """Return odds against one, cut off where they mean nothing any more."""
    if math.isnan(odds):
        return "–"
    if odds > LARGEST_ODDS:
        return f"over {LARGEST_ODDS:,.0f} : 1"
    return f"{odds:,.0f} : 1" if odds >= 10.0 else f"{odds:.2g} : 1"


def exact(value: float) -> str:
    """Return all digits of what somebody wrote."""
    return f"{value:,.15g}"


def doubt_text(doubt: float) -> str:
    """Return about the probability that a guess is wrong."""
    return "under 1 %" if doubt < 0.01 else f"{100.0 * doubt:.0f} %"


def many(count: int, noun: str) -> str:
    """Return a number of things."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def percent(share: float) -> str:
    """Return a share of the whole."""
    return f"{100.0 * share:.6g} %"
