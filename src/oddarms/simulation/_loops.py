"""How numba compiles the functions of this package.

They know nothing of numba: a kernel registers those that it calls, and those that they call. An
`elementwise` formula is compiled for the numbers of one arm, and called in a loop over the arms:
numba needs a tenth of a second and more for each operation on arrays. The few functions that numpy
computes over a further axis, bets or other arms, have a loop here instead; it adds up in another
order, so that last digits may differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any, get_args, get_type_hints

import numpy as np
from numba import njit, types
from numba.extending import overload, register_jitable

from oddarms.problem import FloatArray
from oddarms.statistics.elementwise import (
    FORMULAS,
    choose,
    put,
    row_sums,
)
from oddarms.statistics.evidence import (
    BETA_SHARE,
    BETS,
    LOG_LOSSES,
    LOG_SHARES,
    SMALLEST_GAP,
    Sample,
    all_reaching,
    bet_slope,
    jeffreys_slope,
    log_bet,
    log_evidence,
    log_jeffreys,
    reaching,
    sample_on_side,
)
from oddarms.statistics.threshold_streams import Lines, log_of_lines
from oddarms.statistics.worst_world import (
    NEWTON_STEPS,
    dual_value,
    first_nu,
    largest_costs,
    next_nu,
    room_of,
    tilt,
)

OPTIONS = {"nogil": True, "error_model": "numpy"}
INNER = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
LOG_BETA_SHARE = math.log(BETA_SHARE)
LOG_TERMS = math.log(BETS.size + 1.0)
"""A sum of so many exponentials exceeds the largest one by at most this, in logs."""

_registered: set[Any] = set()
"""The functions that numba knows how to compile."""


def register_called(function: Any) -> None:
    """Let numba compile the functions of this package that a function calls."""
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        called = getattr(value, "py_func", value)
        if not isinstance(called, FunctionType) or called in _registered:
            continue
        if called.__module__.startswith("oddarms."):
            _registered.add(called)
            register_called(called)
            if called in FORMULAS:
                in_one_loop(called, called)
            elif called is value:  # and not compiled already
                register_jitable(**INNER)(called)


def in_one_loop(formula: Any, of_numbers: Any) -> None:
    """Let numba compile a formula: for one arm, and for arrays of them as one loop."""

    @overload(formula, jit_options=INNER, strict=False)
    def chosen(*given: Any) -> Any:
        arguments = [
            _Argument(name, annotation, some)
            for (name, annotation), some in zip(_parameters(formula), given, strict=True)
        ]
        alone = not any(argument.sizes for argument in arguments)
        return of_numbers if alone else _loop(formula, arguments)


def _parameters(formula: Any) -> list[tuple[str, str]]:
    """Return names and annotations of a function's parameters or of a named tuple's parts."""
    annotations = {**formula.__annotations__}
    annotations.pop("return", None)
    return [
        (name, getattr(annotation, "__forward_arg__", annotation))
        for name, annotation in annotations.items()
    ]


class _Argument:
    """An argument of a formula, or a part of it: text for an entry of it, and for its sizes.

    A vector has an entry for each column, a table one for each row and column, or in its only
    column one for each row. `Columns` are taken whole.
    """

    def __init__(self, name: str, annotation: str, given: Any) -> None:
        self.entry = name
        self.sizes: list[str] = []
        self.rows: list[str] = []
        self.classes: dict[str, Any] = {}
        if isinstance(given, types.BaseNamedTuple):
            self._gather(name, given)
        elif isinstance(given, types.Array):
            kind = annotation, given.ndim
            self.entry = {
                ("Numbers", 1): f"{name}[column]",
                ("Numbers", 2): f"{name}[row, min(column, {name}.shape[1] - 1)]",
                ("Columns", 2): f"{name}[:, column]",
            }.get(kind, name)
            if self.entry != name:
                self.sizes.append(f"{name}.shape[{given.ndim - 1}]")
            if kind == ("Numbers", 2):
                self.rows.append(f"{name}.shape[0]")

    def _gather(self, name: str, given: Any) -> None:
        cls = given.instance_class
        parts = [
            _Argument(f"{name}[{i}]", annotation, some)
            for i, ((_, annotation), some) in enumerate(
                zip(_parameters(cls), given.types, strict=True)
            )
        ]
        self.sizes = [size for part in parts for size in part.sizes]
        self.classes[cls.__name__] = cls
        self.entry = f"{cls.__name__}({', '.join(part.entry for part in parts)})"


def _loop(formula: Any, arguments: list[_Argument]) -> Any:
    """Return a function that evaluates a formula, of a number or a tuple of them, for all arms."""
    names = ", ".join(name for name, _ in _parameters(formula))
    entries = ", ".join(argument.entry for argument in arguments)
    sizes = ", ".join(size for argument in arguments for size in argument.sizes)
    rows = [row for argument in arguments for row in argument.rows]
    shape, place = (f"({rows[0]}, columns)", "row, column") if rows else ("columns", "column")
    result = get_type_hints(formula)["return"]
    parts = range(len(getattr(result, "_fields", get_args(result))))
    if parts:
        assert not rows, "a formula of tables returns one number"
        shape = f"({len(parts)}, columns)"
        kept = "; ".join(f"found[{i}, column] = one[{i}]" for i in parts)
        made = f"{'Parts' * hasattr(result, '_fields')}({', '.join(f'found[{i}]' for i in parts)})"
    else:
        kept, made = f"found[{place}] = one", "found"
    text = f"""
def loop({names}):
    columns = max({sizes}, 0)
    found = np.empty({shape})
    for row in range({rows[0] if rows else 1}):
        for column in range(columns):
            one = formula({entries})
            {kept}
    return {made}
"""
    namespace = {"np": np, "formula": formula, "Parts": result}
    for argument in arguments:
        namespace |= argument.classes
    exec(text, namespace)
    return namespace["loop"]


def _instead_of(function: Any) -> Callable[[Any], Any]:
    """Let numba compile another function in place of one."""
    _registered.add(function)

    def with_another(other: Any) -> Any:
        register_called(other)
        overload(function, jit_options=INNER, strict=False)(lambda *_: other)
        return other

    return with_another


def _pick(condition: Any, yes: Any, no: Any) -> Any:
    return yes if condition else no


_registered.add(choose)
in_one_loop(choose, _pick)


@_instead_of(row_sums)
def _row_sums(table: FloatArray) -> FloatArray:
    sums = np.zeros(table.shape[0])
    for g in range(table.shape[0]):
        for j in range(table.shape[1]):
            sums[g] += table[g, j]
    return sums


@_instead_of(put)
def _put(array: FloatArray, places: Any, values: FloatArray) -> None:
    for i in range(places.size):
        array[places[i]] = values[i]


@_instead_of(log_evidence)
def _log_evidence(sample: Sample, room: float) -> tuple[float, float]:
    jeffreys, logs = log_jeffreys(sample, room) + LOG_BETA_SHARE, np.empty(BETS.size)
    top = jeffreys
    for g in range(BETS.size):
        logs[g] = log_bet(sample, room, BETS[g, 0], LOG_LOSSES[g, 0], LOG_SHARES[g, 0])
        top = max(top, logs[g])
    total = math.exp(jeffreys - top)
    slope = total * jeffreys_slope(sample, room)
    for g in range(BETS.size):
        weight = math.exp(logs[g] - top)
        total += weight
        slope += weight * bet_slope(sample, room, BETS[g, 0])
    return math.log(total) + top, slope / total


@_instead_of(log_of_lines)
def _log_of_lines(lines: Lines, y: float) -> tuple[float, float]:
    at, top = lines.offset + lines.speed * y, -np.inf
    for g in range(lines.bets.size):
        top = max(top, lines.bets[g] * at - lines.costs[g])
    total, bet = 0.0, 0.0
    for g in range(lines.bets.size):
        weight = math.exp(lines.bets[g] * at - lines.costs[g] - top)
        total += weight
        bet += weight * lines.bets[g]
    return math.log(total) + top, bet / total


@_instead_of(reaching)
def _reaching(sample: Sample, room: float, level: float) -> Any:
    """The evidence reaches a level where one term does, and not where none comes near."""
    if room <= SMALLEST_GAP:
        return False
    jeffreys = log_jeffreys(sample, room) + LOG_BETA_SHARE
    if jeffreys >= level:
        return True
    top = jeffreys
    for g in range(BETS.size - 1, -1, -1):
        log = log_bet(sample, room, BETS[g, 0], LOG_LOSSES[g, 0], LOG_SHARES[g, 0])
        if log >= level:
            return True
        top = max(top, log)
    if top + LOG_TERMS < level - 1e-6:
        return False
    wealth = math.exp(jeffreys - top)
    for g in range(BETS.size):
        log = log_bet(sample, room, BETS[g, 0], LOG_LOSSES[g, 0], LOG_SHARES[g, 0])
        wealth += math.exp(log - top)
    return math.log(wealth) + top >= level


@_instead_of(all_reaching)
def _all_reaching(
    sign: float,
    pulls: FloatArray,
    total: FloatArray,
    scatter: FloatArray,
    room: float,
    level: float,
) -> Any:
    found = np.zeros(pulls.size, dtype=np.bool_)
    for i in range(pulls.size):
        mean = total[i] / max(pulls[i], 1.0)
        if pulls[i] > 0.0 and (mean if sign > 0.0 else 1.0 - mean) > room:
            found[i] = reaching(sample_on_side(sign, pulls[i], total[i], scatter[i]), room, level)
    return found


@njit(**OPTIONS, fastmath={"reassoc", "contract"})
def on_sphere_of_one(t: Any, q: Any, inverse: Any) -> float:
    """Return at least the largest sum_j t_j z_j + q_j z_j^2 on the sphere, for one stake."""
    m = t.size
    q_1, q_2, centre = 0.0, 0.0, 0.0
    for j in range(m):
        q_2 = max(q_2, min(q_1, q[j]))
        q_1 = max(q_1, q[j])
        centre += t[j]
    centre /= m
    energy = 0.0
    for j in range(m):
        energy += (t[j] - centre) * (t[j] - centre)
    nu, least = first_nu(q_1, q_2, energy, centre, float(m))
    best = np.inf
    for _ in range(NEWTON_STEPS):
        weight, tau = 0.0, 0.0
        for j in range(m):
            inverse[j] = 1.0 / room_of(nu, q[j])
            weight += inverse[j]
            tau += t[j] * inverse[j]
        tau /= weight
        total, by_square, by_cube, bend = 0.0, 0.0, 0.0, 0.0
        for j in range(m):
            away = t[j] - tau
            fit = away * away * inverse[j]
            total += fit
            by_square += fit * inverse[j]
            by_cube += fit * inverse[j] * inverse[j]
            bend += away * inverse[j] * inverse[j]
        best = min(best, dual_value(nu, total, float(m)))
        nu = next_nu(nu, least, by_square, by_cube - bend * (bend / weight), float(m))
    return best


@_instead_of(largest_costs)
def _largest_costs(arms: Any, y: Any, k: float, stakes: Any, prices: Any) -> Any:
    """Return costs and thresholds, without the arms left out in any array."""
    n = y.size
    m = n - 1.0
    costs, thresholds = np.empty((stakes.size, arms.size)), np.empty(arms.size)
    deviations, t, q, inverse = np.empty(n - 1), np.empty(n - 1), np.empty(n - 1), np.empty(n - 1)
    for place in range(arms.size):
        i = arms[place]
        mean = 0.0
        for j in range(n):
            if j != i:
                mean += y[j]
        mean /= m
        squares = 0.0
        for j in range(n):
            if j != i:
                deviation = y[j] - mean
                deviations[j - (j > i)] = deviation
                squares += deviation * deviation
        sd = math.sqrt(squares / m)
        thresholds[place] = mean + k * sd
        for s in range(stakes.size):
            total = 0.0
            for j in range(n):
                if j != i:
                    other = j - (j > i)
                    value = prices[s, j] / (m * m)
                    total += value
                    t[other] = tilt(stakes[s], deviations[other], value, m)
                    q[other] = k * value
            costs[s, place] = total - stakes[s] * (k * sd) + k * on_sphere_of_one(t, q, inverse)
    return costs, thresholds
