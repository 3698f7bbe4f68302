"""What the pages show, as data: against the same found the long way."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oddarms import Search
from oddarms.algorithms import Threshold
from oddarms.plotting._style import MARKS, THRESHOLD_LINE
from oddarms.search import Result
from oddarms.server.pages._arm_series import arm_series
from oddarms.server.pages._arms import Choice, table_of
from oddarms.server.pages._links import Links
from oddarms.server.pages._picture import interval_columns
from oddarms.server.pages._snapshots import Snapshots
from oddarms.server.pages._svg import interval_svg
from oddarms.server.pages._timeline import decided_series, moments, study_series
from oddarms.server.pages._view import KINDS, ORDERS, View
from oddarms.server.pages._words import answer, counted, shares, summary, tiles
from oddarms.studies import Study
from tests.pages_server import HOSTILE, create, planted, work

SVG = "{http://www.w3.org/2000/svg}"


def result_of(n: int, steps: int, **words: Any) -> Result:
    """Return what a search knows after a few steps."""
    rng = np.random.default_rng(n)
    rates = np.where(np.arange(n) % 50 == 3, 0.95, rng.beta(2, 8, n))
    search = Search([f"arm {i}" for i in range(n)], **{"k": 2, "margin": 0.05, **words})
    for _ in range(steps):
        if search.done:
            break
        pulls = search.ask_step()
        wanted = rates[pulls.indices].repeat(pulls.counts)
        search.tell_step((rng.random(wanted.size) < wanted).astype(float))
    return search.result()


@pytest.fixture(scope="module")
def view() -> View:
    return View(result_of(300, 70))


@pytest.mark.parametrize(("n", "width"), [(300, 70), (90, 5_000), (7, 100)])
def test_columns_have_the_outermost_ends_and_all_arms(n: int, width: int):
    view = View(result_of(n, 40))
    result, found = view.result, interval_columns(view, width)
    order = np.argsort(result.means, kind="stable")
    starts = [*found["starts"], n]
    assert len(starts) - 1 == min(n, width)
    for column, (first, end) in enumerate(pairwise(starts)):
        arms = order[first:end]
        assert found["lower"][column] == pytest.approx(result.intervals[arms, 0].min(), rel=1e-4)
        assert found["upper"][column] == pytest.approx(result.intervals[arms, 1].max(), rel=1e-4)
        assert found["least"][column] == pytest.approx(result.means[arms].min(), rel=1e-4)
        assert found["counts"]["high"][column] == int((result.decisions[arms] == 2).sum())
    assert sum(map(sum, found["counts"].values())) == n
    marked = {c for c, count in enumerate(found["counts"]["high"]) if count}
    assert set(found["marks"]["high"]["at"]) == marked
    low, high = found["range"]
    assert low <= min(found["lower"])
    assert max(found["upper"]) <= high


def test_nothing_is_drawn_where_no_reward_can_be():
    result = result_of(40, 20, bounds=(0.0, 2.0))
    far = replace(result, thresholds={"upper": Threshold(2.2, 1.8, 3.7)})
    view = View(far)
    found = interval_columns(view, 100)
    assert found["thresholds"] == {"upper": [2.0, 1.8, 2.0]}
    assert 0.0 <= found["range"][0] < found["range"][1] == 2.0
    assert arm_series(view, 1, np.array([0.0, 1.0]))["thresholds"] == {"upper": 2.0}
    series = study_series(view)
    assert series["bounds"] == [0.0, 2.0]
    ends = [x for name in ("threshold", "lower", "upper") for x in series[name] if x is not None]
    assert 0.0 <= min(ends) <= max(ends) <= 2.0
    assert series["least"][-1] <= series["quarter"][-1] <= series["median"][-1]
    assert series["median"][-1] <= series["three_quarters"][-1]


def test_a_study_without_samples_can_be_drawn():
    view = View(result_of(20, 0))
    found = interval_columns(view, 100)
    assert found["least"] == [None] * 20
    assert found["thresholds"] == {}
    assert study_series(view)["pulls"] == []
    assert moments(view) == []
    assert answer(view) == "No samples yet of 20 arms"
    ElementTree.fromstring(interval_svg(view))


@pytest.mark.parametrize("sort", list(ORDERS))
@pytest.mark.parametrize("down", [False, True])
def test_every_order_has_every_arm_once_over_the_pages(view: View, sort: str, down: bool):
    seen = []
    for page in range(1, 99):
        found = table_of(view, Choice(sort=sort, down=down, page=page))
        seen += [row["arm"] for row in found.rows]
        if page == found.last:
            break
    assert sorted(seen) == list(range(300))
    columns = {
        "mean": view.result.means,
        "samples": view.samples_per_arm,
        "evidence": view.result.evidence,
    }
    if (values := columns.get(sort)) is not None:
        steps = np.diff(values[seen])
        assert ((steps <= 0) if down else (steps >= 0)).all()


def test_outliers_come_first_and_then_the_most_suspicious(view: View):
    kinds = [view.kind(int(arm)) for arm in view.order("interest")]
    first = {kind: kinds.index(kind) for kind in kinds}
    assert sorted(first, key=lambda kind: first[kind]) == ["high", "open", "normal"]
    assert kinds == sorted(kinds, key=["high", "open", "normal"].index)


def test_arms_are_searched_whatever_the_case_and_among_a_kind(view: View):
    found = table_of(view, Choice(search="ARM 10"))
    assert found.total == 11
    odd = table_of(view, Choice(kind="outlier"))
    assert odd.total == view.counts["high"]
    assert {row["kind"] for row in odd.rows} == {"high"}
    assert table_of(view, Choice(search="nobody")).rows == []


@pytest.mark.parametrize(
    "query",
    [
        {"page": "0"},
        {"page": "-5", "sort": "__class__"},
        {"page": "99999999999999999999", "kind": "x" * 10_000},
        {"q": "\0" * 500, "page": "٣"},
        {"sort": "mean; DROP TABLE", "down": "yes"},
    ],
)
def test_whatever_stands_in_an_address_is_a_choice(view: View, query: dict[str, str]):
    choice = Choice.of(query)
    page = table_of(view, choice)
    assert 1 <= page.number <= page.last
    assert Choice.of(choice.query()) == choice


def test_decisions_over_time_end_at_what_is_decided(view: View):
    series = decided_series(view)
    assert series["outliers"][-1] == view.counts["high"]
    assert series["normal"][-1] == view.counts["normal"]
    assert series["pulls"] == sorted(series["pulls"])
    latest = moments(view, 1_000)
    decided = sum(int(kind["count"]) for moment in latest for kind in moment["kinds"])
    assert decided == view.counts["high"] + view.counts["normal"]


def test_an_arm_over_time_ends_at_its_average():
    view = View(result_of(40, 80))
    rewards = (np.random.default_rng(1).random(5_000) < 0.95).astype(float)
    found = arm_series(view, 3, rewards)
    assert len(found["places"]) == len(found["mean"]) <= 300
    assert found["places"][-1] == found["total"] == 5_000
    assert found["mean"][-1] == pytest.approx(rewards.mean(), rel=1e-5)
    assert found["lower"][-1] < rewards.mean() < found["upper"][-1]
    assert found["rewards"] == rewards[-1_500:].tolist()
    assert found["first"] == 3_501
    assert max(found["evidence"]) > 3
    turned = arm_series(view, 3, np.sort(rewards))  # the other side looked right at first
    zeros = int((rewards == 0.0).sum())
    early = np.array(turned["places"]) <= zeros
    assert early.any()
    assert np.array(turned["evidence"])[early].max() <= 0.0
    assert arm_series(view, 3, rewards[:0])["mean"] == []


def test_a_bar_of_all_arms_has_no_part_too_small_to_see(view: View):
    parts = shares(view)
    assert sum(float(part["width"]) for part in parts) == pytest.approx(1000, abs=0.1)
    assert min(float(part["width"]) for part in parts) > 3
    assert sum(int(item["count"]) for item in counted(view)) == 300


def test_words_of_every_side_and_state(tmp_path: Path):
    study = create(tmp_path / "s.db", "s", [f"a{i}" for i in range(8)], k=1, side="both", budget=90)
    for _ in range(3):
        overview = study.overview()
        said = summary(View(overview.result), overview)
        names = [tile["name"] for tile in tiles(View(overview.result), overview)]
        assert {"Upper threshold", "Lower threshold"} <= set(names)
        assert said["answer"]
        work(study, planted(8, 2), 1, 80)
    assert said["state"] == "budget used up" or said["status"] in ("running", "waiting")


def test_the_image_draws_each_arm_as_what_it_is():
    view = View(result_of(300, 70))
    drawn = interval_svg(view)
    paths = [dict(path.attrib) for path in ElementTree.fromstring(drawn).iter(f"{SVG}path")]

    def moves(colour: str, **style: str) -> int:
        wanted = {"stroke": colour, **style}
        return sum(path["d"].count("M") for path in paths if wanted.items() <= path.items())

    dot = {"stroke-linecap": "round"}
    for decision, kind in KINDS.items():
        assert moves(MARKS[decision].colour, **dot) == view.counts[kind]
        assert moves(MARKS[decision].colour, fill="none") == view.counts[kind]
    assert THRESHOLD_LINE in drawn[drawn.rindex("<path") :]
    assert list(ElementTree.fromstring(drawn).itertext())[:2] == ["0", "0.2"]


def test_a_huge_budget_does_not_fill_the_page(tmp_path: Path):
    study = create(tmp_path / "s.db", "s", ["a", "b", "c"], k=1, budget=10**4000)
    overview = study.overview()
    assert tiles(View(overview.result), overview)[0]["more"] == "of a budget of over 10^4000"


def test_no_label_reaches_the_image():
    search = Search(HOSTILE, k=1)
    text = interval_svg(View(search.result()))
    assert not any(label[:12] in text for label in HOSTILE)
    ElementTree.fromstring(text)


def test_a_study_is_looked_at_once_until_something_happens(tmp_path: Path):
    study = _stored(tmp_path)
    snapshots = Snapshots()
    first = snapshots.of(study)
    assert snapshots.of(study) is first
    work(study, planted(8, 1), 1, 20)
    snapshots._kept[study.name, study.number] = replace(first, took=0.0)  # also if it was not
    second = snapshots.of(study)
    assert second.pulse != first.pulse
    dear = replace(second, took=1_000.0)
    snapshots._kept[study.name, study.number] = dear
    work(study, planted(8, 1), 1, 20)
    assert snapshots.of(study) is dear  # it would take long to find anew
    snapshots.forget(study)
    assert snapshots.of(study) is not dear


@pytest.mark.parametrize("words", [{}, {"side": "lower"}, {"side": "both"}, {"algorithm": "ade"}])
def test_an_outline_is_the_result_and_stays_so(tmp_path: Path, words: dict[str, Any]):
    study = _stored(tmp_path, **words)
    work(study, planted(8, 1), 4, 20)
    overview, whole = study.outline()[0], study.overview()
    view, result = Snapshots().of(study).view, whole.result
    work(study, planted(8, 1), 4, 20)
    assert study.result().pulls > result.pulls
    assert np.array_equal(view.intervals, result.intervals)
    assert view.ends(3) == tuple(result.intervals[3])
    assert [view.label(i) for i in range(8)] == list(result.labels)
    assert np.isinf(overview.result.intervals).all()
    named = replace(
        overview.result,
        question=result.question,
        intervals=result.intervals,
        first=result.first,
        last=result.last,
    )
    assert named.to_dict() == result.to_dict()
    assert replace(whole, result=None) == replace(overview, result=None)  # type: ignore[arg-type]


def test_few_arms_of_many_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("oddarms.studies._labels.FEW", 30)
    study: Any = create(tmp_path / "s.db", "s", [f"a{i}" for i in range(200)], k=1)
    work(study, planted(200, 3), 3, 400)
    view = Snapshots().of(study).view
    assert [row["label"] for row in table_of(view, Choice(sort="label")).rows][:2] == ["a0", "a1"]
    study._labels._all = None
    view = Snapshots().of(study).view
    rows = table_of(view, Choice()).rows
    moments(view)
    summary(view, study.outline()[0])
    assert [row["label"] for row in rows] == [f"a{row['arm']}" for row in rows]
    assert study._labels._all is None
    assert "intervals" not in vars(view)


def _stored(folder: Path, **words: Any) -> Any:
    study: Study = create(folder / "s.db", "s", [f"a{i}" for i in range(8)], k=1, **words)
    return study


def test_addresses_hold_any_name():
    links = Links("/x/")
    assert links.study("a/b?#%") == "/x/studies/a%2Fb%3F%23%25"
    assert links.arm("ü", 3) == "/x/studies/%C3%BC/arms/3"
    assert links.static("app.css").startswith("/x/static/app.css?v=")
