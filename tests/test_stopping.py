"""``oddarms find`` and signals: a clean end, an end at once, and no process that is left."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import oddarms
from processes import WITHOUT_REPORT, insist, mark, marked, wait_until

__all__ = ["mark"]

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc"),
    pytest.mark.usefixtures("mark"),
]
SLOW_REPORT = """
import sys, time
from pathlib import Path
import oddarms.report
from oddarms.cli import main
def write(*_, **__):
    Path("writing").touch()
    time.sleep(0.5)
    Path("written").touch()
oddarms.report.write_report = write
sys.exit(main())
"""
STUBBORN = "trap '' TERM HUP INT; touch ready.$$; sleep 600; while :; do sleep 600; done"
FAMILY = "sh -c 'sleep 600 & wait' & sleep 600 & touch ready.$$; wait"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def obeying() -> None:
    """Handle signals as a program in a terminal does; under nohup, SIGHUP would be ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def search(
    pull: str,
    *words: object,
    jobs: int = 2,
    source: str = "--pull",
    program: tuple[str, ...] = ("-c", WITHOUT_REPORT),
    **options: Any,
) -> Iterator[subprocess.Popen[str]]:
    """Start a search in another process, and end it whatever happens to the test."""
    arms = ",".join(f"arm{i}" for i in range(max(jobs, 3)))
    pull = f': "$1"; {pull}' if source == "--pull" else pull  # one without the label is refused
    given = ["find", "--arms", arms, source, pull, "--jobs", jobs, "--k", 1, "--out", "o"]
    shell = ["--shell"] if source == "--pull" else []
    command = [sys.executable, *program, *given, *shell, *words]
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, **options}
    options = {"preexec_fn": obeying, **options}  # whatever the tests themselves were started with
    process = subprocess.Popen(list(map(str, command)), text=True, **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def all_ready(jobs: int) -> Callable[[], bool]:
    return lambda: len(list(Path().glob("ready.*"))) >= jobs


def assert_clean_end(process: subprocess.Popen[str], code: int, mark: str) -> None:
    assert process.wait(120) == code
    wait_until(lambda: not marked(mark), 5.0)
    assert {path.name for path in Path("o").iterdir()} >= {"result.json", "arms.csv", "study.db"}
    study = oddarms.load_study("find", storage="o/study.db")
    assert study.overview().live == 0  # every ticket is given back


# Once


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGHUP, marks=pytest.mark.long),
        pytest.param(signal.SIGINT, marks=pytest.mark.long),
    ],
)
def test_a_signal_is_a_clean_end(mark: str, number: signal.Signals) -> None:
    with search(FAMILY) as process:
        wait_until(all_ready(2))
        process.send_signal(number)
        assert_clean_end(process, 128 + number, mark)
        assert process.stderr is not None
        said = process.stderr.read()
    assert said.splitlines()[-1].startswith("interrupted: 0 samples kept in o/study.db")


def test_what_comes_back_in_a_moment_is_kept_and_the_search_resumes(mark: str) -> None:
    pull = "touch ready.$$; while ! test -e go; do sleep 0.02; done; test $1 != arm2"
    with search(pull, jobs=3) as process:
        wait_until(all_ready(3))
        process.send_signal(signal.SIGINT)
        Path("go").touch()
        assert_clean_end(process, 130, mark)
        assert process.stderr is not None
        said = process.stderr.read()
    kept = len(list(oddarms.load_study("find", storage="o/study.db").trials()))
    assert f"interrupted: {kept} sample" in said
    with search(pull, jobs=3) as process:
        assert process.wait(120) == 0
    trials = list(oddarms.load_study("find", storage="o/study.db").trials())
    assert len({(trial.arm, trial.place) for trial in trials}) == len(trials) >= kept


def test_a_service_manager_that_ends_all_processes_makes_no_samples(mark: str) -> None:
    """Commands that see to their own end look as if they had failed."""
    pull = "trap 'exit 1' TERM; touch ready.$$; while :; do sleep 0.02; done"
    with search(pull, jobs=3) as process:
        wait_until(all_ready(3))
        for pid in [process.pid, *set(marked(mark)) - {process.pid}]:  # a second one would insist
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        assert_clean_end(process, 143, mark)
    study = oddarms.load_study("find", storage="o/study.db")
    assert list(study.trials()) == []
    assert study.overview().live == 0


@pytest.mark.long
def test_eight_that_do_not_listen_end_together_and_the_report_is_written(mark: str) -> None:
    pytest.importorskip("matplotlib")
    with search(STUBBORN, jobs=8, program=("-m", "oddarms")) as process:
        wait_until(all_ready(8))
        process.send_signal(signal.SIGTERM)
        assert_clean_end(process, 143, mark)
    assert "</html>" in Path("o/report.html").read_text()


@pytest.mark.long
def test_a_signal_while_the_answer_is_written_waits_for_it() -> None:
    with search("true", "--budget", 3, program=("-c", SLOW_REPORT)) as process:
        wait_until(Path("writing").exists)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
    assert Path("written").exists()


# Twice


@pytest.mark.parametrize("jobs", [pytest.param(1, marks=pytest.mark.long), 3])
def test_a_second_signal_ends_it_at_once(mark: str, jobs: int) -> None:
    with search(STUBBORN, jobs=jobs) as process:
        wait_until(all_ready(jobs))
        process.send_signal(signal.SIGINT)
        # a signal that comes after the handlers were put back ends it by itself
        assert insist(process, signal.SIGTERM) in (130, 143, -signal.SIGTERM)
        wait_until(lambda: not marked(mark))


@pytest.mark.long
def test_a_second_signal_ends_a_function_that_does_not_end() -> None:
    Path("endless.py").write_text(
        "import pathlib, time\n\ndef pull(label):\n"
        "    pathlib.Path(f'ready.{time.time_ns()}').touch()\n"
        "    while True:\n        time.sleep(1)\n"
    )
    with search("endless:pull", source="--python") as process:
        wait_until(all_ready(2))
        process.send_signal(signal.SIGINT)
        assert insist(process, signal.SIGINT) == 130


# Nobody there


@pytest.mark.long
def test_nohup_stays_nohup(mark: str) -> None:
    def ignore() -> None:
        obeying()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with search(FAMILY, preexec_fn=ignore) as process:
        wait_until(all_ready(2))
        process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert_clean_end(process, 143, mark)


@pytest.mark.parametrize("quiet", [pytest.param(True, marks=pytest.mark.long), False])
def test_a_terminal_that_goes_away_is_a_clean_end(mark: str, quiet: bool) -> None:
    outside, inside = os.openpty()

    def own_terminal() -> None:
        obeying()
        os.setsid()
        fcntl.ioctl(inside, termios.TIOCSCTTY, 0)

    words = ("--quiet",) if quiet else ()
    terminal = {"stdin": inside, "stdout": inside, "stderr": inside}
    with search(FAMILY, *words, preexec_fn=own_terminal, **terminal) as process:
        os.close(inside)
        wait_until(all_ready(2))
        os.close(outside)
        assert_clean_end(process, 129, mark)


@pytest.mark.long
def test_a_reader_of_remarks_who_goes_away_is_no_hindrance(mark: str) -> None:
    with search(FAMILY) as process:
        wait_until(all_ready(2))
        assert process.stderr is not None
        process.stderr.close()
        process.send_signal(signal.SIGTERM)
        assert_clean_end(process, 143, mark)


@pytest.mark.long
def test_a_search_without_a_reader_of_its_remarks_goes_on_to_its_end() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with search("test $1 != arm2", "--budget", 50, stderr=writing) as process:
        os.close(writing)
        assert process.wait(60) in (0, 3)
    assert Path("o/result.json").exists()


@pytest.mark.long
def test_a_pipeline_ends_with_its_reader() -> None:
    with search("true", "--budget", 3, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert "samples: " in process.stdout.read()  # to the end of the file
        process.stdout.close()
        assert process.wait(60) == 3


SWALLOWS = """
import time
from pathlib import Path
def probe(arm):
    try:
        Path("ready").touch()
        time.sleep(60)
    except BaseException:
        return 1
    return 0
"""


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)]
)
def test_a_function_that_swallows_the_signal_gives_no_sample_and_does_not_go_on(
    number: signal.Signals,
) -> None:
    Path("probes.py").write_text(SWALLOWS)
    with search("probes:probe", source="--python", jobs=1) as process:
        wait_until(Path("ready").exists)
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    assert list(oddarms.load_study("find", storage="o/study.db").trials()) == []
