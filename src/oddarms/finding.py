"""`find` and `afind`: sample arms until the answer is known, in memory or in a study."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np

from oddarms.arms import (
    Callables,
    CalledSource,
    Resampled,
    SeededSource,
    Source,
    check_not_census,
    transformed,
)
from oddarms.errors import DuplicateStudy, InvalidParameter, UnknownStudy
from oddarms.executors import CoroutineExecutor
from oddarms.problem import FloatArray, Label, Question
from oddarms.randomness import Rng, generator_of
from oddarms.search import (
    PREFETCH,
    RETRY_FOR,
    OnError,
    Policy,
    ProgressCallback,
    Result,
    Search,
    Seconds,
    Ticket,
    run,
    seconds_of,
)
from oddarms.studies import Study, Worker, create_study, load_study, retried
from oddarms.tables import Recorded, Transform

Functions = Mapping[Any, Callable[[], Any]] | Sequence[Callable[[], Any]]
Arms = Source | CalledSource | Functions
STUDY_NAME = "find"


def find(
    arms: Arms,
    question: Question | None = None,
    *,
    rng: Rng = None,
    history: Recorded | None = None,
    clip: tuple[float, float] | None = None,
    above: float | None = None,
    jobs: int | None = None,
    executor: Executor | None = None,
    on_error: OnError = "stop",
    timeout: Seconds | None = None,
    retry_for: Seconds = RETRY_FOR,
    prefetch: float = PREFETCH,
    until: Callable[[], bool] | None = None,
    storage: str | Path | None = None,
    name: str = STUDY_NAME,
    progress: ProgressCallback | bool | None = None,
    **words: Any,
) -> Result:
    """Sample arms until it is known which are abnormal.

    By default an arm is abnormal if its mean lies at or above mean + 2 standard deviations of all
    arms' means. The whole answer is right with probability at least 1 - delta, whatever the
    distributions of the rewards, if they are independent and within the bounds.

    Parameters
    ----------
    arms
        A mapping from label to a function that returns one reward, or a sequence of such
        functions; coroutine functions are awaited, many at a time. Or an object of `oddarms.arms`,
        or one of your own with `labels` and `pull(indices, counts)`. For rewards that are recorded
        already use `oddarms.analyze`.
    question, **words
        What is asked: a `Question` about these arms, or its words as keywords, such as ``k=3``,
        ``delta=0.01``, ``margin=0.1``, ``rule="mad"``, ``side="both"``, ``budget=5000`` or
        ``algorithm="ade"``; see `Question`. Other words are options of the algorithm, such as
        ``indifference=0.01``.
    rng
        Decides the algorithm's choices and the rewards of simulated arms: a seed, a generator, or
        whatever `numpy.random.default_rng` takes.
    history
        Rewards from before: by label, a data frame with the columns ``arm`` and ``reward``, or
        the result of `oddarms.read_rewards`. They are used before new samples are asked for, and
        cost no budget. How many an arm has must not have been decided by looking at them.
    clip, above
        For rewards without known bounds, such as seconds. ``clip=(0, 10)`` counts a reward outside
        as the nearer end, and asks about the means of clipped rewards. ``above=0.5`` counts a
        reward as 1 if it is above and as 0 otherwise, and asks about the share of samples above.
    jobs
        Calls of functions at a time, in threads: 1 by default. Of coroutine functions 100 run at a
        time, without threads.
    executor
        Makes the calls instead: any executor of concurrent.futures, such as
        ``dask.distributed.Client().get_executor()`` or `oddarms.executors.RayExecutor`. `jobs` is
        then how many calls it is given at a time: by default as many as it has workers, if it
        says so, else one per core.
    on_error
        What it means if a function raises, or returns no reward. "stop": finish what is under way
        and raise `PullFailed`. "retry": try again, with growing pauses, for up to `retry_for`; this
        keeps the guarantee only if failing has nothing to do with the reward. "worst": count it as
        the most abnormal reward. An exception with an attribute `retry_after` (seconds) is always
        retried, after that time. A failing batch ends the search.
    timeout
        A call that takes longer has failed: seconds or a timedelta. A thread cannot be stopped, so
        a call in one goes on; its result is ignored.
    retry_for
        How long to retry a pull that fails (with ``on_error="retry"``), or a storage that is
        unavailable; seconds or a timedelta. Results are kept meanwhile.
    prefetch
        So that workers are never idle, pulls of later steps are made while a step waits for its
        last ones: at most this share of the pulls so far. 0 turns it off.
    until
        A function that is asked before each sample. Once it returns True, no more are made, and
        what is known is returned: for a limit of time, or a button.
    storage, name
        Where to keep every result, and under which name: a file,
        ``postgresql://USER@HOST/NAME`` or a server's address, as for `oddarms.create_study`. The
        same call continues a search that was interrupted; one that a budget ended needs a larger
        budget. Without a storage nothing is written.
    progress
        True for a line on stderr, in a notebook a bar below the cell; or a function that is called
        with a `Progress` now and then.

    Returns
    -------
    Result
        Outliers, normal and undecided arms by label, with means, intervals and pulls.

    Raises
    ------
    InvalidParameter, UnknownAlgorithm, UnknownOption
        Before the first pull.
    SearchError, SearchInterrupted
        If a pull fails or a reward is invalid, and at Ctrl-C, SIGTERM or SIGHUP. `result` of
        either has everything known, `unabsorbed` the rewards of the unfinished step. Calls in
        threads are waited for; a second Ctrl-C abandons them.
    StorageFailed
        If a storage cannot be used, or was unavailable for longer than `retry_for`; `untold` has
        the results that it does not have, for `Study.tell_many`.
    WorkerLost
        If a process of the executor dies; with `result`, too.

    Examples
    --------
    >>> import oddarms
    >>> servers = oddarms.arms.Bernoulli([0.02, 0.03, 0.01, 0.02, 0.9], labels="abcde")
    >>> oddarms.find(servers, k=1.5, algorithm="rr", batch=100, rng=1).outliers
    ['e']
    """
    policy = Policy(
        jobs=jobs,
        executor=executor,
        on_error=on_error,
        timeout=timeout,
        retry_for=retry_for,
        prefetch=prefetch,
        until=until,
    )
    transform = Transform.of(clip, above)
    source = source_of(arms, transform)
    if question is None:
        words = {**_usual_words(source, transform), **words}
    asked = question_of(source.labels, question, words)
    check_not_census(source, asked)
    if storage is None:
        algorithm_rng, reward_rng = generator_of(rng).spawn(2)
        search = Search(asked, rng=algorithm_rng)
        if history is not None:
            search.add_history(history)
        if isinstance(source, SeededSource):
            source = source.seeded(reward_rng)
        return run(search, source, policy, progress)
    if isinstance(source, Resampled) and not source.replace:
        raise InvalidParameter(
            "A study cannot draw from Resampled(replace=False), which draws each row once: leave"
            " out storage."
        )
    seconds = seconds_of("retry_for", retry_for)
    study = retried(lambda: open_study(asked, storage=storage, name=name, rng=rng), seconds)
    if history is not None:
        rows = history
        retried(lambda: study.add_history(rows, key="find"), seconds)
    if isinstance(source, SeededSource):
        source = _SeededByTicket(source, study.seed)
    return run(Worker(study, retry_for=retry_for), source, policy, progress)


async def afind(arms: Arms, question: Question | None = None, **options: Any) -> Result:
    """Do what `find` does, from an event loop that runs already: in a notebook, in a service.

    Coroutine functions run on that loop, others in a thread. Cancelling it cancels the coroutines
    and ends the search.

    Parameters
    ----------
    arms, question, **options
        As for `find`.

    Examples
    --------
    >>> import asyncio
    >>> from functools import partial
    >>> async def ping(mean):
    ...     return mean
    >>> arms = {name: partial(ping, mean) for name, mean in [("a", 0.0), ("b", 0.1), ("c", 1.0)]}
    >>> asyncio.run(afind(arms, k=1)).outliers
    ['c']
    """
    import asyncio

    cancelled, until = threading.Event(), options.pop("until", None)
    executor = CoroutineExecutor(asyncio.get_running_loop())
    if getattr(source_of(arms), "is_async", False):
        options.setdefault("executor", executor)
    try:
        return await asyncio.to_thread(
            find,
            arms,
            question,
            until=lambda: cancelled.is_set() or (until is not None and until()),
            **options,
        )
    finally:
        cancelled.set()
        executor.shutdown(wait=False)


def source_of(arms: Arms | Any, transform: Transform | None = None) -> Source | CalledSource:
    """Return something that can be pulled as a source."""
    if isinstance(arms, Source | CalledSource):
        if transform is None:
            return arms
        raise InvalidParameter(
            "clip and above work with functions only: let `pull` of the arms return what a reward"
            " counts as."
        )
    if isinstance(arms, str) or not isinstance(arms, Mapping | Sequence):
        raise InvalidParameter(
            "find samples live: it takes functions by label, a list of functions, or an object"
            f" with labels and pull(indices, counts), but got {type(arms).__name__}. For data that"
            " are recorded already, call oddarms.analyze(data, arm=..., reward=...)."
        )
    source = Callables(arms)
    if transform is None:
        return source
    return source.changed(lambda function: transformed(function, transform))


def _usual_words(source: Source | CalledSource, transform: Transform | None) -> dict[str, Any]:
    words: dict[str, Any] = {}
    if transform is not None:
        words["bounds"] = transform.bounds
    if isinstance(source, Resampled) and not source.replace:
        words |= {"algorithm": "census", "rows": source.sizes.tolist()}
    return words


def question_of(
    labels: Sequence[Label], question: Question | None, words: Mapping[str, Any]
) -> Question:
    """Return the question about these labels that a question, or words, ask."""
    if question is None:
        return Question.of(labels, words)
    if words:
        raise InvalidParameter(
            f"Give either a question or its words, not both: got {', '.join(words)} as well."
        )
    if question.n != len(labels):
        raise InvalidParameter(
            f"question is about {question.n:,} arms but there are {len(labels):,}."
        )
    if list(question.labels) == list(labels):
        return question
    if isinstance(question.labels, range):
        return question.relabelled(labels)
    raise InvalidParameter("question is about other arms than those given.")


def open_study(
    question: Question, *, storage: str | Path, name: str = STUDY_NAME, rng: Rng = None
) -> Study:
    """Return the study of that name, if it asks the same question, or a new one.

    A larger budget is raised. Tickets of processes of this machine that are gone are given back.
    """
    try:
        study = load_study(name, storage=storage)
    except UnknownStudy:
        try:
            return create_study(name, question, storage=storage, rng=rng)
        except DuplicateStudy:  # another process was faster
            study = load_study(name, storage=storage)
    _check_same(study, question, rng)
    if question.budget is not None and question.budget != study.question.budget:
        study.raise_budget(question.budget)
    study.take_over()
    return study


def _check_same(study: Study, question: Question, rng: Rng) -> None:
    stored, wanted = study.question.to_dict(), question.to_dict()
    differing = [
        (word, stored[word], wanted[word])
        for word in stored
        if word != "budget" and stored[word] != wanted[word]
    ]
    if isinstance(rng, int | np.integer) and rng != study.seed:
        differing.append(("rng (--seed)", study.seed, int(rng)))
    if differing:
        word, before, now = differing[0]
        said = "other arms" if word in ("labels", "n") else f"{word} {before!r}, not {now!r}"
        raise InvalidParameter(
            f"The study {study.name!r} in {study.storage} was begun with {said}. Choose another"
            " name or storage for a new search (on the command line, --fresh or another --out)."
        )


class _SeededByTicket:
    """Simulated arms whose rewards follow from the seed, the arm and the place.

    So a study of simulated arms has the same rewards with any number of workers.
    """

    def __init__(self, source: SeededSource, seed: int) -> None:
        self.labels = source.labels
        self._source = source
        self._seed = seed

    def pull(self, indices: Any, counts: Any) -> FloatArray:
        raise NotImplementedError

    def pull_tickets(self, tickets: Sequence[Ticket]) -> list[float]:
        """Return the reward of each ticket."""
        one = np.ones(1, dtype=np.int64)
        rewards = []
        for ticket in tickets:
            key = (1, ticket.index, ticket.place)
            rng = np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=key))
            drawn = self._source.seeded(rng).pull(np.array([ticket.index]), one)
            rewards.append(float(np.asarray(drawn)[0]))
        return rewards
