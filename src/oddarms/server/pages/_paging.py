"""Long lists in pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True)
class Page:
    """Some rows of a long list: page `number` of `last`, the rows from `first` to `end`."""

    rows: list[Any]
    number: int
    last: int
    total: int
    first: int

    @property
    def end(self) -> int:
        """The number of the last row."""
        return self.first + len(self.rows) - 1

    @classmethod
    def of(
        cls, items: Sequence[Item] | Any, number: int, size: int, row: Callable[[Any], Any]
    ) -> Page:
        """Return a page; one beyond the end is the last.

        Examples
        --------
        >>> page = Page.of(range(120), 9, 50, str)
        >>> page.number, page.last, page.first, page.end, page.rows[-1]
        (3, 3, 101, 120, '119')
        """
        total = len(items)
        number = min(max(number, 1), max(-(-total // size), 1))
        start = (number - 1) * size
        return cls.part(
            [row(item) for item in _plain(items[start : start + size])], number, size, total
        )

    @classmethod
    def part(cls, rows: list[Any], number: int, size: int, total: int) -> Page:
        """Return a page whose rows are known."""
        last = max(-(-total // size), 1)
        return cls(rows, number, last, total, (number - 1) * size + 1 if total else 0)


def _plain(items: Any) -> Any:
    return items.tolist() if hasattr(items, "tolist") else items


def whole(text: str | None, otherwise: int, *, most: int = 1_000_000) -> int:
    """Return a positive whole number of an address, or what is usual."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 9:
        return otherwise
    return min(max(int(text), 1), most)
