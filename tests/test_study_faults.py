"""Faults of all kinds in random order, by seed: what was acknowledged is there, once, for good.

`ODDARMS_FAULT_SEED=17` runs one seed, `ODDARMS_FAULT_SEEDS=500` so many in the long form.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from fault_schedule import schedule
from faults import shake
from postgresql import Server, fast_folder

SEEDS = int(os.environ.get("ODDARMS_FAULT_SEEDS", "6"))
ONE = os.environ.get("ODDARMS_FAULT_SEED")
FEW = {"faults": 12, "apart": 6, "arms": 20}
MANY = {"faults": 40, "apart": 25, "arms": 20}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder on a memory file system: killed processes lose no more there than on a disk."""
    made = fast_folder("oddarms-faults-")
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def tally() -> Counter[str]:
    """Counts what was tried in all tests."""
    return Counter()


@pytest.fixture(params=["sqlite", "postgresql"])
def server(request: pytest.FixtureRequest) -> Server | None:
    return None if request.param == "sqlite" else request.getfixturevalue("postgresql")


def storage_of(server: Server | None, folder: Path) -> str:
    return str(folder / "studies.db") if server is None else server.new_database()


def say(tally: Counter[str]) -> None:
    """Say what was tried up to now, for those who look on (pytest -s)."""
    print("\ntried: " + ", ".join(f"{n:,} {what}" for what, n in sorted(tally.items())))


def test_nothing_acknowledged_is_lost_or_counted_twice_whatever_happens(
    server: Server | None, folder: Path, tally: Counter[str]
) -> None:
    seed = int(ONE or 1)
    storage = storage_of(server, folder)
    tally.update(shake(storage, folder, seed, server=server, **FEW))
    say(tally)


@pytest.mark.long
@pytest.mark.parametrize("seed", [int(ONE)] if ONE else range(1, SEEDS + 1))
def test_nothing_is_lost_in_long_runs(
    server: Server | None, folder: Path, seed: int, tally: Counter[str]
) -> None:
    storage = storage_of(server, folder)
    tally["runs"] += 1
    tally.update(shake(storage, folder, seed, server=server, **MANY))
    say(tally)


@pytest.mark.parametrize("of_a_server", [True, False])
def test_a_seed_gives_one_schedule_in_which_each_fault_has_its_turn(of_a_server: bool) -> None:
    events = schedule(5, 40, 25, server=of_a_server)
    assert events == schedule(5, 40, 25, server=of_a_server)
    assert events != schedule(6, 40, 25, server=of_a_server)
    assert len(events) == 40
    assert len({event.fault for event in events[:12]}) >= 9
