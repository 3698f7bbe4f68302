"""Exit codes that say nothing about an arm: the tool itself did not do its work."""

from __future__ import annotations

import re
from collections.abc import Collection

from oddarms.errors import InvalidParameter

LARGEST_CODE = 255
NOT_STARTED = frozenset({126, 127})
"""What a shell, env, nice and such end with where a program cannot be run, or is not there."""
SIGNALS = frozenset(range(128 + 1, 128 + 32))
"""What a shell ends with where a program has died of a signal."""
PYTEST = frozenset({2, 3, 4, 5})
"""Interrupted or not importable, an error of pytest itself, wrong words, no such test."""
_PYTEST_NAMES = frozenset({"pytest", "py.test"})


def unstarted_codes(template: str) -> frozenset[int]:
    """Return the codes by which a command says that it could not even try.

    Examples
    --------
    >>> sorted(unstarted_codes("python -m pytest -q {arm}"))
    [2, 3, 4, 5, 126, 127]
    """
    names = {word.rpartition("/")[2] for word in re.split(r"[\s|&;<>()'\"]+", template)}
    return NOT_STARTED | PYTEST if names & _PYTEST_NAMES else NOT_STARTED


def checked_codes(codes: Collection[int]) -> frozenset[int]:
    """Return exit codes that a command may fail with, or raise."""
    for code in codes:
        if isinstance(code, bool) or not isinstance(code, int) or not 0 < code <= LARGEST_CODE:
            raise InvalidParameter(
                f"failure_codes must be numbers from 1 to {LARGEST_CODE} but got {code!r}."
            )
    return frozenset(codes)


def codes_of(text: str) -> frozenset[int]:
    """Return the exit codes of a text such as ``2-5,127``, or of ``none``.

    Examples
    --------
    >>> sorted(codes_of("2-4, 127")), sorted(codes_of("none"))
    ([2, 3, 4, 127], [])
    """
    if text.strip() == "none":
        return frozenset()
    codes: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d{1,3})\s*(?:-\s*(\d{1,3})\s*)?", part, re.ASCII)
        first, last = (0, 0) if found is None else (int(found[1]), int(found[2] or found[1]))
        if not 0 < first <= last <= LARGEST_CODE:
            raise InvalidParameter(
                f"--failure-codes must be numbers from 1 to {LARGEST_CODE} and ranges of them, such"
                f" as 2-5,126,127, or none, but got {text!r}."
            )
        codes.update(range(first, last + 1))
    return frozenset(codes)
