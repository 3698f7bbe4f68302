"""One run of one test, with all its fixtures, in this process; and what came of it.

Every run has random numbers of its own. A test whose random numbers are the same in every run
cannot fail by chance, and samples of it are not independent. Each run has a name (which search,
which test, which run of it), and its seed is a hash of that, so a run of pytest with the same
`--oddarms-seed` makes the same choices.
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

_PLACE = "oddarms_place"
MAX_CHARACTERS = 300
"""Of what is kept of a failure."""


class Verdict(StrEnum):
    """How a run ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Outcome:
    """How a run ended, why, and how long it took."""

    verdict: Verdict
    text: str = ""
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """True if the run failed: the reward is 1 then, else 0."""
        return self.verdict is Verdict.FAILED

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for another process."""
        return {"verdict": self.verdict.value, "text": self.text, "seconds": self.seconds}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Outcome:
        """Return what `to_dict` was made of."""
        return cls(Verdict(values["verdict"]), str(values["text"]), float(values["seconds"]))


def outcome_of(reports: Iterable[pytest.TestReport]) -> Outcome:
    """Return the outcome of a run from the reports of its phases, and of its subtests.

    It failed if any of them did: setup and teardown count. A failure that was expected (xfail) is
    a pass, and a pass that was not, where xfail is strict, a failure: pytest decides both.
    """
    reports = list(reports)
    seconds = sum(report.duration for report in reports)
    failed = next((report for report in reports if report.failed), None)
    if failed is not None:
        return Outcome(Verdict.FAILED, _text(failed), seconds)
    skipped = next((r for r in reports if r.skipped and not hasattr(r, "wasxfail")), None)
    if skipped is not None:
        return Outcome(Verdict.SKIPPED, _reason(skipped), seconds)
    return Outcome(Verdict.PASSED, "", seconds)


def _text(report: pytest.TestReport) -> str:
    """Return a failure in a line: where, and the first line of the exception."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        first = str(crash.message).strip().split("\n")[0]
        path, line = getattr(report, _PLACE, (crash.path, crash.lineno))
        text = f"{_short(str(path))}:{line}: {first}"
    else:
        lines = [line for line in str(report.longrepr or "").split("\n") if line.strip()]
        errors = [line.removeprefix("E ") for line in lines if line.startswith("E ")]
        text = (errors or lines[-1:] or ["failed"])[0].strip()
    when = "" if report.when == "call" else f"{report.when}: "
    return cut(f"{when}{text}")


def note_place(
    report: pytest.TestReport, item: pytest.Item, error: pytest.ExceptionInfo[BaseException]
) -> None:
    """Note on a report where its test has failed: not in unittest, where its assertions are."""
    entries = item._traceback_filter(error)
    own = [entry for entry in entries if "__unittest" not in entry.frame.f_globals]
    if own:
        setattr(report, _PLACE, (own[-1].path, own[-1].lineno + 1))


def _short(path: str) -> str:
    """Return a path as seen from here, if it is below."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except (OSError, ValueError):
        return path


def _reason(report: pytest.TestReport) -> str:
    """Return why a test was skipped."""
    if isinstance(report.longrepr, tuple):
        return cut(str(report.longrepr[2]).removeprefix("Skipped: "))
    return cut(str(report.longrepr or ""))


def cut(text: str) -> str:
    """Return the beginning of a text."""
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}..."


# Random numbers


def seed_of(name: str) -> int:
    """Return 64 bits that a name decides."""
    return int.from_bytes(hashlib.sha256(name.encode(errors="backslashreplace")).digest()[:8])


def reseed(seed: int) -> None:
    """Set the state of all global generators that this process has loaded."""
    random.seed(seed)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(seed % 2**32)
    core: Any = sys.modules.get("hypothesis.core")
    if core is not None:
        # also keeps it from replaying failures of earlier samples from its database
        core.global_force_seed = seed


class Kept:
    """The global generators as they are now, to leave them so in the end."""

    def __init__(self) -> None:
        self._random = random.getstate()
        self._core: Any = sys.modules.get("hypothesis.core")
        self._forced = getattr(self._core, "global_force_seed", None)

    def restore(self) -> None:
        """Put back what was there."""
        random.setstate(self._random)
        core: Any = self._core or sys.modules.get("hypothesis.core")
        if core is not None:
            core.global_force_seed = self._forced


def free_hypothesis(item: pytest.Item) -> None:
    """Let a Hypothesis test draw other examples in every run, on another instance of its class.

    Its profile for CI makes all runs alike (``derandomize``). A seed that the test's author gave
    it stays, as everything that a test does by itself.
    """
    hypothesis = sys.modules.get("hypothesis")
    if hypothesis is None:
        return
    test = getattr(item, "obj", None)
    function: Any = getattr(test, "__func__", test)
    present = getattr(function, "_hypothesis_internal_use_settings", None)
    if present is not None:
        function._hypothesis_internal_use_settings = _freed(hypothesis, present)
    machine: Any = getattr(item, "cls", None)
    if isinstance(getattr(machine, "settings", None), hypothesis.settings):
        machine.settings = _freed(hypothesis, machine.settings)


def _freed(hypothesis: Any, settings: Any) -> Any:
    check = hypothesis.HealthCheck.differing_executors
    return hypothesis.settings(
        settings,
        derandomize=False,
        database=None,
        suppress_health_check={check, *settings.suppress_health_check},
    )


def leave_seeds_alone(config: pytest.Config) -> None:
    """Keep pytest-randomly from giving every run the same random numbers."""
    if hasattr(config.option, "randomly_reset_seed"):
        config.option.randomly_reset_seed = False


# Runs


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
