"""The answer as files: a page, JSON, CSV, and JUnit XML with the failure rates as properties."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

from oddarms.errors import MissingExtra
from oddarms.files import append_text, writable_folder, write_whole
from oddarms.pytest_plugin._records import Place, Record
from oddarms.pytest_plugin._summary import Answer, advice_lines, headline, run_lines
from oddarms.reports import (
    LeftOut,
    nothing_compared_markdown,
    result_markdown,
    write_report,
    write_results,
)
from oddarms.search import TESTS
from oddarms.text import counted


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
        return nothing_compared_markdown(headline(answer)[0], left_out, notes)
    texts = {r.nodeid: r.text for r in answer.sampling.records}
    return result_markdown(
        answer.result, subject=TESTS, left_out=left_out, details=texts, notes=notes
    )


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
        "runs": str(row["pulls"] + row["imported"]),
    }


def _allowed(text: str) -> str:
    """Return a text with all that XML cannot have written out."""
    return "".join(
        c
        if c in "\t\n" or (c >= " " and c not in "￾￿" and not "\ud800" <= c <= "\udfff")
        else ascii(c)[1:-1]
        for c in text
    )
