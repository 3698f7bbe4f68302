"""``oddarms demo --serve``: the page that fills."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from oddarms.arms import Bernoulli
from oddarms.cli import _demo_serve
from oddarms.cli._demo_serve import DESKS, Feeder
from tests.pages_server import create, planted


def test_the_crowd_answers_until_everything_is_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(_demo_serve, "TICK", 0.001)
    monkeypatch.setattr(_demo_serve, "FIRST_RATE", 20_000.0)
    labels = [f"worker-{i}" for i in range(10)]
    study = create(tmp_path / "s.db", "crowd", labels, k=1.5, margin=0.05)
    feeder = Feeder(study, Bernoulli(planted(10, 1), labels=labels, rng=1))
    feeder.start()
    feeder.join(timeout=60.0)
    assert study.result().outliers == ["worker-0"]
    assert {worker.name for worker in study.workers()} == set(DESKS)


def test_the_crowd_stops_when_it_is_told_to(tmp_path: Path):
    labels = ["a", "b", "c", "d"]
    study = create(tmp_path / "s.db", "crowd", labels, k=1)
    feeder = Feeder(study, Bernoulli([0.5] * 4, labels=labels, rng=1))
    feeder.start()
    feeder.stop()
    assert not feeder.is_alive()


@pytest.mark.long
def test_the_demo_prints_a_link_and_ends_cleanly():
    import httpx

    command = [sys.executable, "-m", "oddarms", "demo", "--serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            process.stdout.readline()
            link = process.stdout.readline().decode()
            found = re.search(r"(http://127\.0\.0\.1:\d+)/login\?next=/studies/crowd#(\S+)", link)
            assert found
            headers = {"Authorization": f"Bearer {found[2]}", "Accept": "text/html"}
            page = httpx.get(f"{found[1]}/studies/crowd", headers=headers, timeout=60.0)
            assert "722 arms" in page.text
            process.send_signal(signal.SIGINT)
            rest = process.stdout.read().decode()
            assert process.wait(timeout=60.0) == 0
            assert "nothing of it is kept" in rest
        finally:
            process.kill()
