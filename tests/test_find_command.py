"""``oddarms find``: sources, failures, budgets, resuming, the answer."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import oddarms
from helpers import BIN, COMMAND, ROOT, Ran, Run, assert_refused, page_blocks
from oddarms.studies import StoredStudy
from processes import wait_until

ARMS = "a,b,c,d,e"
PULL = "test {arm} != e"
SEARCH = ("--k", 1, "--delta", 0.1, "--seed", 1)
FUNCTIONS = """
import asyncio

calls = []


def only_e(label):
    calls.append(label)
    return label == "e"


async def slowly(label):
    await asyncio.sleep(0)
    return label == "e"


def only_b(label):
    return label == "b"


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
    monkeypatch.setattr("oddarms.report.write_report", lambda *_, **__: None)
    module = f"functions_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(FUNCTIONS)
    path = list(sys.path)

    def run(*words: object, stdin: str = "") -> Ran:
        given = [str(word).replace("functions:", f"{module}:") for word in words]
        out = [] if "--out" in given else ["--out", "output/find"]
        return run_command("find", *given, *out, stdin=stdin)

    yield run
    sys.path[:] = path
    sys.modules.pop(module, None)


def stored(where: str = "output/find/study.db") -> int:
    return len(list(oddarms.load_study("find", storage=where).trials()))


# Sources


@pytest.mark.parametrize(
    "source",
    [
        ("--pull", PULL, "--jobs", 8),
        ("--pull", 'test "$ODDARMS_ARM" != e', "--shell"),
        ("--pull", "sh -c 'test $1 = e; echo $?' sh {arm}", "--reward", "stdout", "--side=lower"),
        ("--python", "functions:only_e"),
        ("--python", "functions:only_e", "--jobs", 3, "--timeout", "1m"),
        ("--python", "functions:slowly"),
        ("--python", "functions:odd", "--batch"),
        ("--python", "functions:Scale.up_to_ten", "--bounds", "0,10"),
        ("--python", "functions:only_e", "--side", "both"),
        ("--python", "functions:only_e", "--algorithm", "rr", "--option", "batch=50"),
    ],
    ids=lambda source: " ".join(map(str, source)),
)
def test_the_abnormal_item_is_found(find: Run, source: tuple[object, ...]) -> None:
    ran = find("--arms", "-", *source, *SEARCH, "--format", "json", stdin="a\nb\nc\nd\ne\n")
    assert ran.code == 0, ran.err
    answer = ran.json
    assert answer["outliers"] == ["e"]
    assert answer["complete"] is True
    assert answer["pulls"] == sum(row["pulls"] for row in answer["arms"]) > 0
    assert json.loads(Path("output/find/result.json").read_text()) == answer


def test_the_answer_has_means_intervals_odds_and_the_cost(find: Run) -> None:
    ran = find("--arms", ARMS, "--python", "functions:only_e", *SEARCH)
    assert ran.code == 0
    head, titles, row, *threshold, samples = ran.out.splitlines()
    assert head == "1 of 5 arms is an outlier (right with probability at least 0.9)"
    assert titles.split() == ["label", "mean", "interval", "odds", "samples"]
    assert re.fullmatch(r"e +1\.0000 +\[0\.\d{4}, 1\.0000\] +\d+:1 +\d+", row)
    assert threshold[0].startswith("upper threshold: about 0.6000, between ")
    assert re.fullmatch(r"samples: \d+", samples)
    assert max(map(len, ran.out.splitlines())) <= 80


def test_labels_of_any_kind_reach_the_command_and_the_files(find: Run) -> None:
    strange = ["two words", 'it\'s "it"', "; touch hacked", "$(touch hacked)", "Zoë 猫", "-n"]
    strange += ["{arm}", "comma, comma"]
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
            *("--format", "csv", "--out", f"out{number}"),
        )
        assert ran.code == 3, ran.err
        assert [row["label"] for row in ran.rows] == strange
        with Path(f"out{number}/arms.csv").open(newline="") as file:
            written = [row["label"].removeprefix("'") for row in csv.DictReader(file)]
        assert written == strange
    assert not Path("hacked").exists()


PULLED = ("--arms", ARMS, "--pull", PULL)
CALLED = ("--arms", ARMS, "--python", "functions:only_e")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--arms", ARMS), "use `oddarms analyze`"),
        (("--arms", "a,b,a", "--pull", PULL), "unique"),
        (("--arms", "nofile", "--pull", PULL), "no file 'nofile'"),
        ((*PULLED, "--python", "a:b"), "--pull and --python cannot be combined"),
        (("--arms", ARMS, "--pull", "tr'ue"), "badly quoted"),
        (("--arms", ARMS, "--pull", "./measure"), "'env ODDARMS_ARM={arm} ...'"),
        (("--arms", ARMS, "--pull", "./measure $1"), "Write {arm} where the item belongs"),
        (("--arms", ARMS, "--pull", "./measure {arm}", "--shell"), 'write "$1" in place of {arm}'),
        (("--arms", ARMS, "--pull", "no-such-command {arm}"), "No such file"),
        ((*CALLED, "--failure-codes", 7), "--failure-codes requires --pull"),
        ((*CALLED, "--shell"), "--shell requires --pull"),
        ((*CALLED, "--reward", "stdout"), "--reward requires --pull"),
        ((*CALLED, "--batch", "--jobs", 2), "--jobs cannot be combined with --batch"),
        ((*PULLED, "--reward", "stdout", "--failure-codes", 7), "cannot be combined with --reward"),
        ((*PULLED, "--failure-codes", "5-2"), "; got '5-2'"),
        ((*PULLED, "--batch"), "--batch requires --python"),
        ((*PULLED, "--bounds", "1"), "--bounds takes two numbers"),
        ((*PULLED, "--bounds", "0,inf"), "--bounds must be finite but got 0,inf"),
        ((*PULLED, "--option", "batch"), "--option takes NAME=VALUE"),
        ((*PULLED, "--option", "nonsense=1"), "nonsense"),
        ((*PULLED, "--out", "/proc/x"), "--out"),
        ((*PULLED, "--history", "none.csv"), "none.csv"),
        ((*PULLED, "--above", 1), "--clip and --above require --reward stdout"),
        ((*CALLED, "--clip", "0,1", "--above", 1), "clip or above, not both"),
        ((*CALLED, "--clip", "0,1", "--bounds", "0,1"), "cannot be combined with --clip"),
        ((*CALLED, "--clip", "0,inf"), "--clip must be finite"),
        ((*CALLED, "--clip", 10), "--clip takes two numbers"),
        (("--arms", ARMS, "--python", "functions"), "MODULE:FUNCTION"),
        (("--arms", ARMS, "--python", "functions:nobody"), "no function 'nobody'"),
        (("--arms", ARMS, "--python", "no_such_module:f"), "no_such_module"),
    ],
)
def test_bad_usage_is_a_sentence(find: Run, words: tuple[object, ...], said: str) -> None:
    assert_refused(find(*words), 2, said)


# Failures


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("nan", "nan"),
        ("nothing", "None"),
        ("beyond", "2"),
        ("boom", "ValueError: kaput"),
        ("beyond_in_batch", "2"),
        ("too_few", "returned 1 rewards"),
    ],
)
def test_a_function_that_gives_no_sample_stops_the_search(
    find: Run, function: str, said: str
) -> None:
    batch = ("--batch",) if function in ("beyond_in_batch", "too_few") else ()
    ran = find("--arms", ARMS, "--python", f"functions:{function}", *SEARCH, *batch)
    assert_refused(ran, 1, said, "0 samples kept in output/find/study.db", "resumes from there")
    assert json.loads(Path("output/find/result.json").read_text())["complete"] is False


HANGING = "sh -c 'test $ODDARMS_ARM = b && sleep 600; test $ODDARMS_ARM != e'"


@pytest.mark.parametrize("policy", [("stop",), ("retry", "--retry-for", "0.5s")])
def test_an_item_that_always_hangs_ends_the_search(find: Run, policy: tuple[str, ...]) -> None:
    words = ("--arms", ARMS, "--pull", HANGING, "--timeout", "0.2s", "--jobs", 4, *SEARCH)
    ran = find(*words, "--on-error", *policy)
    assert_refused(ran, 1, "arm 'b': the command took longer than 0.2 s")
    assert ("times in" in ran.err) == (policy[0] == "retry")
    assert "A larger --timeout gives samples more time; --on-error worst counts" in ran.err
    kept = re.search(r"(\d+) samples? kept", ran.err)
    assert kept is not None
    assert int(kept[1]) == stored() > 0


def test_failures_now_and_then_are_retried(find: Run) -> None:
    pull = (
        "sh -c 'echo x >> count; test $(wc -l < count) = 7 && kill -9 $$; test $ODDARMS_ARM != e'"
    )
    words = ("--arms", ARMS, "--pull", pull, *SEARCH, "--format", "json")
    ran = find(*words, "--on-error", "retry")
    assert ran.code == 0, ran.err
    assert ran.json["outliers"] == ["e"]
    assert ran.json["pulls"] == len(Path("count").read_text().split()) - 1


@pytest.mark.parametrize("policy", ["stop", "retry", "worst"])
def test_a_tool_that_is_not_there_ends_the_search_at_once(find: Run, policy: str) -> None:
    words = ("--arms", ARMS, *SEARCH, "--on-error", policy, "--budget", 12, "--pull")
    ran = find(*words, "sh -c 'echo x >> count; no-such-tool' sh {arm}")
    assert_refused(ran, 2, "exit code 127: a program was not found", "by hand")
    assert Path("count").read_text() == "x\n"
    assert find(*words, PULL).code == 3  # nothing was sampled: it may be corrected


def test_exit_codes_of_failures_may_be_named(find: Run) -> None:
    pull = "sh -c 'test $1 != e || exit 7' sh {arm}"
    words = ("--arms", ARMS, "--pull", pull, *SEARCH, "--failure-codes", "5-7")
    assert_refused(find(*words), 1, "arm 'e': the command ended with exit code 7. ")
    ran = find(*words, "--on-error", "worst", "--out", "worst", "--format", "json")
    assert ran.json["outliers"] == ["e"]


@pytest.mark.parametrize("how", ["Scale.up_to_ten", "all_scales"])
def test_a_sample_outside_the_bounds_says_what_would_help(find: Run, how: str) -> None:
    batch = ("--batch",) if how == "all_scales" else ()
    words = ("--arms", ARMS, "--python", f"functions:{how}", *SEARCH, "--bounds", "0,5", *batch)
    ran = find(*words)
    assert ran.code == 1
    assert "kept in" in ran.err
    assert "--clip 0,5 counts samples outside as the nearer bound" in ran.err


# The budget


@pytest.mark.parametrize("budget", [0, 3, 20])
def test_a_budget_is_kept_and_what_is_open_is_named(find: Run, budget: int) -> None:
    words = (*CALLED, *SEARCH, "--budget", budget)
    ran = find(*words)
    assert ran.code == 3
    assert ran.out.startswith("0 of 5 arms are known to be outliers, 5 are undecided\n")
    assert "\nstatus: budget: the budget does not allow another step\n" in ran.out
    assert "\nUndecided, the most suspicious first; guesses are not proven:\n" in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80
    answer = find(*words, "--format", "json").json
    assert answer["pulls"] <= budget
    assert answer["status"] == "budget"
    assert answer["undecided"] == list("eabcd" if budget == 20 else "abcde")


def test_a_larger_budget_continues_the_same_search(find: Run) -> None:
    words = (*CALLED, *SEARCH)
    assert find(*words, "--budget", 11).code == 3
    assert_refused(find(*words, "--budget", 5), 2, "budget")
    assert find(*words, "--budget", 17).code == 3
    assert find(*words).code == 3  # without a budget the old one stays
    assert oddarms.load_study("find", storage="output/find/study.db").question.budget == 17
    assert find(*words, "--budget", 1000).code == 0


def test_a_budget_may_be_the_goal(find: Run) -> None:
    ran = find(*CALLED, *SEARCH, "--goal", "budget", "--budget", 60)
    assert ran.code == 0
    assert "best guess: " in ran.out or "1 of 5 arms is an outlier" in ran.out
    ran = find("--arms", "a,b,c", "--pull", "true {arm}", "--k", 2, "--out", "o")
    assert ran.code == 0
    assert "none of 3 arms can be 2 sd from the mean, whatever the samples" in ran.out


# The same everywhere


@pytest.mark.parametrize("budget", [None, 23])
def test_all_outputs_are_one_document(find: Run, run_command: Run, budget: int | None) -> None:
    words = (*CALLED, *SEARCH, "--out", "o")
    words += () if budget is None else ("--budget", budget)
    there = ("find", "--storage", "o/study.db")
    printed = find(*words, "--format", "json").json
    shown = find(*words).out
    reloaded = oddarms.load_study("find", storage="o/study.db").result()
    for document in (
        json.loads(Path("o/result.json").read_text()),
        run_command("study", "result", *there, "--format", "json").json,
        reloaded.to_dict(),
    ):
        assert list(document) == list(printed)
        assert document == printed
    assert shown == run_command("study", "result", *there).out
    assert shown.strip() == str(reloaded).strip()
    table = find(*words, "--format", "csv").out
    quoted = Path("o/arms.csv").read_text()
    assert list(csv.reader(io.StringIO(table))) == list(csv.reader(io.StringIO(quoted)))
    assert table == run_command("study", "result", *there, "--format", "csv").out
    about = run_command("study", "show", *there, "--format", "json").json
    for key in ("status", "pulls", "history", "unused", "pulls_needed", "thresholds", "question"):
        assert about[key] == printed[key]
    asked = run_command("study", "ask", *there, "--format", "json")
    assert (asked.code, asked.json) == (3, {"status": printed["status"], "tickets": []})


# Resuming


def test_the_same_command_resumes_after_ctrl_c(find: Run) -> None:
    words = ("--arms", ARMS, *SEARCH, "--format", "json", "--same-source")
    first = find(*words, "--python", "functions:interrupted")
    assert first.code == 130
    assert (first.json["status"], first.json["pulls"] + first.json["unused"]) == ("interrupted", 20)
    said = first.err.splitlines()[-1]
    assert said.startswith("interrupted: 20 samples kept in output/find/study.db, and what is")
    second = find(*words, "--python", "functions:only_e")
    assert second.code == 0
    assert re.search(r"resuming with \d+ samples of output/find/study.db\n", second.err)
    whole = find(*words, "--python", "functions:only_e", "--out", "anew")
    assert second.json == whole.json
    done = find(*words, "--python", "functions:boom")
    assert (done.code, done.out) == (0, second.out)
    assert re.match(r"this search is done, with \d+ samples; --fresh samples again\n", done.err)


@pytest.mark.parametrize("moment", ["ask", "tell_many"])
def test_ctrl_c_while_something_is_stored_waits_for_it(
    find: Run, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, calls = getattr(StoredStudy, moment), []

    def interrupted(*args: Any, **options: Any) -> Any:
        calls.append(moment)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return store(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(StoredStudy, moment, interrupted)
        first = find(*CALLED, *SEARCH)
    assert first.code == 130
    assert first.err.count(f"interrupted: {stored()} sample") == 1
    assert oddarms.load_study("find", storage="output/find/study.db").overview().live == 0
    assert find(*CALLED, *SEARCH).code == 0


def test_a_changed_command_is_refused_and_may_start_again(find: Run) -> None:
    words = ("--arms", ARMS, *SEARCH, "--format", "json", "--out", "o", "--python")
    only_e, only_b = "functions:only_e", "functions:only_b"
    assert find(*words, only_e).json["outliers"] == ["e"]
    said = ("--python was 'functions_", ":only_b' now", "--fresh", "--same-source")
    assert_refused(find(*words, only_b), 2, *said)
    assert find(*words, only_b, "--same-source").json["outliers"] == ["e"]
    assert_refused(find(*words, only_e), 2, ":only_b' for")
    ran = find(*words, only_b, "--fresh")
    assert ran.json["outliers"] == ["b"]
    (aside,) = Path("o").glob("before-*")
    assert f"the search that was in o is in {aside} now\n" in ran.err
    assert json.loads((aside / "result.json").read_text())["outliers"] == ["e"]
    assert oddarms.load_study("find", storage=str(aside / "study.db")).result().outliers == ["e"]
    assert find(*words, only_e, "--fresh").json["outliers"] == ["e"]
    assert len(list(Path("o").glob("before-*"))) == 2


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (
            (*CALLED[:3], "functions:Scale.up_to_ten", "--above", "5"),
            (*CALLED[:3], "functions:Scale.up_to_ten", "--above", "7"),
            "--above was 5.0",
        ),
        (
            (*PULLED, "--on-error", "worst", "--timeout", "60"),
            (*PULLED, "--on-error", "worst", "--timeout", "30"),
            "--timeout was 60.0",
        ),
        ((*PULLED, "--on-error", "worst"), PULLED, "is not given now"),
        (PULLED, (*PULLED, "--failure-codes", 7), "--failure-codes was not given"),
    ],
)
def test_everything_that_samples_depend_on_is_remembered(
    find: Run, before: tuple[str, ...], after: tuple[str, ...], told: str
) -> None:
    words = (*SEARCH, "--budget", 20)
    assert find(*before, *words).code in (0, 3)
    assert_refused(find(*after, *words), 2, told, "--fresh", "--same-source")
    assert find(*after, *words, "--same-source").code in (0, 1, 3)


def test_another_working_directory_is_noticed(
    find: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    words = (*PULLED, *SEARCH, "--budget", 20, "--out", tmp_path / "out")
    monkeypatch.chdir(tmp_path / "here")
    assert find(*words).code == 3
    monkeypatch.chdir(tmp_path / "there")
    assert_refused(find(*words), 2, "the working directory was '../here'")


def test_a_folder_is_named_after_the_question(
    run_command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oddarms.report.write_report", lambda *_, **__: None)
    (tmp_path / "tests.txt").write_text("a\nb\nc\nd\ne\n")

    def folders(*words: object) -> set[str]:
        before = {path.name for path in Path("output").glob("*")}
        command = ("find", "--k", 1, "--budget", 12, "-q", *words)
        assert run_command(*command, stdin="a\nb\n").code in (0, 3)
        return {path.name for path in Path("output").glob("*")} - before

    words = ("--arms", "tests.txt", "--pull", "test {arm} != e")
    (name,) = folders(*words)
    assert re.fullmatch("find-tests-[0-9a-f]{6}", name)
    assert folders(*words) == set()
    assert folders(*words, "--budget", 20, "--jobs", 2) == set()
    for other in (
        (*words, "--k", 1.5),
        (*words, "--margin", 0.1),
        (*words[:3], "test {arm} != d"),
        ("--arms", "-", *words[2:]),
        (*words, "--seed", 4),
    ):
        assert len(folders(*other)) == 1


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--k", 1.1, "k 1.0, not 1.1"),
        ("--delta", 0.2, "delta 0.1, not 0.2"),
        ("--margin", 0.1, "margin 0.05, not 0.1"),
        ("--side", "both", "side 'upper', not 'both'"),
        ("--seed", 2, "rng (--seed) 1, not 2"),
        ("--bounds", "0,2", "bounds [0.0, 1.0], not [0.0, 2.0]"),
        ("--algorithm", "rr", "algorithm 'spade', not 'rr'"),
        ("--arms", "a,b,c,d,x", "other arms"),
    ],
)
def test_another_question_is_refused(find: Run, option: str, value: object, told: str) -> None:
    Path("o").mkdir()
    oddarms.create_study("find", ARMS.split(","), k=1, delta=0.1, rng=1, storage="o/study.db")
    ran = find(*PULLED, *SEARCH, option, value, "--out", "o")
    assert_refused(ran, 2, "was begun with", told, "--out")


def test_a_folder_has_one_search_at_a_time(find: Run) -> None:
    words = ("--arms", ARMS, *SEARCH, "--out", "o", "--pull")
    command = [COMMAND, "find", *map(str, words), "sh -c 'sleep 60' {arm}"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as slow:
        try:
            wait_until(lambda: Path("o/source.json").exists())
            assert_refused(find(*words, PULL), 2, "another search runs in o")
            slow.send_signal(signal.SIGINT)
            assert slow.wait(60) == 130
        finally:
            slow.kill()


@pytest.mark.parametrize("there", [False, True])
def test_a_lock_that_is_a_link_is_not_followed(find: Run, tmp_path: Path, there: bool) -> None:
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / ".lock").symlink_to(elsewhere)
    if there:
        elsewhere.write_text("mine")
    assert_refused(find(*PULLED, *SEARCH, "--out", tmp_path / "o"), 2, "cannot open", ".lock")
    assert elsewhere.exists() == there
    assert not (tmp_path / "o" / "study.db").exists()


BUSY = (
    "sh -c 'while test -e block && test $(grep -c . log) -ge 6; do sleep 0.1; done;"
    " echo end >> log; test $ODDARMS_ARM != e'"
)
"""Commands of which a few end, and the others wait."""


def test_a_killed_search_resumes_without_waiting_for_leases(find: Run) -> None:
    words = ("--arms", ARMS, *SEARCH, "--out", "o")
    for name in ("log", "block"):
        Path(name).touch()
    command = [COMMAND, "find", *map(str, words), "--pull", BUSY, "--jobs", "3", "-q"]
    with subprocess.Popen(command) as process:
        wait_until(lambda: Path("log").read_text().count("end") >= 6)
        process.kill()
    Path("block").unlink()
    known = oddarms.load_study("find", storage="o/study.db").progress().pulls
    ran = find(*words, "--pull", PULL, "--format", "json", "--same-source")
    assert ran.code == 0
    assert not known or f"resuming with {known} samples" in ran.err
    assert ran.json["outliers"] == ["e"]


def test_many_jobs_run_at_the_same_time(find: Run) -> None:
    pull = "sh -c 'touch here.$1; until test $(ls here.* | wc -l) -ge 5; do sleep 0.05; done' . "
    words = ("--jobs", 8, "--timeout", 60, "--budget", 5, *SEARCH)
    assert find("--arms", ARMS, "--pull", pull + "{arm}", *words).code == 3


# Samples from before, and samples without bounds


def test_a_history_is_used_first_and_counts_once(find: Run) -> None:
    rows = [f"{arm},{int(arm == 'e')}\n" for arm in "abcde" for _ in range(3 if arm == "e" else 50)]
    Path("t.csv").write_text("arm,reward\n" + "".join(rows))
    words = (*PULLED, "--history", "t.csv", *SEARCH, "--format", "json")
    first = find(*words)
    assert first.code == 0, first.err
    assert "t.csv: 203 samples added" in first.err
    assert (first.json["outliers"], first.json["history"]) == (["e"], 203)
    second = find(*words)
    assert "t.csv: its samples count once" in second.err
    assert second.json == first.json
    Path("t.csv").write_text("arm,reward\nnobody,0\n")
    assert_refused(find(*words), 2, "nobody")


@pytest.mark.parametrize(
    "source",
    [
        ("--python", "functions:Scale.up_to_ten"),
        ("--python", "functions:all_scales", "--batch"),
        pytest.param(
            ("--pull", "sh -c 'test $ODDARMS_ARM = e && echo 9 || echo 1'", "--reward", "stdout"),
            marks=pytest.mark.long,
        ),
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


# Files and modules


@pytest.mark.usefixtures("without_pictures")
def test_the_folder_has_the_report(run_command: Run) -> None:
    pytest.importorskip("matplotlib")
    ran = run_command("find", *PULLED, *SEARCH, "--out", "o", "-q")
    assert (ran.code, ran.err) == (0, "")
    assert "</html>" in Path("o/report.html").read_text()
    assert {path.name for path in Path("o").iterdir()} >= {"arms.csv", "report.html", "result.json"}


@pytest.mark.long
def test_the_page_works(tmp_path: Path) -> None:
    """Its blocks run in their order, in one directory."""
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "COLUMNS": "80"}
    for language, block in page_blocks(ROOT / "docs" / "how-to" / "find.md"):
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
