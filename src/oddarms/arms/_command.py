"""Arms that are pulled by running a command."""

from __future__ import annotations

import math
import os
import shlex
import signal
import time
from collections.abc import Collection
from typing import Literal, NamedTuple, get_args

from oddarms.arms._exit_codes import SIGNALS, checked_codes, unstarted_codes
from oddarms.arms._running import Commands, Running
from oddarms.arms._templates import PLACEHOLDER, VARIABLE, check_shell_template, check_words
from oddarms.errors import InvalidParameter, PullFailed
from oddarms.interrupts import uninterrupted
from oddarms.problem import Label, check_number

RewardKind = Literal["exit-code", "stdout"]
_STORAGE = "ODDARMS_STORAGE"  # where studies are: it may hold a password, so no command gets it


class _Ended(NamedTuple):
    """How a command ended, and the last lines of what it printed."""

    code: int | None
    output: str
    errors: str


class Command:
    """A command that makes one pull of the arm whose label it is called with.

    The label stands in for ``{arm}`` wherever that appears in a word of the command, and is in the
    environment variable ODDARMS_ARM. No shell is involved unless asked for, so a label is only an
    argument; what the command makes of its arguments is its own affair. In program text, as after
    ``sh -c``, ``{arm}`` is refused. Of the environment of this process, a command does not get
    ODDARMS_STORAGE, which may hold a password.

    Parameters
    ----------
    command
        The command, in words as a shell would divide it.
    reward
        "exit-code": 1 if the command fails, else 0. "stdout": the number in its last line.
    timeout
        Seconds after which the command is killed, with all processes it has started.
    shell
        Whether to run it by ``sh -c``. The label is then its argument: write ``"$1"``, with the
        quotes. ``{arm}`` stands for that among plain words, and is refused elsewhere, as the shell
        might read the label as a program.
    failure_codes
        Exit codes that are no reward but a failure of the pull. By default those of a shell, 126
        and 127 (no such program) and 129 to 159 (it died of a signal), and of a command with
        pytest in it 2 to 5 too (no such test, not importable, and so on).

    Raises
    ------
    PullFailed
        When called: if the command takes too long, dies of a signal, ends with a code that is a
        failure or, where its output is wanted, fails or prints no number.
    InvalidParameter
        When called: if it cannot be started, or its first pull of an arm ends with a code that
        says so: more pulls would say the same. Not where `failure_codes` is given.

    Examples
    --------
    >>> Command("echo 0.25", reward="stdout")("eve")
    0.25
    >>> Command("test {arm} = eve")("eve"), Command("test {arm} = eve")("bob; rm -rf x")
    (0.0, 1.0)
    """

    shares_signals = True  # one that ends this process may have reached the commands, too

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
            raise InvalidParameter(f"reward must be 'exit-code' or 'stdout' but got {reward!r}.")
        if timeout is not None and not 0.0 < check_number("timeout", timeout) < math.inf:
            raise InvalidParameter(f"timeout must be a positive number but got {timeout}.")
        try:
            self.words = [command] if shell else shlex.split(command)
        except ValueError as error:
            raise InvalidParameter(
                f"command must be well quoted but got {command!r}: {error}."
            ) from None
        if not any(word.strip() for word in self.words):
            raise InvalidParameter("command must have at least one word but is empty.")
        if shell:
            check_shell_template(command)
        else:
            check_words(self.words)
        self.reward = reward
        self.timeout = timeout
        self.shell = shell
        unstarted = unstarted_codes(command)
        self.failure_codes = (
            unstarted | SIGNALS if failure_codes is None else checked_codes(failure_codes)
        )
        self._unstarted = unstarted if failure_codes is None else frozenset[int]()
        self._measured: set[Label] = set()
        self._commands = Commands()

    def stop(self, *, at_once: bool = False) -> None:
        """End all commands that run now, with all processes they have started; their pulls fail.

        Parameters
        ----------
        at_once
            Kill them. Otherwise they are asked to end (SIGTERM) and have two seconds to do so.
        """
        self._commands.stop(at_once=at_once)

    def longest(self) -> tuple[Label, float] | None:
        """Return the arm whose command runs longest now, and for how many seconds."""
        now = time.monotonic()
        under_way = [(label, now - one.began) for one, label in self._commands.all()]
        return max(under_way, key=lambda pair: pair[1], default=None)

    def __call__(self, label: Label) -> float:
        """Run the command for an arm and return the reward."""
        ended = self._run(label)
        if ended.code is None:
            raise _failed(label, "ended with an unknown exit code: is SIGCHLD ignored?", ended)
        if ended.code < 0:
            raise _failed(label, f"died of {_signal_name(-ended.code)}", ended)
        if ended.code in self._unstarted and label not in self._measured:
            raise InvalidParameter(
                f"command must be one that can try every arm but for {label!r} it ended with exit"
                f" code {ended.code}, which {_meaning(ended.code)}{_words_of(ended)}: try it by"
                " hand; if that is a result, not a mistake, list the codes that are none as"
                " failure_codes (--failure-codes)."
            )
        if ended.code in self.failure_codes or (ended.code != 0 and self.reward == "stdout"):
            raise _failed(label, f"ended with exit code {ended.code}", ended)
        self._measured.add(label)
        if self.reward == "exit-code":
            return float(ended.code != 0)
        return _number(label, ended.output)

    def _run(self, label: Label) -> _Ended:
        running: Running | None = None
        in_time, stopped, code = True, False, None
        stops = self._commands.stops
        try:
            with uninterrupted(), self._commands.lock:  # or it has started and nobody ends it
                if self._commands.stops != stops:
                    raise PullFailed(f"arm {label!r}: the command was stopped.", label)
                running = self._start(label)
                self._commands.running[running] = label
            in_time = running.wait(self.timeout)
            stopped = running.stopped
        finally:
            if running is not None:
                with uninterrupted():
                    code = running.finish()
                    self._commands.running.pop(running, None)
        ended = _Ended(code, running.output.last_line(), running.errors.last_line())
        if stopped:  # it may have seen to its own end: then its exit code is no reward
            raise _failed(label, "was stopped", ended)
        if not in_time:
            late = _failed(label, f"took longer than {self.timeout:g} s", ended)
            late.late = True
            raise late
        return ended

    def _start(self, label: Label) -> Running:
        words = self._words(label)
        environment = {name: value for name, value in os.environ.items() if name != _STORAGE}
        environment[VARIABLE] = str(label)
        try:
            return Running(words, environment, keeps_output=self.reward == "stdout")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise InvalidParameter(
                f"command must be one that can be started but {words[0]!r} cannot: {reason}."
            ) from error

    def _words(self, label: Label) -> list[str]:
        if self.shell:
            return ["sh", "-c", self.words[0].replace(PLACEHOLDER, '"$1"'), "sh", str(label)]
        return [word.replace(PLACEHOLDER, str(label)) for word in self.words]


def _number(label: Label, line: str) -> float:
    try:
        value = float(line)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise PullFailed(
            f"arm {label!r}: the last line of the command's output must be a number but is"
            f" {line[:80]!r}.",
            label,
        )
    return value


def _failed(label: Label, what: str, ended: _Ended) -> PullFailed:
    return PullFailed(f"arm {label!r}: the command {what}{_words_of(ended)}.", label)


def _words_of(ended: _Ended) -> str:
    return f" (it said: {ended.errors[:200]})" if ended.errors else ""


def _meaning(code: int) -> str:
    meanings = {
        2: "pytest has if it was interrupted or cannot import a test",
        3: "pytest has for an error of its own",
        4: "pytest has for words that it does not understand, such as a test that is not there",
        5: "pytest has if it finds no test",
        126: "means that a program cannot be run",
        127: "means that a program was not found",
    }
    return meanings[code]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
