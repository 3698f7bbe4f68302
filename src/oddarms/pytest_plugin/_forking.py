"""Samples in processes of their own, forked from this one after the collection.

Each begins where the collection ended: modules are imported, no fixture is set up, no test has
run. It runs one test, with all fixtures, writes the outcome to a pipe and is gone. A process that
ends without an outcome (the interpreter crashed, somebody called `os._exit`) is a failed sample.
"""

from __future__ import annotations

import faulthandler
import json
import os
import select
import signal
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from oddarms.pytest_plugin._running import Outcome, Verdict, cut

Work = Callable[[], Outcome]
INTERRUPTED = 130
"""The exit code of a child that Ctrl-C has reached."""
LOOK_AFTER = 0.2
"""Seconds until children are looked after that say nothing."""


@dataclass
class Child:
    """A process with one sample, and what it has written so far."""

    pid: int
    pipe: int
    written: bytes = b""
    ended: bool = False


def fork(config: pytest.Config, work: Work) -> Child:
    """Begin a process that does the work and writes its outcome."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the child needs no other thread
        pid = os.fork()
    if pid == 0:
        os.close(reading)
        _be_child(config, work, writing)
    os.close(writing)
    return Child(pid, reading)


def _be_child(config: pytest.Config, work: Work, pipe: int) -> None:
    """Do the work and end this process, whatever happens."""
    code = 1
    faulthandler.disable()  # that it crashed is told in the answer, not by a dump of each crash
    try:
        capture = config.pluginmanager.getplugin("capturemanager")
        if capture is not None and capture.is_globally_capturing():
            capture.stop_global_capturing()  # its files are shared with the parent
            capture.start_global_capturing()
        try:
            outcome = work()
        except KeyboardInterrupt:
            os._exit(INTERRUPTED)
        except BaseException as error:
            outcome = Outcome(Verdict.FAILED, cut(f"{type(error).__name__}: {error}"))
        os.write(pipe, json.dumps(outcome.to_dict()).encode() + b"\n")
        code = 0
    finally:
        os._exit(code)


def finished(children: list[Child]) -> list[tuple[Child, Outcome]]:
    """Wait until at least one child is done; return those that are."""
    while True:
        ready, _, _ = select.select([child.pipe for child in children], [], [], LOOK_AFTER)
        done = []
        for child in children:
            # one that left a process behind has its pipe open, though it is dead
            if child.pipe in ready or os.waitid(
                os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
            ):
                outcome = _read(child)
                if outcome is not None:
                    done.append((child, outcome))
        if done:
            return done


def _read(child: Child) -> Outcome | None:
    """Read what a child has written; None if there is more to come."""
    if select.select([child.pipe], [], [], 0)[0]:
        part = os.read(child.pipe, 65536)
        child.written += part
        if part and not child.written.endswith(b"\n"):
            return None
    code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
    child.ended = True
    os.close(child.pipe)
    if child.written.endswith(b"\n"):
        return Outcome.from_dict(json.loads(child.written))
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    return Outcome(Verdict.FAILED, _how_it_ended(code))


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"the process ended with exit code {code} and without a result"
    try:
        return f"the process was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"the process was ended by signal {-code}"


def end(children: list[Child]) -> None:
    """End children that nobody waits for any more."""
    for child in children:
        if child.ended:
            continue
        os.kill(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
        os.close(child.pipe)


def in_a_fork(config: pytest.Config, work: Work) -> Outcome:
    """Do the work in a process of its own and wait for the outcome."""
    child = fork(config, work)
    try:
        return finished([child])[0][1]
    except KeyboardInterrupt:
        end([child])
        raise
