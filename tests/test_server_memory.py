"""What a server keeps in memory has a bound, whatever it is asked for and however often."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from oddarms import create_study
from postgresql import fast_folder
from servers import ServerProcess, admin_token

pytestmark = pytest.mark.long

MIB = 2**20


@pytest.fixture
def folder() -> Iterator[Path]:
    made = fast_folder("oddarms-memory-")
    yield made
    shutil.rmtree(made)


@pytest.fixture
def server(folder: Path) -> Iterator[ServerProcess]:
    made = ServerProcess(str(folder / "s.db"), folder)
    yield made
    made.kill()


def client_of(server: ServerProcess, folder: Path) -> httpx.Client:
    token = admin_token(str(folder / "s.db"))
    server.start()
    server.wait()
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=server.address, headers=headers, timeout=600.0)


def memory(server: ServerProcess, word: str = "VmRSS") -> int:
    """Return what the server has of memory now, or (VmHWM) has ever had, in bytes."""
    found = re.search(
        rf"{word}:\s+(\d+) kB", Path(f"/proc/{server.process.pid}/status").read_text()
    )
    assert found
    return int(found[1]) * 1024


def test_an_export_of_a_million_rewards(server: ServerProcess, folder: Path) -> None:
    study = create_study("s", range(1_000), k=2, rng=1, storage=folder / "s.db")
    rewards = np.random.default_rng(1).random((1_000, 1_000))
    study.add_history(dict(enumerate(rewards)))
    with client_of(server, folder) as client:
        assert client.get("/api/v1/studies/s/question").status_code == 200
        before = memory(server, "VmHWM")
        with client.stream("GET", "/api/v1/studies/s/export") as answer:
            lines = sum(part.count(b"\n") for part in answer.iter_bytes())
        assert lines == 1_000_001
        more = memory(server, "VmHWM") - before
        print(f"before {before / MIB:.0f} MiB, {more / MIB:.0f} MiB more")
        assert more < 100 * MIB
        assert before < 700 * MIB  # a million rewards are read at once


def test_a_hundred_studies_again_and_again(server: ServerProcess, folder: Path) -> None:
    rng = np.random.default_rng(1)
    for i in range(100):
        study = create_study(f"s{i}", range(500), k=2, rng=i, storage=folder / "s.db")
        study.add_history({arm: rng.random(4) for arm in range(500)})
    found = []
    with client_of(server, folder) as client:
        for _ in range(4):
            for i in range(100):
                for path in ("", "/picture.json", "/series.json", "?q=1", "?sort=label"):
                    assert client.get(f"/studies/s{i}{path}").status_code == 200
            found.append(memory(server))
    print([f"{one / MIB:.0f} MiB" for one in found])
    assert found[-1] - found[1] < 20 * MIB
    assert found[-1] < 500 * MIB
