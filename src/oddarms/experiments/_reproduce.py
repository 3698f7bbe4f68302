"""`reproduce`: every figure of the ADE paper into a folder, with a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from oddarms.documents import Block, Heading, Paragraph, Picture, Table, to_html, to_markdown
from oddarms.errors import InvalidParameter
from oddarms.experiments._crowd import Crowd
from oddarms.experiments._figures import draw_figures
from oddarms.experiments._grid import Contender, Grid
from oddarms.experiments._outcomes import Outcomes, Summary, short_number
from oddarms.experiments._paper import CONTENDERS, CROWD_KS, DELTA, FIGURES, figure_settings
from oddarms.experiments._run import GridProgress, run
from oddarms.files import writable_folder, write_whole
from oddarms.plotting import drawing
from oddarms.problem import check_whole
from oddarms.randomness import Rng, seed_of
from oddarms.search import Result
from oddarms.simulation import run_search
from oddarms.tables import csv_text
from oddarms.text import counted
from oddarms.theory import gaps

RUNS, QUICK_RUNS = 10, 3
BUDGET = 1_000_000_000
"""The most pulls of a run; no setting of the paper comes near it."""
TITLE = "Adaptive Double-Exploration Tradeoff for Outlier Detection: the experiments again"
FIGURE_1 = "fig1"
HEADINGS = {
    FIGURE_1: "Figure 1: intervals at the first and the last round",
    "fig2a": "Figure 2a: samples and the number of arms",
    "fig2b": "Figure 2b: samples and the smallest gap",
    "fig3": "Figure 3: a crowd of workers",
}
SHOWN = {
    FIGURE_1: "One run of each algorithm. The paper does not give its instance; this one has 34"
    " arms uniform on [0, 0.3] and 6 uniform on [0.9, 1], k = 1. RR and WRR pull once a turn here.",
    "fig2a": "{instances} a setting: means uniform on [0, 1] given that the smallest gap lies in"
    " [0.1, 0.2], k = 2.5. RR and WRR pull 1,000 times a turn, as in the paper.",
    "fig2b": "{instances} a setting: n = 900 means uniform on [0, 1] given the window of the"
    " smallest gap, k = 2. RR and WRR pull 1,000 times a turn.",
    "fig3": "{runs} a setting; (c) has the distribution of the gaps. RR and WRR pull 1,000 times a"
    " turn.",
}


@dataclass(frozen=True, eq=False)
class Reproduction:
    """The runs, and the files written.

    Attributes
    ----------
    outcomes
        All runs.
    files
        The files written, the report first.
    """

    outcomes: Outcomes
    files: list[Path]


def reproduce(
    figures: Sequence[str] = FIGURES,
    *,
    folder: str | Path,
    runs: int | None = None,
    rng: Rng = 0,
    algorithms: Sequence[str] = tuple(CONTENDERS),
    data: Crowd | None = None,
    budget: int | None = BUDGET,
    quick: bool = False,
    jobs: int | None = None,
    executor: Executor | None = None,
    progress: Callable[[GridProgress], None] | None = None,
    command: str = "oddarms.experiments.reproduce",
) -> Reproduction:
    """Run the experiments of the ADE paper and write tables, pictures and a report.

    Parameters
    ----------
    figures
        Some of "fig1", "fig2a", "fig2b", "fig3".
    folder
        The folder for ``results.csv`` (a row per run), ``fig3c_gaps.csv``, a PNG and an SVG per
        picture, ``report.md``, ``report.html``, and ``cells.db``, from which the same call
        resumes.
    runs
        Instances per setting (Figure 2) or runs (Figure 3); by default ten, as in the paper.
    rng
        The seed of instances and rewards.
    algorithms
        Names of algorithms; those of the paper get its options.
    data
        The workers of Figure 3, from `read_crowd`; a synthetic stand-in by default.
    budget
        The most pulls of a run.
    quick
        Three instances per setting, and fewer sizes.
    jobs, executor, progress
        As for `oddarms.experiments.run`.
    command
        The command to name in the report.
    """
    from oddarms import __version__

    chosen, seed = _check_figures(figures), seed_of(rng)
    runs = check_whole("runs", (QUICK_RUNS if quick else RUNS) if runs is None else runs, least=1)
    with drawing():  # raises before the runs if matplotlib is missing
        target = writable_folder("out", folder)
    crowd = data or Crowd.stand_in()
    settings = [
        setting
        for figure in chosen
        for setting in figure_settings(figure, runs=runs, quick=quick, crowd=crowd, budget=budget)
    ]
    grid = Grid(settings, [CONTENDERS.get(name) or Contender.of(name) for name in algorithms])
    outcomes = run(grid, rng=seed, folder=target, jobs=jobs, executor=executor, progress=progress)
    pictures = draw_figures(outcomes, crowd, _runs_of_figure_1(grid, seed), target)
    quick_look = " A quick look, with fewer sizes and runs than the paper." if quick else ""
    made = f"Made by `{command}` of oddarms {__version__} with seed {seed}.{quick_look}"
    blocks = report_blocks(outcomes, list(pictures), crowd, runs, made)
    files = [
        write_whole(target / "report.html", to_html(TITLE, blocks, target)),
        write_whole(target / "report.md", to_markdown(blocks)),
        *(path for paths in pictures.values() for path in paths),
        *_write_tables(target, outcomes, crowd),
    ]
    return Reproduction(outcomes, files)


def _runs_of_figure_1(grid: Grid, seed: int) -> dict[str, Result]:
    """Make the runs of Figure 1 again, uncompiled, as their pictures need the intervals."""
    settings = [setting for setting in grid.settings if setting.figure == FIGURE_1]
    if not settings:
        return {}
    found = {}
    for cell in Grid(settings, grid.contenders).cells(seed):
        (rng,) = np.random.default_rng(cell.seed).spawn(1)  # as `simulate` does for its first run
        found[cell.contender.algorithm] = run_search(cell.task.question, cell.arms, rng)
    return found


def _check_figures(figures: Sequence[str]) -> list[str]:
    for figure in figures:
        if figure not in FIGURES:
            raise InvalidParameter(
                f"figures must be some of {', '.join(FIGURES)} but got {figure!r}."
            )
    return [figure for figure in FIGURES if figure in figures]


def _write_tables(folder: Path, outcomes: Outcomes, crowd: Crowd) -> list[Path]:
    paths = [write_whole(folder / "results.csv", outcomes.to_csv())]
    if any(row.figure == "fig3" for row in outcomes):
        found = {k: gaps(crowd.arms.means, k).tolist() for k in CROWD_KS}
        rows = [(crowd.description, k, arm, gap) for k in found for arm, gap in enumerate(found[k])]
        text = csv_text(("data", "k", "arm", "gap"), rows, for_spreadsheets=True)
        paths.append(write_whole(folder / "fig3c_gaps.csv", text))
    return paths


def report_blocks(
    outcomes: Outcomes, pictures: Sequence[str], crowd: Crowd, runs: int, made: str
) -> list[Block]:
    """Return the blocks of the report; `pictures` are names of files without ending."""
    introduction = (
        "Zhang, Zhuang, Zhang and Zhou (AAAI 2020) compare ADE with RR and WRR (NIPS 2017). Here"
        " are experiments of theirs, run again by oddarms, with SPADE beside them. All algorithms"
        f" meet the same instances; delta = {DELTA:g}, no margin, Bernoulli rewards. Intervals are"
        " Student's, at 95 %."
    )
    blocks: list[Block] = [Heading(TITLE, 1), Paragraph(introduction), Paragraph(made)]
    summaries = outcomes.summaries()
    for figure, heading in HEADINGS.items():
        mine = [summary for summary in summaries if summary.figure == figure]
        if mine:
            words = {"runs": counted(runs, "run"), "instances": counted(runs, "instance")}
            blocks += [Heading(heading), Paragraph(SHOWN[figure].format(**words))]
            blocks += [Paragraph(_source(crowd))] if figure == "fig3" else []
            blocks += [_picture(name, heading) for name in pictures if name.startswith(figure)]
            blocks.append(_samples_table(mine))
    return [*blocks, Heading("Worth knowing"), *map(Paragraph, _notes(outcomes))]


def _picture(name: str, heading: str) -> Picture:
    """Return a picture; those of Figure 1 have the algorithm in their name."""
    algorithm = name.partition("_")[2].upper()
    return Picture(f"{name}.svg", f"{heading}, {algorithm or name}", algorithm)


def _source(crowd: Crowd) -> str:
    if crowd.real:
        return f"The error rates are those of `{crowd.description}`."
    return (
        f"**These are not the paper's data** but a {crowd.description}: 722 simulated workers with"
        " about the same mean and spread of error rates (`--data FILE` reads the real ones)."
    )


def _samples_table(summaries: Sequence[Summary]) -> Table:
    algorithms = list(dict.fromkeys(summary.algorithm for summary in summaries))
    settings = list(dict.fromkeys(summary.setting for summary in summaries))
    found = {(summary.setting, summary.algorithm): summary for summary in summaries}
    rows = [
        [setting, *(_samples(found[setting, algorithm]) for algorithm in algorithms)]
        for setting in settings
    ]
    return Table(["mean samples", *algorithms], rows)


def _samples(summary: Summary) -> str:
    width = "" if math.isnan(summary.half_width) else f" ± {short_number(summary.half_width)}"
    wrong = f", {summary.wrong} of {summary.runs} wrong" if summary.wrong else ""
    stopped = f", {summary.unfinished} stopped by the budget" if summary.unfinished else ""
    more = "> " if summary.unfinished else ""
    return f"{more}{short_number(summary.mean)}{width}{wrong}{stopped}"


def _notes(outcomes: Outcomes) -> list[str]:
    notes = []
    stopped = sum(not row.complete for row in outcomes)
    if stopped:
        notes.append(
            f"The budget ended {counted(stopped, 'run')}, so means with a > are lower bounds."
        )
    notes.append(
        "docs/explanation/paper.md of the source has our reading of what the papers leave open, and"
        " what we measured."
    )
    return notes
