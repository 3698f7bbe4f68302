"""``oddarms study work``: a worker that stays, and samples at the speed of its samples."""

from __future__ import annotations

import shlex
from enum import StrEnum
from typing import Annotated

import typer

from oddarms.cli._durations import duration_of
from oddarms.cli._guard import EXIT_UNFINISHED
from oddarms.cli._printing import note
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
from oddarms.cli.study._storage import NameArgument, StorageOption, chosen
from oddarms.errors import InvalidParameter
from oddarms.search import Result, patiently
from oddarms.search._text import status_text
from oddarms.studies import Study, load_study
from oddarms.tables import Transform


class RewardOption(StrEnum):
    """What the reward of a command is."""

    exit_code = "exit-code"
    stdout = "stdout"


def work(
    name: NameArgument,
    pull: Pull = None,
    python: Python = None,
    reward: Annotated[
        RewardOption,
        typer.Option(
            help="With --pull: exit-code (1 if the command fails) or stdout (the number in its"
            " last line)."
        ),
    ] = RewardOption.exit_code,
    clip: Clip = None,
    above: Above = None,
    jobs: Jobs = 1,
    timeout: Timeout = None,
    failure_codes: FailureCodes = None,
    on_error: OnErrorChoice = OnErrorName.stop,
    patience: Patience = USUAL_PATIENCE,
    worker: Annotated[
        str | None,
        typer.Option(help="A name for the log.", show_default="the process and the machine"),
    ] = None,
    storage: StorageOption = None,
    shell: Shell = False,
    batch: Batch = False,
    quiet: Quiet = False,
) -> None:
    """Work on a study: ask, sample and tell until it is done.

    Any number of workers may do so at once, on one machine or on many. Leases are renewed as long
    as the worker lives; of one that dies, others take over the samples within a minute. Ctrl-C,
    SIGTERM and SIGHUP end it cleanly, and the same command goes on.

    \b
    Exit codes:
      0    the study is done, and every arm is decided or the budget was the goal
      3    the study is done, as its budget is used up; some arms are undecided
      1    a sample failed; 2 bad usage; 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP

    \b
    Examples:
      oddarms study work tests --pull 'pytest -q {arm}' --jobs 4 --timeout 60
      oddarms study work hosts --python checks:latency --worker "$HOSTNAME"
    """  # noqa: D301 - the \\b keeps click from filling the lines below it
    if pull is None and python is None:
        raise InvalidParameter("one of --pull and --python must say how to sample but got none.")
    if pull is None and reward is not RewardOption.exit_code:
        raise InvalidParameter("--reward must be given with --pull, which it is for, but got none.")
    _, transform = limits_of(None, clip, above)
    kind = reward.value
    function = function_of(pull, python, kind, timeout, failure_codes, shell=shell, batch=batch)
    assert function is not None
    waits = duration_of("patience", patience)
    where = chosen(storage)
    study = patiently(lambda: load_study(name, storage=where), waits)
    if transform is not None:
        _check_bounds(study, transform)
        function = with_transform(function, transform, kind if pull is not None else "", batch)
    patiently(study.take_over, waits)
    output = Output(None, None, quiet)
    run = Run(study, jobs, on_error, waits, output, batch=batch, worker=worker)
    try:
        result = run.until_done(function)
    finally:
        say_clipped(transform, quiet=quiet)
    _end(study, result, quiet=quiet)


def _check_bounds(study: Study, transform: Transform) -> None:
    """Raise where rewards would count as something that the study does not ask about."""
    if transform.bounds != study.bounds:
        a, b = study.bounds
        raise InvalidParameter(
            f"--clip must be the bounds of the study, {a:g},{b:g}, and --above is for a study with"
            f" the bounds 0,1, but it makes rewards of {transform.bounds[0]:g} to"
            f" {transform.bounds[1]:g}."
        )


def _end(study: Study, result: Result, *, quiet: bool) -> None:
    if not quiet:
        note(status_text(result.status))
        note(f"the answer: oddarms study result {shlex.quote(study.name)}")
    if not result.complete and result.question.goal != "budget":
        raise typer.Exit(EXIT_UNFINISHED)
