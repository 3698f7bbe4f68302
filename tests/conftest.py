"""Fixtures that any test module may use."""

import io
import os
import signal
from pathlib import Path

import pytest

from helpers import ROOT, Ran, Run
from postgresql import postgresql, postgresql_url

__all__ = ["postgresql", "postgresql_url"]

pytest_plugins = ["pytester"]

os.environ.setdefault("ODDARMS_CACHE", str(ROOT / ".pytest_cache" / "oddarms"))


SIGTERM = signal.getsignal(signal.SIGTERM)


@pytest.fixture(autouse=True)
def signals_as_they_were() -> None:
    """Ray leaves a handler that ends the program."""
    if signal.getsignal(signal.SIGTERM) is not SIGTERM:
        signal.signal(signal.SIGTERM, SIGTERM)


@pytest.fixture
def run_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Runs ``oddarms`` in this process, in an empty directory, for 80 columns."""
    from oddarms.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*words: object, stdin: str | bytes = b"") -> Ran:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        code = main(list(map(str, words)))
        return Ran(code, *capsys.readouterr())

    return run
