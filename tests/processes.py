"""Processes that tests start: where they may listen, which of them live."""

from __future__ import annotations

import random
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

MARK = "ODDARMS_TEST"
PORTS = (15_000, 30_000)

WITHOUT_REPORT = """
import sys
import oddarms.report
from oddarms.cli import main
oddarms.report.write_report = lambda *_, **__: None
sys.exit(main())
"""


def wait_until(happened: Callable[[], object], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def insist(process: subprocess.Popen[Any], number: int) -> int:
    """Send a second signal, and again where it may have been taken for the first; return the code.

    A process that a busy machine holds up sees two that were sent one after the other as one. One
    that obeys gets time to end: another signal would meet the handlers from before.
    """
    for seconds in (0.6, *[10.0] * 10):
        with suppress(subprocess.TimeoutExpired):
            return process.wait(seconds)
        process.send_signal(number)
    raise AssertionError("signals do not end it")


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def marked(mark: str) -> list[int]:
    """Return the processes that run with a mark in the environment they were started with."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            entries = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"{MARK}={mark}".encode() in entries and is_running(int(folder.name)):
            found.append(int(folder.name))
    return found


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A mark that all processes started in a test have; they must have ended by its end."""
    value = uuid.uuid4().hex
    monkeypatch.setenv(MARK, value)
    yield value
    wait_until(lambda: not marked(value))


def free_port() -> int:
    """Return a port that nobody listens on, none of those that connections get by themselves.

    One of these could be taken while the server is down.
    """
    while True:
        port = random.SystemRandom().randrange(*PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
