"""The page about a result can be read by anybody, and the files by any program."""

from __future__ import annotations

import csv
import json
import math
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import Html
from oddarms import Result, Search, find
from oddarms.algorithms import Decision, Threshold
from oddarms.arms import Bernoulli
from oddarms.documents import Literal, inline, number_text, visible
from oddarms.errors import InvalidParameter
from oddarms.problem import Question
from oddarms.report import MAX_ROWS, arms_csv, write_report, write_results
from oddarms.search import Status
from oddarms.text import about

EVIL = [
    "<script>alert(1)</script>",
    'a"onload="x',
    "two\nlines\r\tand \x00 \x1b[31m",
    "`code` **bold** |",
    "😀 日本 عربى \u202e reversed",
    "L" * 10_000,
    "",
    "\ud800 half",
    math.nan,
    ("a", 1),
]
MEANS = [0.1, 0.15, 0.95, 0.1, 0.9, 0.1, 0.2, 0.1, 0.15, 0.1]


def page_of(path: Path) -> Html:
    return Html(path.read_text(encoding="utf-8"))


def search(**changes: Any) -> Result:
    options: dict[str, Any] = {"k": 1.2, "delta": 0.05, "rng": 1} | changes
    labels = options.pop("labels", [f"machine {i}" for i in range(len(MEANS))])
    return find(Bernoulli(MEANS, labels=labels), **options)


def many(n: int) -> Result:
    """Return a result of n arms of which nearly all are outliers, and some open."""
    rng = np.random.default_rng(0)
    means = rng.uniform(0.3, 0.9, n)
    decisions = np.full(n, Decision.HIGH, dtype=np.int8)
    decisions[: n // 3] = Decision.UNDECIDED
    return Result(
        question=Question(
            [f"an arm with a rather long name {i}" for i in range(n)], k=0, delta=0.1
        ),
        status=Status.INTERRUPTED,
        decisions=decisions,
        pulls_per_arm=rng.integers(20, 900, n),
        means=means,
        intervals=np.column_stack([np.full(n, -np.inf), means + 0.1]),
        thresholds={"upper": Threshold(0.2, -math.inf, 0.3)},
        round=10,
        threshold_pulls=0,
        history_per_arm=np.zeros(n, dtype=np.int64),
        evidence=np.full(n, np.inf),
    )


def write_evil(folder: Path) -> Path:
    result = search(labels=EVIL)
    write_results(result, folder)
    notes = ["See `here` & <i>there</i>.", "\ud800"]
    return write_report(result, folder, title='<b>"Title"</b>\x00', notes=notes)


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_evil(tmp_path_factory.mktemp("evil"))


class TestPage:
    def test_it_refers_to_nothing_outside(self, evil: Path) -> None:
        page = page_of(evil)
        assert not page.all("script", "link", "iframe", "object", "a", "base")
        sources = [a.get("src") or a.get("srcset") for a in page.all("img", "source")]
        assert len(sources) == 6
        assert all(source is not None and source.startswith("data:image/") for source in sources)
        assert not re.search(r"@import|url\(", evil.read_text(encoding="utf-8"))

    def test_labels_and_titles_are_only_text(self, evil: Path) -> None:
        page = page_of(evil)
        assert not page.all("i")
        assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
        for shown in ("<script>alert(1)</script>", 'a"onload="x', "`code` **bold** |"):
            assert shown in page.words
        assert '<b>"Title"</b>␀' in page.words
        assert "L" * 100 in page.words
        assert "L" * 401 not in page.words
        hidden = set(page.words) & {chr(code) for code in (*range(9), *range(11, 32), 0x7F, 0x202E)}
        assert hidden == set()

    def test_it_is_accessible(self, evil: Path) -> None:
        page = page_of(evil)
        assert page.all("html") == [{"lang": "en"}]
        assert any(meta.get("name") == "viewport" for meta in page.all("meta"))
        levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h\d", tag)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after - before <= 1 for before, after in pairwise(levels))
        assert {th.get("scope") for th in page.all("th")} == {"col", "row"}
        assert len(page.all("caption")) == len(page.all("table")) > 1
        assert all(len(image.get("alt") or "") > 30 for image in page.all("img"))
        assert len(page.all("details")) == 1
        assert f"Show all {len(EVIL)} arms" in page.words


@pytest.mark.usefixtures("without_pictures")
class TestWords:
    def test_what_was_found_and_what_it_means(self, tmp_path: Path) -> None:
        result = search()
        words = page_of(write_report(result, tmp_path, title="x")).words
        assert "2 of 10 arms are outliers (right with probability at least 0.95)" in words
        assert f"samples: {result.pulls:,}" in words
        assert "in at least 95 % of the repetitions no arm at all would be called" in words
        assert "Samples are independent; each lies between 0 and 1" in words
        for gone in ("equally", "times as many", "still needed"):
            assert gone not in words

    def test_open_arms_stay_open(self, tmp_path: Path) -> None:
        result = search(budget=100)
        words = page_of(write_report(result, tmp_path, title="x")).words
        assert "status: budget: the budget does not allow another step" in words
        assert f"{len(result.undecided)} are undecided" in words
        assert result.pulls_needed is not None
        assert f"still needed: about {about(result.pulls_needed.sum())} samples" in words

    def test_history_and_unused_samples_are_counted(self, tmp_path: Path) -> None:
        going_on = Search(["a", "b", "c"], k=1, delta=0.1)
        going_on.add_history({"a": [0] * 33, "c": [1] * 44})
        going_on.tell(going_on.ask(1)[0], 0.5)
        result = going_on.result()
        words = page_of(write_report(result, tmp_path)).words
        assert "status: running: more samples are needed" in words
        total = result.pulls + result.history
        assert f"samples: {total}" in words
        assert f"{result.unused} not used yet" in words

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"error": "fdr"}, "on average at most 5 % of the arms called outliers"),
            ({"algorithm": "calibrated"}, "It is not proven."),
            ({"side": "both"}, "mean - 1.2 sd"),
            ({"k": 4}, "none of 10 arms can be 4 sd from the mean, whatever the samples"),
            ({"indifference": 0.02}, "give or take 0.02 at the threshold"),
        ],
    )
    def test_every_kind_of_question(
        self, tmp_path: Path, changes: dict[str, Any], said: str
    ) -> None:
        words = page_of(write_report(search(**changes), tmp_path, title="x")).words
        assert said in " ".join(words.split())

    @pytest.mark.parametrize("algorithm", ["spade", "rr"])
    def test_nothing_was_sampled(self, tmp_path: Path, algorithm: str) -> None:
        result = Search(5, k=1, delta=0.1, algorithm=algorithm).result()
        page = page_of(write_report(result, tmp_path, title="x"))
        assert "samples: 0" in page.words
        assert not page.all("img")


@pytest.mark.usefixtures("without_pictures")
def test_a_page_about_thousands_of_arms_stays_readable(tmp_path: Path) -> None:
    path = write_report(many(5_000), tmp_path, title="x")
    written = path.read_bytes()
    assert write_report(many(5_000), tmp_path, title="x").read_bytes() == written
    page = page_of(path)
    assert path.stat().st_size < 1_500_000
    assert len(page.all("tr")) < 1_100
    assert "All 5,000 arms are in arms.csv beside this page." in page.words
    assert "interrupted: " in page.words
    assert len((tmp_path / "arms.csv").read_text().splitlines()) == 5_001


class TestFiles:
    def test_json_is_strict_and_complete(self, evil: Path) -> None:
        def refuse(name: str) -> None:
            raise AssertionError(name)

        text = (evil.parent / "result.json").read_text(encoding="utf-8")
        found = json.loads(text, parse_constant=refuse)
        assert found == search(labels=EVIL).to_dict()
        assert [row["label"] for row in found["arms"]] == [*EVIL[:8], "nan", "('a', 1)"]
        assert found["trace"][-1]["pulls"] == found["pulls"]

    def test_infinite_ends_are_null(self, tmp_path: Path) -> None:
        json_path, csv_path = write_results(many(5), tmp_path)
        arm = json.loads(json_path.read_text())["arms"][0]
        assert (arm["lower"], arm["log_evidence"]) == (None, None)
        assert "inf" not in csv_path.read_text()

    def test_csv_keeps_every_label(self, evil: Path) -> None:
        with (evil.parent / "arms.csv").open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        result = search(labels=EVIL)
        assert header == list(result.rows()[0])
        assert [row[0] for row in rows] == [*EVIL[:7], "\\ud800 half", "nan", "('a', 1)"]
        assert {row[1] for row in rows} == {"normal", "high"}
        assert [float(row[2]) for row in rows] == result.means.tolist()
        pulls = header.index("pulls")
        assert [int(row[pulls]) for row in rows] == result.pulls_per_arm.tolist()

    @pytest.mark.usefixtures("without_pictures")
    @pytest.mark.parametrize("n", [4, MAX_ROWS + 1])
    def test_cells_that_spreadsheets_run_are_neutralised_in_the_file(
        self, tmp_path: Path, n: int
    ) -> None:
        result = many(n)
        labels = ["=1+1", "-1", "'@x", *(f"arm {i}" for i in range(3, n))]
        result = replace(result, question=result.question.but(labels=labels))
        safe = ['"\'=1+1"', '"-1"', "\"''@x\""]
        for write in (write_results, write_report):
            write(result, tmp_path)
            rows = (tmp_path / "arms.csv").read_text().splitlines()
            assert [row.partition(",")[0] for row in rows[1:4]] == safe
        assert arms_csv(result).splitlines()[1].startswith("=1+1,")

    def test_a_folder_that_cannot_be_written_to(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(InvalidParameter, match="folder must be"):
            write_report(search(budget=50), tmp_path / "file", title="x")


class TestText:
    @pytest.mark.parametrize(
        ("value", "shown"),
        [
            ("\u202eevil", "\\u202eevil"),
            ("  ", "␠␠"),
            ("👩\u200d🔧", "👩\u200d🔧"),
            ("\u200b\u200b", "\\u200b\\u200b"),
            ("a\ufeffb\u00adc", "a\\ufeffb\\u00adc"),
            ("\u3164\u2800\u2060", "\\u3164\\u2800\\u2060"),
            ("me\U000e0041", "me\\ue0041"),
            ("\u00a0\u3000", "\\u00a0\\u3000"),
            ("caf\u0065\u0301 été", "cafe\u0301 été"),
            ("a" + "\u0301" * 5, "a" + "\u0301" * 4 + "\\u0301"),
            ("می\u200cخواهم ❤\ufe0f", "می\u200cخواهم ❤\ufe0f"),
            (7, "7"),
        ],
    )
    def test_everything_is_visible(self, value: object, shown: str) -> None:
        assert visible(value) == shown

    @pytest.mark.parametrize(
        ("value", "span", "shown"),
        [
            (math.nan, 1.0, "–"),
            (math.inf, 1.0, "∞"),
            (-1e-9, 1.0, "0.000"),
            (1234.5678, 100.0, "1,234.6"),
            (1e-12, 1e-11, "1e-12"),
        ],
    )
    def test_numbers_have_the_digits_that_matter(
        self, value: float, span: float, shown: str
    ) -> None:
        assert number_text(value, span) == shown

    def test_literal_text_is_not_interpreted(self) -> None:
        assert inline(Literal("`a` <")) == "<bdi>`a` &lt;</bdi>"
        assert inline("`a` <") == "<code>a</code> &lt;"
