"""`reproduce`: every figure of the paper into a folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from oddarms.documents import to_html, to_markdown
from oddarms.errors import InvalidParameter
from oddarms.experiments import Contender, Grid, GridProgress, Outcomes, run
from oddarms.experiments._outcomes import INTERVAL_COLUMNS
from oddarms.files import writable_folder, write_whole
from oddarms.paper._claims import Claim, check_claims
from oddarms.paper._pictures import draw_figures, print_style
from oddarms.paper._report import TITLE, ReportFacts, report_blocks
from oddarms.paper._settings import CONTENDERS, CROWD_KS, FIGURES, Crowd, figure_settings
from oddarms.problem import check_whole
from oddarms.randomness import Rng, seed_of
from oddarms.tables import RecordedArms, csv_text
from oddarms.theory import gaps

RUNS, QUICK_RUNS = 10, 3
BUDGET = 1_000_000_000
"""A run ends here at the latest; no setting of the paper comes near it."""


@dataclass(frozen=True, eq=False)
class Reproduction:
    """What was found and written.

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
    data: RecordedArms | None = None,
    budget: int | None = BUDGET,
    quick: bool = False,
    backend: str = "joblib",
    jobs: int | None = None,
    address: str | None = None,
    progress: Callable[[GridProgress], None] | None = None,
    command: str = "oddarms.paper.reproduce",
) -> Reproduction:
    """Run the experiments of the ADE paper and write tables, pictures and a report.

    Parameters
    ----------
    figures
        Some of "fig1", "fig2a", "fig2b", "fig3".
    folder
        Where everything goes: ``results.csv`` (a row per run), ``fig1_intervals.csv``,
        ``fig3c_gaps.csv``, a PNG and an SVG per figure, ``report.md`` and ``report.html``; and
        ``cells.jsonl``, from which an interrupted study goes on.
    runs
        Instances a setting (Figure 2) or runs (Figure 3); the paper's ten by default.
    rng
        Decides everything.
    algorithms
        Names of algorithms; those of the paper have its options.
    data
        The workers of Figure 3, from `oddarms.tables.read_arms`; a synthetic stand-in by
        default.
    budget
        Most pulls of a run.
    quick
        Three instances a setting and fewer sizes.
    backend, jobs, address, progress
        As for `oddarms.experiments.run`.
    command
        How it was called, for the report.
    """
    from oddarms import __version__

    chosen, seed = _check_figures(figures), seed_of(rng)
    runs = check_whole("runs", (QUICK_RUNS if quick else RUNS) if runs is None else runs, least=1)
    with print_style():  # says so now, rather than after the runs, if matplotlib is missing
        target = writable_folder("out", folder)
    crowd = Crowd.of(data)
    settings = [
        setting
        for figure in chosen
        for setting in figure_settings(figure, runs=runs, quick=quick, crowd=crowd, budget=budget)
    ]
    outcomes = run(
        Grid(settings, [CONTENDERS.get(name) or Contender.of(name) for name in algorithms]),
        rng=seed,
        folder=target,
        backend=backend,
        jobs=jobs,
        address=address,
        progress=progress,
    )
    claims = check_claims(outcomes, crowd)
    facts = ReportFacts(seed, runs, quick, budget, __version__, command)
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
    """Write all tables, then the pictures, then the reports that show them."""
    tables = [folder / "results.csv"]
    outcomes.to_csv(tables[0])
    figures = {row.figure for row in outcomes}
    if "fig1" in figures:
        text = csv_text(INTERVAL_COLUMNS, outcomes.intervals())
        tables.append(write_whole(folder / "fig1_intervals.csv", text))
    if "fig3" in figures:
        columns = ("data", "k", "arm", "gap")
        text = csv_text(columns, _gap_rows(crowd), for_spreadsheets=True)
        tables.append(write_whole(folder / "fig3c_gaps.csv", text))
    pictures = draw_figures(outcomes, crowd, folder)
    blocks = report_blocks(outcomes, claims, list(pictures), crowd, facts)
    reports = [
        write_whole(folder / "report.html", to_html(TITLE, blocks, folder)),
        write_whole(folder / "report.md", to_markdown(blocks)),
    ]
    return [*reports, *(path for paths in pictures.values() for path in paths), *tables]


def _gap_rows(crowd: Crowd) -> list[tuple[str, float, int, float]]:
    return [
        (crowd.description, k, arm, gap)
        for k in CROWD_KS
        for arm, gap in enumerate(gaps(crowd.arms.means, k).tolist())
    ]
