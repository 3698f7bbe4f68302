"""A result as one page to read, and as files to go on with.

The page is for somebody who has never heard of a bandit: it is self-contained, works offline and on
a phone, can be printed, and says in words what its pictures show.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oddarms.algorithms import Decision, Threshold
from oddarms.documents import (
    Block,
    Details,
    Drawing,
    Heading,
    Literal,
    Paragraph,
    Table,
    number_text,
    to_html,
    visible,
)
from oddarms.errors import InvalidParameter
from oddarms.files import writable_folder, write_whole
from oddarms.plotting import file_content, plot_evidence, plot_intervals, plot_pulls
from oddarms.problem import FloatArray, IntArray
from oddarms.search import Result
from oddarms.tables import csv_text

MOST_ROWS = 2_000
"""Rows of the table of all arms; where there are more arms the page points to arms.csv."""
LISTED = 500
"""Rows of the tables of outliers and of undecided arms."""
NEAREST = 20
NAMED = 10
"""Outliers that the summary names."""
LABEL_CHARACTERS = 60
NARROW = (4.2, 4.8)
"""Size of a picture for a phone, in inches."""
LARGEST_ODDS = 1e12

DECISIONS = {
    Decision.NORMAL: "normal",
    Decision.UNDECIDED: "undecided",
    Decision.HIGH: "outlier above",
    Decision.LOW: "outlier below",
}
REASONS = {
    "decided": "every arm is decided",
    "budget": "the budget of samples did not suffice",
    "interrupted": "it was interrupted",
    "failed": "a sample could not be taken",
    "running": "it is still running",
}


def write_results(result: Result, folder: str | Path) -> list[Path]:
    """Write ``result.json`` and ``arms.csv`` into a folder.

    ``result.json`` holds `Result.to_dict` and the history; what is not a finite number is null.
    ``arms.csv`` has a row for each arm: label, decision, mean, lower, upper, pulls, odds.

    Parameters
    ----------
    result
        The result.
    folder
        Made if it is missing.

    Returns
    -------
    list of Path
        The two files.
    """
    place = writable_folder("folder", folder)
    content = result.to_dict() | {"history": [point._asdict() for point in result.history]}
    for name in ("outliers", "undecided"):
        content[name] = [_json_label(label) for label in content[name]]
    content["arms"] = [row | {"label": _json_label(row["label"])} for row in content["arms"]]
    text = json.dumps(_plain(content), indent=1, allow_nan=False)
    return [write_whole(place / "result.json", text + "\n"), _write_arms(result, place)]


def write_report(
    result: Result,
    folder: str | Path,
    *,
    title: str,
    notes: Sequence[str] = (),
    equal_sampling: int | None = None,
    pulls_needed: Sequence[float] | FloatArray | None = None,
    indifference: float = 0.0,
) -> Path:
    """Write ``report.html``, one self-contained page about a result, into a folder.

    Where there are too many arms for the page, ``arms.csv`` is written beside it.

    Parameters
    ----------
    result
        The result, complete or not.
    folder
        Made if it is missing.
    title
        The page's title.
    notes
        Paragraphs to add, such as where the samples come from.
    equal_sampling
        Samples that sampling all arms equally needs for the same guarantee, where known.
    pulls_needed
        About how many more samples each arm needs, in the order of the labels, where known.
    indifference
        The algorithm's option of that name, in units of the rewards: the guarantee depends on it.

    Returns
    -------
    Path
        The page.
    """
    needed = _checked_needed(result, pulls_needed)
    place = writable_folder("folder", folder)
    page = _Page(result, needed, indifference)
    blocks: list[Block] = [Heading(Literal(visible(title)), 1)]
    blocks += page.summary(equal_sampling)
    blocks += [Paragraph(visible(note)) for note in notes]
    blocks += [Heading("Key figures"), page.key_figures(equal_sampling), *page.pictures()]
    blocks += [*page.outliers(), *page.undecided(), *page.nearest(), *page.all_arms()]
    blocks += page.explanations()
    if result.problem.n > MOST_ROWS:
        _write_arms(result, place)
    content = to_html(visible(title), blocks, place).encode("utf-8", "replace")
    return write_whole(place / "report.html", content)


def _checked_needed(
    result: Result, needed: Sequence[float] | FloatArray | None
) -> FloatArray | None:
    if needed is None:
        return None
    array = np.asarray(needed, dtype=np.float64)
    if array.shape != (result.problem.n,):
        raise InvalidParameter(
            f"pulls_needed must be {result.problem.n} numbers, one per arm, but has the shape"
            f" {array.shape}."
        )
    return array


# Files


def _write_arms(result: Result, folder: Path) -> Path:
    rows = result.to_dict()["arms"]
    odds = result.odds
    names = ("label", "decision", "mean", "lower", "upper", "pulls")
    text = csv_text(
        (*names, "odds"),
        (
            (*(row[name] for name in names), None if odds is None else _plain(odds[i]))
            for i, row in enumerate(rows)
        ),
    )
    return write_whole(folder / "arms.csv", text.encode("utf-8", "backslashreplace"))


def _json_label(label: Any) -> Any:
    """Return a label that JSON has; infinity and NaN as text, for they are names here."""
    return str(label) if isinstance(label, float) and not math.isfinite(label) else label


def _plain(value: Any) -> Any:
    """Return a tree of values in which every number is one that JSON has."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value


# The page


class _Page:
    """The parts of the page about one result."""

    def __init__(self, result: Result, needed: FloatArray | None, indifference: float) -> None:
        self.result = result
        self.needed = needed
        self.indifference = indifference
        a, b = result.problem.bounds
        self.span = b - a
        self.odds = result.odds
        gaps = [np.abs(result.means - bound.estimate) for bound in result.thresholds.values()]
        self.distances: FloatArray = np.fmin.reduce(gaps)
        """Of each mean from the nearest threshold's estimate; NaN where one is not known."""

    # In words

    def summary(self, equal_sampling: int | None) -> list[Block]:
        blocks: list[Block] = [Paragraph(self._asked()), Paragraph(self._found(equal_sampling))]
        if not self.result.complete:
            blocks.append(Paragraph(self._open()))
        return [*blocks, Paragraph(self._guarantee()), Paragraph(self._assumptions())]

    def _asked(self) -> str:
        problem = self.result.problem
        low, high = map(_exact, problem.bounds)
        return (
            f"**What was asked.** Which of {problem.n:,} things – called arms here – are unusual in"
            f" the long run? An arm can only be sampled: every sample is a number between {low} and"
            f" {high}, differs by chance, and costs something. What counts is an arm's mean, the"
            f" average that very many samples of it would have. {self._rule()}"
        )

    def _rule(self) -> str:
        k, side = self.result.problem.k, self.result.problem.side
        above = f"at or above the mean of all arms' means {_signed(k)} standard deviations of them"
        below = f"at or below the mean of all arms' means {_signed(-k)} standard deviations of them"
        where = {"upper": above, "lower": below, "both": f"{above}, or {below}"}[side]
        one = "That is the threshold; nobody knows it exactly."
        two = "Those are the two thresholds; nobody knows them exactly."
        return f"An arm is an outlier if its mean lies {where}. {two if side == 'both' else one}"

    def _found(self, equal_sampling: int | None) -> tuple[str, ...]:
        result = self.result
        found, n = len(result.outliers), result.problem.n
        known = "" if result.complete else " known to be"
        kind = f"is{known} an outlier" if found == 1 else f"are{known} outliers"
        many = f"{found:,} of {n:,} arms {kind}"
        if result.complete and not result.pulls and not result.imported:
            text = (
                f"**What was found.** {many}. No sample was needed: unless all are equal, no mean"
                f" of only {n:,} can lie more than {math.sqrt(n - 1.0):.2f} standard deviations"
                f" from the mean of all, so arithmetic alone decides."
            )
            return (text,)
        names = [": ", *self._names(result.outliers)] if found else []
        rest = f". {len(result.normal):,} are normal, {len(result.undecided):,} undecided."
        cost = f" It took {_many(result.pulls, 'sample')}"
        if equal_sampling is not None and result.pulls:
            times = equal_sampling / result.pulls
            cost += (
                f"; sampling every arm equally often takes {equal_sampling:,} for the same"
                f" guarantee, {times:,.1f} times as many"
            )
        return (f"**What was found.** {many}", *names, f"{rest} {self._thresholds()}{cost}.")

    def _names(self, labels: Sequence[object]) -> list[str]:
        parts: list[str] = []
        for label in labels[:NAMED]:
            parts += [", ", self._label(label)]
        if len(labels) > NAMED:
            parts.append(f" and {len(labels) - NAMED:,} more")
        return parts[1:]

    def _thresholds(self) -> str:
        texts = []
        for side, (estimate, low, high) in self.result.thresholds.items():
            if not math.isfinite(estimate):
                texts.append(f"The {side} threshold is not known yet.")
                continue
            where = f"between {self._number(low)} and {self._number(high)}"
            texts.append(f"The {side} threshold is about {self._number(estimate)}, {where}.")
        return " ".join(texts)

    def _open(self) -> str:
        result = self.result
        reason = f"The search ended early: {self._reason()}."
        many = len(result.undecided)
        text = (
            "**Not everything is decided.**"
            f" {'The search goes on.' if result.stopped == 'running' else reason}"
            f" {_many(many, 'arm')} {'is' if many == 1 else 'are'} still open, which means neither"
            " outlier nor normal: the samples so far do not tell. What is decided carries the full"
            " guarantee, and stays decided if the search goes on."
        )
        if self.needed is not None:
            text += (
                f" About {self.needed.sum():,.0f} more samples would decide them, by the present"
                " estimates, which may be off by a factor of two and more."
            )
        return text

    def _reason(self) -> str:
        stopped = self.result.stopped
        return REASONS.get(stopped, visible(stopped, LABEL_CHARACTERS))

    def _guarantee(self) -> str:
        delta = self.result.problem.delta
        percent = _percent(1.0 - delta)
        text = (
            "**What the guarantee means.** The answer is right with probability at least"
            f" {percent}: if the whole search were done again and again with new samples, then in"
            f" at least {percent} of the cases not one arm would be called an outlier or normal"
            " wrongly, and every interval on this page would hold its true value. It does not mean"
            f" that {_percent(delta)} of the arms listed here are wrong: in at least {percent} of"
            " the cases none is. And it is a promise about the method, made before the samples were"
            " taken; whether this one answer is among the exceptions no method can say."
        )
        if self.indifference > 0.0:
            text += (
                f" Arms within {self._number(self.indifference)} of the threshold do not count as"
                " mistakes either way: this was allowed, to save samples."
            )
        return text

    def _assumptions(self) -> str:
        low, high = map(_exact, self.result.problem.bounds)
        return (
            "**What it rests on.** Samples are independent of one another; each lies between"
            f" {low} and {high}; and an arm's mean stays the same during the search. If arms"
            " drift, answer alike for a common reason, or react to being sampled, the promise"
            " does not hold. What is unusual is measured against these arms only; it says nothing"
            " about why."
        )

    # In tables

    @property
    def _has_file(self) -> bool:
        return self.result.problem.n > MOST_ROWS

    def key_figures(self, equal_sampling: int | None) -> Table:
        result, problem = self.result, self.result.problem
        rows: list[tuple[str, str]] = [
            ("arms", f"{problem.n:,}"),
            ("outliers", f"{len(result.outliers):,}"),
            ("normal", f"{len(result.normal):,}"),
            ("undecided", f"{len(result.undecided):,}"),
            ("samples used", f"{result.pulls:,}"),
        ]
        if result.imported:
            rows.append(("samples known before", f"{result.imported:,}"))
        if equal_sampling is not None:
            rows.append(("samples if all arms are sampled equally", f"{equal_sampling:,}"))
        rows += [
            (f"{side} threshold", self._threshold_cell(bound))
            for side, bound in result.thresholds.items()
        ]
        bounds = " to ".join(map(_exact, problem.bounds))
        rows += [
            ("k, standard deviations from the mean", f"{problem.k:g}"),
            ("delta, probability of an error at most", f"{problem.delta:g}"),
            ("bounds of a sample", bounds),
            ("algorithm", visible(result.algorithm, LABEL_CHARACTERS)),
            ("why it ended", self._reason()),
        ]
        cells = [(name, Literal(value)) for name, value in rows]
        return Table(
            ("figure", "value"), cells, "The question, the answer and the cost", named_rows=True
        )

    def _threshold_cell(self, bound: Threshold) -> str:
        if not math.isfinite(bound.estimate):
            return "not known"
        return f"{self._number(bound.estimate)} ({self._interval(bound.lower, bound.upper)})"

    def outliers(self) -> list[Block]:
        result = self.result
        blocks: list[Block] = [Heading("Outliers")]
        arms = np.flatnonzero(result.decisions >= Decision.HIGH)
        if not arms.size:
            more = " so far" if result.undecided else ""
            return [*blocks, Paragraph(f"No arm is known to be an outlier{more}.")]
        arms = arms[np.argsort(-self.distances[arms], kind="stable")]
        return [*blocks, *self._arms_table(arms, "Outliers, the most extreme first")]

    def undecided(self) -> list[Block]:
        result = self.result
        arms = np.flatnonzero(result.decisions == Decision.UNDECIDED)
        if not arms.size:
            return []
        order = np.argsort(np.nan_to_num(self.distances[arms], nan=np.inf), kind="stable")
        return [
            Heading("Undecided arms"),
            *self._arms_table(arms[order], "Undecided arms, the nearest to a threshold first"),
        ]

    def nearest(self) -> list[Block]:
        arms = np.flatnonzero(self.result.decisions == Decision.NORMAL)
        distances = self.distances[arms]
        arms = arms[np.argsort(distances, kind="stable")][:NEAREST]
        arms = arms[np.isfinite(self.distances[arms])]
        if not arms.size:
            return []
        caption = f"The {_many(arms.size, 'normal arm')} nearest to a threshold"
        return [Heading("Nearly unusual"), *self._arms_table(arms, caption)]

    def all_arms(self) -> list[Block]:
        result = self.result
        if self._has_file:
            text = f"All {result.problem.n:,} arms are in the file `arms.csv` beside this page."
            return [Heading("All arms"), Paragraph(text)]
        arms = np.argsort(-np.nan_to_num(result.means, nan=-np.inf), kind="stable")
        table = self._arms_table(arms, "All arms, the highest mean first", most=MOST_ROWS)
        return [Heading("All arms"), Details(f"Show all {result.problem.n:,} arms", table)]

    def _arms_table(self, arms: IntArray, caption: str, most: int = LISTED) -> list[Block]:
        columns = ["arm", "mean", "interval", "from the threshold", "samples"]
        columns += ["odds"] if self.odds is not None else []
        decisions = {int(d) for d in self.result.decisions[arms]}
        mixed = len(decisions) > 1
        columns += ["decision"] if mixed else []
        waiting = decisions == {Decision.UNDECIDED}
        columns += ["more samples, about"] if waiting and self.needed is not None else []
        columns += ["why open"] if waiting else []
        rows = [self._arm_row(int(arm), columns) for arm in arms[:most]]
        numbers = [i for i, name in enumerate(columns) if name in _NUMBERS]
        blocks: list[Block] = [Table(columns, rows, caption, numbers, named_rows=True)]
        if arms.size > most:
            there = "the file `arms.csv`" if self._has_file else "the table of all arms"
            blocks.append(Paragraph(f"These are {most:,} of {arms.size:,}; {there} has all."))
        return blocks

    def _arm_row(self, arm: int, columns: Sequence[str]) -> list[str]:
        result = self.result
        low, high = result.intervals[arm]
        cells = {
            "arm": self._label(result.labels[arm]),
            "mean": self._number(result.means[arm]),
            "interval": self._interval(low, high),
            "from the threshold": self._number(self.distances[arm]),
            "samples": f"{int(result.pulls_per_arm[arm]):,}",
            "odds": "–" if self.odds is None else _odds_text(float(self.odds[arm])),
            "decision": DECISIONS[Decision(result.decisions[arm])],
            "more samples, about": "–" if self.needed is None else _about(float(self.needed[arm])),
            "why open": self._why_open(arm),
        }
        return [cells[name] for name in columns]

    def _why_open(self, arm: int) -> str:
        result = self.result
        if not result.pulls_per_arm[arm] and np.isnan(result.means[arm]):
            return "not sampled yet"
        distance = self.distances[arm]
        if not math.isfinite(distance):
            return "the threshold is not known yet"
        low, high = result.intervals[arm]
        half = max(high - result.means[arm], result.means[arm] - low)
        if distance >= half:
            return "the threshold is not known well enough"
        return f"known only to ± {self._number(half)}"

    # In pictures

    def pictures(self) -> list[Block]:
        result = self.result
        blocks: list[Block] = []
        if not np.isnan(result.means).all():
            blocks.append(Heading("Means and intervals", 3))
            blocks.append(self._drawing(plot_intervals, self._intervals_in_words(), _HOW_INTERVALS))
        if result.pulls:
            blocks.append(Heading("Samples of each arm", 3))
            blocks.append(self._drawing(plot_pulls, self._pulls_in_words(), _HOW_PULLS))
        if result.history:
            blocks.append(Heading("Over time", 3))
            how = self._how_evidence()
            blocks.append(self._drawing(plot_evidence, self._evidence_in_words(), how, tall=1.5))
        return [Heading("Pictures"), *blocks] if blocks else []

    def _drawing(
        self, draw: Callable[..., Any], words: str, caption: str, tall: float = 1.0
    ) -> Drawing:
        width, height = NARROW
        wide, narrow = draw(self.result), draw(self.result, size=(width, tall * height))
        return Drawing(file_content(wide), words, caption, file_content(narrow))

    def _intervals_in_words(self) -> str:
        result = self.result
        counts = [
            f"{int((result.decisions == decision).sum()):,} {name}"
            for decision, name in DECISIONS.items()
            if (result.decisions == decision).any()
        ]
        text = f"Intervals of {result.problem.n:,} arms in the order of their means:"
        text += f" {', '.join(counts)}. {self._thresholds()}"
        known = result.means[~np.isnan(result.means)]
        if known.size:
            ends = f"{self._number(known.min())} to {self._number(known.max())}"
            text += f" Means reach from {ends}."
        return text

    def _pulls_in_words(self) -> str:
        result = self.result
        pulls = result.pulls_per_arm
        most = visible(result.labels[int(pulls.argmax())], LABEL_CHARACTERS)
        return (
            f"Samples of each arm, in the order of their means: {pulls.min():,} to {pulls.max():,},"
            f" on average {result.pulls / result.problem.n:,.1f}; the most of arm {most}."
        )

    def _evidence_in_words(self) -> str:
        history = self.result.history
        half = next((p for p in history if 2 * p.undecided <= self.result.problem.n), None)
        text = f"The search over {history[-1].pulls:,} samples."
        if half is not None:
            text += f" Half of the arms were decided after {half.pulls:,} samples;"
        text += f" {history[-1].undecided:,} arms are undecided at the end. {self._thresholds()}"
        return text

    def _how_evidence(self) -> str:
        text = (
            "From left to right, the samples taken so far, on a scale where equal steps multiply."
            " Above: how many arms were still open. Below: the interval of the threshold, which"
            " narrows as samples come in."
        )
        if self.result.evidence is None:
            return text
        return (
            f"{text} Last: the evidence for the decisions, as the logarithm of the odds. An arm is"
            " decided once its evidence passes the dotted line."
        )

    def explanations(self) -> list[Block]:
        terms = [
            ("mean", "The average of an arm's samples so far, an estimate of its true mean."),
            ("interval", "All intervals together hold the true values, as said above."),
            ("from the threshold", "How far the mean is from the estimate of the threshold."),
        ]
        if self.odds is not None:
            terms += [("odds", _ODDS_MEANING), ("overlap", _OVERLAP_MEANING)]
        table = Table(("word", "meaning"), terms, "Words used on this page", named_rows=True)
        return [Heading("How to read this page"), table]

    # Figures as text

    def _number(self, value: float) -> str:
        return number_text(float(value), self.span)

    def _interval(self, low: float, high: float) -> str:
        return f"{self._number(low)} to {self._number(high)}"

    def _label(self, label: object) -> str:
        return Literal(visible(label, LABEL_CHARACTERS))


_NUMBERS = ("mean", "interval", "from the threshold", "samples", "odds", "more samples, about")
_HOW_INTERVALS = (
    "Each arm's mean (marker) with its interval (line), from the lowest mean to the highest; of"
    " many arms of a kind a band, from the lowest to the highest end of neighbours, with the median"
    " of their means. The yellow band is the interval of the threshold, the line its estimate."
)
_HOW_PULLS = (
    "How often each arm was sampled, in the same order; of many arms of a kind a band, from the"
    " fewest to the most of neighbours. Arms near the threshold, the vertical line, are the hard"
    " ones."
)


_ODDS_MEANING = (
    "If somebody had bet, at fair odds and sample by sample, that the decision is right, the stake"
    " would have grown to so many times what it was. Were the decision wrong, that would have had a"
    " probability of at most one in so many, up to the doubt about the threshold."
)
_OVERLAP_MEANING = (
    "The interval of a decided arm may overlap that of the threshold: a decision rests on the"
    " evidence about the two together, which is enough before each of them is known so well."
)


def _odds_text(odds: float) -> str:
    if math.isnan(odds):
        return "–"
    if odds > LARGEST_ODDS:
        return f"over {LARGEST_ODDS:,.0f} : 1"
    return f"{odds:,.0f} : 1" if odds >= 10.0 else f"{odds:.2g} : 1"


def _about(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) else "–"


def _exact(value: float) -> str:
    return f"{value:,.15g}"


def _signed(k: float) -> str:
    return f"{'minus' if k < 0 else 'plus'} {abs(k):g}"


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _percent(share: float) -> str:
    return f"{100.0 * share:.6g} %"
