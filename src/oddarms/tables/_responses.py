"""Responses of a crowd, and the gold labels that tell which of them are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from pathlib import Path

from oddarms.errors import InvalidParameter
from oddarms.tables._columns import Header, rows
from oddarms.tables._lines import Lines, Source, opened
from oddarms.tables._recorded import Recording, Texts
from oddarms.tables._values import Bounds, shown

_GOLD_NAMES = ("responses_gt.txt", "gold.txt", "ground_truth.txt", "groundTruth.txt")
_LONGEST_NUMBER = 100
_ITEM_FIRST_NAMES = ("responses_eval", "responses_nFold")


def judged_responses_in(lines: Lines, header: Header, bounds: Bounds) -> Recording:
    """Return the recording of a table whose columns are a worker, its label and the gold one."""
    _check_errors_within(lines, bounds)

    def pairs() -> Iterator[tuple[str, float | None]]:
        for worker, label, gold in rows(lines, header):
            yield worker, _error(label, gold) if gold.strip() else None

    return Recording(pairs(), lines.wrong, ",".join(header.names), "its gold column")


def responses_in(lines: Lines, gold: Source | None, bounds: Bounds) -> Recording:
    """Return the recording of SQUARE's layout: responses here, gold labels in another file."""
    _check_errors_within(lines, bounds)
    gold_file = _gold_file(Path(lines.name), gold)
    gold_labels = _read_gold(gold_file)
    first, second, labels = Texts(), Texts(), Texts()
    for one, other, label in lines.fields("worker item label"):
        first.append(one)
        second.append(other)
        labels.append(label)
    item_first = _is_item_first(Path(lines.name).name, gold_labels, first, second)
    items, workers = (first, second) if item_first else (second, first)

    def pairs() -> Iterator[tuple[str, float | None]]:
        for worker, item, label in zip(workers, items, labels, strict=True):
            known = gold_labels.get(item)
            yield worker, None if known is None else _error(label, known)

    layout = "item worker label" if item_first else "worker item label"
    return Recording(pairs(), lines.wrong_somewhere, layout, str(gold_file))


def _check_errors_within(lines: Lines, bounds: Bounds) -> None:
    a, b = bounds
    if not a <= 0.0 < 1.0 <= b:
        raise InvalidParameter(
            f"{lines.name} must have rewards within [{a:g}, {b:g}] but those of responses are 0"
            " and 1."
        )


def _error(label: str, gold: str) -> float:
    return float(_same(label.strip()) != _same(gold.strip()))


def _same(label: str) -> str | Decimal:
    """Return what is the same for labels that are: 1 and 1.0 are, and so are equal texts."""
    return label if len(label) > _LONGEST_NUMBER else _number_or_text(label)


@lru_cache(maxsize=4096)
def _number_or_text(label: str) -> str | Decimal:
    try:
        number = Decimal(label)
    except InvalidOperation:
        return label
    return number if number.is_finite() and "_" not in label else label


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
        f" {', '.join(names)} is beside it: name it with --gold FILE (in Python, gold=)."
    )


def _read_gold(path: Path) -> dict[str, str]:
    gold: dict[str, str] = {}
    with opened(path) as lines:
        lines.check_not_empty()
        for item, label in lines.fields("item label"):
            known = gold.setdefault(item, label)
            if _same(known) != _same(label):
                raise lines.wrong(
                    f"an item must have one gold label but {shown(item)} has {shown(known)}"
                    f" and {shown(label)}"
                )
    return gold


def _is_item_first(name: str, gold: dict[str, str], first: Texts, second: Texts) -> bool:
    """Tell which column has the items; see the notes of `read_arms`."""
    in_first, in_second = (len(gold.keys() & column.texts.keys()) for column in (first, second))
    if in_first > 2 * in_second:
        return True
    return in_second <= 2 * in_first and name.startswith(_ITEM_FIRST_NAMES)
