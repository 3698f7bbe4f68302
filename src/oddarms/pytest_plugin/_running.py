"""One run of one test, with all its fixtures, in this process."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from oddarms.pytest_plugin._outcomes import Outcome, cut, note_place, outcome_of
from oddarms.pytest_plugin._seeds import Kept, free_hypothesis, reseed, seed_of


class Between(pytest.Item):
    """What pytest is told comes next: nothing that shares a module, class or package.

    So whatever a sample has set up is torn down with it, but for fixtures of the session. After a
    setup that failed these are, too: pytest keeps the error of a fixture with the fixture, and one
    failure would count many times.
    """

    everything = False

    def listchain(self) -> list[Any]:
        """Return what must stay set up."""
        return [] if self.everything else super().listchain()

    def runtest(self) -> None:
        """Do nothing."""


class Runner:
    """A plugin that runs samples instead of tests.

    `pytest_runtest_protocol` is that of pytest, with all that other plugins wrap around it, but
    reports go nowhere; and plugins that would run a failing test again do not come to it.
    """

    def __init__(self, *, fresh: bool = False) -> None:
        self.running = False
        self._outcomes: list[Outcome] = []
        self.name = ""
        """Of the sample that is run; its seed follows from it."""
        self.fresh = fresh
        """Whether fixtures of the session are torn down with every sample, too."""
        self._kept = Kept()
        self._between: Between | None = None
        self._reports: list[pytest.TestReport] = []
        self._beginnings: dict[pytest.Item, tuple[list[Any], list[Any]]] = {}

    def run(self, item: pytest.Item, name: str) -> Outcome:
        """Run a sample of that name; return how it ended."""
        self.name = name
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return self._outcomes.pop()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool:
        """Run one sample; that it returns something keeps other plugins' loops away."""
        self._outcomes.append(self.sample(item))
        return True

    def sample(self, item: pytest.Item) -> Outcome:
        """Run the sample in this process."""
        if self._between is None:
            self._between = Between.from_parent(item.session, name="oddarms")
            _show_no_tracebacks(item.config)
        self._as_at_the_beginning(item)
        self._reports = []
        self.running = True
        self._between.everything = self.fresh
        try:
            reports = runtestprotocol(item, log=False, nextitem=self._between)
        finally:
            self.running = False
        return outcome_of([*self._reports, *reports])

    def _as_at_the_beginning(self, item: pytest.Item) -> None:
        """Undo what an earlier run has left on the item."""
        if item not in self._beginnings:
            self._beginnings[item] = list(item.own_markers), list(item.user_properties)
            free_hypothesis(item)
        item.own_markers[:], item.user_properties[:] = self._beginnings[item]
        item._report_sections.clear()
        if isinstance(item.parent, pytest.Class):  # every run has its own instance of the class
            vars(item).pop("_instance", None)
            vars(item).pop("_obj", None)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Give the setup random numbers of its own."""
        reseed(seed_of(f"{self.name}:setup"))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self) -> None:
        """Give the call random numbers of its own."""
        reseed(seed_of(f"{self.name}:call"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """See a setup fail, before it is torn down, and where a failure is."""
        report = yield
        if call.when == "setup" and report.failed and self._between is not None:
            self._between.everything = True
        if report.failed and call.excinfo is not None:
            note_place(report, item, call.excinfo)
        return report

    def pytest_unconfigure(self) -> None:
        """Leave the random numbers of this process as they were."""
        self._kept.restore()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take reports of subtests, which come while a sample is run."""
        if self.running:
            self._reports.append(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: object) -> tuple[str, str, str] | None:
        """Show no single run on the terminal."""
        return ("", "", "") if isinstance(report, pytest.TestReport) else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Tear down fixtures of the session; what that raises must not cost the answer."""
        try:
            session._setupstate.teardown_exact(None)
        except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
            reporter = session.config.pluginmanager.getplugin("terminalreporter")
            if reporter is not None:
                reporter.ensure_newline()
                said = cut(f"{type(error).__name__}: {error}")
                reporter.write_line(f"a fixture of the session failed at its teardown: {said}")


def _show_no_tracebacks(config: pytest.Config) -> None:
    """Spare pytest tracebacks that nobody sees: of a failure, its place and first line are kept.

    Those of errors in the collection, which is over now, are as they were.
    """
    config.option.tbstyle = "value"
    config.option.fulltrace = False


def keep_little(config: pytest.Config) -> None:
    """Keep temporary folders of runs that failed only, as there are so many runs."""
    factory = getattr(config, "_tmp_path_factory", None)
    if getattr(factory, "_retention_policy", None) == "all":
        factory._retention_policy = "failed"  # type: ignore[union-attr]
