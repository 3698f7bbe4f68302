"""Figure 1(b) of "Robust Outlier Arm Identification" (ICML 2020), with our LUCB beside it.

The paper compares ROAI-LUCB and ROAI-Elim at several distances D between the nearest outlier and
the threshold. The authors' code is ``termination_count.py`` in yinglunz/ROAI_ICML2020.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oddarms.arms import Gaussian
from oddarms.documents import Block, Heading, Paragraph, Picture, Table, to_html, to_markdown
from oddarms.experiments._figures import print_style, save_figure
from oddarms.experiments._grid import Contender, Grid, Setting
from oddarms.experiments._outcomes import Outcomes, Summary, short_number, text_table
from oddarms.experiments._run import GridProgress, run
from oddarms.files import writable_folder, write_whole
from oddarms.plotting import new_figure
from oddarms.problem import check_whole
from oddarms.randomness import Rng, seed_of
from oddarms.rules import Mad

DELTA = 0.05
K = 2.0 * 1.4826
SD = 0.5
BOUNDS = (-8.0, 12.0)
"""A search needs bounds; a normal reward is beyond these with a probability below 1e-50."""
DISTANCES = (0.6, 0.4, 0.2)
QUICK_DISTANCES = (0.6, 0.4)
RUNS, QUICK_RUNS = 10, 3
BUDGET = 10_000_000
OURS = "LUCB"
PUBLISHED = {
    "ROAI-LUCB": {0.6: 13_422.0, 0.4: 31_115.0, 0.2: 137_943.0},
    "ROAI-Elim": {0.6: 32_120.0, 0.4: 58_830.0, 0.2: 153_105.0},
}
"""Average pulls in the paper."""
CONTENDERS = (
    Contender(OURS, "lucb", {"sd": SD}),
    Contender("ROAI-LUCB", "roai-lucb", {"sd": SD}),
    Contender("ROAI-Elim", "roai-elim", {"sd": SD}),
)
MARKS = {OURS: ("#d55e00", "D"), "ROAI-LUCB": ("#0072b2", "o"), "ROAI-Elim": ("#009e73", "s")}
COLUMNS = ("D", "algorithm", "published", "pulls", "95 %", "share", "wrong")
TITLE = "Robust Outlier Arm Identification: Figure 1(b) again"
SOURCE = (
    "The instance is that of the authors' code: 15 arms evenly on [0, 2] and two outliers at"
    " theta + D and theta + D + 0.2, with theta = median + 2 * 1.4826 MAD; normal rewards with"
    f" standard deviation 1/2, delta = {DELTA:g}."
)
DIFFERENCES = (
    "Their averages are over 500 runs of code that pulls one arm at a time, drawn from the set"
    " whose arms the paper's algorithms, and ours of the same name, pull once each; arms that are"
    " in that set for several reasons are drawn more often, so that their ROAI-LUCB differs. Their"
    " radius has log(pi² n s²/(3 delta)) where the paper has log(4 n s²/delta)."
)


@dataclass(frozen=True)
class RoaiRow:
    """An algorithm at a distance: pulls in the paper (None for ours) and as measured."""

    distance: float
    algorithm: str
    published: float | None
    summary: Summary

    @property
    def share(self) -> float | None:
        """Measured over published pulls; for ours, over those of the paper's better one."""
        best = min(published[self.distance] for published in PUBLISHED.values())
        return self.summary.mean / (self.published or best)


@dataclass(frozen=True, eq=False)
class RoaiReproduction:
    """All runs, the comparison with the published pulls, the files written (the report first)."""

    outcomes: Outcomes
    rows: list[RoaiRow]
    files: list[Path]

    def __str__(self) -> str:
        """Return the comparison as a table for people, between where it is from and its limits."""
        table = text_table([COLUMNS, *_cells(self.rows)])
        return f"{SOURCE}\n\n{table}\n\n{DIFFERENCES}"


def instance(distance: float) -> Gaussian:
    """Return the arms of the figure at a distance."""
    normal = np.linspace(0.0, 2.0, 15)
    theta = Mad(k=K).threshold(np.append(normal, [4.0, 4.2]))  # outliers do not move it
    return Gaussian(np.append(normal, [theta + distance, theta + distance + 0.2]), sd=SD)


def settings(distances: Sequence[float], runs: int, budget: int | None) -> list[Setting]:
    """Return the settings of the figure."""
    return [
        Setting(
            f"D = {distance:g}",
            instance(distance),
            k=K,
            delta=DELTA,
            bounds=BOUNDS,
            budget=budget,
            runs=runs,
            figure="roai",
            data="15 arms on [0, 2], two outliers",
            words={"rule": "mad"},
        )
        for distance in distances
    ]


def reproduce_roai(
    *,
    folder: str | Path,
    runs: int | None = None,
    rng: Rng = 0,
    budget: int | None = BUDGET,
    quick: bool = False,
    jobs: int | None = None,
    executor: Executor | None = None,
    progress: Callable[[GridProgress], None] | None = None,
    command: str = "oddarms.experiments.reproduce_roai",
) -> RoaiReproduction:
    """Run the comparison and write ``results.csv``, a picture and a report.

    Parameters
    ----------
    folder
        Where everything goes; an interrupted comparison resumes from ``cells.jsonl`` there.
    runs
        Of each algorithm at each distance; ten by default, three if quick.
    rng
        Decides everything.
    budget
        Most pulls of a run.
    quick
        Only the two larger distances.
    jobs, executor, progress
        As for `oddarms.experiments.run`.
    command
        How it was called, for the report.
    """
    seed = seed_of(rng)
    runs = check_whole("runs", (QUICK_RUNS if quick else RUNS) if runs is None else runs, least=1)
    distances = QUICK_DISTANCES if quick else DISTANCES
    with print_style():  # says so now, rather than after the runs, if matplotlib is missing
        target = writable_folder("out", folder)
    outcomes = run(
        Grid(settings(distances, runs, budget), CONTENDERS),
        rng=seed,
        folder=target,
        jobs=jobs,
        executor=executor,
        progress=progress,
    )
    rows = compared(outcomes)
    return RoaiReproduction(outcomes, rows, _write(target, outcomes, rows, seed, command))


def compared(outcomes: Outcomes) -> list[RoaiRow]:
    """Return the runs beside the paper's averages."""
    rows = []
    for summary in outcomes.summaries():
        distance = float(summary.setting.removeprefix("D = "))
        published = PUBLISHED.get(summary.algorithm, {}).get(distance)
        rows.append(RoaiRow(distance, summary.algorithm, published, summary))
    return rows


def _cells(rows: Sequence[RoaiRow]) -> list[tuple[str, ...]]:
    return [
        (
            f"{row.distance:g}",
            row.algorithm,
            "" if row.published is None else f"{row.published:,.0f}",
            f"{'> ' if row.summary.unfinished else ''}{row.summary.mean:,.0f}",
            "" if np.isnan(row.summary.half_width) else f"± {row.summary.half_width:,.0f}",
            f"{row.share:.2f}",
            f"{row.summary.wrong} of {row.summary.runs}",
        )
        for row in rows
    ]


def _write(
    folder: Path, outcomes: Outcomes, rows: Sequence[RoaiRow], seed: int, command: str
) -> list[Path]:
    table = folder / "results.csv"
    outcomes.to_csv(table)
    with print_style():
        pictures = save_figure(_figure(rows), folder, "roai")
    blocks = _blocks(rows, seed, command)
    reports = [
        write_whole(folder / "report.html", to_html(TITLE, blocks, folder)),
        write_whole(folder / "report.md", to_markdown(blocks)),
    ]
    return [*reports, *pictures, table]


def _blocks(rows: Sequence[RoaiRow], seed: int, command: str) -> list[Block]:
    ours = "; ".join(
        f"D = {row.distance:g}: {short_number(row.summary.mean)} pulls, {row.share:.2f} of them"
        for row in rows
        if row.algorithm == OURS
    )
    return [
        Heading(TITLE, 1),
        Paragraph(f"{SOURCE} {DIFFERENCES}"),
        Paragraph(
            "`share` is measured over published pulls; for our LUCB, which is told the standard"
            f" deviation as theirs are, over the fewest of the paper. {ours}."
        ),
        Table(COLUMNS, _cells(rows), numbers=(2, 3, 4, 5)),
        Picture(
            "roai.svg", f"Mean pulls against D. {ours}", "Lines: measured; crosses: the paper."
        ),
        Paragraph(f"Made by `{command}`, seed {seed}."),
    ]


def _figure(rows: Sequence[RoaiRow]) -> Any:
    figure, axis = new_figure(figsize=(4.6, 3.6))
    for name, (colour, marker) in MARKS.items():
        mine = [row for row in rows if row.algorithm == name]
        x = [row.distance for row in mine]
        widths = np.nan_to_num([row.summary.half_width for row in mine])
        means = [row.summary.mean for row in mine]
        axis.errorbar(x, means, yerr=widths, color=colour, marker=marker, label=name)
        known = [row for row in mine if row.published is not None]
        axis.plot(
            [row.distance for row in known], [row.published for row in known], "x", color=colour
        )
    axis.plot([], [], "x", color="#444444", label="the paper")
    axis.set_yscale("log")
    axis.set_xticks(sorted({row.distance for row in rows}))
    axis.set_xlabel("distance D of the nearest outlier from the threshold")
    axis.set_ylabel("pulls (mean and 95 % interval)")
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    return figure
