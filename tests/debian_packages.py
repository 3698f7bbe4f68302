"""Programs that tests need and Debian has: installed where nobody minds, else skipped in words."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

INSTALL_SECONDS = 300.0
Found = TypeVar("Found")


def have(package: str, find: Callable[[], Found | None]) -> Found:
    """Return what ``find`` finds, if need be after installing the package, or skip."""
    found = find()
    if found is not None:
        return found
    with open(Path(tempfile.gettempdir(), "oddarms-debian.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may come here at once
        found = find()
        outcome = "" if found is not None else _install(package)
    found = find()
    if found is None:
        pytest.skip(f"{package} is not installed here: {outcome}")
    return found


def _install(package: str) -> str:
    """Install a package where nobody minds; return what came of it."""
    root = os.geteuid() == 0
    if not shutil.which("apt-get") or not (root or os.environ.get("CI") == "true"):
        return f"install it (on Debian, apt-get install {package})"
    apt_get = [*([] if root else ["sudo", "-n"]), "apt-get"]
    install = [*apt_get, "install", "-y", "--no-install-recommends", package]
    outcome = ""
    for command in (install, [*apt_get, "update"], install):  # lists may be missing, or old
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                timeout=INSTALL_SECONDS,
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"apt-get: {error}"
        outcome = f"apt-get: {(done.stderr or done.stdout).strip()[-200:]}"
        if command is install and done.returncode == 0:
            break
    return outcome
