"""The processes of commands: all are ended, whatever happens, and none that is somebody else's."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oddarms.arms import Command, _guardian, _output, _running, _supervisor
from oddarms.errors import PullFailed
from processes import insist, is_running, mark, marked, wait_until

__all__ = ["mark"]

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc"),
    pytest.mark.usefixtures("mark"),
]
STUBBORN = "trap '' TERM; while :; do sleep 600; done"
STRAY = "setsid sh -c \"trap '' TERM; while :; do sleep 600; done\" & "


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_running, "GRACE_SECONDS", 0.2)


class Pulls:
    """Pulls in threads of their own, and what became of them."""

    def __init__(self, pull: Command, scripts: list[str], folder: Path) -> None:
        self.pull = pull
        self.outcomes: list[object] = []
        self.ready = [folder / f"ready{i}" for i in range(len(scripts))]
        pairs = zip(scripts, self.ready, strict=True)
        self.threads = [
            threading.Thread(target=self._run, args=(f"{script} ", ready), daemon=True)
            for script, ready in pairs
        ]
        for thread in self.threads:
            thread.start()
        wait_until(lambda: all(path.exists() for path in self.ready))
        wait_until(lambda: len(pull._commands.running) == len(scripts))

    def _run(self, script: str, ready: Path) -> None:
        try:
            self.outcomes.append(self.pull(script.replace("READY", f"touch {ready}")))
        except PullFailed as error:
            self.outcomes.append(str(error))

    def join(self) -> list[object]:
        for thread in self.threads:
            thread.join(60.0)
            assert not thread.is_alive()
        return self.outcomes


def ready(script: str) -> str:
    """Let a script say that its traps are set."""
    return script.replace("; while", "; READY; while", 1)


# Stopping


def test_all_commands_are_ended_at_the_same_time(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_running, "GRACE_SECONDS", 1.5)
    pulls = Pulls(Command('eval "$1"', shell=True), [ready(STUBBORN)] * 8, tmp_path)
    started = time.monotonic()
    pulls.pull.stop()
    assert time.monotonic() - started < 10.0  # one after another would take 12 s
    assert not marked(mark)
    outcomes = pulls.join()
    assert len(outcomes) == 8
    assert all("the command was stopped" in str(outcome) for outcome in outcomes)


@pytest.mark.parametrize("code", [0, 1])
def test_how_a_stopped_command_ends_is_no_reward(tmp_path: Path, code: int) -> None:
    script = f"trap 'exit {code}' TERM; READY; while :; do sleep 0.02; done"
    pulls = Pulls(Command('eval "$1"', shell=True), [script], tmp_path)
    pulls.pull.stop()
    assert "the command was stopped" in str(pulls.join()[0])


def test_at_once_means_that_nobody_is_asked(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    script = f"trap 'touch {asked}' TERM; READY; while :; do sleep 0.02; done"
    pulls = Pulls(Command('eval "$1"', shell=True), [script], tmp_path)
    pulls.pull.stop(at_once=True)
    assert "the command was stopped" in str(pulls.join()[0])
    assert not asked.exists()


@pytest.mark.usefixtures("short_grace")
@pytest.mark.parametrize("at_once", [False, True])
def test_what_is_in_a_session_of_its_own_is_stopped_too(
    mark: str, tmp_path: Path, at_once: bool
) -> None:
    pulls = Pulls(Command('eval "$1"', shell=True), [STRAY + ready(STUBBORN)], tmp_path)
    wait_until(lambda: len(marked(mark)) >= 4)
    pulls.pull.stop(at_once=at_once)
    pulls.join()
    assert not marked(mark)


@pytest.mark.usefixtures("short_grace")
def test_after_a_timeout_nothing_is_left(mark: str) -> None:
    with pytest.raises(PullFailed, match="took longer"):
        Command('eval "$1"', shell=True, timeout=0.3)(STRAY + STUBBORN)
    assert not marked(mark)


def test_a_command_that_prints_at_its_end_is_not_held_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = tmp_path / "done"
    monkeypatch.setattr(_running, "GRACE_SECONDS", 60.0)
    trapped = tmp_path / "trapped"
    script = (
        f"trap 'head -c 300000 /dev/zero >&2; touch {done}; exit' TERM; touch {trapped};"
        " while :; do sleep 0.02; done"
    )
    for timeout in (0.5, 5.0, 60.0):
        with pytest.raises(PullFailed, match="took longer"):
            Command('eval "$1"', shell=True, timeout=timeout)(script)
        if trapped.exists():
            break
    assert done.exists()


def test_other_commands_go_on_when_some_are_stopped(mark: str, tmp_path: Path) -> None:
    stopped = Pulls(Command('eval "$1"', shell=True), ["READY; sleep 600"], tmp_path)
    (tmp_path / "other").mkdir()
    other = Pulls(Command('eval "$1"', shell=True), ["READY; sleep 600"], tmp_path / "other")
    stopped.pull.stop()
    stopped.join()
    assert other.threads[0].is_alive()
    assert len(marked(mark)) >= 1
    other.pull.stop()
    other.join()


def test_who_does_not_wait_for_the_end_has_them_killed(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_running, "GRACE_SECONDS", 60.0)
    pulls = Pulls(Command('eval "$1"', shell=True), [ready(STUBBORN)], tmp_path)

    def interrupted(seconds: float) -> None:
        """Get Ctrl-C in the wait, as elsewhere a file might just be open."""
        if threading.current_thread() is threading.main_thread():
            signal.raise_signal(signal.SIGINT)
        time.sleep(seconds)

    monkeypatch.setattr(_running, "end", functools.partial(_running.end, pause=interrupted))
    with pytest.raises(KeyboardInterrupt):
        pulls.pull.stop()
    assert "was stopped" in str(pulls.join()[0])
    wait_until(lambda: not marked(mark))


SEARCHING = """
import sys, oddarms
from oddarms.arms import Command, Function
oddarms.find(Function(Command(sys.argv[1], shell=True), "abc"), k=1, jobs=2)
"""


@pytest.mark.long
def test_a_second_ctrl_c_does_not_hang_a_search_in_python(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = STUBBORN.replace("TERM;", "TERM; touch ready.$$;", 1)
    with subprocess.Popen(
        [sys.executable, "-c", SEARCHING, script], stderr=subprocess.DEVNULL
    ) as process:
        try:
            wait_until(lambda: len(list(tmp_path.glob("ready.*"))) >= 2)
            process.send_signal(signal.SIGINT)
            assert insist(process, signal.SIGINT) != 0
        finally:
            process.kill()
    wait_until(lambda: not marked(mark))


# After a normal end


def test_after_a_normal_end_a_session_of_its_own_is_left_alone_and_can_print(
    mark: str, tmp_path: Path
) -> None:
    said, begun, go = tmp_path / "said", tmp_path / "begun", tmp_path / "go"
    daemon = (
        f"touch {begun}; while ! test -e {go}; do sleep 0.02; done;"
        f" head -c 300000 /dev/zero; echo done >&2; echo $? > {said}"
    )
    script = f"setsid sh -c '{daemon}' & while ! test -e {begun}; do sleep 0.02; done; echo 0.5"
    assert Command('eval "$1"', shell=True, reward="stdout")(script) == 0.5
    assert marked(mark)
    go.touch()
    wait_until(lambda: said.exists() and said.read_text() == "0\n")


def test_what_a_command_leaves_in_its_group_has_a_moment_to_end(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_running, "GRACE_SECONDS", 60.0)
    polite, ready = tmp_path / "polite", tmp_path / "ready"
    left = f"trap 'touch {polite}; exit' TERM; touch {ready}; while :; do sleep 0.01; done"
    script = f'sh -c "{left}" & while ! test -e {ready}; do sleep 0.01; done'
    assert Command('eval "$1"', shell=True)(script) == 0.0
    assert polite.exists()
    monkeypatch.setattr(_running, "GRACE_SECONDS", 0.2)
    assert Command('eval "$1"', shell=True)(f"({STUBBORN}) &") == 0.0
    assert not marked(mark)


# What is printed


def test_what_is_printed_takes_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "no such folder"))
    most = 0
    read = _output.Output.read

    def watched(self: _output.Output) -> bool:
        nonlocal most
        more = read(self)
        most = max(most, len(self._kept))
        return more

    monkeypatch.setattr(_output.Output, "read", watched)
    script = "head -c 100000000 /dev/zero >&2; head -c 100000000 /dev/zero; echo; echo 0.25"
    assert Command('eval "$1"', shell=True, reward="stdout")(script) == 0.25
    assert 0 < most <= 2 * _output.TAIL_BYTES


def test_the_last_line_counts_however_late_it_is() -> None:
    script = "head -c 65000 /dev/zero; echo; printf 0.75"
    for _ in range(20):
        assert Command('eval "$1"', shell=True, reward="stdout")(script) == 0.75


def test_no_descriptor_is_left_open() -> None:
    pull = Command('eval "$1"', shell=True, reward="stdout")
    pull("echo 1")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        pull("echo 1")
        with pytest.raises(Exception, match="started"):
            Command("no-such-command")("x")
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before)


# Systems that tell less


def without_handles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)


def without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    without_handles(monkeypatch)
    monkeypatch.setattr(_supervisor, "HAS_PROC", False)
    monkeypatch.setattr(_running, "HAS_PROC", False)


def without_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    without_proc(monkeypatch)
    monkeypatch.delattr(os, "waitid", raising=False)


@pytest.mark.usefixtures("short_grace")
@pytest.mark.parametrize("less", [without_handles, without_proc, without_looking])
def test_commands_run_and_end_where_the_system_tells_less(
    mark: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    less: Callable[[pytest.MonkeyPatch], None],
) -> None:
    less(monkeypatch)
    assert Command('eval "$1"', shell=True, reward="stdout")("sleep 0.01; echo 0.5") == 0.5
    assert Command("false")("x") == 1.0
    with pytest.raises(PullFailed, match="took longer"):
        Command('eval "$1"', shell=True, timeout=0.2)(STUBBORN)
    pulls = Pulls(Command('eval "$1"', shell=True), [ready(STUBBORN)], tmp_path)
    pulls.pull.stop()
    assert "was stopped" in str(pulls.join()[0])
    wait_until(lambda: not marked(mark))


def test_an_exit_code_that_got_lost_is_no_reward() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with pytest.raises(PullFailed, match="unknown exit code"):
            Command("false")("x")
    finally:
        signal.signal(signal.SIGCHLD, before)


# The supervisor


@pytest.fixture
def guardian(monkeypatch: pytest.MonkeyPatch) -> Iterator[_guardian.Guardian]:
    """A guardian of the test's own."""
    fresh = _guardian.Guardian()
    monkeypatch.setattr(_running, "guardian", fresh)
    yield fresh
    fresh.close()


def test_the_supervisor_keeps_nothing_open_and_ends(guardian: _guardian.Guardian) -> None:
    assert Command("true")("x") == 0.0
    process = guardian._process
    assert process is not None
    folder = Path(f"/proc/{process.pid}/fd")
    wait_until(lambda: len(list(folder.iterdir())) == 3)
    links = [os.readlink(folder / name) for name in "012"]
    assert links[1:] == [os.devnull] * 2
    assert links[0].startswith("pipe:")
    assert os.getsid(process.pid) == process.pid
    guardian.close()
    assert process.returncode == 0


def test_a_supervisor_that_dies_is_replaced(guardian: _guardian.Guardian, tmp_path: Path) -> None:
    pulls = Pulls(Command('eval "$1"', shell=True), ["READY; sleep 600"], tmp_path)
    first = guardian._process
    assert first is not None
    first.kill()
    first.wait()
    assert Command("true")("x") == 0.0
    assert Command("true")("x") == 0.0
    second = guardian._process
    assert second is not None
    assert second.pid != first.pid
    assert second.poll() is None
    guardian.close()  # and knows of commands that ran before
    assert "SIGKILL" in str(pulls.join()[0])


def test_a_supervisor_that_hangs_is_replaced(
    guardian: _guardian.Guardian, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_guardian, "WRITE_SECONDS", 0.05)
    assert Command("true")("x") == 0.0
    first = guardian._process
    assert first is not None
    first.send_signal(signal.SIGSTOP)
    assert guardian._pipe is not None
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(guardian._pipe, b"- nothing\n")
    assert Command("true")("x") == 0.0
    assert first.returncode == -signal.SIGKILL
    assert Command("true")("x") == 0.0
    assert guardian._process is not first


@pytest.mark.parametrize("python", ["", "/no/such/python", "/bin/false"])
def test_without_a_supervisor_commands_run(
    guardian: _guardian.Guardian, monkeypatch: pytest.MonkeyPatch, python: str
) -> None:
    monkeypatch.setattr(sys, "executable", python)
    for _ in range(30):
        assert Command("true")("x") == 0.0
    assert guardian._starts <= _guardian.MOST_STARTS


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_supervisor_ends_with_its_process_only(
    guardian: _guardian.Guardian, number: signal.Signals
) -> None:
    Command("true")("x")
    process = guardian._process
    assert process is not None
    status = Path(f"/proc/{process.pid}/status")
    wait_until(lambda: _ignored(status.read_text()) & (1 << (number - 1)))
    process.send_signal(number)
    Command("true")("x")
    assert process.poll() is None


def _ignored(status: str) -> int:
    line = next(line for line in status.splitlines() if line.startswith("SigIgn:"))
    return int(line.split("\t")[1], 16)


# The process is killed


PULLING = """
import sys, threading
from oddarms.arms import Command
pull = Command('eval "$1"', shell=True)
for script in sys.argv[1:]:
    threading.Thread(target=pull, args=(script,)).start()
"""


def killed_while_it_pulls(code: str, *scripts: str, ready: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", code, *scripts])
    try:
        wait_until(ready.exists)
    finally:
        process.kill()
        process.wait()


def test_commands_die_with_the_process(mark: str, tmp_path: Path) -> None:
    path = tmp_path / "ready"
    script = STRAY + STUBBORN.replace("; while", f"; sleep 600 & touch {path}; while", 1)
    killed_while_it_pulls(PULLING, script, "sleep 600", ready=path)
    wait_until(lambda: not marked(mark))


FORKING = """
import os, sys, threading, time
from oddarms.arms import Command
pull = Command('eval "$1"', shell=True)
threading.Thread(target=pull, args=(sys.argv[1],)).start()
while not pull._commands.running:
    time.sleep(0.01)
if os.fork() == 0:
    assert not pull._commands.running
    pull.stop()
    assert pull("true") == 0.0
    open(sys.argv[2], "w").close()
    time.sleep(600)
"""


def test_a_fork_that_lives_on_does_not_keep_them_alive(mark: str, tmp_path: Path) -> None:
    path, alone = tmp_path / "forked", tmp_path / "pid"
    code = FORKING.replace("time.sleep(600)", f"open({str(alone)!r}, 'w').write(str(os.getpid()))")
    code += "    time.sleep(600)\n"
    process = subprocess.Popen([sys.executable, "-c", code, "exec sleep 600", str(path)])
    try:
        wait_until(lambda: alone.exists() and alone.read_text())
        commands = [pid for pid in marked(mark) if _name(pid) == "sleep"]
        assert len(commands) == 1  # `stop` in the fork has not ended it
    finally:
        process.kill()
        process.wait()
    fork = int(alone.read_text())
    try:
        wait_until(lambda: not is_running(commands[0]))
        assert is_running(fork)
    finally:
        os.kill(fork, signal.SIGKILL)


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def test_a_command_that_pulls_itself_ends_its_own(mark: str, tmp_path: Path) -> None:
    path = tmp_path / "ready"
    pull = Command('eval "$1"', shell=True)
    inner = f"{sys.executable} -c {shlex.quote(PULLING)} 'touch {path}; sleep 600'"
    pulls = Pulls(pull, [f"READY; exec {inner}"], tmp_path)
    wait_until(path.exists)
    pull.stop(at_once=True)
    pulls.join()
    wait_until(lambda: not marked(mark))
