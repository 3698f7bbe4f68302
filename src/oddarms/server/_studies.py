"""Studies that this process has open, so that not every request replays a log."""

from __future__ import annotations

import threading
from collections import OrderedDict

from oddarms.errors import UnknownStudy
from oddarms.studies._database_storage import DatabaseStorage
from oddarms.studies._study import StoredStudy

MOST_OPEN = 200
MAX_ARMS = 2_000_000
"""Of all open studies together, beyond the one that was used last."""


class OpenStudies:
    """Opens studies of a storage when they are first wanted, and keeps those used last."""

    def __init__(self, storage: DatabaseStorage) -> None:
        self.storage = storage
        self._open: OrderedDict[str, StoredStudy] = OrderedDict()
        self._opening: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def get(self, name: str) -> StoredStudy:
        """Return the study that has a name now: one that was deleted and made anew is another."""
        number = self.storage.number_of(name)
        if number is None:
            self.forget(name)
            raise UnknownStudy(f"name must be a study of this server but got {name!r}.")
        known = self._known(name, number)
        if known is not None:
            return known
        with self._lock:
            opening = self._opening.setdefault(name, threading.Lock())
        with opening:  # one reads the log, and all others who want the study then have it
            known = self._known(name, number)
            if known is not None:
                return known
            try:
                study = self.storage.load(name)
            finally:
                with self._lock:
                    self._opening.pop(name, None)
            with self._lock:
                self._open[name] = study
                self._open.move_to_end(name)
                self._close_some()
            return study

    def _known(self, name: str, number: int) -> StoredStudy | None:
        with self._lock:
            known = self._open.get(name)
            if known is None or known.number != number:
                return None
            self._open.move_to_end(name)
            return known

    def opened(self, name: str) -> StoredStudy | None:
        """Return the study that had a name when it was last looked for, without a look now."""
        with self._lock:
            return self._open.get(name)

    def forget(self, name: str) -> None:
        """Let go of a study."""
        with self._lock:
            self._open.pop(name, None)

    def _close_some(self) -> None:
        arms = sum(study.n for study in self._open.values())
        while len(self._open) > 1 and (len(self._open) > MOST_OPEN or arms > MAX_ARMS):
            _, study = self._open.popitem(last=False)
            arms -= study.n
