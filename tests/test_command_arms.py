"""Arms that are commands: rewards, labels that cannot inject, and processes that are ended."""

from __future__ import annotations

import os
import pickle
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from oddarms.arms import Command
from oddarms.errors import InvalidParameter, PullFailed
from oddarms.studies._location import VARIABLE as STORAGE
from processes import is_running, wait_until


def pid_in(path: Path) -> int:
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


def test_the_exit_code_is_the_reward() -> None:
    assert Command("true")("x") == 0.0
    assert Command("false")("x") == 1.0
    assert Command("sh -c 'exit 77'")("x") == 1.0


def test_the_last_line_is_the_reward() -> None:
    assert Command("printf 'noise\\n 2.5e-1 \\n\\n'", reward="stdout")("x") == 0.25
    assert Command("echo -3", reward="stdout")("x") == -3.0


@pytest.mark.parametrize("command", ["echo", "echo word", "echo nan", "echo inf", "printf '\\377'"])
def test_what_is_no_number_is_a_failure(command: str) -> None:
    with pytest.raises(PullFailed, match="must be a number") as caught:
        Command(command, reward="stdout")("x")
    assert caught.value.label == "x"


def test_a_failing_command_says_what_it_said() -> None:
    with pytest.raises(PullFailed, match=r"exit code 3 \(it said: oh no\)"):
        Command("sh -c 'echo oh no >&2; exit 3'", reward="stdout")("x")


def test_a_command_that_dies_of_a_signal_is_a_failure() -> None:
    with pytest.raises(PullFailed, match="died of SIGSEGV"):
        Command("sh -c 'kill -SEGV $$'")("x")


@pytest.mark.parametrize("code", [126, 127])
@pytest.mark.parametrize("reward", ["exit-code", "stdout"])
def test_a_tool_that_is_not_there_is_no_reward(code: int, reward: Any) -> None:
    command = Command(f'test -e "$1" || exit {code}; echo 0', reward=reward, shell=True)
    with pytest.raises(InvalidParameter, match=f"'x' it ended with exit code {code}, which means"):
        command("x")
    assert command("/") == 0.0


def test_the_first_pull_of_an_arm_is_checked_and_later_ones_fail(tmp_path: Path) -> None:
    command = Command('test -e "$1" || exit 127', shell=True)
    (tmp_path / "tool").touch()
    assert command(str(tmp_path / "tool")) == 0.0
    (tmp_path / "tool").unlink()
    with pytest.raises(PullFailed, match="ended with exit code 127"):
        command(str(tmp_path / "tool"))


def test_a_signal_behind_a_shell_is_a_failure() -> None:
    with pytest.raises(PullFailed, match="exit code 139"):
        Command("sh -c 'sh -c \"kill -SEGV \\$\\$\"; exit $?'")("x")
    assert Command("sh -c 'exit 128'")("x") == Command("sh -c 'exit 255'")("x") == 1.0


def test_pytest_without_the_test_is_no_reward(tmp_path: Path) -> None:
    tool = tmp_path / "pytest"
    tool.write_text('#!/bin/sh\nexit "$1"\n')
    tool.chmod(0o755)
    assert Command(f"{tool} {{arm}}")("1") == 1.0
    for code in "2345":
        with pytest.raises(InvalidParameter, match=f"exit code {code}, which pytest has"):
            Command(f"{tool} {{arm}}")(code)
        assert Command(f"{tool} {{arm}}", failure_codes=[126])(code) == 1.0
        assert Command("sh -c 'exit $1' sh {arm}")(code) == 1.0


def test_failure_codes_are_as_told() -> None:
    with pytest.raises(PullFailed, match="exit code 7"):
        Command("sh -c 'exit 7'", failure_codes={7})("x")
    assert Command("sh -c 'exit 127'", failure_codes=())("x") == 1.0
    for code in (0, 256, 1.5, True):
        with pytest.raises(InvalidParameter, match="failure_codes must be numbers from 1 to 255"):
            Command("true", failure_codes=[code])  # type: ignore[list-item]


LABELS = ["two words", "'", '"', "$(touch hacked)", "; touch hacked", "-n", "{arm}", "Zoë 猫", "*"]


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("shell", [False, True])
def test_a_label_is_never_more_than_an_argument(
    label: str, shell: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Command("test {arm} = x", shell=shell)(label) == 1.0
    arm = '"$1"' if shell else "{arm}"
    assert Command(f'sh -c \'test "$1" = "$ODDARMS_ARM"\' sh {arm}', shell=shell)(label) == 0.0
    assert os.listdir(tmp_path) == []


def test_stdin_is_empty() -> None:
    assert Command("sh -c 'test -z \"$(cat)\"'", timeout=30)("x") == 0.0


def test_much_output_is_no_burden() -> None:
    pull = Command(
        "sh -c 'yes | head -c 30000000; yes | head -c 30000000 >&2; echo 1'", reward="stdout"
    )
    assert pull("x") == 1.0


@pytest.mark.parametrize("trap", ["", "trap : TERM; "])
def test_a_hanging_command_is_killed_with_its_children(tmp_path: Path, trap: str) -> None:
    child = tmp_path / "child"
    script = f"{trap}(sleep 600 & echo $! > {child}; wait); while true; do sleep 600; done"
    for timeout in (0.5, 5.0, 60.0):  # a busy machine may not have started it at the first
        with pytest.raises(PullFailed, match=rf"took longer than {timeout:g} s"):
            Command('eval "$1"', shell=True, timeout=timeout)(script)
        if child.exists() and child.read_text().endswith("\n"):
            break
    assert not is_running(pid_in(child))


def test_what_a_command_leaves_running_is_ended(tmp_path: Path) -> None:
    child = tmp_path / "child"
    assert Command('eval "$1"', shell=True)(f"sleep 600 & echo $! > {child}") == 0.0
    wait_until(lambda: not is_running(pid_in(child)))


def test_stop_ends_what_is_running(tmp_path: Path) -> None:
    child = tmp_path / "child"
    pull = Command('eval "$1"', shell=True)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            pull(f"echo $$ > {child}; sleep 600")
        except PullFailed as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    pid = pid_in(child)
    while not pull._commands.running:  # it may have said so before whoever started it goes on
        time.sleep(0.001)
    pull.stop()
    thread.join(30.0)
    assert not is_running(pid)
    assert "the command was stopped" in str(failures[0])


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        ("", {}, "at least one word"),
        ("a 'b", {}, "well quoted"),
        ("true", {"reward": "stderr"}, "reward must"),
        ("true", {"timeout": 0}, "timeout must"),
        ("true", {"timeout": float("nan")}, "timeout must"),
    ],
)
def test_bad_parameters(command: str, options: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        Command(command, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("command", ["no-such-command", "/", "echo {arm}"])
def test_a_command_that_cannot_be_started(command: str) -> None:
    with pytest.raises(InvalidParameter, match="can be started"):
        Command(command)("a\0b")


def test_a_command_that_is_about_to_start_when_all_are_stopped_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = tmp_path / "ran"
    pull = Command(f"touch {ran}")
    commands = pull._commands

    class StopsFirst:
        """A lock that somebody else gets first, to stop everything."""

        def __init__(self, lock: Any) -> None:
            self.lock = lock
            self.stopping = False

        def __enter__(self) -> None:
            if not self.stopping:
                self.stopping = True
                pull.stop()
            self.lock.acquire()

        def __exit__(self, *_: object) -> None:
            self.lock.release()

    monkeypatch.setattr(commands, "lock", StopsFirst(commands.lock))
    with pytest.raises(PullFailed, match="arm 'a': the command was stopped"):
        pull("a")
    assert not ran.exists()
    assert pull("a") == 0.0
    assert ran.exists()


def test_a_command_can_be_sent_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(Command("test {arm} = a")))("a") == 0.0


HOSTILE = [
    "c$(touch pwned)",
    "`touch pwned`",
    "a'b",
    'a"b',
    "x; touch pwned",
    "$1",
    "a\nb",
    "-n",
    "*",
]


@pytest.mark.parametrize("label", HOSTILE)
@pytest.mark.parametrize(
    "template",
    [
        "test {arm} = x",
        "true -c 1 -v --basic {arm}",
        "echo {arm} | cat 2>&1; test -n {arm} && ./no={arm}",
        'echo "#" "$1"',
    ],
)
def test_a_label_is_no_program_to_a_shell(
    label: str, template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Command(template, shell=True, failure_codes=())(label)
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("label", HOSTILE)
def test_a_shell_gets_the_label_as_it_is(
    label: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Command("printf %s {arm} > label; test {arm} != x", shell=True)(label) == 0.0
    assert (tmp_path / "label").read_text() == label
    assert Command('test "$1" = "$ODDARMS_ARM"', shell=True)(label) == 0.0


@pytest.mark.parametrize(
    "template",
    [
        'test "{arm}" = x',
        "test '{arm}' = x",
        r"echo \{arm}",
        'test "$(sh -c "echo {arm}")" = x',
        'true # 5" disk\nsh -c "test {arm}"',
        'cat <<E\n"\nE\nsh -c "test {arm}"',
        "cat << {arm}",
        "echo `echo {arm}`",
        "echo ${x:-{arm}}",
        "true\n{arm}",
        "eval {arm}",
        "true;eval {arm}",
        "x={arm} /bin/bash",
        "echo {arm} | sh",
        "! sh -c {arm}",
        "trap {arm} EXIT",
        ". {arm}",
        "ssh host echo {arm}",
        "echo {arm} | xargs ls",
        "env -S {arm}",
        "unset {arm}",
        "test -v {arm}",
        "test ! -v {arm}",
        "printf -v{arm} x",
        "flock file -c {arm}",
        "script -qc {arm}",
    ],
)
def test_a_shell_gets_no_template_in_which_a_label_may_be_a_program(
    template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidParameter, match=r'write "\$1" or "\$ODDARMS_ARM" in its place'):
        Command(template, shell=True)("a;>pwned")
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("template", ["echo 'a' \"$1\" # it's", 'eval true; echo "$ODDARMS_ARM"'])
def test_a_shell_gets_any_program_without_a_placeholder(template: str) -> None:
    assert Command(template, shell=True)("x;>pwned") == 0.0


@pytest.mark.parametrize(
    "template",
    [
        "sh -c 'echo {arm}'",
        "sh -c {arm}",
        "/bin/sh -ec 'echo {arm}'",
        "sh -ce 'echo {arm}'",
        "sh -c -e 'echo {arm}'",
        "sh -c -- 'echo {arm}'",
        "bash -o pipefail -c 'echo {arm}'",
        "bash --norc -lc 'echo {arm}'",
        "nice env A=1 dash -c 'echo {arm}'",
        "xargs sh -c 'echo {arm}'",
        "python3.12 -c 'print({arm})'",
        "python -Ic 'print({arm})'",
        "python '-cprint({arm})'",
        "perl -e 1 -ne 'print {arm}'",
        "ruby -e 'puts {arm}'",
        "node --eval='{arm}'",
        "node -e '{arm}'",
        "env -S 'sh -c {arm}'",
        "env -i '-Secho {arm}'",
        "env --split-string '{arm}'",
        "env -S 'sh -c' {arm}",
    ],
)
def test_a_label_in_program_text_is_refused_with_the_remedy(
    template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidParameter, match=r"as in sh -c 'echo \"\$1\"' sh \{arm\}"):
        Command(template)("c;>pwned")
    assert not (tmp_path / "pwned").exists()


def test_a_label_in_program_text_is_refused_where_a_shell_runs_the_command() -> None:
    with pytest.raises(InvalidParameter, match="text that perl runs"):
        Command("true; perl -e {arm}", shell=True)


@pytest.mark.parametrize(
    "template",
    [
        """sh -c 'echo "$1"' sh {arm}""",
        "sh -ec 'exit 0' {arm} -c",
        "python -m pytest -q -p no:cacheprovider test_shop.py::{arm}",
        "python -c pass {arm}",
        "python measure.py -c {arm}",
        "perl measure.pl -e {arm}",
        "env A={arm} measure -S {arm}",
        "measure --python -c {arm}",
        "{arm} -c {arm}",
    ],
)
def test_a_label_may_be_an_argument_of_a_program(template: str) -> None:
    Command(template)


@pytest.mark.parametrize("shell", [False, True])
def test_a_command_does_not_get_the_storage_with_its_password(
    shell: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STORAGE, "postgresql://me:secret@host/studies")
    monkeypatch.setenv("OTHER", "x")
    assert Command(f"printenv {STORAGE}", shell=shell)("a") == 1.0
    assert Command("printenv OTHER", shell=shell)("a") == 0.0
    assert Command(f"env {STORAGE}=x printenv {STORAGE}", shell=shell)("a") == 0.0
