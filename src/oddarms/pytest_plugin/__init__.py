"""The pytest plugin: ``pytest --oddarms`` finds flaky tests (docs/how-to/pytest.md).

pytest imports this module in every run where oddarms is installed. So it has the options and
imports only what a run without ``--oddarms`` needs.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oddarms import errors

try:
    import pytest
except ModuleNotFoundError:
    raise errors.MissingExtra.of("pytest", "the pytest plugin") from None

from oddarms.text import DURATIONS, parse_duration

__all__ = [
    "Option",
    "Settings",
    "pytest_addoption",
    "pytest_configure",
    "read_settings",
]

FAIL_ON = ("flaky", "abnormal", "broken", "undecided", "none")
DEFAULT_SECONDS = 600.0


@dataclass(frozen=True)
class Option:
    """An option with a value: ``--oddarms-NAME`` or ``oddarms_NAME`` in the ini file."""

    name: str
    metavar: str
    help: str
    kind: str = "text"

    @property
    def flag(self) -> str:
        """The option on the command line."""
        return f"--oddarms-{self.name}"

    @property
    def ini(self) -> str:
        """The name in the ini file, and of the value among pytest's options."""
        return f"oddarms_{self.name.replace('-', '_')}"


OPTIONS = (
    Option("rate", "RATE", "Find every test that fails in this share of its runs (0.05).", "rate"),
    Option("delta", "P", "Permitted probability of a wrong answer (0.05).", "rate"),
    Option(
        "precision",
        "SHARE",
        "Rerun flaky tests until half their interval is this share of the failure rate (0.2).",
        "rate",
    ),
    Option(
        "time",
        "TIME",
        "Start no run after this time, such as 90s, 10m or 1h; none for no limit (10m).",
        "duration",
    ),
    Option("budget", "N", "Make at most N runs.", "count"),
    Option(
        "fail-on",
        "KINDS",
        "Exit with code 1 if a test is one of: flaky, abnormal, broken, undecided; or none"
        " (flaky,broken).",
        "kinds",
    ),
    Option("out", "DIR", "Write report.html, flaky.json and junit.xml into this folder."),
    Option("summary", "FILE", "Append the answer to this file as Markdown."),
    Option(
        "quarantine",
        "FILE",
        "Write the flaky tests into this file, for `pytest @FILE`; JSON if it ends with .json.",
    ),
    Option("storage", "URL", "Store all runs in this file or database, and count those in it."),
    Option(
        "version",
        "NAME",
        "Version of the code; runs of other versions do not count (the commit).",
    ),
    Option("seed", "N", "Seed of the order of runs, random, numpy.random and Hypothesis.", "seed"),
    Option("jobs", "N", "Parallel processes with --oddarms-isolate (1).", "count"),
    Option(
        "k",
        "K",
        "Ask which tests are abnormally flaky: K standard deviations above the mean of all.",
        "number",
    ),
)
ISOLATE = "Make every run in a fresh process, forked after the collection."


@dataclass(frozen=True)
class Settings:
    """The options of a session, checked; `OPTIONS` describes them."""

    rate: float = 0.05
    delta: float = 0.05
    precision: float = 0.2
    k: float | None = None
    """Of the question which tests are abnormally flaky; None where that is not asked."""
    seconds: float | None = DEFAULT_SECONDS
    budget: int | None = None
    fail_on: tuple[str, ...] = ("flaky", "broken")
    out: Path | None = None
    summary: Path | None = None
    quarantine: Path | None = None
    storage: str | None = None
    version: str = ""
    isolate: bool = False
    jobs: int = 1
    seed: int | None = None

    @property
    def can_isolate(self) -> bool:
        """Whether single runs can be made in processes of their own."""
        return hasattr(os, "fork") and not self.isolate


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, and the same for the ini file."""
    group = parser.getgroup("oddarms", "which tests are flaky? (oddarms)")
    group.addoption(
        "--oddarms",
        action="store_true",
        help="Rerun the collected tests, and report which of them are flaky.",
    )
    for option in OPTIONS:
        group.addoption(option.flag, dest=option.ini, metavar=option.metavar, help=option.help)
        parser.addini(option.ini, f"As {option.flag}.", default=None)
    group.addoption("--oddarms-isolate", action="store_true", default=None, help=ISOLATE)
    parser.addini("oddarms_isolate", "As --oddarms-isolate.", type="bool", default=False)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Take over the run where ``--oddarms`` is given; refuse its other options where it is not."""
    if config.getoption("oddarms"):
        from oddarms.pytest_plugin._hunt import take_over

        take_over(config)
    else:
        _refuse_options_alone(config)


def read_settings(config: pytest.Config) -> Settings:
    """Return the options, from the command line or else from the ini file."""
    values = {option.name.replace("-", "_"): _value(config, option) for option in OPTIONS}
    given = {name: value for name, value in values.items() if value is not None}
    if "k" in given:
        given.setdefault("fail_on", ("abnormal", "broken"))
    for name in ("out", "summary", "quarantine"):
        if name in given:
            given[name] = config.invocation_params.dir / given[name]
    if "time" in given:
        seconds = given.pop("time")
        given["seconds"] = None if seconds == math.inf else seconds
    isolate = config.getoption("oddarms_isolate")
    given["isolate"] = bool(config.getini("oddarms_isolate") if isolate is None else isolate)
    return Settings(**given)


def _refuse_options_alone(config: pytest.Config) -> None:
    given = [option.flag for option in OPTIONS if config.getoption(option.ini) is not None]
    given += ["--oddarms-isolate"] if config.getoption("oddarms_isolate") else []
    if given:
        raise pytest.UsageError(
            f"{given[0]} requires --oddarms. To set it for all such runs, put"
            f" {given[0][2:].replace('-', '_')} into the ini file."
        )


def _value(config: pytest.Config, option: Option) -> Any:
    text = config.getoption(option.ini)
    where = option.flag
    if text is None:
        text, where = config.getini(option.ini), option.ini
    if text is None or text == "":
        return None
    rule, read, is_permitted = _KINDS[option.kind]
    with suppress(ValueError):
        value = read(str(text))
        if is_permitted(value):
            return value
    raise pytest.UsageError(f"{where} must be {rule} but got {str(text)!r}.")


def _seconds(text: str) -> float:
    return math.inf if text == "none" else parse_duration(text)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(","))


_KINDS: dict[str, tuple[str, Callable[[str], Any], Callable[[Any], bool]]] = {
    "number": ("a number of at least 0", float, lambda number: 0.0 <= number < math.inf),
    "rate": ("a number between 0 and 1", float, lambda number: 0.0 < number < 1.0),
    "duration": (f"{DURATIONS}, or none,", _seconds, lambda seconds: seconds >= 0.0),
    "kinds": (
        f"one or more of {', '.join(FAIL_ON)}, such as flaky,broken,",
        _words,
        set(FAIL_ON).issuperset,
    ),
    "count": ("a whole number of at least 1", int, lambda number: number >= 1),
    "seed": ("a whole number of at least 0", int, lambda number: number >= 0),
    "text": ("a text", str, bool),
}
"""What a value must be, what reads it, and whether a value that was read is permitted."""
