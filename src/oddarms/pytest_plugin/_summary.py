"""The answer in words, for a terminal of 80 columns; names of tests are never cut."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from oddarms.problem import Question
from oddarms.pytest_plugin._records import Place, Record
from oddarms.pytest_plugin._sampling import Sampling
from oddarms.search import TESTS, Result
from oddarms.search._text import guarantee, still_needed, with_guarantee
from oddarms.text import about, counted, shown, wrapped

MOST_LISTED = 20
MOST_UNDECIDED = 10


@dataclass(frozen=True)
class Answer:
    """What a run of ``pytest --oddarms`` has found out; the result is None without a search."""

    sampling: Sampling
    result: Result | None

    @cached_property
    def rows(self) -> dict[str, dict[str, Any]]:
        """What is known of each test that is compared."""
        rows = [] if self.result is None else self.result.rows()
        return {str(row["label"]): row for row in rows}

    def _decided(self, *decisions: str) -> list[str]:
        return [nodeid for nodeid, row in self.rows.items() if row["decision"] in decisions]

    @cached_property
    def abnormal(self) -> list[str]:
        """The abnormally flaky tests, those that fail most first."""
        return sorted(self._decided("high"), key=lambda nodeid: -self.rows[nodeid]["mean"])

    @cached_property
    def normal(self) -> list[str]:
        """The tests that are not."""
        return self._decided("normal")

    @cached_property
    def undecided(self) -> list[str]:
        """The tests that nothing can be said of yet, the most suspicious first."""
        if self.result is None:
            settled = (Place.BROKEN, Place.SKIPPED)
            return [r.nodeid for r in self.sampling.records if r.place not in settled]
        return list(map(str, self.result.undecided))

    @cached_property
    def records(self) -> dict[str, Record]:
        """The records by name."""
        return {record.nodeid: record for record in self.sampling.records}

    def counts(self) -> dict[str, list[str]]:
        """Return the tests by the word for them in pytest's last line."""
        return {
            "abnormal": self.abnormal,
            "broken": [record.nodeid for record in self.sampling.placed(Place.BROKEN)],
            "normal": self.normal,
            "undecided": self.undecided,
            "left out as skipped": [r.nodeid for r in self.sampling.placed(Place.SKIPPED)],
        }


def progress_text(sampling: Sampling) -> str:
    """Return how far a search is, as a line."""
    runs = counted(sampling.runs, "run")
    progress = sampling.progress()
    if progress is None:
        return f"oddarms: {runs}, looking at all {len(sampling.records):,} tests once"
    text = f"oddarms: {runs}, {progress.undecided:,} of {progress.n:,} tests undecided"
    needed = progress.pulls_needed
    return text + (f", about {about(needed)} runs to go" if needed and needed < 1e9 else "")


def summary_lines(answer: Answer, width: int) -> list[str]:
    """Return the summary: what is abnormal, broken, skipped and open, and what it took."""
    lines = [*headline(answer), *advice_lines(answer)]
    lines += _table(answer, answer.abnormal, width)
    broken = answer.sampling.placed(Place.BROKEN)
    if broken:
        lines += ["", "broken, not flaky; left out of the comparison:"]
        for record in broken[:MOST_LISTED]:
            lines += [f"  {shown(record.nodeid)}", f"    all {record.first_runs} runs failed"]
            lines += [f"    {shown(record.text)}"] if record.text else []
        lines += _others(broken)
    if answer.undecided:
        lines += ["", "nothing can be said yet of these, the most suspicious first:"]
        lines += _table(answer, answer.undecided, width, most=MOST_UNDECIDED)
    return [*lines, "", *cost_lines(answer)]


def headline(answer: Answer) -> list[str]:
    """Return the first lines: what is known, and what abnormal means."""
    sampling, result = answer.sampling, answer.result
    if result is None:
        why = sampling.problem or f"{sampling.stopped}: no search has begun."
        return [f"nothing was compared: {why}"]
    question, n = result.question, result.question.n
    odd = len(answer.abnormal)
    sure = guarantee(question)
    if odd:
        known = "" if result.complete else "known to be "
        are = "is" if odd == 1 else "are"
        text = f"{odd:,} of {n:,} tests {are} {known}abnormally flaky"
        lines = with_guarantee(text, sure).splitlines()
    elif result.complete:
        lines = with_guarantee(f"nothing stands out among {n:,} tests", sure).splitlines()
    else:
        lines = [f"none of {n:,} tests is known to be abnormally flaky yet"]
    lines.append(f"abnormal: {_rule(result)}")
    return lines


def advice_lines(answer: Answer) -> list[str]:
    """Return what to know of the question: too few tests for it, and words of earlier runs."""
    if answer.result is None:
        return []
    question, n = answer.result.question, answer.result.question.n
    if question.can_have_outliers:
        return _earlier_words(answer, question)
    least = math.floor(1 + question.k**2) + 1
    out = f"more than {question.k:g} standard deviations out"
    return [
        f"among {n} tests none can be {out}: select at least {least},",
        "or ask --oddarms-floor 0.01 for those that fail in more than 1 % of their runs",
    ]


def _earlier_words(answer: Answer, question: Question) -> list[str]:
    """Return which words a storage has from runs before this one, which did not give them."""
    settings = answer.sampling.settings
    plain = Question(question.labels, **settings.words)
    words = [word for word in ("margin", "floor", "budget") if word not in settings.words]
    return [
        f"the {word} is {kept:g}, as in an earlier run; --oddarms-{word} changes it"
        for word in words
        if (kept := getattr(question, word)) != getattr(plain, word)
    ]


def _rule(result: Result) -> str:
    """Return what abnormal means, and the threshold as far as it is known."""
    question = result.question
    text = question.threshold_text("upper")
    if question.rule == "absolute":
        return f"{_percent(question.floor or 0.0)} or more"
    threshold = result.thresholds["upper"].estimate
    return f"{text}, {_percent(threshold)}" if threshold == threshold else text


def _table(answer: Answer, nodeids: list[str], width: int, most: int = MOST_LISTED) -> list[str]:
    """Return rate, interval, runs and last failure; long names stand, whole, on their own line."""
    if not nodeids:
        return []
    lines = ["", f"{'fails':>7}  {'interval':>15}  {'runs':>7}  test"] if answer.rows else []
    for nodeid in nodeids[:most]:
        record = answer.records[nodeid]
        name = shown(nodeid)
        row = answer.rows.get(nodeid)
        if row is None:
            lines.append(f"  {name}")
            continue
        runs = row["pulls"] + row["imported"]
        rate = "?" if row["mean"] is None else _percent(row["mean"])
        interval = f"{100.0 * row['lower']:.1f} to {_percent(row['upper'])}"
        numbers = f"{rate:>7}  {interval:>15}  {runs:>7,}"
        fits = len(numbers) + 2 + len(name) <= width
        lines += [f"{numbers}  {name}"] if fits else [numbers, f"    {name}"]
        lines += _how(record, width, isolated=answer.sampling.settings.isolate)
    return [*lines, *_others(nodeids, most)]


def _how(record: Record, width: int, *, isolated: bool) -> list[str]:
    said = wrapped(f"last: {shown(record.text)}", width - 6) if record.text else []
    lines = [f"{'      ' if number else '    '}{line}" for number, line in enumerate(said)]
    if record.only_fails_again and not isolated:
        lines.append("    only its first run passed: it may not bear running twice in one process;")
        lines.append("    --oddarms-isolate tells")
    return lines


def _others(listed: list[Any], most: int = MOST_LISTED) -> list[str]:
    hidden = len(listed) - most
    return [f"  ... and {counted(hidden, 'other')}"] if hidden > 0 else []


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f} %"


def cost_lines(answer: Answer) -> Iterable[str]:
    """Return what it took, where the runs are, and why it ended."""
    sampling, result = answer.sampling, answer.result
    took, *where = run_lines(answer)
    yield took
    skipped = len(sampling.placed(Place.SKIPPED))
    if skipped:
        yield f"left out as skipped: {counted(skipped, 'test')}"
    yield from where
    if result is not None and not result.complete:
        yield f"ended: {sampling.stopped or result.status.meaning}"
        yield from still_needed(result, TESTS).splitlines()


def run_lines(answer: Answer) -> Iterable[str]:
    """Return how many runs there were and where they are kept."""
    sampling = answer.sampling
    seconds = time.monotonic() - sampling.begun
    first = sum(record.first_runs for record in sampling.records)
    parts = [f"{first:,} first"]
    if sampling.runs_between:
        parts.append(f"{sampling.runs_between:,} in between, which do not count")
    if answer.result is not None and answer.result.unused:
        parts.append(f"{answer.result.unused:,} not used yet")
    yield f"{counted(sampling.runs, 'run')} in {seconds:.1f} s ({', '.join(parts)})"
    if sampling.study is not None:
        yield f"kept in {shown(sampling.study.storage)} as {shown(sampling.study.name)}"
        if sampling.stored_before:
            yield f"  from before: {counted(sampling.stored_before, 'run')}"
        if sampling.answered is not None:
            begun = f"{sampling.answered:%Y-%m-%d}"
            yield f"  it had the answer of a search that began on {begun}; nothing was sampled"
            yield "  again (--oddarms-study NAME begins another search)"
