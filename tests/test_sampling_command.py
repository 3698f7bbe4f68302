"""Commands that sample: the worker that stays, what is shown meanwhile, lines that fit."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import oddarms
from helpers import COMMAND, Run, assert_refused
from oddarms.studies import Study
from processes import WITHOUT_REPORT, wait_until

PULL = "test {arm} != e"


@pytest.fixture
def study(tmp_path: Path) -> Study:
    where = tmp_path / "s.db"
    return oddarms.create_study("s", "abcde", k=1, delta=0.1, storage=where, rng=1)


def work(run_command: Run, *words: object) -> Any:
    return run_command("study", "work", "s", "--storage", "s.db", *words)


# study work


def test_a_worker_works_until_the_study_is_done(run_command: Run, study: Study) -> None:
    ran = work(run_command, "--pull", PULL, "--jobs", 2, "--worker", "me")
    assert (ran.code, ran.out) == (0, "")
    assert "decided: everything is decided\n" in ran.err
    assert ran.err.endswith("the answer: oddarms study result s\n")
    assert study.result().outliers == ["e"]
    assert {trial.worker for trial in study.trials()} == {"me"}
    assert work(run_command, "--pull", PULL, "-q") == (0, "", "")


def test_two_workers_share_the_samples(study: Study, tmp_path: Path) -> None:
    study.add_history({arm: [float(arm == "e")] * 40 for arm in "abcde"})  # most of what it takes
    pull = "sleep 0.02; test $1 != e"
    words = ["study", "work", "s", "--storage", "s.db", "--shell", "--pull", pull]
    both = [
        subprocess.Popen([COMMAND, *words, "--worker", name], cwd=tmp_path, stderr=-1)
        for name in ("one", "two")
    ]
    said = [worker.communicate(timeout=120)[1] for worker in both]
    assert [words.count(b"everything is decided") for words in said] == [1, 1]
    assert [worker.returncode for worker in both] == [0, 0]
    assert study.result().outliers == ["e"]


def test_what_a_worker_cannot_do_is_said(run_command: Run, study: Study, tmp_path: Path) -> None:
    assert_refused(work(run_command), 2, "--pull or --python is required")
    clip = ("--pull", PULL, "--reward", "stdout", "--clip", "0,10")
    assert_refused(work(run_command, *clip), 2, "match the bounds of the study, 0,1")
    python = ("--python", "json:dumps", "--reward", "stdout")
    assert_refused(work(run_command, *python), 2, "--reward requires --pull")
    oddarms.create_study("small", "abcde", k=1, budget=7, storage=tmp_path / "s.db", rng=1)
    small = run_command("study", "work", "small", "--storage", "s.db", "--pull", PULL)
    assert small.code == 3  # the budget is used up
    other = run_command("study", "work", "t", "--storage", "s.db", "--pull", PULL)
    assert_refused(other, 2, "no study 't'")
    ran = work(run_command, "--pull", "sh -c 'exit 130' {arm}")
    assert_refused(ran, 1, "exit code 130", "the same command resumes from there")
    assert study.progress().pulls == 0


def test_ctrl_c_ends_a_worker_and_keeps_what_it_has(tmp_path: Path, study: Study) -> None:
    words = ["study", "work", "s", "--storage", "s.db", "--shell", "--pull"]
    pull = "touch began; : $1; sleep 100"
    with subprocess.Popen([COMMAND, *words, pull], cwd=tmp_path, stderr=-1) as worker:
        wait_until((tmp_path / "began").exists)
        worker.send_signal(signal.SIGINT)
        said = worker.communicate(timeout=60)[1].decode()
    assert worker.returncode == 130
    assert "interrupted: 0 samples kept in s.db; the same command resumes from there." in said
    assert study.overview().live == 0


def test_a_worker_says_that_it_waits_for_others(tmp_path: Path, study: Study) -> None:
    taken = study.ask(1_000)
    words = ["study", "work", "s", "--storage", "s.db", "--pull", PULL]
    with subprocess.Popen([COMMAND, *words], cwd=tmp_path, stderr=-1) as worker:
        assert worker.stderr is not None
        assert worker.stderr.readline().startswith(b"waiting: other workers have all samples")
        study.tell_many([(ticket, float(ticket.arm == "e")) for ticket in taken])
        assert worker.wait(120) == 0
    assert study.result().outliers == ["e"]


# What is shown


def on_terminal(folder: Path, *words: str) -> tuple[int, str]:
    """Run a command whose stderr is a terminal; return its exit code and what it showed."""
    outside, inside = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-c", WITHOUT_REPORT, *words]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stderr=inside, stdout=subprocess.DEVNULL
    ) as process:
        os.close(inside)
        said = b""
        while True:
            try:
                part = os.read(outside, 10_000)
            except OSError:  # nobody has the other end any more
                break
            if not part:
                break
            said += part
    os.close(outside)
    return process.returncode, said.decode(errors="replace")


def plain(text: str) -> list[str]:
    """Return lines without what moves the cursor."""
    return re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text))


def test_a_terminal_shows_how_far_a_search_is(tmp_path: Path) -> None:
    labels = ",".join(f"tests/integration/test_shop.py::TestShop::test[{i}-firefox]" for i in "abe")
    pull = 'sleep 0.05; case "$1" in *e-firefox*) exit 1;; esac'
    words = ("find", "--arms", labels, "--k", "1", "--shell", "--pull", pull, "--budget", "20")
    code, said = on_terminal(tmp_path, *words, "--out", "o")
    assert code in (0, 3)
    lines = plain(said)
    assert "sampling ..." in lines
    assert any(re.match(r"\d+ pulls, \d of 3 arms undecided", line) for line in lines)
    assert all(len(line) <= 80 for line in lines)


def test_help_fits_80_columns(run_command: Run) -> None:
    groups: list[tuple[str, ...]] = [(), ("study",), ("serve",), ("serve", "token")]
    shown = 0
    while groups:
        ran = run_command(*(command := groups.pop()), "--help")
        assert ran.code == 0
        assert [line for line in ran.out.splitlines() if len(line) > 80] == []
        shown += 1
        listed = ran.out.partition("Commands")[2]
        for name in re.findall(r"^  (\w+) +\w", listed, re.MULTILINE):
            if (name,) not in groups and name not in ("study", "serve", "token"):
                groups.append((*command, name))
    assert shown == 29


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    heavy = ["numpy", "scipy", "sqlalchemy", "pandas", "rich.live", "matplotlib", "fastapi"]
    code = (
        "import sys; from oddarms.cli import main; main(['--help']);"
        f" print([name for name in {heavy} if name in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "study" in done.stdout
