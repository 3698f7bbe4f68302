"""The last part of what a command prints."""

from __future__ import annotations

import contextlib
import os
import threading

TAIL_BYTES = 65_536
MOST_READS = 16  # of what was printed before the end: more than a pipe holds
MOST_READERS = 64


class Output:
    """A pipe that a command prints into, of which the last part is kept.

    A file would grow with what is printed. Whoever waits for the command calls `read` whenever
    there is something, so that the command is never held up.
    """

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)
        self._kept = bytearray()
        self.over = False

    def started(self) -> None:
        """Leave the writing to the command."""
        os.close(self.writing)

    def read(self) -> bool:
        """Take some of what is there; return whether there may be more at once."""
        try:
            chunk = os.read(self.reading, TAIL_BYTES)
        except BlockingIOError:
            return False
        self._kept += chunk
        if len(self._kept) > 2 * TAIL_BYTES:
            del self._kept[:-TAIL_BYTES]
        self.over = not chunk
        return not self.over

    def read_rest(self) -> None:
        """Take what is left of a command that has ended; others may go on printing for ever."""
        for _ in range(MOST_READS):
            if self.over or not self.read():
                return

    def close(self) -> None:
        """End it; what the command has left running can go on printing, to nobody."""
        if not self.over:
            self.read()
        if self.over or not _readers.acquire(blocking=False):
            os.close(self.reading)
        else:
            os.set_blocking(self.reading, True)
            threading.Thread(target=_throw_away, args=(self.reading,), daemon=True).start()

    def last_line(self) -> str:
        """Return the last line that is not blank."""
        lines = self._kept[-TAIL_BYTES:].decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""


_readers = threading.BoundedSemaphore(MOST_READERS)


def _throw_away(pipe: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(pipe, TAIL_BYTES):
            pass
    os.close(pipe)
    _readers.release()
