"""Executions of tests in one XML report, read as a stream: JUnit's format and its dialects.

A report is hostile input. It may declare no entities and no document type, so that it can neither
bring a bomb nor name other files; how deep elements are and how large one may be is limited.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from xml.parsers import expat

from oddarms.errors import InvalidParameter
from oddarms.tables._values import shown

PIECE = 2**18
"""Bytes that are read at a time."""
MOST_BYTES = 2**24
"""Of one tag with its attributes, or one comment; what stands between tags may be larger."""
MOST_DEPTH = 200
MOST_CHARACTERS = 10_000
"""Of a name."""

ROOTS = frozenset({"testsuites", "testsuite", "assemblies", "assembly", "test-run"})
_SUITES = frozenset({"testsuite", "assembly", "test-suite"})
_CASES = frozenset({"testcase", "test", "test-case"})
"""Of JUnit, of xUnit.net and of NUnit."""
_FAILED = frozenset({"fail", "failed", "failure", "error"})
_SKIPPED = frozenset({"skip", "skipped", "ignored", "notrun", "disabled", "inconclusive"})
_CLASS_NAMES = ("classname", "class", "type")


class Key(NamedTuple):
    """What tells a test from all others."""

    suite: str
    classname: str
    name: str
    file: str


class Case(NamedTuple):
    """A test in a report.

    Attributes
    ----------
    key
        Which test it is.
    moment
        The timestamp of its suite: other moments in one file are other runs.
    reward
        1 if the last execution that the element tells of failed, 0 if not, None if it was skipped.
    before, after
        Executions that failed before it (Surefire's flakyFailure) and after it (rerunFailure).
    by_pytest
        Whether pytest has written it, whose rerun plugin leaves failures out that were followed by
        another execution.
    at_teardown
        Whether it is the second element of a test that has failed, of its teardown.
    """

    key: Key
    moment: str
    reward: float | None
    before: int
    after: int
    by_pytest: bool
    at_teardown: bool


class _Suite(NamedTuple):
    """A suite whose element is open."""

    name: str
    moment: str
    by_pytest: bool


@dataclass
class _Open:
    """A test whose element is open."""

    key: Key
    depth: int
    failed: bool
    skipped: bool
    before: int = 0
    after: int = 0
    at_teardown: bool = False


class Report:
    """Reads one report piece by piece.

    Parameters
    ----------
    name
        Of the file, for messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._cases: list[Case] = []
        self._suites: list[_Suite] = []
        self.hash = hashlib.sha256()
        self._depth = 0
        self._test: _Open | None = None
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._begin
        self._parser.EndElementHandler = self._end
        self._parser.StartDoctypeDeclHandler = self._refuse_declarations
        self._parser.EntityDeclHandler = self._refuse_declarations

    def cases(self, file: Any) -> Iterator[Case]:
        """Return the tests of an open file, in order."""
        size = 0
        try:
            while piece := file.read(PIECE):
                size += len(piece)
                self.hash.update(piece)
                self._parser.Parse(piece, False)
                yield from self._taken()
                if size - self._parser.CurrentByteIndex > MOST_BYTES:
                    raise self._wrong(f"a tag must have at most {MOST_BYTES:,} bytes but has more")
            if not size:
                raise InvalidParameter(f"{self.name} must be a report in XML but is empty.")
            self._parser.Parse(b"", True)
        except expat.ExpatError as error:
            why = expat.ErrorString(error.code) if error.code else "it is not"
            ended = self._depth and error.code in _CUT_OFF
            raise InvalidParameter(
                f"{self.name}, line {error.lineno}: the file must be XML but is not: "
                f"{'it is cut off' if ended else why}."
            ) from None
        except InvalidParameter:
            raise
        except (LookupError, ValueError) as error:  # an encoding that Python does not know, or NUL
            raise InvalidParameter(
                f"{self.name} must be XML in an encoding that is known but is not: {error}."
            ) from None
        yield from self._taken()

    def _taken(self) -> list[Case]:
        taken, self._cases = self._cases, []
        return taken

    def _wrong(self, rule: str) -> InvalidParameter:
        line = self._parser.CurrentLineNumber
        return InvalidParameter(f"{self.name}, line {line}: {rule}.")

    def _refuse_declarations(self, *_: object) -> None:
        raise self._wrong(
            "a report must not declare a document type or entities but does: they could name other"
            " files, or become very large"
        )

    def _begin(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(":")[2]
        self._depth += 1
        if self._depth == 1:
            self._check_root(tag)
        if self._depth > MOST_DEPTH:
            raise self._wrong(f"elements must be at most {MOST_DEPTH} deep but are deeper")
        if tag in _SUITES or self._depth == 1:
            self._begin_suite(tag, attributes)
        elif tag in _CASES and self._test is None:
            self._begin_case(attributes)
        elif self._test is not None and self._depth == self._test.depth + 1:
            _note(self._test, tag, attributes)

    def _check_root(self, tag: str) -> None:
        if tag not in ROOTS:
            raise self._wrong(
                "a report must begin with testsuites or testsuite, as JUnit's do, but begins with"
                f" {shown(tag)}"
            )

    def _begin_suite(self, tag: str, attributes: dict[str, str]) -> None:
        name = self._short(attributes.get("name", "") if tag in _SUITES else "")
        outer = self._suites[-1] if self._suites else _Suite("", "", by_pytest=False)
        moment = self._short(attributes.get("timestamp", "")) or outer.moment
        by_pytest = outer.by_pytest or (tag, attributes.get("name")) in _BY_PYTEST
        self._suites.append(_Suite(name, moment, by_pytest))

    def _begin_case(self, attributes: dict[str, str]) -> None:
        classname = next((attributes[name] for name in _CLASS_NAMES if name in attributes), "")
        key = Key(
            self._suites[-1].name,
            self._short(classname.strip()),
            self._short(attributes.get("name", "").strip()),
            self._short(attributes.get("file", "").strip()),
        )
        words = {attributes.get(name, "").casefold() for name in ("result", "status")}
        self._test = _Open(key, self._depth, bool(words & _FAILED), bool(words & _SKIPPED))

    def _short(self, text: str) -> str:
        if len(text) > MOST_CHARACTERS:
            raise self._wrong(
                f"a name must have at most {MOST_CHARACTERS:,} characters but one has {len(text):,}"
            )
        return text

    def _end(self, tag: str) -> None:
        tag = tag.rpartition(":")[2]
        test = self._test
        if test is not None and self._depth == test.depth:
            reward = 1.0 if test.failed else None if test.skipped else 0.0
            suite = self._suites[-1]
            moment, by_pytest = suite.moment, suite.by_pytest
            reruns = test.before, test.after
            self._cases.append(Case(test.key, moment, reward, *reruns, by_pytest, test.at_teardown))
            self._test = None
        elif tag in _SUITES or self._depth == 1:
            self._suites.pop()
        self._depth -= 1


_CUT_OFF = {
    expat.errors.codes[text]
    for text in (
        expat.errors.XML_ERROR_NO_ELEMENTS,
        expat.errors.XML_ERROR_UNCLOSED_TOKEN,
        expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION,
        expat.errors.XML_ERROR_PARTIAL_CHAR,
    )
}
_BY_PYTEST = {("testsuites", "pytest tests"), ("testsuite", "pytest")}


def _note(test: _Open, tag: str, attributes: dict[str, str]) -> None:
    """Take note of what an element in a test says of it."""
    if tag in ("failure", "error"):
        test.failed = True
        test.at_teardown = attributes.get("message", "").startswith("failed on teardown")
    elif tag in ("flakyFailure", "flakyError"):
        test.before += 1
    elif tag in ("rerunFailure", "rerunError"):
        test.after += 1
    elif tag == "skipped":
        # what pytest expects to fail, and did, has been run and is as it should be
        test.skipped = attributes.get("type") != "pytest.xfail"
