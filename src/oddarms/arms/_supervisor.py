"""Ends the commands of a process that has died: a program of its own, started by `_guardian`.

A process that is killed with -9, or crashes, cannot end what it has started. The kernel's
PDEATHSIG is no remedy: it is tied to the thread that started a command, which may end before it,
it reaches the command but nothing that the command has started, and only Linux has it. So a small
process reads from a pipe which commands run. When the other end is gone, it kills those that do.

It imports only what starts in milliseconds, and nothing of this package, as it is run by path.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

VARIABLE = "ODDARMS_COMMAND"
"""In the environment of each command, and so of what it starts: which command that is."""
HAS_PROC = os.path.isdir("/proc/self")
READ_BYTES = 65_536
QUIET_MILLISECONDS = 100
ROUND_SECONDS = 0.05
LEAST_ROUNDS, MOST_ROUNDS = 4, 100


def living(groups: set[int], marks: set[bytes]) -> dict[int, int]:
    """Return the group of each process that is in one of the groups or has one of the marks.

    Those that have ended and wait for their parent are left out. Without /proc there are none.

    Parameters
    ----------
    groups
        Numbers of process groups.
    marks
        Whole entries of an environment, ``NAME=value``.
    """
    found: dict[int, int] = {}
    for name in os.listdir("/proc") if HAS_PROC else ():
        if name.isdigit():
            group = _group_if_wanted(name, groups, marks)
            if group is not None:
                found[int(name)] = group
    return found


def _group_if_wanted(name: str, groups: set[int], marks: set[bytes]) -> int | None:
    try:
        with open(f"/proc/{name}/stat", "rb") as file:
            state, _parent, group = file.read().rpartition(b")")[2].split()[:3]
        if state in (b"Z", b"X"):
            return None
        if int(group) in groups:
            return int(group)
        if not marks:
            return None
        with open(f"/proc/{name}/environ", "rb") as file:
            marked = not marks.isdisjoint(file.read().split(b"\0"))
    except (OSError, ValueError):  # it has ended meanwhile, or is somebody else's
        return None
    return int(group) if marked else None


def send(number: int, pid: int, *, group: bool = False) -> None:
    """Send a signal to a process or a group, if it is there."""
    try:
        (os.killpg if group else os.kill)(pid, number)
    except (ProcessLookupError, PermissionError):  # some systems say the latter of zombies
        return


def kill_living(
    groups: set[int],
    marks: set[bytes],
    least_rounds: int = 1,
    most_rounds: int = MOST_ROUNDS,
) -> None:
    """Kill processes of groups, and those with marks, until none is left or nothing helps."""
    for done in range(1, most_rounds + 1):
        left = living(groups, marks)
        for pid in left:
            send(signal.SIGKILL, pid)
        if done == most_rounds or (not left and done >= least_rounds):
            return
        time.sleep(ROUND_SECONDS if done > 1 else ROUND_SECONDS / 10)


class _Commands:
    """The commands that run, by their marks, and their groups where known."""

    def __init__(self) -> None:
        self.groups: dict[bytes, int | None] = {}

    def note(self, line: bytes) -> None:
        """Take note of "+ mark" (is about to start), "= mark group" (runs), "- mark" (is over)."""
        kind, mark, *group = line.split(b" ")
        if kind == b"-":
            self.groups.pop(mark, None)
        else:
            self.groups[mark] = int(group[0]) if group else None

    def read(self, pipe: int) -> None:
        """Take note of everything until the end of the pipe."""
        hangup = select.poll()
        hangup.register(pipe, 0)
        rest = b""
        while chunk := os.read(pipe, READ_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self.note(line)
            hangup.poll(QUIET_MILLISECONDS)  # only the end is urgent: do not wake up for each line

    def kill(self) -> None:
        """Kill all that run; one that was just being started may take a moment to have its mark."""
        if self.groups:
            marks = {VARIABLE.encode() + b"=" + mark for mark in self.groups}
            groups = {group for group in self.groups.values() if group is not None}
            for group in groups:
                send(signal.SIGKILL, group, group=True)
            kill_living(groups, marks, LEAST_ROUNDS)


def main() -> None:
    """Wait for the end of the standard input; then kill whatever runs."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    commands = _Commands()
    commands.read(sys.stdin.fileno())
    commands.kill()


if __name__ == "__main__":
    main()
