"""The HTTP API as a client in any language sees it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from oddarms import create_study, load_study
from oddarms.errors import InvalidParameter
from oddarms.server import create_app
from oddarms.server._tokens import Role

BASE = "/api/v1/studies"


@pytest.fixture
def storage(new_storage: Callable[[], str]) -> str:
    return new_storage()


@pytest.fixture
def app(storage: str) -> Any:
    return create_app(storage)


@pytest.fixture
def client(app: Any) -> Iterator[TestClient]:
    client = TestClient(app, base_url="http://localhost", raise_server_exceptions=False)
    client.headers["authorization"] = f"Bearer {app.state.oddarms.tokens.make(Role.ADMIN)}"
    yield client
    app.state.oddarms.storage.database.close()


@pytest.fixture(scope="module")
def client_of_many(new_storage: Callable[[], str]) -> Iterator[TestClient]:
    """A client, and a study "s", for tests that change nothing."""
    app = create_app(new_storage())
    client = TestClient(app, base_url="http://localhost", raise_server_exceptions=False)
    client.headers["authorization"] = f"Bearer {app.state.oddarms.tokens.make(Role.ADMIN)}"
    create(client)
    yield client
    app.state.oddarms.storage.database.close()


def create(client: TestClient, name: str = "s", **words: Any) -> Any:
    body = {"name": name, "arms": ["a", "b", "c"], "k": 1, "seed": 1, **words}
    response = client.post(BASE, json=body)
    assert response.status_code == 201, response.text
    return response.json()


def test_what_is_decided_is_said_of_the_moment_of_the_tickets(
    client: TestClient, app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(client)
    asked = {"done": False}
    while not asked["done"]:
        asked = client.post(f"{BASE}/s/ask", json={"n": 40}).json()
        results = [[one["id"], float(one["arm"] == "c")] for one in asked["tickets"]]
        client.post(f"{BASE}/s/tell", json={"results": results})
    study = app.state.oddarms.studies.opened("s")
    ask = study.ask

    def ask_before_somebody_looks(*arguments: Any, **options: Any) -> Any:
        tickets = ask(*arguments, **options)
        study._log._search = None  # as long as another thread reads what is new
        return tickets

    monkeypatch.setattr(study, "ask", ask_before_somebody_looks)
    assert client.post(f"{BASE}/s/ask", json={}).json()["decided"] == 3


def test_a_worker_with_nothing_but_http(client: TestClient, storage: str) -> None:
    create(client, algorithm="rr", options={"batch": 2}, budget=12)
    done = False
    while not done:
        asked = client.post(f"{BASE}/s/ask", json={"n": 4, "worker": "curl"}).json()
        done = asked["done"]
        results = [[ticket["id"], 0.5] for ticket in asked["tickets"]]
        told = client.post(f"{BASE}/s/tell", json={"results": results})
        assert told.json() == {"told": ["recorded"] * len(results)}
    result = client.get(f"{BASE}/s/result").json()
    assert (result["status"], result["pulls"]) == ("budget", 12)
    stored = load_study("s", storage=storage)
    assert stored.result().to_dict() == result
    assert [trial.worker for trial in stored.trials()] == ["curl"] * 12


def test_every_answer_of_reading(client: TestClient) -> None:
    create(client)
    ticket = client.post(f"{BASE}/s/ask", json={"worker": "w"}).json()["tickets"][0]
    told = client.post(f"{BASE}/s/tell", json={"ticket": ticket["id"], "reward": True})
    assert told.json() == {"told": ["recorded"]}
    found = {
        what: client.get(f"{BASE}/s/{what}").json()
        for what in (
            *("question", "progress", "status", "pulse", "trials", "conflicts"),
            *("revisions", "workers", "verify"),
        )
    }
    assert found["question"]["labels"] == ["a", "b", "c"]
    assert found["progress"]["pulls"] == 1
    assert found["status"] == {"status": "running", "done": False}
    assert found["trials"]["trials"][0]["ticket"] == ticket["id"]
    assert found["trials"]["next"] is None
    assert found["workers"]["workers"][0]["pulls"] == 1
    assert found["verify"]["ok"]
    overview = client.get(f"{BASE}/s").json()
    assert (overview["results"], overview["seed"]) == (1, "1")
    assert "storage" not in overview
    assert overview["pulse"] == found["pulse"]["pulse"]


def test_an_export_is_a_stream_of_all(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oddarms.server.api._reading.EXPORTED_AT_A_TIME", 4)
    create(client, name="a,b", algorithm="rr", options={"batch": 5})
    address = f"{BASE}/{quote('a,b', safe='')}"
    tickets = client.post(f"{address}/ask", json={"n": 10}).json()["tickets"]
    client.post(f"{address}/tell", json={"results": [[t["id"], 1] for t in tickets]})
    lines = client.get(f"{address}/export").text.splitlines()
    assert lines[0].startswith("number,ticket,arm,place,reward")
    assert len(lines) == 11
    response = client.get(f"{address}/export?format=jsonl")
    rows = [json.loads(line) for line in response.text.splitlines()]
    assert [row["ticket"] for row in rows] == [ticket["id"] for ticket in tickets]
    assert response.headers["content-disposition"] == "attachment; filename*=UTF-8''a%2Cb.jsonl"
    trials = client.get(f"{address}/trials?most=4").json()
    rest = client.get(f"{address}/trials?after={trials['next']}").json()
    assert trials["trials"] + rest["trials"] == rows


def test_a_result_that_is_known_is_not_sent_again(client: TestClient) -> None:
    create(client)
    first = client.get(f"{BASE}/s/result")
    tag = first.headers["etag"]
    again = client.get(f"{BASE}/s/result", headers={"If-None-Match": f'"x", W/{tag}'})
    assert (again.status_code, again.content) == (304, b"")
    client.post(f"{BASE}/s/ask", json={})
    assert client.get(f"{BASE}/s/result", headers={"If-None-Match": tag}).status_code == 200
    assert first.headers["cache-control"] == again.headers["cache-control"] == "private, no-cache"


def test_answers_are_packed(client: TestClient) -> None:
    create(client, arms=200)
    packed = client.get(f"{BASE}/s/result")
    assert packed.headers["content-encoding"] == "gzip"
    assert (
        "content-encoding"
        not in client.get(f"{BASE}/s/result", headers={"Accept-Encoding": "identity"}).headers
    )


@pytest.mark.parametrize("plain", [True, False])
def test_a_batch_is_told_alike_on_both_ways(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, *, plain: bool
) -> None:
    """Batches that are as they must be take a shorter way; what comes of them is the same."""
    if not plain:
        monkeypatch.setattr("oddarms.server.api._plain_tells._is_plain", lambda _given: False)
    create(client)
    asked = client.post(f"{BASE}/s/ask", json={"n": 4}).json()["tickets"]
    ids = [one["id"] for one in asked]
    tell = partial(client.post, f"{BASE}/s/tell")
    batch = [[ids[0], 1], [ids[1], 0.0], [ids[0], 1.0], [ids[1], 1]]
    first = tell(json={"results": batch, "worker": "w"})
    assert first.json() == {"told": ["recorded", "recorded", "repeated", "conflict"]}
    assert (first.status_code, first.headers["content-type"]) == (200, "application/json")
    refused = (
        ([[ids[2], 7]], 422, "reward-rejected"),
        ([[ids[2], "1"]], 422, "reward-rejected"),
        ([[ids[2], float("nan")]], 422, "reward-rejected"),
        ([["17-mzxw6ytboi4dgnbt", 1]], 422, "invalid-parameter"),
        ([["x" * 61, 1]], 422, "invalid-request"),
        ([[ids[2], 1, 1]], 422, "invalid-request"),
        ({"a": 1}, 422, "invalid-request"),
    )
    for results, status, code in refused:
        body = json.dumps({"results": results})
        answer = tell(content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert tell(json={"results": []}).json() == {"told": []}
    assert tell(json={"results": batch, "more": 1}).status_code == 422
    assert tell(json={"results": batch}, headers={"Authorization": "none"}).status_code == 401
    assert [one["worker"] for one in client.get(f"{BASE}/s/trials").json()["trials"]] == ["w"] * 2
    counted = f'route="{BASE}/{{name}}/tell",status="200"}} 2'
    assert counted in client.get("/metrics").text
    client.delete(f"{BASE}/s")
    assert tell(json={"results": batch}).json()["code"] == "unknown-study"


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
        ("POST", "", {"name": "a\nb", "arms": 3}, 422, "invalid-parameter"),
        ("POST", "", {"name": "t", "arms": 3, "seed": "x"}, 422, "invalid-parameter"),
        ("POST", "", {"name": "t", "arms": 3, "seed": -1}, 422, "invalid-parameter"),
        ("POST", "", {"name": "t", "arms": 10**12}, 422, "invalid-parameter"),
        ("POST", "", {"name": "t", "arms": list(range(1, 100_002))}, 422, "invalid-parameter"),
        ("POST", "", {"name": "t", "arms": 100_001}, 422, "invalid-parameter"),
        ("POST", "", {"name": "t", "arms": ["a", "a"]}, 422, "invalid-parameter"),
        ("POST", "", {"name": "t", "arms": [None, True]}, 422, "invalid-request"),
        ("POST", "/s/ask", {"n": 0}, 422, "invalid-request"),
        ("POST", "/s/ask", {"lease": -1}, 422, "invalid-request"),
        ("POST", "/s/tell", {}, 422, "invalid-parameter"),
        ("POST", "/s/tell", {"ticket": "x", "reward": 1}, 422, "invalid-parameter"),
        ("POST", "/s/tell", {"results": [["x", 7]]}, 422, "invalid-parameter"),
        ("POST", "/s/skip", {}, 422, "invalid-parameter"),
        ("POST", "/s/import", {"rewards": {"x": [1]}}, 422, "invalid-parameter"),
        ("POST", "/s/import", {"rewards": [["a", [1]], ["a", [1]]]}, 422, "invalid-parameter"),
        ("POST", "/s/import", {"rewards": {"a": [7]}}, 422, "reward-rejected"),
        ("POST", "/s/revise", {"k": 3}, 422, "invalid-parameter"),
        ("POST", "/s/revise", {"a b": 3}, 422, None),
        ("GET", "/s/trials?most=0", None, 422, "invalid-request"),
    ],
)
def test_errors_are_problems(
    client_of_many: TestClient, method: str, path: str, body: Any, status: int, code: str | None
) -> None:
    response = client_of_many.request(method, BASE + path, json=body)
    problem = response.json()
    assert response.headers["content-type"] == "application/problem+json", response.text
    assert (response.status_code, problem["status"]) == (status, status), response.text
    assert code is None or problem["code"] == code
    assert re.fullmatch(r"[^\n]{10,}\.", problem["detail"])


def test_a_server_that_fails_says_little(
    client: TestClient, app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(client)
    study = app.state.oddarms.studies.get("s")
    monkeypatch.setattr(type(study), "progress", lambda _: 1 / 0)
    response = client.get(f"{BASE}/s/progress")
    assert (response.status_code, response.json()["code"]) == (500, "failed")
    assert "zero" not in response.text


def test_where_the_storage_is_stays_with_the_server(client: TestClient, storage: str) -> None:
    create(client)
    response = client.post(BASE, json={"name": "s", "arms": 3})
    assert "the storage of the server has a study" in response.json()["detail"]
    assert storage not in response.text


def test_a_study_made_anew_elsewhere_is_the_one_that_is_served(
    client: TestClient, storage: str
) -> None:
    create(client)
    client.post(f"{BASE}/s/ask", json={})
    from oddarms import delete_study

    delete_study("s", storage=storage)
    assert client.get(f"{BASE}/s/progress").status_code == 404
    create_study("s", ["x", "y"], storage=storage)
    assert client.get(f"{BASE}/s/question").json()["labels"] == ["x", "y"]


def test_the_list_has_pages(client: TestClient) -> None:
    for i in range(5):
        create(client, name=f"study {i}")
    page = client.get(BASE, params={"most": 2, "skip": 2}).json()
    assert ([one["name"] for one in page["studies"]], page["total"]) == (["study 2", "study 3"], 5)
    found = client.get(BASE, params={"search": "Y 4"}).json()
    assert [one["name"] for one in found["studies"]] == ["study 4"]


def test_health_metrics_and_descriptions(client: TestClient) -> None:
    nobody = {"authorization": ""}
    assert client.get("/healthz", headers=nobody).json() == {"status": "ok"}
    assert client.get("/metrics", headers=nobody).status_code == 401
    create(client, name='quo"te')
    client.get(f"{BASE}/quo%22te")
    metrics = client.get("/metrics").text
    assert 'route="/api/v1/studies/{name}",status="200"} 1' in metrics
    assert "oddarms_studies 1" in metrics
    assert "quo" not in metrics
    described = client.get("/api/v1/openapi.json").json()
    assert described["paths"]["/api/v1/studies/{name}/ask"]["post"]["summary"] == "Ask for pulls"
    page = client.get("/api").text
    assert "/api/v1/studies/{name}/tell" in page
    assert "http" not in page.replace("The HTTP API", "").replace("https", "").lower()


def test_metrics_may_be_open(tmp_path: Path) -> None:
    app = create_app(tmp_path / "studies.db", open_metrics=True)
    assert TestClient(app, base_url="http://localhost").get("/metrics").status_code == 200


@pytest.mark.parametrize("prefix", ["/odd", "odd/arms/", ""])
def test_behind_a_proxy_with_a_prefix(tmp_path: Path, prefix: str) -> None:
    app = create_app(tmp_path / "studies.db", root_path=prefix)
    client = TestClient(app, base_url="http://localhost")
    client.headers["authorization"] = f"Bearer {app.state.oddarms.tokens.make(Role.ADMIN)}"
    clean = f"/{prefix.strip('/')}" if prefix else ""
    for before in {clean, ""}:  # the proxy has stripped it, or has not
        assert client.get(f"{before}/healthz").status_code == 200
        assert client.get(f"{before}{BASE}").json()["total"] == 0
    described = client.get(f"{clean}/api/v1/openapi.json").json()
    assert described["servers"] == [{"url": clean or "/"}]


def test_it_can_be_mounted(tmp_path: Path) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    inner = create_app(tmp_path / "studies.db")
    outer = Starlette(routes=[Mount("/inner", app=inner)])
    client = TestClient(outer, base_url="http://localhost")
    client.headers["authorization"] = f"Bearer {inner.state.oddarms.tokens.make(Role.ADMIN)}"
    assert client.get("/inner/healthz").status_code == 200
    assert client.get(f"/inner{BASE}").json() == {"studies": [], "total": 0}
    create_study("a/b", ["x", "y"], k=0.5, storage=tmp_path / "studies.db")
    assert client.get(f"/inner{BASE}/a%2Fb/status").json()["status"] == "running"


@pytest.mark.parametrize(
    "prefix",
    ["/studies", "api/x", "/team a", "/\u00e4", "/a?b", "/a/../b", "/a//b", "/.", "/a%20b"],
)
def test_a_prefix_that_no_address_can_have(tmp_path: Path, prefix: str) -> None:
    with pytest.raises(InvalidParameter, match="root-path must be made of"):
        create_app(tmp_path / "studies.db", root_path=prefix)
    assert not (tmp_path / "studies.db").exists()


@pytest.mark.parametrize(
    ("root_path", "outside"),
    [("", "/odd"), ("/outer", "/outer/odd"), ("/outer/odd", "/outer/odd"), ("/odd", "/odd")],
)
def test_a_mount_behind_a_proxy(tmp_path: Path, root_path: str, outside: str) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    inner = create_app(tmp_path / "studies.db", root_path=root_path)
    client = TestClient(Starlette(routes=[Mount("/odd", app=inner)]), base_url="http://localhost")
    described = client.get("/odd/api/v1/openapi.json").json()
    assert described["servers"] == [{"url": outside}]
    page = client.get("/odd/", headers={"Accept": "text/html"}, follow_redirects=False)
    assert page.headers["location"] == f"{outside}/login"


def test_a_slash_at_the_end_means_nothing(client: TestClient) -> None:
    create(client, name="a/b 50%")
    for path in (
        f"{BASE}/a%2Fb%2050%25/status/",
        f"{BASE}/",
        "/healthz/",
        "/studies/a%2Fb%2050%25/",
    ):
        assert client.get(path, follow_redirects=False).status_code == 200, path


def test_only_the_head_is_wanted(client: TestClient) -> None:
    create(client)
    for path in (
        "/healthz",
        "/login",
        "/api",
        f"{BASE}/s/result",
        f"{BASE}/s/events",
        "/static/app.js",
    ):
        said = client.head(path)
        assert (said.status_code, said.content) == (200, b""), path
    assert client.head("/healthz").headers["content-length"] == "15"
    assert client.head(f"{BASE}/nobody").status_code == 404


def test_messages_say_what_to_send(client: TestClient) -> None:
    create(client)
    cases: list[tuple[bytes, dict[str, str], int, str]] = [
        (
            b'{"n": 1}',
            {"Content-Type": "application/x-www-form-urlencoded"},
            415,
            "send the header",
        ),
        (b'{"n": 1}', {"Content-Type": ""}, 415, "application/json but is missing"),
        (b'{"n": 1', {}, 400, "must be JSON but is not"),
        (b"\x1f\x8b", {"Content-Encoding": "gzip"}, 415, "send the body as it is"),
        (b'{"worker": "\xff"}', {}, 400, "must be JSON in UTF-8"),
        (b"[]", {}, 422, "the body is not as it must be"),
    ]
    for body, headers, status, said in cases:
        given = {"Content-Type": "application/json", **headers}
        response = client.post(f"{BASE}/s/ask", content=body, headers=given)
        assert (response.status_code, said in response.json()["detail"]) == (status, True), (
            response.text
        )
    many = client.post(BASE, json={"name": "t", "arms": 100_001}).json()["detail"]
    assert "oddarms study create" in many
    unclear = client.post(BASE, json={"name": "t", "arms": None}).json()["detail"]
    assert unclear.startswith("arms is not as it must be: Input should be a valid list; or: ")


def test_every_answer_is_described(client: TestClient) -> None:
    described = client.get("/api/v1/openapi.json").json()
    assert described["paths"]["/healthz"]["get"]["security"] == []
    for path, routes in described["paths"].items():
        for route in routes.values():
            for status, said in route["responses"].items():
                for kind, content in said.get("content", {}).items():
                    problem = kind == "application/problem+json"
                    assert problem is (status >= "400"), (path, status)
                    assert content.get("schema") or kind != "application/json", (path, status)
    schemas = described["components"]["schemas"]
    used = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(described)))
    assert used <= schemas.keys()


def test_a_file_that_has_gone_is_no_health(tmp_path: Path) -> None:
    client = TestClient(create_app(tmp_path / "studies.db"), base_url="http://localhost")
    assert client.get("/healthz").status_code == 200
    (tmp_path / "studies.db").rename(tmp_path / "moved.db")
    said = client.get("/healthz")
    assert said.status_code >= 500
    assert "removed or replaced" in said.json()["detail"]
    (tmp_path / "moved.db").rename(tmp_path / "studies.db")
    assert client.get("/healthz").status_code == 200
