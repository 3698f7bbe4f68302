"""The answer of a command that samples: on the screen and, where there is a folder, as files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from oddarms.cli._answer import rendered
from oddarms.cli._printing import ResultFormat, emit, note
from oddarms.errors import MissingExtra
from oddarms.reports import LeftOut, write_report, write_results
from oddarms.search import ARMS, Result, Subject
from oddarms.text import shown


@dataclass(frozen=True)
class Output:
    """Where an answer goes, and in which form.

    Attributes
    ----------
    folder
        For result.json, arms.csv and report.html; None for none of them.
    how
        What is printed; None for nothing.
    quiet
        Whether remarks are left out.
    raw_csv
        Whether labels stand in arms.csv as they are, even those that a spreadsheet would run.
    """

    folder: Path | None
    how: ResultFormat | None
    quiet: bool
    raw_csv: bool = False

    def write(self, result: Result, subject: Subject = ARMS) -> None:
        """Write result.json, arms.csv and, where matplotlib is there, report.html."""
        if self.folder is None:
            return
        write_results(result, self.folder, raw_csv=self.raw_csv)
        try:
            write_report(result, self.folder, raw_csv=self.raw_csv, subject=subject)
        except MissingExtra as error:
            note(f"no report: {error}")

    def show(
        self, result: Result, subject: Subject = ARMS, left_out: Sequence[LeftOut] = ()
    ) -> None:
        """Print the answer."""
        if self.how is not None:
            emit(rendered(result, self.how, subject=subject, left_out=left_out))

    def say_where(self) -> None:
        """Say where the files are."""
        if self.folder is not None and not self.quiet:
            note(f"report: {shown(self.folder / 'report.html')}")
            note("beside it: result.json and arms.csv")
