"""Arms for the paper's experiments, from a file in any of the layouts that crowds come in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from oddarms.errors import InvalidParameter
from oddarms.problem import FloatArray
from oddarms.tables._files import STDIN, Source, name_of, opened_table, opened_text
from oddarms.tables._reading import read_rewards
from oddarms.tables._values import shown

_GOLD_NAMES = ("responses_gt.txt", "gold.txt", "ground_truth.txt", "groundTruth.txt")
_ITEM_FIRST_NAMES = ("responses_eval", "responses_nFold")
_LAYOUTS = (("arm", "reward"), ("arm", "mean"), ("worker", "label", "gold"))


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
    """

    labels: tuple[str, ...]
    means: FloatArray
    records: dict[str, FloatArray] | None
    left_out: int
    source: str
    layout: str = ""

    @property
    def binary(self) -> bool:
        """True if all rewards are 0 or 1; arms of which only means are known are simulated so."""
        if self.records is None:
            return True
        return all(np.isin(rewards, (0.0, 1.0)).all() for rewards in self.records.values())


def read_arms(path: Source, *, gold: Source | None = None) -> RecordedArms:
    """Return the arms that a file describes, in whichever of these layouts it has.

    - A table with a header, its columns separated by commas, semicolons or tabs: ``arm,reward``
      with a row per pull, ``arm,mean`` with a row per arm, or ``worker,label,gold`` with a row per
      response. Other columns are ignored.
    - The layout of the SQUARE benchmark: lines ``worker item label`` without a header, and a
      second file with lines ``item label``.

    A worker is an arm, and the reward of a response is 1 if its label differs from the gold one,
    as numbers where both are numbers and otherwise as text. Responses without a gold label are
    left out and counted.

    Parameters
    ----------
    path
        The file, plain or compressed with gzip, in UTF-8.
    gold
        The second file of SQUARE's layout; by default the first that exists beside `path` of its
        own name with ``_gt`` for ``_eval`` or ``gt_`` for ``responses_``, ``responses_gt.txt``,
        ``gold.txt``, ``ground_truth.txt`` and ``groundTruth.txt``.

    Notes
    -----
    SQUARE is given ``responses.txt`` with lines `worker item label` but itself writes
    ``responses_eval.txt`` and ``responses_nFold_*.txt`` with lines `item worker label`, all of
    them numbers. The column that has more than twice as many of the gold file's items is taken for
    the items; if neither has, the name of the file decides. `RecordedArms.layout` says what was
    read.
    """
    layout = _layout_of(path)
    if layout is not None and gold is not None:
        raise InvalidParameter(f"Leave gold out: {name_of(path)} is a table with a header.")
    if layout is None:
        responses, layout_name, source = _square(Path(path), gold)
        return _judged(path, responses, layout_name, source)
    name = ",".join(layout)
    if len(layout) == 3:
        return _judged(path, _responses(path, layout), name, "its gold column")
    found = read_rewards(path, arm="arm", reward=layout[1])
    records = {str(label): rewards for label, rewards in found.by_label().items()}
    if layout[1] == "reward":
        return _recorded(path, records, 0, name)
    for label, means in records.items():
        if means.size > 1:
            raise InvalidParameter(f"{name_of(path)}: the arm {shown(label)} has two means.")
    means = np.array([mean[0] for mean in records.values()])
    return _several(RecordedArms(tuple(records), means, None, 0, Path(path).name, name))


def _recorded(
    path: Source, records: dict[str, FloatArray], left_out: int, layout: str
) -> RecordedArms:
    means = np.array([rewards.mean() for rewards in records.values()])
    source = Path(path).name
    return _several(RecordedArms(tuple(records), means, records, left_out, source, layout))


def _several(arms: RecordedArms) -> RecordedArms:
    if len(arms.labels) < 2:
        raise InvalidParameter(
            f"{arms.source} must have at least 2 arms but has only {shown(arms.labels[0])}."
        )
    return arms


def _layout_of(path: Source) -> tuple[str, ...] | None:
    """Return the columns of a table with a header, or None for SQUARE's layout."""
    if str(path) == STDIN:
        raise InvalidParameter("data must be a file, as it is read more than once.")
    with opened_text(path) as text:
        line = next((line for line in text if line.strip()), "")
    if not line:
        raise InvalidParameter(f"{path} must have rows but is empty.")
    names = {name.strip(" \"'\r\n").casefold() for name in re.split("[,;\t|]", line)}
    for layout in _LAYOUTS:
        if names.issuperset(layout):
            return layout
    known = {name for layout in _LAYOUTS for name in layout}
    if _fields(line, 3) is None or len(known.intersection(line.casefold().split())) > 1:
        raise InvalidParameter(
            f"{path} must have a header with the columns"
            f" {' or '.join(','.join(layout) for layout in _LAYOUTS)}, or lines 'worker item"
            f" label', but begins with {shown(line.strip())}."
        )
    return None


# Responses


class _Responses(NamedTuple):
    """Workers, their labels and the gold ones, a text each; None where there is no gold label."""

    workers: Sequence[str]
    labels: Sequence[str]
    gold: Sequence[str | None]


def _judged(path: Source, responses: _Responses, layout: str, gold: str) -> RecordedArms:
    """Return workers with a reward of 1 for each response that differs from the gold label."""
    records: dict[str, list[float]] = {}
    for worker, label, known in zip(*responses, strict=True):
        if known:
            records.setdefault(worker, []).append(float(_same(label) != _same(known)))
    used = sum(map(len, records.values()))
    if not used:
        raise InvalidParameter(
            f"{path} must have responses with a gold label but {gold} has one for none of the"
            f" {len(responses.workers):,}."
        )
    arrays = {worker: np.array(rewards) for worker, rewards in records.items()}
    return _recorded(path, arrays, len(responses.workers) - used, layout)


@lru_cache(maxsize=4096)
def _same(label: str) -> str | Decimal:
    """Return what is equal for labels that are the same: 1 and 1.0, or equal texts."""
    try:
        number = Decimal(label) if len(label) <= 100 and "_" not in label else None
    except InvalidOperation:
        return label
    return number if number is not None and number.is_finite() else label


def _responses(path: Source, columns: Sequence[str]) -> _Responses:
    texts: list[list[str]] = [[], [], []]
    with opened_table(path, columns) as table:
        names = [name.casefold() for name in table.columns]
        for part in table.parts([names.index(column) for column in columns], []):
            for column, (codes, values) in zip(texts, part.labels, strict=True):
                stripped = [str(value).strip() for value in values]
                column.extend(stripped[code] for code in codes.tolist())
    return _Responses(*texts)


def _square(path: Path, gold: Source | None) -> tuple[_Responses, str, str]:
    """Return the responses of SQUARE's layout, which it is, and the name of the gold file."""
    gold_file = _gold_file(path, gold)
    known = _read_gold(gold_file)
    rows = _read_fields(path, "worker item label")
    first, second, labels = (list(column) for column in zip(*rows, strict=True))
    in_first, in_second = (len(known.keys() & set(column)) for column in (first, second))
    item_first = in_first > 2 * in_second or (
        in_second <= 2 * in_first and path.name.startswith(_ITEM_FIRST_NAMES)
    )
    items, workers = (first, second) if item_first else (second, first)
    layout = "item worker label" if item_first else "worker item label"
    return _Responses(workers, labels, [known.get(item) for item in items]), layout, str(gold_file)


def _gold_file(path: Path, gold: Source | None) -> Path:
    if gold is not None:
        return Path(gold)
    name = path.name.removesuffix(".gz")
    own = (name.replace("_eval", "_gt"), name.replace("responses_", "gt_", 1))
    names = [other for other in dict.fromkeys((*own, *_GOLD_NAMES)) if other != name]
    for other in names:
        for file in (path.with_name(other), path.with_name(f"{other}.gz")):
            if file.is_file():
                return file
    raise InvalidParameter(
        f"{path} must have a file with gold labels, 'item label' on each line, but none of"
        f" {', '.join(names)} is beside it: give gold (--gold FILE)."
    )


def _read_gold(path: Path) -> dict[str, str]:
    gold: dict[str, str] = {}
    for item, label in _read_fields(path, "item label"):
        known = gold.setdefault(item, label)
        if _same(known) != _same(label):
            raise InvalidParameter(
                f"{path}: the item {shown(item)} has two gold labels, {shown(known)} and"
                f" {shown(label)}."
            )
    return gold


def _read_fields(path: Path, form: str) -> list[list[str]]:
    """Return the fields of each line, as many as the form has."""
    found: list[list[str]] = []
    width = len(form.split())
    with opened_text(path) as text:
        for number, line in enumerate(text, 1):
            fields = _fields(line, width)
            if fields is None and line.strip():
                raise InvalidParameter(
                    f"{path}, line {number:,}: there must be {width} fields {form!r} but there are"
                    f" {len(line.split())}."
                )
            if fields is not None:
                found.append(fields)
    if not found:
        raise InvalidParameter(f"{path} must have rows but is empty.")
    return found


def _fields(line: str, width: int) -> list[str] | None:
    """Return the parts of a line, between tabs or else between spaces, if they are `width`."""
    between_tabs = [field.strip() for field in line.split("\t")]
    if len(between_tabs) == width and all(between_tabs):
        return between_tabs
    words = line.split()
    return words if len(words) == width else None
