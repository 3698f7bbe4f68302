"""Servers and workers that are killed, and a server asked to end."""

from __future__ import annotations

import itertools
import os
import shutil
import stat
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from crew import Crew, acknowledged
from oddarms import create_study, find, list_studies, load_study
from oddarms.studies import Study
from postgresql import Server, fast_folder
from servers import ServerProcess, admin_token


@pytest.fixture
def folder() -> Iterator[Path]:
    made = fast_folder("oddarms-server-")
    yield made
    shutil.rmtree(made)


def shaken(
    storage: str,
    folder: Path,
    *,
    workers: int,
    budget: int,
    server_kills: int,
    share: float = 0.0,
    name: str = "shaken",
) -> None:
    """Kill workers and the server at random moments; nothing acknowledged is lost or doubled.

    Parameters
    ----------
    storage, folder
        Where the study is, and the ledgers of the workers.
    workers, budget
        How many workers make how many pulls.
    server_kills, share
        Kills go on until there were so many, and this share of the budget is used.
    name
        The name of the new study.
    """
    token = admin_token(storage)
    server = ServerProcess(storage, folder)
    words = {"k": 3, "delta": 1e-60, "budget": budget}  # so that it is not decided before
    study = create_study(name, range(40), **words, rng=1, storage=storage)
    server.start()
    crew = None
    try:
        server.wait()
        crew = Crew(server.address, name, folder, 1, workers=workers, token=token)
        kills = 0
        while kills < server_kills or study.progress().pulls < share * budget:
            crew.kill([crew.somebody_at_work()])
            time.sleep(crew.rng.uniform(0.0, 1.0 if share else 0.2))
            server.kill()
            kills += 1
            crew.kill([crew.somebody_at_work()])
            crew.wait_for_a_failure()
            server.start()
            server.wait()
        crew.finish()
        assert check_ledgers(study, folder) > 0
        assert study.result().status.value == "budget"
    finally:
        server.kill()
        if crew is not None:
            crew.end()


def check_ledgers(study: Study, folder: Path) -> int:
    """Check that a study has each result once that workers noted; return how many they noted."""
    assert study.verify().problems == []
    noted = acknowledged(folder)
    assert all(times == 1 for times in Counter(ticket for ticket, _ in noted).values())
    trials = list(study.trials())
    stored = {trial.ticket: trial.reward for trial in trials}
    assert len(stored) == len(trials)
    assert all(stored[ticket] == reward for ticket, reward in noted)
    assert study.conflicts() == []
    return len(noted)


@pytest.mark.long
def test_soak(folder: Path) -> None:
    """Each run adds a study to the folder ODDARMS_SOAK and checks those of all runs.

    ODDARMS_SOAK_RESULTS is the number of results of a run. The file `acknowledged` in the folder
    has the total of all runs. A run that was interrupted counts with what it had acknowledged.
    """
    kept = Path(os.environ.get("ODDARMS_SOAK", folder))
    storage, runs = str(kept / "soak.db"), sorted(kept.glob("run-*"))
    name = f"run-{len(runs) + 1:04}"
    (kept / name).mkdir(parents=True)
    (kept / name / "hurry").touch()  # pulls take no time, and 1,000 are told at once
    budget = int(os.environ.get("ODDARMS_SOAK_RESULTS", "100000"))
    shaken(storage, kept / name, workers=4, budget=budget, server_kills=1, share=0.5, name=name)
    known = {one.name for one in list_studies(storage=storage)}
    runs = [run for run in sorted(kept.glob("run-*")) if run.name in known]
    noted = sum(check_ledgers(load_study(run.name, storage=storage), run) for run in runs)
    (kept / "acknowledged").write_text(f"{noted} in {len(runs)} runs: 0 lost, 0 doubled\n")


def test_killed_workers_and_servers_lose_nothing(folder: Path) -> None:
    shaken(str(folder / "studies.db"), folder, workers=2, server_kills=1, budget=5000)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_eight_workers_and_many_kills(
    folder: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    storage = str(folder / "studies.db")
    if kind == "postgresql":
        server: Server = request.getfixturevalue("postgresql")
        storage = server.new_database()
    shaken(storage, folder, workers=8, server_kills=8, budget=60_000)


@pytest.mark.parametrize("times", [1, pytest.param(5, marks=pytest.mark.long)])
def test_find_outlives_kills_of_its_server(
    folder: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    storage = str(folder / "studies.db")
    monkeypatch.setenv("ODDARMS_TOKEN", admin_token(storage))
    server, calls = ServerProcess(storage, folder), itertools.count(1)

    def probe(arm: str) -> float:
        call = next(calls)
        if call % 15 == 0 and call <= 15 * times:
            server.kill()
            threading.Timer(0.3, server.start).start()
        return float(arm == "odd")

    server.start()
    try:
        server.wait()
        arms = {arm: partial(probe, arm) for arm in ("ann", "bob", "carl", "dora", "eve", "odd")}
        found = find(arms, k=1, delta=0.001, rng=1, storage=server.address, name="s")
        assert found.outliers == ["odd"]
        study = load_study("s", storage=storage)
        assert study.verify().problems == []
        assert len(list(study.trials())) == next(calls) - 1 > 15 * times
    finally:
        server.kill()


def test_a_server_ends_when_it_is_asked_to(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = str(folder / "studies.db")
    file = folder / "token"
    server = ServerProcess(storage, folder, "--token-file", str(file))
    server.start()
    try:
        server.wait()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert {stat.S_IMODE(one.stat().st_mode) for one in folder.glob("studies.db*")} == {0o600}
        monkeypatch.setenv("ODDARMS_TOKEN_FILE", str(file))
        create_study("s", [*"abc"], k=0.5, storage=server.address)
        assert server.terminate() == 0
        assert load_study("s", storage=storage).n == 3
        assert file.read_text().strip() not in server.log.read_text()
        assert "create token=" in server.log.read_text()
    finally:
        server.kill()
