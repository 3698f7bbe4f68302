"""The answer: for a terminal, as Markdown, HTML, JSON, JUnit XML, annotations and quarantine."""

from __future__ import annotations

import json
import math
import os
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from pathlib import Path

from oddarms.documents import (
    Block,
    Details,
    Heading,
    Literal,
    Paragraph,
    Table,
    to_html,
    to_markdown,
    visible,
)
from oddarms.errors import OddarmsError
from oddarms.files import append_text, write_whole
from oddarms.pytest_plugin._flakiness import ALONE, Case, Flakiness, Kind, excluded_rate
from oddarms.pytest_plugin._sampling import AbnormalTests, FlakyTests
from oddarms.report import MAX_LISTED, Row, table_of_tests
from oddarms.search import TESTS, headline
from oddarms.text import counted, shown

MAX_UNDECIDED = 10
MAX_ANNOTATIONS = 10
"""Of a kind; GitHub shows no more of a step."""
DESELECT = "--deselect="


class Answer:
    """What a session has found, in the words of the question."""

    def __init__(self, sampling: FlakyTests) -> None:
        self.sampling = sampling
        self.settings = sampling.settings
        self.known: Flakiness = sampling.known
        self.result = sampling.result if isinstance(sampling, AbnormalTests) else None
        self.rows = self._rows()

    @property
    def title(self) -> str:
        """The question."""
        asked = "flaky" if self.settings.k is None else "abnormally flaky"
        return f"which tests are {asked}?"

    def _rows(self) -> list[Row]:
        abnormal, undecided = self._decisions()
        rows = []
        for index, nodeid in enumerate(self.sampling.nodeids):
            case, kind = self.known.cases[index], self.known.kind(index)
            if self.settings.k is not None and kind in (Kind.CLEAN, Kind.UNDECIDED):
                kind = Kind.UNDECIDED if nodeid in undecided else Kind.CLEAN
            rows.append(
                Row(
                    nodeid,
                    kind,
                    case.counted.runs,
                    case.counted.failures,
                    case.text,
                    tuple(self._hints(index, kind, case)),
                    case.pace,
                    nodeid in abnormal,
                )
            )
        order = list(Kind)
        return sorted(
            rows, key=lambda row: (order.index(Kind(row.kind)), not row.abnormal, -row.rate)
        )

    def _decisions(self) -> tuple[set[str], set[str]]:
        nodeids = self.sampling.nodeids
        if self.result is not None:
            return set(map(str, self.result.outliers)), set(map(str, self.result.undecided))
        if self.settings.k is not None:
            return set(), set(nodeids)
        return {nodeids[i] for i in self.known.abnormal()}, set()

    def _hints(self, index: int, kind: Kind, case: Case) -> Iterator[str]:
        isolate = "" if self.settings.isolate else "; try --oddarms-isolate"
        alone, again = case.alone, case.again
        if case.unrepeatable:
            yield (
                f"failed in all {again.runs} runs that were not the first in their process, and"
                f" passed alone ({alone.passes} of {alone.runs} runs)"
            )
        elif kind is Kind.FLAKY and case.suspicious:
            yield f"only its first run in a process passed: it may not bear being repeated{isolate}"
        elif kind is Kind.FLAKY and again.runs and not again.passes and alone.passes >= ALONE:
            yield (
                f"passed alone ({alone.passes} of {alone.runs} runs) and failed after other tests:"
                " it depends on what they leave behind"
            )
        elif kind is Kind.FLAKY:
            drift = self.known.drift_text(index)
            if drift:
                yield f"{drift}: something may leak{isolate}"
        memory = self.sampling.memory
        if memory is not None:
            yield from memory.change(self.sampling.nodeids[index], kind)

    # Lists

    def of(self, kind: Kind) -> list[Row]:
        """Return the rows of a kind."""
        return [row for row in self.rows if row.kind is kind]

    @cached_property
    def abnormal(self) -> list[Row]:
        """The rows that stand out."""
        return [row for row in self.rows if row.abnormal]

    @cached_property
    def unrepeatable(self) -> list[Row]:
        """The rows of tests that fail if they run again in the same process."""
        pairs = zip(self.sampling.nodeids, self.known.cases, strict=True)
        found = {nodeid for nodeid, case in pairs if case.unrepeatable}
        return [row for row in self.rows if row.test in found]

    def sections(self) -> list[tuple[str, list[Row]]]:
        """Return the lists of tests, each with its caption."""
        others = [row for row in self.rows if row not in self.unrepeatable]
        undecided = [row for row in others if row.kind is Kind.UNDECIDED]
        undecided.sort(key=lambda row: (-row.failures, row.runs))
        found = [
            ("Flaky", self.of(Kind.FLAKY)),
            ("Broken, always failed", self.of(Kind.BROKEN)),
            ("Cannot be repeated in one process, and passed alone", self.unrepeatable),
            ("No longer flaky", [r for r in others if r.kind is Kind.CLEAN and r.hints]),
            (f"Undecided, {counted(len(undecided), 'test')}", undecided),
        ]
        return [(caption, rows) for caption, rows in found if rows]

    def counts(self) -> dict[str, list[Row]]:
        """Return the rows by the word for them in pytest's last line."""
        others = [row for row in self.rows if row not in self.unrepeatable]
        words = {kind.value: [row for row in others if row.kind is kind] for kind in Kind}
        words["not repeatable"] = self.unrepeatable
        words["left out as skipped"] = words.pop("skipped")  # pytest has "skipped" for reports
        if self.settings.k is not None:
            words["flaky"] = [row for row in words["flaky"] if not row.abnormal]
            clean = words.pop("clean")
            words = {"abnormal": self.abnormal, **words, "normal": clean}
        return words

    @property
    def failing(self) -> int:
        """How many tests make the exit code 1."""
        chosen = self.settings.fail_on
        return sum(
            row.kind in chosen or (row.abnormal and "abnormal" in chosen) for row in self.rows
        )

    # Sentences

    def headline(self) -> list[str]:
        """Return the answer in a few sentences."""
        return self._flaky_headline() if self.settings.k is None else self._abnormal_headline()

    def _flaky_headline(self) -> list[str]:
        flaky, ran = len(self.of(Kind.FLAKY)), len(self.rows) - len(self.of(Kind.SKIPPED))
        if flaky:
            are = "is" if flaky == 1 else "are"
            found = f"{flaky:,} of {counted(ran, 'test')} {are} flaky: passed and failed"
            text = f"{found} on the same code"
        else:
            text = f"no flaky test was found among {ran:,}"
        return [line for line in (text, self.statement()) if line]

    def statement(self) -> str:
        """Return the sharpest true sentence about the tests that have not failed.

        Up to a tenth of them, those with the fewest runs, are left out where that halves the rate.
        """
        known = self.known
        counts = [case.counted for case in known.cases if not case.skipped]
        runs = sorted(seen.runs for seen in counts if not seen.failures)
        if not runs:
            return ""
        rates = [max(excluded_rate(m, known.n, known.delta), known.rate) for m in runs]
        best = rates[len(rates) // 10]
        few = rates.index(best) if best <= max(known.rate, rates[0] / 2.0) else 0
        if rates[few] >= 0.95:
            few = sum(rate >= 0.95 for rate in rates)
            most = runs[few - 1]
            ran = ["did not run", "ran at most once", f"ran at most {most:,} times"][min(most, 2)]
            return f"too few runs to say more: {counted(few, 'test')} {ran}"
        text = (
            f"with probability at least {100.0 * (1.0 - known.delta):g} %, every test that fails in"
            f" {_rounded_up(100.0 * rates[few])} % of its runs or more is listed"
        )
        return f"{text}, but for {counted(few, 'test')} with fewer runs" if few else text

    def _abnormal_headline(self) -> list[str]:
        if self.result is None:
            why = self.sampling.stopped or "at least two tests are needed that can pass"
            return [f"nothing was compared: {why}"]
        threshold = self.result.question.threshold_text("upper")
        return [*headline(self.result, TESTS), f"abnormal: {threshold}"]

    def cost(self) -> list[str]:
        """Return how many runs there were, where they are stored, and why it ended."""
        sampling = self.sampling
        lines = [f"{counted(sampling.runs, 'run')} in {sampling.elapsed:.1f} s"]
        if sampling.stopped:
            lines[0] += f"; ended: {sampling.stopped}"
        memory = sampling.memory
        if memory is not None:
            lines.append(f"stored in {shown(memory.study.storage)} as {shown(memory.study.name)}")
            others = sum(case.stored.runs for case in self.known.cases)
            if others:
                lines[-1] += f", with {counted(others, 'run')} of other sessions"
            if memory.problem:
                lines.append(f"not all runs could be stored: {memory.problem}")
        return lines


def _rounded_up(number: float) -> str:
    """Return a positive number with two digits, not less than it is."""
    unit = 10.0 ** (math.floor(math.log10(number)) - 1)
    return f"{math.ceil(number / unit - 1e-6) * unit:.2g}"


# Files


def write_all(answer: Answer) -> list[str]:
    """Write the files that options ask for; return a line for each, or why it failed."""
    settings, lines = answer.settings, []
    texts: dict[Path, str | bytes] = {}
    if settings.quarantine is not None:
        texts[settings.quarantine] = quarantine(answer, settings.quarantine)
    if settings.out is not None:
        page = to_html("Flaky tests", [Heading("Flaky tests", 1), *blocks(answer)], settings.out)
        texts[settings.out / "junit.xml"] = junit_xml(answer)
        texts[settings.out / "flaky.json"] = json_text(answer)
        texts[settings.out / "report.html"] = page.encode("utf-8", "replace")
    files: dict[Path, Callable[[], object]] = {
        path: partial(write_whole, path, text) for path, text in texts.items()
    }
    if settings.summary is not None:
        summary = to_markdown(blocks(answer))
        files[settings.summary] = partial(append_text, settings.summary, summary)
    for path, write in files.items():
        try:
            write()
            lines.append(f"written: {path}")
        except (OddarmsError, OSError) as error:  # the other files are written nevertheless
            lines.append(f"{path} was not written: {error}")
    return lines


def blocks(answer: Answer) -> list[Block]:
    """Return the answer as a document."""
    first, *more = answer.headline()
    found: list[Block] = [Heading(first, 3), *map(Paragraph, more)]
    for caption, rows in answer.sections():
        undecided = rows[0].kind is Kind.UNDECIDED
        found += table_of_tests(rows, caption, MAX_UNDECIDED if undecided else MAX_LISTED)
    skipped = answer.of(Kind.SKIPPED)
    if skipped:
        names = [[Literal(row.test), Literal(visible(row.last))] for row in skipped]
        table = Table(["test", "why"], names[: 10 * MAX_LISTED], named_rows=True)
        found.append(Details(f"{counted(len(skipped), 'test')} left out as skipped", [table]))
    return [*found, *(Paragraph(Literal(line)) for line in answer.cost())]


def json_text(answer: Answer) -> str:
    """Return everything for programs."""
    settings = answer.settings
    document = {
        "format": "oddarms flaky tests",
        "question": {name: getattr(settings, name) for name in ("rate", "delta", "k")},
        "version": settings.version or None,
        "answer": answer.headline(),
        "ended": answer.sampling.stopped or None,
        "runs": answer.sampling.runs,
        "seconds": round(answer.sampling.elapsed, 3),
        "tests": [row.to_dict() for row in answer.rows],
    }
    return json.dumps(document, indent=1) + "\n"


def quarantine(answer: Answer, path: Path) -> str:
    """Return the flaky tests, as options of pytest in a file for ``pytest @FILE``, or as JSON.

    A test that the file has already stays, unless this session has found it clean or broken.
    """
    names = [row.test for row in answer.of(Kind.FLAKY)]
    found = {*names, *(row.test for row in answer.of(Kind.CLEAN) + answer.of(Kind.BROKEN))}
    names += [name for name in _quarantined(path) if name not in found]
    if path.suffix == ".json":
        return json.dumps({"flaky": names}, indent=1) + "\n"
    return "".join(f"{DESELECT}{name}\n" for name in names if name.isprintable())


def _quarantined(path: Path) -> list[str]:
    """Return the tests that a file of quarantine has; none if it is not such a file."""
    if not path.is_file():
        return []
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix != ".json":
            lines = text.splitlines()
            return [line.removeprefix(DESELECT) for line in lines if line.startswith(DESELECT)]
        return [name for name in json.loads(text)["flaky"] if isinstance(name, str)]
    except (OSError, ValueError, LookupError, TypeError):
        return []


def github_lines(answer: Answer, root: Path) -> Iterable[str]:
    """Yield commands by which GitHub shows tests beside their files."""
    top = os.environ.get("GITHUB_WORKSPACE") or root
    for kind, command in ((Kind.FLAKY, "warning"), (Kind.BROKEN, "error")):
        for row in answer.of(kind)[:MAX_ANNOTATIONS]:
            file = os.path.relpath(root / row.test.partition("::")[0], top)
            text = f"{row.test} failed in {row.failures} of {row.runs} runs. {row.last}"
            properties = f"file={_escaped(file, ':,')},title={kind.value.capitalize()} test"
            yield f"::{command} {properties}::{_escaped(text)}"


def _escaped(text: str, also: str = "") -> str:
    """Return a text as part of a command of GitHub's."""
    return "".join(
        f"%{ord(c):02X}" if c in f"%\r\n{also}" else c
        for c in text.encode(errors="backslashreplace").decode()
    )


def junit_xml(answer: Answer) -> bytes:
    """Return JUnit XML: a case for each test, failed if it is flaky or broken."""
    counts = {
        "tests": len(answer.rows),
        "failures": len(answer.of(Kind.FLAKY) + answer.of(Kind.BROKEN)),
        "errors": 0,
        "skipped": len(answer.of(Kind.SKIPPED)),
    }
    suites = ElementTree.Element("testsuites")
    named = {"name": "oddarms", **{name: str(count) for name, count in counts.items()}}
    suite = ElementTree.SubElement(suites, "testsuite", named)
    suite.extend(map(_case, answer.rows))
    written: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return written


def _case(row: Row) -> ElementTree.Element:
    parts, bracket, parameters = row.test.partition("[")
    path, *classes = parts.split("::")
    name = f"{classes.pop() if classes else path}{bracket}{parameters}"
    place = ".".join([path.removesuffix(".py").replace("/", "."), *classes])
    case = ElementTree.Element(
        "testcase", classname=_allowed(place), name=_allowed(name), time=f"{row.seconds:.3f}"
    )
    properties = ElementTree.SubElement(case, "properties")
    for key, value in row.to_dict().items():
        if key in ("kind", "abnormal", "runs", "failures", "rate", "lower", "upper"):
            text = f"{value:.6g}" if isinstance(value, float) else str(value).lower()
            ElementTree.SubElement(properties, "property", name=f"oddarms.{key}", value=text)
    if row.kind in (Kind.FLAKY, Kind.BROKEN):
        message = f"{row.kind}: failed in {row.failures} of {row.runs} runs"
        failure = ElementTree.SubElement(case, "failure", message=message)
        failure.text = _allowed("\n".join([row.last, *row.hints]))
    elif row.kind is Kind.SKIPPED:
        ElementTree.SubElement(case, "skipped", message=_allowed(row.last))
    return case


def _allowed(text: str) -> str:
    """Return a text with all that XML cannot have written out."""
    return _NOT_IN_XML.sub(lambda found: ascii(found[0])[1:-1], text)


_NOT_IN_XML = re.compile(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
