"""``python -m benchmarks.page FOLDER``: the tables of the documentation, from benchmark.json.

A page says where a table goes: between ``<!-- benchmark.json: NAME -->`` and ``<!-- end -->``. All
else in it is written by hand.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks._budget import BudgetRow, budget_means_table
from benchmarks._calibrated import CalibratedRow, calibrated_table
from benchmarks._delta import DeltaRow, delta_note, delta_table
from benchmarks._fixed import FixedRow, fixed_table
from benchmarks._paired import Pair, paired_change, paired_table
from benchmarks._speed import GrowthRow, RunsRow, SpeedRow
from benchmarks._tables import growth_table, runs_table, samples_table, speed_table, verdict
from benchmarks._workers import Busy, workers_table

PAGES = ("benchmark.md", "questions.md")
_PLACE = re.compile(r"(<!-- benchmark\.json: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

Report = dict[str, Any]


def _compared(part: str) -> Callable[[Report], str]:
    """Return what writes a comparison and the sentences that sum it up."""

    def text(report: Report) -> str:
        sentences = "\n".join(verdict(report[part]))
        return f"{samples_table(report[part])}\n\n{sentences}"

    return text


def _rows(
    part: str, row: Callable[..., Any], table: Callable[[Any], str]
) -> Callable[[Report], str]:
    """Return what writes the table of a part whose entries are those of a class."""
    return lambda report: table([row(**entry) for entry in report[part]])


def _delta(report: Report) -> str:
    rows = [DeltaRow(**entry) for entry in report["delta"]]
    return f"{delta_table(rows)}\n\n{delta_note(rows)}"


def _against(report: Report) -> str:
    pairs = [Pair(**entry) for entry in report["against"]]
    return f"{paired_table(pairs)}\n\n{paired_change(pairs)}"


TABLES: dict[str, Callable[[Report], str]] = {
    "samples": _compared("samples"),
    "held_out": _compared("held_out"),
    "fresh": _compared("fresh"),
    "errors": _compared("errors"),
    "against": _against,
    "fixed_runs": _rows("fixed_runs", FixedRow, fixed_table),
    "delta": _delta,
    "speed": _rows("speed", SpeedRow, speed_table),
    "runs": _rows("runs", RunsRow, runs_table),
    "growth": _rows("growth", GrowthRow, growth_table),
    "workers": _rows("workers", Busy, workers_table),
    "calibrated": _rows("calibrated", CalibratedRow, calibrated_table),
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
