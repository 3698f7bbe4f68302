"""What pages look at: a study at one moment, found once for all who look at the same time."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass

from starlette.requests import Request

from oddarms.server.pages._view import View
from oddarms.studies import Overview
from oddarms.studies._study import StoredStudy

MOST_KEPT = 32
MAX_ARMS = 500_000
"""Of all moments that are kept, beyond the latest."""
DEAR = 0.05
"""Seconds: what takes longer to find is looked at for a while, even if there is something new."""
FOR_A_WHILE = 3.0
"""For how many times as long as it took to find."""


@dataclass(frozen=True)
class Snapshot:
    """A study at one moment: its pulse, where it stands, and its arms prepared for pages."""

    pulse: str
    overview: Overview
    view: View
    found: float
    took: float

    def serves(self, pulse: str) -> bool:
        """Return whether it may be shown where this is the pulse now."""
        if self.pulse == pulse:
            return True
        dear = self.took > DEAR
        return dear and time.monotonic() - self.found < FOR_A_WHILE * self.took


class Snapshots:
    """The latest moments of the studies that are looked at."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int], Snapshot] = OrderedDict()
        self._finding: dict[tuple[str, int], threading.Lock] = {}
        self._lock = threading.Lock()

    def of(self, study: StoredStudy) -> Snapshot:
        """Return the study as it is now, or was a moment ago where it is very large."""
        key = (study.name, study.number)
        with self._lock:
            finding = self._finding.setdefault(key, threading.Lock())
        with finding:
            pulse = study.pulse()
            with self._lock:
                known = self._kept.get(key)
            if known is not None and known.serves(pulse):
                return known
            found = _found(study, pulse)
            self._keep(key, found)
            return found

    def forget(self, study: StoredStudy) -> None:
        """Let go of a study that was changed from a page."""
        with self._lock:
            self._kept.pop((study.name, study.number), None)

    def _keep(self, key: tuple[str, int], snapshot: Snapshot) -> None:
        with self._lock:
            self._kept[key] = snapshot
            self._kept.move_to_end(key)
            arms = sum(kept.view.n for kept in self._kept.values())
            while len(self._kept) > 1 and (len(self._kept) > MOST_KEPT or arms > MAX_ARMS):
                gone, old = self._kept.popitem(last=False)
                self._finding.pop(gone, None)
                arms -= old.view.n


def _found(study: StoredStudy, pulse: str) -> Snapshot:
    begun = time.monotonic()
    overview, intervals = study.outline()
    now = time.monotonic()
    view = View(overview.result, study.labels_of, intervals)
    return Snapshot(pulse, overview, view, now, now - begun)


def snapshot_of(request: Request, study: StoredStudy) -> Snapshot:
    """Return a study as pages of this application look at it now."""
    return _of_application(request).of(study)


def forget_snapshot(request: Request, study: StoredStudy) -> None:
    """Let the next page look at a study anew."""
    _of_application(request).forget(study)


def _of_application(request: Request) -> Snapshots:
    state = request.app.state
    if not hasattr(state, "snapshots"):
        state.snapshots = Snapshots()
    found: Snapshots = state.snapshots
    return found
