"""The pages' contract: who sees what, what they may do, and that labels are only text."""

from __future__ import annotations

import gzip
import html
import io
import json
import re
import shlex
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from starlette.testclient import TestClient
from typer.core import TyperGroup
from typer.main import get_command

import oddarms
from oddarms.cli._app import app as cli
from oddarms.server import create_app
from oddarms.server._tokens import Role
from tests.pages_server import HOSTILE, create, planted, work

HTML = {"accept": "text/html"}
STRANGE = 'a/b "<i>"'
PATHS = (
    "/",
    "/new",
    "/studies/crowd",
    "/studies/crowd/arms/0",
    "/studies/crowd/delete",
    f"/studies/{quote(STRANGE, safe='')}",
    f"/studies/{quote(STRANGE, safe='')}/arms/1",
    "/studies/nobody",
    "/api",
    "/nowhere",
)


@pytest.fixture(scope="module")
def app(new_storage: Callable[[], str]) -> Any:
    storage = new_storage()
    crowd = create(storage, "crowd", [f"test_{i}" for i in range(30)], k=2, margin=0.05)
    work(crowd, planted(30, 2), 5, 200)
    strange = create(storage, STRANGE, HOSTILE, k=1)
    work(strange, planted(8, 1), 2, 40)
    tickets = strange.ask(1, worker=HOSTILE[0])
    strange.tell(tickets[0], 1.0)
    strange.tell(tickets[0], 0.0, worker=HOSTILE[1])
    return create_app(storage)


def client_of(app: Any, role: Role = Role.ADMIN, study: str | None = None) -> TestClient:
    """Return a browser in which somebody has signed in."""
    client = TestClient(app, base_url="http://localhost", headers=HTML)
    token = app.state.oddarms.tokens.make(role, study=study)
    answer = client.post("/login", data={"token": token, "next": "/login"})
    assert answer.status_code == 200
    return client


@pytest.fixture(scope="module")
def admin(app: Any) -> Iterator[TestClient]:
    with client_of(app) as client:
        yield client


def csrf_in(text: str) -> str:
    found = re.search(r'name="csrf" value="(\w+)"', text)
    assert found
    return found[1]


@pytest.mark.parametrize("path", PATHS)
def test_pages_have_no_inline_scripts_or_styles_and_say_so(admin: TestClient, path: str):
    answer = admin.get(path)
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "script-src 'self'" in policy
    assert not re.search(r"<script(?![^>]*\bsrc=)", answer.text)
    assert not re.search(r"<style|\sstyle=|\son\w+=\"|javascript:", answer.text)
    assert answer.text.count("<h1") == 1
    assert answer.text.startswith("<!DOCTYPE html>\n<html lang=")


def test_hostile_labels_and_names_are_only_text(admin: TestClient):
    address = f"/studies/{quote(STRANGE, safe='')}"
    pages = [admin.get(path).text for path in ("/", address, f"{address}/arms/0")]
    pages += [
        admin.get(f"{address}/parts/{part}").text for part in ("arms", "workers", "conflicts")
    ]
    for page in pages:
        assert "<i>" not in page
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert "\u202e" not in page
    assert html.escape(HOSTILE[0], quote=False).replace('"', "&#34;") in pages[1]
    assert "49" not in re.findall(r"<bdi>(.*?)</bdi>", pages[1])
    picture = admin.get(f"{address}/picture.json")
    assert picture.headers["content-type"] == "application/json"
    assert set(picture.json()["labels"]) >= {HOSTILE[0], HOSTILE[1]}


def test_what_nobody_sees_is_shown(app: Any, admin: TestClient):
    study = create(app.state.oddarms.storage.name, "a\u3164b", ["\u200b\u200b", "x", "y"], k=1)
    work(study, [0.0, 0.0, 1.0], 1, 9)
    pages = [admin.get("/").text, admin.get(f"/studies/{quote(study.name)}").text]
    assert "<bdi>a\\u3164b</bdi>" in pages[0]
    assert "<bdi>\\u200b\\u200b</bdi>" in pages[1]
    assert not any(re.search(r"<bdi>[^<]*[\u200b\u3164][^<]*</bdi>", page) for page in pages)
    oddarms.delete_study(study.name, storage=app.state.oddarms.storage.name)


def test_the_api_is_described_on_a_page_of_the_site(admin: TestClient):
    page = admin.get("/api").text
    assert "POST /api/v1/studies/{name}/ask" in page
    assert "<dt><code>lease</code></dt><dd>number, by default 600. Seconds.</dd>" in page
    assert "<code>Question.from_dict</code>" in page
    assert "`" not in page
    assert '<main id="main">' in page
    assert 'aria-current="page">API' in page


def test_who_has_not_signed_in_is_sent_there_and_back(app: Any):
    client = TestClient(app, base_url="http://localhost", headers=HTML)
    answer = client.get("/studies/crowd?sort=mean")
    assert answer.url.path == "/login"
    wanted = re.search(r'name="next" value="([^"]*)"', answer.text)
    assert wanted
    assert html.unescape(wanted[1]) == "/studies/crowd?sort=mean"
    for path in ("/studies/crowd/picture.json", "/studies/crowd/download/arms.csv"):
        answer = client.get(path, headers={"accept": "application/json"})
        assert answer.status_code == 401
        assert answer.headers["content-type"] == "application/problem+json"


def test_a_wrong_token_stays_at_the_form_and_many_are_slowed_down(app: Any):
    client = TestClient(app, base_url="http://localhost", headers=HTML, client=("10.9.8.7", 1))
    for _ in range(10):
        answer = client.post("/login", data={"token": "x" * 30, "next": "/"})
        assert answer.status_code == 401
        assert "does not know that token" in answer.text
    answer = client.post("/login", data={"token": "x" * 30})
    assert answer.status_code == 429
    assert "Wait a minute" in answer.text


@pytest.mark.parametrize("name", ["a/b", "50%", "a%2Fb", "\u00e4 b?#"])
def test_signing_in_finds_the_way_to_any_name(tmp_path: Path, name: str):
    app = create_app(tmp_path / "s.db", root_path="/odd")
    create(tmp_path / "s.db", name, ["a", "b", "c"], k=1)
    address = f"/odd/studies/{quote(name, safe='')}"
    client = TestClient(app, base_url="http://localhost", headers=HTML)
    form = client.get(f"{address}?sort=mean")
    wanted = re.search(r'name="next" value="([^"]*)"', form.text)
    assert wanted
    token = app.state.oddarms.tokens.make(Role.READER)
    data = {"token": token, "next": html.unescape(wanted[1])}
    answer = client.post("/odd/login", data=data)
    assert (answer.status_code, str(answer.url)) == (200, f"http://localhost{address}?sort=mean")


def test_who_has_signed_in_goes_on(app: Any, admin: TestClient):
    wanted = "/login?next=/studies/crowd"
    assert 'id="go-on" href="/studies/crowd"' in admin.get(wanted).text
    assert 'id="go-on" href="/"' in admin.get("/login?next=//evil.example").text
    stranger = TestClient(app, base_url="http://localhost", headers=HTML)
    assert "go-on" not in stranger.get(wanted).text
    foreign = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert "data-ask-again" in stranger.get(wanted, headers=foreign).text
    assert "data-ask-again" not in stranger.get(wanted).text


@pytest.mark.parametrize("wanted", ["//evil.example/", "https://evil.example", "/\\evil.example"])
def test_signing_in_leads_to_no_other_site(app: Any, wanted: str):
    client = TestClient(app, base_url="http://localhost", follow_redirects=False)
    token = app.state.oddarms.tokens.make(Role.READER)
    answer = client.post("/login", data={"token": token, "next": wanted})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


def test_forms_of_other_sites_change_nothing(app: Any, admin: TestClient):
    for action in ("stop", "resume", "budget", "delete"):
        answer = admin.post(f"/studies/crowd/{action}", data={"again": "crowd", "budget": "1"})
        assert answer.status_code == 403
    assert admin.post("/new", data={"name": "x", "arms": "a\nb\nc"}).status_code == 403
    study = app.state.oddarms.studies.get("crowd")
    assert study.overview().stopped is None


def test_readers_and_workers_see_what_is_theirs(app: Any):
    reader = client_of(app, Role.READER)
    page = reader.get("/studies/crowd").text
    assert "Manage" not in page
    assert reader.get("/new").status_code == 403
    data = {"csrf": csrf_in(page)}
    assert reader.post("/studies/crowd/stop", data=data).status_code == 403
    worker = client_of(app, Role.WORKER, "crowd")
    assert worker.get("/").url.path == "/studies/crowd"
    assert worker.get(f"/studies/{quote(STRANGE, safe='')}").status_code == 404


def test_a_study_is_made_changed_and_deleted(app: Any, admin: TestClient):
    data = {
        "csrf": csrf_in(admin.get("/new").text),
        "name": "made/here",
        "arms": "a\nb\nc",
        "k": "1",
    }
    answer = admin.post("/new", data={**data, "delta": "7"})
    assert answer.status_code == 422
    assert "Permitted error must" in answer.text
    assert "a\nb\nc</textarea>" in answer.text
    answer = admin.post("/new", data=data)
    assert answer.url.raw_path == b"/studies/made%2Fhere"
    assert "Workers can begin" in answer.text
    assert "Workers can begin" not in admin.get("/studies/made%2Fhere").text
    assert admin.post("/new", data=data).status_code == 409
    base = "/studies/made%2Fhere"
    app.state.oddarms.studies.get("made/here").stop("no money")
    assert "no money" in admin.post(f"{base}/stop", data=data).text
    admin.post(f"{base}/resume", data=data)
    assert "stopped from the page" in admin.post(f"{base}/stop", data=data).text
    assert app.state.oddarms.studies.get("made/here").ask(1).status.value == "stopped"
    assert "The study goes on" in admin.post(f"{base}/resume", data=data).text
    answer = admin.post(f"{base}/budget", data={**data, "budget": "90"})
    assert "The budget is changed" in answer.text
    for typed, said in (("5", "but got 5"), ("", "got none: tick")):
        answer = admin.post(f"{base}/budget", data={**data, "budget": typed})
        assert answer.status_code == 422
        assert said in answer.text
        assert f'name="budget" value="{typed}"' in answer.text
        assert "No samples yet of 3 arms" in answer.text
    assert app.state.oddarms.studies.get("made/here").question.budget == 90
    for action in ("budget", "stop", "resume"):
        assert admin.get(f"{base}/{action}").url.raw_path == base.encode()
    assert (
        "The budget is changed"
        in admin.post(f"{base}/budget", data={**data, "budget": "", "unlimited": "1"}).text
    )
    assert app.state.oddarms.studies.get("made/here").question.budget is None
    assert admin.post(f"{base}/delete", data={**data, "again": "made"}).status_code == 422
    assert "is deleted" in admin.post(f"{base}/delete", data={**data, "again": "made/here"}).text
    assert admin.get(base).status_code == 404


def test_a_link_does_not_say_that_something_was_done(admin: TestClient):
    for word in ("stopped", "deleted", "created"):
        assert 'class="note good' not in admin.get(f"/studies/crowd?done={word}").text


def test_a_form_may_be_as_long_as_a_body(app: Any, admin: TestClient):
    labels = [f"host-{i:05d}.rack.example.org" for i in range(60_000)]
    data = {"csrf": csrf_in(admin.get("/new").text), "name": "long", "arms": "\n".join(labels)}
    files = {"file": ("", b"", "application/octet-stream")}
    assert admin.post("/new", data=data, files=files).status_code == 200
    assert app.state.oddarms.studies.get("long").n == 60_000
    data = {**data, "name": "longer", "arms": "x" * 17 * 2**20}
    answer = admin.post("/new", data=data, files=files)
    assert answer.status_code == 413
    assert answer.headers["content-type"].startswith("text/html")
    assert "Too large" in answer.text
    oddarms.delete_study("long", storage=app.state.oddarms.storage.name)


GIVEN = {"name": "typed", "arms": "a\nb\nc", "k": "1"}


def post_new(
    admin: TestClient, changes: Mapping[str, str], content: bytes = b"", name: str = "a.csv"
) -> Any:
    """Send the form for a new study."""
    data = {**GIVEN, **changes, "csrf": csrf_in(admin.get("/new").text)}
    files = {"file": (name if content else "", content, "application/octet-stream")}
    return admin.post("/new", data=data, files=files)


def made_study(app: Any, admin: TestClient, answer: Any) -> Any:
    """Return the question of the study that a form has made, and delete it."""
    assert answer.status_code == 200
    question = app.state.oddarms.studies.get("typed").question
    data = {"csrf": csrf_in(answer.text), "again": "typed"}
    assert admin.post("/studies/typed/delete", data=data).status_code == 200
    return question


def test_numbers_may_have_a_decimal_comma_or_groups_of_digits(app: Any, admin: TestClient):
    given = {"name": " typed ", "arms": "a\n\n b \nc", "budget": "12 000", "k": "1,5"}
    question = made_study(app, admin, post_new(admin, given))
    assert list(question.labels) == ["a", "b", "c"]
    assert (question.k, question.budget, question.margin) == (1.5, 12_000, 0.05)


@pytest.mark.parametrize(
    ("content", "name", "labels"),
    [
        (b"ann\nbob\ncy\n\n dee \n", "w.txt", ["ann", "bob", "cy", "dee"]),
        (b"\xef\xbb\xbfann\r\nbob\r\n", "w.csv", ["ann", "bob"]),
        (b"t[1,2]\nt[3,4]\n", "W.TXT", ["t[1,2]", "t[3,4]"]),
    ],
)
def test_labels_come_from_a_file(
    app: Any, admin: TestClient, content: bytes, name: str, labels: list[str]
):
    answer = post_new(admin, {"arms": "", "margin": "0"}, content, name)
    assert list(made_study(app, admin, answer).labels) == labels


def workbook(cells: int) -> bytes:
    """Return what begins like an Excel file."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("xl/worksheets/sheet1.xml", "<c><v>0</v></c>" * cells)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("changes", "content", "name", "said"),
    [
        ({"arms": ""}, b"", "", "Arms are missing"),
        ({}, b"a\nb\n", "a.txt", "leave one of them out"),
        ({"arms": ""}, gzip.compress(b"a\n" * 2**24), "a.gz", "must be text in UTF-8"),
        ({"arms": ""}, workbook(10**6), "a.txt", "must be text in UTF-8"),
        ({"arms": ""}, b"name\nJos\xe9\n", "a.txt", "must be text in UTF-8"),
        ({"arms": ""}, b"worker;wrong\nann;0\n", "a.csv", "no other columns"),
        (
            {"high": "1,000"},
            b"",
            "",
            "Largest reward must .* got &#39;1,000&#39;: write 1000 or 1.000",
        ),
        ({"low": "-2,500"}, b"", "", "write -2500 or -2.500"),
        ({"k": "x"}, b"", "", "K must be a number but got &#39;x&#39;"),
        ({"delta": "2"}, b"", "", "Permitted error must"),
        ({"arms": "\n".join(map(str, range(100_001)))}, b"", "", "at most 100,000 over HTTP"),
        ({"budget": "many"}, b"", "", "Budget must be a whole number"),
        ({"budget": "1,5"}, b"", "", "Budget must be a whole number"),
        ({"budget": "9" * 31}, b"", "", "Budget must be a whole number of at most"),
        ({"low": "1", "high": "0"}, b"", "", "Smallest and largest reward must"),
        ({"side": "left"}, b"", "", "Side must"),
        ({"arms": "a\na"}, b"", "", "Labels must be unique"),
    ],
)
def test_a_form_says_what_is_wrong_with_it(
    admin: TestClient, changes: dict[str, str], content: bytes, name: str, said: str
):
    began = time.monotonic()
    answer = post_new(admin, changes, content, name)
    assert answer.status_code == 422
    assert re.search(said, answer.text)
    assert time.monotonic() - began < 10.0


def test_parts_data_and_files_answer(app: Any, admin: TestClient):
    for part in ("summary", "arms", "decisions", "workers", "conflicts", "trace", "manage"):
        text = admin.get(f"/studies/crowd/parts/{part}").text
        assert text.strip().startswith("<div" if part == "trace" else "<section")
    assert admin.get("/studies/crowd/parts/nothing").status_code == 404
    assert admin.get("/studies/crowd/arms/30").status_code == 404
    assert admin.get("/studies/crowd/arms/0/part").status_code == 200
    result = app.state.oddarms.studies.get("crowd").result()
    series = admin.get("/studies/crowd/series.json").json()
    assert series["pulls"][-1] == result.pulls
    assert admin.get("/studies/crowd/picture.json?width=5").json()["n"] == 30
    assert admin.get("/studies/crowd/picture.svg").headers["content-type"] == "image/svg+xml"
    arm = admin.get("/studies/crowd/arms/2/series.json").json()
    assert arm["total"] == int(result.pulls_per_arm[2] + result.imported_per_arm[2])
    document = admin.get("/studies/crowd/download/result.json")
    assert document.json() == json.loads(json.dumps(result.to_dict()))
    assert 'attachment; filename="crowd.json"' in document.headers["content-disposition"]
    table = admin.get(f"/studies/{quote(STRANGE, safe='')}/download/arms.csv").text
    assert "'=cmd|" in table


def test_the_page_of_an_arm_agrees_with_itself(tmp_path: Path):
    study = create(tmp_path / "s.db", "s", [f"a{i}" for i in range(6)], k=1)
    work(study, planted(6, 1), 7, 20)
    for ticket in study.ask(30):  # some of a step that others hold back
        if ticket.index:
            study.tell(ticket, 0.0)
    with client_of(create_app(tmp_path / "s.db")) as client:
        used = study.result().pulls_per_arm
        recorded = [sum(trial.arm == f"a{i}" for trial in study.trials()) for i in range(6)]
        assert any(recorded[i] > used[i] for i in range(6))
        for arm in range(6):
            page = client.get(f"/studies/s/arms/{arm}").text
            series = client.get(f"/studies/s/arms/{arm}/series.json").json()
            assert series["total"] == used[arm]
            assert f"<dt>Samples used</dt><dd>{used[arm]}<" in page
            waiting = recorded[arm] - int(used[arm])
            assert ("more recorded, not used yet" in page) == (waiting > 0)
            cells = re.findall(r'<tr><td class="number">(.*?)</td>', page)
            numbers = [int(cell) for cell in cells if cell.isdigit()]
            assert numbers == list(range(used[arm], used[arm] - len(numbers), -1))
            assert len(cells) - len(numbers) == min(waiting, 50)
            assert "This is right" not in page


def test_workers_of_many_results_are_counted_behind_the_page(
    app: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("oddarms.server.pages._study_page.COUNTED_AT_ONCE", 10)
    with client_of(create_app(app.state.oddarms.storage.name)) as fresh:
        page = fresh.get("/studies/crowd").text
        assert "worker 0" not in page
        assert 'hx-trigger="load, pulse from:body"' in page
        found = re.search(r'<noscript><p><a href="([^"]+)#workers">', page)
        assert found
        assert "worker 0" in fresh.get(html.unescape(found[1])).text
        assert "worker 0" in fresh.get("/studies/crowd").text  # few are left to be counted


@pytest.mark.long
def test_the_first_view_of_a_hundred_thousand_arms_is_quick(tmp_path: Path):
    labels = [f"host {i}" for i in range(100_000)]
    study = create(tmp_path / "s.db", "s", labels, k=2, margin=0.05)
    rewards = np.random.default_rng(1).random(200_000)
    for _ in range(8):
        tickets = study.ask(25_000, worker="w")
        study.tell_many([(t, rewards[i]) for i, t in enumerate(tickets)])
    study.ask(1)  # saves the state
    taken = []
    for _ in range(3):
        with client_of(create_app(tmp_path / "s.db")) as client:
            client.get("/")
            began = time.process_time()
            assert client.get("/studies/s").status_code == 200
            taken.append(time.process_time() - began)
    assert min(taken) < 0.3, taken


@pytest.mark.long
def test_the_report_is_a_page_to_keep(admin: TestClient):
    answer = admin.get(f"/studies/{quote(STRANGE, safe='')}/download/report.html")
    assert answer.status_code == 200
    assert "attachment" in answer.headers["content-disposition"]
    assert "<script" not in answer.text


def test_assets_are_kept_by_browsers_and_small(admin: TestClient):
    page = admin.get("/").text
    addresses = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
    assert len(addresses) >= 5
    total = 0
    for address in addresses:
        answer = admin.get(html.unescape(address))
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        total += len(answer.content)
    assert total < 200_000
    assert admin.get("/static/../_app.py").status_code == 404


def test_a_prefix_is_in_every_address(tmp_path: Path):
    app = create_app(tmp_path / "s.db", root_path="/odd")
    create(tmp_path / "s.db", "s", ["a", "b", "c"], k=1)
    client = TestClient(app, base_url="http://localhost", headers=HTML)
    token = app.state.oddarms.tokens.make(Role.ADMIN)
    answer = client.post("/odd/login", data={"token": token, "next": "/studies/s"})
    assert answer.url.path == "/odd/studies/s"
    addresses = re.findall(r'(?:src|href|action|hx-get|data-\w+)="(/[^"]*)"', answer.text)
    assert len(addresses) > 20
    assert all(address.startswith("/odd/") for address in addresses)


def test_many_studies_are_searched_and_paged(tmp_path: Path):
    for number in range(60):
        create(tmp_path / "s.db", f"study {number:02d}", ["a", "b", "c"], k=1)
    client = client_of(create_app(tmp_path / "s.db"))
    first = client.get("/").text
    assert "1 to 50 of 60 studies" in first
    assert "study 59" in first
    last = client.get("/?page=2").text
    assert "51 to 60 of 60 studies" in last
    assert "51 to 60 of 60" in client.get("/?page=99").text
    found = client.get("/?q=study+1").text
    assert "1 to 10 of 10 studies" in found
    assert "No study is called like that" in client.get("/?q=zzz<b>").text


def shown_commands(page: str) -> list[list[str]]:
    """Return the words of each command in the boxes of a page."""
    boxes = re.findall(r"<pre><code>(.*?)</code></pre>", page, re.DOTALL)
    return [shlex.split(line) for box in boxes for line in html.unescape(box).splitlines()]


def understood(words: list[str]) -> dict[str, Any]:
    """Return what the command line makes of a command, without running it."""
    command, rest, context = get_command(cli), words[1:], None
    while True:
        context = command.make_context(words[0], list(rest), parent=context)
        if not isinstance(command, TyperGroup):
            return context.params
        _, command, rest = command.resolve_command(context, context._protected_args + context.args)


@pytest.mark.parametrize("name", ["crowd", "it's; rm -rf ~ $(id)", "--help"])
def test_the_commands_that_pages_show_work(tmp_path: Path, name: str):
    client = client_of(create_app(tmp_path / "s.db"))
    commands = shown_commands(client.get("/").text)
    create(tmp_path / "s.db", name, ["a", "b", "c"], k=1)
    commands += shown_commands(client.get(f"/studies/{quote(name, safe='')}").text)
    assert [words[2] for words in commands] == ["create", "work", "work"]
    options = [understood(words) for words in commands]
    assert {option["storage"] for option in options} == {"http://localhost"}
    assert options[0]["arms"] == "workers.txt"
    assert [option["pull"] for option in options[1:]] == ["./probe {arm}"] * 2
    assert [option["name"] for option in options] == ["crowd", "crowd", name]


def test_an_empty_server_says_how_to_begin(tmp_path: Path):
    client = client_of(create_app(tmp_path / "s.db"))
    page = client.get("/").text
    assert "No studies yet" in page
    assert "oddarms study create" in page
    oddarms.create_study("new", ["a", "b", "c"], k=1, storage=tmp_path / "s.db")
    page = client.get("/studies/new").text
    assert "Nobody works on this yet" in page
    assert "No arm is decided yet" in page
