"""The pytest plugin: ``pytest --oddarms`` finds flaky tests (docs/pytest.md).

pytest imports this module in every run of whoever has oddarms installed. So it has the options and
imports nothing else that a run without ``--oddarms`` does not need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oddarms import errors

try:
    import pytest
except ModuleNotFoundError:
    raise errors.MissingExtra.of("pytest", "the pytest plugin") from None

from oddarms.text import DURATIONS, seconds_of

__all__ = ["Settings", "pytest_addoption", "pytest_configure", "read_settings"]

RULES = ("sigma", "mad", "tukey", "absolute")
"""Those that need no further words."""


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
        return f"oddarms_{self.name}"


OPTIONS = (
    Option("k", "K", "Abnormal: K standard deviations above the mean of all tests (2).", "number"),
    Option("delta", "P", "Permitted probability of a wrong answer (0.05).", "number"),
    Option(
        "margin", "RATE", "Abnormal: also RATE above the average failure rate (0.05).", "number"
    ),
    Option(
        "floor",
        "RATE",
        "Which tests fail in more than RATE of their runs? With k, margin or rule: abnormal is also"
        " to fail at least so often.",
        "number",
    ),
    Option("rule", "RULE", f"What the threshold is made of: {', '.join(RULES)}.", "rule"),
    Option(
        "budget",
        "N",
        "At most N runs, beside the first of each test.",
        "count",
    ),
    Option("time", "TIME", "Begin no run of a test after so long: 90, 90s, 10m, 1h.", "duration"),
    Option("out", "DIR", "Write report.html, result.json, arms.csv and junit.xml there."),
    Option("summary", "FILE", "Append the answer to this file as Markdown."),
    Option("storage", "URL", "Keep every run in this file or database, and go on where it was."),
    Option("study", "NAME", "The first part of the search's name in the storage (pytest)."),
    Option("seed", "N", "Decides what is run, and random, numpy.random and Hypothesis.", "seed"),
    Option("jobs", "N", "Processes at a time, with --oddarms-isolate (1).", "count"),
)
ISOLATE = "Run every sample in a fresh process, forked after the collection."


@dataclass(frozen=True)
class Settings:
    """What was asked for.

    Attributes
    ----------
    words
        Of the question, as far as they were given.
    seconds
        For how long to begin runs, or None.
    out, summary
        Where to write the report, and where to append the answer as Markdown.
    storage, study
        Where to keep the runs, and the first part of the name there.
    isolate, jobs
        Whether every sample has its own process, and how many of them there are at a time.
    seed
        Decides all random choices; None for one that is drawn.
    """

    words: dict[str, Any]
    seconds: float | None
    out: Path | None
    summary: Path | None
    storage: str | None
    study: str
    isolate: bool
    jobs: int
    seed: int | None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, and the same for the ini file."""
    group = parser.getgroup("oddarms", "which tests are abnormally flaky? (oddarms)")
    group.addoption(
        "--oddarms",
        action="store_true",
        help="Run the collected tests until it is known which of them are abnormally flaky.",
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
        refuse_options_alone(config)


def read_settings(config: pytest.Config) -> Settings:
    """Return what was asked for, on the command line or else in the ini file."""
    values = {option.name: _value(config, option) for option in OPTIONS}
    words = {
        name: values[name]
        for name in ("k", "delta", "margin", "floor", "rule", "budget")
        if values[name] is not None
    }
    if "floor" in words and not words.keys() & {"k", "margin", "rule"}:
        words["rule"] = "absolute"
    isolate = config.getoption("oddarms_isolate")
    return Settings(
        words=words,
        seconds=values["time"],
        out=_path(config, values["out"]),
        summary=_path(config, values["summary"]),
        storage=values["storage"],
        study=values["study"] or "pytest",
        isolate=bool(config.getini("oddarms_isolate") if isolate is None else isolate),
        jobs=values["jobs"] or 1,
        seed=values["seed"],
    )


def refuse_options_alone(config: pytest.Config) -> None:
    """Raise if an option of the search is on the command line, and the search is not."""
    given = [option.flag for option in OPTIONS if config.getoption(option.ini) is not None]
    given += ["--oddarms-isolate"] if config.getoption("oddarms_isolate") else []
    if given:
        raise pytest.UsageError(
            f"{given[0]} must be given together with --oddarms, which runs the tests again and"
            " again, but got it alone: a setting for all such runs is"
            f" {given[0][2:].replace('-', '_')} in the ini file."
        )


def _path(config: pytest.Config, name: str | None) -> Path | None:
    return None if name is None else config.invocation_params.dir / name


def _value(config: pytest.Config, option: Option) -> Any:
    """Return the value of an option, or None where it was not given."""
    text = config.getoption(option.ini)
    where = option.flag
    if text is None:
        text, where = config.getini(option.ini), option.ini
    if text is None or text == "":
        return None
    rule, read = _KINDS[option.kind]
    try:
        return read(str(text))
    except ValueError:
        raise pytest.UsageError(f"{where} must be {rule} but got {str(text)!r}.") from None


def _number(text: str) -> float:
    number = float(text)
    if not 0.0 <= number < float("inf"):
        raise ValueError
    return number


def _at_least(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = int(text)
        if number < least:
            raise ValueError
        return number

    return read


def _rule(text: str) -> str:
    if text not in RULES:
        raise ValueError
    return text


_KINDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "number": ("a number of at least 0", _number),
    "duration": (DURATIONS, seconds_of),
    "count": ("a whole number of at least 1", _at_least(1)),
    "seed": ("a whole number of at least 0", _at_least(0)),
    "rule": (f"one of {', '.join(RULES)}", _rule),
    "text": ("a text", str),
}
