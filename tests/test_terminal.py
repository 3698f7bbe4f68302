"""What commands, files and labels say reaches a terminal as text, never as orders to it."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from helpers import Ran, Run
from oddarms.text import message

HOSTILE = "\x1b[31mred\x1b]0;title\x07 \x9b2J \r \u202e \x00"
SHOWN = r"\x1b[31mred\x1b]0;title\x07 \x9b2J \r \u202e \x00"
FUNCTION = f"""
def boom(label):
    raise ValueError({HOSTILE!r})
"""


@pytest.fixture
def without_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the drawing, which takes its time."""
    monkeypatch.setattr("oddarms.report.write_report", lambda *_, **__: None)


def assert_harmless(ran: Ran) -> None:
    for text in (ran.out, ran.err):
        assert all(line.isprintable() for line in text.split("\n")), text


def test_a_message_is_shown_line_by_line_and_a_long_one_cut() -> None:
    assert message(f"one {HOSTILE}\ntwo") == f"one {SHOWN}\ntwo"
    assert message("a" * 10**6) == "a" * 4_000 + "..."


@pytest.mark.usefixtures("without_report")
def test_the_error_of_a_function(run_command: Run, tmp_path: Path) -> None:
    (tmp_path / "hostile_functions.py").write_text(FUNCTION)
    ran = run_command("find", "--arms", "a,b,c,d", "--k", 1, "--python", "hostile_functions:boom")
    assert ran.code == 1
    assert SHOWN in ran.err
    assert_harmless(ran)


@pytest.mark.usefixtures("without_report")
def test_what_a_command_prints(run_command: Run) -> None:
    pull = r"printf '\033[31mred\r' ; printf '\033[2J\007' >&2"
    for reward in ("stdout", "exit-code"):
        ran = run_command(
            "find", "--arms", "a,b,c,d", "--k", 1, "--shell", "--pull", f"{pull}; exit 200 # $1",
            "--reward", reward, "--out", reward, "--budget", 30,
        )  # fmt: skip
        assert_harmless(ran)


@pytest.mark.parametrize(
    "words",
    [
        ("analyze", "HOSTILE"),
        ("analyze", "--junit", "HOSTILE"),
        ("find", "--arms", "a,b", "--python", "json:HOSTILE"),
        ("find", "--arms", "HOSTILE"),
        ("study", "create", "s", "--arms", "HOSTILE"),
        ("study", "tell", "HOSTILE", "--from", "HOSTILE"),
        ("reproduce", "fig3", "--data", "HOSTILE"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_names_in_errors(run_command: Run, words: tuple[str, ...]) -> None:
    name = HOSTILE.replace("\x00", "")
    ran = run_command(*(word.replace("HOSTILE", name) for word in words))
    assert ran.code != 0
    assert_harmless(ran)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("fnd",), r"No such command 'fnd'\. Did you mean 'find'\?"),
        (("zzz",), r"No such command 'zzz'\. See `oddarms --help`\.\n"),
        (("find", "--buget", 3), r"No such option.*--buget.*--budget"),
        (("study", "list", "--formt", "csv"), r"--formt.*--format"),
        (("find", "--zzzzzz"), r"No such option:? '?--zzzzzz'?\.? See `oddarms find --help`\.\n"),
    ],
)
def test_a_mistyped_word(run_command: Run, words: tuple[object, ...], told: str) -> None:
    ran = run_command(*words)
    assert ran.code == 2
    if not hasattr(click, "NoSuchCommand"):  # an older click, which suggests only options
        told = told.partition(" Did")[0]
    assert re.search(told, ran.err)
    assert_harmless(ran)


FLAKY_RUN = """<testsuite><testcase classname="t" name="fine"/><testcase classname="t" name="odd">
<failure/></testcase><testcase classname="t" name="other"/></testsuite>"""


@pytest.mark.usefixtures("without_report")
def test_no_line_is_longer_than_a_terminal(
    run_command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "runs").mkdir()
    for number in range(9):
        report = FLAKY_RUN if number else FLAKY_RUN.replace("<failure/>", "")
        (tmp_path / "runs" / f"{number}.xml").write_text(report)
    rows = [f"arm-{i},{int(i == 7 or j % 9 == 0)}" for i in range(12) for j in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["arm,reward", *rows]))
    (tmp_path / "functions.py").write_text("def one(arm):\n    return float(arm == 'c')\n")
    for words in (
        "analyze t.csv",
        "analyze --junit runs",
        "find --arms a,b,c,d,e,f,g --python functions:one --budget 30 --out less",
        "study create s --arms a,b,c,d,e,f,g --storage s.db",
        "study work s --python functions:one --storage s.db",
        "study show s --storage s.db",
        "study result s --storage s.db",
        "study list --storage s.db",
    ):
        ran = run_command(*words.split())
        assert ran.code in (0, 3), (words, ran)
        long = [line for line in ran.out.splitlines() if len(line) > 80]
        assert not long, (words, long)
