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
    pairs = [_beside(report, name)[:2] for name in README_FAMILIES]
    shares = [100.0 * ours["pulls"] / spade["mean_pulls"] for spade, ours in pairs]
    return (
        f"{table}\n\nOn these families `calibrated` takes {min(shares):.0f} to {max(shares):.0f} %"
        " of SPADE's samples."
    )


def _beside(report: Report, name: str) -> list[dict[str, Any]]:
    """Return what SPADE, `calibrated` and equal sampling took on a family."""
    spade, *others = (
        next(row for row in report[part] if row["family"] == name)
        for part in ("samples", "calibrated_beside", "equal")
    )
    return [spade["algorithms"]["SPADE"], *others]


def _readme_row(report: Report, name: str) -> list[str]:
    fixed = _fixed_of(report, name)
    spade, ours, equal = _beside(report, name)
    return [
        name,
        f"{_mean(spade)}, {_wrong(spade)} wrong",
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
        [
            row["setting"],
            *(_millions(row["algorithms"][name]) for name in names),
            _mean(row["algorithms"]["SPADE"]),
        ]
        for row in report["paper"]
    ]
    return markdown(["setting", *names, "SPADE"], body)


def _mean(measured: dict[str, Any]) -> str:
    return f"{measured['mean_pulls']:,.0f} ± {measured['half_width_95']:,.0f}"


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
        _mean(spade),
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


def _errors(report: Report) -> str:
    """Return how often SPADE errs in many runs of all families, at each delta."""
    rows, parts = report["errors"], []
    for delta in dict.fromkeys(row["delta"] for row in rows):
        own = [row for row in rows if row["delta"] == delta]
        wrong, runs = (sum(row[key] for row in own) for key in ("wrong", "runs"))
        parts.append(f"{wrong:,} of {runs:,} answers were wrong at delta = {delta:g}")
    beyond = [r["family"] for r in rows if r["wrong"] > most_errors(r["runs"], r["delta"])]
    kept = (
        f"MORE THAN ALLOWED ON {'; '.join(beyond)}" if beyond else "no family has more than allowed"
    )
    families = len({row["family"] for row in rows})
    return f"{families} families: {' and '.join(parts)}; {kept} (exact binomial bound)."


def _fdr(report: Report) -> str:
    """Return how many samples the weaker guarantee saves."""
    rows = report["fdr"]
    ratios = [sum(row["fdr"]) / sum(row["fwer"]) for row in rows]
    pairs = [pair for row in rows for pair in zip(row["fdr"], row["fwer"], strict=True)]
    more = sum(fdr > fwer for fdr, fwer in pairs)
    return (
        f"On {len(rows)} families of the benchmark, {len(rows[0]['fdr'])} instances each, it takes"
        f" {min(ratios):.2f} to {max(ratios):.2f} times the samples of the default on average;"
        f" {more} of the {len(pairs)} searches took more than with the default."
    )


def _bounds(report: Report) -> str:
    """Return the theorems' bounds beside SPADE's pulls, on families of 0/1 rewards."""
    header = ["family", "arms", "pulls", "bound", "bound / pulls", "ADE's bound", "RR's bound"]
    bounds = {row["family"]: row for row in report["bounds"]}
    body = []
    for row in report.get("samples", []):
        if row["family"] not in bounds or "Beta" in row["family"]:
            continue
        pulls, bound = row["algorithms"]["SPADE"]["mean_pulls"], bounds[row["family"]]
        ratio = f"{bound['SPADE'] / pulls:,.0f}"
        cells = [f"{pulls:,.0f}", *(_rounded(bound[name]) for name in ("SPADE", "ADE", "RR"))]
        body.append([row["family"], f"{row['n']:,}", *cells[:2], ratio, *cells[2:]])
    return markdown(header, body)


def _rounded(number: float) -> str:
    """Return two digits, in millions or more."""
    for unit, name in ((1e12, "trillion"), (1e9, "billion")):
        if number >= 0.995 * unit:
            return f"{float(f'{number / unit:.2g}'):,g} {name}"
    return f"{float(f'{number / 1e6:.2g}'):,g} million"


def _close(report: Report) -> str:
    """Return how close SPADE comes to the limit, with few arms and as delta falls."""
    least = min(row["delta"] for row in report["delta"])
    ratios = {
        "at delta = 0.1": {
            row["family"]: row["spade_over_limit"] for row in report["samples"] if row["n"] <= SMALL
        },
        f"at delta = {least:g} (at most 50 arms)": {
            row["family"]: row["over_log_n_over_delta"]
            for row in report["delta"]
            if row["delta"] == least
        },
    }
    body = []
    for name, found in ratios.items():
        beta = [ratio for family, ratio in found.items() if "Beta" in family]
        others = [ratio for family, ratio in found.items() if "Beta" not in family]
        body.append([name, *(f"{min(part):.1f} to {max(part):.1f}" for part in (others, beta))])
    return markdown(["SPADE / limit", "0/1 rewards", "quiet rewards (Beta)"], body)


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
    header = ["arms", "pulls", "pulls / arm", "peak memory, MB", "right"]
    body = [
        [
            f"{row['arms']:,}",
            f"{row['pulls']:,}",
            f"{row['pulls'] / row['arms']:.1f}",
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


def _opening(report: Report) -> str:
    """Return what it costs to open a study."""
    rows = [
        [row["storage"], f"{row['arms']:,}", f"{row['results']:,}", f"{row['seconds']:.2f}"]
        for row in report["opening"]
    ]
    return markdown(["storage", "arms", "results", "CPU seconds"], rows)


TABLES: dict[str, Callable[[Report], str]] = {
    "readme": _readme,
    "samples": _samples("samples"),
    "held_out": _summary("held_out"),
    "fresh": _summary("fresh"),
    "errors": _errors,
    "fdr": _fdr,
    "bounds": _bounds,
    "close": _close,
    "practice": _practice,
    "paper": _paper,
    "fixed_runs": _fixed,
    "delta": _delta,
    "growth": _growth,
    "workers": _workers,
    "calibrated": _calibrated,
    "budget": _budget,
    "opening": _opening,
}
"""What writes the table of a part of the report."""


def table(name: str, report: Report) -> str:
    """Return the table of a part, or a recorded one: of a measurement that is not repeated here."""
    if name in TABLES:
        return TABLES[name](report)
    recorded = report["recorded"][name]
    return f"{markdown(recorded['columns'], recorded['rows'])}\n\n{recorded['source']}"
