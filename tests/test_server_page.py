"""The examples of docs/server.md, in a shell, against a server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers import ROOT
from oddarms import load_study
from oddarms.server.api import _models
from servers import served

PAGE = ROOT / "docs" / "server.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_examples_of_curl(tmp_path: Path, new_storage: Callable[[], str]) -> None:
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) >= 6
    with served(new_storage()) as server:
        environment = {**os.environ, "SERVER": server.address, "TOKEN": server.token}
        for block in blocks:
            done = subprocess.run(
                ["sh", "-e", "-c", block],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, block + done.stderr
        study = load_study("crowd", storage=server.address)
        assert [trial.reward for trial in study.trials()] == [0.5]
        assert study.overview().live == 0
        assert study.overview().stopped is None


def test_the_limits_are_those_of_the_server() -> None:
    from oddarms.server import _events, _limits

    text = PAGE.read_text(encoding="utf-8")
    assert f"{_limits.ADMIN_BYTES // 2**20} MiB of an admin" in text
    assert f"{_limits.WORKER_BYTES // 2**20} MiB of others; {_limits.MOST_VALUES:,} values" in text
    assert f"| {_models.MOST_RESULTS:,} |" in text
    assert f"{_events.MOST_OF_A_TOKEN} of a token, {_events.MOST_STREAMS:,} of a server" in text
