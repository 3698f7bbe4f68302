"""A running command: its own session, the end of its output, and an end for its whole group."""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from typing import IO

GRACE_SECONDS = 2.0
"""Time between SIGTERM and SIGKILL."""
TAIL_BYTES = 65_536
MAX_READS = 16  # of what a command printed before its end: more than a pipe holds
MIN_PAUSE, MAX_PAUSE = 0.001, 0.05
MAX_POLL_SECONDS = 3600.0


class Tail:
    """The last 64 KiB that a command wrote into a pipe; reading goes on, so it never blocks."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self.pipe = pipe
        self._kept = bytearray()
        os.set_blocking(pipe.fileno(), False)

    def read(self) -> int | None:
        """Read once; return the number of bytes, 0 at the end of the file, None if none wait."""
        chunk = self.pipe.read(TAIL_BYTES)
        if chunk:
            self._kept += chunk
            del self._kept[:-TAIL_BYTES]
        return None if chunk is None else len(chunk)

    def last_line(self) -> str:
        """Return the last line that is not blank."""
        lines = self._kept.decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""


class Running:
    """A command that was started as the leader of a session and process group of its own.

    One thread calls `wait` and then `finish`. Other threads may send signals meanwhile. While the
    leader is not reaped, or others of its group are left, no other group can have its number.

    Attributes
    ----------
    began
        When it was started, by the monotonic clock.
    errors, output
        The end of its stderr and, if kept, of its stdout.
    stopped
        Whether `end` ended it, so that its exit code is not a result.
    gone
        Whether nothing of its group is left, so that it gets no more signals.

    Raises
    ------
    OSError, ValueError
        If it cannot be started.
    """

    def __init__(
        self, words: Sequence[str], environment: Mapping[str, str], *, keeps_output: bool
    ) -> None:
        self.began = time.monotonic()
        self.stopped = self.gone = self._ended = self._reaped = False
        self._code: int | None = None
        self._lock = threading.RLock()  # a signal handler may interrupt the thread that holds it
        self._process = subprocess.Popen(
            words,
            bufsize=0,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if keeps_output else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        pipes = [self._process.stderr, self._process.stdout]
        tails = [Tail(pipe) for pipe in pipes if pipe is not None]
        self.errors, self.output = tails[0], tails[-1]
        self._tails = {tail.pipe.fileno(): tail for tail in tails}
        self._end_file = _pidfd(self._process.pid)
        self._poll = select.poll()
        for file in [*self._tails, *self._end_files()]:
            self._poll.register(file, select.POLLIN)

    def wait(self, seconds: float | None) -> bool:
        """Read its output until it ends; return whether it did so within `seconds`."""
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        pause = MIN_PAUSE
        while not self._has_ended():
            left = deadline - time.monotonic()
            if left <= 0.0:
                return False
            if self._end_file is None:
                left, pause = min(left, pause), min(2.0 * pause, MAX_PAUSE)
            self._read(left)
        for tail in self._tails.values():
            for _ in range(MAX_READS):
                if not tail.read():
                    break
        return True

    def finish(self) -> int | None:
        """End what is left of its group, and return its exit code.

        What a command leaves behind when it ends by itself is killed. A command that is made to
        end gets SIGTERM and a grace period before. None means that the exit code is unknown,
        because SIGCHLD is ignored.
        """
        try:
            if self.stopped or not self._has_ended():
                self._end_gently()
        finally:
            self.send(signal.SIGKILL)
            self._reap()
            self.gone = True
            for tail in self._tails.values():
                tail.pipe.close()
            for file in self._end_files():
                os.close(file)
        return self._code

    def _end_gently(self) -> None:
        self.send(signal.SIGTERM)
        deadline, pause = time.monotonic() + GRACE_SECONDS, MIN_PAUSE
        while self._is_there() and time.monotonic() < deadline:
            self._read(pause)  # what it prints must not block it
            pause = min(2.0 * pause, MAX_PAUSE)

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
        if self._end_file is None and not self._ended:
            self._reap(os.WNOHANG)
        return self._ended

    def _reap(self, options: int = 0) -> None:
        if self._reaped:
            return
        try:
            pid, status = os.waitpid(self._process.pid, options)
        except ChildProcessError:  # SIGCHLD is ignored, so the kernel has thrown the code away
            self._reaped = True
        else:
            self._reaped = pid != 0
            self._code = os.waitstatus_to_exitcode(status) if self._reaped else None
        if self._reaped:
            self._ended = True
            self._process.returncode = self._code or 0

    def _read(self, seconds: float) -> None:
        """Wait until something happens; read what was printed, and note the end."""
        for file, _ in self._poll.poll(1000.0 * min(seconds, MAX_POLL_SECONDS)):
            if file == self._end_file:
                self._ended = True
            if file == self._end_file or self._tails[file].read() == 0:
                self._poll.unregister(file)

    def _end_files(self) -> list[int]:
        return [] if self._end_file is None else [self._end_file]


def _pidfd(pid: int) -> int | None:
    """Return a descriptor that becomes readable when a process ends; None where there is none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def end(commands: Collection[Running]) -> None:
    """End commands, all at the same time: SIGTERM, a grace period, SIGKILL.

    An exception during the grace period, such as a second Ctrl-C, kills them at once.
    """
    for command in commands:
        command.stopped = True
        command.send(signal.SIGTERM)
    try:
        deadline = time.monotonic() + GRACE_SECONDS
        while not all(command.gone for command in commands) and time.monotonic() < deadline:
            time.sleep(MAX_PAUSE / 5)
    finally:
        for command in commands:
            command.send(signal.SIGKILL)
