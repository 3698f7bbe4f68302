"""``oddarms analyze``: tables, counts, JUnit reports, and what they leave open."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

from helpers import Ran, Run, assert_refused

TABLE = ("t.csv", "--arm", "worker", "--reward", "wrong")


@pytest.fixture
def analyze(run_command: Run) -> Run:
    def run(*words: object, stdin: str = "") -> Ran:
        return run_command("analyze", *words, stdin=stdin)

    return run


def write_table(rewards: dict[str, list[object]], header: str = "worker,wrong") -> None:
    with open("t.csv", "w", newline="") as file:
        file.write(header + "\n")
        table = csv.writer(file)
        table.writerows([label, reward] for label, each in rewards.items() for reward in each)


@pytest.mark.usefixtures("without_pictures")
def test_a_table_is_judged_by_itself(analyze: Run) -> None:
    write_table({"a": [0] * 300, "b, c": [0] * 500, "d\ne": [0] * 400, "f": [1] * 200})
    ran = analyze(*TABLE, "--k", 1)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("1 of 4 arms is an outlier (right with probability at least 0.95)\n")
    assert "samples: 1,400, all recorded\n" in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80
    answer = analyze(*TABLE, "--k", 1, "--format", "json").json
    assert (answer["pulls"], answer["history"], answer["outliers"]) == (0, 1400, ["f"])
    rows = analyze(*TABLE, "--k", 1, "--format", "csv").rows
    assert {row["label"]: int(row["history"]) for row in rows} == {
        "a": 300,
        "b, c": 500,
        "d\ne": 400,
        "f": 200,
    }
    assert "Normal" in analyze(*TABLE, "--k", 1, "--all").out
    assert not Path("output").exists()
    ran = analyze(*TABLE, "--k", 1, "--out", "o")
    assert ran.err == "report: o/report.html\nbeside it: result.json and arms.csv\n"
    assert {path.name for path in Path("o").iterdir()} == {"arms.csv", "report.html", "result.json"}
    assert json.loads(Path("o/result.json").read_text()) == answer
    write_table({"a": [0, 1] * 3, "b": [1, 0] * 2, "c": [1, 1]})
    ran = analyze(*TABLE, "--k", 1, "--finite-population")
    assert ran.code == 0
    assert ran.out.startswith("1 of 3 arms is an outlier")


def test_counts_sums_and_several_columns_for_one_label(analyze: Run) -> None:
    events = (2, 3, 1, 2, 390)
    rows = [f"{host},{errors},400\n" for host, errors in zip("abcde", events, strict=True)]
    Path("t.csv").write_text(f"host,errors,requests\n{''.join(rows)}")
    counts = ("--arm", "host", "--trials", "requests", "--events", "errors")
    answer = analyze("t.csv", *counts, "--k", 1.5, "--format", "json").json
    assert (answer["outliers"], answer["history"]) == (["e"], 2000)
    Path("t.csv").write_text(
        "host,n,sum,sq\n"
        + "".join(f"{h},400,{e},{e}\n" for h, e in zip("abcde", events, strict=True))
    )
    sums = ("--arm", "host", "--count", "n", "--total", "sum", "--squares", "sq")
    assert analyze("t.csv", *sums, "--k", 1.5, "--format", "json").json["outliers"] == ["e"]
    lines = [f"{c},{d},{int(c + d == 'bY')}" for c in "abc" for d in "XY" for _ in range(200)]
    Path("t.csv").write_text("\n".join(["carrier,dest,late", *lines]))
    words = ("t.csv", "--arm", "carrier", "--arm", "dest", "--reward", "late", "--k", 1.5)
    (found,) = analyze(*words, "--format", "json").json["outliers"]
    assert {"b", "Y"} <= set(found)


def test_a_table_may_come_from_stdin_or_be_parquet(analyze: Run) -> None:
    text = "worker,wrong\n" + "a,no\nb,no\nc,no\n" * 300 + "d,yes\n" * 300
    words = ("--arm", "worker", "--reward", "wrong", "--k", 1, "--format", "json")
    assert analyze("-", *words, stdin=text).json["outliers"] == ["d"]
    pytest.importorskip("pyarrow")
    from pyarrow import parquet, table

    names = ["a"] * 300 + ["b"] * 500 + ["c"] * 400 + ["d"] * 200
    parquet.write_table(table({"worker": names, "wrong": [0] * 1200 + [1] * 200}), "t.parquet")
    assert analyze("t.parquet", *words).json["outliers"] == ["d"]


def test_a_table_from_another_office(analyze: Run) -> None:
    lines = ["Nr;Wörker;wrong", *(f"{i};Zoë;0,5" for i in range(9)), "1;bo;", "1;bo;", "3;bo;1"]
    Path("t.csv").write_bytes("\r\n".join(lines).encode("latin-1"))
    words = ("t.csv", "--arm", "Wörker", "--reward", "wrong", "--k", 0.5)
    assert_refused(analyze(*words), 2, "latin-1")
    latin = (*words, "--encoding", "latin-1")
    assert_refused(analyze(*latin), 2, "wrong", "missing")
    assert analyze(*latin, "--missing", "skip", "--format", "json").json["history"] == 10
    worst = analyze(*latin, "--missing", "worst", "--side", "lower", "--format", "json").json
    means = {row["label"]: row["mean"] for row in worst["arms"]}
    assert means["bo"] == pytest.approx(1 / 3)


def test_samples_without_bounds(analyze: Run) -> None:
    write_table({"a": [0.1] * 400, "b": [0.2] * 400, "c": [0.1] * 400, "d": [7, 70] * 200})
    assert_refused(analyze(*TABLE), 2, "must lie within the bounds [0, 1]")
    assert_refused(analyze(*TABLE, "--bounds", "0,inf"), 2, "--bounds must be finite")
    capped = analyze(*TABLE, "--k", 1, "--clip", "0,10", "--format", "json").json
    assert (capped["outliers"], capped["question"]["bounds"]) == (["d"], [0.0, 10.0])
    slow = analyze(*TABLE, "--k", 1, "--above", 0.5, "--format", "json").json
    assert [row["mean"] for row in slow["arms"]] == [0.0, 0.0, 0.0, 1.0]


def test_methods_looks_and_small_arms(analyze: Run) -> None:
    rng = np.random.default_rng(1)
    rewards = {f"w{i}": list((rng.random(150) < (0.6 if i == 0 else 0.2)) * 1) for i in range(20)}
    write_table({**rewards, "new": [1]})
    decided = {
        words: len(analyze(*TABLE, *words, "--format", "json").json["undecided"])
        for words in ((), ("--method", "calibrated"), ("--looks", 30))
    }
    assert decided["--method", "calibrated"] <= decided[()] <= decided["--looks", 30]
    assert analyze(*TABLE).code == 3
    ran = analyze(*TABLE, "--min-rows", 10)
    assert "of 20 arms" in ran.out
    assert "left out" in ran.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Give a file, - for stdin, or --junit"),
        (("a.csv", "b.csv"), "Give one file"),
        (("none.csv",), "none.csv"),
        (("t.csv",), "'worker', 'wrong'"),
        (("t.csv", "--arm", "worker", "--trials", "wrong"), "events"),
        ((*TABLE, "--clip", "0,1", "--bounds", "0,2"), "bounds"),
        ((*TABLE, "--rule", "mad", "--method", "calibrated"), "'calibrated'"),
        (("--junit", "*.xml"), "'*.xml'"),
        (("--junit", "t.csv", "--above", 1), "--above cannot be combined with --junit"),
        (("--junit", "t.csv", "--arm", "x"), "--arm cannot be combined with --junit"),
        (("--junit", "t.csv", "--finite-population"), "cannot be combined with --junit"),
    ],
)
def test_bad_usage_is_a_sentence(analyze: Run, words: tuple[object, ...], said: str) -> None:
    write_table({"a": [0], "b": [1]})
    assert_refused(analyze(*words), 2, said)


# JUnit reports


def write_reports(folder: Path, runs: int, shaky: float = 0.6) -> None:
    """Write reports of eight tests, one of which fails often, one always, and one is skipped."""
    rng = np.random.default_rng(5)
    folder.mkdir()
    for run in range(runs):
        cases = [f'<testcase classname="shop" name="calm_{i}"/>' for i in range(5)]
        failure = "<failure/>" if rng.random() < shaky else ""
        cases.append(f'<testcase classname="shop" name="shaky|`">{failure}</testcase>')
        cases.append('<testcase classname="shop" name="dead"><error/></testcase>')
        cases.append('<testcase classname="shop" name="off"><skipped/></testcase>')
        text = f'<testsuite name="s" timestamp="{run}">{"".join(cases)}</testsuite>'
        (folder / f"run-{run}.xml").write_text(text)


def test_reports_of_many_runs(analyze: Run) -> None:
    write_reports(Path("runs"), 150)
    quoted = analyze("--junit", "runs/*.xml", "--k", 1, "--format", "markdown")
    assert quoted.code == 0, quoted.err
    assert "150 files, 6 tests with " in quoted.err
    assert "1 test not compared, broken, not flaky (never passed): shop::dead" in quoted.err
    assert quoted.out.startswith("### 1 of 6 tests is abnormally flaky (right")
    assert "| `shop::dead` | `all 150 runs failed` |" in quoted.out
    files = sorted(map(str, Path("runs").iterdir()))
    expanded = analyze("--junit", *files, "--k", 1, "-q")
    assert (expanded.code, expanded.err) == (0, "")
    assert expanded.out.startswith("1 of 6 tests is abnormally flaky (right")
    assert re.search(r"^test +fails +interval", expanded.out, re.MULTILINE)
    assert max(map(len, expanded.out.splitlines())) <= 80


def test_flaky_tests_come_first_in_every_form(analyze: Run) -> None:
    case = '<testcase classname="t" name="{}">{}</testcase>'
    proof = '<flakyFailure message="boom at 3&#10;more"/>'
    Path("runs").mkdir()
    for run in range(8):
        cases = [case.format(f"ok{i}", "") for i in range(5)]
        cases.append(case.format("sure", proof if run % 4 == 1 else ""))
        Path(f"runs/{run}.xml").write_text(f"<testsuite>{''.join(cases)}</testsuite>")
    first = "1 test is flaky: passed and failed in one run or at one commit"
    text = analyze("--junit", "runs", "-q", "--out", "o").out
    assert text.startswith(first)
    assert re.search(r"25.0 %  3.2 to 65.1 % +2/8  t::sure\n +last failure: boom at 3", text)
    assert analyze("--junit", "runs", "-q", "--format", "markdown").out.startswith(f"### {first}")
    (found,) = json.loads(analyze("--junit", "runs", "-q", "--format", "json").out)["flaky"]
    assert (found["test"], found["failures"], found["last"]) == ("t::sure", 2, "boom at 3")
    page = Path("o/report.html").read_text(encoding="utf-8")
    assert page.index(first) < page.index("undecided")


def test_too_few_runs_say_how_many_more_are_needed(analyze: Run) -> None:
    write_reports(Path("runs"), 12)
    ran = analyze("--junit", "runs", "--k", 1, "-q", "--out", "o")
    assert ran.code == 3
    assert "tests are known to be abnormally flaky" in ran.out
    head = next(line for line in ran.out.splitlines() if line.startswith("test "))
    assert head.split()[:4] == ["test", "fails", "interval", "guess"]
    assert "still needed: about " in ran.out
    page = Path("o/report.html").read_text(encoding="utf-8")
    assert "Which of 6 tests are abnormally flaky?" in page


def test_damaged_reports_may_be_skipped(analyze: Run) -> None:
    write_reports(Path("runs"), 20)
    Path("runs/broken.xml").write_text("<testsuite>")
    assert_refused(analyze("--junit", "runs"), 2, "broken.xml", "--missing skip")
    skipped = analyze("--junit", "runs", "--missing", "skip")
    assert skipped.code in (0, 3)
    assert "1 file left out: sound only if" in skipped.err
