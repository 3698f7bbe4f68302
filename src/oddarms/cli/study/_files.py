"""What commands of ``oddarms study`` read: labels, results of tickets, histories."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import os
import re
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from oddarms.errors import InvalidParameter
from oddarms.problem import Label

STDIN = "-"
DELIMITERS = ",;\t"
TICKET, ARM, REWARD = ("ticket", "id"), ("arm",), ("reward",)
"""The names that a column may have."""

Bounds = tuple[float, float]
Columns = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class Content:
    """What a file or stdin has, and what to call it in messages."""

    name: str
    data: bytes

    @property
    def key(self) -> str:
        """The SHA-256 of the bytes."""
        return hashlib.sha256(self.data).hexdigest()

    @cached_property
    def text(self) -> str:
        """The text, unpacked if it is gzipped."""
        try:
            data = gzip.decompress(self.data) if self.data[:2] == b"\x1f\x8b" else self.data
            return data.decode("utf-8-sig")
        except (OSError, EOFError, zlib.error):
            raise InvalidParameter(f"{self.name} must be a whole gzip file but is not.") from None
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            raise self.wrong(line, "the file must be text in UTF-8 but is not") from None

    def wrong(self, line: int, rule: str) -> InvalidParameter:
        """Return the error for a line."""
        return InvalidParameter(f"{self.name}, line {line}: {rule}.")


def read(source: str) -> Content:
    """Return what a file has, or stdin for "-"."""
    if source == STDIN:
        return Content("stdin", sys.stdin.buffer.read())
    try:
        return Content(source, Path(source).read_bytes())
    except FileNotFoundError:
        raise InvalidParameter(f"{source} must be a file but does not exist.") from None
    except IsADirectoryError:
        raise InvalidParameter(f"{source} must be a file but is a directory.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidParameter(f"{source!r} must be readable but is not: {reason}.") from None


def read_labels(arms: str) -> list[str]:
    """Return labels: one per line of a file or stdin, or those of a list with commas."""
    if arms != STDIN and not os.path.exists(arms):
        labels = arms.split(",")
        if len(labels) == 1:
            raise InvalidParameter(
                "arms must be a file with a label per line, - for stdin, or labels with commas"
                f" between, but there is no file {arms!r}."
            )
    else:
        labels = re.split(r"\r?\n", read(arms).text)
    return [label.strip() for label in labels if label.strip()]


def read_results(source: str, bounds: Bounds) -> list[tuple[int, float]]:
    """Return pairs of ticket and reward.

    Lines ``ticket reward``, a table with a header that has ``ticket`` (or ``id``) and ``reward``,
    or a JSON object with these keys per line.
    """
    content = read(source)
    pairs = _pairs(content, (TICKET, REWARD))
    if pairs is None:
        lines = enumerate(content.text.splitlines(), start=1)
        filled = ((number, line.strip()) for number, line in lines if line.strip())
        pairs = (
            (number, *(_object if line.startswith("{") else _words)(content, number, line))
            for number, line in filled
        )
    results = []
    for line, ticket, reward in pairs:
        try:
            results.append((ticket_of(ticket), reward_of(reward, bounds)))
        except InvalidParameter as error:
            raise content.wrong(line, str(error).rstrip(".")) from None
    return results


def read_history(
    content: Content, bounds: Bounds, labels: Sequence[Label]
) -> dict[Label, list[float]]:
    """Return the rewards of each arm in a file, which `oddarms.experiments.read_arms` may know.

    Raises
    ------
    InvalidParameter
        If it names an arm that is not among the labels, or has a reward outside the bounds.
    """
    known: dict[str, Label] = {str(label): label for label in labels}
    known.update({label: label for label in labels if isinstance(label, str)})
    pairs = _pairs(content, (ARM, REWARD))
    if pairs is None:
        return _known_history(content, _recorded(content), bounds, known)
    history: dict[Label, list[float]] = {}
    for line, arm, text in pairs:
        label = known.get(arm, known.get(arm.strip()))
        if label is None:
            raise content.wrong(line, f"{arm.strip()!r} must be an arm of the study but is not")
        try:
            history.setdefault(label, []).append(reward_of(text, bounds))
        except InvalidParameter as error:
            raise content.wrong(line, str(error).rstrip(".")) from None
    return history


def ticket_of(text: str) -> int:
    """Return the number of a ticket."""
    if not re.fullmatch("[0-9]{1,18}", text.strip()):
        raise InvalidParameter(f"ticket must be the number of a ticket but got {text!r}.")
    return int(text)


def reward_of(text: str, bounds: Bounds) -> float:
    """Return a reward within the bounds."""
    a, b = bounds
    try:
        reward = None if "_" in text else float(text)  # Python would read 1_0 as 10
    except ValueError:
        reward = None
    if reward is None:
        raise InvalidParameter(f"reward must be a number but got {text!r}.")
    if not a <= reward <= b:
        raise InvalidParameter(
            f"reward must lie within the study's bounds [{a:g}, {b:g}] but got {text.strip()}."
        )
    return reward


def _pairs(content: Content, columns: Columns) -> Iterator[tuple[int, str, str]] | None:
    """Return line, first and second column of each row, or None if no header names them."""
    text = content.text
    first = next((line for line in text.splitlines() if line.strip()), "")
    for delimiter in DELIMITERS:
        names = [name.strip().casefold() for name in next(csv.reader([first], delimiter=delimiter))]
        places = [
            next((names.index(name) for name in column if name in names), -1) for column in columns
        ]
        if min(places) >= 0:
            return _rows(content, text, delimiter, len(names), places)
    return None


def _rows(
    content: Content, text: str, delimiter: str, fields: int, places: list[int]
) -> Iterator[tuple[int, str, str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    seen_header = False
    try:
        for row in reader:
            if not "".join(row).strip():
                continue
            if len(row) != fields:
                rule = f"there must be {fields} fields but there are {len(row)}"
                raise content.wrong(reader.line_num, rule)
            if seen_header:
                yield reader.line_num, row[places[0]], row[places[1]]
            seen_header = True
    except csv.Error as error:
        rule = f"the table must be well-formed but is not: {error}"
        raise content.wrong(reader.line_num, rule) from None


def _words(content: Content, number: int, line: str) -> tuple[str, str]:
    words = re.split(r"[\s,;]+", line)
    if len(words) != 2:
        rule = f"there must be a ticket and a reward but there is {line[:60]!r}"
        raise content.wrong(number, rule)
    return words[0], words[1]


def _object(content: Content, number: int, line: str) -> tuple[str, str]:
    try:
        found: dict[str, Any] = json.loads(line)
    except ValueError:
        raise content.wrong(number, "the line must be a JSON object but is not") from None
    values = [next((found[k] for k in keys if k in found), None) for keys in (TICKET, REWARD)]
    if None in values:
        rule = f"the object must have a ticket and a reward but is {line[:60]}"
        raise content.wrong(number, rule)
    ticket, reward = (str(int(v) if isinstance(v, bool) else v) for v in values)
    return ticket, reward


def _recorded(content: Content) -> dict[str, list[float]]:
    """Return the rewards of a file in another layout than arm,reward."""
    from oddarms.experiments import read_arms

    if content.name == "stdin":
        raise InvalidParameter("stdin must be a table with the columns arm and reward but is not.")
    recorded = read_arms(content.name)
    if recorded.records is None:
        raise InvalidParameter(
            f"{content.name} must have single rewards, a row each, but has the arms' means."
        )
    return {label: rewards.tolist() for label, rewards in recorded.records.items()}


def _known_history(
    content: Content,
    recorded: Mapping[str, Sequence[float]],
    bounds: Bounds,
    known: Mapping[str, Label],
) -> dict[Label, list[float]]:
    unknown = [label for label in recorded if label not in known]
    if unknown:
        more = f" and {len(unknown) - 1:,} others" if len(unknown) > 1 else ""
        raise InvalidParameter(
            f"{content.name} must have only arms of the study but has {unknown[0]!r}{more}."
        )
    a, b = bounds
    if not a <= 0.0 < 1.0 <= b:
        raise InvalidParameter(
            f"{content.name} has rewards of 0 and 1 but the study's bounds are [{a:g}, {b:g}]."
        )
    return {known[label]: list(rewards) for label, rewards in recorded.items()}
