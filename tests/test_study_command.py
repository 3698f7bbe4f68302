"""``oddarms study``: what the commands print, where, and with which exit code."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import oddarms
from helpers import BIN, ROOT, Ran, Run, assert_refused, page_blocks
from oddarms.studies import StoredStudy

TRUTH = {"ann": 0, "bob": 0, "cy": 0, "eve": 1}
QUESTION = ("--k", 1, "--delta", 0.1)
NO_ID = "17.3.204.9f86d081884c7d65"
"""An id that no study has given."""


@pytest.fixture
def study(run_command: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command of ``oddarms study`` in an empty directory, on the file studies.db."""
    monkeypatch.setenv("ODDARMS_STORAGE", "studies.db")

    def run(*words: object, stdin: str | bytes = b"") -> Ran:
        return run_command("study", *words, stdin=stdin)

    return run


@pytest.fixture
def crowd(study: Run) -> Run:
    """The same, with a study "crowd" of four arms, of which eve is the outlier."""
    oddarms.create_study("crowd", TRUTH, k=1, delta=0.1, rng=7)
    return study


def work(study: Run, name: str = "crowd") -> int:
    """Work until the study is done; return the number of tickets."""
    made = 0
    while True:
        asked = study("ask", name, "-n", 100, "--worker", "w", "--format", "csv")
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


def about(study: Run, name: str = "crowd") -> Any:
    return study("show", name, "--format", "json").json


# Creating


def test_arms_come_from_a_file_stdin_or_a_list(study: Run) -> None:
    Path("arms.txt").write_bytes("\ufeffann\r\n\n  bob smith \nzoë\n".encode())
    Path("a,b").write_text("x\ny\nz\n")  # a file wins over a list
    long = ",".join(f"arm{i}" for i in range(3000))
    made = study("create", "file", "--arms", "arms.txt", *QUESTION)
    assert made == (0, "created file with 3 arms in studies.db\n", "")
    assert study("create", "stdin", "--arms", "-", *QUESTION, stdin="a,1\nb\n").code == 0
    assert study("create", "list", "--arms", "x, y ,1", *QUESTION).code == 0
    assert study("create", "a,b", "--arms", "a,b", *QUESTION).code == 0
    assert study("create", "long", "--arms", long, *QUESTION).code == 0
    names = ("file", "stdin", "list", "a,b")
    assert [tuple(oddarms.load_study(name).labels) for name in names] == [
        ("ann", "bob smith", "zoë"),
        ("a,1", "b"),
        ("x", "y", "1"),
        ("x", "y", "z"),
    ]


def test_the_question_is_stored_as_it_was_asked(study: Run) -> None:
    words = "create s --arms a,b,c --k -0.5 --delta 0.2 --algorithm rr --bounds -1,3 --side both"
    more = "--budget 50 --seed 3 --option batch=5"
    assert study(*words.split(), *more.split()).code == 0
    assert_refused(study("create", "s", "--arms", "a,b"), 2, "'s' already")
    assert study("tell", "s", *ask(study, 1, name="s"), -0.5).code == 0  # no option
    asked = about(study, "s")["question"]
    assert (asked["k"], asked["delta"], asked["side"], asked["budget"]) == (-0.5, 0.2, "both", 50)
    assert (asked["algorithm"], asked["options"]) == ("rr", {"batch": 5})
    assert asked["bounds"] == [-1.0, 3.0]
    described = " ".join(study("show", "s").out.split())
    assert "at or above mean - 0.5 sd, or at or below mean + 0.5 sd, of all means?" in described
    assert "rr, batch=5, seed 3" in described


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("--arms .", "directory"),
        ("--arms latin", "UTF-8"),
        ("--arms a,b,a", "'a' appears twice"),
        ("--arms a,b --k nan", "k must"),
        ("--arms a,b --bounds 1,0", "--bounds must"),
        ("--arms a,b --algorithm best", "algorithm"),
        ("--arms a,b --delta 0.1 --option delta=1", "each name once"),
        ("--arms a,b --option rng=1", "rng"),
        ("--arms a,b --option max_step=two", "max_step"),
        ("--arms a,b --storage memory", "outlive"),
        ("--arms a,b --storage sqlite://", "outlive"),
        ("--arms a,b --storage nonsense://x", "storage must be"),
    ],
)
def test_a_bad_question_is_refused_and_leaves_no_storage(study: Run, given: str, said: str) -> None:
    Path("latin").write_bytes(b"a\n\xff\n")
    assert_refused(study("create", "s", *given.split()), 2, said)
    assert not Path("studies.db").exists()


# Storages


def test_the_default_storage_is_a_file_and_is_named(
    study: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ODDARMS_STORAGE")
    made = study("create", "s", "--arms", "a,b", "--k", 0.5)
    assert made == (0, "created s with 2 arms in oddarms.db\n", "")
    where = f"storage: {tmp_path / 'oddarms.db'}\n"
    assert study("ask", "s", "--format", "json").err == where
    assert study("list", "--storage", "oddarms.db").err == ""


@pytest.mark.parametrize("command", ["list", "show s", "ask s", "delete s --yes"])
def test_a_storage_that_is_not_there_is_not_made(study: Run, command: str) -> None:
    ran = study(*command.split())
    assert_refused(ran, 2, "studies.db", "oddarms study create")
    assert not Path("studies.db").exists()


@pytest.mark.parametrize("storage", ["", "studies.db/x", "notes.txt"])
def test_a_file_that_is_no_storage_is_refused(study: Run, storage: str) -> None:
    Path("notes.txt").write_text("no database " * 100)
    ran = study("create", "s", "--arms", "a,b", "--storage", storage)
    assert ran.code in (1, 2)
    assert_refused(ran, ran.code)


# Asking and telling


def test_a_study_is_worked_through(crowd: Run) -> None:
    tickets = work(crowd)
    found = crowd("result", "crowd", "--format", "json").json
    assert (found["status"], found["outliers"]) == ("decided", ["eve"])
    assert found["pulls"] + found["unused"] == tickets
    assert found == oddarms.load_study("crowd").result().to_dict()
    assert crowd("verify", "crowd") == (0, f"crowd is sound: {tickets} results\n", "")
    late = crowd("import", "crowd", "-", stdin="arm,reward\nann,0\n")
    assert (late.code, late.out) == (0, "imported 1 sample\n")
    assert "not used" in late.err


def test_tickets_in_every_format(crowd: Run) -> None:
    asked = crowd("ask", "crowd", "-n", 2)
    assert (asked.code, asked.err) == (0, "")
    header, first, second = asked.out.splitlines()
    assert header.split() == ["id", "arm", "expires"]
    assert re.fullmatch(r"1\.\S+  ann  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", first)
    assert re.match(r"2\.\S+  ann ", second)
    as_json = crowd("ask", "crowd", "--format", "json").json
    assert as_json["status"] == "running"
    assert [(t["id"][:2], t["arm"]) for t in as_json["tickets"]] == [("3.", "bob")]
    as_csv = crowd("ask", "crowd", "--format", "csv")
    assert as_csv.out.splitlines()[0] == "id,arm,expires"
    assert as_csv.rows[0]["arm"] == "bob"


WAITING = "waiting: it waits for results that others are getting\n"


def test_the_exit_code_says_whether_to_work_wait_or_stop(crowd: Run) -> None:
    rest = crowd("ask", "crowd", "-n", 100)
    assert (rest.code, rest.err) == (0, WAITING)
    ids = [line.split()[0] for line in rest.out.splitlines()[1:]]
    assert crowd("ask", "crowd") == (4, "", WAITING)
    assert crowd("ask", "crowd", "--format", "csv") == (4, "id,arm,expires\n", "")
    as_json = crowd("ask", "crowd", "--format", "json")
    assert (as_json.code, as_json.json) == (4, {"status": "waiting", "tickets": []})
    assert re.search(rf"status: +{WAITING}", crowd("show", "crowd").out)
    for ticket in ids:
        assert crowd("skip", "crowd", ticket).code == 0
    again = crowd("skip", "crowd", ids[0])
    assert (again.code, again.out) == (1, "")
    assert "is not out: it has a result, or its lease had ended" in again.err
    work(crowd)
    done = crowd("ask", "crowd")
    assert (done.code, done.out) == (3, "")
    assert done.err == "decided: everything is decided; see `oddarms study result crowd`\n"
    assert crowd("ask", "crowd", "--format", "json").json == {"status": "decided", "tickets": []}


def test_a_budget_used_up_within_a_step_ends_a_study(study: Run) -> None:
    arms = ("--arms", ",".join(TRUTH))
    assert study("create", "small", *arms, *QUESTION, "--budget", 9).code == 0
    assert work(study, "small") == 9
    done = study("ask", "small", "--format", "json")
    assert (done.code, done.json["status"]) == (3, "budget")
    found = about(study, "small")
    assert (found["status"], found["pulls"], found["unused"]) == ("budget", 8, 1)
    assert found["results"] == 9
    text = study("result", "small").out
    assert "\nsamples: 8, 1 not used\n" in text
    assert "\nstatus: budget: the budget does not allow another step\n" in text


def test_a_lease_is_a_duration_of_at_most_an_hour(crowd: Run) -> None:
    for lease in ("", "h", "-1h", "1h30m", "0s", "61m", "9999999999d"):
        ran = crowd("ask", "crowd", "--lease", lease)
        assert (ran.code, ran.out) == (2, "")
        assert "lease" in ran.err
    for good in ("10", "30s", "10m", "0.5h", " 1 h "):
        assert crowd("ask", "crowd", "--lease", good).code == 0


def test_an_expired_ticket_is_handed_out_again_and_its_late_result_counts(crowd: Run) -> None:
    late = crowd("ask", "crowd", "-n", 8, "--lease", "0.001s", "--format", "csv").rows
    again = crowd("ask", "crowd", "-n", 8, "--format", "csv").rows
    assert [row["arm"] for row in again] == [row["arm"] for row in late]
    for row in (late[0], again[0]):
        assert crowd("tell", "crowd", row["id"], 0).code == 0
    assert about(crowd)["results"] == 2


def test_telling_says_what_became_of_each_result(crowd: Run) -> None:
    first, second, _ = ask(crowd, 3)
    said = f"{'ticket':{len(first)}}  outcome\n{first}  recorded\n"
    assert crowd("tell", "crowd", first, 0.25) == (0, said, "")
    assert crowd("tell", "crowd", first, 0.25).out.split()[-1] == "repeated"
    conflict = crowd("tell", "crowd", first, 0.5)
    assert conflict.code == 1
    assert conflict.out.split()[-1] == "conflict"
    assert conflict.err == (
        f"error: ticket {first} has the result 0.25 already, which stands; 0.5 was not used.\n"
    )
    lines = f"{first} 0.25\n{second} 1\n{first} 0.7\n{second} 0\n"
    many = crowd("tell", "crowd", "--from", "-", "--format", "csv", stdin=lines)
    assert many.code == 1
    assert [row["outcome"] for row in many.rows] == ["repeated", "recorded", "conflict", "conflict"]
    assert "The same holds for 1 other result." in many.err
    assert about(crowd)["conflicts"] == 3


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
    ids = ask(crowd, 2)
    Path("results").write_text(filled_in(text, ids))
    told = crowd("tell", "crowd", "--from", "results", "--worker", "w1", "--format", "json")
    assert told.json == [{"ticket": ticket, "outcome": "recorded"} for ticket in ids]
    rows = crowd("export", "crowd").rows
    found = [(row["ticket"], float(row["reward"]), row["worker"]) for row in rows]
    assert sorted(found) == sorted(zip(ids, (0.5, 1.0), ("w1", "w1"), strict=True))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#1 0\n#2 1.5\n", "[0, 1]"),
        ("#1 0\n#2 nan\n", "nan"),
        ("#1 0\n#2 yes\n", "'yes'"),
        ("#1 0\n#2\n", "a ticket and a reward"),
        ("#1 0\nx 1\n", "'x 1'"),
        (f"#1 0\n{NO_ID} 1\n", NO_ID),
        ('{"ticket": "#1", "reward": 0}\n{"ticket": "#2"}\n', "reward"),
        ('{"ticket": "#1", "reward": 0}\n{"ticket": "#2",\n', "Expecting"),
    ],
)
def test_one_wrong_line_and_nothing_is_recorded(crowd: Run, text: str, said: str) -> None:
    given = filled_in(text, ask(crowd, 2))
    assert_refused(crowd("tell", "crowd", "--from", "-", stdin=given), 2, said)
    assert about(crowd)["results"] == 0


@pytest.mark.parametrize(
    "words", ["", "#1", "#1 0 --from -", "1 0", "-1 0", "#1 zero", "#1 2", "#1 0 --frob"]
)
def test_telling_needs_a_ticket_and_a_value_within_the_bounds(crowd: Run, words: str) -> None:
    given = filled_in(words, ask(crowd, 1))
    assert_refused(crowd("tell", "crowd", *given.split()), 1 if words == "#1 2" else 2)
    assert about(crowd)["results"] == 0
    assert crowd("tell", "crowd", "--from", "-") == (0, "", "there were no results\n")


def test_tickets_are_renewed_and_given_back(crowd: Run) -> None:
    ids = ask(crowd, 8)
    assert crowd("renew", "crowd", *ids, "--lease", "1m").out == "renewed 8 of 8 leases\n"
    said = f"ticket {ids[2]} was given back\n"
    assert crowd("skip", "crowd", ids[2], "--reason", "no time").out == said
    assert crowd("ask", "crowd", "--format", "csv").rows[0]["arm"] == "bob"
    assert crowd("tell", "crowd", ids[0], 0).code == 0
    again = crowd("renew", "crowd", *ids[:2])
    assert (again.code, again.out) == (1, "renewed 1 of 2 leases\n")
    for command in ("skip", "renew"):
        assert_refused(crowd(command, "crowd", "x"), 2, "'x'")


def test_who_holds_a_study_up(crowd: Run) -> None:
    assert "waits for no ticket" in crowd("release", "crowd").err
    crowd("ask", "crowd", "-n", 3, "--worker", "lab 2", "--lease", "1h")
    (held,) = crowd("release", "crowd", "--format", "csv").rows
    assert (held["worker"], held["tickets"]) == ("lab 2", "3")
    assert "lab 2" in crowd("release", "crowd").out
    assert crowd("release", "crowd", "--worker", "lab 2").out == "took back 3 tickets\n"
    crowd("ask", "crowd", "-n", 2)
    assert crowd("release", "crowd", "--all").out == "took back 2 tickets\n"


# Importing and exporting


def test_a_file_is_imported_once(crowd: Run) -> None:
    Path("old.csv").write_text("day,arm,reward\n1,ann,0\n2,eve,1\n2,eve,0.5\n")
    assert crowd("import", "crowd", "old.csv") == (0, "imported 3 samples\n", "")
    twice = crowd("import", "crowd", "old.csv")
    assert (twice.code, twice.out) == (0, "imported 0 samples\n")
    assert "old.csv was imported before and counts once; --again" in twice.err
    assert crowd("import", "crowd", "old.csv", "--again").out == "imported 3 samples\n"
    assert (about(crowd)["history"], about(crowd)["results"]) == (6, 0)
    other = "who\twrong\nbob\tyes\n"
    words = ("--arm", "who", "--reward", "wrong")
    assert crowd("import", "crowd", "-", *words, stdin=other).out == "imported 1 sample\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("arm,reward\nann,0\nzoe,1\n", "'zoe'"),
        ("arm,reward\nann,0\neve,2\n", "[0, 1]"),
        ("arm,reward\nann,\n", "missing"),
        ("arm,reward\n", "rows"),
        ("", "old.csv"),
        ("what,is,this\n1,2,3\n", "'what'"),
    ],
)
def test_a_bad_import_records_nothing(crowd: Run, text: str, said: str) -> None:
    Path("old.csv").write_text(text)
    assert_refused(crowd("import", "crowd", "old.csv"), 2, said)
    assert about(crowd)["history"] == 0


def test_trials_are_exported(crowd: Run) -> None:
    ids = ask(crowd, 2)
    words = ("tell", "crowd", "--worker", "Zoë, the 1st", "--from", "-")
    crowd(*words, stdin=filled_in("#2 1\n#1 0.5\n", ids))
    as_csv = crowd("export", "crowd")
    assert as_csv.err == ""
    assert {row["ticket"] for row in as_csv.rows} == set(ids)
    assert as_csv.rows[0]["worker"] == "Zoë, the 1st"
    assert [row["number"] for row in as_csv.rows] == ["1", "2"]
    written = crowd("export", "crowd", "--out", "trials.csv")
    assert (written.out, written.err) == ("", "written: trials.csv\n")
    assert Path("trials.csv").read_text(encoding="utf-8") == as_csv.out
    for out in ("no/trials.csv", "."):
        assert_refused(crowd("export", "crowd", "--out", out), 2, "--out must be a file")


def test_an_archive_has_everything_before_the_study_is_deleted(crowd: Run) -> None:
    ids = ask(crowd, 2)
    refused = crowd("archive", "crowd", "--out", "kept")
    assert refused.code == 2
    assert "2 samples under way" in refused.err
    crowd("tell", "crowd", "--from", "-", stdin=filled_in("#1 1\n#2 0.5\n", ids))
    exported = crowd("export", "crowd").out
    assert crowd("archive", "--inactive", "1h", "--out", "kept").out == ""
    assert crowd("archive", "crowd", "--out", "kept").out == "archived crowd in kept/crowd\n"
    assert crowd("list", "--format", "csv").rows == []
    assert Path("kept/crowd/trials.csv").read_text(encoding="utf-8") == exported
    assert json.loads(Path("kept/crowd/result.json").read_text())["question"]["k"] == 1
    assert json.loads(Path("kept/crowd/question.json").read_text())["labels"] == list(TRUTH)
    assert_refused(crowd("archive"), 2, "NAME of a study or --inactive")


def test_old_studies_are_archived_by_age(study: Run) -> None:
    for name in ("a/b", "c"):
        oddarms.create_study(name, TRUTH, k=1)
    assert study("archive", "--inactive", "1d").err.startswith("no study")
    time.sleep(0.01)
    assert study("archive", "--inactive", "0.01s").out.count("archived") == 2
    assert {one.name for one in Path("archive").iterdir()} == {"a%2Fb", "c"}


def test_an_archive_that_fails_leaves_nothing_and_keeps_no_other(
    study: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        oddarms.create_study(name, TRUTH, k=1)
    time.sleep(0.01)
    Path("archive/a").mkdir(parents=True)
    trials = StoredStudy.trials

    def changing(study: StoredStudy, **options: Any) -> Any:
        if study.name == "b":
            study.ask()
        return trials(study, **options)

    monkeypatch.setattr(StoredStudy, "trials", changing)
    archived = study("archive", "--inactive", "0.01s")
    assert (archived.code, archived.out) == (1, "archived c in archive/c\n")
    assert "archive/a cannot be created: File exists" in archived.err
    assert "b changed while it was exported, so it is not deleted" in archived.err
    assert {one.name for one in Path("archive").iterdir()} == {"a", "c"}
    assert study("list", "--format", "csv").out.count("\n") == 3


def test_an_archived_study_gives_its_space_back(study: Run) -> None:
    large = oddarms.create_study("large", TRUTH, k=1)
    large.add_history(dict.fromkeys(TRUTH, [0.5] * 4_000))

    def size() -> int:
        with closing(sqlite3.connect("studies.db")) as opened:
            opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return sum(file.stat().st_size for file in Path().glob("studies.db*"))

    before = size()
    assert study("archive", "large").code == 0
    assert size() < before / 3


# Looking


def test_a_list_in_every_format(crowd: Run) -> None:
    crowd("ask", "crowd", "-n", 3)
    header, row = crowd("list").out.splitlines()
    assert header.split()[:5] == ["name", "status", "arms", "decided", "outliers"]
    assert row.split()[:7] == ["crowd", "running", "4", "0", "0", "0", "0"]
    assert crowd("list", "--status", "decided", "--sort", "-seen", "--format", "json").json == []
    assert crowd("list", "--format", "json").json[0]["handed_out"] == 3
    assert crowd("list", "--format", "csv").rows[0]["delta"] == "0.1"
    crowd("delete", "crowd", "--yes")
    assert crowd("list") == (0, "", "no studies yet: `oddarms study create` makes one\n")
    assert crowd("list", "--format", "json").json == []


def test_a_study_is_described(crowd: Run) -> None:
    first, *others = ask(crowd, 3)
    crowd("tell", "crowd", first, 0)
    text = crowd("show", "crowd").out
    for line in (
        "storage: studies.db",
        "question: which of 4 arms have a mean at or above the larger of mean + 1 sd and",
        "  mean + 0.05 of all means?",
        "guarantee: right with probability at least 0.9; samples in [0, 1]",
        "algorithm: spade, seed 7",
        "budget: none",
        "status: running: more samples are needed",
        "arms: 0 outliers, 0 normal, 4 undecided",
        "samples: 0, 1 not used yet",
        "tickets: 3 handed out, 2 of them live",
        "results: 1 recorded, 0 conflicts",
    ):
        assert f"{line}\n" in text
    row = about(crowd)
    assert (row["live"], row["status"], row["pulls_needed"]) == (2, "running", None)
    for ticket in others:
        crowd("skip", "crowd", ticket)
    work(crowd)
    text = crowd("show", "crowd").out
    assert "status: decided: everything is decided\n" in text
    assert "arms: 1 outlier, 3 normal, 0 undecided\n" in text
    assert re.search(r"threshold: +about \d\.\d{4}, between 0\.\d{4} and \d\.\d{4} ", text)
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
    every = crowd("result", "crowd", "--all").out
    assert "\nNormal:\n" in every
    assert re.findall(r"^(ann|bob|cy) ", every, re.MULTILINE) == ["ann", "bob", "cy"]
    rows = crowd("result", "crowd", "--format", "csv").rows
    assert [row["decision"] for row in rows] == ["normal", "normal", "normal", "high"]
    markdown = crowd("result", "crowd", "--format", "markdown").out
    assert markdown.startswith("### 1 of 4 arms is an outlier")


def test_no_table_is_wider_than_the_terminal_and_no_label_breaks_it(study: Run) -> None:
    labels = ["long" * 100, "line\nbreak", "\x1b[31mred\x1b[0m", "\u202eflip", "漢字" * 50]
    name = "n" * 60
    oddarms.create_study(name, [*labels, "\ud800"], k=1, delta=0.1)
    for words in (["list"], ["ask", name, "-n", 12], ["result", name, "--all"]):
        text = study(*words).out
        assert not {"\x1b", "\u202e"} & set(text)
        lines = text.splitlines()
        assert max(len(line) + line.count("漢") + line.count("字") for line in lines) <= 80
    found = [arm["label"] for arm in study("result", name, "--format", "json").json["arms"]]
    assert found == [*labels, "\ud800"]
    assert study("result", name, "--format", "csv").code == 0


def test_a_changed_log_is_found(crowd: Run) -> None:
    work(crowd)
    with closing(sqlite3.connect("studies.db")) as changed, changed:
        changed.execute("UPDATE results SET reward = 7 WHERE ticket = 1")
    assert_refused(crowd("verify", "crowd"), 1, "crowd is damaged: ")


# Deleting


def test_deleting_needs_a_yes(crowd: Run) -> None:
    assert_refused(crowd("delete", "crowd"), 2, "--yes is required", "for good")
    assert crowd("delete", "crowd", "--yes").out == "deleted crowd from studies.db\n"
    for command in ("show crowd", f"tell crowd {NO_ID} 0", f"skip crowd {NO_ID}", "export crowd"):
        assert_refused(crowd(*command.split()), 2, "'crowd'", "none")


# Usage


# Real processes


@pytest.fixture
def environment() -> dict[str, str]:
    names = {name: text for name, text in os.environ.items() if name != "ODDARMS_STORAGE"}
    return {**names, "PATH": f"{BIN}:{os.environ['PATH']}", "ODDARMS_STORAGE": "studies.db"}


def bash(script: str, folder: Path, environment: dict[str, str]) -> Ran:
    words = ["bash", "-c", script]
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, timeout=300, check=False
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.long
def test_the_shell_blocks_of_the_page_work(tmp_path: Path, environment: dict[str, str]) -> None:
    """Two workers finish a study, with nothing but the command line."""
    servers = ["eu-1", "eu-2", "us-1", "us-2"]
    history = [f"{server},{int(server == 'us-2')}" for server in servers for _ in range(8)]
    (tmp_path / "history.csv").write_text("\n".join(["arm,reward", *history]))
    page = page_blocks(ROOT / "docs" / "how-to" / "studies.md")
    script = "set -e\n" + "\n".join(block for language, block in page if language == "sh")
    done = bash(script, tmp_path, environment)
    assert done.code == 0, done.err
    assert "1 of 4 arms is an outlier (right with probability at least 0.9)\n" in done.out
    assert "servers is sound" in done.out
    assert "error" not in done.err


@pytest.mark.long
def test_the_documented_backup_and_way_to_another_version(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    page = page_blocks(ROOT / "docs" / "how-to" / "running.md")
    blocks = [block for language, block in page if language == "sh"]
    script = """
oddarms study archive pings --out old
oddarms study create pings --arms a,b,c --k 1 --delta 0.1
oddarms study import pings old/pings/trials.csv
oddarms study result pings
"""
    done = bash("\n".join(["set -e", *blocks, script]), tmp_path, environment)
    assert done.code == 0, done.err
    assert "pings is sound" in done.out
    assert "1 of 3 arms is an outlier" in done.out


def test_pipes_out(tmp_path: Path, environment: dict[str, str]) -> None:
    made = oddarms.create_study("s", 100, storage=tmp_path / "studies.db")
    made.tell_many([(ticket, 0.0) for ticket in made.ask(200)])
    script = """
        oddarms study export s | head -n 1
        echo ${PIPESTATUS[0]}
        oddarms study export s > /dev/full
        echo $?
    """
    done = bash(script, tmp_path, environment)
    lines = done.out.split()
    assert lines[0].startswith("number,ticket,arm")
    assert lines[1] in ("0", "1")  # whether all was in the pipe before its reader went
    assert lines[2] == "1"
    assert done.err == "error: No space left on device.\n"


def test_a_study_command_imports_only_what_it_needs(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    heavy = ["matplotlib", "numba", "pandas", "rich", "fastapi", "scipy.stats", "scipy.optimize"]
    heavy += ["dask", "distributed", "ray", "pyarrow"]
    ours = ["oddarms.experiments", "oddarms.server", "oddarms.simulation"]
    oddarms.create_study("s", ["a", "b"], k=0.5, delta=0.1, storage=tmp_path / "studies.db")
    code = (
        "import sys; from oddarms.cli import main; main(['find', '--help']);"
        " main(['study', 'ask', 's']);"
        f" print([m for m in {[*heavy, *ours]} if m in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, check=True, timeout=60
    )
    assert done.stdout.decode().splitlines()[-1] == "[]"
