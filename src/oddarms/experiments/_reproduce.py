"""`reproduce`: every figure of the ADE paper into a folder, with a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from oddarms.documents import Block, Heading, Paragraph, Picture, Table, to_html, to_markdown
from oddarms.errors import InvalidParameter
from oddarms.experiments._crowd import Crowd
from oddarms.experiments._figures import draw_figures
from oddarms.experiments._grid import Contender, Grid
from oddarms.experiments._outcomes import INTERVAL_COLUMNS, Outcomes, Summary, short_number
from oddarms.experiments._paper import (
    CONTENDERS,
    CROWD_KS,
    DELTA,
    FIGURES,
    Claim,
    check_claims,
    figure_settings,
)
from oddarms.experiments._run import GridProgress, run
from oddarms.files import writable_folder, write_whole
from oddarms.plotting import drawing
from oddarms.problem import check_whole
from oddarms.randomness import Rng, seed_of
from oddarms.tables import csv_text
from oddarms.text import counted
from oddarms.theory import gaps

RUNS, QUICK_RUNS = 10, 3
BUDGET = 1_000_000_000
"""The most pulls of a run; no setting of the paper comes near it."""
TITLE = "Adaptive Double-Exploration Tradeoff for Outlier Detection: the experiments again"
HEADINGS = {
    "fig1": "Figure 1: intervals at the first and the last round",
    "fig2a": "Figure 2a: samples and the number of arms",
    "fig2b": "Figure 2b: samples and the smallest gap",
    "fig3a": "Figure 3: a crowd of workers",
}
CAPTIONS = {
    "fig1": "Intervals of all arms and of the threshold. The paper does not give its instance; this"
    " one has 34 arms uniform on [0, 0.3] and 6 uniform on [0.9, 1], k = 1. RR and WRR pull once a"
    " turn here.",
    "fig2a": "Figure 2a. Means uniform on [0, 1] given that the smallest gap lies in [0.1, 0.2],"
    " k = 2.5.",
    "fig2b": "Figure 2b. n = 900 means uniform on [0, 1] given the window of the smallest gap,"
    " k = 2.",
    "fig3a": "Figure 3a. k = 2.",
    "fig3b": "Figure 3b. k = 3.",
    "fig3c": "Figure 3c. Distribution of the gaps.",
}


@dataclass(frozen=True, eq=False)
class Reproduction:
    """The runs, the verdicts on the paper's claims, and the files written.

    Attributes
    ----------
    outcomes
        All runs.
    claims
        The paper's claims beside what was measured.
    files
        The files written, the report first.
    """

    outcomes: Outcomes
    claims: list[Claim]
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
        The folder for ``results.csv`` (a row per run), ``fig1_intervals.csv``, ``fig3c_gaps.csv``,
        a PNG and an SVG per figure, ``report.md``, ``report.html``, and ``cells.jsonl``, from which
        the same call resumes.
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
    outcomes = run(
        Grid(settings, [CONTENDERS.get(name) or Contender.of(name) for name in algorithms]),
        rng=seed,
        folder=target,
        jobs=jobs,
        executor=executor,
        progress=progress,
    )
    claims = check_claims(outcomes, crowd)
    facts = ReportFacts(seed, runs, quick, __version__, command)
    return Reproduction(outcomes, claims, _write(target, outcomes, claims, crowd, facts))


def _check_figures(figures: Sequence[str]) -> list[str]:
    for figure in figures:
        if figure not in FIGURES:
            raise InvalidParameter(
                f"figures must be some of {', '.join(FIGURES)} but got {figure!r}."
            )
    return [figure for figure in FIGURES if figure in figures]


def _write(
    folder: Path, outcomes: Outcomes, claims: list[Claim], crowd: Crowd, facts: ReportFacts
) -> list[Path]:
    """Write tables, pictures and reports."""
    tables = [folder / "results.csv"]
    outcomes.to_csv(tables[0])
    figures = {row.figure for row in outcomes}
    if "fig1" in figures:
        text = csv_text(INTERVAL_COLUMNS, outcomes.intervals())
        tables.append(write_whole(folder / "fig1_intervals.csv", text))
    if "fig3" in figures:
        found = {k: gaps(crowd.arms.means, k).tolist() for k in CROWD_KS}
        rows = [(crowd.description, k, arm, gap) for k in found for arm, gap in enumerate(found[k])]
        text = csv_text(("data", "k", "arm", "gap"), rows, for_spreadsheets=True)
        tables.append(write_whole(folder / "fig3c_gaps.csv", text))
    pictures = draw_figures(outcomes, crowd, folder)
    blocks = report_blocks(outcomes, claims, list(pictures), crowd, facts)
    reports = [
        write_whole(folder / "report.html", to_html(TITLE, blocks, folder)),
        write_whole(folder / "report.md", to_markdown(blocks)),
    ]
    return [*reports, *(path for paths in pictures.values() for path in paths), *tables]


@dataclass(frozen=True)
class ReportFacts:
    """How a report was made."""

    seed: int
    runs: int
    quick: bool
    version: str
    command: str


def report_blocks(
    outcomes: Outcomes,
    claims: Sequence[Claim],
    pictures: Sequence[str],
    crowd: Crowd,
    facts: ReportFacts,
) -> list[Block]:
    """Return the blocks of the report; `pictures` are names without ending."""
    blocks: list[Block] = [Heading(TITLE, 1), *_introduction(outcomes, crowd, facts)]
    blocks += [Heading("Claim by claim"), _claims_table(claims)]
    summaries = outcomes.summaries()
    for name in pictures:
        if name in HEADINGS:
            blocks.append(Heading(HEADINGS[name]))
        workers = f" Workers: {crowd.description}." if name.startswith("fig3") else ""
        alternative = HEADINGS.get(name, CAPTIONS[name])
        blocks.append(Picture(f"{name}.svg", alternative, CAPTIONS[name] + workers))
        figure = "fig3" if name == "fig3c" else name
        mine = [summary for summary in summaries if summary.figure == figure]
        if mine and name not in ("fig3a", "fig3b"):
            blocks.append(_samples_table(mine))
    return [*blocks, Heading("Worth knowing"), *_notes(outcomes)]


def _introduction(outcomes: Outcomes, crowd: Crowd, facts: ReportFacts) -> list[Block]:
    runs = (
        f"Each setting has {counted(facts.runs, 'instance')} (Figures 2a, 2b) or"
        f" {counted(facts.runs, 'run')} (Figure 3); delta = {DELTA:g}, Bernoulli rewards; RR and"
        " WRR pull 1,000 times a turn, as in the paper."
    )
    quick = " A quick look, with fewer sizes and runs than the paper." if facts.quick else ""
    blocks: list[Block] = [
        Paragraph(
            "Zhang, Zhuang, Zhang and Zhou (AAAI 2020) compare ADE with RR and WRR (NIPS 2017)."
            " Here are its experiments, run again by oddarms, with SPADE beside them. All"
            " algorithms meet the same instances. Intervals are Student's, at 95 %."
        ),
        Paragraph(
            f"{runs}{quick} {len(outcomes)} runs in all; oddarms {facts.version}, seed"
            f" {facts.seed}."
        ),
        Paragraph(f"Made by `{facts.command}`."),
    ]
    if any(row.figure == "fig3" for row in outcomes):
        source = (
            f"Figure 3 uses the error rates read from `{crowd.description}`."
            if crowd.real
            else f"**Figure 3 does not use the paper's data** but a {crowd.description}: 722"
            " simulated workers with about the same mean and spread of error rates (`--data FILE`"
            " reads the real ones)."
        )
        blocks.append(Paragraph(source))
    return blocks


def _claims_table(claims: Sequence[Claim]) -> Table:
    return Table(
        ("figure", "the paper says", "verdict", "measured here"),
        [(claim.figure, claim.paper, f"**{claim.verdict}**", claim.measured) for claim in claims],
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


def _notes(outcomes: Outcomes) -> list[Block]:
    notes: list[Block] = []
    figure_2 = [row for row in outcomes if row.figure in ("fig2a", "fig2b")]
    if figure_2:
        odd = sum(row.outliers > 0 for row in figure_2)
        notes.append(
            Paragraph(
                "For uniform means, k > √3 puts the threshold above 1, so the instances of Figure 2"
                f" have no outliers ({odd} of the {len(figure_2)} runs here have one). Instances"
                " are drawn until the smallest gap lies in its window, which is the exact"
                " conditional distribution."
            )
        )
    shares = [
        row.threshold_pulls / row.pulls
        for row in outcomes
        if row.algorithm == "ADE" and row.complete
    ]
    if shares:
        notes.append(
            Paragraph(
                f"ADE spends {100 * min(shares):.1f} to {100 * max(shares):.1f} % of its samples on"
                " the threshold."
            )
        )
    stopped = sum(not row.complete for row in outcomes)
    if stopped:
        notes.append(
            Paragraph(
                f"The budget ended {counted(stopped, 'run')}, so means with a > are lower bounds."
            )
        )
    notes.append(
        Paragraph(
            "For our reading of what the papers leave open (the logarithms of Lemmas 2 to 4, l(k),"
            " the Remark's variant) see docs/explanation/paper.md of the source."
        )
    )
    return notes
