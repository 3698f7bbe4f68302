"""``oddarms study``: what the commands print, where, and with which exit code."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import oddarms
from helpers import ROOT
from oddarms.cli import main
from oddarms.cli._printing import shortened, shown, table
from oddarms.cli.study._work import lease_of
from oddarms.errors import InvalidParameter

BIN = Path(sys.executable).parent
COMMAND = str(BIN / "oddarms")
TRUTH = {"ann": 0, "bob": 0, "cy": 0, "eve": 1}
SERVERS = ["eu-1", "eu-2", "us-1", "us-2"]
EVERY = "create list show ask tell skip import export result verify delete upgrade"
COMMANDS = EVERY.split()


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(self.out)))


Study = Callable[..., Ran]


@pytest.fixture
def study(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Study:
    """Runs a command of ``oddarms study`` in an empty directory, on the file studies.db."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ODDARMS_STORAGE", "studies.db")
    monkeypatch.setenv("COLUMNS", "80")

    def run(*words: object, stdin: str | bytes = b"") -> Ran:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        code = main(["study", *map(str, words)])
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def crowd(study: Study) -> Study:
    """The same, with a study "crowd" of four arms, of which eve is the outlier."""
    made = study(
        "create", "crowd", "--arms", ",".join(TRUTH), "--k", 1, "--delta", 0.1, "--seed", 7
    )
    assert made == (0, "created crowd with 4 arms in studies.db\n", "")
    return study


def work(study: Study, name: str = "crowd", *, worker: str = "w") -> int:
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


def assert_refused(ran: Ran, code: int, *words: str) -> None:
    """One sentence on stderr, nothing on stdout."""
    assert ran.code == code, ran
    assert ran.out == ""
    assert re.fullmatch(r"error: [^\n]+\.\n", ran.err), ran.err
    for word in words:
        assert word in ran.err


# Creating


def test_arms_come_from_a_file_stdin_or_a_list(study: Study) -> None:
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


def test_a_file_wins_over_a_list(study: Study) -> None:
    Path("a,b").write_text("x\ny\nz\n")
    assert study("create", "s", "--arms", "a,b", "--k", 1, "--delta", 0.1).code == 0
    assert oddarms.load_study("s").labels == ("x", "y", "z")


def test_a_list_may_be_longer_than_a_file_name(study: Study) -> None:
    many = ",".join(f"arm{i}" for i in range(3000))
    assert study("create", "s", "--arms", many, "--k", 1, "--delta", 0.1).code == 0
    assert study("show", "s", "--format", "json").json["arms"] == 3000


def test_the_question_is_stored_as_it_was_asked(study: Study) -> None:
    words = "create s --arms a,b,c --k -0.5 --delta 0.2 --algorithm rr --bounds -1,3 --side both"
    more = "--budget 50 --seed 3 --option batch=5"
    assert study(*words.split(), *more.split()).code == 0
    shown_study = study("show", "s", "--format", "json").json
    assert shown_study["k"] == -0.5
    assert shown_study["delta"] == 0.2
    assert shown_study["algorithm"] == "rr"
    assert shown_study["bounds"] == [-1.0, 3.0]
    assert shown_study["side"] == "both"
    assert shown_study["budget"] == 50
    assert shown_study["seed"] == 3
    assert shown_study["options"] == {"batch": 5}
    described = study("show", "s").out
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
        ("--arms a,b --k 1 --delta 0.1 --algorithm best", ["ade, rr, spade, wrr"]),
        ("--arms a,b --k 1 --delta 0.1 --option max_step", ["name=value"]),
        ("--arms a,b --k 1 --delta 0.1 --option delta=1", ["no option 'delta'"]),
        ("--arms a,b --k 1 --delta 0.1 --option rng=1", ["no option 'rng'"]),
        ("--arms a,b --k 1 --delta 0.1 --option max_step=two", ["max_step"]),
    ],
)
def test_a_bad_question_is_refused_and_leaves_no_storage(
    study: Study, given: str, words: list[str]
) -> None:
    assert_refused(study("create", "s", *given.split()), 2, *words)
    assert not Path("studies.db").exists()


def test_arms_must_be_text(study: Study) -> None:
    ran = study("create", "s", "--arms", "-", "--k", 1, "--delta", 0.1, stdin=b"a\n\xff\n")
    assert_refused(ran, 2, "stdin, line 2", "UTF-8")


def test_a_name_is_taken_once(crowd: Study) -> None:
    ran = crowd("create", "crowd", "--arms", "a,b", "--k", 1, "--delta", 0.1)
    assert_refused(ran, 2, "'crowd' already")


# Storages


def test_the_default_storage_is_a_file_and_is_named(
    study: Study, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ODDARMS_STORAGE")
    where = f"storage: {tmp_path / 'oddarms.db'}\n"
    made = study("create", "s", "--arms", "a,b", "--k", 0.5, "--delta", 0.1)
    assert made == (0, "created s with 2 arms in oddarms.db\n", where)
    assert study("ask", "s", "--format", "json").err == where
    assert study("list", "--storage", "oddarms.db").err == ""


@pytest.mark.parametrize("command", ["list", "show s", "ask s", "upgrade", "delete s --yes"])
def test_a_storage_that_is_not_there_is_not_made(study: Study, command: str) -> None:
    assert_refused(study(*command.split()), 2, "studies.db", "oddarms study create")
    assert not Path("studies.db").exists()


@pytest.mark.parametrize("storage", ["", "memory", "sqlite://"])
def test_a_storage_outlives_the_command(study: Study, storage: str) -> None:
    question = ("--arms", "a,b", "--k", 1, "--delta", 0.1)
    assert_refused(study("create", "s", *question, "--storage", storage), 2, "outlive")


@pytest.mark.parametrize("storage", ["nonsense://x", "studies.db/x", "notes.txt"])
def test_a_storage_that_is_none_is_refused(study: Study, storage: str) -> None:
    Path("notes.txt").write_text("no database " * 100)
    question = ("--arms", "a,b", "--k", 1, "--delta", 0.1)
    ran = study("create", "s", *question, "--storage", storage)
    assert ran.code in (1, 2)
    assert_refused(ran, ran.code)


def test_an_older_storage_is_upgraded_only_when_asked(crowd: Study) -> None:
    with sqlite3.connect("studies.db") as old:
        old.execute("UPDATE alembic_version SET version_num = '9999'")
    old.close()
    assert_refused(crowd("list"), 1, "newer oddarms")
    assert_refused(crowd("upgrade"), 1, "newer oddarms")


def test_upgrading_a_present_storage_does_nothing(crowd: Study) -> None:
    assert crowd("upgrade") == (0, "the storage is at the present version\n", "")
    assert crowd("list", "--format", "csv").rows[0]["name"] == "crowd"


def test_everything_works_on_postgresql(study: Study, postgresql: Any) -> None:
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


def test_a_study_is_worked_through(crowd: Study) -> None:
    tickets = work(crowd)
    found = crowd("result", "crowd", "--format", "json").json
    assert found["name"] == "crowd"
    assert found["status"] == "decided"
    assert found["outliers"] == ["eve"]
    assert found["pulls"] == tickets
    expected = {
        "name": "crowd",
        "status": "decided",
        **oddarms.load_study("crowd").result().to_dict(),
    }
    assert found == expected


def test_tickets_in_every_format(crowd: Study) -> None:
    asked = crowd("ask", "crowd", "-n", 2)
    assert asked.code == 0
    assert asked.err == ""
    header, first, second = asked.out.splitlines()
    assert header.split() == ["id", "arm", "expires"]
    assert re.fullmatch(r" 1  ann  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", first)
    assert second.split()[:2] == ["2", "ann"]
    as_json = crowd("ask", "crowd", "--format", "json").json
    assert as_json["status"] == "open"
    assert [(t["id"], t["arm"]) for t in as_json["tickets"]] == [(3, "bob")]
    as_csv = crowd("ask", "crowd", "--format", "csv")
    assert as_csv.out.splitlines()[0] == "id,arm,expires"
    assert as_csv.rows[0]["arm"] == "bob"


def test_the_exit_code_says_whether_to_work_wait_or_stop(crowd: Study) -> None:
    assert crowd("ask", "crowd", "-n", 7).code == 0
    rest = crowd("ask", "crowd", "-n", 7)
    assert rest.code == 0
    assert len(rest.out.splitlines()) == 2
    assert rest.err == "waiting: all pulls of this step are out\n"
    waiting = crowd("ask", "crowd")
    assert waiting == (4, "", "waiting: all pulls of this step are out\n")
    assert crowd("ask", "crowd", "--format", "csv") == (4, "id,arm,expires\n", "")
    as_json = crowd("ask", "crowd", "--format", "json")
    assert (as_json.code, as_json.json) == (4, {"status": "waiting", "tickets": []})
    lines = "\n".join(f"{i} {int(i > 6)}" for i in range(1, 9))
    assert crowd("tell", "crowd", "--from", "-", stdin=lines).code == 0
    work(crowd)
    done = crowd("ask", "crowd")
    assert (done.code, done.out) == (3, "")
    assert done.err == "decided: every arm is decided; see `oddarms study result crowd`\n"
    assert crowd("ask", "crowd", "--format", "json").json == {"status": "decided", "tickets": []}


def test_a_used_up_budget_ends_a_study(study: Study) -> None:
    words = "create small --arms ann,bob,cy,eve --k 1 --delta 0.1 --budget 9"
    assert study(*words.split()).code == 0
    work(study, "small")
    done = study("ask", "small", "--format", "json")
    assert (done.code, done.json["status"]) == (3, "budget")
    assert "Budget:     9 pulls" in study("show", "small").out


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("10m", 600), ("1.5h", 5400), ("1d", 86400), (" 2 h ", 7200)]
)
def test_a_lease_is_a_duration(text: str, seconds: float) -> None:
    assert lease_of(text).total_seconds() == seconds


@pytest.mark.parametrize("text", ["", "10", "h", "0s", "-1h", "1w", "1h30m", "9999999999d", "1e3s"])
def test_other_leases_are_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match="30s, 10m, 2h or 1d"):
        lease_of(text)


def test_an_expired_ticket_is_handed_out_again_and_its_late_result_counts(crowd: Study) -> None:
    late = crowd("ask", "crowd", "-n", 8, "--lease", "0.001s", "--format", "csv").rows
    again = crowd("ask", "crowd", "-n", 8, "--format", "csv").rows
    assert [row["arm"] for row in again] == [row["arm"] for row in late]
    assert crowd("tell", "crowd", late[0]["id"], 0).code == 0
    assert crowd("tell", "crowd", again[0]["id"], 0).code == 0
    assert crowd("show", "crowd", "--format", "json").json["results"] == 2
    assert [row["expired"] for row in crowd("export", "crowd").rows] == ["true", "false"]


def test_telling_says_what_became_of_each_result(crowd: Study) -> None:
    crowd("ask", "crowd", "-n", 3)
    assert crowd("tell", "crowd", 1, 0.25) == (0, "ticket  outcome\n     1  recorded\n", "")
    assert crowd("tell", "crowd", 1, 0.25).out.split()[-1] == "repeated"
    conflict = crowd("tell", "crowd", 1, 0.5)
    assert conflict.code == 1
    assert conflict.out.split()[-1] == "conflict"
    assert conflict.err == (
        "error: ticket 1 has the result 0.25 already, which stands: 0.5 was not used.\n"
    )
    many = crowd(
        "tell", "crowd", "--from", "-", "--format", "csv", stdin="1 0.25\n2 1\n1 0.7\n2 0\n"
    )
    assert many.code == 1
    assert [row["outcome"] for row in many.rows] == ["repeated", "recorded", "conflict", "conflict"]
    assert "nor were 1 other results" in many.err
    assert crowd("show", "crowd", "--format", "json").json["conflicts"] == 3


def test_negative_rewards_are_no_options(study: Study) -> None:
    words = "create s --arms a,b,c --k 1 --delta 0.1 --bounds -1,1"
    assert study(*words.split()).code == 0
    study("ask", "s", "-n", 3)
    assert study("tell", "s", 1, -0.5, "--format", "csv").code == 0
    assert study("tell", "s", 2, "-1e-3", "--worker", "me").code == 0
    assert [float(row["reward"]) for row in study("export", "s").rows] == [-0.5, -0.001]


@pytest.mark.parametrize(
    "text",
    [
        "1 0.5\n\n2\t1\n",
        "1,0.5\n2,1\n",
        "ticket,reward\n1,0.5\n2,1\n",
        "\ufeffarm;Reward;id\r\nann;0.5;1\r\nbob;1;2\r\n",
        '{"ticket": 1, "reward": 0.5}\n{"id": 2, "arm": "x", "reward": true}\n',
    ],
)
def test_many_results_in_every_layout(crowd: Study, text: str) -> None:
    crowd("ask", "crowd", "-n", 2, "--worker", "w1")
    Path("results").write_text(text)
    told = crowd("tell", "crowd", "--from", "results", "--format", "json")
    assert told.json == [
        {"ticket": 1, "outcome": "recorded"},
        {"ticket": 2, "outcome": "recorded"},
    ]
    rows = crowd("export", "crowd", "--format", "json").json
    assert [(row["ticket"], row["reward"], row["worker"]) for row in rows] == [
        (1, 0.5, "w1"),
        (2, 1.0, "w1"),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 0\n2 1.5\n", ["stdin, line 2", "[0, 1]", "1.5"]),
        ("1 0\n2 nan\n", ["stdin, line 2", "nan"]),
        ("1 0\n2 yes\n", ["stdin, line 2", "'yes'"]),
        ("1 0\n2\n", ["stdin, line 2", "a ticket and a reward"]),
        ("1 0\n2 0,5\n", ["stdin, line 2"]),
        ("1 0\nx 1\n", ["stdin, line 2", "'x'"]),
        ("1 0\n9 1\n", ["got 9"]),
        ("1 0\n99999999999999999999 1\n", ["stdin, line 2"]),
        ("ticket,reward\n1,0\n2\n", ["stdin, line 3", "2 fields"]),
        ('ticket,reward\n1,0\n2,"1\n', ["well-formed"]),
        ('{"ticket": 1, "reward": 0}\n{"ticket": 2}\n', ["stdin, line 2"]),
        ('{"ticket": 1, "reward": 0}\n{"ticket": 2,\n', ["stdin, line 2", "JSON"]),
    ],
)
def test_one_wrong_line_and_nothing_is_recorded(crowd: Study, text: str, words: list[str]) -> None:
    crowd("ask", "crowd", "-n", 2)
    assert_refused(crowd("tell", "crowd", "--from", "-", stdin=text), 2, *words)
    assert crowd("show", "crowd", "--format", "json").json["results"] == 0


def test_no_results_are_no_error(crowd: Study) -> None:
    assert crowd("tell", "crowd", "--from", "-") == (
        0,
        "",
        "there were no results, and none was recorded\n",
    )


@pytest.mark.parametrize("words", [[], ["1"], ["1", "0", "--from", "-"], ["1", "2"], ["-1", "0"]])
def test_telling_needs_a_ticket_and_a_reward(crowd: Study, words: list[str]) -> None:
    crowd("ask", "crowd")
    assert_refused(crowd("tell", "crowd", *words), 2)


def test_a_skipped_ticket_is_handed_out_again(crowd: Study) -> None:
    crowd("ask", "crowd", "-n", 8)
    assert crowd("skip", "crowd", 3, "--reason", "no time").out == "ticket 3 was given back\n"
    assert crowd("ask", "crowd", "--format", "csv").rows[0]["arm"] == "bob"
    assert_refused(crowd("skip", "crowd", 99), 2, "99")
    assert_refused(crowd("skip", "crowd", "x"), 2, "'x'")


# Importing and exporting


def test_a_file_is_imported_once(crowd: Study) -> None:
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


def test_a_first_import_with_again_counts_as_the_first(crowd: Study) -> None:
    Path("old.csv").write_text("arm,reward\nann,0\n")
    assert crowd("import", "crowd", "old.csv", "--again").out == "imported 1 reward\n"
    assert crowd("import", "crowd", "old.csv").out == "imported 0 rewards\n"


def test_imports_may_be_gzipped_or_come_from_stdin(crowd: Study) -> None:
    table_text = b"arm\treward\nann\t0\n"
    Path("old.tsv.gz").write_bytes(gzip.compress(table_text))
    assert crowd("import", "crowd", "old.tsv.gz").out == "imported 1 reward\n"
    assert crowd("import", "crowd", "-", stdin=b"arm,reward\nbob,1\n").out == "imported 1 reward\n"


def test_imports_know_the_layouts_of_crowds(crowd: Study) -> None:
    Path("answers.csv").write_text("worker,label,gold\nann,1,1\nann,2,1\neve,2,1\nbob,1,\n")
    assert crowd("import", "crowd", "answers.csv").out == "imported 3 rewards\n"
    rows = crowd("export", "crowd").rows
    assert [(row["arm"], row["reward"]) for row in rows] == [
        ("ann", "0.0"),
        ("ann", "1.0"),
        ("eve", "1.0"),
    ]


def test_imports_use_the_bounds_and_labels_of_the_study(study: Study) -> None:
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
def test_a_bad_import_records_nothing(crowd: Study, text: str, words: list[str]) -> None:
    Path("old.csv").write_text(text)
    assert_refused(crowd("import", "crowd", "old.csv"), 2, *words)
    assert crowd("show", "crowd", "--format", "json").json["imported"] == 0


def test_an_import_after_the_end_says_that_it_is_not_used(crowd: Study) -> None:
    work(crowd)
    Path("old.csv").write_text("arm,reward\nann,0\n")
    ran = crowd("import", "crowd", "old.csv")
    assert (ran.code, ran.out) == (0, "imported 1 reward\n")
    assert "not used" in ran.err


def test_trials_are_exported_in_both_formats_and_to_a_file(crowd: Study) -> None:
    crowd("ask", "crowd", "-n", 2, "--worker", "Zoë, the 1st")
    crowd("tell", "crowd", "--from", "-", stdin="2 1\n1 0.5\n")
    as_csv = crowd("export", "crowd")
    assert as_csv.err == ""
    assert [row["ticket"] for row in as_csv.rows] == ["1", "2"]
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


def test_a_list_in_every_format(crowd: Study) -> None:
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


def test_a_study_is_described(crowd: Study) -> None:
    crowd("ask", "crowd", "-n", 3)
    crowd("tell", "crowd", 1, 0)
    text = crowd("show", "crowd").out
    for line in (
        "Storage:    studies.db",
        "at or above mean + 1 sd of all means?",
        "wrong with probability at most 0.1; rewards in [0, 1]",
        "Algorithm:  spade, seed 7",
        "Budget:     none",
        "Status:     open: there are pulls to hand out",
        "Arms:       0 outliers, 0 normal, 4 undecided",
        "Tickets:    3 handed out, 2 of them live",
        "Results:    1 of tickets, 0 imported",
        "Conflicts:  0",
        "Threshold:  mean + 1 sd is not known yet",
        "Pulls left: unknown yet",
    ):
        assert line in text
    work_left = crowd("show", "crowd", "--format", "csv").rows[0]
    assert (work_left["live"], work_left["status"], work_left["pulls_needed"]) == ("2", "open", "")
    crowd("skip", "crowd", 2)
    crowd("skip", "crowd", 3)
    work(crowd)
    text = crowd("show", "crowd").out
    assert "Status:     decided: every arm is decided" in text
    assert "Arms:       1 outliers, 3 normal, 0 undecided" in text
    assert re.search(r"Threshold:  mean \+ 1 sd is 0\.683, in \[0\.\d{3}, \d\.\d{3}\]", text)
    assert "Pulls left: about 0" in text


def test_the_result_shows_outliers_or_every_arm(crowd: Study) -> None:
    before = crowd("result", "crowd").out
    assert "Outliers:   0 of 4 arms, 4 undecided" in before
    work(crowd)
    text = crowd("result", "crowd").out
    header, first, empty, *summary = text.splitlines()
    assert header.split() == ["arm", "decision", "mean", "interval", "odds", "pulls"]
    assert first.split()[:3] == ["eve", "high", "1.000"]
    assert empty == ""
    assert summary[:3] == [
        "Study:      crowd",
        "Status:     decided: every arm is decided",
        "Outliers:   1 of 4 arms, 0 undecided",
    ]
    every = crowd("result", "crowd", "--all").out.splitlines()
    assert [line.split()[0] for line in every[1:5]] == list(TRUTH)
    rows = crowd("result", "crowd", "--format", "csv").rows
    assert [row["decision"] for row in rows] == ["normal", "normal", "normal", "high"]


def test_no_table_is_wider_than_the_terminal_and_no_label_breaks_it(study: Study) -> None:
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
    for command in (["list"], ["ask", name, "-n", 12], ["result", name, "--all"]):
        text = study(*command).out
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


def test_tables_align_and_shorten() -> None:
    text = table(["a", "b"], [["x" * 30, 1], ["漢字", 12345]], right=["b"], shorten="a")
    assert text == f"a{' ' * 29}      b\n{'x' * 30}      1\n漢字{' ' * 26}  12345\n"
    assert shortened("漢字漢字", 7) == "漢字..."
    assert shown("plain") == "plain"


def test_a_sound_study_is_verified(crowd: Study) -> None:
    tickets = work(crowd)
    expected = f"crowd is sound: its {tickets} results give what is stored\n"
    assert crowd("verify", "crowd") == (0, expected, "")


def test_a_changed_log_is_found(crowd: Study) -> None:
    work(crowd)
    changed = sqlite3.connect("studies.db")
    with changed:
        changed.execute("UPDATE results SET reward = 7 WHERE ticket = 1")
        changed.execute("UPDATE results SET arm = 1 WHERE ticket = 2")
    changed.close()
    assert_refused(crowd("verify", "crowd"), 1, "outside the bounds", "of another arm")


# Deleting


def test_deleting_needs_a_yes_where_nobody_can_be_asked(crowd: Study) -> None:
    assert_refused(crowd("delete", "crowd"), 2, "--yes", "nothing was deleted")
    assert crowd("delete", "crowd", "--yes").out == "deleted crowd from studies.db\n"
    assert_refused(crowd("show", "crowd"), 2, "'crowd'", "none")


@pytest.mark.parametrize(("answer", "code"), [("Yes\n", 0), ("n\n", 1), ("", 1)])
def test_deleting_asks_on_a_terminal(
    crowd: Study, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
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
    "command", ["show x", "ask x", "tell x 1 0", "skip x 1", "export x", "result x", "verify x"]
)
def test_an_unknown_study_is_bad_usage(crowd: Study, command: str) -> None:
    assert_refused(crowd(*command.split()), 2, "'x'", "it has crowd")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_fits(study: Study, command: str) -> None:
    told = study(command, "--help")
    assert told.code == 0
    assert f"oddarms study {command}" in told.out.partition("Example")[2]
    assert max(map(len, told.out.splitlines())) <= 80
    summary = study("--help").out
    assert re.search(rf"^  {command} +\w.*\.$", summary, re.MULTILINE)
    assert "..." not in summary.partition("Commands")[2]


def test_help_of_ask_has_its_exit_codes(study: Study) -> None:
    text = study("ask", "--help").out
    assert re.search(r"0 +tickets were handed out", text)
    assert re.search(r"3 +the study is done", text)
    assert re.search(r"4 +nothing to hand out", text)


@pytest.mark.parametrize("words", [["frob"], ["ask"], ["ask", "s", "-n", "x"], ["list", "--frob"]])
def test_bad_usage_is_said_on_stderr(study: Study, words: list[str]) -> None:
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


def shell_blocks(page: Path) -> Iterator[str]:
    for block in re.findall(
        r"^```sh\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
    ):
        if "# not run here" not in block:
            yield block


def test_the_shell_blocks_of_the_page_work(tmp_path: Path, environment: dict[str, str]) -> None:
    """Two workers finish a study, with nothing but the command line."""
    history = [f"{server},{int(server == 'us-2')}" for server in SERVERS for _ in range(8)]
    (tmp_path / "history.csv").write_text("\n".join(["arm,reward", *history]))
    script = "set -e\n" + "\n".join(shell_blocks(ROOT / "docs" / "studies.md"))
    done = bash(script, tmp_path, environment)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^us-2 +high +1\.000 ", done.stdout, re.MULTILINE)
    assert "Outliers:   1 of 4 arms, 0 undecided" in done.stdout
    assert "servers is sound" in done.stdout
    assert "imported 32 rewards" in done.stdout
    assert done.stdout.splitlines()[-1] == "imported 0 rewards"
    assert done.stderr.count("history.csv was imported before") == 1
    assert "error" not in done.stderr


def test_pipes_in_and_out(tmp_path: Path, environment: dict[str, str]) -> None:
    script = """
        seq 500 | oddarms study create s --arms - --k 2 --delta 0.1 > /dev/null
        oddarms study ask s -n 1000 --format csv > tickets
        sed '1d; s/,.*/ 0/' tickets | oddarms study tell s --from - --format csv | wc -l
        oddarms study export s | head -n 1
        echo ${PIPESTATUS[0]}
        oddarms study export s > /dev/full
        echo $?
    """
    done = bash(script, tmp_path, environment)
    lines = done.stdout.split()
    assert lines[0] == "501"
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
    heavy = ["matplotlib", "numba", "pandas", "joblib", "rich", "alembic", "scipy.stats"]
    ours = ["oddarms.experiments", "oddarms.paper", "oddarms.cli._reproduce", "oddarms.cli._demo"]
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
