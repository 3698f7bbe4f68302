"""Sampling until the study of ``oddarms find`` is done, or something fails."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from oddarms.cli.find._display import FindDisplay
from oddarms.cli.find._output import write
from oddarms.errors import PullFailed, SearchError
from oddarms.search import Result
from oddarms.studies import Study
from oddarms.text import counted, shown

MOST_LEASE_SECONDS = 1e8


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
    timeout: float | None
    on_error: OnErrorName
    out: Path
    _: KW_ONLY
    batch: bool
    quiet: bool
    raw_csv: bool = False

    def until_done(self, function: Callable[[Any], Any] | None) -> Result:
        """Sample until the study is done; whatever happens, write what is known."""
        if function is None or self.study.done:
            return self.study.result()
        pulls = self.study.progress().pulls
        with FindDisplay(sys.stderr, shown=not self.quiet, first_pulls=pulls) as display:
            self.study.on_decision(display.decided)
            try:
                return self.study.run(
                    function,
                    jobs=None if self.batch else self.jobs,
                    lease=self._lease,
                    on_error=self.on_error.value,
                    progress=display,
                    batch=self.batch,
                )
            except KeyboardInterrupt:
                raise KeyboardInterrupt(f"interrupted: {self._kept()}") from None
            except SearchError as error:
                label = error.label if isinstance(error, PullFailed) else None
                said = str(error).rstrip(".")
                raise PullFailed(f"{said}. {self._kept()}", label) from error

    @property
    def _lease(self) -> timedelta:
        seconds = 3600.0 if self.timeout is None else 10.0 * self.timeout + 60.0
        return timedelta(seconds=min(seconds, MOST_LEASE_SECONDS))

    def _kept(self) -> str:
        """Write what is known and say where it is, and how to go on."""
        write(self.study.result(), self.out, raw_csv=self.raw_csv)
        pulls = counted(self.study.progress().pulls, "sample")
        return (
            f"{pulls} kept in {shown(self.study.storage)}, and what is known in"
            f" {shown(self.out)}; the same command goes on from there."
        )
