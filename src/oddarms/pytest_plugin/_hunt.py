"""One search, from the collected tests to the summary: what all ways of running have in common."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Sequence
from contextlib import suppress

import pytest

from oddarms.errors import InvalidParameter, OddarmsError, StorageFailed
from oddarms.files import check_appendable, writable_folder
from oddarms.problem import Question
from oddarms.pytest_plugin import Settings, read_settings
from oddarms.pytest_plugin import _forking as forking
from oddarms.pytest_plugin._report import Answer, progress_text, summary_lines, write_all
from oddarms.pytest_plugin._running import Runner, keep_little, leave_seeds_alone
from oddarms.pytest_plugin._sampling import Place, Sample, Sampling

SHOW_AFTER = 0.5
"""Seconds between two states of the progress line of a terminal."""
SAY_AFTER = 20.0
"""Seconds between two lines where there is no terminal."""


NOBODY_LEFT = (
    "no worker was left to run tests (--max-worker-restart lets more of them crash,"
    " --oddarms-isolate lets none)"
)


class Hunt:
    """Begins the sampling, shows how far it is, and says in the end what was found."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self.config = config
        self.settings = settings
        self.sampling: Sampling | None = None
        self.answer: Answer | None = None
        self.written: list[str] = []
        self._shown_at = time.monotonic()
        self._warnings = 0

    def begin(self, nodeids: Sequence[str], workers: int = 1) -> Sampling:
        """Begin the sampling of the collected tests."""
        if len(nodeids) < 2:
            raise pytest.UsageError(
                "--oddarms must have at least two tests, to compare them with each other, but"
                f" {len(nodeids)} was selected: select more with -k, -m or paths; with"
                " --oddarms-floor 0.01 any two will do."
            )
        self.sampling = Sampling(nodeids, self.settings, workers)
        return self.sampling

    def ran(self) -> None:
        """Show the progress now and then, and forget what is no news after the first runs."""
        reporter = self.config.pluginmanager.getplugin("terminalreporter")
        if reporter is None or self.sampling is None:
            return
        reporter.stats.pop("", None)
        recorded = reporter.stats.get("warnings", [])
        if self.sampling.searching:
            del recorded[self._warnings :]
        self._warnings = len(recorded)
        now, on_terminal = time.monotonic(), reporter.isatty
        if now - self._shown_at < (SHOW_AFTER if on_terminal else SAY_AFTER):
            return
        self._shown_at = now
        if reporter.verbosity >= 0:
            text = progress_text(self.sampling)
            if on_terminal:
                reporter.rewrite(text[: reporter._tw.fullwidth - 1], erase=True)
            else:
                reporter.write_line(text)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Say what is known, however the loop ends."""
        try:
            ended = yield
        except OddarmsError as error:
            if self.sampling is not None and self.sampling.searching:
                with suppress(OddarmsError):  # what has failed may fail again
                    self._finish(session, "it failed", in_a_hurry=True)
            raise pytest.UsageError(f"--oddarms: {error}") from error
        except (KeyboardInterrupt, pytest.exit.Exception) as error:
            with suppress(StorageFailed):
                self._finish(session, "it was interrupted", in_a_hurry=True)
            end_outside(error)
            raise
        try:
            self._finish(session, NOBODY_LEFT)
        except OddarmsError as error:
            raise pytest.UsageError(f"--oddarms: {error}") from error
        return ended

    def _finish(self, session: pytest.Session, why: str, *, in_a_hurry: bool = False) -> None:
        sampling = self.sampling
        if sampling is None:
            return
        self.answer = Answer(sampling, sampling.finish(why, in_a_hurry=in_a_hurry))
        session.testsfailed = len(self.answer.abnormal) + len(sampling.placed(Place.BROKEN))
        self.written = write_all(self.answer, self.settings.out, self.settings.summary)

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write the answer."""
        if self.answer is None:
            return
        terminalreporter.stats.pop("", None)
        for word, nodeids in self.answer.counts().items():
            if nodeids:
                records = [self.answer.records[nodeid] for nodeid in nodeids]
                terminalreporter._add_stats(word, records)
        terminalreporter.ensure_newline()
        terminalreporter.write_sep("=", "oddarms: which tests are abnormally flaky?")
        for line in summary_lines(self.answer, terminalreporter._tw.fullwidth):
            terminalreporter.write_line(line)
        for line in self.written:
            terminalreporter.write_line(line)


def end_outside(error: BaseException) -> None:
    """Let a traceback end at the last frame that is not ours: pytest shows where it ends."""
    trace, last = error.__traceback__, None
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in ("oddarms", "contextlib"):
            last = trace
        trace = trace.tb_next
    if last is not None:
        last.tb_next = None


class Loop:
    """Runs samples in this process, or in children of it."""

    def __init__(self, hunt: Hunt, runner: Runner) -> None:
        self.hunt = hunt
        self.runner = runner

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run samples until the search has its answer; leave to pytest what is no run of tests."""
        options = session.config.option
        failed = session.testsfailed and not options.continue_on_collection_errors
        elsewhere = session.config.pluginmanager.hasplugin("dsession")
        if failed or options.collectonly or elsewhere or not session.items:
            return None
        items = list(session.items)
        settings = self.hunt.settings
        sampling = self.hunt.begin([item.nodeid for item in items], settings.jobs)
        if settings.isolate:
            self._isolated(items, sampling, settings.jobs)
        else:
            self._here(items, sampling)
        return True

    def _here(self, items: list[pytest.Item], sampling: Sampling) -> None:
        last: int | None = None
        while True:
            sample = sampling.next(last)
            if sample is None and not sampling.done:
                sample = sampling.between(last) or sampling.next()
            if sample is None:
                return
            last = sample.index
            sampling.tell(sample, self.runner.run(items[last], sample.name))
            self.hunt.ran()

    def _isolated(self, items: list[pytest.Item], sampling: Sampling, jobs: int) -> None:
        config = self.hunt.config
        running: dict[int, tuple[forking.Child, Sample]] = {}
        try:
            while True:
                while len(running) < jobs and (sample := sampling.next()) is not None:
                    child = forking.fork(config, self._work(items[sample.index], sample.name))
                    running[child.pid] = child, sample
                if not running:
                    return
                for child, outcome in forking.finished([child for child, _ in running.values()]):
                    sampling.tell(running.pop(child.pid)[1], outcome)
                self.hunt.ran()
        except BaseException:
            forking.end([child for child, _ in running.values()])
            raise

    def _work(self, item: pytest.Item, name: str) -> forking.Work:
        return lambda: self.runner.run(item, name)


def take_over(config: pytest.Config) -> None:
    """Register what runs the collected tests again and again."""
    from oddarms.pytest_plugin._xdist import WorkerRunner, XdistHooks

    settings = read_settings(config)
    _check(settings)
    leave_seeds_alone(config)
    keep_little(config)
    config.option.maxfail = 0  # a failure is what is looked for
    plugins = config.pluginmanager
    if hasattr(config, "workerinput"):
        plugins.register(WorkerRunner(config.workerinput, isolate=settings.isolate))
        return
    _check_places(settings)
    runner = Runner(fresh=settings.isolate)
    hunt = Hunt(config, settings)
    plugins.register(runner)
    plugins.register(hunt)
    plugins.register(Loop(hunt, runner))
    plugins.register(XdistHooks(hunt))


def _check_places(settings: Settings) -> None:
    """Say what cannot be written before the tests run, not after."""
    try:
        if settings.out is not None:
            writable_folder("--oddarms-out", settings.out)
        if settings.summary is not None:
            check_appendable("--oddarms-summary", settings.summary)
    except InvalidParameter as error:
        raise pytest.UsageError(str(error)) from None


def _check(settings: Settings) -> None:
    """Say what is wrong with the question before the tests are collected."""
    try:
        Question(["one", "another"], **settings.words)
    except InvalidParameter as error:
        raise pytest.UsageError(f"--oddarms: {error}") from None
    if settings.isolate and not hasattr(os, "fork"):
        raise pytest.UsageError(
            "--oddarms-isolate must be left out on a system that cannot fork but was given: run"
            " `oddarms find --pull 'pytest -q {arm}'` for one process per sample."
        )
    if settings.jobs > 1 and not settings.isolate:
        raise pytest.UsageError(
            f"--oddarms-jobs must be left out without --oddarms-isolate but got {settings.jobs}:"
            " in this process tests run one after the other; pytest-xdist's -n has workers."
        )
