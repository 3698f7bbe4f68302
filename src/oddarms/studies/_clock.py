"""The clock of leases in a file: steady, and the same for all processes of a machine.

A lease must neither end nor last because somebody sets the time of day. PostgreSQL's leases go by
the server's clock, whatever those of its clients say; those in a file by the time since the machine
started, together with which start that was: whoever had a lease before it is gone.
"""

from __future__ import annotations

import hashlib
import time
from functools import cache
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@cache
def boot() -> int:
    """Return a number for this start of the machine, 0 where nobody tells (not Linux)."""
    try:
        digest = hashlib.sha256(_BOOT_ID.read_bytes()).digest()
    except OSError:
        return 0
    return 1 + int.from_bytes(digest[:7], "big")


def steady() -> float:
    """Return seconds that nobody can set, those of a suspended machine included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if boot() else time.time()
