"""`find`: from things that can be pulled to the answer, in memory or through a study."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from oddarms.algorithms import Algorithm
from oddarms.arms import (
    Callables,
    CalledSource,
    FiniteSource,
    SeededSource,
    Source,
    Table,
    transformed,
)
from oddarms.arms._table import check_fits
from oddarms.errors import DuplicateStudy, InvalidParameter, UnknownStudy
from oddarms.problem import (
    DEFAULT_DELTA,
    UNIT,
    WORDS,
    Error,
    Goal,
    IntArray,
    Label,
    Question,
    RuleName,
    Side,
    brief,
    check_bounds,
)
from oddarms.randomness import Rng, generator_of
from oddarms.search import (
    AHEAD,
    PATIENCE,
    Desk,
    OnError,
    Patience,
    ProgressCallback,
    Result,
    Search,
    drive,
    patiently,
)
from oddarms.search._revising import REVISABLE, changed
from oddarms.studies import Study, create_study, load_study
from oddarms.studies._desk import RUN_LEASE, StudyDesk
from oddarms.studies._ids import number_in
from oddarms.tables import History, Missing, Recorded, Transform, is_recorded, within

Functions = Mapping[Any, Callable[[], Any]] | Sequence[Callable[[], Any]]
Arms = Source | CalledSource | Functions | Recorded
STUDY_NAME = "find"


def find(
    arms: Arms,
    *,
    k: float | None = None,
    delta: float = DEFAULT_DELTA,
    algorithm: str | type[Algorithm] | None = None,
    bounds: tuple[float, float] = UNIT,
    side: Side = "upper",
    budget: int | None = None,
    rule: RuleName = "sigma",
    margin: float = 0.0,
    floor: float | None = None,
    control: Label = None,
    quantile: float | None = None,
    error: Error = "any",
    goal: Goal = "sure",
    rng: Rng = None,
    imported: Recorded | None = None,
    arm: str | None = None,
    reward: str | None = None,
    labels: Iterable[Label] | None = None,
    missing: Missing = "stop",
    clip: tuple[float, float] | None = None,
    above: float | None = None,
    jobs: int | None = None,
    executor: Any = None,
    on_error: OnError = "stop",
    ahead: float = AHEAD,
    storage: str | Path | None = None,
    name: str = STUDY_NAME,
    patience: Patience = PATIENCE,
    progress: ProgressCallback | bool | None = None,
    **options: Any,
) -> Result:
    """Find the arms whose mean lies at or above mean + k standard deviations of all arms' means.

    The whole answer is right with probability at least 1 - delta, whatever the distributions of
    the rewards, if they are independent and within the bounds.

    Parameters
    ----------
    arms
        A mapping from label to a function that returns one reward, or a sequence of such functions
        (``async def`` ones are awaited, many at a time); or an object of `oddarms.arms`, or one of
        your own with `labels` and `pull(indices, counts)`. Or rewards that are recorded: a mapping
        from label to a list or array of them, a data frame of pandas or polars with a row per
        reward or with counts (the columns ``successes`` and ``trials``), or with `labels` an array
        that has a row for each of them. Each of these is used once, in a random order, and the
        search ends with what they prove (`oddarms.arms.Table`).
    k
        How many standard deviations, by default 2 (3 with the rule "mad", 1.5 with "tukey"); any
        finite number. With k = 0 the threshold is
        the mean of all means, with k < 0 it lies below. An arm exactly on the threshold is an
        outlier, but no algorithm can find that out: with it, or with all means equal, the search
        ends only by a margin, a budget or an indifference. Among n < 1 + k^2 arms none can be an
        outlier, and SPADE says so without a pull; among n = 1 + k^2 one can only be on the
        threshold, so take more arms or a smaller k.
    delta
        Permitted probability of any wrong decision, in (0, 1).
    algorithm
        Name or class of the algorithm, see `oddarms.algorithms`; by default what suits the rule,
        the goal, and a table whose rows are the population.
    bounds
        Smallest and largest possible reward.
    side
        "upper", "lower" (mean - k standard deviations or less) or "both".
    budget
        At most this many pulls; arms still open then are reported as undecided.
    rule
        How the threshold follows from the means, see `oddarms.rules`: "sigma" is mean + k standard
        deviations, "mad" median + k MAD, "tukey" Q3 + k IQR; "quantile", "control", "absolute".
    margin
        An outlier is also at least this far above the mean of all means (of other rules: above
        their centre). Arms that are all alike then end the search: nothing stands out. By default
        0, as in the definition; the shell and the plugin ask with 0.05 of the bounds' width, and
        so may decide more on the same rewards.
    floor
        An outlier is also at or above this (on the lower side: at or below).
    control, quantile
        The label of the arm to compare with, and the share of normal arms, for these two rules.
    error
        "any": no decision is wrong, with probability 1 - delta. "fdr": the expected shares of
        wrong names among the outliers and among the normal arms are at most delta/2 each.
    goal
        "sure", or "budget": spend the whole budget on the best guess for every arm.
    rng
        Decides the algorithm's choices and the rewards of simulated arms: a seed, a generator, or
        whatever `numpy.random.default_rng` takes.
    imported
        Rewards that are there already, by label or in a frame or array as for `arms`. They count
        as evidence and cost no budget; how many an arm has must not have been decided by looking
        at them.
    arm, reward
        The columns of a frame: the labels, by default in ``arm`` or the index, and the rewards, by
        default in ``reward``, or else counts.
    labels
        The names of an array's rows.
    missing
        What a recorded reward of None or NaN means. "stop": an error. "skip": no sample, which
        keeps the guarantee only if being missing has nothing to do with the reward. "worst": the
        most abnormal reward.
    clip, above
        For rewards without known bounds, such as seconds. ``clip=(0, 10)`` counts a reward outside
        as the nearer end, and asks about the means of clipped rewards; these are the bounds unless
        you give others. ``above=0.5`` counts a reward as 1 if it is above and as 0 otherwise, and
        asks about the share of samples above.
    jobs
        Calls of functions at a time, in threads; 1 by default, 100 for ``async def`` functions,
        which need no threads.
    executor
        Where functions are called instead: a concurrent.futures executor, a dask ``Client``, or
        the ray module (initialised).
    on_error
        What a function that raises, or returns no reward, means. "stop": record what is under way
        and raise `PullFailed`. "retry": pull again, which keeps the guarantee only if failing has
        nothing to do with the reward. "worst": count it as the most abnormal reward.
    ahead
        So that several workers are never idle, pulls of later steps are made while a step waits
        for its last ones: at most this share of the pulls so far. 0 turns it off.
    storage, name
        Where to keep every result, and under which name: a file, ``sqlite:///FILE`` or
        ``postgresql://USER@HOST/NAME``. A search that was stopped in any way goes on where it was.
        Without a storage nothing is written.
    patience
        How long to wait for a storage that goes away during the search - a server that restarts, a
        lock, a full disk - as a timedelta or in seconds. Pulls under way are finished meanwhile,
        and their results kept and stored once it is back.
    progress
        True for a line on stderr, in a notebook a bar below the cell, or a function that is called
        with a `Progress` now and then.
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
        Where a pull fails or a reward is invalid, and where Ctrl-C is pressed or the program is
        asked to end by SIGTERM or SIGHUP. The `result` of either has everything absorbed before,
        `unabsorbed` the rewards of the unfinished step (none where there is a storage, which has
        them). Calls under way in threads are waited for; a second Ctrl-C leaves them to
        themselves, as they cannot be stopped.
    StoreFailed
        Where a storage cannot be used, or was away for longer than the patience; `untold` has the
        results that it does not have, for `Study.tell_many`.
    WorkerLost, BackendUnavailable
        Where a process of the executor dies, or a cluster goes away; with `result`, too.

    Examples
    --------
    >>> import oddarms
    >>> servers = oddarms.arms.Bernoulli([0.02, 0.03, 0.01, 0.02, 0.9], labels="abcde")
    >>> oddarms.find(servers, k=1.5, algorithm="rr", batch=100, rng=1).outliers
    ['e']
    """
    transform = Transform.of(clip, above)
    if transform is not None and bounds == UNIT:
        bounds = transform.bounds
    worst = check_bounds(bounds)[0 if side == "lower" else 1]
    history = History(arm, reward, labels, missing, worst, transform)
    history.check_words(arms, imported)
    source = _source_of(arms, history, bounds)
    if imported is not None and transform is not None:
        imported = history.rewards(imported, generator_of(rng).spawn(3)[2])
    columns = history.words(imported)
    algorithm, options = _fitting(source, algorithm, options)
    if isinstance(source, FiniteSource) and source.rewards_left is not None:
        _check_finite(source, imported, storage)
    words = {
        "k": k,
        "delta": delta,
        "algorithm": algorithm,
        "bounds": bounds,
        "side": side,
        "budget": budget,
        "rule": rule,
        "margin": margin,
        "floor": floor,
        "control": control,
        "quantile": quantile,
        "error": error,
        "goal": goal,
        **options,
    }
    desk: Desk
    if storage is None:
        algorithm_rng, reward_rng = generator_of(rng).spawn(2)
        desk = search = Search(source.labels, rng=algorithm_rng, **words)
        if isinstance(source, SeededSource):
            source = source.seeded(reward_rng)
        if imported is not None:
            search.import_rewards(imported, **columns)
    else:
        study = patiently(
            lambda: open_study(source.labels, _said(words), storage=storage, name=name, rng=rng),
            patience,
        )
        if imported is not None:
            history_of_study = imported
            patiently(
                lambda: study.import_rewards(history_of_study, key="find", **columns), patience
            )
        desk = own = study.desk(lease=RUN_LEASE)
        if isinstance(source, SeededSource):
            source = _SeededByTicket(source, own)
    return drive(
        desk,
        source,
        jobs=jobs,
        executor=executor,
        on_error=on_error,
        ahead=ahead,
        patience=patience,
        progress=progress,
    )


def _source_of(arms: Arms, history: History, bounds: tuple[float, float]) -> Source | CalledSource:
    """Return what can be pulled; recorded rewards can be once each."""
    if is_recorded(arms, history.labels):
        return Table(within(history.rewards(arms), bounds))
    source, transform = as_source(arms), history.transform
    if transform is None:
        return source
    if isinstance(source, Callables):
        return source.changed(lambda function: transformed(function, transform))
    raise InvalidParameter(
        "clip and above must be left out where arms are an object that is pulled but got"
        f" {type(arms).__name__}: let its pull return what a reward counts as."
    )


def as_source(arms: Arms) -> Source | CalledSource:
    """Return what can be pulled as a source."""
    if isinstance(arms, Source | CalledSource):
        return arms
    if isinstance(arms, Mapping | Sequence):
        return Callables(arms)  # type: ignore[arg-type] # which says what is no function
    raise InvalidParameter(
        "arms must have labels and pull(indices, counts), or be a mapping or sequence of"
        " functions, or recorded rewards (a mapping to lists, a frame, an array with labels), but"
        f" got {type(arms).__name__}."
    )


def _fitting(
    source: object, algorithm: str | type[Algorithm] | None, options: dict[str, Any]
) -> tuple[str | type[Algorithm] | None, dict[str, Any]]:
    """Return the algorithm for a source and its options; a table's rows are known to it."""
    rows = isinstance(source, Table) and source.population == "rows"
    if algorithm is None and rows:
        algorithm = "census"
    if algorithm is not None:
        check_fits(source, algorithm)
    if not (isinstance(source, Table) and rows):
        return algorithm, options
    if "rows" in options:
        raise InvalidParameter(
            "rows must be left out for a table, which knows how many it has, but got"
            f" {brief(options['rows'])}."
        )
    return algorithm, {**options, "rows": source.sizes.tolist()}


def _check_finite(
    source: FiniteSource, imported: Recorded | None, storage: str | Path | None
) -> None:
    if storage is not None:
        raise InvalidParameter(
            "storage must be left out where every reward is used once, as the rewards are recorded"
            f" already, but got {storage!r}: give rewards as `imported` to go on from them."
        )
    if imported is not None and isinstance(source, Table) and source.population == "rows":
        raise InvalidParameter(
            "imported must be left out where a table's rows are the population but got some: the"
            " rows are all there is."
        )


def open_study(
    labels: Iterable[Label] | None,
    words: Mapping[str, Any],
    *,
    storage: str | Path,
    name: str = STUDY_NAME,
    rng: Rng = None,
) -> Study:
    """Return the study of that name, which must have been begun with these words, or a new one.

    Another margin, floor or indifference, and a larger budget, are asked of it from now on
    (`Study.revise`). Tickets of processes of this machine that are gone are given back.

    Parameters
    ----------
    labels
        The arms' names, None for those of a study that must be there.
    words
        Of the question, and options of the algorithm; a study has its own for what is left out.
    storage, name, rng
        As for `find`.
    """
    try:
        study = load_study(name, storage=storage)
    except UnknownStudy:
        if labels is None:
            raise
        try:
            return create_study(name, labels, storage=storage, rng=rng, **words)
        except DuplicateStudy:  # somebody else has made it in the meantime
            study = load_study(name, storage=storage)
    asked = study.question
    given = changed(asked, words)
    for word in words:
        stored, new = _word(asked, word), _word(given, word)
        if word not in REVISABLE and stored != new:
            raise _another(study, word, stored, new)
    if labels is not None and list(asked.labels) != list(labels):
        raise _another(study, "arms", _few(asked.labels), _few(list(labels)))
    if isinstance(rng, int | np.integer) and rng != study.seed:
        raise _another(study, "rng (--seed)", study.seed, rng)
    revised = [word for word in REVISABLE if getattr(asked, word) != getattr(given, word)]
    if revised:
        study.revise(**{word: words[word] for word in revised})
    study.take_over()
    return study


def _word(question: Question, word: str) -> Any:
    return getattr(question, word) if word in WORDS else question.options.get(word)


def _said(words: Mapping[str, Any]) -> dict[str, Any]:
    """Return the words without margin, floor and budget where these are as if nobody gave them.

    A study has its own then, and nobody changes it by saying nothing.
    """
    usual = {"margin": 0.0, "floor": None, "budget": None}
    return {
        word: value for word, value in words.items() if word not in usual or value != usual[word]
    }


def _few(labels: Sequence[Label]) -> str:
    shown_labels = ", ".join(map(str, labels[:3]))
    return f"{len(labels):,}: {shown_labels}{', ...' if len(labels) > 3 else ''}"


def _another(study: Study, word: str, stored: object, given: object) -> InvalidParameter:
    return InvalidParameter(
        f"{word} must be what the study {study.name!r} in {study.storage} was begun with"
        f" ({stored}) but got {given}: choose another name or storage to begin anew (in the shell,"
        " --fresh, --study or --out)."
    )


class _SeededByTicket:
    """Simulated arms of one who works on a study: nobody else draws the same rewards.

    The first ticket decides the generator, as nobody else gets it. With the very first one of the
    study it is that of a search in memory.
    """

    def __init__(self, source: SeededSource, desk: StudyDesk) -> None:
        self._source = source
        self._desk = desk
        self._seeded: SeededSource | None = None

    @property
    def labels(self) -> Sequence[Label]:
        """The arms' labels."""
        return self._source.labels

    def pull(self, indices: IntArray, counts: IntArray) -> npt.ArrayLike:
        """Return rewards, as the source does."""
        if self._seeded is None:
            self._seeded = self._source.seeded(self._rng())
        return self._seeded.pull(indices, counts)

    def _rng(self) -> np.random.Generator:
        assert self._desk.first is not None, "nothing is pulled without a ticket"
        before = number_in(self._desk.first) - 1
        key = (1, before) if before else (1,)
        return np.random.default_rng(np.random.SeedSequence(self._desk.study.seed, spawn_key=key))
