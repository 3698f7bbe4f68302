"""The question: which of n means lie at or above a threshold that follows from all n means.

By default the threshold is `mean + k * standard deviation`, the population one (divide by n), and
an arm exactly on the threshold counts as an outlier, as in Zhang et al. (AAAI 2020), eq. (1).
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
import numpy.typing as npt

from oddarms.errors import InvalidParameter
from oddarms.json_text import parsed

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

Label = Hashable
Side = Literal["upper", "lower", "both"]
RuleName = Literal["sigma", "mad", "tukey", "quantile", "control", "absolute"]
Error = Literal["fwer", "fdr"]
Goal = Literal["confidence", "budget"]


MAX_ARMS = 100_000_000
"""More arms do not fit into memory."""
MAX_AT_A_TIME = 10_000_000_000
"""The most pulls of an arm that an option may ask for at once."""
MAX_K = 1e100
"""The largest k; its square is finite."""
MIN_DELTA = 1e-100
"""The smallest delta; its share for one arm and round is above 0."""


def brief(value: object, most: int = 60) -> str:
    """Return a value for a message: in one line, cut if it is long.

    Examples
    --------
    >>> brief("ann"), brief(list(range(100)), 10)
    ("'ann'", '[0, 1, 2, ...')
    """
    text = " ".join(repr(value).split())
    return text if len(text) <= most else f"{text[:most]}..."


def check_number(name: str, value: Any) -> float:
    """Return a number as a float."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidParameter(f"{name} must be a number but got {brief(value)}.")
    try:
        return float(value)
    except OverflowError:  # a whole number of hundreds of digits
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]


def check_k(k: float) -> float:
    """Return k as a finite float."""
    if not math.isfinite(check_number("k", k)):
        raise InvalidParameter(f"k must be a finite number but got {k}.")
    if abs(k) > MAX_K:
        raise InvalidParameter(f"k must be from {-MAX_K:g} to {MAX_K:g} but got {k:g}.")
    return float(k)


def check_share(name: str, value: float) -> float:
    """Return a share as a float strictly between 0 and 1."""
    if not 0.0 < check_number(name, value) < 1.0:
        raise InvalidParameter(f"{name} must be strictly between 0 and 1 but got {value}.")
    return float(value)


def check_delta(delta: float) -> float:
    """Return delta as a float strictly between 0 and 1."""
    if check_share("delta", delta) < MIN_DELTA:
        raise InvalidParameter(f"delta must be at least {MIN_DELTA:g} but got {delta}.")
    return float(delta)


def check_bounds(bounds: tuple[float, float], name: str = "bounds") -> tuple[float, float]:
    """Return the bounds of rewards, finite and with a < b."""
    try:
        if isinstance(bounds, str):
            raise TypeError
        a, b = (float(bound) for bound in bounds)
    except OverflowError:
        raise InvalidParameter(f"{name} must be finite but one has hundreds of digits.") from None
    except (TypeError, ValueError):
        raise InvalidParameter(
            f"{name} must be two numbers (a, b) but got {brief(bounds)}."
        ) from None
    if not (math.isfinite(a) and math.isfinite(b) and a < b and math.isfinite(b - a)):
        remedy = ""
        if name == "bounds" and (math.isinf(a) or math.isinf(b)):
            remedy = "; for rewards without bounds set clip or above instead"
        raise InvalidParameter(f"{name} must be finite with a < b but got ({a:g}, {b:g}){remedy}.")
    return a, b


def check_side(side: str) -> Side:
    """Return the side."""
    checked: Side = check_choice("side", side, get_args(Side))
    return checked


def check_margin(margin: float, bounds: tuple[float, float]) -> float:
    """Return the margin as a float from 0 to less than the width of the bounds."""
    number, width = check_number("margin", margin), bounds[1] - bounds[0]
    if not 0.0 <= number < width:
        raise InvalidParameter(
            f"margin must be at least 0 and less than the width {width:g} of the bounds but got"
            f" {number:g}."
        )
    return number


def check_floor(floor: float | None, bounds: tuple[float, float]) -> float | None:
    """Return the floor as a float within the bounds, or None."""
    if floor is None:
        return None
    number, (a, b) = check_number("floor", floor), bounds
    if not a <= number <= b:
        raise InvalidParameter(
            f"floor must lie within the bounds [{a:g}, {b:g}] but got {number:g}."
        )
    return number


def check_choice(name: str, value: Any, choices: Sequence[str]) -> Any:
    """Return the value, which must be one of these words."""
    if not isinstance(value, str) or value not in choices:
        known = f"{', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}"
        raise InvalidParameter(f"{name} must be {known} but got {brief(value)}.")
    return value


def check_plain_label(label: Label) -> str | int:
    """Return a label that can be stored: a text or a whole number."""
    if isinstance(label, bool) or not isinstance(label, str | int):
        raise InvalidParameter(
            f"Only texts and whole numbers can be stored as labels, not {label!r}."
        )
    return label


def check_whole(name: str, value: Any, *, least: int, most: int | None = None) -> int:
    """Return a whole number within limits as an int."""
    number = not isinstance(value, bool) and isinstance(value, Real)
    if not number or value % 1 != 0 or value < least:
        raise InvalidParameter(
            f"{name} must be a whole number of at least {least} but got {brief(value)}."
        )
    if most is not None and value > most:
        raise InvalidParameter(f"{name} must be at most {most:,} but got {Decimal(value):.3g}.")
    return int(value)


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
    """Return n, which must be at least 2."""
    if n < 2:
        raise InvalidParameter(f"At least 2 arms are needed, but got {n}.")
    if n > MAX_ARMS:
        raise InvalidParameter(f"At most {MAX_ARMS:,} arms are possible, but got {Decimal(n):.3g}.")
    return n


def check_labels(labels: Iterable[Label]) -> tuple[Label, ...]:
    """Return the labels as a tuple: at least two, hashable and unique."""
    result = tuple(x.item() if isinstance(x, np.generic) else x for x in labels)
    check_number_of_arms(len(result))
    seen: set[Label] = set()
    for label in result:
        try:
            known = label in seen
        except TypeError:
            raise InvalidParameter(f"labels must be hashable but got {brief(label)}.") from None
        if known:
            raise InvalidParameter(f"labels must be unique but {label!r} appears twice.")
        seen.add(label)
    return result


DEFAULT_K = 2.0
USUAL_K: dict[str, float] = {"sigma": DEFAULT_K, "mad": 3.0, "tukey": 1.5}
"""The default k of each rule that has one."""
USUAL_MARGIN = 0.05
"""The default margin as a share of the width of the bounds."""
DEFAULT_DELTA = 0.05
UNIT: tuple[float, float] = (0.0, 1.0)
VERSION = 1
"""The version of a question as JSON."""


@runtime_checkable
class RuleObject(Protocol):
    """A rule of `oddarms.rules`, such as ``Mad(k=3)``."""

    def words(self) -> dict[str, Any]:
        """Return the words of a question that asks for it, in units of the rewards."""
        ...


@dataclass(frozen=True, init=False, repr=False)
class Question:
    """What is asked of the arms: all that determines a search except chance.

    The parameters are checked here, except the algorithm and its options, which are checked when a
    search is made.

    Parameters
    ----------
    labels
        The arms' names; a number n names them 0, 1, ..., n - 1.
    k
        An arm is an outlier if its mean lies at or above mean + k standard deviations of all
        arms' means. By default 2, for the rule "mad" 3 and for "tukey" 1.5.
    delta
        The permitted probability that any decision is wrong; `error` may change this.
    bounds
        The smallest and the largest possible reward.
    side
        "upper", "lower" (at or below mean - k standard deviations) or "both".
    budget
        The largest number of pulls; 2^50 if None.
    rule
        How the threshold follows from the means, see `oddarms.rules`: "sigma" (mean + k standard
        deviations), "mad" (median + k MAD), "tukey" (Q3 + k IQR), "quantile", "control" (a named
        arm's mean) or "absolute" (the floor). An object includes its parameters:
        ``rule=Mad(k=3)`` is ``rule="mad", k=3``, and ``rule=Control("v1", 0.02)`` is
        ``rule="control", control="v1", margin=0.02``.
    margin
        An outlier also lies at least this far above the centre of the means: their mean for
        "sigma", the control arm for "control", else the median. By default 0.05 of the width of
        the bounds, so that a search among equal arms ends; 0 for negative k and for the rules
        "quantile" and "absolute". 0 is the definition of the ADE paper.
    floor
        An outlier also lies at or above this value; for the lower side at or below it.
    control
        The label of the arm that the others are compared with, for the rule "control".
    quantile
        The share of the arms that are not outliers, for the rule "quantile".
    error
        What delta bounds. "fwer": the probability that any decision is wrong (the family-wise
        error rate). "fdr": the expected share of wrong decisions among the arms called outliers
        or among those called normal, whichever is larger.
    goal
        "confidence": stop once the answer is proven. "budget": spend the whole budget on the best
        guess for every arm.
    algorithm
        A name, see `oddarms.algorithms`, or a class. By default "spade"; "lucb" for rules other
        than "sigma", and "calibrated" for the goal "budget".
    options
        The algorithm's own options.

    Examples
    --------
    >>> question = Question(["ann", "bob", "cy"], k=1, margin=0)
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
    rule: RuleName
    margin: float
    floor: float | None
    control: Label
    quantile: float | None
    error: Error
    goal: Goal
    algorithm: str | type
    _options: tuple[tuple[str, Any], ...]

    def __init__(
        self,
        labels: Iterable[Label] | int,
        *,
        k: float | None = None,
        delta: float = DEFAULT_DELTA,
        bounds: tuple[float, float] = UNIT,
        side: Side = "upper",
        budget: int | None = None,
        rule: RuleName | RuleObject = "sigma",
        margin: float | None = None,
        floor: float | None = None,
        control: Label = None,
        quantile: float | None = None,
        error: Error = "fwer",
        goal: Goal = "confidence",
        algorithm: str | type | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(rule, RuleObject):
            own = {"k": k, "margin": margin, "floor": floor, "quantile": quantile}
            words = _words_of(rule, {**own, "control": control})
            k, margin, floor, quantile, control, rule = words.values()
        bounds = check_bounds(bounds)
        name: RuleName = check_choice("rule", rule, get_args(RuleName))
        check_choice("goal", goal, get_args(Goal))
        k = check_k(USUAL_K.get(name, 0.0) if k is None else k)
        has_margin = k >= 0.0 and name not in ("quantile", "absolute")
        usual_margin = USUAL_MARGIN * (bounds[1] - bounds[0]) if has_margin else 0.0
        usual_algorithm = "calibrated" if goal == "budget" else "lucb"
        if goal != "budget" and name == "sigma":
            usual_algorithm = "spade"
        values = {
            "labels": _labels_or_numbers(labels),
            "k": k,
            "delta": check_delta(delta),
            "bounds": bounds,
            "side": check_side(side),
            "budget": None if budget is None else check_whole("budget", budget, least=0),
            "rule": name,
            "margin": check_margin(usual_margin if margin is None else margin, bounds),
            "floor": check_floor(floor, bounds),
            "control": control.item() if isinstance(control, np.generic) else control,
            "quantile": None if quantile is None else check_share("quantile", quantile),
            "error": check_choice("error", error, get_args(Error)),
            "goal": goal,
            "algorithm": algorithm or usual_algorithm,
            "_options": _checked_options(options or {}),
        }
        for word, value in values.items():
            object.__setattr__(self, word, value)
        self._check_words_together()

    def _check_words_together(self) -> None:
        """Raise where words of the question contradict each other."""
        if not isinstance(self.algorithm, str | type):
            raise InvalidParameter(
                f"algorithm must be a name or a class but got {brief(self.algorithm)}."
            )
        if self.rule not in USUAL_K and self.k != 0.0:
            raise InvalidParameter(f"The rule {self.rule!r} has no k: leave out k={self.k:g}.")
        for word, value in (("control", self.control), ("quantile", self.quantile)):
            if self.rule == word and value is None:
                raise InvalidParameter(f"The rule {word!r} requires the parameter {word}.")
            if self.rule != word and value is not None:
                raise InvalidParameter(
                    f"{word}={brief(value)} requires rule={word!r}; the rule is {self.rule!r}."
                )
        if self.control is not None and self.control not in self.labels:
            raise InvalidParameter(f"control={self.control!r} is not the label of an arm.")
        if self.rule == "absolute" and (self.floor is None or self.margin > 0.0):
            raise InvalidParameter(
                "The rule 'absolute' requires a floor, which is its threshold, and has no margin."
            )
        if self.k < 0.0 and (self.margin > 0.0 or self.floor is not None):
            raise InvalidParameter(f"A margin or a floor requires k >= 0, but k is {self.k:g}.")
        if self.floor is not None and self.side == "both":
            raise InvalidParameter("A floor has one side: set side to 'upper' or 'lower'.")
        if self.goal == "budget" and self.budget is None:
            raise InvalidParameter("goal='budget' requires a budget: give the number of samples.")

    @classmethod
    def of(cls, question: Question | Iterable[Label] | int, words: Mapping[str, Any]) -> Question:
        """Return a question as it is, or make one of labels and words.

        Unknown words are options of the algorithm.
        """
        if isinstance(question, Question):
            if words:
                raise InvalidParameter(
                    f"A Question is complete: leave out {', '.join(words)}, or change the question"
                    " with its method `but`."
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
        """The distance from the threshold within which either decision is right, 0 by default.

        In units of the rewards; an option of some algorithms.
        """
        return float(self.options.get("indifference", 0.0))

    @property
    def may_not_end(self) -> bool:
        """Whether a search among equal means ends only by its budget."""
        return self.rule == "sigma" and self.margin == 0.0 and self.indifference == 0.0

    def __repr__(self) -> str:
        words = {**self._words(), **self.options}
        return f"Question({self.n:,} arms, {', '.join(f'{k}={v!r}' for k, v in words.items())})"

    @property
    def worst(self) -> float:
        """The most abnormal reward, as which a missing one may count."""
        return self.bounds[0] if self.side == "lower" else self.bounds[1]

    @property
    def sides(self) -> tuple[Literal["upper", "lower"], ...]:
        """The sides that are asked for."""
        return ("upper", "lower") if self.side == "both" else (self.side,)

    @property
    def can_have_outliers(self) -> bool:
        """Whether a mean can lie strictly beyond the threshold.

        No number of n lies more than sqrt(n - 1) standard deviations from their mean (Samuelson,
        JASA 63, 1968). Samples cannot prove that a mean lies exactly on the threshold.
        """
        return self.rule != "sigma" or self.k <= 0.0 or self.n > 1.0 + self.k**2

    def threshold_text(self, side: str) -> str:
        """Return the threshold of a side in words."""
        upper = side == "upper"
        parts = [text] if (text := self._plain_text(upper)) else []
        if self.margin > 0.0:
            parts.append(f"{self.centre_text} {'+' if upper else '-'} {self.margin:g}")
        if self.floor is not None:
            parts.append(f"{self.floor:g}")
        if len(parts) == 1:
            return parts[0]
        which = {2: ("larger", "smaller"), 3: ("largest", "smallest")}[len(parts)][not upper]
        return f"the {which} of {', '.join(parts[:-1])} and {parts[-1]}"

    def _plain_text(self, upper: bool) -> str:
        sign = "+" if (self.k >= 0.0) == upper else "-"
        quartile, share = ("Q3" if upper else "Q1"), self.quantile or 0.0
        return {
            "sigma": f"mean {sign} {abs(self.k):g} sd",
            "mad": f"median {sign} {abs(self.k):g} MAD",
            "tukey": f"{quartile} {sign} {abs(self.k):g} IQR",
            "quantile": f"the {share if upper else 1.0 - share:g} quantile",
            "control": "" if self.margin > 0.0 else f"that of arm {_printable(self.control)}",
            "absolute": "",
        }[self.rule]

    @property
    def centre_text(self) -> str:
        """What the margin is measured from, in words."""
        arm = f"that of arm {_printable(self.control)}"
        return {"sigma": "mean", "control": arm}.get(self.rule, "median")

    @property
    def centre_phrase(self) -> str:
        """The same, as a part of a sentence."""
        return (
            self.centre_text if self.rule == "control" else f"the {self.centre_text} of all means"
        )

    @property
    def where(self) -> str:
        """Where the means of outliers lie, in words."""
        words = {"upper": "at or above", "lower": "at or below"}
        return ", or ".join(f"{words[side]} {self.threshold_text(side)}" for side in self.sides)

    def sentence(self) -> str:
        """Return the question in words."""
        whose = "" if self.rule in ("control", "absolute") else " of all means"
        comma = "," if self.side == "both" and whose else ""
        return f"which of {self.n:,} arms have a mean {self.where}{comma}{whose}?"

    def but(self, **changes: Any) -> Question:
        """Return the question with other labels, words or options."""
        parts = {"labels": self.labels, **self._words(), "options": self.options}
        return Question(**{**parts, **changes})

    def numbered(self) -> Question:
        """Return the question with the arms named 0, 1, 2, ..."""
        return self if isinstance(self.labels, range) else self.relabelled(range(self.n))

    def relabelled(self, labels: Sequence[Label]) -> Question:
        """Return the question with other names for the arms, in the same order."""
        changes: dict[str, Any] = {"labels": labels}
        if self.control is not None:
            changes["control"] = labels[list(self.labels).index(self.control)]
        return self.but(**changes)

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
                    f"This question has version {version!r}; this program reads {VERSION}."
                )
            named, n = values["labels"], check_whole("n", values["n"], least=2)
            labels = n if named is None else list(map(check_plain_label, named))
            words = {name: values[name] for name in WORDS}
            return cls(labels, **words, options=values["options"])
        except (AttributeError, KeyError, TypeError) as error:
            raise InvalidParameter(f"This question is incomplete or damaged: {error}.") from None

    def to_json(self) -> str:
        """Return the question as text; its algorithm must have a name."""
        if not isinstance(self.algorithm, str):
            raise InvalidParameter(
                f"A question with the class {self.algorithm_name} as algorithm cannot be saved:"
                " register it under a name by oddarms.algorithms.register."
            )
        values = self.to_dict()
        try:
            return json.dumps(values, allow_nan=False)
        except (TypeError, ValueError):
            raise InvalidParameter(
                f"Only plain values can be saved as options, not {self.options!r}."
            ) from None

    @classmethod
    def from_json(cls, text: str) -> Question:
        """Return the question that `to_json` was called on."""
        try:
            values = parsed(text)
        except (TypeError, ValueError) as error:
            raise InvalidParameter(f"This question is not valid JSON: {error}.") from None
        return cls.from_dict(values)


WORDS = (
    *("k", "delta", "bounds", "side", "budget", "rule", "margin", "floor", "control", "quantile"),
    *("error", "goal", "algorithm"),
)
"""The parts of a question apart from labels and options."""


def _words_of(rule: RuleObject, beside: Mapping[str, Any]) -> dict[str, Any]:
    """Return the words of a rule and those given beside it, which must not overlap."""
    words = rule.words()
    for word in words.keys() & beside.keys():
        if beside[word] is not None:
            raise InvalidParameter(
                f"{word} is given twice: in rule={rule!r} and as a parameter. Leave one out."
            )
    return {**beside, **words}


def _printable(label: Label) -> str:
    """Return a label as text that does nothing to a terminal."""
    return "".join(c if c.isprintable() else "?" for c in str(label))


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
            f"labels must be the arms' names or their number, not {brief(labels)}."
        ) from None


def _checked_options(options: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Return the options, sorted by name."""
    for name in options:
        if not isinstance(name, str) or name in ("labels", *WORDS):
            raise InvalidParameter(
                f"{name!r} is a parameter of the question, not an option of the algorithm."
            )
    return tuple(sorted(options.items(), key=lambda item: item[0]))
