"""Arms that are pulled by running a command."""

from __future__ import annotations

import math
import os
import re
import shlex
import signal
import threading
from collections.abc import Collection
from typing import Literal, NamedTuple, get_args

from oddarms.arms._process import Running, end
from oddarms.errors import InvalidParameter, PullFailed
from oddarms.problem import Label, check_number

RewardKind = Literal["exit-code", "stdout"]
PLACEHOLDER = "{arm}"
VARIABLE = "ODDARMS_ARM"
_STORAGE = "ODDARMS_STORAGE"  # may hold a password, so commands do not get it
_ARGUMENT = re.compile(r"\$(\{?1|[@*])")

MAX_CODE = 255
NOT_STARTED = frozenset({126, 127})
"""Exit codes of a shell, env or nice if a program cannot be run or does not exist."""
SIGNALS = frozenset(range(128 + 1, 128 + 32))
"""Exit codes of a shell whose program died of a signal."""
PYTEST = frozenset({2, 3, 4, 5})
"""Exit codes of pytest if it did not run the test."""
_SIGNAL_NAMES = {int(each): each.name for each in signal.Signals}
_PYTEST_NAMES = frozenset({"pytest", "py.test"})
_MEANINGS = {
    2: "pytest was interrupted or cannot import a test",
    3: "pytest had an internal error",
    4: "pytest does not understand its arguments, or the test does not exist",
    5: "pytest found no test",
    126: "a program cannot be run",
    127: "a program was not found",
}


class _Ended(NamedTuple):
    """The exit code of a command, and the last lines that it printed."""

    code: int | None
    output: str
    errors: str


class Command:
    """A command that makes one pull of the arm whose label it is called with.

    The label replaces ``{arm}`` in the words of the command and is in the environment variable
    ODDARMS_ARM. No shell reads the words, so a label is part of one argument, whatever it contains.
    Commands do not get the environment variable ODDARMS_STORAGE, which may hold a password.

    Parameters
    ----------
    command
        The command, divided into words as by a shell.
    reward
        "exit-code": 1 if the command fails, else 0. "stdout": the number in its last line.
    timeout
        Seconds after which the command is ended, with its process group.
    shell
        Whether to run it by ``sh -c``. The label is then the shell's first argument: write
        ``"$1"``, with the quotes. ``{arm}`` is refused.
    failure_codes
        Exit codes that are a failure of the pull instead of a reward. By default those of a shell:
        126 and 127 (no such program) and 129 to 159 (it died of a signal); if the command contains
        pytest, also 2 to 5 (no such test, not importable, ...).

    Raises
    ------
    PullFailed
        When called: if the command takes too long, dies of a signal, ends with a failure code or,
        with ``reward="stdout"``, fails or prints no number.
    InvalidParameter
        When called: if it cannot be started, or if its first pull of an arm ends with 126, 127 or
        a code of pytest and `failure_codes` is not set, as more pulls would fail the same way.

    Examples
    --------
    >>> Command("echo 0.25", reward="stdout")("eve")
    0.25
    >>> Command("test {arm} = eve")("eve"), Command("test {arm} = eve")("bob; rm -rf x")
    (0.0, 1.0)
    """

    needs_thread = True  # a signal between starting a command and noting it would leave it behind
    shares_signals = True

    def __init__(
        self,
        command: str,
        *,
        reward: RewardKind = "exit-code",
        timeout: float | None = None,
        shell: bool = False,
        failure_codes: Collection[int] | None = None,
    ) -> None:
        if reward not in get_args(RewardKind):
            raise InvalidParameter(f"reward must be 'exit-code' or 'stdout', not {reward!r}.")
        if timeout is not None and not 0.0 < check_number("timeout", timeout) < math.inf:
            raise InvalidParameter(f"timeout must be a positive number of seconds, not {timeout}.")
        self.words = _words(command, shell=shell)
        self.reward = reward
        self.timeout = timeout
        self.shell = shell
        unstarted = unstarted_codes(command)
        for code in failure_codes or ():
            if isinstance(code, bool) or not isinstance(code, int) or not 0 < code <= MAX_CODE:
                raise InvalidParameter(
                    f"failure_codes must be numbers from 1 to {MAX_CODE}; {code!r} is not one."
                )
        self.failure_codes = frozenset(
            unstarted | SIGNALS if failure_codes is None else failure_codes
        )
        self._unstarted = unstarted if failure_codes is None else frozenset[int]()
        self._measured: set[Label] = set()
        self._stops = 0

    def stop(self) -> None:
        """End all commands that run now, with their process groups; their pulls fail.

        They get SIGTERM, all at the same time, and two seconds later SIGKILL.
        """
        with _starting:
            self._stops += 1
        end([running for running, (command, _) in list(_running.items()) if command is self])

    def __call__(self, label: Label) -> float:
        """Run the command for an arm and return the reward."""
        ended = self._run(label)
        if ended.code is None:
            raise _failed(label, "ended with an unknown exit code (is SIGCHLD ignored?)", ended)
        if ended.code < 0:
            raise _failed(label, f"died of {_SIGNAL_NAMES.get(-ended.code, -ended.code)}", ended)
        if ended.code in self._unstarted and label not in self._measured:
            raise InvalidParameter(
                f"The command for {label!r} ended with exit code {ended.code}:"
                f" {_MEANINGS[ended.code]}{_stderr_of(ended)}. Run it by hand. If this code is a"
                " result, set failure_codes (--failure-codes) to the codes that are failures."
            )
        if ended.code in self.failure_codes or (ended.code != 0 and self.reward == "stdout"):
            raise _failed(label, f"ended with exit code {ended.code}", ended)
        self._measured.add(label)
        if self.reward == "exit-code":
            return float(ended.code != 0)
        return _number(label, ended.output)

    def _run(self, label: Label) -> _Ended:
        running: Running | None = None
        in_time, stops = True, self._stops
        ended = _Ended(None, "", "")
        try:
            with _starting:
                if self._stops != stops:
                    raise PullFailed(f"arm {label!r}: the command was stopped.", label)
                running = self._start(label)
                _running[running] = self, label
            in_time = running.wait(self.timeout)
            stopped = running.stopped
        finally:
            if running is not None:
                try:
                    ended = _Ended(*running.finish())
                finally:
                    del _running[running]
        if stopped:  # it may handle SIGTERM: its exit code is not a reward
            raise _failed(label, "was stopped", ended)
        if not in_time:
            late = _failed(label, f"took longer than {self.timeout:g} s", ended)
            late.late = True
            raise late
        return ended

    def _start(self, label: Label) -> Running:
        if self.shell:
            words = ["sh", "-c", *self.words, "sh", str(label)]
        else:
            words = [word.replace(PLACEHOLDER, str(label)) for word in self.words]
        environment = {name: value for name, value in os.environ.items() if name != _STORAGE}
        environment[VARIABLE] = str(label)
        try:
            return Running(words, environment, keeps_output=self.reward == "stdout")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise InvalidParameter(
                f"The command cannot be started: {words[0]!r}: {reason}."
            ) from error


_starting = threading.Lock()
_running: dict[Running, tuple[Command, Label]] = {}


def _words(command: str, *, shell: bool) -> list[str]:
    try:
        words = [command] if shell else shlex.split(command)
    except ValueError as error:
        raise InvalidParameter(f"The command {command!r} is badly quoted: {error}.") from None
    if not any(word.strip() for word in words):
        raise InvalidParameter("The command is empty.")
    if shell and PLACEHOLDER in command:
        raise InvalidParameter(
            f'With --shell (shell=True), write "$1" in place of {PLACEHOLDER}, with these quotes:'
            f" the shell would read a label as part of its program. Got {command!r}."
        )
    return words


def check_uses_label(template: str, *, shell: bool) -> None:
    """Raise if a command never uses the label, so that it is the same for all arms."""
    own = '"$1"' if shell else PLACEHOLDER
    if own in template or VARIABLE in template or (shell and _ARGUMENT.search(template)):
        return
    raise InvalidParameter(
        f"The command {template!r} is the same for all items. Write {own} where the item belongs."
        f" If the program reads {VARIABLE} by itself, write 'env {VARIABLE}={own} ...'."
    )


def unstarted_codes(template: str) -> frozenset[int]:
    """Return the exit codes which mean that a command did not run the program or test.

    Examples
    --------
    >>> sorted(unstarted_codes("python -m pytest -q {arm}"))
    [2, 3, 4, 5, 126, 127]
    """
    names = {word.rpartition("/")[2] for word in re.split(r"[\s|&;<>()'\"]+", template)}
    return NOT_STARTED | PYTEST if names & _PYTEST_NAMES else NOT_STARTED


def codes_of(text: str) -> frozenset[int]:
    """Return the exit codes of a text such as ``2-5,127``, or of ``none``.

    Examples
    --------
    >>> sorted(codes_of("2-4, 127")), sorted(codes_of("none"))
    ([2, 3, 4, 127], [])
    """
    if text.strip() == "none":
        return frozenset()
    codes: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d{1,3})\s*(?:-\s*(\d{1,3})\s*)?", part, re.ASCII)
        first, last = (0, 0) if found is None else (int(found[1]), int(found[2] or found[1]))
        if not 0 < first <= last <= MAX_CODE:
            raise InvalidParameter(
                f"--failure-codes takes numbers from 1 to {MAX_CODE} and ranges, such as"
                f" 2-5,126,127, or none; got {text!r}."
            )
        codes.update(range(first, last + 1))
    return frozenset(codes)


def _number(label: Label, line: str) -> float:
    try:
        value = float(line)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise PullFailed(
            f"arm {label!r}: the last line of the command's output must be a number, but it is"
            f" {line[:80]!r}.",
            label,
        )
    return value


def _failed(label: Label, what: str, ended: _Ended) -> PullFailed:
    return PullFailed(f"arm {label!r}: the command {what}{_stderr_of(ended)}.", label)


def _stderr_of(ended: _Ended) -> str:
    return f" (stderr: {ended.errors[:200]})" if ended.errors else ""
