"""`Result.from_dict`: a result from the document that `Result.to_dict` returned."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oddarms.algorithms import Decision, Decisions, Threshold
from oddarms.errors import InvalidParameter
from oddarms.problem import FloatArray, IntArray, Label, Question
from oddarms.search._result import OPEN, VERSION, Result, Snapshot, TracePoint
from oddarms.search._tickets import Status

_DECISIONS = {decision.name.lower(): int(decision) for decision in Decision}


def result_of(document: Any) -> Result:
    """Return the result of a document; refuse a document of a newer version."""
    try:
        if type(document["version"]) is not int or document["version"] > VERSION:
            raise InvalidParameter(
                f"a result must be of version {VERSION} or before but this one is of"
                f" {document['version']!r}: upgrade oddarms."
            )
        return _result(document)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, InvalidParameter):
            raise
        raise InvalidParameter(f"a result must be whole but this one is not: {error!r}.") from None


def _result(document: dict[str, Any]) -> Result:
    rows: list[dict[str, Any]] = document["arms"]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    means = _floats(columns["mean"], math.nan)
    lower, upper = _floats(columns["lower"], -math.inf), _floats(columns["upper"], math.inf)
    ranks, evidence = columns["rank"], columns["log_evidence"]
    needed, guesses = columns["pulls_needed"], columns["guess"]
    decisions = _decisions(columns["decision"])
    return Result(
        question=_question(document["question"], columns["label"]),
        status=Status(document["status"]),
        decisions=decisions,
        pulls_per_arm=np.array(columns["pulls"], dtype=np.int64),
        means=means,
        intervals=np.column_stack([lower, upper]),
        thresholds=_thresholds(document["thresholds"]),
        centre=_centre(document.get("centre")),
        round=document["round"],
        threshold_pulls=document["threshold_pulls"],
        history_per_arm=np.array(columns["history"], dtype=np.int64),
        unused=document["unused"],
        evidence=None if _all_none(evidence) else _floats(evidence, math.nan),
        pulls_needed=None if _all_none(needed) else _floats(needed, math.inf),
        guesses=None if _all_none(guesses) else _decisions(guesses),
        ranks=_ranks(ranks, decisions),
        decided_after=_decided_after(columns.get("decided_after"), decisions),
        trace=tuple(_point(point) for point in document["trace"]),
        first=_snapshot(document.get("first")),
        last=_snapshot(document.get("last")),
        notes=tuple(document.get("notes", ())),
    )


def snapshot_document(snapshot: Snapshot | None) -> dict[str, Any] | None:
    """Return a snapshot as plain values."""
    if snapshot is None:
        return None
    return {
        "round": snapshot.round,
        "means": _plain(snapshot.means),
        "lower": _plain(snapshot.lower),
        "upper": _plain(snapshot.upper),
        "decisions": snapshot.decisions.tolist(),
        "thresholds": {
            side: dict(zip(t._fields, map(_number, t), strict=True))
            for side, t in snapshot.thresholds.items()
        },
    }


def _snapshot(document: dict[str, Any] | None) -> Snapshot | None:
    if document is None:
        return None
    return Snapshot(
        document["round"],
        _floats(document["means"], math.nan),
        _floats(document["lower"], -math.inf),
        _floats(document["upper"], math.inf),
        np.array(document["decisions"], dtype=np.int8),
        _thresholds(document["thresholds"]),
    )


def _question(words: dict[str, Any], labels: list[Label]) -> Question:
    return Question.from_dict({**words, "labels": None, "n": len(labels)}).relabelled(labels)


def _thresholds(sides: dict[str, dict[str, float | None]]) -> dict[str, Threshold]:
    return {
        side: Threshold(
            _or(ends["estimate"], math.nan),
            _or(ends["lower"], -math.inf),
            _or(ends["upper"], math.inf),
        )
        for side, ends in sides.items()
    }


def _centre(ends: list[float | None] | None) -> tuple[float, float]:
    low, high = ends or (None, None)
    return _or(low, -math.inf), _or(high, math.inf)


def _point(values: dict[str, Any]) -> TracePoint:
    missing = {
        "threshold": math.nan,
        "threshold_lower": -math.inf,
        "threshold_upper": math.inf,
    }
    return TracePoint(**{name: _or(value, missing.get(name)) for name, value in values.items()})


def _or(value: Any, other: Any) -> Any:
    return other if value is None else value


def _floats(values: list[float | None], missing: float) -> FloatArray:
    return np.array([missing if value is None else value for value in values], dtype=np.float64)


def _decisions(names: list[str]) -> Decisions:
    return np.array([_DECISIONS[name] for name in names], dtype=np.int8)


def _decided_after(after: list[int | None] | None, decisions: Decisions) -> IntArray | None:
    """Return after how many pulls arms were decided; None if the document does not say."""
    if after is None or (_all_none(after) and decisions.any()):
        return None
    return np.array([OPEN if value is None else value for value in after], dtype=np.int64)


def _ranks(ranks: list[int | None], decisions: Decisions) -> IntArray | None:
    """Return ranks by suspicion; None if arms are undecided and the document has no ranks."""
    if _all_none(ranks) and not decisions.all():
        return None
    return np.array([rank or 0 for rank in ranks], dtype=np.int64)


def _all_none(values: list[Any]) -> bool:
    return all(value is None for value in values)


def _plain(values: FloatArray) -> list[float | None]:
    return [_number(value) for value in values.tolist()]


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
