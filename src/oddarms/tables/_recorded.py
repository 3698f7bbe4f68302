"""Arms of which rewards or means were recorded, and the tally that collects them."""

from __future__ import annotations

import hashlib
import json
import math
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from oddarms.errors import InvalidParameter
from oddarms.problem import FloatArray
from oddarms.tables._lines import Lines
from oddarms.tables._values import Wrong, shown


@dataclass(frozen=True, eq=False)
class RecordedArms:
    """Arms whose rewards or means were read from a file.

    Attributes
    ----------
    labels
        The arms' names, in the order of first appearance.
    means
        The mean of each arm; where single rewards are known, their average.
    records
        Each arm's recorded rewards, or None where only the means are known.
    left_out
        The number of responses without a gold label, which are in no record.
    source
        The name of the file.
    layout
        The columns that were read, as "arm,reward" or "worker item label".
    sha256
        The SHA-256 of the file's bytes, which tells whether a file was read before.
    missing
        The number of rows without a reward: left out, or counted as the worst one.
    copies
        The number of rows that are in all columns like one before them, where there are more
        columns than those that were read.
    """

    labels: tuple[str, ...]
    means: FloatArray
    records: dict[str, FloatArray] | None
    left_out: int
    source: str
    layout: str = ""
    sha256: str = ""
    missing: int = 0
    copies: int = 0

    @property
    def binary(self) -> bool:
        """True if all rewards are 0 or 1; arms of which only means are known are simulated so."""
        if self.records is None:
            return True
        return all(np.isin(rewards, (0.0, 1.0)).all() for rewards in self.records.values())

    def digest(self) -> str:
        """Return a SHA-256 that tells apart data with other labels, means or rewards."""
        parts = {"means": self.means} if self.records is None else self.records
        sizes = [part.size for part in parts.values()]
        result = hashlib.sha256(
            json.dumps([self.records is None, self.labels, sizes]).encode("ascii")
        )
        for part in parts.values():
            result.update(part.astype("<f8").tobytes())
        return result.hexdigest()


@dataclass(frozen=True)
class Recording:
    """The rewards of a file, to be read once and in order.

    Attributes
    ----------
    rewards
        Pairs of arm and reward; None is one that is left out: that of a response without a gold
        label, or a missing one.
    wrong
        Makes the error for the pair that was read last.
    layout, gold
        The columns, and where gold labels come from, for messages.
    """

    rewards: Iterable[tuple[str, float | None]]
    wrong: Wrong
    layout: str
    gold: str = ""


class Texts:
    """A column of texts that repeat, each kept once, in the order of first appearance."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self.codes = array("q")

    def append(self, text: str) -> None:
        """Add a text."""
        self.codes.append(self.texts.setdefault(text, len(self.texts)))

    def mention(self, text: str) -> None:
        """Know a text that may be in no row."""
        self.texts.setdefault(text, len(self.texts))

    def __iter__(self) -> Iterator[str]:
        texts = list(self.texts)
        return (texts[code] for code in self.codes)


class Tally:
    """Collects rewards row by row; those of None are left out and counted."""

    def __init__(self) -> None:
        self._arms = Texts()
        self._rewards = array("d")
        self._left_out = 0

    def mention(self, arm: str) -> None:
        """Add an arm of which there may be no reward."""
        self._arms.mention(arm)

    def add(self, arm: str, reward: float | None) -> None:
        """Add a reward of an arm."""
        if reward is None:
            self._left_out += 1
        else:
            self._arms.append(arm)
            self._rewards.append(reward)

    def result(self, name: str, layout: str, gold: str = "", sha256: str = "") -> RecordedArms:
        """Return the arms, at least two."""
        if not self._rewards and self._left_out == 0:
            raise no_rows(name)
        if not self._rewards and not gold:
            raise InvalidParameter(
                f"{name} must have rewards but all {self._left_out:,} are missing."
            )
        if not self._rewards:
            raise InvalidParameter(
                f"{name} must have responses with a gold label but {gold} has one for none of"
                f" the {self._left_out}."
            )
        labels = tuple(self._arms.texts)
        check_several(name, labels)
        arms, rewards = np.array(self._arms.codes), np.array(self._rewards)
        ends = np.cumsum(np.bincount(arms, minlength=len(labels)))[:-1]
        parts = np.split(rewards[np.argsort(arms, kind="stable")], ends)
        # fsum rounds once, so that the order of rows does not matter.
        means = np.array(
            [math.fsum(part.tolist()) / part.size if part.size else math.nan for part in parts]
        )
        records = dict(zip(labels, parts, strict=True))
        return RecordedArms(labels, means, records, self._left_out, Path(name).name, layout, sha256)


def tallied(lines: Lines, recording: Recording) -> RecordedArms:
    """Return the arms of a recording."""
    tally = Tally()
    for arm, reward in recording.rewards:
        if not recording.gold:
            tally.mention(arm.strip())  # one whose rewards are all missing is an arm, too
        tally.add(arm.strip(), reward)
    return tally.result(lines.name, recording.layout, recording.gold, lines.sha256)


def no_rows(name: str) -> InvalidParameter:
    """Return the error of a file with a header alone."""
    return InvalidParameter(f"{name} must have rows but has only a header.")


def check_several(name: str, labels: tuple[str, ...]) -> None:
    """Refuse a file with a single arm."""
    if len(labels) < 2:
        raise InvalidParameter(f"{name} must have at least 2 arms but has only {shown(labels[0])}.")
