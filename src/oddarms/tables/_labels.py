"""The labels of arms."""

from __future__ import annotations

import os

from oddarms.errors import InvalidParameter
from oddarms.tables._lines import STDIN, opened
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
