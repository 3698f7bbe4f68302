"""`find`: the same answer in memory and in a storage, one call at a time or many, killed or not."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oddarms import Question, afind, create_study, find, load_study
from oddarms.algorithms import get_algorithm
from oddarms.arms import Bernoulli, Resampled
from oddarms.errors import InvalidParameter, PullFailed, RewardRejected
from oddarms.rules import Control, Mad
from oddarms.search import Result, Status
from processes import wait_until

RATES = {"a": 0.1, "b": 0.15, "c": 0.9, "d": 0.1, "e": 0.2, "f": 0.1}
WORDS: dict[str, Any] = {"k": 1.0, "delta": 0.1, "rng": 5}
PATIENCE = 120.0


def reward(label: str, place: int) -> float:
    """Return the reward of an arm's call number `place`, always the same."""
    seed = [place, *label.encode()]
    return float(np.random.default_rng(seed).random() < RATES[label])


class Numbered:
    """Arms whose s-th call has the arm's s-th reward, as far as calls are made in order."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self._lock = threading.Lock()

    def functions(self) -> dict[str, Callable[[], float]]:
        return {label: lambda label=label: self._next(label) for label in RATES}

    def coroutines(self) -> dict[str, Callable[[], Any]]:
        def of(label: str) -> Callable[[], Any]:
            async def pull() -> float:
                return self._next(label)

            return pull

        return {label: of(label) for label in RATES}

    def _next(self, label: str) -> float:
        with self._lock:
            place = self.calls[label]
            self.calls[label] += 1
        return reward(label, place)


class Placed:
    """Arms whose call has the reward of the ticket it is made for, in whatever order it ends.

    Callable source of its own: the driver asks for the task of every ticket in the order of places.
    """

    is_async = needs_thread = shares_signals = False

    def __init__(self) -> None:
        self.labels = list(RATES)
        self._asked: Counter[str] = Counter()

    def task(self, label: str) -> tuple[Callable[[Any], float], Any]:
        place = self._asked[label]
        self._asked[label] += 1
        return self._pull, (label, place)

    @staticmethod
    def _pull(ticket: tuple[str, int]) -> float:
        time.sleep(hash(ticket[1]) % 3 * 0.0003)  # some take longer than others
        return reward(*ticket)

    def stop(self) -> None:
        pass


def answer(result: Result) -> tuple[Any, ...]:
    return (
        result.status,
        result.outliers,
        result.decisions.tolist(),
        result.pulls_per_arm.tolist(),
        result.means.tolist(),
    )


@pytest.fixture(scope="module")
def expected() -> Result:
    result = find(Numbered().functions(), **WORDS)
    assert result.status is Status.DECIDED
    assert result.outliers == ["c"]
    return result


class TestTheSameAnswer:
    @pytest.mark.parametrize("stored", [False, True], ids=["in memory", "stored"])
    def test_one_call_at_a_time(self, expected: Result, tmp_path: Path, stored: bool) -> None:
        storage = tmp_path / "studies.db" if stored else None
        found = find(Numbered().functions(), jobs=1, storage=storage, **WORDS)
        assert answer(found) == answer(expected)

    @pytest.mark.parametrize("stored", [False, True], ids=["in memory", "stored"])
    def test_eight_at_a_time(self, expected: Result, tmp_path: Path, stored: bool) -> None:
        storage = tmp_path / "studies.db" if stored else None
        found = find(Placed(), jobs=8, storage=storage, **WORDS)
        assert answer(found) == answer(expected)

    @pytest.mark.parametrize("stored", [False, True], ids=["in memory", "stored"])
    def test_async(self, expected: Result, tmp_path: Path, stored: bool) -> None:
        storage = tmp_path / "studies.db" if stored else None
        found = find(Numbered().coroutines(), jobs=8, storage=storage, **WORDS)
        assert answer(found) == answer(expected)

    def test_called_again_it_is_there_at_once(self, expected: Result, tmp_path: Path) -> None:
        storage = tmp_path / "studies.db"
        find(Numbered().functions(), storage=storage, name="mine", **WORDS)
        again = Numbered()
        assert answer(find(again.functions(), storage=storage, name="mine", **WORDS)) == answer(
            expected
        )
        assert sum(again.calls.values()) == 0
        study = load_study("mine", storage=storage)
        assert study.seed == WORDS["rng"]
        assert study.verify().problems == []

    def test_history_once(self, tmp_path: Path) -> None:
        history = {"c": [1.0, 1.0, 1.0], "a": [0.0]}
        words = {**WORDS, "history": history}
        expected = find(Numbered().functions(), **words)
        for _ in range(2):
            found = find(Numbered().functions(), storage=tmp_path / "studies.db", **words)
            assert answer(found) == answer(expected)
            assert found.history == expected.history == 4

    def test_simulated_arms_in_a_storage(self, tmp_path: Path) -> None:
        """Their rewards follow from the seed, the arm and the place: two may work together."""
        arms, words = (
            Bernoulli(list(RATES.values())),
            {**WORDS, "algorithm": "rr", "batch": 10, "budget": 120},
        )
        alone = find(arms, storage=tmp_path / "alone.db", **words)
        storage = tmp_path / "together.db"
        workers = [
            threading.Thread(target=find, args=(arms,), kwargs={"storage": storage, **words})
            for _ in range(2)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert answer(load_study("find", storage=storage).result()) == answer(alone)


def coroutine(pull: Callable[[str], Any], label: str) -> Callable[[], Any]:
    async def made() -> float:
        return await pull(label)

    return made


class TestFailures:
    @staticmethod
    def failing(every: int) -> Mapping[str, Callable[[], float]]:
        calls = Counter[str]()
        lock = threading.Lock()

        def pull(label: str) -> float:
            with lock:
                calls["all"] += 1
                now = calls["all"]
            if now % every == 0:
                raise OSError("now and then")
            return RATES[label]

        return {label: lambda label=label: pull(label) for label in RATES}

    @pytest.fixture(params=[False, True], ids=["in memory", "stored"])
    def storage(self, request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
        return tmp_path / "studies.db" if request.param else None

    def test_stop(self, storage: Path | None) -> None:
        with pytest.raises(PullFailed, match=r"arm '[a-f]': OSError: now and then") as caught:
            find(self.failing(20), storage=storage, jobs=3, **WORDS)
        failure = caught.value
        assert failure.result.status is Status.FAILED
        if storage is None:
            assert failure.result.pulls + len(failure.unabsorbed) >= 19
            assert all(paid == RATES[label] for label, paid in failure.unabsorbed)
            return
        assert failure.unabsorbed == []  # the study has all
        study = load_study("find", storage=storage)
        assert study.progress().pulls >= 19
        assert study.overview().live == 0
        found = find(self.failing(10**9), storage=storage, jobs=3, **WORDS)
        assert found.outliers == ["c"]

    def test_retry(self, storage: Path | None) -> None:
        words = {**WORDS, "storage": storage, "jobs": 3}
        found = find(self.failing(20), on_error="retry", **words)
        assert found.outliers == ["c"]

    def test_what_always_fails_is_given_up(self, storage: Path | None) -> None:
        words = {**WORDS, "on_error": "retry", "jobs": 3, "retry_for": 0.3}
        said = r"OSError: now and then \(\d+ times in 0\.\d+ seconds"
        with pytest.raises(PullFailed, match=said):
            find(self.failing(1), storage=storage, **words)

    @pytest.mark.parametrize(("side", "worst"), [("upper", 1.0), ("lower", 0.0), ("both", 1.0)])
    def test_worst(self, storage: Path | None, side: Any, worst: float) -> None:
        words = {**WORDS, "on_error": "worst", "side": side, "budget": 30}
        assert find(self.failing(1), storage=storage, **words).means.tolist() == [worst] * 6


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A storage with a study that is decided, and what it found."""
    storage = tmp_path_factory.mktemp("begun") / "studies.db"
    return storage, find(Numbered().functions(), storage=storage, **WORDS)


class TestAnotherQuestion:
    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"k": 1.5}, r"The study 'find' in .*studies.db was begun with k 1.0, not 1.5. Choose"),
            ({"delta": 0.2}, "was begun with delta 0.1, not 0.2"),
            ({"side": "both"}, "was begun with side 'upper', not 'both'"),
            ({"algorithm": "rr"}, "was begun with algorithm 'spade', not 'rr'"),
            ({"bounds": (0, 2), "margin": 0.05}, "was begun with bounds"),
            ({"max_step": 7}, "was begun with options"),
            ({"rng": 6}, r"was begun with rng \(--seed\) 5, not 6"),
        ],
        ids=lambda value: str(value)[:20],
    )
    def test_is_refused(
        self, begun: tuple[Path, Result], change: dict[str, Any], sentence: str
    ) -> None:
        storage, before = begun
        again = Numbered()
        with pytest.raises(InvalidParameter, match=sentence):
            find(again.functions(), storage=storage, **{**WORDS, **change})
        assert sum(again.calls.values()) == 0
        assert load_study("find", storage=storage).result().to_dict() == before.to_dict()

    def test_other_arms_are_refused(self, tmp_path: Path) -> None:
        storage = tmp_path / "studies.db"
        find(Numbered().functions(), storage=storage, **WORDS)
        arms = Numbered().functions()
        with pytest.raises(InvalidParameter, match="was begun with other arms"):
            find({**arms, "g": arms["a"]}, storage=storage, **WORDS)
        with pytest.raises(InvalidParameter, match="was begun with other arms"):
            find(dict(reversed(arms.items())), storage=storage, **WORDS)

    def test_a_larger_budget_continues(self, expected: Result, tmp_path: Path) -> None:
        storage, arms = tmp_path / "studies.db", Numbered()
        small = find(arms.functions(), storage=storage, budget=20, **WORDS)
        assert (small.status, small.pulls <= 20) == (Status.BUDGET, True)
        found = find(arms.functions(), storage=storage, budget=100_000, **WORDS)
        assert answer(found) == answer(expected)
        with pytest.raises(InvalidParameter, match="budget can only grow, from 100,000"):
            find(arms.functions(), storage=storage, budget=30, **WORDS)


KILLED = """
import os, sys, threading, time
from pathlib import Path
import oddarms

one_at_a_time = threading.Lock()
ledger = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
rates = {"a": 0.1, "b": 0.15, "c": 0.9, "d": 0.1, "e": 0.2, "f": 0.1}

def pull(label):
    with one_at_a_time:
        if os.fstat(ledger).st_size >= int(sys.argv[3]):
            Path(sys.argv[2]).with_name("still").touch()
            time.sleep(600)  # until it is killed
        os.write(ledger, f"{label}\\n".encode())
    return rates[label]

arms = {label: (lambda label=label: pull(label)) for label in rates}
result = oddarms.find(arms, k=1.0, delta=0.1, rng=5, storage=sys.argv[1], jobs=int(sys.argv[4]))
print(result.outliers, result.pulls_per_arm.tolist())
"""


class TestKilled:
    """With -9, which nothing survives but what is stored."""

    @staticmethod
    def start(storage: Path, ledger: Path, most: int, jobs: int) -> subprocess.Popen[str]:
        """Start a search that stands still once its ledger has so many bytes."""
        arguments = [str(storage), str(ledger), str(most), str(jobs)]
        return subprocess.Popen(
            [sys.executable, "-c", KILLED, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def kill_at_work(self, storage: Path, ledger: Path, jobs: int, calls: int) -> None:
        """Kill a process at the call after so many more."""
        most = (ledger.stat().st_size if ledger.exists() else 0) + 2 * calls
        still = ledger.with_name("still")
        with self.start(storage, ledger, most, jobs) as process:
            wait_until(lambda: still.exists() or process.poll() is not None)
            process.kill()
            process.communicate()
        assert process.returncode == -signal.SIGKILL, "it ended before it was killed"
        assert ledger.stat().st_size == most
        still.unlink()

    @pytest.mark.parametrize(
        ("jobs", "times"),
        [(4, 1), *(pytest.param(jobs, 10, marks=pytest.mark.long) for jobs in (1, 8))],
    )
    def test_it_goes_on_when_called_again(self, tmp_path: Path, jobs: int, times: int) -> None:
        storage, ledger = tmp_path / "studies.db", tmp_path / "calls"
        stored = 0
        for _ in range(times):
            self.kill_at_work(storage, ledger, jobs, calls=6)
            study = load_study("find", storage=storage)
            now = study.progress().pulls
            assert stored <= now <= len(ledger.read_text().split())
            assert study.done is False
            stored = now
        assert load_study("find", storage=storage).overview().live > 0
        started = time.monotonic()
        with self.start(storage, ledger, 10**9, jobs) as process:
            said, wrong = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, wrong
        assert said.startswith("['c'] [")
        assert time.monotonic() - started < PATIENCE, "nobody waits an hour for a lease"
        study = load_study("find", storage=storage)
        assert study.status is Status.DECIDED
        trials = list(study.trials())
        calls = len(ledger.read_text().split())
        # queued and under way when killed: lost; all others are stored
        assert len(trials) <= calls
        places = [(trial.arm, trial.place) for trial in trials]
        assert len(places) == len(set(places))
        assert study.verify().problems == []
        if jobs == 1:  # rewards do not depend on the call, so the answer is that without a kill
            arms = {label: lambda label=label: RATES[label] for label in RATES}
            calm = find(arms, **WORDS)
            assert said.strip() == f"{calm.outliers} {calm.pulls_per_arm.tolist()}"

    def test_tickets_of_others_are_left_alone(self, tmp_path: Path) -> None:
        """Those of processes that live, of other machines, and of people with names."""
        study = create_study("find", list(RATES), storage=tmp_path / "studies.db", **WORDS)
        mine = study.worker().name
        here = mine.partition(" on ")[2]
        names = ["ann", mine, f"process {gone_pid()} on {here}.elsewhere"]
        for name in names:
            study.ask(1, name)
        study.ask(2, f"process {gone_pid()} on {here}")
        assert study.take_over() == 2
        assert study.take_over() == 0
        assert study.overview().live == len(names)


def gone_pid() -> int:
    """Return the number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


CONSTANT: dict[str, Callable[[], float]] = {
    label: lambda rate=rate: rate for label, rate in RATES.items()
}


class RateLimited(Exception):
    def __init__(self, retry_after: object) -> None:
        super().__init__("slow down")
        self.retry_after = retry_after


class TestPauses:
    """Between tries of a pull that fails."""

    @pytest.fixture
    def pauses(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        """What was slept after each failure; the clock moves by it."""
        slept: list[float] = []
        clock = time.monotonic

        def sleep(seconds: float) -> None:
            slept[-1] += seconds

        monkeypatch.setattr("time.sleep", sleep)
        monkeypatch.setattr("time.monotonic", lambda: clock() + sum(slept))
        return slept

    @staticmethod
    def failing(
        times: int, error: Exception, pauses: list[float]
    ) -> dict[str, Callable[[], float]]:
        left = [times]

        def pull() -> float:
            if left[0]:
                left[0] -= 1
                pauses.append(0.0)
                raise error
            return RATES["c"]

        return {**CONSTANT, "c": pull}

    def test_grow(self, pauses: list[float]) -> None:
        find(self.failing(12, OSError("503"), pauses), on_error="retry", **WORDS)
        assert len(pauses) == 12
        for number, pause in enumerate(pauses):
            longest = min(0.1 * 2**number, 30.0)
            assert longest / 2 - 0.05 <= pause <= longest

    def test_end_after_retry_for(self, pauses: list[float]) -> None:
        with pytest.raises(PullFailed, match=r"arm 'c': OSError: 503 \(\d+ times in 2 minutes\)"):
            find(
                self.failing(10**6, OSError("503"), pauses),
                on_error="retry",
                retry_for=120,
                **WORDS,
            )
        assert 119.0 < sum(pauses) < 121.0

    @pytest.mark.parametrize(
        ("on_error", "after"), [("stop", 7), ("retry", 7.0), ("worst", timedelta(seconds=7))]
    )
    def test_are_those_that_the_error_asks_for(
        self, pauses: list[float], on_error: Any, after: object
    ) -> None:
        found = find(self.failing(3, RateLimited(after), pauses), on_error=on_error, **WORDS)
        assert found.outliers == ["c"]
        np.testing.assert_allclose(pauses, [7.0] * 3, atol=0.5)

    @pytest.mark.parametrize("jobs", [1, 2])
    def test_a_pause_ends_when_the_search_is_to_end(self, jobs: int) -> None:
        failed = threading.Event()

        def wrong() -> float:
            failed.set()
            raise RateLimited(10**6)

        found = find({**CONSTANT, "c": wrong}, until=failed.is_set, jobs=jobs, **WORDS)
        assert found.status is Status.RUNNING


class TestTimeout:
    def test_a_coroutine_that_hangs(self) -> None:
        calls = Counter[str]()

        async def pull() -> float:
            calls["all"] += 1
            if calls["all"] == 3:
                await asyncio.Event().wait()
            return RATES["c"]

        arms = {**{label: coroutine(constant, label) for label in RATES}, "c": pull}
        with pytest.raises(PullFailed, match=r"arm 'c' took longer than 0\.1 seconds") as caught:
            find(arms, timeout=0.1, **WORDS)
        assert caught.value.late
        calls.clear()
        assert find(arms, timeout=0.1, on_error="retry", **WORDS).outliers == ["c"]

    def test_a_function_that_hangs(self) -> None:
        calls, release = Counter[str](), threading.Event()

        def pull() -> float:
            calls["all"] += 1
            if calls["all"] == 3:
                release.wait(PATIENCE)
            return RATES["c"]

        try:
            found = find({**CONSTANT, "c": pull}, timeout=0.2, on_error="retry", **WORDS)
        finally:
            release.set()
        assert found.outliers == ["c"]

    def test_late_pulls_count_as_the_worst(self) -> None:
        async def never() -> float:
            await asyncio.Event().wait()
            raise AssertionError

        arms = {**{label: coroutine(constant, label) for label in RATES}, "c": never}
        words: dict[str, Any] = {**WORDS, "algorithm": "rr", "budget": 12}
        found = find(arms, timeout=timedelta(milliseconds=50), on_error="worst", **words)
        assert found.means.tolist()[2] == 1.0

    @pytest.mark.parametrize("timeout", [0, -1, "soon", float("nan"), True])
    def test_is_a_duration(self, timeout: Any) -> None:
        with pytest.raises(InvalidParameter, match="timeout must be"):
            find(CONSTANT, timeout=timeout, **WORDS)


async def constant(label: str) -> float:
    return RATES[label]


class TestWithinAnEventLoop:
    def test_coroutines_run_on_that_loop(self) -> None:
        async def notebook() -> Result:
            loop = asyncio.get_running_loop()

            async def pull(label: str) -> float:
                assert asyncio.get_running_loop() is loop
                await asyncio.sleep(0)
                return RATES[label]

            return await afind({label: coroutine(pull, label) for label in RATES}, **WORDS)

        assert answer(asyncio.run(notebook())) == answer(find(CONSTANT, **WORDS))

    def test_cancelling_ends_it(self) -> None:
        cleaned = []

        async def hang() -> float:
            try:
                await asyncio.Event().wait()
            finally:
                cleaned.append(True)
            raise AssertionError

        async def service() -> None:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(afind([hang, hang, hang], **WORDS), 0.2)

        asyncio.run(service())  # which waits for the thread of the search
        assert cleaned


def test_until_ends_it_early() -> None:
    calls = Counter[str]()

    def pull(label: str) -> float:
        calls[label] += 1
        return RATES[label]

    arms = {label: lambda label=label: pull(label) for label in RATES}
    found = find(arms, until=lambda: sum(calls.values()) >= 13, **WORDS)
    assert (sum(calls.values()), found.status) == (13, Status.RUNNING)
    assert found.pulls + found.unused == 13


class TestWhatIsAsked:
    def test_a_question_or_its_words(self) -> None:
        question = Question(list(RATES), k=1.0, delta=0.1)
        assert answer(find(CONSTANT, question, rng=5)) == answer(find(CONSTANT, **WORDS))
        assert find(CONSTANT, Question(6, k=1.0, delta=0.1), rng=5).outliers == ["c"]
        with pytest.raises(InvalidParameter, match="not both: got k as well"):
            find(CONSTANT, question, k=2)
        with pytest.raises(InvalidParameter, match="question is about 5 arms but there are 6"):
            find(CONSTANT, Question(5))
        with pytest.raises(InvalidParameter, match="question is about other arms"):
            find(CONSTANT, Question("uvwxyz"))

    def test_rules_may_be_objects(self) -> None:
        found = find(CONSTANT, rule=Mad(k=3), rng=5)
        assert (found.question.rule, found.question.k, found.outliers) == ("mad", 3.0, ["c"])
        found = find(CONSTANT, rule=Control("a", 0.3), rng=5)
        assert (found.question.control, found.question.margin) == ("a", 0.3)
        assert found.outliers == ["c"]

    def test_equal_arms_end(self) -> None:
        found = find([lambda: 0.5] * 30, rng=1)
        assert found.nothing_stands_out
        assert found.question.margin == 0.05

    def test_clip_and_above(self) -> None:
        seconds = {"a": 0.2, "b": 0.3, "c": 30.0, "d": 0.2}
        arms = {label: lambda value=value: value for label, value in seconds.items()}
        found = find(arms, clip=(0, 10), k=1, rng=1)
        assert (found.outliers, found.question.bounds) == (["c"], (0.0, 10.0))
        assert found.means.max() == 10.0
        assert find(arms, above=0.5, k=1, rng=1).outliers == ["c"]
        with pytest.raises(PullFailed, match="give bounds that hold every reward, or `clip`"):
            find(arms, k=1, rng=1)
        with pytest.raises(InvalidParameter, match="clip and above work with functions only"):
            find(Bernoulli([0.1, 0.9]), above=0.5)

    def test_a_finite_population(self, tmp_path: Path) -> None:
        rows = {label: [float(rate > 0.5)] * 20 for label, rate in RATES.items()}
        arms = Resampled(rows, replace=False)
        found = find(arms, k=1, rng=1)
        assert (found.algorithm, found.outliers) == ("census", ["c"])
        assert found.pulls_per_arm.max() <= 20
        with pytest.raises(InvalidParameter, match="leave out storage"):
            find(arms, k=1, rng=1, storage=tmp_path / "studies.db")


def recorded() -> dict[str, Any]:
    import pandas
    import polars

    columns = {"host": ["a", "b"], "error": [0.0, 1.0]}
    return {
        "a file": "data.csv",
        "a path": Path("data.csv"),
        "a pandas frame": pandas.DataFrame(columns),
        "a pandas series": pandas.Series([0.0, 1.0], index=["a", "b"]),
        "a polars frame": polars.DataFrame(columns),
        "an array": np.zeros((2, 3)),
        "lists by label": {"a": [0.0, 1.0], "b": [1.0, 1.0]},
        "numbers": [0.0, 1.0, 0.5],
    }


@pytest.mark.parametrize("kind", recorded())
def test_recorded_data_are_for_analyze(kind: str) -> None:
    with pytest.raises(InvalidParameter, match=r"recorded .*call oddarms\.analyze"):
        find(recorded()[kind])


@pytest.mark.parametrize("arms", [None, 3, object(), {1, 2}])
def test_what_cannot_be_sampled(arms: Any) -> None:
    with pytest.raises(InvalidParameter, match="find samples live: it takes functions by label"):
        find(arms)


def test_no_reward() -> None:
    with pytest.raises(PullFailed, match="arm 'c': reward must be a number but got None") as error:
        find({**CONSTANT, "c": lambda: None})
    assert isinstance(error.value.__cause__, RewardRejected)


@pytest.mark.parametrize("kind", ["functions", "threads", "coroutines", "simulated"])
def test_few_frames_from_find_to_the_algorithm(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A newcomer who reads a traceback meets at most nine functions."""
    depths: list[int] = []
    algorithm = get_algorithm("rr")
    absorb = algorithm.absorb

    def count(*arguments: Any) -> None:
        frame, names = sys._getframe(), []
        while frame is not None and frame.f_code is not find.__code__:
            names.append(frame.f_code.co_name)
            frame = frame.f_back
        depths.append(len(names) + 1)
        absorb(*arguments)

    monkeypatch.setattr(algorithm, "absorb", count)
    arms: Any = {
        "coroutines": {label: coroutine(constant, label) for label in RATES},
        "simulated": Bernoulli(list(RATES.values())),
    }.get(kind, CONSTANT)
    find(arms, algorithm="rr", budget=30, jobs=2 if kind == "threads" else None, rng=1)
    assert depths
    assert max(depths) <= 9
