"""Saved searches are not trusted: their state must be one that a search can have.

Figures may still be wrong. But indices are those of arms, counts are not below 0, arrays have the
kinds and lengths that a new search of the same question has, so that a search goes on or says in
one sentence why it cannot.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from oddarms.algorithms import Algorithm
from oddarms.errors import InvalidParameter, OddarmsError
from oddarms.freezing import freeze, thaw
from oddarms.problem import IntArray, Question
from oddarms.search._decided import OPEN, DecisionTimes
from oddarms.search._places import Sequences
from oddarms.search._result import Snapshot, TracePoint
from oddarms.search._step import Step, starts_of

Method = TypeVar("Method", bound=Callable[..., Any])

STATE_VERSION = 4
STATE_BYTES = 1_024
"""Expected of an arm in a state; SPADE has about 450 and, on both sides, twice that, packed."""

_CHECKED = (
    "algorithm",
    "status",
    "told",
    "taken",
    "total_pulls",
    "imported",
    "_sequences",
    "_decided",
)
_NOT_SAVED = (
    "question",
    "_rewards",
    "_asked",
    "_out",
    "_out_places",
    "_needed",
    "_outlook",
)
_COUNTS = ("told", "beyond", "taken", "total_pulls", "_free", "_unused", "_last_id")
_LARGEST = 2**63 - 1
_WHOLE, _REAL = "iu", "f"
"""Kinds of arrays: algorithms of others may have another width than ours."""


def frozen_state(search: Any) -> bytes:
    """Return the whole state of a search but its question."""
    search._sequences.step.forget_index()
    kept = {name: value for name, value in vars(search).items() if name not in _NOT_SAVED}
    asked = _asked(search.question)
    return freeze(
        {"version": STATE_VERSION, "asked": asked, **kept},
        expected=STATE_BYTES * search.question.n,
    )


def restore_state(search: Any, data: bytes) -> None:
    """Give a new search the state that a search of the same question has had."""
    package = type(search.algorithm).__module__.partition(".")[0]
    state = thaw(data, [package], expected=STATE_BYTES * search.question.n)
    known = vars(search).keys() - set(_NOT_SAVED)
    if (
        not isinstance(state, dict)
        or not is_same(state.pop("version", None), STATE_VERSION)
        or not is_same(state.pop("asked", None), _asked(search.question))
        or state.keys() != known
        or any(not isinstance(state[name], type(getattr(search, name))) for name in _CHECKED)
    ):
        raise InvalidParameter(
            "a saved search must be of this version of oddarms and of the same question but is not."
        )
    try:
        check_state(state, search)
    except Exception as error:  # a part may be missing, or be anything
        raise InvalidParameter(
            "a saved search must be whole but this one has what no search can have:"
            f" {type(error).__name__} {error}."
        ) from error
    vars(search).update(state)
    search._sequences.step.forget_index()


def _asked(question: Question) -> str:
    """Return what a saved state is the answer to; labels are only names."""
    return json.dumps(question.numbered().to_dict(), default=str)


class Implausible(ValueError):
    """A part of a state cannot be that of a search."""


def check_state(state: Mapping[str, Any], fresh: Any) -> None:
    """Raise Implausible if the attributes of a search could not follow from those of a new one."""
    n = fresh.question.n
    for name in _COUNTS:
        _need(_is_count(state[name]), name)
    _need(_is_number(state["_next_trace"]), "_next_trace")
    _check_counts(state["imported"], n, "imported")
    _check_imports(state["_imports"], n)
    _need(type(state["_trace"]) is list, "_trace")
    for point in state["_trace"]:
        _need(type(point) is TracePoint and 6 <= len(point) <= 10, "_trace")
        _need(all(_is_number(value) or value is None for value in point), "_trace")
    _check_snapshot(state["_first"], n)
    _check_decided(state["_decided"], n)
    _check_sequences(state["_sequences"], n)
    _check_algorithm(state["algorithm"], fresh.algorithm)


def is_same(found: Any, wanted: Any) -> bool:
    """Return whether a plain value is another one; an array, say, is not."""
    return type(found) is type(wanted) and bool(found == wanted)


def guarded(method: Method) -> Method:
    """Return a method of a saved search that tells in a sentence of figures that do not fit."""

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except OddarmsError:
            raise
        except Exception as error:
            raise InvalidParameter(
                "a saved search must be whole but this one cannot go on:"
                f" {type(error).__name__}: {' '.join(str(error).split())[:200]}."
            ) from error

    return cast(Method, call)


# Parts of a search


def _check_imports(imports: Any, n: int) -> None:
    _need(type(imports) is list, "_imports")
    for pair in imports:
        _need(type(pair) is tuple and len(pair) == 2, "_imports")
        arms, values = pair
        _check_arms(arms, n, "_imports")
        _check_finite(values, arms.size, "_imports")


def _check_snapshot(first: Any, n: int) -> None:
    if first is None:
        return
    _need(type(first) is Snapshot, "first")
    _need(_is_count(first.round), "round")
    for values in (first.means, first.lower, first.upper):
        _check_array(values, _REAL, n, "first")
    _check_decisions(first.decisions, n)
    _need(type(first.thresholds) is dict and first.thresholds.keys() <= {"upper", "lower"}, "first")
    for bound in first.thresholds.values():
        _need(isinstance(bound, tuple) and len(bound) == 3, "first")
        _need(all(map(_is_number, bound)), "first")


def _check_decided(times: DecisionTimes, n: int) -> None:
    _need(vars(times).keys() == {"after", "decisions"}, "_decided")
    _check_array(times.after, _WHOLE, n, "after")
    _need((times.after >= OPEN).all(), "after")
    _check_decisions(times.decisions, n)


def _check_sequences(sequences: Sequences, n: int) -> None:
    _need(vars(sequences).keys() == vars(Sequences(2)).keys(), "_sequences")
    _need(is_same(sequences.n, n), "n")
    _check_counts(sequences.used, n, "used")
    _check_step(sequences.step, sequences.used, n)
    _check_by_arm(sequences._ahead, n, dict)
    for waiting in sequences._ahead.values():
        _need(all(map(_is_count, waiting)) and _are_rewards(waiting.values()), "_ahead")
    for lists in (sequences._spare, sequences._imported):
        _check_by_arm(lists, n, list)
        _need(all(map(_are_rewards, lists.values())), "_spare")


def _check_step(step: Any, used: IntArray, n: int) -> None:
    _need(type(step) is Step, "step")
    _check_arms(step.indices, n, "step")
    size = step.indices.size
    for name in ("counts", "have", "places", "starts", "_first"):
        _check_counts(getattr(step, name), size, name)
    for name in ("sums", "squares"):
        _check_finite(getattr(step, name), size, name)
    _need((step.have <= step.counts).all() and (step.places <= step.counts).all(), "counts")
    _need(
        _is_count(step.missing) and step.missing == int((step.counts - step.have).sum()), "missing"
    )
    _need(np.array_equal(step.starts, starts_of(step.indices, step.places, used)), "starts")
    _need((step.starts <= step._first).all(), "_first")
    _need((step._first <= step.starts + step.places).all(), "_first")
    _check_by_arm(step._beyond, n, set)
    _need(all(_is_count(place) for places in step._beyond.values() for place in places), "_beyond")


def _check_by_arm(found: Any, n: int, kind: type) -> None:
    _need(type(found) is dict, "_sequences")
    for arm, value in found.items():
        _need(_is_count(arm) and arm < n and type(value) is kind, "_sequences")


# The algorithm


def _check_algorithm(found: Any, fresh: Algorithm) -> None:
    _need(type(found) is type(fresh), "algorithm")
    _need(vars(fresh).keys() <= vars(found).keys(), "algorithm")
    _need(is_same(found.n, fresh.n), "n")
    _need(type(found.rng) is np.random.Generator, "rng")
    _need(_is_count(found.round) and _is_count(found.threshold_pulls), "round")
    _check_counts(found.pulls, fresh.n, "pulls")
    _check_finite(found.sums, fresh.n, "sums")
    _check_decisions(found.decisions, fresh.n)
    if type(fresh).__module__.startswith("oddarms."):  # of others' parts nothing is known
        _need(type(found.rule) is type(fresh.rule), "rule")
        _need(is_same(vars(found.rule), vars(fresh.rule)), "rule")
        _need(is_same(found.delta, fresh.delta), "delta")
        _check_alike(found, fresh, fresh.n)


def _check_alike(found: Any, fresh: Any, n: int, name: str = "algorithm") -> None:
    """Check that a part of an algorithm is of the kind that it is at the beginning."""
    if fresh is None:  # what comes later is not known yet
        return
    if isinstance(fresh, np.ndarray):
        _check_same_array(found, fresh, n, name)
    elif isinstance(fresh, float | int | np.number) and not isinstance(fresh, bool):
        _need(_is_number(found), name)
    elif found is not None:
        _need(type(found) is type(fresh), name)
        for part, (one, other) in _parts(found, fresh, name).items():
            _check_alike(one, other, n, part)


def _parts(found: Any, fresh: Any, name: str) -> dict[str, tuple[Any, Any]]:
    if isinstance(fresh, np.random.Generator):
        return {}
    if isinstance(fresh, tuple | list):
        _need(len(found) == len(fresh), name)
        return {f"{name}[{i}]": pair for i, pair in enumerate(zip(found, fresh, strict=True))}
    if isinstance(fresh, Algorithm) and name != "algorithm":
        _check_algorithm(found, fresh)
        return {}
    mine, other = (x if isinstance(x, dict) else getattr(x, "__dict__", {}) for x in (found, fresh))
    _need(other.keys() <= mine.keys(), name)
    return {key: (mine[key], other[key]) for key in other}


def _check_same_array(found: Any, fresh: np.ndarray[Any, Any], n: int, name: str) -> None:
    """Check an array, which may have got more columns; arrays of arms may have got shorter."""
    _need(type(found) is np.ndarray and found.dtype == fresh.dtype, name)
    _need(found.ndim == fresh.ndim, name)
    if found.shape[:1] != fresh.shape[:1]:
        _check_arms(found, n, name)


# Single values


def _check_array(found: Any, kinds: str, size: int, name: str) -> None:
    _need(type(found) is np.ndarray and found.dtype.kind in kinds, name)
    _need(found.shape == (size,), name)


def _check_counts(found: Any, size: int, name: str) -> None:
    _check_array(found, _WHOLE, size, name)
    _need((found >= 0).all(), name)


def _check_finite(found: Any, size: int, name: str) -> None:
    _check_array(found, _REAL, size, name)
    _need(np.isfinite(found).all(), name)


def _check_decisions(found: Any, n: int) -> None:
    _check_array(found, _WHOLE, n, "decisions")
    _need(((found >= 0) & (found <= 3)).all(), "decisions")


def _check_arms(found: Any, n: int, name: str) -> None:
    _need(type(found) is np.ndarray and found.dtype.kind in _WHOLE and found.ndim == 1, name)
    _need(((found >= 0) & (found < n)).all(), name)


def _are_rewards(values: Any) -> bool:
    return all(isinstance(value, float) and 0.0 <= value <= 1.0 for value in values)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST


def _is_number(value: Any) -> bool:
    if isinstance(value, float | np.number):
        return True
    return type(value) is int and abs(value) <= _LARGEST


def _need(holds: Any, name: str) -> None:
    if not holds:
        raise Implausible(name)
