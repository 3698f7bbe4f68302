"""JUnit reports of many runs: what each dialect says, what counts, and what is refused."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oddarms
from oddarms.errors import InvalidParameter
from oddarms.tables import RunHistory, read_junit

PYTEST = """<?xml version="1.0" encoding="utf-8"?>
<testsuites name="pytest tests"><testsuite name="pytest" errors="1" failures="1" skipped="2"
 tests="6" time="0.1" timestamp="2026-01-02T03:04:05.678" hostname="vm">
<testcase classname="tests.test_shop" name="test_fine" time="0.01" />
<testcase classname="tests.test_shop" name="test_bad[a]" time="0.01">
 <failure message="assert 0">def test_bad(): assert 0</failure></testcase>
<testcase classname="tests.test_shop.TestPay" name="test_setup" time="0">
 <error message="failed on setup with &quot;boom&quot;">boom</error></testcase>
<testcase classname="tests.test_shop" name="test_skipped" time="0">
 <skipped type="pytest.skip" message="not here">x</skipped></testcase>
<testcase classname="tests.test_shop" name="test_expected" time="0">
 <skipped type="pytest.xfail" message="" /></testcase>
<testcase classname="tests.test_shop" name="test_both" time="0"><failure message="a"/></testcase>
<testcase classname="tests.test_shop" name="test_both" time="0">
 <error message="failed on teardown with &quot;b&quot;"/></testcase>
</testsuite></testsuites>"""
PYTEST_RERUNS = """<testsuites name="pytest tests"><testsuite name="pytest">
<testcase classname="t" name="test_flaky"/><testcase classname="t" name="test_flaky"/>
<testcase classname="t" name="test_flaky"/>
<testcase classname="t" name="test_dead"/><testcase classname="t" name="test_dead"/>
<testcase classname="t" name="test_dead"><failure message="x"/></testcase>
<testcase classname="t" name="test_fine"/>
</testsuite></testsuites>"""
SUREFIRE = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
 xsi:noNamespaceSchemaLocation="https://maven.apache.org/surefire-test-report-3.0.xsd"
 version="3.0" name="shop.LoginTest" time="0.1" tests="4" errors="0" skipped="1" failures="1">
<properties><property name="java.version" value="21"/></properties>
<testcase name="fine" classname="shop.LoginTest" time="0.01"/>
<testcase name="flaky" classname="shop.LoginTest" time="0.01">
 <flakyFailure message="m" type="E"><stackTrace>t</stackTrace><system-out>o</system-out>
 </flakyFailure><flakyError message="m" type="E"/></testcase>
<testcase name="dead" classname="shop.LoginTest" time="0.01">
 <failure message="m" type="E">trace</failure><rerunFailure message="m" type="E"/>
 <rerunError message="m" type="E"/></testcase>
<testcase name="off" classname="shop.LoginTest" time="0"><skipped message="later"/></testcase>
</testsuite>"""
GRADLE = """<testsuite name="shop.PayTest" tests="2" skipped="0" failures="1" errors="0"
 timestamp="2026-01-02T03:04:05" hostname="h" time="0.2"><properties/>
<testcase name="pays(int)[1]" classname="shop.PayTest" time="0.1"/>
<testcase name="fails()" classname="shop.PayTest" time="0.1">
 <failure message="m" type="E">t</failure></testcase>
<system-out><![CDATA[<testcase name="no" classname="no"/>]]></system-out></testsuite>"""
GOTESTSUM = """<testsuites tests="4" failures="1" errors="0" time="1.0">
<testsuite tests="4" failures="1" time="0.5" name="example.org/shop/pay"
 timestamp="2026-01-02T03:04:05Z"><properties><property name="go.version" value="go1.22"/>
</properties>
<testcase classname="example.org/shop/pay" name="TestFlaky" time="0.0">
 <failure message="Failed" type="">=== RUN</failure></testcase>
<testcase classname="example.org/shop/pay" name="TestSkip"><skipped message="--- SKIP"/></testcase>
<testcase classname="example.org/shop/pay" name="TestFine/sub_1" time="0.0"></testcase>
<testcase classname="example.org/shop/pay" name="TestFlaky" time="0.0"></testcase>
</testsuite></testsuites>"""
JEST = """<testsuites name="jest tests" tests="3" failures="1" errors="0" time="2">
<testsuite name="sums" errors="0" failures="1" skipped="1" timestamp="2026-01-02T03:04:05">
<testcase classname="sums adds" name="sums adds" time="0.01"/>
<testcase classname="sums breaks" name="sums breaks" time="0.01"><failure>E</failure></testcase>
<testcase classname="sums waits" name="sums waits" time="0"><skipped/></testcase></testsuite>
</testsuites>"""
MOCHA = """<testsuites name="Mocha Tests" time="0.1" tests="2" failures="1">
<testsuite name="Root Suite" timestamp="2026-01-02T03:04:05" tests="0" time="0"/>
<testsuite name="cart" timestamp="2026-01-02T03:04:05" tests="2" file="/src/cart.js">
<testcase name="cart is empty" time="0.001" classname="is empty"/>
<testcase name="cart adds" time="0.001" classname="adds"><failure message="m"/></testcase>
</testsuite></testsuites>"""
BAZEL = """<testsuites><testsuite name="shop/pay_test" tests="1" failures="0" errors="1">
<testcase name="shop/pay_test" status="run" duration="1" time="1">
<error message="exited with error code 1"></error></testcase>
<system-out>Generated test.log</system-out></testsuite></testsuites>"""
GOOGLETEST = """<testsuites tests="3" failures="1" disabled="1" errors="0" name="AllTests">
<testsuite name="Pay" tests="3" failures="1" disabled="1" timestamp="2026-01-02T03:04:05">
<testcase name="Fine" file="pay.cc" line="3" status="run" result="completed" classname="Pay"/>
<testcase name="Bad" file="pay.cc" line="9" status="run" result="completed" classname="Pay">
 <failure message="m" type=""/></testcase>
<testcase name="DISABLED_Off" status="notrun" result="suppressed" classname="Pay"/>
<testcase name="Skips" status="run" result="skipped" classname="Pay"><skipped/></testcase>
</testsuite></testsuites>"""
SCALATEST = """<testsuite errors="0" failures="1" hostname="h" name="shop.CartSpec" tests="2"
 timestamp="2026-01-02T03:04:05"><properties/>
<testcase name="A cart should be empty" classname="shop.CartSpec" time="0.01"></testcase>
<testcase name="A cart should fail" classname="shop.CartSpec" time="0.01">
<failure message="m" type="E">t</failure></testcase><system-out/></testsuite>"""
XUNIT = """<assemblies timestamp="01/02/2026 03:04:05"><assembly name="/bin/Shop.Tests.dll"
 run-date="2026-01-02"><collection name="c" total="3">
<test name="Shop.Pay.Works(n: 1)" type="Shop.Pay" method="Works" time="0.1" result="Pass"/>
<test name="Shop.Pay.Breaks" type="Shop.Pay" method="Breaks" time="0.1" result="Fail">
 <failure exception-type="E"><message>m</message></failure></test>
<test name="Shop.Pay.Off" type="Shop.Pay" method="Off" result="Skip"><reason>r</reason></test>
</collection></assembly></assemblies>"""
NUNIT = """<test-run id="0" result="Failed"><test-suite type="Assembly" name="Shop.dll">
<test-suite type="TestFixture" name="Pay"><test-case name="Works" classname="Shop.Pay"
 result="Passed"/><test-case name="Breaks" classname="Shop.Pay" result="Failed"/>
<test-case name="Off" classname="Shop.Pay" result="Skipped"/></test-suite></test-suite>
</test-run>"""
NEXTEST = """<testsuites name="nextest-run" tests="2" timestamp="2026-01-02T03:04:05">
<testsuite name="shop"><testcase name="pay::flaky" classname="shop">
<flakyFailure timestamp="2026-01-02T03:04:05" time="0.1" type="test failure"/></testcase>
<testcase name="pay::fine" classname="shop"/></testsuite></testsuites>"""

PHPUNIT = """<testsuites><testsuite name="/src/phpunit.xml" tests="4" assertions="4" errors="1"
 failures="1" skipped="1" time="0.02"><testsuite name="unit" tests="4" time="0.02">
<testsuite name="Shop\\Tests\\PayTest" file="/src/tests/PayTest.php" tests="4" time="0.02">
<testcase name="testFine" file="/src/tests/PayTest.php" line="9" class="Shop\\Tests\\PayTest"
 classname="Shop.Tests.PayTest" assertions="1" time="0.001"/>
<testsuite name="Shop\\Tests\\PayTest::testAdds" tests="2" assertions="2" time="0.01">
<testcase name="testAdds with data set #0" file="/src/tests/PayTest.php" line="20"
 class="Shop\\Tests\\PayTest" classname="Shop.Tests.PayTest" assertions="1" time="0.005">
<failure type="PHPUnit\\Framework\\ExpectationFailedException">testAdds with data set #0 (1, 2)
Failed asserting that 4 matches expected 3.</failure></testcase>
<testcase name="testAdds with data set &quot;two&quot;" line="20" class="Shop\\Tests\\PayTest"
 classname="Shop.Tests.PayTest" assertions="1" time="0.005"/></testsuite>
<testcase name="testDies" class="Shop\\Tests\\PayTest" classname="Shop.Tests.PayTest" time="0.001">
<error type="TypeError">TypeError: no</error></testcase>
<testcase name="testOff" class="Shop\\Tests\\PayTest" classname="Shop.Tests.PayTest" time="0">
<skipped/></testcase></testsuite></testsuite></testsuite></testsuites>"""
GO_JUNIT_REPORT = """<testsuites tests="4" failures="1" skipped="1">
<testsuite name="example.org/shop/pay" tests="3" failures="1" errors="0" id="0" hostname="h"
 skipped="1" time="0.012" timestamp="2026-01-02T03:04:05Z"><properties>
<property name="go.version" value="go1.22.0 linux/amd64"></property></properties>
<testcase name="TestFine" classname="example.org/shop/pay" time="0.000"></testcase>
<testcase name="TestTable" classname="example.org/shop/pay" time="0.010">
<failure message="Failed"></failure></testcase>
<testcase name="TestTable/a_case#01" classname="example.org/shop/pay" time="0.010">
<failure message="Failed"><![CDATA[    pay_test.go:9: got 4 </testcase> want 3]]></failure>
</testcase>
<testcase name="TestOff" classname="example.org/shop/pay" time="0.000">
<skipped message="    pay_test.go:20: off"></skipped></testcase></testsuite>
<testsuite name="example.org/shop/cart" tests="1" errors="0" id="1" time="0.001">
<testcase name="TestFine" classname="example.org/shop/cart" time="0.000"></testcase></testsuite>
</testsuites>"""

FAILED, PASSED, SKIPPED = "failed", "passed", "skipped"
DIALECTS = {
    "pytest": (
        PYTEST,
        {
            "tests.test_shop::test_fine": PASSED,
            "tests.test_shop::test_bad[a]": FAILED,
            "tests.test_shop.TestPay::test_setup": FAILED,
            "tests.test_shop::test_skipped": SKIPPED,
            "tests.test_shop::test_expected": PASSED,
            "tests.test_shop::test_both": FAILED,
        },
    ),
    "pytest-rerunfailures": (
        PYTEST_RERUNS,
        {"t::test_flaky": FAILED, "t::test_dead": FAILED, "t::test_fine": PASSED},
    ),
    "surefire": (
        SUREFIRE,
        {
            "shop.LoginTest::fine": PASSED,
            "shop.LoginTest::flaky": FAILED,
            "shop.LoginTest::dead": FAILED,
            "shop.LoginTest::off": SKIPPED,
        },
    ),
    "gradle": (GRADLE, {"shop.PayTest::pays(int)[1]": PASSED, "shop.PayTest::fails()": FAILED}),
    "gotestsum": (
        GOTESTSUM,
        {
            "example.org/shop/pay::TestFlaky": FAILED,
            "example.org/shop/pay::TestSkip": SKIPPED,
            "example.org/shop/pay::TestFine/sub_1": PASSED,
        },
    ),
    "phpunit": (
        PHPUNIT,
        {
            "Shop.Tests.PayTest::testFine": PASSED,
            "Shop.Tests.PayTest::testAdds with data set #0": FAILED,
            'Shop.Tests.PayTest::testAdds with data set "two"': PASSED,
            "Shop.Tests.PayTest::testDies": FAILED,
            "Shop.Tests.PayTest::testOff": SKIPPED,
        },
    ),
    "go-junit-report": (
        GO_JUNIT_REPORT,
        {
            "example.org/shop/pay::TestFine": PASSED,
            "example.org/shop/pay::TestTable": FAILED,
            "example.org/shop/pay::TestTable/a_case#01": FAILED,
            "example.org/shop/pay::TestOff": SKIPPED,
            "example.org/shop/cart::TestFine": PASSED,
        },
    ),
    "jest": (JEST, {"sums adds": PASSED, "sums breaks": FAILED, "sums waits": SKIPPED}),
    "mocha": (MOCHA, {"cart is empty": PASSED, "cart adds": FAILED}),
    "bazel": (BAZEL, {"shop/pay_test": FAILED}),
    "googletest": (
        GOOGLETEST,
        {
            "Pay::Fine": PASSED,
            "Pay::Bad": FAILED,
            "Pay::DISABLED_Off": SKIPPED,
            "Pay::Skips": SKIPPED,
        },
    ),
    "scalatest": (
        SCALATEST,
        {
            "shop.CartSpec::A cart should be empty": PASSED,
            "shop.CartSpec::A cart should fail": FAILED,
        },
    ),
    "xunit.net": (
        XUNIT,
        {"Shop.Pay.Works(n: 1)": PASSED, "Shop.Pay.Breaks": FAILED, "Shop.Pay.Off": SKIPPED},
    ),
    "nunit": (
        NUNIT,
        {"Shop.Pay::Works": PASSED, "Shop.Pay::Breaks": FAILED, "Shop.Pay::Off": SKIPPED},
    ),
    "nextest": (NEXTEST, {"shop::pay::flaky": FAILED, "shop::pay::fine": PASSED}),
}


def read(folder: Path, *texts: str | bytes, **words: object) -> RunHistory:
    """Write reports, a file each, and read them."""
    for number, text in enumerate(texts):
        data = text if isinstance(text, bytes) else text.encode()
        (folder / f"run-{number}.xml").write_bytes(data)
    return read_junit(folder, **words)  # type: ignore[arg-type]


def suite(*cases: str, name: str = "s", more: str = "") -> str:
    return f'<testsuite name="{name}"{more}>{"".join(cases)}</testsuite>'


def case(name: str, inside: str = "", classname: str = "C") -> str:
    return f'<testcase classname="{classname}" name={quoteattr(name)}>{inside}</testcase>'


def places(history: RunHistory) -> dict[str, str]:
    def word(count: object) -> str:
        _, runs, failures, _, _ = count  # type: ignore[misc]
        return SKIPPED if not runs else FAILED if failures else PASSED

    return {count.test: word(count) for count in history.counts}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_dialects(dialect: str, tmp_path: Path) -> None:
    text, outcomes = DIALECTS[dialect]
    history = read(tmp_path, text)
    assert places(history) == outcomes
    assert all(count.runs <= 1 for count in history.counts)


def test_all_reruns_count_if_asked_for(tmp_path: Path) -> None:
    first, every = read(tmp_path, SUREFIRE, PYTEST_RERUNS), read_junit(tmp_path, reruns="all")
    assert first.reruns == 2 + 2 + 2 + 2
    assert every.reruns == 0
    runs = {count.test: (count.failures, count.runs) for count in every.counts}
    assert runs["shop.LoginTest::flaky"] == (2, 3)  # two flaky ones, then it passed
    assert runs["shop.LoginTest::dead"] == (3, 3)
    assert runs["t::test_flaky"] == (2, 3)  # written as passes, though they were followed by others
    assert runs["t::test_dead"] == (3, 3)
    assert runs["t::test_fine"] == (0, 1)


def test_reruns_and_runs_of_one_commit_prove_flakiness(tmp_path: Path) -> None:
    assert read(tmp_path, SUREFIRE, GOTESTSUM, PYTEST_RERUNS, NEXTEST).flaky == (
        "shop.LoginTest::flaky",
        "example.org/shop/pay::TestFlaky",
        "t::test_flaky",
        "shop::pay::flaky",
    )
    assert [count.test for count in read_junit(tmp_path).placed("broken")] == [
        "shop.LoginTest::dead",
        "t::test_dead",
    ]
    commit = '<properties><property name="commit" value="{}"/></properties>'
    texts = [
        suite(commit.format(name), case("a", a), case("b", b))
        for name, a, b in [("x", "", ""), ("x", "<failure/>", ""), ("y", "", "<failure/>")]
    ]
    (tmp_path / "commits").mkdir()
    assert read(tmp_path / "commits", *texts).flaky == ("C::a",)


def test_outages_are_set_aside(tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(20)]
    dead = case("dead", "<failure/>")
    fine = suite(dead, *map(case, names))
    outage = suite(dead, *(case(name, "<failure/>" * (name < "t3")) for name in names))
    history = read(tmp_path, fine, outage, fine)
    assert [Path(name).name for name in history.outages] == ["run-1.xml"]
    assert {count.failures for count in history.counts if count.test != "C::dead"} == {0}
    assert not history.flaky


def test_a_teardown_is_no_second_execution(tmp_path: Path) -> None:
    runs = {count.test: count.runs for count in read(tmp_path, PYTEST, reruns="all").counts}
    assert runs["tests.test_shop::test_both"] == 1


def test_a_search_takes_a_history_as_it_is(tmp_path: Path) -> None:
    texts = [suite(case("a"), case("b", "<failure/>" if run % 2 else "")) for run in range(5)]
    history = read(tmp_path, *texts)
    search = oddarms.Search(list(history), k=1)
    assert search.add_history(history) == 8


def test_same_names_in_other_classes_suites_and_files_are_other_tests(tmp_path: Path) -> None:
    texts = (
        suite(case("works", classname="A"), case("works", classname="B"))
        + suite(case("works", classname="A"), name="t")
        + '<testsuite name="s"><testcase classname="A" name="works" file="x.c"/></testsuite>'
    )
    history = read(tmp_path, f"<testsuites>{texts}</testsuites>")
    assert [count.test for count in history.counts] == [
        "s::A::works",
        "B::works",
        "t::A::works",
        "s::x.c::A::works",
    ]


@pytest.mark.parametrize(
    ("cases", "names"),
    [
        ([("pytest", "tests.test_a.TestB", "test_c[1]", "tests/test_a.py")],
         ["tests/test_a.py::TestB::test_c[1]"]),
        ([("pytest", "tests.test_a", "test_c", "tests/test_a.py")], ["tests/test_a.py::test_c"]),
        ([("", "", "alone", "")], ["alone"]),
        ([("", "", "", "")], ["(no name)"]),
        ([("s", "", "", "")], ["s"]),
        ([("", "a::b", "c", ""), ("", "a", "b::c", "")], ["a::b::c", "a::b::c (2)"]),
        ([("a.js", "adds", "adds", ""), ("b.js", "adds", "adds", "")],
         ["a.js::adds", "b.js::adds"]),
    ],
)  # fmt: skip
def test_names(cases: list[tuple[str, str, str, str]], names: list[str], tmp_path: Path) -> None:
    suites = [
        suite(f'<testcase classname="{klass}" name="{name}" file="{file}"/>', name=suite_name)
        for suite_name, klass, name, file in cases
    ]
    history = read(tmp_path, f"<testsuites>{''.join(suites)}</testsuites>")
    assert [count.test for count in history.counts] == names


def test_patterns_folders_lists_and_natural_order(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("run-10.xml", "run-9.xml", "deep/run-1.xml", "note.txt", "run-[1].xml"):
        (tmp_path / name).write_text(suite(case(name, classname="")))

    def named(*sources: str) -> list[str]:
        return [count.test.removeprefix("s::") for count in read_junit(sources).counts]

    assert named(f"{tmp_path}/run-*.xml") == ["run-9.xml", "run-10.xml", "run-[1].xml"]
    assert named(str(tmp_path)) == ["deep/run-1.xml", "run-9.xml", "run-10.xml", "run-[1].xml"]
    assert named(f"{tmp_path}/**/run-1.xml") == ["deep/run-1.xml"]
    assert named(f"{tmp_path}/run-[1].xml") == ["run-[1].xml"]  # a file before a pattern
    assert named(f"{tmp_path}/run-9.xml", f"{tmp_path}/run-9*") == ["run-9.xml"]


def test_gzipped_utf16_and_latin_1_reports(tmp_path: Path) -> None:
    text = suite(case("naïve"), case("b"))
    (tmp_path / "a.xml.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "b.xml").write_bytes(text.encode("utf-16"))
    declared = f'<?xml version="1.0" encoding="iso-8859-1"?>{text}'
    (tmp_path / "c.xml").write_bytes(declared.encode("latin-1"))
    windows = f'<?xml version="1.0" encoding="windows-1252"?>{text}'
    (tmp_path / "d.xml").write_bytes(windows.encode("cp1252"))
    history = read_junit(tmp_path)
    assert {count.test: count.runs for count in history.counts} == {"C::naïve": 4, "C::b": 4}


BOMB = """<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>
<testsuite><testcase name="&b;"/></testsuite>"""
OUTSIDE = """<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>
<testsuite><testcase name="a">&e;</testcase></testsuite>"""


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "is empty, so it is not a JUnit report"),
        ("hello", "line 1: the file is not XML: syntax error"),
        ("\x00\x00\x00", "the file is not XML: not well-formed"),
        ("<testsuite><testcase name='a'>", "line 1: the file is not XML: it is cut"),
        ("<testsuite></testsuites>", "the file is not XML: mismatched tag"),
        ("<html><body/></html>", "begins with testsuites or testsuite, not with"),
        (BOMB, "must not declare a document type or entities"),
        (OUTSIDE, "must not declare a document type or entities"),
        ("<!DOCTYPE html><html/>", "must not declare a document type"),
        ("<testsuite>&unknown;</testsuite>", "the file is not XML: undefined entity"),
        ('<testsuite>' * 201, "nested more than 200 deep"),
        (f"<testsuite><testcase name='{'x' * 10_001}'/></testsuite>",
         "a name has 10,001 characters, more than 10,000"),
        ('<?xml version="1.0" encoding="klingon"?><testsuite/>', "is not XML in a known encoding"),
        ("<testsuite/>", "There are no tests in the 1 of 1 files that could be read"),
        (b"\x1f\x8bnope", "is a damaged or incomplete gzip file"),
    ],
)  # fmt: skip
def test_what_is_no_report_is_refused(content: str | bytes, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter) as caught:
        read(tmp_path, content)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_an_endless_tag_is_refused_early(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    with path.open("wb") as file:
        file.write(b'<testsuite><testcase name="')
        for _ in range(3):
            file.write(b"x" * 2**24)
    with pytest.raises(InvalidParameter, match=r"a tag has more than 16,777,216 bytes"):
        read_junit(path)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("none/*.xml", "No file matches 'none/.*' in "),
        ("runz", r"No file matches 'runz' in .* a folder or a pattern such as 'runs/\*.xml'"),
        (".", "The folder '.' has no files that end in .xml"),
        ([], "must name at least one file"),
    ],
)
def test_sources_that_are_not_there(
    source: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidParameter, match=sentence):
        read_junit(source)


def test_damaged_files_can_be_left_out_whole(tmp_path: Path) -> None:
    good, cut = suite(case("a"), case("b")), suite(case("a"), case("c"))[:-5]
    history = read(tmp_path, good, cut, "", good, damaged="skip")
    assert {count.test: count.runs for count in history.counts} == {"C::a": 2, "C::b": 2}
    assert (history.files, history.copies) == (2, 1)
    assert [Path(file).name for file in history.damaged] == ["run-1.xml", "run-2.xml"]
    with pytest.raises(InvalidParameter, match=r"reruns must be 'first' or 'all'"):
        read_junit(tmp_path, reruns="none")  # type: ignore[arg-type]


def test_large_reports_take_little_memory(tmp_path: Path) -> None:
    with (tmp_path / "a.xml").open("w") as file:
        file.write("<testsuite>")
        for test in range(40):
            file.write(
                f'<testcase name="t{test}"><system-out>{"x" * 400_000}</system-out></testcase>'
            )
        file.write("</testsuite>")
    tracemalloc.start()
    history = read_junit(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(history) == 40
    assert peak < 4_000_000  # of 16 MB


texts = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="￾￿"), min_size=1, max_size=8
).map(str.strip).filter(bool)  # fmt: skip
runs_of_tests = st.lists(
    st.dictionaries(st.tuples(texts, texts), st.sampled_from("01-"), max_size=6),
    min_size=1,
    max_size=6,
)


@given(runs_of_tests)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, runs: list[dict[tuple[str, str], str]]
) -> None:
    """Of every test the failures, runs and skips, and its samples after the first pass."""
    folder = tmp_path_factory.mktemp("runs")
    inside = {"0": "", "1": "<error/>", "-": "<skipped/>"}
    for number, run in enumerate(runs):
        cases = [
            f"<testcase classname={quoteattr(klass)} name={quoteattr(name)}>{inside[outcome]}"
            "</testcase>"
            for (klass, name), outcome in run.items()
        ]
        (folder / f"{number}.xml").write_text(suite(*cases), encoding="utf-8")
    expected: dict[tuple[str, str], str] = {}
    for run in runs:
        for test, outcome in run.items():
            expected[test] = expected.get(test, "") + outcome
    if not expected:
        with pytest.raises(InvalidParameter, match="There are no tests"):
            read_junit(folder)
        return
    history = read_junit(folder)
    assert len({count.test for count in history.counts}) == len(expected)
    for count, outcomes in zip(history.counts, expected.values(), strict=True):
        counted = outcomes.replace("-", "")
        assert (count.runs, count.failures) == (len(counted), counted.count("1"))
        assert count.skipped == outcomes.count("-")
        samples = "".join(f"{sample:.0f}" for sample in history.get(count.test, []))
        assert samples == counted.partition("0")[2]


@given(st.binary(max_size=300) | st.text("<>/testsuitecasename='\" &!-[]", max_size=200))
def test_whatever_a_file_has_it_is_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, content: bytes | str
) -> None:
    path = tmp_path_factory.mktemp("any") / "a.xml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InvalidParameter, match=r"\.\Z"):
        read_junit(path)
