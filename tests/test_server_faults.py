"""Servers and workers that are killed, streams by the hundred, and a server asked to end."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from crew import Crew
from oddarms import create_study, delete_study, load_study
from oddarms.server import _events
from oddarms.studies import verify
from postgresql import Server, fast_folder
from processes import wait_until
from servers import Served, ServerProcess, admin_token, served

EVENTS = "/api/v1/studies/{}/events"
PATIENCE = 60.0


@pytest.fixture
def folder() -> Iterator[Path]:
    made = fast_folder("oddarms-server-")
    yield made
    shutil.rmtree(made)


def shaken(storage: str, folder: Path, *, workers: int, server_kills: int, budget: int) -> None:
    """Kill workers and the server at random moments; nothing acknowledged is lost or doubled."""
    token = admin_token(storage)
    server = ServerProcess(storage, folder)
    words = {"k": 3, "delta": 1e-60, "budget": budget}  # so that it is not decided before
    study = create_study("shaken", range(40), **words, rng=1, storage=storage)
    server.start()
    crew = None
    try:
        server.wait()
        crew = Crew(server.address, "shaken", folder, 1, workers=workers, token=token)
        for _ in range(server_kills):
            crew.kill([crew.somebody_at_work()])
            time.sleep(crew.rng.uniform(0.0, 0.2))
            server.kill()
            crew.kill([crew.somebody_at_work()])
            crew.wait_for_a_failure()
            server.start()
            server.wait()
        crew.finish()
        found = verify(study)
        assert found.problems == []
        counted = Counter(ticket for ticket, _ in crew.acknowledged())
        assert set(counted.values()) == {1}
        stored = {trial.ticket: trial.reward for trial in study.trials()}
        assert all(stored[ticket] == reward for ticket, reward in crew.acknowledged())
        assert study.result().status.value == "budget"
        assert study.conflicts() == []
    finally:
        server.kill()
        if crew is not None:
            crew.end()


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


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "studies.db") as server:
        yield server


def opened_stream(server: Served, name: str, stack: ExitStack) -> socket.socket:
    connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
    connection.settimeout(PATIENCE)
    head = f"GET {EVENTS.format(name)} HTTP/1.1\r\nHost: localhost\r\n"
    connection.sendall(f"{head}Authorization: Bearer {server.token}\r\n\r\n".encode())
    return connection


def read_until(connection: socket.socket, text: bytes) -> bytes:
    found = b""
    while text not in found:
        part = connection.recv(65536)
        assert part, f"the stream ended with {found!r}"
        found += part
    return found


class TestStreams:
    def test_two_hundred_while_a_worker_tells(self, server: Served) -> None:
        study = create_study("s", [*"abc"], k=0.5, rng=1, storage=server.address)
        with ExitStack() as stack:
            streams = [opened_stream(server, "s", stack) for _ in range(200)]
            for stream in streams:
                assert b"text/event-stream" in read_until(stream, b"event: change")
            assert len(server.state.events._watches) == 1  # one looks for all of them
            assert server.state.events.open_streams == 200
            tickets = study.ask(20)
            for ticket in tickets:
                study.tell(ticket, 0.5)
            for stream in streams:
                read_until(stream, b"event: change")
            assert study.progress().pulls == len(tickets) > 0
            server.close()
            for stream in streams:
                while stream.recv(65536):
                    pass

    def test_they_end_with_the_study(self, server: Served) -> None:
        create_study("s", [*"abc"], k=0.5, storage=server.address)
        with ExitStack() as stack:
            stream = opened_stream(server, "s", stack)
            read_until(stream, b"event: change")
            delete_study("s", storage=server.address)
            read_until(stream, b"event: deleted")

    def test_there_are_not_too_many(self, server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_events, "MOST_OF_A_TOKEN", 2)
        create_study("s", [*"abc"], k=0.5, storage=server.address)
        with ExitStack() as stack:
            for _ in range(2):
                read_until(opened_stream(server, "s", stack), b"event: change")
            address = server.address + EVENTS.format("s")
            response = httpx.get(address, headers=server.headers, timeout=PATIENCE)
            assert (response.status_code, response.json()["code"]) == (503, "busy")
        events = server.state.events  # who has gone is counted no more
        wait_until(lambda: not events.open_streams and not events._watches)

    def test_a_quiet_one_has_a_heartbeat_and_an_end(
        self, server: Served, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_events, "HEARTBEAT_SECONDS", 0.05)
        create_study("s", [*"abc"], k=0.5, storage=server.address)
        for seconds in (0.5, 5.0, 50.0):  # a busy machine may be late with both of them
            monkeypatch.setattr(_events, "STREAM_SECONDS", seconds)
            with ExitStack() as stack:
                stream = opened_stream(server, "s", stack)
                found = read_until(stream, b"0\r\n\r\n")  # the last part
            if found.count(b": still here") >= 2:
                break
        assert found.count(b": still here") >= 2


def test_a_server_ends_when_it_is_asked_to(folder: Path) -> None:
    storage = str(folder / "studies.db")
    file = folder / "token"
    server = ServerProcess(storage, folder, "--token-file", str(file))
    server.start()
    try:
        server.wait()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        os.environ["ODDARMS_TOKEN_FILE"] = str(file)
        create_study("s", [*"abc"], k=0.5, storage=server.address)
        headers = {"Authorization": f"Bearer {file.read_text().strip()}"}
        address = server.address + EVENTS.format("s")
        with httpx.stream("GET", address, headers=headers, timeout=PATIENCE) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("retry")
            assert server.terminate() == 0
            list(lines)
        assert load_study("s", storage=storage).n == 3
        assert file.read_text().strip() not in server.log.read_text()
        assert "create token=" in server.log.read_text()
    finally:
        os.environ.pop("ODDARMS_TOKEN_FILE", None)
        server.kill()
