"""Algorithms by name: ours in one line each, others' by the entry points `oddarms.algorithms`."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import numpy as np

from oddarms.algorithms._base import Algorithm, check_options
from oddarms.algorithms._two_sided import TwoSided
from oddarms.errors import DuplicateAlgorithm, InvalidParameter, UnknownAlgorithm
from oddarms.problem import Error, Goal, Side, check_delta, check_number_of_arms, check_side
from oddarms.rules import Rule

GROUP = "oddarms.algorithms"

_BUILT_IN = {
    "ade": "oddarms.algorithms._ade:ADE",
    "calibrated": "oddarms.algorithms._calibrated:Calibrated",
    "census": "oddarms.algorithms._census:Census",
    "spade": "oddarms.algorithms._spade:SPADE",
    "rr": "oddarms.algorithms._round_robin:RR",
    "wrr": "oddarms.algorithms._round_robin:WRR",
    "lucb": "oddarms.algorithms._lucb:LUCB",
    "roai-elim": "oddarms.algorithms._roai:ROAIElim",
    "roai-lucb": "oddarms.algorithms._roai:ROAILUCB",
}
_registered: dict[str, type[Algorithm]] = {}


def register(name: str, algorithm: type[Algorithm]) -> None:
    """Make an algorithm known under a name in this process.

    A package does this for its users with an entry point of the group ``oddarms.algorithms``.
    """
    if name in available() and _registered.get(name) is not algorithm:
        raise DuplicateAlgorithm(
            f"An algorithm {name!r} is registered already: choose another name."
        )
    _registered[name] = algorithm


def available() -> tuple[str, ...]:
    """Return the names of all algorithms, sorted, without importing any."""
    return tuple(sorted({*_BUILT_IN, *_plugins(), *_registered}))


def get_algorithm(name: str) -> type[Algorithm]:
    """Return the class registered under a name, importing it if need be."""
    if name in _registered:
        return _registered[name]
    if name in _BUILT_IN:
        module, _, attribute = _BUILT_IN[name].partition(":")
        loaded: type[Algorithm] = getattr(import_module(module), attribute)
        return loaded
    plugins = _plugins()
    if name not in plugins:
        raise UnknownAlgorithm(
            f"There is no algorithm {name!r}: choose one of {', '.join(available())}."
        )
    _registered[name] = plugins[name].load()
    return _registered[name]


def create(
    algorithm: str | type[Algorithm],
    n: int,
    *,
    rule: Rule,
    delta: float,
    rng: np.random.Generator,
    side: Side = "upper",
    error: Error = "fwer",
    goal: Goal = "confidence",
    **options: Any,
) -> Algorithm:
    """Return a fresh state machine for n arms with rewards in [0, 1].

    ``side="lower"`` is the caller's to mirror, see `oddarms.search.Search`; ``side="both"`` goes
    to the algorithm where it handles both sides, and to two searches at delta / 2 otherwise.
    """
    cls = get_algorithm(algorithm) if isinstance(algorithm, str) else algorithm
    check_options(cls, options)
    check_number_of_arms(n)
    check_delta(delta)
    _check_fits(cls, {"rule": rule.name, "error": error, "goal": goal})
    if error != "fwer":
        options["error"] = error
    if goal != "confidence":
        options["goal"] = goal
    if check_side(side) != "both":
        return cls(n, rule=rule, delta=delta, rng=rng, **options)
    if cls.handles_both_sides:
        options["side"] = "both"
        return cls(n, rule=rule, delta=delta, rng=rng, **options)
    return TwoSided(cls, n, rule=rule, delta=delta, rng=rng, **options)


def _check_fits(cls: type[Algorithm], asked: dict[str, str]) -> None:
    """Raise if an algorithm does not support the rule, error or goal; name those that do."""
    wrong = next((word for word in asked if not _takes(cls, word, asked[word])), None)
    if wrong is None:
        return
    able = ", ".join(repr(one) for one in sorted(getattr(cls, f"{wrong}s")))
    usual = [name for name in _BUILT_IN if name not in ("census", "roai-elim", "roai-lucb")]
    fitting = [
        name
        for name in usual
        if all(_takes(get_algorithm(name), word, value) for word, value in asked.items())
    ]
    words = ", ".join(f"{word} {value!r}" for word, value in asked.items())
    remedy = (
        f"choose algorithm={' or '.join(map(repr, sorted(fitting)))}"
        if fitting
        else f"no algorithm takes {words} together"
    )
    raise InvalidParameter(
        f"{wrong} must be {able} for the algorithm {cls.__name__} but got {asked[wrong]!r}:"
        f" {remedy}."
    )


def _takes(cls: type[Algorithm], word: str, value: str) -> bool:
    known: frozenset[str] = getattr(cls, f"{word}s")
    return value in known


@lru_cache(maxsize=1)
def _plugins() -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        rival = _BUILT_IN.get(point.name) or (point.name in found and found[point.name].value)
        if rival and rival != point.value:
            raise DuplicateAlgorithm(
                f"Two packages have an algorithm {point.name!r}, {rival} and {point.value}:"
                " uninstall or rename one of them."
            )
        found[point.name] = point
    return found
