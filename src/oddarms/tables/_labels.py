"""The labels of arms."""

from __future__ import annotations

import os

from oddarms.errors import InvalidParameter
from oddarms.tables._columns import columns_in, first_column, header_of, listed, rows
from oddarms.tables._lines import STDIN, Source, opened
from oddarms.tables._values import shown


def read_labels(arms: str) -> list[str]:
    """Return labels: one per line of a file or stdin, or those of a list with commas.

    Examples
    --------
    >>> read_labels("ann, bob")
    ['ann', 'bob']
    """
    if arms == STDIN or os.path.exists(arms):
        with opened(arms) as lines:
            labels_in = dict[str, None]()
            for label in filter(None, map(str.strip, lines)):
                if label in labels_in:
                    raise lines.wrong(f"labels must be unique but {shown(label)} appears twice")
                labels_in[label] = None
            return list(labels_in)
    labels = arms.split(",")
    if len(labels) == 1:
        raise InvalidParameter(
            "arms must be a file with a label per line, - for stdin, or labels with commas"
            f" between, but there is no file {shown(arms)}."
        )
    return [label.strip() for label in labels if label.strip()]


def read_labels_of(path: Source, column: str | None = None) -> list[str]:
    """Return the labels in a column of a CSV file with a header, each once, in their order.

    Parameters
    ----------
    path
        A CSV, also ;- or tab-separated, plain or gzipped.
    column
        Its name; the first column by default.
    """
    with opened(path) as lines:
        lines.check_not_empty()
        name = column or first_column(lines)
        header = header_of(lines, [(name,), (name,)])
        if header is None:
            known = listed(columns_in(lines.first()))
            raise lines.wrong(f"there must be a column {shown(name)} but there are {known}")
        found = dict.fromkeys(label.strip() for label, _ in rows(lines, header, filled=1))
    if not found:
        raise InvalidParameter(f"{path} must have rows below its header but has none.")
    return list(found)
