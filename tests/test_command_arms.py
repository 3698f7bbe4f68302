"""Arms that are commands: rewards, labels that cannot inject, and processes that are ended."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from oddarms.arms import Command
from oddarms.errors import InvalidParameter, PullFailed
from oddarms.studies._study import VARIABLE as STORAGE


def test_the_exit_code_or_the_last_line_is_the_reward() -> None:
    assert Command("true")("x") == 0.0
    assert Command("false")("x") == Command("sh -c 'exit 77'")("x") == 1.0
    assert Command("sh -c 'exit 128'")("x") == Command("sh -c 'exit 255'")("x") == 1.0
    assert Command("sh -c 'test -z \"$(cat)\"'", timeout=30)("x") == 0.0  # stdin is empty
    assert Command("printf 'noise\\n 2.5e-1 \\n\\n'", reward="stdout")("x") == 0.25
    assert Command("echo -3", reward="stdout")("x") == -3.0
    assert pickle.loads(pickle.dumps(Command("test {arm} = a")))("a") == 0.0


@pytest.mark.parametrize(
    ("command", "reward", "said"),
    [
        *((word, "stdout", "must be a number") for word in ("echo", "echo word", "echo nan")),
        ("printf '\\377'", "stdout", "must be a number"),
        ("sh -c 'echo oh no >&2; exit 3'", "stdout", r"exit code 3 \(stderr: oh no\)"),
        ("sh -c 'kill -SEGV $$'", "exit-code", "died of SIGSEGV"),
        ("sh -c 'sh -c \"kill -SEGV \\$\\$\"; exit $?'", "exit-code", "exit code 139"),
    ],
)
def test_what_is_a_failure(command: str, reward: Any, said: str) -> None:
    with pytest.raises(PullFailed, match=said) as caught:
        Command(command, reward=reward)("x")
    assert caught.value.label == "x"


@pytest.mark.parametrize("code", [126, 127])
@pytest.mark.parametrize("reward", ["exit-code", "stdout"])
def test_a_tool_that_is_not_there_is_no_reward(code: int, reward: Any) -> None:
    command = Command(f'test -e "$1" || exit {code}; echo 0', reward=reward, shell=True)
    with pytest.raises(InvalidParameter, match=f"for 'x' ended with exit code {code}: a program"):
        command("x")
    assert command("/") == 0.0


def test_the_first_pull_of_an_arm_is_checked_and_later_ones_fail(tmp_path: Path) -> None:
    command = Command('test -e "$1" || exit 127', shell=True)
    (tmp_path / "tool").touch()
    assert command(str(tmp_path / "tool")) == 0.0
    (tmp_path / "tool").unlink()
    with pytest.raises(PullFailed, match="ended with exit code 127"):
        command(str(tmp_path / "tool"))


def test_pytest_without_the_test_is_no_reward(tmp_path: Path) -> None:
    tool = tmp_path / "pytest"
    tool.write_text('#!/bin/sh\nexit "$1"\n')
    tool.chmod(0o755)
    assert Command(f"{tool} {{arm}}")("1") == 1.0
    for code in "2345":
        with pytest.raises(InvalidParameter, match=f"exit code {code}: pytest"):
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


LABELS = [
    "two words",
    "'",
    '"',
    "$(touch hacked)",
    "`touch hacked`",
    "; touch hacked",
    "a\nb",
    "$1",
    "-n",
    "{arm}",
    "Zoë 猫",
    "*",
]


@pytest.mark.parametrize("label", LABELS)
def test_a_label_is_one_argument_whatever_it_contains(
    label: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    script = tmp_path / "script"
    script.write_text(
        '#!/bin/sh\ntest $# = 2 && test "$1" = "$ODDARMS_ARM" && test "$2" = "x=$1,y"'
    )
    script.chmod(0o755)
    assert Command(f"{script} {{arm}} x={{arm}},y")(label) == 0.0
    assert Command(f'{script} "$1" "x=$1,y"', shell=True)(label) == 0.0
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        ("", {}, "is empty"),
        ("a 'b", {}, "badly quoted"),
        ("test {arm} = x", {"shell": True}, r'write "\$1" in place of \{arm\}'),
        ("echo {arm} | sh", {"shell": True}, r'write "\$1" in place of \{arm\}'),
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
    with pytest.raises(InvalidParameter, match="cannot be started"):
        Command(command)("a\0b")


@pytest.mark.parametrize("shell", [False, True])
def test_a_command_does_not_get_the_storage_with_its_password(
    shell: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STORAGE, "postgresql://me:secret@host/studies")
    monkeypatch.setenv("OTHER", "x")
    assert Command(f"printenv {STORAGE}", shell=shell)("a") == 1.0
    assert Command("printenv OTHER", shell=shell)("a") == 0.0
    assert Command(f"env {STORAGE}=x printenv {STORAGE}", shell=shell)("a") == 0.0
