"""``python -m benchmarks.page FOLDER``: the tables of the documentation, from benchmark.json.

A page says where a table goes: between ``<!-- benchmark.json: NAME -->`` and ``<!-- end -->``. All
else in it is written by hand. Tables on pages are short; the JSON has everything. Its entry
`recorded` has tables of measurements that `python -m benchmarks` does not repeat, as they stand.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from benchmarks._tables import Report, table

PAGES = (
    "../README.md",
    "explanation/benchmark.md",
    "explanation/calibrated.md",
    "explanation/compare.md",
    "explanation/fdr.md",
    "explanation/one-look.md",
    "explanation/paper.md",
    "explanation/spade.md",
    "explanation/spade-pulls.md",
    "how-to/envoy.md",
    "how-to/pytest.md",
)
"""Pages with tables, from the folder of benchmark.json."""
_PLACE = re.compile(r"(<!-- benchmark\.json: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str, report: Report) -> str:
    """Return a page with its tables as the report has them."""
    return _PLACE.sub(lambda place: f"{place[1]}\n{table(place[2], report)}\n\n{place[3]}", text)


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
