"""The commands `reproduce` and `demo`, as people meet them."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from oddarms.cli import main
from oddarms.errors import StorageFailed, WorkerLost
from oddarms.experiments import GridProgress
from oddarms.experiments._run import FILE_NAME, CellStore
from oddarms.search import ProgressLine

FAST = ["--algorithms", "spade", "--runs", "1", "--budget", "2000", "--jobs", "1"]
Said = pytest.CaptureFixture[str]


def said_in_one_sentence(capsys: Said) -> str:
    """Return what was said on stderr, which is all that was said."""
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"error: [^\n]+\.\n", err)
    return err.removeprefix("error: ").rstrip("\n")


class TestHelp:
    @pytest.mark.parametrize("flag", ["-h", "--help"])
    def test_of_reproduce(self, flag: str, capsys: Said) -> None:
        assert main(["reproduce", flag]) == 0
        out = capsys.readouterr().out
        for option in (
            "--out", "--runs", "--seed", "--algorithms", "--data", "--budget",
            "--jobs", "--quick", "--quiet",
        ):  # fmt: skip
            assert option in out
        assert "\n    oddarms reproduce all --quick\n" in out

    def test_version(self, capsys: Said) -> None:
        from oddarms import __version__

        assert main(["--version"]) == 0
        assert capsys.readouterr().out == f"oddarms {__version__}\n"


class Recorded:
    """Stands for `oddarms.experiments.reproduce`: keeps what it is asked and raises."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.figures: list[str] = []
        self.options: dict[str, Any] = {}

    def __call__(self, figures: list[str], **options: Any) -> Any:
        self.figures, self.options = figures, options
        raise self.error


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    stand_in = Recorded(StorageFailed("no more."))
    monkeypatch.setattr("oddarms.experiments.reproduce", stand_in)
    return stand_in


class TestOptions:
    def test_the_papers_by_default(self, recorded: Recorded) -> None:
        main(["reproduce", "all"])
        assert recorded.figures == ["fig1", "fig2a", "fig2b", "fig3"]
        progress = recorded.options.pop("progress")
        assert callable(progress)
        assert recorded.options == {
            "folder": Path("output/paper"),
            "runs": None,
            "rng": 0,
            "algorithms": ["ade", "rr", "wrr", "spade"],
            "data": None,
            "budget": 10**9,
            "quick": False,
            "jobs": None,
            "command": "oddarms reproduce all",
        }

    def test_all_of_them(self, recorded: Recorded, tmp_path: Path) -> None:
        data = tmp_path / "my workers.csv"
        data.write_text("arm,mean\nann,0.5\nbob,0.25\n")
        arguments = [
            "reproduce", "fig1", "fig3", "--out", str(tmp_path / "out"), "--runs", "7",
            "--seed", "3", "--algorithms", "ade, spade", "--data", str(data), "--budget", "99",
            "--jobs", "3", "--quick", "--quiet",
        ]  # fmt: skip
        main(arguments)
        assert recorded.figures == ["fig1", "fig3"]
        options = recorded.options
        assert options["folder"] == tmp_path / "out"
        assert (options["runs"], options["rng"], options["budget"]) == (7, 3, 99)
        assert options["algorithms"] == ["ade", "spade"]
        assert options["data"].arms.means.tolist() == [0.5, 0.25]
        assert options["jobs"] == 3
        assert options["quick"]
        assert f"--data '{data}'" in options["command"]


class TestErrors:
    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["--data", "none.csv"], "none.csv cannot be read: No such file or directory."),
            (["--data", "."], ". cannot be read: Is a directory."),
            (["--data", "columns.csv"], "but its columns are 'a', 'b'."),
            (["--data", "no_gold.csv"], "must have gold labels, but the column gold is empty."),
            (["--out", "file"], "out must be a writable folder; file is not"),
            (["--out", "file/folder"], "file/folder is not: Not a directory."),
            (["--out", "/proc/folder"], "/proc/folder is not: "),
            (["--algorithms", "best"], "choose one of ade, "),
            (["--algorithms", "rr,rr"], "algorithms must have unique names but 'RR' appears"),
            (["--runs", "0"], "runs must be a whole number of at least 1 but got 0."),
            (["--budget", "-1"], "budget must be a whole number of at least 0 but got -1."),
        ],
    )
    def test_one_sentence_and_exit_code_2(
        self,
        arguments: list[str],
        sentence: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: Said,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("file").touch()
        Path("columns.csv").write_text("a,b\n1,2\n")
        Path("no_gold.csv").write_text("worker,label,gold\nann,1,\nbob,2,\n")
        assert main(["reproduce", "fig3", *arguments]) == 2
        assert sentence in said_in_one_sentence(capsys)
        assert not [path for path in tmp_path.rglob("*") if path.parent.name == "paper"]

    @pytest.mark.parametrize(
        "arguments",
        [
            ["reproduce"],
            ["reproduce", "fig9"],
            ["reproduce", "fig1", "--jobs", "0"],
        ],
    )
    def test_bad_usage(self, arguments: list[str], capsys: Said) -> None:
        assert main(arguments) == 2
        assert "`oddarms" in said_in_one_sentence(capsys)

    @pytest.mark.parametrize("error", [StorageFailed("full."), WorkerLost("lost.")])
    def test_bad_luck(self, error: Exception, recorded: Recorded, capsys: Said) -> None:
        recorded.error = error
        assert main(["reproduce", "fig1"]) == 1
        assert said_in_one_sentence(capsys) == str(error)

    def test_a_missing_package(self, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
        del monkeypatch, capsys
        code = "import sys; sys.modules['click'] = None; from oddarms.cli import main; main([])"
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert said.stderr.startswith("error: ")
        assert "pip install 'oddarms[cli]'" in said.stderr


class TestOutput:
    def test_a_run(self, tmp_path: Path, capsys: Said) -> None:
        arguments = ["reproduce", "fig3", *FAST, "--out", str(tmp_path)]
        assert main(arguments) == 0
        out, err = capsys.readouterr()
        assert err == ""
        lines = out.splitlines()
        assert lines[0].split() == [
            "setting", "algorithm", "pulls", "95", "%", "runs", "wrong", "unfinished",
        ]  # fmt: skip
        assert lines[1].startswith("fig3 k = 2  SPADE")
        assert any(line.startswith("Workers of fig3: ") for line in lines)
        assert lines[-1] == (
            f"Report: {tmp_path / 'report.html'} (and 9 other files in {tmp_path})"
        )
        assert f"Made by `oddarms {' '.join(arguments)}` of" in (tmp_path / "report.md").read_text()

    def test_quiet(self, tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("oddarms.experiments._reproduce.draw_figures", lambda *_: {})
        data = tmp_path / "mine.csv"
        data.write_text("arm,mean\nann,0\nbob,0\neve,1\n")
        arguments = ["reproduce", "fig3", *FAST, "--out", str(tmp_path / "out")]
        assert main([*arguments, "--data", str(data), "--quiet"]) == 0
        assert capsys.readouterr() == ("", "")
        assert main([*arguments, "--data", str(data)]) == 0
        out, err = capsys.readouterr()
        assert err == "mine.csv: 3 workers, read as arm,mean\n"
        assert "Workers of fig3: mine.csv" in out


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def halfway() -> GridProgress:
    return GridProgress(100, 60, 40, 123_461_110, cost_run=2.0, cost_left=3.0)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Returns what a terminal of 80 columns shows of a progress."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")

    def show(progress: GridProgress, *words: str, stream: io.StringIO | None = None) -> list[str]:
        def reproduce(_figures: Any, *, progress: Callable[[Any], None], **_: Any) -> Any:
            progress(given)
            raise StorageFailed("over.")

        given, stream = progress, stream or Terminal()
        monkeypatch.setattr("oddarms.experiments.reproduce", reproduce)
        monkeypatch.setattr("sys.stderr", stream)
        assert main(["reproduce", "fig1", *words]) == 1
        plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())
        lines = [line.rstrip() for line in re.split(r"[\r\n]+", plain) if line.strip()]
        return [line for line in lines if line != "error: over."]

    return show


class TestProgress:
    def test_one_line_on_a_terminal(self, shown: Callable[..., list[str]]) -> None:
        (line,) = shown(halfway())
        assert re.match(r"60 of 100 runs · 120,000,000 pulls · \S+ left$", line)
        nothing = GridProgress(50, cost_left=1.0)
        assert shown(nothing) == ["0 of 50 runs · 0 pulls · ? left"]
        endless = GridProgress(2, 1, cost_run=1e-12, cost_left=1e300)
        assert shown(endless)[-1].endswith("99 days, 0:00:00 left")

    def test_nothing_off_a_terminal_or_if_quiet(self, shown: Callable[..., list[str]]) -> None:
        assert shown(halfway(), stream=io.StringIO()) == []
        assert shown(halfway(), "--quiet") == []


class TestInterrupt:
    def test_it_says_how_to_go_on(self, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
        def interrupted(figures: Any, *, progress: Callable[[Any], None], **_: Any) -> Any:  # noqa: ARG001
            progress(halfway())
            raise KeyboardInterrupt

        monkeypatch.setattr("oddarms.experiments.reproduce", interrupted)
        assert main(["reproduce", "fig1", "--out", "here"]) == 130
        assert capsys.readouterr() == (
            "",
            "interrupted: 60 of 100 runs are kept in here; the same command resumes from there.\n",
        )

    def test_before_the_first_run(self, recorded: Recorded, capsys: Said) -> None:
        recorded.error = KeyboardInterrupt()
        assert main(["reproduce", "fig1"]) == 130
        assert capsys.readouterr() == ("", "interrupted before the first run.\n")

    def test_ctrl_c_at_a_terminal(self, tmp_path: Path) -> None:
        """It reaches the workers too, which keep silent; the next start does the rest."""
        cells = tmp_path / FILE_NAME

        def kept() -> int:
            with closing(CellStore(tmp_path)) as store:
                return len(store.load())

        arguments = ["--algorithms", "spade", "--runs", "40", "--budget", "8000", "--jobs", "2"]
        command = [sys.executable, "-m", "oddarms", "reproduce", "fig3", *arguments]
        with subprocess.Popen(
            [*command, "--out", str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            end = time.monotonic() + 120.0
            while not (cells.exists() and kept() >= 2):
                assert process.poll() is None
                assert time.monotonic() < end
                time.sleep(0.01)
            os.killpg(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert out == ""
        found = re.fullmatch(
            r"interrupted: (\d+) of 80 runs are kept in (\S+); the same command resumes from"
            r" there\.\n",
            err,
        )
        assert found is not None, err
        assert found[2] == str(tmp_path)
        written = kept()
        assert int(found[1]) in (written - 1, written)  # one may be written and not yet counted
        assert 2 <= written < 80
        assert list(tmp_path.iterdir()) == [cells]


class TestDemo:
    def test_it_finds_and_writes(self, tmp_path: Path, capsys: Said) -> None:
        assert main(["demo", "--budget", "1500", "--out", str(tmp_path)]) == 0
        out = capsys.readouterr().out
        assert "A simulated crowd of 722 workers" in out
        assert "every decision is right" in out
        assert {path.name for path in tmp_path.iterdir()} == {
            "report.html",
            "result.json",
            "arms.csv",
        }
        assert len(json.loads((tmp_path / "result.json").read_text())["arms"]) == 722

    def test_ctrl_c_keeps_what_was_sampled(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
    ) -> None:
        calls: list[Any] = []

        def interrupt(line: ProgressLine, progress: Any) -> None:  # noqa: ARG001
            calls.append(progress)
            if len(calls) == 3:
                raise KeyboardInterrupt

        monkeypatch.setattr(ProgressLine, "due", lambda _line: True)
        monkeypatch.setattr(ProgressLine, "__call__", interrupt)
        assert main(["demo", "--out", str(tmp_path)]) == 130
        out, err = capsys.readouterr()
        assert f"interrupted after {calls[-1].pulls:,} samples; so far:\n" in err
        assert f"{calls[-1].pulls:,}" in out
        assert (tmp_path / "result.json").exists()
