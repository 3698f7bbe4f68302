"""Imports that are too large for one request: sent in parts, and still known by one key.

All parts of an import tell the digest of the whole, so that other rewards under the same key are
refused from the first part on, and how many rewards come before them, so that none is recorded
twice, wherever it was divided.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from oddarms.problem import Label

PART_SIZE = 12 * 2**20
"""Of a part, as `_size` has it: a server takes some more."""
MARK = 7
"""What a comma or bracket counts beside its byte: a server takes so many values only."""

Rewards = list[tuple[Label, list[float]]]
"""Pairs of label and rewards."""


@dataclass(frozen=True)
class Part:
    """What is known of the import that some rewards are a part of.

    Attributes
    ----------
    start
        How many of its rewards come before these; it has them by arm, in the order of the study.
    digest
        That of all its rewards, as `import_digest` makes it.
    """

    start: int
    digest: str


def part_key(key: str, part: Part) -> str:
    """Return what a part is stored under."""
    return f"{parts_begin(key)}{part.digest[:24]}/{part.start}"


def digest_in(stored: str) -> str:
    """Return the beginning of the whole's digest, of a key that `part_key` has made."""
    return stored.split("/")[1]


def parts_begin(key: str) -> str:
    """Return what the stored keys of all parts of an import begin with."""
    return f"part:{hashlib.sha256(key.encode()).hexdigest()[:20]}/"


def older_key(key: str) -> str:
    """Return what the first part was stored under before parts told of the whole."""
    return hashlib.sha256(f"0:{key}".encode()).hexdigest()[:40]


def in_parts(rewards: Mapping[Label, list[float]]) -> Iterator[Rewards]:
    """Yield pairs of label and rewards, in parts that a server takes."""
    part: Rewards = []
    room = PART_SIZE
    for label, given in rewards.items():
        start, named = 0, _size(json.dumps([label, []]) + ", ")
        while start < len(given):
            fitting = (room - named) // _REWARD
            if fitting <= 0 and part:
                yield part
                part, room = [], PART_SIZE
                continue
            piece = given[start : start + max(fitting, 1)]
            part.append((label, piece))
            start, room = start + len(piece), room - named - len(piece) * _REWARD
    if part:
        yield part


def _size(text: str) -> int:
    """Return what a text of JSON counts."""
    return len(text) + MARK * sum(map(text.count, ",[{"))


_REWARD = 24 + _size(", ")  # of the longest number there is
