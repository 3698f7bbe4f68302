"""Names for processes that work on a study, by which one can tell that they are gone.

A process has its number within a PID namespace of a machine that runs: another machine, a container
or the same machine after its next start has other processes under the same numbers, and may have
the same host name. So the name has a few digits for all that, its *place*, and only processes of
the same place are ever found to be gone. Names of older versions have none; nobody can tell.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
from pathlib import Path

_NAME = re.compile(r"process ([0-9]{1,10})/([0-9]{1,20}) on (.+) \(([0-9a-f]{10})\)")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")


def this_process() -> str:
    """Return a name for this process that no other one has had on any machine."""
    return name_of(os.getpid())


def name_of(pid: int) -> str:
    """Return the name of a process that this one can see."""
    name = f"process {pid}/{_started(pid) or 0} on {socket.gethostname()}"
    place = _place()
    return name if place is None else f"{name} ({place})"


def is_gone(worker: str) -> bool:
    """Return whether a name is that of a process of this place that does not run any more."""
    found = _NAME.fullmatch(worker)
    if found is None or (found[3], found[4]) != (socket.gethostname(), _place()):
        return False
    pid, started = int(found[1]), int(found[2])
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:  # it is there, and somebody else's
        pass
    now = _started(pid)
    return now is not None and started != 0 and now != started


def _place() -> str | None:
    """Return digits for where this process has its number; None where nobody says (not Linux)."""
    try:
        seen = f"{_BOOT_ID.read_text(encoding='utf-8').strip()} {os.readlink(_PID_NAMESPACE)}"
    except (OSError, ValueError):
        return None
    return hashlib.sha256(seen.encode()).hexdigest()[:10]


def _started(pid: int) -> int | None:
    """Return when a process started, in ticks since the machine did; None where nobody says."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return int(fields.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None
