"""What a study says as plain values: for JSON, CSV and the wire, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from datetime import datetime
from typing import Any

from oddarms.search import Ticket
from oddarms.studies._base import Overview, Study
from oddarms.studies._log import Conflict, Revision, Trial, Worker
from oddarms.studies._storage import StudySummary
from oddarms.tables import csv_text, neutralised

TRIAL_COLUMNS = tuple(Trial.__dataclass_fields__)


def study_document(study: Study, overview: Overview, document: dict[str, Any]) -> dict[str, Any]:
    """Return all about a study but the arms; `document` is that of its result."""
    result = overview.result
    return {
        "name": study.name,
        "storage": study.storage,
        "created": overview.created.isoformat(),
        "status": overview.status.value,
        "stopped": overview.stopped,
        "question": document["question"],
        "seed": study.seed,
        "outliers": len(result.outliers),
        "normal": len(result.normal),
        "undecided": len(result.undecided),
        "pulls": result.pulls,
        "handed_out": overview.handed_out,
        "live": overview.live,
        "results": overview.told,
        "imported": overview.imported,
        "unused": result.unused,
        "beyond": overview.beyond,
        "conflicts": overview.conflicts,
        "revisions": len(study.revisions()),
        "pulls_needed": document["pulls_needed"],
        "thresholds": document["thresholds"],
    }


def summary_document(summary: StudySummary) -> dict[str, Any]:
    """Return a line of the list of studies."""
    question = summary.question.to_dict()
    del question["labels"]
    return {
        "name": summary.name,
        "arms": summary.question.n,
        "question": question,
        "created": summary.created.isoformat(),
        "handed_out": summary.handed_out,
        "results": summary.results,
        "stopped": summary.stopped,
    }


def plain(
    record: Trial | Conflict | Worker | Ticket | Revision, *, without: Iterable[str] = ()
) -> dict[str, Any]:
    """Return a record of a study with texts for times, and the words of a question."""
    values = {f.name: getattr(record, f.name) for f in fields(record) if f.name not in without}
    if isinstance(record, Revision):
        values["question"] = record.question.numbered().to_dict()
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in values.items()
    }


def trial_of(values: dict[str, Any]) -> Trial:
    """Return the trial that `plain` was called on."""
    return Trial(**_with_times(values, "asked", "told"))


def conflict_of(values: dict[str, Any]) -> Conflict:
    """Return the conflict that `plain` was called on."""
    return Conflict(**_with_times(values, "told"))


def worker_of(values: dict[str, Any]) -> Worker:
    """Return the worker that `plain` was called on."""
    return Worker(**_with_times(values, "last_told", "last_seen"))


def ticket_of(values: dict[str, Any]) -> Ticket:
    """Return the ticket that `plain` was called on."""
    return Ticket(**_with_times(values, "expires"))


def moment_from(text: str | None) -> datetime | None:
    """Return a time from its text."""
    return None if text is None else datetime.fromisoformat(text)


def _with_times(values: dict[str, Any], *names: str) -> dict[str, Any]:
    return {**values, **{name: moment_from(values[name]) for name in names}}


def trials_as_csv(trials: Iterable[Trial], *, for_spreadsheets: bool = False) -> Iterator[str]:
    """Yield a table of trials, line by line; see `csv_text`."""
    yield csv_text(TRIAL_COLUMNS, [])
    for trial in trials:
        *values, late = plain(trial).values()
        row = [*values, str(late).lower()]
        if for_spreadsheets:
            row = [neutralised(cell) if isinstance(cell, str) else cell for cell in row]
        yield csv_text(row, [])
