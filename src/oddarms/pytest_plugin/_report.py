"""The answer in words, for a terminal of 80 columns; names of tests are never cut."""

from __future__ import annotations

import math
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from oddarms.documents import Block, Heading, Literal, Paragraph, Table, to_markdown
from oddarms.errors import MissingExtra
from oddarms.files import append_text, writable_folder, write_whole
from oddarms.pytest_plugin._sampling import Place, Record, Sampling
from oddarms.report import write_report, write_results
from oddarms.search import TESTS, LeftOut, Result, as_markdown, facts, guarantee
from oddarms.text import about, counted, shown, wrapped

MAX_LISTED = 20
MAX_UNDECIDED = 10


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
        for record in broken[:MAX_LISTED]:
            lines += [f"  {shown(record.nodeid)}", f"    all {record.first_runs} runs failed"]
            lines += [f"    {shown(record.text)}"] if record.text else []
        lines += _others(broken)
    if answer.undecided:
        lines += ["", "nothing can be said yet of these, the most suspicious first:"]
        lines += _table(answer, answer.undecided, width, most=MAX_UNDECIDED)
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
        lines = [f"{text} ({sure})"]
    elif result.complete:
        lines = [f"nothing stands out among {n:,} tests ({sure})"]
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
        return []
    least = math.floor(1 + question.k**2) + 1
    out = f"more than {question.k:g} standard deviations out"
    return [
        f"among {n} tests none can be {out}: select at least {least},",
        "or ask --oddarms-floor 0.01 for those that fail in more than 1 % of their runs",
    ]


def _rule(result: Result) -> str:
    """Return what abnormal means, and the threshold as far as it is known."""
    question = result.question
    text = question.threshold_text("upper")
    if question.rule == "absolute":
        return f"{_percent(question.floor or 0.0)} or more"
    threshold = result.thresholds["upper"].estimate
    return f"{text}, {_percent(threshold)}" if threshold == threshold else text


def _table(answer: Answer, nodeids: list[str], width: int, most: int = MAX_LISTED) -> list[str]:
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
        runs = row["pulls"] + row["history"]
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


def _others(listed: list[Any], most: int = MAX_LISTED) -> list[str]:
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
        needed = dict(facts(result, TESTS)).get("still needed")
        if needed:
            yield f"still needed: {needed}"


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


# Files


def write_all(answer: Answer, folder: Path | None, summary: Path | None) -> list[str]:
    """Write what is to be written; return lines that say what was, and what could not be.

    What was found is shown all the same: it was paid for.
    """
    lines = []
    try:
        if folder is not None:
            lines += [f"written: {path}" for path in _write_files(answer, folder)]
        if summary is not None:
            append_text(summary, summary_markdown(answer))
            lines.append(f"written: {summary}")
    except (MissingExtra, OSError) as error:
        lines.append(f"not all was written: {error}")
    return lines


def _write_files(answer: Answer, folder: Path) -> Iterator[str]:
    """Write all files into a folder, the one that needs most last; give their paths."""
    place = writable_folder("--oddarms-out", folder)
    yield str(write_whole(place / "junit.xml", junit_xml(answer)))
    if answer.result is None:
        return
    yield from map(str, write_results(answer.result, place))
    yield str(write_report(answer.result, place, notes=_notes(answer), subject=TESTS))


def _notes(answer: Answer) -> list[str]:
    """Return what a reader of the page should know of the population."""
    notes = []
    for place, why in (
        (Place.BROKEN, "as every run of them failed (broken, not flaky)"),
        (Place.SKIPPED, "as they are skipped"),
    ):
        left_out = answer.sampling.placed(place)
        if left_out:
            names = ", ".join(record.nodeid for record in left_out[:20])
            more = ", ..." if len(left_out) > 20 else ""
            many = counted(len(left_out), "test")
            notes.append(f"{many} left out of the comparison, {why}: {names}{more}.")
    return notes


def summary_markdown(answer: Answer) -> str:
    """Return the answer as Markdown, for the summary of a CI job."""
    left_out = [
        LeftOut(
            "broken, not flaky; left out of the comparison",
            [
                (r.nodeid, f"all {r.first_runs} runs failed, last: {r.text}")
                for r in answer.sampling.placed(Place.BROKEN)
            ],
        ),
        LeftOut(
            "left out as skipped",
            [(r.nodeid, r.text) for r in answer.sampling.placed(Place.SKIPPED)],
        ),
    ]
    notes = [line.strip() for line in (*advice_lines(answer), *run_lines(answer))]
    if answer.result is None:
        blocks: list[Block] = [Heading(headline(answer)[0], 3)]
        for group in left_out:
            rows = [[Literal(name), Literal(why)] for name, why in group.items]
            blocks += [Table(["test", "why"], rows, group.title)] if rows else []
        return to_markdown([*blocks, *map(Paragraph, notes)])
    texts = {r.nodeid: r.text for r in answer.sampling.records}
    return as_markdown(answer.result, subject=TESTS, left_out=left_out, details=texts, notes=notes)


def junit_xml(answer: Answer) -> bytes:
    """Return JUnit XML: a case for each test, failed if abnormal or broken."""
    counts = answer.counts()
    suite = ElementTree.Element("testsuite", name="oddarms")
    for record in answer.sampling.records:
        suite.append(_case(answer, record))
    suite.set("tests", str(len(answer.sampling.records)))
    suite.set("failures", str(len(counts["abnormal"]) + len(counts["broken"])))
    suite.set("errors", "0")
    suite.set("skipped", str(len(counts["left out as skipped"])))
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    written: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return written


def _case(answer: Answer, record: Record) -> ElementTree.Element:
    parts, bracket, parameters = record.nodeid.partition("[")
    path, *classes = parts.split("::")
    name = f"{classes.pop() if classes else path}{bracket}{parameters}"
    place = ".".join([path.removesuffix(".py").replace("/", "."), *classes])
    case = ElementTree.Element(
        "testcase",
        classname=_allowed(place),
        name=_allowed(name),
        time=f"{record.seconds:.3f}",
    )
    values = _properties(answer, record)
    properties = ElementTree.SubElement(case, "properties")
    for key, value in values.items():
        ElementTree.SubElement(properties, "property", name=f"oddarms.{key}", value=value)
    if values["decision"] in ("abnormal", "broken"):
        message = f"{values['decision']}: fails in {values['rate']} of its runs"
        failure = ElementTree.SubElement(case, "failure", message=message)
        failure.text = _allowed(record.text)
    elif record.place is Place.SKIPPED:
        ElementTree.SubElement(case, "skipped", message=_allowed(record.text))
    return case


def _properties(answer: Answer, record: Record) -> dict[str, str]:
    row = answer.rows.get(record.nodeid)
    if row is None:
        rate = record.first_failures / record.first_runs if record.first_runs else 0.0
        decision = "undecided" if record.place in (Place.OPEN, Place.COMPARED) else record.place
        return {"decision": decision, "rate": f"{rate:.6g}", "runs": str(record.first_runs)}
    words = {"high": "abnormal"}
    return {
        "decision": words.get(row["decision"], row["decision"]),
        "rate": "" if row["mean"] is None else f"{row['mean']:.6g}",
        "lower": f"{row['lower']:.6g}",
        "upper": f"{row['upper']:.6g}",
        "runs": str(row["pulls"] + row["history"]),
    }


def _allowed(text: str) -> str:
    """Return a text with all that XML cannot have written out."""
    return "".join(
        c
        if c in "\t\n" or (c >= " " and c not in "￾￿" and not "\ud800" <= c <= "\udfff")
        else ascii(c)[1:-1]
        for c in text
    )
