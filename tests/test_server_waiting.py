"""Requests that wait for work: who is woken, and what ends a wait."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from oddarms import create_study, load_study
from oddarms.server import Role
from oddarms.studies import Worker
from postgresql import NewStorage
from servers import STUDIES, Served, served

PATIENCE = 20.0


@pytest.fixture(scope="module")
def server(new_web_storage: NewStorage) -> Iterator[Served]:
    with served(new_web_storage()) as server:
        yield server


class Waiting:
    """A study all of whose tickets are out, and clients that wait for one."""

    def __init__(self, server: Served, name: str, step: int = 4) -> None:
        self.server, self.path = server, f"{STUDIES}/{name}"
        self.study = create_study(
            name, 2, algorithm="rr", batch=step // 2, rng=1, storage=server.storage
        )
        self.out = list(self.study.ask(step, "holder", prefetch=0.0))
        self.pool = ThreadPoolExecutor(16)

    def ask(
        self, n: int = 1, *, wait: float = PATIENCE, token: str | None = None, worker: str = "waits"
    ) -> Future[Any]:
        before, begun = self.number(), time.monotonic()
        body = {"n": n, "prefetch": 0.0, "wait": wait, "worker": worker}

        def post() -> httpx.Response:
            with self.server.client(token) as client:
                return client.post(f"{self.path}/ask", json=body)

        asked = self.pool.submit(post)
        while self.number() == before and not asked.done():
            assert time.monotonic() < begun + PATIENCE
            time.sleep(0.01)
        return asked

    def number(self) -> int:
        return len(self.server.app.state.oddarms.waits)

    def tell(self) -> None:
        with self.server.client() as client:
            results = [[ticket.id, 0.5] for ticket in self.out]
            assert client.post(f"{self.path}/tell", json={"results": results}).is_success


def test_as_many_get_work_as_there_is(server: Served) -> None:
    here = Waiting(server, "enough", step=4)
    asked = [here.ask() for _ in range(4)]
    here.tell()  # the next step has two
    found = [one.result(PATIENCE).json() for one in asked[:2]]  # first come, first served
    assert [len(one["tickets"]) for one in found] == [1, 1]
    assert not any(one.done() for one in asked[2:])
    here.study.stop("enough")  # by another process: found by a look at the storage
    for one in asked[2:]:
        assert one.result(PATIENCE).json()["status"] == "stopped"


def test_a_repeated_one_gets_its_tickets_although_others_wait(server: Served) -> None:
    here = Waiting(server, "repeated")
    here.study.skip(here.out[0])
    with server.client() as client:
        body = {"prefetch": 0.0, "key": "mine", "wait": PATIENCE}
        first = client.post(f"{here.path}/ask", json=body).json()["tickets"]
        other = here.ask()
        again = client.post(f"{here.path}/ask", json=body).json()["tickets"]
        assert [one["id"] for one in again] == [one["id"] for one in first]
        assert not other.done()
        assert client.post(f"{here.path}/ask", json={**body, "key": "a\0"}).status_code == 422
    here.study.stop()
    other.result(PATIENCE)


def test_an_answer_without_work(server: Served) -> None:
    here = Waiting(server, "none")
    answer = here.ask(wait=0.3).result(PATIENCE).json()
    assert (answer["status"], answer["tickets"], answer["done"]) == ("waiting", [], False)
    (row,) = [row for row in here.study.workers() if row.name == "waits"]
    assert row.results == 0  # it counts as seen
    with server.client() as client:
        assert client.post(f"{here.path}/ask", json={"wait": 31}).status_code == 422


def test_who_waits_behind_others_is_seen(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oddarms.server._state.SEEN_SECONDS", 0.0)
    here = Waiting(server, "seen")
    here.ask()
    time.sleep(0.2)  # the answer that there is no work serves the next one
    here.ask(worker="second")
    begun = time.monotonic()
    while "second" not in {row.name for row in here.study.workers()}:
        assert time.monotonic() < begun + PATIENCE
        time.sleep(0.01)
    here.study.stop()


def test_what_is_wrong_is_refused_although_others_wait(server: Served) -> None:
    here = Waiting(server, "wrong")
    other = here.ask()
    time.sleep(0.2)  # the answer that there is no work serves the next one
    with server.client() as client:
        for wrong in ({"key": "a\0"}, {"worker": "a\0"}, {"lease": 1e8}):
            body = {"prefetch": 0.0, "wait": PATIENCE, **wrong}
            assert client.post(f"{here.path}/ask", json=body).status_code == 422
    here.study.stop()
    other.result(PATIENCE)


def test_who_takes_work_ahead_does_not_wait_behind_who_does_not(server: Served) -> None:
    study = create_study("ahead", 2, k=1, rng=1, storage=server.storage)
    path = f"{STUDIES}/ahead/ask"

    def ask(prefetch: float, wait: float = PATIENCE) -> Any:
        with server.client() as client:
            body = {"n": 1000, "prefetch": prefetch, "wait": wait}
            return client.post(path, json=body).json()["tickets"]

    ask(0.0, 0.0)
    given = ask(1.0, 0.0)
    while ask(1.0, 0.0):
        pass
    with ThreadPoolExecutor(2) as pool:
        behind = pool.submit(ask, 0.0)
        time.sleep(0.2)
        ahead = pool.submit(ask, 1.0)
        time.sleep(0.2)
        study.skip_many([one["id"] for one in given])
        assert len(ahead.result(PATIENCE)) == len(given) > 0
        assert not behind.done()
        study.stop()
        behind.result(PATIENCE)


def test_a_ticket_that_is_given_back_or_expires(server: Served) -> None:
    here = Waiting(server, "given back")
    asked = here.ask()
    with server.client() as client:
        client.post(f"{here.path}/skip", json={"tickets": [here.out[0].id]})
    assert len(asked.result(PATIENCE).json()["tickets"]) == 1
    asked = here.ask()
    here.study.renew(here.out[1:2], 0.1)
    assert len(asked.result(PATIENCE).json()["tickets"]) == 1


def test_a_client_that_is_gone_gets_nothing(server: Served) -> None:
    here = Waiting(server, "gone", step=2)
    body = b'{"wait": 30, "prefetch": 0}'
    head = (
        f"POST {here.path}/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {server.token}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port)) as gone:
        gone.sendall(head.encode() + body)
        deadline = time.monotonic() + PATIENCE
        while not here.number():
            assert time.monotonic() < deadline
            time.sleep(0.01)
    while here.number():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    here.tell()
    assert here.study.overview().live == 0


def test_a_token_that_is_revoked(server: Served) -> None:
    here = Waiting(server, "revoked")
    token = server.tokens.make(Role.WORKER, study="revoked")
    asked = here.ask(wait=1.0, token=token)
    (made,) = [one for one in server.tokens.list() if one.study_name == "revoked"]
    server.tokens.revoke(made.id)
    assert asked.result(PATIENCE).status_code == 401


def test_the_server_ends(tmp_path: Path) -> None:
    with served(tmp_path / "s.db") as server:
        here = Waiting(server, "ends")
        asked = [here.ask() for _ in range(3)]
        began = time.monotonic()
    assert time.monotonic() - began < 8.0
    assert [one.result(PATIENCE).json()["status"] for one in asked] == ["waiting"] * 3


def test_workers_do_not_poll(server: Served) -> None:
    here = Waiting(server, "workers")
    counted = server.app.state.oddarms.metrics.requests
    asks = ("POST", f"{STUDIES}/{{name}}/ask", 200)
    study = load_study("workers", storage=server.address)
    before = counted.labels(*asks)._value.get()

    def work() -> list[Any]:
        worker = Worker(study)
        while not (tickets := worker.ask(prefetch=0.0)):
            worker.wait()
        return tickets

    worker = here.pool.submit(work)
    deadline = time.monotonic() + PATIENCE
    while not here.number():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.7)
    assert counted.labels(*asks)._value.get() - before == 1  # the next one waits
    here.tell()
    assert len(worker.result(PATIENCE)) == 1
