"""``oddarms find``: point it at real things and get the answer."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from oddarms.arms import Table
from oddarms.cli._durations import duration_of
from oddarms.cli._guard import EXIT_UNFINISHED
from oddarms.cli._printing import Format, note
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
    with_margin,
    words_of,
)
from oddarms.cli.find._output import show, write
from oddarms.cli.find._remembered import Source, check_source, set_aside
from oddarms.cli.find._run import OnErrorName, Run
from oddarms.cli.find._sources import Occupied, function_of, reward_meanings
from oddarms.cli.find._studies import (
    import_table,
    opened,
    say_going_on,
    storage_in,
    stored_bounds,
    stored_side,
)
from oddarms.cli.find._tables import (
    Above,
    Clip,
    Encoding,
    MissingChoice,
    MissingName,
    Successes,
    TableReader,
    Trials,
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
    arms: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|-|A,B,C", help="The things: a file with one a line, - for stdin, a list."
        ),
    ] = None,
    pull: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND", help="Sample by running a command; {arm} in it is the thing."
        ),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION", help="Sample by calling a function with the thing."
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Recorded samples, CSV or Parquet, one a row."),
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
    jobs: Annotated[int, typer.Option(min=1, help="Samples at a time.")] = 1,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds after which a command is killed.")
    ] = None,
    failure_codes: Annotated[
        str | None,
        typer.Option(
            metavar="CODES",
            help="Exit codes that are no reward but a failure of the sample, see --on-error.",
            show_default="126,127,129-159, and 2-5 of pytest",
        ),
    ] = None,
    on_error: Annotated[
        OnErrorName,
        typer.Option(
            help="A command that hangs or crashes: stop; count it as the worst reward; or retry it,"
            " which is sound only if failing has nothing to do with the reward."
        ),
    ] = OnErrorName.stop,
    patience: Annotated[
        str,
        typer.Option(metavar="TIME", help="How long to wait for a storage that is away: 30s, 2h."),
    ] = "10m",
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
        Path, typer.Option(metavar="DIR", help="Folder for result.json, arms.csv, report.html.")
    ] = Path("output/find"),
    format: Annotated[  # noqa: A002 - the option's name
        Format, typer.Option("--format", help="What to print: a table, JSON or CSV.")
    ] = Format.table,
    shell: Annotated[
        bool, typer.Option("--shell", help='Run the command by sh -c; the thing is "$1" in it.')
    ] = False,
    batch: Annotated[
        bool, typer.Option("--batch", help="The function takes a list and returns a list.")
    ] = False,
    raw_csv: Annotated[
        bool, typer.Option("--raw-csv", help="No apostrophe before labels like =1 in arms.csv.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Sample anew; the old search in --out is kept aside.")
    ] = False,
    same_source: Annotated[
        bool, typer.Option("--same-source", help="A changed --pull measures the same: go on.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
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
      oddarms find --arms tests.txt --pull 'pytest -q {arm}' --jobs 4 --timeout 60
      oddarms find --arms hosts --pull './ping {arm}' --reward stdout --bounds 0,10
      oddarms find --table answers.csv --arm worker --reward wrong
      oddarms find --table log.csv --arm host --reward seconds --above 0.5
      oddarms find --arms hosts.txt --python checks:probe --budget 10000
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
    reader = TableReader(table, arm, column, successes, trials, encoding, missing, transform)
    reader.check(named=reward_column is not None or (reward is not None and pull is None))
    if not quiet and transform is not None:
        note(transform.meaning())
    if table is None and arms is None and study is None:
        raise InvalidParameter("one of --arms, --table and --study must say what the things are.")
    if function is None and table is None and study is None:
        raise InvalidParameter("one of --pull, --python and --table must say how to sample.")
    rows = population is PopulationName.ROWS
    if rows and (function is not None or table is None or study is not None):
        raise InvalidParameter(
            "--population rows must be given with --table, and without --pull, --python and"
            " --study: the rows are all there is."
        )
    writable_folder("--out", out)
    labels = None if arms is None else list(read_labels(arms))
    if function is None and study is None:
        assert table is not None
        proof = reader.read(limits, side, quiet=quiet)
        say_clipped(transform, quiet=quiet)
        asked = with_margin(words, quiet=quiet)
        result = (_of_rows if rows else _from_table)(proof, labels, asked, seed)
    else:
        where = storage_in(out, storage)
        with Occupied(out):
            set_aside(out, storage, wanted=fresh, quiet=quiet)
            waits = duration_of("patience", patience)
            limits = limits or patiently(lambda: stored_bounds(study, where), waits)
            recorded = None
            if table is not None:
                known_side = side or patiently(lambda: stored_side(study, where), waits)
                recorded = reader.read(limits, known_side, quiet=quiet)
            if patiently(lambda: stored_bounds(study, where), waits) is None:
                words = with_margin(words, quiet=quiet)
            found = patiently(lambda: opened(study, where, labels, recorded, words, seed), waits)
            source = Source(pull, kind, failure_codes, shell=shell)
            check_source(found, out, source, same=same_source)
            if not quiet and function is not None:
                say_going_on(found, here=storage is None)
            if recorded is not None:
                import_table(found, recorded, quiet=quiet)
            run = Run(found, jobs, on_error, waits, out, batch=batch, quiet=quiet, raw_csv=raw_csv)
            try:
                result = run.until_done(function)
            finally:
                say_clipped(transform, quiet=quiet)
    with uninterrupted():
        write(result, out, raw_csv=raw_csv)
    show(result, format, out, quiet=quiet)
    if not result.complete and result.question.goal != "budget":
        raise typer.Exit(EXIT_UNFINISHED)


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
