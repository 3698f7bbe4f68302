"""A server whose PostgreSQL stops: what clients are told, and that workers wait."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from helpers import Run
from oddarms import create_study, load_study
from postgresql import Server
from processes import wait_until
from servers import STUDIES, Served, ServerProcess, served


@pytest.fixture
def server(postgresql: Server) -> Iterator[Served]:
    with served(postgresql.new_database()) as server:
        try:
            yield server
        finally:
            postgresql.start()


def is_said_in_the_usual_way(response: httpx.Response) -> None:
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) >= 1
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in response.headers["content-security-policy"]
    problem = response.json()
    assert problem["code"] == "storage-failed"
    assert "postgresql://" not in problem["detail"]


def test_tokens_cannot_be_looked_up(
    server: Served, postgresql: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with server.client() as client:
        postgresql.stop()  # nobody has used the token yet, so it must be looked up
        for _ in range(8):
            is_said_in_the_usual_way(client.get(STUDIES))
        is_said_in_the_usual_way(client.get("/readyz"))
        page = client.get("/", headers={"accept": "text/html"})
        assert (page.status_code, page.headers["retry-after"]) == (503, "1")
        assert page.headers["content-type"].startswith("text/html")
        lines = [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
        assert len(lines) < 8
        assert not any(record.exc_info for record in lines)
        postgresql.start()
        wait_until(lambda: client.get(STUDIES).status_code == 200, 30)


def test_every_route_says_so(server: Served, postgresql: Server) -> None:
    """Also to somebody whose token is known."""
    create_study("s", [*"abc"], storage=server.storage)
    with server.client() as client:
        assert client.get(f"{STUDIES}/s").status_code == 200
        postgresql.stop()
        for what in ("", "/question", "/result", "/trials", "/export", "/pulse", "/workers"):
            is_said_in_the_usual_way(client.get(f"{STUDIES}/s{what}"))
        for what, body in (("ask", {}), ("tell", {"results": []}), ("renew", {"tickets": []})):
            is_said_in_the_usual_way(client.post(f"{STUDIES}/s/{what}", json=body))
        is_said_in_the_usual_way(client.post(STUDIES, json={"name": "t", "arms": 3}))
        is_said_in_the_usual_way(client.get("/metrics"))


def pull(_: object) -> float:
    time.sleep(0.001)
    return float(random.random() < 0.5)


def test_a_worker_over_http_waits(server: Served, postgresql: Server) -> None:
    """For longer than the server remembers its token."""
    create_study("s", range(20), k=3, delta=1e-60, budget=600, storage=server.address)
    study = load_study("s", storage=server.address)
    failed: list[BaseException] = []

    def work() -> None:
        try:
            study.run(pull)
        except BaseException as error:
            failed.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    wait_until(lambda: failed or study.progress().pulls > 100, 20)
    assert failed == []
    postgresql.stop()
    time.sleep(6.0)
    postgresql.start()
    worker.join(60)
    assert failed == []
    assert study.status.value == "budget"


class TestStart:
    def test_a_server_waits_for_its_database(self, postgresql: Server, tmp_path: Path) -> None:
        server = ServerProcess(postgresql.new_database(), tmp_path)
        postgresql.stop()
        try:
            server.start()
            wait_until(lambda: server.log.exists() and "Retrying for" in server.log.read_text())
            time.sleep(1.0)
            postgresql.start()
            server.wait()
            assert httpx.get(f"{server.address}/readyz", trust_env=False).status_code == 200
            assert server.log.read_text().count("Retrying for") == 1
            assert server.terminate() == 0
        finally:
            postgresql.start()
            server.kill()

    def test_but_not_for_ever(
        self,
        postgresql: Server,
        run_command: Run,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setattr("oddarms.cli._serve.WAIT_SECONDS", 0.6)
        storage = postgresql.new_database()
        postgresql.stop()
        try:
            done = run_command("serve", "--storage", storage, "--port", "0")
        finally:
            postgresql.start()
        assert done.code == 1
        assert "cannot be reached" in done.err.replace("\n", " ")
        assert "Retrying for" in caplog.text  # the process prints it to stderr
