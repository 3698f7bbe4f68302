"""A process of the fault tests, as its starter sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fault_process import Task, whole_lines

PULLERS = ("hand", "hand", "run", "command")


@dataclass(eq=False)
class Hand:
    """A process on the stage, and how far its ledger was read."""

    task: Task
    process: Any
    read: int = 0
    recorded: int = 0
    suspended: bool = False

    @property
    def at_work(self) -> bool:
        begun = self.recorded if self.task.kind in PULLERS else self.read
        return begun > 0 and not self.suspended

    @property
    def patient(self) -> bool:
        """Whether it waits for others as long as everybody does, unless it is told otherwise."""
        return all(word != "impatient" for _, word, *_ in whole_lines(self.task.ledger))

    def read_on(self) -> int:
        """Return how many results more were acknowledged to this process for the first time."""
        with open(self.task.ledger, "rb") as ledger:
            ledger.seek(self.read)
            text = ledger.read()
        whole = text[: text.rfind(b"\n") + 1]
        self.read += len(whole)
        more = whole.count(b" recorded\n")
        self.recorded += more
        return more
