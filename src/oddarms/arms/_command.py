"""Arms that are pulled by running a command."""

from __future__ import annotations

import math
import os
import shlex
import signal
import subprocess
import tempfile
import threading
from typing import IO, Literal, get_args

from oddarms.errors import InvalidParameter, PullFailed
from oddarms.interrupts import uninterrupted
from oddarms.problem import Label, check_number

RewardKind = Literal["exit-code", "stdout"]
PLACEHOLDER = "{arm}"
VARIABLE = "ODDARMS_ARM"
GRACE_SECONDS = 2.0
TAIL_BYTES = 65_536


class Command:
    """A command that makes one pull of the arm whose label it is called with.

    The label stands in for ``{arm}`` wherever that appears in a word of the command, and is in the
    environment variable ODDARMS_ARM. No shell is involved unless asked for, so a label is never
    more than an argument.

    Parameters
    ----------
    command
        The command, in words as a shell would divide it.
    reward
        "exit-code": 1 if the command fails, else 0. "stdout": the number in its last line.
    timeout
        Seconds after which the command is killed, with all processes it has started.
    shell
        Whether to run it by ``sh -c``. The label is then its argument ``$1``, for which ``{arm}``
        stands; that must not be inside quotes, where the shell would read it as a program.

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
        if shell and _is_quoted(command):
            raise InvalidParameter(
                f"command must have {PLACEHOLDER} outside quotes where a shell runs it, as the"
                f" label is quoted already, but got {command!r}: leave out the quotes around it."
            )
        self.reward = reward
        self.timeout = timeout
        self.shell = shell
        self._started: _Started = _Started()

    def stop(self) -> None:
        """End all commands that run now; their pulls fail."""
        for process in self._started.stopped():
            _end(process)

    def __call__(self, label: Label) -> float:
        """Run the command for an arm and return the reward."""
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            code = self._run(label, output, errors)
            if code < 0:
                raise self._failed(label, f"died of {_signal_name(-code)}", errors)
            if self.reward == "exit-code":
                return float(code != 0)
            if code != 0:
                raise self._failed(label, f"ended with exit code {code}", errors)
            return self._number(label, output)

    def _run(self, label: Label, output: IO[bytes], errors: IO[bytes]) -> int:
        process: subprocess.Popen[bytes] | None = None
        stops = self._started.stops
        try:
            with uninterrupted(), self._started.lock:  # or it has started and nobody ends it
                if self._started.stops != stops:
                    raise PullFailed(f"arm {label!r}: the command was stopped.", label)
                process = self._start(label, output, errors)
                self._started.running.add(process)
            return process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            raise self._failed(label, f"took longer than {self.timeout:g} s", errors) from None
        finally:
            if process is not None:
                with uninterrupted():
                    _end(process)
                self._started.running.discard(process)

    def _start(self, label: Label, output: IO[bytes], errors: IO[bytes]) -> subprocess.Popen[bytes]:
        words = self._words(label)
        try:
            return subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=output if self.reward == "stdout" else subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, VARIABLE: str(label)},
                start_new_session=True,  # so that its children can be killed with it
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise InvalidParameter(
                f"command must be one that can be started but {words[0]!r} cannot: {reason}."
            ) from error

    def _words(self, label: Label) -> list[str]:
        if self.shell:
            return ["sh", "-c", self.words[0].replace(PLACEHOLDER, '"$1"'), "sh", str(label)]
        return [word.replace(PLACEHOLDER, str(label)) for word in self.words]

    def _number(self, label: Label, output: IO[bytes]) -> float:
        line = _last_line(output)
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

    def _failed(self, label: Label, what: str, errors: IO[bytes]) -> PullFailed:
        said = _last_line(errors)
        detail = f" (it said: {said[:200]})" if said else ""
        return PullFailed(f"arm {label!r}: the command {what}{detail}.", label)


def _is_quoted(template: str) -> bool:
    """Return whether the placeholder stands in quotes of a shell, or behind a backslash."""
    quote, place = "", 0
    while place < len(template):
        character = template[place]
        if template.startswith(PLACEHOLDER, place) and quote:
            return True
        if character == "\\" and quote != "'":
            if template.startswith(PLACEHOLDER, place + 1):
                return True
            place += 1
        elif character in "'\"" and quote in ("", character):
            quote = "" if quote else character
        place += 1
    return False


class _Started:
    """The commands that run now; one that starts while all are stopped does not run."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running: set[subprocess.Popen[bytes]] = set()
        self.stops = 0

    def __reduce__(self) -> tuple[type[_Started], tuple[()]]:
        return _Started, ()  # those of this process stay here

    def stopped(self) -> list[subprocess.Popen[bytes]]:
        """Let no command start that was about to, and return those that run."""
        with self.lock:
            self.stops += 1
            return list(self.running)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a command that still runs, and whatever it has left running."""
    for step in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, step)
        except ProcessLookupError:
            break
        except PermissionError:  # some systems say so of a group of zombies
            break
        if process.poll() is not None:
            continue
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def _last_line(file: IO[bytes]) -> str:
    """Return the last line that is not blank, of the file's last part."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - TAIL_BYTES, 0))
    lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
