"""Commands that sample: their options, and what these make of a command or a function."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from oddarms.arms import Command, check_uses_label, codes_of
from oddarms.cli._durations import seconds_option
from oddarms.errors import InvalidParameter

KINDS = ("exit-code", "stdout")


class OnErrorName(StrEnum):
    """What a pull that fails means."""

    stop = "stop"
    retry = "retry"
    worst = "worst"


Pull = Annotated[
    str | None,
    typer.Option(metavar="COMMAND", help="Sample by running a command; {arm} in it is the thing."),
]
Python = Annotated[
    str | None,
    typer.Option(metavar="MODULE:FUNCTION", help="Sample by calling a function with the thing."),
]
Jobs = Annotated[int, typer.Option(min=1, help="Samples at a time.")]
Timeout = Annotated[
    float | None,
    typer.Option(
        parser=seconds_option,
        metavar="TIME",
        help="Kill a command that takes longer: 5 (seconds), 90s, 10m.",
    ),
]
FailureCodes = Annotated[
    str | None,
    typer.Option(
        metavar="CODES",
        help="Exit codes that are no reward but a failure of the sample, see --on-error.",
        show_default="126,127,129-159, and 2-5 of pytest",
    ),
]
OnErrorChoice = Annotated[
    OnErrorName,
    typer.Option(
        help="A command that hangs or crashes: stop; count it as the worst reward; or retry it,"
        " which is sound only if failing has nothing to do with the reward."
    ),
]
Patience = Annotated[
    str,
    typer.Option(metavar="TIME", help="How long to wait for a storage that is away: 30s, 2h."),
]
Shell = Annotated[
    bool, typer.Option("--shell", help='Run the command by sh -c; the thing is "$1" in it.')
]
Batch = Annotated[
    bool, typer.Option("--batch", help="The function takes a list and returns a list.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
USUAL_PATIENCE = "10m"


def function_of(
    pull: str | None,
    python: str | None,
    kind: str,
    timeout: float | None,
    failure_codes: str | None,
    *,
    shell: bool,
    batch: bool,
) -> Callable[[Any], Any] | None:
    """Return what samples a thing: the command, the function, or None where there is neither."""
    if pull is not None and python is not None:
        raise InvalidParameter("one of --pull and --python must be left out but got both.")
    if pull is None and (timeout is not None or shell or failure_codes is not None):
        option = "--shell" if shell else "--timeout" if timeout is not None else "--failure-codes"
        raise InvalidParameter(
            f"{option} must be given with --pull, which it is for, but got none."
        )
    if python is None and batch:
        raise InvalidParameter(
            "--batch must be given with --python, which it is for, but got none."
        )
    if pull is not None:
        if failure_codes is not None and kind != "exit-code":
            raise InvalidParameter(
                "--failure-codes must be given with --reward exit-code but got stdout, where"
                " every command that fails is a failure."
            )
        command = Command(
            pull,
            reward=kind,  # type: ignore[arg-type]
            timeout=timeout,
            shell=shell,
            failure_codes=None if failure_codes is None else codes_of(failure_codes),
        )
        check_uses_label(pull, shell=shell)
        return command
    return None if python is None else import_function(python)


def import_function(name: str) -> Callable[[Any], Any]:
    """Return the function that ``module:function`` names, looked for here first."""
    module_name, colon, path = name.partition(":")
    if not (colon and module_name and path):
        raise InvalidParameter(f"--python must be module:function but got {name!r}.")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        raise InvalidParameter(
            f"--python must name a module that can be imported but {module_name!r} cannot:"
            f" {type(error).__name__}: {error}."
        ) from error
    for part in path.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise InvalidParameter(
            f"--python must name a function but {module_name!r} has no function {path!r}."
        )
    function: Callable[[Any], Any] = found
    return function
