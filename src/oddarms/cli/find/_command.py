"""``oddarms find``: point it at real things and get the answer."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from oddarms.arms import Table
from oddarms.cli._durations import duration_of
from oddarms.cli._guard import EXIT_UNFINISHED
from oddarms.cli._printing import ResultFormat, note
from oddarms.cli._question import (
    AlgorithmName,
    Control,
    ErrorKind,
    Floor,
    GoalKind,
    Margin,
    QuantileShare,
    RuleChoice,
    SideName,
    words_of,
)
from oddarms.cli.find._folder import folders_of, usual_folder
from oddarms.cli.find._junit import (
    Junit,
    JunitReader,
    MoreFiles,
    Reruns,
    RerunsName,
)
from oddarms.cli.find._remembered import check_source, of_table, sampling, set_aside
from oddarms.cli.find._sources import Occupied, reward_meanings
from oddarms.cli.find._studies import (
    import_table,
    opened,
    say_going_on,
    storage_in,
    stored_study,
)
from oddarms.cli.find._tables import (
    Encoding,
    MissingChoice,
    MissingName,
    Successes,
    TableReader,
    Trials,
)
from oddarms.cli.sampling import (
    USUAL_PATIENCE,
    Above,
    Batch,
    Clip,
    FailureCodes,
    Jobs,
    OnErrorChoice,
    OnErrorName,
    Output,
    Patience,
    Pull,
    Python,
    Quiet,
    Run,
    Shell,
    Timeout,
    function_of,
    limits_of,
    say_clipped,
    with_transform,
)
from oddarms.errors import InvalidParameter
from oddarms.files import writable_folder
from oddarms.finding import find as find_in_memory
from oddarms.interrupts import uninterrupted
from oddarms.problem import DEFAULT_DELTA, DEFAULT_K
from oddarms.search import Result, Search, Status, patiently
from oddarms.tables import RecordedArms, read_labels


class PopulationName(StrEnum):
    """What the means are of: all samples that could be made, or the table's rows."""

    UNLIMITED = "unlimited"
    ROWS = "rows"


def find(
    more_files: MoreFiles = None,
    arms: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|-|A,B,C", help="The things: a file with one a line, - for stdin, a list."
        ),
    ] = None,
    pull: Pull = None,
    python: Python = None,
    table: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Recorded samples, CSV, Excel or Parquet, one a row."),
    ] = None,
    arm: Annotated[
        str, typer.Option(metavar="COLUMN", help="The table's column of things.")
    ] = "arm",
    reward: Annotated[
        str | None,
        typer.Option(
            metavar="exit-code|stdout|COLUMN",
            help="With --pull: exit-code (1 if the command fails; the default) or stdout (the"
            " number in its last line). With --table: the column of rewards (by default `reward`).",
        ),
    ] = None,
    reward_column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The table's column, where --reward speaks of --pull."),
    ] = None,
    junit: Junit = None,
    reruns: Reruns = RerunsName.first,
    successes: Successes = None,
    trials: Trials = None,
    encoding: Encoding = None,
    missing: MissingChoice = MissingName.stop,
    population: Annotated[
        PopulationName,
        typer.Option(
            help="rows: the table's rows are all there is, and a mean is that of all its rows."
        ),
    ] = PopulationName.UNLIMITED,
    k: Annotated[
        float | None,
        typer.Option(
            help="Abnormal: mean + K standard deviations or more.", show_default=f"{DEFAULT_K:g}"
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            help="Permitted probability of any wrong answer.", show_default=f"{DEFAULT_DELTA:g}"
        ),
    ] = None,
    bounds: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="The smallest and the largest possible reward.",
            show_default="0,1",
        ),
    ] = None,
    clip: Clip = None,
    above: Above = None,
    side: Annotated[
        SideName | None, typer.Option(help="Which side is abnormal.", show_default="upper")
    ] = None,
    margin: Margin = None,
    floor: Floor = None,
    rule: RuleChoice = None,
    control: Control = None,
    quantile: QuantileShare = None,
    error: ErrorKind = None,
    goal: GoalKind = None,
    jobs: Jobs = 1,
    timeout: Timeout = None,
    failure_codes: FailureCodes = None,
    on_error: OnErrorChoice = OnErrorName.stop,
    patience: Patience = USUAL_PATIENCE,
    budget: Annotated[int | None, typer.Option(min=0, help="At most this many samples.")] = None,
    algorithm: AlgorithmName = None,
    indifference: Annotated[
        float | None,
        typer.Option(help="Things this close to the threshold may be called either way (spade)."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Decides the algorithm's choices.")
    ] = None,
    study: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A study to go on with, or to make; see --storage."),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where the study is; by default study.db in --out."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for the search and its answer: result.json, arms.csv, report.html.",
            show_default="one in output/ that is named after the question",
        ),
    ] = None,
    format: Annotated[  # noqa: A002 - the option's name
        ResultFormat, typer.Option("--format", help="What to print: a table, JSON, CSV, Markdown.")
    ] = ResultFormat.table,
    shell: Shell = False,
    batch: Batch = False,
    raw_csv: Annotated[
        bool, typer.Option("--raw-csv", help="No apostrophe before labels like =1 in arms.csv.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Sample anew; the old search in --out is kept aside.")
    ] = False,
    same_source: Annotated[
        bool,
        typer.Option("--same-source", help="What was changed, such as --pull, measures the same."),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Find the abnormal ones: sample things, as little as possible, until each is decided.

    A thing is abnormal if its mean reward lies at or above mean + K standard deviations of all
    things' means, and at least MARGIN above their mean. The whole answer is right with probability
    at least 1 - DELTA.

    Every sample is stored the moment it is there. Stopped by Ctrl-C, a failure or a power cut, the
    same command goes on where it was. Ctrl-C, SIGTERM and SIGHUP end it cleanly, with the commands
    under way; a second one ends it at once.

    Exit codes: 0 every thing is decided, or the budget was the goal, 3 not (the budget or the
    table ended), 1 a sample failed, 2 bad usage, 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.

    \b
    Try:
      oddarms find --arms tests.txt --pull 'pytest -q {arm}' --timeout 60
      oddarms find --arms hosts --pull './ping {arm}' --reward stdout --clip 0,10
      oddarms find --table answers.csv --arm worker --reward wrong
      oddarms find --table log.csv --arm host --reward seconds --above 0.5
      oddarms find --arms hosts.txt --python checks:probe --budget 10000
      oddarms find --junit 'runs/*.xml' --format markdown
    """  # noqa: D301 - the \\b keeps click from filling the lines below it
    limits, transform = limits_of(bounds, clip, above)
    words = words_of(
        k=k,
        delta=delta,
        bounds=limits,
        side=side,
        rule=rule,
        margin=margin,
        floor=floor,
        control=control,
        quantile=quantile,
        error=error,
        goal=goal,
        algorithm=algorithm,
        budget=budget,
        indifference=indifference,
    )
    kind, column = reward_meanings(reward, reward_column, pull=pull, table=table)
    function = function_of(pull, python, kind, timeout, failure_codes, shell=shell, batch=batch)
    if transform is not None and function is not None:
        function = with_transform(function, transform, kind if pull is not None else "", batch)
    named = reward_column is not None or (reward is not None and pull is None)
    reader: TableReader | JunitReader
    reader = TableReader(table, arm, column, successes, trials, encoding, missing, transform)
    reader.check(named=named, files=bool(junit))
    if junit or more_files or reruns is not RerunsName.first:
        reader = JunitReader.of(junit, more_files, reruns, reader, named=named)
    if not quiet and transform is not None:
        note(transform.meaning())
    recorded_too = table is not None or bool(junit)
    _check_things(arms, study, recorded=recorded_too, sampled=function is not None)
    rows = population is PopulationName.ROWS
    if rows and (function is not None or table is None or study is not None):
        raise InvalidParameter(
            "--population must be rows only with --table, and without --pull, --python and"
            " --study, but got another source: the rows are all there is."
        )
    labels = None if arms is None else list(read_labels(arms))
    columns = {"arm": arm, "column": column, "successes": successes, "trials": trials}
    columns["missing"] = missing.value
    ways: dict[str, Any] = {
        "pull": pull,
        "python": python,
        "reward": kind if pull is not None else None,
        "shell": shell,
        "above": above,
    }
    asked = {
        **ways,
        **(columns if table is not None else {}),
        "junit": folders_of([*(junit or ()), *(more_files or ())]),
        "reruns": reruns.value,
        "population": population.value,
        "study": study,
        "storage": storage,
        "seed": seed,
    }
    out = out or usual_folder(words, asked, arms, labels, table)
    writable_folder("--out", out)
    output = Output(out, format, quiet, raw_csv)
    if function is None and study is None:
        with Occupied(out):
            set_aside(out, storage, wanted=fresh, quiet=quiet)
        proof = reader.read(limits, side, quiet=quiet)
        say_clipped(transform, quiet=quiet)
        result = (_of_rows if rows else _from_table)(proof, labels, words, seed)
    else:
        where = storage_in(out, storage)
        with Occupied(out):
            set_aside(out, storage, wanted=fresh, quiet=quiet)
            waits = duration_of("patience", patience)
            stored = patiently(lambda: stored_study(study, where), waits)
            recorded = None
            if recorded_too:
                known = (limits, side) if stored is None else (stored.bounds, stored.question.side)
                recorded = reader.read(limits or known[0], side or known[1], quiet=quiet)
            failing: dict[str, Any] = {"on_error": on_error.value, "timeout": timeout}
            made = sampling(out, **ways, failure_codes=failure_codes, **failing)
            read = of_table(recorded if table is not None else None, **columns, above=above)
            patiently(lambda: check_source(stored, out, made, read, same=same_source), waits)
            found = patiently(lambda: opened(study, where, labels, recorded, words, seed), waits)
            if not quiet and function is not None:
                say_going_on(found, here=storage is None)
            if recorded is not None:
                import_table(found, recorded, reader.key_of(recorded), quiet=quiet)
            run = Run(found, jobs, on_error, waits, output, batch=batch)
            try:
                result = run.until_done(function)
            finally:
                say_clipped(transform, quiet=quiet)
    with uninterrupted():
        output.write(result, reader.subject)
    output.show(result, reader.subject, reader.left_out)
    output.say_where()
    if not result.complete and result.question.goal != "budget":
        raise typer.Exit(EXIT_UNFINISHED)


def _check_things(arms: str | None, study: str | None, *, recorded: bool, sampled: bool) -> None:
    """Raise if nothing says what the things are, or how to sample them."""
    if not recorded and arms is None and study is None:
        raise InvalidParameter(
            "one of --arms, --table, --junit and --study must say what the things are but got none."
        )
    if not recorded and not sampled and study is None:
        raise InvalidParameter(
            "one of --pull, --python, --table and --junit must say how to sample but got none."
        )


def _from_table(
    recorded: RecordedArms, labels: list[str] | None, words: dict[str, Any], seed: int | None
) -> Result:
    """Say what recorded samples prove, without a study."""
    search = Search(list(recorded.labels) if labels is None else labels, rng=seed, **words)
    search.import_rewards(recorded.records or {})
    search.stop(Status.ENDED)
    return search.result()


def _of_rows(
    recorded: RecordedArms, labels: list[str] | None, words: dict[str, Any], seed: int | None
) -> Result:
    """Look at rows in a random order until it is known which things have abnormal means."""
    records = recorded.records or {}
    missing = next((label for label in labels or () if label not in records), None)
    if missing is not None:
        raise InvalidParameter(
            f"--arms must be things of the table where --population is rows but {missing!r} has no"
            f" row in {recorded.source}."
        )
    chosen = records if labels is None else {label: records[label] for label in labels}
    return find_in_memory(Table(chosen, population="rows"), rng=seed, **words)
