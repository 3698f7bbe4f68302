"""One session, from the collected tests to the summary: what all ways of running have in common."""

from __future__ import annotations

import mmap
import os
import select
import signal
import struct
import sys
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from oddarms.errors import InvalidParameter, OddarmsError, StorageFailed
from oddarms.files import check_appendable, writable_folder
from oddarms.problem import Question
from oddarms.pytest_plugin import Settings, read_settings
from oddarms.pytest_plugin import _running as running
from oddarms.pytest_plugin._memory import clean_version, version_of
from oddarms.pytest_plugin._report import Answer, github_lines, summary_lines, write_all
from oddarms.pytest_plugin._running import Clock, Outcome, Runner, Status
from oddarms.pytest_plugin._sampling import AbnormalTests, FlakyTests, Sample, Sampling
from oddarms.text import duration, shown

TERMINAL_SECONDS = 0.5
"""Between two states of the progress line of a terminal."""
LINE_SECONDS = 20.0
"""Between two lines where there is no terminal."""
HANG_SECONDS = 30.0
"""After which a run that goes on is named."""
MAX_WATCHED = 256
"""Workers that are watched."""
SLOT = struct.Struct("=dq")
"""Since when a worker runs a test, 0 for none, and which one."""
GRACE_SECONDS = 10.0
"""How long, at least, isolated runs may go on after the time is over."""
NOBODY_LEFT = (
    "no worker was left to run tests (--max-worker-restart lets more of them crash,"
    " --oddarms-isolate lets none)"
)


def take_over(config: pytest.Config) -> None:
    """Register what runs the collected tests again and again."""
    from oddarms.pytest_plugin._xdist import WorkerRunner, XdistHooks

    settings = read_settings(config)
    _check(settings)
    config.option.maxfail = 0  # a failure is what is looked for
    config.option.randomly_reset_seed = False  # of pytest-randomly: runs need other random numbers
    factory = getattr(config, "_tmp_path_factory", None)
    if getattr(factory, "_retention_policy", None) == "all":  # too many folders for so many runs
        factory._retention_policy = "failed"  # type: ignore[union-attr]
    plugins = config.pluginmanager
    if hasattr(config, "workerinput"):
        plugins.register(WorkerRunner(config.workerinput, isolate=settings.isolate))
        return
    _check_places(settings)
    if settings.storage is not None:
        version = clean_version(settings.version) or version_of(config.rootpath)
        settings = replace(settings, version=version)
    runner = Runner(isolate=settings.isolate)
    hunt = Hunt(config, settings)
    plugins.register(runner)
    plugins.register(hunt)
    plugins.register(Loop(hunt, runner))
    plugins.register(XdistHooks(hunt))


def _check(settings: Settings) -> None:
    """Raise if something is wrong with the question, before the tests are collected."""
    try:
        Question(["one", "another"], **settings.words)
    except InvalidParameter as error:
        raise pytest.UsageError(f"--oddarms: {error}") from None
    if settings.isolate and not hasattr(os, "fork"):
        raise pytest.UsageError(
            "--oddarms-isolate needs a system that can fork. Run `oddarms find --pull 'pytest -q"
            " {arm}'` for one process per run."
        )
    if settings.jobs > 1 and not settings.isolate:
        raise pytest.UsageError(
            "--oddarms-jobs requires --oddarms-isolate: in one process tests run one after the"
            " other. For several processes use -n of pytest-xdist."
        )


def _check_places(settings: Settings) -> None:
    """Raise if something cannot be written, before the tests run."""
    try:
        if settings.out is not None:
            writable_folder("--oddarms-out", settings.out)
        for name in ("summary", "quarantine"):
            path = getattr(settings, name)
            if path is not None:
                check_appendable(f"--oddarms-{name}", path)
    except InvalidParameter as error:
        raise pytest.UsageError(str(error)) from None


class Hunt:
    """Begins the sampling, shows progress, and reports the answer at the end."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self.config = config
        self.settings = settings
        self.sampling: Sampling | None = None
        self.answer: Answer | None = None
        self.written: list[str] = []
        self.watch: Watch | None = None
        self._shown_at = Clock.now()
        self._warnings = 0
        self.ctrl_c = CtrlC()

    def begin(self, nodeids: Sequence[str], workers: int = 1) -> Sampling:
        """Begin the sampling of the collected tests."""
        settings = self.settings
        kind = AbnormalTests if settings.words else FlakyTests
        self.sampling = sampling = kind(nodeids, settings, workers)
        self.watch = Watch(nodeids)
        reporter = self.config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None and reporter.verbosity >= 0:
            limit = "" if settings.seconds is None else f" for up to {duration(settings.seconds)}"
            asked = "abnormally flaky" if settings.words else "flaky"
            reporter.write_line(f"oddarms: looking for {asked} tests{limit}")
        return sampling

    def ran(self) -> None:
        """Show the progress now and then; drop warnings that repeat those of the first runs."""
        reporter = self.config.pluginmanager.getplugin("terminalreporter")
        sampling = self.sampling
        if reporter is None or sampling is None:
            return
        reporter.stats.pop("", None)
        recorded = reporter.stats.get("warnings", [])
        if sampling.runs > len(sampling.nodeids):
            del recorded[self._warnings :]
        self._warnings = len(recorded)
        now, on_terminal = Clock.now(), reporter.isatty
        if now - self._shown_at < (TERMINAL_SECONDS if on_terminal else LINE_SECONDS):
            return
        self._shown_at = now
        if reporter.verbosity >= 0:
            text = f"oddarms: {sampling.progress_text()}"
            if on_terminal:
                reporter.rewrite(text[: reporter._tw.fullwidth - 1], erase=True)
            else:
                reporter.write_line(text)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Report what is known, however the loop ends."""
        try:
            ended = yield
        except OddarmsError as error:
            if self.sampling is not None:
                with suppress(OddarmsError):  # what has failed may fail again
                    self._finish(session, "it failed", in_a_hurry=True)
            raise pytest.UsageError(f"--oddarms: {error}") from error
        except (KeyboardInterrupt, pytest.exit.Exception):
            self.ctrl_c.take()
            with suppress(StorageFailed):
                self._finish(session, "it was interrupted", in_a_hurry=True)
            raise
        finally:
            if self.watch is not None:
                self.watch.close()
        try:
            self._finish(session, NOBODY_LEFT)
        except OddarmsError as error:
            raise pytest.UsageError(f"--oddarms: {error}") from error
        return ended

    def pytest_unconfigure(self) -> None:
        """Obey signals again."""
        self.ctrl_c.restore()

    def _finish(self, session: pytest.Session, why: str, *, in_a_hurry: bool = False) -> None:
        sampling = self.sampling
        if sampling is None:
            return
        try:
            sampling.finish(why, in_a_hurry=in_a_hurry)
        finally:
            self.answer = answer = Answer(sampling)
            session.testsfailed = answer.failing
            self.written = write_all(answer)

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write the answer."""
        answer = self.answer
        if answer is None:
            return
        terminalreporter.stats.pop("", None)
        for word, rows in answer.counts().items():
            if rows:
                terminalreporter._add_stats(word, rows)
        terminalreporter.ensure_newline()
        terminalreporter.write_sep("=", f"oddarms: {answer.title}")
        for line in summary_lines(answer, terminalreporter._tw.fullwidth):
            terminalreporter.write_line(line)
        for line in self.written:
            terminalreporter.write_line(line)
        if os.environ.get("GITHUB_ACTIONS") == "true":
            for line in github_lines(answer, self.config.rootpath):
                terminalreporter.write_line(line)


class CtrlC:
    """Ctrl-C ends the run of a test. Elsewhere it waits until nothing is half done.

    Once it has ended the session, further ones do not cost the report.
    """

    def __init__(self) -> None:
        self._received = False
        self._obeyed = False
        self._process = os.getpid()
        self._before: Any = None

    def take(self) -> None:
        """Handle Ctrl-C from now on, unless another handler is installed."""
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._receive)

    def restore(self) -> None:
        """Restore the earlier handler of Ctrl-C."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    @contextmanager
    def obeyed(self) -> Iterator[None]:
        """A block that Ctrl-C interrupts at once; also a Ctrl-C that came before it."""
        self._obeyed = True
        try:
            if self._received:
                raise KeyboardInterrupt
            yield
        finally:
            self._obeyed = False

    def _receive(self, number: int, frame: Any) -> None:
        if os.getpid() != self._process:  # a test has forked
            signal.default_int_handler(number, frame)
        first, self._received = not self._received, True
        if first and self._obeyed:
            raise KeyboardInterrupt


class Watch:
    """Names tests that hang, on stderr as it was before pytest captured it.

    A process looks, not a thread: with one more thread a test that forks may be warned, and fail.
    """

    def __init__(self, nodeids: Sequence[str]) -> None:
        self._slots: dict[object, int] = {}
        self._free = list(range(MAX_WATCHED))
        self._table = mmap.mmap(-1, MAX_WATCHED * SLOT.size)
        self._pid = 0
        if not hasattr(os, "fork"):
            return
        ended, self._open = os.pipe()
        stderr = 2
        with suppress(AttributeError, OSError, ValueError):
            stderr = (sys.__stderr__ or sys.stderr).fileno()

        def look() -> None:
            os.close(self._open)
            named: set[tuple[int, float]] = set()
            while not select.select([ended], [], [], 1.0)[0]:
                self._name(nodeids, stderr, named)

        self._pid = running.detached(look)
        os.close(ended)

    def begin(self, worker: object, test: int) -> None:
        """Note that a worker begins a test."""
        if worker not in self._slots and self._free:
            self._slots[worker] = self._free.pop()
        self._note(worker, Clock.now(), test)

    def end(self, worker: object) -> None:
        """Note that a worker is idle."""
        self._note(worker, 0.0, 0)
        if worker in self._slots:
            self._free.append(self._slots.pop(worker))

    def close(self) -> None:
        """Look no more."""
        if self._pid:
            pid, self._pid = self._pid, 0
            os.close(self._open)
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def _note(self, worker: object, began: float, test: int) -> None:
        if worker in self._slots:
            SLOT.pack_into(self._table, self._slots[worker] * SLOT.size, began, test)

    def _name(self, nodeids: Sequence[str], stderr: int, named: set[tuple[int, float]]) -> None:
        now = Clock.now()
        for began, test in SLOT.iter_unpack(self._table[:]):
            if began and now - began > HANG_SECONDS and (test, began) not in named:
                named.add((test, began))
                text = f"still running after {now - began:.0f} s: {shown(nodeids[test])}"
                os.write(stderr, f"\noddarms: {text}\n".encode(errors="backslashreplace"))


class Loop:
    """Runs samples in this process, or in children of it."""

    def __init__(self, hunt: Hunt, runner: Runner) -> None:
        self.hunt = hunt
        self.runner = runner

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run samples until the answer is known; leave ``--collect-only`` and xdist to others."""
        options = session.config.option
        failed = session.testsfailed and not options.continue_on_collection_errors
        elsewhere = session.config.pluginmanager.hasplugin("dsession")
        if failed or options.collectonly or elsewhere or not session.items:
            return None
        items = list(session.items)
        settings = self.hunt.settings
        sampling = self.hunt.begin([item.nodeid for item in items], settings.jobs)
        self.hunt.ctrl_c.take()
        if settings.isolate:
            self._isolated(items, sampling)
        else:
            self._here(items, sampling)
        return True

    def _here(self, items: list[pytest.Item], sampling: Sampling) -> None:
        last: int | None = None
        watch = self.hunt.watch
        assert watch is not None
        self.runner.prepare(items[0].session)
        while True:
            sample = sampling.next(last)
            if sample is None and not sampling.done:
                sample = sampling.between(last) or sampling.next()
            if sample is None:
                return
            last = sample.index
            watch.begin(self, last)
            with self.hunt.ctrl_c.obeyed():
                outcome = self.runner.run(items[last], sample.name)
            watch.end(self)
            sampling.tell(sample, outcome)
            self.hunt.ran()

    def _isolated(self, items: list[pytest.Item], sampling: Sampling) -> None:
        config, jobs, watch = self.hunt.config, self.hunt.settings.jobs, self.hunt.watch
        assert watch is not None
        under_way: dict[int, tuple[running.Child, Sample]] = {}
        try:
            while True:
                with self.hunt.ctrl_c.obeyed():
                    pass
                while len(under_way) < jobs and (sample := sampling.next()) is not None:
                    item = items[sample.index]
                    child = running.fork(config, self._work(item, sample.name))
                    under_way[child.pid] = child, sample
                    watch.begin(child.pid, sample.index)
                if not under_way:
                    return
                children = [child for child, _ in under_way.values()]
                for child, outcome in [*running.finished(children), *self._overdue(children)]:
                    watch.end(child.pid)
                    sampling.tell(under_way.pop(child.pid)[1], outcome)
                self.hunt.ran()
        finally:
            running.end(child for child, _ in under_way.values())

    def _overdue(self, children: list[running.Child]) -> list[tuple[running.Child, Outcome]]:
        """End runs that hang after the time is over; they have failed."""
        sampling = self.hunt.sampling
        limit = self.hunt.settings.seconds
        assert sampling is not None
        if limit is None or sampling.elapsed < limit:
            return []
        longest = max(case.pace for case in sampling.known.cases)
        grace = max(GRACE_SECONDS, 3.0 * longest)
        if sampling.elapsed < limit + grace:
            return []
        late = [child for child in children if not child.ended]
        running.end(late)
        now = Clock.now()
        return [
            (c, Outcome(Status.FAILED, f"did not end within {now - c.began:.0f} s", now - c.began))
            for c in late
        ]

    def _work(self, item: pytest.Item, name: str) -> running.Work:
        return lambda: self.runner.run(item, name)
