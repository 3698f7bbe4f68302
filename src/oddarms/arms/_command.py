"""Arms that are pulled by running a command."""

from __future__ import annotations

import math
import os
import shlex
import signal
from typing import Literal, NamedTuple, get_args

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

    Raises
    ------
    PullFailed
        When called: if the command takes too long, dies of a signal or, where its output is
        wanted, fails or prints no number.

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
        self._commands = Commands()

    def stop(self, *, at_once: bool = False) -> None:
        """End all commands that run now, with all processes they have started; their pulls fail.

        Parameters
        ----------
        at_once
            Kill them. Otherwise they are asked to end (SIGTERM) and have two seconds to do so.
        """
        self._commands.stop(at_once=at_once)

    def __call__(self, label: Label) -> float:
        """Run the command for an arm and return the reward."""
        ended = self._run(label)
        if ended.code is None:
            raise _failed(label, "ended with an unknown exit code: is SIGCHLD ignored?", ended)
        if ended.code < 0:
            raise _failed(label, f"died of {_signal_name(-ended.code)}", ended)
        if self.reward == "exit-code":
            return float(ended.code != 0)
        if ended.code != 0:
            raise _failed(label, f"ended with exit code {ended.code}", ended)
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
                self._commands.running.add(running)
            in_time = running.wait(self.timeout)
            stopped = running.stopped
        finally:
            if running is not None:
                with uninterrupted():
                    code = running.finish()
                    self._commands.running.discard(running)
        ended = _Ended(code, running.output.last_line(), running.errors.last_line())
        if stopped:  # it may have seen to its own end: then its exit code is no reward
            raise _failed(label, "was stopped", ended)
        if not in_time:
            raise _failed(label, f"took longer than {self.timeout:g} s", ended)
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
    detail = f" (it said: {ended.errors[:200]})" if ended.errors else ""
    return PullFailed(f"arm {label!r}: the command {what}{detail}.", label)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
