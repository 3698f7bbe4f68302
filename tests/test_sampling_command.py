"""Commands that sample: the worker that stays, what is shown meanwhile, lines that fit."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddarms
from helpers import COMMAND, Run, assert_refused
from oddarms.algorithms import Decision
from oddarms.arms import Command
from oddarms.cli.sampling import _display
from oddarms.cli.sampling._display import Display, command_in
from oddarms.errors import PullFailed
from oddarms.search import Progress
from oddarms.search._progress import most_abnormal
from oddarms.studies import Study
from oddarms.text import filled, width

PULL = "test {arm} != e"
LONG = [f"tests/integration/test_shop.py::TestShop::test_login[user{i}-firefox]" for i in range(5)]
PROGRESS = Progress(10, 2, 5, 5, 0.2, 0.6, 100.0)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    where = tmp_path / "s.db"
    return oddarms.create_study("s", "abcde", k=1, delta=0.1, storage=where, rng=1)


# study work


def work(run_command: Run, *words: object) -> Any:
    return run_command("study", "work", "s", "--storage", "s.db", *words)


def test_a_worker_works_until_the_study_is_done(run_command: Run, study: Study) -> None:
    ran = work(run_command, "--pull", PULL, "--jobs", 2, "--worker", "me")
    assert (ran.code, ran.out) == (0, "")
    assert "decided: everything is decided\n" in ran.err
    assert ran.err.endswith("the answer: oddarms study result s\n")
    assert study.result().outliers == ["e"]
    assert {trial.worker for trial in study.trials()} == {"me"}
    assert work(run_command, "--pull", PULL, "-q") == (0, "", "")


def test_two_workers_share_the_samples(run_command: Run, study: Study, tmp_path: Path) -> None:
    del run_command
    pull = "sleep 0.02; test $1 != e"
    words = ["study", "work", "s", "--storage", "s.db", "--shell", "--pull", pull]
    both = [
        subprocess.Popen([str(COMMAND), *words, "--worker", name], cwd=tmp_path, stderr=-1)
        for name in ("one", "two")
    ]
    said = [worker.communicate(timeout=120)[1] for worker in both]
    assert [words.count(b"everything is decided") for words in said] == [1, 1]
    assert [worker.returncode for worker in both] == [0, 0]
    assert study.result().outliers == ["e"]


def test_a_budget_that_is_used_up_ends_a_worker_with_3(run_command: Run, study: Study) -> None:
    study.revise(budget=7)
    assert work(run_command, "--pull", PULL).code == 3


def test_what_a_worker_cannot_do_is_said(run_command: Run, study: Study) -> None:
    assert_refused(work(run_command), 2, "one of --pull and --python must say how to sample")
    clip = ("--pull", PULL, "--reward", "stdout", "--clip", "0,10")
    assert_refused(work(run_command, *clip), 2, "--clip must be the bounds of the study, 0,1, and")
    python = ("--python", "json:dumps", "--reward", "stdout")
    assert_refused(work(run_command, *python), 2, "--reward must be given with --pull")
    other = run_command("study", "work", "t", "--storage", "s.db", "--pull", PULL)
    assert_refused(other, 2, "name must be a study", "'t'")
    ran = work(run_command, "--pull", "sh -c 'exit 130' {arm}")
    assert_refused(ran, 1, "exit code 130", "the same command goes on from there")
    assert study.progress().pulls == 0


def test_a_worker_counts_what_is_above(run_command: Run, study: Study, tmp_path: Path) -> None:
    (tmp_path / "times.py").write_text("def seconds(arm):\n    return 9 if arm == 'e' else 0.1\n")
    path = list(sys.path)
    try:
        assert work(run_command, "--python", "times:seconds", "--above", 0.5).code == 0
    finally:
        sys.path[:] = path
        sys.modules.pop("times", None)
    assert study.result().outliers == ["e"]


def test_ctrl_c_ends_a_worker_and_keeps_what_it_has(tmp_path: Path, study: Study) -> None:
    words = ["study", "work", "s", "--storage", "s.db", "--shell"]
    pull = f"touch began; echo $1 >> {tmp_path}/called; sleep 100"
    worker = subprocess.Popen([str(COMMAND), *words, "--pull", pull], cwd=tmp_path, stderr=-1)
    while not (tmp_path / "began").exists():
        assert worker.poll() is None
        threading.Event().wait(0.02)
    worker.send_signal(signal.SIGINT)
    said = worker.communicate(timeout=60)[1].decode()
    assert worker.returncode == 130
    assert "interrupted: 0 samples kept in s.db; the same command goes on from there." in said
    assert study.overview().live == 0


# What is shown


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines(study: Study, progress: Progress, **options: Any) -> list[str]:
    display = Display(Terminal(), study, progress, wanted=True, **options)
    return display._lines(progress)


@pytest.mark.parametrize(
    ("low", "high", "told"),
    [
        (0.2, 0.6, "threshold in [0.2, 0.6]"),
        (-0.4, 1.7, "threshold not known yet"),
        (0.2, 1.7, "threshold at least 0.2"),
        (-0.4, 0.6, "threshold at most 0.6"),
        (1.1, 1.7, "threshold above 1, the largest reward"),
        (-0.9, -0.1, "threshold below 0, the smallest reward"),
        (-np.inf, np.inf, "threshold not known yet"),
    ],
)
def test_the_threshold_shown_is_a_reward(study: Study, low: float, high: float, told: str) -> None:
    progress = replace(PROGRESS, threshold_lower=low, threshold_upper=high)
    assert lines(study, progress)[1].startswith(f"{told} · about 100 more needed")


def test_the_worst_arms_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    study = oddarms.create_study("t", LONG, k=1, storage=tmp_path / "t.db")
    shown = lines(study, replace(PROGRESS, worst=((3, 0.75), (0, 0.5), (1, 0.25))))
    assert shown[2] == "worst so far: tests/inte...r3-firefox] 0.75, tests/inte...r0-firefox] 0.5"
    assert all(width(line) < 80 for line in shown)


def test_a_search_knows_its_worst_arms() -> None:
    search = oddarms.Search(list("abcde"), k=1, side="lower", bounds=(0, 10))
    assert search.progress().worst == ()
    while not search.done:
        pulls = search.ask_step()
        rewards = np.array([5.0, 4.0, 6.0, 5.0, 0.5])[pulls.indices]
        search.tell_step(rewards.repeat(pulls.counts))
    assert search.result().low == ["e"]
    assert search.progress().worst == ((4, pytest.approx(0.5)),)  # the others are normal


@pytest.mark.parametrize(
    ("side", "expected"), [("upper", [4, 3]), ("lower", [0, 1]), ("both", [0, 1])]
)
def test_most_abnormal(side: str, expected: list[int]) -> None:
    means = np.array([0.1, 0.2, 0.3, 0.8, 0.9, np.nan, 1.0])
    candidates = np.array([True] * 6 + [False])
    assert [arm for arm, _ in most_abnormal(means, candidates, side, 2)] == expected


def test_a_command_that_hangs_is_pointed_out(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_display, "HANGING_SECONDS", 0.05)
    monkeypatch.setattr(_display, "TICK_SECONDS", 0.02)
    monkeypatch.chdir(tmp_path)
    command = Command("sh -c 'touch began; exec sleep 100' {arm}")

    def pull() -> None:
        with pytest.raises(PullFailed, match="was stopped"):
            command("a")

    puller = threading.Thread(target=pull)
    stream = io.StringIO()
    puller.start()
    with Display(stream, study, PROGRESS, wanted=True, command=command):
        while "\n" not in stream.getvalue() and puller.is_alive():
            threading.Event().wait(0.02)
    command.stop()
    puller.join()
    (said,) = stream.getvalue().splitlines()
    assert re.match(r"a has run for \d+ s; --timeout SECONDS ends what hangs", said)
    assert command.longest() is None
    with_timeout = Command("true {arm}", timeout=60)
    assert Display(stream, study, PROGRESS, wanted=True, command=with_timeout)._hanging() is None


def test_the_command_behind_a_function() -> None:
    command = Command("true {arm}", reward="stdout")
    assert command_in(command) is command
    transform = oddarms.tables.Transform.of(None, 0.5)
    assert transform is not None
    assert command_in(oddarms.arms.transformed(command, transform)) is command
    assert command_in(len) is None


def test_the_last_line_agrees_with_the_answer(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_display, "PLAIN_SECONDS", 0.0)
    stream = io.StringIO()
    display = Display(stream, study, PROGRESS, wanted=True)
    with display:
        study.on_decision(display.decided)
        result = study.run(lambda arm: float(arm == "e"), progress=display)
        display.end(result)
    said = stream.getvalue().splitlines()
    assert "OUTLIER: e" in said
    assert said[-1] == f"{result.pulls} samples · 5 of 5 arms decided"


def test_newly_decided_arms_are_listed_as_far_as_they_fit(study: Study) -> None:
    display = Display(Terminal(), study, PROGRESS, wanted=True)
    display.decided(study, [("a", Decision.NORMAL), ("e", Decision.HIGH)])
    assert display._lines(PROGRESS)[-1] == "newest: OUTLIER e, normal a"


def test_arms_may_be_decided_while_a_line_is_made(study: Study) -> None:
    display = Display(Terminal(), study, PROGRESS, wanted=True)

    class Label:
        def __str__(self) -> str:
            display.decided(study, [("b", Decision.NORMAL)])
            return "a"

    display.decided(study, [(Label(), Decision.NORMAL), ("e", Decision.HIGH)])
    assert display._lines(PROGRESS)[-1] == "newest: OUTLIER e, normal a"
    assert display._lines(PROGRESS)[-1].startswith("newest: normal b, ")


# Lines that fit


COMMANDS = [
    (), ("find",), ("explain",), ("demo",), ("reproduce",), ("study",),
    *(("study", name) for name in ("create", "list", "show", "ask", "tell", "work", "skip")),
    *(("study", name) for name in ("renew", "import", "export", "result", "verify", "delete")),
    ("study", "upgrade"),
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_fits_80_columns(run_command: Run, command: tuple[str, ...]) -> None:
    ran = run_command(*command, "--help")
    assert ran.code == 0
    assert [line for line in ran.out.splitlines() if len(line) > 80] == []


def test_messages_are_broken_between_words() -> None:
    text = (
        "error: all that was told is kept in " + "output/find-" + "x" * 40 + "/study.db, so go on"
    )
    found = filled(text, 40)
    assert found.split() == text.split()
    assert [len(line) > 40 for line in found.split("\n")] == [False, True, False]
    assert filled("a\n\nb", 40) == "a\n\nb"


def test_on_a_terminal_nothing_is_wider(tmp_path: Path) -> None:
    words = [str(COMMAND), "find", "--arms", "a,b", "--pull", "true", "--out", str(tmp_path / "o")]
    master, slave = os.openpty()
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(words, stderr=slave, cwd=tmp_path, env=environment, check=False)
    os.close(slave)
    said = os.read(master, 10_000).decode().replace("\r", "").splitlines()
    os.close(master)
    assert done.returncode == 2
    assert len(said) > 1
    assert all(len(line) <= 80 for line in said)


# What is imported


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


def test_off_a_terminal_a_worker_says_at_once_that_it_waits(study: Study) -> None:
    stream = io.StringIO()
    display = Display(stream, study, PROGRESS, wanted=True)
    for _ in range(3):
        display.waiting()
    assert stream.getvalue() == "waiting: other workers have all samples of this step\n"
    quiet = io.StringIO()
    Display(quiet, study, PROGRESS, wanted=False).waiting()
    assert quiet.getvalue() == ""


def test_a_search_tells_that_it_waits_for_others(study: Study) -> None:
    taken = study.ask(1_000)
    waited = []

    class Display:
        def __call__(self, progress: Progress) -> None:
            pass

        def waiting(self) -> None:
            waited.append(len(taken))
            study.tell_many([(ticket.id, 0.5) for ticket in taken])
            study.stop()

    study.run(lambda _: 0.5, progress=Display())
    assert waited
