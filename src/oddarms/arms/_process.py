"""A running command: its own session, its output, and the end of its process group."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import IO

GRACE_SECONDS = 2.0
"""Time between SIGTERM and SIGKILL."""
TAIL_BYTES = 65_536
MIN_PAUSE, MAX_PAUSE = 0.0005, 0.02


class Running:
    """A command started as the leader of its own session and process group.

    One thread calls `wait` and then `finish`; others may send signals meanwhile. The number of the
    group cannot be reused while the leader is not reaped or others of the group are left. Output
    goes to temporary files, so it neither blocks the command nor takes memory.

    `stopped` says whether `end` ended it, so that its exit code is not a result; `gone`, whether
    nothing of its group is left, so that it gets no more signals.
    """

    def __init__(
        self, words: Sequence[str], environment: Mapping[str, str], *, keeps_output: bool
    ) -> None:
        self.stopped = self.gone = self._reaped = False
        self._code: int | None = None
        self._lock = threading.RLock()  # a signal handler may interrupt the thread that holds it
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `finish`
        self._output = tempfile.TemporaryFile() if keeps_output else None  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=self._output or subprocess.DEVNULL,
                stderr=self._errors,
                env=environment,
                start_new_session=True,
            )
        except BaseException:
            self._close()
            raise

    def wait(self, seconds: float | None) -> bool:
        """Wait until it ends; return whether it did so within `seconds`."""
        return _wait_for(self._has_ended, math.inf if seconds is None else seconds)

    def finish(self) -> tuple[int | None, str, str]:
        """End what is left of its group; return its exit code and the last lines of its output.

        Processes left behind by a command that has ended are killed. A command that still runs gets
        SIGTERM and a grace period first. The code is None if SIGCHLD is ignored.
        """
        try:
            if self.stopped or not self._has_ended():
                self.send(signal.SIGTERM)
                _wait_for(lambda: not self._is_there(), GRACE_SECONDS)
        finally:
            self.send(signal.SIGKILL)
            self._reap()
            self.gone = True
            lines = _last_line(self._output or self._errors), _last_line(self._errors)
            self._close()
        return self._code, *lines

    def send(self, number: int) -> bool:
        """Send a signal to its group; return whether a process was there to get it."""
        with self._lock:
            if self.gone:
                return False
            try:
                os.killpg(self._process.pid, number)
            except (ProcessLookupError, PermissionError):  # macOS: EPERM for zombies
                self.gone = self._reaped
                return False
            return True

    def _is_there(self) -> bool:
        if not self._has_ended():
            return True
        with self._lock:
            self._reap()
            return self.send(0)

    def _has_ended(self) -> bool:
        """Return whether the leader has ended, without reaping it if the system allows that."""
        if not self._reaped and not hasattr(os, "waitid"):
            self._reap(os.WNOHANG)
        if self._reaped:
            return True
        try:
            how = os.WEXITED | os.WNOWAIT | os.WNOHANG
            return os.waitid(os.P_PID, self._process.pid, how) is not None
        except ChildProcessError:  # SIGCHLD is ignored, so the kernel has thrown the code away
            return True

    def _reap(self, options: int = 0) -> None:
        if self._reaped:
            return
        try:
            pid, status = os.waitpid(self._process.pid, options)
        except ChildProcessError:
            self._reaped = True
        else:
            self._reaped = pid != 0
            self._code = os.waitstatus_to_exitcode(status) if self._reaped else None
        if self._reaped:
            self._process.returncode = self._code or 0

    def _close(self) -> None:
        self._errors.close()
        if self._output is not None:
            self._output.close()


def end(commands: Collection[Running]) -> None:
    """End commands, all at the same time: SIGTERM, a grace period, SIGKILL.

    An exception during the grace period, such as a second Ctrl-C, kills them at once.
    """
    for command in commands:
        command.stopped = True
        command.send(signal.SIGTERM)
    try:
        _wait_for(lambda: all(command.gone for command in commands), GRACE_SECONDS)
    finally:
        for command in commands:
            command.send(signal.SIGKILL)


def _wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until a condition holds, at most so long; return whether it does."""
    began = time.monotonic()
    while not condition():
        passed = time.monotonic() - began
        if passed >= seconds:
            return False
        pause = min(max(0.1 * passed, MIN_PAUSE), MAX_PAUSE)
        time.sleep(min(pause, seconds - passed))
    return True


def _last_line(file: IO[bytes]) -> str:
    """Return the last line that is not blank, of the last 64 KiB."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - TAIL_BYTES, 0))
    lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""
