"""``python -m benchmarks.page FOLDER``: the tables of the documentation, from benchmark.json.

A page says where a table goes: between ``<!-- benchmark.json: NAME -->`` and ``<!-- end -->``. All
else in it is written by hand. Tables on pages are short; the JSON has everything.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks._budget import BudgetRow, budget_means_table
from benchmarks._delta import DeltaRow, by_family
from benchmarks._fixed import RUNS_EACH
from benchmarks._speed import GrowthRow
from benchmarks._tables import geometric_mean, growth_table, markdown, verdict
from benchmarks._workers import Busy, workers_table

PAGES = (
    "../README.md",
    "explanation/benchmark.md",
    "explanation/compare.md",
    "explanation/paper.md",
)
"""Pages with tables, from the folder of benchmark.json."""
README_FAMILIES = (
    "19+1 planted, k=2",
    "48+2 planted, k=3",
    "190+10 planted, k=2",
    "97+3 low rate, k=2",
)
README_RUNS = ("30", "50", "100")
_PLACE = re.compile(r"(<!-- benchmark\.json: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

Report = dict[str, Any]


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
    families = by_family([DeltaRow(**entry) for entry in report["delta"]]).values()
    columns = list(zip(*families, strict=True))
    means = [geometric_mean(row.over_log_n_over_delta for row in at) for at in columns]
    header = ["delta", *(f"{at[0].delta:g}" for at in columns)]
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


def _rows(
    part: str, row: Callable[..., Any], table: Callable[[Any], str]
) -> Callable[[Report], str]:
    """Return what writes the table of a part whose entries are those of a class."""
    return lambda report: table([row(**entry) for entry in report[part]])


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
    "growth": _rows("growth", GrowthRow, growth_table),
    "workers": _rows("workers", Busy, workers_table),
    "calibrated": _calibrated,
    "budget": _rows("budget", BudgetRow, budget_means_table),
}


def filled(text: str, report: Report) -> str:
    """Return a page with its tables as the report has them."""
    return _PLACE.sub(lambda place: f"{place[1]}\n{TABLES[place[2]](report)}\n\n{place[3]}", text)


def main() -> int:
    """Write the tables into the pages of the folder given."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs")
    report = json.loads((folder / "benchmark.json").read_text(encoding="utf-8"))
    for name in PAGES:
        page = folder / name
        page.write_text(filled(page.read_text(encoding="utf-8"), report), encoding="utf-8")
        print(f"written: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
