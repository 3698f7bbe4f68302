"""``oddarms analyze``: what recorded data prove."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from oddarms.analysis import analyze as analyze_data
from oddarms.cli import _options as opts
from oddarms.cli._options import Argument, Given, Options, command, flag, option
from oddarms.cli._sampling import Output
from oddarms.cli._terminal import EXIT_UNFINISHED, note
from oddarms.errors import InvalidParameter
from oddarms.files import writable_folder
from oddarms.report import Row
from oddarms.search import TESTS, LeftOut
from oddarms.tables import Reruns, RunCount, RunHistory, read_junit
from oddarms.text import counted, shown

MAX_NAMED = 5

COLUMNS: Options = (
    option(
        "--arm COLUMN",
        str,
        "The column of items; repeat it to combine columns.",
        "arm",
        multiple=True,
    ),
    option("--reward COLUMN", str, "The column of values, one per row.", "reward"),
    option("--trials COLUMN", str, "For counts: the column with the number of samples."),
    option("--events COLUMN", str, "For counts: the column with the number of ones."),
    option("--count COLUMN", str, "For sums: the column with the number of samples."),
    option("--total COLUMN", str, "For sums: the column with the sum of the values."),
    option("--squares COLUMN", str, "For sums: the column with the sum of their squares."),
    option(
        "--encoding NAME",
        str,
        "Encoding of a text file, such as latin-1.",
        "UTF-8, or what the first bytes say",
    ),
    option(
        "--missing",
        Literal["stop", "skip", "worst"],
        "A row without a value: stop; skip it, which is sound only if being missing has nothing to"
        " do with the value; or count it as the worst value.",
        "stop",
    ),
    option("--min-rows N", int, "Leave out items with fewer rows.", "1"),
    option(
        "--method",
        Literal["proven", "calibrated"],
        "proven: holds for any values within the bounds. calibrated: decides more; its error was"
        " measured in simulations.",
        "proven",
    ),
    option("--looks N", int, "How often you will analyze these data; divides delta.", "1"),
    flag("--finite-population", "The rows are the whole population: compare their exact means."),
)
"""How data are read and judged, by the names of the parameters of `oddarms.analyze`."""


@command(
    None,
    "analyze",
    Argument("files", "CSV, Excel or Parquet; - for stdin.", metavar="[FILE]...", nargs=-1),
    option(
        "--junit FILES",
        str,
        "JUnit XML of many CI runs: files, folders or a 'pattern/*.xml'.",
        multiple=True,
    ),
    option(
        "--reruns",
        Reruns,
        "With --junit: count the first execution of a test in a run, or all.",
        default="first",
    ),
    *COLUMNS,
    *opts.TRANSFORMS,
    *opts.QUESTION,
    option("--out DIR", Path, "Folder for result.json, arms.csv and report.html."),
    opts.RESULT_FORMAT,
    opts.ALL,
    opts.QUIET,
)
def analyze(given: Given) -> None:
    """Analyze recorded data: which items are abnormal, and what would decide the rest.

    By default an item is abnormal if its mean lies at or above mean + K standard deviations of all
    means, and at least MARGIN above their mean; --rule has other definitions. The whole answer is
    right with probability at least 1 - DELTA if rows are independent and the number of rows of an
    item was not chosen by looking at its values.

    Exit codes: 0 every item is decided; 3 some are undecided; 2 bad usage.

    \b
    Examples:
      oddarms analyze answers.csv --arm worker --reward wrong
      oddarms analyze log.parquet --arm carrier --arm dest --reward late
      oddarms analyze log.csv --arm host --reward seconds --above 0.5
      oddarms analyze counts.csv --arm host --trials requests --events errors
      oddarms analyze --junit 'runs/*.xml' --format markdown
    """  # noqa: D301 - the \\b keeps click from filling the lines below it
    words = opts.words_of(given)
    options = {o.name: value for o in COLUMNS if (value := getattr(given, str(o.name)))}
    transform = opts.transform_of(words, given)
    if transform is not None:
        options |= {"clip": transform.clip, "above": transform.above}
        del words["bounds"]
    if given.out is not None:
        writable_folder("--out", given.out)
    output = Output(given.out, given.how, given.quiet, {"every": given.every})
    if given.junit:
        sources = [*given.junit, *(given.files or ())]
        history = _history(sources, given.reruns, options, quiet=given.quiet)
        shows = {**output.words, "subject": TESTS, "left_out": _left_out(history)}
        output = replace(output, words=shows, flaky=_flaky(history))
        result = analyze_data(history, **options, **words)
    else:
        with opts.file_of(_one(given.files)) as path:
            result = analyze_data(path, **options, **words)
    output.finish(result)
    if not result.complete:
        sys.exit(EXIT_UNFINISHED)


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
    if history.outages:
        names = ", ".join(shown(name) for name in history.outages[:MAX_NAMED])
        note(f"set aside as outages, half of the tests failed: {names}; the answer is about others")
    for group in _left_out(history):
        names = ", ".join(shown(name) for name, _ in group.items[:MAX_NAMED])
        more = ", ..." if len(group.items) > MAX_NAMED else ""
        note(f"{counted(len(group.items), 'test')} not compared, {group.title}: {names}{more}")


def _flaky(history: RunHistory) -> list[Row]:
    proven = set(history.flaky)
    rows = [
        Row(one.test, "flaky", one.runs, one.failures, history.last.get(one.test, ""))
        for one in history.counts
        if one.test in proven
    ]
    return sorted(rows, key=lambda row: -row.rate)


def _left_out(history: RunHistory) -> list[LeftOut]:
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
