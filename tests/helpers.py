"""What several test modules share."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from oddarms.problem import FloatArray
from oddarms.search import Ticket
from oddarms.statistics.directions import Tally, tally_seen
from oddarms.statistics.totals import Totals
from oddarms.theory import gaps

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
KERNELS = ROOT / ".pytest_cache" / "oddarms"
"""Where tests keep compiled code, unless the environment says otherwise."""

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "ade": ("ade", {}),
    "ade shared": ("ade", {"shared": True}),
    "rr": ("rr", {}),
    "rr batch 7": ("rr", {"batch": 7}),
    "wrr": ("wrr", {}),
    "wrr batch 7": ("wrr", {"batch": 7}),
    "wrr rho 1.7": ("wrr", {"rho": 1.7}),
}
"""The algorithms with the options that make them differ, by a name for test reports."""


def quick_and_long(quick: Iterable[Any], long: Iterable[Any]) -> list[Any]:
    """Return the parameters of a test, of which only the quick ones are in the default suite."""
    several = [one if isinstance(one, tuple) else (one,) for one in long]
    return [*quick, *(pytest.param(*values, marks=pytest.mark.long) for values in several)]


def uniform_means_with_gap(
    rng: np.random.Generator, n: int, k: float, low: float, high: float
) -> FloatArray:
    """Return n uniform means given that the smallest gap lies in [low, high], by rejection."""
    while True:
        means = rng.random(n)
        if low <= gaps(means, k).min() <= high:
            return means


KS = [0.0, 0.5, 2.0, 3.0]


def left_out(y: FloatArray, k: float) -> FloatArray:
    """Return theta_-i = mu_-i + k~ sigma_-i of every arm i, from its definition."""
    steep = k / math.sqrt(1.0 - (1.0 + k * k) / y.size)
    others = [np.delete(y, i) for i in range(y.size)]
    return np.array([other.mean() + steep * other.std() for other in others])


def totals_of(rewards: FloatArray) -> Totals:
    """Return the totals of (arms, pulls) rewards."""
    pulls = np.full(len(rewards), float(rewards.shape[1]))
    return Totals(pulls, rewards.sum(axis=1), (rewards**2).sum(axis=1))


def tally_of(rewards: FloatArray) -> Tally:
    """Return the tally of (arms, pulls) rewards."""
    return tally_seen(totals_of(rewards))


def ticket_number(ticket: Ticket | str) -> int:
    """Return the number of a ticket or its id: how many were handed out up to it."""
    text = ticket.id if isinstance(ticket, Ticket) else ticket
    return int(text.partition(".")[0])


BIN = Path(sys.executable).parent
COMMAND = str(BIN / "oddarms")


class Ran(NamedTuple):
    """What a command of ``oddarms`` did: its exit code, stdout and stderr."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The output as strict JSON."""

        def refuse(name: str) -> None:
            raise AssertionError(f"{name} is not JSON")

        return json.loads(self.out, parse_constant=refuse)

    @property
    def rows(self) -> list[dict[str, str]]:
        """The output as CSV."""
        return list(csv.DictReader(io.StringIO(self.out)))


Run = Callable[..., Ran]


def assert_refused(ran: Ran, code: int, *words: str) -> None:
    """Assert that a command said one sentence, last on stderr, and nothing on stdout."""
    assert ran.code == code, ran
    assert ran.out == ""
    last = ran.err.splitlines()[-1]
    assert re.fullmatch(r"error: .+\.", last), ran.err
    for word in words:
        assert word in last


BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def page_blocks(page: Path) -> Iterator[tuple[str, str]]:
    """Yield language and text of the blocks of a page that are run, of Python and the shell."""
    for language, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if "# not run here" not in block:
            yield language, block


@contextmanager
def nobody() -> Iterator[None]:
    """Have the rights of an ordinary user, also where the tests are run by root."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


class Html(HTMLParser):
    """A page whose tags are closed in order: its tags with their attributes, and its words."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "source", "br", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.words += data

    def all(self, *names: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag in names]
