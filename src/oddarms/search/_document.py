"""`Result.from_dict`: a result from the document that `Result.to_dict` returned."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from oddarms.algorithms import Decision, Decisions, Threshold
from oddarms.errors import InvalidParameter
from oddarms.problem import FloatArray, IntArray, Question
from oddarms.search._result import OPEN, VERSION, Result, Snapshot, TracePoint, plain
from oddarms.search._tickets import Status

_DECISIONS = {decision.name.lower(): int(decision) for decision in Decision}


def result_of(document: Any) -> Result:
    """Return the result of a document; refuse a document of a newer version."""
    try:
        if type(document["version"]) is not int or document["version"] > VERSION:
            raise InvalidParameter(
                f"This result is of version {document['version']!r}, while this oddarms reads"
                f" version {VERSION}: upgrade oddarms."
            )
        return _result(document)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, InvalidParameter):
            raise
        raise InvalidParameter(f"The result is damaged or incomplete: {error!r}.") from None


def _result(document: dict[str, Any]) -> Result:
    rows: list[dict[str, Any]] = document["arms"]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    lower, upper = _floats(columns["lower"], -math.inf), _floats(columns["upper"], math.inf)
    words = {**document["question"], "labels": None, "n": len(rows)}
    low, high = document["centre"]
    return Result(
        question=Question.from_dict(words).relabelled(columns["label"]),
        status=Status(document["status"]),
        decisions=_decisions(columns["decision"]),
        pulls_per_arm=np.array(columns["pulls"], dtype=np.int64),
        means=_floats(columns["mean"]),
        intervals=np.column_stack([lower, upper]),
        thresholds=_thresholds(document["thresholds"]),
        centre=(_or(low, -math.inf), _or(high, math.inf)),
        round=document["round"],
        threshold_pulls=document["threshold_pulls"],
        history_per_arm=np.array(columns["history"], dtype=np.int64),
        unused=document["unused"],
        evidence=_known(columns["log_evidence"], _floats),
        pulls_needed=_known(columns["pulls_needed"], lambda needed: _floats(needed, math.inf)),
        guesses=_known(columns["guess"], _decisions),
        ranks=_known(columns["rank"], lambda ranks: _whole(ranks, 0)),
        decided_after=_known(columns["decided_after"], lambda after: _whole(after, OPEN)),
        trace=tuple(_point(point) for point in document["trace"]),
        first=_snapshot(document.get("first")),
        last=_snapshot(document.get("last")),
        notes=tuple(document["notes"]),
    )


def snapshot_document(snapshot: Snapshot | None) -> dict[str, Any] | None:
    """Return a snapshot as plain values."""
    if snapshot is None:
        return None
    document = {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in vars(snapshot).items()
    }
    thresholds = {side: t._asdict() for side, t in snapshot.thresholds.items()}
    plain_document: dict[str, Any] = plain(document | {"thresholds": thresholds})
    return plain_document


def _snapshot(document: dict[str, Any] | None) -> Snapshot | None:
    if document is None:
        return None
    return Snapshot(
        document["round"],
        _floats(document["means"]),
        _floats(document["lower"], -math.inf),
        _floats(document["upper"], math.inf),
        np.array(document["decisions"], dtype=np.int8),
        _thresholds(document["thresholds"]),
    )


def _thresholds(sides: dict[str, dict[str, float | None]]) -> dict[str, Threshold]:
    missing = {"estimate": math.nan, "lower": -math.inf, "upper": math.inf}
    return {
        side: Threshold(*(_or(ends[name], other) for name, other in missing.items()))
        for side, ends in sides.items()
    }


def _point(values: dict[str, Any]) -> TracePoint:
    missing = {
        "threshold": math.nan,
        "threshold_lower": -math.inf,
        "threshold_upper": math.inf,
    }
    return TracePoint(**{name: _or(value, missing.get(name)) for name, value in values.items()})


def _or(value: Any, other: Any) -> Any:
    return other if value is None else value


def _floats(values: list[float | None], missing: float = math.nan) -> FloatArray:
    return np.array([_or(value, missing) for value in values], dtype=np.float64)


def _whole(values: list[int | None], missing: int) -> IntArray:
    return np.array([_or(value, missing) for value in values], dtype=np.int64)


def _decisions(names: list[str]) -> Decisions:
    return np.array([_DECISIONS[name] for name in names], dtype=np.int8)


def _known(values: list[Any], convert: Callable[[list[Any]], Any]) -> Any:
    """Return a column, None if nothing is known of any arm."""
    return None if all(value is None for value in values) else convert(values)
