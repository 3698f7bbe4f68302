"""``oddarms demo --serve``: the page that fills."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import httpx

from processes import wait_until


def test_the_demo_prints_a_link_fills_the_page_and_ends_cleanly() -> None:
    command = [sys.executable, "-m", "oddarms", "demo", "--serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            process.stdout.readline()
            link = process.stdout.readline().decode()
            found = re.search(r"(http://127\.0\.0\.1:\d+)/login\?next=/studies/crowd#(\S+)", link)
            assert found
            headers = {"Authorization": f"Bearer {found[2]}"}
            with httpx.Client(base_url=found[1], headers=headers, timeout=60.0) as client:
                page = client.get("/studies/crowd", headers={"Accept": "text/html"})
                assert "722 arms" in page.text
                about = "/api/v1/studies/crowd"
                wait_until(lambda: client.get(about).json()["results"] > 100)
            process.send_signal(signal.SIGINT)
            rest = process.stdout.read().decode()
            assert process.wait(timeout=60.0) == 0
            assert "nothing of it is kept" in rest
        finally:
            process.kill()
