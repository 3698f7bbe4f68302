"""A comparison is run: resumably, in parallel, and with the same bytes however it is run."""

from __future__ import annotations

import csv
import io
import math
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oddarms.arms import Bernoulli
from oddarms.errors import InvalidParameter, StorageFailed, WorkerLost
from oddarms.experiments import Contender, Grid, GridProgress, Outcomes, Setting, _run, run
from oddarms.experiments._grid import CellTask
from oddarms.experiments._outcomes import COLUMNS, Measured
from oddarms.experiments._run import FILE_NAME, CellStore, measure
from oddarms.problem import FloatArray, IntArray

MEANS = [0.0, 0.1, 0.0, 0.1, 1.0]
TWO = ("spade", Contender("in steps", "spade", {"max_step": 5}))


def one_high(rng: np.random.Generator) -> FloatArray:
    return np.append(rng.uniform(0.0, 0.1, 4), 1.0)


FIXED = Setting("fixed", MEANS, k=1.0, delta=0.3, runs=3, figure="a", data="made up")
DRAWN = Setting("drawn", one_high, k=1.0, delta=0.3, instances=2, figure="b")
GRID = Grid([FIXED, DRAWN], TWO)


@pytest.fixture(scope="module")
def expected() -> Outcomes:
    return run(GRID, rng=1, jobs=1)


def kept_in(folder: Path) -> int:
    store = CellStore(folder)
    try:
        return len(store.load())
    finally:
        store.close()


class Counting:
    """Stands for `measure` and counts its calls; may fail at one of them."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.calls, self.fail_at = 0, fail_at

    def __call__(self, task: CellTask) -> Measured:
        self.calls += 1
        if self.calls == self.fail_at:
            raise InvalidParameter("this one cannot be run.")
        return measure(task)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    counter = Counting()
    monkeypatch.setattr(_run, "measure", counter)
    return counter


class Latest:
    """A progress function that keeps what it was told, and may press Ctrl-C."""

    def __init__(self, interrupt_at: int | None = None) -> None:
        self.told: list[tuple[int, int, int]] = []
        self.progress = GridProgress()
        self.interrupt_at = interrupt_at

    def __call__(self, progress: GridProgress) -> None:
        self.progress = progress
        self.told.append((progress.done, progress.resumed, progress.pulls))
        if progress.done == self.interrupt_at:
            raise KeyboardInterrupt


def made_up(*pulls: int, **changes: Any) -> Outcomes:
    """Return the outcomes of runs of one algorithm on fixed arms, with these pulls."""
    cells = list(Grid([replace(FIXED, runs=len(pulls))]).cells())
    base = Measured(0, 0, 1, complete=True, correct=True)
    return Outcomes(cells, [replace(base, pulls=number, **changes) for number in pulls])


class TestOutcomes:
    def test_a_row_per_run(self, expected: Outcomes) -> None:
        rows = list(csv.DictReader(io.StringIO(expected.to_csv())))
        assert len(rows) == len(expected) == 10
        assert list(rows[0]) == list(COLUMNS)
        names = ("spade", "in steps")
        places = ("figure", "setting", "instance", "algorithm", "run")
        assert [tuple(row[place] for place in places) for row in rows] == [
            *(("a", "fixed", "0", name, str(number)) for name in names for number in range(3)),
            *(("b", "drawn", str(number), name, "0") for number in range(2) for name in names),
        ]

    def test_the_values(self) -> None:
        cell = next(Grid([FIXED]).cells(rng=9))
        measured = Measured(120, 7, 3, complete=True, correct=False)
        text = Outcomes([cell], [measured]).to_csv()
        assert text == (
            "figure,setting,data,n,k,delta,smallest_gap,outliers,instance,algorithm,run,pulls,"
            "threshold_pulls,rounds,complete,correct,instance_seed,seed\n"
            f"a,fixed,made up,5,1.0,0.3,{cell.smallest_gap!r},1,0,spade,0,120,7,3,True,False,"
            f"{cell.instance_seed},{cell.seed}\n"
        )
        # mean 0.24, variance 1.02 / 5 - 0.24^2 = 0.1464, theta 0.62262; 1 is nearer than 0.1
        assert cell.smallest_gap == pytest.approx(0.377377, abs=1e-6)


class TestSummaries:
    def test_students_interval_of_three_runs(self) -> None:
        """10, 20, 60: mean 30, sd sqrt((400 + 100 + 900) / 2), t with 2 df at 0.975 is 4.302653."""
        (summary,) = made_up(10, 20, 60).summaries()
        assert (summary.figure, summary.setting, summary.algorithm) == ("a", "fixed", "spade")
        assert (summary.runs, summary.mean) == (3, 30.0)
        assert summary.half_width == pytest.approx(4.302653 * math.sqrt(700.0 / 3.0), rel=1e-6)
        assert (summary.wrong, summary.unfinished) == (0, 0)
        assert math.isnan(made_up(10).summaries()[0].half_width)

    def test_wrong_and_unfinished_runs_are_counted(self) -> None:
        assert made_up(1, 2, correct=False).summaries()[0].wrong == 2
        assert made_up(1, 2, complete=False).summaries()[0].unfinished == 2

    def test_a_table_for_people(self) -> None:
        assert str(made_up(1000, 3000)).splitlines() == [
            "setting  algorithm  pulls  95 %      runs  wrong  unfinished",
            "a fixed  spade      2,000  ± 12,706  2     0      0",
        ]
        assert str(made_up(5, complete=False)).splitlines()[1] == (
            "a fixed  spade      > 5          1     0      1"
        )


@contextmanager
def disk_with_room_for(count: int) -> Iterator[None]:
    """Let no file of this process grow beyond `count` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("content", [b"no database " * 99, None])
def test_a_file_that_is_none(tmp_path: Path, content: bytes | None) -> None:
    if content is None:
        (tmp_path / FILE_NAME).mkdir()
    else:
        (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(StorageFailed, match=f"{FILE_NAME} cannot be read and written: "):
        run(GRID, folder=tmp_path)


def test_two_may_write_at_a_time(tmp_path: Path) -> None:
    stores = [CellStore(tmp_path) for _ in range(2)]
    measured = Measured(120, 7, 3, complete=True, correct=True)
    for number in range(20):
        stores[number % 2].append(f"{number % 15}", measured)
    for store in stores:
        assert store.load() == {str(number): measured for number in range(15)}
        store.close()


class TestResuming:
    def test_a_finished_run_is_not_run_again(
        self, tmp_path: Path, counting: Counting, expected: Outcomes
    ) -> None:
        first = run(GRID, rng=1, jobs=1, folder=tmp_path)
        assert counting.calls == 10
        latest = Latest()
        second = run(GRID, rng=1, jobs=1, folder=tmp_path, progress=latest)
        assert counting.calls == 10
        assert latest.told == [(10, 10, 0)]
        assert first.to_csv() == second.to_csv() == expected.to_csv()

    def test_a_larger_one_makes_what_is_new(
        self, tmp_path: Path, counting: Counting, expected: Outcomes
    ) -> None:
        run(Grid([replace(FIXED, runs=2)], ["spade"]), rng=1, jobs=1, folder=tmp_path)
        assert counting.calls == 2
        latest = Latest()
        larger = run(GRID, rng=1, jobs=1, folder=tmp_path, progress=latest)
        assert counting.calls == 10
        assert latest.progress.resumed == 2
        assert larger.to_csv() == expected.to_csv()

    @pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.long)])
    def test_ctrl_c(self, tmp_path: Path, jobs: int, expected: Outcomes) -> None:
        with pytest.raises(KeyboardInterrupt):
            run(GRID, rng=1, jobs=jobs, folder=tmp_path, progress=Latest(interrupt_at=4))
        assert kept_in(tmp_path) == 4
        latest = Latest()
        found = run(GRID, rng=1, jobs=jobs, folder=tmp_path, progress=latest)
        assert latest.told[0] == (4, 4, 0)
        assert kept_in(tmp_path) == 10
        assert found.to_csv() == expected.to_csv()

    def test_a_run_that_fails_keeps_those_before_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: Outcomes
    ) -> None:
        monkeypatch.setattr(_run, "measure", Counting(fail_at=4))
        with pytest.raises(InvalidParameter, match="this one cannot be run"):
            run(GRID, rng=1, jobs=1, folder=tmp_path)
        monkeypatch.undo()
        latest = Latest()
        found = run(GRID, rng=1, jobs=1, folder=tmp_path, progress=latest)
        assert latest.progress.resumed == 3
        assert found.to_csv() == expected.to_csv()

    def test_a_disk_that_is_full_half_way(self, tmp_path: Path) -> None:
        grid = Grid([replace(FIXED, runs=50)])
        with disk_with_room_for(12_000), pytest.raises(StorageFailed, match="finished cells are"):
            run(grid, rng=1, jobs=1, folder=tmp_path)
        latest = Latest()
        found = run(grid, rng=1, jobs=1, folder=tmp_path, progress=latest)
        assert 0 < latest.progress.resumed < 50
        assert found.to_csv() == run(grid, rng=1, jobs=1).to_csv()

    def test_a_folder_that_cannot_be_one(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(InvalidParameter, match="folder must be a writable folder"):
            run(GRID, folder=tmp_path / "file")

    def test_two_names_for_one_thing_are_one_run(self, counting: Counting) -> None:
        latest = Latest()
        found = run(Grid([FIXED], ["spade", Contender("SPADE", "spade")]), jobs=1, progress=latest)
        assert counting.calls == 3
        assert [row.pulls for row in found[:3]] == [row.pulls for row in found[3:]]
        assert latest.progress.done == latest.progress.cells == 6


class TestProgress:
    def test_it_is_told_at_the_start_and_after_each_cell(self, expected: Outcomes) -> None:
        latest = Latest()
        run(GRID, rng=1, jobs=1, progress=latest)
        assert [done for done, *_ in latest.told] == [*range(11)]
        assert latest.progress.cells == 10
        assert latest.progress.pulls == sum(row.pulls for row in expected)


Give = Callable[[Iterator[Any]], Iterable[Any]]


class Gives:
    """Stands for `unordered`: each call gives results in the next of some ways."""

    def __init__(self, *gives: Give) -> None:
        self.gives = list(gives)

    def __call__(self, function: Any, tasks: Any, **_: Any) -> Iterator[Any]:
        yield from self.gives.pop(0)(map(function, tasks))


def losing_after(count: int) -> Give:
    def give(results: Iterator[Any]) -> Iterator[Any]:
        yield from islice(results, count)
        raise WorkerLost("a fake lost a worker.")

    return give


def backwards(results: Iterator[Any]) -> Iterator[Any]:
    return reversed(list(results))


class TestLostWorkers:
    def test_the_rest_is_run_by_another_executor(
        self,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
        expected: Outcomes,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        opened = Gives(losing_after(3), losing_after(0), losing_after(2), iter)
        monkeypatch.setattr(_run, "unordered", opened)
        latest = Latest()
        found = run(GRID, rng=1, folder=tmp_path, progress=latest)
        assert opened.gives == []
        assert found.to_csv() == expected.to_csv()
        assert kept_in(tmp_path) == 10
        left = re.findall(r"going on with (\d+) runs after this: .*fake lost", caplog.text)
        assert left == ["7", "7", "5"]
        assert [done for done, *_ in latest.told] == [*range(11)]

    def test_it_gives_up_when_three_in_a_row_get_nowhere(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, expected: Outcomes
    ) -> None:
        opened = Gives(*(losing_after(count) for count in (0, 0, 1, 0, 0, 0)), pytest.fail)
        monkeypatch.setattr(_run, "unordered", opened)
        with pytest.raises(WorkerLost, match="a fake lost a worker"):
            run(GRID, rng=1, folder=tmp_path)
        assert opened.gives == [pytest.fail]
        monkeypatch.undo()
        assert kept_in(tmp_path) == 1
        assert run(GRID, rng=1, jobs=1, folder=tmp_path).to_csv() == expected.to_csv()

    def test_a_cell_that_kills_its_process_once(self, tmp_path: Path, expected: Outcomes) -> None:
        deadly = Deadly(MEANS, tmp_path / "died")
        found = run(Grid([replace(FIXED, instance=deadly)], TWO), rng=1, jobs=2)
        assert (tmp_path / "died").exists()
        assert list(found) == expected[:6]


class Deadly(Bernoulli):
    """Arms of which the first pull kills the process."""

    def __init__(self, means: list[float], mark: Path) -> None:
        super().__init__(means)
        self.mark = mark

    def pull_totals(self, indices: IntArray, counts: IntArray) -> tuple[FloatArray, FloatArray]:
        if not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().pull_totals(indices, counts)


class TestTheSameBytes:
    """One seed, one file: whatever ran it, on however many workers, in whatever order."""

    def test_another_order(self, monkeypatch: pytest.MonkeyPatch, expected: Outcomes) -> None:
        monkeypatch.setattr(_run, "unordered", Gives(backwards))
        assert run(GRID, rng=1).to_csv() == expected.to_csv()

    @pytest.mark.long
    @pytest.mark.parametrize("jobs", [2, 3])
    def test_processes(self, jobs: int, tmp_path: Path, expected: Outcomes) -> None:
        self.compare(tmp_path, expected, jobs=jobs)

    @pytest.mark.long
    def test_dask(self, tmp_path: Path, expected: Outcomes) -> None:
        from distributed import Client

        with Client(n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
            self.compare(tmp_path, expected, executor=client.get_executor())

    @staticmethod
    def compare(folder: Path, expected: Outcomes, **options: Any) -> None:
        found = run(GRID, rng=1, folder=folder, **options)
        assert found.to_csv() == expected.to_csv()
        assert kept_in(folder) == 10


STUDY = Grid([replace(FIXED, runs=6)], TWO)


def study(folder: str, jobs: int, last: int) -> None:
    """Run a comparison whose process is killed when it has so many cells."""

    def progress(told: GridProgress) -> None:
        if told.done == last:
            os.kill(os.getpid(), signal.SIGKILL)

    run(STUDY, folder=folder, jobs=jobs, progress=progress).to_csv(Path(folder) / "found.csv")


def exit_code_of_study(folder: Path, jobs: int, last: int) -> int:
    program = f"import test_experiment_run as it; it.study({str(folder)!r}, {jobs}, {last})"
    with (folder / "said.txt").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=Path(__file__).parent,
            stderr=said,
            start_new_session=True,
        )
    try:
        return process.wait()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # joblib's workers outlive a killed parent
        process.wait()


class TestKill:
    @pytest.mark.parametrize(
        ("jobs", "lasts"),
        [
            (1, (3,)),
            pytest.param(1, (3, 8), marks=pytest.mark.long),
            pytest.param(2, (3, 8), marks=pytest.mark.long),
        ],
    )
    def test_killed_it_ends_with_the_same_file(
        self, tmp_path: Path, jobs: int, lasts: tuple[int, ...]
    ) -> None:
        for last in lasts:
            assert exit_code_of_study(tmp_path, jobs, last) == -signal.SIGKILL
            assert kept_in(tmp_path) == last
        assert not (tmp_path / "found.csv").exists()
        assert exit_code_of_study(tmp_path, jobs, last=-1) == 0
        assert (tmp_path / "said.txt").read_text() == ""
        assert (tmp_path / "found.csv").read_bytes() == run(STUDY, jobs=1).to_csv().encode()
        assert kept_in(tmp_path) == 12
