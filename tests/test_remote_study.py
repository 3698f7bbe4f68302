"""A study on a server: what is special about HTTP. `test_storages.py` has what holds for all."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from oddarms import (
    Result,
    create_study,
    delete_study,
    list_studies,
    load_study,
)
from oddarms.errors import InvalidParameter, StorageFailed
from oddarms.studies import Told
from postgresql import NewStorage
from servers import Served, served
from small_studies import make, work

HOSTILE = ["..hidden", "50%", "%2F", "a/b x?y#z é𝄞 <script> \\ ';--"]


@pytest.fixture(scope="module")
def server(new_web_storage: NewStorage) -> Iterator[Served]:
    with served(new_web_storage()) as server:
        yield server


@pytest.fixture
def address(server: Served) -> Iterator[str]:
    """The address of a server without studies."""
    yield server.address
    for summary in list_studies(storage=server.address):
        delete_study(summary.name, storage=server.address)


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name(address: str, name: str) -> None:
    study = make(address, name)
    study.tell(study.ask()[0], 0.5)
    assert [trial.reward for trial in load_study(name, storage=address).trials()] == [0.5]
    assert [one.name for one in list_studies(storage=address)] == [name]


def test_results_and_tickets_in_parts(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a request has."""
    monkeypatch.setattr("oddarms.studies._remote.AT_A_TIME", 50)
    study = make(address, labels=range(40), batch=400, algorithm="rr")
    tickets = [ticket for _ in range(3) for ticket in study.ask(120)]
    assert len(tickets) == 150
    assert study.renew(tickets, 60) == 150
    assert study.tell_many([(ticket, 0.5) for ticket in tickets[:105]]) == [Told.RECORDED] * 105
    numbers = [one.number for one in study.trials()]
    assert len(numbers) == 105
    assert [one.number for one in study.trials(most=53)] == numbers[:53]
    study.skip_many(tickets[105:], "x" * 2000)
    assert study.overview().live == 0


class TestHistory:
    def test_it_is_recorded_as_in_a_database(self, address: str, server: Served) -> None:
        """In the same order, and once if both are told of it."""
        given = {"a": [0.1, 0.2, 0.3], "b": [0.4] * 5}
        study, here = make(address), make(server.storage, "here")
        assert study.add_history(given, key="k") == here.add_history(given, key="k") == 8
        logs = [[(one.arm, one.place, one.reward) for one in s.trials()] for s in (study, here)]
        assert logs[0] == logs[1]
        assert load_study("here", storage=address).add_history(given, key="k") == 0

    def test_one_in_parts_that_broke_off_is_completed(
        self, address: str, server: Served, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("oddarms.studies._remote.MAX_HISTORY", 100)
        study = make(address, labels=["a", 2, "2"], batch=50)
        rewards = np.random.default_rng(1).random((3, 75))
        given = dict(zip(["a", 2, "2"], rewards, strict=True))
        with monkeypatch.context() as patch:
            LostAnswers(patch, "/history", lost=[2, 3])
            with pytest.raises(StorageFailed, match="may have been recorded") as caught:
                study.add_history(given, key="k")
        assert caught.value.passing
        study.add_history(given, key="k")
        assert study.add_history(given, key="k") == 0
        here = load_study("s", storage=server.storage)
        assert here.overview().result.history == 225
        told = sorted(trial.reward for trial in here.trials() if trial.arm == 2)
        assert told == sorted(rewards[1].tolist())


def test_the_result_is_the_same_document(address: str, server: Served) -> None:
    study = create_study("s", ["a", "b", 3], k=0.5, side="both", rng=1, storage=address)
    work(study, 120)
    here = load_study("s", storage=server.storage)
    whole = json.loads(json.dumps(study.result().to_dict(snapshots=True)))
    assert whole == json.loads(json.dumps(here.result().to_dict(snapshots=True)))
    assert Result.from_dict(whole).to_dict(snapshots=True) == whole
    assert study.progress() == here.progress()
    assert study.workers() == here.workers()


class TestConnections:
    def test_a_forked_process_has_its_own(self, address: str) -> None:
        study = make(address)
        ticket, other = study.ask(2)
        process = multiprocessing.get_context("fork").Process(
            target=lambda: os._exit(int(study.tell(ticket, 0.5) is not Told.RECORDED))
        )
        process.start()
        process.join(60)
        assert process.exitcode == 0
        assert study.tell(other, 0.5) is Told.RECORDED
        assert study.overview().told == 2

    def test_tokens(self, server: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.delenv("ODDARMS_TOKEN")
        with pytest.raises(InvalidParameter, match="Set ODDARMS_TOKEN"):
            list_studies(storage=server.address)
        file = tmp_path / "token"
        monkeypatch.setenv("ODDARMS_TOKEN_FILE", str(file))
        with pytest.raises(InvalidParameter, match="ODDARMS_TOKEN_FILE cannot be read"):
            list_studies(storage=server.address)
        file.write_text(f"{server.token}\n")
        assert list_studies(storage=server.address) == []
        secret = "s3cret" * 6
        monkeypatch.setenv("ODDARMS_TOKEN", secret)
        for _ in range(12):
            with pytest.raises(StorageFailed, match="a token of this server") as caught:
                list_studies(storage=server.address)
            assert secret not in str(caught.value)
            assert not caught.value.passing

    @pytest.mark.parametrize(
        "address", ["http://", "http://user:secret@host", "http://host?x=1", "http://host:port"]
    )
    def test_what_is_no_address(self, address: str) -> None:
        with pytest.raises(InvalidParameter, match="http://HOST:PORT") as caught:
            list_studies(storage=address)
        assert "secret" not in str(caught.value)

    def test_a_lost_answer_costs_no_ticket(
        self, address: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        study = make(address)
        with monkeypatch.context() as patch:
            LostAnswers(patch, "/ask", lost=[1, 2])
            with pytest.raises(StorageFailed, match="may have been recorded") as caught:
                study.ask(3, key="mine")
        assert caught.value.passing
        first, others = study.ask(3, key="mine"), study.ask(3)
        assert {one.id for one in first}.isdisjoint(one.id for one in others)
        assert study.overview().handed_out == 6
        with monkeypatch.context() as patch:
            LostAnswers(patch, "/tell", lost=[1])
            assert study.tell(first[0], 0.5) is Told.REPEATED
        with monkeypatch.context() as patch:
            LostAnswers(patch, "/ask", lost=[1])
            assert len(study.ask(2)) == 2  # asked twice by itself, under one key
        assert study.overview().handed_out == 8


class LostAnswers:
    """Lets a server do what it is asked, and loses some of its answers."""

    def __init__(self, patch: pytest.MonkeyPatch, ending: str, lost: list[int]) -> None:
        self.calls = 0
        send = httpx.Client.send

        def loses(client: httpx.Client, *arguments: Any, **options: Any) -> Any:
            answer = send(client, *arguments, **options)
            if arguments[0].url.path.endswith(ending):
                self.calls += 1
                if self.calls in lost:
                    raise httpx.ReadError("the connection is gone")
            return answer

        patch.setattr(httpx.Client, "send", loses)


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """A server that answers everything alike."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as there:
        thread = threading.Thread(target=there.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{there.server_address[1]}"
        finally:
            there.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "body", "said", "passing"),
    [
        (200, b"<html>", "this is not a server of oddarms (HTTP 200)", False),
        (404, b"<html>", "this is not a server of oddarms (HTTP 404)", False),
        (500, b"Internal Server Error", "the server failed (HTTP 500)", False),
        (500, b'{"detail": "The server failed.", "code": "failed"}', "The server failed.", False),
        (503, b'{"detail": "It is away.", "code": "storage-failed"}', "It is away.", True),
        (502, b"Bad Gateway", "HTTP 502", True),
        (503, b"", "HTTP 503", True),
        (504, b"", "HTTP 504", True),
        (429, b"", "HTTP 429", True),
        (200, b"[" * 100_000, "this is not a server of oddarms", False),
    ],
)
def test_what_servers_say(
    monkeypatch: pytest.MonkeyPatch, status: int, body: bytes, said: str, passing: bool
) -> None:
    monkeypatch.setenv("ODDARMS_TOKEN", "x" * 40)
    with answering(status, body) as address, pytest.raises(StorageFailed) as caught:
        list_studies(storage=address)
    assert said in str(caught.value)
    assert caught.value.passing is passing
