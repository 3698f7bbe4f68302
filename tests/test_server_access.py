"""Who is let in, and what they may do: over HTTP, on both databases."""

from __future__ import annotations

import itertools
import logging
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from oddarms import create_study, delete_study
from oddarms.errors import InvalidParameter, UnknownStudy
from oddarms.server import Role, Tokens
from postgresql import NewStorage
from processes import wait_until
from servers import STUDIES, Served, served

READING = ("", "/question", "/result", "/progress", "/status", "/pulse", "/trials", "/conflicts")
READING += ("/export", "/workers", "/holders", "/verify")
WORKING: dict[str, Any] = {"/ask": {}, "/skip": {"tickets": []}, "/renew": {"tickets": []}}
WORKING |= {"/tell": {"results": []}, "/release": {"worker": "nobody"}}
CHANGING: dict[str, Any] = {"/stop": {}, "/resume": None, "/history": {"rows": []}}
CHANGING |= {"/budget": {"budget": None}}
NAMES = itertools.count(1)


@pytest.fixture(scope="module")
def server(new_web_storage: NewStorage) -> Iterator[Served]:
    with served(new_web_storage()) as server:
        create_study("mine", [*"abc"], k=0.5, storage=server.storage)
        create_study("other", [*"abc"], k=0.5, storage=server.storage)
        yield server


@pytest.fixture
def tokens(server: Served) -> Tokens:
    return server.tokens


@pytest.fixture
def study(server: Served) -> str:
    """The name of a new study."""
    name = f"study {next(NAMES)}"
    create_study(name, [*"abc"], k=0.5, storage=server.storage)
    return name


class TestRoles:
    @pytest.mark.parametrize(
        ("role", "study", "mine", "other", "metrics"),
        [
            (None, None, (401, 401, 401), (401, 401, 401), 401),
            (Role.READER, None, (200, 403, 403), (200, 403, 403), 200),
            (Role.READER, "mine", (200, 403, 403), (404, 404, 404), 403),
            (Role.WORKER, "mine", (200, 200, 403), (404, 404, 404), 403),
        ],
    )
    def test_what_a_token_allows(
        self,
        server: Served,
        tokens: Tokens,
        role: Role | None,
        study: str | None,
        mine: tuple[int, ...],
        other: tuple[int, ...],
        metrics: int,
    ) -> None:
        with server.client("" if role is None else tokens.make(role, study=study)) as client:
            for name, (reading, working, changing) in (("mine", mine), ("other", other)):
                path = f"{STUDIES}/{name}"
                for what in READING:
                    assert client.get(f"{path}{what}").status_code == reading, what
                for bodies, status in ((WORKING, working), (CHANGING, changing)):
                    for what, body in bodies.items():
                        assert client.post(f"{path}{what}", json=body).status_code == status, what
                assert client.delete(path).status_code == changing
            new = client.post(STUDIES, json={"name": "x", "arms": 3})
            assert new.status_code == (401 if role is None else 403)
            assert client.get("/metrics").status_code == metrics
            assert client.get("/healthz").status_code == 200
            listed = client.get(STUDIES)
            if role is None:
                assert (listed.status_code, listed.json()["code"]) == (401, "unauthorized")
                assert listed.headers["www-authenticate"] == "Bearer"
                assert client.get(f"{STUDIES}/nobody").status_code == 401  # reveals no names
            elif study is not None:
                assert [one["name"] for one in listed.json()["studies"]] == ["mine"]
                again = client.get(STUDIES, params={"search": "other", "skip": 1})
                assert (again.json(), listed.json()["total"]) == (listed.json(), 1)
                assert client.get("/").headers["location"].endswith("/studies/mine")

    def test_a_worker_of_a_deleted_study(self, server: Served, tokens: Tokens, study: str) -> None:
        """Its token is not for the next study of that name."""
        with server.client(tokens.make(Role.WORKER, study=study)) as client:
            assert client.get(f"{STUDIES}/{study}").status_code == 200
            delete_study(study, storage=server.storage)
            create_study(study, ["x", "y"], storage=server.storage)
            assert client.get(f"{STUDIES}/{study}").status_code in (401, 404)
            assert client.get(STUDIES).json().get("studies", []) == []

    def test_work_goes_to_the_study_that_has_the_name_now(self, server: Served, study: str) -> None:
        path = f"{STUDIES}/{study}"
        with server.client() as client:
            (old,) = client.post(f"{path}/ask", json={}).json()["tickets"]
            delete_study(study, storage=server.storage)
            for what, body in WORKING.items():
                assert client.post(f"{path}{what}", json=body).status_code == 404, what
            new = create_study(study, [*"xyz"], k=0.5, storage=server.storage).ask()[0]
            told = client.post(f"{path}/tell", json={"results": [[new.id, 0.5]]})
            assert told.json() == {"told": ["recorded"]}
            late = client.post(f"{path}/tell", json={"results": [[old["id"], 0.5]]})
            assert late.status_code == 422
            (ticket,) = client.post(f"{path}/ask", json={}).json()["tickets"]
            assert ticket["arm"] in "xyz"


class TestTokens:
    def test_they_are_stored_as_hashes(self, server: Served, tokens: Tokens) -> None:
        text = tokens.make(Role.ADMIN, note="a note")
        token = tokens.list()[-1]
        assert (token.role, token.note, token.expires) == (Role.ADMIN, "a note", None)
        assert text not in repr(token)
        if not server.storage.startswith("postgresql"):
            with closing(sqlite3.connect(server.storage)) as opened:
                stored = repr(opened.execute("SELECT * FROM tokens").fetchall())
            assert token.id in stored
            assert text.removeprefix("oddarms_") not in stored

    def test_revoked_ones_are_refused_within_seconds(self, server: Served, tokens: Tokens) -> None:
        """By a running server, whoever revokes them; so are its sessions."""
        text = tokens.make(Role.ADMIN)
        found = tokens.verified(text)
        assert found is not None
        with server.client(text) as client, signed_in(server, text) as browser:
            assert client.get(STUDIES).status_code == 200
            assert browser.get(STUDIES).status_code == 200
            assert tokens.revoke(found.id)
            wait_until(lambda: client.get(STUDIES).status_code == 401)
            wait_until(lambda: browser.get(STUDIES).status_code == 401)
        assert not tokens.revoke("nothing")

    def test_expired_ones(self, server: Served, tokens: Tokens) -> None:
        short = tokens.make(Role.READER, lasts=timedelta(microseconds=1))
        with server.client(short) as client:
            assert client.get(STUDIES).status_code == 401
        for days in (0, -1, 3_000_000):
            with pytest.raises(InvalidParameter, match="valid for more than 0 and at most"):
                tokens.make(Role.ADMIN, lasts=timedelta(days=days))
        tokens.make(Role.ADMIN, lasts=timedelta(days=36_500))

    def test_one_from_a_file(self, tokens: Tokens) -> None:
        """Another one in the file ends the former; none of another role is taken."""
        before = len(tokens.list())
        assert [tokens.adopt("a" * 32, "in x"), tokens.adopt("a" * 32, "in x")] == [[], []]
        assert len(tokens.list()) == before + 1
        assert tokens.adopt("b" * 32, "in y") == []
        (former,) = tokens.adopt("c" * 32, "in x")
        assert former.note == "in x"
        assert [tokens.verified(one * 32) is not None for one in "abc"] == [False, True, True]
        for bad in ("short", "x" * 201, "with space" * 5, "é" * 30):
            with pytest.raises(InvalidParameter, match="A token has 24 to 200"):
                tokens.adopt(bad, "in x")
            assert tokens.verified(bad) is None
        reader = tokens.make(Role.READER)
        over = tokens.make(Role.ADMIN, lasts=timedelta(microseconds=1))
        for text, said in ((reader, "one of role reader"), (over, "an expired one")):
            with pytest.raises(InvalidParameter, match=f"an admin's token but has {said}"):
                tokens.adopt(text, "in z")
        found = tokens.verified(reader)
        assert found is not None
        assert found.role is Role.READER

    def test_whose_they_are(self, tokens: Tokens) -> None:
        with pytest.raises(InvalidParameter, match="study must be given"):
            tokens.make(Role.WORKER)
        with pytest.raises(InvalidParameter, match="cannot be for an admin's"):
            tokens.make(Role.ADMIN, study="mine")
        with pytest.raises(UnknownStudy):
            tokens.make(Role.WORKER, study="nobody")

    def test_wrong_ones_leave_one_line(
        self, server: Served, caplog: pytest.LogCaptureFixture
    ) -> None:
        with server.client("w" * 43) as wrong:
            assert {wrong.get(STUDIES).status_code for _ in range(30)} == {401}
        lines = [one.getMessage() for one in caplog.records if one.name == "oddarms.audit"]
        assert set(lines) <= {"wrong token from=127.0.0.1"}
        assert len(lines) < 10  # none if another test was just before

    def test_other_headers_are_no_token(self, server: Served) -> None:
        for header in ("Basic abc", "Bearer", "abc", "bearer x"):
            with server.client("", headers={"Authorization": header}) as client:
                assert client.get(STUDIES).status_code == 401


@contextmanager
def signed_in(server: Served, token: str) -> Iterator[httpx.Client]:
    """A browser with a session."""
    with server.client("") as browser:
        response = browser.post("/login", data={"token": token})
        assert response.status_code == 303, response.text
        yield browser


def csrf_of(browser: httpx.Client) -> str:
    """What the forms of an admin's pages carry."""
    found = re.search(r'name="csrf" value="([0-9a-f]+)"', browser.get("/new").text)
    assert found
    return found[1]


def session_of(browser: httpx.Client) -> tuple[str, str]:
    """Name and text of the only session that a browser has."""
    (found,) = [one for one in browser.cookies.jar if one.name.startswith("oddarms_session")]
    return found.name, str(found.value)


class TestSessions:
    @pytest.fixture
    def browser(self, server: Served, tokens: Tokens) -> Iterator[httpx.Client]:
        with signed_in(server, tokens.make(Role.ADMIN)) as browser:
            yield browser

    def test_what_a_cookie_is(self, server: Served, tokens: Tokens) -> None:
        with server.client("") as client:
            token = tokens.make(Role.ADMIN)
            before = len(tokens.list())
            cookie = client.post("/login", data={"token": token}).headers["set-cookie"].lower()
            assert len(tokens.list()) == before  # people do not see sessions
        for word in ("httponly", "samesite=strict", "path=/", "max-age=604800"):
            assert word in cookie
        assert token not in cookie

    def test_a_wrong_token_starts_none(self, server: Served) -> None:
        with server.client("") as client:
            assert client.post("/login", data={"token": "x" * 40}).status_code == 401
            assert not client.cookies

    def test_changes_need_what_the_page_has(self, browser: httpx.Client, study: str) -> None:
        path = f"{STUDIES}/{study}"
        assert browser.get(path).status_code == 200
        assert browser.post(f"{path}/stop", json={}).json()["code"] == "csrf"
        wrong = {"X-CSRF-Token": "0" * 64}
        assert browser.post(f"{path}/stop", json={}, headers=wrong).status_code == 403
        assert browser.delete(path).status_code == 403
        assert browser.post(f"{path}/ask", json={}).status_code == 403
        right = {"X-CSRF-Token": csrf_of(browser)}
        assert browser.post(f"{path}/stop", json={}, headers=right).status_code == 200

    def test_forms_carry_it(self, browser: httpx.Client) -> None:
        for form in ({}, {"csrf": "no"}, {"csrf": "0" * 64}):
            assert browser.post("/logout", data=form).status_code == 403
        for form in ({"name": "x"}, {"name": "x", "csrf": "0" * 64}):
            assert browser.post("/new", data=form).status_code == 403
        assert browser.get(STUDIES).status_code == 200
        _, text = session_of(browser)
        assert browser.post("/logout", data={"csrf": csrf_of(browser)}).status_code == 303
        assert browser.get(STUDIES, headers={"Cookie": f"x={text}"}).status_code == 401

    def test_a_form_does_not_pass_for_json(self, browser: httpx.Client, study: str) -> None:
        """A page of another site can send forms without asking; nothing of the API takes one."""
        path = f"{STUDIES}/{study}"
        for kind in ("multipart/form-data", "application/x-www-form-urlencoded", "text/plain"):
            for what in ("stop", "resume"):
                response = browser.post(
                    f"{path}/{what}", content="{}", headers={"Content-Type": kind}
                )
                assert response.status_code == 403
        assert browser.get(path).json()["stopped"] is None

    def test_it_ends_with_its_token(self, server: Served, tokens: Tokens) -> None:
        """Even if the token is gone by the time the session is made."""
        for seconds in (0.5, 5.0, 50.0):  # a busy machine may be late
            token = tokens.verified(tokens.make(Role.ADMIN, lasts=timedelta(seconds=seconds)))
            session = "" if token is None else tokens.session(token, timedelta(days=7))
            if tokens.verified(session) is not None:
                break
        assert token is not None
        assert tokens.verified(session) is not None
        wait_until(lambda: not tokens.holds(token))
        late = tokens.session(token, timedelta(days=7))
        assert tokens.verified(late) is None
        assert Tokens.opened(server.storage).verified(session) is None  # nothing remembered

    def test_it_is_no_token_and_a_token_is_no_session(
        self, browser: httpx.Client, server: Served, tokens: Tokens
    ) -> None:
        """A session cannot prolong itself."""
        name, session = session_of(browser)
        with server.client(session) as client:
            assert client.get(STUDIES).status_code == 401
        with server.client("") as client:
            assert client.post("/login", data={"token": session}).status_code == 401
            cookie = {"Cookie": f"{name}={tokens.make(Role.ADMIN)}"}
            assert client.get(STUDIES, headers=cookie).status_code == 401

    def test_who_signs_in_again_is_somebody_else(self, server: Served, tokens: Tokens) -> None:
        with signed_in(server, tokens.make(Role.ADMIN)) as browser:
            name, first = session_of(browser)
            browser.post("/login", data={"token": tokens.make(Role.READER)})
            assert session_of(browser)[1] != first
            assert browser.get("/new").status_code == 403
        with server.client("", headers={"Cookie": f"{name}={first}"}) as client:
            assert client.get(STUDIES).status_code == 401


class TestSeveralServers:
    """Browsers send the cookies of a host to all its ports."""

    def test_their_sessions_leave_each_other_alone(self, server: Served, tmp_path: Path) -> None:
        with served(tmp_path / "other.db") as other:
            pairs = []
            for one in (server, other):
                with signed_in(one, one.tokens.make(Role.ADMIN)) as browser:
                    pairs.append("=".join(session_of(browser)))
            for cookies in (pairs, pairs[::-1]):
                for one in (server, other):
                    with one.client("", headers={"Cookie": "; ".join(cookies)}) as client:
                        assert client.get(STUDIES).status_code == 200

    def test_if_a_proxy_does_tls_a_session_is_for_tls(self, tmp_path: Path) -> None:
        """Even if the proxy does not say so."""
        for tls in (False, True):
            with (
                served(tmp_path / "s.db", tls_elsewhere=tls) as server,
                server.client("") as client,
            ):
                answer = client.post("/login", data={"token": server.token})
                assert ("secure" in answer.headers["set-cookie"].lower()) is tls
                assert ("strict-transport-security" in answer.headers) is tls


class TestSites:
    def test_unknown_names(self, server: Served) -> None:
        """Whatever the method; a host is a name and a port."""
        evil = ("evil.example", "localhost.evil.example", "evil.example:8321", "[::1")
        broken = ("me@localhost", "localhost/x?", "localhost#x", "127.0.0.1:1/x", "[::1]x", "")
        good = ("localhost", "LOCALHOST:8321", "127.0.0.1:1", "[::1]:8321", "10.1.2.3")
        with server.client() as client:
            for method in ("GET", "POST", "DELETE", "PUT", "OPTIONS", "HEAD"):
                for host in evil:
                    response = client.request(method, STUDIES, headers={"Host": host})
                    assert response.status_code == 421, host
            for host in broken:
                assert client.get("/healthz", headers={"Host": host}).status_code in (400, 421)
            for host in good:
                assert client.get("/healthz", headers={"Host": host}).status_code == 200, host

    def test_given_names(self, tmp_path: Path) -> None:
        host = {"Host": "odd.example:443"}
        with (
            served(tmp_path / "s.db", allowed_hosts=["Odd.example"]) as server,
            server.client(headers=host) as client,
        ):
            assert client.get("/healthz").status_code == 200

    def test_pages_of_other_sites(self, server: Served) -> None:
        origins = ("http://evil.example", "null", "http://localhost:81", "file://localhost")
        foreign = [{"Origin": origin} for origin in origins]
        foreign += [{"Sec-Fetch-Site": site} for site in ("cross-site", "same-site")]
        with server.client(headers={"Host": "localhost"}) as client:
            for method, headers in itertools.product(("GET", "POST", "DELETE", "OPTIONS"), foreign):
                response = client.request(method, STUDIES, headers=headers)
                assert response.status_code == 403
                assert "access-control-allow-origin" not in response.headers
            for scheme in ("http", "https"):  # a proxy may do TLS
                same = {"Origin": f"{scheme}://localhost", "Sec-Fetch-Site": "same-origin"}
                assert client.get(STUDIES, headers=same).status_code == 200

    def test_another_site_may_link_to_pages_and_no_more(self, server: Served) -> None:
        foreign = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        embedded = {**foreign, "Sec-Fetch-Mode": "no-cors"}
        with server.client() as client:
            assert client.get("/login", headers=foreign).status_code == 200
            for path in ("/login", "/static/app.js", "/metrics"):
                assert client.get(path, headers=embedded).status_code == 403
            assert client.get(STUDIES, headers=foreign).status_code == 403
            assert client.post("/login", headers=foreign).status_code == 403

    def test_every_answer_is_guarded(self, server: Served) -> None:
        for accept, refused in (("application/json", 401), ("text/html", 303)):
            with server.client("", headers={"Accept": accept}) as client:
                answers = [
                    client.get("/healthz"),
                    client.get("/nothing"),
                    client.get("/healthz", headers={"Host": "evil"}),
                    client.get("/healthz", headers={"Authorization": "Bearer " + "w" * 43}),
                    client.get("/healthz", headers={"Origin": "http://evil"}),
                    client.post("/login", content=b"x" * 20_000),
                    client.put("/healthz"),
                ]
            assert [one.status_code for one in answers] == [200, 404, 421, refused, 403, 413, 405]
            for one in answers:
                policy = one.headers["content-security-policy"]
                assert "default-src 'none'" in policy
                assert "unsafe" not in policy
                assert one.headers["x-content-type-options"] == "nosniff"
                assert one.headers["x-frame-options"] == "DENY"
                assert one.headers["cache-control"] == "no-store"


class TestTokensOverHttp:
    def test_listed_made_and_revoked(
        self, server: Served, caplog: pytest.LogCaptureFixture
    ) -> None:
        create_study("of tokens", 3, rng=1, storage=server.storage)
        path = "/api/v1/tokens"
        with server.client() as client, caplog.at_level(logging.INFO, logger="oddarms.audit"):
            body = {"role": "worker", "study": "of tokens", "note": "lab 2", "days": 3}
            made = client.post(path, json=body)
            assert made.status_code == 201
            text = made.json()["token"]
            (row,) = [one for one in client.get(path).json()["tokens"] if one["note"] == "lab 2"]
            assert (row["role"], row["study"]) == ("worker", "of tokens")
            assert text not in client.get(path).text
            with server.client(text) as worker:
                assert worker.post(f"{STUDIES}/of tokens/ask", json={}).is_success
                for method, where in (("GET", path), ("POST", path), ("DELETE", f"{path}/x")):
                    assert worker.request(method, where, json=body).status_code == 403
                assert client.delete(f"{path}/{row['id']}").status_code == 204
                assert worker.post(f"{STUDIES}/of tokens/ask", json={}).status_code == 401
            assert client.delete(f"{path}/{row['id']}").status_code == 404
            for wrong in ({"role": "worker"}, {"role": "king"}, {**body, "days": 0}):
                assert client.post(path, json=wrong).status_code == 422
            assert client.post(path, json={**body, "study": "none"}).status_code == 404
        lines = [one.getMessage() for one in caplog.records if one.name == "oddarms.audit"]
        lines = [line for line in lines if not line.startswith("wrong token")]
        assert [line.partition(" token=")[0] for line in lines] == ["make token", "revoke token"]
        assert all("name='of the tests'" in line and text not in line for line in lines)

    def test_the_page(self, server: Served) -> None:
        with server.client("") as browser:
            browser.post("/login", data={"token": server.token})
            page = browser.get("/tokens")
            csrf = re.search(r'name="csrf" value="([0-9a-f]+)"', page.text)
            assert csrf is not None
            form = {"role": "reader", "note": "<b>me</b>", "days": "2"}
            assert browser.post("/tokens", data=form).status_code == 403  # not from our page
            form["csrf"] = csrf[1]
            made = browser.post("/tokens", data=form)
            found = re.search(r'id="made">([^<]+)<', made.text)
            assert found is not None
            assert "<b>me" not in made.text
            with server.client(found[1]) as client:
                assert client.get(STUDIES).is_success
                assert client.get("/tokens").status_code == 403
            (known,) = [one for one in server.tokens.list() if one.note == "<b>me</b>"]
            gone = browser.post("/tokens", data={"revoke": known.id, "csrf": csrf[1]})
            assert gone.status_code == 303
            assert not server.tokens.holds(known)
            wrong = [{"role": "worker"}, {"role": "king"}]
            wrong += [
                {"role": "admin", "days": days} for days in ("nan", "0", "9" * 20, "-1" + "0" * 20)
            ]
            for words in wrong:
                assert browser.post("/tokens", data={**words, "csrf": csrf[1]}).status_code == 422

    @pytest.mark.parametrize("believed", [True, False])
    def test_the_name_that_a_proxy_forwards(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, *, believed: bool
    ) -> None:
        with (
            served(tmp_path / "s.db", forwarded_user=believed) as server,
            server.client(headers={"X-Forwarded-User": "ann@example.org"}) as client,
            caplog.at_level(logging.INFO, logger="oddarms.audit"),
        ):
            assert client.post(STUDIES, json={"name": "new", "arms": 3}).status_code == 201
            long = {"X-Forwarded-User": "x" * 10_000}
            assert client.post(f"{STUDIES}/new/stop", json={}, headers=long).is_success
        assert ("user='ann@example.org'" in caplog.text) is believed
        assert all(len(str(vars(record))) < 10_000 for record in caplog.records)


class TestAudit:
    def lines(self, caplog: pytest.LogCaptureFixture) -> list[str]:
        return [one.getMessage() for one in caplog.records if one.name == "oddarms.audit"]

    def test_every_change_leaves_a_line(
        self, server: Served, tokens: Tokens, caplog: pytest.LogCaptureFixture
    ) -> None:
        text = tokens.make(Role.ADMIN)
        found = tokens.verified(text)
        assert found is not None
        with server.client(text) as client, caplog.at_level(logging.INFO, logger="oddarms.audit"):
            client.post(STUDIES, json={"name": "new\u2028line", "arms": 3})
            client.post(STUDIES, json={"name": "new", "arms": 3, "budget": 10})
            for what, body in CHANGING.items():
                client.post(f"{STUDIES}/new{what}", json=body)
            client.delete(f"{STUDIES}/new")
        words = [line.partition(" ")[0] for line in self.lines(caplog)]
        assert words == ["create", "stop", "resume", "history", "budget", "delete"]
        for line in self.lines(caplog):
            assert found.id in line
            assert re.search(r" request=[0-9a-f]{16} ", line)
            assert "study='new'" in line
            assert text not in line

    def test_clients_cannot_write_it(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neither by a reason or a name nor, if a proxy is believed, by an address."""
        monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
        forged = "1.2.3.4 study='x' delete token=0"
        with served(tmp_path / "s.db") as server, caplog.at_level(logging.INFO):
            create_study("s", [*"abc"], storage=server.storage)
            with server.client(headers={"X-Forwarded-For": forged}) as client:
                reason = "a\nb\x85delete token=0 \x1b[31m"
                client.post(f"{STUDIES}/s/stop", json={"reason": reason})
                for what, given in (("skip", {"tickets": []}), ("release", {"worker": reason})):
                    client.post(f"{STUDIES}/s/{what}", json={**given, "reason": reason})
        said = [one.getMessage() for one in caplog.records if one.name.startswith("oddarms")]
        assert len(said) >= 3
        assert all(line.isprintable() for line in said)
        line, _ = self.lines(caplog)
        words = [word.partition("=")[0] for word in line.split(" reason=")[0].split(" ")[1:]]
        assert words == ["token", "role", "from", "request", "study"]
