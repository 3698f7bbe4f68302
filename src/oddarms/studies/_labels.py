"""The arms' labels in a storage, read as they are needed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from oddarms.errors import InvalidParameter, StoreFailed
from oddarms.problem import Label, check_plain_label
from oddarms.studies import _study_rows as study_rows

if TYPE_CHECKING:
    import sqlalchemy as sa

    from oddarms.studies._database import Database

FEW = 50_000
"""Up to here all labels are read at once and kept."""


def encoded(label: Label) -> str:
    """Return a label as it is stored: JSON in ASCII, which holds any text and tells 1 from "1"."""
    return json.dumps(check_plain_label(label))


def decoded(text: str) -> Label:
    """Return the label that `encoded` was called on."""
    try:
        label: Label = json.loads(text)
    except (RecursionError, TypeError, ValueError):
        raise StoreFailed(f"the storage is damaged: it has a label {text!r:.50}.") from None
    return label


def decoded_all(texts: Sequence[str]) -> tuple[Label, ...]:
    """Return many labels, as one text of JSON: several times as fast.

    Examples
    --------
    >>> decoded_all([encoded("a, b"), encoded(3)])
    ('a, b', 3)
    """
    try:
        labels = json.loads(f"[{','.join(texts)}]")
    except (RecursionError, TypeError, ValueError):
        labels = []
    if len(labels) != len(texts):  # one of them is damaged; say which
        return tuple(map(decoded, texts))
    return tuple(labels)


def label_key(text: str) -> str:
    """Return a short digest of an encoded label; an index cannot hold labels of any length."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def arm_rows(study: int, labels: Iterable[Label]) -> list[tuple[int, int, str, str]]:
    """Return the rows of the table of arms for a new study."""
    texts = [encoded(label) for label in labels]
    return [(study, number, text, label_key(text)) for number, text in enumerate(texts)]


class Labels:
    """The labels of one study."""

    def __init__(self, database: Database, study: int, n: int) -> None:
        self._database = database
        self._study = study
        self._n = n
        self._all: tuple[Label, ...] | None = None

    def all(self, connection: sa.Connection | None = None) -> tuple[Label, ...]:
        """Return all labels."""
        if self._all is None:
            if connection is None:
                with self._database.reading() as own:
                    texts = study_rows.labels(own, self._study)
            else:
                texts = study_rows.labels(connection, self._study)
            if len(texts) != self._n:
                raise StoreFailed(
                    f"the storage is damaged: it has {len(texts)} of {self._n} labels."
                )
            self._all = decoded_all(texts)
        return self._all

    def of(self, arms: Sequence[int], connection: sa.Connection | None = None) -> list[Label]:
        """Return the labels of some arms."""
        some = len(arms) <= FEW < self._n
        if self._all is None and some and connection is not None:
            found = study_rows.labels_of(connection, self._study, sorted(set(arms)))
            return [decoded(found.get(arm, "")) for arm in arms]
        labels = self.all(connection)
        if arms and not 0 <= min(arms) <= max(arms) < self._n:
            raise StoreFailed(f"the storage is damaged: it names arms {min(arms)} to {max(arms)}.")
        return [labels[arm] for arm in arms]

    def numbers(self, labels: Sequence[Label], connection: sa.Connection) -> list[int]:
        """Return the arms of some labels."""
        numbers = []
        for label in labels:
            text = encoded(label)
            found = study_rows.arm_of(connection, self._study, text, label_key(text))
            if found is None:
                raise InvalidParameter(f"arm must be one of the study's but got {label!r}.")
            numbers.append(found)
        return numbers
