"""The report: what the paper says beside what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from oddarms.documents import Block, Heading, Paragraph, Picture, Table
from oddarms.experiments import Outcomes, Summary
from oddarms.paper._claims import Claim
from oddarms.paper._comparisons import short_number
from oddarms.paper._settings import DELTA, Crowd

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


@dataclass(frozen=True)
class ReportFacts:
    """What the report says about how it was made."""

    seed: int
    runs: int
    quick: bool
    budget: int | None
    version: str
    command: str


def report_blocks(
    outcomes: Outcomes,
    claims: Sequence[Claim],
    pictures: Sequence[str],
    crowd: Crowd,
    facts: ReportFacts,
) -> list[Block]:
    """Return the report; pictures are named without their ending."""
    blocks: list[Block] = [Heading(TITLE, 1), *_introduction(outcomes, crowd, facts)]
    blocks += [Heading("Claim by claim"), _claims_table(claims)]
    summaries = outcomes.summaries()
    for name in pictures:
        if name in HEADINGS:
            blocks.append(Heading(HEADINGS[name]))
        caption = CAPTIONS[name]
        if name.startswith("fig3"):
            caption += f" Workers: {crowd.description}."
        blocks.append(Picture(f"{name}.svg", _alternative(name, summaries, crowd), caption))
        figure = "fig3" if name == "fig3c" else name
        mine = [summary for summary in summaries if summary.figure == figure]
        if mine and name not in ("fig3a", "fig3b"):
            blocks.append(_samples_table(mine))
    return [*blocks, Heading("Worth knowing"), *_notes(outcomes)]


def _introduction(outcomes: Outcomes, crowd: Crowd, facts: ReportFacts) -> list[Block]:
    runs = (
        f"{facts.runs} instances a setting (Figures 2a, 2b) or {facts.runs} runs (Figure 3), delta"
        f" = {DELTA:g}, Bernoulli rewards; RR and WRR pull 1,000 times a turn, as in the paper."
    )
    quick = " A quick look, with fewer sizes and runs than the paper." if facts.quick else ""
    blocks: list[Block] = [
        Paragraph(
            "Zhang, Zhuang, Zhang and Zhou (AAAI 2020) compare ADE with RR and WRR (NIPS 2017)."
            " Here are its experiments, run again by oddarms, with SPADE beside them. All"
            " algorithms meet the same instances. Intervals are Student's, at 95 %."
        ),
        Paragraph(
            f"{runs}{quick} {len(outcomes)} runs; oddarms {facts.version}, seed {facts.seed}."
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
        ("figure", "the paper says", "and it", "as measured here"),
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


def _alternative(name: str, summaries: Sequence[Summary], crowd: Crowd) -> str:
    if name == "fig1":
        return (
            "Intervals of every arm and of the threshold for each algorithm, first and last round"
        )
    if name == "fig3c":
        return f"Histogram of the gaps of {crowd.arms.means.size:,} workers for k = 2 and k = 3"
    figure, setting = (name[:4], {"a": "k = 2", "b": "k = 3"}[name[4]])
    if figure != "fig3":
        figure, setting = name, ""
    means = ", ".join(
        f"{summary.algorithm} {summary.setting} {short_number(summary.mean)}"
        for summary in summaries
        if summary.figure == figure and setting in summary.setting
    )
    return f"Mean samples: {means}"


def _notes(outcomes: Outcomes) -> list[Block]:
    notes: list[Block] = []
    figure_2 = [row for row in outcomes if row.figure in ("fig2a", "fig2b")]
    if figure_2:
        odd = sum(row.outliers > 0 for row in figure_2)
        notes.append(
            Paragraph(
                "For uniform means, k > √3 puts the threshold above 1, so the instances of Figure 2"
                f" contain no outlier ({odd} of the {len(figure_2)} runs here have one): only the"
                ' answer "all normal" is tested. Instances are drawn until the smallest gap lies'
                " in its window, which is the exact conditional distribution."
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
                f"ADE spends between {100 * min(shares):.1f} and {100 * max(shares):.1f} % of its"
                " samples on the threshold."
            )
        )
    stopped = sum(not row.complete for row in outcomes)
    if stopped:
        notes.append(
            Paragraph(
                f"{stopped} runs were ended by the budget; they count with the samples they had"
                " used, so the means with a > are lower bounds."
            )
        )
    notes.append(
        Paragraph(
            "How we read what the papers leave open (the logarithms of Lemmas 2 to 4, l(k), the"
            " Remark's variant) is in docs/paper.md of the source."
        )
    )
    return notes
