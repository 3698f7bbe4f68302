"""One run of one test, with all its fixtures, in this process or in one of its own.

Every run has random numbers of its own. A test whose random numbers are the same in every run
cannot fail by chance, and its runs are not independent. Each run has a name (which session, which
test, which run of it), and its seed is a hash of that, so a session with the same `--oddarms-seed`
makes the same choices.

A process for one run is forked from one that has collected the tests and has run none: modules are
imported, no fixture is set up. It runs one test, writes the outcome to a pipe and exits. A process
that ends without an outcome (the interpreter crashed, a test called `os._exit`) is a failed run.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import random
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import astuple, dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from oddarms.pytest_plugin._flakiness import Tally, Where, alone_next

_PLACE = "oddarms_place"
MAX_CHARACTERS = 300
"""Of what is kept of a failure."""
INTERRUPTED = 130
"""The exit code of a child that Ctrl-C has reached."""
LOOK_SECONDS = 0.2
"""Between two looks at children that say nothing."""
ALONE_SECONDS = 60.0
"""A run alone that takes this much longer than ten times the longest one is given up."""


class Clock:
    """The real time, also while a test replaces `time.monotonic`."""

    now = staticmethod(time.monotonic)


class Status(StrEnum):
    """How a run ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Outcome:
    """How a run ended, why, how long it took, and where it ran."""

    status: Status
    text: str = ""
    seconds: float = 0.0
    where: Where = Where.ALONE

    @property
    def failed(self) -> bool:
        """True if the run failed: the reward is 1 then, else 0."""
        return self.status is Status.FAILED

    def to_json(self) -> str:
        """Return a line for another process."""
        return json.dumps(astuple(self)) + "\n"

    @classmethod
    def from_json(cls, line: str | bytes) -> Outcome:
        """Return the outcome that `to_json` wrote."""
        status, text, seconds, where = json.loads(line)
        return cls(Status(status), text, seconds, Where(where))


def outcome_of(reports: Iterable[pytest.TestReport]) -> Outcome:
    """Return the outcome of a run from the reports of its phases, and of its subtests.

    It failed if any of them did: setup and teardown count. pytest decides that an expected failure
    (xfail) is a pass, and an unexpected pass under `strict` a failure.
    """
    reports = list(reports)
    failed = next((report for report in reports if report.failed), None)
    if failed is not None:
        return Outcome(Status.FAILED, _text(failed))
    skipped = next((r for r in reports if r.skipped and not hasattr(r, "wasxfail")), None)
    if skipped is not None:
        return Outcome(Status.SKIPPED, _reason(skipped))
    return Outcome(Status.PASSED)


def _text(report: pytest.TestReport) -> str:
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
    """Note on a report where its test failed; a frame of unittest itself is of no use."""
    entries = item._traceback_filter(error)
    own = [
        entry
        for entry in entries
        if "__unittest" not in (names := entry.frame.f_globals) and names is not globals()
    ]
    if own:
        setattr(report, _PLACE, (own[-1].path, own[-1].lineno + 1))


def _short(path: str) -> str:
    """Return a path below the working directory as a relative one."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except (OSError, ValueError):
        return path


def _reason(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return cut(str(report.longrepr[2]).removeprefix("Skipped: "))
    return cut(str(report.longrepr or ""))


def cut(text: str) -> str:
    """Return the beginning of a text."""
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}..."


# Random numbers


def seed_of(name: str) -> int:
    """Return 64 bits of the hash of a name."""
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


def free_hypothesis(item: pytest.Item) -> None:
    """Let a Hypothesis test draw other examples in every run, on another instance of its class.

    Its profile for CI makes all runs alike (``derandomize``). A seed that the test's author set
    stays.
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


# Runs


class Between(pytest.Item):
    """The next item for pytest's teardown: one that shares no module, class or package.

    So pytest tears down all fixtures of a sample but those of the session. Folders without
    fixtures stay, as pytest takes long to set them up. After a failed setup everything is torn
    down: pytest keeps the error with the fixture, and one failure would count many times.
    """

    everything = False

    def listchain(self) -> list[Any]:
        """Return the nodes that stay set up."""
        stack = self.session._setupstate.stack

        def is_plain(node: Any) -> bool:
            folder = isinstance(node, pytest.Directory) and len(stack[node][0]) == 1  # no fixtures
            return folder or node is self.session

        return [] if self.everything else list(takewhile(is_plain, stack))

    def runtest(self) -> None:
        """Do nothing."""


class ProcessExit(BaseException):
    """A test called `os._exit`, which would have ended pytest."""

    __module__ = "builtins"  # so that messages have its name alone


@contextmanager
def _no_exit() -> Iterator[None]:
    """A block in which `os._exit` fails the test instead; processes that it forks may use it."""
    process, leave = os.getpid(), os._exit

    def refuse(status: int) -> None:
        if os.getpid() != process:
            leave(status)
        raise ProcessExit(f"os._exit({status}) was called")

    os._exit = refuse  # type: ignore[assignment]
    try:
        yield
    finally:
        os._exit = leave


class Runner:
    """A plugin that runs samples instead of tests.

    `pytest_runtest_protocol` runs as in pytest, with the hooks of other plugins around it, but
    drops the reports; plugins that rerun failing tests are not called. With `isolate` every run
    has its own process and tears down fixtures of the session.
    """

    def __init__(self, *, isolate: bool = False) -> None:
        self.isolate = isolate
        self.running = False
        self.name = ""
        """Of the run; its seed follows from it."""
        self._outcomes: list[Outcome] = []
        self._random = random.getstate()
        self._forced = getattr(sys.modules.get("hypothesis.core"), "global_force_seed", None)
        self._between: Between | None = None
        self._reports: list[pytest.TestReport] = []
        self._beginnings: dict[pytest.Item, tuple[list[Any], list[Any]]] = {}
        self._tallies: dict[pytest.Item, tuple[Tally, Tally, Tally]] = {}
        self._spare: Spare | None = None

    def prepare(self, session: pytest.Session) -> None:
        """Fork a process before the first test, for runs alone."""
        if not self.isolate and hasattr(os, "fork"):
            self._spare = Spare(session, self._alone)

    def run(self, item: pytest.Item, name: str) -> Outcome:
        """Make a run of that name; return how it ended."""
        self.name = name
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return self._outcomes.pop()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool:
        """Make one run; the return value keeps pytest from running the test as well."""
        self._outcomes.append(self.sample(item))
        return True

    def sample(self, item: pytest.Item) -> Outcome:
        """Make the run here, or alone where its outcome would say more."""
        if self.isolate:
            return self._here(item, self.name)
        first, again, alone = self._tallies.setdefault(item, (Tally(), Tally(), Tally()))
        if self._spare is not None and alone_next(first, again, alone):
            outcome = self._spare.run(item, self.name)
            if outcome is not None:
                alone.add(failed=outcome.failed)
                return outcome
        where, tally = (Where.AGAIN, again) if first.runs else (Where.FIRST, first)
        outcome = replace(self._here(item, self.name), where=where)
        tally.add(failed=outcome.failed)
        return outcome

    def _alone(self, item: pytest.Item, name: str) -> Outcome:
        self.isolate = True
        return self._here(item, name)

    def _here(self, item: pytest.Item, name: str) -> Outcome:
        self.name = name
        if self._between is None:
            self._between = Between.from_parent(item.session, name="oddarms")
            # no tracebacks: only the place and first line of a failure are kept
            item.config.option.tbstyle, item.config.option.fulltrace = "value", False
        self._as_at_the_beginning(item)
        self._reports = []
        self.running = True
        self._between.everything = self.isolate
        item.session._setupstate.teardown_exact(item)  # folders that it is not in
        began = Clock.now()
        try:
            with nullcontext() if self.isolate else _no_exit():
                reports = runtestprotocol(item, log=False, nextitem=self._between)
        finally:
            self.running = False
        outcome = outcome_of([*self._reports, *reports])
        return replace(outcome, seconds=max(Clock.now() - began, 0.0))

    def _as_at_the_beginning(self, item: pytest.Item) -> None:
        """Remove what an earlier run has left on the item."""
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
        """Seed the run; a fixture may set another seed."""
        reseed(seed_of(self.name))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note a failed setup before its teardown, and the place of a failure."""
        report = yield
        if call.when == "setup" and report.failed and self._between is not None:
            self._between.everything = True
        if report.failed and call.excinfo is not None:
            note_place(report, item, call.excinfo)
        return report

    def pytest_unconfigure(self) -> None:
        """Restore the random state of this process, and end the spare process."""
        random.setstate(self._random)
        core: Any = sys.modules.get("hypothesis.core")
        if core is not None:
            core.global_force_seed = self._forced
        if self._spare is not None:
            self._spare.close()

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
        """Tear down fixtures of the session; an error there does not lose the answer."""
        try:
            session._setupstate.teardown_exact(None)
        except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
            reporter = session.config.pluginmanager.getplugin("terminalreporter")
            if reporter is not None:
                reporter.ensure_newline()
                said = cut(f"{type(error).__name__}: {error}")
                reporter.write_line(f"a fixture of the session failed at its teardown: {said}")


# Processes of their own

Work = Callable[[], Outcome]


@dataclass
class Child:
    """A process that makes one run, and writes its outcome as one short line."""

    pid: int
    pipe: int
    began: float
    ended: bool = False


def fork(config: pytest.Config, work: Work, *, group: bool = True) -> Child:
    """Begin a process that does the work and writes its outcome.

    Ctrl-C at the terminal does not reach a process `group` of its own: the parent ends it.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the child needs no other thread
        pid = os.fork()
    if pid == 0:
        os.close(reading)
        _be_child(config, work, writing, group=group)
    os.close(writing)
    return Child(pid, reading, Clock.now())


def _be_child(config: pytest.Config, work: Work, pipe: int, *, group: bool) -> None:
    """Do the work and end this process, whatever happens."""
    code, leave = 1, os._exit
    faulthandler.disable()  # that it crashed is told in the answer, not by a dump of each crash
    try:
        _obey_signals()
        if group:
            os.setpgid(0, 0)
        capture = config.pluginmanager.getplugin("capturemanager")
        if capture is not None and capture.is_globally_capturing():
            capture.stop_global_capturing()  # its files are shared with the parent
            capture.start_global_capturing()
        try:
            outcome = work()
        except KeyboardInterrupt:
            leave(INTERRUPTED)
        except BaseException as error:
            outcome = Outcome(Status.FAILED, cut(f"{type(error).__name__}: {error}"))
        os.write(pipe, outcome.to_json().encode())
        code = 0
    finally:
        leave(code)


def _obey_signals() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def detached(work: Callable[[], None]) -> int:
    """Begin a process; return its number, which is also that of its process group.

    It is no child of this process: tests that wait for all of their children do not wait for it.
    """
    reading, writing = os.pipe()
    leave = os._exit
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        between = os.fork()
    if between == 0:
        try:
            if os.fork() == 0:
                os.setpgid(0, 0)
                _obey_signals()
                os.write(writing, str(os.getpid()).encode())
                os.close(reading)
                os.close(writing)
                work()
        finally:
            leave(0)
    os.close(writing)
    os.waitpid(between, 0)
    with os.fdopen(reading) as pipe:
        return int(pipe.read())


def finished(children: list[Child]) -> list[tuple[Child, Outcome]]:
    """Wait a moment for children that are done; return them."""
    ready, _, _ = select.select([child.pipe for child in children], [], [], LOOK_SECONDS)
    done = []
    for child in children:
        # one that left a process behind has its pipe open, though it is dead
        if child.pipe in ready or os.waitid(
            os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
        ):
            outcome = _read(child)
            seconds = max(Clock.now() - child.began, 0.0)
            done.append((child, replace(outcome, seconds=seconds)))
    return done


def _line(pipe: int, seconds: float) -> bytes:
    """Return the line that another process writes; nothing if it ends or takes too long."""
    ready = select.select([pipe], [], [], max(seconds, 0.0))[0]
    return os.read(pipe, 65536) if ready else b""


def _read(child: Child) -> Outcome:
    """Return the outcome that a finished child wrote, or how it ended."""
    written = _line(child.pipe, 0.0)
    code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
    child.ended = True
    os.close(child.pipe)
    if written.endswith(b"\n"):
        return Outcome.from_json(written)
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    return Outcome(Status.FAILED, _how_it_ended(code))


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"the process ended with exit code {code} and without a result"
    try:
        return f"the process was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"the process was ended by signal {-code}"


def end(children: Iterable[Child]) -> None:
    """Kill children that are still running, with the processes that they started."""
    for child in children:
        if child.ended:
            continue
        child.ended = True
        for kill in (os.killpg, os.kill):  # the group, or a child that is not in it yet
            with suppress(ProcessLookupError, PermissionError):
                kill(child.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(child.pid, 0)
        os.close(child.pipe)


def in_a_fork(config: pytest.Config, work: Work, *, group: bool = True) -> Outcome:
    """Do the work in a process of its own and wait for the outcome."""
    child = fork(config, work, group=group)
    try:
        while not (done := finished([child])):
            pass
        return done[0][1]
    except BaseException:
        end([child])
        raise


class Spare:
    """A process in which no test has run, kept to fork runs alone from it."""

    def __init__(self, session: pytest.Session, run: Callable[[pytest.Item, str], Outcome]) -> None:
        self._items = {item: number for number, item in enumerate(session.items)}
        self._longest = 0.0
        orders, self._orders = os.pipe()
        self._answers, answers = os.pipe()

        def serve() -> None:
            os.close(self._orders)
            os.close(self._answers)
            _serve(session, run, orders, answers)

        self._pid = detached(serve)
        os.close(orders)
        os.close(answers)

    def run(self, item: pytest.Item, name: str) -> Outcome | None:
        """Make a run alone; None if that is not possible any more."""
        number = self._items.get(item)
        if not self._pid or number is None:
            return None
        began = Clock.now()
        try:
            os.write(self._orders, json.dumps([number, name]).encode() + b"\n")
            answer = _line(self._answers, ALONE_SECONDS + 10.0 * self._longest)
        except OSError:
            answer = b""
        except BaseException:
            self.close()
            raise
        if not answer.endswith(b"\n"):
            self.close()
            return None
        seconds = max(Clock.now() - began, 0.0)
        self._longest = max(self._longest, seconds)
        return replace(Outcome.from_json(answer), seconds=seconds)

    def close(self) -> None:
        """End the process, and a run that it has under way."""
        if self._pid:
            pid, self._pid = self._pid, 0
            end([Child(pid, self._answers, 0.0)])
            os.close(self._orders)


def _serve(
    session: pytest.Session,
    run: Callable[[pytest.Item, str], Outcome],
    orders: int,
    answers: int,
) -> None:
    """Run tests alone, each in its own process, until the pipe of orders is closed."""
    with os.fdopen(orders) as lines, os.fdopen(answers, "wb", buffering=0) as out:
        for line in lines:
            number, name = json.loads(line)
            work = partial(run, session.items[number], name)
            outcome = in_a_fork(session.config, work, group=False)
            out.write(outcome.to_json().encode())
