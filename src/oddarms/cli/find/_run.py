"""Sampling until the study of ``oddarms find`` is done, or something fails."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from oddarms.cli._printing import note
from oddarms.cli.find._display import FindDisplay
from oddarms.cli.find._output import write
from oddarms.errors import InvalidParameter, PullFailed, SearchError, StoreFailed
from oddarms.files import write_whole
from oddarms.interrupts import Interrupted, signal_of
from oddarms.search import Result, Ticket
from oddarms.studies import Study
from oddarms.tables import read_results
from oddarms.text import counted, shown

UNTOLD_FILE = "untold.txt"


class OnErrorName(StrEnum):
    """What a pull that fails means."""

    stop = "stop"
    retry = "retry"
    worst = "worst"


@dataclass(frozen=True)
class Run:
    """How a study is run."""

    study: Study
    jobs: int
    on_error: OnErrorName
    patience: timedelta
    out: Path
    _: KW_ONLY
    batch: bool
    quiet: bool
    raw_csv: bool = False

    def until_done(self, function: Callable[[Any], Any] | None) -> Result:
        """Sample until the study is done; whatever happens, write what is known."""
        self._tell_left_over()
        if function is None or self.study.done:
            return self.study.result()
        pulls = self.study.progress().pulls
        with FindDisplay(sys.stderr, shown=not self.quiet, first_pulls=pulls) as display:
            self.study.on_decision(display.decided)
            try:
                return self.study.run(
                    function,
                    jobs=None if self.batch else self.jobs,
                    on_error=self.on_error.value,
                    patience=self.patience,
                    progress=display,
                    batch=self.batch,
                )
            except KeyboardInterrupt as error:
                raise Interrupted(f"interrupted: {self._kept(error)}", signal_of(error)) from None
            except StoreFailed as error:
                raise StoreFailed(f"{_first_sentence(error)} {self._kept(error)}") from error
            except SearchError as error:
                label = error.label if isinstance(error, PullFailed) else None
                said = str(error).rstrip(".")
                raise PullFailed(f"{said}. {self._kept(error)}", label) from error

    @property
    def _untold_file(self) -> Path:
        return self.out / UNTOLD_FILE

    def _tell_left_over(self) -> None:
        """Store results that an earlier run could not store; what is told twice counts once."""
        if not self._untold_file.exists():
            return
        try:
            results = read_results(self._untold_file, self.study.bounds)
            self.study.tell_many(results)
        except InvalidParameter as error:
            note(f"{shown(self._untold_file)} was left as it is: {error}")
            return
        self._untold_file.unlink()
        if not self.quiet:
            note(f"{counted(len(results), 'result')} of an earlier run stored")

    def _kept(self, error: Any) -> str:
        """Write what is known and say where it is, and how to go on."""
        where = shown(self.study.storage)
        said = f"all that was told is kept in {where}"
        if getattr(error, "result", None) is not None:
            write(error.result, self.out, raw_csv=self.raw_csv)
            samples = counted(error.result.pulls + error.result.unused, "sample")
            said = f"{samples} kept in {where}, and what is known in {shown(self.out)}"
        untold: list[tuple[Ticket, float]] = getattr(error, "untold", [])
        if untold:
            self._write_untold(untold)
            count = counted(len(untold), "result")
            said += f", and {count} that could not be stored in {shown(self._untold_file)}"
        return f"{said}; the same command goes on from there."

    def _write_untold(self, untold: list[tuple[Ticket, float]]) -> None:
        """Keep results as lines that the next run, and `oddarms study tell --from`, take."""
        before = self._untold_file.read_text("ascii") if self._untold_file.exists() else ""
        lines = "".join(f"{ticket.id} {reward!r}\n" for ticket, reward in untold)
        write_whole(self._untold_file, before + lines)


def _first_sentence(error: StoreFailed) -> str:
    return str(error).split(". ")[0].rstrip(".") + "."
