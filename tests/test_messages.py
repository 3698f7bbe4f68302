"""Every message of an error follows the pattern that CONTRIBUTING lists, as far as code can."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from helpers import ROOT
from messages import Message, messages_of

ABOUT_A_VALUE = {
    "DuplicateAlgorithm",
    "DuplicateStudy",
    "InvalidParameter",
    "RewardRejected",
    "UnknownAlgorithm",
    "UnknownOption",
    "UnknownStudy",
    "UsageError",
}
ONLY_SLOTS = re.compile(r"((arm |--oddarms: )?\{\}|[:,. ]|line |interrupted: )+")
"""Messages put together of others, which are held against the pattern where they are written."""
RULES = {
    "begins with the parameter or the place": lambda text: re.match(
        r"\{\}|--|[a-z`]|[A-Z]+ ", text
    ),
    "is one line": lambda text: "\n" not in text,
    "ends with one period": lambda text: re.search(r"(^|[^.])\.$|\{\}$", text),
    "is one sentence": lambda text: not re.search(r"[\w)}\]'\"`]\. [A-Z{]", text),
    "has a remedy behind a colon": lambda text: not re.match(r"[^:]*;", text),
}
MUST_BUT = re.compile(r" must .+ but .+")


@pytest.fixture(scope="module")
def messages() -> list[Message]:
    """Those of the package, which take seconds to read."""
    return messages_of(ROOT / "src" / "oddarms")


def faults(message: Message) -> list[str]:
    """Return which parts of the pattern a message does not have."""
    if not message.text or ONLY_SLOTS.fullmatch(message.text):
        return []
    found = [name for name, holds in RULES.items() if not holds(message.text)]
    if message.kind in ABOUT_A_VALUE and not MUST_BUT.search(message.text):
        found.append("has the rule and what was got: '... must ... but got ...'")
    return found


def test_there_are_messages(messages: list[Message]) -> None:
    assert len(messages) > 300
    assert {message.kind for message in messages} >= ABOUT_A_VALUE | {"StoreFailed", "PullFailed"}


def test_every_message(messages: list[Message]) -> None:
    wrong = {str(message): faults(message) for message in messages if faults(message)}
    assert wrong == {}


@pytest.mark.parametrize(
    ("kind", "text", "fault"),
    [
        ("InvalidParameter", "k must be positive.", "has the rule"),
        ("InvalidParameter", "k must be positive but got 0", "ends with"),
        ("InvalidParameter", "The k must be positive but got 0.", "begins with"),
        ("InvalidParameter", "k must be positive but got 0. Give 1.", "is one sentence"),
        ("InvalidParameter", "k must be positive but got 0; give 1.", "has a remedy"),
        ("StoreFailed", "{}: the disk is full:\nmake room.", "is one line"),
    ],
)
def test_faults_are_found(kind: str, text: str, fault: str) -> None:
    (found,) = faults(Message(Path("file.py"), 1, kind, text))
    assert found.startswith(fault)


def test_messages_are_found_in_code(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(
        "NAME = 'k'\n"
        "def check(k, lines):\n"
        "    said = f'{NAME} must be {k:d}' + (' now' if k else ' then')\n"
        "    raise errors.InvalidParameter(said, 3) from None\n"
        "def read(lines):\n"
        "    raise lines.wrong(f'a row must be short but has {len(lines)}')\n"
    )
    assert [(found.line, found.kind, found.text) for found in messages_of(tmp_path)] == [
        (4, "InvalidParameter", "k must be {} now"),
        (4, "InvalidParameter", "k must be {} then"),
        (6, "InvalidParameter", "{}: a row must be short but has {}."),
    ]
