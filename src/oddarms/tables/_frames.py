"""Rewards that people have in Python: lists by label, arrays, and frames of any library.

A frame is whatever has columns by name, each of which gives an array: those of pandas, polars and
pyarrow do, so that none of them has to be imported here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
import numpy.typing as npt

from oddarms.errors import InvalidParameter
from oddarms.problem import FloatArray, Label, brief, check_choice, check_labels
from oddarms.tables._columns import listed
from oddarms.tables._transforms import Transform
from oddarms.tables._values import is_absent, truth_of

Missing = Literal["stop", "skip", "worst"]
"""What a reward that is missing means: an error, no sample, or the most abnormal reward."""

MOST_TRIALS = 20_000_000
"""Of all arms together, where counts become single rewards; each takes 8 bytes, for a while 40."""
COUNTS = ("successes", "trials")


@runtime_checkable
class Frame(Protocol):
    """A table with named columns, such as a data frame of pandas or polars."""

    @property
    def columns(self) -> Any:
        """The columns' names."""
        ...

    def __getitem__(self, name: Any) -> Any:
        """Return a column."""
        ...


Recorded = Mapping[Any, npt.ArrayLike] | Frame | npt.NDArray[Any] | Sequence[npt.ArrayLike]
"""Rewards that are there already."""


def is_recorded(data: object, labels: object = None) -> bool:
    """Return whether these are rewards, and not things that can be pulled."""
    if isinstance(data, Mapping):
        return bool(data) and not any(map(callable, data.values()))
    if isinstance(data, np.ndarray) or _is_frame(data):
        return True
    if not isinstance(data, Sequence) or isinstance(data, str) or any(map(callable, data)):
        return False
    lists = any(isinstance(each, Sequence | np.ndarray) for each in data)
    return lists or labels is not None


def recorded_rewards(
    data: Any,
    *,
    arm: str | None = None,
    reward: str | None = None,
    labels: Iterable[Label] | None = None,
    missing: Missing = "stop",
    worst: float = 1.0,
    rng: np.random.Generator | None = None,
) -> dict[Label, FloatArray]:
    """Return the rewards of each arm, in the order of first appearance.

    Parameters
    ----------
    data
        A mapping from label to rewards; a frame with a row per reward, or with counts: the columns
        ``successes`` and ``trials``, of which rows of one arm are added up; or with `labels` an
        array, or a sequence, with a row of rewards for each of them.
    arm
        The frame's column of labels: by default ``arm`` or, without one, the index.
    reward
        The frame's column of rewards: by default ``reward``, or else counts.
    labels
        Of the rows of an array.
    missing
        What None or NaN means: "stop" refuses it, "skip" leaves it out, "worst" counts it as
        `worst`.
    rng
        Decides the order of the rewards that counts become, which are used in order; without one
        the successes come first, for whoever shuffles them.

    Examples
    --------
    >>> found = recorded_rewards([[0, 1, None], [1, 1, 0]], labels=["a", "b"], missing="skip")
    >>> {label: rewards.tolist() for label, rewards in found.items()}
    {'a': [0.0, 1.0], 'b': [1.0, 1.0, 0.0]}
    """
    check_choice("missing", missing, get_args(Missing))
    absent = {"stop": None, "skip": math.nan, "worst": worst}[missing]
    if _is_frame(data):
        if labels is not None:
            raise InvalidParameter(
                f"labels must be left out for a frame but got {brief(labels)}: arm names its column"
                " of labels."
            )
        return _of_frame(data, arm, reward, absent, rng)
    if arm is not None or reward is not None:
        raise InvalidParameter(
            "arm and reward must be left out unless the rewards are a frame, whose columns they"
            f" name, but got a {type(data).__name__}."
        )
    rows = data if isinstance(data, Mapping) else _labelled(data, labels)
    if isinstance(data, Mapping) and labels is not None:
        raise InvalidParameter(
            f"labels must be left out for a mapping, which has its own, but got {brief(labels)}."
        )
    return {
        plain_label(label): _filled(reward_array(f"rewards of arm {brief(label)}", given), absent)
        for label, given in rows.items()
    }


@dataclass(frozen=True)
class History:
    """How rewards that are there already are read: the words of `recorded_rewards`, and more.

    Attributes
    ----------
    transform
        What rewards count as, None if as what they are.
    """

    arm: str | None = None
    reward: str | None = None
    labels: Iterable[Label] | None = None
    missing: Missing = "stop"
    worst: float = 1.0
    transform: Transform | None = None

    def words(self, data: object) -> dict[str, Any]:
        """Return the words that are about such data."""
        if isinstance(data, Mapping):
            return {"missing": self.missing}
        if _is_frame(data):
            return {"arm": self.arm, "reward": self.reward, "missing": self.missing}
        return {"labels": self.labels, "missing": self.missing}

    def check_words(self, *all_data: object) -> None:
        """Refuse words that are about none of these."""
        known = {word for data in all_data if data is not None for word in self._of(data)}
        for word in ("arm", "reward", "labels"):
            if getattr(self, word) is not None and word not in known:
                kind = "an array of rewards" if word == "labels" else "a frame of rewards"
                raise InvalidParameter(
                    f"{word} must be left out unless there is {kind} but got"
                    f" {brief(getattr(self, word))}."
                )

    def _of(self, data: object) -> list[str]:
        is_array = isinstance(data, np.ndarray) or (
            isinstance(data, Sequence) and not any(map(callable, data))
        )
        return ["arm", "reward"] if _is_frame(data) else ["labels"] if is_array else []

    def rewards(self, data: Any, rng: np.random.Generator | None = None) -> dict[Label, FloatArray]:
        """Return the rewards of each arm."""
        found = recorded_rewards(data, **self.words(data), worst=self.worst, rng=rng)
        if self.transform is None:
            return found
        return {label: self.transform.many(rewards) for label, rewards in found.items()}


def reward_array(name: str, values: Any, *, words: bool = False) -> FloatArray:
    """Return rewards as numbers, a missing one as NaN.

    Parameters
    ----------
    name
        What they are, for messages.
    values
        Anything with one dimension that numpy takes.
    words
        Whether yes, no, true and false are rewards, too.
    """
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):  # lists of several lengths
        array = np.empty((0, 0))
    if array.ndim != 1:
        raise InvalidParameter(f"{name} must be a list of numbers but got {brief(values)}.")
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    if array.dtype.kind not in "OUT":
        raise InvalidParameter(f"{name} must be numbers but are of the type {array.dtype}.")
    # numpy would make texts of numbers that stand beside one
    each = values if isinstance(values, list | tuple) else array.tolist()
    return np.array(
        [_number(name, row, value, words=words) for row, value in enumerate(each)],
        dtype=np.float64,
    )


def within(
    rewards: dict[Label, FloatArray], bounds: tuple[float, float]
) -> dict[Label, FloatArray]:
    """Return rewards if all lie within the bounds."""
    a, b = bounds
    for label, values in rewards.items():
        wrong = values[~((values >= a) & (values <= b))]
        if wrong.size:
            raise InvalidParameter(
                f"rewards must lie within the bounds [{a:g}, {b:g}] but {wrong.size:,} of the"
                f" {values.size:,} of arm {brief(label)} do not, such as {wrong[0]:g}: give bounds,"
                " clip or above."
            )
    return rewards


def plain_label(label: Any) -> Label:
    """Return a label of numpy as that of Python which it equals."""
    plain: Label = label.item() if isinstance(label, np.generic) else label
    return plain


def _number(name: str, row: int, value: Any, *, words: bool) -> float:
    if _is_missing(value):
        return math.nan
    if isinstance(value, Real) or type(value).__name__ == "Decimal":
        try:
            return float(value)
        except OverflowError:
            return math.inf
    truth = truth_of(value) if words and isinstance(value, str) else None
    if truth is None:
        kinds = "numbers, yes/no or true/false" if words else "numbers"
        raise InvalidParameter(f"{name} must be {kinds} but number {row} is {brief(value)}.")
    return truth


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, str):
        return is_absent(value)
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _filled(rewards: FloatArray, absent: float | None) -> FloatArray:
    """Return rewards without missing ones: NaN for `absent` leaves them out."""
    gone = np.isnan(rewards)
    if not gone.any():
        return rewards
    if absent is None:
        raise InvalidParameter(
            f"rewards must not be missing but {int(gone.sum()):,} of {rewards.size:,} are, the"
            f" first at {int(np.flatnonzero(gone)[0])}: missing='skip' leaves them out, which is"
            " sound only if being missing has nothing to do with the reward, and 'worst' counts"
            " them as the most abnormal reward."
        )
    return rewards[~gone] if math.isnan(absent) else np.where(gone, absent, rewards)


def _labelled(data: Any, labels: Iterable[Label] | None) -> dict[Label, Any]:
    """Return the rows of an array by their labels."""
    if not isinstance(data, np.ndarray | Sequence) or isinstance(data, str):
        raise InvalidParameter(
            "rewards must be a mapping from label to rewards, a frame, or an array with labels but"
            f" got a {type(data).__name__}."
        )
    shape = np.shape(data) if isinstance(data, np.ndarray) else (len(data),)
    if len(shape) not in (1, 2) or (isinstance(data, np.ndarray) and len(shape) != 2):
        raise InvalidParameter(
            f"an array of rewards must have a row for each arm but has the shape {shape}."
        )
    if labels is None:
        raise InvalidParameter(
            f"labels must be given for an array of rewards, one for each of its {shape[0]:,} rows,"
            " but got None."
        )
    names = check_labels(labels)
    if len(names) != shape[0]:
        turn = len(shape) == 2 and shape[1] == len(names)
        raise InvalidParameter(
            f"labels must be as many as the array has rows, {shape[0]:,}, but are {len(names):,}"
            f"{': its columns are as many, so give array.T' if turn else ''}."
        )
    return dict(zip(names, data, strict=True))


# Frames


def _is_frame(data: object) -> bool:
    is_other = isinstance(data, np.ndarray | Mapping | type)
    return not is_other and (_is_lazy(data) or isinstance(data, Frame))


def _is_lazy(data: object) -> bool:
    """Return whether this is a frame yet to be computed, of which nothing should be asked."""
    return hasattr(type(data), "collect") and hasattr(type(data), "columns")


def _of_frame(
    frame: Any,
    arm: str | None,
    reward: str | None,
    absent: float | None,
    rng: np.random.Generator | None,
) -> dict[Label, FloatArray]:
    if _is_lazy(frame):
        raise _not_at_hand(frame)
    names = _names(frame)
    if reward is None and "reward" not in names:
        if not set(COUNTS) <= set(names):
            raise InvalidParameter(
                "reward must name a column of the frame, or there must be the columns 'successes'"
                f" and 'trials', but the columns are {listed(list(map(str, names)))}."
            )
        totals = [
            reward_array(f"the column {name!r}", _column(frame, names, name, name))
            for name in COUNTS
        ]
        rows = _labels(frame, names, arm, numbers=set(names) <= {*COUNTS})
        return rewards_of_counts(rows, totals[0], totals[1], rng)
    reward = "reward" if reward is None else reward
    column = _column(frame, names, "reward", reward)
    rewards = reward_array(f"the column {reward!r}", column, words=True)
    labels = _labels(frame, names, arm, numbers=False)
    filled = _filled(rewards, absent)
    if filled.size == rewards.size:
        return grouped(labels, filled)
    known = (~np.isnan(rewards)).tolist()
    kept = [label for label, there in zip(labels, known, strict=True) if there]
    # one whose rewards are all missing is an arm, too
    return dict.fromkeys(labels, np.empty(0)) | grouped(kept, filled)


def _names(frame: Any) -> list[Any]:
    """Return the names of a frame's columns; those of pyarrow have another name."""
    return list(getattr(frame, "column_names", None) or frame.columns)


def _column(frame: Any, names: list[Any], word: str, name: Any) -> npt.NDArray[Any]:
    if names.count(name) != 1:
        how = "twice" if name in names else f"not among {listed(list(map(str, names)))}"
        raise InvalidParameter(
            f"{word} must name one column of the frame but {brief(name)} is {how}."
        )
    column = frame[name]
    if not hasattr(column, "to_numpy"):
        raise _not_at_hand(frame)
    return np.asarray(column)  # to_numpy() of pyarrow refuses what is missing


def _not_at_hand(frame: Any) -> InvalidParameter:
    kind = f"{type(frame).__module__}.{type(frame).__name__}"
    return InvalidParameter(
        f"a frame must have its values at hand but those of {kind} are yet to be computed: give"
        " frame.collect() or frame.compute()."
    )


def _labels(frame: Any, names: list[Any], arm: str | None, *, numbers: bool) -> list[Label]:
    """Return the label of each row, from a column or the index, which may be numbers or not."""
    if arm is None and "arm" in names:
        arm = "arm"
    if arm is not None:
        _column(frame, names, "arm", arm)
        column = frame[arm]
    else:
        column = getattr(frame, "index", None)
        numbered = type(column).__name__ == "RangeIndex"
        if not hasattr(column, "to_numpy") or (numbered and not numbers):
            raise InvalidParameter(
                "arm must name the frame's column of labels, or they must be its index, but the"
                f" columns are {listed(list(map(str, names)))}."
            )
    labels = [plain_label(label) for label in _listed(column)]
    row = next((i for i, label in enumerate(labels) if _is_missing(label)), None)
    if row is not None:
        raise InvalidParameter(f"every row must name an arm but that of row {row} is missing.")
    return labels


def _listed(column: Any) -> list[Any]:
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, method):
            return list(getattr(column, method)())
    return list(column)


def grouped(labels: Sequence[Label], rewards: FloatArray) -> dict[Label, FloatArray]:
    """Return the rewards of each label, in the order of first appearance."""
    index: dict[Label, int] = {}
    try:
        codes = np.array([index.setdefault(label, len(index)) for label in labels], dtype=np.int64)
    except TypeError:
        raise InvalidParameter("labels must be texts or numbers but one is not hashable.") from None
    ends = np.cumsum(np.bincount(codes, minlength=len(index)))[:-1]
    parts = np.split(rewards[np.argsort(codes, kind="stable")], ends)
    return dict(zip(index, parts, strict=False))


def rewards_of_counts(
    labels: Sequence[Label],
    successes: FloatArray,
    trials: FloatArray,
    rng: np.random.Generator | None = None,
) -> dict[Label, FloatArray]:
    """Return so many rewards of 1 and 0 for each label; rows of one label are added up.

    Given the counts of independent trials, every order of their results is equally likely. So
    rewards in a random order are as good as those that were counted, also for algorithms that look
    at them one after another.
    """
    _check_counts(labels, successes, trials)
    totals = {
        label: (int(wins.sum()), int(all_.sum()))
        for (label, wins), all_ in zip(
            grouped(labels, successes).items(), grouped(labels, trials).values(), strict=True
        )
    }
    found: dict[Label, FloatArray] = {}
    for label, (wins, count) in totals.items():
        rewards = np.repeat([1.0, 0.0], [wins, count - wins])
        found[label] = rewards if rng is None else rng.permutation(rewards)
    return found


def _check_counts(labels: Sequence[Label], successes: FloatArray, trials: FloatArray) -> None:
    with np.errstate(invalid="ignore"):
        whole = (successes % 1 == 0) & (trials % 1 == 0)
        wrong = ~(whole & (successes >= 0) & (successes <= trials) & np.isfinite(trials))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InvalidParameter(
            "successes must be a whole number from 0 to trials but arm"
            f" {brief(labels[row])} has {successes[row]:g} of {trials[row]:g}."
        )
    total = float(trials.sum())
    if total > MOST_TRIALS:
        raise InvalidParameter(
            f"trials must be at most {MOST_TRIALS:,} in all but are {total:,.0f}: count a shorter"
            " time, or a random part of them."
        )
