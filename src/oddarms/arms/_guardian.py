"""Keeps a supervisor informed of the commands that run, so that they die with this process."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import select
import subprocess
import sys
import threading

from oddarms.arms import _supervisor
from oddarms.arms._supervisor import VARIABLE

MOST_STARTS = 10
"""A supervisor that died is replaced, so many times."""
WRITE_SECONDS = 1.0
END_SECONDS = 1.0


class Guardian:
    """Marks commands and tells the supervisor of this process about them.

    It starts with the first command. Without one, as where it cannot start, commands run all the
    same. A number of a group may be used again after its end: `ended` must be called before the
    group's leader is waited for.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._run = os.urandom(12).hex()
        self._serials = itertools.count(1)
        self._running: dict[str, bytes] = {}  # what was said last of each command
        self._starts = 0
        self._pipe: int | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def starting(self) -> str:
        """Return the mark of a command that is about to start, for its environment."""
        mark = f"{self._run}-{next(self._serials)}"
        with self._lock:
            if self._pipe is None:
                self._start()
            self._say(mark, f"+ {mark}\n")
        return mark

    def started(self, mark: str, group: int) -> None:
        """Say that a command runs, or that some of its group still do."""
        with self._lock:
            self._say(mark, f"= {mark} {group}\n")

    def ended(self, mark: str) -> None:
        """Say that a command does not run any more."""
        with self._lock:
            self._say(mark, f"- {mark}\n")
            del self._running[mark]

    def close(self) -> None:
        """Let the supervisor end; it ends commands that still run."""
        with self._lock:
            if self._pipe is not None:
                os.close(self._pipe)
                self._pipe = None
            if self._process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(END_SECONDS)

    def forget(self) -> None:
        """Leave the supervisor to the process that this one was forked from."""
        if self._pipe is not None:
            os.close(self._pipe)  # or the supervisor would wait for this process, too
        if self._process is not None:
            self._process.returncode = 0  # not a child of this process
        Guardian.__init__(self)

    def _start(self) -> None:
        frozen = getattr(sys, "frozen", False)  # then the executable is no Python
        if self._starts >= MOST_STARTS or frozen or not sys.executable:
            return
        self._starts += 1
        reading, writing = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", _supervisor.__file__],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                # a command that searches itself is marked, but what ends its commands must not be
                env={name: value for name, value in os.environ.items() if name != VARIABLE},
                start_new_session=True,
            )
        except OSError:
            self._starts = MOST_STARTS
            os.close(writing)
            return
        finally:
            os.close(reading)
        os.set_blocking(writing, False)
        self._pipe = writing
        for said in list(self._running.values()):
            self._write(said)

    def _say(self, mark: str, message: str) -> None:
        self._running[mark] = message.encode()
        self._write(self._running[mark])

    def _write(self, message: bytes) -> None:
        """Write a message, which a pipe takes whole or not at all."""
        if self._pipe is None:
            return
        try:
            try:
                os.write(self._pipe, message)
            except BlockingIOError:  # it is far behind
                select.select([], [self._pipe], [], WRITE_SECONDS)
                os.write(self._pipe, message)
        except OSError:
            self._give_up()

    def _give_up(self) -> None:
        """Do without a supervisor that has died or hangs; the next command starts another."""
        assert self._pipe is not None
        assert self._process is not None
        self._process.kill()  # first: at the end of the pipe it would kill what runs
        os.close(self._pipe)
        self._pipe = None
        self._process.wait()


guardian = Guardian()
atexit.register(guardian.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=guardian.forget)
