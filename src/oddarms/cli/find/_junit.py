"""The history of tests that ``oddarms find`` reads from JUnit reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar

import typer

from oddarms.cli._printing import note
from oddarms.cli.find._tables import MissingName, TableReader
from oddarms.cli.sampling import Bounds
from oddarms.errors import InvalidParameter
from oddarms.reports import LeftOut
from oddarms.search import TESTS, Subject
from oddarms.tables import RecordedArms, RunCount, RunHistory, read_junit
from oddarms.text import counted, shown

MOST_NAMED = 5


class RerunsName(StrEnum):
    """Which executions of a test in one run count."""

    first = "first"
    all = "all"


Junit = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILES...", help="JUnit XML of many CI runs: files, folders or a 'pattern/*.xml'."
    ),
]
Reruns = Annotated[
    RerunsName,
    typer.Option(
        help="With --junit, of a test's executions in one run: the first counts, as others exist"
        " because it failed; or all."
    ),
]
MoreFiles = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILES", help="More files of --junit.", hidden=True),
]


@dataclass
class JunitReader:
    """How a history is read.

    Attributes
    ----------
    sources
        Files, folders and patterns.
    reruns
        Which executions count.
    skip
        Whether files that are no reports are left out.
    history
        What was read.
    """

    sources: Sequence[str]
    reruns: RerunsName
    skip: bool
    history: RunHistory | None = None
    subject: ClassVar[Subject] = TESTS

    @classmethod
    def of(
        cls,
        sources: Sequence[str] | None,
        more: Sequence[str] | None,
        reruns: RerunsName,
        table: TableReader,
        *,
        named: bool,
    ) -> JunitReader:
        """Return how to read the files; refuse what does not go with them.

        `more` are those that a shell has made of a pattern without quotes, and `table` has the
        options that speak of a table; `named` is whether a column of rewards is.
        """
        if not sources:
            what = shown(more[0]) if more else "--reruns"
            about = "one of whose files it may be" if more else "which it is about"
            raise InvalidParameter(
                f"{what} must be given together with --junit, {about}, but got none."
            )
        others = {
            "--table": table.table is not None,
            "--arm": table.arm != "arm",
            "--reward": named,
            "--clip and --above": table.transform is not None,
            "--missing worst": table.missing is MissingName.worst,
        }
        for option, given in others.items():
            if given:
                raise InvalidParameter(
                    f"{option} must be left out with --junit but got both: a sample of a run"
                    " is 1 if it failed and else 0."
                )
        return cls([*sources, *(more or ())], reruns, table.missing is MissingName.skip)

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """The tests that are not compared."""
        return () if self.history is None else left_out(self.history)

    def key_of(self, recorded: RecordedArms) -> str:
        """Return what an import is called: a search has one history."""
        del recorded
        return "junit"

    def read(self, bounds: Bounds | None, side: str | None, *, quiet: bool) -> RecordedArms:
        """Return the samples, and say what is to be known about them."""
        del bounds, side
        self.history = read_junit(
            self.sources, reruns=self.reruns.value, damaged="skip" if self.skip else "stop"
        )
        if not quiet:
            self._say(self.history)
        return self.history.recorded(self._name)

    @property
    def _name(self) -> str:
        more = f" and {len(self.sources) - 1:,} more" if len(self.sources) > 1 else ""
        return f"{self.sources[0]}{more}"

    def _say(self, history: RunHistory) -> None:
        files, tests = counted(history.files, "file"), counted(len(history), "test")
        runs = counted(history.samples, "run")
        note(f"{shown(self._name)}: {files}, {tests} with {runs} after the first pass of each")
        for file in list(history.damaged)[:MOST_NAMED]:
            note(f"left out: {history.damaged[file]}")
        if history.damaged:
            many = counted(len(history.damaged), "file")
            note(f"{many} left out: sound only if that has nothing to do with tests that fail")
        if history.reruns:
            are = "rerun does" if history.reruns == 1 else "reruns do"
            note(f"{history.reruns:,} {are} not count (--reruns all counts them)")
        if history.copies:
            like = "has" if history.copies == 1 else "have"
            note(
                f"{counted(history.copies, 'file')} {like} the bytes of another: if they are the"
                " same run, take them out, as each must count once"
            )
        for group in left_out(history):
            names = ", ".join(shown(name) for name, _ in group.things[:MOST_NAMED])
            more = ", ..." if len(group.things) > MOST_NAMED else ""
            many = counted(len(group.things), "test")
            note(f"{many} left out of the comparison, {group.title}: {names}{more}")


def left_out(history: RunHistory) -> tuple[LeftOut, ...]:
    """Return the tests that are not compared with the others."""
    groups = [
        LeftOut("broken, not flaky (never passed)", _each(history.placed("broken"))),
        LeftOut("always skipped", _each(history.placed("skipped"))),
    ]
    return tuple(group for group in groups if group.things)


def _each(tests: list[RunCount]) -> list[tuple[str, str]]:
    def why(test: RunCount) -> str:
        if not test.runs:
            return ""
        return "its only run failed" if test.runs == 1 else f"all {test.runs:,} runs failed"

    return [(test.test, why(test)) for test in tests]
