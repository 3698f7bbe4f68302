"""``oddarms explain``: what it teaches, and numbers that can be relied on."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

import pytest

from helpers import Run, assert_refused
from oddarms.cli import main


def numbers(line: str) -> list[float]:
    return [float(cell.replace(",", "")) for cell in line.split()]


def rows(text: str) -> list[list[float]]:
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.split()[:2] == ["gap", "limit"]) + 1
    return [numbers(line) for line in lines[first : lines.index("", first)]]


@pytest.fixture(scope="module")
def explained() -> str:
    """What is said of 12 items."""
    text = io.StringIO()
    with redirect_stdout(text):
        assert main(["explain", "--n", "12", "--delta", "0.3"]) == 0
    return text.getvalue()


def test_it_teaches_within_80_columns(explained: str) -> None:
    assert max(map(len, explained.splitlines())) <= 80
    for word in ("k = 2", "delta = 0.3", "bounds = 0,1", "gap", "needs more than 5 items"):
        assert word in explained


def test_the_table_is_in_order(explained: str) -> None:
    assert "equal" not in explained
    table = rows(explained)
    assert len(table) >= 3
    for gap, limit, spade, each in table:
        assert 0.0 < gap < 1.0
        assert limit < spade
        assert each == pytest.approx(spade / 12, abs=0.5)
    costs = [row[2] for row in table]
    assert costs == sorted(costs)  # the smaller the gap, the more samples


def test_without_possible_outliers_there_is_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--n", "5", "--k", "2"]) == 0
    said = capsys.readouterr()
    assert "among 5 items none can lie far beyond 2 standard deviations" in said.out
    assert said.err == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--n 1", "At least 2"),
        ("--n 100000", "--n must be at most"),
        ("--k -1", "--k must be positive"),
        ("--gap 0", "--gap must"),
        ("--gap 0.9", "--gap 0.9 is too large"),
    ],
)
def test_bad_usage_is_a_sentence(run_command: Run, words: str, said: str) -> None:
    assert_refused(run_command("explain", *words.split()), 2, said)
