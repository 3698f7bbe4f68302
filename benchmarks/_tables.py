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
    table = markdown(header, [_readme_row(report, name) for name in README_FAMILIES])
    shares = [100.0 * _share_of_spade(report, name) for name in README_FAMILIES]
    return (
        f"{table}\n\nOn these families `calibrated` takes {min(shares):.0f} to {max(shares):.0f} %"
        " of SPADE's samples."
    )


def _share_of_spade(report: Report, name: str) -> float:
    """Return the samples of `calibrated` over those of SPADE."""
    (row,) = (one for one in report["samples"] if one["family"] == name)
    (ours,) = (one for one in report["calibrated_beside"] if one["family"] == name)
    return float(ours["pulls"] / row["algorithms"]["SPADE"]["mean_pulls"])


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


def _paper_claims(report: Report) -> str:
    """Return the paper's claims beside what was measured."""
    pulls = {
        row["setting"]: {name: one["mean_pulls"] for name, one in row["algorithms"].items()}
        for row in report["paper"]
    }
    few = pulls["figure 2a, n = 100"]
    second = {name.split()[-1]: row for name, row in pulls.items() if "2a" in name}
    best = next(n for n, row in second.items() if row["ADE"] < min(row["RR"], row["WRR"]))
    worst = next(n for n, row in second.items() if row["WRR"] > max(row["RR"], row["ADE"]))
    gaps = [row for setting, row in pulls.items() if setting.startswith("figure 2b")]
    third = [row["ADE"] / row["RR"] for name, row in pulls.items() if name.startswith("figure 3")]

    def least_to_most(above: str, below: str) -> str:
        ratios = [row[above] / row[below] for row in gaps]
        return f"{min(ratios):.2f} to {max(ratios):.2f} times {below}'s"

    body = [
        ["1", "each algorithm ends when no arm's interval overlaps the threshold's", "holds"],
        ["2a", "samples grow with n", f"in part: {_power(pulls, 'figure 2a, n = ', 'n')}"],
        [
            "2a",
            "at n = 100, RR and WRR need fewer samples than ADE",
            f"holds: {few['RR'] / few['ADE']:.2f} and {few['WRR'] / few['ADE']:.2f} times as many",
        ],
        [
            "2a",
            "for all larger n, ADE is best and WRR worst",
            f"in part: ADE is best from n = {best} on, WRR worst from {worst} on",
        ],
        [
            "2b",
            "samples fall as the smallest gap grows",
            f"holds: {_power(pulls, 'figure 2b, gap ', 'the gap')}",
        ],
        [
            "2b",
            "ADE needs fewer samples than RR and WRR",
            f"holds: {least_to_most('ADE', 'RR')}, {least_to_most('ADE', 'WRR')}",
        ],
        [
            "3",
            "ADE achieves considerable improvement",
            f"in part: {third[0]:.2f} times RR's at k = 2, {third[1]:.2f} times at k = 3",
        ],
        ["3", "samples fall when k goes from 2 to 3", "holds"],
    ]
    return markdown(["figure", "the paper says", "measured"], body)


def _power(pulls: dict[str, dict[str, float]], figure: str, symbol: str) -> str:
    """Return with which power of a parameter the samples grow, by least squares of logarithms."""
    xs = [math.log(float(name[len(figure) :])) for name in pulls if name.startswith(figure)]
    rows = [row for name, row in pulls.items() if name.startswith(figure)]
    powers = [
        f"{statistics.linear_regression(xs, [math.log(row[name]) for row in rows]).slope:.1f}"
        for name in ("ADE", "RR", "WRR")
    ]
    return f"like {symbol} to the power {powers[0]} (ADE), {powers[1]} (RR), {powers[2]} (WRR)"


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
    """Return the sentences that sum the comparison up, from the entries of a part."""
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
    """Return how many lists are wrong; families without any share a sentence."""
    header = ["family", "n", *(f"{runs} each" for runs in RUNS_EACH)]
    header += ["SPADE's pulls, shared equally"]
    rows, right = [], []
    for name in dict.fromkeys(row["family"] for row in report["fixed_runs"]):
        fixed = _fixed_of(report, name)
        wrong = [f"{fixed[runs]['wrong']}" for runs in map(str, RUNS_EACH)]
        like = fixed["spade"]
        if any(row["wrong"] for row in fixed.values()):
            equally = f"{like['wrong']} ({like['runs_each']:,} each)"
            rows.append([name, f"{like['n']:,}", *wrong, equally])
        else:
            right.append(name)
    return f"{markdown(header, rows)}\n\nNo list was wrong on {'; '.join(right)}."


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
    """Return how busy workers were, without and with samples taken ahead, and what that costs."""
    body = []
    for jobs, ahead in dict.fromkeys((row["jobs"], row["ahead"]) for row in report["workers"]):
        own = [row for row in report["workers"] if (row["jobs"], row["ahead"]) == (jobs, ahead)]
        busy = statistics.fmean(row["busy"] for row in own)
        cost = statistics.fmean(row["pulls"] / row["pulls_of_one"] for row in own)
        body.append([f"{jobs}", f"{ahead:g}", f"{100.0 * busy:.0f} %", f"{cost:.2f}"])
    return markdown(["workers", "`prefetch`", "busy", "pulls, times those of one worker"], body)


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
    "paper_claims": _paper_claims,
    "fixed_runs": _fixed,
    "delta": _delta,
    "growth": _growth,
    "workers": _workers,
    "calibrated": _calibrated,
    "budget": _budget,
    "storage": _storage,
}
"""What writes the table of a part of the report."""
