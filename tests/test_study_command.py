"""``oddarms study``: what the commands print, where, and with which exit code."""

from __future__ import annotations

import gzip
import io
import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import oddarms
from helpers import BIN, COMMAND, ROOT, Ran, Run, assert_refused, page_blocks, ticket_number
from oddarms.cli._durations import duration_of
from oddarms.errors import InvalidParameter
from oddarms.text import elided, shortened, shown, table, width, wrapped

TRUTH = {"ann": 0, "bob": 0, "cy": 0, "eve": 1}
SERVERS = ["eu-1", "eu-2", "us-1", "us-2"]
EVERY = "create list show ask tell renew skip import export result verify delete upgrade"
COMMANDS = EVERY.split()


@pytest.fixture
def study(run_command: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command of ``oddarms study`` in an empty directory, on the file studies.db."""
    monkeypatch.setenv("ODDARMS_STORAGE", "studies.db")

    def run(*words: object, stdin: str | bytes = b"") -> Ran:
        return run_command("study", *words, stdin=stdin)

    return run


CROWD = ("create", "crowd", "--arms", ",".join(TRUTH), "--k", 1, "--delta", 0.1, "--seed", 7)


@pytest.fixture(scope="module")
def crowd_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage with the study of `CROWD`, which takes a moment to make."""
    path = tmp_path_factory.mktemp("crowd") / "studies.db"
    oddarms.create_study("crowd", TRUTH, k=1, delta=0.1, rng=7, storage=path)
    return path


@pytest.fixture
def crowd(study: Run, crowd_file: Path) -> Run:
    """The same, with a study "crowd" of four arms, of which eve is the outlier."""
    with (
        closing(sqlite3.connect(crowd_file)) as made,
        closing(sqlite3.connect("studies.db")) as new,
    ):
        made.backup(new)
    return study


def work(study: Run, name: str = "crowd", *, worker: str = "w") -> int:
    """Work until the study is done; return the number of tickets."""
    made = 0
    while True:
        asked = study("ask", name, "-n", 100, "--worker", worker, "--format", "csv")
        if asked.code != 0:
            assert asked.code == 3
            return made
        lines = [f"{row['id']} {TRUTH[row['arm']]}\n" for row in asked.rows]
        assert study("tell", name, "--from", "-", stdin="".join(lines)).code == 0
        made += len(lines)


def ask(study: Run, n: int, *words: object, name: str = "crowd") -> list[str]:
    """Ask for tickets; return their ids."""
    return [row["id"] for row in study("ask", name, "-n", n, *words, "--format", "csv").rows]


def filled_in(text: str, ids: list[str]) -> str:
    """Return a text with the first id for #1, and so on."""
    for number, ticket in enumerate(ids, 1):
        text = text.replace(f"#{number}", ticket)
    return text


NO_ID = "9-mzxw6ytboi4dgnbt"
"""An id that no study has given."""


# Creating


def test_what_creating_says(study: Run) -> None:
    assert study(*CROWD) == (0, "created crowd with 4 arms in studies.db\n", "")


def test_arms_come_from_a_file_stdin_or_a_list(study: Run) -> None:
    Path("arms.txt").write_bytes("\ufeffann\r\n\n  bob smith \nzoë\n".encode())
    question = ("--k", 1, "--delta", 0.1)
    assert study("create", "file", "--arms", "arms.txt", *question).code == 0
    assert study("create", "stdin", "--arms", "-", *question, stdin="a,1\nb\n").code == 0
    assert study("create", "list", "--arms", "x, y ,1", *question).code == 0
    labels = {name: oddarms.load_study(name).labels for name in ("file", "stdin", "list")}
    assert labels == {
        "file": ("ann", "bob smith", "zoë"),
        "stdin": ("a,1", "b"),
        "list": ("x", "y", "1"),
    }


def test_a_file_wins_over_a_list(study: Run) -> None:
    Path("a,b").write_text("x\ny\nz\n")
    assert study("create", "s", "--arms", "a,b", "--k", 1, "--delta", 0.1).code == 0
    assert oddarms.load_study("s").labels == ("x", "y", "z")


def test_a_list_may_be_longer_than_a_file_name(study: Run) -> None:
    many = ",".join(f"arm{i}" for i in range(3000))
    assert study("create", "s", "--arms", many, "--k", 1, "--delta", 0.1).code == 0
    assert study("show", "s", "--format", "json").json["question"]["n"] == 3000


def test_the_question_is_stored_as_it_was_asked(study: Run) -> None:
    words = "create s --arms a,b,c --k -0.5 --delta 0.2 --algorithm rr --bounds -1,3 --side both"
    more = "--budget 50 --seed 3 --option batch=5"
    assert study(*words.split(), *more.split()).code == 0
    about = study("show", "s", "--format", "json").json
    asked = about["question"]
    assert (asked["k"], asked["delta"], asked["side"], asked["budget"]) == (-0.5, 0.2, "both", 50)
    assert (asked["algorithm"], asked["options"]) == ("rr", {"batch": 5})
    assert asked["bounds"] == [-1.0, 3.0]
    assert about["seed"] == 3
    row = study("show", "s", "--format", "csv").rows[0]
    assert [row[key] for key in ("k", "bounds", "options")] == ["-0.5", "-1 3", "batch=5"]
    described = " ".join(study("show", "s").out.split())
    assert "at or above mean - 0.5 sd, or at or below mean + 0.5 sd, of all means?" in described
    assert "rr, batch=5, seed 3" in described


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("--arms nofile --k 1 --delta 0.1", ["no file 'nofile'"]),
        ("--arms . --k 1 --delta 0.1", ["is a directory"]),
        ("--arms a,b,a --k 1 --delta 0.1", ["'a' appears twice"]),
        ("--arms a,b --k nan --delta 0.1", ["k must"]),
        ("--arms a,b --k 1 --delta 1", ["delta must"]),
        ("--arms a,b --k 1 --delta 0.1 --bounds 1", ["bounds must"]),
        ("--arms a,b --k 1 --delta 0.1 --bounds 1,0", ["bounds must"]),
        ("--arms a,b --k 1 --delta 0.1 --budget -1", ["budget must"]),
        ("--arms a,b --k 1 --delta 0.1 --algorithm best", ["algorithm must be one of ade, "]),
        ("--arms a,b --k 1 --delta 0.1 --option max_step", ["name=value"]),
        ("--arms a,b --k 1 --delta 0.1 --option delta=1", ["but got 'delta'"]),
        ("--arms a,b --k 1 --delta 0.1 --option rng=1", ["but got 'rng'"]),
        ("--arms a,b --k 1 --delta 0.1 --option max_step=two", ["max_step"]),
    ],
)
def test_a_bad_question_is_refused_and_leaves_no_storage(
    study: Run, given: str, words: list[str]
) -> None:
    assert_refused(study("create", "s", *given.split()), 2, *words)
    assert not Path("studies.db").exists()


def test_arms_must_be_text(study: Run) -> None:
    ran = study("create", "s", "--arms", "-", "--k", 1, "--delta", 0.1, stdin=b"a\n\xff\n")
    assert_refused(ran, 2, "stdin, line 2", "UTF-8")


def test_a_name_is_taken_once(crowd: Run) -> None:
    ran = crowd("create", "crowd", "--arms", "a,b", "--k", 1, "--delta", 0.1)
    assert_refused(ran, 2, "'crowd' already")


# Storages


def test_the_default_storage_is_a_file_and_is_named(
    study: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ODDARMS_STORAGE")
    where = f"storage: {tmp_path / 'oddarms.db'}\n"
    made = study("create", "s", "--arms", "a,b", "--k", 0.5, "--delta", 0.1)
    assert made == (0, "created s with 2 arms in oddarms.db\n", where)
    assert study("ask", "s", "--format", "json").err == where
    assert study("list", "--storage", "oddarms.db").err == ""


@pytest.mark.parametrize("command", ["list", "show s", "ask s", "upgrade", "delete s --yes"])
def test_a_storage_that_is_not_there_is_not_made(study: Run, command: str) -> None:
    assert_refused(study(*command.split()), 2, "studies.db", "oddarms study create")
    assert not Path("studies.db").exists()


@pytest.mark.parametrize("storage", ["memory", ":memory:", "sqlite://"])
def test_a_storage_outlives_the_command(study: Run, storage: str) -> None:
    question = ("--arms", "a,b", "--k", 1, "--delta", 0.1)
    assert_refused(study("create", "s", *question, "--storage", storage), 2, "outlive")


@pytest.mark.parametrize("storage", ["", "nonsense://x", "studies.db/x", "notes.txt"])
def test_a_storage_that_is_none_is_refused(study: Run, storage: str) -> None:
    Path("notes.txt").write_text("no database " * 100)
    question = ("--arms", "a,b", "--k", 1, "--delta", 0.1)
    ran = study("create", "s", *question, "--storage", storage)
    assert ran.code in (1, 2)
    assert_refused(ran, ran.code)


def test_a_storage_of_a_newer_version_is_refused(crowd: Run) -> None:
    with closing(sqlite3.connect("studies.db")) as newer, newer:
        newer.execute("UPDATE oddarms_version SET version_num = '9999'")
    assert_refused(crowd("list"), 1, "newer oddarms")
    assert_refused(crowd("upgrade"), 1, "newer oddarms")


def test_upgrading_a_present_storage_does_nothing(crowd: Run) -> None:
    assert crowd("upgrade") == (0, "the storage is at the present version\n", "")
    assert crowd("list", "--format", "csv").rows[0]["name"] == "crowd"


def test_everything_works_on_postgresql(study: Run, postgresql: Any) -> None:
    there = ("--storage", postgresql.new_database())
    arms = ("--arms", ",".join(TRUTH), "--k", 1, "--delta", 0.1)
    assert study("create", "crowd", *arms, *there).code == 0
    asked = study("ask", "crowd", "-n", 2, "--format", "csv", *there)
    tell = "".join(f"{row['id']} 0\n" for row in asked.rows)
    assert study("tell", "crowd", "--from", "-", *there, stdin=tell).code == 0
    assert study("show", "crowd", "--format", "json", *there).json["results"] == 2
    assert study("verify", "crowd", *there).code == 0
    assert study("delete", "crowd", "--yes", *there).code == 0
    assert study("list", "--format", "json", *there).json == []


# Asking and telling


def test_a_study_is_worked_through(crowd: Run) -> None:
    tickets = work(crowd)
    found = crowd("result", "crowd", "--format", "json").json
    assert (found["status"], found["outliers"]) == ("decided", ["eve"])
    assert found["pulls"] + found["unused"] == tickets
    assert found == oddarms.load_study("crowd").result().to_dict()


def test_tickets_in_every_format(crowd: Run) -> None:
    asked = crowd("ask", "crowd", "-n", 2)
    assert asked.code == 0
    assert asked.err == ""
    header, first, second = asked.out.splitlines()
    assert header.split() == ["id", "arm", "expires"]
    assert re.fullmatch(r"1-[a-z2-7]{16}  ann  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", first)
    ticket, arm, *_ = second.split()
    assert (ticket_number(ticket), arm) == (2, "ann")
    as_json = crowd("ask", "crowd", "--format", "json").json
    assert as_json["status"] == "running"
    assert [(ticket_number(t["id"]), t["arm"]) for t in as_json["tickets"]] == [(3, "bob")]
    as_csv = crowd("ask", "crowd", "--format", "csv")
    assert as_csv.out.splitlines()[0] == "id,arm,expires"
    assert as_csv.rows[0]["arm"] == "bob"
    assert ticket_number(as_csv.rows[0]["id"]) == 4


WAITING = "waiting: all pulls that can be handed out are out\n"


def test_the_exit_code_says_whether_to_work_wait_or_stop(crowd: Run) -> None:
    ids = ask(crowd, 7)
    assert len(ids) == 7
    rest = crowd("ask", "crowd", "-n", 100)
    assert rest.code == 0
    assert rest.err == WAITING
    ids += [line.split()[0] for line in rest.out.splitlines()[1:]]
    assert len(ids) >= 8
    assert crowd("ask", "crowd") == (4, "", WAITING)
    assert crowd("ask", "crowd", "--format", "csv") == (4, "id,arm,expires\n", "")
    as_json = crowd("ask", "crowd", "--format", "json")
    assert (as_json.code, as_json.json) == (4, {"status": "waiting", "tickets": []})
    assert f"Status:     {WAITING}" in crowd("show", "crowd").out
    for ticket in ids:
        assert crowd("skip", "crowd", ticket).code == 0
    work(crowd)
    done = crowd("ask", "crowd")
    assert (done.code, done.out) == (3, "")
    assert done.err == "decided: everything is decided; see `oddarms study result crowd`\n"
    assert crowd("ask", "crowd", "--format", "json").json == {"status": "decided", "tickets": []}


def test_a_budget_used_up_within_a_step_ends_a_study(study: Run) -> None:
    words = "create small --arms ann,bob,cy,eve --k 1 --delta 0.1 --budget 9"
    assert study(*words.split()).code == 0
    assert work(study, "small") == 9
    done = study("ask", "small", "--format", "json")
    assert (done.code, done.json["status"]) == (3, "budget")
    found = study("result", "small", "--format", "json").json
    assert (found["status"], found["pulls"], found["unused"]) == ("budget", 8, 1)
    about = study("show", "small", "--format", "json").json
    assert (about["status"], about["pulls"], about["unused"]) == ("budget", 8, 1)
    assert about["results"] == 9
    text = study("show", "small").out
    assert "Budget:     9 samples\n" in text
    assert "Status:     budget: the budget does not allow another step\n" in text
    assert "Samples:    8, and 1 not used\n" in text
    text = study("result", "small").out
    assert "\nsamples: 8, and 1 not used\n" in text
    assert "\nstatus: budget: the budget does not allow another step\n" in text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10", 10), ("30s", 30), ("10m", 600), ("1.5h", 5400), ("1d", 86400), (" 2 h ", 7200)],
)
def test_a_lease_is_a_duration(text: str, seconds: float) -> None:
    assert duration_of("lease", text).total_seconds() == seconds


@pytest.mark.parametrize("text", ["", "h", "-1h", "1w", "1h30m", "9999999999d", "1e3s"])
def test_other_leases_are_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match="30s, 10m, 2h or 1d"):
        duration_of("lease", text)


def test_a_lease_of_nothing_or_of_centuries_is_refused(crowd: Run) -> None:
    for lease in ("0s", "99999d"):
        ran = crowd("ask", "crowd", "--lease", lease)
        assert ran.code == 2
        assert "lease must be a positive timedelta of at most a year" in ran.err


def test_an_expired_ticket_is_handed_out_again_and_its_late_result_counts(crowd: Run) -> None:
    late = crowd("ask", "crowd", "-n", 8, "--lease", "0.001s", "--format", "csv").rows
    again = crowd("ask", "crowd", "-n", 8, "--format", "csv").rows
    assert [row["arm"] for row in again] == [row["arm"] for row in late]
    assert crowd("tell", "crowd", late[0]["id"], 0).code == 0
    assert crowd("tell", "crowd", again[0]["id"], 0).code == 0
    assert crowd("show", "crowd", "--format", "json").json["results"] == 2
    assert [row["late"] for row in crowd("export", "crowd").rows] == ["true", "false"]


def test_telling_says_what_became_of_each_result(crowd: Run) -> None:
    first, second, _ = ask(crowd, 3)
    said = f"{'ticket':{len(first)}}  outcome\n{first}  recorded\n"
    assert crowd("tell", "crowd", first, 0.25) == (0, said, "")
    assert crowd("tell", "crowd", first, 0.25).out.split()[-1] == "repeated"
    conflict = crowd("tell", "crowd", first, 0.5)
    assert conflict.code == 1
    assert conflict.out.split()[-1] == "conflict"
    assert conflict.err == (
        f"error: ticket {first} has the result 0.25 already, which stands: 0.5 was not used.\n"
    )
    lines = f"{first} 0.25\n{second} 1\n{first} 0.7\n{second} 0\n"
    many = crowd("tell", "crowd", "--from", "-", "--format", "csv", stdin=lines)
    assert many.code == 1
    assert [row["outcome"] for row in many.rows] == ["repeated", "recorded", "conflict", "conflict"]
    assert "nor were 1 other results" in many.err
    assert crowd("show", "crowd", "--format", "json").json["conflicts"] == 3


def test_negative_rewards_are_no_options(study: Run) -> None:
    words = "create s --arms a,b,c --k 1 --delta 0.1 --bounds -1,1"
    assert study(*words.split()).code == 0
    first, second, _ = ask(study, 3, name="s")
    assert study("tell", "s", first, -0.5, "--format", "csv").code == 0
    assert study("tell", "s", second, "-1e-3", "--worker", "me").code == 0
    assert [float(row["reward"]) for row in study("export", "s").rows] == [-0.5, -0.001]


@pytest.mark.parametrize(
    "text",
    [
        "#1 0.5\n\n#2\t1\n",
        "#1,0.5\n#2,1\n",
        "ticket,reward\n#1,0.5\n#2,1\n",
        "\ufeffarm;Reward;id\r\nann;0.5;#1\r\nbob;1;#2\r\n",
        '{"ticket": "#1", "reward": 0.5}\n{"id": "#2", "arm": "x", "reward": true}\n',
    ],
)
def test_many_results_in_every_layout(crowd: Run, text: str) -> None:
    first, second = ids = ask(crowd, 2, "--worker", "w1")
    Path("results").write_text(filled_in(text, ids))
    told = crowd("tell", "crowd", "--from", "results", "--format", "json")
    assert told.json == [
        {"ticket": first, "outcome": "recorded"},
        {"ticket": second, "outcome": "recorded"},
    ]
    rows = crowd("export", "crowd", "--format", "json").json
    assert [(row["ticket"], row["reward"], row["worker"]) for row in rows] == [
        (first, 0.5, "w1"),
        (second, 1.0, "w1"),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#1 0\n#2 1.5\n", ["stdin, line 2", "[0, 1]", "1.5"]),
        ("#1 0\n#2 nan\n", ["stdin, line 2", "nan"]),
        ("#1 0\n#2 yes\n", ["stdin, line 2", "'yes'"]),
        ("#1 0\n#2\n", ["stdin, line 2", "a ticket and a reward"]),
        ("#1 0\n#2 0,5\n", ["stdin, line 2"]),
        ("#1 0\nx 1\n", ["stdin, line 2", "'x'"]),
        ("#1 0\n2 1\n", ["stdin, line 2", "'2'"]),
        (f"#1 0\n{NO_ID} 1\n", [f"{NO_ID} is not", "another study"]),
        ("#1 0\n99999999999999999999-mzxw6ytboi4dgnbt 1\n", ["stdin, line 2"]),
        ("ticket,reward\n#1,0\n#2\n", ["stdin, line 3", "2 fields"]),
        ('ticket,reward\n#1,0\n#2,"1\n', ["well-formed"]),
        ('{"ticket": "#1", "reward": 0}\n{"ticket": "#2"}\n', ["stdin, line 2"]),
        ('{"ticket": "#1", "reward": 0}\n{"ticket": 2, "reward": 0}\n', ["stdin, line 2", "'2'"]),
        ('{"ticket": "#1", "reward": 0}\n{"ticket": "#2",\n', ["stdin, line 2", "JSON"]),
    ],
)
def test_one_wrong_line_and_nothing_is_recorded(crowd: Run, text: str, words: list[str]) -> None:
    given = filled_in(text, ask(crowd, 2))
    assert_refused(crowd("tell", "crowd", "--from", "-", stdin=given), 2, *words)
    assert crowd("show", "crowd", "--format", "json").json["results"] == 0


def test_no_results_are_no_error(crowd: Run) -> None:
    assert crowd("tell", "crowd", "--from", "-") == (
        0,
        "",
        "there were no results, and none was recorded\n",
    )


@pytest.mark.parametrize("words", ["", "#1", "#1 0 --from -", "#1 2", "1 0", "-1 0"])
def test_telling_needs_a_ticket_and_a_reward(crowd: Run, words: str) -> None:
    given = filled_in(words, ask(crowd, 1))
    assert_refused(crowd("tell", "crowd", *given.split()), 2)


def test_a_skipped_ticket_is_handed_out_again(crowd: Run) -> None:
    third = ask(crowd, 8)[2]
    said = f"ticket {third} was given back\n"
    assert crowd("skip", "crowd", third, "--reason", "no time").out == said
    assert crowd("ask", "crowd", "--format", "csv").rows[0]["arm"] == "bob"
    assert_refused(crowd("skip", "crowd", NO_ID), 2, NO_ID, "another study")
    assert_refused(crowd("skip", "crowd", 99), 2, "'99'")
    assert_refused(crowd("skip", "crowd", "x"), 2, "'x'")


# Importing and exporting


def test_a_file_is_imported_once(crowd: Run) -> None:
    Path("old.csv").write_text("day,arm,reward\n1,ann,0\n2,eve,1\n2,eve,0.5\n")
    assert crowd("import", "crowd", "old.csv") == (0, "imported 3 rewards\n", "")
    twice = crowd("import", "crowd", "old.csv")
    assert twice.code == 0
    assert twice.out == "imported 0 rewards\n"
    assert (
        twice.err == "old.csv was imported before and counts once; --again imports it once more.\n"
    )
    assert crowd("import", "crowd", "old.csv", "--again").out == "imported 3 rewards\n"
    shown_study = crowd("show", "crowd", "--format", "json").json
    assert (shown_study["imported"], shown_study["results"]) == (6, 0)


def test_a_first_import_with_again_counts_as_the_first(crowd: Run) -> None:
    Path("old.csv").write_text("arm,reward\nann,0\n")
    assert crowd("import", "crowd", "old.csv", "--again").out == "imported 1 reward\n"
    assert crowd("import", "crowd", "old.csv").out == "imported 0 rewards\n"


def test_imports_may_be_gzipped_or_come_from_stdin(crowd: Run) -> None:
    table_text = b"arm\treward\nann\t0\n"
    Path("old.tsv.gz").write_bytes(gzip.compress(table_text))
    assert crowd("import", "crowd", "old.tsv.gz").out == "imported 1 reward\n"
    assert crowd("import", "crowd", "-", stdin=b"arm,reward\nbob,1\n").out == "imported 1 reward\n"


def test_imports_know_the_layouts_of_crowds(crowd: Run) -> None:
    Path("answers.csv").write_text("worker,label,gold\nann,1,1\nann,2,1\neve,2,1\nbob,1,\n")
    assert crowd("import", "crowd", "answers.csv").out == "imported 3 rewards\n"
    rows = crowd("export", "crowd").rows
    assert [(row["arm"], row["reward"]) for row in rows] == [
        ("ann", "0.0"),
        ("ann", "1.0"),
        ("eve", "1.0"),
    ]


def test_imports_use_the_bounds_and_labels_of_the_study(study: Run) -> None:
    oddarms.create_study("s", [1, 2, "1x"], k=1, delta=0.1, bounds=(-5, 5))
    Path("old.csv").write_text("arm,reward\n1,-5\n1x,4.5\n")
    assert study("import", "s", "old.csv").code == 0
    assert [trial.arm for trial in oddarms.load_study("s").trials()] == [1, "1x"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("arm,reward\nann,0\nzoe,1\n", ["line 3", "'zoe'"]),
        ("arm,reward\nann,0\neve,2\n", ["line 3", "[0, 1]"]),
        ("arm,reward\nann,\n", ["line 2", "reward"]),
        ("arm,reward\n", ["only a header"]),
        ("arm,mean\nann,0.5\neve,0.5\n", ["means"]),
        ("worker,label,gold\nann,1,1\nzoe,2,1\n", ["'zoe'"]),
        ("", ["old.csv"]),
        ("what,is,this\n", ["header"]),
    ],
)
def test_a_bad_import_records_nothing(crowd: Run, text: str, words: list[str]) -> None:
    Path("old.csv").write_text(text)
    assert_refused(crowd("import", "crowd", "old.csv"), 2, *words)
    assert crowd("show", "crowd", "--format", "json").json["imported"] == 0


def test_an_import_after_the_end_says_that_it_is_not_used(crowd: Run) -> None:
    work(crowd)
    Path("old.csv").write_text("arm,reward\nann,0\n")
    ran = crowd("import", "crowd", "old.csv")
    assert (ran.code, ran.out) == (0, "imported 1 reward\n")
    assert "not used" in ran.err


def test_trials_are_exported_in_both_formats_and_to_a_file(crowd: Run) -> None:
    ids = ask(crowd, 2, "--worker", "Zoë, the 1st")
    crowd("tell", "crowd", "--from", "-", stdin=filled_in("#2 1\n#1 0.5\n", ids))
    as_csv = crowd("export", "crowd")
    assert as_csv.err == ""
    assert [row["ticket"] for row in as_csv.rows] == ids
    assert as_csv.rows[0]["worker"] == "Zoë, the 1st"
    as_json = crowd("export", "crowd", "--format", "json").json
    assert [row["number"] for row in as_json] == [1, 2]
    assert list(as_json[0]) == list(as_csv.rows[0])
    written = crowd("export", "crowd", "--out", "trials.csv")
    assert (written.out, written.err) == ("", "written: trials.csv\n")
    assert Path("trials.csv").read_text(encoding="utf-8") == as_csv.out
    assert_refused(crowd("export", "crowd", "--out", "no/trials.csv"), 2, "no is not one")
    assert_refused(crowd("export", "crowd", "--out", "."), 2, "directory")


# Looking


def test_a_list_in_every_format(crowd: Run) -> None:
    crowd("ask", "crowd", "-n", 3)
    people = crowd("list").out.splitlines()
    assert people[0].split() == (
        ["name", "arms", "k", "delta", "algorithm", "tickets", "results", "created", "(UTC)"]
    )
    assert people[1].split()[:7] == ["crowd", "4", "1", "0.1", "spade", "3", "0"]
    assert crowd("list", "--format", "json").json[0]["handed_out"] == 3
    assert crowd("list", "--format", "csv").rows[0]["delta"] == "0.1"
    crowd("delete", "crowd", "--yes")
    assert crowd("list") == (0, "", "no studies yet: `oddarms study create` makes one\n")
    assert crowd("list", "--format", "json").json == []


def test_a_study_is_described(crowd: Run) -> None:
    first, second, third = ask(crowd, 3)
    crowd("tell", "crowd", first, 0)
    text = crowd("show", "crowd").out
    for line in (
        "Storage:    studies.db",
        "Question:   which of 4 arms have a mean at or above the larger of mean + 1 sd",
        "            and mean + 0.05 of all means?",
        "wrong with probability at most 0.1; rewards in [0, 1]",
        "Algorithm:  spade, seed 7",
        "Budget:     none",
        "Status:     running: more samples are needed",
        "Arms:       0 outliers, 0 normal, 4 undecided",
        "Samples:    0, and 1 not used yet",
        "Needed:     not known yet",
        "Tickets:    3 handed out, 2 of them live",
        "Results:    1 recorded, 0 conflicts",
    ):
        assert f"{line}\n" in text
    row = crowd("show", "crowd", "--format", "csv").rows[0]
    assert (row["live"], row["status"], row["pulls_needed"]) == ("2", "running", "")
    crowd("skip", "crowd", second)
    crowd("skip", "crowd", third)
    work(crowd)
    text = crowd("show", "crowd").out
    assert "Status:     decided: everything is decided\n" in text
    assert "Arms:       1 outlier, 3 normal, 0 undecided\n" in text
    threshold = r"Threshold:  upper: \d\.\d{4}, within \[0\.\d{4}, \d\.\d{4}\]\n"
    assert re.search(threshold, text)
    assert "Needed:     nothing\n" in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_result_shows_outliers_or_every_arm(crowd: Run) -> None:
    before = crowd("result", "crowd").out
    assert before.startswith("0 of 4 arms are known to be outliers, 4 are undecided\n")
    assert "\nstatus: running: more samples are needed\n" in before
    work(crowd)
    head, header, first, *_ = crowd("result", "crowd").out.splitlines()
    assert head == "1 of 4 arms is an outlier (right with probability at least 0.9)"
    assert header.split() == ["label", "mean", "interval", "odds", "samples"]
    assert first.split()[:2] == ["eve", "1.0000"]
    every = crowd("result", "crowd", "--all").out.splitlines()
    assert every[1].split() == ["label", "mean", "interval", "decision", "samples"]
    assert [line.split()[0] for line in every[2:6]] == list(TRUTH)
    rows = crowd("result", "crowd", "--format", "csv").rows
    assert [row["decision"] for row in rows] == ["normal", "normal", "normal", "high"]


def test_no_table_is_wider_than_the_terminal_and_no_label_breaks_it(study: Run) -> None:
    labels = [
        "long" * 100,
        "line\nbreak",
        "\x1b[31mred\x1b[0m",
        "\u202eflip",
        "漢字" * 50,
        "\ud800",
    ]
    name = "n" * 60
    oddarms.create_study(name, labels, k=1, delta=0.1)
    for words in (["list"], ["ask", name, "-n", 12], ["result", name, "--all"]):
        text = study(*words).out
        assert text.isascii() or "漢" in text
        assert "\x1b" not in text
        assert "\u202e" not in text
        lines = text.splitlines()
        assert max(len(line) + line.count("漢") + line.count("字") for line in lines) <= 80
    every = study("result", name, "--all").out
    assert "line\\nbreak " in every
    assert "\\x1b[31mred\\x1b[0m " in every
    assert "\\ud800 " in every
    found = [arm["label"] for arm in study("result", name, "--format", "json").json["arms"]]
    assert found == labels
    assert study("result", name, "--format", "csv").code == 0


def test_tables_align_and_wrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    text = table(["a", "b"], [["x" * 30, 1], ["漢字", 12345]], right=["b"], wrap="a")
    assert text == f"a{' ' * 29}      b\n{'x' * 30}      1\n漢字{' ' * 26}  12345\n"
    text = table(["b", "a"], [[1, f"{'漢字' * 9}::{'y' * 40}"], [12345, "z"]], wrap="a")
    lines = text.splitlines()
    assert [width(line) for line in lines] == [8, 39, 40, 20, 8]
    assert "".join(line[7:] for line in lines[1:4]) == f"{'漢字' * 9}::{'y' * 40}"
    assert shortened("漢字漢字", 7) == "漢字..."
    assert elided("漢字漢字", 7) == "漢...字"
    assert wrapped("漢字", 1) == ["漢", "字"]
    assert shown("plain") == "plain"


def test_a_sound_study_is_verified(crowd: Run) -> None:
    tickets = work(crowd)
    verified = crowd("verify", "crowd")
    assert (verified.code, verified.err) == (0, "")
    first = verified.out.splitlines()[0]
    assert first == f"crowd is sound: its {tickets} results give what is stored"


def test_a_changed_log_is_found(crowd: Run) -> None:
    work(crowd)
    with closing(sqlite3.connect("studies.db")) as changed, changed:
        changed.execute("UPDATE results SET reward = 7 WHERE ticket = 1")
        changed.execute("UPDATE results SET arm = 1 WHERE ticket = 2")
    found = ("1 results outside the bounds", "1 results of tickets", "or of another pull")
    assert_refused(crowd("verify", "crowd"), 1, *found, "not what was told for them")


# Deleting


def test_deleting_needs_a_yes_where_nobody_can_be_asked(crowd: Run) -> None:
    assert_refused(crowd("delete", "crowd"), 2, "--yes", "nothing was deleted")
    assert crowd("delete", "crowd", "--yes").out == "deleted crowd from studies.db\n"
    assert_refused(crowd("show", "crowd"), 2, "'crowd'", "none")


@pytest.mark.parametrize(("answer", "code"), [("Yes\n", 0), ("n\n", 1), ("", 1)])
def test_deleting_asks_on_a_terminal(
    crowd: Run, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    monkeypatch.setattr("io.TextIOWrapper", Terminal)
    ran = crowd("delete", "crowd", stdin=answer)
    assert ran.code == code
    assert "Delete crowd from studies.db with all its results, for good? [y/N]" in ran.err
    assert len(oddarms.list_studies()) == (code != 0)
    assert ran.out == ("deleted crowd from studies.db\n" if code == 0 else "")


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


# Usage


@pytest.mark.parametrize(
    "command",
    [
        "show x",
        "ask x",
        f"tell x {NO_ID} 0",
        f"skip x {NO_ID}",
        "export x",
        "result x",
        "verify x",
    ],
)
def test_an_unknown_study_is_bad_usage(crowd: Run, command: str) -> None:
    assert_refused(crowd(*command.split()), 2, "'x'", "it has crowd")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_fits(study: Run, command: str) -> None:
    told = study(command, "--help")
    assert told.code == 0
    assert f"oddarms study {command}" in told.out.partition("Example")[2]
    assert max(map(len, told.out.splitlines())) <= 80
    summary = study("--help").out
    assert re.search(rf"^  {command} +\w.*\.$", summary, re.MULTILINE)
    assert "..." not in summary.partition("Commands")[2]


def test_help_of_ask_has_its_exit_codes(study: Run) -> None:
    text = study("ask", "--help").out
    assert re.search(r"0 +tickets were handed out", text)
    assert re.search(r"3 +the study is done", text)
    assert re.search(r"4 +nothing to hand out", text)


@pytest.mark.parametrize("words", [["frob"], ["ask"], ["ask", "s", "-n", "x"], ["list", "--frob"]])
def test_bad_usage_is_said_on_stderr(study: Run, words: list[str]) -> None:
    ran = study(*words)
    assert (ran.code, ran.out) == (2, "")
    assert "Error" in ran.err


# Real processes


@pytest.fixture
def environment() -> dict[str, str]:
    names = {name: text for name, text in os.environ.items() if name != "ODDARMS_STORAGE"}
    return {**names, "PATH": f"{BIN}:{os.environ['PATH']}", "ODDARMS_STORAGE": "studies.db"}


def bash(
    script: str, folder: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.long
def test_the_shell_blocks_of_the_page_work(tmp_path: Path, environment: dict[str, str]) -> None:
    """Two workers finish a study, with nothing but the command line."""
    history = [f"{server},{int(server == 'us-2')}" for server in SERVERS for _ in range(8)]
    (tmp_path / "history.csv").write_text("\n".join(["arm,reward", *history]))
    page = page_blocks(ROOT / "docs" / "studies.md")
    script = "set -e\n" + "\n".join(block for language, block in page if language == "sh")
    done = bash(script, tmp_path, environment)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^us-2 +1\.0000 ", done.stdout, re.MULTILINE)
    assert "1 of 4 arms is an outlier (right with probability at least 0.9)\n" in done.stdout
    assert "servers is sound" in done.stdout
    assert "imported 32 rewards" in done.stdout
    assert done.stdout.splitlines()[-1] == "imported 0 rewards"
    assert done.stderr.count("history.csv was imported before") == 1
    assert "error" not in done.stderr


def test_pipes_in_and_out(tmp_path: Path, environment: dict[str, str]) -> None:
    made = oddarms.create_study("s", 500, storage=tmp_path / "studies.db")
    (tmp_path / "results").write_text("".join(f"{one.id} 0\n" for one in made.ask(1000)))
    script = """
        cat results | oddarms study tell s --from - --format csv | wc -l
        oddarms study export s | head -n 1
        echo ${PIPESTATUS[0]}
        oddarms study export s > /dev/full
        echo $?
    """
    done = bash(script, tmp_path, environment)
    lines = done.stdout.split()
    assert lines[0] == "1001"
    assert lines[1].startswith("number,ticket,arm")
    assert lines[2] in ("0", "1")  # whether all was in the pipe before its reader went
    assert lines[3] == "1"
    assert done.stderr == "error: [Errno 28] No space left on device\n"


def test_ctrl_c_is_exit_code_130(tmp_path: Path, environment: dict[str, str]) -> None:
    oddarms.create_study("s", ["a", "b"], k=0.5, delta=0.1, storage=tmp_path / "oddarms.db")
    del environment["ODDARMS_STORAGE"]  # so that the command says when it is about to read stdin
    with subprocess.Popen(
        [COMMAND, "study", "tell", "s", "--from", "-"],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("storage: ")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "interrupted\n")


def test_a_study_command_imports_only_what_it_needs(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    heavy = ["matplotlib", "numba", "pandas", "joblib", "rich", "alembic", "scipy"]
    ours = ["oddarms.experiments", "oddarms.cli._reproduce", "oddarms.cli._demo"]
    oddarms.create_study("s", ["a", "b"], k=0.5, delta=0.1, storage=tmp_path / "studies.db")
    code = (
        "import sys; from oddarms.cli import main; main(['study', 'ask', 's']);"
        f" print([m for m in {[*heavy, *ours]} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.splitlines()[-1] == "[]"
