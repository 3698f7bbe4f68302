"""The processes of commands: a signal, a timeout and a normal end leave none of a group behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import pytest

from helpers import quick_and_long
from oddarms.arms import Command
from oddarms.errors import InvalidParameter, PullFailed
from processes import insist, mark, marked, wait_until

__all__ = ["mark"]

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc"),
    pytest.mark.usefixtures("mark"),
]
STUBBORN = "trap '' TERM INT HUP; sh -c 'sleep 600 & wait' & READY; while :; do sleep 600; done"
"""A command that ignores signals, with a child and a grandchild."""


class Pulls:
    """Pulls in threads of their own, and what became of them."""

    def __init__(self, pull: Command, scripts: list[str], folder: Path) -> None:
        self.pull = pull
        self.outcomes: list[object] = []
        ready = [folder / f"ready{i}" for i in range(len(scripts))]
        self.threads = [
            threading.Thread(
                target=self._run, args=(script.replace("READY", f"touch {path}"),), daemon=True
            )
            for script, path in zip(scripts, ready, strict=True)
        ]
        for thread in self.threads:
            thread.start()
        wait_until(lambda: all(path.exists() for path in ready))

    def _run(self, script: str) -> None:
        try:
            self.outcomes.append(self.pull(script))
        except PullFailed as error:
            self.outcomes.append(str(error))

    def join(self) -> list[object]:
        for thread in self.threads:
            thread.join(60.0)
            assert not thread.is_alive()
        return self.outcomes


# Stopping


def test_all_commands_are_ended_at_the_same_time(mark: str, tmp_path: Path) -> None:
    pulls = Pulls(Command('eval "$1"', shell=True), [STUBBORN] * 8, tmp_path)
    started = time.monotonic()
    pulls.pull.stop()
    outcomes = pulls.join()
    assert time.monotonic() - started < 12.0  # one after another would take 16 s
    assert len(outcomes) == 8
    assert all("the command was stopped" in str(outcome) for outcome in outcomes)
    wait_until(lambda: not marked(mark), 5.0)


@pytest.mark.parametrize("code", [0, 1])
def test_how_a_stopped_command_ends_is_no_reward(tmp_path: Path, code: int) -> None:
    script = f"trap 'exit {code}' TERM; READY; while :; do sleep 0.02; done"
    pulls = Pulls(Command('eval "$1"', shell=True), [script], tmp_path)
    pulls.pull.stop()
    assert "the command was stopped" in str(pulls.join()[0])


def test_children_of_a_stopped_command_have_a_moment_to_end(tmp_path: Path) -> None:
    """The shell itself ends at once."""
    ended = tmp_path / "ended"
    at_end = f"sleep 0.2; head -c 300000 /dev/zero >&2; touch {ended}"
    child = f"trap '{at_end}; exit' TERM; READY; while :; do sleep 0.02; done"
    pulls = Pulls(Command('eval "$1"', shell=True), [f"({child}) & wait"], tmp_path)
    pulls.pull.stop()
    pulls.join()
    assert ended.exists()
    assert pulls.pull("true") == 0.0  # what begins after a stop runs


def test_after_a_timeout_nothing_is_left(mark: str, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    for timeout in (0.5, 5.0, 60.0):  # a busy machine may not have started it at the first
        with pytest.raises(PullFailed, match=f"took longer than {timeout:g} s") as caught:
            Command('eval "$1"', shell=True, timeout=timeout)(
                STUBBORN.replace("READY", f"touch {ready}")
            )
        if ready.exists():
            break
    assert caught.value.late
    wait_until(lambda: not marked(mark), 5.0)


def test_other_commands_go_on_when_some_are_stopped(tmp_path: Path) -> None:
    stopped = Pulls(Command('eval "$1"', shell=True), ["READY; exec sleep 600"], tmp_path)
    (tmp_path / "other").mkdir()
    other = Pulls(Command('eval "$1"', shell=True), ["READY; exec sleep 600"], tmp_path / "other")
    stopped.pull.stop()
    stopped.join()
    assert other.threads[0].is_alive()
    other.pull.stop()
    other.join()


# Signals to a program


SEARCHING = """
import sys, oddarms
from oddarms.arms import Command, Function
oddarms.find(Function(Command(sys.argv[1], shell=True), "abc"), k=1, jobs=int(sys.argv[2]))
"""


@pytest.mark.parametrize(
    ("number", "jobs", "twice"),
    quick_and_long(
        [(signal.SIGTERM, 1, False)],
        [
            (signal.SIGINT, 2, False),
            (signal.SIGINT, 1, False),
            (signal.SIGTERM, 2, False),
            (signal.SIGINT, 2, True),
        ],
    ),
)
def test_a_signal_to_a_python_program_leaves_nothing(
    mark: str, tmp_path: Path, number: signal.Signals, jobs: int, twice: bool
) -> None:
    script = STUBBORN.replace("READY", f"touch {tmp_path}/$$.ready")
    process = subprocess.Popen(
        [sys.executable, "-c", SEARCHING, script, str(jobs)], stderr=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: len(list(tmp_path.glob("*.ready"))) >= jobs)
        process.send_signal(number)
        assert (insist(process, number) if twice else process.wait(60)) != 0
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not marked(mark), 5.0)


# After a normal end


def test_what_a_command_leaves_in_its_group_is_killed_at_once(mark: str, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = f"({STUBBORN.replace('READY', f'touch {ready}')}) &"
    script += f" while ! test -e {ready}; do sleep 0.01; done; echo 0.5"
    assert Command('eval "$1"', shell=True, reward="stdout")(script) == 0.5
    wait_until(lambda: not marked(mark), 1.5)


def test_a_daemon_in_a_session_of_its_own_goes_on(mark: str, tmp_path: Path) -> None:
    pid, done = tmp_path / "pid", tmp_path / "done"
    daemon = f"echo $$ > {pid}; while ! test -e {done}; do sleep 0.02; done"
    script = f"setsid sh -c '{daemon}' 2>&1 & while ! test -s {pid}; do sleep 0.02; done"
    assert Command('eval "$1"', shell=True)(script) == 0.0
    assert int(pid.read_text()) in marked(mark)
    done.touch()


# What is printed


def test_what_is_printed_takes_no_room() -> None:
    script = "head -c 50000000 /dev/zero >&2; head -c 50000000 /dev/zero; echo; echo 0.25"
    tracemalloc.start()
    try:
        assert Command('eval "$1"', shell=True, reward="stdout")(script) == 0.25
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_the_last_line_counts_however_late_it_is() -> None:
    script = "head -c 65000 /dev/zero; echo; printf 0.75"
    for _ in range(20):
        assert Command('eval "$1"', shell=True, reward="stdout")(script) == 0.75


def test_no_descriptor_is_left_open() -> None:
    pull = Command('eval "$1"', shell=True, reward="stdout")
    pull("echo 1")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        pull("echo 1")
        with pytest.raises(InvalidParameter, match="cannot be started"):
            Command("no-such-command")("x")
    assert len(os.listdir("/proc/self/fd")) <= before


# Systems that tell less


def test_an_exit_code_that_got_lost_is_no_reward() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with pytest.raises(PullFailed, match="unknown exit code"):
            Command("false")("x")
    finally:
        signal.signal(signal.SIGCHLD, before)
