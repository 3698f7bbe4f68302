"""Samples on the workers of pytest-xdist.

The controller sends numbers of tests, which may repeat; a worker knows nothing of the search. It
answers each with one report that carries the outcome, and that no other plugin shows.

A worker begins a test only once it knows the next one. So one that has a sample has at least two
runs queued; where nothing needs a run, the other is one that keeps it busy (`between`). A worker
without a sample waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from oddarms.pytest_plugin._hunt import Hunt
from oddarms.pytest_plugin._running import Outcome, Runner, Status, in_a_fork
from oddarms.pytest_plugin._sampling import FlakyTests, Sample

CARRIED = "oddarms"
"""The user property of a report that carries an outcome."""
MIN_QUEUED = 2
QUEUED = 3
QUEUED_IF_FAST = 12
FAST = 0.02
"""Seconds; of faster runs more are queued, so that workers need not wait for the controller."""


class WorkerRunner(Runner):
    """Runs the samples that a worker is sent, and reports their outcomes."""

    def __init__(self, workerinput: dict[str, Any], *, isolate: bool) -> None:
        super().__init__(isolate=isolate)
        # not to be repeated: which worker gets which sample depends on time
        self._whose = f"{workerinput['testrunuid']}:{workerinput['workerid']}"
        self._runs = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool:
        """Run one sample and report its outcome."""
        if not self._runs:
            self.prepare(item.session)
        self._runs += 1
        self.name = f"{self._whose}:{self._runs}"
        if self.isolate:
            outcome = in_a_fork(item.config, lambda: self.sample(item))
        else:
            outcome = self.sample(item)
        report = pytest.TestReport(
            nodeid=item.nodeid,
            location=item.location,
            keywords={},
            outcome="passed",
            longrepr=None,
            when="setup",
            user_properties=[(CARRIED, outcome.to_json())],
        )
        item.ihook.pytest_runtest_logreport(report=report)
        return True


class XdistHooks:
    """The hooks of the controller; only pytest-xdist calls them."""

    def __init__(self, hunt: Hunt) -> None:
        self.hunt = hunt
        self.scheduler: Scheduler | None = None

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config) -> Scheduler:
        """Return the scheduler that asks the search."""
        from xdist.workermanage import parse_tx_spec_config

        self.scheduler = Scheduler(self.hunt, len(parse_tx_spec_config(config)))
        return self.scheduler

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the outcome that a worker's report carries."""
        carried = dict(report.user_properties).get(CARRIED)
        if self.scheduler is not None and isinstance(carried, str):
            self.scheduler.outcomes[report.node] = Outcome.from_json(carried)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, error: object) -> None:
        """Note whether a worker was interrupted or has crashed."""
        if self.scheduler is not None and error == "keyboard-interrupt":
            self.scheduler.interrupted = True


class Scheduler:
    """A scheduler of pytest-xdist that hands out what the search asks for."""

    def __init__(self, hunt: Hunt, workers: int) -> None:
        self.hunt = hunt
        self.workers = workers
        self.sampling: FlakyTests | None = None
        self.outcomes: dict[Any, Outcome] = {}
        """Of each worker's test that is complete in a moment."""
        self.interrupted = False
        self.collection: list[str] | None = None
        self._collections: dict[Any, list[str]] = {}
        self._queues: dict[Any, deque[Sample]] = {}
        self._last: dict[Any, int] = {}
        self._gone: set[Any] = set()

    @property
    def nodes(self) -> list[Any]:
        """The workers."""
        return list(self._queues)

    @property
    def collection_is_completed(self) -> bool:
        """True once all workers have collected."""
        return len(self._collections) >= self.workers

    @property
    def tests_finished(self) -> bool:
        """True once workers may be told that nothing follows; the last test waits for that."""
        if self.sampling is None or not self.sampling.done:
            return False
        return all(len(queue) < MIN_QUEUED for queue in self._queues.values())

    @property
    def has_pending(self) -> bool:
        """True while workers have something to run."""
        return any(self._queues.values())

    def add_node(self, node: Any) -> None:
        """Add a worker."""
        self._queues[node] = deque()

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """Check that a worker has collected the same tests as the others."""
        known = next(iter(self._collections.values()), None)
        if known is not None and list(collection) != known:
            raise pytest.UsageError(
                "--oddarms needs the same tests in the same order on all workers of pytest-xdist;"
                f" {node.gateway.id} has collected others."
            )
        self._collections[node] = list(collection)

    def schedule(self) -> None:
        """Begin the sampling, or resume with a replaced worker."""
        if self.sampling is None:
            self.collection = next(iter(self._collections.values()))
            self.sampling = self.hunt.begin(self.collection, max(self.workers, 2))
        self._fill_all()

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Take the outcome of a test that a worker has run, and send more."""
        del duration
        assert self.sampling is not None
        sample = self._queues[node].popleft()
        assert sample.index == item_index
        self._last[node] = sample.index
        outcome = self.outcomes.pop(node, None)
        if outcome is None:
            self.sampling.lose(sample)
        else:
            self.sampling.tell(sample, outcome)
        self.hunt.ran()
        self._fill_all()

    def mark_test_pending(self, item: str) -> None:
        """Do nothing: a sample that is lost is asked for again by the search."""

    def remove_pending_tests_from_node(self, node: Any, indices: Sequence[int]) -> None:
        """Do nothing: no test is taken away from a worker."""

    def remove_node(self, node: Any) -> str | None:
        """Remove a worker. If it has crashed, its test has failed.

        That is a sample like others; pytest-xdist has nothing to report.
        """
        queue = self._queues.pop(node)
        if self.sampling is None or not queue:
            return None
        if not self.interrupted:
            crashed = queue.popleft()
            text = "the worker crashed while it ran this test"
            self.sampling.tell(crashed, Outcome(Status.FAILED, text))
        for sample in queue:
            self.sampling.lose(sample)
        self._fill_all()
        return None

    def _fill_all(self) -> None:
        for node in self._queues:
            if node in self._collections and node not in self._gone and not node.shutting_down:
                self._fill(node)

    def _fill(self, node: Any) -> None:
        assert self.sampling is not None
        queue, sent = self._queues[node], []
        wanted = QUEUED_IF_FAST if self.sampling.pace < FAST else QUEUED
        while len(queue) < wanted and not self.sampling.done:
            last = queue[-1].index if queue else self._last.get(node)
            sample = self.sampling.next(last)
            if sample is None and len(queue) < MIN_QUEUED and self._is_stuck(queue):
                sample = self.sampling.between(last)
            if sample is None:
                break
            queue.append(sample)
            sent.append(sample.index)
        if sent:
            self._send(node, sent)

    def _is_stuck(self, queue: deque[Sample]) -> bool:
        """Return whether a run must be added whose outcome is ignored.

        A worker begins a run only once it has the next one; and where no run that counts is under
        way on any worker, only the test that has just run is wanted. Else the worker waits.
        """
        assert self.sampling is not None
        everywhere = (sample for each in self._queues.values() for sample in each)
        return not self.sampling.done and (_some_count(queue) or not _some_count(everywhere))

    def _send(self, node: Any, indices: list[int]) -> None:
        """Send a worker numbers of tests; pytest-xdist reports a worker that is gone."""
        try:
            node.send_runtest_some(indices)
        except OSError:
            assert self.sampling is not None
            self._gone.add(node)
            for _ in indices:
                self.sampling.lose(self._queues[node].pop())


def _some_count(samples: Iterable[Sample]) -> bool:
    return any(not sample.between for sample in samples)
