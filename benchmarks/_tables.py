"""The benchmark's figures as Markdown tables, for the terminal and for the documentation."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks._fixed import RUNS_EACH
from oddarms.experiments._paper import DELTA
from oddarms.statistics.binomial import most_errors

SMALL = 200
README_FAMILIES = (
    "19+1 planted, k=2",
    "48+2 planted, k=3",
    "190+10 planted, k=2",
    "97+3 low rate, k=2",
)
README_RUNS = ("30", "50", "100")
WAYS = {
    "equal": "equal sampling",
    "APT": "APT",
    "SPADE": "SPADE, stopped",
    "rows": '`goal="budget"`',
}
"""Ways to spend a budget, and their names in the table."""

Report = dict[str, Any]


def markdown(header: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    rows = [header, ["---"] * len(header), *body]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean of positive values; NaN of none."""
    logs = [math.log(value) for value in values]
    return math.exp(statistics.fmean(logs)) if logs else math.nan


def report_text(report: dict[str, Any]) -> str:
    """Return a report as JSON, each list of numbers on one line."""
    text = json.dumps(report, indent=1)
    return re.sub(r"\[\n[-+.,\s\de]+\]", lambda found: " ".join(found[0].split()), text) + "\n"


def _fixed_of(report: Report, family: str) -> dict[str, dict[str, Any]]:
    """Return the rows of a family with fixed numbers of runs, and the one that costs as SPADE."""
    return {
        "spade" if row["like_spade"] else str(row["runs_each"]): row
        for row in report["fixed_runs"]
        if row["family"] == family
    }


def _share(wrong: int, runs: int) -> str:
    return f"{100.0 * wrong / runs:.1f} %".replace(".0 %", " %")


def _readme(report: Report) -> str:
    """Return SPADE, calibrated and equal sampling on a few families with outliers."""
    header = ["family", "SPADE", "`calibrated`", "equal, until proven"]
    header += [f"{runs} each" for runs in README_RUNS]
    return markdown(header, [_readme_row(report, name) for name in README_FAMILIES])


def _readme_row(report: Report, name: str) -> list[str]:
    (row,) = (one for one in report["samples"] if one["family"] == name)
    spade, fixed = row["algorithms"]["SPADE"], _fixed_of(report, name)
    (ours,) = (one for one in report["calibrated_beside"] if one["family"] == name)
    (equal,) = (one for one in report["equal"] if one["family"] == name)
    return [
        name,
        f"{spade['mean_pulls']:,.0f} ± {spade['half_width_95']:,.0f}, {_wrong(spade)} wrong",
        f"{ours['pulls']:,.0f}, {_wrong(ours)}",
        f"{equal['pulls']:,.0f} ± {equal['half_width_95']:,.0f}, {_wrong(equal)}",
        *(f"{fixed[runs]['pulls']:,}, {_wrong(fixed[runs])}" for runs in README_RUNS),
    ]


def _wrong(row: dict[str, Any]) -> str:
    return _share(row["wrong"], row["runs"])


def _practice(report: Report) -> str:
    """Return how often three usual ways give a wrong list on the same samples."""
    ways = {"wrong": "z-score", "wrong_mad": "median + k MAD", "wrong_tests": "tests with BH"}
    body = [
        [name, way, *(_share(row[key], row["runs"]) for row in _fixed_of(report, name).values())]
        for name in README_FAMILIES
        for key, way in ways.items()
    ]
    header = ["family", "decision by", *(f"{runs} each" for runs in RUNS_EACH)]
    return markdown([*header, "SPADE's pulls, shared equally"], body)


def _paper(report: Report) -> str:
    """Return the paper's experiments: mean samples with Student's 95 % interval."""
    names = ("ADE", "RR", "WRR")
    body = [
        [row["setting"], *(_millions(row["algorithms"][name]) for name in names)]
        for row in report["paper"]
    ]
    return markdown(["setting", *names], body)


def _millions(measured: dict[str, Any]) -> str:
    mean, half = measured["mean_pulls"] / 1e6, measured["half_width_95"] / 1e6
    return f"{mean:.3g} ± {half:.2g} million"


def _samples(part: str) -> Callable[[Report], str]:
    """Return what writes a comparison of algorithms and the sentences that sum it up."""

    def text(report: Report) -> str:
        names = [name for name in ("ADE", "RR") if name in report[part][0]["algorithms"]]
        header = ["family", "SPADE", "wrong", *names, "limit", "SPADE / limit"]
        table = markdown(header, [_samples_row(row, names) for row in report[part]])
        return "\n".join([table, "", *verdict(report[part])])

    return text


def _samples_row(row: dict[str, Any], names: list[str]) -> list[str]:
    spade = row["algorithms"]["SPADE"]
    return [
        row["family"],
        f"{spade['mean_pulls']:,.0f} ± {spade['half_width_95']:,.0f}",
        f"{spade['wrong']} of {spade['runs']}",
        *(_others(row["algorithms"][name]) for name in names),
        f"{row['limit']:,.0f}",
        f"{row['spade_over_limit']:.1f}",
    ]


def _others(measured: dict[str, Any]) -> str:
    """Return mean pulls of few runs to two digits, with their interval."""
    mean, half = measured["mean_pulls"], measured["half_width_95"]
    if measured["unfinished"]:
        return f"> {mean:.2g}"
    return f"{mean:.2g} ± {100.0 * half / mean:.0f} %"


def verdict(figures: list[dict[str, Any]]) -> list[str]:
    """Return the sentences that sum the comparison up, from `samples_json`."""
    small = geometric_mean(family["spade_over_limit"] for family in figures if family["n"] <= SMALL)
    lines = [f"Geometric mean of SPADE / limit over n <= {SMALL}: {small:.2f}."]
    for family in figures:
        spade = family["algorithms"]["SPADE"]
        most = most_errors(spade["runs"], DELTA)
        if spade["wrong"] > most:
            lines.append(
                f"{family['family']}: {spade['wrong']} wrong is more than {most}: NOT VALID."
            )
    if len(lines) == 1:
        lines.append(
            f"No family has more wrong answers than delta = {DELTA} allows (exact binomial bound,"
            " false alarm 1e-6)."
        )
    return lines


def _fixed(report: Report) -> str:
    header = ["family", "n", *(f"{runs} each" for runs in RUNS_EACH)]
    header += ["SPADE's pulls, shared equally"]
    rows = []
    for name in dict.fromkeys(row["family"] for row in report["fixed_runs"]):
        fixed = _fixed_of(report, name)
        wrong = [f"{fixed[runs]['wrong']}" for runs in map(str, RUNS_EACH)]
        like = fixed["spade"]
        rows.append(
            [name, f"{like['n']:,}", *wrong, f"{like['wrong']} ({like['runs_each']:,} each)"]
        )
    return markdown(header, rows)


def _summary(part: str) -> Callable[[Report], str]:
    """Return what sums a comparison up in sentences, without a table."""

    def text(report: Report) -> str:
        ratios = [row["spade_over_limit"] for row in report[part]]
        wrong = sum(row["algorithms"]["SPADE"]["wrong"] for row in report[part])
        runs = sum(row["algorithms"]["SPADE"]["runs"] for row in report[part])
        return (
            f"{len(ratios)} families, SPADE / limit {min(ratios):.1f} to {max(ratios):.1f};"
            f" {wrong} of {runs:,} answers were wrong."
        )

    return text


def _delta(report: Report) -> str:
    """Return the geometric mean over families of SPADE's pulls over the limit at each delta."""
    ratios: dict[float, list[float]] = {}
    for row in report["delta"]:
        ratios.setdefault(row["delta"], []).append(row["over_log_n_over_delta"])
    header = ["delta", *(f"{delta:g}" for delta in ratios)]
    means = map(geometric_mean, ratios.values())
    return markdown(header, [["SPADE / limit", *(f"{mean:.2f}" for mean in means)]])


def _calibrated(report: Report) -> str:
    rows = report["calibrated"]
    header = ["delta", "families", "most wrong in one", "pulls / limit, median", "largest"]
    body = []
    for delta in dict.fromkeys(row["delta"] for row in rows):
        own = [row for row in rows if row["delta"] == delta]
        worst = max(own, key=lambda row: row["wrong"] / row["runs"])
        ratios = [row["pulls"] / row["limit"] for row in own]
        body.append(
            [
                f"{delta:g}",
                f"{len(own)}",
                f"{_share(worst['wrong'], worst['runs'])} ({worst['family']})",
                f"{statistics.median(ratios):.2f}",
                f"{max(ratios):.1f}",
            ]
        )
    return markdown(header, body)


def _budget(report: Report) -> str:
    """Return the means over families for each budget: P(any wrong), and wrong arms."""
    rows = report["budget"]
    body = []
    for share in dict.fromkeys(row["share"] for row in rows):
        cells = [f"{share:g}"]
        for way in WAYS:
            own = [row for row in rows if (row["share"], row["way"]) == (share, way)]
            wrong, arms = (
                statistics.fmean(r[key] for r in own) for key in ("any_wrong", "wrong_arms")
            )
            cells.append(f"{wrong:.2f} ({arms:.2f})")
        body.append(cells)
    return markdown(["budget / limit", *WAYS.values()], body)


def _growth(report: Report) -> str:
    """Return whole searches of growing size."""
    header = ["arms", "pulls", "pulls / arm", "seconds", "ns / pull", "peak memory, MB", "right"]
    body = [
        [
            f"{row['arms']:,}",
            f"{row['pulls']:,}",
            f"{row['pulls'] / row['arms']:.1f}",
            f"{row['seconds']:.2f}",
            f"{row['seconds'] / row['pulls'] * 1e9:.0f}",
            f"{row['peak_megabytes']:,.0f}",
            "yes" if row["correct"] else "NO",
        ]
        for row in report["growth"]
    ]
    return markdown(header, body)


def _workers(report: Report) -> str:
    """Return a row for each number of workers with and without pulls ahead."""
    header = ["workers", "ahead", "searches", "pulls of one", "busy (least)"]
    header += ["pulls, times one (most)"]
    body = []
    for jobs, ahead in dict.fromkeys((row["jobs"], row["ahead"]) for row in report["workers"]):
        own = [row for row in report["workers"] if (row["jobs"], row["ahead"]) == (jobs, ahead)]
        busy = [row["busy"] for row in own]
        cost = [row["pulls"] / row["pulls_of_one"] for row in own]
        alone = [row["pulls_of_one"] for row in own]
        body.append(
            [
                f"{jobs}",
                f"{ahead:g}",
                f"{len(own)}",
                f"{min(alone):,} to {max(alone):,}",
                f"{statistics.fmean(busy):.2f} ({min(busy):.2f})",
                f"{statistics.fmean(cost):.2f} ({max(cost):.2f})",
            ]
        )
    return markdown(header, body)


def _storage(report: Report) -> str:
    """Return results recorded a second, and what it costs to open a study."""
    rates = [
        [
            row["storage"],
            f"{row['writers']}",
            row["task"],
            f"{row['ours']:,.0f}",
            f"{row['bare']:,.0f}",
            f"{row['ours'] / row['bare']:.2f}",
        ]
        for row in report["storage"]
    ]
    opened = [
        [row["storage"], f"{row['arms']:,}", f"{row['results']:,}", f"{row['seconds']:.2f}"]
        for row in report["opening"]
    ]
    header = ["storage", "writers", "what", "ours / s", "bare inserts / s", "ours / bare"]
    opening = markdown(["storage", "arms", "results", "CPU seconds"], opened)
    return f"{markdown(header, rates)}\n\nOpening a study:\n\n{opening}"


TABLES: dict[str, Callable[[Report], str]] = {
    "readme": _readme,
    "samples": _samples("samples"),
    "held_out": _summary("held_out"),
    "fresh": _summary("fresh"),
    "errors": _summary("errors"),
    "practice": _practice,
    "paper": _paper,
    "fixed_runs": _fixed,
    "delta": _delta,
    "growth": _growth,
    "workers": _workers,
    "calibrated": _calibrated,
    "budget": _budget,
    "storage": _storage,
}
"""What writes the table of a part of the report."""
