"""Arms for the paper's experiments, from a file in any of the layouts that crowds come in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from oddarms.errors import InvalidParameter
from oddarms.problem import FloatArray, brief
from oddarms.tables._files import STDIN, Source, name_of, opened_table, opened_text
from oddarms.tables._reading import read_rewards

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
    name = name_of(path)
    layout = _layout_of(path)
    if layout is None:
        return _judged(path, *_square(Path(path), gold))
    if gold is not None:
        raise InvalidParameter(f"Leave gold out: {name} is a table with a header.")
    if len(layout) == 3:
        return _judged(path, _responses(path, layout), ",".join(layout), "its gold column")
    records = read_rewards(path, reward=layout[1]).by_label()
    if layout[1] == "reward":
        return _recorded(path, records, 0, "arm,reward")
    twice = next((label for label, means in records.items() if means.size > 1), None)
    if twice is not None:
        raise InvalidParameter(f"{name}: the arm {brief(twice)} has two means.")
    return replace(_recorded(path, records, 0, "arm,mean"), records=None)


def _recorded(
    path: Source, records: Mapping[Any, FloatArray], left_out: int, layout: str
) -> RecordedArms:
    if len(records) < 2:
        raise InvalidParameter(
            f"{name_of(path)} must have at least 2 arms but has only {brief(next(iter(records)))}."
        )
    means = np.array([rewards.mean() for rewards in records.values()])
    return RecordedArms(tuple(records), means, dict(records), left_out, Path(path).name, layout)


def _layout_of(path: Source) -> tuple[str, ...] | None:
    """Return the columns of a table with a header, or None for SQUARE's layout."""
    if str(path) == STDIN:
        raise InvalidParameter("data must be a file, as it is read more than once.")
    with opened_text(path) as text:
        line = next((line for line in text if line.strip()), "")
    names = {name.strip(" \"'\r\n").casefold() for name in re.split("[,;\t|]", line)}
    for layout in _LAYOUTS:
        if names.issuperset(layout):
            return layout
    header = {name for layout in _LAYOUTS for name in layout}.intersection(line.casefold().split())
    if len(line.split()) < 3 or len(header) > 1:
        known = " or ".join(",".join(layout) for layout in _LAYOUTS)
        raise InvalidParameter(
            f"{path} must have a header with the columns {known}, or lines 'worker item label', but"
            f" begins with {brief(line.strip())}."
        )
    return None


def _judged(path: Source, responses: tuple[list[str], ...], layout: str, gold: str) -> RecordedArms:
    """Return workers with a reward of 1 for each response that differs from the gold label."""
    records: dict[str, list[float]] = {}
    for worker, label, known in zip(*responses, strict=True):
        if known:
            records.setdefault(worker, []).append(float(_same(label) != _same(known)))
    rows, used = len(responses[0]), sum(map(len, records.values()))
    if not used:
        raise InvalidParameter(
            f"{path} must have responses with a gold label but {gold} has one for none of the"
            f" {rows:,}."
        )
    arrays = {worker: np.array(rewards) for worker, rewards in records.items()}
    return _recorded(path, arrays, rows - used, layout)


@lru_cache(maxsize=4096)
def _same(label: str) -> str | float:
    """Return a key that is equal for equal labels: 1 and 1.0, or equal texts."""
    return float(label) if re.fullmatch(r"[+-]?[0-9]{1,15}(\.[0-9]{0,15})?", label) else label


def _responses(path: Source, columns: Sequence[str]) -> tuple[list[str], ...]:
    """Return the columns of workers, labels and gold labels."""
    texts: tuple[list[str], ...] = ([], [], [])
    with opened_table(path, columns) as table:
        names = [name.casefold() for name in table.columns]
        for part in table.parts([names.index(column) for column in columns], []):
            for column, (codes, values) in zip(texts, part.labels, strict=True):
                stripped = [value.strip() for value in values]
                column.extend(stripped[code] for code in codes.tolist())
    return texts


def _square(path: Path, gold: Source | None) -> tuple[tuple[list[str], ...], str, str]:
    """Return the responses of SQUARE's layout, the columns, and the name of the gold file."""
    gold_file = _gold_file(path, gold)
    known: dict[str, str] = {}
    for item, label in zip(*_fields(gold_file, "item label"), strict=True):
        if _same(known.setdefault(item, label)) != _same(label):
            raise InvalidParameter(f"{gold_file}: the item {brief(item)} has two gold labels.")
    first, second, labels = _fields(path, "worker item label")
    in_first, in_second = (len(known.keys() & set(column)) for column in (first, second))
    by_name = in_second <= 2 * in_first and path.name.startswith(_ITEM_FIRST_NAMES)
    item_first = in_first > 2 * in_second or by_name
    items, workers = (first, second) if item_first else (second, first)
    layout = "item worker label" if item_first else "worker item label"
    return (workers, labels, [known.get(item, "") for item in items]), layout, str(gold_file)


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


def _fields(path: Path, form: str) -> list[list[str]]:
    """Return the columns of a file without a header, which are separated by tabs or blanks."""
    columns: list[list[str]] = [[] for _ in form.split()]
    with opened_text(path) as text:
        for number, line in enumerate(text, 1):
            fields = [field.strip() for field in line.split("\t")]
            fields = fields if len(fields) == len(columns) and all(fields) else line.split()
            if fields and len(fields) != len(columns):
                raise InvalidParameter(
                    f"{path}, line {number:,}: there must be {len(columns)} fields {form!r} but"
                    f" there are {len(fields)}."
                )
            for column, field in zip(columns, fields, strict=False):
                column.append(field)
    if not columns[0]:
        raise InvalidParameter(f"{path} must have rows but is empty.")
    return columns
