"""One session, from the collected tests to the summary: what all ways of running have in common."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from oddarms.documents import to_text
from oddarms.errors import InvalidParameter, OddarmsError, StorageFailed
from oddarms.files import check_appendable, writable_folder
from oddarms.interrupts import Interrupts
from oddarms.pytest_plugin import Settings, read_settings
from oddarms.pytest_plugin import _running as running
from oddarms.pytest_plugin._memory import clean_version, version_of
from oddarms.pytest_plugin._report import Answer, blocks, github_lines, write_all
from oddarms.pytest_plugin._running import Clock, Outcome, Runner, Status
from oddarms.pytest_plugin._sampling import AbnormalTests, FlakyTests, Sample
from oddarms.text import duration

TERMINAL_SECONDS = 0.5
"""Between two states of the progress line of a terminal."""
LINE_SECONDS = 20.0
"""Between two lines where there is no terminal."""
GRACE_SECONDS = 10.0
"""How long, at least, isolated runs may go on after the time is over."""
NOBODY_LEFT = (
    "no worker was left to run tests (--max-worker-restart permits more crashes, --oddarms-isolate"
    " prevents them)"
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
    """Raise if options do not go together."""
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
        self.sampling: FlakyTests | None = None
        self.answer: Answer | None = None
        self.written: list[str] = []
        self._shown_at = Clock.now()
        self._warnings = 0
        self.ctrl_c = CtrlC()

    def begin(self, nodeids: Sequence[str], workers: int = 1) -> FlakyTests:
        """Begin the sampling of the collected tests."""
        settings = self.settings
        kind = FlakyTests if settings.k is None else AbnormalTests
        self.sampling = sampling = kind(nodeids, settings, workers)
        reporter = self.config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None and reporter.verbosity >= 0:
            limit = "" if settings.seconds is None else f" for up to {duration(settings.seconds)}"
            asked = "flaky" if settings.k is None else "abnormally flaky"
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
            self.ctrl_c.__enter__()  # more of them must not cost the report
            with suppress(StorageFailed):
                self._finish(session, "it was interrupted", in_a_hurry=True)
            raise
        try:
            self._finish(session, NOBODY_LEFT)
        except OddarmsError as error:
            raise pytest.UsageError(f"--oddarms: {error}") from error
        return ended

    def pytest_unconfigure(self) -> None:
        """Obey Ctrl-C again as pytest does."""
        self.ctrl_c.__exit__()

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
        text = to_text(blocks(answer), terminalreporter._tw.fullwidth)
        for line in [*text.splitlines(), *self.written]:
            terminalreporter.write_line(line)
        if os.environ.get("GITHUB_ACTIONS") == "true":
            for line in github_lines(answer, self.config.rootpath):
                terminalreporter.write_line(line)


class CtrlC(Interrupts):
    """Ctrl-C, which ends the run of a test, and the session once; the report is not lost."""

    signals = (signal.SIGINT,)

    def check(self) -> None:
        """Raise KeyboardInterrupt if there was a Ctrl-C."""
        if self.received is not None:
            raise KeyboardInterrupt

    def _receive(self, number: int, _frame: Any) -> None:
        first, self.received = self.received is None, number
        if first and self.at_once:
            raise KeyboardInterrupt


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
        self.hunt.ctrl_c.__enter__()
        if settings.isolate:
            self._isolated(items, sampling)
        else:
            self._here(items, sampling)
        return True

    def _here(self, items: list[pytest.Item], sampling: FlakyTests) -> None:
        last: int | None = None
        self.runner.prepare(items[0].session)
        while True:
            sample = sampling.next(last)
            if sample is None and not sampling.done:
                sample = sampling.between(last) or sampling.next()
            if sample is None:
                return
            last = sample.index
            with self.hunt.ctrl_c.open():
                outcome = self.runner.run(items[last], sample.name)
            sampling.tell(sample, outcome)
            self.hunt.ran()

    def _isolated(self, items: list[pytest.Item], sampling: FlakyTests) -> None:
        config, jobs = self.hunt.config, self.hunt.settings.jobs
        under_way: dict[int, tuple[running.Child, Sample]] = {}
        try:
            while True:
                self.hunt.ctrl_c.check()
                while len(under_way) < jobs and (sample := sampling.next()) is not None:
                    item = items[sample.index]
                    child = running.fork(config, self._work(item, sample.name))
                    under_way[child.pid] = child, sample
                if not under_way:
                    return
                children = [child for child, _ in under_way.values()]
                for child, outcome in [*running.finished(children), *self._overdue(children)]:
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
