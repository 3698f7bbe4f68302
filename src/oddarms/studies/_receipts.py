"""Traces that every result leaves beside itself, by which `verify` finds what was changed later.

- A *receipt* stands with each ticket: of its arm and place from the beginning and, written in the
  same transaction as the result, of its reward. A result that is gone, or has another reward, arm
  or place, no longer agrees with it.
- A *digest* of all its rewards stands with each import, and the number of imports with the study.
- An *origin*, a hash of question, seed, secret and labels, stands with the study.
- A *chain* over all results and revisions in their order stands with each saved state and each
  revision: each link is a hash of the one before and of one result or revision, so that the last
  link vouches for the whole log up to there, order included. It depends on the log alone, and may
  be written down elsewhere and compared. The number of revisions stands with the study.

They find damage and edits by hand. Who can write to the database and knows this file can make them
anew; only a chain that was written down elsewhere finds that. The formats are part of the schema.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable

from oddarms.studies._log import ResultRow

GENESIS = bytes(32)
"""The chain of an empty log."""


def order_receipt(ticket: int, arm: int, place: int) -> int:
    """Return the receipt of a ticket without a result: 63 bits of a hash."""
    return _bits(struct.pack(">qqq", ticket, arm, place))


def result_receipt(ticket: int, reward: float) -> int:
    """Return what a result adds to the receipt of its ticket, by an exclusive or."""
    return _bits(struct.pack(">qd", ticket, reward + 0.0))  # no -0


def whole_receipt(ticket: int, arm: int, place: int, reward: float | None) -> int:
    """Return the receipt that a ticket must have; the reward is None if there is no result."""
    ordered = order_receipt(ticket, arm, place)
    return ordered if reward is None else ordered ^ result_receipt(ticket, reward)


def _bits(packed: bytes) -> int:
    return int.from_bytes(hashlib.sha256(packed).digest()[:8], "big") >> 1


def origin(question: str, seed: int, secret: bytes, labels: Iterable[str]) -> str:
    """Return a hash of what a study was created with, the labels as they are stored."""
    digest = hashlib.sha256(f"{len(question)} {question} {seed} {secret.hex()}".encode())
    for label in labels:
        digest.update(f" {len(label)} {label}".encode())
    return digest.hexdigest()


def import_digest(rows: Iterable[tuple[int, float]]) -> str:
    """Return a hash of an import's rewards, by arm and in each arm's order."""
    digest = hashlib.sha256()
    for arm, reward in sorted(rows, key=lambda row: row[0]):
        digest.update(struct.pack(">qd", arm, reward + 0.0))
    return digest.hexdigest()


def chained(link: bytes, rows: Iterable[ResultRow]) -> bytes:
    """Return the chain after some more results."""
    for row in rows:
        numbers = (row.ticket, row.place, row.batch)
        ticket, place, batch = (-1 if number is None else number for number in numbers)
        packed = struct.pack(">qqqqdq", row.number, ticket, row.arm, place, row.reward + 0.0, batch)
        link = hashlib.sha256(link + packed).digest()
    return link


def revised(link: bytes, number: int, position: int, question: str) -> bytes:
    """Return the chain after a revision; what is hashed is longer than any result."""
    packed = struct.pack(">qq", number, position)
    return hashlib.sha256(link + b"revision" + packed + question.encode()).digest()
