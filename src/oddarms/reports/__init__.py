"""A result as one page to read, and as files to go on with.

The page is for somebody who has never heard of a bandit: it is self-contained, works offline and on
a phone, can be printed, and says in words what its pictures show.
"""

from oddarms.reports._files import arms_csv, result_json, write_results
from oddarms.reports._markdown import LeftOut, nothing_compared_markdown, result_markdown
from oddarms.reports._page import write_report

__all__ = [
    "LeftOut",
    "arms_csv",
    "nothing_compared_markdown",
    "result_json",
    "result_markdown",
    "write_report",
    "write_results",
]
