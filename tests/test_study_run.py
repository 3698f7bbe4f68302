"""Studies driven by a function: any executor, several at once, and whatever may interrupt them."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import secrets
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from helpers import ticket_number
from oddarms import Study, create_study, load_study
from oddarms.algorithms import Decision
from oddarms.errors import (
    InvalidParameter,
    PullFailed,
    RewardRejected,
    SearchError,
    SearchInterrupted,
)
from oddarms.executors import Executor
from oddarms.executors._pools import ThreadExecutor
from oddarms.search import Progress, Status, _calls
from oddarms.studies import verify

MEANS = {"a": 0.0, "b": 0.05, "c": 0.9, "d": 0.0, "e": 0.1}


def noisy(label: str) -> float:
    """Return a reward unlike any other, but so near the mean that no answer can be wrong."""
    return 0.9 * MEANS[label] + 0.1 * random.random()


def certain(label: str) -> float:
    return float(round(MEANS[label]))


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return make(tmp_path)


def make(folder: Path, **changes: Any) -> Study:
    words: dict[str, Any] = {"k": 1.0, "delta": 0.1, "rng": 2, **changes}
    return create_study("s", list(MEANS), storage=folder / "studies.db", **words)


def out(study: Study) -> int:
    """Return how many tickets are out."""
    return study.overview().live


def skips(study: Study) -> list[str]:
    with study._database.reading() as connection:
        rows = connection.exec_driver_sql("SELECT reason FROM skips ORDER BY ticket")
        return [row[0] for row in rows]


def assert_finished(study: Study, result: Any) -> None:
    assert result.status is Status.DECIDED
    assert result.high == ["c"]
    assert study.status is Status.DECIDED
    assert study.result().to_dict() == result.to_dict()
    tickets = [trial.ticket for trial in study.trials()]
    assert len(tickets) == len(set(tickets)) >= result.pulls
    assert out(study) == 0
    assert verify(study).problems == []


class AllAtOnce(Executor):
    """Makes the calls it has when somebody waits for one of them, as many as there are jobs."""

    def __init__(self, jobs: int) -> None:
        super().__init__("all at once", jobs)
        self._calls: list[tuple[Future[Any], Callable[[Any], Any], Any]] = []

    def wait(self, futures: Any, timeout: float | None = None) -> set[Future[Any]]:
        for future, function, argument in self._calls:
            try:
                future.set_result(function(argument))
            except BaseException as error:
                future.set_exception(error)
        self._calls.clear()
        return super().wait(futures, timeout)

    def _submit(self, function: Any, argument: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._calls.append((future, function, argument))
        return future

    def _release(self) -> None:
        pass


class Interrupted(ThreadExecutor):
    """Threads, and Ctrl-C while somebody waits for them, as soon as a function says so."""

    def __init__(self, jobs: int, is_time: Callable[[], bool]) -> None:
        super().__init__(jobs)
        self._is_time = is_time

    def wait(self, futures: Any, timeout: float | None = None) -> set[Future[Any]]:
        if timeout is not None:
            return super().wait(futures, timeout)
        while not self._is_time():
            if found := super().wait(futures, 0.01):
                return found
        raise KeyboardInterrupt


class TestExecutors:
    @pytest.mark.parametrize("jobs", [1, 3])
    def test_threads_by_default(self, study: Study, jobs: int) -> None:
        result = study.run(noisy, jobs=jobs, worker="w")
        assert_finished(study, result)
        assert {trial.worker for trial in study.trials()} == {"w"}
        assert study.run(noisy).to_dict() == result.to_dict()  # nothing left to do

    def test_no_more_calls_at_a_time_than_jobs(self, study: Study) -> None:
        lock, now, most = threading.Lock(), Counter[str](), []
        meeting = threading.Barrier(3, timeout=120.0)

        def pull(label: str) -> float:
            with lock:
                now["calls"] += 1
                most.append(now["calls"])
                first = len(most) <= 3
            if first:
                meeting.wait()
            time.sleep(0.002)
            with lock:
                now["calls"] -= 1
            return certain(label)

        assert_finished(study, study.run(pull, jobs=3))
        assert max(most) == 3

    def test_a_pool_of_threads(self, study: Study) -> None:
        with ThreadPoolExecutor(2) as executor:
            assert_finished(study, study.run(noisy, executor=executor, jobs=4))
            assert executor.submit(certain, "c").result() == 1.0  # it is the caller's to end

    def test_a_pool_of_processes(self, study: Study) -> None:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(2, mp_context=context) as executor:
            assert_finished(study, study.run(noisy, executor=executor, jobs=4))

    def test_what_a_process_cannot_be_sent(self, study: Study) -> None:
        context = multiprocessing.get_context("spawn")
        with (
            ProcessPoolExecutor(1, mp_context=context) as executor,
            pytest.raises(PullFailed, match=r"pickle|Can.t get local object"),  # in 3.13
        ):
            study.run(lambda label: certain(label), executor=executor)
        assert out(study) == 0

    def test_dask(self, study: Study) -> None:
        from distributed import Client, LocalCluster

        with (
            LocalCluster(
                n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0"
            ) as cluster,
            Client(cluster) as client,
        ):
            result = study.run(noisy, executor=client, jobs=8)
        assert_finished(study, result)
        rewards = [trial.reward for trial in study.trials()]
        assert len(set(rewards)) == len(rewards)  # dask takes equal calls for one unless told

    @pytest.mark.long
    def test_ray(self, study: Study) -> None:
        """In a process of its own, as there can be one ray only in each."""
        environment = {
            **os.environ,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(16),
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        command = [sys.executable, "-c", RAY_RUN, study.storage]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == ["['c']", "ValueError", "['c']"]
        assert_finished(study, study.result())

    def test_what_is_no_executor(self, study: Study) -> None:
        for wrong in ("threads", 3, object(), ThreadPoolExecutor):
            with pytest.raises(InvalidParameter, match=r"executor must be a concurrent\.futures"):
                study.run(certain, executor=wrong)
        with pytest.raises(InvalidParameter, match="jobs must be a whole number of at least 1"):
            study.run(certain, jobs=0)
        with pytest.raises(InvalidParameter, match="on_error must be one of stop, retry, worst"):
            study.run(certain, on_error="ignore")
        assert ticket_number(study.ask()[0]) == 1

    def test_an_executor_that_was_shut_down(self, study: Study) -> None:
        executor = ThreadPoolExecutor(1)
        executor.shutdown()
        with pytest.raises(SearchError, match="shutdown"):
            study.run(certain, executor=executor, jobs=3)
        assert (out(study), study.status) == (0, Status.RUNNING)


RAY_RUN = """
import random, sys
import ray
from oddarms import create_study, load_study
from oddarms.errors import PullFailed

ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)

class Pull:
    means = {"a": 0.0, "b": 0.05, "c": 0.9, "d": 0.0, "e": 0.1}
    def __call__(self, label):
        return 0.9 * self.means[label] + 0.1 * random.random()

def fails(label):
    raise ValueError("no reward today")

study = load_study("s", storage=sys.argv[1])
try:
    other = create_study("o", ["a", "c"], k=0, delta=0.1, storage="memory")
    result = study.run(Pull(), executor=ray, jobs=2)
    print(result.high)
    other.run(fails, executor=ray)
except PullFailed as failed:
    assert "no reward today" in str(failed)
    print("ValueError" if isinstance(failed.__cause__, ValueError) else type(failed.__cause__))
print(study.run(Pull(), executor=ray).high)
ray.shutdown()
"""


class TestTogether:
    def test_two_runs_share_a_study(self, study: Study) -> None:
        others = [study, load_study("s", storage=study.storage)]
        results: list[Any] = []
        made: Counter[str] = Counter()

        def slow(worker: str) -> Callable[[str], float]:
            def pull(label: str) -> float:
                made[worker] += 1
                time.sleep(0.001)
                return certain(label)

            return pull

        threads = [
            threading.Thread(
                target=lambda i=i: results.append(others[i].run(slow(f"{i}"), worker=f"{i}"))
            )
            for i in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = [{**result.to_dict(), "unused": 0} for result in results]
        assert len(found) == 2
        assert found[0] == found[1]  # but for results that came in between the two
        last = study.result()
        assert {**last.to_dict(), "unused": 0} == found[0]
        assert_finished(study, last)
        workers = Counter(trial.worker for trial in study.trials())
        assert workers == made
        assert min(workers.values()) > 0
        assert sum(made.values()) == last.pulls + last.unused
        places = [(trial.arm, trial.place) for trial in study.trials()]
        assert len(places) == len(set(places)), "no pull was made twice"

    def test_waiting_for_what_others_have(
        self, study: Study, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_calls, "POLL_SECONDS", 0.02)
        tickets = study.ask(10_000)
        runner = threading.Thread(target=study.run, args=(certain,))
        runner.start()
        time.sleep(0.1)
        assert study.status is Status.WAITING
        study.tell_many([(ticket, certain(ticket.arm)) for ticket in tickets])
        runner.join()
        assert_finished(study, study.result())

    def test_wait(self, study: Study) -> None:
        started = time.monotonic()
        assert study.wait(0.05, poll=0.01) is False
        assert 0.05 <= time.monotonic() - started < 60.0
        assert study.wait(0) is False
        runner = threading.Thread(target=study.run, args=(certain,))
        runner.start()
        assert load_study("s", storage=study.storage).wait(poll=0.01) is True
        runner.join()
        assert study.wait(0) is True
        assert study.done


class TestFailures:
    def test_a_pull_that_raises(self, study: Study) -> None:
        calls = itertools.count(1)

        def pull(label: str) -> float:
            if next(calls) == 8:
                raise OSError("the machine is away")
            return certain(label)

        words = r"arm '[a-e]' raised OSError: the machine is away"
        with pytest.raises(PullFailed, match=words) as caught:
            study.run(pull, jobs=2)
        assert isinstance(caught.value.__cause__, OSError)
        assert caught.value.label in MEANS
        assert caught.value.result.status is Status.FAILED
        assert caught.value.result.to_dict() == {**study.result().to_dict(), "status": "failed"}
        told = list(study.trials())
        assert len(told) >= 6
        assert all(trial.reward == certain(trial.arm) for trial in told)
        assert (out(study), study.status) == (0, Status.RUNNING)
        assert "OSError: the machine is away" in skips(study)
        assert_finished(study, study.run(pull, jobs=2))
        assert list(study.trials())[: len(told)] == told

    def test_pulls_under_way_are_finished_and_recorded(self, study: Study) -> None:
        begun, failed = threading.Event(), threading.Event()
        calls = itertools.count(1)
        finished: list[str] = []

        def pull(label: str) -> float:
            if next(calls) == 1:
                finished.append(label)
                begun.set()
                failed.wait(60)
                time.sleep(0.05)
                return certain(label)
            begun.wait(60)
            failed.set()
            raise OSError("away")

        with pytest.raises(PullFailed):
            study.run(pull, jobs=2)
        assert [trial.arm for trial in study.trials()] == finished
        assert len(finished) == 1
        assert out(study) == 0

    @pytest.mark.parametrize("bad", [1.5, -1, float("nan"), "many", None])
    def test_what_is_no_reward(self, study: Study, bad: Any) -> None:
        """The other results of the same moment are kept."""
        calls = itertools.count(1)

        def pull(label: str) -> Any:
            return bad if next(calls) == 5 else certain(label)

        with pytest.raises(PullFailed, match="reward") as caught:
            study.run(pull, jobs=2)
        assert isinstance(caught.value.__cause__, RewardRejected)
        assert len(list(study.trials())) >= 3
        assert out(study) == 0
        assert_finished(study, study.run(pull))

    def test_a_failure_among_many_finished_pulls(self, study: Study) -> None:
        """All have ended when they are looked at: one is wrong, one ends the run, two are good."""
        calls = itertools.count(1)

        def pull(label: str) -> float:
            call = next(calls)
            if call == 2:
                return 7.0
            if call == 3:
                raise InvalidParameter("nothing can be pulled")
            return certain(label)

        with pytest.raises(InvalidParameter, match="nothing can be pulled"):
            study.run(pull, executor=AllAtOnce(4), ahead=0)
        assert len(list(study.trials())) == 2
        assert out(study) == 0

    def test_a_pull_that_fails_may_be_made_again(self, study: Study) -> None:
        calls = itertools.count(1)

        def pull(label: str) -> float:
            if next(calls) % 3 == 0:
                raise OSError("now and then")
            return certain(label)

        assert_finished(study, study.run(pull, jobs=2, on_error="retry"))
        assert set(skips(study)) == {"OSError: now and then"}

    def test_a_pull_that_always_fails_ends_the_run(self, study: Study) -> None:
        def pull(label: str) -> float:
            if label == "b":
                raise OSError("broken")
            return certain(label)

        with pytest.raises(PullFailed, match=r"arm 'b' raised OSError: broken \(10 times in a row"):
            study.run(pull, on_error="retry")
        assert out(study) == 0

    @pytest.mark.parametrize(("side", "worst"), [("upper", 1.0), ("lower", 0.0), ("both", 1.0)])
    def test_a_failure_as_the_worst_reward(self, tmp_path: Path, side: Any, worst: float) -> None:
        study = make(tmp_path, side=side, budget=60)

        def pull(label: str) -> float:
            if label == "e":
                raise OSError("hangs when it is bad")
            return 0.5

        study.run(pull, on_error="worst")
        rewards = {(trial.arm, trial.reward) for trial in study.trials()}
        assert rewards == {("a", 0.5), ("b", 0.5), ("c", 0.5), ("d", 0.5), ("e", worst)}


class TestInterruptions:
    def test_ctrl_c_while_waiting(self, study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
        """What was told is stored, what has come back is told, and the rest is given back."""
        monkeypatch.setattr(_calls, "GRACE_SECONDS", 60.0)
        begun, held = threading.Event(), threading.Event()
        calls = itertools.count(1)

        def pull(label: str) -> float:
            if next(calls) > 10:
                begun.set()
                held.wait(60)
            return certain(label)

        def is_time() -> bool:
            if begun.is_set():
                held.set()
            return begun.is_set()

        with (
            Interrupted(2, is_time) as executor,
            pytest.raises(SearchInterrupted, match="interrupted after") as caught,
        ):
            study.run(pull, executor=executor)
        assert caught.value.result.status is Status.INTERRUPTED
        assert caught.value.unabsorbed == []  # the study has them
        told = list(study.trials())
        assert len(told) >= 11
        assert (out(study), study.status) == (0, Status.RUNNING)
        assert caught.value.result.pulls == study.result().pulls
        assert verify(study).problems == []
        assert_finished(study, study.run(pull, jobs=2))
        assert list(study.trials())[: len(told)] == told

    def test_ctrl_c_in_a_pull(self, study: Study) -> None:
        """As with one job, where pulls are made in the thread that gets it."""
        calls = itertools.count(1)

        def pull(label: str) -> float:
            if next(calls) == 8:
                raise KeyboardInterrupt
            return certain(label)

        with pytest.raises(SearchInterrupted):
            study.run(pull)
        assert len(list(study.trials())) == 7
        assert (out(study), study.status) == (0, Status.RUNNING)
        assert_finished(study, study.run(pull))

    def test_pulls_that_do_not_end(self, study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
        """They are given a moment, told to stop if they can be, and given back."""
        monkeypatch.setattr(_calls, "GRACE_SECONDS", 0.05)

        class Pull:
            stopped, ended = threading.Event(), threading.Event()

            def __call__(self, label: str) -> float:
                self.ended.wait(60)
                return certain(label)

            def stop(self) -> None:
                self.stopped.set()

        with Interrupted(3, lambda: True) as executor:
            with pytest.raises(KeyboardInterrupt):
                study.run(Pull(), executor=executor)
            assert Pull.stopped.is_set()
            Pull.ended.set()
        assert list(study.trials()) == []
        assert (out(study), study.status) == (0, Status.RUNNING)
        assert set(skips(study)) == {"the run was interrupted"}

    @pytest.mark.parametrize(
        ("raised", "becomes"),
        [(KeyboardInterrupt, SearchInterrupted), (ZeroDivisionError, SearchError)],
    )
    def test_a_callback_that_raises(
        self, study: Study, raised: type[BaseException], becomes: type[BaseException]
    ) -> None:
        """The tickets that its caller never saw are given back as well."""
        seen: list[Any] = []

        def callback(_study: Study, news: list[Any]) -> None:
            seen.extend(news)
            raise raised

        study.on_decision(callback)
        with pytest.raises(becomes) as caught:
            study.run(certain, jobs=4)
        assert caught.value.result.pulls == study.progress().pulls
        assert seen
        assert out(study) == 0
        assert verify(study).problems == []

    def test_a_progress_callback_that_raises(self, study: Study) -> None:
        def progress(_progress: Progress) -> None:
            raise ZeroDivisionError

        with pytest.raises(SearchError, match="ZeroDivisionError"):
            study.run(certain, jobs=2, progress=progress)
        assert out(study) == 0
        assert list(study.trials())


class TestCallbacks:
    @pytest.fixture(params=["run", "ask and tell"])
    def drive(self, request: pytest.FixtureRequest) -> Callable[[Study], None]:
        def run(study: Study) -> None:
            study.run(certain, jobs=2)

        def ask_and_tell(study: Study) -> None:
            while tickets := study.ask(7):
                study.tell_many([(ticket, certain(ticket.arm)) for ticket in tickets])

        return run if request.param == "run" else ask_and_tell

    def test_every_decided_arm_is_reported_once(
        self, study: Study, drive: Callable[[Study], None]
    ) -> None:
        news: list[tuple[Any, Decision]] = []
        more: list[Any] = []
        study.on_decision(lambda reporter, found: news.extend(found) or more.append(reporter))
        drive(study)
        study.result()
        assert sorted(news) == [
            ("a", Decision.NORMAL),
            ("b", Decision.NORMAL),
            ("c", Decision.HIGH),
            ("d", Decision.NORMAL),
            ("e", Decision.NORMAL),
        ]
        assert set(map(id, more)) == {id(study)}

    def test_a_process_that_opens_the_study_later_hears_of_all(self, study: Study) -> None:
        study.run(certain)
        again = load_study("s", storage=study.storage)
        news: list[Any] = []
        again.on_decision(lambda _study, found: news.extend(found))
        again.result()
        assert [arm for arm, _ in news] == list(MEANS)
        again.result()
        assert len(news) == len(MEANS)

    def test_a_callback_may_use_the_study(self, study: Study) -> None:
        """What decided is stored by then."""
        pulls: list[int] = []

        def callback(reporter: Study, news: list[tuple[Any, Decision]]) -> None:
            result = reporter.result()
            for label, decision in news:
                index = result.labels.index(label)
                assert result.decisions[index] == decision
            pulls.append(len(list(reporter.trials())))

        study.on_decision(callback)
        study.run(certain)
        assert pulls
        assert pulls == sorted(pulls)


class TestBatches:
    def test_many_labels_at_a_time(self, study: Study) -> None:
        sizes: list[int] = []

        def pull(labels: list[str]) -> list[float]:
            sizes.append(len(labels))
            return [certain(label) for label in labels]

        seen: list[Progress] = []
        assert_finished(study, study.run(pull, batch=True, progress=seen.append))
        assert max(sizes) > 1
        assert 0 < len(seen) <= len(sizes)

    @pytest.mark.parametrize(
        ("pull", "words"),
        [
            (lambda labels: [0.0] * (len(labels) - 1), "must return as many rewards but gave"),
            (lambda labels: [7.0] * len(labels), "rewards must lie within the bounds"),
            (lambda labels: 1 / (len(labels) - len(labels)), "raised ZeroDivisionError"),
            (lambda _labels: None, "raised TypeError"),
        ],
        ids=["too few", "out of bounds", "raises", "none"],
    )
    def test_that_fail_are_given_back(self, study: Study, pull: Any, words: str) -> None:
        with pytest.raises((PullFailed, RewardRejected), match=words):
            study.run(pull, batch=True)
        assert list(study.trials()) == []
        assert (out(study), study.status) == (0, Status.RUNNING)


def test_a_failure_that_counts_is_kept_at_an_interruption(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the worst rewards, and only they, would be drawn again."""
    monkeypatch.setattr(_calls, "GRACE_SECONDS", 60.0)
    labels = list(study.labels)[:2]
    started: list[Any] = []
    release = threading.Event()

    def pull(label: Any) -> float:
        started.append(label)
        release.wait(60.0)
        if label == labels[0]:
            raise ValueError("broken")
        return 0.0

    def is_time() -> bool:
        if len(started) == 4:
            release.set()
        return release.is_set()

    with Interrupted(4, is_time) as executor, pytest.raises(KeyboardInterrupt):
        study.run(pull, executor=executor, jobs=4, on_error="worst")
    told = [(trial.arm, trial.reward) for trial in study.trials()]
    assert sorted(told, key=str) == sorted(
        ((label, float(label == labels[0])) for label in started), key=str
    )


def test_one_bad_reward_of_a_batch_does_not_take_the_others_with_it(study: Study) -> None:
    first = study.labels[0]

    def pull(labels: list[Any]) -> list[float]:
        return [7.0 if label == first else 0.0 for label in labels]

    with pytest.raises(RewardRejected, match="rewards must lie within the bounds"):
        study.run(pull, batch=True)
    told = Counter(trial.arm for trial in study.trials())
    assert told[first] == 0
    assert set(told) == set(study.labels) - {first}
