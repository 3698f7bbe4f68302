"""`find`: the same answer in memory and in a storage, one call at a time or many, killed or not."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oddarms import create_study, find, load_study
from oddarms.errors import InvalidParameter, PullFailed, SearchError, SearchInterrupted
from oddarms.search import Result, Status
from oddarms.studies import verify
from oddarms.studies._workers import this_process
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

    is_async = False

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
    @pytest.mark.parametrize("ahead", [0.0, 0.2])
    def test_one_call_at_a_time(
        self, expected: Result, tmp_path: Path, stored: bool, ahead: float
    ) -> None:
        storage = tmp_path / "studies.db" if stored else None
        found = find(Numbered().functions(), jobs=1, ahead=ahead, storage=storage, **WORDS)
        assert answer(found) == answer(expected)

    @pytest.mark.parametrize("stored", [False, True], ids=["in memory", "stored"])
    def test_eight_at_a_time(self, expected: Result, tmp_path: Path, stored: bool) -> None:
        storage = tmp_path / "studies.db" if stored else None
        found = find(Placed(), jobs=8, storage=storage, **WORDS)
        assert answer(found) == answer(expected)

    @pytest.mark.parametrize("stored", [False, True], ids=["in memory", "stored"])
    @pytest.mark.parametrize("jobs", [None, 1, 8])
    def test_async(self, expected: Result, tmp_path: Path, stored: bool, jobs: int | None) -> None:
        storage = tmp_path / "studies.db" if stored else None
        found = find(Numbered().coroutines(), jobs=jobs, storage=storage, **WORDS)
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
        assert verify(study).problems == []

    def test_imported_once(self, tmp_path: Path) -> None:
        history = {"c": [1.0, 1.0, 1.0], "a": [0.0]}
        words = {**WORDS, "imported": history}
        expected = find(Numbered().functions(), **words)
        for _ in range(2):
            found = find(Numbered().functions(), storage=tmp_path / "studies.db", **words)
            assert answer(found) == answer(expected)
            assert found.imported == expected.imported == 4


class TestManyAtATime:
    """Eight calls that wait for each other can only end if all of them are under way."""

    @pytest.mark.parametrize("stored", [False, True], ids=["in memory", "stored"])
    def test_functions(self, tmp_path: Path, stored: bool) -> None:
        meeting = threading.Barrier(8)
        now, most = Counter[str](), Counter[str]()
        lock = threading.Lock()

        def pull(label: str) -> float:
            with lock:
                now["calls"] += 1
                most["calls"] = max(most["calls"], now["calls"])
                first = now["begun"] < 8
                now["begun"] += 1
            if first:
                meeting.wait(PATIENCE)
            with lock:
                now["calls"] -= 1
            return RATES[label]

        storage = tmp_path / "studies.db" if stored else None
        result = find(
            {label: lambda label=label: pull(label) for label in RATES},
            jobs=8,
            storage=storage,
            **WORDS,
        )
        assert result.outliers == ["c"]
        assert most["calls"] == 8

    @pytest.mark.parametrize("stored", [False, True], ids=["in memory", "stored"])
    def test_coroutines(self, tmp_path: Path, stored: bool) -> None:
        now, most = Counter[str](), Counter[str]()
        met = asyncio.Event()

        async def pull(label: str) -> float:
            now["calls"] += 1
            most["calls"] = max(most["calls"], now["calls"])
            if now["calls"] == 8:
                met.set()
            await asyncio.wait_for(met.wait(), PATIENCE)
            now["calls"] -= 1
            return RATES[label]

        storage = tmp_path / "studies.db" if stored else None
        arms = {label: coroutine(pull, label) for label in RATES}
        assert find(arms, jobs=8, storage=storage, **WORDS).outliers == ["c"]
        assert most["calls"] == 8

    @pytest.mark.long
    @pytest.mark.parametrize("kind", ["functions", "coroutines"])
    def test_at_least_six_times_as_fast(self, kind: str) -> None:
        def slow(label: str) -> float:
            time.sleep(0.02)
            return RATES[label]

        async def slow_too(label: str) -> float:
            await asyncio.sleep(0.02)
            return RATES[label]

        arms: dict[str, Callable[[], Any]] = {
            label: (lambda label=label: slow(label))
            if kind == "functions"
            else coroutine(slow_too, label)
            for label in RATES
        }
        seconds = {}
        for jobs in (1, 8):
            started = time.monotonic()
            result = find(arms, jobs=jobs, algorithm="rr", batch=5, budget=600, **WORDS)
            seconds[jobs] = (time.monotonic() - started) / (result.pulls + result.unused)
        assert seconds[1] > 6 * seconds[8]


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

    @pytest.mark.parametrize("jobs", [1, 3])
    def test_stop(self, storage: Path | None, jobs: int) -> None:
        with pytest.raises(PullFailed, match=r"arm '[a-f]' raised OSError: now and then") as caught:
            find(self.failing(20), storage=storage, jobs=jobs, **WORDS)
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
        found = find(self.failing(10**9), storage=storage, jobs=jobs, **WORDS)
        assert found.outliers == ["c"]

    @pytest.mark.parametrize("jobs", [1, 3])
    def test_retry(self, storage: Path | None, jobs: int) -> None:
        words = {**WORDS, "storage": storage, "jobs": jobs}
        found = find(self.failing(3), on_error="retry", **words)
        assert found.outliers == ["c"]

    def test_what_always_fails_is_given_up(self, storage: Path | None) -> None:
        with pytest.raises(PullFailed, match="10 times in a row"):
            find(self.failing(1), storage=storage, on_error="retry", **WORDS)

    @pytest.mark.parametrize(("side", "worst"), [("upper", 1.0), ("lower", 0.0)])
    def test_worst(self, storage: Path | None, side: Any, worst: float) -> None:
        found = find(
            self.failing(1), storage=storage, on_error="worst", side=side, budget=30, **WORDS
        )
        assert found.means.tolist() == [worst] * len(RATES)

    @pytest.mark.parametrize("policy", ["drop", "ignore", None])
    def test_no_other_policy(self, storage: Path | None, policy: Any) -> None:
        with pytest.raises(InvalidParameter, match="on_error must be one of stop, retry, worst"):
            find(self.failing(2), storage=storage, on_error=policy, **WORDS)

    def test_ctrl_c(self, storage: Path | None) -> None:
        calls = Counter[str]()

        def pull(label: str) -> float:
            calls["all"] += 1
            if calls["all"] == 21:
                raise KeyboardInterrupt
            return RATES[label]

        arms = {label: lambda label=label: pull(label) for label in RATES}
        with pytest.raises(SearchInterrupted, match="interrupted after") as caught:
            find(arms, storage=storage, **WORDS)
        result = caught.value.result
        assert result.status is Status.INTERRUPTED
        if storage is None:
            unabsorbed = caught.value.unabsorbed
            assert result.pulls + len(unabsorbed) == 20
            assert all(paid == RATES[label] for label, paid in unabsorbed)
        else:
            assert caught.value.unabsorbed == []
            assert len(list(load_study("find", storage=storage).trials())) == 20
            assert find(arms, storage=storage, **WORDS).outliers == ["c"]
            assert calls["all"] == len(list(load_study("find", storage=storage).trials())) + 1


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A storage with a study that is decided, and what it found."""
    storage = tmp_path_factory.mktemp("begun") / "studies.db"
    return storage, find(Numbered().functions(), storage=storage, **WORDS)


class TestAnotherQuestion:
    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"k": 1.5}, r"k must be what the study 'find' in .*studies.db was begun with \(1.0\)"),
            ({"delta": 0.2}, r"delta must be what .* \(0.1\) but got 0.2: choose another name"),
            ({"side": "both"}, r"side must be what .* \(upper\) but got both"),
            (
                {"budget": 9},
                r"budget must not be smaller than the number of samples that are there",
            ),
            ({"algorithm": "rr"}, r"algorithm must be what .* \(spade\) but got rr"),
            ({"bounds": (0, 2)}, r"bounds must be what"),
            ({"max_step": 7}, r"max_step must be what .* but got 7"),
            ({"rng": 6}, r"rng \(--seed\) must be what .* \(5\) but got 6"),
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
        other = {**WORDS, "algorithm": "spade", "budget": 12, **change}
        find(Numbered().functions(), storage=storage, name=f"other {next(iter(change))}", **other)

    def test_other_arms_are_refused(self, tmp_path: Path) -> None:
        storage = tmp_path / "studies.db"
        find(Numbered().functions(), storage=storage, **WORDS)
        arms = Numbered().functions()
        with pytest.raises(InvalidParameter, match="arms must be what the study 'find'"):
            find({**arms, "g": arms["a"]}, storage=storage, **WORDS)
        with pytest.raises(InvalidParameter, match="arms must be what the study 'find'"):
            find(dict(reversed(arms.items())), storage=storage, **WORDS)

    def test_without_a_seed_it_goes_on(self, tmp_path: Path) -> None:
        storage = tmp_path / "studies.db"
        words = {name: value for name, value in WORDS.items() if name != "rng"}
        first = find(Numbered().functions(), storage=storage, **words)
        assert answer(find(Numbered().functions(), storage=storage, **words)) == answer(first)


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


class Noting:
    """Arms that note what their generators give; they are worked on twice at the same time."""

    labels = tuple("abcde")

    def __init__(self, storage: Path) -> None:
        self.words: dict[str, Any] = {"storage": storage, "algorithm": "rr", "batch": 5000}
        self.drawn: list[float] = []

    def seeded(self, rng: np.random.Generator) -> Noting:
        self.drawn.append(rng.random())
        if len(self.drawn) > 1:
            raise RuntimeError("enough")
        with pytest.raises((SearchError, RuntimeError), match="enough"):
            find(self, rng=3, **self.words)
        raise RuntimeError("both")

    def pull(self, *_: object) -> Any:
        raise AssertionError("nobody gets there")


def test_two_that_begin_together_do_not_draw_the_same_rewards(tmp_path: Path) -> None:
    source = Noting(tmp_path / "studies.db")
    with pytest.raises((SearchError, RuntimeError), match="both"):
        find(source, rng=3, **source.words)
    first, second = source.drawn
    assert first != second
    in_memory = np.random.default_rng(3).spawn(2)[1]
    assert first == in_memory.random()


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
        [
            pytest.param(1, 1, marks=pytest.mark.long),
            (4, 1),
            pytest.param(1, 10, marks=pytest.mark.long),
            pytest.param(8, 10, marks=pytest.mark.long),
        ],
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
        assert verify(study).problems == []
        if jobs == 1:  # rewards do not depend on the call, so the answer is that without a kill
            arms = {label: lambda label=label: RATES[label] for label in RATES}
            calm = find(arms, **WORDS)
            assert said.strip() == f"{calm.outliers} {calm.pulls_per_arm.tolist()}"

    def test_tickets_of_others_are_left_alone(self, tmp_path: Path) -> None:
        """Those of processes that live, of other machines, and of people with names.

        So are those with names of older versions, which machines of the same name may share.
        """
        storage = tmp_path / "studies.db"
        study = create_study("find", list(RATES), storage=storage, **WORDS)
        host = os.uname().nodename
        here = re.search(r" \([0-9a-f]{10}\)$", this_process())
        assert here, "the machine says what it is"
        names = [
            "ann",
            this_process(),
            f"process {os.getpid()}/0 on {host}{here[0]}",
            f"process {gone_pid()}/12345 on {host}.elsewhere{here[0]}",
            f"process {gone_pid()}/12345 on {host} (0123456789)",
            f"process {gone_pid()}/12345 on {host}",
        ]
        for name in names:
            study.ask(1, name)
        gone = [
            *study.ask(2, f"process {gone_pid()}/12345 on {host}{here[0]}"),
            *study.ask(1, f"process {os.getpid()}/12345 on {host}{here[0]}"),
        ]
        assert study.take_over() == len(gone) == 3
        assert study.take_over() == 0
        assert study.overview().live == len(names)


def gone_pid() -> int:
    """Return the number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid
