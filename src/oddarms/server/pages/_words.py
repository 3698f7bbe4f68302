"""What pages say of a study, in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from oddarms.problem import Question
from oddarms.reports._figures import is_known
from oddarms.search import Status
from oddarms.search._text import ROUGH, guarantee, in_all_needed, nearly
from oddarms.server.pages._view import NAMES, SYMBOLS, View, plural
from oddarms.studies import Overview
from oddarms.text import about

STATES = {
    Status.RUNNING: ("▶", "running"),
    Status.WAITING: ("…", "waiting for results"),
    Status.DECIDED: ("✓", "decided"),
    Status.BUDGET: ("◼", "budget used up"),
    Status.STOPPED: ("❚❚", "stopped"),
    Status.ENDED: ("◼", "ended"),
    Status.INTERRUPTED: ("!", "interrupted"),
    Status.FAILED: ("!", "failed"),
}
LEAST_SHARE = 4.0
"""Of a thousand: the narrowest part of the bar that can be seen."""


@dataclass(frozen=True)
class Moment:
    """A time, as a page shows it."""

    iso: str
    exact: str
    ago: str

    @classmethod
    def of(cls, time: datetime | None, now: datetime | None = None) -> Moment | None:
        """Return how long ago something was.

        Examples
        --------
        >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
        >>> Moment.of(noon, datetime(2026, 1, 1, 15, tzinfo=UTC)).ago
        '3 h ago'
        """
        if time is None:
            return None
        seconds = ((now or datetime.now(UTC)) - time).total_seconds()
        return cls(time.isoformat(), f"{time:%Y-%m-%d %H:%M:%S} UTC", _ago(seconds, time))


def _ago(seconds: float, time: datetime) -> str:
    if seconds < 5.0:
        return "now"
    for limit, unit, name in ((120.0, 1.0, "s"), (7200.0, 60.0, "min"), (172800.0, 3600.0, "h")):
        if seconds < limit:
            return f"{seconds / unit:.0f} {name} ago"
    return f"{time:%Y-%m-%d}"


def sentence(question: Question) -> str:
    """Return what is asked."""
    text = question.sentence()
    return f"{text[0].upper()}{text[1:]}"


def summary(view: View, overview: Overview) -> dict[str, Any]:
    """Return where a study stands: the answer so far, what it is worth, and what it costs."""
    symbol, state = STATES[overview.status]
    return {
        "status": overview.status.value,
        "symbol": symbol,
        "state": state,
        "meaning": _meaning(overview),
        "answer": answer(view),
        "worth": worth(view),
        "news": f"{answer(view)} ({state})",
        "final": overview.status.final,
        "shares": shares(view),
        "counts": counted(view),
        "tiles": tiles(view, overview),
    }


def _meaning(overview: Overview) -> str:
    if overview.status is Status.STOPPED and overview.stopped:
        return overview.stopped
    plain = overview.status in (Status.DECIDED, Status.RUNNING)
    return "" if plain else overview.status.meaning


def answer(view: View) -> str:
    """Return the answer so far."""
    result, n = view.result, view.n
    odd, still = view.counts["high"] + view.counts["low"], view.counts["open"]
    if result.nothing_stands_out:
        return f"Nothing stands out among {n:,} arms{nearly(view.question)}"
    if result.complete:
        kind = "is an outlier" if odd == 1 else "are outliers"
        return f"{odd:,} of {n:,} arms {kind}{nearly(view.question)}"
    if not view.samples:
        return f"No samples yet of {n:,} arms"
    found = f"{odd:,} {'outlier' if odd == 1 else 'outliers'} found, " if odd else ""
    rest = f"{still:,} of {n:,} arms still open"
    return found + rest if still < n or odd else f"All {n:,} arms are still open"


def worth(view: View) -> str:
    """Return what the answer is worth."""
    sure = guarantee(view.question)
    if view.counts["open"] == view.n:
        return f"Once decided: {sure}."
    return f"{sure[0].upper()}{sure[1:]}." if view.result.complete else f"What is decided: {sure}."


def counted(view: View) -> list[dict[str, str]]:
    """Return how many arms there are of each kind that is asked for or there."""
    wanted = {
        "open",
        "normal",
        *({"upper": "high", "lower": "low"}[s] for s in view.question.sides),
    }
    return [
        {
            "kind": kind,
            "name": plural(NAMES[kind], count),
            "symbol": SYMBOLS[kind],
            "count": f"{count:,}",
        }
        for kind, count in view.counts.items()
        if kind in wanted or count
    ]


def shares(view: View) -> list[dict[str, str]]:
    """Return the parts of a bar of length 1000: outliers, normal arms, open ones."""
    counts = {kind: view.counts[kind] for kind in ("high", "low", "normal", "open")}
    widths = {k: max(1000.0 * c / view.n, LEAST_SHARE) for k, c in counts.items() if c}
    scale, x, parts = 1000.0 / sum(widths.values()), 0.0, []
    for kind, width in widths.items():
        parts.append({"kind": kind, "x": f"{x:.2f}", "width": f"{width * scale:.2f}"})
        x += width * scale
    return parts


def tiles(view: View, overview: Overview) -> list[dict[str, str]]:
    """Return the figures below the answer."""
    result, budget = view.result, view.question.budget
    of = f"of a budget of {count_text(budget)}" if budget is not None else ""
    unused = overview.told + overview.imported - view.samples
    extra = [
        of,
        f"{result.imported:,} imported" if result.imported else "",
        f"{unused:,} more recorded, not used{not_yet(overview)}" if unused > 0 else "",
    ]
    found = [
        _tile("Samples used", f"{view.samples:,}", ", ".join(filter(None, extra))),
        *([] if overview.status is Status.DECIDED else [_tile("Still to go", *to_go(view))]),
        *(_tile(*threshold(view, side)) for side in result.thresholds),
        _tile("Out now", f"{overview.live:,}", "pulls that workers have"),
    ]
    if overview.conflicts:
        found.append(_tile("Conflicts", f"{overview.conflicts:,}", "results that were refused"))
    return found


def not_yet(overview: Overview) -> str:
    """Return what is said behind "not used" while that may change."""
    return "" if overview.status.final else " yet"


def count_text(count: int) -> str:
    """Return a count that somebody has chosen; of a huge one only how large it is.

    Examples
    --------
    >>> count_text(12_000), count_text(10**400)
    ('12,000', 'over 10^400')
    """
    digits = len(str(count)) if count < 10**18 else int(Decimal(count).log10()) + 1
    return f"{count:,}" if digits <= 18 else f"over 10^{digits - 1}"


def to_go(view: View) -> tuple[str, str]:
    """Return about how many samples are still needed, and what that rests on."""
    result = view.result
    if result.all_alike:
        return "–", "all look alike; a margin would end it"
    needed = in_all_needed(result)
    if needed is None:
        return "–", "not known yet"
    low, high = about(needed / ROUGH), about(needed * ROUGH)
    return f"≈ {about(needed)}", f"samples, perhaps {low} to {high}"


def threshold(view: View, side: str) -> tuple[str, str, str]:
    """Return a threshold's name, estimate and interval."""
    name = "Threshold" if len(view.result.thresholds) == 1 else f"{side.capitalize()} threshold"
    bound = view.result.thresholds[side]
    if not is_known(bound):
        return name, "–", "not known yet"
    within = view.interval(bound.lower, bound.upper)
    return name, view.number(bound.estimate), f"within {within}"


def _tile(name: str, value: str, more: str) -> dict[str, str]:
    return {"name": name, "value": value, "more": more}


def picture_words(view: View) -> str:
    """Return what the interval picture shows."""
    kinds = ", ".join(f"{item['count']} {item['name']}" for item in counted(view))
    known = [threshold(view, side) for side in view.result.thresholds]
    bounds = "; ".join(f"{name.lower()} {value}, {more}" for name, value, more in known)
    return (
        f"Intervals of {view.n:,} arms, sorted by mean: {kinds}; {bounds}. The table has them all."
    )


def arm_words(view: View, arm: int) -> str:
    """Return what is known of one arm, in a sentence."""
    kind, mean = view.kind(arm), float(view.result.means[arm])
    if not view.samples_per_arm[arm]:
        return "Nothing has been sampled of it yet."
    bounds = [t for t in view.result.thresholds.values() if math.isfinite(t.estimate)]
    if not bounds:
        return "The threshold is not known yet."
    nearest = min(bounds, key=lambda bound: abs(bound.estimate - mean))
    where = "above" if mean >= nearest.estimate else "below"
    distance = view.number(abs(mean - nearest.estimate))
    sure = guarantee(view.question)
    what = "The samples so far do not tell which side it is on."
    if kind != "open":
        what = f"What is decided of all arms: {sure}."
    return f"Its average is {distance} {where} the threshold as it is estimated now. {what}"
