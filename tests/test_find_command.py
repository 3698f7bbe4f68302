"""``oddarms find``: the sources, the policies, stopping and going on, the answer."""

from __future__ import annotations

import csv
import importlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import oddarms
from helpers import BIN, COMMAND, ROOT, Ran, Run, assert_refused, page_blocks
from oddarms.cli.find._folder import folders_of
from servers import served

ARMS = "a,b,c,d,e"
PULL = "test {arm} != e"
SEARCH = ("--k", 1, "--delta", 0.1, "--seed", 1)
FUNCTIONS = """
import random
import time

calls = []


def only_e(label):
    calls.append(label)
    return label == "e"


def odd(labels):
    return [1.0 if label == "e" else 0.0 for label in labels]


def nan(label):
    return float("nan")


def nothing(label):
    return None


def beyond(label):
    return 2


def beyond_in_batch(labels):
    return [2] * len(labels)


def too_few(labels):
    return [0]


def boom(label):
    raise ValueError("kaput")


def interrupted(label):
    if len(calls) >= 20:
        raise KeyboardInterrupt
    return only_e(label)


class Scale:
    @staticmethod
    def up_to_ten(label):
        return 9.0 if label == "e" else 1.0


def all_scales(labels):
    return [Scale.up_to_ten(label) for label in labels]
"""


@pytest.fixture
def find(run_command: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Run]:
    """Runs ``oddarms find`` in an empty directory, without drawing the report."""
    monkeypatch.setattr("oddarms.cli.sampling._output.write_report", lambda *_, **__: None)
    module = f"functions_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(FUNCTIONS)
    path = list(sys.path)

    def run(*words: object, stdin: str = "") -> Ran:
        given = [str(word).replace("functions:", f"{module}:") for word in words]
        out = [] if "--out" in given or "-h" in given else ["--out", "output/find"]
        return run_command("find", *given, *out, stdin=stdin)

    yield run
    sys.path[:] = path
    sys.modules.pop(module, None)


def labels(rows: list[dict[str, Any]]) -> list[str]:
    return [row["label"] for row in rows]


# Sources


@pytest.mark.parametrize(
    "source",
    [
        ("--pull", PULL),
        ("--pull", PULL, "--jobs", 8),
        ("--pull", 'test "$ODDARMS_ARM" != e', "--shell"),
        (
            "--pull",
            "sh -c 'test $ODDARMS_ARM = e; echo $?'",
            "--reward",
            "stdout",
            "--side",
            "lower",
        ),
        ("--python", "functions:only_e"),
        ("--python", "functions:odd", "--batch"),
        ("--python", "functions:Scale.up_to_ten", "--bounds", "0,10"),
        pytest.param(
            ("--python", "functions:odd", "--batch", "--algorithm", "rr"), marks=pytest.mark.long
        ),
        ("--python", "functions:only_e", "--side", "both"),
    ],
    ids=lambda source: " ".join(map(str, source)),
)
def test_the_abnormal_one_is_found(find: Run, source: tuple[object, ...]) -> None:
    ran = find("--arms", ARMS, *source, *SEARCH, "--format", "json")
    assert ran.code == 0, ran.err
    answer = ran.json
    assert answer["outliers"] == ["e"]
    assert answer["complete"] is True
    assert answer["pulls"] == sum(row["pulls"] for row in answer["arms"]) > 0
    assert json.loads(Path("output/find/result.json").read_text()) == answer


def test_the_answer_has_means_intervals_odds_and_the_cost(find: Run) -> None:
    ran = find("--arms", ARMS, "--python", "functions:only_e", *SEARCH)
    assert ran.code == 0
    head, titles, row, threshold, made_of, samples = ran.out.splitlines()
    assert head == "1 of 5 arms is an outlier (right with probability at least 0.9)"
    assert titles.split() == ["label", "mean", "interval", "odds", "samples"]
    assert re.fullmatch(r"e +1\.0000 +\[0\.\d{4}, 1\.0000\] +\d+:1 +\d+", row)
    assert threshold.startswith("upper threshold: 0.6000, within [")
    assert made_of == "  the larger of mean + 1 sd and mean + 0.05"
    assert re.fullmatch(r"samples: \d+", samples)
    assert max(map(len, ran.out.splitlines())) <= 80


def test_arms_come_from_stdin_or_a_file(find: Run) -> None:
    Path("arms.txt").write_text("a\nb\nc\nd\ne\n")
    for arms, stdin in (("-", "a\nb\nc\nd\ne\n"), ("arms.txt", "")):
        ran = find(
            *("--arms", arms, "--python", "functions:odd", "--batch", *SEARCH, "--format", "json"),
            stdin=stdin,
        )
        assert labels(ran.json["arms"]) == list("abcde")


def test_labels_of_any_kind_reach_the_command_and_the_files(find: Run) -> None:
    strange = [
        "two words",
        'it\'s "it"',
        "; touch hacked",
        "$(touch hacked)",
        "Zoë 猫",
        "-n",
        "{arm}",
    ]
    strange.append("comma, comma")
    Path("arms.txt").write_text("\n".join(strange))
    Path("pull.py").write_text(
        "import os, sys\n"
        "assert sys.argv[1] == os.environ['ODDARMS_ARM']\n"
        f"assert sys.argv[1] in {strange!r}\n"
        "print(float(sys.argv[1] == '{arm}'))\n"
    )
    for number, (label, *shell) in enumerate([("{arm}",), ('"$1"', "--shell")]):
        ran = find(
            *("--arms", "arms.txt", "--pull", f"{sys.executable} -S pull.py {label}"),
            *("--reward", "stdout", "--budget", 16, "--jobs", 2, *shell),
            *("--format", "csv", "--out", f"out{number}", "--raw-csv"),
        )
        assert ran.code == 3, ran.err
        assert labels(ran.rows) == strange
        assert Path(f"out{number}/arms.csv").read_text() == ran.out
    assert not Path("hacked").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "one of --arms, --table, --junit and --study"),
        (("--arms", ARMS), "one of --pull, --python, --table and --junit"),
        (("--arms", "a,b,a", "--pull", "true {arm}"), "unique"),
        (("--arms", "a,", "--pull", "true {arm}"), "at least 2"),
        (("--arms", "nofile", "--pull", "true {arm}"), "no file 'nofile'"),
        (("--arms", ARMS, "--pull", "true {arm}", "--python", "a:b"), "but got both"),
        (("--arms", ARMS, "--pull", "true {arm}", "--reward", "wrong"), "exit-code or stdout"),
        (("--arms", ARMS, "--pull", "tr'ue"), "badly quoted"),
        (("--arms", ARMS, "--pull", " "), "empty"),
        (("--arms", ARMS, "--pull", "./measure"), "'env ODDARMS_ARM={arm} ...'"),
        (("--arms", ARMS, "--pull", "./measure $1"), "Write {arm} where the item belongs"),
        (("--arms", ARMS, "--pull", "./measure {arm}", "--shell"), 'write "$1" in place of {arm}'),
        (("--arms", ARMS, "--pull", "./measure", "--shell"), 'Write "$1" where the item belongs'),
        (("--arms", ARMS, "--python", "a:b", "--failure-codes", "7"), "--failure-codes must be"),
        (
            ("--arms", ARMS, "--pull", PULL, "--reward", "stdout", "--failure-codes", "7"),
            "--failure-codes must be given with --reward exit-code",
        ),
        (("--arms", ARMS, "--pull", PULL, "--failure-codes", "5-2"), "; got '5-2'"),
        (("--arms", ARMS, "--pull", PULL, "--failure-codes", "0"), "numbers from 1 to 255"),
        (("--arms", ARMS, "--pull", "no-such-command {arm}"), "No such file"),
        (("--arms", ARMS, "--pull", "true {arm}", "--timeout", -1), "timeout"),
        (("--arms", ARMS, "--pull", "true {arm}", "--bounds", "1,0"), "bounds"),
        (("--arms", ARMS, "--pull", "true {arm}", "--bounds", "1"), "bounds must be two numbers"),
        (("--arms", ARMS, "--pull", "true {arm}", "--k", "nan"), "k must"),
        (("--arms", ARMS, "--pull", "true {arm}", "--delta", "2"), "delta must"),
        (("--arms", ARMS, "--pull", "true {arm}", "--algorithm", "best"), "algorithm"),
        (("--arms", ARMS, "--pull", "true {arm}", "--batch"), "--python"),
        (("--arms", ARMS, "--pull", "true {arm}", "--out", "/proc/x"), "--out"),
        (("--arms", ARMS, "--python", "functions"), "module:function"),
        (("--arms", ARMS, "--python", "functions:nobody"), "no function 'nobody'"),
        (("--arms", ARMS, "--python", "no_such_module:f"), "no_such_module"),
        (("--arms", ARMS, "--python", "functions:only_e", "--timeout", 1), "--pull"),
        (("--study", "nobody"), "no study 'nobody'"),
        (("--table", "no.csv"), "no.csv"),
        (
            ("--arms", ARMS, "--pull", PULL, "--population", "rows"),
            "--population must be rows only with --table",
        ),
        (
            ("--table", "no.csv", "--study", "s", "--population", "rows"),
            "--population must be rows only",
        ),
        (("--arms", ARMS, "--pull", "true {arm}", "--algorithm", "census"), "--population rows"),
    ],
)
def test_bad_usage_is_a_sentence(find: Run, words: tuple[object, ...], said: str) -> None:
    assert_refused(find(*words), 2, said)


def test_an_unknown_study_of_a_server_is_named_with_its_address(find: Run) -> None:
    with served(Path("studies.db").absolute()) as server:
        ran = find("--study", "nobody", "--storage", server.address)
        assert_refused(ran, 2, f"no study 'nobody' in {server.address}")


def test_an_empty_file_of_arms_is_refused(find: Run) -> None:
    Path("empty").write_text("")
    assert_refused(find("--arms", "empty", "--pull", "true {arm}"), 2, "at least 2 but got 0")


# Failures


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("nan", "got nan"),
        ("nothing", "got None"),
        ("beyond", "got 2"),
        ("boom", "ValueError: kaput"),
        ("beyond_in_batch", "got 2"),
        ("too_few", "as many rewards"),
    ],
)
def test_a_function_that_gives_no_reward_stops_the_search(
    find: Run, function: str, said: str
) -> None:
    batch = ("--batch",) if function in ("beyond_in_batch", "too_few") else ()
    ran = find("--arms", ARMS, "--python", f"functions:{function}", *SEARCH, *batch)
    assert_refused(ran, 1, said, "0 samples kept in output/find/study.db", "goes on from there")
    assert json.loads(Path("output/find/result.json").read_text())["complete"] is False


HANGING = "sh -c 'test $ODDARMS_ARM = b && sleep 600; test $ODDARMS_ARM != e'"


@pytest.mark.parametrize("policy", ["stop", "retry"])
def test_an_arm_that_always_hangs_ends_the_search(find: Run, policy: str) -> None:
    words = ("--arms", ARMS, "--pull", HANGING, "--timeout", "0.2s", "--jobs", 4, *SEARCH)
    ran = find(*words, "--on-error", policy)
    times = "" if policy == "stop" else " (10 times in a row)"
    assert_refused(ran, 1, f"arm 'b': the command took longer than 0.2 s{times}. ")
    assert "A larger --timeout gives a sample more time; --on-error worst counts" in ran.err
    kept = re.search(r"(\d+) samples kept", ran.err)
    assert kept is not None
    study = oddarms.load_study("find", storage="output/find/study.db")
    assert int(kept[1]) == len(list(study.trials())) > 0


def test_a_timeout_may_count_as_the_worst_reward(find: Run) -> None:
    pull = "sh -c 'test $ODDARMS_ARM != e || sleep 600'"
    ran = find(
        *("--arms", ARMS, "--pull", pull, "--timeout", 1, "--jobs", 8, "--on-error", "worst"),
        *("--k", 1, "--delta", 0.2, "--seed", 1, "--format", "json"),
    )
    assert ran.code == 0, ran.err
    assert ran.json["outliers"] == ["e"]


def test_failures_now_and_then_are_tried_again(find: Run) -> None:
    pull = (
        "sh -c 'echo x >> count; test $(wc -l < count) = 7 && kill -9 $$; test $ODDARMS_ARM != e'"
    )
    words = ("--arms", ARMS, "--pull", pull, *SEARCH, "--format", "json")
    ran = find(*words, "--on-error", "retry")
    assert ran.code == 0, ran.err
    assert ran.json["outliers"] == ["e"]
    assert ran.json["pulls"] == len(Path("count").read_text().split()) - 1
    assert find(*words, "--on-error", "drop").code == 2


@pytest.mark.parametrize("policy", ["stop", "retry", "worst"])
def test_a_tool_that_is_not_there_ends_the_search_at_once(find: Run, policy: str) -> None:
    pull = "sh -c 'echo x >> count; no-such-tool' sh {arm}"
    ran = find("--arms", ARMS, "--pull", pull, "--on-error", policy, *SEARCH)
    assert_refused(ran, 2, "exit code 127: a program was not found", "by hand")
    assert Path("count").read_text() == "x\n"


def test_codes_of_failures_may_be_named(find: Run) -> None:
    pull = "sh -c 'test $1 != e || exit 7' sh {arm}"
    words = ("--arms", ARMS, "--pull", pull, *SEARCH, "--failure-codes", "5-7")
    assert_refused(find(*words), 1, "arm 'e': the command ended with exit code 7. ")
    ran = find(*words, "--on-error", "worst", "--out", "worst", "--format", "json")
    assert ran.json["outliers"] == ["e"]


# The budget


@pytest.mark.parametrize("budget", [0, 3, 20])
def test_a_budget_is_kept_and_what_is_open_is_named(find: Run, budget: int) -> None:
    words = ("--arms", ARMS, "--python", "functions:only_e", *SEARCH, "--budget", budget)
    ran = find(*words)
    assert ran.code == 3
    assert ran.out.startswith("0 of 5 arms are known to be outliers, 5 are undecided\n")
    assert "\nstatus: budget: the budget does not allow another step\n" in ran.out
    assert "\nundecided, the most suspicious first; guesses are not proven:\n" in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80
    answer = find(*words, "--format", "json").json
    assert answer["pulls"] <= budget
    assert answer["status"] == "budget"
    assert answer["undecided"] == list("eabcd" if budget == 20 else "abcde")


def test_where_no_outlier_is_possible_that_is_said(find: Run) -> None:
    ran = find("--arms", "a,b,c", "--pull", "true {arm}", "--k", 2)
    assert ran.code == 0
    assert "no sample was needed: among 3 arms none can be 2 sd out" in ran.out
    assert "samples: 0\n" in ran.out


def test_a_table_of_too_few_things_says_so(
    run_command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("four.csv").write_text("host,failed\n" + "a,1\nb,0\nc,0\nd,0\n" * 100)
    ran = run_command("find", "--table", "four.csv", "--arm", "host", "--reward", "failed")
    assert "among 4 arms none can be 2 sd out" in ran.out


def test_folders_of_reports_are_told_apart(tmp_path: Path) -> None:
    for name in ("go", "jest"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.xml").touch()
    go, jest = str(tmp_path / "go"), str(tmp_path / "jest")
    assert folders_of([go]) == folders_of([f"{go}/1.xml"]) == [go]
    assert folders_of([go]) != folders_of([jest])
    assert folders_of([]) is None


# The same everywhere


@pytest.mark.parametrize("budget", [None, 23])
def test_all_outputs_are_one_document(find: Run, run_command: Run, budget: int | None) -> None:
    words = ("--arms", ARMS, "--python", "functions:only_e", *SEARCH, "--out", "o")
    words += () if budget is None else ("--budget", budget)
    there = ("find", "--storage", "o/study.db")
    printed = find(*words, "--format", "json").json
    shown = find(*words).out
    reloaded = oddarms.load_study("find", storage="o/study.db").result()
    documents = [
        printed,
        json.loads(Path("o/result.json").read_text()),
        run_command("study", "result", *there, "--format", "json").json,
        reloaded.to_dict(),
    ]
    assert all(list(document) == list(printed) for document in documents)
    assert all(document == printed for document in documents)
    assert shown == run_command("study", "result", *there).out == f"{reloaded!r}\n"
    table = find(*words, "--format", "csv").out
    quoted = Path("o/arms.csv").read_bytes().decode()
    assert list(csv.reader(io.StringIO(table))) == list(csv.reader(io.StringIO(quoted)))
    assert table == run_command("study", "result", *there, "--format", "csv").out


def test_the_status_of_a_used_up_budget_is_the_same_everywhere(
    find: Run, run_command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--arms", ARMS, "--python", "functions:only_e", *SEARCH, "--out", "o")
    assert find(*words, "--budget", 23).code == 3
    study = oddarms.load_study("find", storage="o/study.db")
    result = study.result()
    assert 0 < result.pulls <= 23
    assert study.status == result.status == "budget"
    there = ("find", "--storage", "o/study.db")
    said = "budget: the budget does not allow another step"
    assert f"status: {said}\n" in run_command("study", "result", *there).out
    assert f"Status:     {said}\n" in run_command("study", "show", *there).out
    about = run_command("study", "show", *there, "--format", "json").json
    document = result.to_dict()
    for key in ("status", "pulls", "imported", "unused", "pulls_needed", "thresholds", "question"):
        assert about[key] == document[key]
    assert about["undecided"] == len(document["undecided"])
    asked = run_command("study", "ask", *there, "--format", "json")
    assert (asked.code, asked.json) == (3, {"status": "budget", "tickets": []})
    monkeypatch.setattr("oddarms.reports._page.pictures", lambda _account: [])
    page = oddarms.reports.write_report(result, "o").read_text(encoding="utf-8")
    assert page.count(said) == 2


# Going on


def test_the_same_command_goes_on_after_ctrl_c(find: Run) -> None:
    words = ("--arms", ARMS, *SEARCH, "--format", "json", "--same-source")
    first = find(*words, "--python", "functions:interrupted")
    assert first.code == 130
    assert (first.json["status"], first.json["pulls"] + first.json["unused"]) == ("interrupted", 20)
    said = first.err.splitlines()[-1]
    kept = re.fullmatch(r"interrupted: (\d+) samples kept in output/find/study.db, .*", said)
    assert kept is not None
    assert int(kept[1]) == 20
    second = find(*words, "--python", "functions:only_e")
    assert second.code == 0
    assert "going on with 20 samples of the study in output/find/study.db\n" in second.err
    whole = find(*words, "--python", "functions:only_e", "--out", "anew")
    assert second.json == whole.json


@pytest.mark.parametrize(
    ("module", "moment"), [("_ticket_rows", "add_tickets"), ("_result_rows", "add_new_results")]
)
def test_ctrl_c_while_something_is_stored_waits_for_it(
    find: Run, module: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = importlib.import_module(f"oddarms.studies.{module}")
    store, calls = getattr(rows, moment), []

    def interrupted(*args: Any) -> Any:
        calls.append(moment)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return store(*args)

    monkeypatch.setattr(rows, moment, interrupted)
    words = ("--arms", ARMS, *SEARCH, "--python")
    first = find(*words, "functions:only_e")
    assert first.code == 130
    stored = len(list(oddarms.load_study("find", storage="output/find/study.db").trials()))
    assert first.err.count(f"interrupted: {stored} sample") == 1
    assert find(*words, "functions:only_e").code == 0


def test_a_changed_command_is_refused_and_may_sample_afresh(find: Run) -> None:
    words = ("--arms", ARMS, *SEARCH, "--format", "json", "--out", "o", "--pull")
    assert find(*words, PULL).json["outliers"] == ["e"]
    fixed = "test {arm} != b"
    refused = ("--pull must stay as it was", "'test {arm} != e', but", "--fresh", "--same-source")
    assert_refused(find(*words, fixed), 2, *refused)
    assert_refused(find(*words, PULL, "--failure-codes", 7), 2, "kept, nothing, but got '7'")
    ran = find(*words, fixed, "--same-source")
    assert ran.json["outliers"] == ["e"]
    assert_refused(find(*words, PULL), 2, "'test {arm} != b', but got")
    ran = find(*words, fixed, "--fresh")
    assert ran.json["outliers"] == ["b"]
    (aside,) = Path("o").glob("before-*")
    assert f"the search that was in o is in {aside} now\n" in ran.err
    assert json.loads((aside / "result.json").read_text())["outliers"] == ["e"]
    assert oddarms.load_study("find", storage=str(aside / "study.db")).result().outliers == ["e"]
    assert find(*words, fixed).json["outliers"] == ["b"]
    assert find(*words, PULL, "--fresh").json["outliers"] == ["e"]
    assert len(list(Path("o").glob("before-*"))) == 2


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (
            ("--python", "functions:only_e"),
            ("--python", "functions:boom"),
            "--python must stay as it was",
        ),
        (
            ("--python", "functions:Scale.up_to_ten", "--above", "5"),
            ("--python", "functions:Scale.up_to_ten", "--above", "7"),
            "--above must stay as it was where samples are kept, 5.0, but got 7.0",
        ),
        (
            ("--pull", PULL, "--on-error", "worst", "--timeout", "60"),
            ("--pull", PULL, "--on-error", "worst", "--timeout", "30"),
            "--timeout must stay",
        ),
        (
            ("--pull", PULL, "--on-error", "worst"),
            ("--pull", PULL),
            "--on-error must stay as it was where samples are kept, 'worst', but got nothing",
        ),
    ],
)
def test_all_that_rewards_depend_on_is_remembered(
    find: Run, before: tuple[str, ...], after: tuple[str, ...], told: str
) -> None:
    words = ("--arms", ARMS, *SEARCH, "--budget", 20)
    assert find(*words, *before).code in (0, 3)
    assert_refused(find(*words, *after), 2, told, "--fresh", "--same-source")
    assert find(*words, *after, "--same-source").code in (0, 1, 3)


def test_a_timeout_may_be_given_to_a_search_that_a_failure_ends(find: Run) -> None:
    words = ("--arms", ARMS, *SEARCH, "--pull", PULL, "--budget")
    assert find(*words, 20).code == 3
    assert find(*words, 30, "--timeout", 60, "--on-error", "worst").code in (0, 3)
    assert_refused(find(*words, 40, "--timeout", 50, "--on-error", "worst"), 2, "--timeout must")


def test_another_working_directory_or_program_is_noticed(
    find: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("here", "there"):
        program = tmp_path / name / "probe"
        program.parent.mkdir()
        program.write_text("#!/bin/sh\ntest $1 != e\n")
        program.chmod(0o755)
    out = tmp_path / "out"
    words = ("--arms", ARMS, *SEARCH, "--budget", 20, "--out", out, "--pull")
    monkeypatch.chdir(tmp_path / "here")
    assert find(*words, "./probe {arm}").code == 3
    monkeypatch.chdir(tmp_path / "there")
    told = "the working directory must stay as it was", f"'{tmp_path / 'here'}', but got"
    assert_refused(find(*words, "./probe {arm}"), 2, *told)
    monkeypatch.chdir(tmp_path / "here")
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", f"{tmp_path / 'here'}:{path}")
    assert find(*words, "probe {arm}", "--fresh").code == 3
    monkeypatch.setenv("PATH", f"{tmp_path / 'there'}:{path}")
    assert_refused(find(*words, "probe {arm}"), 2, "the program must stay as it was", "'probe'")
    assert find(*words, "probe {arm}", "--same-source").code == 3


def test_a_table_that_has_changed_is_not_counted_twice(find: Run) -> None:
    table = Path("history.csv")
    table.write_text("arm,reward\n" + "".join(f"{arm},0\n" for arm in "abcde"))
    words = ("--table", table, "--pull", PULL, *SEARCH, "--budget", 20, "--format", "json")
    assert find(*words).json["imported"] == 5
    with table.open("a") as file:
        file.write("a,0\n")
    told = "what is in --table must stay as it was", "--fresh", "if all of them are new"
    assert_refused(find(*words), 2, *told)
    assert_refused(find(*words, "--missing", "skip"), 2, "--missing of --table must stay")
    assert find(*words, "--fresh").json["imported"] == 6


def test_a_fresh_look_at_a_table_keeps_the_old_answer(find: Run) -> None:
    table = Path("history.csv")
    table.write_text("arm,reward\n" + "".join(f"{arm},0\n" for arm in "abcde"))
    assert find("--table", table).code == 3
    ran = find("--table", table, "--fresh")
    (aside,) = Path("output/find").glob("before-*")
    assert sorted(path.name for path in aside.iterdir()) == ["arms.csv", "result.json"]
    assert f"the search that was in output/find is in {aside} now\n" in ran.err


def test_a_folder_is_named_after_the_question(
    run_command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oddarms.cli.sampling._output.write_report", lambda *_, **__: None)
    (tmp_path / "tests.txt").write_text("a\nb\nc\nd\ne\n")

    def folders(*words: object) -> set[str]:
        before = {path.name for path in Path("output").glob("*")}
        command = ("find", "--k", 1, "--budget", 12, "-q", *words)
        assert run_command(*command, stdin="a\nb\n").code in (0, 3)
        return {path.name for path in Path("output").glob("*")} - before

    words = ("--arms", "tests.txt", "--pull", "test {arm} != e")
    (name,) = folders(*words)
    assert re.fullmatch("find-tests-test-e-[0-9a-f]{6}", name)
    assert folders(*words) == set()
    assert folders(*words, "--budget", 20, "--margin", 0.1, "--jobs", 2) == set()
    assert folders("--arms", "./tests.txt", *words[2:], "--budget", 20) == set()
    for other in (
        (*words, "--k", 1.5),
        (*words[:3], "test {arm} != d"),
        ("--arms", "a,b,c,d,e", *words[2:]),
        ("--arms", "-", *words[2:]),
        (*words, "--seed", 4),
    ):
        assert len(folders(*other)) == 1


def test_a_command_that_never_sampled_may_be_mended(find: Run) -> None:
    words = ("--arms", ARMS, *SEARCH, "--pull")
    assert find(*words, "sh -c 'exit 127' {arm}").code == 2
    assert find(*words, PULL).code == 0


def test_a_study_elsewhere_is_not_moved(find: Run) -> None:
    words = ("--arms", ARMS, "--pull", PULL, "--storage", "s.db", "--fresh")
    assert_refused(find(*words), 2, "--fresh must be given without --storage")


def test_a_search_that_is_done_is_not_begun_again(find: Run) -> None:
    words = ("--arms", ARMS, *SEARCH, "--same-source")
    first = find(*words, "--python", "functions:only_e")
    assert "OUTLIER: e\n" in first.err
    again = find(*words, "--python", "functions:boom")
    assert (again.code, again.out) == (0, first.out)
    moment = r"\d{4}-\d\d-\d\d \d\d:\d\d UTC"
    told = rf"this answer is of {moment}, with \d+ samples; --fresh samples again\n"
    assert re.match(told, again.err)
    assert "OUTLIER" not in again.err


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--k", 1.1, "(1.0) but got 1.1"),
        ("--delta", 0.2, "(0.1) but got 0.2"),
        ("--side", "both", "(upper) but got both"),
        ("--seed", 2, "(1) but got 2"),
        ("--bounds", "0,2", "((0.0, 1.0)) but got (0.0, 2.0)"),
        ("--algorithm", "rr", "(spade) but got rr"),
        ("--arms", "a,b,c,d,x", "arms must be"),
    ],
)
def test_another_question_is_refused(find: Run, option: str, value: object, told: str) -> None:
    words = ("--arms", ARMS, *SEARCH, "--pull")
    oddarms.create_study(
        "find", ARMS.split(","), k=1, delta=0.1, rng=1, storage=f"{Path.cwd()}/study.db"
    )
    ran = find(*words, PULL, option, value, "--storage", "study.db")
    assert_refused(ran, 2, f"{option.strip('-')}", "was begun with", told, "--out")


def test_a_larger_budget_and_an_indifference_are_asked_of_the_same_study(find: Run) -> None:
    words = ("--arms", ARMS, "--python", "functions:only_e", *SEARCH)
    assert find(*words, "--budget", 11).code == 3
    ran = find(*words, "--budget", 5)
    assert_refused(ran, 2, "budget must not become smaller than it was (11) but got 5")
    assert find(*words, "--budget", 17, "--indifference", 0.01).code == 3
    assert find(*words[:4]).code == 3
    question = oddarms.load_study("find", storage="output/find/study.db").question
    assert (question.budget, question.indifference) == (17, 0.01)


def test_a_study_is_shown_by_its_name_alone(find: Run) -> None:
    words = ("--study", "mine", "--storage", "s.db")
    assert find("--arms", ARMS, "--python", "functions:only_e", *SEARCH, *words).code == 0
    ran = find(*words, "--format", "json", "--out", "elsewhere")
    assert ran.code == 0
    assert ran.json["outliers"] == ["e"]
    assert ran.json["question"]["k"] == 1.0


def test_a_folder_has_one_search_at_a_time(find: Run) -> None:
    words = ("--arms", ARMS, *SEARCH)
    with search(*words, "--pull", "sh -c 'sleep 60' {arm}", "--out", "o") as slow:
        wait_until(lambda: Path("o/study.db").exists())
        assert_refused(find(*words, "--pull", PULL, "--out", "o"), 2, "no other search runs")
        slow.send_signal(signal.SIGINT)
        assert slow.wait(60) == 130


@pytest.mark.parametrize("there", [False, True])
def test_a_lock_that_is_a_link_is_not_followed(find: Run, tmp_path: Path, there: bool) -> None:
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / ".lock").symlink_to(elsewhere)
    if there:
        elsewhere.write_text("mine")
    words = ("--arms", ARMS, "--pull", PULL, *SEARCH, "--out", tmp_path / "o")
    assert_refused(find(*words), 2, ".lock is a file")
    assert elsewhere.exists() == there
    assert not (tmp_path / "o" / "study.db").exists()


# In a process of its own


LOGGING = (
    "sh -c 'while test $(grep -c . log) -ge 6; do sleep 600; done;"
    " sleep 0.1; echo end >> log; test $ODDARMS_ARM != e'"
)
"""Commands of which a few end, and the others wait until they are killed."""


@contextmanager
def search(*words: object) -> Iterator[subprocess.Popen[str]]:
    """Start a search in another process, and end it whatever happens to the test."""
    command = [COMMAND, "find", *map(str, words)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(happened: Callable[[], bool], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def logged(word: str) -> int:
    return Path("log").read_text().split().count(word)


@pytest.mark.parametrize(
    "how", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGKILL]
)
def test_a_killed_search_goes_on_without_waiting(find: Run, how: signal.Signals) -> None:
    words = ("--arms", ARMS, *SEARCH, "--out", "o")
    Path("log").touch()
    with search(*words, "--pull", LOGGING, "--jobs", "3") as process:
        wait_until(lambda: logged("end") >= 6)
        process.send_signal(how)
        _, said = process.communicate(timeout=90)
    stored = len(list(oddarms.load_study("find", storage="o/study.db").trials()))
    if how == signal.SIGINT:
        assert process.returncode == 130
        # what was finished is there, but for commands that were just about to end
        assert logged("end") - 3 <= stored <= logged("end")
        assert f"interrupted: {stored} samples kept in o/study.db" in said
    started = time.monotonic()
    ran = find(*words, "--pull", PULL, "--format", "json", "--same-source")
    assert ran.code == 0
    assert time.monotonic() - started < 300.0  # a lease is an hour
    assert f"going on with {stored} samples" in ran.err
    assert ran.json["outliers"] == ["e"]


def test_many_jobs_run_at_the_same_time(find: Run) -> None:
    pull = (
        "sh -c 'touch here.$ODDARMS_ARM; while [ $(ls here.* | wc -l) -lt 5 ]; do sleep 0.05; done'"
    )
    ran = find("--arms", ARMS, "--pull", pull, "--jobs", 8, "--timeout", 60, "--budget", 5, *SEARCH)
    assert ran.code == 3, ran.err


# Tables


def write_table(path: str, rewards: dict[str, list[object]], header: str = "worker,wrong") -> None:
    with open(path, "w", newline="") as file:
        file.write(header + "\n")
        table = csv.writer(file)
        table.writerows([label, reward] for label, each in rewards.items() for reward in each)


TABLE = ("--table", "t.csv", "--arm", "worker", "--reward", "wrong")


def test_a_table_is_judged_by_itself(find: Run) -> None:
    write_table("t.csv", {"a": [0] * 300, "b, c": [0] * 500, "d\ne": [0] * 400, "f": [1] * 200})
    ran = find(*TABLE, "--k", 1)
    assert ran.code == 0
    assert ran.out.startswith("1 of 4 arms is an outlier ")
    assert "samples: 1,400, all of them imported\n" in ran.out
    assert "t.csv: 1,400 samples of 4 things" in ran.err
    answer = find(*TABLE, "--k", 1, "--format", "json").json
    assert (answer["pulls"], answer["imported"]) == (0, 1400)
    assert {row["label"]: row["imported"] for row in answer["arms"]} == {
        "a": 300,
        "b, c": 500,
        "d\ne": 400,
        "f": 200,
    }
    assert find(*TABLE, "--k", 1, "--format", "csv").rows[2]["label"] == "d\ne"
    assert not Path("output/find/study.db").exists()


def test_what_a_table_leaves_open_is_told_with_the_pulls_it_would_take(find: Run) -> None:
    write_table("t.csv", {"a": [0, 1] * 300, "b": [0, 1] * 400, "c": [0, 1] * 200, "d": [1] * 4})
    ran = find(*TABLE, "--k", 1)
    assert ran.code == 3
    assert "status: ended: there are no more rewards\n" in ran.out
    assert "undecided, the most suspicious first; guesses are not proven:\n" in ran.out
    rows = {row["label"]: row for row in find(*TABLE, "--k", 1, "--format", "json").json["arms"]}
    assert rows["d"]["decision"] == "undecided"
    for row in rows.values():
        assert row["decision"] != "undecided" or row["pulls_needed"] > 0


def test_rows_may_be_the_population(find: Run) -> None:
    """Equal means are decided, too, as all rows can be seen; the samples are those looked at."""
    write_table("t.csv", {"a": [0, 1] * 3, "b": [1, 0] * 2, "c": [0, 1]})
    words = (*TABLE, "--k", 1, "--population", "rows")
    ran = find(*words)
    assert ran.code == 0
    assert ran.out.startswith("nothing stands out among 3 arms ")
    assert find(*words, "--margin", 0).out.startswith("3 of 3 arms are outliers ")
    assert "samples: 12\n" in ran.out
    some = find(*words, "--arms", "c,a", "--format", "json").json
    assert [row["label"] for row in some["arms"]] == ["c", "a"]
    assert some["question"]["options"] == {"rows": [2, 6]}
    assert not Path("output/find/study.db").exists()
    assert_refused(find(*words, "--arms", "a,z"), 2, "'z' has no row in t.csv")
    assert_refused(find(*words, "--algorithm", "rr"), 2, "algorithm must be 'census'")
    assert_refused(find(*words, "--indifference", 0.1), 2, "but got 'indifference'")


def test_a_search_goes_on_from_a_table_which_counts_once(find: Run) -> None:
    write_table("t.csv", {"a": [0] * 100, "b": [0] * 100, "c": [0] * 50, "d": [0], "e": [1] * 3})
    column = ("--table", "t.csv", "--arm", "worker", "--reward-column", "wrong")
    words = (*column, "--pull", PULL, *SEARCH, "--format", "json")
    first = find(*words)
    assert first.code == 0, first.err
    assert first.json["outliers"] == ["e"]
    assert first.json["imported"] == 254
    assert first.json["pulls"] > 0
    second = find(*words)
    assert "t.csv was imported before; its samples count once" in second.err
    assert second.json == first.json


def test_an_algorithm_without_imports_takes_the_rows_as_its_samples(find: Run) -> None:
    write_table("t.csv", {"a": [0] * 9, "b": [1] * 7, "c": [0] * 8})
    answer = find(*TABLE, "--k", 1, "--algorithm", "rr", "--format", "json").json
    assert answer["status"] == "ended"
    assert (answer["pulls"], answer["imported"]) == (0, 24)
    assert answer["unused"] == 2  # one of each arm at a time: b has no eighth row, so 22 are used


def test_a_parquet_table_is_read(find: Run) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import parquet, table

    names = ["a"] * 300 + ["b"] * 500 + ["c"] * 400 + ["d"] * 200
    parquet.write_table(table({"worker": names, "wrong": [0] * 1200 + [1] * 200}), "t.parquet")
    ran = find("--table", "t.parquet", *TABLE[2:], "--k", 1, "--format", "json")
    assert ran.code == 0
    assert ran.json["outliers"] == ["d"]


def test_a_reward_outside_the_bounds_is_named(find: Run) -> None:
    write_table("t.csv", {"a": [0], "b": [3]})
    assert_refused(find(*TABLE, "--k", 1), 2, "line 3")
    assert find(*TABLE, "--k", 0.5, "--bounds", "0,3").code == 3


def test_a_table_may_come_from_stdin(find: Run) -> None:
    text = "worker,wrong\n" + "a,0\nb,0\nc,0\n" * 300 + "d,1\n" * 300
    ran = find("--table", "-", *TABLE[2:], "--k", 1, "--format", "json", stdin=text)
    assert ran.code == 0
    assert ran.json["outliers"] == ["d"]


def test_the_command_needs_nothing_of_comparisons_and_clusters() -> None:
    heavy = ["oddarms.experiments", "oddarms.cli.study", "dask", "distributed"]
    heavy += ["ray", "numba", "pandas", "matplotlib", "pyarrow", "scipy.stats", "scipy.optimize"]
    code = f"import sys, oddarms.cli.find; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


# The report and the page


def test_the_folder_has_the_report(run_command: Run) -> None:
    pytest.importorskip("matplotlib")
    ran = run_command("find", "--arms", ARMS, "--pull", PULL, *SEARCH, "--out", "o", "-q")
    assert (ran.code, ran.err) == (0, "")
    assert "</html>" in Path("o/report.html").read_text()
    assert {path.name for path in Path("o").iterdir()} >= {"arms.csv", "report.html", "result.json"}


@pytest.mark.long
def test_the_page_works(tmp_path: Path) -> None:
    """Its blocks run in their order, in one directory: flaky tests, and workers of a crowd."""
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "COLUMNS": "80"}
    said = []
    for language, block in page_blocks(ROOT / "docs" / "find.md"):
        words = [sys.executable, "-c", block] if language == "python" else []
        done = subprocess.run(
            words or ["bash", "-c", f"set -e\n{block}"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, block + done.stderr
        said.append(done.stdout)
    assert "['mail']" in "".join(said)
    flaky = json.loads((tmp_path / "flaky" / "result.json").read_text())
    assert flaky["outliers"] == ["test_basket"]
    crowd = json.loads((tmp_path / "crowd" / "result.json").read_text())
    assert crowd["outliers"] == ["zoe"]
    assert said[-1].endswith("\n11\n")
    assert any(text.startswith("0 of 12 arms are known to be outliers, 12 are") for text in said)


def test_labels_that_spreadsheets_run_are_neutralised_in_the_file_alone(find: Run) -> None:
    words = ("--arms", "=a,b,c,d", "--pull", "test {arm} != d", *SEARCH, "--quiet")
    ran = find(*words, "--format", "csv")
    assert ran.code == 0
    assert ran.out.splitlines()[1].startswith("=a,")
    file = Path("output/find/arms.csv")
    assert file.read_text().splitlines()[1].startswith('"\'=a",')
    assert find(*words, "--raw-csv").code == 0
    assert file.read_text().splitlines()[1].startswith("=a,")


# Tables as people write them, and rewards without bounds


def test_a_table_of_counts(find: Run) -> None:
    rows = "".join(
        f"{host},{errors},400\n" for host, errors in zip("abcde", (2, 3, 1, 2, 390), strict=True)
    )
    Path("t.csv").write_text(f"host,errors,requests\n{rows}f,0,0\n")
    counts = ("--successes", "errors", "--trials", "requests")
    words = ("--table", "t.csv", "--arm", "host", *counts, "--k", 1.5)
    ran = find(*words, "--format", "json")
    assert "t.csv: 2,000 samples of 6 things" in ran.err
    assert ran.code == 3
    assert ran.json["imported"] == 2000
    assert "f" in ran.json["undecided"]
    known = find(*words, "--arms", "a,b,c,d,e", "--format", "json")
    assert_refused(known, 2, "rewards must name arms of the search but have 'f'")
    Path("t.csv").write_text(f"host,errors,requests\n{rows}")
    assert find(*words, "--format", "json").json["outliers"] == ["e"]
    going_on = (*words, "--python", "functions:only_e", "--format", "json")
    first = find(*going_on)
    assert (first.code, first.json["imported"]) == (0, 2000)
    second = find(*going_on)
    assert "imported before; its samples count once" in second.err
    assert second.json == first.json


def test_a_table_from_another_office(find: Run) -> None:
    lines = ["Nr;Wörker;wrong", *(f"{i};Zoë;0,5" for i in range(9)), "1;bo;", "1;bo;", "3;bo;1"]
    Path("t.csv").write_bytes("\r\n".join(lines).encode("latin-1"))
    words = ("--table", "t.csv", "--arm", "wörker", "--reward", "wrong", "--k", 0.5)
    assert_refused(find(*words), 2, "(--encoding latin-1 or cp1252)")
    latin = (*words, "--encoding", "latin-1")
    assert_refused(find(*latin), 2, "line 11: wrong must have a value but is empty", "--missing")
    Path("na.csv").write_text("arm,reward\na,1\nb,N/A\n")
    absent = find("--table", "na.csv")
    assert_refused(absent, 2, "line 3: reward must have a value but is 'N/A'", "(--missing) 'skip'")
    skipped = find(*latin, "--missing", "skip", "--format", "json")
    assert "2 rows without a reward left out: sound only if" in skipped.err
    assert "1 row is an exact copy of others" in skipped.err
    assert skipped.json["imported"] == 10
    worst = find(*latin, "--missing", "worst", "--side", "lower", "--format", "json")
    assert "2 missing rewards counted as the worst" in worst.err
    assert {row["label"]: row["mean"] for row in worst.json["arms"]}["bo"] == pytest.approx(1 / 3)


def test_rewards_without_bounds(find: Run) -> None:
    write_table("t.csv", {"a": [0.1] * 400, "b": [0.2] * 400, "c": [0.1] * 400, "d": [7, 70] * 200})
    refused = find(*TABLE, "--k", 1, "--bounds", "0,inf")
    assert_refused(refused, 2, "--bounds must be finite but got 0,inf", "--clip", "--above")
    capped = find(*TABLE, "--k", 1, "--clip", "0,10", "--format", "json")
    assert "means are those of rewards clipped to [0, 10]" in capped.err
    assert "200 of 1,600 samples were clipped to [0, 10]" in capped.err
    assert capped.json["outliers"] == ["d"]
    assert capped.json["question"]["bounds"] == [0.0, 10.0]
    slow = find(*TABLE, "--k", 1, "--above", 0.5, "--format", "json")
    assert "means are shares of samples above 0.5" in slow.err
    assert "clipped" not in slow.err
    assert [row["mean"] for row in slow.json["arms"]] == [0.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    "source",
    [
        ("--python", "functions:Scale.up_to_ten"),
        ("--python", "functions:all_scales", "--batch"),
        ("--pull", "sh -c 'test $ODDARMS_ARM = e && echo 9 || echo 1'", "--reward", "stdout"),
    ],
    ids=["function", "batch", "command"],
)
def test_samples_without_bounds(find: Run, source: tuple[object, ...]) -> None:
    words = ("--arms", ARMS, *source, *SEARCH, "--format", "json")
    capped = find(*words, "--clip", "0,5", "--out", "capped")
    assert (capped.code, capped.json["outliers"]) == (0, ["e"])
    assert capped.json["question"]["bounds"] == [0.0, 5.0]
    clipped = next(row["pulls"] for row in capped.json["arms"] if row["label"] == "e")
    assert f"{clipped} of {capped.json['pulls']} samples were clipped" in capped.err
    slow = find(*words, "--above", 2, "--out", "slow")
    assert (slow.code, slow.json["outliers"]) == (0, ["e"])
    assert {row["mean"] for row in slow.json["arms"]} == {0.0, 1.0}


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (("--clip", "0,1", "--above", 1), "one of clip and above must be left out"),
        (("--clip", "0,1", "--bounds", "0,1"), "--bounds must be left out with --clip"),
        (("--clip", "0,inf"), "clip must be finite"),
        (("--clip", "10"), "clip must be two numbers with a comma between"),
        (("--above", 1, "--pull", PULL), "must be given with --reward stdout"),
        (("--missing", "skip"), "must be given with --table"),
        (("--encoding", "latin-1"), "must be given with --table"),
        (("--table", "t.csv", "--trials", "n"), "--successes and --trials must be given together"),
        (
            ("--table", "t.csv", "--trials", "n", "--successes", "s", "--above", 1),
            "must be given without a column of rewards",
        ),
    ],
)
def test_options_that_do_not_go_together(find: Run, words: tuple[object, ...], rule: str) -> None:
    source = () if "--pull" in words else ("--python", "functions:only_e")
    assert_refused(find("--arms", ARMS, *source, *words), 2, rule)


@pytest.mark.parametrize("how", ["Scale.up_to_ten", "all_scales"])
def test_a_reward_outside_the_bounds_keeps_the_samples_and_says_how_to_go_on(
    find: Run, how: str
) -> None:
    words = ("--arms", ARMS, "--python", f"functions:{how}", *SEARCH, "--bounds", "0,5")
    batch = ("--batch",) if how == "all_scales" else ()
    ran = find(*words, *batch)
    assert ran.code == 1
    assert "rewards must lie within the bounds [0, 5] but got 9" in ran.err
    assert "kept in" in ran.err
    assert "With --clip 0,5 it counts such rewards as the nearer bound" in ran.err
    assert "another --out" in ran.err
    before = oddarms.load_study("find", storage="output/find/study.db").progress().pulls
    assert before >= 4
    again = find(*words[:-2], *batch, "--clip", "0,5", "--format", "json")
    assert (again.code, again.json["outliers"]) == (0, ["e"])
    assert f"going on with {before} samples" in again.err
