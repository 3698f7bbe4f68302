"""A server with its pages in a thread, studies to look at, and a browser if there is one."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddarms
from debian_packages import have
from oddarms.studies import Study

PATIENCE = 120_000.0
"""Milliseconds that a browser has for anything."""
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
        tickets = study.ask(n, worker=f"worker {turn % 3}")
        if not tickets:
            return
        study.tell_many([(t, float(rng.random() < rates[t.index])) for t in tickets])


def planted(n: int, odd: int) -> list[float]:
    """Return rates of which a few are high."""
    return [0.95] * odd + [0.1] * (n - odd)


def create(storage: str | Path, name: str, labels: Sequence[str], **words: Any) -> Study:
    """Create a study whose seed is known."""
    return oddarms.create_study(name, labels, rng=1, storage=storage, **words)


@dataclass(frozen=True)
class Served:
    """A server that runs: its address, an admin's token, its storage and its application."""

    url: str
    token: str
    storage: str | Path
    app: Any


@contextmanager
def serving(storage: str | Path) -> Iterator[Served]:
    """Serve a storage at a free port of this machine."""
    import uvicorn

    from oddarms.server import create_app
    from oddarms.server._tokens import Role

    app = create_app(storage)
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    token = app.state.oddarms.tokens.make(Role.ADMIN)
    try:
        yield Served(f"http://127.0.0.1:{port}", token, storage, app)
    finally:
        app.state.oddarms.events.close()
        server.should_exit = True
        thread.join(timeout=60.0)


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
def signed_in(browser: Any, served: Served, **options: Any) -> Iterator[Any]:
    """Open a page of somebody who has signed in; errors of its scripts fail the test."""
    context = browser.new_context(viewport=options.pop("viewport", WIDE), **options)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: wrong.append(f"a dialog: {dialog.message}"))
    page.on("console", lambda said: wrong.append(said.text) if "Security" in said.text else None)
    page.goto(f"{served.url}/login#{served.token}")
    page.wait_for_url(f"{served.url}/")
    try:
        yield page
        assert wrong == []
    finally:
        context.close()


WIDE = {"width": 1200, "height": 900}
PHONE = {"width": 390, "height": 844}
