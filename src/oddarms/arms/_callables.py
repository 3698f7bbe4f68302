"""Arms that are functions: call one, get a reward."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from oddarms.errors import InvalidParameter, PullFailed, RewardRejected, SearchInterrupted
from oddarms.problem import FloatArray, IntArray, Label, check_bounds, check_labels


class Callables:
    """Arms given as functions without arguments that return one reward each.

    Parameters
    ----------
    functions
        A mapping from label to function, or a sequence of functions labelled 0, 1, 2, ...
    bounds
        If given, a reward outside is refused at once, before the next function is called.

    Examples
    --------
    >>> Callables({"a": lambda: 0.25, "b": lambda: 1}).pull([1, 0], [1, 2]).tolist()
    [1.0, 0.25, 0.25]
    """

    def __init__(
        self,
        functions: Mapping[Label, Callable[[], float]] | Sequence[Callable[[], float]],
        *,
        bounds: tuple[float, float] | None = None,
    ) -> None:
        self.bounds = (-np.inf, np.inf) if bounds is None else check_bounds(bounds)
        if isinstance(functions, Mapping):
            self.labels = check_labels(functions)
            self._functions = tuple(functions.values())
        else:
            self._functions = tuple(functions)
            self.labels = check_labels(range(len(self._functions)))
        for label, function in zip(self.labels, self._functions, strict=True):
            if not callable(function):
                raise InvalidParameter(f"arm {label!r} must be callable but is {function!r}.")

    def pull(self, indices: IntArray, counts: IntArray) -> FloatArray:
        """Call the functions in order; if one raises, the error has the rewards drawn before."""
        rewards: list[float] = []
        drawn: list[tuple[Label, float]] = []
        for i in np.repeat(np.asarray(indices), counts):
            rewards.append(self._call(int(i), drawn))
            drawn.append((self.labels[i], rewards[-1]))
        return np.array(rewards)

    def _call(self, i: int, drawn: list[tuple[Label, float]]) -> float:
        label = self.labels[i]
        failure: PullFailed | RewardRejected
        try:
            reward = self._functions[i]()
        except Exception as error:
            failure = PullFailed(f"arm {label!r} raised {type(error).__name__}: {error}", label)
            failure.unabsorbed = drawn
            raise failure from error
        except KeyboardInterrupt:
            interrupted = SearchInterrupted(f"interrupted while arm {label!r} was pulled.")
            interrupted.unabsorbed = drawn
            raise interrupted from None
        try:
            value = float(reward)
        except (TypeError, ValueError):
            failure = RewardRejected(f"arm {label!r} returned {reward!r}, which is not a number.")
            failure.unabsorbed = drawn
            raise failure from None
        a, b = self.bounds
        if not a <= value <= b:
            failure = RewardRejected(
                f"rewards must lie within the bounds [{a:g}, {b:g}]"
                f" but arm {label!r} gave {value:g}."
            )
            failure.unabsorbed = drawn
            raise failure
        return value
