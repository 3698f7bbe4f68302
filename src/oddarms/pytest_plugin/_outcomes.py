"""What one run of one test says: it passed, failed, or was skipped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest

_PLACE = "oddarms_place"
MOST_CHARACTERS = 300
"""Of what is kept of a failure."""


class Verdict(StrEnum):
    """How a run ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Outcome:
    """How a run ended, why, and how long it took."""

    verdict: Verdict
    text: str = ""
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """True if the run failed: the reward is 1 then, else 0."""
        return self.verdict is Verdict.FAILED

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for another process."""
        return {"verdict": self.verdict.value, "text": self.text, "seconds": self.seconds}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Outcome:
        """Return what `to_dict` was made of."""
        return cls(Verdict(values["verdict"]), str(values["text"]), float(values["seconds"]))


def outcome_of(reports: Iterable[pytest.TestReport]) -> Outcome:
    """Return the outcome of a run from the reports of its phases, and of its subtests.

    It failed if any of them did: setup and teardown count. A failure that was expected (xfail) is
    a pass, and a pass that was not, where xfail is strict, a failure: pytest decides both.
    """
    reports = list(reports)
    seconds = sum(report.duration for report in reports)
    failed = next((report for report in reports if report.failed), None)
    if failed is not None:
        return Outcome(Verdict.FAILED, _text(failed), seconds)
    skipped = next((r for r in reports if r.skipped and not hasattr(r, "wasxfail")), None)
    if skipped is not None:
        return Outcome(Verdict.SKIPPED, _reason(skipped), seconds)
    return Outcome(Verdict.PASSED, "", seconds)


def _text(report: pytest.TestReport) -> str:
    """Return a failure in a line: where, and the first line of the exception."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        first = str(crash.message).strip().split("\n")[0]
        path, line = getattr(report, _PLACE, (crash.path, crash.lineno))
        text = f"{_short(str(path))}:{line}: {first}"
    else:
        lines = [line for line in str(report.longrepr or "").split("\n") if line.strip()]
        errors = [line.removeprefix("E ") for line in lines if line.startswith("E ")]
        text = (errors or lines[-1:] or ["failed"])[0].strip()
    when = "" if report.when == "call" else f"{report.when}: "
    return cut(f"{when}{text}")


def note_place(
    report: pytest.TestReport, item: pytest.Item, error: pytest.ExceptionInfo[BaseException]
) -> None:
    """Note on a report where its test has failed: not in unittest, where its assertions are."""
    entries = item._traceback_filter(error)
    own = [entry for entry in entries if "__unittest" not in entry.frame.f_globals]
    if own:
        setattr(report, _PLACE, (own[-1].path, own[-1].lineno + 1))


def _short(path: str) -> str:
    """Return a path as seen from here, if it is below."""
    from pathlib import Path

    try:
        return str(Path(path).relative_to(Path.cwd()))
    except (OSError, ValueError):
        return path


def _reason(report: pytest.TestReport) -> str:
    """Return why a test was skipped."""
    if isinstance(report.longrepr, tuple):
        return cut(str(report.longrepr[2]).removeprefix("Skipped: "))
    return cut(str(report.longrepr or ""))


def cut(text: str) -> str:
    """Return the beginning of a text."""
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."
