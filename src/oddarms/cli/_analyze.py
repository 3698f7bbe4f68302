"""``oddarms analyze``: what recorded data prove."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from oddarms.analysis import analyze as analyze_data
from oddarms.cli._options import (
    QUESTION,
    TRANSFORMS,
    Options,
    QuietOption,
    ResultFormatOption,
    file_of,
    flag,
    option,
    transform_of,
    with_options,
    words_of,
)
from oddarms.cli._sampling import Output
from oddarms.cli._terminal import EXIT_UNFINISHED, note
from oddarms.errors import InvalidParameter
from oddarms.files import writable_folder
from oddarms.search import TESTS, LeftOut
from oddarms.tables import RunCount, RunHistory, read_junit
from oddarms.text import counted, shown

MAX_NAMED = 5

COLUMNS: Options = {
    "arm": option(list[str], "The column of items; may be repeated.", "arm", metavar="COLUMN"),
    "reward": option(str, "The column of values, one a row.", "reward", metavar="COLUMN"),
    "trials": option(str, "For counts: the column of all samples ...", metavar="COLUMN"),
    "events": option(str, "... and that of samples that are 1.", metavar="COLUMN"),
    "count": option(str, "For sums: the column of numbers of samples ...", metavar="COLUMN"),
    "total": option(str, "... that of sums of values ...", metavar="COLUMN"),
    "squares": option(str, "... and that of sums of squared values.", metavar="COLUMN"),
    "encoding": option(
        str, "Of a text file, such as latin-1 or utf-16.", "found out", metavar="NAME"
    ),
    "missing": option(
        Literal["stop", "skip", "worst"],
        "A row without a value: stop; skip it, which is sound only if being missing has nothing to"
        " do with the value; or count it as the worst value.",
        "stop",
    ),
    "min_rows": option(int, "Leave out items with fewer rows.", "1", min=1),
    "method": option(
        Literal["proven", "calibrated"],
        "proven: holds for any values within the bounds. calibrated: decides more; its error was"
        " measured in simulations.",
        "proven",
    ),
    "looks": option(
        int, "How often these data will be analyzed as they grow; divides delta.", "1", min=1
    ),
    "finite_population": flag(
        "finite-population", "The rows are all there is: compare their exact means."
    ),
}
"""How data are read and judged, by the names of the parameters of `oddarms.analyze`."""


@with_options(columns=COLUMNS, transforms=TRANSFORMS, asked=QUESTION)
def analyze(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE", help="CSV, Excel or Parquet, - for stdin.", show_default=False
        ),
    ] = None,
    junit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILES...",
            help="JUnit XML of many CI runs: files, folders or a 'pattern/*.xml'.",
            show_default=False,
        ),
    ] = None,
    reruns: Annotated[
        Literal["first", "all"],
        typer.Option(
            help="With --junit: of a test's executions in one run, count the first or all."
        ),
    ] = "first",
    columns: Any = None,
    transforms: Any = None,
    asked: Any = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for result.json, arms.csv and report.html."),
    ] = None,
    format: ResultFormatOption = "table",  # noqa: A002 - the option's name
    every: Annotated[bool, typer.Option("--all", help="List normal items, too.")] = False,
    raw_csv: Annotated[
        bool, typer.Option("--raw-csv", help="No apostrophe before labels like =1 in arms.csv.")
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Analyze recorded data: which items are abnormal, and what would decide the rest.

    An item is abnormal if its mean lies at or above mean + K standard deviations of all means, and
    at least MARGIN above their mean. The whole answer is right with probability at least 1 - DELTA,
    if rows are independent and how many an item has was not decided by looking at them.

    Exit codes: 0 every item is decided; 3 some are undecided; 2 bad usage.

    \b
    Examples:
      oddarms analyze answers.csv --arm worker --reward wrong
      oddarms analyze log.parquet --arm carrier --arm dest --reward late
      oddarms analyze log.csv --arm host --reward seconds --above 0.5
      oddarms analyze counts.csv --arm host --trials requests --events errors
      oddarms analyze --junit 'runs/*.xml' --format markdown
    """  # noqa: D301 - the \\b keeps click from filling the lines below it
    words = words_of(asked)
    options = {name: value for name, value in columns.items() if value}
    transform = transform_of(words, **transforms)
    if transform is not None:
        options |= {"clip": transform.clip, "above": transform.above}
        del words["bounds"]
    if out is not None:
        writable_folder("--out", out)
    output = Output(out, format, quiet, raw_csv, every=every)
    with ExitStack() as stack:
        if junit:
            data = _history([*junit, *(files or ())], reruns, options, quiet=quiet)
            left_out = _left_out(data)
            output = Output(out, format, quiet, raw_csv, TESTS, left_out, every=every)
            result = analyze_data(data, **options, **words)
        else:
            path = stack.enter_context(file_of(_one(files)))
            result = analyze_data(path, **options, **words)
    output.finish(result)
    if not result.complete:
        raise typer.Exit(EXIT_UNFINISHED)


def _one(files: list[str] | None) -> str:
    if not files:
        raise InvalidParameter("Give a file, - for stdin, or --junit.")
    if len(files) > 1:
        raise InvalidParameter(f"Give one file, or --junit before JUnit files; got {len(files)}.")
    return files[0]


# JUnit reports


def _history(
    sources: Sequence[str], reruns: Any, options: dict[str, Any], *, quiet: bool
) -> RunHistory:
    """Read JUnit reports, and say what is to be known about them."""
    skip = options.pop("missing", "stop") == "skip"
    allowed = {"min_rows", "method", "looks"}
    given = [name for name, value in options.items() if value is not None and name not in allowed]
    if given:
        raise InvalidParameter(
            f"--{given[0].replace('_', '-')} cannot be combined with --junit: a run of a test is 1"
            " if it failed, else 0."
        )
    history = read_junit(sources, reruns=reruns, damaged="skip" if skip else "stop")
    if not quiet:
        more = f" and {len(sources) - 1:,} more" if len(sources) > 1 else ""
        _say(f"{shown(sources[0])}{more}", history)
    return history


def _say(name: str, history: RunHistory) -> None:
    files, tests = counted(history.files, "file"), counted(len(history), "test")
    note(f"{name}: {files}, {tests} with {counted(history.samples, 'run')} after their first pass")
    for reason in list(history.damaged.values())[:MAX_NAMED]:
        note(f"left out: {reason}")
    if history.damaged:
        many = counted(len(history.damaged), "file")
        note(f"{many} left out: sound only if that has nothing to do with tests that fail")
    if history.reruns:
        note(f"{counted(history.reruns, 'rerun')} not counted; --reruns all counts them")
    if history.copies:
        note(
            f"{counted(history.copies, 'file')} with the same content as another: if they are the"
            " same run, remove them"
        )
    for group in _left_out(history):
        names = ", ".join(shown(name) for name, _ in group.items[:MAX_NAMED])
        more = ", ..." if len(group.items) > MAX_NAMED else ""
        note(f"{counted(len(group.items), 'test')} not compared, {group.title}: {names}{more}")


def _left_out(history: RunHistory) -> list[LeftOut]:
    """Return the tests that are not compared with the others."""
    groups = [
        LeftOut("broken, not flaky (never passed)", _each(history.placed("broken"))),
        LeftOut("always skipped", _each(history.placed("skipped"))),
    ]
    return [group for group in groups if group.items]


def _each(tests: Sequence[RunCount]) -> list[tuple[str, str]]:
    def why(test: RunCount) -> str:
        if not test.runs:
            return ""
        return "its only run failed" if test.runs == 1 else f"all {test.runs:,} runs failed"

    return [(test.test, why(test)) for test in tests]
