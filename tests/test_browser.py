"""The pages in a real browser: what a person does there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

import oddarms
from postgresql import NewStorage
from servers import Served, served
from tests.pages_server import (
    HOSTILE,
    PATIENCE,
    PHONE,
    WIDE,
    browsing,
    create,
    planted,
    signed_in,
    work,
)

STRANGE = "a/b <b>& co</b>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def site(new_web_storage: NewStorage) -> Iterator[Served]:
    storage = new_web_storage()
    crowd = create(storage, "crowd", [f"test_{i}" for i in range(40)], k=2)
    work(crowd, planted(40, 2), 6, 200)
    hostile = create(storage, STRANGE, HOSTILE, k=1)
    work(hostile, planted(8, 1), 2, 40)
    create(storage, "empty", ["a", "b", "c", "d", "e"], k=1)
    with served(storage) as server:
        yield server


@pytest.fixture
def page(browser: Any, site: Served) -> Iterator[Any]:
    with signed_in(browser, site) as found:
        yield found


def wait_for(page: Any, selector: str, text: str) -> None:
    page.locator(selector, has_text=re.compile(text)).first.wait_for(timeout=PATIENCE)


def test_a_page_follows_a_worker_without_being_loaded_again(page: Any, site: Served):
    study = create(site.storage, "live", [f"host {i}" for i in range(12)], k=1.5)
    page.goto(f"{site.address}/studies/live")
    wait_for(page, "#answer", "12 are undecided")
    wait_for(page, "#live", "^live$")
    page.evaluate("window.sameDocument = true")
    work(study, planted(12, 1), 400, 50)
    wait_for(page, "#answer", "1 of 12 arms is an outlier")
    wait_for(page, "#workers", "worker 2")
    wait_for(page, "#arms-table tbody tr", "outlier above")
    page.locator("[data-plot=decided] canvas").wait_for()
    page.locator("[data-plot=threshold] canvas").wait_for()
    assert page.evaluate("window.sameDocument")


def test_a_deleted_study_is_said_to_be_gone(page: Any, site: Served):
    create(site.storage, "brief", [f"host {i}" for i in range(5)], k=1)
    page.goto(f"{site.address}/studies/brief")
    wait_for(page, "#live", "^live$")
    oddarms.delete_study("brief", storage=site.storage)
    wait_for(page, "#live", "the study is gone")
    wait_for(page, "#trouble", "The study is gone: somebody has deleted it. All studies")


def test_arms_are_searched_sorted_and_opened_by_keyboard_alone(page: Any, site: Served):
    page.goto(f"{site.address}/studies/crowd")
    search = page.locator("#q")
    search.focus()
    page.keyboard.type("test_3")
    wait_for(page, "#arms-table .pages", "1 to 11 of 11 arms")
    page.wait_for_url("**q=test_3*")
    assert page.evaluate("document.activeElement.id") == "q"
    page.locator("#sort-label").focus()
    page.keyboard.press("Enter")
    page.locator('th[aria-sort="ascending"] #sort-label').wait_for()
    assert page.locator("tbody th").first.inner_text() == "test_3"
    assert page.evaluate("document.activeElement.id") == "sort-label"
    page.go_back()
    page.locator('th[aria-sort="none"] #sort-label').wait_for()
    page.go_forward()
    page.locator('th[aria-sort="ascending"] #sort-label').wait_for()
    page.locator("#arms-table tbody a").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/arms/3")
    assert page.locator("h1").inner_text() == "test_3"
    page.locator("[data-plot=arm-mean] canvas").wait_for()


@pytest.mark.long
def test_a_search_that_fails_is_said_to_and_made_up_for(page: Any, site: Served):
    page.goto(f"{site.address}/studies/crowd")
    wait_for(page, "#live", "^live$")
    asked = re.compile(r"/studies/crowd\?")
    page.route(asked, lambda route: route.abort())
    page.fill("#q", "test_3")
    wait_for(page, "#trouble", "The server does not answer")
    page.unroute(asked)
    wait_for(page, "#arms-table .pages", "1 to 11 of 11 arms")
    page.locator("#trouble").wait_for(state="hidden")
    page.route(asked, lambda route: route.fulfill(status=503))
    page.locator("#sort-label").click()
    wait_for(page, "#trouble", "could not do that \\(HTTP 503\\)")
    page.unroute(asked)
    page.context.clear_cookies()
    page.locator("#sort-label").click()
    wait_for(page, "#trouble", "not signed in any more")
    page.locator("#trouble a").click()
    page.wait_for_url("**/login?next=*")
    page.fill("#token", site.token)
    page.click("main button")
    wait_for(page, "#arms-table .pages", "1 to 11 of 11 arms")
    page.locator('th[aria-sort="ascending"] #sort-label').wait_for()


@pytest.mark.long
def test_the_picture_is_read_by_keyboard_and_pointer(page: Any, site: Served):
    page.goto(f"{site.address}/studies/crowd")
    slider = page.locator("#explore")
    slider.wait_for()
    page.locator("#explore[max='39']").wait_for()
    slider.focus()
    page.keyboard.press("End")
    text = page.locator("#readout").inner_text()
    assert re.match(r"test_[01]: ▲ outlier above, mean (0\.9|1,)", text)
    assert slider.get_attribute("aria-valuetext") == text
    page.locator("canvas").first.hover(position={"x": 200, "y": 100})
    assert "normal" in page.locator("#readout").inner_text()
    page.locator("#goto").click()
    page.wait_for_url("**/arms/*")


@pytest.mark.long
def test_a_study_is_created_stopped_resumed_and_deleted(page: Any, site: Served):
    page.goto(f"{site.address}/new")
    page.fill("#name", "from a form")
    file = {"name": "crowd.txt", "mimeType": "text/plain", "buffer": b"ann\nbob\ncy\n"}
    page.set_input_files("#file", file)
    page.fill("#budget", "1000")
    page.fill("#k", "1")
    page.fill("#delta", "7")
    page.click("text=Create the study")
    wait_for(page, "[role=alert]", "Delta must")
    page.fill("#delta", "0.1")
    page.click("text=Create the study")
    wait_for(page, "h1", "from a form")
    study = oddarms.load_study("from a form", storage=site.storage)
    assert study.labels == ("ann", "bob", "cy")
    assert study.question.budget == 1000
    page.click("#manage button:has-text('Stop')")
    wait_for(page, ".badge", "stopped")
    assert study.ask(1).status.value == "stopped"
    page.click("#manage button:has-text('Resume')")
    wait_for(page, ".badge", "running|waiting")
    page.fill("#budget", "2000")
    page.click("text=Change the budget")
    wait_for(page, "#summary", "2,000 pulls")
    page.click("text=Delete this study")
    page.fill("#again", "something else")
    page.click("text=Delete for good")
    wait_for(page, "[role=alert]", "nothing was deleted")
    page.click("text=Delete this study")
    page.fill("#again", "from a form")
    page.click("text=Delete for good")
    wait_for(page, "h1", "Studies")
    assert "from a form" not in page.content()


def test_a_wrong_token_is_refused_and_a_right_one_goes_where_one_wanted(browser: Any, site: Served):
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(f"{site.address}/studies/crowd?sort=mean")
    page.fill("#token", "wrong")
    page.click("main button")
    wait_for(page, "[role=alert]", "token is unknown")
    page.fill("#token", site.token)
    page.click("main button")
    page.wait_for_url("**/studies/crowd?sort=mean")
    page.click("text=Sign out")
    page.wait_for_url("**/login")
    page.goto(site.address)
    page.wait_for_url("**/login")
    context.close()


@pytest.mark.long
def test_a_link_of_another_site_leads_on(page: Any, site: Served):
    """The browser sends no cookie along with it; the page asks again by itself."""
    elsewhere = "http://elsewhere.invalid/"
    link = f'<a href="{site.address}/studies/crowd?sort=mean">there</a>'
    page.route(elsewhere, lambda route: route.fulfill(body=link, content_type="text/html"))
    page.goto(elsewhere)
    page.click("text=there")
    page.wait_for_url(f"{site.address}/studies/crowd?sort=mean")
    page.goto(f"{site.address}/login")
    page.wait_for_url(f"{site.address}/")


def test_labels_and_names_are_only_text(page: Any, site: Served):
    page.goto(site.address)
    page.click(f"text={STRANGE}")
    page.locator("#answer").wait_for()
    assert page.locator("h1").inner_text() == STRANGE
    shown = page.locator("#arms-table tbody th").all_inner_texts()
    assert {HOSTILE[0], HOSTILE[1], HOSTILE[3]} <= set(shown)
    assert not any("\u202e" in text for text in shown)
    page.locator("#explore").focus()
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    page.goto(f"{site.address}/studies/{quote(STRANGE, safe='')}/arms/0")
    assert page.locator("h1").inner_text() == HOSTILE[0]
    assert page.locator("main img, main script").count() == 0


@pytest.mark.long
@pytest.mark.parametrize("viewport", [PHONE, WIDE], ids=["phone", "wide"])
def test_no_page_is_wider_than_the_screen_and_axe_finds_nothing(
    browser: Any, site: Served, viewport: dict[str, int]
):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is missing")
    strange = quote(STRANGE, safe="")
    paths = ["/", "/new", "/studies/crowd", f"/studies/{strange}", "/studies/crowd/arms/0"]
    paths += ["/studies/empty", "/studies/nobody", "/tokens"]
    scheme = "dark" if viewport == PHONE else "light"
    with signed_in(browser, site, viewport=viewport, color_scheme=scheme) as page:
        for path in paths:
            page.goto(site.address + path)
            if path.startswith("/studies") and not path.endswith("nobody"):
                page.locator("canvas").first.wait_for()
            wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, path
            found = axe.Axe().run(page)
            assert found.response["passes"]
            assert found.violations_count == 0, f"{path}: {found.generate_report()}"


@pytest.mark.long
def test_everything_can_be_read_without_scripts(browser: Any, site: Served):
    context = browser.new_context(java_script_enabled=False)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(f"{site.address}/login")
    page.fill("#token", site.token)
    page.click("main button")
    page.goto(f"{site.address}/studies/crowd")
    assert "outlier" in page.locator("#answer").inner_text()
    assert page.locator("noscript img").evaluate("image => image.naturalWidth") > 300
    page.goto(f"{site.address}/studies/crowd/arms/0")
    assert "Scripts draw the plots" in page.locator("noscript").inner_text()
    assert page.locator("#latest tbody tr").count() > 0
    page.goto(f"{site.address}/studies/crowd")
    page.fill("#q", "test_1")
    page.click("#arms button")
    assert page.locator("#arms tbody tr").count() == 11
    page.click("#sort-mean")
    assert page.locator('th[aria-sort="descending"]').inner_text().startswith("Mean")
    context.close()
