"""The problem: which of n means lie at or above `mean + k * standard deviation` of all n means.

The standard deviation is the population one (divide by n) and an arm exactly on the threshold
counts as an outlier, as in Zhang et al. (AAAI 2020), eq. (1).
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from oddarms.errors import InvalidParameter
from oddarms.json_text import parsed

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

Label = Hashable
Side = Literal["upper", "lower", "both"]
Rule = Literal["sigma"]


MOST_ARMS = 100_000_000
"""A search of more does not fit into any memory; a number in a file may say anything."""
MOST_AT_A_TIME = 10_000_000_000
"""Pulls that an option may ask for; so many of each of the most arms can still be counted."""
LEAST_DELTA = 1e-100
"""A share of it, such as that of an arm and a round, is still a number above 0."""


def check_number(name: str, value: Any) -> float:
    """Return the value of a parameter as a float, if it is a number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidParameter(f"{name} must be a number but got {value!r}.")
    try:
        return float(value)
    except OverflowError:  # a whole number of hundreds of digits
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]


def check_k(k: float) -> float:
    """Return k as a float; any finite number is allowed."""
    if not math.isfinite(check_number("k", k)):
        raise InvalidParameter(f"k must be a finite number but got {k}.")
    return float(k)


def check_delta(delta: float) -> float:
    """Return delta as a float strictly between 0 and 1, and large enough to be divided."""
    if not 0.0 < check_number("delta", delta) < 1.0:
        raise InvalidParameter(f"delta must be strictly between 0 and 1 but got {delta}.")
    if delta < LEAST_DELTA:
        raise InvalidParameter(f"delta must be at least {LEAST_DELTA:g} but got {delta}.")
    return float(delta)


def check_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    """Return the reward bounds (a, b), finite and with a < b."""
    try:
        if isinstance(bounds, str):
            raise TypeError
        a, b = (float(bound) for bound in bounds)
    except OverflowError:
        raise InvalidParameter("bounds must be finite but one has hundreds of digits.") from None
    except (TypeError, ValueError):
        raise InvalidParameter(f"bounds must be two numbers (a, b) but got {bounds!r}.") from None
    if not (math.isfinite(a) and math.isfinite(b) and a < b and math.isfinite(b - a)):
        raise InvalidParameter(f"bounds must be finite with a < b but got ({a:g}, {b:g}).")
    return a, b


def check_side(side: str) -> Side:
    """Return the side if it is one of upper, lower and both."""
    if side not in get_args(Side):
        raise InvalidParameter(f"side must be 'upper', 'lower' or 'both' but got {side!r}.")
    return side  # type: ignore[return-value]


def check_rule(rule: str) -> Rule:
    """Return the rule for the threshold if there is one of that name."""
    if rule not in get_args(Rule):
        raise InvalidParameter(f"rule must be 'sigma' but got {rule!r}.")
    return rule  # type: ignore[return-value]


def check_algorithm(algorithm: Any) -> str | type:
    """Return the name or class of an algorithm if it may be one."""
    if not isinstance(algorithm, str | type):
        raise InvalidParameter(f"algorithm must be a name or a class but got {algorithm!r}.")
    return algorithm


def check_plain_label(label: Label) -> str | int:
    """Return a label if it can be written down: a text or a whole number."""
    if isinstance(label, bool) or not isinstance(label, str | int):
        raise InvalidParameter(
            f"labels must be texts or whole numbers where they are stored but got {label!r}."
        )
    return label


def check_whole(name: str, value: Any, *, least: int, most: int | None = None) -> int:
    """Return the value of a parameter that counts something as an int, within its limits."""
    number = not isinstance(value, bool) and isinstance(value, Real)
    if not number or value % 1 != 0 or value < least:
        raise InvalidParameter(
            f"{name} must be a whole number of at least {least} but got {value!r}."
        )
    if most is not None and value > most:
        raise InvalidParameter(f"{name} must be at most {most:,} but got {Decimal(value):.3g}.")
    return int(value)


def check_budget(budget: int | None) -> int | None:
    """Return the budget in pulls, at least 0, or None for no limit."""
    if budget is None:
        return None
    return check_whole("budget", budget, least=0)


def check_means(means: npt.ArrayLike) -> FloatArray:
    """Return at least two finite means as a float array."""
    array = np.asarray(means, dtype=np.float64)
    if array.ndim != 1:
        raise InvalidParameter(f"means must be one-dimensional but got shape {array.shape}.")
    check_number_of_arms(array.size)
    if not np.isfinite(array).all():
        bad = int(np.flatnonzero(~np.isfinite(array))[0])
        raise InvalidParameter(f"means must be finite numbers but means[{bad}] is {array[bad]}.")
    return array


def check_number_of_arms(n: int) -> int:
    """Return n if there are at least two arms to compare."""
    if n < 2:
        raise InvalidParameter(f"arms must be at least 2 but got {n}.")
    if n > MOST_ARMS:
        raise InvalidParameter(f"arms must be at most {MOST_ARMS:,} but got {Decimal(n):.3g}.")
    return n


def check_labels(labels: Iterable[Label]) -> tuple[Label, ...]:
    """Return the labels as a tuple: at least two, hashable, no duplicates."""
    result = tuple(x.item() if isinstance(x, np.generic) else x for x in labels)
    check_number_of_arms(len(result))
    seen: set[Label] = set()
    for label in result:
        try:
            known = label in seen
        except TypeError:
            raise InvalidParameter(f"labels must be hashable but got {label!r}.") from None
        if known:
            raise InvalidParameter(f"labels must be unique but {label!r} appears twice.")
        seen.add(label)
    return result


DEFAULT_K = 2.0
DEFAULT_DELTA = 0.05
UNIT: tuple[float, float] = (0.0, 1.0)
VERSION = 1
"""Of a question as JSON."""


@dataclass(frozen=True, init=False, repr=False)
class Question:
    """What is asked of the arms, whole and checked: everything that decides a search but chance.

    A search, a study, a cell of a comparison and the command line all carry one. Construction
    validates, so that whatever holds a `Question` holds a sound one; whether there is such an
    algorithm, and what its options mean, is seen where a search is made of it.

    Parameters
    ----------
    labels
        The arms' names, or their number: then they are called 0, 1, 2, ...
    k
        An arm is an outlier if its mean lies at or above mean + k standard deviations of all
        arms' means.
    delta
        Permitted probability of any wrong decision.
    bounds
        The smallest and the largest reward possible.
    side
        "upper", "lower" (at or below mean - k standard deviations) or "both".
    budget
        At most so many pulls.
    rule
        How the threshold follows from the means; "sigma" is mean + k standard deviations.
    algorithm
        A name, see `oddarms.algorithms`, or a class.
    options
        The algorithm's own options.

    Examples
    --------
    >>> question = Question(["ann", "bob", "cy"], k=1)
    >>> Question.from_json(question.to_json()) == question
    True
    >>> print(question.sentence())
    which of 3 arms have a mean at or above mean + 1 sd of all means?
    """

    labels: Sequence[Label]
    k: float
    delta: float
    bounds: tuple[float, float]
    side: Side
    budget: int | None
    rule: Rule
    algorithm: str | type
    _options: tuple[tuple[str, Any], ...]

    def __init__(
        self,
        labels: Iterable[Label] | int,
        *,
        k: float = DEFAULT_K,
        delta: float = DEFAULT_DELTA,
        bounds: tuple[float, float] = UNIT,
        side: Side = "upper",
        budget: int | None = None,
        rule: Rule = "sigma",
        algorithm: str | type = "spade",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        values = {
            "labels": _labels_or_numbers(labels),
            "k": check_k(k),
            "delta": check_delta(delta),
            "bounds": check_bounds(bounds),
            "side": check_side(side),
            "budget": check_budget(budget),
            "rule": check_rule(rule),
            "algorithm": check_algorithm(algorithm),
            "_options": _checked_options(options or {}),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, question: Question | Iterable[Label] | int, words: Mapping[str, Any]) -> Question:
        """Return a question as it is, or the one about these labels that the words make.

        Words that a question does not have are options of its algorithm.
        """
        if isinstance(question, Question):
            if words:
                raise InvalidParameter(
                    "words of the question must be in it already but beside it there is"
                    f" {', '.join(words)}."
                )
            return question
        own = {name: value for name, value in words.items() if name in WORDS}
        options = {name: value for name, value in words.items() if name not in WORDS}
        return cls(question, **own, options=options)

    @property
    def n(self) -> int:
        """The number of arms."""
        return len(self.labels)

    def __hash__(self) -> int:
        return hash((self.n, *self._words().values()))

    @property
    def options(self) -> dict[str, Any]:
        """The algorithm's options, by name."""
        return dict(self._options)

    @property
    def algorithm_name(self) -> str:
        """The algorithm's name, or that of its class."""
        return self.algorithm if isinstance(self.algorithm, str) else self.algorithm.__name__

    @property
    def indifference(self) -> float:
        """How near to the threshold an arm may be called either way, 0 if there is no such option.

        In units of the rewards.
        """
        return float(self.options.get("indifference", 0.0))

    def __repr__(self) -> str:
        words = {**self._words(), **self.options}
        return f"Question({self.n:,} arms, {', '.join(f'{k}={v!r}' for k, v in words.items())})"

    def sentence(self) -> str:
        """Return the question in words."""
        above, below = (f"mean {'-' if k < 0 else '+'} {abs(k):g} sd" for k in (self.k, -self.k))
        where = {
            "upper": f"at or above {above}",
            "lower": f"at or below {below}",
            "both": f"at or above {above}, or at or below {below},",
        }[self.side]
        return f"which of {self.n:,} arms have a mean {where} of all means?"

    def but(self, **changes: Any) -> Question:
        """Return the same question with some of its parts changed: labels, words, options."""
        parts = {"labels": self.labels, **self._words(), "options": self.options}
        return Question(**{**parts, **changes})

    def numbered(self) -> Question:
        """Return the same question with the arms called 0, 1, 2, ..."""
        return self if isinstance(self.labels, range) else self.but(labels=self.n)

    def _words(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in WORDS}

    # As JSON

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; labels are null where they are numbers in order."""
        numbered = isinstance(self.labels, range)
        return {
            "version": VERSION,
            "n": self.n,
            "labels": None if numbered else [check_plain_label(label) for label in self.labels],
            **self._words(),
            "bounds": list(self.bounds),
            "algorithm": self.algorithm_name,
            "options": self.options,
        }

    @classmethod
    def from_dict(cls, values: Any) -> Question:
        """Return the question that `to_dict` was called on."""
        try:
            version = values["version"]
            if type(version) is not int or version != VERSION:
                raise InvalidParameter(
                    f"a question must be of version {VERSION} but this one is of {version!r}:"
                    " upgrade oddarms, or run `oddarms study upgrade`."
                )
            labels = values["n"] if values["labels"] is None else values["labels"]
            words = {name: values[name] for name in WORDS}
            return cls(labels, **words, options=values["options"])
        except (AttributeError, KeyError, TypeError) as error:
            raise InvalidParameter(
                f"a question must be whole but this one is not: {error}."
            ) from None

    def to_json(self) -> str:
        """Return the question as text; its algorithm must have a name."""
        if not isinstance(self.algorithm, str):
            raise InvalidParameter(
                "algorithm must be a registered name where a question is written down but got"
                f" the class {self.algorithm_name}: oddarms.algorithms.register gives it one."
            )
        values = self.to_dict()
        try:
            return json.dumps(values, allow_nan=False)
        except (TypeError, ValueError):
            raise InvalidParameter(
                "options must be plain values where they are written down but got"
                f" {self.options!r}."
            ) from None

    @classmethod
    def from_json(cls, text: str) -> Question:
        """Return the question that `to_json` was called on."""
        try:
            values = parsed(text)
        except (TypeError, ValueError) as error:
            raise InvalidParameter(f"a question must be JSON but is not: {error}.") from None
        return cls.from_dict(values)


WORDS = ("k", "delta", "bounds", "side", "budget", "rule", "algorithm")
"""What a question is made of, beside the labels and the algorithm's options."""


def _labels_or_numbers(labels: Iterable[Label] | int) -> Sequence[Label]:
    if isinstance(labels, range) and labels == range(len(labels)):
        labels = len(labels)
    if isinstance(labels, int | np.integer) and not isinstance(labels, bool):
        return range(check_number_of_arms(int(labels)))
    try:
        names = check_labels(iter(labels))  # type: ignore[arg-type]
        numbers = all(type(name) is int and name == i for i, name in enumerate(names))
        return range(len(names)) if numbers else names
    except TypeError:
        raise InvalidParameter(
            f"labels must be the arms' names, or their number, but got {labels!r}."
        ) from None


def _checked_options(options: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Return options in the order of their names, none of which is a word of the question."""
    for name in options:
        if not isinstance(name, str) or name in ("labels", *WORDS):
            raise InvalidParameter(
                f"options must be the algorithm's own but {name!r} is a part of the question."
            )
    return tuple(sorted(options.items(), key=lambda item: item[0]))
