"""The benchmark's figures as Markdown and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from oddarms.benchmark._compare import DELTA, SMALL, Measured, Row
from oddarms.benchmark._speed import GrowthRow, SpeedRow
from oddarms.testing import most_errors

BASELINES = ("ADE", "ADE shared", "RR", "WRR")


def samples_table(rows: list[Row]) -> str:
    """Return the comparison of all algorithms."""
    header = [
        "family",
        "n",
        "SPADE",
        "wrong",
        *BASELINES,
        "ADE / SPADE",
        "better of RR, WRR / SPADE",
        "limit",
        "SPADE / limit",
    ]
    body = [_samples_row(row) for row in rows]
    return _markdown(header, body)


def _samples_row(row: Row) -> list[str]:
    spade = row.measured["SPADE"]
    return [
        row.family.name,
        f"{row.family.n:,}",
        f"{spade.mean:,.0f} ± {spade.half_width:,.0f}",
        f"{spade.wrong} of {len(spade.pulls)}",
        *(_pulls(row.measured[name]) for name in BASELINES),
        _ratio(row, ("ADE",)),
        _ratio(row, ("RR", "WRR")),
        f"{row.limit:,.0f}",
        f"{row.ratio_to_limit:.1f}",
    ]


def _pulls(measured: Measured) -> str:
    if not measured.pulls:
        return "-"
    wrong = f", {measured.wrong} wrong" if measured.wrong else ""
    spread = 100.0 * measured.half_width / measured.mean
    interval = "" if measured.unfinished or math.isnan(spread) else f" ± {spread:.0f} %"
    return f"{_more_than(measured.unfinished)}{measured.mean:.2g}{interval}{wrong}"


def _ratio(row: Row, names: tuple[str, ...]) -> str:
    best = min(names, key=lambda name: row.measured[name].mean)
    return f"{_more_than(row.measured[best].unfinished)}{row.ratio_to(best):,.0f}"


def _more_than(unfinished: int) -> str:
    return "> " if unfinished else ""


def verdict(rows: list[Row]) -> list[str]:
    """Return the sentences that sum the comparison up."""
    small = [row for row in rows if row.family.n <= SMALL]
    logs = [math.log(row.ratio_to_limit) for row in small]
    lines = [f"Geometric mean of SPADE / limit over n <= {SMALL}: {math.exp(_mean(logs)):.2f}."]
    for row in rows:
        spade = row.measured["SPADE"]
        most = most_errors(len(spade.pulls), DELTA)
        if spade.wrong > most:
            lines.append(f"{row.family.name}: {spade.wrong} wrong is more than {most}: NOT VALID.")
    if len(lines) == 1:
        lines.append(
            f"No family has more wrong answers than delta = {DELTA} allows (exact binomial bound,"
            " false alarm 1e-6)."
        )
    return lines


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def samples_json(rows: list[Row]) -> list[dict[str, Any]]:
    """Return the comparison as plain values."""
    return [
        {
            "family": row.family.name,
            "description": row.family.description,
            "n": row.family.n,
            "k": row.family.k,
            "limit": row.limit,
            "spade_over_limit": row.ratio_to_limit,
            "algorithms": {
                name: {
                    "runs": len(measured.pulls),
                    "mean_pulls": measured.mean,
                    "half_width_95": measured.half_width,
                    "wrong": measured.wrong,
                    "unfinished": measured.unfinished,
                    "over_spade_on_the_same_instances": row.ratio_to(name),
                }
                for name, measured in row.measured.items()
                if measured.pulls
            },
        }
        for row in rows
    ]


def speed_table(rows: Iterable[SpeedRow]) -> str:
    """Return the speed of the compiled simulation."""
    return _markdown(
        ["algorithm, n = 1000", "pulls", "seconds", "million pulls / s", "of numpy's rate"],
        [
            [
                row.name,
                f"{row.pulls:,}",
                f"{row.seconds:.3f}",
                f"{row.pulls / row.seconds / 1e6:,.0f}",
                f"{row.ratio_to_numpy:.3f}",
            ]
            for row in rows
        ],
    )


def growth_table(rows: Iterable[GrowthRow]) -> str:
    """Return whole searches of growing size."""
    return _markdown(
        ["arms", "pulls", "pulls / arm", "seconds", "ns / pull", "peak memory, MB", "right"],
        [
            [
                f"{row.arms:,}",
                f"{row.pulls:,}",
                f"{row.pulls / row.arms:.1f}",
                f"{row.seconds:.2f}",
                f"{row.seconds / row.pulls * 1e9:.0f}",
                f"{row.peak_megabytes:,.0f}",
                "yes" if row.correct else "NO",
            ]
            for row in rows
        ],
    )


def _markdown(header: list[str], body: list[list[str]]) -> str:
    rows = [header, ["---"] * len(header), *body]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
