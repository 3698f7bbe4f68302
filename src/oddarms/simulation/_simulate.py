"""`simulate`: many whole runs on known means, for research."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from oddarms.algorithms import Decision, Decisions, get_algorithm
from oddarms.arms import SimulatedArms, check_endless, check_not_census
from oddarms.errors import InvalidParameter, MissingExtra
from oddarms.executors import unordered
from oddarms.problem import BoolArray, FloatArray, IntArray, Question, check_whole
from oddarms.randomness import Rng, generator_of
from oddarms.rules import gaps_to_thresholds, true_outliers
from oddarms.search import Search
from oddarms.simulation._families import get_family
from oddarms.simulation._task import NO_NUMBA, Run, Task, why_not_compiled
from oddarms.text import counted


@dataclass(frozen=True, eq=False, repr=False)
class Simulation:
    """Many runs of one algorithm on one instance; the first axis of every array is the run.

    Attributes
    ----------
    means, algorithm
        The true means and the algorithm's name.
    pulls
        Pulls used in all.
    correct
        True where no decision is wrong; arms left undecided by a budget do not count as wrong,
        nor do those within ``indifference`` of a threshold.
    complete
        True where every arm was decided.
    decisions
        (runs, n): 0 undecided, 1 normal, 2 outlier above, 3 outlier below.
    pulls_per_arm
        (runs, n): pulls of each arm.
    rounds, threshold_pulls, threshold, threshold_radius
        Rounds, pulls made for the threshold alone, and the last estimate and half width of the
        interval of the (first) threshold.
    """

    means: FloatArray
    algorithm: str
    pulls: IntArray
    correct: BoolArray
    complete: BoolArray
    decisions: Decisions
    pulls_per_arm: IntArray
    rounds: IntArray
    threshold_pulls: IntArray
    threshold: FloatArray
    threshold_radius: FloatArray

    @property
    def outliers(self) -> list[list[int]]:
        """The answer of each run, as indices of arms."""
        return [np.flatnonzero(row >= Decision.HIGH).tolist() for row in self.decisions]

    @property
    def error_rate(self) -> float:
        """The share of runs with a wrong decision."""
        return float(1.0 - self.correct.mean())

    def __repr__(self) -> str:
        return (
            f"Simulation: {self.algorithm}, {counted(self.pulls.size, 'run')} on"
            f" {self.means.size} arms, {self.pulls.mean():,.0f} pulls on average,"
            f" {int((~self.correct).sum())} wrong, {int((~self.complete).sum())} incomplete"
        )


def simulate(
    instance: npt.ArrayLike | SimulatedArms,
    question: Question | None = None,
    *,
    runs: int = 1,
    rng: Rng = None,
    family: str = "bernoulli",
    jobs: int = 1,
    compiled: bool | None = None,
    **words: Any,
) -> Simulation:
    """Run an algorithm many times on simulated arms with known means.

    ADE, RR, WRR and SPADE (with up to 512 arms and without ``max_step``) run in compiled code if
    numba is installed (``pip install 'oddarms[simulate]'``); otherwise, and for every other
    algorithm, a `Search` is driven. Compiling takes up to a minute, once: it is kept on disk.
    The results are the same either way but for rounding: compiled SPADE adds up in another order,
    which may change last digits and, very rarely, a decision. They are the same whatever the
    number of jobs, and run r depends on the r-th child of ``rng`` alone. It is that of ``find``
    with this child, with one exception: ADE, RR and WRR on Bernoulli arms, one pull a turn, on one
    side. Their rewards are drawn 53 at a time, compiled or not, so the runs have the same law as
    those of ``find`` but other rewards.

    Parameters
    ----------
    instance
        True means in [0, 1], or simulated arms without a generator of their own.
    question
        What is asked; or nothing, and its words as keywords.
    runs
        How many independent runs.
    rng
        Decides everything.
    family
        Of the rewards, where the instance is means: "bernoulli", "beta" (option ``concentration``)
        or "uniform" (option ``width``).
    jobs
        Runs at a time: in threads where they are compiled, otherwise in processes, which need
        ``pip install 'oddarms[parallel]'``.
    compiled
        True to insist on compiled code, False to avoid it; by default, where possible.
    **words
        Words of the question (`k`, `delta`, `algorithm`, `bounds`, `side`, `budget`), of the
        family, and options of the algorithm. Without a `margin` it is 0, as in the ADE paper.

    Examples
    --------
    >>> simulate([0.1, 0.2, 0.1, 0.2, 1], k=1, delta=0.1, algorithm="rr", runs=3, rng=5).outliers
    [[4], [4], [4]]
    """
    runs = check_whole("runs", runs, least=1)
    jobs = check_whole("jobs", jobs, least=1)
    arms = (
        instance
        if isinstance(instance, SimulatedArms)
        else get_family(family).make(instance, words)
    )
    if check_endless(arms).has_generator:
        raise InvalidParameter(
            "instance must have no generator of its own but got an rng: that of the run decides."
        )
    if question is None:
        words = {"margin": 0.0, **words}
    asked = Question.of(arms.means.size if question is None else question, words)
    check_not_census(arms, asked)
    if asked.n != arms.means.size:
        raise InvalidParameter(
            f"question must be about the instance's {arms.means.size} arms but is about {asked.n}."
        )
    Search(asked)  # says so now, rather than in every run, if something is wrong
    task = Task(arms, asked, _use_compiled(asked, arms, compiled))
    children = generator_of(rng).spawn(runs)
    return _collect(task, _run_all(task, children, jobs))


def _use_compiled(question: Question, arms: SimulatedArms, compiled: bool | None) -> bool:
    obstacle = why_not_compiled(question, arms)
    if compiled and obstacle == NO_NUMBA:
        raise MissingExtra.of("simulate", "compiled=True")
    if compiled and obstacle is not None:
        raise InvalidParameter(
            f"compiled must be left out for {question.algorithm_name!r} on {arms!r}, where"
            f" {obstacle}, but got True: a run step by step is made without it."
        )
    return obstacle is None and compiled is not False


def _run_all(task: Task, children: Sequence[np.random.Generator], jobs: int) -> list[Run]:
    """Return the runs in the order of their generators."""
    if jobs == 1:
        return [task(child) for child in children]
    name = task.question.algorithm
    if not task.compiled and isinstance(name, str):  # of which a process may not have heard
        task = replace(task, question=task.question.but(algorithm=get_algorithm(name)))
    numbered = enumerate(children)
    found = dict(unordered(partial(_numbered, task), numbered, jobs=jobs, threads=task.compiled))
    return [found[number] for number in range(len(children))]


def _numbered(task: Task, numbered: tuple[int, np.random.Generator]) -> tuple[int, Run]:
    number, rng = numbered
    return number, task(rng)


def _collect(task: Task, found: list[Run]) -> Simulation:
    columns = [np.array(column) for column in zip(*found, strict=True)]
    decisions, pulls_per_arm, rounds, threshold_pulls, threshold_, radius = columns
    wrong = (decisions != Decision.UNDECIDED) & (decisions != _true_decisions(task))
    wrong &= ~_indifferent(task)
    return Simulation(
        means=task.arms.means,
        algorithm=task.question.algorithm_name,
        pulls=pulls_per_arm.sum(axis=1),
        correct=~wrong.any(axis=1),
        complete=(decisions != Decision.UNDECIDED).all(axis=1),
        decisions=decisions,
        pulls_per_arm=pulls_per_arm,
        rounds=rounds,
        threshold_pulls=threshold_pulls,
        threshold=threshold_,
        threshold_radius=radius,
    )


def _indifferent(task: Task) -> BoolArray:
    """Return the arms that may be called either way, by SPADE's option."""
    near: BoolArray = gaps_to_thresholds(task.question, task.arms.means) < (
        task.question.indifference
    )
    return near


def _true_decisions(task: Task) -> Decisions:
    truth = np.full(task.arms.means.size, Decision.NORMAL, dtype=np.int8)
    beyond = true_outliers(task.question, task.arms.means)
    for side, decision in (("lower", Decision.LOW), ("upper", Decision.HIGH)):
        if side in beyond:
            truth[beyond[side]] = decision
    return truth
