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
            return [line.strip() for line in lines if line.strip()]
    labels = arms.split(",")
    if len(labels) == 1:
        raise InvalidParameter(
            "arms must be a file with a label per line, - for stdin, or labels with commas"
            f" between, but there is no file {shown(arms)}."
        )
    return [label.strip() for label in labels if label.strip()]
