"""`find`: the loop that joins an algorithm and a source of rewards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from oddarms.algorithms import Algorithm, Pulls
from oddarms.arms import Callables, SeededSource, Source, TotalsSource
from oddarms.errors import (
    InvalidParameter,
    PullFailed,
    RewardRejected,
    SearchError,
    SearchInterrupted,
)
from oddarms.problem import Label, Side, check_bounds
from oddarms.search._progress import ProgressCallback, ProgressLine, progress_of
from oddarms.search._result import Result
from oddarms.search._search import Search

Arms = Source | Mapping[Label, Callable[[], float]] | Sequence[Callable[[], float]]


def find(
    arms: Arms,
    *,
    k: float,
    delta: float,
    algorithm: str | type[Algorithm] = "spade",
    bounds: tuple[float, float] = (0.0, 1.0),
    side: Side = "upper",
    budget: int | None = None,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
    progress: ProgressCallback | bool | None = None,
    **options: Any,
) -> Result:
    """Find the arms whose mean lies at or above mean + k standard deviations of all arms' means.

    The whole answer is right with probability at least 1 - delta, whatever the distributions of
    the rewards, if they are independent and within the bounds.

    Parameters
    ----------
    arms
        An object with `labels` and `pull(indices, counts)` (see `oddarms.arms`), a mapping from
        label to a function that returns one reward, or a sequence of such functions.
    k
        How many standard deviations; any finite number. With k = 0 the threshold is the mean of
        all means, with k < 0 it lies below. An arm exactly on the threshold is an outlier, but no
        algorithm can find that out: with it, or with all means equal, the search ends only by a
        budget (or by SPADE's ``indifference``). Among n < 1 + k^2 arms none can be an outlier,
        and SPADE says so without a pull.
    delta
        Permitted probability of any wrong decision, in (0, 1).
    algorithm
        Name or class of the algorithm, see `oddarms.algorithms`.
    bounds
        Smallest and largest possible reward.
    side
        "upper", "lower" (mean - k standard deviations or less) or "both".
    budget
        At most this many pulls; arms still open then are reported as undecided.
    rng
        Seed or generator; decides the algorithm's choices and the rewards of simulated arms.
    progress
        True for a line on stderr, or a function that is called with a `Progress` after each step.
    **options
        Options of the algorithm, such as ``indifference=0.01`` or ``batch=1000``.

    Returns
    -------
    Result
        Outliers, normal and undecided arms by label, with means, intervals and pulls.

    Raises
    ------
    InvalidParameter, UnknownAlgorithm, UnknownOption
        Before the first pull.
    SearchError, SearchInterrupted
        Where a pull fails or a reward is invalid, and where Ctrl-C is pressed. The `result` of
        either has everything absorbed before, `unabsorbed` the rewards of the unfinished step.

    Examples
    --------
    >>> import oddarms
    >>> servers = oddarms.arms.Bernoulli([0.02, 0.03, 0.01, 0.02, 0.9], labels="abcde")
    >>> oddarms.find(servers, k=1.5, delta=0.05, algorithm="rr", batch=100, rng=1).outliers
    ['e']
    """
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise InvalidParameter(f"progress must be True, False or a function but got {progress!r}.")
    source = _as_source(arms, check_bounds(bounds))
    algorithm_rng, reward_rng = np.random.default_rng(rng).spawn(2)
    if isinstance(source, SeededSource):
        source = source.seeded(reward_rng)
    search = Search(
        source.labels,
        k=k,
        delta=delta,
        algorithm=algorithm,
        bounds=bounds,
        side=side,
        budget=budget,
        rng=algorithm_rng,
        **options,
    )
    _run(search, source, progress)
    return search.result()


def _as_source(arms: Arms, bounds: tuple[float, float]) -> Source:
    if isinstance(arms, Source):
        return arms
    if isinstance(arms, Mapping | Sequence):
        return Callables(arms, bounds=bounds)
    raise InvalidParameter(
        "arms must have labels and pull(indices, counts), or be a mapping or sequence of"
        f" functions, but got {type(arms).__name__}."
    )


def _run(search: Search, source: Source, progress: ProgressCallback | bool | None) -> None:
    line = ProgressLine() if progress is True else None
    step = _stepper(search, source)
    callback = progress if callable(progress) else None
    try:
        while not search.done:
            step()
            if callback is not None:
                callback(progress_of(search))
            elif line is not None and line.due():
                line(progress_of(search))
    except KeyboardInterrupt as error:
        search.stop("interrupted")
        interrupted = SearchInterrupted(
            f"interrupted after {search.total_pulls:,} pulls; `result` of this error has them."
        )
        interrupted.result = search.result()
        interrupted.unabsorbed = getattr(error, "unabsorbed", [])
        raise interrupted from None
    except SearchError as error:
        search.stop("failed")
        error.result = search.result()
        raise
    except Exception as error:
        search.stop("failed")
        failure = SearchError(
            f"the search failed after {search.total_pulls:,} pulls, which `result` of this error"
            f" has: {type(error).__name__}: {error}"
        )
        failure.result = search.result()
        raise failure from error
    finally:
        if line is not None:
            line.close()


def _stepper(search: Search, source: Source) -> Callable[[], None]:
    """Return the function that asks, pulls and tells once."""
    totals = source.pull_totals if isinstance(source, TotalsSource) else None

    def step() -> None:
        pulls = search.ask()
        try:
            answer = (totals or source.pull)(pulls.indices, pulls.counts)
        except SearchError:
            raise
        except Exception as error:
            raise _pull_failed(search, pulls, error) from error
        if totals is None:
            search.tell(answer)
        else:
            search.tell_totals(*_pair(answer))

    return step


def _pair(answer: Any) -> tuple[Any, Any]:
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise RewardRejected("pull_totals() must return two arrays, sums and sums of squares.")
    return answer[0], answer[1]


def _pull_failed(search: Search, pulls: Pulls, error: Exception) -> PullFailed:
    alone = np.unique(pulls.indices).size == 1
    label = search.labels[int(pulls.indices[0])] if alone else None
    where = f"arm {label!r}" if alone else f"a step of {pulls.total} pulls"
    return PullFailed(f"{where} raised {type(error).__name__}: {error}", label)
