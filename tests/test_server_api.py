"""The HTTP API as a client in any language sees it, on both databases."""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from oddarms import create_study
from oddarms.errors import InvalidParameter
from oddarms.server import Settings, create_app
from oddarms.studies import Told
from postgresql import NewStorage
from servers import STUDIES, Served, served

NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def server(new_web_storage: NewStorage) -> Iterator[Served]:
    with served(new_web_storage()) as server:
        create_study("s", [*"abc"], k=1, rng=1, storage=server.storage)
        yield server


@pytest.fixture
def client(server: Served) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


@pytest.fixture
def name() -> str:
    """A name for a new study."""
    return f"study {next(NUMBERS)}"


def create(client: Any, name: str, **words: Any) -> Any:
    body = {"name": name, "arms": ["a", "b", "c"], "k": 1, "seed": 1, **words}
    response = client.post(STUDIES, json=body)
    assert response.status_code == 201, response.text
    return response.json()


def test_every_answer_of_reading(client: httpx.Client, name: str) -> None:
    create(client, name)
    path = f"{STUDIES}/{name}"
    ticket = client.post(f"{path}/ask", json={"worker": "w"}).json()["tickets"][0]
    told = client.post(f"{path}/tell", json={"results": [[ticket["id"], True]]})
    assert told.json() == {"told": ["recorded"]}
    reading = ("question", "progress", "status", "pulse", "trials", "conflicts", "workers")
    found = {what: client.get(f"{path}/{what}").json() for what in (*reading, "verify")}
    assert found["question"]["labels"] == ["a", "b", "c"]
    assert found["progress"]["pulls"] == 1
    assert found["status"] == {"status": "running", "done": False}
    assert found["trials"]["trials"][0]["ticket"] == ticket["id"]
    assert (found["trials"]["next"], found["conflicts"]) == (None, {"conflicts": [], "next": None})
    assert found["workers"]["workers"][0]["results"] == 1
    assert found["verify"] == {"ok": True, "results": 1, "problems": []}
    overview = client.get(path).json()
    assert (overview["results"], overview["seed"]) == (1, "1")
    assert "storage" not in overview
    assert overview["pulse"] == found["pulse"]["pulse"]


def test_an_export_is_a_stream_of_all(client: httpx.Client) -> None:
    """In more than one part."""
    create(client, "a,b", arms=["=1+1", "b"])
    path = f"{STUDIES}/{quote('a,b', safe='')}"
    ticket = client.post(f"{path}/ask", json={}).json()["tickets"][0]
    rows = [[i % 2, i % 3 / 2] for i in range(12_000)]
    assert client.post(f"{path}/history", json={"rows": rows}).json() == {"count": 12_000}
    client.post(f"{path}/tell", json={"results": [[ticket["id"], 1]], "worker": "=cmd|x"})
    found = list(csv.DictReader(client.get(f"{path}/export").text.splitlines()))
    assert len(found) == 12_001
    assert found[-1]["worker"] == "'=cmd|x"  # a spreadsheet does not run it
    assert {one["arm"] for one in found} == {"'=1+1", "b"}
    disposition = client.head(f"{path}/export").headers["content-disposition"]
    assert disposition == "attachment; filename*=UTF-8''a%2Cb.csv"
    page = client.get(f"{path}/trials?most=10000").json()
    rest = client.get(f"{path}/trials?after={page['next']}&most=10000").json()
    lines = page["trials"] + rest["trials"]
    assert [one["reward"] for one in lines] == [float(one["reward"]) for one in found]
    assert (lines[-1]["ticket"], lines[0]["arm"]) == (ticket["id"], "=1+1")
    assert rest["next"] is None


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/nobody", None, 404, "unknown-study"),
        ("GET", "/s/nothing", None, 404, "not-found"),
        ("PUT", "/s", None, 405, "method-not-allowed"),
        ("POST", "", {"name": "s", "arms": 3}, 409, "duplicate-study"),
        ("POST", "", {"name": "t"}, 422, "invalid-request"),
        ("POST", "", {"name": "t", "arms": 3, "more": 1}, 422, "invalid-request"),
        ("POST", "", {"name": "t", "arms": 3, "delta": 2}, 422, "invalid-parameter"),
        ("POST", "", {"name": "t", "arms": 3, "algorithm": "x"}, 422, "unknown-algorithm"),
        ("POST", "", {"name": "t", "arms": 3, "options": {"x": 1}}, 422, "unknown-option"),
        ("POST", "", {"name": "t", "arms": 3, "options": {"self": 1}}, 422, "unknown-option"),
        ("POST", "", {"name": "a\nb", "arms": 3}, 422, "invalid-parameter"),
        ("POST", "", {"name": "t", "arms": 3, "seed": "x"}, 422, "invalid-request"),
        ("POST", "", {"name": "t", "arms": 3, "seed": -1}, 422, "invalid-parameter"),
        ("POST", "", {"name": "t", "arms": 10**12}, 422, "invalid-parameter"),
        ("POST", "", {"name": "t", "arms": list(range(1, 100_002))}, 422, "invalid-parameter"),
        ("POST", "", {"name": "t", "arms": ["a", "a"]}, 422, "invalid-parameter"),
        ("POST", "", {"name": "t", "arms": [None, True]}, 422, "invalid-request"),
        ("POST", "/s/ask", {"n": 0}, 422, "invalid-request"),
        ("POST", "/s/ask", {"lease": -1}, 422, "invalid-request"),
        ("POST", "/s/ask", {"lease": 3601}, 422, "invalid-parameter"),
        ("POST", "/s/tell", {}, 422, "invalid-request"),
        ("POST", "/s/tell", {"results": [["x", 1]]}, 422, "invalid-parameter"),
        ("POST", "/s/tell", {"results": [["x", 7]]}, 422, "invalid-parameter"),
        ("POST", "/s/tell", {"results": [["x" * 81, 1]]}, 422, "invalid-request"),
        ("POST", "/s/tell", {"results": [["x", 1, 1]]}, 422, "invalid-request"),
        ("POST", "/s/tell", {"results": [["x", 1]] * 10_001}, 422, "invalid-request"),
        ("POST", "/s/skip", {}, 422, "invalid-request"),
        ("POST", "/s/history", {}, 422, "invalid-request"),
        ("POST", "/s/history", {"rows": [[-1, 1]]}, 422, "invalid-parameter"),
        ("POST", "/s/history", {"rows": [[3, 1]]}, 422, "invalid-parameter"),
        ("POST", "/s/history", {"rows": [[0, 7]]}, 422, "reward-rejected"),
        ("POST", "/s/history", {"rows": [[0, "x"]]}, 422, "reward-rejected"),
        ("POST", "/s/budget", {}, 422, "invalid-request"),
        ("POST", "/s/budget", {"budget": -1}, 422, "invalid-parameter"),
        ("GET", "/s/trials?most=0", None, 422, "invalid-request"),
        ("GET", "/s/conflicts?most=10001", None, 422, "invalid-request"),
    ],
)
def test_errors_are_problems(
    client: httpx.Client, method: str, path: str, body: Any, status: int, code: str
) -> None:
    response = client.request(method, STUDIES + path, json=body)
    problem = response.json()
    assert response.headers["content-type"] == "application/problem+json", response.text
    assert (response.status_code, problem["status"]) == (status, status), response.text
    assert problem["code"] == code
    assert re.fullmatch(r"[^\n]{10,}\.", problem["detail"])


def test_messages_say_what_to_send(client: httpx.Client) -> None:
    cases: list[tuple[bytes, str, int, str]] = [
        (b'{"n": 1}', "application/x-www-form-urlencoded", 415, "send the header"),
        (b'{"n": 1}', "", 415, "Content-Type is missing"),
        (b'{"n": 1', "application/json", 400, "not valid JSON"),
        (b'{"worker": "\xff"}', "application/json", 400, "must be JSON in UTF-8"),
        (b"[]", "application/json", 422, "The body is invalid"),
    ]
    for body, kind, status, said in cases:
        headers = {"Content-Type": kind}
        response = client.post(f"{STUDIES}/s/ask", content=body, headers=headers)
        assert response.status_code == status, response.text
        assert said in response.json()["detail"]
    many = client.post(STUDIES, json={"name": "t", "arms": 100_001}).json()["detail"]
    assert "oddarms study create" in many
    unclear = client.post(STUDIES, json={"name": "t", "arms": None}).json()["detail"]
    assert unclear.startswith("arms is invalid: Input should be a valid list")


def test_the_location_of_the_storage_is_not_for_clients(
    client: httpx.Client, server: Served
) -> None:
    response = client.post(STUDIES, json={"name": "s", "arms": 3})
    assert "the storage of the server has a study" in response.json()["detail"]
    assert server.storage not in response.text


def test_paths_and_names(client: httpx.Client) -> None:
    """A slash within a name is %2F, and one at the end of a path means nothing."""
    create(client, "a/b 50%")
    for path in (f"{STUDIES}/a%2Fb%2050%25/status/", f"{STUDIES}/", "/healthz/"):
        assert client.get(path).status_code == 200, path
    assert client.delete(f"{STUDIES}/a%2fb%2050%25").status_code == 204


def test_head(client: httpx.Client) -> None:
    for path in ("/healthz", "/login", f"{STUDIES}/s/result", "/metrics"):
        response = client.head(path)
        assert (response.status_code, response.content) == (200, b""), path
    assert client.head(f"{STUDIES}/nobody").status_code == 404


class TestTheServerItself:
    def test_health(self, server: Served) -> None:
        with server.client("") as nobody:
            assert nobody.get("/healthz").json() == {"status": "ok"}

    def test_a_file_that_has_gone(self, tmp_path: Path) -> None:
        file = tmp_path / "studies.db"
        with served(file) as server, server.client("") as client:
            assert client.get("/readyz").status_code == 200
            file.rename(tmp_path / "moved.db")
            response = client.get("/readyz")
            assert client.get("/healthz").status_code == 200
            assert response.status_code == 500
            assert "removed or replaced" in response.json()["detail"]
            assert str(file) not in response.text
            (tmp_path / "moved.db").rename(file)
            assert client.get("/readyz").status_code == 200

    def test_metrics(self, new_web_storage: NewStorage) -> None:
        with served(new_web_storage()) as server, server.client() as client:
            create(client, 'quo"te')
            for _ in range(2):
                client.get(f"{STUDIES}/quo%22te")
            client.get("/healthz", headers={"Host": "evil.example"})
            client.request("BREW", "/healthz")
            (ticket,) = client.post(f"{STUDIES}/quo%22te/ask", json={}).json()["tickets"]
            client.post(f"{STUDIES}/quo%22te/ask", json={})
            for reward in (0.5, 0.5, 1.0):
                told = {"results": [[ticket["id"], reward]]}
                client.post(f"{STUDIES}/quo%22te/tell", json=told)
            client.post(f"{STUDIES}/quo%22te/renew", json={"tickets": [ticket["id"]]})
            client.post(f"{STUDIES}/quo%22te/release", json={"worker": None})
            text = client.get("/metrics").text
        route = 'method="GET",route="/api/v1/studies/{name}"'
        for line in (
            f'oddarms_http_requests_total{{{route},status="200"}} 2.0',
            'oddarms_http_requests_total{method="GET",route="other",status="421"} 1.0',
            f"oddarms_http_request_seconds_count{{{route}}} 2.0",
            "oddarms_studies 1.0",
            "oddarms_open_tickets 0.0",
            'oddarms_leases_total{event="granted"} 2.0',
            'oddarms_leases_total{event="renewed"} 0.0',
            'oddarms_leases_total{event="released"} 1.0',
            "oddarms_waiting_asks 0.0",
            *(f'oddarms_results_total{{outcome="{outcome}"}} 1.0' for outcome in Told),
            "oddarms_open_studies 1.0",
        ):
            assert f"{line}\n" in text
        assert re.search(r'oddarms_storage_seconds_count{kind="write"} [1-9]', text)
        assert re.search(r"oddarms_storage_connections [0-9]", text)
        assert "quo" not in text
        assert "BREW" not in text

    def test_metrics_may_be_open(self, tmp_path: Path) -> None:
        with served(tmp_path / "s.db", open_metrics=True) as server, server.client("") as nobody:
            assert nobody.get("/metrics").status_code == 200

    def test_every_answer_is_described(self, client: httpx.Client) -> None:
        described = client.get("/api/v1/openapi.json").json()
        ask = described["paths"]["/api/v1/studies/{name}/ask"]["post"]
        assert ask["summary"] == "Ask"
        assert described["paths"]["/healthz"]["get"]["security"] == []
        for path, routes in described["paths"].items():
            for route in routes.values():
                for status, said in route["responses"].items():
                    for kind, content in said.get("content", {}).items():
                        problem = kind == "application/problem+json"
                        assert problem is (status >= "400"), (path, status)
                        assert content.get("schema") or kind != "application/json", (path, status)
        used = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(described)))
        assert used <= described["components"]["schemas"].keys()


class TestPrefixes:
    """Behind a proxy that serves it under a prefix."""

    @pytest.mark.parametrize("prefix", ["/odd", "odd/arms/", ""])
    def test_a_prefix(self, tmp_path: Path, prefix: str) -> None:
        clean = f"/{prefix.strip('/')}" if prefix else ""
        with served(tmp_path / "s.db", root_path=prefix) as server, server.client() as client:
            for before in {clean, ""}:  # the proxy has stripped it, or has not
                assert client.get(f"{before}/healthz").status_code == 200
                assert client.get(f"{before}{STUDIES}").json()["total"] == 0
            described = client.get(f"{clean}/api/v1/openapi.json").json()
            assert described["servers"] == [{"url": clean or "/"}]

    @pytest.mark.parametrize(
        "prefix",
        ["/studies", "api/x", "/team a", "/\u00e4", "/a?b", "/a/../b", "/a//b", "/.", "/a%20b"],
    )
    def test_one_that_addresses_cannot_have(self, tmp_path: Path, prefix: str) -> None:
        with pytest.raises(InvalidParameter, match="root_path cannot be"):
            create_app(tmp_path / "studies.db", Settings(root_path=prefix))
        assert not (tmp_path / "studies.db").exists()
