"""The pages over HTTP: what they show and to whom, forms, files, and that labels are only text."""

from __future__ import annotations

import html
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from starlette.testclient import TestClient

import oddarms
from helpers import quick_and_long
from oddarms.cli import main
from oddarms.search import Result, facts, headline
from oddarms.server import Role, Settings, Tokens, create_app
from oddarms.studies import Study
from postgresql import NewStorage
from servers import served
from tests.pages_server import HOSTILE, create, planted, work

HTML = {"accept": "text/html"}
STRANGE = 'a/b "<i>"'
STRANGE_PATH = f"/studies/{quote(STRANGE, safe='')}"
PATHS = (
    "/",
    "/new",
    "/studies/crowd",
    "/studies/crowd/arms/0",
    STRANGE_PATH,
    f"{STRANGE_PATH}/arms/1",
    "/studies/nobody",
    "/nowhere",
)


class Site:
    """An application, the location of its storage, and browsers in which somebody signed in."""

    def __init__(self, storage: str | Path, **options: Any) -> None:
        self.storage = str(storage)
        self.app = create_app(storage, Settings(**options))
        self.tokens = Tokens.opened(storage)

    def client(self, role: Role = Role.ADMIN, study: str | None = None) -> TestClient:
        client = self.stranger()
        token = self.tokens.make(role, study=study)
        assert client.post("/login", data={"token": token, "next": "/login"}).status_code == 200
        return client

    def stranger(self) -> TestClient:
        return TestClient(self.app, base_url="http://localhost", headers=HTML)

    def study(self, name: str) -> Study:
        return oddarms.load_study(name, storage=self.storage)


@pytest.fixture(scope="module")
def site(new_web_storage: NewStorage) -> Site:
    storage = new_web_storage()
    crowd = create(storage, "crowd", [f"test_{i}" for i in range(30)], k=2)
    work(crowd, planted(30, 2), 5, 200)
    strange = create(storage, STRANGE, HOSTILE, k=1)
    work(strange, planted(8, 1), 2, 40)
    for ticket in strange.ask(10, worker=HOSTILE[0]):
        strange.tell(ticket, 1.0)
        for reward in (0.0, 0.1, 0.2, 0.3):
            strange.tell(ticket, reward, worker=HOSTILE[1])
    return Site(storage)


@pytest.fixture(scope="module")
def admin(site: Site) -> Iterator[TestClient]:
    with site.client() as client:
        yield client


def csrf_in(text: str) -> str:
    found = re.search(r'name="csrf" value="(\w+)"', text)
    assert found
    return found[1]


def text_of(page: str) -> str:
    """Return a page without tags, in one line."""
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", page)).split())


# What everybody relies on


def test_pages_have_no_inline_scripts_or_styles(admin: TestClient):
    for path in PATHS:
        answer = admin.get(path)
        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "script-src 'self'" in policy
        assert not re.search(r"<script(?![^>]*\bsrc=)", answer.text)
        assert not re.search(r"<style|\sstyle=|\son\w+=\"|javascript:", answer.text)
        assert answer.text.count("<h1") == 1
        assert answer.text.startswith("<!DOCTYPE html>\n<html lang=")


def test_hostile_labels_and_names_are_only_text(admin: TestClient):
    pages = [admin.get(path).text for path in ("/", STRANGE_PATH, f"{STRANGE_PATH}/arms/0")]
    for page in pages:
        assert not re.search("<i>|<script>alert|<img src=x|\u202e", page)
    assert html.escape(HOSTILE[0], quote=False).replace('"', "&#34;") in pages[1]
    assert "49" not in re.findall(r"<bdi>(.*?)</bdi>", pages[1])
    picture = admin.get(f"{STRANGE_PATH}/picture.json")
    assert picture.headers["content-type"] == "application/json"
    assert set(picture.json()["labels"]) >= {HOSTILE[0], HOSTILE[1]}


def test_invisible_characters_are_shown(site: Site, admin: TestClient):
    study = create(site.storage, "a\u3164b", ["\u200b\u200b", "x", "y"], k=1)
    pages = [admin.get("/").text, admin.get(f"/studies/{quote(study.name)}").text]
    assert "<bdi>a\\u3164b</bdi>" in pages[0]
    assert "<bdi>\\u200b\\u200b</bdi>" in pages[1]
    assert not any(re.search(r"<bdi>[^<]*[\u200b\u3164][^<]*</bdi>", page) for page in pages)
    oddarms.delete_study(study.name, storage=site.storage)


def test_a_prefix_is_in_every_address(tmp_path: Path):
    site = Site(tmp_path / "s.db", root_path="/odd")
    create(site.storage, "s", ["a", "b", "c"], k=1)
    data = {"token": site.tokens.make(Role.ADMIN), "next": "/studies/s"}
    answer = site.stranger().post("/odd/login", data=data)
    assert answer.url.path == "/odd/studies/s"
    addresses = re.findall(r'(?:src|href|action|data-\w+)="(/[^"]*)"', answer.text)
    assert len(addresses) > 20
    assert all(address.startswith("/odd/") for address in addresses)


# Signing in


def test_a_stranger_is_sent_to_the_form_and_back(site: Site):
    client = site.stranger()
    answer = client.get("/studies/crowd?sort=mean")
    assert answer.url.path == "/login"
    wanted = re.search(r'name="next" value="([^"]*)"', answer.text)
    assert wanted
    assert html.unescape(wanted[1]) == "/studies/crowd?sort=mean"
    for path in ("/studies/crowd/picture.json", "/studies/crowd/download/arms.csv"):
        answer = client.get(path, headers={"accept": "application/json"})
        assert answer.status_code == 401
        assert answer.headers["content-type"] == "application/problem+json"
    answer = client.post("/login", data={"token": "x" * 30, "next": "/"})
    assert answer.status_code == 401
    assert 'role="alert"' in answer.text


@pytest.mark.parametrize("name", ["a%2Fb", "50% a/b \u00e4?#"])
def test_signing_in_finds_the_way_to_any_name(tmp_path: Path, name: str):
    site = Site(tmp_path / "s.db", root_path="/odd")
    create(site.storage, name, ["a", "b", "c"], k=1)
    address, client = f"/odd/studies/{quote(name, safe='')}", site.stranger()
    wanted = re.search(r'name="next" value="([^"]*)"', client.get(f"{address}?sort=mean").text)
    assert wanted
    data = {"token": site.tokens.make(Role.READER), "next": html.unescape(wanted[1])}
    answer = client.post("/odd/login", data=data)
    assert (answer.status_code, str(answer.url)) == (200, f"http://localhost{address}?sort=mean")


def test_a_session_continues_from_the_form(site: Site, admin: TestClient):
    wanted = "/login?next=/studies/crowd"
    assert 'id="go-on" href="/studies/crowd"' in admin.get(wanted).text
    assert 'id="go-on" href="/"' in admin.get("/login?next=//evil.example").text
    stranger = site.stranger()
    assert "go-on" not in stranger.get(wanted).text
    foreign = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert "data-ask-again" in stranger.get(wanted, headers=foreign).text
    assert "data-at-once" not in stranger.get(wanted, headers=foreign).text
    assert "data-ask-again" not in stranger.get(wanted).text


def test_signing_in_leads_to_no_other_site(site: Site):
    client = TestClient(site.app, base_url="http://localhost", follow_redirects=False)
    token = site.tokens.make(Role.READER)
    for wanted in ("//evil.example/", "https://evil.example", "/\\evil.example"):
        answer = client.post("/login", data={"token": token, "next": wanted})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")


def test_readers_and_workers_see_what_is_theirs(site: Site):
    reader = site.client(Role.READER)
    page = reader.get("/studies/crowd").text
    assert "Manage" not in page
    assert reader.get("/new").status_code == 403
    data = {"csrf": csrf_in(page), "action": "stop"}
    assert reader.post("/studies/crowd", data=data).status_code == 403
    worker = site.client(Role.WORKER, "crowd")
    assert worker.get("/").url.path == "/studies/crowd"
    assert worker.get(STRANGE_PATH).status_code == 404


# What pages show


def result_of(site: Site, name: str = "crowd") -> Result:
    return site.study(name).result()


def test_a_study_shows_the_answer_of_every_other_report(site: Site, admin: TestClient):
    for name, path in (("crowd", "/studies/crowd"), (STRANGE, STRANGE_PATH)):
        result, page = result_of(site, name), text_of(admin.get(path).text)
        for line in headline(result):
            assert line[1:] in page
        for title, value in facts(result):
            assert title == "status" or f"{title.capitalize()} {value}" in page


def test_pages_that_are_none(admin: TestClient):
    for path in ("/nothing", "/arms/30", "/arms/-1", "/arms/30/series.json"):
        assert admin.get(f"/studies/crowd{path}").status_code == 404
    assert "no study &#39;nobody&#39;" in admin.get("/studies/nobody").text


def listed(admin: TestClient, query: str) -> tuple[list[int], str]:
    """Return the arms on a page of their table, and the page."""
    page = admin.get(f"/studies/crowd?{query}").text
    return [int(arm) for arm in re.findall(r'id="arm-(\d+)"', page)], page


KEYS = ("interest", "label", "mean", "samples", "evidence", "needed", "decided")


@pytest.mark.parametrize("sort", [*KEYS, "-mean"])
def test_every_order_has_every_arm_once(site: Site, admin: TestClient, sort: str):
    pages = [listed(admin, f"sort={sort}&page={page}")[0] for page in (1, 2)]
    assert [len(page) for page in pages] == [20, 10]
    arms = [*pages[0], *pages[1]]
    assert sorted(arms) == list(range(30))
    result, key = result_of(site), sort.removeprefix("-")
    columns = {"mean": result.means, "samples": result.pulls_per_arm, "evidence": result.evidence}
    if (values := columns.get(key)) is not None:
        steps = np.diff(values[arms])
        assert ((steps <= 0) if sort != key else (steps >= 0)).all()
    if sort == "interest":
        groups = [{1: 2, 0: 1}.get(int(result.decisions[arm]), 0) for arm in arms]
        assert groups == sorted(groups)


def test_arms_are_searched_and_filtered(site: Site, admin: TestClient):
    arms, page = listed(admin, "q=TEST_2&sort=label")
    assert arms == [2, *range(20, 30)]
    assert "1 to 11 of 11 arms" in page
    odd, _ = listed(admin, "only=outlier")
    assert {f"test_{arm}" for arm in odd} == set(result_of(site).outliers)
    assert "No arm found" in listed(admin, "q=nobody<b>")[1]


def test_any_query_has_an_answer(admin: TestClient):
    queries = ["page=0", "page=-5&sort=__class__", "sort=mean;DROP+TABLE&only=", "sort=-"]
    queries += [f"page=99999999999999999999&only={'x' * 1000}", f"q={'%00' * 500}&page=%D9%A3"]
    for query in [*queries, "sort=--mean"]:
        assert admin.get(f"/studies/crowd?{query}").status_code == 200
        assert admin.get(f"/?{query}").status_code == 200


@pytest.mark.parametrize("width", quick_and_long([50], [4_000]))
def test_the_picture_has_all_arms_and_the_outermost_ends(site: Site, width: int):
    study = create(site.storage, f"wide {width}", [f"a{i}" for i in range(120)], k=2)
    work(study, planted(120, 5), 4, 900)
    result, client = study.result(), site.client()
    found = client.get(f"/studies/wide {width}/picture.json?width={width}").json()
    order = np.argsort(result.means, kind="stable")
    starts = [*found["starts"], 120]
    assert len(starts) - 1 == min(120, width)
    assert client.get(f"/studies/wide {width}/picture.json?width=10000000").status_code == 422
    for column, (first, end) in enumerate(pairwise(starts)):
        arms = order[first:end]
        assert found["lower"][column] == pytest.approx(result.intervals[arms, 0].min(), rel=1e-4)
        assert found["upper"][column] == pytest.approx(result.intervals[arms, 1].max(), rel=1e-4)
        assert found["least"][column] == pytest.approx(result.means[arms].min(), rel=1e-4)
        assert found["counts"]["high"][column] == int((result.decisions[arms] == 2).sum())
    assert sum(map(sum, found["counts"].values())) == 120
    marked = {c for c, count in enumerate(found["counts"]["high"]) if count}
    assert set(found["marks"]["high"]["at"]) == marked
    low, high = found["range"]
    assert 0.0 <= low <= min(found["lower"])
    assert max(found["upper"]) <= high <= 1.0
    assert all(0.0 <= x <= 1.0 for ends in found["thresholds"].values() for x in ends)
    oddarms.delete_study(study.name, storage=site.storage)


def test_lines_over_time_end_at_the_present(site: Site, admin: TestClient):
    result, series = result_of(site), admin.get("/studies/crowd/series.json").json()
    assert series["pulls"][-1] == result.pulls
    names = ("least", "lower_quartile", "median", "upper_quartile")
    evidence = [series[f"evidence_{name}"][-1] for name in names]
    assert evidence == sorted(evidence)
    names = ("threshold", "threshold_lower", "threshold_upper")
    ends = [x for name in names for x in series[name] if x is not None]
    assert 0.0 <= min(ends) <= max(ends) <= 1.0
    decided = series["decided"]
    assert decided["outliers"][-1] == len(result.outliers)
    assert decided["normal"][-1] == len(result.normal)
    assert decided["pulls"] == sorted(decided["pulls"])


def test_an_arm_shows_its_rewards_and_those_not_used(site: Site, admin: TestClient):
    study = create(site.storage, "arms", [f"a{i}" for i in range(6)], k=1)
    work(study, planted(6, 1), 7, 20)
    for ticket in study.ask(30):  # of a step that is not complete
        if ticket.index:
            study.tell(ticket, 0.0)
    result = study.result()
    recorded = [[t.reward for t in study.trials() if t.arm == f"a{i}"] for i in range(6)]
    assert any(len(recorded[i]) > result.pulls_per_arm[i] for i in range(6))
    for arm in range(6):
        used = int(result.pulls_per_arm[arm])
        page = admin.get(f"/studies/arms/arms/{arm}").text
        series = admin.get(f"/studies/arms/arms/{arm}/series.json").json()
        assert series["total"] == used == len(series["rewards"])
        assert series["mean"][-1] == pytest.approx(result.means[arm], abs=1e-5)
        assert series["lower"][-1] <= series["mean"][-1] <= series["upper"][-1]
        assert f"<dt>Samples</dt><dd>{used}<" in page
        waiting = len(recorded[arm]) - used
        assert (f"{waiting} more recorded, not used yet" in page) == (waiting > 0)
        assert page.count('<span class="soft">not used</span>') == min(waiting, 50)
    oddarms.delete_study("arms", storage=site.storage)


def test_conflicts_are_counted_and_the_latest_listed(admin: TestClient):
    page = admin.get(STRANGE_PATH).text
    assert "40 results were refused" in page
    assert page[page.index('id="conflicts"') :].count('<tr><th scope="row">') == 20


def test_files(site: Site, admin: TestClient):
    document = admin.get("/studies/crowd/download/result.json")
    assert document.json() == json.loads(json.dumps(result_of(site).to_dict()))
    assert 'attachment; filename="crowd.json"' in document.headers["content-disposition"]
    assert "'=cmd|" in admin.get(f"{STRANGE_PATH}/download/arms.csv").text
    image = admin.get("/studies/crowd/picture.png")
    assert image.headers["content-type"] == "image/png"


@pytest.mark.long
def test_the_report_is_a_page_to_keep(admin: TestClient):
    answer = admin.get(f"{STRANGE_PATH}/download/report.html")
    assert answer.status_code == 200
    assert "attachment" in answer.headers["content-disposition"]
    assert "<script" not in answer.text


def test_many_studies_are_searched_and_paged(tmp_path: Path):
    site = Site(tmp_path / "s.db")
    for number in range(60):
        create(site.storage, f"study {number:02d}", ["a", "b", "c"], k=1)
    client = site.client()
    first = client.get("/").text
    assert "1 to 50 of 60 studies" in first
    assert "study 59" in first
    for page in (2, 99):
        last = client.get(f"/?page={page}").text
        assert "51 to 60 of 60 studies" in last
        assert "study 00" in last
    assert "1 to 10 of 10 studies" in client.get("/?q=study+1").text
    assert "No study found" in client.get("/?q=zzz<b>").text


def shown_commands(page: str) -> list[list[str]]:
    """Return the words of each command in the boxes of a page."""
    boxes = re.findall(r"<pre><code>(.*?)</code></pre>", page, re.DOTALL)
    return [shlex.split(line) for box in boxes for line in html.unescape(box).splitlines()]


@pytest.mark.parametrize("name", ["it's; rm -rf ~ $(id)", "--help"])
def test_an_empty_server_and_study_show_commands_that_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.chdir(tmp_path)
    Path("workers.txt").write_text("ann\nbob\ncy\n")
    Path("probe").write_text("#!/bin/sh\necho 1\n")
    Path("probe").chmod(0o755)
    with served(tmp_path / "s.db") as server, server.client("", follow_redirects=True) as client:
        client.post("/login", data={"token": server.token, "next": "/login"})
        first = client.get("/", headers=HTML).text
        assert "No studies yet" in first
        study = create(server.storage, name, ["a", "b", "c"], k=1, budget=3)
        page = client.get(f"/studies/{quote(name, safe='')}", headers=HTML).text
        assert "No workers yet" in page
        commands = shown_commands(first) + shown_commands(page)
        assert [words[2] for words in commands] == ["create", "work", "work"]
        assert main(commands[0][1:]) == 0
        assert main(commands[2][1:]) == 3  # the budget is used up
        assert oddarms.load_study("crowd", storage=server.storage).labels == ("ann", "bob", "cy")
        assert study.overview().told > 0


# Forms


def test_forms_of_other_sites_change_nothing(site: Site, admin: TestClient):
    for action in ("stop", "resume", "budget", "release", "delete"):
        data = {"action": action, "budget": "1", "again": "crowd"}
        assert admin.post("/studies/crowd", data=data).status_code == 403
    assert admin.post("/tokens", data={"role": "admin"}).status_code == 403
    assert admin.post("/new", data={"name": "x", "arms": "a\nb\nc"}).status_code == 403
    assert site.study("crowd").overview().stopped is None
    for word in ("stopped", "deleted", "created"):
        assert 'class="note good' not in admin.get(f"/studies/crowd?done={word}").text


def test_a_study_is_created_changed_and_deleted(site: Site, admin: TestClient):
    data = {"csrf": csrf_in(admin.get("/new").text), "name": "made/here", "arms": "a\nb\nc"}
    data |= {"k": "1", "budget": "60"}
    answer = admin.post("/new", data={**data, "delta": "7"})
    assert answer.status_code == 422
    assert "Delta must" in answer.text
    assert "a\nb\nc</textarea>" in answer.text
    answer = admin.post("/new", data=data)
    base = "/studies/made%2Fhere"
    assert answer.url.raw_path == base.encode()
    assert admin.post("/new", data=data).status_code == 409
    study = site.study("made/here")

    def act(action: str, **more: str) -> Any:
        return admin.post(base, data={**data, "action": action, **more})

    study.stop("no money")
    assert "no money" in act("stop").text
    act("resume")
    assert "stopped from the page" in act("stop").text
    assert study.ask(1).status.value == "stopped"
    assert act("resume").url.raw_path == base.encode()
    assert study.overview().stopped is None
    assert act("nothing").status_code == 404
    for typed, said in (("5", "budget can only grow"), ("1.5", "budget must be a whole number")):
        answer = act("budget", budget=typed)
        assert answer.status_code == 422
        assert said in answer.text.replace("Budget", "budget")
        assert f'name="budget" value="{typed}"' in answer.text
    for typed, budget in (("90", 90), ("", None)):
        assert act("budget", budget=typed).url.raw_path == base.encode()
        assert study.question.budget == budget
    refused = act("delete", again="made")
    assert (refused.status_code, "nothing was deleted" in refused.text) == (422, True)
    assert act("delete", again="made/here").url.path == "/"
    assert admin.get(base).status_code == 404


def test_who_holds_a_study_up_and_taking_it_back(
    site: Site, admin: TestClient, caplog: pytest.LogCaptureFixture
):
    study = create(site.storage, "held", [f"a{i}" for i in range(15)], k=1)
    base = "/studies/held"
    assert "Waiting for" not in admin.get(base).text
    study.ask(10**6, worker="an absent <client>", lease=1800)
    page = admin.get(base).text
    assert re.search(
        r"Waiting for .* an absent <client> \d+ \S.* in (29|30) min Take back", text_of(page)
    )
    with site.client(Role.READER) as reader:
        assert "Take back" not in text_of(reader.get(base).text)
    data = {"csrf": csrf_in(page), "action": "release", "worker": "an absent <client>"}
    with caplog.at_level("INFO", logger="oddarms.audit"):
        done = admin.post(base, data=data).text
    assert "Waiting for" not in done
    assert re.search("release .*an absent", caplog.text)
    for i in range(12):
        study.ask(1, worker=f"client {i}")
    study.ask(10**6, worker="client 12")
    page = admin.get(base).text
    assert re.search("Waiting for Take all back .* 13 workers .*client 12", text_of(page))
    assert '<details id="holders-details">' in page  # a long list is folded
    done = admin.post(base, data={**data, "action": "release all"}).text
    assert "Waiting for" not in done
    assert study.overview().live == 0
    oddarms.delete_study("held", storage=site.storage)


def test_the_list_is_filtered_and_sorted(site: Site, admin: TestClient):
    crowd = site.study("crowd")
    crowd.ask(1)  # which notes how far it is
    found = crowd.result()
    decided = f"{30 - len(found.undecided)} / 30 {len(found.outliers)} {len(list(crowd.trials()))}"
    page = admin.get("/?q=crowd").text
    assert re.search(rf"crowd Which .*\? \S+ {crowd.status.value} {decided} ", text_of(page))
    up, down = (
        re.findall(r'<th scope="row".*?<bdi>(.*?)</bdi>', admin.get(f"/?sort={sort}").text)
        for sort in ("name", "-name")
    )
    assert up == down[::-1]
    assert up == sorted(up)
    assert "There is none in this state" in admin.get("/?only=budget").text
    assert admin.get("/?sort=x&only=y").status_code == 200


def test_a_server_may_allow_longer_leases(tmp_path: Path):
    with served(tmp_path / "s.db", max_lease=timedelta(hours=6)) as server:
        study = oddarms.create_study("s", ["a", "b"], k=1, storage=server.address)
        assert study.renew(study.ask(1, lease=4 * 3600), 5 * 3600) == 1
        with pytest.raises(oddarms.errors.InvalidParameter, match="at most 360 minutes"):
            study.ask(lease=7 * 3600)


def post_new(admin: TestClient, changes: Mapping[str, str]) -> Any:
    """Send the form for a new study."""
    given = {"name": "typed", "arms": "a\nb\nc", "k": "1", "csrf": csrf_in(admin.get("/new").text)}
    return admin.post("/new", data={**given, **changes})


def test_labels_are_typed(site: Site, admin: TestClient):
    labels = ["a", "b", "c,d", *map(str, range(5000))]
    typed = "a\n\n b \r\n" + "\n".join(labels[2:])
    given = {"name": " typed ", "arms": typed, "high": "2", "budget": "12000"}
    assert post_new(admin, given).status_code == 200
    question = site.study("typed").question
    oddarms.delete_study("typed", storage=site.storage)
    assert list(question.labels) == labels
    assert (question.margin, question.budget, question.bounds) == (0.1, 12_000, (0.0, 2.0))


def test_a_form_says_what_is_wrong(admin: TestClient):
    many = "\n".join(map(str, range(100_001)))
    cases: list[tuple[dict[str, str], str]] = [
        ({"arms": ""}, "Arms are missing"),
        ({"arms": many}, "at most 100,000 over HTTP"),
        ({"name": ""}, "The name of a study must"),
        ({"k": "1,5"}, "K must be a number but got &#39;1,5&#39;"),
        ({"k": "nan"}, "K must"),
        ({"delta": "2"}, "Delta must"),
        ({"budget": "1.5"}, "Budget must be a whole number"),
        ({"budget": "9" * 5000}, "Budget must be a whole number"),
        ({"low": "1", "high": "0"}, "Bounds must"),
        ({"side": "left"}, "Side must"),
        ({"arms": "a\na"}, "Labels must be unique"),
    ]
    for changes, said in cases:
        answer = post_new(admin, changes)
        assert answer.status_code == 422
        assert said in answer.text


def test_a_form_that_is_too_large_is_refused_with_a_page(admin: TestClient):
    answer = post_new(admin, {"arms": "x" * 17 * 2**20})
    assert answer.status_code == 413
    assert answer.headers["content-type"].startswith("text/html")
