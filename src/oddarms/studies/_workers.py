"""Names for processes that work on a study, by which one can tell that they are gone."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

_NAME = re.compile(r"process ([0-9]{1,10})/([0-9]{1,20}) on (.+)")


def this_process() -> str:
    """Return a name for this process that no other one has had on this machine."""
    return f"process {os.getpid()}/{_started(os.getpid()) or 0} on {socket.gethostname()}"


def is_gone(worker: str) -> bool:
    """Return whether a name is that of a process of this machine that does not run any more."""
    found = _NAME.fullmatch(worker)
    if found is None or found[3] != socket.gethostname():
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


def _started(pid: int) -> int | None:
    """Return when a process started, in ticks since the machine did; None where nobody says."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return int(fields.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None
