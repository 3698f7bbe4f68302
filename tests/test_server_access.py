"""Who is let in, and what they may do."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi import APIRouter, Request, Response
from fastapi.testclient import TestClient

from oddarms import create_study, delete_study
from oddarms.errors import InvalidParameter, UnknownStudy
from oddarms.server import create_app
from oddarms.server._access import COOKIE, check_form, csrf_of, log_in, log_out
from oddarms.server._limits import GUESSES, WrongTokens
from oddarms.server._tokens import Role, Tokens
from oddarms.studies._database_storage import DatabaseStorage
from oddarms.studies._sql import run

BASE = "/api/v1/studies"
READING = ("", "/question", "/result", "/progress", "/pulse", "/trials", "/export", "/workers")
WORKING = {"/ask": {}, "/skip": {"worker": "w"}, "/renew": {"tickets": []}}
CHANGING = {"/stop": {}, "/import": {"rewards": {}}, "/revise": {}}


@pytest.fixture
def file(new_storage: Callable[[], str]) -> str:
    storage = new_storage()
    create_study("mine", ["a", "b", "c"], k=0.5, storage=storage)
    create_study("other", ["a", "b", "c"], k=0.5, storage=storage)
    return storage


@pytest.fixture
def app(file: str) -> Iterator[Any]:
    app = create_app(file)
    app.include_router(_pages())
    yield app
    app.state.oddarms.storage.database.close()


def _pages() -> APIRouter:
    """What pages do with a session."""
    router = APIRouter()

    @router.post("/test/login")
    async def login(request: Request) -> Response:
        form, response = await request.form(), Response("in")
        await log_in(request, response, str(form["token"]))
        return response

    @router.post("/test/form")
    async def form(request: Request) -> Response:
        return Response(str((await check_form(request)).get("word")))

    @router.post("/test/logout")
    async def logout(request: Request) -> Response:
        await check_form(request)
        response = Response("out")
        await log_out(request, response)
        return response

    return router


def client_of(app: Any, token: str | None = None) -> TestClient:
    client = TestClient(app, base_url="http://localhost")
    if token is not None:
        client.headers["authorization"] = f"Bearer {token}"
    return client


def session_of(browser: TestClient) -> str:
    """The only session that a browser has."""
    (text,) = [one.value for one in browser.cookies.jar if one.name.startswith(COOKIE)]
    assert text is not None
    return text


@pytest.fixture
def tokens(app: Any) -> Tokens:
    found: Tokens = app.state.oddarms.tokens
    return found


class TestRoles:
    def test_nobody(self, app: Any) -> None:
        client = client_of(app)
        addresses = [BASE, *(f"{BASE}/mine{what}" for what in READING), "/metrics"]
        for address in addresses:
            response = client.get(address)
            assert (response.status_code, response.json()["code"]) == (401, "unauthorized")
            assert response.headers["www-authenticate"] == "Bearer"
        for what in {**WORKING, **CHANGING}:
            assert client.post(f"{BASE}/mine{what}", json={}).status_code in (401, 422)
        assert client.delete(f"{BASE}/mine").status_code == 401
        assert client.get(f"{BASE}/nobody").status_code == 401  # says nothing of what is there

    def test_a_reader_reads(self, app: Any, tokens: Tokens) -> None:
        client = client_of(app, tokens.make(Role.READER))
        assert client.get(BASE).json()["total"] == 2
        for what in READING:
            assert client.get(f"{BASE}/mine{what}").status_code == 200
        for what, body in {**WORKING, **CHANGING}.items():
            assert client.post(f"{BASE}/mine{what}", json=body).status_code == 403, what
        assert client.delete(f"{BASE}/mine").status_code == 403
        assert client.post(BASE, json={"name": "x", "arms": 3}).status_code == 403
        assert client.get("/metrics").status_code == 200

    def test_a_worker_works_on_its_study(self, app: Any, tokens: Tokens) -> None:
        client = client_of(app, tokens.make(Role.WORKER, study="mine"))
        assert [one["name"] for one in client.get(BASE).json()["studies"]] == ["mine"]
        for what in READING:
            assert client.get(f"{BASE}/mine{what}").status_code == 200
            assert client.get(f"{BASE}/other{what}").status_code == 404
        for what, body in WORKING.items():
            assert client.post(f"{BASE}/mine{what}", json=body).status_code == 200, what
            assert client.post(f"{BASE}/other{what}", json=body).status_code == 404
        for what, body in CHANGING.items():
            assert client.post(f"{BASE}/mine{what}", json=body).status_code == 403, what
        for address in (f"{BASE}/mine", f"{BASE}/other"):
            assert client.delete(address).status_code in (403, 404)
        assert client.get("/metrics").status_code == 403

    def test_a_worker_is_not_one_of_the_next_study_of_that_name(
        self, app: Any, tokens: Tokens, file: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = client_of(app, tokens.make(Role.WORKER, study="mine"))
        assert client.get(f"{BASE}/mine").status_code == 200
        delete_study("mine", storage=file)
        create_study("mine", ["x", "y"], storage=file)
        assert client.get(f"{BASE}/mine").status_code == 404
        monkeypatch.setattr("oddarms.server._tokens.REMEMBERED_SECONDS", -1.0)
        tokens._known.clear()
        assert client.get(f"{BASE}/mine").status_code == 401

    def test_a_worker_lists_its_study_alone(self, app: Any, tokens: Tokens, file: str) -> None:
        client = client_of(app, tokens.make(Role.WORKER, study="mine"))
        create_study("mine too", 3, k=0.5, storage=file)
        listed = client.get(BASE).json()
        assert ([one["name"] for one in listed["studies"]], listed["total"]) == (["mine"], 1)
        assert client.get(BASE, params={"search": "other", "skip": 1}).json() == listed

    def test_work_goes_to_the_study_that_has_the_name_now(
        self, app: Any, tokens: Tokens, file: str
    ) -> None:
        client = client_of(app, tokens.make(Role.ADMIN))
        (old,) = client.post(f"{BASE}/mine/ask", json={}).json()["tickets"]
        delete_study("mine", storage=file)
        for what, body in WORKING.items():
            assert client.post(f"{BASE}/mine{what}", json=body).status_code == 404, what
        new = create_study("mine", [*"xyz"], k=0.5, storage=file).ask()[0]
        told = client.post(f"{BASE}/mine/tell", json={"ticket": new.id, "reward": 0.5})
        assert told.json() == {"told": ["recorded"]}
        late = client.post(f"{BASE}/mine/tell", json={"ticket": old["id"], "reward": 0.5})
        assert late.status_code == 422
        (ticket,) = client.post(f"{BASE}/mine/ask", json={}).json()["tickets"]
        assert ticket["arm"] in "xyz"


class TestTokens:
    def test_they_are_kept_as_digests(self, tokens: Tokens, file: str) -> None:
        text = tokens.make(Role.ADMIN, note="a note")
        secret = text.removeprefix("oddarms_")
        with tokens._database.reading() as connection:
            assert secret not in repr(connection.execute(sa.text("SELECT * FROM tokens")).all())
        if not file.startswith("postgresql"):
            tokens._database.close()
            assert secret.encode() not in Path(file).read_bytes()
        (token,) = tokens.list()
        assert (token.role, token.note, token.expires) == (Role.ADMIN, "a note", None)
        assert text not in repr(token)

    def test_revoked_and_expired_ones(self, app: Any, tokens: Tokens, file: str) -> None:
        text = tokens.make(Role.READER)
        assert client_of(app, text).get(BASE).status_code == 200
        assert tokens.revoke(tokens.list()[0].id)
        assert not tokens.revoke("nothing")
        assert client_of(app, text).get(BASE).status_code == 401
        short = tokens.make(Role.READER, lasts=timedelta(microseconds=1))
        assert tokens.verified(short) is None
        other = Tokens(DatabaseStorage.opened(file))
        assert other.verified(tokens.make(Role.READER)) is not None

    def test_one_from_a_file(self, tokens: Tokens) -> None:
        tokens.adopt("f" * 32, "in a file")
        tokens.adopt("f" * 32, "in a file")
        assert len(tokens.list()) == 1
        found = tokens.verified("f" * 32)
        assert found is not None
        assert found.role is Role.ADMIN
        for bad in ("short", "x" * 201, "with space" * 5, "é" * 30):
            with pytest.raises(InvalidParameter, match="a token must have"):
                tokens.adopt(bad, "in a file")
            assert tokens.verified(bad) is None

    def test_whose_they_are(self, tokens: Tokens) -> None:
        with pytest.raises(InvalidParameter, match="study must be given"):
            tokens.make(Role.WORKER)
        with pytest.raises(InvalidParameter, match="and for no other"):
            tokens.make(Role.READER, study="mine")
        with pytest.raises(UnknownStudy):
            tokens.make(Role.WORKER, study="nobody")

    def test_guesses_are_slowed_down_and_the_right_one_is_not(
        self, app: Any, tokens: Tokens
    ) -> None:
        wrong = client_of(app, "w" * 43)
        statuses = [wrong.get(BASE).status_code for _ in range(12)]
        assert statuses == [401] * 10 + [429] * 2
        assert wrong.get(BASE).headers["retry-after"] == "60"
        assert client_of(app, tokens.make(Role.ADMIN)).get(BASE).status_code == 200

    def test_a_network_guesses_as_one(self) -> None:
        wrong = WrongTokens()
        clients = [SimpleNamespace(host=f"2001:db8::{i}") for i in range(GUESSES + 1)]
        assert [wrong.problem(one).status for one in clients] == [401] * GUESSES + [429]
        assert wrong.problem(SimpleNamespace(host="2001:db8:0:1::1")).status == 401

    @pytest.mark.parametrize("header", ["Basic abc", "Bearer", "Bearer  ", "abc", "bearer \t"])
    def test_other_headers_are_no_token(self, app: Any, header: str) -> None:
        client = client_of(app)
        assert client.get(BASE, headers={"Authorization": header}).status_code == 401


class TestSessions:
    @pytest.fixture
    def browser(self, app: Any, tokens: Tokens) -> TestClient:
        client = client_of(app)
        response = client.post("/test/login", data={"token": tokens.make(Role.ADMIN)})
        assert response.status_code == 200
        said = response.headers["set-cookie"].lower()
        assert "httponly" in said
        assert "samesite=strict" in said
        assert "path=/" in said
        return client

    def csrf(self, browser: TestClient) -> str:
        return csrf_of(session_of(browser))

    def test_a_browser_reads_with_its_cookie(self, browser: TestClient, tokens: Tokens) -> None:
        assert browser.get(BASE).status_code == 200
        assert len(tokens.list()) == 1  # a session is none that people see
        assert session_of(browser) not in {one.id for one in tokens.list()}

    def test_a_wrong_token_begins_none(self, app: Any) -> None:
        client = client_of(app)
        assert client.post("/test/login", data={"token": "x" * 40}).status_code == 401
        assert not client.cookies

    def test_changes_need_what_the_page_has(self, browser: TestClient) -> None:
        assert browser.post(f"{BASE}/mine/stop", json={}).json()["code"] == "csrf"
        wrong = {"X-CSRF-Token": "0" * 64}
        assert browser.post(f"{BASE}/mine/stop", json={}, headers=wrong).status_code == 403
        assert browser.delete(f"{BASE}/mine").status_code == 403
        right = {"X-CSRF-Token": self.csrf(browser)}
        assert browser.post(f"{BASE}/mine/stop", json={}, headers=right).status_code == 200

    def test_forms_carry_it(self, browser: TestClient) -> None:
        assert browser.post("/test/form", data={"word": "x"}).status_code == 403
        assert browser.post("/test/form", data={"word": "x", "csrf": "no"}).status_code == 403
        assert (
            browser.post("/test/form", data={"word": "x", "csrf": self.csrf(browser)}).text == "x"
        )

    def test_a_form_does_not_pass_for_json(self, browser: TestClient) -> None:
        """A page elsewhere can send forms without asking; nothing of the API takes one."""
        response = browser.post(
            f"{BASE}/mine/stop", content="{}", headers={"Content-Type": "multipart/form-data"}
        )
        assert response.status_code in (403, 422)
        resumed = browser.post(
            f"{BASE}/mine/resume",
            headers={"Content-Type": "application/x-www-form-urlencoded"},
        )
        assert resumed.status_code == 403
        assert browser.get(f"{BASE}/mine").json()["stopped"] is None

    def test_it_ends_with_the_token(self, browser: TestClient, tokens: Tokens) -> None:
        cookie = session_of(browser)
        assert tokens.verified(cookie) is not None
        tokens.revoke(tokens.list()[0].id)
        assert browser.get(BASE).status_code == 401

    def test_it_ends_with_the_time_of_the_token(self, tokens: Tokens) -> None:
        """Also where the token is gone by the time the session is made."""
        for lasts in (None, timedelta(hours=1)):
            text = tokens.make(Role.ADMIN, lasts=lasts)
            token = tokens.verified(text)
            assert token is not None
            session = tokens.session(token, timedelta(days=7))
            assert tokens.verified(session) is not None
            tokens._known.clear()
            with tokens._database.writing() as connection:
                run(connection, "UPDATE tokens SET expires = 1.0 WHERE id = :id", id=token.id)
            assert tokens.verified(session) is None
            tokens.revoke(token.id)
            late = tokens.session(token, timedelta(days=7))
            assert tokens.verified(late) is None

    def test_it_is_no_token_and_a_token_is_none(self, browser: TestClient, app: Any) -> None:
        """Else it would prolong itself, and tokens could be guessed where nobody counts."""
        session = session_of(browser)
        assert client_of(app, session).get(BASE).status_code == 401
        other = client_of(app)
        assert other.post("/test/login", data={"token": session}).status_code == 401
        token = app.state.oddarms.tokens.make(Role.ADMIN)
        assert other.get(BASE, headers={"Cookie": f"{COOKIE}x={token}"}).status_code == 401

    def test_a_token_has_so_many(self, tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("oddarms.server._tokens.MOST_SESSIONS", 3)
        token = tokens.verified(tokens.make(Role.READER))
        assert token is not None
        made = [tokens.session(token, timedelta(days=7)) for _ in range(6)]
        assert [tokens.verified(one) is not None for one in made] == [False] * 3 + [True] * 3

    def test_logging_out(self, browser: TestClient, tokens: Tokens) -> None:
        cookie = session_of(browser)
        browser.post("/test/logout", data={"csrf": self.csrf(browser)})
        assert tokens.verified(cookie) is None
        assert len(tokens.list()) == 1


class TestSites:
    @pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT", "OPTIONS", "HEAD"])
    def test_names_that_are_not_ours(self, app: Any, tokens: Tokens, method: str) -> None:
        client = client_of(app, tokens.make(Role.ADMIN))
        for host in ("evil.example", "localhost.evil.example", "", "evil.example:8321", "[::1"):
            assert client.request(method, BASE, headers={"Host": host}).status_code == 421
        for host in ("localhost", "LOCALHOST:8321", "127.0.0.1:1", "[::1]:8321", "192.168.1.5"):
            response = client.request(method, "/healthz", headers={"Host": host})
            assert response.status_code in (200, 405)

    def test_names_that_are_given(self, file: str) -> None:
        app = create_app(file, allowed_hosts=["Odd.example"])
        client = client_of(app)
        assert client.get("/healthz", headers={"Host": "odd.example:443"}).status_code == 200

    @pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
    def test_pages_of_others(self, app: Any, tokens: Tokens, method: str) -> None:
        client = client_of(app, tokens.make(Role.ADMIN))
        for origin in ("http://evil.example", "null", "http://localhost:81", "file://localhost"):
            response = client.request(method, BASE, headers={"Origin": origin})
            assert response.status_code == 403
            assert "access-control-allow-origin" not in response.headers
        sites = {"Sec-Fetch-Site": "cross-site"}
        assert client.request(method, BASE, headers=sites).status_code == 403
        same = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
        assert client.get(BASE, headers=same).status_code == 200

    def test_a_page_that_came_without_tls_is_none_of_a_server_with_it(
        self, app: Any, tokens: Tokens
    ) -> None:
        client = client_of(app, tokens.make(Role.ADMIN))
        for scheme, origin, status in (
            ("https", "http", 403),
            ("https", "https", 200),
            ("http", "https", 200),  # a proxy may have the TLS
        ):
            address = f"{scheme}://localhost{BASE}"
            said = client.get(address, headers={"Origin": f"{origin}://localhost"})
            assert said.status_code == status

    def test_every_answer_is_guarded(self, app: Any) -> None:
        client = client_of(app)
        for path, host in (("/healthz", "localhost"), ("/x", "localhost"), ("/x", "evil")):
            headers = client.get(path, headers={"Host": host}).headers
            assert "default-src 'none'" in headers["content-security-policy"]
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"


def test_who_opens_a_study_together_opens_it_once(
    app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    load, loaded, waiting = DatabaseStorage.load, [], threading.Barrier(4)

    def slow(storage: DatabaseStorage, name: str) -> Any:
        loaded.append(name)
        time.sleep(0.2)
        return load(storage, name)

    def opened(_: int) -> Any:
        waiting.wait()
        return app.state.oddarms.studies.get("mine")

    monkeypatch.setattr(DatabaseStorage, "load", slow)
    with ThreadPoolExecutor(4) as pool:
        studies = list(pool.map(opened, range(4)))
    assert loaded == ["mine"]
    assert len({id(one) for one in studies}) == 1


def test_every_change_leaves_a_line(
    app: Any, tokens: Tokens, caplog: pytest.LogCaptureFixture
) -> None:
    text = tokens.make(Role.ADMIN)
    client = client_of(app, text)
    with caplog.at_level(logging.INFO, logger="oddarms.audit"):
        client.post(BASE, json={"name": "new\u2028line", "arms": 3})
        client.post(BASE, json={"name": "new", "arms": 3})
        client.post(f"{BASE}/new/stop", json={"reason": "a\nb"})
        client.post(f"{BASE}/new/resume")
        client.post(f"{BASE}/new/import", json={"rewards": {}})
        client.delete(f"{BASE}/new")
    ours = [record for record in caplog.records if record.name == "oddarms.audit"]
    lines = [record.getMessage() for record in ours]
    assert [line.partition(" ")[0] for line in lines] == [
        *("create", "stop", "resume", "import", "delete")
    ]
    assert all(tokens.list()[0].id in line and "study='new'" in line for line in lines)
    assert not any(text in line or "\n" in line for line in lines)


class TestSeveralServers:
    """Browsers send the cookies of a host to all its ports, and those of `/` to all its paths."""

    def cookies_of(self, app: Any, token: str, before: str = "") -> str:
        answer = client_of(app).post(
            "/test/login", data={"token": token}, headers={"Cookie": before}
        )
        assert answer.status_code == 200
        kept = dict(pair.split("=", 1) for pair in before.split("; ") if pair)
        for line in answer.headers.get_list("set-cookie"):
            name, _, text = line.partition(";")[0].partition("=")
            kept[name] = text
            if "max-age=0" in line.lower():
                del kept[name]
        return "; ".join(f"{name}={text}" for name, text in kept.items())

    def test_their_sessions_leave_each_other_alone(
        self, app: Any, tokens: Tokens, tmp_path: Path
    ) -> None:
        other = create_app(tmp_path / "other.db")
        other.include_router(_pages())
        first = self.cookies_of(app, tokens.make(Role.ADMIN))
        both = self.cookies_of(other, other.state.oddarms.tokens.make(Role.ADMIN), first)
        for cookies in (both, "; ".join(reversed(both.split("; ")))):
            for server in (app, other):
                answer = client_of(server).get(BASE, headers={"Cookie": cookies})
                assert answer.status_code == 200
        other.state.oddarms.storage.database.close()

    def test_two_of_one_name(self, app: Any, tokens: Tokens) -> None:
        """One of them of a path above, which has ended."""
        good = self.cookies_of(app, tokens.make(Role.ADMIN))
        bad = f"{good.partition('=')[0]}=oddarms_{'x' * 43}"
        for cookies in (f"{good}; {bad}", f"{bad}; {good}"):
            assert client_of(app).get(BASE, headers={"Cookie": cookies}).status_code == 200

    def test_who_signs_in_anew_is_somebody_else(self, app: Any, tokens: Tokens) -> None:
        first = self.cookies_of(app, tokens.make(Role.ADMIN))
        second = self.cookies_of(app, tokens.make(Role.READER), first)
        assert client_of(app).get(BASE, headers={"Cookie": first}).status_code == 401
        assert second.count(COOKIE) == 1
        assert client_of(app).get(BASE, headers={"Cookie": second}).status_code == 200
        assert client_of(app).get("/new", headers={"Cookie": second}).status_code == 403


def test_where_a_proxy_has_the_tls_a_session_is_for_tls(file: str) -> None:
    """Also where it does not say so."""
    for tls in (False, True):
        app = create_app(file, tls_elsewhere=tls)
        token = app.state.oddarms.tokens.make(Role.ADMIN)
        client = client_of(app)
        said = client.post("/login", data={"token": token}, follow_redirects=False).headers
        assert ("secure" in said["set-cookie"].lower()) is tls
        app.state.oddarms.storage.database.close()


def test_another_token_in_a_file_ends_the_former(tokens: Tokens) -> None:
    assert tokens.adopt("a" * 32, "in the file x") == []
    assert tokens.adopt("b" * 32, "in the file y") == []
    (former,) = tokens.adopt("c" * 32, "in the file x")
    assert former.note == "in the file x"
    assert [tokens.verified(letter * 32) is not None for letter in "abc"] == [False, True, True]


def test_a_file_has_no_other_role(tokens: Tokens) -> None:
    reader = tokens.make(Role.READER)
    over = tokens.make(Role.ADMIN, lasts=timedelta(microseconds=1))
    for text, said in ((reader, "one of role reader"), (over, "one whose time is over")):
        with pytest.raises(InvalidParameter, match=f"an admin's token but has {said}"):
            tokens.adopt(text, "in the file x")
    found = tokens.verified(reader)
    assert found is not None
    assert found.role is Role.READER


def test_tokens_have_an_end_that_has_a_date(tokens: Tokens) -> None:
    for days in (0, -1, 3_000_000):
        with pytest.raises(InvalidParameter, match="lasts must be more than nothing and at most"):
            tokens.make(Role.ADMIN, lasts=timedelta(days=days))
    tokens.make(Role.ADMIN, lasts=timedelta(days=36_500))
    assert len(tokens.list()) == 1


def test_guesses_leave_a_line_and_are_counted(
    app: Any, tokens: Tokens, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = client_of(app, "w" * 43)
    with caplog.at_level(logging.INFO, logger="oddarms.audit"):
        for _ in range(GUESSES + 2):
            wrong.get(BASE)
    assert [one.getMessage() for one in caplog.records if one.name == "oddarms.audit"] == [
        "wrong token from=testclient"
    ]
    client = client_of(app, tokens.make(Role.ADMIN))
    client.get(BASE, headers={"Host": "evil.example"})
    client_of(app).post("/login", content=b"x" * 20_000)
    client.get("/api/v1/nothing")
    metrics = client.get("/metrics").text
    for method, status, count in (("GET", 401, 10), ("GET", 429, 2), ("GET", 421, 1)):
        line = f'{{method="{method}",route="other",status="{status}"}} {count}'
        assert f"oddarms_http_requests_total{line}\n" in metrics
    assert 'method="POST",route="other",status="413"} 1\n' in metrics
    assert "/api/v1other" not in metrics


def test_a_failure_is_guarded_like_any_answer(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oddarms.studies._database.Database.version", lambda _: 1 / 0)
    client = TestClient(app, base_url="http://localhost", raise_server_exceptions=False)
    for accepted in ("application/json", "text/html"):
        response = client.get("/healthz", headers={"Accept": accepted})
        assert response.status_code == 500
        assert "default-src 'none'" in response.headers["content-security-policy"]
        assert response.headers["x-frame-options"] == "DENY"
        assert response.headers["cache-control"] == "no-store"


def test_what_cannot_be_opened_is_not_remembered(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    studies = app.state.oddarms.studies
    with monkeypatch.context() as patch:
        patch.setattr(DatabaseStorage, "load", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            studies.get("mine")
    assert studies._opening == {}
    assert studies.get("mine").name == "mine"
