"""Clients that mean harm, or know no better: the server stays small, and others are served."""

from __future__ import annotations

import json
import logging
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from fastapi.testclient import TestClient

from oddarms import create_study
from oddarms.server import _events, _limits, _protocol
from oddarms.server._protocol import GuardedProtocol
from oddarms.server._run import Place
from oddarms.server._studies import OpenStudies
from oddarms.server._tokens import Role, Tokens
from oddarms.studies import Told
from oddarms.studies._database_storage import DatabaseStorage
from oddarms.studies._study import StoredStudy
from processes import wait_until
from servers import Served, served

BASE = "/api/v1/studies"
PATIENCE = 60.0
REPORT = "/studies/s/download/report.html"
SMUGGLED = (
    b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
)


@pytest.fixture(scope="module")
def server(new_storage: Callable[[], str]) -> Iterator[Served]:
    file = new_storage()
    create_study("s", ["a", "b", "c"], k=0.5, storage=file)
    with served(file) as server:
        yield server


@pytest.fixture
def client(server: Served) -> Iterator[httpx.Client]:
    with calling(server, headers=server.headers) as client:
        yield client


def calling(server: Served, **options: Any) -> httpx.Client:
    return httpx.Client(base_url=server.address, trust_env=False, timeout=PATIENCE, **options)


def raw(server: Served, text: bytes, enough: bytes | None = None) -> bytes:
    """Send bytes as they are and return what comes back, until the end or until it is enough."""
    answer = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        try:
            connection.sendall(text)
            while part := connection.recv(65536):
                answer += part
                if enough is not None and enough in answer:
                    break
        except (ConnectionResetError, BrokenPipeError):
            pass
    return answer


def _waiting(server: Served) -> int:
    return len(server._server.server_state.connections)


class TestBodies:
    def test_who_is_unknown_sends_little(self, server: Served) -> None:
        with calling(server) as unknown:
            response = unknown.post(BASE, content=b"x" * 17_000)
        assert (response.status_code, response.json()["code"]) == (413, "too-large")

    def test_a_worker_sends_some(self, server: Served) -> None:
        token = server.state.tokens.make(Role.WORKER, study="s")
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        body = json.dumps({"results": [["x" * 40, 1]] * 60_000}).encode()
        with calling(server, headers=headers) as worker:
            assert worker.post(f"{BASE}/s/tell", content=body).status_code == 413

    def test_it_is_counted_whatever_is_announced(self, client: httpx.Client) -> None:
        """In parts without a length, of which there is no end."""

        def parts() -> Iterator[bytes]:
            for _ in range(400):
                yield b" " * 2**16

        try:
            response = client.post(BASE, content=parts())
        except (httpx.NetworkError, httpx.RemoteProtocolError):
            return  # it has closed the connection before all was sent
        assert response.status_code == 413

    @pytest.mark.parametrize("unit", [b"[],", b"{},", b"1,", b'"",', b"[[],", b'{"a":{},"b":'])
    def test_values_cost_more_than_their_text(self, client: httpx.Client, unit: bytes) -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        body = b'{"name": "big", "arms": [' + unit * (15 * 2**20 // len(unit))
        response = client.post(BASE, content=body, headers={"Content-Type": "application/json"})
        assert response.status_code == 413
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 200 * 2**10  # in kilobytes, of client and server together

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"[" * 100_000,
            b'{"a":' * 100_000,
            b"\xff\xfe",
            b"null",
            b'"text"',
            b"1e999",
            b"NaN",
            b'{"n": NaN}',
            b'{"n": 1e400}',
            b'{"n": ' + b"9" * 5000 + b"}",
            b'{"worker": "\\ud800"}',
            b'{"worker": "\\u0000"}',
            b'{"lease": "Infinity"}',
            b'{"ahead": 1e309}',
            b'{"key": "' + b"x" * 65 + b'"}',
        ],
    )
    def test_what_is_no_request(self, client: httpx.Client, body: bytes) -> None:
        headers = {"Content-Type": "application/json"}
        response = client.post(f"{BASE}/s/ask", content=body, headers=headers)
        assert response.status_code in (400, 422), response.text
        assert response.headers["content-type"] == "application/problem+json"
        assert client.get("/healthz").status_code == 200

    def test_a_number_that_is_large_and_no_more(self, client: httpx.Client) -> None:
        assert client.post(f"{BASE}/s/ask", json={"ahead": 1e308}).status_code == 200

    def test_one_that_comes_slowly(self, server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_limits, "BODY_SECONDS", 0.3)
        head = (
            f"POST {BASE}/s/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
            f"Authorization: Bearer {server.token}\r\n\r\n{{"
        )
        answer = raw(server, head.encode())
        assert answer.startswith(b"HTTP/1.1 408")

    def test_all_that_are_here_are_counted(
        self, server: Served, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also those that wait for their turn, and not only those that are arriving."""
        hold, refused, fitting = threading.Event(), threading.Semaphore(0), 6
        monkeypatch.setattr(_limits, "ALL_BYTES", 2 * fitting * 2**20)  # half is for one token
        monkeypatch.setattr(_limits, "AT_A_TIME", 1)
        token = server.state.tokens.make(Role.WORKER, study="s")
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        body = b'{"tickets": []' + b" " * (2**20 - 100) + b"}"

        def slow(*_: object) -> int:
            assert hold.wait(60.0)
            return 0

        def renew(_: int) -> int:
            address = f"{server.address}{BASE}/s/renew"
            try:
                said = httpx.post(address, content=body, headers=headers, timeout=120.0).status_code
            except httpx.TransportError:  # it was refused before all was sent
                said = 503
            if said == 503:
                refused.release()
            return said

        monkeypatch.setattr(StoredStudy, "renew", slow)
        with ThreadPoolExecutor(20) as pool:
            sent = [pool.submit(renew, number) for number in range(20)]
            try:
                for _ in range(20 - fitting):
                    assert refused.acquire(timeout=50.0)
                said = client.post(f"{BASE}/s/ask", json={}, timeout=30.0)
                assert said.status_code == 200  # others have the other half
            finally:
                hold.set()
            statuses = {one.result() for one in sent}
        assert statuses == {200, 503}


class TestConnections:
    def test_silent_ones_are_closed(self, server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_protocol, "HEADER_SECONDS", 0.3)
        assert raw(server, b"") == b""
        assert raw(server, b"GET /healthz HTTP/1.1\r\nHost: loc") == b""
        head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        assert httpx.get(f"{server.address}/healthz", trust_env=False, timeout=60.0).is_success
        for seconds in (0.5, 5.0, 30.0):  # a busy machine may send the first head too late
            monkeypatch.setattr(_protocol, "HEADER_SECONDS", seconds)
            if answer := raw(server, head + b"GET /healthz HT"):
                break
        assert answer.count(b"HTTP/1.1 200") == 1

    def test_heads_have_an_end(self, server: Served) -> None:
        head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
        assert raw(server, head + b"X: " + b"y" * 100_000 + b"\r\n\r\n") == b""
        endless = b"".join(b"X%d: %s\r\n" % (i, b"y" * 1000) for i in range(600))
        assert raw(server, head + endless) == b""

    def test_they_lock_nobody_out(self, server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(GuardedProtocol, "most", 20)
        with ExitStack() as stack:
            for _ in range(60):
                stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            for _ in range(5):
                with calling(server) as other:
                    assert other.get("/healthz").status_code == 200

    def test_nor_do_those_whose_bodies_never_come(
        self, server: Served, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(GuardedProtocol, "most", 20)
        head = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nt"
        with ExitStack() as stack:
            for _ in range(60):
                address = ("127.0.0.1", server.port)
                stack.enter_context(socket.create_connection(address)).sendall(head)
            for _ in range(5):
                with calling(server) as other:
                    assert other.get("/healthz").status_code == 200

    def test_a_head_behind_a_stream_has_an_end(self, server: Served) -> None:
        """While one request is answered, the next one is counted, too."""
        head = f"GET {BASE}/s/events HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Authorization: Bearer {server.token}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
            connection.sendall(head.encode())
            assert connection.recv(15) == b"HTTP/1.1 200 OK"
            with pytest.raises((ConnectionResetError, BrokenPipeError)):
                connection.sendall(b"GET / HTTP/1.1\r\nX: " + b"y" * 20 * 2**20)

    @pytest.mark.parametrize("limit", ["READ_SECONDS", "MOST_UNREAD"])
    def test_who_does_not_read(
        self, server: Served, limit: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What waits for a client is not kept for ever, also where its connection is closed."""
        monkeypatch.setattr(_protocol, limit, {"READ_SECONDS": 0.3}.get(limit, 2**20))
        large = {"paths": {}, "info": "x" * 30 * 2**20}
        monkeypatch.setattr(server.app, "openapi", lambda: large)
        head = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", server.port))
            connection.settimeout(PATIENCE)
            connection.sendall(head)
            assert connection.recv(15) == b"HTTP/1.1 200 OK"
            wait_until(lambda: not _waiting(server))
            assert not GuardedProtocol.unread

    def test_those_who_do_not_read_keep_nobody_waiting(
        self, server: Served, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Nor do they fill the log, when they have gone."""
        head = b"GET /static/vendor/uplot.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
        until = time.monotonic() + 60.0
        with ExitStack() as stack:
            for _ in range(_limits.AT_A_TIME + 2):
                connection = stack.enter_context(socket.socket())
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.connect(("127.0.0.1", server.port))
                connection.sendall(head * 200)
            while len(GuardedProtocol.unread) < _limits.AT_A_TIME and time.monotonic() < until:
                time.sleep(0.05)
            for path in ("/healthz", "/login"):
                said = httpx.get(server.address + path, trust_env=False, timeout=30.0)
                assert said.status_code == 200
        while _waiting(server) and time.monotonic() < until:
            time.sleep(0.05)
        assert not _waiting(server)
        assert not [one for one in caplog.records if one.levelno >= logging.ERROR]

    @pytest.mark.parametrize(
        "text",
        [
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n",
            b"GET /healthz HTTP/1.1\r\n\r\n",
            b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
            SMUGGLED,
            b"GET http://evil/healthz HTTP/1.1\r\nHost: evil\r\n\r\n",
        ],
    )
    def test_what_is_no_http(
        self, server: Served, text: bytes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_protocol, "HEADER_SECONDS", 2.0)
        answer = raw(server, text, enough=b"\r\n")
        assert not answer.startswith(b"HTTP/1.1 200")
        assert not answer.startswith(b"HTTP/1.1 5")


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/static/../_app.py",
        "/static/%2e%2e/_app.py",
        "/static/..%2f_app.py",
        f"{BASE}/%00",
        f"{BASE}/s%00/ask",
        f"{BASE}/..%2f..%2fs",
        f"{BASE}//s",
        f"{BASE}/s/../s",
        f"{BASE}/%ff",
        f"{BASE}/%",
        "//evil.example/healthz",
        "/HEALTHZ",
        "/" + "a" * 8000,
    ],
)
def test_paths_that_are_none(server: Served, path: str) -> None:
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    head += f"Authorization: Bearer {server.token}\r\n\r\n"
    status = raw(server, head.encode()).split(b" ", 2)[1:2]
    assert status in ([b"404"], [b"405"], [b"307"], [b"422"], [b"400"]), path


def test_labels_and_names_stay_data(client: httpx.Client) -> None:
    name = '"><script>alert(1)</script>\\u2028'
    labels = ["<img src=x onerror=1>", "=1+1", "'; DROP TABLE studies; --", "\u202e", 0]
    response = client.post(BASE, json={"name": name, "arms": labels, "k": 1})
    assert response.status_code == 201
    address = f"{BASE}/{quote(name, safe='')}"
    assert client.get(f"{address}/question").json()["labels"] == labels
    assert client.get(f"{address}/question").headers["x-content-type-options"] == "nosniff"
    assert client.delete(address).status_code == 204


def test_what_is_dear_is_made_one_at_a_time(client: httpx.Client) -> None:
    """Those who wait take threads from all others, so that few may."""
    from oddarms.server.api import _reading
    from oddarms.server.pages import _data

    dear = [(_reading._verifying, f"{BASE}/s/verify"), (_data._drawing, REPORT)]
    for gate, address in dear:
        with ExitStack() as stack:
            while gate._places.acquire(blocking=False):
                stack.callback(gate._places.release)
            response = client.get(address)
            assert (response.status_code, response.json()["code"]) == (503, "busy")
    assert client.get(f"{BASE}/s/verify").status_code == 200


def test_one_token_does_not_take_all_threads(
    server: Served, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, there = threading.Event(), threading.Semaphore(0)

    def slow(_: object) -> str:
        there.release()
        assert hold.wait(2 * PATIENCE)
        return "pulse"

    token = server.state.tokens.make(Role.READER)
    headers = {"Authorization": f"Bearer {token}"}
    address = f"{server.address}{BASE}/s/pulse"
    with monkeypatch.context() as patch, ThreadPoolExecutor(40) as pool:
        patch.setattr(StoredStudy, "pulse", slow)
        words = {"headers": headers, "timeout": 2 * PATIENCE}
        asked = [pool.submit(httpx.get, address, **words) for _ in range(40)]
        try:
            for _ in range(_limits.AT_A_TIME):
                assert there.acquire(timeout=PATIENCE)
            assert client.get(f"{BASE}/s/question").status_code == 200
            assert not there.acquire(blocking=False)
        finally:
            hold.set()
        assert {one.result().status_code for one in asked} == {200}


def test_nor_does_one_that_opens_streams(
    server: Served, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream takes no thread, but the study that it is of may have to be loaded."""
    hold, there, get = threading.Event(), threading.Semaphore(0), OpenStudies.get

    def slow(studies: OpenStudies, name: str) -> StoredStudy:
        there.release()
        assert hold.wait(60.0)
        return get(studies, name)

    headers = {"Authorization": f"Bearer {server.state.tokens.make(Role.READER)}"}

    def first_line(_: int) -> str:
        address = f"{server.address}{BASE}/s/events"
        with httpx.stream("GET", address, headers=headers, timeout=60.0) as response:
            return next(response.iter_lines())

    monkeypatch.setattr(OpenStudies, "get", slow)
    with ThreadPoolExecutor(40) as pool:
        opened = [pool.submit(first_line, number) for number in range(40)]
        try:
            for _ in range(_limits.AT_A_TIME):
                assert there.acquire(timeout=30.0)
            assert client.get(BASE, timeout=30.0).status_code == 200
            assert not there.acquire(blocking=False)
        finally:
            hold.set()
        assert {one.result() for one in opened} == {"retry: 2000"}


def test_a_stream_ends_with_its_token(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_events, "CHECK_SECONDS", 0.1)
    tokens = server.state.tokens
    text = tokens.make(Role.READER)
    address, headers = f"{server.address}{BASE}/s/events", {"Authorization": f"Bearer {text}"}
    with httpx.stream("GET", address, headers=headers, timeout=PATIENCE) as response:
        lines = response.iter_lines()
        assert next(lines) == "retry: 2000"
        found = tokens.verified(text)
        assert found is not None
        other = Tokens(DatabaseStorage.opened(server.state.storage.name))
        assert other.revoke(found.id)
        assert not [line for line in lines if line.startswith("event: deleted")]


def test_two_kinds_of_content_do_not_hide_values(server: Served) -> None:
    body = b'{"name": "big", "arms": [' + b"[]," * 1_500_000
    headers = [
        ("Authorization", f"Bearer {server.token}"),
        ("Content-Type", "application/json"),
        ("Content-Type", "multipart/form-data"),
    ]
    with calling(server, headers=headers) as client:
        assert client.post(BASE, content=body).status_code == 413


def test_words_of_python_are_no_words_of_a_question(client: httpx.Client) -> None:
    for word in ("self", "request", "action", "study", "x" * 100_000):
        for what in ("revise", "what-if"):
            response = client.post(f"{BASE}/s/{what}", json={word: 1})
            assert (response.status_code, len(response.text) < 3000) == (422, True), word
    assert client.post(BASE, json={"name": "n", "arms": 10**9}).status_code == 422


def test_an_export_runs_in_no_spreadsheet(client: httpx.Client) -> None:
    """A worker says what it is called, and an admin opens the file."""
    client.post(BASE, json={"name": "sheet", "arms": ["=1+1", "b"], "k": 1})
    asked = client.post(f"{BASE}/sheet/ask", json={"n": 2}).json()["tickets"]
    body = {"results": [[one["id"], 0] for one in asked], "worker": "=cmd|x"}
    assert client.post(f"{BASE}/sheet/tell", json=body).status_code == 200
    cells = client.get(f"{BASE}/sheet/export").text.replace("\n", ",").split(",")
    assert "'=cmd|x" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "@", "+"))]


@pytest.mark.parametrize(
    "host", ["me@localhost", "localhost/x?", "localhost#x", "127.0.0.1:1/x", "[::1]x", "local host"]
)
def test_a_host_is_a_name_and_a_port(client: httpx.Client, host: str) -> None:
    assert client.get("/healthz", headers={"Host": host}).status_code == 421


def test_another_site_may_link_to_pages_and_no_more(client: httpx.Client) -> None:
    foreign = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    page = client.get("/login", headers=foreign)
    assert page.status_code == 200
    assert "data-at-once" not in page.text  # its link may carry a token that is not yours
    assert "data-at-once" in client.get("/login", headers={"Sec-Fetch-Site": "none"}).text
    for path in ("/studies/s/picture.json", "/static/app.js", "/metrics"):
        embedded = {**foreign, "Sec-Fetch-Mode": "no-cors"}
        assert client.get(path, headers=embedded).status_code == 403


def test_who_calls_cannot_write_the_log(server: Served, caplog: pytest.LogCaptureFixture) -> None:
    """Where a proxy is believed, the address may be any text."""
    forged = "1.2.3.4 study='x'\x85delete token=0 \x1b[31m"
    client = TestClient(server.app, base_url="http://localhost", client=(forged, 1))
    with caplog.at_level(logging.INFO, logger="oddarms.audit"):
        client.post(f"{BASE}/s/stop", json={}, headers=server.headers)
        client.post(f"{BASE}/s/resume", headers=server.headers)
    lines = [one.getMessage() for one in caplog.records if one.name == "oddarms.audit"]
    assert len(lines) == 2
    for line in lines:
        assert line.isprintable()
        words = [word.partition("=")[0] for word in line.split(" ")[1:]]
        assert words in (["token", "role", "from", "study"], [*words[:4], "reason"])
        assert len(set(words)) == len(words)


def test_a_proxy_is_believed_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else everybody on this machine could be any address, and guess for ever."""
    monkeypatch.delenv("FORWARDED_ALLOW_IPS", raising=False)
    assert not Place().has_proxy
    assert Place(tls_elsewhere=True).has_proxy
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "10.0.0.1")
    assert Place().has_proxy


def test_a_stream_is_no_request_under_way(server: Served, client: httpx.Client) -> None:
    def numbers() -> dict[str, float]:
        lines = [one for one in client.get("/metrics").text.splitlines() if one[0] != "#"]
        return {name: float(value) for name, value in (one.rsplit(" ", 1) for one in lines)}

    def wait_for(name: str, value: float) -> None:
        until = time.monotonic() + 60.0
        while numbers()[name] != value and time.monotonic() < until:
            time.sleep(0.05)
        assert numbers()[name] == value

    with httpx.stream("GET", f"{server.address}{BASE}/s/events", headers=server.headers) as stream:
        assert next(stream.iter_lines()) == "retry: 2000"
        wait_for("oddarms_http_requests_under_way", 1.0)  # the one that asks
        found = numbers()
        labels = 'method="GET",route="/api/v1/studies/{name}/events"'
        assert found[f'oddarms_http_requests_total{{{labels},status="200"}}'] >= 1.0
        before = found[f"oddarms_http_seconds_total{{{labels}}}"]
    wait_for("oddarms_event_streams", 0.0)
    assert numbers()[f"oddarms_http_seconds_total{{{labels}}}"] == before


def test_a_worker_that_contradicts_itself_fills_no_memory(
    server: Served, client: httpx.Client
) -> None:
    study = create_study("contradicted", ["a", "b"], k=0.5, storage=server.address)
    tickets = [ticket.id for ticket in study.ask(2)]
    study.tell_many([(ticket, 0.0) for ticket in tickets])
    told = [(ticket, i / 1000) for i in range(1, 1001) for ticket in tickets]
    assert set(study.tell_many(told)) == {Told.CONFLICT}
    address = "/api/v1/studies/contradicted"
    whole = client.get(f"{address}/conflicts").json()
    assert [one["second"] for one in whole["conflicts"]] == [
        0.001,
        0.001,
        0.002,
        0.002,
        0.003,
        0.003,
    ]
    assert whole["next"] is None
    first = client.get(f"{address}/conflicts", params={"most": 4}).json()
    rest = client.get(f"{address}/conflicts", params={"most": 4, "after": first["next"]}).json()
    assert first["conflicts"] + rest["conflicts"] == whole["conflicts"]
    assert client.get(address).json()["conflicts"] == 2000
    assert len(study.conflicts()) == 6
    page = client.get("/studies/contradicted", headers={"accept": "text/html"})
    assert "2,000 results were refused in all" in page.text
