"""``oddarms explain``: what it teaches, and numbers that can be relied on."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

from oddarms import find
from oddarms.arms import Bernoulli
from oddarms.cli import _explain, main
from oddarms.cli._explain import _instance
from oddarms.theory import gaps, threshold


def numbers(line: str) -> list[float]:
    return [float(cell.replace(",", "")) for cell in line.split()]


def rows(text: str) -> list[list[float]]:
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.split()[:2] == ["gap", "limit"]) + 1
    return [numbers(line) for line in lines[first : lines.index("", first)]]


@pytest.fixture(scope="module")
def explained() -> str:
    """What is said of 20 things, in few simulated searches; options are compared at an easy gap."""
    text = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(text):
        patch.setattr(_explain, "SHOWN_GAP", 0.2)
        patch.setattr(_explain, "RUNS", 2)
        assert main(["explain", "--n", "20"]) == 0
    return text.getvalue()


def test_it_teaches_within_80_columns(explained: str) -> None:
    assert max(map(len, explained.splitlines())) <= 80
    for word in ("k = 2", "delta = 0.05", "bounds = 0,1", "gap", "n must be over 5"):
        assert word in explained


def test_the_table_is_in_order(explained: str) -> None:
    assert "equal" not in explained
    table = rows(explained)
    assert len(table) >= 3
    for gap, limit, spade, each in table:
        assert 0.0 < gap < 1.0
        assert limit < spade
        assert each == pytest.approx(spade / 20, abs=0.5)
    costs = [row[2] for row in table]
    assert costs == sorted(costs)  # the smaller the gap, the more samples


@pytest.mark.parametrize("gap", [0.2, 0.05, 0.002])
def test_the_instance_has_the_gap(gap: float) -> None:
    means = _instance(40, 2.0, gap)
    assert means is not None
    assert gap <= gaps(means, 2.0).min() <= gap + 1e-6
    assert (means > threshold(means, 2.0)).sum() == 1


def test_without_possible_outliers_there_is_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--n", "5", "--k", "2"]) == 0
    said = capsys.readouterr()
    assert "No table: among 5 things none can be 2 standard deviations out" in said.out
    assert said.err == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--n 1", "--n must"),
        ("--n 100000", "--n must be at most"),
        ("--k -1", "--k must be positive"),
        ("--k nan", "k must"),
        ("--delta 0", "delta must"),
        ("--gap 0", "--gap must"),
        ("--gap nan", "--gap must"),
        ("--gap 0.9", "--gap must be possible"),
    ],
)
def test_bad_usage_is_a_sentence(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *words.split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert said in err


class TestSavings:
    def test_what_other_options_would_take(self, explained: str) -> None:
        assert "in simulated searches of the gap 0.2:" in explained
        shares = {
            line.split("  ")[0]: float(line.split()[-1])
            for line in explained.splitlines()
            if line.startswith(("as asked", "--"))
        }
        assert shares["as asked"] == 1.0
        assert shares["--error fdr"] < 1.0
        assert shares["--algorithm calibrated (not proven)"] < 0.7
        assert "until nothing stands out" in explained

    def test_a_margin_of_0_never_ends(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_explain, "RUNS", 1)
        assert main(["explain", "--n", "10", "--k", "1", "--gap", "0.2", "--margin", "0"]) == 0
        assert "a margin of 0 never ends" in capsys.readouterr().out


class TestSamples:
    """What is there already: a table, a study."""

    def table(self, folder: Path) -> str:
        rng = np.random.default_rng(3)
        path = folder / "runs.csv"
        lines = [
            f"test_{i},{int(rng.random() < (0.9 if i == 3 else 0.05))}"
            for i in range(12)
            for _ in range(40)
        ]
        path.write_text("test,failed\n" + "\n".join(lines) + "\n", encoding="utf-8")
        return str(path)

    def test_a_table(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        words = ["--table", self.table(tmp_path), "--arm", "test", "--reward", "failed"]
        assert main(["explain", *words, "--k", "1.5"]) == 0
        text = capsys.readouterr().out
        assert "480 samples: 1 of 12 arms" in text
        assert [line.split()[-3:] for line in text.splitlines() if "as asked" in line]
        assert "--margin 0.1" in text
        assert "--error fdr" in text

    def test_a_study(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        storage = str(tmp_path / "study.db")
        arms = Bernoulli([0.1] * 9 + [0.8])
        find(arms, k=1.5, margin=0.05, budget=150, storage=storage, rng=1)
        assert main(["explain", "--study", "find", "--storage", storage]) == 0
        text = capsys.readouterr().out
        assert " (a rough guess); most by these:" in text
        assert "--margin 0.1" in text
        assert "--error fdr" not in text  # that would be another search

    def test_not_both(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["explain", "--table", "a.csv", "--study", "find"]) == 2
        assert "one of --table and --study must be left out but got both" in capsys.readouterr().err
