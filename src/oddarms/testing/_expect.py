"""Expected exceptions without a test framework."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

E = TypeVar("E", bound=BaseException)


class Caught(Generic[E]):
    """Holds the exception once it was raised."""

    error: E


@contextmanager
def raises(expected: type[E], *words: str) -> Iterator[Caught[E]]:
    """Fail unless the block raises `expected` with a message that contains every word.

    Examples
    --------
    >>> with raises(ZeroDivisionError, "division") as caught:
    ...     1 / 0
    >>> str(caught.error)
    'division by zero'
    """
    caught: Caught[E] = Caught()
    try:
        yield caught
    except expected as error:
        caught.error = error
        missing = [word for word in words if word not in str(error)]
        if missing:
            raise AssertionError(f"{missing} should be in the message {str(error)!r}.") from error
    else:
        raise AssertionError(f"{expected.__name__} should have been raised.")
