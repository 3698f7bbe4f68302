"""Clients of a server that is killed half-way and started again: nothing is lost."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from helpers import Run
from oddarms import create_study, list_studies, load_study
from postgresql import fast_folder
from processes import wait_until
from servers import ServerProcess, admin_token

ARMS = ("ann", "bob", "carl", "dora", "eve", "odd")
PROBE = """
import sqlite3, time
from contextlib import closing
from pathlib import Path

here = Path(__file__).parent

def await_kill():
    deadline = time.monotonic() + 300.0
    while time.monotonic() < deadline:
        wanted = int((here / "wanted").read_text())
        with closing(sqlite3.connect(f"file:{here / 'studies.db'}?mode=ro", uri=True)) as opened:
            if opened.execute("SELECT count(*) FROM results").fetchone()[0] < wanted:
                return
        time.sleep(0.01)

def probe(arm):
    await_kill()
    return float(arm == "odd")
"""
"""A pull that is not made between the results that bring a kill and the kill."""
SUITE = """
import random
import pytest
from probing import await_kill

chance = random.Random(1)

@pytest.mark.parametrize("name", ["ann", "bob", "carl", "dora", "eve", "odd"])
def test_one(name):
    await_kill()
    assert name != "odd" or chance.random() < 0.5
"""
NEVER = 10**9


class Killed:
    """A server that is killed as soon as so many results are there, and started again."""

    def __init__(self, folder: Path, after: int, times: int) -> None:
        self.file = folder / "studies.db"
        self.token = admin_token(str(self.file))
        self.server = ServerProcess(str(self.file), folder)
        self.kills: list[int] = []
        self._plan = [after * (i + 1) for i in range(times)]
        self._wanted = folder / "wanted"
        self._want(self._plan[0])
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._kill)

    def _want(self, results: int) -> None:
        """Let pulls wait as soon as there are so many results."""
        new = self._wanted.with_name("new")
        new.write_text(str(results))
        new.rename(self._wanted)

    def recorded(self) -> int:
        with closing(sqlite3.connect(f"file:{self.file}?mode=ro", uri=True)) as opened:
            return int(opened.execute("SELECT count(*) FROM results").fetchone()[0])

    def _kill(self) -> None:
        for wanted, following in pairwise([*self._plan, NEVER]):
            wait_until(lambda most=wanted: self._over.is_set() or self.recorded() >= most, 300.0)
            if self._over.is_set():
                return
            self.server.kill()
            self.kills.append(self.recorded())
            self._want(following)
            time.sleep(0.1)
            self.server.start()
            self.server.wait()

    def __enter__(self) -> Killed:
        self.server.start()
        self.server.wait()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.server.kill()

    def check(self, times: int) -> None:
        """All that was there before each kill is there, in order, and the rest has followed."""
        assert len(self.kills) == times
        (only,) = list_studies(storage=self.file)
        study = load_study(only.name, storage=self.file)
        found = study.verify()
        assert (found.problems, found.results) == ([], self.recorded())
        assert found.results > self.kills[-1]
        told = [trial.ticket for trial in study.trials() if trial.ticket is not None]
        assert len(set(told)) == len(told)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    made = fast_folder("oddarms-killed-")
    (made / "probing.py").write_text(PROBE)
    monkeypatch.syspath_prepend(str(made))
    monkeypatch.delitem(sys.modules, "probing", raising=False)  # that of another test
    yield made
    shutil.rmtree(made)


@contextmanager
def killed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, after: int, times: int
) -> Iterator[Killed]:
    with Killed(folder, after, times) as made:
        monkeypatch.setenv("ODDARMS_TOKEN", made.token)
        yield made


KILLS = [
    pytest.param(20, 1, id="once"),
    pytest.param(15, 5, id="often", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("after", "times"), KILLS)
def test_a_worker_goes_on(
    run_command: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, after: int, times: int
) -> None:
    with killed(folder, monkeypatch, after, times) as it:
        create_study("s", ARMS, k=1, delta=0.001, rng=1, storage=it.file)
        words = ("--python", "probing:probe", "--storage", it.server.address)
        assert run_command("study", "work", "s", *words).code == 0
        assert load_study("s", storage=it.file).result().outliers == ["odd"]
        it.check(times)


@pytest.mark.long
@pytest.mark.parametrize(("after", "times"), KILLS)
def test_the_pytest_plugin_gets_its_answer(
    folder: Path, monkeypatch: pytest.MonkeyPatch, after: int, times: int
) -> None:
    (folder / "test_suite.py").write_text(SUITE)
    often = "import oddarms.pytest_plugin._sampling as sampling\nsampling.SYNC_SECONDS = 0.0\n"
    (folder / "conftest.py").write_text(often)  # stores each run, so that kills come in between
    with killed(folder, monkeypatch, after, times) as it:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly"]
        command += ["--oddarms", "--oddarms-k", "1", "--oddarms-storage", it.server.address]
        command += ["--oddarms-seed", "1"]
        command += ["--rootdir", str(folder), str(folder)]
        ran = subprocess.run(
            command, capture_output=True, text=True, cwd=folder, env={**os.environ}, check=False
        )
        assert ran.returncode == 1, ran.stdout + ran.stderr
        assert "test_one[odd]" in ran.stdout
        it.check(times)
        made = re.search(r"^([0-9,]+) runs in ", ran.stdout, re.MULTILINE)
        assert made is not None
        assert it.recorded() == int(made[1].replace(",", ""))
