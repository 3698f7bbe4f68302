"""Sampling until a study is done, or something fails."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from oddarms.cli._printing import note
from oddarms.cli.sampling._options import OnErrorName
from oddarms.cli.sampling._output import Output
from oddarms.cli.sampling._untold import keep_untold, lines_of, tell_left_over
from oddarms.errors import PullFailed, RewardRejected, SearchError, StorageFailed
from oddarms.interrupts import Interrupted, signal_of, uninterrupted
from oddarms.search import Result, Ticket
from oddarms.studies import Study
from oddarms.text import counted, shown


@dataclass(frozen=True)
class Run:
    """How a study is run.

    Attributes
    ----------
    study, jobs, on_error, patience, batch, worker
        As for `Study.run`.
    output
        Where what is known goes if the run ends early; its folder has what could not be stored.
    """

    study: Study
    jobs: int
    on_error: OnErrorName
    patience: timedelta
    output: Output
    _: KW_ONLY
    batch: bool
    worker: str | None = None

    def until_done(self, function: Callable[[Any], Any] | None) -> Result:
        """Sample until the study is done; whatever happens, write what is known."""
        if self.output.folder is not None:
            tell_left_over(self.study, self.output.folder, quiet=self.output.quiet)
        if function is None or self.study.done:
            return self.study.result()
        try:
            return self._sampled(function)
        except KeyboardInterrupt as error:
            known = getattr(error, "result", None)
            said = self._kept(error)
            if known is not None and known.pulls + known.history + known.unused:
                self.output.show(known)
            raise Interrupted(f"interrupted: {said}", signal_of(error)) from None
        except StorageFailed as error:
            raise StorageFailed(f"{_first_sentence(error)} {self._kept(error)}") from error
        except SearchError as error:
            label = error.label if isinstance(error, PullFailed) else None
            said = str(error).rstrip(".")
            raise PullFailed(f"{said}. {self._kept(error)}{self._how(error)}", label) from error

    def _sampled(self, function: Callable[[Any], Any]) -> Result:
        """Sample, and show how far it is; the last that is shown is what the answer says."""
        from oddarms.cli.sampling._display import Display, command_in  # it needs rich

        display = Display(
            sys.stderr,
            self.study,
            self.study.progress(),
            wanted=not self.output.quiet,
            command=command_in(function),
        )
        with display:
            self.study.on_decision(display.decided)
            result = self.study.run(
                function,
                worker=self.worker,
                jobs=None if self.batch else self.jobs,
                on_error=self.on_error.value,
                patience=self.patience,
                progress=display,
                batch=self.batch,
            )
            display.end(result)
        return result

    def _how(self, error: SearchError) -> str:
        """Return how a search goes on that a late sample, or one outside its bounds, has ended."""
        if isinstance(error, PullFailed) and error.late:
            return (
                " A larger --timeout gives a sample more time; --on-error worst counts one that"
                " is late as the worst reward."
            )
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
                self.output.write(error.result)
                if self.output.folder is not None:
                    said += f", and what is known in {shown(self.output.folder)}"
            except OSError as problem:  # a full disk must not hide how this ended
                note(f"no report: {problem.strerror or problem}")
        return f"{said}{untold}; the same command goes on from there."

    def _untold_kept(self, untold: list[tuple[Ticket, float]]) -> str:
        """Keep results that could not be stored, before all else, and say where they are."""
        if not untold:
            return ""
        many = f"{counted(len(untold), 'result')} that could not be stored"
        folder = self.output.folder
        try:
            if folder is not None:
                with uninterrupted():
                    return f", and {many} in {shown(keep_untold(folder, untold))}"
        except OSError as error:
            note(f"{many}, nor written to {shown(folder)}: {error.strerror or error}")
        how = f"for `oddarms study tell {shlex.quote(self.study.name)} --from`"
        try:
            with uninterrupted():
                path = keep_untold(Path(tempfile.mkdtemp(prefix="oddarms-")), untold)
            return f", and {many} in {shown(path)}, {how}"
        except OSError:
            note(lines_of(untold).rstrip())
        return f", and {many} are only in the lines above, {how}"


def _first_sentence(error: StorageFailed) -> str:
    return str(error).split(". ")[0].rstrip(".") + "."
