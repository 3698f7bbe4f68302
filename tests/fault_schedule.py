"""Which fault comes when, from a seed.

The time between faults is counted in acknowledged results, so that a seed gives about the same run
on a busy machine. A fault that lasts ends after some time, as work may stand still meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fault_process import LEASE

ON_WORKERS = ("kill", "kill", "kill all", "terminate", "terminate", "suspend")
ON_FILES = ("lock", "slow disk", "full disk: pages", "full disk: bytes", "backup")
ON_SERVERS = ("lock", "slow disk", "server killed", "server stopped", "server stopped at once")
ON_SERVERS += ("connections ended",)
MEANWHILE = ("nothing", "nothing", "kill", "terminate")


@dataclass(frozen=True)
class Event:
    """A fault to come.

    Attributes
    ----------
    after
        So many results must have been acknowledged since the fault before.
    fault, meanwhile
        What happens, and what else while the storage is away.
    seconds
        How long it lasts, if it does.
    who
        Which worker, as a share of those at work.
    """

    after: int
    fault: str
    seconds: float
    meanwhile: str
    who: float


def schedule(seed: int, faults: int, apart: int, *, server: bool) -> list[Event]:
    """Return so many faults, each kind of them once before any comes again."""
    rng = np.random.default_rng(seed)
    kinds = [*ON_WORKERS, *(ON_SERVERS if server else ON_FILES)]
    drawn: list[str] = []
    while len(drawn) < faults:
        drawn += rng.permutation(kinds).tolist()
    return [
        Event(
            int(rng.integers(1, 2 * apart)),
            fault,
            float(rng.uniform(0.05, 1.2 * LEASE)),
            str(rng.choice(MEANWHILE)),
            float(rng.random()),
        )
        for fault in drawn[:faults]
    ]
