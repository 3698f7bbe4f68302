"""Signals during a search, and the processes that its functions fork."""

from __future__ import annotations

import subprocess
import sys

import pytest

SEARCH = """
import multiprocessing, oddarms

def pull():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return float(sum(pool.map(abs, [0, -1])))

print(oddarms.find({"a": pull, "b": pull}, k=1, budget=20).pulls)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_functions_may_end_their_own_processes() -> None:
    """A pool ends its workers by SIGTERM, which a search handles in its own process only."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SEARCH],
        capture_output=True,
        text=True,
        timeout=120,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0
