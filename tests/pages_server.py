"""Studies to look at on pages, and a browser if there is one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddarms
from debian_packages import have
from oddarms.studies import Study
from servers import Served

PATIENCE = 120_000.0
"""Milliseconds that a browser has for anything."""
WIDE = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
HOSTILE = (
    '<script>alert("xss")</script>',
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(2)",
    "{{7*7}}${7*7}",
    "=cmd|' /C calc'!A0",
    "right\u202eto left",
    "long " + "x" * 900,
    "plain",
)


def work(study: Study, rates: Sequence[float], rounds: int, n: int, seed: int = 0) -> None:
    """Answer a study for a while, as three workers in turn."""
    rng = np.random.default_rng(seed)
    for turn in range(rounds):
        worker = f"worker {turn % 3}"
        tickets = study.ask(n, worker=worker)
        if not tickets:
            return
        results = [(ticket, float(rng.random() < rates[ticket.index])) for ticket in tickets]
        study.tell_many(results, worker=worker)


def planted(n: int, odd: int) -> list[float]:
    """Return rates of which a few are high."""
    return [0.95] * odd + [0.1] * (n - odd)


def create(storage: str | Path, name: str, labels: Sequence[str], **words: Any) -> Study:
    """Create a study with a fixed seed."""
    return oddarms.create_study(name, labels, rng=1, storage=storage, **words)


def find_browser() -> str | None:
    """Return where a browser is."""
    return shutil.which("chromium") or shutil.which("google-chrome")


@contextmanager
def browsing() -> Iterator[Any]:
    """Start a browser without a window."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = have("chromium", find_browser)
    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    options += ["--disable-component-update", "--disable-sync", "--no-first-run"]
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=options, timeout=PATIENCE)
        yield browser
        browser.close()


@contextmanager
def signed_in(browser: Any, served: Served, token: str = "", **options: Any) -> Iterator[Any]:
    """Open a page and sign in; errors of its scripts fail the test."""
    context = browser.new_context(viewport=options.pop("viewport", WIDE), **options)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: wrong.append(f"a dialog: {dialog.message}"))
    page.on("console", lambda said: wrong.append(said.text) if "Security" in said.text else None)
    page.goto(f"{served.address}/login#{token or served.token}")
    page.wait_for_url(f"{served.address}/")
    try:
        yield page
        assert wrong == []
    finally:
        context.close()
