"""Commands that run: waiting for them, and ending them with all they have started."""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import threading
import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence

from oddarms.arms._guardian import guardian
from oddarms.arms._output import Output
from oddarms.arms._supervisor import (
    HAS_PROC,
    MOST_ROUNDS,
    VARIABLE,
    kill_living,
    living,
    send,
)
from oddarms.problem import Label

GRACE_SECONDS = 2.0
LEAST_PAUSE, MOST_PAUSE = 0.001, 0.05
MOST_POLL_SECONDS = 3600.0


class Running:
    """A command that has been started, in a session of its own, with a mark in its environment.

    One thread waits for it and then calls `finish`; others may end it meanwhile. The group keeps
    its number until its leader is waited for, which `finish` alone does, so signals never reach
    somebody else's processes.

    Attributes
    ----------
    errors, output
        What it prints.
    stopped
        Whether it was told to end, so that how it ended means nothing.
    gone
        Whether nothing of its group is left.
    began
        When it was started, by the monotonic clock.

    Raises
    ------
    OSError, ValueError
        If it cannot be started.
    """

    def __init__(
        self, words: Sequence[str], environment: Mapping[str, str], *, keeps_output: bool
    ) -> None:
        self.stopped = False
        self.gone = False
        self.began = time.monotonic()
        self._ended = self._unknown = False
        self._lock = threading.RLock()  # a signal's handler may interrupt whoever has it
        self._outputs = [Output() for _ in range(1 + keeps_output)]
        self.errors, self.output = self._outputs[0], self._outputs[-1]
        self._mark = guardian.starting()
        try:
            self._process = self._start(words, {**environment, VARIABLE: self._mark})
        except BaseException:
            guardian.ended(self._mark)
            self._close_outputs()
            raise
        self.group = self._process.pid
        guardian.started(self._mark, self.group)
        self._handle = _handle_of(self.group)

    def _start(
        self, words: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        kept = self.output is not self.errors
        try:
            return subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=self.output.writing if kept else subprocess.DEVNULL,
                stderr=self.errors.writing,
                env=environment,
                start_new_session=True,  # so that its children can be killed with it
            )
        finally:
            for output in self._outputs:
                output.started()

    @property
    def mark(self) -> bytes:
        """The entry of the environment that tells its processes from others."""
        return f"{VARIABLE}={self._mark}".encode()

    def wait(self, timeout: float | None) -> bool:
        """Read what it prints until it ends; return whether it did so in time."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        poller, pause = self._poller(), LEAST_PAUSE
        while (left := deadline - time.monotonic()) > 0.0:
            if self._handle is None:  # nothing tells us of its end
                left, pause = min(left, pause), min(2.0 * pause, MOST_PAUSE)
            ready = self._read(poller, left)
            if self._handle in ready if self._handle is not None else self._has_ended():
                for output in self._outputs:
                    output.read_rest()
                return True
        return False

    def _read(self, poller: select.poll, seconds: float) -> set[int]:
        """Wait until something happens, and read what is printed; return which files are ready."""
        ready = {file for file, _ in poller.poll(1000.0 * min(seconds, MOST_POLL_SECONDS))}
        for output in self._outputs:
            if output.reading in ready and not output.read() and output.over:
                poller.unregister(output.reading)
        return ready

    def _poller(self) -> select.poll:
        poller = select.poll()
        for output in self._outputs:
            if not output.over:
                poller.register(output.reading, select.POLLIN)
        if self._handle is not None:
            poller.register(self._handle, select.POLLIN)
        return poller

    def finish(self) -> int | None:
        """End it if it still runs, and what it has left in its group; return its exit code.

        None means that it is not known, as somebody else has waited for the command, or SIGCHLD is
        ignored.
        """
        if not self._has_ended():
            poller = self._poller()  # it must not be held up by what it prints at its end
            end([self], pause=lambda seconds: self._read(poller, seconds))
        self._await_end()
        with self._lock:
            send(signal.SIGTERM, self.group, group=True)
            guardian.ended(self._mark)
            code = self._process.wait()
            self.gone = not self._has_group()
            if not self.gone:
                guardian.started(self._mark, self.group)
        if not self.gone:
            end([self], strays=False)
            with self._lock:
                self.gone = True
                guardian.ended(self._mark)
        self._close_outputs()
        if self._handle is not None:
            os.close(self._handle)
        return None if self._unknown else code

    def send(self, number: int) -> None:
        """Send a signal to its group."""
        with self._lock:
            if not self.gone:
                send(number, self.group, group=True)

    def is_there(self) -> bool:
        """Return whether some of its group is there, on a system that tells no more."""
        with self._lock:
            return not self.gone and (not self._has_ended() or self._has_group())

    def _has_group(self) -> bool:
        try:
            os.killpg(self.group, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _has_ended(self) -> bool:
        """Return whether the command itself has ended, without waiting for it if possible."""
        if not self._ended and hasattr(os, "waitid"):
            self._look(os.WNOHANG)
        elif not self._ended:  # macOS before Python 3.13
            self._ended = self._process.poll() is not None
        return self._ended

    def _await_end(self) -> None:
        if not self._has_ended() and hasattr(os, "waitid"):
            self._look(0)

    def _look(self, options: int) -> None:
        try:
            found = os.waitid(os.P_PID, self.group, os.WEXITED | os.WNOWAIT | options)
        except ChildProcessError:
            found, self._unknown = None, True
        self._ended = found is not None or self._unknown

    def _close_outputs(self) -> None:
        for output in self._outputs:
            output.close()


def _handle_of(pid: int) -> int | None:
    """Return a descriptor that is ready when a process ends, where there is such a thing."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def end(
    commands: Collection[Running],
    *,
    strays: bool = True,
    pause: Callable[[float], object] = time.sleep,
) -> None:
    """End commands, all at the same time: ask, wait a little, kill.

    An exception that ends the wait, such as a second Ctrl-C, kills them, too.

    Parameters
    ----------
    commands
        Those to end.
    strays
        Whether also what they have started in sessions of its own, which is found by its mark.
    pause
        Waits some seconds or less.
    """
    try:
        if _end_gently(commands, _marks(commands) if strays else set(), pause):
            return
    except BaseException:
        kill_now(commands, strays=strays, most_rounds=1)
        raise
    kill_now(commands, strays=strays)


def _end_gently(
    commands: Collection[Running], marks: set[bytes], pause: Callable[[float], object]
) -> bool:
    """Ask commands to end; return whether they have done so in time."""
    for command in commands:
        command.send(signal.SIGTERM)
    groups = _groups(commands)
    for pid, group in living(set(), marks).items() if marks else ():
        if group not in groups:
            send(signal.SIGTERM, pid)
    deadline, seconds = time.monotonic() + GRACE_SECONDS, LEAST_PAUSE
    while _any_left(commands, marks):
        if time.monotonic() >= deadline:
            return False
        pause(seconds)
        seconds = min(2.0 * seconds, MOST_PAUSE)
    return True


def kill_now(
    commands: Collection[Running], *, strays: bool = True, most_rounds: int = MOST_ROUNDS
) -> None:
    """Kill commands and what they have started."""
    for command in commands:
        command.send(signal.SIGKILL)
    marks = _marks(commands) if strays else set()
    kill_living(_groups(commands), marks, most_rounds=most_rounds)


def _groups(commands: Collection[Running]) -> set[int]:
    return {command.group for command in commands if not command.gone}


def _marks(commands: Collection[Running]) -> set[bytes]:
    return {command.mark for command in commands}


def _any_left(commands: Collection[Running], marks: set[bytes]) -> bool:
    if HAS_PROC:
        return bool(living(_groups(commands), marks))
    return any(command.is_there() for command in commands)


class Commands:
    """The commands that run now; one that starts while all are stopped does not run."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running: dict[Running, Label] = {}
        self.stops = 0
        _all.add(self)

    def __reduce__(self) -> tuple[type[Commands], tuple[()]]:
        return Commands, ()  # those of this process stay here

    def all(self) -> list[tuple[Running, Label]]:
        """Return the commands that run now, with what they are run for."""
        with self.lock:
            return list(self.running.items())

    def stop(self, *, at_once: bool = False) -> None:
        """Let no command start that was about to, and end those that run."""
        with self.lock:
            self.stops += 1
            running = list(self.running)
        for command in running:
            command.stopped = True
        if running:
            (kill_now if at_once else end)(running)


_all: weakref.WeakSet[Commands] = weakref.WeakSet()


def kill_commands() -> None:
    """Kill all commands that this process runs, without waiting for anything or any lock.

    For the handler of a signal, after which the process ends; the supervisor does the rest.
    """
    running = [command for commands in list(_all) for command in list(commands.running)]
    if running:
        kill_now(running, most_rounds=1)


def _forget() -> None:
    """Leave what runs to the process that this one was forked from."""
    for commands in list(_all):
        Commands.__init__(commands)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
