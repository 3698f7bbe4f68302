"""``python -m benchmarks.page FOLDER``: the tables of the documentation, from benchmark.json.

A page says where a table goes: between ``<!-- benchmark.json: NAME -->`` and ``<!-- end -->``. All
else in it is written by hand. Tables on pages are short; the JSON has everything.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks._budget import BudgetRow, budget_means_table
from benchmarks._delta import DeltaRow, by_family
from benchmarks._speed import GrowthRow
from benchmarks._tables import geometric_mean, growth_table, markdown, verdict
from benchmarks._workers import Busy, workers_table

PAGES = ("../README.md", "explanation/benchmark.md")
"""Pages with tables, from the folder of benchmark.json."""
README_FAMILIES = (
    "19+1 planted, k=2",
    "48+2 planted, k=3",
    "190+10 planted, k=2",
    "97+3 low rate, k=2",
)
README_DELTA = 0.1
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
    """Return SPADE, calibrated and fixed numbers of runs on a few families with outliers."""
    header = ["family", "SPADE", "`calibrated`", "30 each", "100 each"]
    return markdown(header, [_readme_row(report, name) for name in README_FAMILIES])


def _readme_row(report: Report, name: str) -> list[str]:
    (row,) = (one for one in report["samples"] if one["family"] == name)
    spade, fixed = row["algorithms"]["SPADE"], _fixed_of(report, name)
    (ours,) = (
        one
        for one in report["calibrated"]
        if one["family"] == name and one["delta"] == README_DELTA
    )
    mean, half = spade["mean_pulls"], spade["half_width_95"]
    return [
        name,
        f"{mean:,.0f} ± {half:,.0f}, {_share(spade['wrong'], spade['runs'])} wrong",
        f"{ours['pulls']:,.0f}, {_share(ours['wrong'], ours['runs'])}",
        *(
            f"{fixed[runs]['pulls']:,}, {_share(fixed[runs]['wrong'], fixed[runs]['runs'])}"
            for runs in ("30", "100")
        ),
    ]


def _samples(part: str) -> Callable[[Report], str]:
    """Return what writes a comparison of algorithms and the sentences that sum it up."""

    def text(report: Report) -> str:
        header = ["family", "SPADE", "wrong", "ADE", "RR", "limit", "SPADE / limit"]
        table = markdown(header, [_samples_row(row) for row in report[part]])
        return "\n".join([table, "", *verdict(report[part])])

    return text


def _samples_row(row: dict[str, Any]) -> list[str]:
    spade = row["algorithms"]["SPADE"]
    return [
        row["family"],
        f"{spade['mean_pulls']:,.0f} ± {spade['half_width_95']:,.0f}",
        f"{spade['wrong']} of {spade['runs']}",
        *(_others(row["algorithms"][name]) for name in ("ADE", "RR")),
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
    header = ["family", "n", "10 each", "30 each", "100 each", "SPADE's pulls, shared equally"]
    rows = []
    for name in dict.fromkeys(row["family"] for row in report["fixed_runs"]):
        fixed = _fixed_of(report, name)
        wrong = [f"{fixed[runs]['wrong']}" for runs in ("10", "30", "100")]
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


def _against(report: Report) -> str:
    ratios: Iterable[float] = [row["new_over_old"] for row in report["against"]]
    mean = geometric_mean(ratios)
    return (
        f"On {len(report['against'])} families it takes {mean:.3f} times the pulls in the geometric"
        f" mean, {min(ratios):.2f} to {max(ratios):.2f} times in single ones."
    )


TABLES: dict[str, Callable[[Report], str]] = {
    "readme": _readme,
    "samples": _samples("samples"),
    "held_out": _summary("held_out"),
    "fresh": _summary("fresh"),
    "errors": _summary("errors"),
    "against": _against,
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
