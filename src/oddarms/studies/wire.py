"""What a server and its clients agree on: documents of JSON, limits, and codes of errors."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from oddarms import errors
from oddarms.studies._study import MAX_KEY as MAX_KEY
from oddarms.studies._study import MAX_TEXT as MAX_TEXT
from oddarms.studies._study import Overview, Study, StudySummary
from oddarms.studies._worker import MAX_WAIT as MAX_WAIT

MAX_RESULTS = 10_000
"""Results or tickets of one request."""
AT_A_TIME = MAX_RESULTS // 2
"""Results or tickets that our client sends, or asks for, at once."""
MAX_HISTORY = 100_000
"""Rewards of a history in one request."""
MAX_TICKET_ID = 80
"""Characters of the id of a ticket."""

CODES: dict[type[errors.OddarmsError], tuple[str, int]] = {
    errors.RewardRejected: ("reward-rejected", 422),
    errors.UnknownStudy: ("unknown-study", 404),
    errors.DuplicateStudy: ("duplicate-study", 409),
    errors.UnknownAlgorithm: ("unknown-algorithm", 422),
    errors.UnknownOption: ("unknown-option", 422),
    errors.InvalidParameter: ("invalid-parameter", 422),
    errors.MissingExtra: ("missing-extra", 501),
    errors.StorageFailed: ("storage-failed", 500),
    errors.OddarmsError: ("failed", 500),
}
"""Code and status of every kind of error; the first class that fits counts."""

CLASSES: dict[str, type[errors.OddarmsError]] = {
    code: kind
    for kind, (code, _) in CODES.items()
    if kind not in (errors.StorageFailed, errors.OddarmsError)
} | {"invalid-request": errors.InvalidParameter}
"""The error of each code; any other is that of a storage that failed."""


def study_document(study: Study, overview: Overview, document: dict[str, Any]) -> dict[str, Any]:
    """Return everything about a study but the arms; `document` is that of its result."""
    result, known = overview.result, plain(overview)
    known["results"] = known.pop("told")
    return known | {
        "name": study.name,
        "storage": study.storage,
        "seed": study.seed,
        "outliers": len(result.outliers),
        "normal": len(result.normal),
        "undecided": len(result.undecided),
        **{name: document[name] for name in _OF_RESULT},
    }


_OF_RESULT = ("question", "pulls", "history", "unused", "pulls_needed", "thresholds")


def summary_document(summary: StudySummary) -> dict[str, Any]:
    """Return a line of the list of studies."""
    question = summary.question.to_dict()
    del question["labels"]
    return plain(summary) | {"arms": summary.question.n, "question": question}


def plain(record: Any) -> dict[str, Any]:
    """Return a record of a study with texts for times, without a result."""
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in vars(record).items()
        if name != "result"
    }


def record_of(kind: type[Any], values: dict[str, Any]) -> Any:
    """Return the record that `plain` was called on."""
    times = ("created", "told", "seen", "last_told", "last_seen", "since", "expires")
    return kind(
        **{
            name: datetime.fromisoformat(value) if name in times and value else value
            for name, value in values.items()
        }
    )
