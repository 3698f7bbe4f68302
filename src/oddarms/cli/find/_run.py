"""Sampling until the study of ``oddarms find`` is done, or something fails."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from oddarms.cli._printing import note
from oddarms.cli.find._display import FindDisplay
from oddarms.cli.find._output import write
from oddarms.cli.find._untold import keep_untold, lines_of, tell_left_over
from oddarms.errors import PullFailed, RewardRejected, SearchError, StoreFailed
from oddarms.interrupts import Interrupted, signal_of, uninterrupted
from oddarms.search import Result, Ticket
from oddarms.studies import Study
from oddarms.text import counted, shown


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
        tell_left_over(self.study, self.out, quiet=self.quiet)
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
                raise PullFailed(f"{said}. {self._kept(error)}{self._how(error)}", label) from error

    def _how(self, error: SearchError) -> str:
        """Return how a search goes on that a reward outside its bounds has ended."""
        rejected = error.__cause__ if isinstance(error, PullFailed) else error
        if not (isinstance(rejected, RewardRejected) and rejected.outside):
            return ""
        a, b = self.study.bounds
        return (
            f" With --clip {a:g},{b:g} it counts such rewards as the nearer bound, and means are"
            " those of clipped rewards; wider --bounds are another question, with another --out."
        )

    def _kept(self, error: Any) -> str:
        """Write what is known and say where it is, and how to go on."""
        untold = self._untold_kept(getattr(error, "untold", []))
        where = shown(self.study.storage)
        said = f"all that was told is kept in {where}"
        if getattr(error, "result", None) is not None:
            samples = counted(error.result.pulls + error.result.unused, "sample")
            said = f"{samples} kept in {where}"
            try:
                write(error.result, self.out, raw_csv=self.raw_csv)
                said += f", and what is known in {shown(self.out)}"
            except OSError as problem:  # a full disk must not hide how this ended
                note(f"no report: {problem.strerror or problem}")
        return f"{said}{untold}; the same command goes on from there."

    def _untold_kept(self, untold: list[tuple[Ticket, float]]) -> str:
        """Keep results that could not be stored, before all else, and say where they are."""
        if not untold:
            return ""
        many = f"{counted(len(untold), 'result')} that could not be stored"
        try:
            with uninterrupted():
                return f", and {many} in {shown(keep_untold(self.out, untold))}"
        except OSError as error:
            note(f"{many}, nor written to {shown(self.out)}: {error.strerror or error}")
        how = f"for `oddarms study tell {shlex.quote(self.study.name)} --from`"
        try:
            with uninterrupted():
                path = keep_untold(Path(tempfile.mkdtemp(prefix="oddarms-")), untold)
            return f", and {many} in {shown(path)}, {how}"
        except OSError:
            note(lines_of(untold).rstrip())
        return f", and {many} are only in the lines above, {how}"


def _first_sentence(error: StoreFailed) -> str:
    return str(error).split(". ")[0].rstrip(".") + "."
