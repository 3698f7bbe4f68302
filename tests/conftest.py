"""Fixtures that any test module may use."""

import gc
import io
import os
import random
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

from desks import desk
from helpers import KERNELS, Ran, Run
from postgresql import new_web_storage, postgresql, postgresql_url
from storages import server_address, shared_database

__all__ = [
    "desk",
    "new_web_storage",
    "postgresql",
    "postgresql_url",
    "server_address",
    "shared_database",
]

pytest_plugins = ["pytester"]

os.environ.setdefault("ODDARMS_CACHE", str(KERNELS))

# the same examples every time, and none too slow on a busy machine
settings.register_profile(
    "same every time",
    derandomize=True,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("same every time")


LONGEST = (
    "test_site",
    "test_study_faults",
    "test_search_tickets",
    "test_spade",
    "test_crossing",
    "test_find_command",
    "test_conformance",
    "test_executors",
    "test_pytest_plugin",
    "test_browser",
    "test_study_stateful",
    "test_spade_guarantees",
    "test_stopping",
    "test_server_faults",
    "test_server_hostile",
    "test_study_outages",
    "test_study_postgresql",
    "test_storages",
)
"""Modules that begin first, or one worker would be left with them at the end."""


def pytest_xdist_auto_num_workers() -> int:
    """Twice as many as there are cores: many tests wait for processes, servers and time."""
    return 2 * (os.cpu_count() or 1)


def pytest_configure(config: pytest.Config) -> None:
    """Let pytest-xdist keep the order below; by itself it begins with the most tests."""
    config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONGEST)))


gc.disable()  # until the tests are collected: imports and parameters are kept anyway


def pytest_collection_finish() -> None:
    """Leave what was imported to no garbage collector; runs of pytest in a test call it often."""
    gc.freeze()
    gc.enable()


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a background job of a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)
HANDLERS = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}


@pytest.fixture(autouse=True)
def same_chances_every_time() -> None:
    """Tests that draw from `random` draw the same each time."""
    random.seed(1)


@pytest.fixture(autouse=True)
def signals_as_they_were() -> None:
    """Ray leaves a handler of SIGTERM that ends the program, and others leave one of Ctrl-C."""
    for number, handler in HANDLERS.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@pytest.fixture
def run_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Runs ``oddarms`` in this process, in an empty directory, for 80 columns."""
    from oddarms.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*words: object, stdin: str | bytes = b"") -> Ran:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        code = main(list(map(str, words)))
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the drawing of reports, which takes its time, to the tests that look at it."""
    picture = SimpleNamespace(get_suptitle=lambda: "a picture")
    for name in ("plot_intervals", "plot_pulls", "plot_evidence"):
        monkeypatch.setattr(f"oddarms.report.{name}", lambda _result, **_options: picture)
    monkeypatch.setattr("oddarms.report.file_content", lambda _figure: b"<svg/>")
