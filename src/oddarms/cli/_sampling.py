"""Sampling for a study: what makes a sample, the run, and what a run leaves behind.

A run that ends early writes what is known to the folder, and results that the storage did not take
to a file.
"""

from __future__ import annotations

import importlib
import os
import secrets
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from oddarms import report
from oddarms.arms import (
    BatchFunction,
    Command,
    Function,
    check_uses_label,
    codes_of,
    transformed,
)
from oddarms.cli import _options as opts
from oddarms.cli._options import Given, Options, flag, option, seconds
from oddarms.cli._terminal import emit, note
from oddarms.documents import Block, Heading
from oddarms.errors import (
    InvalidParameter,
    MissingExtra,
    PullFailed,
    RewardRejected,
    SearchError,
    StorageFailed,
    WorkerLost,
)
from oddarms.files import write_whole
from oddarms.interrupts import Interrupted, Interrupts
from oddarms.problem import Label
from oddarms.search import (
    ARMS,
    RETRY_FOR,
    OnError,
    Policy,
    ProgressLine,
    Result,
    Ticket,
    as_markdown,
    as_text,
    run,
)
from oddarms.studies import Study, Worker
from oddarms.text import counted, shown

SAMPLING: Options = (
    option("--pull COMMAND", str, "Sample by running this command; {arm} stands for the item."),
    option("--python MODULE:FUNCTION", str, "Sample by calling this function with the item."),
    option(
        "--reward",
        Literal["exit-code", "stdout"],
        "With --pull, the sample: 1 if the command fails, or the number in its last line.",
        "exit-code",
    ),
    *opts.TRANSFORMS,
    option("--jobs N", int, "Take this many samples in parallel.", "1; 100 for coroutines"),
    option("--timeout TIME", seconds, "A sample that takes longer has failed: 5 (seconds), 10m."),
    option(
        "--failure-codes CODES",
        str,
        "Exit codes that mean that the sample failed; see --on-error.",
        "126,127,129-159; pytest: 2-5 too",
    ),
    option(
        "--on-error",
        OnError,
        "If a sample fails: stop; retry, which is sound only if failing has nothing to do with the"
        " value; or count it as the worst value.",
        "stop",
    ),
    option(
        "--retry-for TIME",
        seconds,
        "How long to retry a failing sample or an unavailable storage.",
        "10m",
    ),
    flag("--shell", 'Run the command in a shell (sh -c); the item is "$1" there.'),
    flag("--batch", "The function takes a list of items and returns a list of samples."),
)
"""How samples are made, for `Sampling.of`."""


@dataclass(frozen=True)
class Sampling:
    """How samples are made.

    `bounds` are those of --clip or --above, `said` returns a remark about clipped samples, and
    `identity` has the options on which the values of samples depend.
    """

    function: Callable[[Any], Any]
    policy: Policy
    batch: bool
    bounds: tuple[float, float] | None
    said: Callable[[], str]
    identity: dict[str, Any]

    @classmethod
    def of(cls, given: Given, words: dict[str, Any]) -> Sampling:
        """Return how to sample, by options; --clip and --above add bounds to the words."""
        _check_together(given)
        transform = opts.transform_of(words, given)
        function = _function_of(given)
        if transform is not None:
            function = transformed(function, transform, batch=given.batch)
        policy = Policy(
            jobs=given.jobs,
            on_error=given.on_error or "stop",
            timeout=None if given.pull is not None else given.timeout,
            retry_for=RETRY_FOR if given.retry_for is None else given.retry_for,
        )
        said = str if transform is None else transform.said
        bounds = None if transform is None else transform.bounds
        return cls(function, policy, given.batch, bounds, said, _identity(given))

    def source(self, labels: Sequence[Label]) -> Function | BatchFunction:
        """Return the items as something that `oddarms.search.run` samples."""
        kind = BatchFunction if self.batch else Function
        return kind(self.function, labels)


def _check_together(given: Given) -> None:
    if given.pull is not None and given.python is not None:
        raise InvalidParameter("--pull and --python cannot be combined.")
    if given.pull is None and given.python is None:
        raise InvalidParameter(
            "--pull or --python is required: it takes the samples. For recorded data use `oddarms"
            " analyze`."
        )
    for name in ("shell", "failure_codes", "reward"):
        if given.pull is None and getattr(given, name):
            raise InvalidParameter(f"--{name.replace('_', '-')} requires --pull.")
    if given.batch and given.python is None:
        raise InvalidParameter("--batch requires --python.")
    for name in ("jobs", "timeout", "on_error"):
        if given.batch and getattr(given, name) is not None:
            raise InvalidParameter(f"--{name.replace('_', '-')} cannot be combined with --batch.")
    if given.reward == "stdout" and given.failure_codes is not None:
        raise InvalidParameter(
            "--failure-codes cannot be combined with --reward stdout, where every exit code but 0"
            " is a failure."
        )
    changed = (given.clip, given.above) != (None, None)
    if given.pull is not None and given.reward != "stdout" and changed:
        raise InvalidParameter(
            "--clip and --above require --reward stdout with --pull: an exit code gives 0 or 1."
        )


def _function_of(given: Given) -> Callable[[Any], Any]:
    if given.pull is None:
        return _imported(given.python)
    codes = given.failure_codes
    command = Command(
        given.pull,
        reward=given.reward or "exit-code",
        timeout=given.timeout,
        shell=given.shell,
        failure_codes=None if codes is None else codes_of(codes),
    )
    check_uses_label(given.pull, shell=given.shell)
    return command


def _imported(name: str) -> Callable[[Any], Any]:
    """Return the function that ``module:function`` names; modules here come first."""
    module, colon, path = name.partition(":")
    if not (colon and module and path):
        raise InvalidParameter(f"--python takes MODULE:FUNCTION; got {name!r}.")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:
        raise InvalidParameter(
            f"--python: cannot import {module!r}: {type(error).__name__}: {error}."
        ) from error
    for part in path.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise InvalidParameter(f"--python: {module!r} has no function {path!r}.")
    function: Callable[[Any], Any] = found
    return function


def _identity(given: Given) -> dict[str, Any]:
    """Return what the values of samples depend on.

    A failure that stops the run leaves no value, so --timeout matters only if failures count.
    """
    names = ("pull", "python", "reward", "shell", "clip", "above", "failure_codes", "batch")
    found = {name: getattr(given, name) for name in names}
    if given.on_error == "worst":
        found |= {"on_error": "worst", "timeout": given.timeout}
    return {f"--{name.replace('_', '-')}": value for name, value in found.items() if value}


# The answer


@dataclass(frozen=True)
class Output:
    """Where an answer goes, and in which form.

    The folder is for files, `how` says what is printed; None for neither. `words` are options of
    `oddarms.search.answer`. Tests that are known to be `flaky` without statistics come first.
    """

    folder: Path | None
    how: opts.ResultFormat | None = "table"
    quiet: bool = False
    words: Mapping[str, Any] = field(default_factory=dict)
    flaky: Sequence[report.Row] = ()

    @property
    def _before(self) -> list[Block]:
        """What comes before the answer: the tests that are known to be flaky."""
        if not self.flaky:
            return []
        are = "is" if len(self.flaky) == 1 else "are"
        tests = f"{counted(len(self.flaky), 'test')} {are} flaky"
        said = f"{tests}: passed and failed in one run or at one commit"
        return [Heading(said, 3), *report.table_of_tests(self.flaky, "Flaky")]

    def write(self, result: Result) -> None:
        """Write result.json, arms.csv and, if matplotlib is installed, report.html.

        A signal meanwhile takes effect when the files are complete.
        """
        if self.folder is None:
            return
        subject = self.words.get("subject", ARMS)
        with Interrupts() as interrupts:
            report.write_results(result, self.folder, flaky=self.flaky)
            try:
                report.write_report(result, self.folder, subject=subject, first=self._before)
            except MissingExtra as error:
                note(f"no report: {error}")
        interrupts.check()

    def show(self, result: Result) -> None:
        """Print the answer."""
        if self.how == "json":
            emit(report.result_json(result, self.flaky))
        elif self.how == "csv":
            emit(report.arms_csv(result))
        elif self.how is not None:
            write = as_markdown if self.how == "markdown" else as_text
            emit(write(result, **self.words, before=self._before))

    def finish(self, result: Result) -> None:
        """Write and print an answer, and say where the files are."""
        self.write(result)
        self.show(result)
        if self.folder is not None and not self.quiet:
            note(f"report: {shown(self.folder / 'report.html')}")
            note("beside it: result.json and arms.csv")


# The run


def sample(study: Study, sampling: Sampling, output: Output, worker: str | None = None) -> Result:
    """Sample until a study is done; if something ends it early, write what is known."""
    try:
        return _sampled(study, sampling, output, worker)
    except KeyboardInterrupt as error:
        said = _kept(study, output, error)
        known = getattr(error, "result", None)
        if known is not None and known.pulls + known.history + known.unused:
            with suppress(OSError, SystemExit):  # the terminal may be gone
                output.show(known)
        number = getattr(error, "signal", 2)
        raise Interrupted(f"interrupted: {said}", number) from None
    except StorageFailed as error:
        first = str(error).split(". ")[0].rstrip(".")
        raise StorageFailed(f"{first}; {_kept(study, output, error)}") from error
    except (SearchError, WorkerLost) as error:
        how = _remedy(error, study.question.bounds)
        said = f"{str(error).rstrip('.')}. {_kept(study, output, error)}{how}"
        raise SearchError(said) from error
    finally:
        if not output.quiet and sampling.said():
            note(sampling.said())


def _sampled(study: Study, sampling: Sampling, output: Output, worker: str | None) -> Result:
    source, policy = sampling.source(study.labels), sampling.policy
    if output.quiet:
        return run(Worker(study, worker, retry_for=policy.retry_for), source, policy)
    with ProgressLine(wait=None) as line:
        if line.terminal:
            line.show("sampling ...")
        waiting = cache(lambda: line.say("waiting: other workers have all samples of this step"))
        desk = Worker(study, worker, retry_for=policy.retry_for, waiting=waiting)
        return run(desk, source, policy, line)


def _remedy(error: Exception, bounds: tuple[float, float]) -> str:
    """Return which options would help with a sample that was late, or outside the bounds."""
    if isinstance(error, PullFailed) and error.late:
        return (
            " A larger --timeout gives samples more time; --on-error worst counts late ones as"
            " the worst sample."
        )
    rejected = error.__cause__ if isinstance(error, PullFailed) else error
    if not (isinstance(rejected, RewardRejected) and rejected.outside):
        return ""
    a, b = bounds
    return (
        f" --clip {a:g},{b:g} counts samples outside as the nearer bound; wider --bounds are"
        " another question."
    )


def _kept(study: Study, output: Output, error: Any) -> str:
    """Write what is known, and say where it is and how to go on."""
    untold = _untold_kept(study, output.folder, getattr(error, "untold", []))
    where, result = shown(study.storage), getattr(error, "result", None)
    said = f"all stored samples are in {where}"
    if result is not None:
        said = f"{counted(result.pulls + result.unused, 'sample')} kept in {where}"
        try:
            output.write(result)
            if output.folder is not None:
                said += f", and what is known in {shown(output.folder)}"
        except OSError as problem:  # a full disk must not hide how this ended
            note(f"no report: {problem.strerror or problem}")
    return f"{said}{untold}; the same command resumes from there."


def _untold_kept(study: Study, folder: Path | None, untold: Sequence[tuple[Ticket, float]]) -> str:
    """Write results that were not stored to a file, before anything else; say where they are."""
    if not untold:
        return ""
    many = f"{counted(len(untold), 'result')} that could not be stored"
    lines = "".join(f"{ticket.id} {reward!r}\n" for ticket, reward in untold)
    place = f"--storage {shlex.quote(study.storage)} {shlex.quote(study.name)}"
    with Interrupts():
        for parent in filter(None, (folder, Path(tempfile.gettempdir()))):
            try:
                path = write_whole(parent / f"untold-{secrets.token_hex(4)}.txt", lines)
            except OSError as error:
                note(f"{many}, nor written to {shown(parent)}: {error.strerror or error}")
            else:
                command = shown(f"oddarms study tell {place} --from {shlex.quote(str(path))}")
                return f", and {many} in a file: `{command}` stores them"
    note(lines.rstrip())
    return f"; {many}: only in the lines above, for `oddarms study tell {shown(place)} --from -`"
