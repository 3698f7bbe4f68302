"""Clients that mean harm, or know no better: the server stays small, and others are served."""

from __future__ import annotations

import json
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from helpers import quick_and_long
from oddarms import create_study
from oddarms.server import Role, _api
from postgresql import NewStorage
from servers import PATIENCE, STUDIES, Served, served

MIB = 2**20
SMUGGLED = (
    b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
)

NO_REQUESTS = (
    *(b"", b"{", b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe", b"null", b'"text"', b"1e999"),
    *(b"NaN", b'{"n": NaN}', b'{"n": 1e400}', b'{"n": ' + b"9" * 5000 + b"}"),
    *(b'{"worker": "\\ud800"}', b'{"worker": "\\u0000"}', b'{"lease": "Infinity"}'),
    *(b'{"prefetch": 1e309}', b'{"key": "' + b"x" * 65 + b'"}', b"\x1f\x8b\x08\x00"),
)


@pytest.fixture(scope="module")
def server(new_web_storage: NewStorage) -> Iterator[Served]:
    with served(new_web_storage()) as server:
        create_study("s", [*"abc"], k=0.5, storage=server.storage)
        yield server


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that waits a second for a request."""
    with served(tmp_path_factory.mktemp("hasty") / "studies.db", timeout=1.0) as server:
        create_study("s", [*"abc"], k=0.5, storage=server.storage)
        yield server


@pytest.fixture
def client(server: Served) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


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


class TestBodies:
    def refused(self, client: httpx.Client, path: str, content: bytes | Iterator[bytes]) -> None:
        headers = {"Content-Type": "application/json"}
        try:
            response = client.post(path, content=content, headers=headers)
        except (httpx.NetworkError, httpx.RemoteProtocolError):
            return  # the server has closed the connection before all was sent
        assert (response.status_code, response.json()["code"]) == (413, "too-large")

    def test_who_has_no_token_sends_little(self, server: Served) -> None:
        with server.client("") as unknown:
            for path in (STUDIES, "/login", "/nothing"):
                self.refused(unknown, path, b"x" * 17_000)
            form = "token=" + "x" * 15_000
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            assert unknown.post("/login", content=form, headers=kind).status_code == 401

    def test_who_has_one_sends_eight_mebibytes(self, server: Served) -> None:
        """Whatever is announced."""
        tokens = [server.tokens.make(Role.WORKER, study="s"), server.token]
        for token in tokens:
            with server.client(token) as client:
                padded = json.dumps({"n": 1}).encode().ljust(8 * MIB)
                headers = {"Content-Type": "application/json"}
                path = f"{STUDIES}/s/ask"
                assert client.post(path, content=padded, headers=headers).status_code == 200
                self.refused(client, path, padded + b" ")
                self.refused(client, path, (b" " * 2**16 for _ in range(400)))

    def test_large_ones_are_for_routes_that_take_them(self, client: httpx.Client) -> None:
        """A form keeps nobody busy with one."""
        self.refused(client, "/logout", b"%" * 17_000)
        self.refused(client, "/login", b"&" * 17_000)
        self.refused(client, "/readyz", b"x" * 17_000)

    @pytest.mark.parametrize(
        "unit", quick_and_long([b"[],"], [b'{"a":{},"b":', b"{},", b"1,", b'"",', b"[[],"])
    )
    @pytest.mark.parametrize("what", quick_and_long(["", "/s/tell"], ["/s/history"]))
    def test_values_cost_a_bounded_memory(
        self, client: httpx.Client, unit: bytes, what: str
    ) -> None:
        word = {"": b'{"name": "big", "arms": [', "/s/tell": b'{"results": ['}.get(what)
        body = (word or b'{"rows": [') + unit * ((8 * MIB - 100) // len(unit)) + b"0]}"
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        headers = {"Content-Type": "application/json"}
        response = client.post(STUDIES + what, content=body, headers=headers)
        assert response.status_code in (400, 422)
        assert len(response.content) < 3000
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 400 * 2**10  # in kilobytes, of client and server together

    def test_what_is_no_request(self, client: httpx.Client) -> None:
        headers = {"Content-Type": "application/json"}
        for body in NO_REQUESTS:
            response = client.post(f"{STUDIES}/s/ask", content=body, headers=headers)
            assert response.status_code in (400, 422), (body[:99], response.text)
            assert response.headers["content-type"] == "application/problem+json"
        rows = {"rows": [[0, 1]] * 100_001}
        said = client.post(f"{STUDIES}/s/history", json=rows).json()["detail"]
        assert "at most 100000 items" in said
        said = client.post(f"{STUDIES}/s/release", json={"worker": "a\0b"}).json()["detail"]
        assert "worker must be a text" in said
        assert client.post(f"{STUDIES}/s/ask", json={"prefetch": 1e308}).status_code == 200

    def test_words_of_python_are_no_words_of_a_request(self, client: httpx.Client) -> None:
        for word in ("self", "request", "study", "x" * 100_000):
            for what in ("ask", "tell", "stop", "budget"):
                response = client.post(f"{STUDIES}/s/{what}", json={word: 1})
                assert (response.status_code, len(response.text) < 3000) == (422, True), word

    def test_a_great_many_words(self, client: httpx.Client) -> None:
        """Each used to be refused by itself, which took seconds of everybody's time."""
        words = dict.fromkeys(map(str, range(100_000)))
        response = client.post(f"{STUDIES}/s/tell", json=words)
        assert response.status_code == 422
        assert "has 100000 members, and there are only results, worker" in response.text


class TestConnections:
    """What a client must send in time; that it reads in time is for a proxy to see."""

    def test_silent_ones_are_closed(self, hasty: Served) -> None:
        head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
        assert raw(hasty, b"") == b""
        assert raw(hasty, head) == b""
        answers = (raw(hasty, head + b"\r\n" + head) for _ in range(5))  # one may be late
        assert next(filter(None, answers)).count(b"HTTP/1.1 200") == 1

    def test_bodies_that_never_come(self, hasty: Served) -> None:
        head = f"POST {STUDIES}/s/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
        head += f"Content-Type: application/json\r\nAuthorization: Bearer {hasty.token}\r\n\r\n{{"
        assert raw(hasty, head.encode()) == b""
        unread = head.replace("/s/ask", "/nobody/ask")  # nobody reads it
        assert b"HTTP/1.1 200" not in raw(hasty, unread.encode())

    def test_drops_do_not_prolong_it(self, hasty: Served) -> None:
        over = threading.Event()
        with socket.create_connection(("127.0.0.1", hasty.port), timeout=PATIENCE) as connection:

            def drip() -> None:
                try:
                    while not over.wait(0.05):
                        connection.sendall(b"X: y\r\n")
                except OSError:
                    pass

            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
            dripping = threading.Thread(target=drip)
            dripping.start()
            try:
                assert connection.recv(100) == b""
            except ConnectionResetError:
                pass
            finally:
                over.set()
                dripping.join()

    def test_who_is_answered_slowly_is_not_closed(self, hasty: Served) -> None:
        """A wait for work outlasts the time for its request."""
        study = create_study("waits", [*"abc"], k=0.5, storage=hasty.storage)
        study.ask(10**6)
        with hasty.client() as client:
            began = time.monotonic()
            body = {"wait": 1.5, "prefetch": 0}
            assert client.post(f"{STUDIES}/waits/ask", json=body).status_code == 200
            assert time.monotonic() - began > 1.4
            assert client.get("/healthz").status_code == 200

    def test_heads_have_an_end(self, server: Served) -> None:
        head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
        many = b"".join(b"X%d: %s\r\n" % (i, b"y" * 1000) for i in range(2000))
        for endless in (b"X: " + b"y" * 2 * MIB, many):
            assert b" 200 " not in raw(server, head + endless + b"\r\n\r\n")

    def test_what_follows_a_request_that_waits_is_not_read(self, server: Served) -> None:
        create_study("busy", [*"abc"], k=0.5, storage=server.storage).ask(10**6)
        body = '{"wait": 30, "prefetch": 0}'
        head = f"POST {STUDIES}/busy/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}"
        head += (
            f"\r\nContent-Type: application/json\r\nAuthorization: Bearer {server.token}\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
            connection.sendall(f"{head}{body}".encode())
            connection.settimeout(1.0)
            with pytest.raises((ConnectionResetError, BrokenPipeError, TimeoutError)):
                connection.sendall(b"GET / HTTP/1.1\r\nX: " + b"y" * 100 * MIB)

    def test_many_silent_ones_lock_nobody_out(self, server: Served) -> None:
        head = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nt"
        with ExitStack() as stack:
            for i in range(200):
                address = ("127.0.0.1", server.port)
                connection = stack.enter_context(socket.create_connection(address))
                connection.sendall(head if i % 2 else b"")
            with server.client() as client:
                assert client.get(STUDIES).status_code == 200

    def test_what_is_no_http(self, hasty: Served) -> None:
        for text in (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n",
            b"GET /healthz HTTP/1.1\r\n\r\n",
            b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
            SMUGGLED,
            b"GET http://evil/healthz HTTP/1.1\r\nHost: evil\r\n\r\n",
        ):
            answer = raw(hasty, text, enough=b"\r\n")
            assert not answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 5")), text

    def test_a_smuggled_request_is_not_answered(self, hasty: Served) -> None:
        inner = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for framing in (
            b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n" % (len(inner) + 5),
            b"Content-Length: 0\r\nContent-Length: %d\r\n" % len(inner),
            b"Transfer-Encoding: xchunked\r\n",
        ):
            head = b"POST /healthz HTTP/1.1\r\nHost: localhost\r\n" + framing + b"\r\n"
            answer = raw(hasty, head + b"0\r\n\r\n" + inner)
            assert answer.count(b"HTTP/1.1 ") <= 2
            assert not answer.startswith(b"HTTP/1.1 200")


def test_paths_that_are_none(server: Served) -> None:
    for path in (
        *("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//evil.example/healthz", "/HEALTHZ"),
        *("/static/../_app.py", "/static/%2e%2e/_app.py", "/static/..%2f_app.py", "/" + "a" * 8000),
        *(f"{STUDIES}/%00", f"{STUDIES}/s%00/ask", f"{STUDIES}/..%2f..%2fs", f"{STUDIES}//s"),
        *(f"{STUDIES}/s/../s", f"{STUDIES}/%ff", f"{STUDIES}/%"),
    ):
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        head += f"Authorization: Bearer {server.token}\r\n\r\n"
        status = raw(server, head.encode()).split(b" ", 2)[1:2]
        assert status in ([b"404"], [b"405"], [b"422"], [b"400"]), path


def test_labels_and_names_stay_data(client: httpx.Client) -> None:
    name = '"><script>alert(1)</script>\\u2028'
    labels = ["<img src=x onerror=1>", "=1+1", "'; DROP TABLE studies; --", "\u202e", 0]
    response = client.post(STUDIES, json={"name": name, "arms": labels, "k": 1})
    assert response.status_code == 201
    path = f"{STUDIES}/{quote(name, safe='')}"
    assert client.get(f"{path}/question").json()["labels"] == labels
    assert client.get(f"{path}/question").headers["x-content-type-options"] == "nosniff"
    assert client.delete(path).status_code == 204


def test_names_without_end(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that have ever new names fill neither the storage nor the page."""
    monkeypatch.setattr("oddarms.studies._stored.MAX_WORKERS", 3)
    client.post(STUDIES, json={"name": "names", "arms": 3, "k": 0.5})
    for name in [*"abcdea"]:
        asked = client.post(f"{STUDIES}/names/ask", json={"worker": name, "prefetch": 0}).json()
        results = [(ticket["id"], 1) for ticket in asked["tickets"]]
        client.post(f"{STUDIES}/names/tell", json={"results": results, "worker": name})
    found = client.get(f"{STUDIES}/names/workers").json()["workers"]
    listed = [(one["name"], one["results"]) for one in found]
    assert listed == [(None, 2), ("a", 2), ("b", 1), ("c", 1)]
    assert client.get(f"{STUDIES}/names/verify").json()["ok"]
    client.delete(f"{STUDIES}/names")


def test_one_verification_at_a_time(client: httpx.Client) -> None:
    """It may take seconds, and those who wait would take the threads of all others."""
    with _api._verifying:
        refused = client.get(f"{STUDIES}/s/verify")
    assert (refused.status_code, refused.json()["code"]) == (503, "busy")
    assert refused.headers["retry-after"]
    assert client.get(f"{STUDIES}/s/verify").json()["ok"]


def test_a_proxy_is_believed_if_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise everybody on this machine could have any address in the log."""
    monkeypatch.delenv("FORWARDED_ALLOW_IPS", raising=False)
    forged = {"X-Forwarded-For": "192.0.2.7"}
    for name, tls_elsewhere in (("none", False), ("tls", True), ("named", False)):
        if name == "named":
            monkeypatch.setenv("FORWARDED_ALLOW_IPS", "127.0.0.1")
        with (
            served(tmp_path / f"{name}.db", tls_elsewhere=tls_elsewhere) as server,
            server.client(headers=forged) as client,
        ):
            client.post(STUDIES, json={"name": "s", "arms": 3})
    lines = [one.getMessage() for one in caplog.records if one.name == "oddarms.audit"]
    assert ["192.0.2.7" in line for line in lines] == [False, True, True]
